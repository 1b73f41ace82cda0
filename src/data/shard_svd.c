/* fopo_embed_svd over columns that are shared out: rank r has the columns M_r of its range of the
 * items, and its rows W_r of every matrix by items. Matrices by users, Y, are whole on each rank.
 *
 *     Y = sum over ranks of M_r W_r            (all-reduce of users x l floats)
 *     W_r = M_r^T Y                            (no message)
 *     Gram matrices of W: sums of those of W_r (all-reduce of l x l doubles)
 *
 * The sketch is the same function of (seed, row, column) as in core/svd.c, so the span is that of
 * one process up to rounding. */
#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "core/factor.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "data/interactions.h"
#include "data/shard.h"

typedef struct {
  fopo_csr M, Mt; /* the columns of the range, and their transpose */
  size_t N, P, first, n, l;
  fopo_matrix Y, W, C, G; /* [N, l], [n, l], [l, l], [l, l] */
  double *Gy, *Gw;        /* [l, l] */
  float *s;               /* [l] */
} job;

static void done(job *j) {
  fopo_csr_done(&j->M);
  fopo_csr_done(&j->Mt);
  fopo_matrix_done(&j->Y);
  fopo_matrix_done(&j->W);
  fopo_matrix_done(&j->C);
  fopo_matrix_done(&j->G);
  fopo_free(j->Gy);
  fopo_free(j->Gw);
  fopo_free(j->s);
}

/* M = the entries of `all` in the columns first .. first + n - 1. */
static int take_columns(job *j, const fopo_csr *all) {
  size_t nnz = 0, every = fopo_csr_nnz(all);
  for (size_t i = 0; i < every; i++) nnz += all->ids[i] - j->first < j->n;
  int status = fopo_csr_init(&j->M, all->rows, j->n, nnz, 0);
  size_t at = 0;
  for (size_t row = 0; row < all->rows && status == FOPO_OK; row++) {
    for (size_t i = all->indptr[row]; i < all->indptr[row + 1]; i++) {
      size_t column = all->ids[i] - j->first; /* wraps around below the range */
      if (column < j->n) j->M.ids[at++] = (uint32_t)column;
    }
    j->M.indptr[row + 1] = at;
  }
  return status == FOPO_OK ? fopo_csr_transpose(&j->Mt, &j->M) : status;
}

static int init(job *j, const fopo_sessions *sessions, const fopo_svd_options *o) {
  fopo_csr all = {0};
  j->N = sessions->X.rows;
  j->P = sessions->X.cols;
  size_t most = j->N < j->P ? j->N : j->P, extra = o->oversample == 0 ? 10 : o->oversample;
  if (o->dim < 1 || o->dim > most) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "dim is %zu but %zu users and %zu items have %zu singular vectors; use 1 to "
                     "%zu",
                     o->dim, j->N, j->P, most, most);
  }
  j->l = (o->dim + (extra < most ? extra : most) + 15) / 16 * 16;
  if (j->l > most) j->l = most;
  j->n = fopo_comm_share(&j->first, j->P, (size_t)fopo_comm_rank(), (size_t)fopo_comm_size());
  uint64_t bytes = (uint64_t)(j->N + j->n + 2 * j->l) * j->l * sizeof(float);
  int status = fopo_memory_suffices(bytes, "the SVD", "use a smaller dim, or more machines");
  if (status == FOPO_OK) status = fopo_interactions(&all, sessions);
  if (status == FOPO_OK) status = take_columns(j, &all);
  fopo_csr_done(&all);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->Y, j->N, j->l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->W, j->n, j->l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->C, j->l, j->l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->G, j->l, j->l);
  if (status != FOPO_OK) return status;
  j->s = fopo_alloc(j->l, sizeof *j->s);
  j->Gy = fopo_alloc(j->l * j->l, sizeof *j->Gy);
  j->Gw = fopo_alloc(j->l * j->l, sizeof *j->Gw);
  return j->s && j->Gy && j->Gw ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* ---- products ---- */

/* Y = M W over all ranks. Collective. */
static int by_users(job *j, int status) {
  if (status == FOPO_OK) status = fopo_csr_times_dense(j->Y, &j->M, j->W);
  if (status == FOPO_OK) status = fopo_progress("finding singular vectors", 0.0, 0.0);
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? fopo_comm_sum(j->Y.x, j->N * j->l) : status;
}

static int by_items(job *j) { return fopo_csr_times_dense(j->W, &j->Mt, j->Y); }

/* Gw = W^T W over all ranks. Collective. */
static int gram_of_items(job *j, int status) {
  if (status == FOPO_OK) status = fopo_gram(j->Gw, j->W);
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? fopo_comm_sum_doubles(j->Gw, j->l * j->l) : status;
}

/* W becomes roughly orthonormal: W U diag(s)^(-1/2) for W^T W = U diag(s) U^T. Collective. */
static int separate(job *j, int status) {
  size_t l = j->l;
  status = gram_of_items(j, status);
  if (status != FOPO_OK) return status;
  for (size_t a = 0; a < l; a++) {
    for (size_t b = 0; b < l; b++) {
      fopo_matrix_row(j->G, a)[b] = (float)j->Gw[a < b ? a * l + b : b * l + a];
    }
  }
  status = fopo_svd_dense(j->C, j->s, (fopo_matrix){0}, j->G);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < l; b++) {
    float scale = 1.0f / sqrtf(fmaxf(j->s[b], 1e-6f * j->s[0]));
    for (size_t a = 0; a < l; a++) fopo_matrix_row(j->C, a)[b] *= isfinite(scale) ? scale : 0.0f;
  }
  fopo_matrix product = {0};
  status = fopo_matrix_init(&product, j->n, l);
  if (status == FOPO_OK) status = fopo_gemm(product, 1.0f, j->W, 0, j->C, 0, 0.0f);
  if (status == FOPO_OK) memcpy(j->W.x, product.x, j->n * l * sizeof(float));
  fopo_matrix_done(&product);
  return status;
}

static int iterate(job *j, const fopo_svd_options *o) {
  int on_rows = j->N < j->P, status = FOPO_OK;
  if (on_rows) {
    fopo_svd_sketch(j->Y, 0, o->seed);
  } else {
    fopo_svd_sketch(j->W, j->first, o->seed);
    status = by_users(j, FOPO_OK);
  }
  for (size_t q = 0; q < o->power_iterations && status == FOPO_OK; q++) {
    if (q > 0 || !on_rows) status = fopo_orthonormalise_roughly(j->Y);
    if (status == FOPO_OK) status = by_items(j);
    status = by_users(j, separate(j, status));
  }
  return status;
}

/* ---- the answer ---- */

/* signs [dim]: of the entry of largest magnitude of each column of V, over all ranks. */
static int find_signs(float *signs, fopo_matrix V) {
  float *all = fopo_alloc((size_t)fopo_comm_size() * V.cols, sizeof *all);
  int status = fopo_comm_agree(all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  memset(signs, 0, V.cols * sizeof *signs);
  for (size_t i = 0; i < V.rows; i++) {
    const float *v = fopo_matrix_row(V, i);
    for (size_t c = 0; c < V.cols; c++) signs[c] = fabsf(v[c]) > fabsf(signs[c]) ? v[c] : signs[c];
  }
  if (status == FOPO_OK) status = fopo_comm_gather(all, signs, V.cols * sizeof *signs);
  for (size_t c = 0; c < V.cols && status == FOPO_OK; c++) {
    float largest = 0.0f;
    for (int r = 0; r < fopo_comm_size(); r++) {
      float one = all[(size_t)r * V.cols + c];
      largest = fabsf(one) > fabsf(largest) ? one : largest;
    }
    signs[c] = largest < 0.0f ? -1.0f : 1.0f;
  }
  fopo_free(all);
  return status;
}

/* V [n, dim] = the range's rows of the right singular vectors, and j->s. */
static int extract(job *j, fopo_matrix V, int status) {
  fopo_matrix C = j->C;
  int trusted = 0;
  C.cols = V.cols;
  if (status == FOPO_OK) status = fopo_gram(j->Gy, j->Y);
  if (status == FOPO_OK) status = by_items(j);
  status = gram_of_items(j, status);
  if (status == FOPO_OK) status = fopo_svd_of_grams(C, j->s, j->Gy, j->Gw, &trusted);
  if (status == FOPO_OK && !trusted) {
    status = fopo_fail(FOPO_ERR_NUMERIC,
                       "the interactions have fewer than %zu directions that can be told apart; "
                       "use a smaller dim or oversample",
                       j->l);
  }
  if (status == FOPO_OK) status = fopo_gemm(V, 1.0f, j->W, 0, C, 0, 0.0f);
  return fopo_comm_agree(status);
}

/* Of the items of the range, how many occur. */
static double count_used(const job *j) {
  double used = 0.0;
  for (size_t a = 0; a < j->n; a++) used += fopo_csr_count(&j->Mt, a) > 0;
  return used;
}

int fopo_shard_svd(fopo_shard *s, float *singular, const fopo_sessions *sessions, fopo_scale scale,
                   const fopo_svd_options *options) {
  job j = {0};
  fopo_matrix V = {0};
  double seen = 0.0;
  float *factor = fopo_alloc(options->dim, sizeof *factor);
  *s = (fopo_shard){0};
  int status = factor != NULL ? init(&j, sessions, options) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_matrix_init(&V, j.n, options->dim);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = extract(&j, V, iterate(&j, options));
  if (status == FOPO_OK) status = find_signs(factor, V);
  if (status == FOPO_OK) fopo_embed_scale(V, factor);
  seen = count_used(&j);
  if (status == FOPO_OK) status = fopo_comm_sum_doubles(&seen, 1);
  if (status == FOPO_OK) {
    fopo_embed_factors(factor, j.s, options->dim, (size_t)seen, scale);
    fopo_embed_scale(V, factor);
    memcpy(singular, j.s, options->dim * sizeof *singular);
    status = fopo_shard_deal(s, V);
  }
  done(&j);
  fopo_matrix_done(&V);
  fopo_free(factor);
  return status;
}
