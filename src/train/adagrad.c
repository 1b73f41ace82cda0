/* Adagrad (Duchi, Hazan and Singer 2011): v is the sum of all squares. */
#include <stddef.h>

#include "train/optim.h"

static int update(const fopo_optim *o, const fopo_parameters *x, const fopo_item_gradient *G,
                  size_t cols, const fopo_update *u) {
  fopo_device *d = o->device;
  fopo_adagrad adagrad = {.u = *u, .eps = o->options.eps};
  return cols > 0 ? d->ops->adagrad_rows(d, x, G, &adagrad, cols)
                  : d->ops->adagrad(d, x, G->rows, &adagrad);
}

/* v >= g^2, so |g| / (sqrt(v) + eps) < 1. Only a square that is 0 in float32, that of |g| < 3e-23,
 * leaves the division to eps. */
static double reach(const fopo_optim_options *o, double norm, double bound) {
  (void)norm, (void)bound;
  return 1.0 + 3e-23 / o->eps;
}

static const fopo_option options[] = {{.name = "eps",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_ABOVE,
                                       .member = offsetof(fopo_optim_options, eps),
                                       .standard = 1e-10,
                                       .text = "added to the root of the sum of squares"},
                                      {0}};

const fopo_optimiser fopo_optimiser_adagrad = {
    .name = "adagrad",
    .has_v = 1,
    .update = update,
    .reach = reach,
    .lr = 1e-2,
    .options = options,
    // clang-format off
    .text = "Adagrad (Duchi, Hazan and Singer 2011): v += g^2, theta += lr g / (sqrt(v) + eps), for each number.\n"
            "A number whose gradients were large moves by less from then on, and one that seldom has a gradient\n"
            "by up to lr. Items that are learnt (train_items) are updated lazily: an item without a gradient in\n"
            "a step stays as it is, with its sum and without decay.\n",
    .example = "o = fopo.optim.adagrad{lr = 0.02, schedule = fopo.schedule.linear{steps = 1000, final = 0.28}}\n"
               "assert(o.eps == 1e-10 and o.rate == 0.02)",
    // clang-format on
};
