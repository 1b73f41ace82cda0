/* Runs Lua code for main and for the prompt: protected, and with a traceback of the user's frames
 * alone, without those of the host and of the Lua files inside the program. */
#ifndef FOPO_TERM_CHUNK_H
#define FOPO_TERM_CHUNK_H

#include <lua.h>

/* Chunk name of an entry at the prompt, followed by its number: a message names the entry, so its
 * source can be shown. fopo_chunk_report prints the name without the number. */
#define FOPO_PROMPT_CHUNK "prompt#"

/* As lua_pcall. On failure the message with its traceback is on the top of the stack. */
int fopo_chunk_call(lua_State *L, int arguments, int results);

/* Keeps the source of a chunk that is no file, for messages about it ("prompt#3"). */
void fopo_chunk_remember(lua_State *L, const char *name, const char *text);

/* Notes that a chunk that is remembered ran to its end: it belongs to the session that ":save"
 * writes. */
void fopo_chunk_worked(lua_State *L, const char *name);

/* Adds the source line to the message on the top if the message names one: for code that does not
 * compile. */
void fopo_chunk_explain(lua_State *L);

/* In the registry: the table of globals that the program's own Lua files see. The user's globals
 * are others. */
#define FOPO_ENVIRONMENT "fopo.environment"

/* Pushes a module of the program's. */
void fopo_chunk_require(lua_State *L, const char *module);

/* Writes the message on the top to stderr and pops it; brief: only its first line, as after Ctrl-C
 * at the prompt. */
void fopo_chunk_report(lua_State *L, int brief);

#endif
