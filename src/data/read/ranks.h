/* Files that the ranks read together (comm/comm.h), so that none has all interactions: each reads a
 * part of their bytes, and what it finds goes to the ranks that have the users. The dataset is
 * shared out (data/dataset.h), and its bits are those of one process that reads all (several.h).
 *
 * All bytes of the files are cut into as many ranges as there are ranks. A rank's rows are those
 * that begin in its range; of a file whose rows are not independent, or that is gzipped, they are
 * those of the rank that has the middle of the file.
 *
 * All functions are collective, and the steps belong to one stretch of comm.h: one that fails alone
 * returns, and the others learn of it when they agree next. */
#ifndef FOPO_DATA_READ_RANKS_H
#define FOPO_DATA_READ_RANKS_H

#include "data/read/several.h"

/* Alone, the dataset is a whole one. */
int fopo_dataset_read_part(fopo_dataset **d, const char *const *paths, size_t n,
                           const fopo_read_options *options);

/* ---- its steps ---- */

/* ranks_names.c: *whole becomes the names of all ranks, each of which has its own in order of
 * appearance, and place [own->n], fresh, where the own ones are; *own is empty then. */
int fopo_ranks_names(fopo_names *whole, uint32_t **place, fopo_ids *own);

/* ranks_pairs.c: sends every pair to the rank that has its user, of all `users`; *p becomes those
 * of the own users, in the order of the files. `title` names the files. */
int fopo_ranks_pairs(fopo_pairs *p, size_t users, const char *title);

/* d's matrix, times and counts from the own pairs, which are freed; d has the names, format,
 * rows_read and skipped of all ranks. */
int fopo_ranks_build(fopo_dataset *d, fopo_pairs *p, const char *title);

#endif
