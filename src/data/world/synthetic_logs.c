/* The world of synthetic_logs.h: its contexts, items and rewards, and the logging policy;
 * and the true values of policies. */
#include "data/world/synthetic_logs.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/product.h"

/* Random streams of one seed. */
enum {
  STREAM_CONTEXTS = FOPO_STREAM_LOGS,
  STREAM_ITEMS = FOPO_STREAM_LOGS | 1 << 8,
  STREAM_NORMS = FOPO_STREAM_LOGS | 2 << 8,
  STREAM_EVENTS = FOPO_STREAM_LOGS | 3 << 8
};

enum { ROWS = 64 }; /* contexts of a block, whose best actions or values are computed at once */

static double sigmoid(double t) { return 1.0 / (1.0 + exp(-t)); }

/* ---- the world ---- */

static int check_options(const fopo_log_world_options *o) {
  if (o->n == 0 || o->actions < 2 || o->dim == 0 || o->n >= UINT32_MAX ||
      o->actions >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a world of %zu events, %zu actions and %zu dimensions "
                     "is not possible; use 1, 2 and 1 or more",
                     o->n, o->actions, o->dim);
  }
  if (o->k == 0 || o->k > o->actions) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but there are %zu actions; use 1 to %zu", o->k,
                     o->actions, o->actions);
  }
  if (!(o->epsilon > 0.0 && o->epsilon <= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "epsilon is %g; use more than 0, so that every action can "
                     "be shown, and at most 1",
                     o->epsilon);
  }
  if (!(fabs(o->skill) <= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "skill is %g; use -1 to 1", o->skill);
  }
  if (!isfinite(o->sharpness) || !isfinite(o->bias) || !isfinite(o->slope) ||
      !(o->spread >= 0.0 && o->spread <= 4.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "sharpness, bias and slope must be finite and spread in "
                     "0 .. 4, not %g, %g, %g and %g",
                     o->sharpness, o->bias, o->slope, o->spread);
  }
  uint64_t bytes = 4 * ((uint64_t)o->n * (o->dim + 3) + (uint64_t)o->actions * (2 * o->dim + 2));
  return fopo_memory_suffices(bytes, "the world", "use fewer actions or events");
}

int fopo_log_world_contexts(fopo_matrix X, const fopo_log_world *world, uint64_t seed) {
  if (X.cols != world->options.dim) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "contexts of this world have %zu columns, not %zu",
                     world->options.dim, X.cols);
  }
  /* The log has the contexts of seed 0. */
  fopo_fill_normal(X.x, (uint64_t)X.rows * X.cols, 1.0 / sqrt((double)X.cols),
                   world->options.seed + seed * 0x9e3779b97f4a7c15u, STREAM_CONTEXTS);
  return FOPO_OK;
}

static int make_items(fopo_matrix items, const fopo_log_world_options *o) {
  float *norms = fopo_alloc(items.rows, sizeof *norms);
  if (norms == NULL) return FOPO_ERR_MEMORY;
  fopo_fill_normal(items.x, (uint64_t)items.rows * items.cols, 1.0, o->seed, STREAM_ITEMS);
  fopo_fill_normal(norms, items.rows, o->spread, o->seed, STREAM_NORMS);
  for (size_t a = 0; a < items.rows; a++) {
    float s = (float)exp((double)norms[a]);
    for (size_t i = 0; i < items.cols; i++) items.x[a * items.cols + i] *= s;
  }
  fopo_free(norms);
  return FOPO_OK;
}

/* rho(a, x), x [D]. */
static double rho_of(const fopo_log_world *w, const float *x, uint32_t a) {
  const fopo_log_world_options *o = &w->options;
  float product = fopo_kernels_get()->dot(x, fopo_matrix_row(w->items, a), o->dim);
  return sigmoid(o->bias + o->slope * (double)product);
}

/* ---- the logging policy ---- */

/* Scratch of a block: queries y [ROWS, D] and the K best of each, [ROWS, K]. */
typedef struct {
  fopo_matrix y;
  uint32_t *ids, *counts;
  float *scores;
} best;

static void best_done(best *b) { /* also after best_init has failed */
  fopo_matrix_done(&b->y);
  fopo_free(b->ids);
  fopo_free(b->counts);
  fopo_free(b->scores);
  *b = (best){0};
}

static int best_init(best *b, const fopo_log_world_options *o) {
  *b = (best){0};
  int status = fopo_matrix_init(&b->y, ROWS, o->dim);
  b->ids = fopo_alloc(ROWS * o->k, sizeof *b->ids);
  b->scores = fopo_alloc(ROWS * o->k, sizeof *b->scores);
  b->counts = fopo_alloc(ROWS, sizeof *b->counts);
  if (!b->ids || !b->scores || !b->counts) status = FOPO_ERR_MEMORY;
  if (status != FOPO_OK) best_done(b);
  return status;
}

/* The K best of f0 for the rows of X, at most ROWS; b->scores becomes kappa. */
static int find_best(best *b, const fopo_log_world *w, fopo_matrix X) {
  const fopo_log_world_options *o = &w->options;
  double skill = o->skill * o->sharpness;
  double other = sqrt(1.0 - o->skill * o->skill) * o->sharpness;
  for (size_t n = 0; n < X.rows; n++) {
    const float *x = fopo_matrix_row(X, n);
    float *y = fopo_matrix_row(b->y, n);
    for (size_t i = 0; i < o->dim; i++) {
      double turned = (double)x[(i + 1) % o->dim] * (i % 2 == 0 ? 1.0 : -1.0);
      y[i] = (float)(skill * (double)x[i] + other * turned);
    }
  }
  fopo_matrix y = fopo_matrix_rows(b->y, 0, X.rows);
  int status = fopo_index_search(b->ids, b->scores, b->counts, w->index, y, o->k);
  for (size_t n = 0; n < X.rows && status == FOPO_OK; n++) {
    float *f = b->scores + n * o->k;
    double sum = fopo_kernels_get()->exp_sum(f, f, f[0], b->counts[n]);
    for (size_t i = 0; i < b->counts[n]; i++) f[i] = (float)((double)f[i] / sum);
  }
  return status;
}

/* Draws an action of mu, and its probability. */
static uint32_t draw(double *propensity, const best *b, const fopo_log_world_options *o, size_t row,
                     size_t in_block) {
  const uint32_t *ids = b->ids + in_block * o->k;
  const float *kappa = b->scores + in_block * o->k;
  size_t count = b->counts[in_block];
  fopo_words w = fopo_random(o->seed, STREAM_EVENTS, 0, (uint32_t)row, 0);
  uint32_t a;
  if (fopo_unit(w.v[0]) < o->epsilon) {
    a = fopo_below((uint32_t)o->actions, w.v[1], o->seed, STREAM_EVENTS, (uint32_t)row, 0);
  } else {
    double target = fopo_unit(w.v[1]), sum = 0;
    size_t i = 0;
    while (i + 1 < count && (sum += (double)kappa[i]) <= target) i++;
    a = ids[i];
  }
  *propensity = o->epsilon / (double)o->actions;
  for (size_t i = 0; i < count; i++) {
    if (ids[i] == a) *propensity += (1.0 - o->epsilon) * (double)kappa[i];
  }
  return a;
}

static int make_events(fopo_log_world *w, fopo_logs *logs) {
  const fopo_log_world_options *o = &w->options;
  best b;
  int status = best_init(&b, o);
  if (status != FOPO_OK) return status;
  for (size_t first = 0; first < o->n && status == FOPO_OK; first += ROWS) {
    size_t n = o->n - first < ROWS ? o->n - first : ROWS;
    status = find_best(&b, w, fopo_matrix_rows(w->contexts, first, n));
    for (size_t i = 0; i < n && status == FOPO_OK; i++) {
      size_t row = first + i;
      double p;
      uint32_t a = draw(&p, &b, o, row, i);
      fopo_words word = fopo_random(o->seed, STREAM_EVENTS, 1, (uint32_t)row, 0);
      double rho = rho_of(w, fopo_matrix_row(w->contexts, row), a);
      logs->actions[row] = a;
      logs->propensities[row] = (float)(p < 1.0 ? p : 1.0);
      logs->rewards[row] = fopo_unit(word.v[0]) < rho ? 1.0f : 0.0f;
    }
    if (status == FOPO_OK) {
      status = fopo_progress("logging decisions", (double)(first + n), (double)o->n);
    }
  }
  best_done(&b);
  return status;
}

int fopo_log_world_new(fopo_log_world **world, fopo_logs **logs,
                       const fopo_log_world_options *options) {
  *world = NULL;
  *logs = NULL;
  int status = check_options(options);
  if (status != FOPO_OK) return status;
  fopo_log_world *w = fopo_alloc(1, sizeof *w);
  fopo_logs *lg = fopo_alloc(1, sizeof *lg);
  if (w == NULL || lg == NULL) {
    status = FOPO_ERR_MEMORY;
    goto out;
  }
  const fopo_log_world_options *o = &w->options;
  w->options = *options;
  lg->n = o->n;
  lg->n_actions = o->actions;
  memcpy(lg->format, "synthetic", sizeof "synthetic");
  status = fopo_matrix_init(&lg->contexts, o->n, o->dim);
  if (status == FOPO_OK) status = fopo_matrix_init(&lg->items, o->actions, o->dim);
  lg->actions = fopo_alloc(o->n, sizeof *lg->actions);
  lg->rewards = fopo_alloc(o->n, sizeof *lg->rewards);
  lg->propensities = fopo_alloc(o->n, sizeof *lg->propensities);
  if (!lg->actions || !lg->rewards || !lg->propensities) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_log_world_contexts(lg->contexts, w, 0);
  if (status == FOPO_OK) status = make_items(lg->items, o);
  w->contexts = lg->contexts;
  w->items = lg->items;
  if (status == FOPO_OK) status = fopo_index_norm(&w->index, w->items, 0);
  if (status == FOPO_OK) status = make_events(w, lg);
out:
  if (status != FOPO_OK) {
    fopo_log_world_free(w);
    fopo_logs_free(lg);
    return status;
  }
  *world = w;
  *logs = lg;
  return FOPO_OK;
}

void fopo_log_world_free(fopo_log_world *world) {
  if (world == NULL) return;
  fopo_index_free(world->index);
  fopo_free(world);
}

/* ---- its value, and rewards ---- */

/* epsilon times the value of the uniform policy (all scores 0), plus (1 - epsilon) sum_k kappa rho.
 */
int fopo_log_world_logging(double *value, const fopo_log_world *world, fopo_matrix X) {
  const fopo_log_world_options *o = &world->options;
  fopo_matrix Q = {0};
  best b = {0};
  double uniform = 0, sum = 0;
  int status = fopo_matrix_init(&Q, X.rows, world->items.cols);
  if (status == FOPO_OK) status = fopo_log_world_value(&uniform, world, X, Q, world->items, 0);
  if (status == FOPO_OK) status = best_init(&b, o);
  for (size_t first = 0; first < X.rows && status == FOPO_OK; first += ROWS) {
    size_t n = X.rows - first < ROWS ? X.rows - first : ROWS;
    status = find_best(&b, world, fopo_matrix_rows(X, first, n));
    for (size_t i = 0; i < n && status == FOPO_OK; i++) {
      for (size_t j = 0; j < b.counts[i]; j++) {
        sum += (double)b.scores[i * o->k + j] *
               rho_of(world, fopo_matrix_row(X, first + i), b.ids[i * o->k + j]);
      }
    }
    if (status == FOPO_OK) {
      status = fopo_progress("computing a true value", (double)(first + n), (double)X.rows);
    }
  }
  best_done(&b);
  fopo_matrix_done(&Q);
  *value = o->epsilon * uniform + (1.0 - o->epsilon) * sum / (double)X.rows;
  return status;
}

/* epsilon |c| / P + (1 - epsilon) sum kappa over the K best in c, c the group of the action. */
static void sum_groups(float *p, const fopo_log_world *world, const best *b, const size_t *size,
                       const uint32_t *groups, const uint32_t *actions, size_t n) {
  const fopo_log_world_options *o = &world->options;
  for (size_t i = 0; i < n; i++) {
    uint32_t group = groups[actions[i]];
    double sum = 0.0, uniform = (double)size[group] / (double)o->actions;
    for (size_t j = 0; j < b->counts[i]; j++) {
      if (groups[b->ids[i * o->k + j]] == group) sum += (double)b->scores[i * o->k + j];
    }
    p[i] = (float)fmin(o->epsilon * uniform + (1.0 - o->epsilon) * sum, 1.0);
  }
}

int fopo_log_world_groups(float *p, const fopo_log_world *world, fopo_matrix X,
                          const uint32_t *groups, const uint32_t *actions) {
  size_t P = world->options.actions, largest = 0;
  best b = {0};
  for (size_t a = 0; a < P; a++) largest = groups[a] > largest ? groups[a] : largest;
  size_t *size = fopo_alloc(largest + 1, sizeof *size);
  int status = size != NULL ? best_init(&b, &world->options) : FOPO_ERR_MEMORY;
  for (size_t a = 0; a < P && status == FOPO_OK; a++) size[groups[a]]++;
  for (size_t first = 0; first < X.rows && status == FOPO_OK; first += ROWS) {
    size_t n = X.rows - first < ROWS ? X.rows - first : ROWS;
    status = find_best(&b, world, fopo_matrix_rows(X, first, n));
    if (status == FOPO_OK) sum_groups(p + first, world, &b, size, groups, actions + first, n);
    if (status == FOPO_OK) {
      status = fopo_progress("summing groups", (double)(first + n), (double)X.rows);
    }
  }
  best_done(&b);
  fopo_free(size);
  return status;
}

int fopo_log_world_rewards(float *r, const fopo_log_world *world, fopo_matrix X,
                           const uint32_t *ids, const uint32_t *rows, size_t B, size_t S) {
  for (size_t b = 0; b < B; b++) {
    if (rows[b] >= X.rows) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "context %llu is asked for but there are %zu",
                       (unsigned long long)rows[b] + 1, X.rows);
    }
    for (size_t s = 0; s < S; s++) {
      if (ids[b * S + s] >= world->options.actions) {
        return fopo_fail(FOPO_ERR_ARGUMENT,
                         "draw %zu of context %zu is not an action of this world", s + 1, b + 1);
      }
    }
  }
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < B; b++) {
    for (size_t s = 0; s < S; s++) {
      r[b * S + s] = (float)rho_of(world, fopo_matrix_row(X, rows[b]), ids[b * S + s]);
    }
  }
  return FOPO_OK;
}

/* ---- true values: sums over the catalogue ---- */

/* True values in a world of logged decisions: sums over the whole catalogue.
 *
 * A sum passes over the items in segments, for one block of contexts at a time. Each segment has
 * its own totals: largest score, sum of weights and of weighted rewards. They are merged in the
 * order of the segments, so the bits do not depend on the number of threads, and there is no [m, P]
 * array. */

enum {
  SEGMENT = 8192, /* items whose totals one thread computes */
  TILE = 512,     /* items scored at once: 64 x 512 floats stay in L2 */
  SEGMENTS = 32   /* segments between two polls: about 50 ms for two threads and D = 32 */
};

/* The totals of a context over a segment, or over all segments so far. */
typedef struct {
  double shift; /* the largest score */
  double w, wr; /* sum of exp(f - shift), and of exp(f - shift) rho */
  uint32_t id;  /* the item of the largest score; the smallest such id */
} totals;

typedef struct {
  const fopo_log_world *world;
  fopo_matrix X, Q;  /* rows of the block */
  fopo_matrix items; /* of the policy */
  int greedy;
  totals *parts; /* [SEGMENTS, ROWS] */
} sweep;

/* Adds n items, with scores f and negative log-odds t, to the totals of a context. f and t are
 * overwritten. */
static void add_tile(totals *y, float *f, float *t, size_t first, size_t n, int greedy) {
  const fopo_kernels *k = fopo_kernels_get();
  double largest = (double)k->max(f, n);
  if (largest > y->shift) {
    double factor = exp(y->shift - largest);
    y->w *= factor;
    y->wr *= factor;
    y->shift = largest;
    size_t i = 0;
    while ((double)f[i] < largest) i++;
    y->id = (uint32_t)(first + i);
  }
  if (greedy) return;
  y->w += k->exp_sum(f, f, (float)y->shift, n);
  /* rho = 1 / (1 + exp(t)); t is cut where exp(t) would overflow float. */
  for (size_t i = 0; i < n; i++) t[i] = t[i] < 80.0f ? t[i] : 80.0f;
  k->exp_sum(t, t, 0.0f, n);
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)(f[i] / (1.0f + t[i]));
  y->wr += sum;
}

/* totals [rows of X] over the items first .. end - 1; f and t [ROWS, TILE] are scratch. */
static void sweep_segment(const sweep *s, totals *part, size_t first, size_t end, float *f,
                          float *t) {
  const fopo_log_world_options *o = &s->world->options;
  size_t rows = s->X.rows;
  for (size_t n = 0; n < rows; n++) part[n] = (totals){.shift = -INFINITY};
  for (size_t at = first; at < end; at += TILE) {
    size_t n = end - at < TILE ? end - at : TILE;
    fopo_matrix F = fopo_matrix_view(f, rows, n), T = fopo_matrix_view(t, rows, n);
    /* F [rows, n] = Q items^T; T = -(bias + slope X beta^T), the negative log-odds of a reward. */
    fopo_product_tile(F, 1.0f, s->Q, 0, fopo_matrix_rows(s->items, at, n), 1, 0.0f);
    if (!s->greedy) {
      for (size_t i = 0; i < rows * n; i++) t[i] = (float)-o->bias;
      fopo_product_tile(T, (float)-o->slope, s->X, 0, fopo_matrix_rows(s->world->items, at, n), 1,
                        1.0f);
    }
    for (size_t r = 0; r < rows; r++) add_tile(&part[r], f + r * n, t + r * n, at, n, s->greedy);
  }
}

/* Merges the totals of a segment. */
static void merge(totals *all, const totals *part) {
  if (part->shift > all->shift) {
    double factor = exp(all->shift - part->shift);
    all->w = all->w * factor + part->w;
    all->wr = all->wr * factor + part->wr;
    all->shift = part->shift;
    all->id = part->id;
  } else {
    double factor = exp(part->shift - all->shift);
    all->w += part->w * factor;
    all->wr += part->wr * factor;
  }
}

/* One block of contexts over all items. */
static int sweep_block(const sweep *s, totals *all, double done, double total) {
  size_t P = s->items.rows, segments = (P + SEGMENT - 1) / SEGMENT;
  int failed = 0;
  for (size_t n = 0; n < s->X.rows; n++) all[n] = (totals){.shift = -INFINITY};
  for (size_t from = 0; from < segments; from += SEGMENTS) {
    size_t count = segments - from < SEGMENTS ? segments - from : SEGMENTS;
#pragma omp parallel num_threads(fopo_threads()) if (count > 1) reduction(| : failed)
    {
      float *f = fopo_alloc(2 * ROWS * TILE, sizeof *f);
      failed |= f == NULL;
#pragma omp for schedule(dynamic)
      for (size_t i = 0; i < count; i++) {
        if (f == NULL || fopo_interrupted()) continue;
        size_t first = (from + i) * SEGMENT, end = first + SEGMENT < P ? first + SEGMENT : P;
        sweep_segment(s, s->parts + i * ROWS, first, end, f, f + ROWS * TILE);
      }
      fopo_free(f);
    }
    if (failed) return fopo_fail(FOPO_ERR_MEMORY, "no memory for the tiles of a sum");
    for (size_t i = 0; i < count; i++) {
      for (size_t n = 0; n < s->X.rows; n++) merge(&all[n], &s->parts[i * ROWS + n]);
    }
    double share = (double)(from + count) / (double)segments * (double)s->X.rows;
    int status = fopo_progress("computing a true value", done + share, total);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

static int check_value(const fopo_log_world *w, fopo_matrix X, fopo_matrix Q, fopo_matrix items) {
  if (X.rows == 0 || X.cols != w->options.dim || Q.rows != X.rows) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "contexts are %zu x %zu and queries %zu x %zu; one query "
                     "for each context and %zu columns of contexts are needed",
                     X.rows, X.cols, Q.rows, Q.cols, w->options.dim);
  }
  if (items.rows != w->options.actions || items.cols != Q.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the policy has %zu items of dimension %zu but the world "
                     "has %zu actions and queries of dimension %zu",
                     items.rows, items.cols, w->options.actions, Q.cols);
  }
  return FOPO_OK;
}

int fopo_log_world_value(double *value, const fopo_log_world *world, fopo_matrix X, fopo_matrix Q,
                         fopo_matrix items, int greedy) {
  int status = check_value(world, X, Q, items);
  if (status != FOPO_OK) return status;
  totals all[ROWS];
  double sum = 0;
  sweep s = {.world = world,
             .items = items,
             .greedy = greedy,
             .parts = fopo_alloc(SEGMENTS * ROWS, sizeof *s.parts)};
  if (s.parts == NULL) return FOPO_ERR_MEMORY;
  for (size_t first = 0; first < X.rows && status == FOPO_OK; first += ROWS) {
    size_t n = X.rows - first < ROWS ? X.rows - first : ROWS;
    s.X = fopo_matrix_rows(X, first, n);
    s.Q = fopo_matrix_rows(Q, first, n);
    status = sweep_block(&s, all, (double)first, (double)X.rows);
    for (size_t i = 0; i < n && status == FOPO_OK; i++) {
      sum += greedy ? rho_of(world, fopo_matrix_row(s.X, i), all[i].id) : all[i].wr / all[i].w;
    }
  }
  fopo_free(s.parts);
  *value = sum / (double)X.rows;
  return status;
}

int fopo_log_world_best(double *value, const fopo_log_world *world, fopo_matrix X) {
  /* rho increases with slope x . beta, so slope x is the query of the best policy. */
  fopo_matrix Q = {0};
  int status = fopo_matrix_init(&Q, X.rows, X.cols);
  for (size_t n = 0; n < X.rows && status == FOPO_OK; n++) {
    for (size_t i = 0; i < X.cols; i++) {
      fopo_matrix_row(Q, n)[i] = (float)world->options.slope * fopo_matrix_row(X, n)[i];
    }
  }
  if (status == FOPO_OK) status = fopo_log_world_value(value, world, X, Q, world->items, 1);
  fopo_matrix_done(&Q);
  return status;
}
