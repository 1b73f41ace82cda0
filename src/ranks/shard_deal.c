/* Items on their way between the ranks: from ranges of the catalogue to parts of it, and back.
 *
 * The place of an item in the norm order of all is its place among the own items, and how many of
 * each other rank come before it. So every rank sorts its own norms, sends them to all in rounds,
 * and counts as those of the others pass by: no rank ever has more of the order than its part. The
 * rows then go to the ranks that hold their places, in rounds too. */
#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "ranks/shard.h"
#include "mips/order.h"
#include "mips/scan.h"

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
      double norm = fopo_scan_norm(fopo_matrix_row(chunk, i), d->L);
      norms[first + i] = fopo_scan_up(norm);
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

/* Ids of a bucket of the guide: twice as many as there are ranks, so two of them are here. */
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
