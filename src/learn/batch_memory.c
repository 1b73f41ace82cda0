/* The memory of batches: one table of all arrays, of which each batch's plan reserves what its
 * parts need, and which is given back when other data is bound. */
#include "core/threads.h"
#include "device/arrays.h"
#include "learn/batch.h"

void fopo_batch_init(fopo_batch *b, const fopo_gradient_options *options,
                     const fopo_planner *planner) {
  *b = (fopo_batch){.options = options, .data = planner->data, .plan = &planner->plan};
  fopo_candidates_init(&b->candidates, planner);
}

/* Do draws come to the host, for rewards that the device cannot look up, or for coefficients? */
static int are_fetched(const fopo_batch *b) {
  if (fopo_estimator_asks(b->options->estimator)) return 1;
  return !b->fused && (fopo_reward_from_caller(b->reward) || b->reward->kind->look_up == NULL);
}

/* The answers that a search of b->near queries for each of n contexts has room for: k of each; of a
 * device, which finds what is masked, too, those of one context at least. */
static size_t places_of(const fopo_batch *b, size_t n) {
  size_t P = b->data->P, widest = P < FOPO_TOPK_MOST ? P : FOPO_TOPK_MOST;
  if (!b->plan->device_searches) return n * b->near * b->options->proposal.k;
  size_t one = b->near * widest, all = n * one < FOPO_PLACES ? n * one : FOPO_PLACES;
  return one > all ? one : all;
}

/* The ids of draws come first. */
static void list(fopo_buffer to[FOPO_BATCH_ARRAYS], fopo_batch *b) {
  const fopo_binding *data = b->data;
  const fopo_plan *plan = b->plan;
  fopo_batch_arrays *m = &b->arrays;
  fopo_draws *w = &b->draws;
  fopo_candidates *c = &b->candidates;
  size_t part = b->part_size, n = part * data->L, hidden = part * data->n_hidden;
  size_t draws = part * b->S, fetched = are_fetched(b) ? draws : 0;
  size_t found = plan->n > 0 ? part * plan->q.k : 0, learns = data->learns_items != 0;
  size_t asked = fopo_estimator_asks(b->options->estimator) ? draws : 0;
  size_t near = part * b->near, places = places_of(b, part);
  size_t rows = learns * (b->items.dense || draws > data->P ? data->P : draws);
  const fopo_buffer all[FOPO_BATCH_ARRAYS] = {
      FOPO_BUFFER(w->samples.ids, draws),
      FOPO_BUFFER(w->samples.logq, draws),
      FOPO_BUFFER(w->samples.r, draws),
      FOPO_BUFFER(w->mean, n),
      FOPO_BUFFER(w->log_z, part),
      FOPO_BUFFER(w->c, learns || asked ? draws : 0),
      FOPO_BUFFER(w->f, asked),
      FOPO_BUFFER(w->value, asked && b->options->own_value ? part : 0),
      FOPO_BUFFER(w->weight, learns * part),
      FOPO_HOST_BUFFER(w->host_ids, fetched),
      FOPO_HOST_BUFFER(w->host_r, fetched),
      FOPO_BUFFER(m->rows, plan->B),
      FOPO_BUFFER(m->X, part * data->D),
      FOPO_BUFFER(m->hidden, hidden),
      FOPO_BUFFER(m->delta, hidden),
      FOPO_BUFFER(m->Q, n),
      FOPO_BUFFER(m->V, n),
      FOPO_BUFFER(m->stats, part * FOPO_STATS),
      FOPO_BUFFER(m->G, data->n_theta),
      FOPO_BUFFER(m->sums, 1),
      FOPO_HOST_BUFFER(m->host_G, data->n_theta),
      FOPO_HOST_BUFFER(m->host_stats, learns || near > 0 ? part * FOPO_STATS : 0),
      FOPO_HOST_BUFFER(m->host_weight, learns * part),
      FOPO_HOST_BUFFER(m->host_rule, b->options->rule != NULL ? 3 * part : 0),
      FOPO_BUFFER(b->items.rows, rows * data->L),
      FOPO_BUFFER(b->items.ids, rows),
      FOPO_BUFFER(c->device.ids, found),
      FOPO_BUFFER(c->device.scores, found),
      FOPO_BUFFER(c->device.counts, part), /* this and what follows without candidates, too */
      FOPO_BUFFER(c->device_expired, 2 * part),
      FOPO_HOST_BUFFER(c->host.ids, found),
      FOPO_HOST_BUFFER(c->host.scores, found),
      FOPO_HOST_BUFFER(c->host.counts, part),
      FOPO_HOST_BUFFER(c->host_expired, 2 * part),
      FOPO_HOST_BUFFER(c->host_Q, n),
      FOPO_BUFFER(w->near, near * data->L),
      FOPO_BUFFER(w->found.ids, places),
      FOPO_BUFFER(w->found.scores, places),
      FOPO_BUFFER(w->found.counts, near),
      FOPO_HOST_BUFFER(w->masked, near > 0 ? part : 0)};
  memcpy(to, all, sizeof all);
}

int fopo_batch_reserve_lists(fopo_batch *b) {
  size_t threads = (size_t)fopo_threads();
  if (b->n_lists >= threads) return FOPO_OK;
  b->n_lists = 0;
  int status = fopo_list_rows_renew(&b->lists, b->data->P, 1);
  if (status == FOPO_OK) b->n_lists = threads;
  return status;
}

int fopo_batch_reserve(fopo_batch *b) {
  const fopo_estimator *e = b->options->estimator;
  fopo_buffer all[FOPO_BATCH_ARRAYS];
  fopo_item_rows *items = &b->items;
  size_t ids = b->room[0];
  items->dense = b->part_size < b->plan->B || (e->dense != NULL && e->dense(b->options));
  list(all, b);
  uint64_t more = 0;
  for (size_t i = 0; i < FOPO_BATCH_ARRAYS; i++) {
    uint64_t bytes = (uint64_t)all[i].n * all[i].size;
    more += bytes > b->room[i] ? bytes : 0;
  }
  int status = fopo_memory_suffices(more, "a part of the batch",
                                    "use fewer samples, or do not learn the items");
  if (status == FOPO_OK) status = fopo_reserve(b->data->device, all, b->room, FOPO_BATCH_ARRAYS);
  if (b->room[0] != ids) b->draws.enumerated = 0;
  items->sum = (fopo_item_gradient){0};
  if (status == FOPO_OK && b->data->learns_items) {
    items->sum = (fopo_item_gradient){.rows = items->rows,
                                      .ids = items->dense ? NULL : items->ids,
                                      .n = items->dense ? b->data->P : 0};
  }
  if (status == FOPO_OK && e->needs & FOPO_SCORES_LISTS) status = fopo_batch_reserve_lists(b);
  if (status != FOPO_OK) return status;
  return fopo_parts_reserve(b->data->parts, b->data->device, b->part_size, b->data->L);
}

void fopo_batch_unbind(fopo_batch *b) {
  fopo_buffer all[FOPO_BATCH_ARRAYS];
  list(all, b);
  fopo_give_back(b->data->device, all, b->room, FOPO_BATCH_ARRAYS);
  fopo_weight_rows_done(&b->weights);
  fopo_free(b->lists);
  b->lists = NULL;
  b->n_lists = 0;
  b->items = (fopo_item_rows){0};
}
