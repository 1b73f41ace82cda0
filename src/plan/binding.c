#include "plan/binding.h"

#include "device/arrays.h"

static int same_view(fopo_matrix a, fopo_matrix b) {
  return a.x == b.x && a.rows == b.rows && a.cols == b.cols && a.ld == b.ld;
}

static int same_rows(fopo_rows a, fopo_rows b) {
  return a.x == b.x && a.ld == b.ld && a.type == b.type;
}

/* A credit's shift is no array: it is read at every step. */
static int same_rewards(const fopo_reward_arrays *a, const fopo_reward_arrays *b) {
  return a->Y.ids == b->Y.ids && a->Y.indptr == b->Y.indptr && a->Y.rows == b->Y.rows &&
         a->Y.cols == b->Y.cols && a->value == b->value && a->credit.action == b->credit.action &&
         a->credit.weight == b->credit.weight && a->credit.gain == b->credit.gain &&
         a->model.users == b->model.users && a->model.items == b->model.items &&
         a->model.rank == b->model.rank;
}

int fopo_binding_holds(const fopo_binding *b, const fopo_binding_source *s) {
  const fopo_policy *pi = s->policy;
  return b->device == s->device && b->parts->shard == pi->shard &&
         b->parts->shared == s->contexts.shared && b->n_theta == pi->theta.rows * pi->theta.cols &&
         b->n_hidden == pi->n_hidden && same_view(b->items, pi->items) &&
         same_rows(b->rows, pi->rows) && b->N == s->contexts.n &&
         same_view(b->contexts, s->contexts.x) && same_rewards(&b->rewarded, &s->rewarded) &&
         b->learns_items == pi->learns[FOPO_BLOCK_ITEMS] && b->masks_seen == pi->masks_seen &&
         (!b->masks_seen || (b->X.ids == s->contexts.X.ids && b->X.indptr == s->contexts.X.indptr));
}

int fopo_binding_renew(fopo_binding *b, const fopo_policy *pi) {
  b->policy = pi;
  if (!b->learns_items || b->device_items.x == b->items.x) return FOPO_OK;
  return b->device->ops->put(b->device, b->device_items.x, b->items.x,
                             b->P * b->L * sizeof *b->items.x);
}

/* Sends host data to the copy that `resident` has made of it. */
static int send(fopo_device *d, void *copy, const void *host, size_t bytes) {
  return copy == host ? FOPO_OK : d->ops->put(d, copy, host, bytes);
}

/* The device's copy of host data, or NULL with the sentence set. */
static void *resident(fopo_device *d, const void *host, size_t bytes) {
  void *block = NULL;
  return d->ops->share(d, &block, host, bytes) == FOPO_OK ? block : NULL;
}

static size_t entries_of(const fopo_csr *lists, size_t room) {
  return room > 0 ? room : fopo_csr_nnz(lists);
}

/* Sends lists whose entries have changed, and with room for more their lengths. */
static int send_lists(const fopo_binding *b, const fopo_csr *copy, const fopo_csr *lists) {
  int status = FOPO_OK;
  if (lists->indptr == NULL) return FOPO_OK;
  if (b->room > 0) {
    status =
        send(b->device, copy->indptr, lists->indptr, (lists->rows + 1) * sizeof *lists->indptr);
  }
  if (status != FOPO_OK) return status;
  return send(b->device, copy->ids, lists->ids, fopo_csr_nnz(lists) * sizeof *lists->ids);
}

/* Lists of items, a row a context, on the device: *to. Of a part of the catalogue those that it
 * holds, *own. */
static int copy_lists(fopo_csr *to, fopo_csr *own, const fopo_binding *b, const fopo_csr *lists) {
  fopo_device *d = b->device;
  int dealt = b->parts->part != NULL;
  if (lists->indptr == NULL) return FOPO_OK;
  int status = dealt ? fopo_shard_csr(own, b->parts->shard, lists) : FOPO_OK;
  if (status != FOPO_OK) return status;
  if (dealt) lists = own;
  *to = (fopo_csr){.rows = lists->rows, .cols = lists->cols};
  to->indptr = resident(d, lists->indptr, (lists->rows + 1) * sizeof *lists->indptr);
  if (to->indptr == NULL) return FOPO_ERR_MEMORY;
  to->ids = resident(d, lists->ids, entries_of(lists, dealt ? 0 : b->room) * sizeof *lists->ids);
  return to->ids == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

/* The logged actions are rows of the part, if the catalogue is dealt out. */
static int copy_credit(fopo_binding *b, const fopo_credit *c) {
  fopo_device *d = b->device;
  fopo_credit *to = &b->credited.credit;
  const uint32_t *action = c->action;
  size_t N = b->N;
  if (b->parts->part != NULL) {
    b->own_actions = fopo_alloc(N, sizeof *b->own_actions);
    if (b->own_actions == NULL) return FOPO_ERR_MEMORY;
    for (size_t n = 0; n < N; n++) b->own_actions[n] = fopo_part_row(b->parts->part, action[n]);
    action = b->own_actions;
  }
  *to = (fopo_credit){.action = resident(d, action, N * sizeof *action)};
  if (to->action == NULL) return FOPO_ERR_MEMORY;
  to->weight = resident(d, c->weight, N * sizeof *c->weight);
  if (to->weight == NULL) return FOPO_ERR_MEMORY;
  to->gain = resident(d, c->gain, N * sizeof *c->gain);
  return to->gain == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

static int copy_model(fopo_low_rank *to, fopo_device *d, const fopo_low_rank *m, size_t N,
                      size_t P) {
  *to = (fopo_low_rank){.rank = m->rank, .logistic = m->logistic};
  to->users = resident(d, m->users, N * m->rank * sizeof *m->users);
  if (to->users == NULL) return FOPO_ERR_MEMORY;
  to->items = resident(d, m->items, P * m->rank * sizeof *m->items);
  return to->items == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

/* What hits earn, on the device: of all items, or of those of the part. */
static int copy_value(fopo_binding *b) {
  const fopo_part *part = b->parts->part;
  const float *value = b->rewarded.value;
  size_t n = part != NULL ? part->rows : b->P;
  if (value == NULL) return FOPO_OK;
  if (part != NULL) {
    b->own_value = fopo_alloc(n, sizeof *b->own_value);
    if (b->own_value == NULL) return FOPO_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) b->own_value[i] = value[part->id[i]];
    value = b->own_value;
  }
  b->credited.value = resident(b->device, value, n * sizeof *value);
  return b->credited.value == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

static int copy_reward(fopo_binding *b) {
  const fopo_reward_arrays *host = &b->rewarded;
  fopo_reward_arrays *to = &b->credited;
  int status = copy_value(b);
  if (status != FOPO_OK || b->parts->shared != NULL) return status; /* hits come with a batch */
  status = copy_lists(&to->Y, &b->own_hits, b, &host->Y);
  if (status == FOPO_OK && host->credit.action != NULL) status = copy_credit(b, &host->credit);
  if (status == FOPO_OK && host->model.users != NULL) {
    status = copy_model(&to->model, b->device, &host->model, b->N, b->P);
  }
  return status;
}

/* Items, contexts, and what the reward reads. */
static int copy_data(fopo_binding *b) {
  fopo_matrix items = b->items, contexts = b->contexts;
  b->device_items.x = resident(b->device, items.x, items.rows * items.ld * sizeof *items.x);
  if (b->device_items.x == NULL) return FOPO_ERR_MEMORY;
  b->beta = (fopo_rows){b->device_items.x, items.ld, FOPO_FLOAT32};
  if (b->rows.type != FOPO_FLOAT32) {
    size_t numbers = items.rows * b->rows.ld;
    b->device_half = resident(b->device, b->rows.x, numbers * fopo_float_bytes(b->rows.type));
    if (b->device_half == NULL) return FOPO_ERR_MEMORY;
    b->beta = (fopo_rows){b->device_half, b->rows.ld, b->rows.type};
  }
  if (b->parts->shared == NULL) {
    b->device_contexts.x =
        resident(b->device, contexts.x, contexts.rows * contexts.ld * sizeof *contexts.x);
    if (b->device_contexts.x == NULL) return FOPO_ERR_MEMORY;
  }
  b->theta = fopo_renew_on_device(b->device, NULL, b->n_theta, sizeof *b->theta);
  if (b->theta == NULL) return FOPO_ERR_MEMORY;
  int status = copy_lists(&b->device_X, &b->own_X, b, &b->X);
  return status == FOPO_OK ? copy_reward(b) : status;
}

/* The lists that a part of the catalogue holds, which have other lengths now. */
static int recopy_parts(fopo_binding *b) {
  fopo_binding old = *b;
  b->own_hits = b->own_X = b->device_X = b->credited.Y = (fopo_csr){0};
  int status = copy_lists(&b->device_X, &b->own_X, b, &b->X);
  if (status == FOPO_OK) status = copy_lists(&b->credited.Y, &b->own_hits, b, &b->rewarded.Y);
  fopo_binding *gone = status == FOPO_OK ? &old : b;
  void *const blocks[] = {gone->credited.Y.indptr, gone->credited.Y.ids, gone->device_X.indptr,
                          gone->device_X.ids};
  fopo_release_all(b->device, blocks, sizeof blocks / sizeof *blocks);
  fopo_csr_done(&gone->own_hits);
  fopo_csr_done(&gone->own_X);
  if (status != FOPO_OK) *b = old;
  return status;
}

int fopo_binding_renew_contexts(fopo_binding *b) {
  fopo_device *d = b->device;
  fopo_matrix x = b->contexts;
  int status = send(d, b->device_contexts.x, x.x, x.rows * x.ld * sizeof *x.x);
  if (status == FOPO_OK && b->parts->part != NULL) return recopy_parts(b);
  if (status == FOPO_OK) status = send_lists(b, &b->device_X, &b->X);
  return status == FOPO_OK ? send_lists(b, &b->credited.Y, &b->rewarded.Y) : status;
}

int fopo_binding_init(fopo_binding *b, const fopo_binding_source *s) {
  const fopo_policy *pi = s->policy;
  fopo_matrix contexts = s->contexts.x;
  *b = (fopo_binding){.device = s->device,
                      .policy = pi,
                      .N = s->contexts.n,
                      .room = s->contexts.room,
                      .P = fopo_policy_n_items(pi),
                      .D = contexts.cols,
                      .L = pi->items.cols,
                      .n_theta = pi->theta.rows * pi->theta.cols,
                      .n_hidden = pi->n_hidden,
                      .learns_items = pi->learns[FOPO_BLOCK_ITEMS],
                      .masks_seen = pi->masks_seen,
                      .parts = fopo_alloc(1, sizeof *b->parts),
                      .items = pi->items,
                      .contexts = contexts,
                      .device_items = {NULL, pi->items.rows, pi->items.cols, pi->items.ld},
                      .device_contexts = {NULL, contexts.rows, contexts.cols, contexts.ld},
                      .rows = pi->rows,
                      .rewarded = s->rewarded};
  if (b->parts == NULL) return FOPO_ERR_MEMORY;
  if (pi->masks_seen) b->X = s->contexts.X;
  fopo_parts_init(b->parts, pi->shard, s->contexts.shared);
  int status = copy_data(b);
  if (status != FOPO_OK) fopo_binding_done(b);
  return status;
}

uint64_t fopo_binding_bytes(const fopo_binding_source *s) {
  const fopo_policy *pi = s->policy;
  const fopo_reward_arrays *r = &s->rewarded;
  uint64_t P = pi->items.rows, N = s->contexts.n, bytes = 0;
  bytes += P * pi->items.ld * sizeof *pi->items.x + N * s->contexts.x.ld * sizeof *s->contexts.x.x;
  bytes += (uint64_t)pi->theta.rows * pi->theta.cols * sizeof *pi->theta.x;
  if (pi->rows.type != FOPO_FLOAT32) bytes += P * pi->rows.ld * fopo_float_bytes(pi->rows.type);
  if (r->Y.indptr != NULL) {
    bytes += (N + 1) * sizeof *r->Y.indptr + entries_of(&r->Y, s->contexts.room) * sizeof *r->Y.ids;
  }
  if (r->value != NULL) bytes += P * sizeof *r->value;
  if (pi->masks_seen && s->contexts.X.indptr != NULL) {
    size_t entries = entries_of(&s->contexts.X, s->contexts.room);
    bytes += (N + 1) * sizeof(uint64_t) + entries * sizeof(uint32_t);
  }
  if (r->credit.action != NULL) {
    bytes += N * (sizeof *r->credit.action + sizeof *r->credit.weight + sizeof *r->credit.gain);
  }
  if (r->model.users != NULL) bytes += (N + P) * r->model.rank * sizeof *r->model.users;
  return bytes;
}

void fopo_binding_done(fopo_binding *b) {
  const fopo_reward_arrays *r = &b->credited;
  void *const blocks[] = {b->device_items.x,
                          b->device_half,
                          b->device_contexts.x,
                          b->theta,
                          r->Y.indptr,
                          r->Y.ids,
                          (void *)r->value,
                          b->device_X.indptr,
                          b->device_X.ids,
                          (void *)r->credit.action,
                          (void *)r->credit.weight,
                          (void *)r->credit.gain,
                          (void *)r->model.users,
                          (void *)r->model.items};
  if (b->device != NULL) fopo_release_all(b->device, blocks, sizeof blocks / sizeof *blocks);
  fopo_csr_done(&b->own_hits);
  fopo_csr_done(&b->own_X);
  if (b->parts != NULL) fopo_parts_done(b->parts, b->device);
  fopo_free(b->parts);
  fopo_free(b->own_value);
  fopo_free(b->own_actions);
  *b = (fopo_binding){0};
}

/* Contexts, and the queries of a policy that is a product, by one operation of the device. */
static int start_fused(const fopo_binding *b, fopo_matrix Q, fopo_matrix X,
                       const fopo_policy_pass *pass, const fopo_batch_start *from) {
  fopo_batch_start start = *from;
  start.contexts = b->device_contexts;
  start.X = X;
  if (b->policy->kind->is_product) {
    start.Q = Q;
    start.theta = pass->theta;
    start.scale = pass->scale;
  }
  return b->device->ops->start_batch(b->device, &start);
}

/* Whether X is masked: it is known, and the policy masks it. */
static int has_lists(const fopo_binding *b) {
  return b->masks_seen && (b->parts->shared != NULL || b->X.indptr != NULL);
}

/* A mask of lists. */
static fopo_sparse_scores mask_of(const fopo_csr *X, const uint32_t *rows) {
  return (fopo_sparse_scores){.indptr = X->indptr, .ids = X->ids, .rows = rows};
}

/* Shared contexts are for devices that work in the host's memory. */
fopo_sparse_scores fopo_binding_sparse(const fopo_binding *b, size_t at) {
  const fopo_parts *p = b->parts;
  if (!has_lists(b)) return (fopo_sparse_scores){0};
  if (p->shared == NULL) return mask_of(&b->device_X, NULL);
  const uint32_t *places = p->fetched.places; /* NULL before the first batch, where at is 0 */
  return mask_of(p->part != NULL ? &p->fetched.own_seen : &p->fetched.seen,
                 at > 0 ? places + at : places);
}

fopo_sparse_scores fopo_binding_sparse_host(const fopo_binding *b, const uint32_t *rows,
                                            size_t at) {
  const fopo_parts *p = b->parts;
  if (!has_lists(b)) return (fopo_sparse_scores){0};
  if (p->shared == NULL) return mask_of(&b->X, rows);
  return mask_of(&p->fetched.seen, p->fetched.places + at);
}

int fopo_binding_queries(const fopo_binding *b, fopo_matrix Q, fopo_matrix X, float *hidden,
                         const float *theta, const fopo_batch_start *from) {
  fopo_device *d = b->device;
  const fopo_policy *pi = b->policy;
  fopo_policy_pass pass = {pi, theta, hidden, NULL, 1.0f / pi->temperature};
  int shared = b->parts->shared != NULL, fused = !shared && d->ops->start_batch != NULL;
  int status = shared  ? b->parts->ops->fetch(b->parts, d, X, from->rows)
               : fused ? start_fused(b, Q, X, &pass, from)
                       : d->ops->gather_rows(d, X, b->device_contexts, from->rows);
  if (status != FOPO_OK || (fused && pi->kind->is_product)) return status;
  return pi->kind->forward(d, Q, X, &pass);
}
