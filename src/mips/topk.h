/* The k best of a stream of approximate scores, exact in the end.
 *
 * Blocks of scores are summed in an order of their own, not that of dot. An item is therefore kept
 * while its approximate score is less than two rounding bounds `slack` below the k-th best (one for
 * it, one for the k-th), and the few that are kept to the end are scored again by the kernels' dot.
 * So the answer is the k largest by (dot, then smaller id), the same bits for any cut into blocks,
 * any order of arrival and any thread.
 *
 * Items are held as keys: the score's bits, made to order like integers, above the complement of
 * the id. Keys are distinct, and a larger key is a better item. */
#ifndef FOPO_MIPS_TOPK_H
#define FOPO_MIPS_TOPK_H

#include <string.h>

#include "core/matrix.h"
#include "kernels/kernels.h"

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

/* The selection of one query. */
typedef struct {
  uint64_t *keys; /* [room] of scores that are within slack of the dots; not owned */
  size_t k, room; /* room >= fopo_topk_room(k, items to come) */
  size_t n;       /* keys held, <= room */
  const float *q; /* [items.cols] the query; not owned */
  float slack;    /* the largest |score - dot| of the keys held */
  float coming;   /* the same of the scores that are offered now */
  float least;    /* a dot below this cannot belong to the k best, */
  float floor;    /* nor can a score below this: least - coming */
} fopo_topk;

/* Keys to make room for: k, and as many undecided ones as pay for a selection. */
static inline size_t fopo_topk_room(size_t k, size_t items) {
  size_t room = k + (k < 16 ? 16 : k > 1024 ? 1024 : k);
  return room < items ? room : items;
}

void fopo_topk_init(fopo_topk *t, uint64_t *keys, size_t room, size_t k, const float *q);

/* Drops what cannot belong to the k best and raises the floor: where the room is used up. */
void fopo_topk_settle(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items);

/* Tells that |score - dot| <= slack for all items that will be offered from now on. */
static inline void fopo_topk_expect(fopo_topk *t, float slack) {
  t->slack = slack > t->slack ? slack : t->slack;
  t->coming = slack;
  t->floor = t->least - slack;
}

/* Tells that no dot below `least` can belong to the k best. */
static inline void fopo_topk_raise(fopo_topk *t, float least) {
  t->least = least > t->least ? least : t->least;
  t->floor = t->least - t->coming;
}

/* Offers one item. */
static inline void fopo_topk_push(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items,
                                  float score, uint32_t id) {
  if (score < t->floor) return;
  if (t->n == t->room) {
    fopo_topk_settle(t, kernels, items);
    if (score < t->floor) return;
  }
  t->keys[t->n++] = fopo_topk_key(score, id);
}

/* Offers n items with approximate scores s; the ids are ids[0 .. n-1], or first + 0 .. n-1 where
 * ids is NULL. */
void fopo_topk_offer(fopo_topk *t, const fopo_kernels *kernels, fopo_matrix items, const float *s,
                     const uint32_t *ids, uint32_t first, size_t n);

/* 1 when k items are held whose dot is surely above `bound`. */
int fopo_topk_beats(const fopo_topk *t, float bound);

/* Ends it: the best first, places beyond the count filled. Returns the count, <= k. */
uint32_t fopo_topk_finish(fopo_topk *t, uint32_t *ids, float *scores, const fopo_kernels *kernels,
                          fopo_matrix items);

/* The same items in the order of their ids, without their scores and so with fewer dots. */
uint32_t fopo_topk_finish_set(fopo_topk *t, uint32_t *ids, const fopo_kernels *kernels,
                              fopo_matrix items);

#endif
