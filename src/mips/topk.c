/* Selection by a threshold and a buffer: scores that reach the threshold are appended; when the
 * buffer is full, the k best and those too close to the k-th to tell are kept, and the threshold is
 * raised. Of P items in random order about k (1 + ln(P / k)) pass, and one that passes costs a few
 * comparisons, less than the log k exchanges of a heap. Dots, each of which reads a row of the
 * catalogue, are left to the end: of all items that pass only about k need one. */
#include "mips/topk.h"

#include <math.h>

enum {
  CHUNK = 64, /* scores of one call of max: if one of them passes, few comparisons follow */
  DOTS = 256  /* of one call of gather_dot */
};

void fopo_topk_init(fopo_topk *t, uint64_t *keys, size_t capacity, size_t k, const float *q,
                    fopo_left_out out) {
  *t = (fopo_topk){.keys = keys,
                   .k = k,
                   .capacity = capacity,
                   .q = q,
                   .out = out,
                   .least = -INFINITY,
                   .floor = -INFINITY};
}

/* Replaces the scores of n keys by dots; gather_dot returns the bits of dot. */
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

size_t fopo_topk_largest(uint64_t *keys, size_t n, size_t k, const fopo_kernels *kernels) {
  return n <= k ? n : kernels->partition_at_least(keys, n, kernels->kth(keys, n, k));
}

uint32_t fopo_topk_give(uint32_t *ids, float *scores, uint64_t *keys, size_t n, size_t k,
                        const fopo_kernels *kernels) {
  kernels->sort(keys, n);
  for (size_t i = 0; i < k; i++) {
    ids[i] = i < n ? fopo_topk_id(keys[i]) : FOPO_NO_ITEM;
    scores[i] = i < n ? fopo_topk_score(keys[i]) : -INFINITY;
  }
  return (uint32_t)(n < k ? n : k);
}

/* Drops the keys < least. Settled keys stay in front. */
static void drop_below(fopo_topk *t, uint64_t least, const fopo_kernels *kernels) {
  uint64_t *others = t->keys + t->settled;
  size_t front = kernels->partition_at_least(t->keys, t->settled, least);
  size_t back = kernels->partition_at_least(others, t->n - t->settled, least);
  memmove(t->keys + front, others, back * sizeof *others);
  t->settled = front;
  t->n = front + back;
}

/* Of n > k keys, drops those more than two error bounds below the k-th; returns the k-th score. */
static float drop_below_kth(fopo_topk *t, const fopo_kernels *kernels) {
  float kth = fopo_topk_score(kernels->kth(t->keys, t->n, t->k));
  /* The smallest key of that score. */
  drop_below(t, fopo_topk_key(kth - 2.0f * t->error, UINT32_MAX), kernels);
  return kth;
}

/* If so many keys are too close to the k-th to tell that the buffer stays full (equal items), their
 * dots decide. */
void fopo_topk_prune(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items) {
  if (t->n <= t->k) return;
  float least = drop_below_kth(t, kernels) - t->error;
  if (t->n > t->k + (t->capacity - t->k) / 2) {
    rescore(t->keys, t->n, t->q, kernels, items);
    t->n = t->settled = fopo_topk_largest(t->keys, t->n, t->k, kernels);
    least = fopo_topk_score(kernels->kth(t->keys, t->n, t->k));
    t->fine_error = 0.0f;
    t->error = t->block_error;
  }
  fopo_topk_raise(t, least);
}

void fopo_topk_push_all(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items,
                        const float *s, const uint32_t *ids, uint32_t first, size_t n) {
  for (size_t start = 0; start < n; start += CHUNK) {
    size_t end = n - start < CHUNK ? n : start + CHUNK;
    if (kernels->max(s + start, end - start) < t->floor) continue;
    for (size_t j = start; j < end; j++) {
      fopo_topk_push(t, kernels, items, s[j], ids != NULL ? ids[j] : first + (uint32_t)j);
    }
  }
}

/* How many of n keys have a score > bound. */
static size_t count_above(const uint64_t *keys, size_t n, float bound) {
  uint64_t key = fopo_topk_key(bound, 0); /* the largest key of that score */
  size_t above = 0;
  for (size_t i = 0; i < n; i++) above += keys[i] > key;
  return above;
}

/* How many of n keys have a dot > bound, of those with a score in bound -+ error. */
static size_t count_dots_above(const fopo_topk *t, const uint64_t *keys, size_t n, float bound,
                               float error, const fopo_kernels *kernels, fopo_matrix items) {
  uint64_t least = fopo_topk_key(bound - error, UINT32_MAX), most = fopo_topk_key(bound + error, 0);
  uint64_t near[DOTS];
  size_t above = 0, held = 0;
  for (size_t i = 0; i < n; i++) {
    if (keys[i] >= least && keys[i] <= most) near[held++] = keys[i];
    if (held == 0 || (held < DOTS && i + 1 < n)) continue;
    rescore(near, held, t->q, kernels, items);
    above += count_above(near, held, bound);
    held = 0;
  }
  return above;
}

int fopo_topk_has_k_above(const fopo_topk *t, float bound, const fopo_kernels *kernels,
                          fopo_matrix items) {
  const uint64_t *others = t->keys + t->settled;
  size_t n = t->n - t->settled;
  float error = 1.01f * t->error;
  if (t->n < t->k) return 0;
  size_t settled = count_above(t->keys, t->settled, bound + 1.01f * t->fine_error);
  size_t likely = settled + count_above(others, n, bound);
  if (likely < t->k) return 0;
  size_t certain = settled + count_above(others, n, bound + error);
  if (certain >= t->k) return 1;
  return certain + count_dots_above(t, others, n, bound, error, kernels, items) >= t->k;
}

uint32_t fopo_topk_finish(fopo_topk *t, uint32_t *ids, float *scores, const fopo_kernels *kernels,
                          fopo_matrix items) {
  if (t->n > t->k) drop_below_kth(t, kernels);
  rescore(t->keys, t->n, t->q, kernels, items);
  t->n = fopo_topk_largest(t->keys, t->n, t->k, kernels);
  return fopo_topk_give(ids, scores, t->keys, t->n, t->k, kernels);
}

/* Exchanges the keys > bound to the front; returns how many. No key is lost. */
static size_t partition_above(uint64_t *keys, size_t n, uint64_t bound) {
  size_t above = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t key = keys[i];
    keys[i] = keys[above];
    keys[above] = key;
    above += key > bound;
  }
  return above;
}

/* Scores the keys that are not settled again, by dot, but for those above `sure`. */
static void settle(fopo_topk *t, float sure, const fopo_kernels *kernels, fopo_matrix items) {
  uint64_t *others = t->keys + t->settled;
  size_t n = t->n - t->settled, above = partition_above(others, n, fopo_topk_key(sure, 0));
  rescore(others + above, n - above, t->q, kernels, items);
  t->settled = t->n;
  t->error = t->fine_error;
}

/* The k-th largest dot is within one error bound of the k-th largest score. So an item whose score
 * is two error bounds above that is certainly one of the k best, and needs no dot; the dots of the
 * others decide which of them are. First by the wide bound of all keys, and those that are not
 * settled are scored again; then by the narrow bound that all the others have now. */
uint32_t fopo_topk_finish_set(fopo_topk *t, uint32_t *ids, const fopo_kernels *kernels,
                              fopo_matrix items) {
  if (t->n > t->k) {
    float sure = drop_below_kth(t, kernels) + 2.02f * t->error;
    settle(t, sure, kernels, items);
    sure = drop_below_kth(t, kernels) + 2.02f * t->error;
    size_t n_sure = partition_above(t->keys, t->n, fopo_topk_key(sure, 0));
    uint64_t *others = t->keys + n_sure;
    rescore(others, t->n - n_sure, t->q, kernels, items);
    t->n = n_sure + fopo_topk_largest(others, t->n - n_sure, t->k - n_sure, kernels);
  }
  for (size_t i = 0; i < t->n; i++) t->keys[i] = (uint32_t)t->keys[i]; /* the complement of an id */
  kernels->sort(t->keys, t->n);
  for (size_t i = 0; i < t->k; i++) ids[i] = i < t->n ? fopo_topk_id(t->keys[i]) : FOPO_NO_ITEM;
  return (uint32_t)t->n;
}
