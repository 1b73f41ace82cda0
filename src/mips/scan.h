/* The scan that the index kinds exact and norm share: items are scored in an order, block after
 * block, for a batch of queries, until no better one can follow. The kinds differ in the order
 * alone.
 *
 * Rounds of growing length are scored for the queries that are still active, panels of them at once
 * (kernels/kernels.h). After a round a query is done if no item left can beat its k-th best,
 *
 *     |q| |beta| (1 + rounding) < k-th best score,    |beta| the norm of the first item left
 *
 * (Cauchy-Schwarz). The answer is exact over the first `limit` items of the order, and has the same
 * bits for any batch and any number of threads. Where rounds end depends on k and the kernels
 * alone, so `scored` is the same too; with a prefilter the k-th best is known less precisely, and a
 * query may take one round more or less. */
#ifndef FOPO_MIPS_SCAN_H
#define FOPO_MIPS_SCAN_H

#include "core/matrix.h"
#include "mips/topk.h"

typedef struct fopo_scan_worker fopo_scan_worker;

typedef struct {
  fopo_matrix items;     /* [P, L]; not owned */
  const uint32_t *order; /* [P] ids; NULL: 0, 1, 2 ..; not owned */
  const float *norms;    /* [P] norms in that order, rounded up, descending; NULL: no stopping */
  float max_norm;        /* >= |beta| of every item */
  size_t limit;          /* items that may be scored, 1 .. P */

  /* Copies of the first items of the order, so that they lie together: one of the two. */
  fopo_matrix packed; /* in float32; all items if order is NULL; not owned */
  struct {
    const struct fopo_prefilter *by; /* that packed them (kernels/prefilter.h); NULL: none */
    const char *x;                   /* [rows, row_bytes]; not owned */
    size_t rows;                     /* whole groups, or up to the limit */
    double rounding;                 /* |beta - packed beta| <= rounding |beta| for each of them */
  } prefix;

  fopo_scan_worker *workers; /* [n_workers] scratch kept between searches; private */
  size_t n_workers;
} fopo_scan;

/* ids, scores [Q.rows, k], best first, and counts [Q.rows]; if scores is NULL, ids are in ascending
 * order. *scored grows by the items scored, summed over the queries. */
int fopo_scan_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored,
                     fopo_scan *scan, fopo_matrix Q, size_t k, fopo_without without);

/* 1 if an answer whose k-th best score is `kth` is exact over all items, for a query of this norm:
 * no item beyond the limit can reach it. */
int fopo_scan_is_exact(const fopo_scan *scan, double q_norm, float kth);

size_t fopo_scan_bytes(const fopo_scan *scan); /* of scratch */
void fopo_scan_done(fopo_scan *scan);          /* frees the scratch */

#endif
