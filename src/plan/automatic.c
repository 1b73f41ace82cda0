#include "plan/automatic.h"

#include <float.h>
#include <math.h>

#include "core/norm.h"
#include "device/arrays.h"

enum { CONTEXTS = FOPO_MASS_CONTEXTS };

int fopo_automatic_serves(const fopo_proposal *q) {
  if (q->kind != FOPO_PROPOSAL_MIXTURE) return 0;
  return fopo_proposal_is_automatic(q) || fopo_index_about(q->index).budget == FOPO_BUDGET_AUTO;
}

/* The index whose order is probed: the user's norm index, or the own one. */
static fopo_index *ordered(const fopo_automatic *a, const fopo_proposal *q) {
  return fopo_proposal_is_automatic(q) ? a->index : q->index;
}

static int make_index(fopo_automatic *a, const fopo_binding *data, const fopo_proposal *q) {
  if (a->index != NULL || !fopo_proposal_is_automatic(q)) return FOPO_OK;
  return fopo_index_norm(&a->index, data->items, FOPO_BUDGET_AUTO);
}

fopo_index *fopo_automatic_index(const fopo_automatic *a, const fopo_mass *state, size_t P,
                                 const fopo_proposal *q) {
  int all = state->head >= P && q->index != NULL;
  return all ? q->index : ordered(a, q);
}

/* The arrays of a probe. */
static void list(fopo_buffer to[FOPO_AUTOMATIC_ARRAYS], fopo_automatic *a,
                 const fopo_binding *data) {
  const fopo_buffer all[FOPO_AUTOMATIC_ARRAYS] = {
      FOPO_BUFFER(a->rows, CONTEXTS), FOPO_BUFFER(a->X, CONTEXTS * data->D),
      FOPO_BUFFER(a->hidden, CONTEXTS * data->n_hidden), FOPO_BUFFER(a->Q, CONTEXTS * data->L),
      FOPO_HOST_BUFFER(a->host_Q, CONTEXTS * data->L)};
  memcpy(to, all, sizeof all);
}

void fopo_automatic_unbind(fopo_automatic *a, fopo_device *d) {
  fopo_buffer all[FOPO_AUTOMATIC_ARRAYS];
  list(all, a, &(fopo_binding){0});
  fopo_give_back(d, all, a->room, FOPO_AUTOMATIC_ARRAYS);
  fopo_index_free(a->index);
  fopo_mass_probe_free(a->memory);
  *a = (fopo_automatic){0};
}

/* ---- what a probe reads ---- */

static int reserve(fopo_automatic *a, const fopo_binding *data, size_t k) {
  int status = fopo_mass_probe_reserve(&a->memory, data->L, k);
  fopo_buffer all[FOPO_AUTOMATIC_ARRAYS];
  list(all, a, data);
  return status == FOPO_OK ? fopo_reserve(data->device, all, a->room, FOPO_AUTOMATIC_ARRAYS)
                           : status;
}

/* host_Q [n, L] = the queries of the contexts rows [n]. */
static int find_queries(fopo_automatic *a, const fopo_binding *data, const float *theta,
                        const uint32_t *rows, size_t n) {
  fopo_device *d = data->device;
  fopo_matrix X = {a->X, n, data->D, data->D}, Q = {a->Q, n, data->L, data->L};
  int status = d->ops->put(d, a->rows, rows, n * sizeof *rows);
  if (status == FOPO_OK && theta == NULL) {
    theta = data->theta;
    status =
        d->ops->put(d, data->theta, data->policy->theta.x, data->n_theta * sizeof *data->theta);
  }
  fopo_batch_start from = {.rows = a->rows};
  if (status == FOPO_OK) status = fopo_binding_queries(data, Q, X, a->hidden, theta, &from);
  return status == FOPO_OK ? d->ops->get(d, a->host_Q, a->Q, n * data->L * sizeof *a->Q) : status;
}

/* True if all scores are finite. If theta has overflowed they are not, which the batch itself will
 * say. */
static int can_score(const fopo_automatic *a, const fopo_norm_order *o, const fopo_binding *data,
                     size_t n) {
  const fopo_shard *s = data->parts->shard;
  double most = (double)(s != NULL ? s->top_norm : o->norms[0]);
  for (size_t b = 0; b < n; b++) {
    double norm = fopo_norm(a->host_Q + b * data->L, data->L);
    if (!(norm * fmax(1.0, most) < (double)FLT_MAX / 4.0)) return 0;
  }
  return 1;
}

/* ---- planning ---- */

static size_t measured(size_t n) { return n < CONTEXTS ? n : CONTEXTS; }

fopo_mass_kind fopo_automatic_due(const fopo_proposal *q, const fopo_mass *state, size_t n,
                                  size_t P) {
  if (n == 0 || !fopo_automatic_serves(q)) return FOPO_MASS_NONE;
  return fopo_mass_due(state, measured(n), P);
}

static int probe(fopo_automatic *a, fopo_mass *state, fopo_norm_order *o, const fopo_binding *data,
                 const fopo_proposal *q, fopo_mass_kind kind, const float *theta,
                 const uint32_t *rows, size_t n) {
  fopo_mass_found found;
  int status = fopo_norm_order_take(o, ordered(a, q), data->items.rows);
  if (status == FOPO_OK) status = reserve(a, data, q->k);
  if (status == FOPO_OK) status = find_queries(a, data, theta, rows, n);
  if (status != FOPO_OK || !can_score(a, o, data, n)) return status;
  fopo_sparse_scores sparse = fopo_binding_sparse_host(data, rows, 0);
  fopo_mass_order order = {data->items, o->ids, o->norms, data->parts->shard, &sparse};
  fopo_matrix Q = {a->host_Q, n, data->L, data->L};
  status = fopo_mass_measure(&found, a->memory, &order, Q, q->k, FOPO_MASS_KEEP, state->head,
                             fopo_mass_horizon(state, kind, n, data->P));
  if (status == FOPO_OK) fopo_mass_take(state, kind, &found);
  return status;
}

int fopo_automatic_measure(fopo_automatic *a, fopo_mass *state, fopo_norm_order *o,
                           const fopo_binding *data, const fopo_proposal *q, const float *theta,
                           const uint32_t *rows, size_t n) {
  fopo_mass_kind kind = fopo_automatic_due(q, state, n, data->P);
  int status = make_index(a, data, q);
  if (status != FOPO_OK || kind == FOPO_MASS_NONE) return status;
  return probe(a, state, o, data, q, kind, theta, rows, measured(n));
}

size_t fopo_automatic_shared(const fopo_proposal *q, const fopo_mass *state, size_t P,
                             size_t tail) {
  int can = tail > 0 && state->head > 0 && fopo_proposal_is_automatic(q);
  return can ? fopo_mass_shared(state, P, tail) : 0;
}

size_t fopo_automatic_limit(const fopo_mass *state, size_t P, size_t k) {
  uint64_t head = state->head;
  if (head == 0) return 0;
  while (head < k) head = fopo_mass_next(head, P); /* k was set to more meanwhile */
  return head < P ? (size_t)head : 0;
}

/* Searches without a limit stop where the last full probe did, about. */
uint64_t fopo_automatic_rows(const fopo_mass *state, size_t P, uint64_t draws, uint64_t searches) {
  uint64_t each = state->head < P ? state->head : state->full_cost / CONTEXTS;
  return draws + searches * each;
}
