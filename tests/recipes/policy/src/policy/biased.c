/* f(a, x) = (x^T theta beta_a + b_a) / T: a linear policy with a bias b_a for each item.
 *
 * The bias is the last column of the items that the policy scores, [P, L + 1], and the last entry
 * of a query is 1 / T. It starts as `bias` times |beta_a|, since the embeddings of popular items
 * are long; with train_items it is learnt as the rest of the row. */
#include <string.h>

#include "core/norm.h"
#include "core/rng.h"
#include "core/status.h"
#include "kernels/product.h"
#include "policy/policy_file.h"

static void fill_items(fopo_matrix own, fopo_matrix given, const fopo_policy_options *o) {
  for (size_t a = 0; a < given.rows; a++) {
    float *beta = fopo_matrix_row(own, a);
    memcpy(beta, fopo_matrix_row(given, a), given.cols * sizeof *beta);
    beta[given.cols] = (float)(o->own[0] * (double)fopo_norm(beta, given.cols));
  }
}

static int init(fopo_policy *pi) {
  size_t D = pi->options.context_dim, L = pi->items.cols - 1;
  int status = fopo_matrix_init(&pi->theta, D, L);
  if (status != FOPO_OK) return status;
  fopo_fill_normal(pi->theta.x, D * L, FOPO_RANDOM_START, pi->options.seed, FOPO_STREAM_INIT);
  return FOPO_OK;
}

static int parameter(fopo_parameter *p, const fopo_policy *pi, size_t i) {
  *p = (fopo_parameter){"theta", 2, pi->theta};
  return i == 0;
}

/* The first L columns of queries, or of their gradient. */
static fopo_matrix without_bias(fopo_matrix Q) {
  return (fopo_matrix){Q.x, Q.rows, Q.cols - 1, Q.ld};
}

static int queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  float scale = 1.0f / pi->temperature;
  for (size_t n = 0; n < Q.rows; n++) fopo_matrix_row(Q, n)[Q.cols - 1] = scale;
  return fopo_product(without_bias(Q), scale, x, 0, pi->theta, 0, 0.0f);
}

static void reference(double *q, double *scratch, const fopo_policy *pi, const double *theta,
                      const double *x) {
  (void)scratch;
  fopo_affine_in_double(q, x, theta, NULL, pi->theta.rows, pi->theta.cols);
  q[pi->theta.cols] = 1.0;
}

/* A copy for each context is plain, and slow on a GPU: there an operation would fill the column. */
static int forward(fopo_device *d, fopo_matrix Q, fopo_matrix X, const fopo_policy_pass *pass) {
  int status = d->ops->queries(d, without_bias(Q), X, pass->theta, pass->scale);
  for (size_t b = 0; b < Q.rows && status == FOPO_OK; b++) {
    status = d->ops->put(d, Q.x + b * Q.ld + Q.cols - 1, &pass->scale, sizeof pass->scale);
  }
  return status;
}

static int backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                    const fopo_policy_pass *pass, int accumulate) {
  return d->ops->outer(d, G, X, without_bias(V), pass->scale, accumulate);
}

static int load(fopo_policy_file *f) {
  return fopo_policy_file_matrix(f, "theta", 2, &f->facts->options.context_dim, &f->facts->L);
}

static const fopo_option options[] = {
    {.name = "bias",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_SAVED,
     .member = offsetof(fopo_policy_options, own),
     .standard = 1.0,
     .text = "the first bias of an item, in lengths of its embedding"},
    {0}};

const fopo_policy_kind fopo_policy_biased = {
    .name = "biased",
    .more_columns = 1,
    .fill_items = fill_items,
    .init = init,
    .parameter = parameter,
    .queries = queries,
    .reference = reference,
    .forward = forward,
    .backward = backward,
    .load = load,
    .options = options,
    .seed = "of the initial theta",
    .text = "f(a, x) = (x^T theta beta_a + b_a) / temperature, with a bias b_a for each item.",
    .example = "pi = fopo.policy.biased{items = fopo.array.randn(100, 4, 1)}\n"
               "assert(pi:items().cols == 5)"};
