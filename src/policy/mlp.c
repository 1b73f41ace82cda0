/* h(x) is a network of one or two hidden layers (device/network.h), all of whose parameters are one
 * row theta [1, n]: W1 [D, h1], b1 [h1], W2, b2, .. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/rng.h"
#include "core/status.h"
#include "policy/policy_file.h"

enum {
  BLOCK = 256,         /* contexts whose hidden layers queries() keeps at a time */
  MOST_UNITS = 1 << 20 /* of a layer: a network is small beside the catalogue */
};

/* The layers {D, hidden .., L}. */
static fopo_network network_of(const fopo_policy *pi) {
  const fopo_policy_options *o = &pi->options;
  size_t n = o->hidden.n;
  fopo_network net = {.layers = n + 1, .activation = (fopo_activation)o->activation};
  net.width[0] = o->context_dim;
  memcpy(net.width + 1, o->hidden.at, n * sizeof *net.width);
  net.width[n + 1] = pi->items.cols;
  return net;
}

/* ---- the parameters ---- */

/* A network of at most FOPO_LAYERS, none of them empty. */
static int check(const fopo_policy *pi) {
  const fopo_counts *hidden = &pi->options.hidden;
  if (hidden->n == 0 || hidden->n > FOPO_LAYERS - 1) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a network has 1 or 2 hidden layers, not %zu; give their units as in {64} or "
                     "{64, 32}",
                     hidden->n);
  }
  fopo_network net = network_of(pi);
  for (size_t i = 0; i <= net.layers; i++) {
    if (net.width[i] == 0 || net.width[i] > MOST_UNITS) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "%s %zu of the network has %zu units; use 1 to %d",
                       i == 0 ? "the input, layer" : "layer", i, net.width[i], MOST_UNITS);
    }
  }
  return FOPO_OK;
}

/* Weights of hidden layers start as normal numbers of variance 2 / (in + out) (tanh; Glorot and
 * Bengio 2010) or 2 / in (relu; He et al. 2015), those of the last layer near 0, so that the policy
 * starts near uniform, biases as 0. */
static int init(fopo_policy *pi) {
  int status = check(pi);
  if (status != FOPO_OK) return status;
  fopo_network net = network_of(pi);
  size_t n_params = fopo_network_params(&net);
  status = fopo_matrix_init(&pi->theta, 1, n_params);
  if (status != FOPO_OK) return status;
  pi->n_hidden = fopo_network_units(&net);

  fopo_fill_normal(pi->theta.x, n_params, 1.0, pi->options.seed, FOPO_STREAM_INIT);
  for (size_t i = 0; i < net.layers; i++) {
    double in = (double)net.width[i], out = (double)net.width[i + 1];
    double variance = net.activation == FOPO_TANH ? 2.0 / (in + out) : 2.0 / in;
    float scale = (float)(i + 1 == net.layers ? FOPO_RANDOM_START : sqrt(variance));
    float *W = pi->theta.x + fopo_network_offset(&net, i);
    size_t n = net.width[i] * net.width[i + 1];
    for (size_t k = 0; k < n; k++) W[k] *= scale;
    memset(W + n, 0, net.width[i + 1] * sizeof *W);
  }
  return FOPO_OK;
}

/* W1, b1, W2, .. */
static int parameter(fopo_parameter *p, const fopo_policy *pi, size_t i) {
  fopo_network net = network_of(pi);
  size_t layer = i / 2;
  if (layer >= net.layers) return 0;
  size_t in = net.width[layer], out = net.width[layer + 1];
  float *W = pi->theta.x + fopo_network_offset(&net, layer);
  *p = i % 2 == 0 ? (fopo_parameter){"W", 2, fopo_matrix_view(W, in, out)}
                  : (fopo_parameter){"b", 1, fopo_matrix_view(W + in * out, 1, out)};
  p->name[1] = (char)('1' + layer);
  return 1;
}

/* ---- h ---- */

static int queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  fopo_network net = network_of(pi);
  size_t most = x.rows < BLOCK ? x.rows : BLOCK;
  float *hidden = fopo_alloc(most * pi->n_hidden, sizeof *hidden);
  int status = hidden == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
  for (size_t first = 0; first < x.rows && status == FOPO_OK; first += BLOCK) {
    size_t n = x.rows - first < BLOCK ? x.rows - first : BLOCK;
    status =
        fopo_network_forward(fopo_matrix_rows(Q, first, n), hidden, fopo_matrix_rows(x, first, n),
                             pi->theta.x, &net, 1.0f / pi->temperature);
  }
  fopo_free(hidden);
  return status;
}

static void reference(double *q, double *scratch, const fopo_policy *pi, const double *theta,
                      const double *x) {
  fopo_network net = network_of(pi);
  for (size_t i = 0; i < net.layers; i++) {
    const double *W = theta + fopo_network_offset(&net, i);
    size_t in = net.width[i], out = net.width[i + 1];
    int last = i + 1 == net.layers;
    double *y = last ? q : scratch + fopo_network_units_before(&net, i);
    fopo_affine_in_double(y, x, W, W + in * out, in, out);
    for (size_t j = 0; j < out && !last; j++) {
      y[j] = net.activation == FOPO_TANH ? tanh(y[j]) : fmax(y[j], 0.0);
    }
    x = y;
  }
}

static int forward(fopo_device *d, fopo_matrix Q, fopo_matrix X, const fopo_policy_pass *pass) {
  fopo_network net = network_of(pass->policy);
  fopo_network_pass layers = {&net, pass->theta, pass->hidden, NULL, pass->scale};
  return d->ops->network_forward(d, Q, X, &layers);
}

static int backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                    const fopo_policy_pass *pass, int accumulate) {
  fopo_network net = network_of(pass->policy);
  fopo_network_pass layers = {&net, pass->theta, pass->hidden, pass->delta, pass->scale};
  return d->ops->network_backward(d, G, X, V, &layers, accumulate);
}

/* ---- files and words ---- */

/* W1, b1, .. as far as there are members. */
static int load(fopo_policy_file *f) {
  fopo_policy_loaded *p = f->facts;
  size_t width[FOPO_LAYERS + 1] = {0}, layers = 0, one = 1;
  int status = FOPO_OK;
  for (char W[] = "W1", b[] = "b1"; status == FOPO_OK; W[1]++, b[1]++) {
    if (fopo_archive_find(f->archive, W) == NULL) break;
    if (layers == FOPO_LAYERS) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s: its network has more than %d layers", f->path,
                       FOPO_LAYERS);
    }
    layers++;
    status = fopo_policy_file_matrix(f, W, 2, &width[layers - 1], &width[layers]);
    if (status == FOPO_OK) status = fopo_policy_file_matrix(f, b, 1, &width[layers], &one);
  }
  if (status != FOPO_OK) return status;
  if (layers < 2) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its network has %zu layers; 2 or 3 are needed", f->path,
                     layers);
  }
  p->options.hidden.n = layers - 1;
  memcpy(p->options.hidden.at, width + 1, (layers - 1) * sizeof *width);
  p->options.context_dim = width[0];
  p->L = width[layers];
  return FOPO_OK;
}

/* The widths of the layers, then the activation. */
static size_t shape(uint64_t *shape, const fopo_policy *pi) {
  fopo_network net = network_of(pi);
  for (size_t i = 0; i <= net.layers; i++) shape[i] = net.width[i];
  shape[net.layers + 1] = (uint64_t)net.activation;
  return net.layers + 2;
}

/* "5 -> 64 -> 5, tanh" */
static void describe(char text[FOPO_POLICY_DESCRIPTION], const fopo_policy *pi) {
  fopo_network net = network_of(pi);
  size_t n = 0;
  for (size_t i = 0; i <= net.layers; i++) {
    n += (size_t)snprintf(text + n, FOPO_POLICY_DESCRIPTION - n, "%s%zu", i > 0 ? " -> " : "",
                          net.width[i]);
  }
  snprintf(text + n, FOPO_POLICY_DESCRIPTION - n, ", %s", fopo_activation_names[net.activation]);
}

static const fopo_option options[] = {
    {.name = "hidden",
     .type = FOPO_OPTION_COUNTS,
     .flags = FOPO_OPTION_SAVED,
     .member = offsetof(fopo_policy_options, hidden),
     .standard = 64,
     .text = "units of one or two hidden layers: {64} or {64, 32}"},
    {.name = "activation",
     .type = FOPO_OPTION_CHOICE,
     .flags = FOPO_OPTION_SAVED,
     .member = offsetof(fopo_policy_options, activation),
     .choices = fopo_activation_names,
     .text = "of the hidden layers"},
    {0}};

const fopo_policy_kind fopo_policy_mlp = {
    .name = "mlp",
    .init = init,
    .parameter = parameter,
    .queries = queries,
    .reference = reference,
    .difference_step = 1e-3,
    .forward = forward,
    .backward = backward,
    .load = load,
    .shape = shape,
    .describe = describe,
    .options = options,
    .seed = "of the initial weights",
    // clang-format off
    .text = "f(a, x) = h(x) . beta_a / temperature with h(x) = W2^T act(W1^T x + b1) + b2, or one\n"
          "more layer. Everything that works on a linear policy works on this one. G of\n"
          "gradient:compute is [1, n_params] in the order W1, b1, W2, b2, .., each matrix row by\n"
          "row; pi:parameters() gives them by name, and learn = {\"W2\", \"b2\"} leaves the\n"
          "others as they are. A context costs the products of the layers besides the rows of\n"
          "items. Source: back-propagation (Rumelhart, Hinton and Williams 1986); hidden weights\n"
          "start as Glorot and Bengio (2010) for tanh, He et al. (2015) for relu, the last ones\n"
          "as 0.005 times standard normal.",
    .example = "items = fopo.array.randn(100, 4, 1)\n"
               "pi = fopo.policy.mlp{items = items, hidden = {16, 8}, activation = \"relu\"}\n"
               "assert(pi.n_params == 4 * 16 + 16 + 16 * 8 + 8 + 8 * 4 + 4)\n"
               "assert(pi:parameters().W1.rows == 4)",
    // clang-format on
};
