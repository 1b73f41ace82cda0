#include "plan/mass.h"

#include "device/arrays.h"

enum { CONTEXTS = FOPO_MASS_CONTEXTS };

/* A near probe scores this many times H. */
enum { WINDOW = 4 };

/* Probes in a row that must want less before H shrinks. */
enum { AGREE = 3 };

/* Clusters cost all items some hundred times, and save H rows a search: they are worth it where H
 * is this share of the items, as 1 / of it, or more. */
enum { MANY = 8 };

/* The share of the steps' rows that probes may take, as 1 / of it. */
enum { FULL = 100, NEAR = 50 };

static uint64_t window(const fopo_mass *m, size_t P) {
  return m->head < P / WINDOW ? m->head * WINDOW : P;
}

/* What steps have paid for probes of a kind, and is not spent. */
static uint64_t purse(const fopo_mass *m, uint64_t spent, uint64_t share) {
  uint64_t paid = m->rows / share;
  return paid > spent ? paid - spent : 0;
}

fopo_mass_kind fopo_mass_due(const fopo_mass *m, size_t n, size_t P) {
  if (n == 0) return FOPO_MASS_NONE;
  if (m->head == 0) return FOPO_MASS_FULL;
  n = n < CONTEXTS ? n : CONTEXTS;
  uint64_t near = n * window(m, P), full = m->full_cost > near ? m->full_cost : near;
  if (purse(m, m->full, FULL) >= full) return FOPO_MASS_FULL;
  return purse(m, m->near, NEAR) >= near ? FOPO_MASS_NEAR : FOPO_MASS_NONE;
}

uint64_t fopo_mass_horizon(const fopo_mass *m, fopo_mass_kind kind, size_t n, size_t P) {
  if (m->head == 0) return P;
  uint64_t paid = purse(m, m->full, FULL) / n;
  return kind == FOPO_MASS_NEAR ? window(m, P) : paid < P ? paid : P;
}

/* Counts a probe that wants less than H; H shrinks if it is one too many. */
static void want_less(fopo_mass *m, uint64_t wanted) {
  m->least = m->fewer == 0 || wanted > m->least ? wanted : m->least;
  if (++m->fewer < AGREE) return;
  m->head = m->least;
  m->fewer = m->least = 0;
}

void fopo_mass_take(fopo_mass *m, fopo_mass_kind kind, const fopo_mass_found *found) {
  if (kind == FOPO_MASS_FULL) {
    m->full += found->rows;
    m->full_cost = found->complete ? found->rows : 2 * found->rows;
  } else {
    m->near += found->rows;
  }
  m->held = found->held_at_head;
  if (found->wanted >= m->head) {
    m->head = found->wanted;
    m->held = found->held;
    m->fewer = m->least = 0;
  } else if (found->complete) {
    want_less(m, found->wanted);
  }
}

/* ---- what follows from H ---- */

int fopo_mass_serves(const fopo_proposal *q) {
  if (q->kind != FOPO_PROPOSAL_MIXTURE) return 0;
  return fopo_proposal_is_automatic(q) || fopo_index_about(q->index).budget == FOPO_BUDGET_AUTO;
}

size_t fopo_mass_shared(const fopo_mass *m, const fopo_proposal *q, size_t P, size_t tail) {
  if (tail == 0 || m->head == 0 || !fopo_proposal_is_automatic(q)) return 0;
  size_t most = P - tail, H = m->head < most ? (size_t)m->head : most;
  return H <= FOPO_MASS_SHARED ? H : 0;
}

size_t fopo_mass_limit(const fopo_mass *m, size_t P, size_t k) {
  uint64_t head = m->head;
  if (head == 0) return 0;
  while (head < k) head = fopo_mass_next(head, P); /* k was set to more meanwhile */
  return head < P ? (size_t)head : 0;
}

int fopo_mass_clusters(const fopo_mass *m, const fopo_proposal *q, const fopo_policy *pi,
                       const fopo_device *device) {
  uint64_t many = fopo_policy_n_items(pi) / MANY;
  return m->head >= many && m->head > FOPO_MASS_SHARED && q->index == NULL &&
         device->ops->topk == NULL && pi->shard == NULL && !pi->learns[FOPO_BLOCK_ITEMS];
}

/* Searches without a limit stop where the last full probe did, about. */
uint64_t fopo_mass_rows(const fopo_mass *m, const fopo_proposal *q, const fopo_binding *data,
                        uint64_t draws, uint64_t searches) {
  uint64_t each = m->head < data->P ? m->head : m->full_cost / CONTEXTS;
  if (fopo_mass_clusters(m, q, data->policy, data->device)) each = fopo_index_clusters_of(data->P);
  return draws + searches * each;
}

/* ---- the automatic index, and probes ---- */

/* The index whose order is probed: the user's norm index, or the own one. */
static fopo_index *ordered(const fopo_mass_index *a, const fopo_proposal *q) {
  return fopo_proposal_is_automatic(q) ? a->index : q->index;
}

fopo_index *fopo_mass_searched(const fopo_mass_index *a, const fopo_mass *m, const fopo_proposal *q,
                               const fopo_binding *data) {
  int all = m->head >= data->P && q->index != NULL;
  if (fopo_mass_clusters(m, q, data->policy, data->device)) return a->clusters;
  return all ? q->index : ordered(a, q);
}

/* The arrays of a probe. */
static void list(fopo_buffer to[FOPO_MASS_ARRAYS], fopo_mass_index *a, const fopo_binding *data) {
  const fopo_buffer all[FOPO_MASS_ARRAYS] = {
      FOPO_BUFFER(a->rows, CONTEXTS), FOPO_BUFFER(a->X, CONTEXTS * data->D),
      FOPO_BUFFER(a->hidden, CONTEXTS * data->n_hidden), FOPO_BUFFER(a->Q, CONTEXTS * data->L),
      FOPO_HOST_BUFFER(a->host_Q, CONTEXTS * data->L)};
  memcpy(to, all, sizeof all);
}

void fopo_mass_unbind(fopo_mass_index *a, fopo_device *d) {
  fopo_buffer all[FOPO_MASS_ARRAYS];
  list(all, a, &(fopo_binding){0});
  fopo_give_back(d, all, a->room, FOPO_MASS_ARRAYS);
  fopo_index_free(a->index);
  fopo_index_free(a->clusters);
  fopo_mass_probe_free(a->memory);
  *a = (fopo_mass_index){.lent = a->lent};
}

static int reserve(fopo_mass_index *a, const fopo_binding *data, size_t k) {
  fopo_buffer all[FOPO_MASS_ARRAYS];
  list(all, a, data);
  int status = fopo_reserve(data->device, all, a->room, FOPO_MASS_ARRAYS);
  return status == FOPO_OK ? fopo_mass_probe_reserve(&a->memory, data->L, k) : status;
}

/* host_Q [n, L] = the queries of the contexts rows [n]. */
static int find_queries(fopo_mass_index *a, const fopo_binding *data, const float *theta,
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

static int probe(fopo_mass_index *a, fopo_mass *m, fopo_norm_order *o, const fopo_binding *data,
                 const fopo_proposal *q, fopo_mass_kind kind, const float *theta,
                 const uint32_t *rows, size_t n) {
  fopo_mass_found found;
  int status = reserve(a, data, q->k);
  if (status == FOPO_OK) status = fopo_norm_order_take(o, ordered(a, q), data->items.rows);
  if (status == FOPO_OK) status = find_queries(a, data, theta, rows, n);
  if (status != FOPO_OK) return status;
  fopo_sparse_scores sparse = fopo_binding_sparse_host(data, rows, 0);
  fopo_mass_order order = {data->items, o->ids, o->norms, data->parts->shard, &sparse};
  fopo_matrix Q = {a->host_Q, n, data->L, data->L};
  status = fopo_mass_measure(&found, a->memory, &order, Q, q->k, FOPO_MASS_KEEP, m->head,
                             fopo_mass_horizon(m, kind, n, data->P));
  /* If theta has overflowed nothing is found, which the batch itself will say. */
  if (status == FOPO_OK && found.rows > 0) fopo_mass_take(m, kind, &found);
  return status;
}

int fopo_mass_index_make(fopo_mass_index *a, const fopo_binding *data) {
  if (a->index != NULL) return FOPO_OK;
  if (a->lent != NULL && !data->learns_items && fopo_index_over(a->lent, data->items)) {
    a->index = fopo_index_share(a->lent);
    return FOPO_OK;
  }
  return fopo_index_norm(&a->index, data->items, FOPO_BUDGET_AUTO);
}

int fopo_mass_find(fopo_mass_index *a, fopo_mass *m, fopo_norm_order *o, const fopo_binding *data,
                   const fopo_proposal *q, const float *theta, const uint32_t *rows, size_t n) {
  fopo_mass_kind kind = fopo_mass_due(m, n, data->P);
  int status = fopo_proposal_is_automatic(q) ? fopo_mass_index_make(a, data) : FOPO_OK;
  if (status == FOPO_OK && kind != FOPO_MASS_NONE) {
    status = probe(a, m, o, data, q, kind, theta, rows, n < CONTEXTS ? n : CONTEXTS);
  }
  if (status != FOPO_OK || a->clusters != NULL) return status;
  if (!fopo_mass_clusters(m, q, data->policy, data->device)) return FOPO_OK;
  return fopo_index_clusters(&a->clusters, data->items, 0, 0);
}
