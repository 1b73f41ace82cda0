/* RMSProp: steps divided by the root of a running mean of squares, which is Adam without the mean
 * of gradients. */
#include <math.h>
#include <stddef.h>

#include "train/optim.h"

static int update(const fopo_optim *o, const fopo_parameters *x, const fopo_item_gradient *G,
                  size_t cols, const fopo_update *u) {
  fopo_device *d = o->device;
  fopo_adam adam = fopo_optim_adam(o); /* beta1 is 0 */
  adam.u = *u;
  return x->updates != NULL ? d->ops->adam_rows(d, x, G, &adam, cols)
                            : d->ops->adam(d, x, G->rows, &adam);
}

/* The mean of squares is at least its newest part, (1 - beta2) g^2. */
static double reach(const fopo_optim_options *o, double norm, double bound) {
  (void)norm, (void)bound;
  return 1.0 / sqrt(1.0 - o->beta2);
}

static const fopo_option options[] = {{.name = "beta2",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_BELOW,
                                       .member = offsetof(fopo_optim_options, beta2),
                                       .standard = 0.99,
                                       .most = 1.0,
                                       .text = "decay of the mean square"},
                                      {.name = "eps",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_ABOVE,
                                       .member = offsetof(fopo_optim_options, eps),
                                       .standard = 1e-8,
                                       .text = "added to its root"},
                                      {0}};

const fopo_optimiser fopo_optimiser_rmsprop = {
    .name = "rmsprop",
    .has_m = 1,
    .has_v = 1,
    .update = update,
    .reach = reach,
    .lr = 1e-2,
    .options = options,
    .text = "Divides each number's step by the root of a running mean of its squares.\n",
    .example = "o = fopo.optim.rmsprop{beta2 = 0.9}",
};
