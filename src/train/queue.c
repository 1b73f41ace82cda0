/* Steps that are queued on an asynchronous device. The host does not wait for each: the device adds
 * the statistics of its steps to totals (device/ops.h), which the host reads some fifty times a
 * second.
 *
 * The host learns late that a gradient was not finite. The device has moved no parameter since
 * then, and the steps queued after it are rolled back here. The host must wait for a step whose
 * effect on the candidate cache cannot be rolled back: one that stores candidates, or a probe of an
 * adaptive epsilon.
 *
 * A step that repeats the work of the step before is recorded as a CUDA graph. From then on the
 * graph is replayed for each such step, up to FOPO_REPLAYS of them by one call, which sends nothing
 * but the numbers of the steps: the order of the contexts is on the device. Steps that wait for
 * their call have been committed here, and are taken back if it fails. A graph lives for one slice,
 * because options may change between slices. */
#include <math.h>

#include "comm/comm.h"
#include "core/clock.h"
#include "core/progress.h"
#include "core/status.h"
#include "train/state.h"

/* Seconds between two readings of totals, about. More would make Ctrl-C slow, because queued steps
 * run to their end; fewer would cost speed, because the device idles some microseconds at each. */
static const double between_readings = 0.02;

/* -- the totals -------------------------------------------------------------------------------- */

int fopo_queue_begin(fopo_trainer *t) {
  const fopo_device_ops *ops = t->o.device->ops;
  fopo_totals start = {.record = t->record.sum};
  /* The totals know the norm of all of theta, and a replay repeats one update of it: a theta that
   * is learnt in parts, or at several rates, is moved step by step and recorded in no graph. So is
   * a sigma, by the host. */
  int queued = t->totals != NULL && fopo_comm_ranks() == 1 &&
               fopo_optim_is_one(t->o.optim, t->o.policy) &&
               !t->o.policy->learns[FOPO_BLOCK_ITEMS] && !fopo_reward_from_caller(t->o.reward) &&
               !(fopo_gradient_get(t->o.gradient)->sigma_lr > 0.0);
  t->pending = 0;
  t->on_device = 0.0;
  t->first_t = t->o.optim->t;
  t->read = fopo_clock();
  t->uses_graph = ops->replay != NULL;
  t->n_replays = 0;
  t->last_work = t->graph_work = (fopo_work){0};
  t->way = queued ? &fopo_queued : NULL;
  if (!queued) return FOPO_OK;
  int status = ops->put(t->o.device, t->totals, &start, sizeof start);
  return status == FOPO_OK && ops->start_clock != NULL ? ops->start_clock(t->o.device) : status;
}

/* If the device's clock cannot be read the host's is used; that is no failure. */
static void read_clock(fopo_trainer *t) {
  fopo_device *d = t->o.device;
  double seconds = 0.0;
  if (d->ops->stop_clock == NULL || d->ops->stop_clock(d, &seconds) != FOPO_OK) return;
  t->on_device = seconds;
}

/* Rolls back, newest first, the steps queued after the last finite one, step `whole`; the optimiser
 * has counted them too. Returns the failure. */
static int roll_back(fopo_trainer *t, uint64_t whole) {
  while (t->step > whole) {
    t->step--;
    fopo_trainer_choose_rows(t);
    fopo_gradient_rollback(t->o.gradient, t->rows, t->B);
  }
  t->o.optim->t = t->first_t + (whole - t->first);
  fopo_trainer_choose_rows(t);
  return fopo_trainer_fail_numeric(t);
}

/* Doubles or halves the steps between two readings, by the seconds since the last one. */
static void adjust_stride(fopo_trainer *t, double took) {
  if (t->pending >= t->stride && took < between_readings / 2) t->stride *= 2;
  if (took > between_readings * 2 && t->stride > 1) t->stride /= 2;
}

/* Launches the steps that wait for it. Those that it cannot launch are taken back, newest first,
 * and the slice goes on without a graph. */
static void launch_replays(fopo_trainer *t) {
  size_t n = t->n_replays, done = 0;
  if (n == 0) return;
  t->o.device->ops->replay(t->o.device, t->replays, n, &done);
  t->n_replays = 0;
  if (done == n) return;
  t->uses_graph = 0;
  for (size_t i = n; i > done; i--) {
    t->step--;
    t->pending--;
    t->o.optim->t--;
    fopo_trainer_choose_rows(t);
    fopo_gradient_rollback(t->o.gradient, t->rows, t->B);
  }
  t->reach[FOPO_BLOCK_THETA] = t->reach_before[done];
}

/* Waits for the queued steps and reads their statistics; fails if one was not finite. */
static int read_totals(fopo_trainer *t) {
  fopo_totals totals;
  double start = fopo_clock();
  launch_replays(t);
  if (t->pending == 0) return FOPO_OK;
  int status = t->o.device->ops->get(t->o.device, &totals, t->totals, sizeof totals);
  if (status != FOPO_OK) return status;
  t->slice.sum = totals.slice;
  t->record.sum = totals.record;
  double now = fopo_clock();
  t->slice.phases[FOPO_PHASE_GRADIENT] += now - start;
  adjust_stride(t, now - t->read);
  t->pending = 0;
  t->read = now;
  if (!totals.broken) return FOPO_OK;
  return roll_back(t, t->first + (uint64_t)totals.slice.steps);
}

/* -- one step --------------------------------------------------------------------------------- */

/* Queues all work of the batch that was begun: draws, rewards, gradient, statistics, update. */
static int queue_batch(fopo_trainer *t) {
  fopo_gradient *g = t->o.gradient;
  int status = fopo_gradient_estimate(g, NULL);
  if (status != FOPO_OK) return status;
  double *seconds = t->slice.phases, start = fopo_clock();
  status = fopo_gradient_finish_async(g, t->totals, seconds);
  if (status == FOPO_OK) {
    status = fopo_trainer_move(t, (fopo_optim_norm){.totals = t->totals});
  }
  seconds[FOPO_PHASE_UPDATE] += fopo_clock() - start;
  return status;
}

/* Records the batch that was begun as a CUDA graph. Recording executes nothing, so the batch is
 * begun again and the optimiser's count restored. If the device cannot record this work, the slice
 * goes on without a graph. */
static int record_graph(fopo_trainer *t, fopo_work work) {
  const fopo_device_ops *ops = t->o.device->ops;
  fopo_gradient *g = t->o.gradient;
  uint64_t updates = t->o.optim->t;
  int status = ops->start_recording(t->o.device);
  if (status == FOPO_OK) {
    status = queue_batch(t);
    int ended = ops->stop_recording(t->o.device, status == FOPO_OK);
    if (status == FOPO_OK) status = ended;
  }
  fopo_gradient_abandon(g);
  t->o.optim->t = updates;
  if (status == FOPO_ERR_INTERRUPTED) return status;
  t->uses_graph = status == FOPO_OK;
  t->graph_work = work;
  return fopo_trainer_begin_batch(t);
}

/* Puts the batch that was begun among the steps that are replayed. */
static int add_replay(fopo_trainer *t, fopo_reach before) {
  fopo_optim *o = t->o.optim;
  /* A replay does not come by fopo_gradient_estimate, which looks for Ctrl-C. */
  fopo_gradient_abandon(t->o.gradient); /* the host's part of a batch is only begun here */
  if (fopo_interrupted()) {
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while training");
  }
  size_t first = (size_t)(t->rows - t->order) + (t->shuffled & 1) * t->o.contexts.n;
  t->reach_before[t->n_replays] = before;
  t->replays[t->n_replays++] =
      (fopo_replayed){.step = (uint32_t)t->step, .first = first, .adam = fopo_optim_adam(o)};
  o->t++; /* the update is in the graph */
  return FOPO_OK;
}

/* Makes the batch that was begun part of a graph if an identical batch was made before it: the
 * first batch of its kind runs normally, which allocates all memory and makes CUDA load the
 * kernels; the second is recorded, where neither may happen. *made = 0: it is to be queued
 * normally. */
static int replay_graph(fopo_trainer *t, fopo_reach before, int *made) {
  fopo_work work = fopo_gradient_work(t->o.gradient);
  int status = FOPO_OK, repeats = fopo_work_equal(&work, &t->last_work);
  *made = 0;
  t->last_work = work;
  if (t->uses_graph && repeats && !fopo_work_equal(&work, &t->graph_work)) {
    status = record_graph(t, work);
  }
  if (status != FOPO_OK || !t->uses_graph || !fopo_work_equal(&work, &t->graph_work)) return status;
  status = add_replay(t, before);
  *made = status == FOPO_OK;
  return status;
}

/* Whether the order of the step's epoch is on the device, or need not be. */
static int is_placed(const fopo_trainer *t) {
  return t->device_order == NULL || t->placed[t->shuffled & 1] == t->shuffled;
}

/* Sends it there, in the place of the epoch before the last. */
static int place_order(fopo_trainer *t) {
  size_t N = t->o.contexts.n, at = (t->shuffled & 1) * N;
  fopo_device *d = t->o.device;
  if (t->device_order == NULL) return FOPO_OK;
  if (!is_placed(t)) {
    t->placed[t->shuffled & 1] = UINT64_MAX;
    int status = d->ops->put(d, t->device_order + at, t->order, N * sizeof *t->order);
    if (status != FOPO_OK) return status;
    t->placed[t->shuffled & 1] = t->shuffled;
  }
  fopo_gradient_order(t->o.gradient, (fopo_row_order){t->order, t->device_order, N, at});
  return FOPO_OK;
}

static int prepare_queued(fopo_trainer *t) {
  int status = FOPO_OK;
  uint64_t step = t->step;
  t->waits = fopo_gradient_must_sync(t->o.gradient, t->rows, t->B);
  if (t->waits) status = read_totals(t);
  if (t->n_replays == FOPO_REPLAYS || !is_placed(t)) launch_replays(t);
  return status != FOPO_OK || t->step != step ? status : place_order(t);
}

static int make_queued(fopo_trainer *t, fopo_gradient_stats *stats, int *made) {
  fopo_gradient *g = t->o.gradient;
  fopo_reach before = t->reach[FOPO_BLOCK_THETA];
  fopo_work work = fopo_gradient_work(g);
  int replayed = 0, status = fopo_trainer_check_reach(t, INFINITY);
  *made = 1;
  if (status == FOPO_OK && t->n_replays > 0 && !fopo_work_equal(&work, &t->graph_work)) {
    fopo_gradient_abandon(g);
    t->reach[FOPO_BLOCK_THETA] = before;
    launch_replays(t);
    *made = 0;
    return FOPO_OK;
  }
  if (status != FOPO_OK) {
    fopo_gradient_abandon(g);
    return status;
  }
  t->pending++; /* a step that fails half-way may be in the totals too */
  if (!t->waits) status = replay_graph(t, before, &replayed);
  if (status == FOPO_OK && !replayed) status = queue_batch(t);
  if (status == FOPO_OK && t->waits) status = read_totals(t);
  return status == FOPO_OK && t->waits ? fopo_gradient_means(g, stats) : status;
}

/* The device adds up statistics. */
static int add_queued(fopo_trainer *t, const fopo_gradient_stats *stats) {
  (void)stats;
  return t->pending < t->stride ? FOPO_OK : read_totals(t);
}

static void end_queued(fopo_trainer *t, int whole) {
  fopo_gradient_order(t->o.gradient, (fopo_row_order){0});
  if (whole) read_clock(t);
}

const fopo_way fopo_queued = {.prepare = prepare_queued,
                              .make = make_queued,
                              .add = add_queued,
                              .wait = read_totals,
                              .end = end_queued};
