/* Lines for the prompt: GNU readline with the user's inputrc, history and completion where standard
 * input and output are terminals, plain lines without a prompt otherwise. */
#ifndef FOPO_TERM_EDITOR_H
#define FOPO_TERM_EDITOR_H

#include <lua.h>

typedef enum {
  FOPO_LINE,        /* a line was entered */
  FOPO_LINE_END,    /* end of input */
  FOPO_LINE_DROPPED /* Ctrl-C: what was typed is gone; the flag of the interruption is cleared */
} fopo_line;

/* Loads the history. L is asked for completions (require "fopo.prompt.complete"). Returns 1 where a
 * person sits at a terminal. */
int fopo_editor_open(lua_State *L);

/* Where FOPO_LINE is returned *line is the text, to be freed with free(). */
fopo_line fopo_editor_read(char **line, const char *prompt);

/* Lets jobs in the background say what they have to say. The editor does so itself while it waits
 * at a terminal. */
void fopo_editor_idle(void);

/* Adds an entry, of one line or several, to the history and at once to its file:
 * $FOPO_HISTORY, else $XDG_STATE_HOME/fopo/history, else ~/.local/state/fopo/history. What was
 * entered before is moved to the end. A file that cannot be written is no failure. */
void fopo_editor_remember(const char *entry);

#endif
