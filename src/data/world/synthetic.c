/* The synthetic world and its best policy.
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
 *
 * Randomness: FOPO_STREAM_WORLD; step 0 the catalogue, step 1 the user's taste and rate (row =
 * user), steps 2 ... the tries of the user's session (index = interaction). Users are independent,
 * so the bits do not depend on the number of threads. */
#include "data/world/synthetic.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/sorted.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  BLOCK = 1024, /* users between two reports of progress */
  TRIES = 16,   /* with lambda >= 2 and no dominant item, one try fails in less than half of the
                 * cases, and all in 1 of 10,000 */
  STEP_CATALOGUE = 0,
  STEP_TASTE = 1,
  STEP_SESSION = 2
};

static const double SPREAD =
    0.7; /* standard deviation of log lambda: median 0.78 means, 99th percentile 4 means */
static const double LEAST_RATE = 2; /* a session needs two items */
static const double LARGEST =
    16; /* lambda <= 16 means (1 user in 100,000 is cut): bounds the scratch */

/* ---- options ----------------------------------------------------------------------------------*/

static fopo_world_options with_defaults(const fopo_world_options *options) {
  fopo_world_options o = *options;
  if (o.users == 0) o.users = 20000;
  if (o.items == 0) o.items = 100000;
  if (o.clusters == 0) o.clusters = 300;
  if (o.tastes == 0) o.tastes = 2;
  if (o.mean_items == 0) o.mean_items = 40;
  if (o.zipf == 0) o.zipf = 1;
  return o;
}

static int check_options(const fopo_world_options *o) {
  if (o->users >= UINT32_MAX || o->items >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a world of %zu users and %zu items is too large; the "
                     "limit is %u of each",
                     o->users, o->items, UINT32_MAX - 1);
  }
  if (o->items < 2) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a world of 1 item has nothing to choose; use items >= 2");
  }
  if (o->clusters > o->items) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu clusters do not fit %zu items; use clusters <= items",
                     o->clusters, o->items);
  }
  if (o->tastes > o->clusters) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a user cannot like %zu of %zu clusters; use tastes <= "
                     "clusters",
                     o->tastes, o->clusters);
  }
  if (!(o->mean_items >= 2 && o->mean_items <= 1e6)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "mean_items is %g; use 2 <= mean_items <= 1e6",
                     o->mean_items);
  }
  if (!(o->zipf >= 0 && o->zipf <= 10)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "zipf is %g; use 0 < zipf <= 10", o->zipf);
  }
  if (!(o->noise >= 0 && o->noise < 1)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "noise is %g, a share of the interactions; use 0 <= noise "
                     "< 1",
                     o->noise);
  }
  return FOPO_OK;
}

/* Capacity of a thread's scratch in interactions: the largest lambda and twelve standard
 * deviations. */
static size_t most_interactions(const fopo_world_options *o) {
  double lambda = LARGEST * o->mean_items;
  return (size_t)(lambda + 12 * sqrt(lambda) + 64);
}

/* ---- the world --------------------------------------------------------------------------------*/

static int world_init(fopo_world *w, const fopo_world_options *o) {
  w->users = o->users;
  w->items = o->items;
  w->clusters = o->clusters;
  w->tastes = o->tastes;
  w->noise = o->noise;
  w->cluster = fopo_alloc(o->items, sizeof *w->cluster);
  w->popularity = fopo_alloc(o->items, sizeof *w->popularity);
  w->by_cluster = fopo_alloc(o->items, sizeof *w->by_cluster);
  w->cluster_start = fopo_alloc(o->clusters + 1, sizeof *w->cluster_start);
  w->liked = fopo_alloc(o->users * o->tastes, sizeof *w->liked);
  w->taste = fopo_alloc(o->users * o->tastes, sizeof *w->taste);
  w->rate = fopo_alloc(o->users, sizeof *w->rate);
  if (w->cluster == NULL || w->popularity == NULL || w->by_cluster == NULL ||
      w->cluster_start == NULL || w->liked == NULL || w->taste == NULL || w->rate == NULL) {
    return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

/* Shuffles the items and cuts them into clusters of equal size (within one). cumulated [items], in
 * the order of by_cluster: the sum of the popularities of a cluster up to and including the item.
 */
static void make_catalogue(fopo_world *w, double *cumulated, const fopo_world_options *o) {
  fopo_shuffle(w->by_cluster, (uint32_t)w->items, o->seed, FOPO_STREAM_WORLD, STEP_CATALOGUE);
  for (size_t c = 0; c < w->clusters; c++) {
    size_t start = c * w->items / w->clusters, end = (c + 1) * w->items / w->clusters;
    double sum = 0;
    w->cluster_start[c] = start;
    for (size_t k = start; k < end; k++) {
      sum += pow((double)(k - start + 1), -o->zipf);
      cumulated[k] = sum;
    }
    for (size_t k = start; k < end; k++) {
      uint32_t item = w->by_cluster[k];
      w->cluster[item] = (uint32_t)c;
      w->popularity[item] = (float)(pow((double)(k - start + 1), -o->zipf) / sum);
      cumulated[k] /= sum;
    }
  }
  w->cluster_start[w->clusters] = w->items;
}

static int is_among(uint32_t id, const uint32_t *ids, size_t n) {
  for (size_t k = 0; k < n; k++) {
    if (ids[k] == id) return 1;
  }
  return 0;
}

/* Different clusters, each equally likely; weights ~ Dirichlet(1, ..., 1) as normalised
 * exponentials; lambda log-normal with mean mean_items. */
static void make_user(fopo_world *w, uint32_t user, const fopo_world_options *o) {
  size_t n = w->tastes;
  uint32_t *liked = w->liked + user * n, index = 0;
  float *taste = w->taste + user * n;
  double sum = 0, a, b;
  for (size_t k = 0; k < n; k++) {
    fopo_words r;
    do {
      r = fopo_random(o->seed, FOPO_STREAM_WORLD, STEP_TASTE, user, index++);
      liked[k] = (uint32_t)(fopo_unit(r.v[0]) * (double)w->clusters);
    } while (is_among(liked[k], liked, k));
    taste[k] = (float)-log(fopo_unit(r.v[1]));
    sum += (double)taste[k];
  }
  for (size_t k = 0; k < n; k++) taste[k] = (float)((double)taste[k] / sum);

  fopo_words r = fopo_random(o->seed, FOPO_STREAM_WORLD, STEP_TASTE, user, index);
  fopo_normal_pair(&a, &b, r.v[0], r.v[1]);
  double lambda = o->mean_items * exp(SPREAD * a - 0.5 * SPREAD * SPREAD);
  w->rate[user] = (float)fmin(fmax(lambda, LEAST_RATE), LARGEST * o->mean_items);
}

/* ---- sessions ---------------------------------------------------------------------------------*/

/* The first index in start .. end - 1 whose cumulated popularity reaches u. */
static size_t invert(const double *cumulated, size_t start, size_t end, double u) {
  size_t lo = start, hi = end - 1;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (cumulated[mid] < u) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return lo;
}

/* One item from p_u: `which` chooses noise or a liked cluster, `inside` the item there. */
static uint32_t draw_item(const fopo_world *w, const double *cumulated, uint32_t user, double which,
                          double inside) {
  if (which < w->noise) return (uint32_t)(inside * (double)w->items);
  double left = (which - w->noise) / (1 - w->noise);
  const float *taste = w->taste + user * w->tastes;
  size_t k = 0;
  while (k + 1 < w->tastes && left >= (double)taste[k]) left -= (double)taste[k++];
  uint32_t c = w->liked[user * w->tastes + k];
  size_t start = (size_t)w->cluster_start[c], end = (size_t)w->cluster_start[c + 1];
  return w->by_cluster[invert(cumulated, start, end, inside)];
}

/* The items of all interactions within a time of lambda_u, with exponential gaps of mean 1; sorted,
 * repeats included. Returns how many. */
static size_t draw_interactions(uint32_t *drawn, size_t most, const fopo_world *w,
                                const double *cumulated, uint32_t user, uint64_t seed,
                                uint32_t try) {
  size_t n = 0;
  double time = 0;
  for (uint32_t index = 0; n < most; index++) {
    fopo_words r = fopo_random(seed, FOPO_STREAM_WORLD, STEP_SESSION + try, user, index);
    time -= log(fopo_unit(r.v[0]));
    if (time > (double)w->rate[user]) break;
    drawn[n++] = draw_item(w, cumulated, user, fopo_unit(r.v[1]), fopo_unit(r.v[2]));
  }
  fopo_sort_u32(drawn, n);
  return n;
}

static size_t count_distinct(const uint32_t *drawn, size_t n) {
  size_t distinct = n > 0;
  for (size_t k = 1; k < n; k++) distinct += drawn[k] != drawn[k - 1];
  return distinct;
}

/* The first try with two items or more, else the last. */
static size_t draw_session(uint32_t *drawn, size_t most, const fopo_world *w,
                           const double *cumulated, uint32_t user, uint64_t seed) {
  size_t n = 0;
  for (uint32_t try = 0; try < TRIES; try++) {
    n = draw_interactions(drawn, most, w, cumulated, user, seed, try);
    if (count_distinct(drawn, n) >= 2) break;
  }
  return n;
}

/* Writes sorted items as the row's ids and their counts. */
static void write_row(fopo_csr *m, uint32_t user, const uint32_t *drawn, size_t n) {
  size_t at = (size_t)m->indptr[user];
  for (size_t k = 0; k < n; k++) {
    if (k > 0 && drawn[k] == drawn[k - 1]) {
      m->values[at - 1] += 1.0F;
    } else {
      m->ids[at] = drawn[k];
      m->values[at++] = 1.0F;
    }
  }
}

/* What drawing needs, shared by the threads. */
typedef struct {
  fopo_world *world;
  const fopo_world_options *options;
  double *cumulated; /* [items] */
  uint32_t *drawn;   /* [threads, most] items of one session */
  size_t most;
  uint64_t *interactions; /* [users] number of them, repeats included */
} generator;

/* Pass 0 makes the users and counts; pass 1 draws the same sessions again and writes them. Drawing
 * twice costs less than storing lists of unknown length. */
static int draw_users(fopo_csr *m, const generator *g, int pass) {
  size_t users = g->world->users;
  uint64_t seed = g->options->seed;
  for (size_t first = 0; first < users; first += BLOCK) {
    size_t last = first + BLOCK < users ? first + BLOCK : users;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 32)
    for (size_t u = first; u < last; u++) {
      uint32_t user = (uint32_t)u, *drawn = g->drawn + (size_t)omp_get_thread_num() * g->most;
      if (pass == 0) make_user(g->world, user, g->options);
      size_t n = draw_session(drawn, g->most, g->world, g->cumulated, user, seed);
      if (pass == 0) {
        g->interactions[u] = n;
        m->indptr[u + 1] = count_distinct(drawn, n);
      } else {
        write_row(m, user, drawn, n);
      }
    }
    int status =
        fopo_progress("making a world", (double)((size_t)pass * users + last), 2.0 * (double)users);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

static int draw_matrix(fopo_csr *m, const generator *g) {
  size_t users = g->world->users;
  fopo_csr counted = {users, g->world->items, fopo_alloc(users + 1, sizeof(uint64_t)), NULL, NULL};
  if (counted.indptr == NULL) return FOPO_ERR_MEMORY;
  int status = draw_users(&counted, g, 0);
  if (status == FOPO_OK) {
    for (size_t u = 0; u < users; u++) counted.indptr[u + 1] += counted.indptr[u];
    status = fopo_csr_init(m, users, counted.cols, (size_t)counted.indptr[users], 1);
  }
  if (status == FOPO_OK) {
    memcpy(m->indptr, counted.indptr, (users + 1) * sizeof *m->indptr);
    status = draw_users(m, g, 1);
  }
  fopo_free(counted.indptr);
  return status;
}

static int describe(fopo_dataset *d, const uint64_t *interactions) {
  const fopo_csr *m = &d->matrix;
  int status = fopo_csr_columns_used(&d->items_seen, m);
  if (status != FOPO_OK) return status;
  for (size_t u = 0; u < m->rows; u++) {
    d->users_seen += fopo_csr_count(m, u) > 0;
    d->rows_read += (size_t)interactions[u];
  }
  d->repeats = d->rows_read - fopo_csr_nnz(m);
  d->users.n = m->rows;
  d->items.n = m->cols;
  snprintf(d->format, sizeof d->format, "synthetic");
  return FOPO_OK;
}

static int check_memory(const fopo_world_options *o) {
  double nnz = (double)o->users * o->mean_items;
  double bytes = nnz * 8 + (double)o->items * 24 + (double)o->users * (28 + 8 * (double)o->tastes) +
                 (double)most_interactions(o) * 4 * fopo_threads();
  return fopo_memory_suffices(bytes < 1e18 ? (uint64_t)bytes : UINT64_MAX, "the synthetic world",
                              "use fewer users or a smaller mean_items");
}

int fopo_world_new(fopo_world **world, fopo_dataset **d, const fopo_world_options *options) {
  fopo_world_options o = with_defaults(options);
  generator g = {NULL, &o, NULL, NULL, 0, NULL};
  *world = NULL;
  *d = NULL;
  int status = check_options(&o);
  if (status == FOPO_OK) status = check_memory(&o);
  if (status != FOPO_OK) return status;

  status = FOPO_ERR_MEMORY;
  g.most = most_interactions(&o);
  *world = g.world = fopo_alloc(1, sizeof **world);
  *d = fopo_alloc(1, sizeof **d);
  g.cumulated = fopo_alloc(o.items, sizeof *g.cumulated);
  g.drawn = fopo_alloc((size_t)fopo_threads() * g.most, sizeof *g.drawn);
  g.interactions = fopo_alloc(o.users, sizeof *g.interactions);
  if (*world == NULL || *d == NULL || g.cumulated == NULL || g.drawn == NULL ||
      g.interactions == NULL) {
    goto out;
  }
  status = world_init(g.world, &o);
  if (status != FOPO_OK) goto out;
  make_catalogue(g.world, g.cumulated, &o);
  status = draw_matrix(&(*d)->matrix, &g);
  if (status == FOPO_OK) status = describe(*d, g.interactions);
out:
  fopo_free(g.cumulated);
  fopo_free(g.drawn);
  fopo_free(g.interactions);
  if (status != FOPO_OK) {
    fopo_world_free(*world);
    fopo_dataset_free(*d);
    *world = NULL;
    *d = NULL;
  }
  return status;
}

void fopo_world_free(fopo_world *world) {
  if (world == NULL) return;
  fopo_free(world->cluster);
  fopo_free(world->popularity);
  fopo_free(world->by_cluster);
  fopo_free(world->cluster_start);
  fopo_free(world->liked);
  fopo_free(world->taste);
  fopo_free(world->rate);
  fopo_free(world);
}

/* ---- the best policy --------------------------------------------------------------------------*/

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
  for (size_t first = 0; first < n; first += BLOCK / 8) {
    size_t last = first + BLOCK / 8 < n ? first + BLOCK / 8 : n;
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
  size_t n = sessions->X.rows, threads = (size_t)fopo_threads(), longest = 0;
  size_t most = world->tastes * (world->items / world->clusters + 1);
  double *values = NULL, sum[2] = {0, 0};
  int *hits = NULL, status = check_sessions(world, sessions);
  scratch *each = NULL;
  if (status != FOPO_OK) return status;
  for (size_t row = 0; row < n; row++) {
    size_t m = fopo_csr_count(&sessions->Y, row);
    if (m > longest) longest = m;
  }
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
