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
 * graph is replayed for each such step: one call instead of a launch for every kernel. A graph
 * lives for one slice, because options may change between slices. */
#include <math.h>

#include "comm/comm.h"
#include "core/clock.h"
#include "core/progress.h"
#include "core/status.h"
#include "train/trainer_internal.h"

/* Seconds between two readings of totals, about. More would make Ctrl-C slow, because queued steps
 * run to their end; fewer would cost speed, because the device idles some microseconds at each. */
static const double between_readings = 0.02;

/* -- the totals -------------------------------------------------------------------------------- */

int fopo_trainer_begin_async(fopo_trainer *t) {
  const fopo_device_ops *ops = t->o.device->ops;
  fopo_totals start = {.record = t->record.sum};
  t->async = t->totals != NULL && fopo_comm_size() == 1 && !t->o.policy->train_items &&
             !fopo_reward_from_caller(t->o.reward);
  t->pending = 0;
  t->on_device = 0.0;
  t->first_t = t->o.optim->t;
  t->read = fopo_clock();
  t->uses_graph = ops->replay != NULL;
  t->last_work = t->graph_work = (fopo_work){0};
  if (!t->async) return FOPO_OK;
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

/* Waits for the queued steps and reads their statistics; fails if one was not finite. */
static int read_totals(fopo_trainer *t) {
  fopo_totals totals;
  double start = fopo_clock();
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
    status = fopo_optim_step(t->o.optim, t->o.device, t->theta, fopo_gradient_result(g), t->n_theta,
                             (fopo_optim_norm){.totals = t->totals});
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

/* Replays the CUDA graph of an identical earlier batch for the batch that was begun. *made = 0 if
 * there is none; the caller then queues the batch normally. */
static int replay_graph(fopo_trainer *t, int *made) {
  fopo_optim *o = t->o.optim;
  fopo_work work = fopo_gradient_work(t->o.gradient);
  int status = FOPO_OK, repeats = fopo_work_equal(&work, &t->last_work);
  *made = 0;
  t->last_work = work;
  if (!t->uses_graph) return FOPO_OK;

  /* The first batch of its kind runs normally, which allocates all memory; the second is recorded,
   * for a graph must not allocate. */
  if (!fopo_work_equal(&work, &t->graph_work)) {
    status = repeats ? record_graph(t, work) : FOPO_OK;
    if (status != FOPO_OK || !repeats || !t->uses_graph) return status;
  }

  /* A replay does not come by fopo_gradient_estimate, which looks for Ctrl-C. */
  if (fopo_interrupted()) {
    fopo_gradient_abandon(t->o.gradient);
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while training");
  }
  fopo_adam adam = fopo_optim_adam(o);
  double start = fopo_clock();
  t->uses_graph = t->o.device->ops->replay(t->o.device, (uint32_t)t->step, &adam, made) == FOPO_OK;
  if (!*made) {
    t->graph_work = (fopo_work){0}; /* dropped: memory that it used was released */
    return FOPO_OK;
  }

  /* The host's part of a batch is only begun here, and the update is in the graph. */
  fopo_gradient_abandon(t->o.gradient);
  o->t++;
  t->slice.phases[FOPO_PHASE_GRADIENT] += fopo_clock() - start;
  return FOPO_OK;
}

/* Queues one step; one that the host waits for is never replayed. */
static int queue_step(fopo_trainer *t, int waits) {
  int made = 0, status = fopo_optim_prepare(t->o.optim, t->o.device, t->n_theta, 0, 0);
  if (status == FOPO_OK) status = fopo_trainer_check_reach(t, INFINITY);
  if (status == FOPO_OK) status = fopo_trainer_begin_batch(t);
  t->pending++; /* a step that fails half-way may be in the totals too */
  if (status == FOPO_OK && !waits) status = replay_graph(t, &made);
  return status == FOPO_OK && !made ? queue_batch(t) : status;
}

/* A step that cannot be rolled back is made alone: all steps before it are waited for, then itself,
 * and its statistics are known when it is committed. */
static int make_step(fopo_trainer *t) {
  fopo_gradient *g = t->o.gradient;
  fopo_gradient_stats stats = {0};
  fopo_trainer_choose_rows(t);
  int waits = fopo_gradient_must_sync(g, t->rows, t->B);
  int status = waits ? read_totals(t) : FOPO_OK;
  if (status == FOPO_OK) status = queue_step(t, waits);
  if (status == FOPO_OK && waits) status = read_totals(t);
  if (status == FOPO_OK && waits) status = fopo_gradient_means(g, &stats);
  if (status != FOPO_OK) return status;
  fopo_gradient_commit(g, t->rows, t->B, &stats);
  t->step++;
  return t->pending < t->stride ? FOPO_OK : read_totals(t);
}

/* Of two failures the one of the earlier step is returned; the host learns of it later. */
int fopo_trainer_run_async(fopo_trainer *t, size_t n) {
  int status = FOPO_OK;
  while (status == FOPO_OK && t->step - t->first < n) status = make_step(t);
  int earlier = read_totals(t);
  if (status == FOPO_OK && earlier == FOPO_OK) read_clock(t);
  return earlier != FOPO_OK ? earlier : status;
}
