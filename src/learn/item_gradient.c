/* The gradient of items that are learnt, from the coefficients c that the estimators give out.
 *
 * snis, head_tail and reinforce with a baseline move the items drawn: their rows are kept packed,
 * in ascending order of the items. exact and reinforce without a baseline move all P, and a batch
 * in several parts may: their rows are [P, L]. */
#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "learn/gradient_internal.h"

static int grow_draws(fopo_gradient *g, size_t n) {
  fopo_gradient_on_device *m = &g->dev;
  g->room_c = 0;
  m->c = fopo_gradient_reserve(g, m->c, n, sizeof(float));
  m->log_z = fopo_gradient_reserve(g, m->log_z, g->part, sizeof(float));
  m->mean_weight = fopo_gradient_reserve(g, m->mean_weight, g->part, sizeof(float));
  fopo_gradient_on_host *h = &g->host;
  h->mean_weight = fopo_gradient_reserve_host(h->mean_weight, g->part, sizeof *h->mean_weight);
  h->stats = fopo_gradient_reserve_host(h->stats, g->part * FOPO_STATS, sizeof *h->stats);
  if (!m->c || !m->log_z || !m->mean_weight) return FOPO_ERR_MEMORY;
  if (!h->mean_weight || !h->stats) return FOPO_ERR_MEMORY;
  g->room_c = n;
  return FOPO_OK;
}

static int grow_rows(fopo_gradient *g, size_t n) {
  fopo_gradient_on_device *m = &g->dev;
  int status = fopo_memory_suffices((uint64_t)n * g->L * sizeof(float), "the gradient of the items",
                                    "use fewer samples, fewer items or train_items = false");
  if (status != FOPO_OK) return status;
  g->room_items = 0;
  m->item_rows = fopo_gradient_reserve(g, m->item_rows, n * g->L, sizeof(float));
  m->touched = fopo_gradient_reserve(g, m->touched, n, sizeof(uint32_t));
  if (!m->item_rows || !m->touched) return FOPO_ERR_MEMORY;
  g->room_items = n;
  return FOPO_OK;
}

int fopo_gradient_items_prepare(fopo_gradient *g) {
  const fopo_gradient_options *o = &g->options;
  int all = o->kind == FOPO_GRADIENT_EXACT || (o->kind == FOPO_GRADIENT_REINFORCE && !o->baseline);
  size_t draws = g->part * g->S;
  g->dense_items = all || g->part < g->B;
  size_t rows = g->dense_items || draws > g->P ? g->P : draws;
  int status = draws > g->room_c || g->part > g->room_weights ? grow_draws(g, draws) : FOPO_OK;
  if (status == FOPO_OK) g->room_weights = g->part > g->room_weights ? g->part : g->room_weights;
  return status == FOPO_OK && rows > g->room_items ? grow_rows(g, rows) : status;
}

/* The term of reinforce without a baseline: - rbar_b pi(a | x_b) Q_b / B for every item a. */
static int take_off_mean(fopo_gradient *g) {
  fopo_device *d = g->device;
  const fopo_gradient_on_device *m = &g->dev;
  const fopo_gradient_on_host *h = &g->host;
  int status = d->ops->get(d, h->stats, m->stats, g->n * FOPO_STATS * sizeof *h->stats);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < g->n; b++) {
    h->mean_weight[b] = -h->stats[b * FOPO_STATS + FOPO_STAT_REWARD] / (float)g->B;
  }
  status = d->ops->put(d, m->mean_weight, h->mean_weight, g->n * sizeof *m->mean_weight);
  if (status != FOPO_OK) return status;
  fopo_device_batch batch = fopo_gradient_batch(g, g->n);
  return d->ops->items_expectation(d, m->item_rows, fopo_gradient_device_matrix(g), m->log_z,
                                   m->mean_weight, &batch);
}

int fopo_gradient_items_add(fopo_gradient *g) {
  fopo_device *d = g->device;
  const fopo_gradient_on_device *m = &g->dev;
  float scale = 1.0f / (float)g->B;
  if (g->options.kind == FOPO_GRADIENT_EXACT) {
    /* every item in its place: rows += C^T Q / B */
    return d->ops->outer(d, m->item_rows, fopo_matrix_view(m->c, g->n, g->P),
                         fopo_matrix_view(m->Q, g->n, g->L), scale, g->done > 0);
  }
  fopo_item_gradient sum = {.rows = m->item_rows, .ids = g->dense_items ? NULL : m->touched};
  fopo_samples samples = fopo_gradient_samples(g);
  fopo_device_batch batch = fopo_gradient_batch(g, g->n);
  if (!g->dense_items) {
    int drawn = d->ops->items_gradient(d, &sum, m->c, &samples, scale, &batch);
    g->n_touched = sum.n;
    return drawn;
  }
  int status = g->done > 0 ? FOPO_OK : d->ops->clear(d, m->item_rows, g->P * g->L);
  if (status == FOPO_OK) {
    status = d->ops->items_gradient(d, &sum, m->c, &samples, scale, &batch);
  }
  int whole = g->options.kind == FOPO_GRADIENT_REINFORCE && !g->options.baseline;
  return status == FOPO_OK && whole ? take_off_mean(g) : status;
}

fopo_item_gradient fopo_gradient_items(const fopo_gradient *g) {
  if (g->device == NULL || !g->train_items || g->dev.item_rows == NULL) {
    return (fopo_item_gradient){0};
  }
  return (fopo_item_gradient){.rows = g->dev.item_rows,
                              .ids = g->dense_items ? NULL : g->dev.touched,
                              .n = g->dense_items ? g->P : g->n_touched};
}

float *fopo_gradient_device_items(fopo_gradient *g) { return g->dev.items; }
