/* The sum of log(N / n_b) beta_b at unit length: the inverse document frequency of text retrieval
 * (Sparck Jones, "A statistical interpretation of term specificity", 1972). An item that all users
 * took says nothing. */
#include <math.h>

#include "contexts/contexts.h"

static double weight(double n, double N) { return log(N / n); }

static void finish(float *x, size_t L, size_t n) {
  (void)n;
  fopo_unit_length(x, L);
}

const fopo_encoder fopo_encoder_idf = {
    .name = "idf",
    .text = "the sum of log(N / n_b) beta_b at unit length, N the training users",
    .weight = weight,
    .finish = finish};
