/* What an entry at the prompt is: Lua with or without a value, a question, a word that leaves; and
 * what was copied with it from a session on a screen or in a document. */
#ifndef FOPO_TERM_ENTRY_H
#define FOPO_TERM_ENTRY_H

#include <lua.h>

typedef enum {
  FOPO_ENTRY_READY,      /* a function was pushed */
  FOPO_ENTRY_INCOMPLETE, /* another line is needed; the message of the compiler was pushed */
  FOPO_ENTRY_WRONG,      /* the message of the compiler was pushed */
  FOPO_ENTRY_LEAVE       /* "exit" or "quit"; nothing was pushed */
} fopo_entry;

extern const char fopo_first_prompt[], fopo_next_prompt[];

/* Compiles the text at index 1. The chunk is called prompt#number. If the text ends with an
 * expression behind a ; or at the beginning of a line, the chunk returns its value. */
fopo_entry fopo_entry_parse(lua_State *L, int number);

/* The line behind the prompts "fopo> " and "> " that were copied with it; *copied is set to 1 if
 * there was one, else left alone. */
const char *fopo_entry_without_prompt(const char *line, int *copied);

/* The line behind a mark of a continued entry: "   .. ", ">> ", "... ". */
const char *fopo_entry_without_mark(const char *line);

/* True for the command of a shell that was copied with a session: "$ ./fopo". */
int fopo_entry_of_shell(const char *line);

/* True if a text of several lines is a copied session: some line has a prompt. */
int fopo_entry_is_session(const char *text);

#endif
