/* Steps that the host does not wait for. A device that works while the host goes on adds up what
 * the slice reports in totals (device/device.h), and the host reads it now and then.
 *
 * A gradient that is not finite is learnt of late: the device has moved nothing since, and the
 * steps begun after it are taken back here. What cannot be taken back, the sets that a search
 * stores and an adaptive epsilon's probe, is waited for.
 *
 * A step that is the same work as the one before is recorded by the device, and from then on made
 * again by its record, at the cost of a call. A slice makes its own record: what is set between two
 * slices is in the next one's. */
#include <math.h>

#include "comm/comm.h"
#include "core/clock.h"
#include "core/progress.h"
#include "core/status.h"
#include "train/trainer_internal.h"

/* Seconds between two readings of totals, about: what was begun runs to its end also when the run
 * is interrupted, and a reading costs the device some microseconds of idleness. */
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
  t->records = ops->replay != NULL;
  t->seen = t->recorded = (fopo_work){0};
  if (!t->async) return FOPO_OK;
  int status = ops->put(t->o.device, t->totals, &start, sizeof start);
  return status == FOPO_OK && ops->start_clock != NULL ? ops->start_clock(t->o.device) : status;
}

/* A clock that cannot be read leaves the host's, and fails nothing. */
static void read_clock(fopo_trainer *t) {
  fopo_device *d = t->o.device;
  double seconds = 0.0;
  if (d->ops->stop_clock == NULL || d->ops->stop_clock(d, &seconds) != FOPO_OK) return;
  t->on_device = seconds;
}

/* The steps after the last whole one were not made: they are taken back, the latest first. */
static int roll_back(fopo_trainer *t, uint64_t whole) {
  while (t->step > whole) {
    t->step--;
    fopo_trainer_choose_rows(t);
    fopo_gradient_rollback(t->o.gradient, t->mine, t->n_mine);
  }
  t->o.optim->t = t->first_t + (whole - t->first);
  fopo_trainer_choose_rows(t);
  return fopo_trainer_fail_numeric(t);
}

/* More steps between two readings, or fewer, as the last ones took. */
static void adjust_stride(fopo_trainer *t, double took) {
  if (t->pending >= t->stride && took < between_readings / 2) t->stride *= 2;
  if (took > between_readings * 2 && t->stride > 1) t->stride /= 2;
}

/* Waits for the steps begun, and learns what came of them. */
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

static int begin_batch(fopo_trainer *t) {
  /* 2^32 steps are out of reach: the key's step is the trainer's. */
  fopo_draw_key key = {t->o.seed, (uint32_t)t->step};
  return fopo_gradient_begin(t->o.gradient, t->theta, t->mine, t->n_mine, key);
}

/* All that follows the batch's beginning. */
static int make_work(fopo_trainer *t) {
  fopo_gradient *g = t->o.gradient;
  int status = fopo_gradient_estimate(g, NULL);
  if (status != FOPO_OK) return status;
  double *seconds = t->slice.phases, start = fopo_clock();
  status = fopo_gradient_finish_async(g, t->totals, seconds);
  if (status == FOPO_OK) {
    status = fopo_optim_step(t->o.optim, t->o.device, t->theta, fopo_gradient_result(g), t->n_theta,
                             t->totals);
  }
  seconds[FOPO_PHASE_UPDATE] += fopo_clock() - start;
  return status;
}

/* Records the batch that was begun, and begins it anew, for recording makes nothing. Work that the
 * device cannot record leaves it without a record, and the slice's steps are made directly. */
static int record_work(fopo_trainer *t, fopo_work work) {
  const fopo_device_ops *ops = t->o.device->ops;
  fopo_gradient *g = t->o.gradient;
  uint64_t updates = t->o.optim->t;
  int status = ops->start_recording(t->o.device);
  if (status == FOPO_OK) {
    status = make_work(t);
    int ended = ops->stop_recording(t->o.device, status == FOPO_OK);
    if (status == FOPO_OK) status = ended;
  }
  fopo_gradient_abandon(g);
  t->o.optim->t = updates;
  if (status == FOPO_ERR_INTERRUPTED) return status;
  t->records = status == FOPO_OK;
  t->recorded = work;
  return begin_batch(t);
}

/* The batch that was begun, by the record of an equal one; *made is 0 where it is to be made
 * directly: the first of its kind, or where the device has no record to give. */
static int make_by_record(fopo_trainer *t, int *made) {
  fopo_optim *o = t->o.optim;
  fopo_work work = fopo_gradient_work(t->o.gradient);
  int status = FOPO_OK, seen = fopo_work_equal(&work, &t->seen);
  *made = 0;
  t->seen = work;
  if (!t->records) return FOPO_OK;
  if (!fopo_work_equal(&work, &t->recorded)) {
    status = seen ? record_work(t, work) : FOPO_OK;
    if (status != FOPO_OK || !seen || !t->records) return status;
  }
  if (fopo_interrupted()) {
    fopo_gradient_abandon(t->o.gradient);
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while training");
  }
  fopo_adam adam = fopo_optim_adam(o);
  double start = fopo_clock();
  t->records = t->o.device->ops->replay(t->o.device, (uint32_t)t->step, &adam, made) == FOPO_OK;
  if (!*made) t->recorded = (fopo_work){0};
  if (!*made) return FOPO_OK;
  fopo_gradient_abandon(t->o.gradient);
  o->t++;
  t->slice.phases[FOPO_PHASE_GRADIENT] += fopo_clock() - start;
  return FOPO_OK;
}

/* Hands one step to the device. */
static int begin_step(fopo_trainer *t, int waits) {
  int made = 0, status = fopo_optim_prepare(t->o.optim, t->o.device, t->n_theta, 0, 0);
  if (status == FOPO_OK) status = begin_batch(t);
  t->pending++; /* also of a step that fails half-way the totals may know */
  if (status == FOPO_OK && !waits) status = make_by_record(t, &made);
  return status == FOPO_OK && !made ? make_work(t) : status;
}

/* A step that cannot be taken back waits for those before it, and for itself. */
static int make_step(fopo_trainer *t) {
  fopo_gradient *g = t->o.gradient;
  fopo_gradient_stats stats = {0};
  fopo_trainer_choose_rows(t);
  int waits = fopo_gradient_must_sync(g, t->mine, t->n_mine);
  int status = waits ? read_totals(t) : FOPO_OK;
  if (status == FOPO_OK) status = begin_step(t, waits);
  if (status == FOPO_OK && waits) status = read_totals(t);
  if (status == FOPO_OK && waits) status = fopo_gradient_means(g, &stats);
  if (status != FOPO_OK) return status;
  fopo_gradient_commit(g, t->mine, t->n_mine, &stats);
  t->step++;
  return t->pending < t->stride ? FOPO_OK : read_totals(t);
}

/* Of two failures the earlier step's is told, which is learnt of later. */
int fopo_trainer_run_async(fopo_trainer *t, size_t n) {
  int status = FOPO_OK;
  while (status == FOPO_OK && t->step - t->first < n) status = make_step(t);
  int earlier = read_totals(t);
  if (status == FOPO_OK && earlier == FOPO_OK) read_clock(t);
  return earlier != FOPO_OK ? earlier : status;
}
