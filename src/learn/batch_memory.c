/* The memory of batches: arrays that live as long as the data is bound, and those that grow with
 * the batch. */
#include "device/arrays.h"
#include "learn/batch.h"

void fopo_batch_init(fopo_batch *b, const fopo_gradient_options *options,
                     const fopo_planner *planner) {
  *b = (fopo_batch){.options = options, .data = planner->data, .plan = &planner->plan};
  fopo_candidates_init(&b->candidates, planner);
}

int fopo_batch_bind(fopo_batch *b) {
  fopo_batch_arrays *m = &b->arrays;
  fopo_device *d = b->data->device;
  size_t n = b->data->n_theta;
  m->G = fopo_renew_on_device(d, NULL, n, sizeof *m->G);
  if (m->G == NULL) return FOPO_ERR_MEMORY;
  m->sums = fopo_renew_on_device(d, NULL, 1, sizeof *m->sums);
  if (m->sums == NULL) return FOPO_ERR_MEMORY;
  m->host_G = fopo_renew_on_host(m->host_G, n, sizeof *m->host_G);
  return m->host_G == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

void fopo_batch_unbind(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_batch_arrays *m = &b->arrays;
  fopo_draws *w = &b->draws;
  fopo_samples *s = &w->samples;
  void *const blocks[] = {m->rows, m->X,   m->hidden, m->delta, m->Q,    m->V, m->stats, m->G,
                          m->sums, s->ids, s->logq,   s->r,     w->mean, w->c, w->log_z, w->weight};
  fopo_release_all(d, blocks, sizeof blocks / sizeof *blocks);
  fopo_item_rows_done(&b->items, d);
  fopo_candidates_unbind(&b->candidates);
  *m = (fopo_batch_arrays){
      .host_G = m->host_G, .host_stats = m->host_stats, .host_weight = m->host_weight};
  *w =
      (fopo_draws){.host_ids = w->host_ids, .host_r = w->host_r, .capacity_host = w->capacity_host};
}

void fopo_batch_done(fopo_batch *b) {
  fopo_free(b->arrays.host_G);
  fopo_free(b->arrays.host_stats);
  fopo_free(b->arrays.host_weight);
  fopo_free(b->draws.host_ids);
  fopo_free(b->draws.host_r);
  fopo_candidates_done(&b->candidates);
}

/* Each renew_ makes one group of arrays anew, and notes its capacity only when all of it is there.
 */
static int renew_rows(fopo_batch *b, size_t B) {
  fopo_batch_arrays *m = &b->arrays;
  m->capacity_rows = 0;
  m->rows = fopo_renew_on_device(b->data->device, m->rows, B, sizeof *m->rows);
  if (m->rows == NULL) return FOPO_ERR_MEMORY;
  m->capacity_rows = B;
  return FOPO_OK;
}

static int renew_part(fopo_batch *b, size_t part) {
  fopo_batch_arrays *m = &b->arrays;
  fopo_draws *w = &b->draws;
  const fopo_binding *data = b->data;
  fopo_device *d = data->device;
  size_t n = part * data->L, hidden = part * data->n_hidden;
  m->capacity_part = 0;
  m->X = fopo_renew_on_device(d, m->X, part * data->D, sizeof *m->X);
  m->hidden = fopo_renew_on_device(d, m->hidden, hidden, sizeof *m->hidden);
  m->delta = fopo_renew_on_device(d, m->delta, hidden, sizeof *m->delta);
  m->Q = fopo_renew_on_device(d, m->Q, n, sizeof *m->Q);
  m->V = fopo_renew_on_device(d, m->V, n, sizeof *m->V);
  m->stats = fopo_renew_on_device(d, m->stats, part * FOPO_STATS, sizeof *m->stats);
  w->mean = fopo_renew_on_device(d, w->mean, n, sizeof *w->mean);
  if (!m->X || !m->hidden || !m->delta || !m->Q) return FOPO_ERR_MEMORY;
  if (!m->V || !m->stats || !w->mean) return FOPO_ERR_MEMORY;
  m->capacity_part = part;
  return FOPO_OK;
}

static int renew_draws(fopo_batch *b, size_t n) {
  fopo_samples *s = &b->draws.samples;
  fopo_device *d = b->data->device;
  int status = fopo_memory_suffices((uint64_t)n * 12, "a part of the batch", "use fewer samples");
  if (status != FOPO_OK) return status;
  b->draws.capacity = b->draws.enumerated = 0;
  s->ids = fopo_renew_on_device(d, s->ids, n, sizeof *s->ids);
  s->logq = fopo_renew_on_device(d, s->logq, n, sizeof *s->logq);
  s->r = fopo_renew_on_device(d, s->r, n, sizeof *s->r);
  if (!s->ids || !s->logq || !s->r) return FOPO_ERR_MEMORY;
  b->draws.capacity = n;
  return FOPO_OK;
}

/* What items that are learnt need beside: coefficients of n draws, numbers of `part` contexts. */
static int renew_coefficients(fopo_batch *b, size_t n, size_t part) {
  fopo_draws *w = &b->draws;
  fopo_batch_arrays *m = &b->arrays;
  fopo_device *d = b->data->device;
  w->capacity_c = w->capacity_weights = 0;
  w->c = fopo_renew_on_device(d, w->c, n, sizeof *w->c);
  w->log_z = fopo_renew_on_device(d, w->log_z, part, sizeof *w->log_z);
  w->weight = fopo_renew_on_device(d, w->weight, part, sizeof *w->weight);
  m->host_weight = fopo_renew_on_host(m->host_weight, part, sizeof *m->host_weight);
  m->host_stats = fopo_renew_on_host(m->host_stats, part * FOPO_STATS, sizeof *m->host_stats);
  if (!w->c || !w->log_z || !w->weight || !m->host_weight || !m->host_stats) {
    return FOPO_ERR_MEMORY;
  }
  w->capacity_c = n;
  w->capacity_weights = part;
  return FOPO_OK;
}

int fopo_batch_host_draws(fopo_batch *b) {
  size_t n = b->part_size * b->S;
  fopo_draws *w = &b->draws;
  w->capacity_host = 0;
  w->host_ids = fopo_renew_on_host(w->host_ids, n, sizeof *w->host_ids);
  w->host_r = fopo_renew_on_host(w->host_r, n, sizeof *w->host_r);
  if (!w->host_ids || !w->host_r) return FOPO_ERR_MEMORY;
  w->capacity_host = n;
  return FOPO_OK;
}

static int reserve_items(fopo_batch *b, size_t draws) {
  const fopo_estimator *e = b->options->estimator;
  int dense = b->part_size < b->plan->B || (e->dense != NULL && e->dense(b->options));
  int small = draws > b->draws.capacity_c || b->part_size > b->draws.capacity_weights;
  int status = small ? renew_coefficients(b, draws, b->part_size) : FOPO_OK;
  return status == FOPO_OK ? fopo_item_rows_reserve(&b->items, b->data, dense, draws) : status;
}

int fopo_batch_reserve(fopo_batch *b) {
  size_t draws = b->part_size * b->S;
  size_t B = b->plan->B;
  int status = B > b->arrays.capacity_rows ? renew_rows(b, B) : FOPO_OK;
  if (status == FOPO_OK && b->part_size > b->arrays.capacity_part) {
    status = renew_part(b, b->part_size);
  }
  if (status == FOPO_OK && draws > b->draws.capacity) status = renew_draws(b, draws);
  if (status == FOPO_OK) status = fopo_candidates_reserve(&b->candidates, b->part_size);
  if (status == FOPO_OK) {
    status = fopo_parts_reserve(b->data->parts, b->data->device, b->part_size, b->data->L);
  }
  return status == FOPO_OK && b->data->learns_items ? reserve_items(b, draws) : status;
}
