/* How often items were taken together, C = M^T M, one row at a time, and who is most similar. */
#ifndef FOPO_JUDGE_TOGETHER_H
#define FOPO_JUDGE_TOGETHER_H

#include "core/csr.h"

/* Side by side, as whoever needs the one needs the other, and each is far away in memory. */
typedef struct {
  uint32_t both;  /* users who took this item and that of the row */
  uint32_t users; /* who took this item */
} fopo_together_count;

/* Called once for each item, by any thread: `both` of counts [P] is not 0 for the n items `with`
 * (which the item itself is among if anyone took it); thread < fopo_threads(). Both arrays are the
 * caller's, `with` may be reordered. */
typedef void fopo_together_row(void *payload, size_t item, const fopo_together_count *counts,
                               uint32_t *with, size_t n, size_t thread);

/* Calls `row` for all items of M [users, P], or those that are `wanted` [P] if that is not NULL, in
 * parallel; users [P, users] is M transposed. `what` is the progress: "comparing items". The time
 * is the sum over users of the square of their items. */
int fopo_together(const fopo_csr *M, const fopo_csr *users, const uint8_t *wanted, const char *what,
                  fopo_together_row *row, void *payload);

/* With n_a users who took item a and c_ab who took both:
 *
 *   cosine   s_ab = c_ab / (sqrt(n_a n_b) + shrink)
 *   jaccard  s_ab = c_ab / (n_a + n_b - c_ab + shrink)
 *
 * where shrink lowers what rests on few users (Bell and Koren: "Improved neighborhood-based
 * collaborative filtering", KDD Cup 2007). */
typedef struct {
  int jaccard;
  double shrink;
} fopo_similarity;

/* How many keys a search for the nearest needs. */
static inline size_t fopo_together_room(size_t most) { return 2 * most + 512; }

/* In the callback of row a: keys [fopo_together_room(most)] of fopo_topk_key become those of the
 * `most` other items that are most similar to a, ties to the smaller id, in ascending order of the
 * ids; returns how many. */
size_t fopo_together_nearest(uint64_t *keys, const fopo_similarity *how, size_t a,
                             const fopo_together_count *counts, const uint32_t *with, size_t n,
                             size_t most);

#endif
