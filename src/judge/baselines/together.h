/* How often items were taken together: C = M^T M, one row at a time. */
#ifndef FOPO_JUDGE_TOGETHER_H
#define FOPO_JUDGE_TOGETHER_H

#include "core/csr.h"

/* Called once for each item, by any thread: counts [P] users who took it and the other, not 0 for
 * the n items `with` (which the item itself is among if anyone took it); thread < fopo_threads().
 * Both arrays are the caller's, `with` may be reordered. */
typedef void fopo_together_row(void *payload, size_t item, const uint32_t *counts, uint32_t *with,
                               size_t n, size_t thread);

/* Calls `row` for all items of M [users, P], in parallel. `what` is the progress: "comparing
 * items". The time is the sum over users of the square of their items. */
int fopo_together(const fopo_csr *M, const char *what, fopo_together_row *row, void *payload);

#endif
