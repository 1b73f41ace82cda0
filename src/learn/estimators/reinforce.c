/* REINFORCE (Williams 1992): S items of pi itself; P rows a context. Baseline mean:
 * c_s = (r_s - rbar) / (S - 1); none: c_s = r_s / S minus rbar E_pi[beta]. Both unbiased. */
#include "core/clock.h"
#include "core/status.h"
#include "learn/batch.h"

/* E_pi beta is needed if no baseline makes the c_s sum to 0. */
static float *needed_mean(fopo_batch *b) { return b->options->baseline ? NULL : b->draws.mean; }

static int draw(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_policy_sums sums = {.mean = needed_mean(b), .log_z = b->draws.log_z};
  double start = fopo_clock();
  int status =
      d->ops->draw_policy(d, &b->draws.samples, &sums, b->data->device_items, &b->piece.device);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

static int combine(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_estimate estimate = fopo_batch_estimate(b);
  return d->ops->reinforce(d, &estimate, &b->draws.samples, needed_mean(b), b->data->device_items,
                           &b->piece.device);
}

static int dense(const fopo_gradient_options *o) { return !o->baseline; }

/* Without a baseline the c_s do not sum to 0, and every item a has a further term
 * - rbar_b pi(a | x_b) Q_b / B. */
static int subtract_mean(fopo_batch *b) {
  const fopo_batch_arrays *m = &b->arrays;
  const fopo_draws *w = &b->draws;
  fopo_device *d = b->data->device;
  size_t n = b->piece.n;
  int status = d->ops->get(d, m->host_stats, b->piece.stats, n * FOPO_STATS * sizeof(float));
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < n; i++) {
    m->host_weight[i] = -m->host_stats[i * FOPO_STATS + FOPO_STAT_REWARD] / (float)b->B;
  }
  status = d->ops->put(d, w->weight, m->host_weight, n * sizeof *w->weight);
  if (status != FOPO_OK) return status;
  return d->ops->items_expectation(d, b->items.sum.rows, b->data->device_items, w->log_z, w->weight,
                                   &b->piece.device);
}

static int add_items(fopo_batch *b) {
  int status = fopo_batch_add_draws(b);
  return status == FOPO_OK && !b->options->baseline ? subtract_mean(b) : status;
}

static const char *const baselines[] = {"none", "mean", NULL};

static const fopo_option options[] = {FOPO_OPTION_SAMPLES("S, draws of the policy a context"),
                                      {.name = "baseline",
                                       .type = FOPO_OPTION_CHOICE,
                                       .member = offsetof(fopo_gradient_options, baseline),
                                       .choices = baselines,
                                       .symbol = "baseline",
                                       .text = "none (the paper) or mean"},
                                      {0}};

const fopo_estimator fopo_estimator_reinforce = {
    .name = "reinforce",
    .title = "reinforce",
    .needs = FOPO_READS_ALL_ITEMS,
    .least = 2,
    .draw = draw,
    .combine = combine,
    .dense = dense,
    .add_items = add_items,
    .options = options,
    // clang-format off
    .text = "S items drawn from the policy itself (Williams 1992), which needs all P scores.\n"
          "mean: c_s = (r_s - rbar) / (S - 1); none: c_s = r_s / S and rbar E_pi[beta] is taken off. Both are\n"
          "unbiased; the baseline has the lower variance. Cost: P rows a context.",
    .example = "g = fopo.gradient.reinforce{samples = 100, baseline = \"mean\"}",
    // clang-format on
};
