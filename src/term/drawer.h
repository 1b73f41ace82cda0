/* Who draws pictures: this process, or another that was started before a border was put around this
 * one (core/border.h), and that takes numbers and words alone. */
#ifndef FOPO_TERM_DRAWER_H
#define FOPO_TERM_DRAWER_H

#include "term/picture.h"

/* Forks; to be called before any thread is started. *drawer is 1 in the process that draws, which
 * then calls fopo_drawer_serve; the other one has its descriptor, which stays open. */
int fopo_drawer_fork(int *drawer);

/* Draws what is asked for until nobody can ask any more. It runs gnuplot, and no other program,
 * where the kernel has Landlock. */
void fopo_drawer_serve(void);

/* As fopo_picture_draw, by that process if there is one. */
int fopo_drawer_draw(fopo_output *output, const fopo_picture *picture);

#endif
