#include "ranks/shard.h"

#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/norm.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/order.h"
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

enum { SMALL = 64 }; /* rows that need no more than a sort by insertion */

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
  if (held > SMALL) {
    fopo_sort_u32(rows, held);
  } else {
    sort_small(rows, held);
  }
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

int fopo_shard_search(uint32_t *ids, float *scores, uint32_t *counts, fopo_shard *s, fopo_index *ix,
                      fopo_matrix Q, size_t k, size_t limit, int set) {
  if (s == NULL) return fopo_index_search_within(ids, scores, counts, ix, Q, k, limit, set);
  if (k == 0 || k > s->part.P) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but there are %zu items; use 1 to %zu", k,
                     s->part.P, s->part.P);
  }
  size_t found = fopo_shard_found(s, k);
  if (found > s->part.rows) found = s->part.rows;
  if (limit > 0) limit = fopo_part_places(&s->part, limit);
  int status = fopo_index_search_within(ids, scores, counts, ix, Q, found, limit, 0);
  return fopo_shard_merge(ids, scores, counts, s, Q.rows, k, status);
}

/* What the queries leave out, as rows of this part, which are in *ids. */
static int own_left_out(fopo_left_out *rows, uint32_t **ids, const fopo_shard *s,
                        fopo_without without, size_t n) {
  size_t all = 0;
  for (size_t i = 0; i < n; i++) all += without.rows[i].n;
  uint32_t *next = *ids = fopo_alloc(all, sizeof **ids);
  if (next == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    rows[i] =
        fopo_left_out_of(next, fopo_shard_ids(next, s, without.rows[i].ids, without.rows[i].n));
    next += rows[i].n;
  }
  return FOPO_OK;
}

int fopo_shard_search_without(uint32_t *ids, float *scores, uint32_t *counts, fopo_shard *s,
                              fopo_index *ix, fopo_matrix Q, size_t k, fopo_without without) {
  if (s == NULL) return fopo_index_search_without(ids, scores, counts, ix, Q, k, 0, without);
  size_t found = fopo_shard_found(s, k), n = (Q.rows + without.each - 1) / without.each;
  if (found > s->part.rows) found = s->part.rows;
  uint32_t *own = NULL;
  fopo_left_out *rows = fopo_alloc(n, sizeof *rows);
  int status = rows != NULL ? own_left_out(rows, &own, s, without, n) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    without.rows = rows;
    status = fopo_index_search_without(ids, scores, counts, ix, Q, found, 0, without);
  }
  fopo_free(rows);
  fopo_free(own);
  return fopo_shard_merge(ids, scores, counts, s, Q.rows, k, status);
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

/* x = the sum over the items of X that the part holds, each times its weight; NULL: 1. */
static void sum_own(float *x, const fopo_shard *s, const uint32_t *ids, size_t n,
                    const float *weights) {
  memset(x, 0, s->items.cols * sizeof *x);
  for (size_t i = 0; i < n; i++) {
    uint32_t row = fopo_part_row(&s->part, ids[i]);
    if (row == UINT32_MAX) continue;
    const float *beta = fopo_matrix_row(s->items, row);
    float w = weights != NULL ? weights[ids[i]] : 1.0F;
    for (size_t j = 0; j < s->items.cols; j++) x[j] += w * beta[j];
  }
}

int fopo_shard_contexts(fopo_matrix x, const fopo_sessions *sessions, fopo_shard *s,
                        fopo_encoding how) {
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
      sum_own(fopo_matrix_row(x, row), s, fopo_csr_row(X, row), fopo_csr_count(X, row),
              how.weights);
    }
    status = fopo_comm_sum(fopo_matrix_row(x, first), n * x.cols);
    for (size_t i = 0; i < n && status == FOPO_OK; i++) {
      size_t count = fopo_csr_count(X, first + i);
      how.encoder->finish(fopo_matrix_row(x, first + i), x.cols, count);
    }
    if (status == FOPO_OK) {
      status = fopo_progress("contexts", (double)(first + n), (double)X->rows);
    }
    status = fopo_comm_agree(status);
  }
  return status;
}

/* ---- dealing ---- */

/* Items on their way between the ranks: from ranges of the catalogue to parts of it, and back.
 *
 * The place of an item in the norm order of all is its place among the own items, and how many of
 * each other rank come before it. So every rank sorts its own norms, sends them to all in rounds,
 * and counts as those of the others pass by: no rank ever has more of the order than its part. The
 * rows then go to the ranks that hold their places, in rounds too. */

/* Bytes that a rank sends in one round, about: counts are ints in MPI. */
static const size_t round_bytes = (size_t)32 << 20;

typedef struct {
  const fopo_shard_source *from;                        /* the own rows; not owned */
  size_t rows[FOPO_COMM_RANKS], first[FOPO_COMM_RANKS]; /* of each rank */
  size_t P, L;
  uint32_t *place;    /* [own rows] in the norm order of all; NULL: the way back */
  const uint32_t *id; /* [own rows] the way back: the item of each; not owned */
  fopo_matrix to;     /* where the rows that come are put; not owned, as the next */
  uint32_t *to_id;    /* [to.rows] and their items; NULL: not asked for */
  float *chunk;       /* [each, L] own rows of a round */
  char *send, *receive;
  uint32_t *next; /* [ranks] where a rank's rows go on in `send` */
} dealing;

static void dealing_done(dealing *d) {
  fopo_free(d->place);
  fopo_free(d->chunk);
  fopo_free(d->send);
  fopo_free(d->receive);
  fopo_free(d->next);
}

static size_t most_rows(const dealing *d) {
  size_t most = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) most = d->rows[r] > most ? d->rows[r] : most;
  return most;
}

/* How many rows each rank has, and of how many columns. */
static int count_rows(dealing *d) {
  size_t shape[2] = {d->from->rows, d->from->cols}, all[2 * FOPO_COMM_RANKS];
  int status = fopo_comm_gather(all, shape, sizeof shape);
  d->L = shape[1];
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    d->first[r] = d->P;
    d->rows[r] = all[2 * r];
    d->P += d->rows[r];
    if (all[2 * r + 1] == d->L) continue;
    status = fopo_fail(FOPO_ERR_ARGUMENT, "rank %zu has items of %zu numbers, rank %zu of %zu", r,
                       all[2 * r + 1], fopo_comm_own_rank(), d->L);
  }
  if (status == FOPO_OK && (d->P < fopo_comm_ranks() || d->P >= UINT32_MAX)) {
    status = fopo_fail(FOPO_ERR_ARGUMENT, "%zu items cannot be dealt out to %zu ranks", d->P,
                       fopo_comm_ranks());
  }
  return status;
}

/* ---- the norm order ---- */

/* The norms of the own rows, as an index has them. */
static int own_norms(float *norms, const dealing *d) {
  size_t n = d->rows[fopo_comm_own_rank()], each = round_bytes / (d->L * sizeof(float)) + 1;
  if (each > n) each = n;
  fopo_matrix chunk = {0};
  int status = fopo_matrix_init(&chunk, each + 1, d->L);
  for (size_t first = 0; first < n && status == FOPO_OK; first += each) {
    size_t count = n - first < each ? n - first : each;
    status = d->from->read(d->from->payload, chunk.x, first, count);
    for (size_t i = 0; i < count && status == FOPO_OK; i++) {
      double norm = fopo_norm(fopo_matrix_row(chunk, i), d->L);
      norms[first + i] = fopo_norm_up(norm);
      if (isfinite(norm)) continue;
      status = fopo_fail(FOPO_ERR_NUMERIC, "row %zu of the items is not finite",
                         d->first[fopo_comm_own_rank()] + first + i + 1);
    }
    if (status == FOPO_OK) status = fopo_progress("norms of items", (double)first, (double)n);
  }
  fopo_matrix_done(&chunk);
  return status;
}

/* Norms begin .. begin + m - 1 of another rank, in descending order, pass by: before[j] grows by
 * how many of that rank come before own norm j. *next: the first j of which that is not known yet.
 * Equal norms are in the order of the ids, which is that of the ranks; wins: the other one is
 * lower. */
static void pass_by(uint32_t *before, size_t *next, const float *own, size_t n, const float *other,
                    size_t begin, size_t m, int wins) {
  size_t j = *next;
  for (size_t k = 0; k < m; k++) {
    while (j < n && (own[j] > other[k] || (own[j] == other[k] && !wins))) {
      before[j++] += (uint32_t)(begin + k);
    }
  }
  *next = j;
}

/* before [own rows]: the places of the own norms, which descend, in the order of all. */
static int count_before(uint32_t *before, const dealing *d, const float *own, float *all,
                        size_t each) {
  size_t bytes[FOPO_COMM_RANKS], next[FOPO_COMM_RANKS] = {0};
  size_t ranks = fopo_comm_ranks(), rank = fopo_comm_own_rank(), n = d->rows[rank];
  int status = FOPO_OK;
  for (size_t begin = 0; begin < most_rows(d) && status == FOPO_OK; begin += each) {
    for (size_t r = 0; r < ranks; r++) {
      size_t left = d->rows[r] > begin ? d->rows[r] - begin : 0;
      bytes[r] = (left < each ? left : each) * sizeof *own;
    }
    status = fopo_comm_gather_parts(all, n > begin ? own + begin : own, bytes);
    const float *other = all;
    for (size_t r = 0; r < ranks && status == FOPO_OK; r++) {
      size_t m = bytes[r] / sizeof *own;
      if (r != rank) pass_by(before, &next[r], own, n, other, begin, m, r < rank);
      other += m;
    }
    if (status == FOPO_OK) {
      status = fopo_progress("ordering items", (double)begin, (double)most_rows(d));
    }
    status = fopo_comm_agree(status);
  }
  next[rank] = n;
  for (size_t r = 0; r < ranks; r++) {
    for (size_t j = next[r]; j < n; j++) before[j] += (uint32_t)d->rows[r];
  }
  for (size_t j = 0; j < n; j++) before[j] += (uint32_t)j;
  return status;
}

/* d->place, and the largest norm of all. Takes 24 bytes an own item while it sorts. */
static int find_places(dealing *d, float *top) {
  size_t ranks = fopo_comm_ranks(), n = d->rows[fopo_comm_own_rank()];
  size_t each = round_bytes / sizeof(float) / ranks + 1;
  float largest[FOPO_COMM_RANKS], *all = NULL, *norms = NULL;
  uint32_t *order = NULL, *before = NULL;
  if (each > most_rows(d) + 1) each = most_rows(d) + 1;
  int status = fopo_memory_suffices((uint64_t)n * 24, "the order of the items",
                                    "use more machines, or fewer items");
  if (status == FOPO_OK) {
    norms = fopo_alloc(n + 1, sizeof *norms);
    order = fopo_alloc(n + 1, sizeof *order);
    status = norms && order ? own_norms(norms, d) : FOPO_ERR_MEMORY;
  }
  if (status == FOPO_OK && n > 0) status = fopo_order_descending(order, norms, n);
  if (status == FOPO_OK) {
    before = fopo_alloc(n + 1, sizeof *before);
    d->place = fopo_alloc(n + 1, sizeof *d->place);
    all = fopo_alloc(each * ranks, sizeof *all);
    if (!before || !d->place || !all) status = FOPO_ERR_MEMORY;
  }
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(largest, norms, sizeof *norms);
  if (status == FOPO_OK) status = count_before(before, d, norms, all, each);
  *top = 0.0f;
  for (size_t r = 0; r < ranks && status == FOPO_OK; r++) *top = fmaxf(*top, largest[r]);
  for (size_t j = 0; j < n && status == FOPO_OK; j++) d->place[order[j]] = before[j];
  fopo_free(norms);
  fopo_free(order);
  fopo_free(before);
  fopo_free(all);
  return status;
}

/* ---- sending ---- */

enum { HEAD = 2 * sizeof(uint32_t) }; /* the row that it becomes, and its item; then its numbers */

static size_t row_bytes(const dealing *d) { return HEAD + d->L * sizeof(float); }

/* Where own row i goes: head {row there, item}, of the rank that is returned. */
static size_t address(const dealing *d, size_t i, uint32_t head[2]) {
  if (d->place != NULL) { /* dealt by norm */
    head[0] = (uint32_t)(d->place[i] / fopo_comm_ranks());
    head[1] = (uint32_t)(d->first[fopo_comm_own_rank()] + i);
    return d->place[i] % fopo_comm_ranks();
  }
  size_t id = d->id[i], r = id * fopo_comm_ranks() / d->P; /* or next to it */
  while (r + 1 < fopo_comm_ranks() && id >= d->first[r + 1]) r++;
  while (id < d->first[r]) r--;
  head[0] = (uint32_t)(id - d->first[r]);
  head[1] = (uint32_t)id;
  return r;
}

/* Fills `send` with the own rows begin .. begin + n - 1 by receiver; sent [ranks] bytes. */
static int pack(dealing *d, size_t *sent, size_t begin, size_t n) {
  size_t R = fopo_comm_ranks(), width = row_bytes(d), at = 0;
  uint32_t head[2];
  memset(sent, 0, R * sizeof *sent);
  for (size_t i = 0; i < n; i++) sent[address(d, begin + i, head)] += width;
  for (size_t r = 0; r < R; r++) {
    d->next[r] = (uint32_t)(at / width);
    at += sent[r];
  }
  int status = n > 0 ? d->from->read(d->from->payload, d->chunk, begin, n) : FOPO_OK;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    size_t r = address(d, begin + i, head);
    char *to = d->send + d->next[r]++ * width;
    memcpy(to, head, HEAD);
    memcpy(to + HEAD, d->chunk + i * d->L, d->L * sizeof(float));
  }
  return status;
}

static void unpack(const dealing *d, size_t bytes) {
  size_t width = row_bytes(d);
  for (size_t at = 0; at < bytes; at += width) {
    uint32_t head[2];
    memcpy(head, d->receive + at, HEAD);
    memcpy(fopo_matrix_row(d->to, head[0]), d->receive + at + HEAD, d->L * sizeof(float));
    if (d->to_id != NULL) d->to_id[head[0]] = head[1];
  }
}

/* One round: `each` rows of every rank at most, from `begin` of its range on. */
static int send_round(dealing *d, size_t begin, size_t each) {
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS], one[FOPO_COMM_RANKS], bytes = 0;
  size_t left = d->from->rows > begin ? d->from->rows - begin : 0;
  int status = pack(d, sent, begin, left < each ? left : each);
  if (status == FOPO_OK) status = fopo_progress("sending items", (double)begin, (double)d->P);
  status = fopo_comm_agree(status);
  for (size_t r = 0; r < fopo_comm_ranks(); r++) one[r] = sizeof *sent;
  if (status == FOPO_OK) status = fopo_comm_exchange(coming, one, sent, one);
  if (status == FOPO_OK) status = fopo_comm_exchange(d->receive, coming, d->send, sent);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) bytes += coming[r];
  if (status == FOPO_OK) unpack(d, bytes);
  return status;
}

/* All rows, to where they go, in rounds. `most`: rows of a rank. */
static int send_rows(dealing *d, size_t most, int status) {
  size_t each = round_bytes / row_bytes(d) / fopo_comm_ranks() + 1;
  if (each > most) each = most;
  d->chunk = fopo_alloc(each, d->L * sizeof *d->chunk);
  d->send = fopo_alloc(each, row_bytes(d));
  d->receive = fopo_alloc(each * fopo_comm_ranks(), row_bytes(d));
  d->next = fopo_alloc(fopo_comm_ranks(), sizeof *d->next);
  if (status == FOPO_OK && !(d->chunk && d->send && d->receive && d->next)) {
    status = FOPO_ERR_MEMORY;
  }
  status = fopo_comm_agree(status);
  for (size_t begin = 0; begin < most && status == FOPO_OK; begin += each) {
    status = send_round(d, begin, each);
  }
  return status;
}

/* ---- the part ---- */

/* Ids of a bucket of the guide: twice as many as there are ranks, so about two of them are in this
 * part. */
static unsigned guide_shift(void) {
  unsigned shift = 1;
  while (((size_t)1 << shift) < 2 * fopo_comm_ranks()) shift++;
  return shift;
}

static int reserve_part(fopo_shard *s, const dealing *d) {
  size_t R = fopo_comm_ranks(), rank = fopo_comm_own_rank(), rows = (d->P + R - 1 - rank) / R;
  unsigned shift = guide_shift();
  s->id = fopo_alloc(rows, sizeof *s->id);
  s->sorted = fopo_alloc(rows, sizeof *s->sorted);
  s->guide = fopo_alloc((d->P >> shift) + 2, sizeof *s->guide);
  if (!s->id || !s->sorted || !s->guide) return FOPO_ERR_MEMORY;
  s->part = (fopo_part){.P = d->P,
                        .rows = rows,
                        .rank = (uint32_t)rank,
                        .size = (uint32_t)R,
                        .id = s->id,
                        .sorted = s->sorted,
                        .guide = s->guide,
                        .shift = shift};
  return fopo_matrix_init(&s->items, rows, d->L);
}

/* The rows of one bucket by ascending item: few. */
static void sort_bucket(uint32_t *rows, size_t n, const uint32_t *id) {
  for (size_t i = 1; i < n; i++) {
    uint32_t one = rows[i];
    size_t j = i;
    for (; j > 0 && id[rows[j - 1]] > id[one]; j--) rows[j] = rows[j - 1];
    rows[j] = one;
  }
}

/* The look-up of items, from those of the rows: they are counted by bucket, then put there. */
static void index_part(fopo_shard *s) {
  size_t buckets = (s->part.P >> s->part.shift) + 2;
  uint32_t *guide = s->guide;
  for (size_t row = 0; row < s->part.rows; row++) guide[(s->id[row] >> s->part.shift) + 1]++;
  for (size_t b = 1; b < buckets; b++) guide[b] += guide[b - 1];
  for (size_t row = 0; row < s->part.rows; row++) {
    s->sorted[guide[s->id[row] >> s->part.shift]++] = (uint32_t)row;
  }
  memmove(guide + 1, guide, (s->part.P >> s->part.shift) * sizeof *guide + sizeof *guide);
  guide[0] = 0; /* ends have become beginnings */
  for (size_t b = 0; b + 1 < buckets; b++) {
    sort_bucket(s->sorted + guide[b], guide[b + 1] - guide[b], s->id);
  }
}

int fopo_shard_deal_from(fopo_shard *s, const fopo_shard_source *from) {
  dealing d = {.from = from};
  *s = (fopo_shard){0};
  int status = count_rows(&d);
  if (status == FOPO_OK) status = find_places(&d, &s->top_norm);
  if (status == FOPO_OK) {
    status = reserve_part(s, &d);
    d.to = s->items;
    d.to_id = s->id;
    status = send_rows(&d, most_rows(&d), status);
  }
  if (status == FOPO_OK) index_part(s);
  dealing_done(&d);
  if (status != FOPO_OK) fopo_shard_done(s);
  return status;
}

static int copy_rows(void *payload, float *to, size_t first, size_t n) {
  const fopo_matrix *m = payload;
  for (size_t i = 0; i < n; i++) {
    memcpy(to + i * m->cols, fopo_matrix_row(*m, first + i), m->cols * sizeof *to);
  }
  return FOPO_OK;
}

int fopo_shard_deal(fopo_shard *s, fopo_matrix mine) {
  fopo_shard_source from = {copy_rows, &mine, mine.rows, mine.cols};
  return fopo_shard_deal_from(s, &from);
}

int fopo_shard_range(fopo_matrix *range, const fopo_shard *s) {
  fopo_matrix mine = s->items;
  fopo_shard_source from = {copy_rows, &mine, mine.rows, mine.cols};
  dealing d = {.from = &from, .P = s->part.P, .L = mine.cols, .id = s->id};
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    d.rows[r] = fopo_comm_share(&d.first[r], d.P, r, fopo_comm_ranks());
  }
  int status = fopo_matrix_init(range, d.rows[fopo_comm_own_rank()], d.L);
  d.to = *range;
  status = send_rows(&d, (d.P + fopo_comm_ranks() - 1) / fopo_comm_ranks(), status);
  dealing_done(&d);
  if (status != FOPO_OK) fopo_matrix_done(range);
  return status;
}
