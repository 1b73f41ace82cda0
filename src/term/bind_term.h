/* The module "fopo.term" for Lua: plots as text, the bar, and what the terminal can do. */
#ifndef FOPO_TERM_BIND_TERM_H
#define FOPO_TERM_BIND_TERM_H

#include <lua.h>

int luaopen_fopo_term(lua_State *L);

/* fopo --json: runs print their records as JSON. */
void fopo_term_json(int on);

#endif
