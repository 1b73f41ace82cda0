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

/* ---- the interactions ---- */

/* X + Y of the sessions. Of all their rows one block is here. */
typedef struct {
  const fopo_sessions *sessions; /* not owned */
  const double *n; /* [P] as in scale_rows, of the normalised matrix; NULL: all are 1 */
  fopo_csr block;  /* rows first .. first + block.rows - 1 */
  size_t first;
} interactions;

/* The entries of the block, all 1, become those of the normalised matrix. */
static int normalise(interactions *m) {
  fopo_csr *b = &m->block;
  b->values = fopo_alloc(fopo_csr_nnz(b), sizeof *b->values);
  if (b->values == NULL) return FOPO_ERR_MEMORY;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t row = 0; row < b->rows; row++) {
    for (uint64_t e = b->indptr[row]; e < b->indptr[row + 1]; e++) {
      b->values[e] = fopo_embed_entry((double)fopo_csr_count(b, row), m->n[b->ids[e]]);
    }
  }
  return FOPO_OK;
}

static int take(fopo_csr *block, void *of, size_t first, size_t n) {
  interactions *m = of;
  int status = FOPO_OK;
  if (m->first != first || m->block.rows != n) {
    fopo_sessions some = {.X = fopo_csr_rows(&m->sessions->X, first, n),
                          .Y = fopo_csr_rows(&m->sessions->Y, first, n)};
    fopo_csr_done(&m->block);
    m->first = first;
    status = fopo_interactions(&m->block, &some);
    if (status == FOPO_OK && m->n != NULL) status = normalise(m);
  }
  *block = m->block;
  return status;
}

/* V_a becomes n_a^1/2 V_a, n [P] the users of each item. */
static void scale_rows(fopo_matrix V, const double *n) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t a = 0; a < V.rows; a++) {
    float *row = fopo_matrix_row(V, a), root = sqrtf((float)n[a]);
    for (size_t j = 0; j < V.cols; j++) row[j] *= root;
  }
}

static int decompose(fopo_matrix items, float *s, const double *n, const fopo_sessions *sessions,
                     const fopo_embed_options *o) {
  interactions m = {.sessions = sessions, .n = o->by_degree ? n : NULL};
  fopo_svd_rows rows = {.rows = sessions->X.rows,
                        .cols = sessions->X.cols,
                        .entries = fopo_csr_nnz(&sessions->X) + fopo_csr_nnz(&sessions->Y),
                        .with_values = o->by_degree,
                        .take = take,
                        .of = &m};
  int status = fopo_svd_sparse(items, s, &rows, &o->svd);
  fopo_csr_done(&m.block);
  return status;
}

/* items, of the normalised matrix its V, are scaled; n as above, squares and factor [dim]. */
static void scale(fopo_matrix items, const float *s, const double *n, double *squares,
                  float *factor, const fopo_embed_options *o) {
  size_t seen = 0;
  for (size_t a = 0; a < items.rows; a++) seen += n[a] > 0;
  if (o->by_degree) {
    scale_rows(items, n);
    fopo_embed_squares(squares, items);
  }
  fopo_embed_factors(factor, s, o->by_degree ? squares : NULL, items.cols, seen, o->scale);
  fopo_embed_scale(items, factor);
}

int fopo_embed_svd(fopo_matrix items, float *singular, const fopo_sessions *sessions,
                   const fopo_embed_options *options) {
  size_t dim = options->svd.dim;
  int status = check_shapes(items, sessions, &options->svd);
  if (status != FOPO_OK) return status;
  float *s = fopo_alloc(2 * dim, sizeof *s);
  double *n = fopo_alloc(items.rows + dim, sizeof *n);
  status = s != NULL && n != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_interactions_count(n, sessions);
  if (status == FOPO_OK) status = decompose(items, s, n, sessions, options);
  if (status == FOPO_OK) scale(items, s, n, n + items.rows, s + dim, options);
  if (status == FOPO_OK && singular != NULL) memcpy(singular, s, dim * sizeof *s);
  fopo_free(s);
  fopo_free(n);
  return status;
}
