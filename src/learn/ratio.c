#include "learn/ratio.h"

#include <math.h>

#include "core/status.h"

float fopo_ratio_shift(const fopo_reward *r) {
  float least = r->credit.gain[0];
  for (size_t i = 1; i < r->contexts; i++) least = fminf(least, r->credit.gain[i]);
  return least - 1.0f;
}

int fopo_ratio_check(const fopo_binding *data, const fopo_reward *r) {
  unsigned of_log = FOPO_REWARD_OF_LOGS | FOPO_REWARD_IS_SPARSE;
  const char *title = fopo_objective_rows[FOPO_OBJECTIVE_SNIPS].title;
  if ((r->kind->needs & of_log) != of_log) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the %s is of the rewards of a log by their propensities, and this reward is "
                     "%s; use fopo.reward.ips",
                     title, r->kind->title);
  }
  if (data->device->ops->join_sums != NULL && fopo_parts_is_alone(data->parts) &&
      !data->learns_items) {
    return FOPO_OK;
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "the %s is a ratio over the batch, on the CPU, in one process, with items that "
                   "are not learnt; use device = \"cpu\", or fopo.reward.ips{translate = ...} with "
                   "the expected reward",
                   title);
}

void fopo_ratio_take(fopo_matrix V, float *stats, const fopo_credit *credit, float shift,
                     const uint32_t *rows) {
  double weights = 0.0, earned = 0.0;
  for (size_t i = 0; i < V.rows; i++) {
    double gain = (double)credit->gain[rows[i]];
    double w = (double)stats[i * FOPO_STATS + FOPO_STAT_REWARD] / (gain - (double)shift);
    weights += w;
    earned += w * gain;
  }
  double rho = weights > 0.0 ? earned / weights : 0.0;
  for (size_t i = 0; i < V.rows; i++) {
    double gain = (double)credit->gain[rows[i]];
    double factor = weights > 0.0 ? (gain - rho) / (gain - (double)shift) : 0.0;
    if (weights > 0.0) factor *= (double)V.rows / weights; /* G is a mean over the batch */
    float *v = fopo_matrix_row(V, i);
    for (size_t j = 0; j < V.cols; j++) v[j] *= (float)factor;
    stats[i * FOPO_STATS + FOPO_STAT_REWARD] = (float)rho;
  }
}
