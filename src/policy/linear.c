/* h(x) = theta^T x, theta [D, L]. */
#include "core/rng.h"
#include "core/status.h"
#include "kernels/product.h"
#include "policy/policy_file.h"

static int init(fopo_policy *pi) {
  const fopo_policy_options *o = &pi->options;
  size_t D = o->context_dim, L = pi->items.cols;
  int identity = o->given.x == NULL && o->start == FOPO_THETA_IDENTITY;
  if (identity && D != L) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "theta is %zu x %zu (context features x item dimension) and cannot start as the "
        "identity, which is square; start it random",
        D, L);
  }
  int status = fopo_matrix_init(&pi->theta, D, L);
  if (status == FOPO_OK && o->given.x != NULL) status = fopo_policy_set_theta(pi, o->given);
  if (status != FOPO_OK) return status;

  if (identity) {
    for (size_t i = 0; i < L; i++) fopo_matrix_row(pi->theta, i)[i] = 1.0f;
  } else if (o->given.x == NULL) {
    fopo_fill_normal(pi->theta.x, (uint64_t)D * L, FOPO_RANDOM_START, o->seed, FOPO_STREAM_INIT);
  }
  if (o->theta_scale == 0.0) return FOPO_OK;
  for (size_t i = 0; i < D * L; i++) pi->theta.x[i] *= (float)o->theta_scale;
  return fopo_matrix_finite(pi->theta, "theta");
}

static int parameter(fopo_parameter *p, const fopo_policy *pi, size_t i) {
  *p = (fopo_parameter){"theta", 2, pi->theta};
  return i == 0;
}

/* Q = x theta / T */
static int queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  return fopo_product(Q, 1.0f / pi->temperature, x, 0, pi->theta, 0, 0.0f);
}

static void reference(double *q, double *scratch, const fopo_policy *pi, const double *theta,
                      const double *x) {
  (void)scratch;
  fopo_affine_in_double(q, x, theta, NULL, pi->theta.rows, pi->theta.cols);
}

static int forward(fopo_device *d, fopo_matrix Q, fopo_matrix X, const fopo_policy_pass *pass) {
  return d->ops->queries(d, Q, X, pass->theta, pass->scale);
}

/* G = scale X^T V */
static int backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                    const fopo_policy_pass *pass, int accumulate) {
  return d->ops->outer(d, G, X, V, pass->scale, accumulate);
}

static int load(fopo_policy_file *f) {
  return fopo_policy_file_matrix(f, "theta", 2, &f->facts->options.context_dim, &f->facts->L);
}

static const fopo_option options[] = {
    {.name = "theta",
     .type = FOPO_OPTION_START,
     .member = offsetof(fopo_policy_options, start),
     .choices = fopo_theta_starts,
     .standard = FOPO_THETA_RANDOM,
     .text = "the initial theta [D, L]; identity needs D == L, and is the default where the "
             "sessions are known, else random"},
    {.name = "theta_scale",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_ABOVE,
     .member = offsetof(fopo_policy_options, theta_scale),
     .standard = 1.0,
     .text = "the initial theta is multiplied by it: a step of lr changes a larger theta by a "
             "smaller share"},
    {0}};

const fopo_policy_kind fopo_policy_linear = {
    .name = "linear",
    .init = init,
    .parameter = parameter,
    .queries = queries,
    .reference = reference,
    .forward = forward,
    .backward = backward,
    .is_product = 1,
    .load = load,
    .options = options,
    .seed = "of a random theta: 0.005 times standard normal, as the authors start",
    // clang-format off
    .text = "pi(a | x) = exp f(a, x) / Z(x) over all P items, f(a, x) = x^T theta beta_a / temperature\n"
          "(the paper, \"Parametrizing the Policy\"), x a context of D features, beta_a an item of L. Only theta\n"
          "[D, L] is learnt (the paper, Assumption 1), or with train_items the items as well (learn\n"
          "= {\"items\"}: they alone): pi:items() is then the policy's own copy, which is updated in place; the\n"
          "array given stays as it is. That takes 3 more arrays [P, L] with adam (the copy and two moments), and\n"
          "one for the gradient of exact and of reinforce without a baseline; the other estimators keep only the\n"
          "rows that were drawn. Contexts are still made of pi:initial_items().\n"
          "Where the sessions are known the start is theta = identity with contexts of unit length: it\n"
          "recommends what is most like the items of X, and learning goes on from there. temperature = \"auto\"\n"
          "is the one at which this start chooses from `effective` of the items, 1 / sum of pi^2 in the median\n"
          "context. At a temperature far above it the softmax stays uniform whatever is learnt: the best item\n"
          "moves, but the expected reward stays that of a random policy. Far below it one item has all the\n"
          "probability, and the gradient vanishes. preset = \"paper\" starts as the authors do.\n"
          "Where the sessions are known, the score of the items in X, which the user has already taken, is\n"
          "-infinity: they have no probability, no gradient raises or lowers them, hits on them earn nothing, and\n"
          "what is learnt is to choose among the others. Every estimator, fopo.evaluate, validation,\n"
          "pi:recommend, temperature = \"auto\" and fopo.check leave them out, and pi:save keeps the choice. To be\n"
          "left out X must be known: a trainer's data are sessions, and pi:best and g:compute take sessions in\n"
          "place of contexts. Of an array of contexts, or a log, nothing is left out; a policy made with seen =\n"
          "\"mask\" refuses it. seen = \"keep\" treats the items of X as all others, as the paper does; it is the\n"
          "default where Y may hold items of X (seen = \"keep\" of a split).\n"
          "With rows = \"float16\" or \"bfloat16\" the steps of snis and head_tail read a copy of the items in half\n"
          "the bytes, rounded to the nearest (11 significant bits up to 65504, or 8 bits at any size), and add\n"
          "in float32. Memory is 1.5 times that of the items, a step reads about half the bytes, and the\n"
          "gradient is that of the rounded items: its relative error is a few times 2^-11 or 2^-8. Search,\n"
          "evaluation, exact and reinforce read the float32 items. An item outside the range of float16 is an\n"
          "error that names it. rows cannot be combined with train_items.",
    .example = "items = fopo.array.randn(100, 4, 1)\n"
               "pi = fopo.policy.linear{items = items}\n"
               "ids = pi:best(items, {k = 3})\n"
               "assert(ids.cols == 3)",
    // clang-format on
};
