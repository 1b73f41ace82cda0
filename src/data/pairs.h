/* Interactions as they are read, (user, item, value) one by one, and the dataset made of them. */
#ifndef FOPO_DATA_PAIRS_H
#define FOPO_DATA_PAIRS_H

#include "core/status.h"
#include "data/dataset.h"

struct fopo_spill;

/* Start from {0}, or {.with_values = 1}, {.with_times = 1}. */
typedef struct {
  uint32_t *user, *item; /* [n] */
  float *value;          /* [n] if with_values, else NULL: every interaction counts 1 */
  double *time;          /* [n] if with_times, else NULL */
  size_t n, capacity;
  int with_values, with_times;
  struct fopo_spill *spill; /* where those before them are (data/spill.h); NULL: there are none. Not
                               owned */
} fopo_pairs;

void fopo_pairs_done(fopo_pairs *p); /* accepts {0} */

size_t fopo_pairs_bytes(const fopo_pairs *p); /* of a pair */

/* Capacity for `more` further pairs. */
int fopo_pairs_reserve(fopo_pairs *p, size_t more);

/* From now on there are values, 1 for the pairs so far; no values; no times. */
int fopo_pairs_add_values(fopo_pairs *p);
void fopo_pairs_drop_values(fopo_pairs *p);
void fopo_pairs_drop_times(fopo_pairs *p);

static inline int fopo_pairs_add(fopo_pairs *p, uint32_t user, uint32_t item, float value) {
  if (p->n == p->capacity) {
    int status = fopo_pairs_reserve(p, 1);
    if (status != FOPO_OK) return status;
  }
  p->user[p->n] = user;
  p->item[p->n] = item;
  if (p->with_values) p->value[p->n] = value;
  p->n++; /* its time, if there are times, is set by the caller */
  return FOPO_OK;
}

/* Refuses with FOPO_ERR_MEMORY, before anything is read, a file of about `rows` interactions if
 * reading and sorting them would not fit into memory. */
int fopo_pairs_check_memory(const char *path, double rows, int with_values);
/* The same for `rows` further pairs of what p has, for example times, which p is sorted with. */
int fopo_pairs_check_more(const char *path, double rows, const fopo_pairs *p);

/* Refuses a matrix with far more rows or columns than the n interactions can fill: where ids are
 * indices, one wrong digit could claim 4e9 empty columns. Allowed are 16 rows or columns for each
 * interaction, and 2^24 in any case. */
int fopo_pairs_check_shape(const char *path, size_t users, size_t items, size_t n);

/* d->matrix, d->times and the counts of d from the pairs, which are freed. Pairs that repeat are
 * summed; of their times the earliest and the latest are kept.
 * FOPO_ERR_FORMAT if there is none. */
int fopo_pairs_build(fopo_dataset *d, fopo_pairs *p, size_t users, size_t items, const char *path);

/* The steps of it. d->matrix, d->times and d->repeats alone, for any number of pairs: without
 * values, repeats are counted. The sentence that there are none. */
int fopo_pairs_sort(fopo_dataset *d, fopo_pairs *p, size_t users, size_t items);
int fopo_pairs_refuse_none(const char *path, size_t skipped);

/* The last step of every reader, on a matrix that is complete: frees values that are all 1, refuses
 * those that are not finite, and counts users_seen and items_seen unless items_seen is known. */
int fopo_dataset_finish(fopo_dataset *d, const char *path);

/* Refuses values of the matrix that are not finite. */
int fopo_dataset_check_values(const fopo_dataset *d, const char *path);

int fopo_values_are_ones(const float *values, size_t n);

#endif
