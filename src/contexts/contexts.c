/* Each context is encoded by one thread, in the order of its ids, so the bits do not depend on the
 * number of threads. */
#include "contexts/contexts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"

/* Contexts between two reports of progress: 4096 sums of 100 rows of 100 floats take about 10 ms.
 */
enum {
  BLOCK = 4096,
  AHEAD = 4, /* rows of a list that are on their way while one is added */
  LINE = 64  /* bytes that a prefetch brings */
};

#define X(name) &fopo_encoder_##name,
const fopo_encoder *const fopo_encoders[] = {
#include "contexts/encoders.def"
    NULL};
#undef X

#define X(name) #name,
const char *const fopo_encoder_names[] = {
#include "contexts/encoders.def"
    NULL};
#undef X

/* x = the sum over the ids of w_id beta_id; weights NULL: w = 1. */
static void sum_of_rows(float *x, const uint32_t *ids, size_t n, const float *weights,
                        fopo_matrix items) {
  memset(x, 0, items.cols * sizeof *x);
  for (size_t k = 0; k < n; k++) {
    const float *beta = fopo_matrix_row(items, ids[k]);
    float w = weights != NULL ? weights[ids[k]] : 1.0F;
    const char *soon = (const char *)fopo_matrix_row(items, ids[k + AHEAD < n ? k + AHEAD : n - 1]);
    for (size_t i = 0; i < items.cols * sizeof *x; i += LINE) __builtin_prefetch(soon + i);
#pragma omp simd
    for (size_t j = 0; j < items.cols; j++) x[j] += w * beta[j];
  }
}

void fopo_unit_length(float *x, size_t L) {
  double squares = 0;
  for (size_t j = 0; j < L; j++) squares += (double)x[j] * (double)x[j];
  float share = squares > 0 ? (float)(1 / sqrt(squares)) : 0.0F;
  for (size_t j = 0; j < L; j++) x[j] *= share;
}

void fopo_encode_list(float *x, fopo_encoding how, const uint32_t *ids, size_t n,
                      fopo_matrix items) {
  sum_of_rows(x, ids, n, how.weights, items);
  how.encoder->finish(x, items.cols, n);
}

int fopo_encode(fopo_matrix x, fopo_encoding how, const fopo_csr *X, fopo_matrix items) {
  assert((how.encoder->weight != NULL) == (how.weights != NULL));
  if (items.rows != X->cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "embeddings of %zu items do not fit sessions over %zu items; compute them "
                     "from the same data",
                     items.rows, X->cols);
  }
  if (x.rows != X->rows || x.cols != items.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "contexts of %zu x %zu do not fit %zu sessions and embeddings of dim %zu",
                     x.rows, x.cols, X->rows, items.cols);
  }
  for (size_t first = 0; first < X->rows; first += BLOCK) {
    size_t last = first + BLOCK < X->rows ? first + BLOCK : X->rows;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 64)
    for (size_t row = first; row < last; row++) {
      fopo_encode_list(fopo_matrix_row(x, row), how, fopo_csr_row(X, row), fopo_csr_count(X, row),
                       items);
    }
    int status = fopo_progress("contexts", (double)last, (double)X->rows);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}
