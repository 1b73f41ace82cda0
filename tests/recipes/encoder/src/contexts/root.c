/* The sum of the embeddings of the n items in X, divided by sqrt(n): longer sessions have longer
 * contexts, so their softmax is sharper, but less so than that of the sum. */
#include <math.h>

#include "contexts/contexts.h"

static void finish(float *x, size_t L, size_t n) {
  float share = n > 0 ? (float)(1.0 / sqrt((double)n)) : 0.0F;
  for (size_t j = 0; j < L; j++) x[j] *= share;
}

const fopo_encoder fopo_encoder_root = {
    .name = "root", .text = "the sum, divided by the root of their number", .finish = finish};
