/* The mean at length 1. The mean of many items is short and that of a few is long, so under means a
 * softmax of one temperature is sharp for short sessions and flat for long ones. */
#include <math.h>

#include "contexts/contexts.h"

static void finish(float *x, size_t L, size_t n) {
  double squares = 0;
  fopo_encoder_mean.finish(x, L, n);
  for (size_t j = 0; j < L; j++) squares += (double)x[j] * (double)x[j];
  float share = squares > 0 ? (float)(1 / sqrt(squares)) : 0.0F;
  for (size_t j = 0; j < L; j++) x[j] *= share;
}

const fopo_encoder fopo_encoder_unit = {
    .name = "unit", .text = "divided by its length", .finish = finish};
