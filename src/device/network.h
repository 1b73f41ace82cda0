/* A small network from contexts to queries, with biases and at most two hidden layers,
 *
 *     H_0 = X,   H_i = act(H_{i-1} W_i + b_i),   Q = scale (H_n W_{n+1} + b_{n+1}),
 *
 * row by row, and its gradient by back-propagation. The parameters are one flat vector:
 * W_1 [D, h_1] row-major, b_1 [h_1], W_2, b_2, .. The layout is the same on every device; forward
 * and backward here are those of the CPU. */
#ifndef FOPO_DEVICE_NETWORK_H
#define FOPO_DEVICE_NETWORK_H

#include "core/matrix.h"

typedef enum { FOPO_TANH, FOPO_RELU } fopo_activation;
extern const char *const fopo_activation_names[]; /* "tanh", "relu"; ended by NULL */

enum { FOPO_LAYERS = 3 }; /* at most, with the output layer */

typedef struct {
  size_t layers;                 /* 1 .. FOPO_LAYERS; 1: no hidden one, Q = scale (X W_1 + b_1) */
  size_t width[FOPO_LAYERS + 1]; /* D, the widths of the hidden layers, L */
  fopo_activation activation;
} fopo_network;

/* How many parameters the network has, and how many its layers before `layer` have. */
size_t fopo_network_params(const fopo_network *net);
size_t fopo_network_offset(const fopo_network *net, size_t layer);

/* Hidden units of all layers: the length of a row of `hidden` and `delta` below. Those of the
 * layers before `layer`: H_{layer + 1} begins at B times as many. */
size_t fopo_network_units(const fopo_network *net);
size_t fopo_network_units_before(const fopo_network *net, size_t layer);

/* Computes Q [B, L] and hidden [B, units] (H_1 [B, h_1], then H_2) from X [B, D]. */
int fopo_network_forward(fopo_matrix Q, float *hidden, fopo_matrix X, const float *params,
                         const fopo_network *net, float scale);

/* G [params] = the gradient of scale sum_b V_b . (H_n W_{n+1} + b_{n+1})_b with respect to the
 * parameters, or += if accumulate. V [B, L]; hidden as forward left it; delta [B, units] is
 * scratch. */
int fopo_network_backward(float *G, float *delta, fopo_matrix X, const float *hidden, fopo_matrix V,
                          const float *params, const fopo_network *net, float scale,
                          int accumulate);

#endif
