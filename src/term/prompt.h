/* The prompt: entries are read, run and their values printed until the end of input. An error ends
 * nothing. */
#ifndef FOPO_TERM_PROMPT_H
#define FOPO_TERM_PROMPT_H

#include <lua.h>

/* init: 1 to run ~/.config/fopo/init.lua first. `greeting` is shown at a terminal. */
void fopo_prompt_run(lua_State *L, int init, const char *greeting);

#endif
