/* f(a, x) = exp(log_scale) x^T theta beta_a / T: a linear policy that learns how sharp it is.
 *
 * All parameters are one row [1, D L + 1]: theta [D, L], then log_scale [1, 1], each a block that
 * is learnt or fixed by itself. */
#include <math.h>

#include "core/memory.h"
#include "core/rng.h"
#include "core/status.h"
#include "kernels/product.h"
#include "policy/policy_file.h"

/* D L, the numbers of theta before log_scale. */
static size_t n_theta(const fopo_policy *pi) { return pi->options.context_dim * pi->items.cols; }

static int init(fopo_policy *pi) {
  size_t n = n_theta(pi);
  int status = fopo_matrix_init(&pi->theta, 1, n + 1);
  if (status != FOPO_OK) return status;
  fopo_fill_normal(pi->theta.x, n, FOPO_RANDOM_START, pi->options.seed, FOPO_STREAM_INIT);
  pi->theta.x[n] = 0.0f; /* a scale of 1 */
  return FOPO_OK;
}

static int parameter(fopo_parameter *p, const fopo_policy *pi, size_t i) {
  size_t D = pi->options.context_dim, L = pi->items.cols;
  *p = i == 0 ? (fopo_parameter){"theta", 2, fopo_matrix_view(pi->theta.x, D, L)}
              : (fopo_parameter){"log_scale", 2, fopo_matrix_view(pi->theta.x + D * L, 1, 1)};
  return i < 2;
}

static int queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  fopo_matrix theta = fopo_matrix_view(pi->theta.x, x.cols, Q.cols);
  return fopo_product(Q, expf(pi->theta.x[n_theta(pi)]) / pi->temperature, x, 0, theta, 0, 0.0f);
}

static void reference(double *q, double *scratch, const fopo_policy *pi, const double *theta,
                      const double *x) {
  size_t L = pi->items.cols;
  (void)scratch;
  fopo_affine_in_double(q, x, theta, NULL, pi->options.context_dim, L);
  for (size_t j = 0; j < L; j++) q[j] *= exp(theta[n_theta(pi)]);
}

/* *scale = scale of the pass, times exp(log_scale), which is on the device. */
static int find_scale(float *scale, fopo_device *d, const fopo_policy_pass *pass) {
  float log_scale = 0.0f;
  int status = d->ops->get(d, &log_scale, pass->theta + n_theta(pass->policy), sizeof log_scale);
  *scale = pass->scale * expf(log_scale);
  return status;
}

static int forward(fopo_device *d, fopo_matrix Q, fopo_matrix X, const fopo_policy_pass *pass) {
  float scale = 0.0f;
  int status = find_scale(&scale, d, pass);
  return status == FOPO_OK ? d->ops->queries(d, Q, X, pass->theta, scale) : status;
}

/* d/d log_scale = sum_b V_b . Q_b / B = sum_ij theta_ij G_ij, as Q = scale X theta and
 * G = scale X^T V. A sum on the host is plain, and slow on a GPU: there an operation would do it.
 */
static int set_log_scale(fopo_device *d, float *G, const fopo_policy_pass *pass) {
  size_t n = n_theta(pass->policy);
  float *theta = fopo_alloc(2 * n, sizeof *theta), slope = 0.0f;
  if (theta == NULL) return FOPO_ERR_MEMORY;
  int status = d->ops->get(d, theta, pass->theta, n * sizeof *theta);
  if (status == FOPO_OK) status = d->ops->get(d, theta + n, G, n * sizeof *theta);
  for (size_t i = 0; i < n; i++) slope += theta[i] * theta[n + i];
  fopo_free(theta);
  return status == FOPO_OK ? d->ops->put(d, G + n, &slope, sizeof slope) : status;
}

static int backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                    const fopo_policy_pass *pass, int accumulate) {
  float scale = 0.0f;
  int status = find_scale(&scale, d, pass);
  if (status == FOPO_OK) status = d->ops->outer(d, G, X, V, scale, accumulate);
  return status == FOPO_OK ? set_log_scale(d, G, pass) : status;
}

static int load(fopo_policy_file *f) {
  size_t one = 1;
  int status = fopo_policy_file_matrix(f, "theta", 2, &f->facts->options.context_dim, &f->facts->L);
  return status == FOPO_OK ? fopo_policy_file_matrix(f, "log_scale", 2, &one, &one) : status;
}

static const fopo_option options[] = {{0}};

const fopo_policy_kind fopo_policy_scaled = {
    .name = "scaled",
    .init = init,
    .parameter = parameter,
    .queries = queries,
    .reference = reference,
    .difference_step = 1e-3,
    .forward = forward,
    .backward = backward,
    .load = load,
    .options = options,
    .seed = "of the initial theta",
    .text =
        "f(a, x) = exp(log_scale) x^T theta beta_a / temperature. The blocks are theta [D, L] and\n"
        "log_scale [1, 1], which starts as 0.",
    .example =
        "pi = fopo.policy.scaled{items = fopo.array.randn(100, 4, 1), learn = {\"log_scale\"}}\n"
        "assert(pi:parameters().log_scale:get(1, 1) == 0)"};
