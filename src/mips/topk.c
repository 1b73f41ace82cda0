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
enum {
  CHUNK = 64,
  DOTS_CHEAP = 32, /* dimensions up to which a dot costs less than deciding against it */
  FEW = 48, /* keys for which buckets do not pay */
  AT_ONCE = 2048,
  BUCKET_BITS = 8,
  BUCKETS = 1 << BUCKET_BITS
};

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

static void quick_sort(uint64_t *keys, size_t n) {
  while (n > 24) {
    size_t left = split(keys, 0, n - 1) + 1;
    if (left < n - left) {
      quick_sort(keys, left);
      keys += left;
      n -= left;
    } else {
      quick_sort(keys + left, n - left);
      n = left;
    }
  }
  insertion_sort(keys, n);
}

/* Keys in buckets of equal width, the largest in bucket 0: one pass where comparisons would take
 * log n. A score's bits grow like its logarithm, so a few large scores do not empty the rest. */
typedef struct {
  uint64_t most;
  int shift;
  uint32_t count[BUCKETS];
} buckets;

static size_t bucket(const buckets *b, uint64_t key) { return (b->most - key) >> b->shift; }

static void count_buckets(buckets *b, const uint64_t *keys, size_t n) {
  uint64_t most = keys[0], least = keys[0];
  for (size_t i = 1; i < n; i++) {
    most = keys[i] > most ? keys[i] : most;
    least = keys[i] < least ? keys[i] : least;
  }
  int bits = most > least ? 64 - __builtin_clzll(most - least) : 0;
  *b = (buckets){.most = most, .shift = bits > BUCKET_BITS ? bits - BUCKET_BITS : 0};
  for (size_t i = 0; i < n; i++) b->count[bucket(b, keys[i])]++;
}

/* n <= AT_ONCE */
static void bucket_sort(uint64_t *keys, size_t n) {
  uint64_t sorted[AT_ONCE];
  uint32_t end[BUCKETS], next = 0;
  buckets b;
  count_buckets(&b, keys, n);
  for (size_t i = 0; i < BUCKETS; i++) end[i] = next, next += b.count[i];
  for (size_t i = 0; i < n; i++) sorted[end[bucket(&b, keys[i])]++] = keys[i];
  for (size_t i = 0; i < BUCKETS; i++) {
    if (b.count[i] > 1) quick_sort(sorted + end[i] - b.count[i], b.count[i]);
  }
  memcpy(keys, sorted, n * sizeof *keys);
}

void fopo_topk_sort(uint64_t *keys, size_t n) {
  if (n > FEW && n <= AT_ONCE) {
    bucket_sort(keys, n);
  } else {
    quick_sort(keys, n);
  }
}

/* The k largest of keys low .. high, counted from low, come first there; the least of them last. */
static void quick_select(uint64_t *keys, size_t n, size_t k) {
  size_t low = 0, high = n - 1;
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

/* The k largest of n <= AT_ONCE: whole buckets of them, and some of one bucket more. */
static void bucket_select(uint64_t *keys, size_t n, size_t k) {
  uint64_t parted[AT_ONCE];
  buckets b;
  count_buckets(&b, keys, n);
  size_t last = 0, before = 0;
  while (before + b.count[last] < k) before += b.count[last++];
  size_t end[3] = {0, before, before + b.count[last]}; /* of those before, in and behind it */
  for (size_t i = 0; i < n; i++) {
    size_t at = bucket(&b, keys[i]);
    parted[end[(at >= last) + (at > last)]++] = keys[i];
  }
  memcpy(keys, parted, n * sizeof *keys);
  quick_select(keys + before, b.count[last], k - before);
}

/* The k largest of n come first, the least of them at k - 1. */
static void select_largest(uint64_t *keys, size_t n, size_t k) {
  if (k == 1) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) best = keys[i] > keys[best] ? i : best;
    uint64_t key = keys[best];
    keys[best] = keys[0];
    keys[0] = key;
  } else if (n > FEW && n <= AT_ONCE) {
    bucket_select(keys, n, k);
  } else {
    quick_select(keys, n, k);
  }
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
  fopo_topk_raise(t, least);
}

float fopo_topk_sample(const float *s, size_t ld, size_t n, size_t stride, size_t rank) {
  uint64_t keys[FOPO_TOPK_SAMPLE];
  size_t count = 0;
  for (size_t i = 0; i < n; i += stride, count++) {
    keys[count] = fopo_topk_key(s[i * ld], (uint32_t)i);
  }
  if (rank >= count) return -INFINITY;
  select_largest(keys, count, rank);
  return fopo_topk_score(keys[rank - 1]);
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
  if (t->n > 2 * t->k || items.cols > DOTS_CHEAP) fopo_topk_settle(t, kernels, items);
  rescore(t, kernels, items);
  fopo_topk_sort(t->keys, t->n);
  if (t->n > t->k) t->n = t->k;
  for (size_t i = 0; i < t->k; i++) {
    ids[i] = i < t->n ? fopo_topk_id(t->keys[i]) : FOPO_NO_ITEM;
    scores[i] = i < t->n ? fopo_topk_score(t->keys[i]) : -INFINITY;
  }
  return (uint32_t)t->n;
}
