#include "data/shard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/order.h"
#include "mips/scan.h"
#include "mips/topk.h"

/* Bytes that a rank sends in one round, about: counts are ints in MPI. */
static const size_t round_bytes = (size_t)32 << 20;

static size_t ranks(void) { return (size_t)fopo_comm_size(); }
static size_t own_rank(void) { return (size_t)fopo_comm_rank(); }

void fopo_shard_done(fopo_shard *s) {
  fopo_matrix_done(&s->items);
  fopo_free(s->id);
  fopo_free(s->sorted);
  fopo_free(s->guide);
  fopo_free(s->scratch);
  *s = (fopo_shard){0};
}

/* ---- dealing ---- */

/* A catalogue on its way: who holds which rows now, and where they go. */
typedef struct {
  fopo_matrix mine;
  size_t rows[FOPO_COMM_RANKS], first[FOPO_COMM_RANKS]; /* of each rank's range */
  size_t P, L;
  float *norms;       /* [P] by place */
  uint32_t *order;    /* [P] the item at each place */
  uint32_t *place;    /* [P] the place of each item */
  const uint32_t *id; /* the way back: of each own row; NULL: they are dealt by norm. Not owned */
  fopo_matrix to;     /* where the rows that come are put; not owned */
  char *send, *receive;
  uint32_t *next; /* [ranks] where a rank's rows go on in `send` */
} dealing;

static void dealing_done(dealing *d) {
  fopo_free(d->norms);
  fopo_free(d->order);
  fopo_free(d->place);
  fopo_free(d->send);
  fopo_free(d->receive);
  fopo_free(d->next);
}

/* How many rows each rank has, and of how many columns. */
static int count_rows(dealing *d) {
  size_t shape[2] = {d->mine.rows, d->mine.cols}, all[2 * FOPO_COMM_RANKS];
  int status = fopo_comm_gather(all, shape, sizeof shape);
  d->L = shape[1];
  for (size_t r = 0; r < ranks() && status == FOPO_OK; r++) {
    d->first[r] = d->P;
    d->rows[r] = all[2 * r];
    d->P += d->rows[r];
    if (all[2 * r + 1] == d->L) continue;
    status = fopo_fail(FOPO_ERR_ARGUMENT, "rank %zu has items of %zu numbers, rank %zu of %zu", r,
                       all[2 * r + 1], own_rank(), d->L);
  }
  if (status == FOPO_OK && (d->P < ranks() || d->P >= UINT32_MAX)) {
    status =
        fopo_fail(FOPO_ERR_ARGUMENT, "%zu items cannot be dealt out to %zu ranks", d->P, ranks());
  }
  return status;
}

/* norms [P] of all items by id, from those of every rank's range, in rounds. */
static int gather_norms(dealing *d, const float *own) {
  size_t each = round_bytes / sizeof *own / ranks() + 1, most = 0, bytes[FOPO_COMM_RANKS];
  float *all = fopo_alloc(each * ranks(), sizeof *all);
  int status = fopo_comm_agree(all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  for (size_t r = 0; r < ranks(); r++) most = d->rows[r] > most ? d->rows[r] : most;
  for (size_t begin = 0; begin < most && status == FOPO_OK; begin += each) {
    size_t left = d->mine.rows > begin ? d->mine.rows - begin : 0, at = 0;
    for (size_t r = 0; r < ranks(); r++) {
      size_t n = d->rows[r] > begin ? d->rows[r] - begin : 0;
      bytes[r] = (n < each ? n : each) * sizeof *own;
    }
    status = fopo_comm_gather_parts(all, left > 0 ? own + begin : own, bytes);
    for (size_t r = 0; r < ranks() && status == FOPO_OK; r++) {
      memcpy(d->norms + d->first[r] + begin, all + at, bytes[r]);
      at += bytes[r] / sizeof *own;
    }
  }
  fopo_free(all);
  return status;
}

/* The norms of the own rows, as an index has them. */
static int own_norms(float *norms, const dealing *d) {
  for (size_t i = 0; i < d->mine.rows; i++) {
    double norm = fopo_scan_norm(fopo_matrix_row(d->mine, i), d->L);
    norms[i] = fopo_scan_up(norm);
    if (isfinite(norm)) continue;
    return fopo_fail(FOPO_ERR_NUMERIC, "row %zu of the items is not finite",
                     d->first[own_rank()] + i + 1);
  }
  return FOPO_OK;
}

/* order and norms [P], the same on every rank. */
static int find_order(dealing *d) {
  float *own = fopo_alloc(d->mine.rows + 1, sizeof *own);
  int status = fopo_memory_suffices((uint64_t)d->P * 28, "the order of the items",
                                    "use more machines, or fewer items");
  if (status == FOPO_OK) {
    d->norms = fopo_alloc(d->P, sizeof *d->norms);
    d->order = fopo_alloc(d->P, sizeof *d->order);
    d->place = fopo_alloc(d->P, sizeof *d->place);
    status = own && d->norms && d->order && d->place ? own_norms(own, d) : FOPO_ERR_MEMORY;
  }
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = gather_norms(d, own);
  fopo_free(own);
  if (status == FOPO_OK) status = fopo_order_descending(d->order, d->norms, d->P);
  for (size_t p = 0; p < d->P && status == FOPO_OK; p++) d->place[d->order[p]] = (uint32_t)p;
  return fopo_comm_agree(status);
}

/* Ids of a bucket of the guide: twice as many as there are ranks, so two of them are here. */
static unsigned guide_shift(void) {
  unsigned shift = 1;
  while (((size_t)1 << shift) < 2 * ranks()) shift++;
  return shift;
}

/* What lies where: the item of each row, and the look-up of items. */
static int list_part(fopo_shard *s, const dealing *d) {
  size_t R = ranks(), rank = own_rank(), rows = (d->P + R - 1 - rank) / R, n = 0;
  unsigned shift = guide_shift();
  size_t buckets = (d->P >> shift) + 2;
  s->id = fopo_alloc(rows, sizeof *s->id);
  s->sorted = fopo_alloc(rows, sizeof *s->sorted);
  s->guide = fopo_alloc(buckets, sizeof *s->guide);
  if (!s->id || !s->sorted || !s->guide) return FOPO_ERR_MEMORY;
  s->top_norm = d->norms[0];
  for (size_t row = 0; row < rows; row++) s->id[row] = d->order[row * R + rank];
  for (size_t a = 0, bucket = 0; a < d->P; a++) {
    for (; bucket <= a >> shift; bucket++) s->guide[bucket] = (uint32_t)n;
    if (d->place[a] % R != rank) continue;
    s->sorted[n++] = (uint32_t)(d->place[a] / R);
  }
  for (size_t bucket = ((d->P - 1) >> shift) + 1; bucket < buckets; bucket++) {
    s->guide[bucket] = (uint32_t)n;
  }
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

/* A row on its way: the row that it becomes, then its numbers. */
static size_t row_bytes(const dealing *d) { return sizeof(uint32_t) + d->L * sizeof(float); }

/* Where row i of `mine` goes: *row of the rank that is returned. */
static size_t address(const dealing *d, size_t i, uint32_t *row) {
  if (d->place != NULL) { /* dealt by norm */
    uint32_t place = d->place[d->first[own_rank()] + i];
    *row = (uint32_t)(place / ranks());
    return place % ranks();
  }
  size_t id = d->id[i], r = id * ranks() / d->P; /* or next to it */
  while (r + 1 < ranks() && id >= d->first[r + 1]) r++;
  while (id < d->first[r]) r--;
  *row = (uint32_t)(id - d->first[r]);
  return r;
}

/* Fills `send` with the own rows begin .. begin + n - 1 by receiver; sent [ranks] bytes. */
static void pack(dealing *d, size_t *sent, size_t begin, size_t n) {
  size_t R = ranks(), width = row_bytes(d), at = 0;
  uint32_t row;
  memset(sent, 0, R * sizeof *sent);
  for (size_t i = 0; i < n; i++) sent[address(d, begin + i, &row)] += width;
  for (size_t r = 0; r < R; r++) {
    d->next[r] = (uint32_t)(at / width);
    at += sent[r];
  }
  for (size_t i = 0; i < n; i++) {
    size_t r = address(d, begin + i, &row);
    char *to = d->send + d->next[r]++ * width;
    memcpy(to, &row, sizeof row);
    memcpy(to + sizeof row, fopo_matrix_row(d->mine, begin + i), d->L * sizeof(float));
  }
}

static void unpack(const dealing *d, size_t bytes) {
  size_t width = row_bytes(d);
  for (size_t at = 0; at < bytes; at += width) {
    uint32_t row;
    memcpy(&row, d->receive + at, sizeof row);
    memcpy(fopo_matrix_row(d->to, row), d->receive + at + sizeof row, d->L * sizeof(float));
  }
}

/* One round: `each` rows of every rank at most, from `begin` of its range on. */
static int send_round(dealing *d, size_t begin, size_t each) {
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS], one[FOPO_COMM_RANKS], bytes = 0;
  size_t left = d->mine.rows > begin ? d->mine.rows - begin : 0;
  pack(d, sent, begin, left < each ? left : each);
  for (size_t r = 0; r < ranks(); r++) one[r] = sizeof *sent;
  int status = fopo_comm_exchange(coming, one, sent, one);
  if (status == FOPO_OK) status = fopo_comm_exchange(d->receive, coming, d->send, sent);
  for (size_t r = 0; r < ranks(); r++) bytes += coming[r];
  if (status == FOPO_OK) unpack(d, bytes);
  if (status == FOPO_OK) status = fopo_progress("sending items", (double)begin, (double)d->P);
  return fopo_comm_agree(status);
}

/* All rows, to where they go, in rounds. `most`: rows of a rank. */
static int send_rows(dealing *d, size_t most, int status) {
  size_t each = round_bytes / row_bytes(d) / ranks() + 1;
  if (each > most) each = most;
  d->send = fopo_alloc(each, row_bytes(d));
  d->receive = fopo_alloc(each * ranks(), row_bytes(d));
  d->next = fopo_alloc(ranks(), sizeof *d->next);
  if (status == FOPO_OK && !(d->send && d->receive && d->next)) status = FOPO_ERR_MEMORY;
  status = fopo_comm_agree(status);
  for (size_t begin = 0; begin < most && status == FOPO_OK; begin += each) {
    status = send_round(d, begin, each);
  }
  return status;
}

static size_t most_rows(const dealing *d) {
  size_t most = 0;
  for (size_t r = 0; r < ranks(); r++) most = d->rows[r] > most ? d->rows[r] : most;
  return most;
}

int fopo_shard_deal(fopo_shard *s, fopo_matrix mine) {
  dealing d = {.mine = mine};
  *s = (fopo_shard){0};
  int status = count_rows(&d);
  if (status == FOPO_OK) status = find_order(&d);
  if (status == FOPO_OK) {
    status = list_part(s, &d);
    d.to = s->items;
    status = send_rows(&d, most_rows(&d), status);
  }
  dealing_done(&d);
  if (status != FOPO_OK) fopo_shard_done(s);
  return status;
}

int fopo_shard_range(fopo_matrix *range, const fopo_shard *s) {
  dealing d = {.mine = s->items, .P = s->part.P, .L = s->items.cols, .id = s->id};
  for (size_t r = 0; r < ranks(); r++) {
    d.rows[r] = fopo_comm_share(&d.first[r], d.P, r, ranks());
  }
  int status = fopo_matrix_init(range, d.rows[own_rank()], d.L);
  d.to = *range;
  status = send_rows(&d, (d.P + ranks() - 1) / ranks(), status);
  dealing_done(&d);
  if (status != FOPO_OK) fopo_matrix_done(range);
  return status;
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

int fopo_shard_csr(fopo_csr *own, const fopo_shard *s, const fopo_csr *Y) {
  size_t nnz = 0, all = fopo_csr_nnz(Y);
  for (size_t i = 0; i < all; i++) nnz += fopo_part_row(&s->part, Y->ids[i]) != UINT32_MAX;
  int status = fopo_csr_init(own, Y->rows, s->part.rows, nnz, 0);
  if (status != FOPO_OK) return status;
  size_t at = 0;
  for (size_t n = 0; n < Y->rows; n++) {
    size_t begin = at;
    for (size_t i = Y->indptr[n]; i < Y->indptr[n + 1]; i++) {
      uint32_t row = fopo_part_row(&s->part, Y->ids[i]);
      if (row != UINT32_MAX) own->ids[at++] = row;
    }
    sort_small(own->ids + begin, at - begin);
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
    for (size_t r = 0; r < ranks(); r++) {
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
  for (size_t r = 0; r < ranks(); r++) {
    bytes[r] = fopo_comm_share(&first, n, r, ranks()) * width * sizeof(uint64_t);
  }
}

/* Each rank merges the lists of its share of the contexts, and all get the answers. */
static int exchange_keys(uint64_t *keys, uint64_t *lists, size_t n, size_t found, size_t k) {
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS], first;
  size_t own = fopo_comm_share(&first, n, own_rank(), ranks());
  list_bytes(sent, n, found);
  for (size_t r = 0; r < ranks(); r++) coming[r] = sent[own_rank()];
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
  size_t share = n / ranks() + 1;
  if (status == FOPO_OK) status = reserve(s, (n * k + share * ranks() * found) * sizeof(uint64_t));
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
  double *all = fopo_alloc(n * ranks(), sizeof *all);
  if (status == FOPO_OK && all == NULL) status = FOPO_ERR_MEMORY;
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(all, log_z, n * sizeof *all);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    double top = -INFINITY, sum = 0.0;
    for (size_t r = 0; r < ranks(); r++) top = fmax(top, all[r * n + i]);
    for (size_t r = 0; r < ranks(); r++) sum += exp(all[r * n + i] - top);
    log_z[i] = top + log(sum);
    double share = exp(all[own_rank() * n + i] - log_z[i]);
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
