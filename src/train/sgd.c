/* Stochastic gradient ascent with momentum; its velocity is the moment m. */
#include <stddef.h>

#include "train/optim.h"

static int update(const fopo_optim *o, const fopo_parameters *x, const fopo_item_gradient *G,
                  size_t cols, const fopo_update *u) {
  fopo_device *d = o->device;
  fopo_sgd sgd = {.u = *u, .momentum = o->options.momentum};
  return cols > 0 ? d->ops->sgd_rows(d, x, G, &sgd, cols) : d->ops->sgd(d, x, G->rows, &sgd);
}

/* The most that the velocity can be, a sum of earlier gradients. */
static double reach(const fopo_optim_options *o, double norm, double bound) {
  return (norm + o->weight_decay * bound) / (1.0 - o->momentum);
}

static const fopo_option options[] = {{.name = "momentum",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_BELOW | FOPO_OPTION_SETTABLE,
                                       .member = offsetof(fopo_optim_options, momentum),
                                       .most = 1.0,
                                       .text = "of the velocity"},
                                      {0}};

const fopo_optimiser fopo_optimiser_sgd = {
    .name = "sgd",
    .has_m = 1,
    .update = update,
    .reach = reach,
    .options = options,
    .text = "Stochastic gradient ascent, with momentum if it is more than 0.\n",
    .example = "o = fopo.optim.sgd{lr = 0.1, momentum = 0.9, clip = 5}",
};
