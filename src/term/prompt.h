/* The prompt: reads entries, runs them and prints their values until the end of input. An error
 * ends the entry, not the prompt. */
#ifndef FOPO_TERM_PROMPT_H
#define FOPO_TERM_PROMPT_H

#include <lua.h>

/* init: 1 to run ~/.config/fopo/init.lua first. `greeting` is printed at a terminal. Returns
 * FOPO_OK, or FOPO_ERR_FILE if the input could not be read to its end, which has been said. */
int fopo_prompt_run(lua_State *L, int init, const char *greeting);

/* Whether an entry of the prompt runs now, at a terminal: a person waits for it. */
int fopo_prompt_waits(void);

#endif
