/* Datasets that become one: users and items of the same name are the same. */
#ifndef FOPO_DATA_MERGE_H
#define FOPO_DATA_MERGE_H

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

#endif
