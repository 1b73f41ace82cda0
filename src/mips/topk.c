/* Selection by a threshold and a buffer: what passes the threshold is appended; when the buffer is
 * full, the k best are kept, and those too near to the k-th to tell, and the threshold is raised.
 * Of a stream in random order about k (1 + ln(P / k)) items pass, and one that passes costs a few
 * comparisons, less than the log k exchanges of a heap. Dots, which read a row of the catalogue
 * each, are left to the end: of all that pass only about k need one. */
#include "mips/topk.h"

#include <math.h>

#include "mips/index.h"

enum {
  CHUNK = 64, /* scores of one call of max: one good one among them costs few comparisons */
  DOTS = 256  /* of one call of gather_dot */
};

void fopo_topk_init(fopo_topk *t, uint64_t *keys, size_t room, size_t k, const float *q) {
  *t = (fopo_topk){
      .keys = keys, .k = k, .room = room, .q = q, .least = -INFINITY, .floor = -INFINITY};
}

/* Gives n keys their dots; gather_dot's is dot's, to the bit. */
static void rescore(uint64_t *keys, size_t n, const float *q, const fopo_kernels *kernels,
                    fopo_matrix items) {
  uint32_t ids[DOTS];
  float s[DOTS];
  for (size_t start = 0; start < n; start += DOTS, keys += DOTS) {
    size_t count = n - start < DOTS ? n - start : DOTS;
    for (size_t i = 0; i < count; i++) ids[i] = fopo_topk_id(keys[i]);
    kernels->gather_dot(s, items.x, items.ld, ids, count, q, items.cols);
    for (size_t i = 0; i < count; i++) keys[i] = fopo_topk_key(s[i], ids[i]);
  }
}

/* Of n keys the k largest, which then come first; gives their number. */
static size_t keep_largest(uint64_t *keys, size_t n, size_t k, const fopo_kernels *kernels) {
  return n <= k ? n : kernels->partition_at_least(keys, n, kernels->kth(keys, n, k));
}

/* Drops what cannot belong to the k best of n > k, and gives the k-th largest score. */
static float narrow(fopo_topk *t, const fopo_kernels *kernels) {
  float kth = fopo_topk_score(kernels->kth(t->keys, t->n, t->k));
  t->n = kernels->partition_at_least(t->keys, t->n, fopo_topk_key(kth - 2.0f * t->slack, UINT32_MAX));
  return kth;
}

/* Where too many keys are too near to the k-th to tell (equal items), their dots decide. */
void fopo_topk_settle(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items) {
  if (t->n <= t->k) return;
  float least = narrow(t, kernels) - t->slack;
  if (t->n > t->k + (t->room - t->k) / 2) {
    rescore(t->keys, t->n, t->q, kernels, items);
    t->n = keep_largest(t->keys, t->n, t->k, kernels);
    least = fopo_topk_score(kernels->kth(t->keys, t->n, t->k));
    t->slack = t->coming;
  }
  fopo_topk_raise(t, least);
}

void fopo_topk_offer(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items, const float *s,
                     const uint32_t *ids, uint32_t first, size_t n) {
  for (size_t start = 0; start < n; start += CHUNK) {
    size_t end = n - start < CHUNK ? n : start + CHUNK;
    if (kernels->max(s + start, end - start) < t->floor) continue;
    for (size_t j = start; j < end; j++) {
      fopo_topk_push(t, kernels, items, s[j], ids != NULL ? ids[j] : first + (uint32_t)j);
    }
  }
}

int fopo_topk_beats(const fopo_topk *t, float bound) {
  uint64_t least = fopo_topk_key(bound + 1.01f * t->slack, 0); /* the largest key of that score */
  size_t above = 0;
  for (size_t i = 0; i < t->n; i++) above += t->keys[i] > least;
  return above >= t->k;
}

uint32_t fopo_topk_finish(fopo_topk *t, uint32_t *ids, float *scores, const fopo_kernels *kernels,
                          fopo_matrix items) {
  if (t->n > t->k) narrow(t, kernels);
  rescore(t->keys, t->n, t->q, kernels, items);
  t->n = keep_largest(t->keys, t->n, t->k, kernels);
  kernels->sort(t->keys, t->n);
  for (size_t i = 0; i < t->k; i++) {
    ids[i] = i < t->n ? fopo_topk_id(t->keys[i]) : FOPO_NO_ITEM;
    scores[i] = i < t->n ? fopo_topk_score(t->keys[i]) : -INFINITY;
  }
  return (uint32_t)t->n;
}

/* Moves the keys above `bound` to the front; gives their number. */
static size_t part(uint64_t *keys, size_t n, uint64_t bound) {
  size_t above = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t key = keys[i];
    keys[i] = keys[above];
    keys[above] = key;
    above += key > bound;
  }
  return above;
}

/* The k-th largest dot is within slack of the k-th largest score. So who scores two slacks above
 * that is one of the k best, and the dots of the others decide who else is. */
uint32_t fopo_topk_finish_set(fopo_topk *t, uint32_t *ids, const fopo_kernels *kernels,
                              fopo_matrix items) {
  if (t->n > t->k) {
    float sure = narrow(t, kernels) + 2.02f * t->slack;
    size_t taken = part(t->keys, t->n, fopo_topk_key(sure, 0));
    uint64_t *rest = t->keys + taken;
    rescore(rest, t->n - taken, t->q, kernels, items);
    t->n = taken + keep_largest(rest, t->n - taken, t->k - taken, kernels);
  }
  for (size_t i = 0; i < t->n; i++) t->keys[i] = (uint32_t)t->keys[i]; /* the complement of an id */
  kernels->sort(t->keys, t->n);
  for (size_t i = 0; i < t->k; i++) ids[i] = i < t->n ? fopo_topk_id(t->keys[i]) : FOPO_NO_ITEM;
  return (uint32_t)t->n;
}
