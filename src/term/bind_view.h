/* The live view, as a part of the module "fopo.term". */
#ifndef FOPO_TERM_BIND_VIEW_H
#define FOPO_TERM_BIND_VIEW_H

#include <lauxlib.h>

extern const luaL_Reg bind_view_functions[];

/* Makes the type known. */
void bind_view_open(lua_State *L);

#endif
