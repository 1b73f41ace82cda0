/* What the rewards of a log share. With the event (x_i, a_i, p_i, r_i) of a log and a model r_M all
 * of them are
 *
 *     rhat(a, x_i) = [r_M(a, x_i)] + 1[a = a_i] weight_i (gain_i - shift)
 *
 * the credit of one logged action a context, the model, or both. */
#ifndef FOPO_LEARN_REWARDS_CREDIT_H
#define FOPO_LEARN_REWARDS_CREDIT_H

#include "learn/reward.h"

/* The option from which the weights have their clip. */
#define FOPO_OPTION_CLIP                                                                           \
  {                                                                                                \
    .name = "clip", .type = FOPO_OPTION_NUMBER, .member = offsetof(fopo_reward_source, clip),      \
    .least = 0, .most = 1, .text = "tau: p below it is taken as tau"                               \
  }

/* weight_i = smoothing / max(clip, p_i), gain_i = r_i, shift = translate, of a log whose
 * propensities, rewards and actions are checked. */
int fopo_credit_init(fopo_reward *r, const fopo_reward_source *source);

/* The model beside it; gain_i becomes r_i - r_M(a_i, x_i). */
void fopo_credit_correct(fopo_reward *r, const fopo_reward_source *source);

/* r_M(a, x_n), and the sum above. */
double fopo_model_value(const fopo_reward *r, size_t n, uint32_t a);
double fopo_credit_value(const fopo_reward *r, size_t n, uint32_t a);

/* The same for a batch on the device. */
int fopo_model_look_up(fopo_device *d, const fopo_samples *samples,
                       const fopo_reward_arrays *arrays, const fopo_device_batch *x);
int fopo_credit_look_up(fopo_device *d, const fopo_samples *samples,
                        const fopo_reward_arrays *arrays, const fopo_device_batch *x);

#endif
