/* The sparse part of a score, and how it is looked up; the GPU compiles it too. The score of item a
 * in context x is
 *
 *     f(a, x) = q(x) . beta_a + s(a, x),
 *
 * and s is 0 but for a few items of each context. Its first use is a mask: s = -infinity for the
 * items that a user has already taken, which the softmax then leaves out. */
#ifndef FOPO_DEVICE_SCORE_H
#define FOPO_DEVICE_SCORE_H

#include <math.h>

#include "device/statistics.h"

/* indptr NULL: s = 0. */
typedef struct {
  const uint64_t *indptr; /* device [n + 1] where each row begins in ids */
  const uint32_t *ids;    /* device, ascending within a row */
  const float *values;    /* device, s of each id; NULL: -infinity for all of them */
  const uint32_t *rows;   /* device [B] the row of each context of a batch; NULL: its own id */
} fopo_sparse_scores;

/* s(., x) of one context. */
typedef struct {
  const uint32_t *ids; /* [n] ascending */
  const float *values; /* [n]; NULL: all are -INFINITY */
  size_t n;
} fopo_score_row;

/* The row of context b, which is row b itself if s->rows is NULL; s NULL: s = 0. */
FOPO_ON_BOTH static inline fopo_score_row fopo_score_row_of(const fopo_sparse_scores *s, size_t b) {
  fopo_score_row row = {NULL, NULL, 0};
  if (s == NULL || s->indptr == NULL) return row;
  size_t n = s->rows != NULL ? s->rows[b] : b;
  uint64_t first = s->indptr[n];
  row.ids = s->ids + first;
  row.values = s->values != NULL ? s->values + first : NULL;
  row.n = (size_t)(s->indptr[n + 1] - first);
  return row;
}

/* s of the entry i of a row. */
FOPO_ON_BOTH static inline float fopo_score_entry(const fopo_score_row *row, size_t i) {
  return row->values != NULL ? row->values[i] : -INFINITY;
}

/* The first entry of a row whose id is at least `id`, by binary search; n if there is none. */
FOPO_ON_BOTH static inline size_t fopo_score_place(const fopo_score_row *row, uint32_t id) {
  size_t first = 0, n = row->n;
  while (n > 0) {
    size_t middle = n / 2;
    int below = row->ids[first + middle] < id;
    first = below ? first + middle + 1 : first;
    n = below ? n - middle - 1 : middle;
  }
  return first;
}

/* s of an item: 0 if the row has no entry for it. */
FOPO_ON_BOTH static inline float fopo_score_of(const fopo_score_row *row, uint32_t id) {
  size_t i = fopo_score_place(row, id);
  return i < row->n && row->ids[i] == id ? fopo_score_entry(row, i) : 0.0f;
}

/* f + s; -infinity masks any f, one that has overflowed too. */
FOPO_ON_BOTH static inline float fopo_score_sum(float f, float s) {
  return s > -INFINITY ? f + s : s;
}

#endif
