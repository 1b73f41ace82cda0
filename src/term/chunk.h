/* Lua code run for main and for the prompt: protected, and with a traceback of the user's own
 * frames (neither the host's nor those of the Lua files inside the program). */
#ifndef FOPO_TERM_CHUNK_H
#define FOPO_TERM_CHUNK_H

#include <lua.h>

#define FOPO_PROMPT_CHUNK "=prompt" /* what an entry at the prompt is called in sentences */

/* As lua_pcall. Where it fails the error's text with its traceback stands on the top. */
int fopo_chunk_call(lua_State *L, int arguments, int results);

/* Writes the text on the top to stderr and pops it; its first line alone after Ctrl-C at the
 * prompt (brief == 1). */
void fopo_chunk_report(lua_State *L, int brief);

#endif
