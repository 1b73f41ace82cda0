/* Embeddings by a truncated SVD of the training sessions (the paper, "Experimental Results": beta
 * by SVD of the user-item matrix). */
#include "data/embed.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/histories.h"

const fopo_scale fopo_scales[] = {{0, 0}, {0.5, 1}, {1, 0}};
const char *const fopo_scale_names[] = {"none", "sqrt", "sigma", NULL};

void fopo_embed_squares(double *squares, fopo_matrix items) {
  memset(squares, 0, items.cols * sizeof *squares);
  for (size_t a = 0; a < items.rows; a++) {
    const float *row = fopo_matrix_row(items, a);
    for (size_t j = 0; j < items.cols; j++) squares[j] += (double)row[j] * (double)row[j];
  }
}

void fopo_embed_factors(float *factor, const float *s, const double *squares, size_t dim,
                        size_t seen, fopo_scale scale) {
  double sum = 0;
  for (size_t j = 0; j < dim; j++) {
    sum += pow((double)s[j], 2 * scale.power) * (squares != NULL ? squares[j] : 1);
  }
  for (size_t j = 0; j < dim; j++) {
    /* c^2 s_j^2p, c^2 = seen / sum: the sum over a, j of V_aj^2 c^2 s_j^2p is seen, as the sums of
     * squares of columns are those given. */
    double squared = pow((double)s[j], 2 * scale.power);
    if (scale.is_sized) squared = sum > 0 ? squared * (double)seen / sum : 0;
    factor[j] = (float)sqrt(squared);
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

/* ---- by degree ---- */

/* n [cols]: the entries of each column. */
static void count_columns(uint32_t *n, const fopo_csr *m) {
  for (size_t e = 0; e < fopo_csr_nnz(m); e++) n[m->ids[e]]++;
}

/* The entries of m, all 1, become those of the normalised matrix; n [cols]. */
static int normalise(fopo_csr *m, const uint32_t *n) {
  m->values = fopo_alloc(fopo_csr_nnz(m), sizeof *m->values);
  if (m->values == NULL) return FOPO_ERR_MEMORY;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t row = 0; row < m->rows; row++) {
    for (uint64_t e = m->indptr[row]; e < m->indptr[row + 1]; e++) {
      m->values[e] = fopo_embed_entry((double)fopo_csr_count(m, row), (double)n[m->ids[e]]);
    }
  }
  return FOPO_OK;
}

/* V_a becomes n_a^1/2 V_a. */
static void scale_rows(fopo_matrix V, const uint32_t *n) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t a = 0; a < V.rows; a++) {
    float *row = fopo_matrix_row(V, a), root = sqrtf((float)n[a]);
    for (size_t j = 0; j < V.cols; j++) row[j] *= root;
  }
}

/* ---- both ---- */

static int decompose(fopo_matrix items, float *s, fopo_csr *m, const fopo_embed_options *o) {
  size_t dim = o->svd.dim, seen = 0;
  float *factor = fopo_alloc(dim, sizeof *factor);
  double *squares = fopo_alloc(dim, sizeof *squares);
  uint32_t *n = fopo_alloc(m->cols, sizeof *n);
  int status = factor && squares && n ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) count_columns(n, m);
  for (size_t a = 0; status == FOPO_OK && a < m->cols; a++) seen += n[a] > 0;
  if (status == FOPO_OK && o->by_degree) status = normalise(m, n);
  if (status == FOPO_OK) status = fopo_svd_sparse(items, s, m, &o->svd);
  if (status == FOPO_OK && o->by_degree) {
    scale_rows(items, n);
    fopo_embed_squares(squares, items);
  }
  if (status == FOPO_OK) {
    fopo_embed_factors(factor, s, o->by_degree ? squares : NULL, dim, seen, o->scale);
    fopo_embed_scale(items, factor);
  }
  fopo_free(factor);
  fopo_free(squares);
  fopo_free(n);
  return status;
}

int fopo_embed_svd(fopo_matrix items, float *singular, const fopo_sessions *sessions,
                   const fopo_embed_options *options) {
  fopo_csr both = {0};
  float *s = NULL;
  int status = check_shapes(items, sessions, &options->svd);
  if (status != FOPO_OK) return status;
  status = fopo_memory_suffices(
      (uint64_t)(fopo_csr_nnz(&sessions->X) + fopo_csr_nnz(&sessions->Y)) *
          (options->by_degree ? sizeof(uint32_t) + sizeof(float) : sizeof(uint32_t)),
      "the matrix X + Y", "use fewer users");
  if (status == FOPO_OK) status = fopo_interactions(&both, sessions);
  if (status == FOPO_OK) s = fopo_alloc(options->svd.dim, sizeof *s);
  if (status == FOPO_OK && s == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = decompose(items, s, &both, options);
  if (status == FOPO_OK && singular != NULL) memcpy(singular, s, options->svd.dim * sizeof *s);
  fopo_csr_done(&both);
  fopo_free(s);
  return status;
}
