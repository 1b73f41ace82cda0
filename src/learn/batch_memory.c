/* The memory of batches: arrays that live as long as the data is bound, and those that grow with
 * the batch. */
#include "core/threads.h"
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
  const fopo_buffer buffers[] = {FOPO_BUFFER(m->G, n), FOPO_BUFFER(m->sums, 1),
                                 FOPO_HOST_BUFFER(m->host_G, n)};
  m->G = NULL;
  m->sums = NULL;
  return FOPO_RENEW(d, buffers);
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
  fopo_weight_rows_done(&b->weights);
  fopo_list_rows_done(b->lists);
  b->lists = NULL;
  b->n_lists = 0;
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
  const fopo_buffer buffers[] = {FOPO_BUFFER(m->rows, B)};
  m->capacity_rows = 0;
  int status = FOPO_RENEW(b->data->device, buffers);
  if (status == FOPO_OK) m->capacity_rows = B;
  return status;
}

static int renew_part(fopo_batch *b, size_t part) {
  fopo_batch_arrays *m = &b->arrays;
  const fopo_binding *data = b->data;
  size_t n = part * data->L, hidden = part * data->n_hidden;
  const fopo_buffer buffers[] = {FOPO_BUFFER(m->X, part * data->D),
                                 FOPO_BUFFER(m->hidden, hidden),
                                 FOPO_BUFFER(m->delta, hidden),
                                 FOPO_BUFFER(m->Q, n),
                                 FOPO_BUFFER(m->V, n),
                                 FOPO_BUFFER(m->stats, part * FOPO_STATS),
                                 FOPO_BUFFER(b->draws.mean, n),
                                 FOPO_BUFFER(b->draws.log_z, part)};
  m->capacity_part = 0;
  int status = FOPO_RENEW(data->device, buffers);
  if (status == FOPO_OK) m->capacity_part = part;
  return status;
}

static int renew_draws(fopo_batch *b, size_t n) {
  fopo_samples *s = &b->draws.samples;
  const fopo_buffer buffers[] = {FOPO_BUFFER(s->ids, n), FOPO_BUFFER(s->logq, n),
                                 FOPO_BUFFER(s->r, n)};
  int status = fopo_memory_suffices((uint64_t)n * 12, "a part of the batch", "use fewer samples");
  if (status != FOPO_OK) return status;
  b->draws.capacity = b->draws.enumerated = 0;
  status = FOPO_RENEW(b->data->device, buffers);
  if (status == FOPO_OK) b->draws.capacity = n;
  return status;
}

/* What items that are learnt need beside: coefficients of n draws, numbers of `part` contexts. */
static int renew_coefficients(fopo_batch *b, size_t n, size_t part) {
  fopo_draws *w = &b->draws;
  fopo_batch_arrays *m = &b->arrays;
  const fopo_buffer buffers[] = {FOPO_BUFFER(w->c, n), FOPO_BUFFER(w->weight, part),
                                 FOPO_HOST_BUFFER(m->host_weight, part),
                                 FOPO_HOST_BUFFER(m->host_stats, part * FOPO_STATS)};
  w->capacity_c = w->capacity_weights = 0;
  int status = FOPO_RENEW(b->data->device, buffers);
  if (status != FOPO_OK) return status;
  w->capacity_c = n;
  w->capacity_weights = part;
  return FOPO_OK;
}

int fopo_batch_host_draws(fopo_batch *b) {
  size_t n = b->part_size * b->S;
  fopo_draws *w = &b->draws;
  const fopo_buffer buffers[] = {FOPO_HOST_BUFFER(w->host_ids, n), FOPO_HOST_BUFFER(w->host_r, n)};
  w->capacity_host = 0;
  int status = FOPO_RENEW(b->data->device, buffers);
  if (status == FOPO_OK) w->capacity_host = n;
  return status;
}

static int reserve_items(fopo_batch *b, size_t draws) {
  const fopo_estimator *e = b->options->estimator;
  int dense = b->part_size < b->plan->B || (e->dense != NULL && e->dense(b->options));
  int small = draws > b->draws.capacity_c || b->part_size > b->draws.capacity_weights;
  int status = small ? renew_coefficients(b, draws, b->part_size) : FOPO_OK;
  return status == FOPO_OK ? fopo_item_rows_reserve(&b->items, b->data, dense, draws) : status;
}

int fopo_batch_reserve_lists(fopo_batch *b) {
  size_t threads = (size_t)fopo_threads();
  if (b->n_lists >= threads) return FOPO_OK;
  fopo_list_rows_done(b->lists);
  b->n_lists = 0;
  int status = fopo_list_rows_init(&b->lists, b->data->P, 1);
  if (status == FOPO_OK) b->n_lists = threads;
  return status;
}

int fopo_batch_reserve(fopo_batch *b) {
  size_t draws = b->part_size * b->S;
  size_t B = b->plan->B;
  int status = B > b->arrays.capacity_rows ? renew_rows(b, B) : FOPO_OK;
  if (status == FOPO_OK && b->part_size > b->arrays.capacity_part) {
    status = renew_part(b, b->part_size);
  }
  if (status == FOPO_OK && draws > b->draws.capacity) status = renew_draws(b, draws);
  if (status == FOPO_OK && b->options->estimator->needs & FOPO_SCORES_LISTS) {
    status = fopo_batch_reserve_lists(b);
  }
  if (status == FOPO_OK) status = fopo_candidates_reserve(&b->candidates, b->part_size);
  if (status == FOPO_OK) {
    status = fopo_parts_reserve(b->data->parts, b->data->device, b->part_size, b->data->L);
  }
  return status == FOPO_OK && b->data->learns_items ? reserve_items(b, draws) : status;
}
