/* Scoring of items for a batch of queries, block after block, until nothing better can follow.
 * What `exact` and `norm` share: they differ in the order of the items only.
 *
 * Rounds of growing size are scored for the queries still active, panels of them at once
 * (kernels/kernels.h). After a round a query is done when no item left can beat its k-th best,
 *
 *     |q| |beta| (1 + rounding) < k-th best score,    |beta| the norm of the first item left
 *
 * (Cauchy and Schwarz). The answer is exact over the first `limit` items of the order, and the same
 * bits for any batch and any number of threads. Where a round ends depends on k and the kernels
 * alone, so `scored` is the same too, but for a round more or less where scores are screened and
 * the k-th best is only known to within the error of that. */
#ifndef FOPO_MIPS_SCAN_H
#define FOPO_MIPS_SCAN_H

#include <string.h>

#include "core/matrix.h"

typedef struct fopo_scan_worker fopo_scan_worker;

typedef struct {
  fopo_matrix items;      /* [P, L]; not owned */
  fopo_matrix head;       /* the first head.rows items of the order, packed; not owned */
  const uint16_t *packed; /* the same for screening (kernels/prefilter.h), in place of head */
  size_t packed_rows;     /* whole groups, or up to the limit; not owned */
  double packed_error;    /* |beta - packed beta| <= packed_error |beta| of all of them */
  const uint32_t *order;  /* [P] ids; NULL: 0, 1, 2 .. and head is all items; not owned */
  const float *norms;     /* [P] norms in that order, rounded up, descending; NULL: no stopping */
  float max_norm;         /* >= |beta| of every item */
  size_t limit;           /* items that may be scored, 1 .. P */
  fopo_scan_worker *workers; /* [n_workers] scratch kept between searches; private */
  size_t n_workers;
} fopo_scan;

/* ids, scores [Q.rows, k], counts [Q.rows], best first; scores NULL: by rising id. *scored grows by
 * the items scored. */
int fopo_scan_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored,
                     fopo_scan *scan, fopo_matrix Q, size_t k);

/* 1: no item beyond the limit can score above or at `kth` for a query of this norm, so an answer
 * whose k-th best score that is, is exact. */
int fopo_scan_settled(const fopo_scan *scan, double norm, float kth);

size_t fopo_scan_bytes(const fopo_scan *scan); /* of scratch held */
void fopo_scan_done(fopo_scan *scan);          /* frees the scratch */

/* Norm of x [n], in double, summed in a fixed order: the same bits on every machine. Not finite
 * where a value is not, and only there. */
double fopo_scan_norm(const float *x, size_t n);

/* The least float >= x >= 0, for norms that must bound. */
static inline float fopo_scan_up(double x) {
  float near = (float)x;
  uint32_t bits;
  memcpy(&bits, &near, sizeof bits);
  bits += (double)near < x; /* the next float, as none is negative */
  memcpy(&near, &bits, sizeof near);
  return near;
}

#endif
