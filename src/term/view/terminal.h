/* The terminal, taken for the live view and given back after every ending: return, error, Ctrl-C,
 * os.exit, signals, a crash. There is one terminal, so there is one view at a time; all calls come
 * from one thread.
 *
 * While it is taken, what anybody writes to stdout and stderr goes into memory (never into a pipe
 * that could fill up) and is fetched with fopo_terminal_said. */
#ifndef FOPO_TERM_VIEW_TERMINAL_H
#define FOPO_TERM_VIEW_TERMINAL_H

#include <stddef.h>

#include "term/screen.h"

/* FOPO_OK where a view could be opened; else FOPO_ERR_UNAVAILABLE with the reason. */
int fopo_terminal_possible(void);

/* colour: 0 for none. */
int fopo_terminal_open(int colour);

/* Gives the terminal back; nothing where it is not taken. */
void fopo_terminal_close(void);

/* The size now; resizes are noticed here and at fopo_terminal_show. */
void fopo_terminal_size(int *rows, int *cols);

/* Shows the screen: only what differs from the one before is sent. anew: everything. */
void fopo_terminal_show(const fopo_screen *s, int anew);

/* Keys beyond characters. */
enum {
  FOPO_KEY_NONE = 0,
  FOPO_KEY_LEFT = 0x110001,
  FOPO_KEY_RIGHT,
  FOPO_KEY_HOME,
  FOPO_KEY_END,
  FOPO_KEY_BACKSPACE,
  FOPO_KEY_DELETE,
  FOPO_KEY_UP,
  FOPO_KEY_DOWN,
  FOPO_KEY_RESIZE,
  FOPO_KEY_GONE /* nobody is at the terminal any more */
};

/* The next key: a character's code or one of the above; waits at most so long. Stops and goes on
 * with Ctrl-Z. Ctrl-C ends the wait. */
int fopo_terminal_key(double seconds);

/* Moves what was written meanwhile into text[size]; the bytes. */
size_t fopo_terminal_said(char *text, size_t size);

#endif
