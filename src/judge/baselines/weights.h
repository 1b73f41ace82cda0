/* Sparse weights of items by items: W [P, P] with at most `most` entries a row, whose rows are made
 * by any thread in any order, and the scores of sessions, the sums of the rows of their items. */
#ifndef FOPO_JUDGE_WEIGHTS_H
#define FOPO_JUDGE_WEIGHTS_H

#include "core/csr.h"

/* Room for `most` entries of each row: 8 P most bytes. To be freed by fopo_csr_done. */
int fopo_weights_init(fopo_csr *W, size_t P, size_t most);

/* keys [n] of fopo_topk_key become those of the `most` largest scores, ties to the smaller id, in
 * ascending order of the ids; returns how many. */
size_t fopo_weights_choose(uint64_t *keys, size_t n, size_t most);

/* Row a, which begins at place `at`: these n ids, ascending, and values. Its length is put into
 * indptr[a + 1]. */
void fopo_weights_put(fopo_csr *W, size_t at, size_t a, const uint64_t *keys, size_t n);

/* Once all rows are there: closes the gaps between them, in place. Row a began at room[a], or, if
 * that is NULL, at a * most. */
int fopo_weights_pack(fopo_csr *W, const uint64_t *room, size_t most);

/* The hooks of a kind whose model is W alone (judge/baseline.h). */
void fopo_weights_free(void *model);
const fopo_csr *fopo_weights_get(const void *model);

/* scores [n, P] of the contexts first .. first + n - 1 of X: the sum over a in X of W_a. */
void fopo_weights_score(float *scores, const fopo_csr *W, const fopo_csr *X, size_t first,
                        size_t n);

#endif
