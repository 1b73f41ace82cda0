/* The principal directions of the rows of a matrix, and coordinates along them: what a reward model
 * takes of contexts and items with many columns. */
#ifndef FOPO_JUDGE_DIRECTIONS_H
#define FOPO_JUDGE_DIRECTIONS_H

#include "core/matrix.h"

/* basis [d, cols] (fresh): the first d <= dim principal directions of X [n, cols], not centred,
 * divided by one number so that the coordinates along them have a mean square of 1. `what` names X
 * in sentences. */
int fopo_directions_find(float **basis, size_t *d, fopo_matrix X, size_t dim, const char *what);

/* out [n, d + 1] (fresh) = [X basis^T, 1]. */
int fopo_directions_along(fopo_matrix *out, fopo_matrix X, const float *basis, size_t d);

#endif
