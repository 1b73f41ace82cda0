/* Embeddings by a truncated SVD of the training sessions (the paper, "Experimental Results": beta
 * by SVD of the user-item matrix). */
#include "data/embed.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/histories.h"

void fopo_embed_factors(float *factor, const float *s, size_t dim, size_t seen, fopo_scale scale) {
  double sum = 0;
  for (size_t j = 0; j < dim; j++) sum += (double)s[j];
  for (size_t j = 0; j < dim; j++) {
    /* c^2 s_j, c^2 = seen / sum s: sum_a sum_j V_aj^2 c^2 s_j = seen, as columns have norm 1. */
    double squared = sum > 0 ? (double)s[j] * (double)seen / sum : 0;
    factor[j] = scale == FOPO_SCALE_NONE    ? 1
                : scale == FOPO_SCALE_SIGMA ? s[j]
                                            : (float)sqrt(squared);
  }
}

void fopo_embed_scale(fopo_matrix items, const float *factor) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t a = 0; a < items.rows; a++) {
    float *row = fopo_matrix_row(items, a);
    for (size_t j = 0; j < items.cols; j++) row[j] *= factor[j];
  }
}

static int check_shapes(fopo_matrix items, const fopo_sessions *s, const fopo_svd_options *o) {
  if (items.rows != s->X.cols || items.cols != o->dim) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "embeddings of %zu x %zu do not fit %zu items and dim = %zu; give a matrix of "
                     "%zu x %zu",
                     items.rows, items.cols, s->X.cols, o->dim, s->X.cols, o->dim);
  }
  if (s->X.rows == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "no session to compute embeddings from");
  }
  return FOPO_OK;
}

int fopo_embed_svd(fopo_matrix items, float *singular, const fopo_sessions *sessions,
                   fopo_scale scale, const fopo_svd_options *options) {
  fopo_csr both = {0};
  float *s = NULL, *factor = NULL;
  size_t seen = 0;
  int status = check_shapes(items, sessions, options);
  if (status != FOPO_OK) return status;
  status = fopo_memory_suffices(
      (uint64_t)(fopo_csr_nnz(&sessions->X) + fopo_csr_nnz(&sessions->Y)) * sizeof(uint32_t),
      "the matrix X + Y", "use fewer users");
  if (status != FOPO_OK) return status;
  status = fopo_interactions(&both, sessions);
  if (status != FOPO_OK) goto out;

  status = FOPO_ERR_MEMORY;
  s = fopo_alloc(options->dim, sizeof *s);
  factor = fopo_alloc(options->dim, sizeof *factor);
  if (s == NULL || factor == NULL) goto out;
  status = fopo_svd_sparse(items, s, &both, options);
  if (status == FOPO_OK) status = fopo_csr_columns_used(&seen, &both);
  if (status != FOPO_OK) goto out;
  fopo_embed_factors(factor, s, options->dim, seen, scale);
  if (scale != FOPO_SCALE_NONE) fopo_embed_scale(items, factor);
  if (singular != NULL) memcpy(singular, s, options->dim * sizeof *s);
out:
  fopo_csr_done(&both);
  fopo_free(s);
  fopo_free(factor);
  return status;
}
