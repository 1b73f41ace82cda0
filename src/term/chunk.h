/* Lua code run for main and for the prompt: protected, and with a traceback of the user's own
 * frames (neither the host's nor those of the Lua files inside the program). */
#ifndef FOPO_TERM_CHUNK_H
#define FOPO_TERM_CHUNK_H

#include <lua.h>

/* What entries at the prompt are called, a number behind it: each has its own, so that its source
 * is found. fopo_chunk_report leaves the number out. */
#define FOPO_PROMPT_CHUNK "prompt#"

/* As lua_pcall. Where it fails the error's text with its traceback stands on the top. */
int fopo_chunk_call(lua_State *L, int arguments, int results);

/* Keeps the text of a chunk that is no file, for messages about it ("prompt#3"). */
void fopo_chunk_remember(lua_State *L, const char *name, const char *text);

/* Adds the source line to the message on the top, where it names one: for what does not compile. */
void fopo_chunk_explain(lua_State *L);

/* Writes the text on the top to stderr and pops it; its first line alone after Ctrl-C at the
 * prompt (brief == 1). */
void fopo_chunk_report(lua_State *L, int brief);

#endif
