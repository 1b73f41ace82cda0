/* The history of the prompt, and the keys Up and Down. */
#ifndef FOPO_TERM_HISTORY_H
#define FOPO_TERM_HISTORY_H

/* Loads the file and binds Up and Down, unless the user's inputrc binds them: they recall the
 * entries that begin with what is typed before the cursor. The file is $FOPO_HISTORY, else
 * $XDG_STATE_HOME/fopo/history, else ~/.local/state/fopo/history. */
void fopo_history_open(void);

/* After a line was read: if it was recalled, Down at the next line continues behind it. */
void fopo_history_read(void);

/* Adds an entry, of one line or several, and at once appends it to the file. An earlier entry of
 * the same text is removed. A file that cannot be written is no error. */
void fopo_history_add(const char *entry);

#endif
