/* Datasets whose users are shared out to the ranks: each has fopo_comm_share of them. */
#ifndef FOPO_RANKS_DATASET_H
#define FOPO_RANKS_DATASET_H

#include "data/dataset.h"

/* *share becomes this rank's share, a copy, of a dataset that is the same on every rank. Not
 * collective. */
int fopo_dataset_share(fopo_dataset **share, const fopo_dataset *d);

/* *row becomes a dataset of one user of those of all ranks, without names, on every rank; d is
 * shared out. Collective (comm/comm.h). */
int fopo_dataset_fetch(fopo_dataset **row, const fopo_dataset *d, size_t user);

#endif
