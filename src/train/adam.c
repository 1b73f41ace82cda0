/* Adam (Kingma and Ba 2014), with decoupled weight decay AdamW (Loshchilov and Hutter 2019). */
#include <math.h>
#include <stddef.h>

#include "train/optim.h"
#include "train/reach.h"

static int update(const fopo_optim *o, const fopo_parameters *x, const fopo_item_gradient *G,
                  size_t cols, const fopo_update *u) {
  fopo_device *d = o->device;
  fopo_adam adam = fopo_optim_adam(o);
  adam.u = *u;
  return cols > 0 ? d->ops->adam_rows(d, x, G, &adam, cols) : d->ops->adam(d, x, G->rows, &adam);
}

/* A parameter moves by lr times the quotient of its moments. By the Cauchy-Schwarz inequality the
 * quotient is at most (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 / beta2)) before the corrections
 * for the start, which change it by less than a factor of 10 at the betas in use. */
static double reach(const fopo_optim_options *o, double norm, double bound) {
  (void)norm, (void)bound;
  if (o->beta1 * o->beta1 >= o->beta2) return FOPO_NORM_MOST / o->eps;
  double ratio = o->beta1 * o->beta1 / o->beta2;
  return 10.0 * (1.0 + (1.0 - o->beta1) / sqrt((1.0 - o->beta2) * (1.0 - ratio)));
}

static const fopo_option options[] = {{.name = "beta1",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_BELOW,
                                       .member = offsetof(fopo_optim_options, beta1),
                                       .standard = 0.9,
                                       .most = 1.0,
                                       .text = "decay of the mean"},
                                      {.name = "beta2",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_BELOW,
                                       .member = offsetof(fopo_optim_options, beta2),
                                       .standard = 0.999,
                                       .most = 1.0,
                                       .text = "decay of the mean square"},
                                      {.name = "eps",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_ABOVE,
                                       .member = offsetof(fopo_optim_options, eps),
                                       .standard = 1e-8,
                                       .text = "added to the root of the mean square"},
                                      {0}};

const fopo_optimiser fopo_optimiser_adam = {
    .name = "adam",
    .has_m = 1,
    .has_v = 1,
    .has_updates = 1,
    .update = update,
    .reach = reach,
    .lr = 1e-3,
    .options = options,
    // clang-format off
    .text = "Adam (Kingma and Ba 2014); with decoupled = true AdamW (Loshchilov and Hutter 2019).\n"
            "Items that are learnt (train_items) are updated lazily: an item without a gradient in a step stays\n"
            "as it is, with its moments and without decay, and the bias correction counts each item's own\n"
            "updates.\n",
    .example = "o = fopo.optim.adam{lr = 1e-3}\n"
               "o.lr = 5e-4\n"
               "adamw = fopo.optim.adam{lr = 1e-2, weight_decay = 0.1, decoupled = true, clip = 1,\n"
               "                        schedule = fopo.schedule.cosine{steps = 1000, warmup = 50}}\n"
               "assert(adamw.clip == 1 and math.abs(adamw.rate - 1e-2 / 50) < 1e-12)",
    // clang-format on
};
