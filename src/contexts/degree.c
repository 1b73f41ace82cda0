/* The sum of beta_b / n_b at unit length, n_b the training users of item b. For items of
 * fopo_embed_svd by degree, beta = D^1/2 V diag(s^p) with D the n_b, their scores are those of the
 * degree-normalised matrix: (n_a / n_b)^1/2 V diag(s^2p) V^T. */
#include "contexts/contexts.h"

static double weight(double n, double N) {
  (void)N;
  return 1.0 / n;
}

static void finish(float *x, size_t L, size_t n) {
  (void)n;
  fopo_unit_length(x, L);
}

const fopo_encoder fopo_encoder_degree = {
    .name = "degree",
    .text = "the sum of beta_b / n_b at unit length, n_b the training users of item b",
    .weight = weight,
    .finish = finish};
