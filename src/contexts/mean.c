/* The mean of the embeddings of the items in X: the paper's x^emb ("Experimental Results"). */
#include "contexts/contexts.h"

static void finish(float *x, size_t L, size_t n) {
  float share = n > 0 ? 1.0F / (float)n : 0.0F;
  for (size_t j = 0; j < L; j++) x[j] *= share;
}

const fopo_encoder fopo_encoder_mean = {
    .name = "mean",
    .text = "of the embeddings of the items in X, the paper's x^emb",
    .finish = finish};
