/* Lines for the prompt: GNU readline with the user's inputrc, history and completion if standard
 * input and output are terminals, plain lines without a prompt otherwise. */
#ifndef FOPO_TERM_EDITOR_H
#define FOPO_TERM_EDITOR_H

#include <lua.h>

typedef enum {
  FOPO_LINE,        /* a line was entered */
  FOPO_LINE_END,    /* end of input */
  FOPO_LINE_LOST,   /* the input cannot be read any more, which has been said */
  FOPO_LINE_DROPPED /* Ctrl-C: the line is discarded and the interruption cleared */
} fopo_line;

/* Loads the history; completions come from fopo.prompt.complete in L. Returns 1 if lines are edited
 * at a terminal. */
int fopo_editor_open(lua_State *L);

/* After FOPO_LINE *line is the text; free it with free(). */
fopo_line fopo_editor_read(char **line, const char *prompt);

/* Prints the messages of background jobs. The editor does so itself while it waits at a terminal.
 */
void fopo_editor_idle(void);

/* Whether the end of the input ends the program. At a terminal the first Ctrl-D only says that jobs
 * would be stopped, where there are any. */
int fopo_editor_leaves(void);

/* Adds an entry, of one line or several, to the history (term/history.h). */
void fopo_editor_remember(const char *entry);

#endif
