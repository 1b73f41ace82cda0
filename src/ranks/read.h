/* Files that every rank reads a part of (comm/comm.h), so that none has all interactions: what a
 * rank finds goes to the ranks that have the users. The dataset is shared out, and its bits are
 * those of one process that reads all (data/read/readers.h).
 *
 * All bytes of the files are cut into as many ranges as there are ranks. A rank's rows are those
 * that begin in its range; of a file whose rows are not independent, or that is gzipped, they are
 * those of the rank that has the middle of the file. */
#ifndef FOPO_RANKS_READ_H
#define FOPO_RANKS_READ_H

#include "data/read/readers.h"

/* Collective, and fails on all ranks if it fails on one. With one process the dataset is not shared
 * out. */
int fopo_ranks_read(fopo_dataset **d, const char *const *paths, size_t n,
                    const fopo_read_options *options);

/* ---- datasets whose users are shared out: each rank has fopo_comm_share of them ---- */

/* *share becomes this rank's share, a copy, of a dataset that is the same on every rank. Not
 * collective. */
int fopo_dataset_share(fopo_dataset **share, const fopo_dataset *d);

/* *row becomes a dataset of one user of those of all ranks, without names, on every rank; d is
 * shared out. Collective (comm/comm.h). */
int fopo_dataset_fetch(fopo_dataset **row, const fopo_dataset *d, size_t user);

#endif
