/* The best policy of a synthetic world.
 *
 * Why a Poisson process. Let S be a user's session. The counts of the items are independent Poisson
 * variables, so the events "a in S" are independent, with the odds
 *
 *   w_a = P(a in S) / P(a not in S) = exp(lambda_u p_u(a)) - 1
 *
 * hence P(S) is proportional to prod_{a in S} w_a. Drawing again if |S| is small, keeping users
 * with enough items, and taking a uniformly random half of S as X depend on S through |S| only.
 * So, given X and m = |Y|, Y is a set of m items outside X with
 *
 *   P(Y | X, m) proportional to prod_{a in Y} w_a                    (conditional Poisson sampling)
 *   P(a in Y | X, m) = w_a e_{m-1}(w without a) / e_m(w)              over the items not in X
 *
 * with e_m the elementary symmetric polynomial. For two items a, b the difference of these is
 * (w_a - w_b) e_{m-1}(w without a and b) / e_m(w), so the item to recommend is the one outside X
 * with the largest w_a, that is the largest p_u(a). It is optimal for every (u, X, m), and no
 * policy knows more than that, so none has a larger expected reward.
 *
 * Evaluation. Take independent events of odds theta w_b, with any theta > 0, and let g be the
 * distribution of the number of events among the items other than a. Then
 *
 *   P(a in Y | X, m) = theta w_a g(m - 1) / (theta w_a g(m - 1) + g(m))
 *
 * All items outside the liked clusters have the same w, so g is the distribution of one binomial
 * variable plus a few hundred single events, accumulated exactly in a table of m + 1 numbers. theta
 * is chosen so that about m events are expected: g(m) is then far from underflow.
 * (Chen, Dempster, Liu: "Weighted finite population sampling to maximize entropy", Biometrika
 * 81, 1994.)
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/world/synthetic.h"

enum { BLOCK = 128 }; /* sessions between two reports of progress */

/* Scratch of one thread for one session. */
typedef struct {
  double *odds; /* [most] w of the items of the liked clusters that are not in X */
  double *g;    /* [longest + 1] distribution of the number of events, up to m */
} scratch;

/* w = exp(lambda p) - 1; from exp(600) on an item is certain, whatever the others are. */
static double odds_of(double lambda, double p) { return expm1(fmin(lambda * p, 600)); }

/* odds: those of the items of the liked clusters outside X, except the best one, which is *best
 * with *best_odds. Returns how many it wrote. *best = `items` if X holds all liked items. */
static size_t gather(double *odds, uint32_t *best, double *best_odds, const fopo_world *w,
                     const fopo_sessions *s, size_t row) {
  uint32_t user = s->users[row];
  double lambda = (double)w->rate[user], uniform = w->noise / (double)w->items;
  size_t n = 0;
  *best = (uint32_t)w->items;
  *best_odds = -1;
  for (size_t k = 0; k < w->tastes; k++) {
    uint32_t c = w->liked[user * w->tastes + k];
    double share = (1 - w->noise) * (double)w->taste[user * w->tastes + k];
    for (uint64_t at = w->cluster_start[c]; at < w->cluster_start[c + 1]; at++) {
      uint32_t item = w->by_cluster[at];
      if (fopo_csr_contains(&s->X, row, item)) continue;
      double w_a = odds_of(lambda, uniform + share * (double)w->popularity[item]);
      if (w_a > *best_odds) {
        if (*best_odds >= 0) odds[n++] = *best_odds;
        *best = item;
        *best_odds = w_a;
      } else {
        odds[n++] = w_a;
      }
    }
  }
  return n;
}

/* The expected number of events among n items of odds theta * odds and `others` of theta * w0. */
static double mean_events(const double *odds, size_t n, double w0, double others, double theta) {
  double mean = others * (theta * w0 / (1 + theta * w0));
  for (size_t k = 0; k < n; k++) mean += theta * odds[k] / (1 + theta * odds[k]);
  return mean;
}

/* theta such that about m events are expected, by bisection of its logarithm: the odds may differ
 * by hundreds of orders of magnitude. The left end expects at most m events because q <= theta w.
 * The right end makes all events certain; if that is the solution, bisection stops at the first
 * theta within 1 %, because close to the right end 1 - q would be lost to rounding. */
static double tilt(const double *odds, size_t n, double w0, double others, double m) {
  double sum = others * w0;
  for (size_t k = 0; k < n; k++) sum += odds[k];
  if (sum <= 0) return 1;
  double lo = log(m / sum), hi = log(1e40);
  for (int round = 0; round < 40 && lo < hi; round++) {
    double middle = 0.5 * (lo + hi), mean = mean_events(odds, n, w0, others, exp(middle));
    if (mean < m) {
      lo = middle;
      if (m - mean < 0.01 * m) break;
    } else {
      hi = middle;
    }
  }
  return exp(lo);
}

/* g[j], j <= m: the probability of j events among n of odds theta * odds. */
static void add_events(double *g, size_t m, const double *odds, size_t n, double theta) {
  memset(g, 0, (m + 1) * sizeof *g);
  g[0] = 1;
  for (size_t k = 0; k < n; k++) {
    double not_q = 1 / (1 + theta * odds[k]), q = theta * odds[k] * not_q;
    size_t top = k + 1 < m ? k + 1 : m;
    for (size_t j = top; j > 0; j--) g[j] = not_q * g[j] + q * g[j - 1];
    g[0] *= not_q;
  }
}

/* P(best in Y | X, m). `others` items outside X and the liked clusters have odds w0 each. */
static double probability(double *g, double best_odds, const double *odds, size_t n, double w0,
                          double others, size_t m) {
  double theta = tilt(odds, n, w0, others, (double)m);
  add_events(g, m, odds, n, theta);

  /* at_m, before = sum over j of g(j) B(m - j), g(j) B(m - 1 - j), B binomial of `others`. */
  double at_m = g[m], before = g[m - 1];
  if (w0 > 0 && others > 0) {
    double log_b = -others * log1p(theta * w0), log_odds = log(theta * w0);
    at_m = before = 0;
    for (size_t i = 0; i <= m && (double)i <= others; i++) {
      double b = exp(log_b);
      at_m += b * g[m - i];
      if (i < m) before += b * g[m - 1 - i];
      log_b += log((others - (double)i) / (double)(i + 1)) + log_odds;
    }
  }
  double hit = theta * best_odds * before;
  return hit + at_m > 0 ? hit / (hit + at_m) : 0;
}

static int is_among(uint32_t id, const uint32_t *ids, size_t n) {
  for (size_t k = 0; k < n; k++) {
    if (ids[k] == id) return 1;
  }
  return 0;
}

/* The lowest id that is neither in X nor in a liked cluster; all of these are equally good. */
static uint32_t first_other(const fopo_world *w, const fopo_sessions *s, size_t row) {
  const uint32_t *liked = w->liked + s->users[row] * w->tastes;
  uint32_t item = 0;
  while (item < w->items &&
         (is_among(w->cluster[item], liked, w->tastes) || fopo_csr_contains(&s->X, row, item))) {
    item++;
  }
  return item;
}

static double best_of_session(int *hit, const fopo_world *w, const fopo_sessions *s, size_t row,
                              scratch *b) {
  uint32_t user = s->users[row], best;
  size_t m = fopo_csr_count(&s->Y, row), x = fopo_csr_count(&s->X, row);
  double best_odds, w0 = odds_of((double)w->rate[user], w->noise / (double)w->items);
  size_t n = gather(b->odds, &best, &best_odds, w, s, row);
  size_t outside = w->items - x - n - (best < w->items);
  if (best == w->items) {
    best = first_other(w, s, row);
    best_odds = w0;
    outside -= best < w->items;
  }
  *hit = best < w->items && fopo_csr_contains(&s->Y, row, best);
  if (m == 0 || best == w->items) return 0;
  return probability(b->g, best_odds, b->odds, n, w0, (double)outside, m);
}

static int check_sessions(const fopo_world *w, const fopo_sessions *s) {
  if (s->X.cols != w->items) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the sessions have %zu items but the world has %zu; use "
                     "the sessions of the world's own dataset",
                     s->X.cols, w->items);
  }
  for (size_t row = 0; row < s->X.rows; row++) {
    if (s->users[row] >= w->users) {
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "session %zu is of user %zu but the world has %zu users; "
                       "use the sessions of the world's own dataset",
                       row + 1, (size_t)s->users[row] + 1, w->users);
    }
  }
  if (s->X.rows == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "no session to find the best policy for");
  }
  return FOPO_OK;
}

/* sum[0], sum[1] += probabilities and hits. Computed in parallel, added up in the order of the
 * rows. */
static int sum_sessions(double sum[2], const fopo_world *w, const fopo_sessions *s, scratch *each,
                        double *values, int *hits) {
  size_t n = s->X.rows;
  for (size_t first = 0; first < n; first += BLOCK) {
    size_t last = first + BLOCK < n ? first + BLOCK : n;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 4)
    for (size_t row = first; row < last; row++) {
      values[row] = best_of_session(&hits[row], w, s, row, &each[omp_get_thread_num()]);
    }
    int status = fopo_progress("the best possible policy", (double)last, (double)n);
    if (status != FOPO_OK) return status;
  }
  for (size_t row = 0; row < n; row++) {
    sum[0] += values[row];
    sum[1] += hits[row];
  }
  return FOPO_OK;
}

int fopo_world_best(double *expected, double *achieved, const fopo_world *world,
                    const fopo_sessions *sessions) {
  size_t n = sessions->X.rows, threads = (size_t)fopo_threads();
  size_t most = world->tastes * (world->items / world->clusters + 1);
  double *values = NULL, sum[2] = {0, 0};
  int *hits = NULL, status = check_sessions(world, sessions);
  scratch *each = NULL;
  if (status != FOPO_OK) return status;
  size_t longest = fopo_csr_longest(&sessions->Y);
  status = FOPO_ERR_MEMORY;
  values = fopo_alloc(n, sizeof *values);
  hits = fopo_alloc(n, sizeof *hits);
  each = fopo_alloc(threads, sizeof *each);
  if (values == NULL || hits == NULL || each == NULL) goto out;
  for (size_t t = 0; t < threads; t++) {
    each[t].odds = fopo_alloc(most, sizeof *each[t].odds);
    each[t].g = fopo_alloc(longest + 1, sizeof *each[t].g);
    if (each[t].odds == NULL || each[t].g == NULL) goto out;
  }
  status = sum_sessions(sum, world, sessions, each, values, hits);
  if (status != FOPO_OK) goto out;
  if (expected != NULL) *expected = sum[0] / (double)n;
  if (achieved != NULL) *achieved = sum[1] / (double)n;
out:
  for (size_t t = 0; each != NULL && t < threads; t++) {
    fopo_free(each[t].odds);
    fopo_free(each[t].g);
  }
  fopo_free(each);
  fopo_free(values);
  fopo_free(hits);
  return status;
}
