/* The colours of screens, plots and lessons, for dark and for light backgrounds. */
#ifndef FOPO_TERM_THEME_H
#define FOPO_TERM_THEME_H

#include <stddef.h>

/* The meaning of a cell; its colour is chosen by the terminal or the picture. */
typedef enum {
  FOPO_INK_PLAIN,
  FOPO_INK_DIM,
  FOPO_INK_BOLD,
  FOPO_INK_BAR,   /* head and foot lines: reversed */
  FOPO_INK_TRAIN, /* the curves, in colours for any colour vision */
  FOPO_INK_VALID,
  FOPO_INK_INDEX,
  FOPO_INK_RATE,
  FOPO_INK_WARN,
  FOPO_INKS
} fopo_ink;

typedef enum { FOPO_THEME_DARK, FOPO_THEME_LIGHT, FOPO_THEMES } fopo_theme;

typedef struct {
  short rich, poor; /* of 256 colours, and of 8; -1: the terminal's own */
  const char *svg;
} fopo_colour;

/* The theme in use. At the start it is $FOPO_THEME, "light" or "dark", else that of the background
 * that the terminal names in $COLORFGBG or, at the prompt, when it is asked (background.h), else
 * dark. */
fopo_theme fopo_theme_get(void);
void fopo_theme_set(fopo_theme theme);

/* The theme that the terminal's background asks for, where neither fopo_theme_set nor the
 * environment has named one; and whether one of them has. */
void fopo_theme_suggest(fopo_theme theme);
int fopo_theme_is_named(void);

const fopo_colour *fopo_theme_ink(fopo_theme theme, fopo_ink ink);

/* Of the series of a plot: SGR parameters. There are FOPO_THEME_CURVES, which then repeat. */
enum { FOPO_THEME_CURVES = 6 };
const char *fopo_theme_curve(fopo_theme theme, size_t series);

/* In pictures: the background, and the bar behind head and foot lines. */
const char *fopo_theme_paper(fopo_theme theme);
const char *fopo_theme_bar(fopo_theme theme);

#endif
