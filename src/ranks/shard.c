#include "ranks/shard.h"

#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/topk.h"

void fopo_shard_done(fopo_shard *s) {
  fopo_matrix_done(&s->items);
  fopo_free(s->id);
  fopo_free(s->sorted);
  fopo_free(s->guide);
  fopo_free(s->scratch);
  *s = (fopo_shard){0};
}

/* ---- what belongs to a part ---- */

static void sort_small(uint32_t *x, size_t n) {
  for (size_t i = 1; i < n; i++) {
    uint32_t one = x[i];
    size_t j = i;
    for (; j > 0 && x[j - 1] > one; j--) x[j] = x[j - 1];
    x[j] = one;
  }
}

size_t fopo_shard_ids(uint32_t *rows, const fopo_shard *s, const uint32_t *ids, size_t n) {
  size_t held = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t row = fopo_part_row(&s->part, ids[i]);
    if (row != UINT32_MAX) rows[held++] = row;
  }
  sort_small(rows, held);
  return held;
}

int fopo_shard_csr(fopo_csr *own, const fopo_shard *s, const fopo_csr *Y) {
  size_t nnz = 0, all = fopo_csr_nnz(Y);
  for (size_t i = 0; i < all; i++) nnz += fopo_part_row(&s->part, Y->ids[i]) != UINT32_MAX;
  int status = fopo_csr_init(own, Y->rows, s->part.rows, nnz, 0);
  if (status != FOPO_OK) return status;
  size_t at = 0;
  for (size_t n = 0; n < Y->rows; n++) {
    at += fopo_shard_ids(own->ids + at, s, fopo_csr_row(Y, n), fopo_csr_count(Y, n));
    own->indptr[n + 1] = at;
  }
  return FOPO_OK;
}

/* ---- the best of all parts ---- */

size_t fopo_shard_found(const fopo_shard *s, size_t k) {
  size_t most = (s->part.P + s->part.size - 1) / s->part.size;
  return k < most ? k : most;
}

static int reserve(fopo_shard *s, size_t bytes) {
  if (bytes <= s->scratch_bytes) return FOPO_OK;
  fopo_free(s->scratch);
  s->scratch_bytes = 0;
  s->scratch = fopo_alloc(bytes, 1);
  if (s->scratch == NULL) return FOPO_ERR_MEMORY;
  s->scratch_bytes = bytes;
  return FOPO_OK;
}

/* keys [found], best first, of n answers; 0 stands for none. */
static void make_keys(uint64_t *keys, const fopo_shard *s, const uint32_t *ids, const float *scores,
                      size_t n, size_t found) {
  for (size_t i = 0; i < n; i++) {
    uint64_t key = fopo_topk_key(scores[i], s->id[ids[i]]);
    size_t j = i;
    for (; j > 0 && keys[j - 1] < key; j--) keys[j] = keys[j - 1]; /* equal scores, other ids */
    keys[j] = key;
  }
  for (size_t i = n; i < found; i++) keys[i] = 0;
}

/* best [k] of the lists [R] of `found` keys each, which are `stride` keys apart. */
static void merge_keys(uint64_t *best, const uint64_t *lists, size_t stride, size_t found,
                       size_t k) {
  size_t at[FOPO_COMM_RANKS] = {0};
  for (size_t i = 0; i < k; i++) {
    size_t from = 0;
    uint64_t largest = 0;
    for (size_t r = 0; r < fopo_comm_ranks(); r++) {
      uint64_t key = at[r] < found ? lists[r * stride + at[r]] : 0;
      if (key > largest) from = r;
      if (key > largest) largest = key;
    }
    at[from] += largest > 0;
    best[i] = largest;
  }
}

/* bytes [ranks] of every rank's share of n contexts, of `width` keys each. */
static void list_bytes(size_t *bytes, size_t n, size_t width) {
  size_t first;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    bytes[r] = fopo_comm_share(&first, n, r, fopo_comm_ranks()) * width * sizeof(uint64_t);
  }
}

/* Each rank merges the lists of its share of the contexts, and all get the answers. */
static int exchange_keys(uint64_t *keys, uint64_t *lists, size_t n, size_t found, size_t k) {
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS], first;
  size_t own = fopo_comm_own_share(&first, n);
  list_bytes(sent, n, found);
  for (size_t r = 0; r < fopo_comm_ranks(); r++) coming[r] = sent[fopo_comm_own_rank()];
  int status = fopo_comm_exchange(lists, coming, keys, sent);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (own > 8)
  for (size_t b = 0; b < own; b++) {
    merge_keys(keys + (first + b) * k, lists + b * found, own * found, found, k);
  }
  list_bytes(sent, n, k);
  return fopo_comm_gather_parts(keys, keys + first * k, sent);
}

int fopo_shard_merge(uint32_t *ids, float *scores, uint32_t *counts, fopo_shard *s, size_t n,
                     size_t k, int status) {
  size_t found = fopo_shard_found(s, k), stride = found < s->part.rows ? found : s->part.rows;
  size_t come = (n / fopo_comm_ranks() + 1) * fopo_comm_ranks() * found;
  if (status == FOPO_OK) status = reserve(s, (n * k + come) * sizeof(uint64_t));
  status = fopo_comm_agree(status);
  if (status != FOPO_OK) return status;
  uint64_t *keys = (uint64_t *)(void *)s->scratch;
  for (size_t b = 0; b < n; b++) {
    make_keys(keys + b * found, s, ids + b * stride, scores + b * stride,
              counts[b] < stride ? counts[b] : stride, found);
  }
  status = exchange_keys(keys, keys + n * k, n, found, k);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < n; b++) {
    counts[b] = 0;
    for (size_t i = 0; i < k; i++) {
      uint64_t key = keys[b * k + i];
      ids[b * k + i] = key > 0 ? fopo_topk_id(key) : UINT32_MAX;
      scores[b * k + i] = key > 0 ? fopo_topk_score(key) : -INFINITY;
      counts[b] += key > 0;
    }
  }
  return FOPO_OK;
}

int fopo_shard_log_sums(double *log_z, double *squares, size_t n, int status) {
  double *all = fopo_alloc(n * fopo_comm_ranks(), sizeof *all);
  if (status == FOPO_OK && all == NULL) status = FOPO_ERR_MEMORY;
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(all, log_z, n * sizeof *all);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    double top = -INFINITY, sum = 0.0;
    for (size_t r = 0; r < fopo_comm_ranks(); r++) top = fmax(top, all[r * n + i]);
    if (top == -(double)INFINITY) { /* all items are masked */
      log_z[i] = top;
      continue;
    }
    for (size_t r = 0; r < fopo_comm_ranks(); r++) sum += exp(all[r * n + i] - top);
    log_z[i] = top + log(sum);
    double share = exp(all[fopo_comm_own_rank() * n + i] - log_z[i]);
    if (squares != NULL) squares[i] *= share * share;
  }
  fopo_free(all);
  if (status != FOPO_OK || squares == NULL) return status;
  return fopo_comm_sum_doubles(squares, n);
}

/* ---- contexts and rows ---- */

/* x = the sum over the items of X that the part holds. */
static void sum_own(float *x, const fopo_shard *s, const uint32_t *ids, size_t n) {
  memset(x, 0, s->items.cols * sizeof *x);
  for (size_t i = 0; i < n; i++) {
    uint32_t row = fopo_part_row(&s->part, ids[i]);
    if (row == UINT32_MAX) continue;
    const float *beta = fopo_matrix_row(s->items, row);
    for (size_t j = 0; j < s->items.cols; j++) x[j] += beta[j];
  }
}

int fopo_shard_contexts(fopo_matrix x, const fopo_sessions *sessions, fopo_shard *s,
                        fopo_contexts_scale scale) {
  enum { BLOCK = 8192 };
  const fopo_csr *X = &sessions->X;
  int status = FOPO_OK;
  if (X->cols != s->part.P || x.rows != X->rows || x.cols != s->items.cols) {
    status =
        fopo_fail(FOPO_ERR_ARGUMENT,
                  "contexts of %zu x %zu do not fit %zu sessions over %zu items, and %zu items "
                  "of %zu numbers",
                  x.rows, x.cols, X->rows, X->cols, s->part.P, s->items.cols);
  }
  status = fopo_comm_agree(status);
  for (size_t first = 0; first < X->rows && status == FOPO_OK; first += BLOCK) {
    size_t n = X->rows - first < BLOCK ? X->rows - first : BLOCK;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 64)
    for (size_t i = 0; i < n; i++) {
      size_t row = first + i;
      sum_own(fopo_matrix_row(x, row), s, fopo_csr_row(X, row), fopo_csr_count(X, row));
    }
    status = fopo_comm_sum(fopo_matrix_row(x, first), n * x.cols);
    for (size_t i = 0; i < n && status == FOPO_OK; i++) {
      size_t count = fopo_csr_count(X, first + i);
      fopo_context_scale(fopo_matrix_row(x, first + i), x.cols, count, scale);
    }
    if (status == FOPO_OK) {
      status = fopo_progress("contexts", (double)(first + n), (double)X->rows);
    }
    status = fopo_comm_agree(status);
  }
  return status;
}

int fopo_shard_rows(fopo_matrix rows, const fopo_shard *s, const uint32_t *ids) {
  for (size_t i = 0; i < rows.rows; i++) {
    uint32_t row = fopo_part_row(&s->part, ids[i]);
    float *to = fopo_matrix_row(rows, i);
    memset(to, 0, rows.cols * sizeof *to);
    if (row != UINT32_MAX) memcpy(to, fopo_matrix_row(s->items, row), rows.cols * sizeof *to);
  }
  return fopo_comm_sum(rows.x, rows.rows * rows.cols);
}
