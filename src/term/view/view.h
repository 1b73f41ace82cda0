/* The live view as a pure function: a model of numbers and words becomes a screen of cells of any
 * size, from one line up. pane.h says what the screen is made of. */
#ifndef FOPO_TERM_VIEW_VIEW_H
#define FOPO_TERM_VIEW_VIEW_H

#include "term/screen.h"
#include "term/view/model.h"

/* Fills the screen, whatever its size, from the panes. */
void fopo_view_draw(fopo_screen *s, const fopo_view_model *m);

#endif
