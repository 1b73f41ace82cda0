/* The training loop. theta is on the device during a slice and on the host between slices, where
 * users may read and change it; the two copies have the same bits.
 *
 * A step estimates the gradient, which all ranks do together (ranks/exchange.h); then they agree
 * that each has it, and only then the update is applied: a failure before that leaves the state
 * after the last whole step, on every rank. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/status.h"
#include "train/state.h"

/* -- life ------------------------------------------------------------------------------------- */

/* The gradients of what is no scalar are not exchanged. */
static int check_lists(const fopo_policy *pi) {
  int alone = fopo_comm_ranks() <= 1;
  if (pi->kind->score_list == NULL || alone) return FOPO_OK;
  /* a scalar has a column of V */
  if (pi->theta.cols == pi->kind->more_columns && !pi->learns[FOPO_BLOCK_WEIGHTS]) return FOPO_OK;
  return fopo_fail(
      FOPO_ERR_UNAVAILABLE,
      "bias, importance, weights and a policy as dense part are trained by one process "
      "alone, here are %zu; run one, or learn the scalars",
      fopo_comm_ranks());
}

static int check_items(const fopo_trainer_options *o) {
  if (o->policy->learns[FOPO_BLOCK_ITEMS] && fopo_comm_ranks() > 1) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "items are trained by one process alone, here are %zu; run one, or do "
                     "not learn the items",
                     fopo_comm_ranks());
  }
  if (o->index_refresh == 0) return FOPO_OK;
  const fopo_index *ix = fopo_gradient_index(o->gradient);
  int ordered = fopo_gradient_orders_items(o->gradient);
  if (!o->policy->learns[FOPO_BLOCK_ITEMS] || !ordered) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "index_refresh is %zu but %s; leave it out",
                     o->index_refresh,
                     ordered ? "the policy's items are fixed" : "the gradient uses no index");
  }
  if (ix == NULL || fopo_index_over(ix, o->policy->items)) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "index_refresh is %zu but the index is over other items than those that the "
                   "policy trains; build it from the policy's own items",
                   o->index_refresh);
}

static int bind(fopo_trainer *t) {
  const fopo_trainer_options *o = &t->o;
  return fopo_gradient_bind(o->gradient, o->device, o->policy, t->contexts, t->reward);
}

static int check(const fopo_trainer_options *o) {
  int status = fopo_trainer_check_batch(o->batch, o->contexts.n);
  if (status == FOPO_OK) status = check_items(o);
  return status == FOPO_OK ? check_lists(o->policy) : status;
}

/* What steps read, and the gradient that is bound to it. */
static int prepare_data(fopo_trainer *t) {
  const fopo_trainer_options *o = &t->o;
  int status = FOPO_OK;
  t->contexts = o->contexts;
  t->reward = o->reward;
  if (o->resplit.sessions != NULL) {
    status = fopo_resplit_init(&t->resplit, &o->resplit, o->contexts.x);
    t->drawn_reward = *o->reward;
    t->drawn_reward.Y = &t->resplit.Y;
    t->contexts = (fopo_contexts){
        .n = o->contexts.n, .x = t->resplit.x, .X = t->resplit.X, .room = t->resplit.room};
    t->reward = &t->drawn_reward;
  }
  if (status == FOPO_OK) status = bind(t);
  return status == FOPO_OK ? fopo_gradient_check_fit(o->gradient) : status;
}

static int allocate_on_device(fopo_trainer *t) {
  fopo_device *d = t->o.device;
  void *theta = NULL, *totals = NULL, *order = NULL;
  int status = d->ops->alloc(d, &theta, t->n_theta * sizeof *t->theta);
  if (status == FOPO_OK && d->ops->totals != NULL) {
    status = d->ops->alloc(d, &totals, sizeof *t->totals);
  }
  if (status == FOPO_OK && d->ops->replay != NULL) {
    status = d->ops->alloc(d, &order, 2 * t->o.contexts.n * sizeof *t->device_order);
  }
  t->device_order = order;
  t->placed[0] = t->placed[1] = UINT64_MAX;
  t->theta = theta;
  t->totals = totals;
  return status;
}

/* So that a trainer whose candidates do not fit is refused before its first step. Opening the
 * gradient once makes it show the epsilon of the cache. */
static int reserve_cache(fopo_trainer *t) {
  const fopo_trainer_options *o = &t->o;
  const fopo_proposal *q = fopo_gradient_proposal(o->gradient);
  fopo_gradient_open(o->gradient, &t->cache);
  fopo_gradient_close(o->gradient);
  if (q == NULL || !fopo_proposal_keeps(q)) return FOPO_OK;
  return fopo_candidate_cache_reserve(&t->cache, o->device, o->contexts.n, q->k);
}

/* Items that are learnt, as an order of them is made, where that is more than the user's index as
 * it was given. */
static int allocate_order(fopo_trainer *t) {
  fopo_matrix items = t->o.policy->items;
  int orders = t->o.index_refresh > 0 || fopo_gradient_owns_order(t->o.gradient);
  if (!t->o.policy->learns[FOPO_BLOCK_ITEMS] || !orders) return FOPO_OK;
  t->ordered = fopo_alloc(items.rows * items.cols, sizeof *t->ordered);
  return t->ordered != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

int fopo_trainer_new(fopo_trainer **t, const fopo_trainer_options *options) {
  *t = NULL;
  int status = check(options);
  if (status != FOPO_OK) return status;
  fopo_trainer *x = fopo_alloc(1, sizeof *x);
  if (x == NULL) return FOPO_ERR_MEMORY;
  x->o = *options;
  fopo_matrix theta = options->policy->theta;
  x->n_theta = theta.rows * theta.cols;
  x->shuffled = UINT64_MAX;
  x->order = fopo_alloc(options->contexts.n, sizeof *x->order);
  status = x->order != NULL ? prepare_data(x) : FOPO_ERR_MEMORY;
  x->stride = 1;
  x->prepared = FOPO_DUE;
  x->reach[FOPO_BLOCK_ITEMS].bound = INFINITY; /* looked at when the first step is made */
  x->reach[FOPO_BLOCK_WEIGHTS].bound = INFINITY;
  if (status == FOPO_OK) status = allocate_order(x);
  if (status == FOPO_OK) status = allocate_on_device(x);
  if (status == FOPO_OK) status = fopo_trainer_prepare_optim(x);
  if (status == FOPO_OK) status = reserve_cache(x);
  if (status != FOPO_OK) {
    fopo_trainer_free(x);
    return status;
  }
  *t = x;
  return FOPO_OK;
}

int fopo_trainer_bind(fopo_trainer *t) {
  int status = bind(t);
  return status == FOPO_OK ? fopo_trainer_prepare_optim(t) : status;
}

void fopo_trainer_free(fopo_trainer *t) {
  if (t == NULL) return;
  if (t->waiting) fopo_gradient_abandon(t->o.gradient);
  if (t->running) fopo_gradient_close(t->o.gradient);
  if (t->resplit.x.x != NULL &&
      fopo_gradient_binding(t->o.gradient)->contexts.x == t->resplit.x.x) {
    fopo_gradient_unbind(t->o.gradient);
  }
  fopo_resplit_done(&t->resplit);
  fopo_unfinished_done(&t->unfinished);
  fopo_candidate_cache_done(&t->cache);
  if (t->theta != NULL) t->o.device->ops->release(t->o.device, t->theta);
  if (t->totals != NULL) t->o.device->ops->release(t->o.device, t->totals);
  if (t->device_order != NULL) t->o.device->ops->release(t->o.device, t->device_order);
  fopo_free(t->ordered);
  fopo_free(t->order);
  fopo_free(t);
}

/* -- a slice ---------------------------------------------------------------------------------- */

/* Every rank updates theta for itself, so a difference would stay, and grow. Collective. */
static int check_same(const fopo_trainer *t) {
  uint64_t own = fopo_hash_text((const char *)t->o.policy->theta.x, t->n_theta * sizeof *t->theta);
  uint64_t all[FOPO_COMM_RANKS];
  own = fopo_hash_mix(own ^ fopo_hash_mix(t->o.seed) ^ t->step);
  int status = fopo_comm_gather(all, &own, sizeof own);
  for (size_t r = 1; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    if (all[r] == all[0]) continue;
    status =
        fopo_fail(FOPO_ERR_ARGUMENT,
                  "rank %zu (%s) has another theta, seed or step than rank 0 (%s) at step %llu; "
                  "the script must do the same on all, on machines and devices of one kind",
                  r, fopo_comm_host(r), fopo_comm_host(0), (unsigned long long)t->step);
  }
  return status;
}

static int begin_slice(fopo_trainer *t) {
  const fopo_trainer_options *o = &t->o;
  int status = fopo_trainer_check_theta(t);
  if (!fopo_gradient_is_bound(o->gradient, o->device, o->policy, t->contexts, t->reward)) {
    status = fopo_fail(FOPO_ERR_ARGUMENT, "the gradient was used for other data meanwhile; bind it "
                                          "to the trainer's again");
  }
  if (status == FOPO_OK) {
    status =
        o->device->ops->put(o->device, t->theta, o->policy->theta.x, t->n_theta * sizeof *t->theta);
  }
  if (status == FOPO_OK) status = fopo_optim_fit(o->optim, o->policy);
  if (status == FOPO_OK) status = fopo_trainer_prepare_order(t);
  if (status == FOPO_OK) status = fopo_queue_begin(t);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK && fopo_comm_ranks() > 1) status = check_same(t);
  if (status != FOPO_OK) return status;
  fopo_gradient_open(o->gradient, &t->cache);
  t->slice = (fopo_stretch){0};
  t->first = t->step;
  t->started = fopo_clock();
  t->running = 1;
  return FOPO_OK;
}

/* Copies theta and items to the host; adds the slice's seconds to the record's. */
static int close_slice(fopo_trainer *t) {
  if (!t->running) return FOPO_OK;
  t->running = 0;
  t->prepared = FOPO_DUE;
  t->record.seconds += t->slice.seconds;
  fopo_phases_add(t->record.phases, t->slice.phases);
  fopo_gradient_close(t->o.gradient);
  return fopo_trainer_fetch(t);
}

/* Fills the caller's *slice from the sums so far. */
static void report(fopo_slice *slice, fopo_trainer *t) {
  t->slice.seconds = fopo_clock() - t->started;
  if (t->way != NULL && t->on_device > 0.0) t->slice.seconds = t->on_device;
  *slice = (fopo_slice){.steps = (size_t)(t->step - t->first),
                        .step = t->step,
                        .seconds = t->slice.seconds,
                        .mean = fopo_statistics_means(&t->slice.sum)};
  memcpy(slice->phases, t->slice.phases, sizeof slice->phases);
}

const fopo_stretch *fopo_trainer_record(const fopo_trainer *t) { return &t->record; }

void fopo_trainer_end_record(fopo_trainer *t) { t->record = (fopo_stretch){0}; }

/* -- a step ----------------------------------------------------------------------------------- */

/* Estimates the gradient of the batch that was begun; FOPO_DRAWN if the caller must fill rewards
 * first. */
static int estimate(fopo_trainer *t, fopo_gradient_stats *stats) {
  int status = fopo_gradient_estimate(t->o.gradient, &t->drawn);
  t->waiting = status == FOPO_DRAWN;
  if (status != FOPO_OK) return status;
  return fopo_gradient_finish(t->o.gradient, (fopo_matrix){0}, stats);
}

/* Works off the batch that was begun: the gradient, then the update. */
static int make_now(fopo_trainer *t, fopo_gradient_stats *stats) {
  int status = estimate(t, stats);
  if (status != FOPO_OK) return status;
  double start = fopo_clock();
  if (!(stats->sum.norm <= FOPO_NORM_MOST)) return fopo_trainer_fail_numeric(t);
  status = fopo_trainer_check_reach(t, stats->sum.norm);
  if (status == FOPO_OK) {
    status = fopo_trainer_move(t, (fopo_optim_norm){.norm = stats->sum.norm});
  }
  if (status == FOPO_OK) fopo_gradient_move_sigma(t->o.gradient);
  stats->seconds[FOPO_PHASE_UPDATE] = fopo_clock() - start;
  return status;
}

static int add_step(fopo_trainer *t, const fopo_gradient_stats *stats) {
  fopo_statistics_add(&t->slice.sum, &stats->sum);
  fopo_statistics_add(&t->record.sum, &stats->sum);
  fopo_phases_add(t->slice.phases, stats->seconds);
  return FOPO_OK;
}

/* One step, of rows that were chosen and by a plan that was made: draw, reward, combine, update. */
static int make_step(fopo_trainer *t) {
  fopo_gradient_stats stats = {0};
  int made = 1, status = t->waiting ? FOPO_OK : fopo_trainer_begin_batch(t);
  if (status == FOPO_OK) {
    status = t->way != NULL ? t->way->make(t, &stats, &made) : make_now(t, &stats);
  }
  if (status != FOPO_OK || !made) return status;
  fopo_gradient_commit(t->o.gradient, t->rows, t->B, &stats);
  t->step++;
  return t->way != NULL ? t->way->add(t, &stats) : add_step(t, &stats);
}

/* Whether X and Y are to be drawn anew before the next step, an index over items that are learnt is
 * to be refreshed, or another plan is to be made. */
static int is_due(const fopo_trainer *t) {
  const fopo_trainer_options *o = &t->o;
  int refresh = o->index_refresh > 0 && t->step > 0 && t->step % o->index_refresh == 0;
  return refresh || fopo_trainer_resplit_is_due(t) || fopo_gradient_plan_is_due(o->gradient, t->B);
}

/* The rows of the next step. FOPO_DUE: something is to be prepared before it. Queued steps that
 * were not whole may be taken back: then t->step is less than before. */
static int take_rows(fopo_trainer *t) {
  uint64_t step = t->step;
  fopo_trainer_choose_rows(t);
  int status = t->way != NULL ? t->way->prepare(t) : FOPO_OK;
  if (status != FOPO_OK || t->step != step || t->prepared_step == step) return status;
  return is_due(t) ? FOPO_DUE : FOPO_OK;
}

/* Steps until the slice has n, or something is due. */
static int make_steps(fopo_trainer *t, size_t n) {
  int status = t->prepared;
  while (status == FOPO_OK && t->step - t->first < n) {
    uint64_t step = t->step;
    if (!t->waiting) status = take_rows(t);
    if (status == FOPO_OK && t->step == step) status = make_step(t);
  }
  return status;
}

/* The same of queued steps. Of two failures the one of the earlier step is returned; the host
 * learns of it later. Steps that were taken back are made again. */
static int queue_steps(fopo_trainer *t, size_t n) {
  int status, earlier;
  do {
    status = make_steps(t, n);
    if (status == FOPO_DUE) return status;
    earlier = t->way->wait(t);
  } while (status == FOPO_OK && earlier == FOPO_OK && t->step - t->first < n);
  t->way->end(t, status == FOPO_OK && earlier == FOPO_OK);
  return earlier != FOPO_OK ? earlier : status;
}

/* Several ranks agree once a step, when each has done its share of the estimate (ranks/exchange.h);
 * what follows is the same on all. A rank that fails alone after that tells the others here, who
 * learn it at their next agreement: in the next step, or here. */
static int end_steps(int status) {
  return status == FOPO_OK ? fopo_comm_agree(status) : fopo_comm_end(status);
}

int fopo_trainer_run(fopo_trainer *t, size_t n, fopo_slice *slice) {
  int status = t->prepared;
  if (!t->running) {
    t->prepared = FOPO_DUE;
    *slice = (fopo_slice){.step = t->step};
    return status;
  }
  status = t->way != NULL ? queue_steps(t, n) : make_steps(t, n);
  if (status <= FOPO_OK) status = end_steps(status);
  report(slice, t);
  if (status > FOPO_OK) return status; /* the slice goes on */
  int closed = close_slice(t);
  return status != FOPO_OK ? status : closed;
}

/* -- before steps ------------------------------------------------------------------------------ */

/* What is due before the next step. X and Y that are drawn anew wait for queued steps, of which
 * some may be taken back: then nothing more is made. */
static int make_due(fopo_trainer *t) {
  const fopo_trainer_options *o = &t->o;
  uint64_t step = t->step;
  fopo_trainer_choose_rows(t);
  int status = fopo_trainer_resplit(t);
  if (status != FOPO_OK || t->step != step) return status;
  if (o->index_refresh > 0 && step > 0 && step % o->index_refresh == 0) {
    double start = fopo_clock();
    status = fopo_trainer_refresh(t);
    t->slice.phases[FOPO_PHASE_SEARCH] += fopo_clock() - start;
  }
  t->prepared_step = step;
  if (status != FOPO_OK) return status;
  return fopo_gradient_plan(o->gradient, t->theta, t->rows, t->B, o->batch);
}

void fopo_trainer_prepare(fopo_trainer *t) {
  if (t->waiting) return;
  t->prepared = t->running ? FOPO_OK : begin_slice(t);
  t->prepared_step = UINT64_MAX;
  if (t->prepared == FOPO_OK) t->prepared = make_due(t);
}

int fopo_trainer_advance(fopo_trainer *t, size_t n, fopo_slice *slice) {
  int status;
  do {
    fopo_trainer_prepare(t);
    status = fopo_trainer_run(t, n, slice);
  } while (status == FOPO_DUE);
  return status;
}

const fopo_drawn *fopo_trainer_drawn(const fopo_trainer *t) {
  return t->waiting ? &t->drawn : NULL;
}

void fopo_trainer_abandon(fopo_trainer *t) {
  if (!t->waiting) return;
  fopo_gradient_abandon(t->o.gradient);
  t->waiting = 0;
  close_slice(t);
}

/* A block's state on the host; *x is {0} if there is none. */
static int copy_moments(fopo_moments *x, const fopo_optim *from, fopo_block block) {
  const fopo_moments *theirs = &from->of[block];
  size_t n = theirs->rows * theirs->cols;
  if (n == 0) return FOPO_OK;
  *x = (fopo_moments){.rows = theirs->rows, .cols = theirs->cols};
  if (theirs->m != NULL) x->m = fopo_alloc(n, sizeof *x->m);
  if (theirs->v != NULL) x->v = fopo_alloc(n, sizeof *x->v);
  if (theirs->updates != NULL) x->updates = fopo_alloc(theirs->rows, sizeof *x->updates);
  int whole = (x->m || !theirs->m) && (x->v || !theirs->v) && (x->updates || !theirs->updates);
  return whole ? fopo_optim_read(x, from, block) : FOPO_ERR_MEMORY;
}

/* The optimiser's state and options, from one device to another. */
static int move_optim(fopo_trainer *t, const fopo_optim *from) {
  fopo_optim *own = t->o.optim;
  fopo_moments host[FOPO_BLOCKS] = {0};
  size_t known = 0;
  for (int i = 0; i < FOPO_BLOCKS; i++) known += from->of[i].rows;
  if (known == 0) {
    fopo_optim_done(own);
    return fopo_optim_init(own, &from->options);
  }
  fopo_optim_options before = own->options;
  int status = FOPO_OK;
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    status = copy_moments(&host[i], from, (fopo_block)i);
  }
  own->options = from->options;
  if (status == FOPO_OK) status = fopo_optim_restore(own, t->o.device, host, from->t);
  if (status != FOPO_OK) own->options = before;
  for (int i = 0; i < FOPO_BLOCKS; i++) {
    fopo_free(host[i].m);
    fopo_free(host[i].v);
    fopo_free(host[i].updates);
  }
  return status;
}

int fopo_trainer_move_state(fopo_trainer *t, fopo_trainer *from) {
  fopo_gradient *own = t->o.gradient;
  fopo_gradient_options before = *fopo_gradient_get(own);
  fopo_candidate_cache cache = {0};
  fopo_matrix delta = from->o.policy->delta;
  int status = fopo_gradient_set(own, fopo_gradient_get(from->o.gradient));
  if (status == FOPO_OK) status = fopo_gradient_plant(own, fopo_gradient_planted(from->o.gradient));
  if (status == FOPO_OK) status = fopo_candidate_cache_attach(&cache, &from->cache, t->o.device);
  if (status == FOPO_OK) status = move_optim(t, from->o.optim);
  if (status != FOPO_OK) {
    fopo_candidate_cache_detach(&cache);
    fopo_gradient_set(own, &before);
    return status;
  }
  memcpy(t->o.policy->theta.x, from->o.policy->theta.x, t->n_theta * sizeof(float));
  if (delta.x != NULL) memcpy(t->o.policy->delta.x, delta.x, delta.rows * sizeof(float));
  t->step = from->step;
  t->record = from->record;
  fopo_unfinished_done(&t->unfinished);
  t->unfinished = from->unfinished;
  from->unfinished = (fopo_unfinished){0};
  fopo_candidate_cache_done(&t->cache);
  t->cache = cache;
  fopo_candidate_cache_detach(&from->cache);
  return FOPO_OK;
}

const fopo_unfinished *fopo_trainer_unfinished(const fopo_trainer *t) { return &t->unfinished; }

uint64_t fopo_trainer_step(const fopo_trainer *t) { return t->step; }

/* While a slice runs the gradient uses the trainer's cache. */
const fopo_mass *fopo_trainer_norms(const fopo_trainer *t) { return &t->cache.norms; }
