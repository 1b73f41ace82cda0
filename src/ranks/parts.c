#include "ranks/parts.h"

#include <string.h>

#include "comm/comm.h"
#include "core/status.h"
#include "device/arrays.h"
#include "kernels/kernels.h"

/* ---- memory ---- */

/* Floats of V, stats and count of a context. */
static size_t answer_width(size_t L) { return L + FOPO_STATS + 1; }

void fopo_parts_init(fopo_parts *p, fopo_shard *shard, const fopo_shared *shared) {
  *p = (fopo_parts){.shard = shard, .part = shard != NULL ? &shard->part : NULL, .shared = shared};
  fopo_parts_collective(p, 0);
}

/* The arrays for parts of that many contexts. */
static void list(fopo_buffer to[FOPO_PARTS_ARRAYS], fopo_parts *p, size_t part, size_t L) {
  size_t ranks = fopo_comm_ranks(), share = part / ranks + 1;
  size_t width = answer_width(L), sums = p->part != NULL ? fopo_sums_width(L) : 0;
  size_t wider = width > sums ? width : sums;
  const fopo_buffer all[FOPO_PARTS_ARRAYS] = {FOPO_HOST_BUFFER(p->mine, share * width + 1),
                                              FOPO_HOST_BUFFER(p->all, (share * wider + 1) * ranks),
                                              FOPO_BUFFER(p->sums, part * sums),
                                              FOPO_BUFFER(p->counts, sums > 0 ? part : 0)};
  memcpy(to, all, sizeof all);
}

int fopo_parts_reserve(fopo_parts *p, fopo_device *d, size_t part, size_t L) {
  fopo_buffer all[FOPO_PARTS_ARRAYS];
  if (fopo_parts_is_alone(p)) return FOPO_OK;
  list(all, p, part, L);
  return fopo_reserve(d, all, p->room, FOPO_PARTS_ARRAYS);
}

void fopo_parts_done(fopo_parts *p, fopo_device *d) {
  fopo_buffer all[FOPO_PARTS_ARRAYS];
  list(all, p, 0, 0);
  fopo_give_back(d, all, p->room, FOPO_PARTS_ARRAYS);
  fopo_fetched_done(&p->fetched);
  *p = (fopo_parts){.ops = &fopo_parts_alone};
}

static int fetch(fopo_parts *p, fopo_device *d, fopo_matrix X, const uint32_t *rows) {
  size_t n = X.rows;
  int status = fopo_fetched_reserve(&p->fetched, p->shared, n);
  uint32_t *wanted = p->fetched.rows;
  if (status == FOPO_OK) status = d->ops->get(d, wanted, rows, n * sizeof *rows);
  status = fopo_fetch(&p->fetched, p->shared, p->shard, wanted, n, status);
  return status == FOPO_OK ? d->ops->put(d, X.x, p->fetched.X, n * X.cols * sizeof *X.x) : status;
}

/* ---- one process alone ---- */

static void begin_alone(void) {}

static int end_alone(int status) { return status; }

static size_t share_alone(size_t *first, size_t n) {
  *first = 0;
  return n;
}

static int keep_alone(fopo_parts *p, fopo_device *d, const fopo_samples *samples,
                      fopo_device_batch *batch) {
  (void)p, (void)d, (void)samples, (void)batch;
  return FOPO_OK;
}

static int score_alone(fopo_parts *p, fopo_device *d, const fopo_candidate_sets *sets,
                       const fopo_candidate_sets *host, const fopo_rows *items,
                       const fopo_device_batch *batch) {
  (void)p, (void)host;
  return d->ops->scores(d, sets, items, batch);
}

static int gather_alone(fopo_device *d, const fopo_candidate_sets *sets,
                        const fopo_candidate_sets *host, size_t count, int status) {
  (void)d, (void)sets, (void)host, (void)count;
  return status;
}

static int join_alone(fopo_parts *p, fopo_device *d, const fopo_span *part, uint32_t *counts,
                      int status) {
  (void)p, (void)d, (void)part, (void)counts;
  return status;
}

const fopo_parts_ops fopo_parts_alone = {.begin = begin_alone,
                                         .end = end_alone,
                                         .share = share_alone,
                                         .fetch = fetch,
                                         .keep_draws = keep_alone,
                                         .score = score_alone,
                                         .share_searches = share_alone,
                                         .gather_sets = gather_alone,
                                         .join = join_alone};

/* ---- exchanging ---- */

/* bytes [ranks]: those of every rank's share of n contexts, `width` floats each. */
static void list_bytes(size_t *bytes, size_t n, size_t width) {
  size_t ranks = fopo_comm_ranks(), first;
  for (size_t r = 0; r < ranks; r++) {
    bytes[r] = fopo_comm_share(&first, n, r, ranks) * width * sizeof(float);
  }
}

/* Every rank's share of x [n, width], which it has in its place, goes to all ranks. */
static int gather_words(uint32_t *x, size_t n, size_t width) {
  size_t bytes[FOPO_COMM_RANKS], first;
  list_bytes(bytes, n, width);
  fopo_comm_own_share(&first, n);
  return fopo_comm_gather_parts(x, x + first * width, bytes);
}

/* The sums of this rank's share of the contexts, from all ranks, become their V and stats. */
static int join_sums(fopo_parts *x, fopo_device *d, const fopo_span *part) {
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS], first;
  size_t ranks = fopo_comm_ranks(), L = part->V.cols, width = fopo_sums_width(L);
  size_t own = fopo_comm_own_share(&first, part->n);
  list_bytes(sent, part->n, width);
  for (size_t r = 0; r < ranks; r++) coming[r] = own * width * sizeof(float);
  int status = fopo_comm_exchange(x->all, coming, x->sums, sent);
  if (status != FOPO_OK || own == 0) return status;
  fopo_estimate e = {.V = part->V.x + first * L, .stats = part->stats + first * FOPO_STATS};
  fopo_device_batch batch = {.B = own, .L = L};
  return d->ops->join_sums(d, &e, x->all, ranks, &batch);
}

/* Copies V, stats and counts of `own` contexts from place `first` of the part on between the device
 * and `block` on the host, where they lie one array behind the other. */
static int copy_answers(float *block, fopo_device *d, const fopo_span *part, uint32_t *counts,
                        size_t first, size_t own, int to_device) {
  size_t L = part->V.cols;
  struct {
    char *device;
    size_t width; /* of a context, in floats */
  } arrays[] = {{(char *)(part->V.x + first * L), L},
                {(char *)(part->stats + first * FOPO_STATS), FOPO_STATS},
                {counts == NULL ? NULL : (char *)(counts + first), 1}};
  int status = FOPO_OK;
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays && status == FOPO_OK; i++) {
    size_t n = own * arrays[i].width;
    if (arrays[i].device != NULL && n > 0) {
      status = to_device ? d->ops->put(d, arrays[i].device, block, n * sizeof *block)
                         : d->ops->get(d, block, arrays[i].device, n * sizeof *block);
    }
    block += n;
  }
  return status;
}

/* Every rank's status, one word, and its answers to all ranks. So it is an agreement, too: every
 * rank that has agreed before comes here, and nowhere else. */
static int gather_answers(fopo_parts *x, fopo_device *d, const fopo_span *part, uint32_t *counts,
                          int status) {
  size_t bytes[FOPO_COMM_RANKS], first;
  size_t ranks = fopo_comm_ranks(), width = answer_width(part->V.cols);
  size_t own = fopo_comm_own_share(&first, part->n);
  int all[FOPO_COMM_RANKS];
  if (status == FOPO_OK) status = copy_answers(x->mine + 1, d, part, counts, first, own, 0);
  memcpy(x->mine, &status, sizeof status);
  list_bytes(bytes, part->n, width);
  for (size_t r = 0; r < ranks; r++) bytes[r] += sizeof status;
  int sent = fopo_comm_gather_parts(x->all, x->mine, bytes);
  if (sent != FOPO_OK) return sent;
  for (size_t r = 0; r < ranks; r++) {
    fopo_comm_share(&first, part->n, r, ranks);
    memcpy(&all[r], x->all + first * width + r, sizeof all[r]);
  }
  status = fopo_comm_heed(all);
  for (size_t r = 0; r < ranks && status == FOPO_OK; r++) {
    own = fopo_comm_share(&first, part->n, r, ranks);
    if (r == fopo_comm_own_rank()) continue;
    status = copy_answers(x->all + first * width + r + 1, d, part, counts, first, own, 1);
  }
  return status;
}

static int join_split(fopo_parts *p, fopo_device *d, const fopo_span *part, uint32_t *counts,
                      int status) {
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? gather_answers(p, d, part, counts, FOPO_OK) : status;
}

static int join_dealt(fopo_parts *p, fopo_device *d, const fopo_span *part, uint32_t *counts,
                      int status) {
  (void)counts; /* every rank has found the same candidates */
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? gather_answers(p, d, part, NULL, join_sums(p, d, part)) : status;
}

/* ---- whole catalogues: each rank has its share of the contexts ---- */

/* Each rank has searched its share of `count` contexts; all sets go to all ranks, whose candidate
 * caches stay the same. */
static int gather_sets(fopo_device *d, const fopo_candidate_sets *sets,
                       const fopo_candidate_sets *h, size_t count, int status) {
  size_t k = sets->k, first, n = fopo_comm_own_share(&first, count);
  if (status == FOPO_OK) status = d->ops->get(d, h->ids + first * k, sets->ids, n * k * 4);
  if (status == FOPO_OK) status = d->ops->get(d, h->counts + first, sets->counts, n * 4);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = gather_words(h->ids, count, k);
  if (status == FOPO_OK) status = gather_words(h->counts, count, 1);
  if (status == FOPO_OK) status = d->ops->put(d, sets->ids, h->ids, count * k * 4);
  return status == FOPO_OK ? d->ops->put(d, sets->counts, h->counts, count * 4) : status;
}

static const fopo_parts_ops split = {.begin = fopo_comm_begin,
                                     .end = fopo_comm_end,
                                     .share = fopo_comm_own_share,
                                     .fetch = fetch,
                                     .keep_draws = keep_alone,
                                     .score = score_alone,
                                     .share_searches = fopo_comm_own_share,
                                     .gather_sets = gather_sets,
                                     .join = join_split};

/* ---- catalogues that are dealt out: each rank has its part of every context's draws ---- */

static int keep_dealt(fopo_parts *p, fopo_device *d, const fopo_samples *samples,
                      fopo_device_batch *batch) {
  int status = d->ops->keep_part(d, samples, p->counts, p->part, batch);
  batch->counts = p->counts;
  return status;
}

/* scores [k] of the candidates ids that the part holds, and 0 for those of other parts. */
static void score_own(float *scores, const fopo_shard *s, const uint32_t *ids, size_t found,
                      size_t k, const float *q, const fopo_score_row *sparse) {
  const fopo_kernels *kernels = fopo_kernels_get();
  memset(scores, 0, k * sizeof *scores);
  for (size_t i = 0; i < found; i++) {
    uint32_t row = fopo_part_row(&s->part, ids[i]);
    if (row == UINT32_MAX) continue;
    float f = kernels->dot(fopo_matrix_row(s->items, row), q, s->items.cols);
    scores[i] = fopo_score_sum(f, fopo_score_of(sparse, row));
  }
}

/* Every candidate is in one part, so the sum over the ranks is exact. */
static int score_dealt(fopo_parts *p, fopo_device *d, const fopo_candidate_sets *sets,
                       const fopo_candidate_sets *h, const fopo_rows *items,
                       const fopo_device_batch *batch) {
  size_t k = sets->k, n = batch->B, L = batch->L;
  fopo_sparse_scores sparse = fopo_batch_scores(batch);
  (void)items;
  int status = d->ops->get(d, h->ids, sets->ids, n * k * sizeof *h->ids);
  if (status == FOPO_OK) status = d->ops->get(d, h->counts, sets->counts, n * sizeof *h->counts);
  for (size_t b = 0; b < n && status == FOPO_OK; b++) { /* such a device works in host memory */
    fopo_score_row row = fopo_score_row_of(&sparse, b);
    score_own(h->scores + b * k, p->shard, h->ids + b * k, h->counts[b], k, batch->Q + b * L, &row);
  }
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_sum(h->scores, n * k);
  return status == FOPO_OK ? d->ops->put(d, sets->scores, h->scores, n * k * sizeof *h->scores)
                           : status;
}

static const fopo_parts_ops dealt = {.begin = fopo_comm_begin,
                                     .end = fopo_comm_end,
                                     .share = share_alone,
                                     .fetch = fetch,
                                     .keep_draws = keep_dealt,
                                     .score = score_dealt,
                                     .share_searches = share_alone,
                                     .gather_sets = gather_alone,
                                     .join = join_dealt};

void fopo_parts_collective(fopo_parts *p, int on) {
  int together = (on || p->shared != NULL) && fopo_comm_ranks() > 1;
  p->ops = p->part != NULL ? &dealt : together ? &split : &fopo_parts_alone;
}
