/* Two ascending rows become one. Each row is written by one thread. */
#include "data/interactions.h"

#include "core/status.h"
#include "core/threads.h"

/* Merges X and Y of a session into out, or counts only if out is NULL; returns how many there are.
 */
static size_t merge_row(uint32_t *out, const fopo_sessions *s, size_t row) {
  const uint32_t *x = fopo_csr_row(&s->X, row), *x_end = x + fopo_csr_count(&s->X, row);
  const uint32_t *y = fopo_csr_row(&s->Y, row), *y_end = y + fopo_csr_count(&s->Y, row);
  size_t n = 0;
  while (x < x_end || y < y_end) {
    uint32_t id = y == y_end || (x < x_end && *x <= *y) ? *x : *y;
    if (x < x_end && *x == id) x++;
    if (y < y_end && *y == id) y++;
    if (out != NULL) out[n] = id;
    n++;
  }
  return n;
}

int fopo_interactions(fopo_csr *m, const fopo_sessions *s) {
  size_t N = s->X.rows; /* perhaps some rows of a matrix, whose indptr does not begin at 0 */
  size_t nnz = (size_t)(s->X.indptr[N] - s->X.indptr[0] + s->Y.indptr[N] - s->Y.indptr[0]);
  int status = fopo_csr_init(m, N, s->X.cols, nnz, 0);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t row = 0; row < N; row++) m->indptr[row + 1] = merge_row(NULL, s, row);
  for (size_t row = 0; row < N; row++) m->indptr[row + 1] += m->indptr[row];
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t row = 0; row < N; row++) merge_row(m->ids + m->indptr[row], s, row);
  return FOPO_OK;
}
