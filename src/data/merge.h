/* Datasets that become one: users and items of the same name are the same. */
#ifndef FOPO_DATA_MERGE_H
#define FOPO_DATA_MERGE_H

#include "data/dataset.h"
#include "data/ids.h"
#include "data/pairs.h"

/* place [names->n]: the index in `all` of each name. Names that `all` lacks are added in their
 * order. Names of 0 .. n - 1 are these integers. */
int fopo_merge_names(fopo_ids *all, uint32_t *place, const fopo_names *names);

/* Adds the entries of a matrix, by rows, whose user u is users[u] and whose item i is items[i]. Of
 * an entry with two times a second pair of value 0 has the later one. The caller has agreed on
 * values and times: all->with_values if any part has values or such entries, all->with_times if
 * every part has times. */
int fopo_merge_pairs(fopo_pairs *all, const fopo_dataset *d, const uint32_t *users,
                     const uint32_t *items);

/* 1 if fopo_merge_pairs of this part needs all->with_values. */
int fopo_merge_needs_values(const fopo_dataset *d);

/* ids [n] become place[ids]; place NULL: they stay. */
int fopo_merge_renumber(uint32_t *ids, const uint32_t *place, size_t n);

/* ---- given files for train, valid and test as one dataset ---- */

typedef struct {
  fopo_dataset *dataset;
  uint8_t
      *windows; /* [nnz] FOPO_IN_TRAIN, FOPO_IN_VALID, FOPO_IN_TEST: which files have the pair */
  size_t new_users[3], new_items[3]; /* with interactions in file p and none in the first */
} fopo_joined;

/* parts [3]: train, valid, test; NULL: there is none. Indices are those of the first file, followed
 * by what only the others have, in their order. Datasets whose ids are indices agree by these.
 * Times are kept if every part has them. */
int fopo_dataset_join(fopo_joined *joined, const fopo_dataset *const parts[3]);
void fopo_joined_done(fopo_joined *joined); /* accepts {0} */

#endif
