/* Forward and backward through the layers by matrix products, whose order of summation does not
 * depend on the number of threads. Biases are summed over the batch in its order. */
#include "device/network.h"

#include <math.h>

#include "core/status.h"
#include "kernels/product.h"

const char *const fopo_activation_names[] = {"tanh", "relu", NULL};

size_t fopo_network_offset(const fopo_network *net, size_t layer) {
  size_t n = 0;
  for (size_t i = 0; i < layer; i++) n += (net->width[i] + 1) * net->width[i + 1];
  return n;
}

size_t fopo_network_params(const fopo_network *net) {
  return fopo_network_offset(net, net->layers);
}

size_t fopo_network_units_before(const fopo_network *net, size_t layer) {
  size_t n = 0;
  for (size_t i = 1; i <= layer; i++) n += net->width[i];
  return n;
}

size_t fopo_network_units(const fopo_network *net) {
  return fopo_network_units_before(net, net->layers - 1);
}

static fopo_matrix weights(const float *params, const fopo_network *net, size_t layer) {
  return fopo_matrix_const_view(params + fopo_network_offset(net, layer), net->width[layer],
                                net->width[layer + 1]);
}

static const float *biases(const float *params, const fopo_network *net, size_t layer) {
  return params + fopo_network_offset(net, layer + 1) - net->width[layer + 1];
}

/* Y = scale (X W + b) */
static int affine(fopo_matrix Y, fopo_matrix X, const float *params, const fopo_network *net,
                  size_t layer, float scale) {
  const float *b = biases(params, net, layer);
  for (size_t n = 0; n < Y.rows; n++) {
    float *y = fopo_matrix_row(Y, n);
    for (size_t j = 0; j < Y.cols; j++) y[j] = scale * b[j];
  }
  return fopo_product(Y, scale, X, 0, weights(params, net, layer), 0, 1.0f);
}

static void activate(float *x, size_t n, fopo_activation activation) {
  if (activation == FOPO_TANH) {
    for (size_t i = 0; i < n; i++) x[i] = tanhf(x[i]);
  } else {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > 0.0f || isnan(x[i]) ? x[i] : 0.0f;
  }
}

/* delta *= act'(z), from h = act(z): 1 - h^2 for tanh, 1[h > 0] for relu */
static void through_activation(float *delta, const float *h, size_t n, fopo_activation activation) {
  if (activation == FOPO_TANH) {
    for (size_t i = 0; i < n; i++) delta[i] *= 1.0f - h[i] * h[i];
  } else {
    for (size_t i = 0; i < n; i++) delta[i] = h[i] > 0.0f ? delta[i] : 0.0f;
  }
}

int fopo_network_forward(fopo_matrix Q, float *hidden, fopo_matrix X, const float *params,
                         const fopo_network *net, float scale) {
  size_t B = X.rows, last = net->layers - 1;
  int status = FOPO_OK;
  for (size_t i = 0; i < last && status == FOPO_OK; i++) {
    fopo_matrix H =
        fopo_matrix_view(hidden + B * fopo_network_units_before(net, i), B, net->width[i + 1]);
    status = affine(H, X, params, net, i, 1.0f);
    activate(H.x, B * H.cols, net->activation);
    X = H;
  }
  return status == FOPO_OK ? affine(Q, X, params, net, last, scale) : status;
}

/* The gradient of b: g = scale times the sum of delta's rows, or += if accumulate. */
static void sum_rows(float *g, fopo_matrix delta, float scale, int accumulate) {
  for (size_t j = 0; j < delta.cols; j++) {
    double sum = 0.0;
    for (size_t n = 0; n < delta.rows; n++) sum += (double)fopo_matrix_row(delta, n)[j];
    g[j] = (accumulate ? g[j] : 0.0f) + (float)((double)scale * sum);
  }
}

int fopo_network_backward(float *G, float *delta, fopo_matrix X, const float *hidden, fopo_matrix V,
                          const float *params, const fopo_network *net, float scale,
                          int accumulate) {
  size_t B = X.rows;
  fopo_matrix out = V; /* the gradient with respect to the layer's output before act */
  for (size_t i = net->layers; i-- > 0;) {
    size_t at = i > 0 ? B * fopo_network_units_before(net, i - 1) : 0;
    fopo_matrix in = i > 0 ? fopo_matrix_const_view(hidden + at, B, net->width[i]) : X;
    fopo_matrix W = weights(G, net, i);
    /* dW = scale in^T out, db = scale sum out */
    int status = fopo_product(W, scale, in, 1, out, 0, accumulate ? 1.0f : 0.0f);
    if (status != FOPO_OK) return status;
    sum_rows(W.x + W.rows * W.cols, out, scale, accumulate);
    if (i == 0) break;

    /* the gradient with respect to the layer below: out W^T times act' */
    fopo_matrix below = fopo_matrix_view(delta + at, B, net->width[i]);
    status = fopo_product(below, 1.0f, out, 0, weights(params, net, i), 1, 0.0f);
    if (status != FOPO_OK) return status;
    through_activation(below.x, in.x, B * in.cols, net->activation);
    out = below;
  }
  return FOPO_OK;
}
