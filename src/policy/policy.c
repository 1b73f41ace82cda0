/* The softmax policy: a linear transform or a network over item embeddings. Everything that scores
 * a whole catalogue goes through an index; what is here turns contexts into queries and queries
 * into recommendations, in blocks that bound memory and let an interruption through. */
#include "policy/policy.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "kernels/product.h"

/* Contexts answered between two reports of progress: wide enough for the indexes to share a pass
 * over the items, short enough for a large catalogue to be interrupted soon. */
enum { BLOCK = 256 };

/* Units of a layer, at most: a network is small beside the catalogue. */
enum { MOST_UNITS = 1 << 20 };

/* Scale of the random start, as in the authors' code: scores start near 0. */
static const double random_scale = 0.005;

const char *const fopo_block_names[FOPO_BLOCKS + 1] = {"theta", "items", NULL};

static int begin(fopo_policy *pi, fopo_matrix items, size_t D, float temperature) {
  *pi = (fopo_policy){.items = items,
                      .temperature = temperature,
                      .rows = fopo_rows_float32(items.x, items.ld),
                      .learns = {[FOPO_BLOCK_THETA] = 1}};
  if (items.rows == 0 || items.cols == 0 || items.rows >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the items are %zu x %zu; a policy needs 1 to %u items of 1 dimension or more",
                     items.rows, items.cols, UINT32_MAX - 1);
  }
  if (!(temperature > 0.0f) || !isfinite(temperature)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the temperature is %g; it divides scores, use > 0",
                     (double)temperature);
  }
  if (D == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "contexts have 0 features; a policy needs 1 or more");
  }
  return fopo_matrix_finite(items, "items");
}

int fopo_policy_init_linear(fopo_policy *pi, fopo_matrix items, size_t D, fopo_theta_start start,
                            float temperature, uint64_t seed) {
  size_t L = items.cols;
  int status = begin(pi, items, D, temperature);
  if (status == FOPO_OK && start == FOPO_THETA_IDENTITY && D != L) {
    status =
        fopo_fail(FOPO_ERR_ARGUMENT,
                  "theta is %zu x %zu (context features x item dimension) and cannot start as the "
                  "identity, which is square; start it random",
                  D, L);
  }
  if (status == FOPO_OK) status = fopo_matrix_init(&pi->theta, D, L);
  if (status != FOPO_OK) return status;

  if (start == FOPO_THETA_IDENTITY) {
    for (size_t i = 0; i < L; i++) fopo_matrix_row(pi->theta, i)[i] = 1.0f;
  } else {
    fopo_fill_normal(pi->theta.x, (uint64_t)D * L, random_scale, seed, FOPO_STREAM_INIT);
  }
  return FOPO_OK;
}

static int check_network(const fopo_network *net, size_t L) {
  if (net->layers < 2 || net->layers > FOPO_LAYERS) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a network has 1 or 2 hidden layers, not %zu",
                     net->layers > 0 ? net->layers - 1 : 0);
  }
  for (size_t i = 0; i <= net->layers; i++) {
    if (net->width[i] == 0 || net->width[i] > MOST_UNITS) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "%s %zu of the network has %zu units; use 1 to %d",
                       i == 0 ? "the input, layer" : "layer", i, net->width[i], MOST_UNITS);
    }
  }
  if (net->width[net->layers] == L) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the network ends in %zu units but the items have dimension %zu; its last layer "
                   "needs %zu",
                   net->width[net->layers], L, L);
}

/* Standard normal numbers, scaled layer by layer; biases 0. */
static void start_network(float *theta, const fopo_network *net, uint64_t seed) {
  fopo_fill_normal(theta, fopo_network_params(net), 1.0, seed, FOPO_STREAM_INIT);
  for (size_t i = 0; i < net->layers; i++) {
    double in = (double)net->width[i], out = (double)net->width[i + 1];
    double variance = net->activation == FOPO_TANH ? 2.0 / (in + out) : 2.0 / in;
    float scale = (float)(i + 1 == net->layers ? random_scale : sqrt(variance));
    float *W = theta + fopo_network_offset(net, i);
    size_t n = net->width[i] * net->width[i + 1];
    for (size_t k = 0; k < n; k++) W[k] *= scale;
    memset(W + n, 0, net->width[i + 1] * sizeof *W);
  }
}

int fopo_policy_init_network(fopo_policy *pi, fopo_matrix items, const fopo_network *net,
                             float temperature, uint64_t seed) {
  int status = begin(pi, items, net->width[0], temperature);
  if (status == FOPO_OK) status = check_network(net, items.cols);
  if (status == FOPO_OK) status = fopo_matrix_init(&pi->theta, 1, fopo_network_params(net));
  if (status != FOPO_OK) return status;
  pi->net = *net;
  pi->units = fopo_network_units(net);
  start_network(pi->theta.x, net, seed);
  return FOPO_OK;
}

int fopo_policy_halve(fopo_policy *pi, fopo_float type) {
  if (type == FOPO_FLOAT32) return FOPO_OK;
  if (pi->learns[FOPO_BLOCK_ITEMS]) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "rows = \"%s\" reads a copy of the items, which would become stale while "
                     "they are learnt; use rows = \"float32\", or train_items = false",
                     fopo_float_names[type]);
  }
  size_t P = pi->items.rows, ld = fopo_rows_ld(pi->items.cols);
  int status = fopo_memory_suffices((uint64_t)P * ld * sizeof *pi->half,
                                    "a copy of the items in half "
                                    "their bytes",
                                    "use rows = \"float32\"");
  if (status != FOPO_OK) return status;
  uint16_t *half = fopo_alloc(P * ld, sizeof *half);
  status = half == NULL ? FOPO_ERR_MEMORY : fopo_rows_halve(half, pi->items, type);
  if (status != FOPO_OK) {
    fopo_free(half);
    return status;
  }
  fopo_free(pi->half);
  pi->half = half;
  pi->rows = (fopo_rows){half, ld, type};
  return FOPO_OK;
}

int fopo_policy_copy(fopo_policy *to, const fopo_policy *from) {
  fopo_matrix theta = from->theta, own = {0};
  int status = fopo_matrix_init(&own, theta.rows, theta.cols);
  if (status != FOPO_OK) return status;
  memcpy(own.x, theta.x, theta.rows * theta.cols * sizeof *own.x);
  *to = *from;
  to->theta = own;
  to->half = NULL; /* borrowed through `rows` */
  return FOPO_OK;
}

void fopo_policy_done(fopo_policy *pi) {
  fopo_matrix_done(&pi->theta);
  fopo_free(pi->half);
  *pi = (fopo_policy){0};
}

/* Q = h(x) / T, block by block: hidden layers are kept for one block only. */
static int network_queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  size_t most = x.rows < BLOCK ? x.rows : BLOCK;
  float *hidden = fopo_alloc(most * pi->units, sizeof *hidden);
  int status = hidden == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
  for (size_t first = 0; first < x.rows && status == FOPO_OK; first += BLOCK) {
    size_t n = x.rows - first < BLOCK ? x.rows - first : BLOCK;
    status =
        fopo_network_forward(fopo_matrix_rows(Q, first, n), hidden, fopo_matrix_rows(x, first, n),
                             pi->theta.x, &pi->net, 1.0f / pi->temperature);
  }
  fopo_free(hidden);
  return status;
}

int fopo_policy_queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  size_t D = fopo_policy_context_dim(pi);
  if (x.cols != D || Q.rows != x.rows || Q.cols != pi->items.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "contexts are %zu x %zu and queries %zu x %zu; contexts need %zu columns, "
                     "queries as many rows and %zu columns",
                     x.rows, x.cols, Q.rows, Q.cols, D, pi->items.cols);
  }
  if (pi->net.layers > 0) return network_queries(Q, pi, x);
  /* Q = x theta / T */
  return fopo_product(Q, 1.0f / pi->temperature, x, 0, pi->theta, 0, 0.0f);
}

int fopo_policy_check_contexts(const fopo_policy *pi, fopo_matrix x) {
  size_t D = fopo_policy_context_dim(pi);
  if (x.rows > 0 && x.rows < UINT32_MAX && x.cols == D) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "contexts are %zu x %zu but the policy takes %zu features (items %zu x %zu); "
                   "contexts need 1 row or more, and %zu columns",
                   x.rows, x.cols, D, pi->items.rows, pi->items.cols, D);
}

int fopo_policy_check_index(const fopo_index *ix, size_t P, size_t L) {
  fopo_index_facts facts = fopo_index_about(ix);
  if (facts.n_items == P && facts.dim == L) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the index holds %zu items of dimension %zu but the policy's are %zu of "
                   "dimension %zu; build it from the policy's items",
                   facts.n_items, facts.dim, P, L);
}

int fopo_policy_check_whole(const fopo_policy *pi, const char *what) {
  if (pi->shard == NULL) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "%s reads all items, and this policy's are dealt out to %d ranks; use a policy "
                   "over the whole array",
                   what, (int)pi->shard->part.size);
}

int fopo_policy_best(uint32_t *ids, float *scores, uint32_t *counts, const fopo_policy *pi,
                     fopo_matrix x, fopo_index *ix, size_t k) {
  fopo_matrix Q = {0};
  int status = fopo_matrix_init(&Q, x.rows < BLOCK ? x.rows : BLOCK, pi->items.cols);
  if (status != FOPO_OK) return status;

  for (size_t first = 0; first < x.rows && status == FOPO_OK; first += BLOCK) {
    size_t n = x.rows - first < BLOCK ? x.rows - first : BLOCK;
    fopo_matrix block = fopo_matrix_rows(Q, 0, n);
    status = fopo_policy_queries(block, pi, fopo_matrix_rows(x, first, n));
    if (status == FOPO_OK) {
      status = fopo_shard_search(ids + first * k, scores + first * k, counts + first, pi->shard, ix,
                                 block, k, 0, 0);
    }
    if (status == FOPO_OK) {
      status = fopo_progress("recommending", (double)(first + n), (double)x.rows);
    }
  }
  fopo_matrix_done(&Q);
  return status;
}
