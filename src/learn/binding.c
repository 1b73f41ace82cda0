/* Binding: the data that a gradient reads lies on the device for as long as it stays the same. */
#include "core/memory.h"
#include "core/status.h"
#include "learn/gradient.h"
#include "learn/gradient_internal.h"

void *fopo_gradient_reserve(fopo_gradient *g, void *old, size_t n, size_t size) {
  void *block = NULL;
  if (old != NULL) g->device->ops->release(g->device, old);
  return g->device->ops->alloc(g->device, &block, n * size) == FOPO_OK ? block : NULL;
}

void *fopo_gradient_reserve_host(void *old, size_t n, size_t size) {
  fopo_free(old);
  return fopo_alloc(n, size);
}

void fopo_gradient_unbind(fopo_gradient *g) {
  if (g->device == NULL) return;
  fopo_gradient_on_device *m = &g->dev;
  void *blocks[] = {m->items,  m->half,   m->contexts,    m->Y.indptr,
                    m->Y.ids,  m->theta,  m->G,           m->logged,
                    m->weight, m->gain,   m->model_users, m->model_items,
                    m->hidden, m->delta,  m->rows,        m->X,
                    m->Q,      m->V,      m->mean,        m->stats,
                    m->sums,   m->due,    m->ids,         m->logq,
                    m->r,      m->counts, m->candidates,  m->candidate_scores,
                    m->c,      m->log_z,  m->mean_weight, m->item_rows,
                    m->touched};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    if (blocks[i] != NULL) g->device->ops->release(g->device, blocks[i]);
  }
  fopo_gradient_forget_order(g);
  g->dev = (fopo_gradient_on_device){0};
  g->Y = (fopo_csr){0};
  g->credit = (fopo_credit){0};
  g->model = (fopo_low_rank){0};
  g->room_rows = g->room_part = g->room_draws = g->room_candidates = 0;
  g->room_c = g->room_weights = g->room_items = 0;
  g->enumerated = 0;
  g->device = NULL;
  fopo_candidate_cache_done(&g->own);
}

int fopo_gradient_idle(const fopo_gradient *g) {
  if (g->stage == FOPO_STAGE_IDLE) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the gradient is in the middle of a batch; use it, or change it, after that");
}

static int same_view(fopo_matrix a, fopo_matrix b) {
  return a.x == b.x && a.rows == b.rows && a.cols == b.cols && a.ld == b.ld;
}

static int same_rows(fopo_rows a, fopo_rows b) {
  return a.x == b.x && a.ld == b.ld && a.type == b.type;
}

/* Whether the reward looks at the arrays that are on the device. A shift is no array: it is asked
 * for at every step. */
static int same_arrays(const fopo_gradient *g, const fopo_reward *reward) {
  static const fopo_csr none = {0};
  const fopo_csr *a = &g->Y, *b = reward->Y != NULL ? reward->Y : &none;
  const fopo_credit *c = &g->credit, *d = &reward->credit;
  const fopo_low_rank *m = &g->model, *n = &reward->model;
  return a->ids == b->ids && a->indptr == b->indptr && a->rows == b->rows && a->cols == b->cols &&
         c->action == d->action && c->weight == d->weight && c->gain == d->gain &&
         m->users == n->users && m->items == n->items && m->rank == n->rank;
}

/* The device's copy of host data, or NULL with the sentence set. */
static void *share(fopo_gradient *g, const void *host, size_t bytes) {
  void *block = NULL;
  return g->device->ops->share(g->device, &block, host, bytes) == FOPO_OK ? block : NULL;
}

static int share_hits(fopo_gradient *g, const fopo_csr *Y) {
  g->Y = *Y;
  g->dev.Y = (fopo_csr){.rows = Y->rows, .cols = Y->cols};
  g->dev.Y.indptr = share(g, Y->indptr, (Y->rows + 1) * sizeof *Y->indptr);
  if (g->dev.Y.indptr == NULL) return FOPO_ERR_MEMORY;
  g->dev.Y.ids = share(g, Y->ids, fopo_csr_nnz(Y) * sizeof *Y->ids);
  return g->dev.Y.ids == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

static int share_credit(fopo_gradient *g, const fopo_credit *c, size_t N) {
  g->credit = *c;
  g->dev.logged = share(g, c->action, N * sizeof *c->action);
  if (g->dev.logged == NULL) return FOPO_ERR_MEMORY;
  g->dev.weight = share(g, c->weight, N * sizeof *c->weight);
  if (g->dev.weight == NULL) return FOPO_ERR_MEMORY;
  g->dev.gain = share(g, c->gain, N * sizeof *c->gain);
  return g->dev.gain == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

static int share_model(fopo_gradient *g, const fopo_low_rank *m, size_t N, size_t P) {
  g->model = *m;
  g->dev.model_users = share(g, m->users, N * m->rank * sizeof *m->users);
  if (g->dev.model_users == NULL) return FOPO_ERR_MEMORY;
  g->dev.model_items = share(g, m->items, P * m->rank * sizeof *m->items);
  return g->dev.model_items == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

static int share_reward(fopo_gradient *g, const fopo_reward *r) {
  int status = r->Y != NULL ? share_hits(g, r->Y) : FOPO_OK;
  if (status == FOPO_OK && r->credit.action != NULL)
    status = share_credit(g, &r->credit, r->contexts);
  if (status == FOPO_OK && r->model.users != NULL)
    status = share_model(g, &r->model, r->contexts, g->P);
  return status;
}

static int share_data(fopo_gradient *g) {
  fopo_matrix items = g->items, contexts = g->contexts;
  g->dev.items = share(g, items.x, items.rows * items.ld * sizeof *items.x);
  if (g->dev.items == NULL) return FOPO_ERR_MEMORY;
  g->beta = fopo_rows_float32(g->dev.items, items.ld);
  if (g->rows_given.type != FOPO_FLOAT32) {
    size_t numbers = items.rows * g->rows_given.ld;
    g->dev.half = share(g, g->rows_given.x, numbers * fopo_float_bytes(g->rows_given.type));
    if (g->dev.half == NULL) return FOPO_ERR_MEMORY;
    g->beta = (fopo_rows){g->dev.half, g->rows_given.ld, g->rows_given.type};
  }
  g->dev.contexts = share(g, contexts.x, contexts.rows * contexts.ld * sizeof *contexts.x);
  if (g->dev.contexts == NULL) return FOPO_ERR_MEMORY;
  return share_reward(g, g->reward);
}

static int make_parameters(fopo_gradient *g) {
  size_t n = g->n_theta;
  g->dev.theta = fopo_gradient_reserve(g, NULL, n, sizeof(float));
  if (g->dev.theta == NULL) return FOPO_ERR_MEMORY;
  g->dev.G = fopo_gradient_reserve(g, NULL, n, sizeof(float));
  if (g->dev.G == NULL) return FOPO_ERR_MEMORY;
  g->dev.sums = fopo_gradient_reserve(g, NULL, 1, sizeof(fopo_statistics));
  if (g->dev.sums == NULL) return FOPO_ERR_MEMORY;
  g->host.G = fopo_gradient_reserve_host(g->host.G, n, sizeof(float));
  return g->host.G == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

static int check_shapes(const fopo_policy *pi, fopo_matrix contexts, const fopo_reward *reward) {
  int status = fopo_policy_check_contexts(pi, contexts);
  return status != FOPO_OK ? status : fopo_reward_check(reward, contexts.rows, pi->items.rows);
}

/* Items that are learnt may have been moved on the host since. */
static int fresh_items(fopo_gradient *g) {
  if (!g->train_items || g->dev.items == g->items.x) return FOPO_OK;
  return g->device->ops->put(g->device, g->dev.items, g->items.x,
                             g->P * g->L * sizeof *g->dev.items);
}

int fopo_gradient_bind(fopo_gradient *g, fopo_device *device, const fopo_policy *pi,
                       fopo_matrix contexts, const fopo_reward *reward) {
  int status = fopo_gradient_idle(g);
  if (status == FOPO_OK) status = check_shapes(pi, contexts, reward);
  if (status != FOPO_OK) return status;
  size_t n_theta = pi->theta.rows * pi->theta.cols, units = fopo_network_units(&pi->net);
  int kept = g->device == device && g->n_theta == n_theta && g->units == units &&
             same_view(g->items, pi->items) && same_rows(g->rows_given, pi->rows) &&
             same_view(g->contexts, contexts) && same_arrays(g, reward) &&
             g->train_items == pi->train_items;
  g->pi = pi;
  g->reward = reward;
  if (kept) return fresh_items(g);

  if (pi->train_items && pi->items.ld != pi->items.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "items that are trained must lie row behind row");
  }
  status = fopo_matrix_finite(contexts, "contexts");
  if (status != FOPO_OK) return status;
  fopo_gradient_unbind(g);
  g->device = device;
  g->items = pi->items;
  g->rows_given = pi->rows;
  g->contexts = contexts;
  g->P = pi->items.rows;
  g->D = contexts.cols;
  g->L = pi->items.cols;
  g->n_theta = n_theta;
  g->train_items = pi->train_items;
  g->units = units;
  g->checked = 0;
  status = share_data(g);
  if (status == FOPO_OK) status = make_parameters(g);
  if (status != FOPO_OK) fopo_gradient_unbind(g);
  return status;
}
