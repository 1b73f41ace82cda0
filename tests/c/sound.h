/* The structure of a sparse matrix, which all code relies on. */
#ifndef FOPO_TESTS_SOUND_H
#define FOPO_TESTS_SOUND_H

#include <math.h>

#include "core/csr.h"

/* 1 if indptr starts at 0, ascends and ends at nnz, ids ascend in a row and are < cols, and values
 * are finite. */
static inline int is_sound(const fopo_csr *m, size_t nnz) {
  int sound = m->indptr[0] == 0 && m->indptr[m->rows] == nnz;
  for (size_t r = 0; r < m->rows && sound; r++) {
    sound = m->indptr[r] <= m->indptr[r + 1] && m->indptr[r + 1] <= nnz;
    for (uint64_t e = m->indptr[r]; sound && e < m->indptr[r + 1]; e++) {
      sound = m->ids[e] < m->cols && (e == m->indptr[r] || m->ids[e - 1] < m->ids[e]) &&
              (m->values == NULL || isfinite(m->values[e]));
    }
  }
  return sound;
}

#endif
