/* Policies whose h is computed by functions of the caller, as Lua's of fopo.policy.custom. They are
 * called where queries are needed, from inside the loops of C, by the thread that called C. */
#ifndef FOPO_POLICY_CUSTOM_H
#define FOPO_POLICY_CUSTOM_H

#include "policy/policy.h"

typedef struct {
  char name[FOPO_PARAMETER_NAME];
  size_t rows, cols;
} fopo_custom_parameter;

struct fopo_custom {
  size_t n; /* parameters, which are theta [1, n_theta] one behind another */
  fopo_custom_parameter parameter[FOPO_POLICY_PARAMETERS];
  char names[FOPO_POLICY_NAMES]; /* "W, b" */
  void *caller;

  /* Q [B, L] = h(x), x [B, D]. */
  int (*queries)(void *caller, fopo_matrix Q, const float *theta, fopo_matrix x);

  /* G [n_theta] = the gradient of scale sum_b V_b . h(x_b), or += if accumulate. */
  int (*backward)(void *caller, float *G, const float *theta, fopo_matrix x, fopo_matrix V,
                  float scale, int accumulate);
};

/* Adds a parameter, unless that makes too many, or its name is no name or a member of the file. */
int fopo_custom_add(fopo_custom *c, const char *name, size_t rows, size_t cols);

#endif
