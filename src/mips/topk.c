/* Selection by a threshold and a buffer: what passes the threshold is appended; when the buffer is
 * full, a quickselect (Hoare's idea, Lomuto's loop) keeps the k best, and those too near to the k-th
 * to tell, and raises the threshold. Of a stream in random order about k (1 + ln(P / k)) items pass,
 * and one that passes costs a few comparisons, less than the log k exchanges of a heap. Dots, which
 * read a row of the catalogue each, are left to the end: of all that pass only about k need one. */
#include "mips/topk.h"
#include "mips/index.h"

#include <math.h>

/* Scores that one call of the kernels' max or gather_dot covers: long enough to pay for the call, short enough
 * that one good item in it costs few comparisons. */
enum { CHUNK = 64 };

/* Splits keys[low .. high], high - low >= 2, around the median of three: returns a j with
 * low <= j < high, where everything up to j is larger than everything behind it. The comparison
 * moves an index and no jump depends on it, as jumps here could not be predicted. */
static size_t split(uint64_t *keys, size_t low, size_t high) {
  uint64_t a = keys[low], b = keys[low + (high - low) / 2], c = keys[high];
  uint64_t most = a > b ? a : b, least = a > b ? b : a;
  uint64_t pivot = c > most ? most : c > least ? c : least;
  size_t j = low;
  for (size_t i = low; i <= high; i++) {
    uint64_t key = keys[i];
    keys[i] = keys[j];
    keys[j] = key;
    j += key > pivot;
  }
  return j - 1; /* one of the three is larger than the pivot, and the pivot is not */
}

static void insertion_sort(uint64_t *keys, size_t n) {
  for (size_t i = 1; i < n; i++) {
    uint64_t key = keys[i];
    size_t j = i;
    for (; j > 0 && keys[j - 1] < key; j--) keys[j] = keys[j - 1];
    keys[j] = key;
  }
}

void fopo_topk_sort(uint64_t *keys, size_t n) {
  while (n > 24) {
    size_t left = split(keys, 0, n - 1) + 1;
    if (left < n - left) {
      fopo_topk_sort(keys, left);
      keys += left;
      n -= left;
    } else {
      fopo_topk_sort(keys + left, n - left);
      n = left;
    }
  }
  insertion_sort(keys, n);
}

/* The k largest of n come first, the least of them at k - 1. */
static void select_largest(uint64_t *keys, size_t n, size_t k) {
  size_t low = 0, high = n - 1;
  if (k == 1) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) best = keys[i] > keys[best] ? i : best;
    uint64_t key = keys[best];
    keys[best] = keys[0];
    keys[0] = key;
    return;
  }
  while (high - low > 24) {
    size_t j = split(keys, low, high);
    if (k - 1 <= j) {
      high = j;
    } else {
      low = j + 1;
    }
  }
  insertion_sort(keys + low, high - low + 1);
}

void fopo_topk_init(fopo_topk *t, uint64_t *keys, size_t room, size_t k, const float *q) {
  *t = (fopo_topk){.keys = keys, .k = k, .room = room, .q = q, .least = -INFINITY,
                   .floor = -INFINITY};
}

/* Gives every key held its dot; gather_dot's is dot's, to the bit. */
static void rescore(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items) {
  uint32_t ids[CHUNK];
  float s[CHUNK];
  for (size_t start = 0; start < t->n; start += CHUNK) {
    size_t n = t->n - start < CHUNK ? t->n - start : CHUNK;
    uint64_t *keys = t->keys + start;
    for (size_t i = 0; i < n; i++) ids[i] = fopo_topk_id(keys[i]);
    kernels->gather_dot(s, items.x, items.ld, ids, n, t->q, items.cols);
    for (size_t i = 0; i < n; i++) keys[i] = fopo_topk_key(s[i], ids[i]);
  }
}

/* The k best of the n > k keys held come first; gives the score of the k-th. */
static float bring_best(fopo_topk *t) {
  select_largest(t->keys, t->n, t->k);
  return fopo_topk_score(t->keys[t->k - 1]);
}

/* Where too many keys are too near to the k-th to tell (equal items), their dots decide. */
void fopo_topk_settle(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items) {
  if (t->n <= t->k) return;
  float least = bring_best(t) - t->slack, floor = least - t->slack;
  size_t kept = t->k;
  for (size_t i = t->k; i < t->n; i++) {
    if (fopo_topk_score(t->keys[i]) >= floor) t->keys[kept++] = t->keys[i];
  }
  t->n = kept;
  if (kept > t->k + (t->room - t->k) / 2) {
    rescore(t, kernels, items);
    least = bring_best(t);
    t->n = t->k;
    t->slack = t->coming;
  }
  t->least = least > t->least ? least : t->least;
  t->floor = t->least - t->coming;
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
  fopo_topk_settle(t, kernels, items);
  rescore(t, kernels, items);
  if (t->n > t->k) {
    bring_best(t);
    t->n = t->k;
  }
  fopo_topk_sort(t->keys, t->n);
  for (size_t i = 0; i < t->k; i++) {
    ids[i] = i < t->n ? fopo_topk_id(t->keys[i]) : FOPO_NO_ITEM;
    scores[i] = i < t->n ? fopo_topk_score(t->keys[i]) : -INFINITY;
  }
  return (uint32_t)t->n;
}
