/* True values in a world of logged decisions: sums over the whole catalogue.
 *
 * A sum passes over the items in segments, for one block of contexts at a time. Each segment has
 * its own totals: largest score, sum of weights and of weighted rewards. They are merged in the
 * order of the segments, so the bits do not depend on the number of threads, and there is no [m, P]
 * array. */
#include <math.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/world/synthetic_logs.h"
#include "kernels/kernels.h"
#include "kernels/product.h"

enum {
  ROWS = 64,      /* contexts of a block */
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
      sum += greedy ? fopo_log_world_rho(world, fopo_matrix_row(s.X, i), all[i].id)
                    : all[i].wr / all[i].w;
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
