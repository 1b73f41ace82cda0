/* The terminal while the live view has it. It is restored however the view ends: return, error,
 * Ctrl-C, os.exit, signals, a crash. There is one terminal, so there is one view at a time; all
 * calls come from one thread.
 *
 * Meanwhile everything written to stdout and stderr goes into a file in memory (a pipe could fill
 * up) and is fetched with fopo_terminal_said. */
#ifndef FOPO_TERM_VIEW_TERMINAL_H
#define FOPO_TERM_VIEW_TERMINAL_H

#include <stddef.h>

#include "term/screen.h"

/* FOPO_OK if a view can be opened, else FOPO_ERR_UNAVAILABLE with the reason. */
int fopo_terminal_possible(void);

/* Takes the terminal; colour 0: without colours. */
int fopo_terminal_open(int colour);

/* Gives the terminal back; does nothing if it is not taken. */
void fopo_terminal_close(void);

/* The present size. A resize is noticed here and in fopo_terminal_show. */
void fopo_terminal_size(int *rows, int *cols);

/* Shows the screen: sends the cells that differ from the screen before, or all if anew. */
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
  FOPO_KEY_GONE /* the terminal has been closed */
};

/* The next key, a character's code or one of the above; waits for at most `seconds`. Ctrl-Z
 * suspends and resumes the process in here; Ctrl-C ends the wait. */
int fopo_terminal_key(double seconds);

/* Moves output written since the last call into text[size]; returns its bytes. */
size_t fopo_terminal_said(char *text, size_t size);

#endif
