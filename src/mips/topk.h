/* The k best of a stream of approximate scores, exact in the end.
 *
 * Blocks of scores are summed in another order than dot sums, or come from the bf16 prefilter. Each
 * score has a bound on its error |score - dot|. An item is therefore kept while its score is less
 * than two error bounds below the k-th best score (one for the item, one for the k-th), and the few
 * that are left at the end are rescored by the kernels' dot. So the answer is the k largest by
 * (dot, then smaller id): the same bits for any cut into blocks, order of arrival, and number of
 * threads.
 *
 * Items are held as keys: the score's bits, mapped so that they order like unsigned integers, above
 * the complement of the id. Keys are distinct, and a larger key is a better item. */
#ifndef FOPO_MIPS_TOPK_H
#define FOPO_MIPS_TOPK_H

#include <string.h>

#include "core/matrix.h"
#include "core/sort.h"
#include "kernels/kernels.h"

/* The id behind the last answer of a short row; its score is -inf. */
#define FOPO_NO_ITEM UINT32_MAX

static inline uint64_t fopo_topk_key(float score, uint32_t id) {
  uint32_t bits;
  score += 0.0f; /* -0 becomes +0: equal scores have equal bits */
  memcpy(&bits, &score, sizeof bits);
  bits ^= bits >> 31 ? UINT32_MAX : (uint32_t)1 << 31;
  return (uint64_t)bits << 32 | (uint32_t)~id;
}

static inline uint32_t fopo_topk_id(uint64_t key) { return ~(uint32_t)key; }

static inline float fopo_topk_score(uint64_t key) {
  uint32_t bits = (uint32_t)(key >> 32);
  bits ^= bits >> 31 ? (uint32_t)1 << 31 : UINT32_MAX;
  float score;
  memcpy(&score, &bits, sizeof score);
  return score;
}

/* Moves the k largest of n keys to the front, in any order; returns how many these are. */
size_t fopo_topk_largest(uint64_t *keys, size_t n, size_t k, const fopo_kernels *kernels);

/* The k best of n keys, which are sorted: ids, scores [k], the best first; behind the last item
 * FOPO_NO_ITEM and -inf. Returns how many items there are, <= k. */
uint32_t fopo_topk_give(uint32_t *ids, float *scores, uint64_t *keys, size_t n, size_t k,
                        const fopo_kernels *kernels);

/* Items that are no answer of a query, though they have scores. */
typedef struct {
  const uint32_t *ids; /* [n] ascending; not owned */
  size_t n;
  uint64_t bits; /* bit id % 64 of each: most other items are told from them by it */
} fopo_left_out;

static inline fopo_left_out fopo_left_out_of(const uint32_t *ids, size_t n) {
  fopo_left_out out = {ids, n, 0};
  for (size_t i = 0; i < n; i++) out.bits |= (uint64_t)1 << ids[i] % 64;
  return out;
}

static inline int fopo_is_left_out(const fopo_left_out *out, uint32_t id) {
  return (out->bits >> id % 64 & 1) && fopo_sorted_holds(out->ids, out->n, id);
}

/* What the queries of a search leave out: query q row q / each. */
typedef struct {
  const fopo_left_out *rows; /* NULL: nothing; not owned */
  size_t each;
} fopo_without;

/* The selection of one query. */
typedef struct {
  uint64_t *keys;     /* [capacity]; not owned */
  size_t k, capacity; /* capacity >= fopo_topk_capacity(k, items to come) */
  size_t n;           /* keys held */
  size_t settled;     /* of these, the first, which came with small errors or were scored again */
  const float *q;     /* [items.cols] the query; not owned */
  fopo_left_out out;
  float error;       /* bound of |score - dot| for the keys held */
  float fine_error;  /* the same for the settled ones */
  float block_error; /* the same for the scores that are pushed now */
  float least;       /* an item with a dot below this cannot be one of the k best, */
  float floor;       /* nor one with a score below this: least - block_error */
} fopo_topk;

/* How many keys to allocate: k, and as many undecided ones as make a pruning worth its cost. */
static inline size_t fopo_topk_capacity(size_t k, size_t items) {
  size_t capacity = k + (k < 64 ? 64 : k > 1024 ? 1024 : k);
  return capacity < items ? capacity : items;
}

void fopo_topk_init(fopo_topk *t, uint64_t *keys, size_t capacity, size_t k, const float *q,
                    fopo_left_out out);

/* Drops the keys that cannot belong to the k best and raises the floor. A push does it if the keys
 * are full. */
void fopo_topk_prune(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items);

/* Says that |score - dot| <= error for all items that will be pushed from now on. If that is much
 * more than before, the keys held are settled: they keep their smaller error. */
static inline void fopo_topk_set_error(fopo_topk *t, float error) {
  if (error > 4.0f * t->error) {
    t->settled = t->n;
    t->fine_error = t->error;
  }
  t->error = error > t->error ? error : t->error;
  t->block_error = error;
  t->floor = t->least - error;
}

/* Says that no item with a dot below `least` can belong to the k best. */
static inline void fopo_topk_raise(fopo_topk *t, float least) {
  t->least = least > t->least ? least : t->least;
  t->floor = t->least - t->block_error;
}

/* Adds one item if its score reaches the floor and it is not left out. */
static inline void fopo_topk_push(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items,
                                  float score, uint32_t id) {
  if (score < t->floor) return;
  if (fopo_is_left_out(&t->out, id)) return;
  if (t->n == t->capacity) {
    fopo_topk_prune(t, kernels, items);
    if (score < t->floor) return;
  }
  t->keys[t->n++] = fopo_topk_key(score, id);
}

/* Pushes n items with scores s [n]: ids [n], or first + 0 .. n - 1 if ids is NULL. */
void fopo_topk_push_all(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items,
                        const float *s, const uint32_t *ids, uint32_t first, size_t n);

/* 1 if the dots of k items held are above `bound`; 0 if that is not certain. Where scores are too
 * close to the bound to tell, dots are computed. */
int fopo_topk_has_k_above(const fopo_topk *t, float bound, const fopo_kernels *kernels,
                          fopo_matrix items);

/* Ends the selection, as fopo_topk_give. */
uint32_t fopo_topk_finish(fopo_topk *t, uint32_t *ids, float *scores, const fopo_kernels *kernels,
                          fopo_matrix items);

/* The same items in ascending order of id, without their scores and so with fewer dots. */
uint32_t fopo_topk_finish_set(fopo_topk *t, uint32_t *ids, const fopo_kernels *kernels,
                              fopo_matrix items);

#endif
