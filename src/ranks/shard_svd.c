/* fopo_embed_svd over columns and users that are shared out: rank r has the columns M_r of its
 * range of the items (ranks/columns.h) and its rows W_r of every matrix by items; of a matrix by
 * users, Y, the rows Y_r of its block of the users:
 *
 *     Y_b = sum over ranks r of (M_r)_b W_r      (M_r)_b W_r goes to rank b, which adds up
 *     W_r = sum over blocks b of (M_r)_b^T Y_b   broadcast of Y_b by its rank, for each b
 *     Gram matrices: sums of those of Y_r, W_r   all-reduce of l x l doubles
 *
 * Y_b is added up in the order of the ranks, so its bits depend on their number alone. Both
 * products are made in pieces, with an agreement before what each sends: so all ranks leave soon
 * if one is interrupted, or fails.
 *
 * The sketch is the same function of (seed, row, column) as in core/svd.c, so the span is that of
 * one process up to rounding. */
#include <math.h>
#include <string.h>

#include "comm/pieces.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/qr.h"
#include "core/status.h"
#include "core/svd_dense.h"
#include "core/threads.h"
#include "ranks/columns.h"
#include "ranks/shard.h"

/* Multiply-adds of a rank between two agreements, about: 10 to 50 ms. */
#define SLAB ((size_t)32 << 20)
static size_t slab = SLAB;

void fopo_shard_svd_slab(size_t multiply_adds) { slab = multiply_adds > 0 ? multiply_adds : SLAB; }

typedef struct {
  fopo_columns M;
  size_t first, rows, l;  /* the users of this rank's block; columns of the sketch */
  size_t stripe;          /* users of each block whose Y is made at once */
  size_t parts;           /* of the items: W of a block is made for one at a time */
  fopo_matrix Y, W, C, G; /* [rows, l], [n, l], [l, l], [l, l] */
  fopo_matrix of_others;  /* [rows of the largest block or more, l] Y of another rank, or what is
                             sent to the others and comes of them of a stripe */
  double *Gy, *Gw;        /* [l, l] */
  float *s;               /* [l] */
} job;

static void done(job *j) {
  fopo_columns_done(&j->M);
  fopo_matrix_done(&j->Y);
  fopo_matrix_done(&j->W);
  fopo_matrix_done(&j->C);
  fopo_matrix_done(&j->G);
  fopo_matrix_done(&j->of_others);
  fopo_free(j->Gy);
  fopo_free(j->Gw);
  fopo_free(j->s);
}

/* The shapes; refuses a dim that there is not. */
static int measure(job *j, const fopo_sessions *sessions, const fopo_svd_options *o) {
  size_t N = fopo_sessions_count(sessions), P = sessions->X.cols, most = N < P ? N : P;
  size_t extra = o->oversample == 0 ? 10 : o->oversample;
  if (o->dim < 1 || o->dim > most) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "dim is %zu but %zu users and %zu items have %zu singular vectors; use 1 to "
                     "%zu",
                     o->dim, N, P, most, most);
  }
  j->l = (o->dim + (extra < most ? extra : most) + 15) / 16 * 16;
  if (j->l > most) j->l = most;
  j->rows = fopo_comm_own_share(&j->first, N);
  return FOPO_OK;
}

/* The pieces of the products, the same on all ranks. Collective. */
static int plan(job *j) {
  size_t all[FOPO_COMM_RANKS], nnz = fopo_csr_nnz(&j->M.M), most = 0, ranks = fopo_comm_ranks();
  int status = fopo_comm_gather(all, &nnz, sizeof nnz);
  for (size_t r = 0; r < ranks && status == FOPO_OK; r++) most = all[r] > most ? all[r] : most;
  /* A rank makes one for each block, of users with so many entries here. */
  size_t stripe = slab / (ranks * j->l * (most / j->M.N + 1));
  if (ranks > 1) { /* half of the rows for what is sent, half for what comes */
    size_t sent = FOPO_PIECE / ((ranks - 1) * j->l * sizeof(float));
    size_t held = j->of_others.rows / 2 / (ranks - 1);
    stripe = stripe < sent ? stripe : sent;
    stripe = stripe < held ? stripe : held;
  }
  j->stripe = stripe > 1 ? stripe : 1;
  j->parts = (most / ranks + j->M.P / ranks) * j->l / slab + 1;
  return status;
}

static int init(job *j, const fopo_sessions *sessions, const fopo_svd_options *o) {
  size_t l, n, first, ranks = fopo_comm_ranks();
  size_t largest = fopo_sessions_count(sessions) / ranks + 1;
  int status = measure(j, sessions, o);
  if (status != FOPO_OK) return status; /* on all ranks */
  l = j->l;
  n = fopo_comm_own_share(&first, sessions->X.cols);
  size_t nnz = fopo_csr_nnz(&sessions->X) + fopo_csr_nnz(&sessions->Y);
  if (sessions->all == 0) nnz /= ranks;
  if (largest < 2 * (ranks - 1)) largest = 2 * (ranks - 1); /* a user of each block */
  uint64_t bytes = (uint64_t)(j->rows + largest + n + 2 * l) * l * sizeof(float) +
                   4 * (uint64_t)nnz * sizeof(uint32_t);
  status = fopo_memory_suffices(bytes, "the SVD", "use a smaller dim, or more machines");
  status = fopo_columns_init(&j->M, sessions, status);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->Y, j->rows, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->W, n, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->C, l, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->G, l, l);
  if (status == FOPO_OK && ranks > 1) status = fopo_matrix_init(&j->of_others, largest, l);
  if (status == FOPO_OK) {
    j->s = fopo_alloc(l, sizeof *j->s);
    j->Gy = fopo_alloc(l * l, sizeof *j->Gy);
    j->Gw = fopo_alloc(l * l, sizeof *j->Gw);
    if (!j->s || !j->Gy || !j->Gw) status = FOPO_ERR_MEMORY;
  }
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? plan(j) : status;
}

/* ---- products ---- */

static int report(void) { return fopo_progress("finding singular vectors", 0.0, 0.0); }

/* The users of block b in the stripe that begins `at` users behind its first: from *first on, as
 * many as are returned. */
static size_t stripe_of(size_t *first, const job *j, size_t b, size_t at) {
  size_t n = fopo_columns_block(first, &j->M, b), rest = n > at ? n - at : 0;
  *first += at;
  return rest < j->stripe ? rest : j->stripe;
}

/* This rank's sums for the users of a stripe: `own` for those of its block; those for the other
 * blocks into of_others, sent [ranks] bytes of them. */
static void multiply_stripe(job *j, size_t *sent, fopo_matrix own, size_t at) {
  size_t first, row = 0;
  for (size_t b = 0; b < fopo_comm_ranks(); b++) {
    size_t n = stripe_of(&first, j, b, at);
    int is_own = b == fopo_comm_own_rank();
    fopo_matrix Y = is_own ? own : fopo_matrix_rows(j->of_others, row, n);
    fopo_columns_by_users(Y, &j->M, first, j->W);
    sent[b] = is_own ? 0 : n * j->l * sizeof *Y.x;
    row += is_own ? 0 : n;
  }
}

/* own [n, l], this rank's sums, becomes those of all ranks; come [ranks - 1, n, l]: the sums of the
 * others, which are overwritten. Neighbours are added first, then pairs of them, and so on. */
static void add_up(fopo_matrix own, float *come) {
  size_t ranks = fopo_comm_ranks(), rank = fopo_comm_own_rank(), l = own.cols;
#pragma omp parallel for num_threads(fopo_threads())
  for (size_t i = 0; i < own.rows; i++) {
    float *row[FOPO_COMM_RANKS];
    for (size_t r = 0; r < ranks; r++) {
      size_t place = r < rank ? r : r - 1; /* of what has come */
      row[r] = r == rank ? fopo_matrix_row(own, i) : come + (place * own.rows + i) * l;
    }
    for (size_t apart = 1; apart < ranks; apart *= 2) {
      for (size_t r = 0; r + apart < ranks; r += 2 * apart) {
        for (size_t k = 0; k < l; k++) row[r][k] += row[r + apart][k];
      }
    }
    if (rank > 0) memcpy(row[rank], row[0], l * sizeof **row);
  }
}

/* Y = M W. Collective. */
static int by_users(job *j, int status) {
  size_t sent[FOPO_COMM_RANKS], come[FOPO_COMM_RANKS], first, ranks = fopo_comm_ranks();
  size_t longest = (j->M.N + ranks - 1) / ranks; /* of the blocks */
  for (size_t at = 0; at < longest; at += j->stripe) {
    size_t n = stripe_of(&first, j, fopo_comm_own_rank(), at);
    fopo_matrix own = fopo_matrix_rows(j->Y, at < j->rows ? at : j->rows, n);
    float *other = ranks > 1 ? fopo_matrix_row(j->of_others, j->of_others.rows / 2) : NULL;
    if (status == FOPO_OK) multiply_stripe(j, sent, own, at);
    if (status == FOPO_OK) status = report();
    for (size_t r = 0; r < ranks; r++) come[r] = n * j->l * sizeof *other;
    come[fopo_comm_own_rank()] = 0;
    status = fopo_comm_agree(status);
    if (status == FOPO_OK) status = fopo_comm_exchange(other, come, j->of_others.x, sent);
    if (status != FOPO_OK) return status;
    add_up(own, other);
  }
  return FOPO_OK;
}

/* Where this rank has Y of block b, or puts it. */
static fopo_matrix block_of(const job *j, size_t b) {
  size_t first;
  if (b == fopo_comm_own_rank()) return j->Y;
  return fopo_matrix_rows(j->of_others, 0, fopo_columns_block(&first, &j->M, b));
}

/* Y of block b goes to all ranks. Collective. */
static int send_block(const job *j, fopo_matrix Y, size_t b, int status) {
  size_t bytes = j->l * sizeof *Y.x, each = FOPO_PIECE / bytes + 1;
  for (size_t at = 0; at < Y.rows; at += each) {
    size_t n = Y.rows - at < each ? Y.rows - at : each;
    if (status == FOPO_OK) status = report();
    status = fopo_comm_agree(status);
    if (status == FOPO_OK) status = fopo_comm_broadcast(fopo_matrix_row(Y, at), n * bytes, b);
    if (status != FOPO_OK) return status;
  }
  return status;
}

/* W = M^T Y. Collective. */
static int by_items(job *j, int status) {
  size_t first;
  for (size_t b = 0; b < fopo_comm_ranks(); b++) {
    fopo_matrix Y = block_of(j, b);
    status = send_block(j, Y, b, status);
    for (size_t p = 0; p < j->parts; p++) {
      if (p > 0) status = fopo_comm_agree(report());
      if (status != FOPO_OK) return status;
      size_t n = fopo_columns_part(&first, &j->M, p, j->parts);
      fopo_columns_by_items(fopo_matrix_rows(j->W, first, n), first, &j->M, b, Y);
    }
  }
  return FOPO_OK;
}

/* G [l, l] = A^T A over all ranks, A their rows of a matrix. Collective. */
static int gram(double *G, fopo_matrix A, int status) {
  size_t cells = A.cols * A.cols;
  if (A.rows == 0) memset(G, 0, cells * sizeof *G);
  if (status == FOPO_OK && A.rows > 0) status = fopo_gram(G, A);
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? fopo_comm_sum_doubles(G, cells) : status;
}

/* A = A C. */
static int times(fopo_matrix A, fopo_matrix C) {
  enum { BLOCK = 4096 };
  fopo_matrix product = {0};
  int status = fopo_matrix_init(&product, A.rows < BLOCK ? A.rows : BLOCK, A.cols);
  for (size_t first = 0; first < A.rows && status == FOPO_OK; first += BLOCK) {
    size_t n = A.rows - first < BLOCK ? A.rows - first : BLOCK;
    fopo_matrix rows = fopo_matrix_rows(A, first, n), made = fopo_matrix_rows(product, 0, n);
    status = fopo_gemm(made, 1.0f, rows, 0, C, 0, 0.0f);
    if (status == FOPO_OK) memcpy(rows.x, made.x, n * A.cols * sizeof *made.x);
    if (status == FOPO_OK) status = report();
  }
  fopo_matrix_done(&product);
  return status;
}

/* A, whose rows all ranks have, becomes roughly orthonormal: A U diag(s)^(-1/2) for A^T A = U
 * diag(s) U^T. Collective. */
static int separate(job *j, fopo_matrix A, int status) {
  size_t l = j->l;
  status = gram(j->Gw, A, status);
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
  return times(A, j->C);
}

static int iterate(job *j, const fopo_svd_options *o) {
  int on_rows = j->M.N < j->M.P, status = FOPO_OK;
  if (on_rows) {
    fopo_svd_sketch(j->Y, j->first, o->seed);
  } else {
    fopo_svd_sketch(j->W, j->M.first, o->seed);
    status = by_users(j, FOPO_OK);
  }
  for (size_t q = 0; q < o->power_iterations; q++) {
    if (q > 0 || !on_rows) status = separate(j, j->Y, status);
    status = by_items(j, status);
    status = by_users(j, separate(j, j->W, status));
    if (status != FOPO_OK) return status;
  }
  return status;
}

/* ---- the answer ---- */

/* signs [dim]: of the entry of largest magnitude of each column of V, over all ranks. */
static int find_signs(float *signs, fopo_matrix V) {
  float *all = fopo_alloc(fopo_comm_ranks() * V.cols, sizeof *all);
  int status = fopo_comm_agree(all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  memset(signs, 0, V.cols * sizeof *signs);
  for (size_t i = 0; i < V.rows; i++) {
    const float *v = fopo_matrix_row(V, i);
    for (size_t c = 0; c < V.cols; c++) signs[c] = fabsf(v[c]) > fabsf(signs[c]) ? v[c] : signs[c];
  }
  if (status == FOPO_OK) status = fopo_comm_gather(all, signs, V.cols * sizeof *signs);
  for (size_t c = 0; c < V.cols && status == FOPO_OK; c++) {
    float largest = 0.0f;
    for (size_t r = 0; r < fopo_comm_ranks(); r++) {
      float one = all[r * V.cols + c];
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
  status = gram(j->Gy, j->Y, status);
  status = by_items(j, status);
  status = gram(j->Gw, j->W, status);
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
  for (size_t a = 0; a < j->M.n; a++) used += fopo_csr_count(&j->M.Mt, a) > 0;
  return used;
}

int fopo_shard_svd(fopo_shard *s, float *singular, const fopo_sessions *sessions, fopo_scale scale,
                   const fopo_svd_options *options) {
  job j = {0};
  fopo_matrix V = {0};
  double seen = 0.0;
  float *factor = fopo_alloc(options->dim, sizeof *factor);
  *s = (fopo_shard){0};
  fopo_comm_begin();
  int status = factor != NULL ? init(&j, sessions, options) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_matrix_init(&V, j.M.n, options->dim);
  if (status == FOPO_OK) status = iterate(&j, options);
  if (status == FOPO_OK) status = extract(&j, V, status);
  if (status == FOPO_OK) status = find_signs(factor, V);
  if (status == FOPO_OK) fopo_embed_scale(V, factor);
  if (status == FOPO_OK) seen = count_used(&j);
  if (status == FOPO_OK) status = fopo_comm_sum_doubles(&seen, 1);
  if (status == FOPO_OK) {
    fopo_embed_factors(factor, j.s, options->dim, (size_t)seen, scale);
    fopo_embed_scale(V, factor);
    memcpy(singular, j.s, options->dim * sizeof *singular);
    status = fopo_shard_deal(s, V);
  }
  status = fopo_comm_end(status);
  done(&j);
  fopo_matrix_done(&V);
  fopo_free(factor);
  return status;
}
