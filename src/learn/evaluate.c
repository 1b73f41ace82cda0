/* The paper's test reward: how often the one recommended item is among those that the user took. */
#include "learn/evaluate.h"

#include <math.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"

static int check(const fopo_policy *pi, fopo_matrix x, const fopo_sessions *sessions,
                 const fopo_index *ix) {
  if (x.rows == 0 || x.rows != sessions->Y.rows || sessions->Y.cols != pi->items.rows) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu contexts and %zu items do not fit sessions of %zu contexts x %zu items; "
                     "make contexts and items from the same sessions",
                     x.rows, pi->items.rows, sessions->Y.rows, sessions->Y.cols);
  }
  if (ix == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "evaluation needs an index to find the best item with");
  }
  fopo_index_facts facts = fopo_index_about(ix);
  if (facts.n_items == pi->items.rows && facts.dim == pi->items.cols) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the index holds %zu items of dimension %zu but the policy's are %zu of "
                   "dimension %zu; build it from the policy's items",
                   facts.n_items, facts.dim, pi->items.rows, pi->items.cols);
}

/* best [N] the answers, counts [N] whether there was one, seen [P] zeros. */
static void count(fopo_evaluation *e, const fopo_sessions *sessions, const uint32_t *best,
                  const uint32_t *counts, uint8_t *seen) {
  for (size_t n = 0; n < sessions->Y.rows; n++) {
    if (counts[n] == 0) {
      e->unanswered++;
      continue;
    }
    if (!seen[best[n]]) e->distinct++;
    seen[best[n]] = 1;
    if (fopo_csr_contains(&sessions->Y, n, best[n])) e->hits++;
  }
}

int fopo_evaluate(fopo_evaluation *e, const fopo_policy *pi, fopo_matrix x,
                  const fopo_sessions *sessions, fopo_index *ix) {
  double start = fopo_clock();
  *e = (fopo_evaluation){.contexts = x.rows};
  int rc = check(pi, x, sessions, ix);
  if (rc != FOPO_OK) return rc;

  uint32_t *best = fopo_alloc(x.rows, sizeof *best);
  uint32_t *counts = fopo_alloc(x.rows, sizeof *counts);
  float *scores = fopo_alloc(x.rows, sizeof *scores);
  uint8_t *seen = fopo_alloc(pi->items.rows, sizeof *seen);
  rc = best && counts && scores && seen ? FOPO_OK : FOPO_ERR_MEMORY;
  if (rc == FOPO_OK) rc = fopo_policy_best(best, scores, counts, pi, x, ix, 1);
  if (rc == FOPO_OK) {
    count(e, sessions, best, counts, seen);
    e->reward = (double)e->hits / (double)e->contexts;
    fopo_wilson(&e->low, &e->high, e->hits, e->contexts);
    e->seconds = fopo_clock() - start;
  }
  fopo_free(best);
  fopo_free(counts);
  fopo_free(scores);
  fopo_free(seen);
  return rc;
}

void fopo_wilson(double *low, double *high, size_t k, size_t n) {
  const double z = 1.959963984540054; /* the normal's 97.5 % point */
  *low = 0.0;
  *high = 1.0;
  if (n == 0) return;
  /* (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)   (Wilson 1927) */
  double m = (double)n, p = (double)k / m, share = z * z / m;
  double middle = (p + share / 2.0) / (1.0 + share);
  double half = z * sqrt(p * (1.0 - p) / m + share / (4.0 * m)) / (1.0 + share);
  *low = k == 0 ? 0.0 : middle - half;
  *high = k == n ? 1.0 : middle + half;
}
