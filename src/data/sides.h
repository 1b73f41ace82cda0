/* On which side of a split each interaction falls: in which windows, and in the training window in
 * X or in Y (data/sessions.h). */
#ifndef FOPO_DATA_SIDES_H
#define FOPO_DATA_SIDES_H

#include "data/sessions.h"

/* Bits of an interaction, after FOPO_IN_TRAIN, FOPO_IN_VALID and FOPO_IN_TEST. */
enum { FOPO_TRAIN_X = 8, FOPO_TRAIN_Y = 16 };

/* sides [nnz]: the bits of every interaction of the n users; those of other users are not written.
 * from [2]: where the windows of valid and test begin, for FOPO_SPLIT_TIME. A user with one item in
 * the training window has it in neither X nor Y. Reports progress. */
int fopo_sides(uint8_t *sides, const fopo_dataset *d, const uint32_t *users, size_t n,
               const fopo_split_options *options, const fopo_split_plan *plan, const double *from);

#endif
