/* The sum of beta_b / sqrt(n_b) at unit length: between unit, where the items that everybody took
 * decide, and degree, where those that hardly anybody took do. */
#include <math.h>

#include "contexts/contexts.h"

static double weight(double n, double N) {
  (void)N;
  return 1.0 / sqrt(n);
}

static void finish(float *x, size_t L, size_t n) {
  (void)n;
  fopo_unit_length(x, L);
}

const fopo_encoder fopo_encoder_sqrt_degree = {.name = "sqrt_degree",
                                               .text =
                                                   "the sum of beta_b / sqrt(n_b) at unit length",
                                               .weight = weight,
                                               .finish = finish};
