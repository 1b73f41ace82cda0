/* string.find, match, gmatch and gsub that Ctrl-C can interrupt: a pattern may need a time
 * exponential in its length, and the library's functions cannot be stopped meanwhile. Results and
 * errors are those of Lua 5.4, but no pattern is "too complex". */
#ifndef FOPO_TERM_PATTERN_LUA_H
#define FOPO_TERM_PATTERN_LUA_H

#include <lua.h>

/* Puts them into the table of strings. */
void fopo_pattern_install(lua_State *L);

#endif
