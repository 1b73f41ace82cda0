/* The names of a dataset that is shared out to the ranks (comm/comm.h): of the names of all users,
 * or items, each rank has those of its fopo_comm_share of the indices. No rank has all of them,
 * also while they are joined. Names that are the indices themselves take no memory, and every rank
 * has them: their n is that of all ranks.
 *
 * All functions but the first are collective, and fail on all ranks if one fails. */
#ifndef FOPO_RANKS_NAMES_H
#define FOPO_RANKS_NAMES_H

#include "data/ids.h"

/* *to becomes a copy of this rank's share of names that are whole. Not collective. */
int fopo_ranks_share_names(fopo_names *to, const fopo_names *whole);

/* The names that all ranks have found, each its own in `ids`, from which they are taken: numbered
 * as one process does that meets those of rank 0 first (fopo_ids_finish). *names becomes this
 * rank's share of *all, and place [n], fresh, the index of each own one. is_text: those of some
 * rank are texts. While it works a rank takes up to 50 bytes for each of its integers, or 60 and
 * four times the bytes of a text. */
int fopo_ranks_join_names(fopo_names *names, size_t *all, uint32_t **place, fopo_ids *ids,
                          int is_text);

/* Of names that are shared out, `all` in number: *name, fresh, that of index i; *at, the index of a
 * name, or -1. */
int fopo_ranks_name(char **name, const fopo_names *names, size_t all, size_t i);
int fopo_ranks_find_name(int64_t *at, const fopo_names *names, size_t all, const char *name);

/* *whole becomes all names: on every rank, or on the first alone, where others get none. */
int fopo_ranks_gather_names(fopo_names *whole, const fopo_names *names, size_t all, int everywhere);

#endif
