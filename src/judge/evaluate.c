/* The paper's test reward: how often the one recommended item is among those that the user took. */
#include "judge/evaluate.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/sort.h"
#include "core/status.h"
#include "policy/recommend.h"

static const double z = FOPO_Z95;

static int check(const fopo_policy *pi, fopo_matrix x, const fopo_sessions *sessions,
                 const fopo_index *ix) {
  int status = fopo_sessions_check(sessions, x.rows, fopo_policy_n_items(pi));
  if (status != FOPO_OK) return status;
  if (ix == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "evaluation needs an index to find the best item with");
  }
  return fopo_policy_check_index(ix, pi->items.rows, pi->items.cols);
}

/* best [N] are the answers, counts [N] whether there is one; earned [N], zeros, becomes what each
 * right answer is worth. */
static void count_hits(fopo_evaluation *e, float *earned, const fopo_sessions *sessions,
                       const uint32_t *best, const uint32_t *counts) {
  for (size_t n = 0; n < sessions->Y.rows; n++) {
    e->unanswered += counts[n] == 0;
    if (counts[n] == 0 || !fopo_csr_contains(&sessions->Y, n, best[n])) continue;
    e->hits++;
    earned[n] = fopo_sessions_value(sessions, best[n]);
  }
}

/* Of the answers, which it sorts; those of contexts without one come last. */
static void count_items(fopo_evaluation *e, uint32_t *best) {
  size_t n = e->contexts - e->unanswered, first = 0;
  fopo_sort_u32(best, e->contexts);
  for (size_t i = 0; i < n; i++) {
    if (best[i] != best[first]) first = i;
    if (i == first) e->distinct++;
    if (i + 1 - first > e->top) e->top = i + 1 - first;
  }
}

void fopo_mean_of_pairs(double *mean, double *se, const float *x, const float *y, size_t n) {
  double sum = 0.0, deviations = 0.0, known = 0.0;
  for (size_t i = 0; i < n; i++) {
    if (isnan(x[i]) || (y != NULL && isnan(y[i]))) continue;
    sum += (double)x[i] - (y != NULL ? (double)y[i] : 0.0);
    known += 1.0;
  }
  *mean = known > 0.0 ? sum / known : 0.0;
  for (size_t i = 0; i < n; i++) {
    if (isnan(x[i]) || (y != NULL && isnan(y[i]))) continue;
    double off = (double)x[i] - (y != NULL ? (double)y[i] : 0.0) - *mean;
    deviations += off * off;
  }
  *se = known > 1.0 ? sqrt(deviations / (known - 1.0) / known) : (double)INFINITY;
}

/* The mean over the contexts and its interval, from what each of them earned. */
static void summarise(fopo_evaluation *e, const float *earned, int by_value) {
  double N = (double)e->contexts;
  if (by_value) {
    fopo_mean_of_pairs(&e->reward, &e->se, earned, NULL, e->contexts);
    e->low = fmax(e->reward - z * e->se, 0.0);
    e->high = e->reward + z * e->se;
    return;
  }
  e->reward = (double)e->hits / N;
  e->se = sqrt(e->reward * (1.0 - e->reward) / N);
  fopo_wilson(&e->low, &e->high, e->hits, e->contexts);
}

int fopo_evaluate_lists(uint32_t *ids, float *scores, uint32_t *counts, const fopo_policy *pi,
                        fopo_matrix x, fopo_index *ix, const fopo_sparse_scores *mask, size_t k) {
  if (mask == NULL) return fopo_policy_best(ids, scores, counts, pi, x, ix, k);
  fopo_recommend_plan plan = {.policy = pi, .index = ix, .x = x, .mask = mask, .may_be_short = 1};
  return fopo_recommend(ids, scores, counts, NULL, &plan, k);
}

int fopo_evaluate_each(fopo_evaluation *e, float *earned, const fopo_policy *pi, fopo_matrix x,
                       const fopo_sessions *sessions, fopo_index *ix,
                       const fopo_sparse_scores *mask) {
  double start = fopo_clock();
  memset(earned, 0, x.rows * sizeof *earned);
  fopo_sparse_scores own = fopo_mask_of(&sessions->X);
  if (pi->masks_seen && mask == NULL) mask = &own;
  *e = (fopo_evaluation){.contexts = x.rows};
  int status = check(pi, x, sessions, ix);
  if (status != FOPO_OK) return status;

  uint32_t *best = fopo_alloc(x.rows, sizeof *best);
  uint32_t *counts = fopo_alloc(x.rows, sizeof *counts);
  float *scores = fopo_alloc(x.rows, sizeof *scores);
  status = best && counts && scores ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_evaluate_lists(best, scores, counts, pi, x, ix, mask, 1);
  if (status == FOPO_OK) {
    count_hits(e, earned, sessions, best, counts);
    count_items(e, best);
    summarise(e, earned, sessions->value != NULL);
    e->seconds = fopo_clock() - start;
  }
  fopo_free(best);
  fopo_free(counts);
  fopo_free(scores);
  return status;
}

int fopo_evaluate(fopo_evaluation *e, const fopo_policy *pi, fopo_matrix x,
                  const fopo_sessions *sessions, fopo_index *ix, const fopo_sparse_scores *mask) {
  float *earned = fopo_alloc(x.rows, sizeof *earned);
  int status =
      earned != NULL ? fopo_evaluate_each(e, earned, pi, x, sessions, ix, mask) : FOPO_ERR_MEMORY;
  fopo_free(earned);
  return status;
}

void fopo_paired(double *low, double *high, size_t b, size_t c, size_t n) {
  /* Wald's interval after half a pair is added to each of the four cells, so that it has a width
   * even if the two never differ:  (b - c) / m  -+  z sqrt(b' + c' - (b - c)^2 / m) / m */
  double m = (double)n + 2.0, difference = (double)b - (double)c;
  double half = z * sqrt((double)b + (double)c + 1.0 - difference * difference / m) / m;
  *low = fmax(difference / m - half, -1.0);
  *high = fmin(difference / m + half, 1.0);
}

/* The interval of what is lost, from what the contexts earned in both ways. */
static void find_lost(fopo_evaluation_lost *e, const float *truly, const float *found,
                      int by_value) {
  size_t N = e->exact.contexts;
  double se;
  for (size_t n = 0; n < N; n++) {
    e->only_exact += truly[n] > found[n];
    e->only_index += truly[n] < found[n];
  }
  if (!by_value) {
    e->lost = e->exact.reward - e->index.reward;
    fopo_paired(&e->low, &e->high, e->only_exact, e->only_index, N);
    return;
  }
  fopo_mean_of_pairs(&e->lost, &se, truly, found, N);
  e->low = e->lost - z * se;
  e->high = e->lost + z * se;
}

int fopo_evaluate_lost(fopo_evaluation_lost *e, const fopo_policy *pi, fopo_matrix x,
                       const fopo_sessions *sessions, fopo_index *exact, fopo_index *ix,
                       const fopo_sparse_scores *mask) {
  *e = (fopo_evaluation_lost){0};
  float *truly = fopo_alloc(x.rows, sizeof *truly), *found = fopo_alloc(x.rows, sizeof *found);
  int status = truly && found ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    status = fopo_evaluate_each(&e->exact, truly, pi, x, sessions, exact, mask);
  }
  if (status == FOPO_OK) status = fopo_evaluate_each(&e->index, found, pi, x, sessions, ix, mask);
  if (status == FOPO_OK) find_lost(e, truly, found, sessions->value != NULL);
  fopo_free(truly);
  fopo_free(found);
  return status;
}

void fopo_wilson(double *low, double *high, size_t k, size_t n) {
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
