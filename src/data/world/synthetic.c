/* The making of a synthetic world: catalogue, users, sessions.
 *
 * Randomness: FOPO_STREAM_WORLD; step 0 the catalogue, step 1 the user's taste and rate (row =
 * user; from index AGAIN on the rates of later tries), steps 2 ... the tries of the user's session
 * (index = interaction). Users are independent, so the bits do not depend on the number of
 * threads. */
#include "data/world/synthetic.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"

#define WORLD   "the synthetic world"
#define SMALLER "use fewer users or a smaller mean_items"

enum {
  BLOCK = 1024, /* users between two reports of progress */
  TRIES = 16,   /* with lambda >= 2 and no dominant item, one try fails in less than half of the
                 * cases, and all in 1 of 10,000 */
  DRAWS = 1000, /* of a cluster that is not liked yet, where their appeal differs: then the most
                 * appealing one is taken */
  STEP_CATALOGUE = 0,
  STEP_TASTE = 1,
  STEP_SESSION = 2
};

static const uint32_t AGAIN = 1u << 31;
static const double LEAST_RATE = 2; /* a session needs two items */

/* ---- sizes ------------------------------------------------------------------------------------*/

/* The largest lambda, which bounds the scratch: 1 user in 100,000 is cut to it. */
static double largest_rate(const fopo_world_options *o) {
  double above_mean = exp(4.265 * o->spread - 0.5 * o->spread * o->spread);
  return fmax(16, above_mean) * o->mean_items;
}

/* Capacity of a thread's scratch in interactions: the largest lambda and twelve standard
 * deviations. */
static size_t most_interactions(const fopo_world_options *o) {
  double lambda = largest_rate(o);
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

static int is_among(uint32_t id, const uint32_t *ids, size_t n) {
  for (size_t k = 0; k < n; k++) {
    if (ids[k] == id) return 1;
  }
  return 0;
}

/* reach[c]: the chance that a liked cluster is one of the first c + 1. */
static void fill_reach(double *reach, const fopo_world_options *o) {
  double sum = 0;
  for (size_t c = 0; c < o->clusters; c++) {
    sum += pow((double)(c + 1), -o->appeal);
    reach[c] = sum;
  }
  for (size_t c = 0; c < o->clusters; c++) reach[c] /= sum;
}

/* The first cluster that is not among the n of `liked`. */
static uint32_t most_appealing(const uint32_t *liked, size_t n) {
  uint32_t c = 0;
  while (is_among(c, liked, n)) c++;
  return c;
}

static void draw_rate(fopo_world *w, uint32_t user, const fopo_world_options *o, uint32_t index) {
  fopo_words r = fopo_random(o->seed, FOPO_STREAM_WORLD, STEP_TASTE, user, index);
  double a, b;
  fopo_normal_pair(&a, &b, r.v[0], r.v[1]);
  double lambda = o->mean_items * exp(o->spread * a - 0.5 * o->spread * o->spread);
  w->rate[user] = (float)fmin(fmax(lambda, LEAST_RATE), largest_rate(o));
}

/* Different clusters, by their appeal; weights ~ Dirichlet(1, ..., 1) as normalised exponentials;
 * lambda log-normal with mean mean_items. */
static void make_user(fopo_world *w, uint32_t user, const fopo_world_options *o,
                      const double *reach) {
  size_t n = w->tastes;
  uint32_t *liked = w->liked + user * n, index = 0;
  float *taste = w->taste + user * n;
  double sum = 0;
  for (size_t k = 0; k < n; k++) {
    fopo_words r;
    uint32_t end = index + DRAWS;
    do {
      r = fopo_random(o->seed, FOPO_STREAM_WORLD, STEP_TASTE, user, index++);
      double u = fopo_unit(r.v[0]);
      liked[k] = (uint32_t)(o->appeal > 0 ? invert(reach, 0, w->clusters, u)
                                          : (size_t)(u * (double)w->clusters));
      if (o->appeal > 0 && index == end) liked[k] = most_appealing(liked, k);
    } while (is_among(liked[k], liked, k));
    taste[k] = (float)-log(fopo_unit(r.v[1]));
    sum += (double)taste[k];
  }
  for (size_t k = 0; k < n; k++) taste[k] = (float)((double)taste[k] / sum);
  draw_rate(w, user, o, index);
}

/* ---- sessions ---------------------------------------------------------------------------------*/

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

/* What drawing needs, shared by the threads. */
typedef struct {
  fopo_world *world;
  const fopo_world_options *options;
  double *cumulated; /* [items] */
  double *reach;     /* [clusters] */
  uint32_t *drawn;   /* [threads, most] items of one session */
  size_t most;
  uint64_t *interactions; /* [users] number of them, repeats included */
  uint8_t *tries;         /* [users] the try that was taken */
} generator;

/* The first try with least_items items or more, else the last. A lambda that gave too few items of
 * more than 2 is drawn again with the session, as the real preparation drops such users. Depends on
 * |S| alone, given lambda: the best policy stays what it is. */
static size_t draw_session(uint32_t *drawn, const generator *g, uint32_t user) {
  const fopo_world_options *o = g->options;
  size_t n = 0;
  for (uint32_t try = 0; try < TRIES; try++) {
    if (try > 0 && o->least_items > 2) draw_rate(g->world, user, o, AGAIN + try);
    n = draw_interactions(drawn, g->most, g->world, g->cumulated, user, o->seed, try);
    g->tries[user] = (uint8_t)try;
    if (count_distinct(drawn, n) >= o->least_items) break;
  }
  return n;
}

/* The same session, by the try that was taken. */
static size_t draw_again(uint32_t *drawn, const generator *g, uint32_t user) {
  return draw_interactions(drawn, g->most, g->world, g->cumulated, user, g->options->seed,
                           g->tries[user]);
}

/* Writes sorted items as the row's ids and their counts. */
static void write_row(fopo_csr *m, uint32_t user, const uint32_t *drawn, size_t n) {
  size_t at = (size_t)m->indptr[user];
  for (size_t k = 0; k < n; k++) {
    int repeat = k > 0 && drawn[k] == drawn[k - 1];
    if (!repeat) m->ids[at++] = drawn[k];
    if (m->values != NULL) m->values[at - 1] = repeat ? m->values[at - 1] + 1.0F : 1.0F;
  }
}

/* Pass 0 makes the users and counts; pass 1 draws the same sessions again and writes them. Drawing
 * twice costs less than storing lists of unknown length. */
static int draw_users(fopo_csr *m, const generator *g, int pass) {
  size_t users = g->world->users;
  for (size_t first = 0; first < users; first += BLOCK) {
    size_t last = first + BLOCK < users ? first + BLOCK : users;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 32)
    for (size_t u = first; u < last; u++) {
      uint32_t user = (uint32_t)u, *drawn = g->drawn + (size_t)omp_get_thread_num() * g->most;
      if (pass == 0) {
        make_user(g->world, user, g->options, g->reach);
        size_t n = draw_session(drawn, g, user);
        g->interactions[u] = n;
        m->indptr[u + 1] = count_distinct(drawn, n);
      } else {
        write_row(m, user, drawn, draw_again(drawn, g, user));
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
    uint64_t bytes = counted.indptr[users] * (g->options->ones ? 4 : 8) + 8 * (uint64_t)users;
    status = fopo_memory_suffices(bytes, WORLD, SMALLER);
  }
  if (status == FOPO_OK) {
    status =
        fopo_csr_init(m, users, counted.cols, (size_t)counted.indptr[users], !g->options->ones);
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
  /* A bound from below: repeats count once, and dropping the users with few items raises the mean.
   * Before the interactions are stored, they are counted. */
  double nnz = 0.75 * (double)o->users * o->mean_items;
  double bytes = nnz * (o->ones ? 4 : 8) + (double)o->items * 24 +
                 (double)o->users * (29 + 8 * (double)o->tastes) +
                 (double)most_interactions(o) * 4 * fopo_threads();
  return fopo_memory_suffices(bytes < 1e18 ? (uint64_t)bytes : UINT64_MAX, WORLD, SMALLER);
}

int fopo_world_new(fopo_world **world, fopo_dataset **d, const fopo_world_options *options) {
  fopo_world_options o = *options;
  generator g = {.options = &o};
  *world = NULL;
  *d = NULL;
  int status = fopo_world_options_complete(&o);
  if (status == FOPO_OK) status = check_memory(&o);
  if (status != FOPO_OK) return status;

  status = FOPO_ERR_MEMORY;
  g.most = most_interactions(&o);
  *world = g.world = fopo_alloc(1, sizeof **world);
  *d = fopo_alloc(1, sizeof **d);
  g.cumulated = fopo_alloc(o.items, sizeof *g.cumulated);
  g.drawn = fopo_alloc((size_t)fopo_threads() * g.most, sizeof *g.drawn);
  g.reach = fopo_alloc(o.clusters, sizeof *g.reach);
  g.interactions = fopo_alloc(o.users, sizeof *g.interactions);
  g.tries = fopo_alloc(o.users, sizeof *g.tries);
  if (*world == NULL || *d == NULL || g.cumulated == NULL || g.drawn == NULL || g.reach == NULL ||
      g.interactions == NULL || g.tries == NULL) {
    goto out;
  }
  status = world_init(g.world, &o);
  if (status != FOPO_OK) goto out;
  make_catalogue(g.world, g.cumulated, &o);
  fill_reach(g.reach, &o);
  status = draw_matrix(&(*d)->matrix, &g);
  if (status == FOPO_OK) status = describe(*d, g.interactions);
out:
  fopo_free(g.cumulated);
  fopo_free(g.drawn);
  fopo_free(g.reach);
  fopo_free(g.interactions);
  fopo_free(g.tries);
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

/* ---- defaults and refusals --------------------------------------------------------------------*/

static void fill_defaults(fopo_world_options *o) {
  if (o->users == 0) o->users = 20000;
  if (o->items == 0) o->items = 100000;
  if (o->clusters == 0) o->clusters = 300;
  if (o->tastes == 0) o->tastes = 2;
  if (o->mean_items == 0) o->mean_items = 40;
  if (o->zipf == 0) o->zipf = 1;
  if (o->spread == 0) o->spread = 0.7; /* median 0.78 means, 99th percentile 4 means */
  if (o->least_items == 0) o->least_items = 2;
}

static int check_shape(const fopo_world_options *o) {
  if (!(o->appeal >= 0 && o->appeal <= 10)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "appeal is %g; use 0 <= appeal <= 10", o->appeal);
  }
  if (!(o->spread > 0 && o->spread <= 3)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "spread is %g; use 0 < spread <= 3", o->spread);
  }
  if (o->least_items > o->items) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a session cannot have %zu of %zu items; use least_items <= items",
                     o->least_items, o->items);
  }
  return FOPO_OK;
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
  return check_shape(o);
}

int fopo_world_options_complete(fopo_world_options *o) {
  fill_defaults(o);
  return check_options(o);
}

/* ---- twins ------------------------------------------------------------------------------------*/

/* What is published of the two sets of the paper, and what is not.
 *
 * Both: sizes after the authors' preparation (Table 1 of the paper: 790 K items and 500 K users,
 * 2.33 M and 300 K), and sessions of 20 or more different items (their code).
 *
 * Twitch. LiveRec's README counts 15.5 M users, 465 K streamers and 124 M rows in full_a.csv; the
 * paper's 790 K items are more than that, and are taken as they stand. The rest follows the subset
 * of 100,000 users, as counted in public (github.com/FuugaMo/Twitch-Livestream-EDA, folder
 * tableau_exports: streamer_viewer_distribution, loyalty_distribution, rfm_user_segments):
 * 3,051,733 rows are 1,505,158 pairs, 2.03 rows each; the 16, 163, 1,626, 8,131, 16,262 and 32,525
 * most watched of 162,625 streamers have 7.4, 23.2, 52.5, 73.7, 81.1 and 87.5 % of the pairs; of
 * the users with 41 rows or more the number of rows has mean 80.1, median 69, 90th and 99th
 * percentile 131 and 202.
 * Assumed: that a user's pairs are rows / 2.03, so that 41 rows are the 20 items (mean 39.5, median
 * 34, 65 and 100); that the shares hold for the same numbers of streamers in the full set; and the
 * clusters, which nobody published.
 *
 * GoodReads. The authors of the set count 228,648,342 rows, 112,131,203 with is_read = 1, by
 * 876,145 users on 2,360,655 books, no pair twice, and show the distributions of both on double
 * logarithmic axes (github.com/MengtingWan/goodreads, distributions.ipynb). Read off the curves of
 * rated books, which hide those of read ones (104.6 M rows): about 612,000 users have 20 or more;
 * of these the median is 81 and the 90th percentile 360, and the mean 168 follows from the total;
 * the 3.65, 9.73, 18.8, 29.9 and 55.5 % most rated books have 71, 85, 91, 95 and 98 % of the rows.
 * Assumed: that read books are as rated ones, a little more of them (mean 175), and the clusters.
 *
 * The options below were fitted to these figures; test_twins.c holds the worlds to them. */
static const struct {
  const char *name;
  fopo_world_options full;
} twins[] = {{"twitch",
              {.users = 500000,
               .items = 790000,
               .clusters = 400,
               .tastes = 4,
               .mean_items = 66.8,
               .zipf = 1.42,
               .noise = 0.01,
               .appeal = 1,
               .spread = 0.68,
               .least_items = 20}},
             {"goodreads",
              {.users = 300000,
               .items = 2330000,
               .clusters = 1000,
               .tastes = 8,
               .mean_items = 258,
               .zipf = 1.1,
               .noise = 0.01,
               .appeal = 1,
               .spread = 1.55,
               .least_items = 20,
               .ones = 1}}};

const char *fopo_world_twin_name(size_t i) {
  return i < sizeof twins / sizeof *twins ? twins[i].name : NULL;
}

int fopo_world_twin(fopo_world_options *o, const char *name, double fraction) {
  size_t i = 0;
  while (fopo_world_twin_name(i) != NULL && strcmp(fopo_world_twin_name(i), name) != 0) i++;
  if (fopo_world_twin_name(i) == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "there is no twin of \"%.40s\"", name);
  }
  if (!(fraction > 0 && fraction <= 1)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "fraction is %g; use 0 < fraction <= 1", fraction);
  }
  *o = twins[i].full;
  o->users = (size_t)fmax(1, round((double)o->users * fraction));
  o->items = (size_t)fmax(100, round((double)o->items * fraction));
  o->clusters = (size_t)fmax((double)o->tastes, round((double)o->clusters * sqrt(fraction)));
  return FOPO_OK;
}
