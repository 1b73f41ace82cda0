/* The dense operations: products, the network, the optimisers, whole arrays. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "kernels/kernels.h"
#include "kernels/product.h"

enum {
  FEW = 1 << 15,       /* below so many numbers, waking the threads costs more than it saves */
  PIECE = 1 << 12,     /* numbers of an update that one thread makes at once */
  NORM_PIECE = 1 << 14 /* numbers of a norm that are summed together */
};

/* ---- contexts to queries, and back ---- */

int fopo_cpu_gather_rows(fopo_device *d, fopo_matrix X, fopo_matrix from, const uint32_t *rows) {
  (void)d;
  for (size_t b = 0; b < X.rows; b++) {
    memcpy(fopo_matrix_row(X, b), fopo_matrix_row(from, rows[b]), X.cols * sizeof *X.x);
  }
  return FOPO_OK;
}

int fopo_cpu_queries(fopo_device *d, fopo_matrix Q, fopo_matrix X, const float *theta,
                     float scale) {
  (void)d;
  return fopo_product(Q, scale, X, 0, fopo_matrix_const_view(theta, X.cols, Q.cols), 0, 0.0f);
}

int fopo_cpu_outer(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V, float scale,
                   int accumulate) {
  (void)d;
  return fopo_product(fopo_matrix_view(G, X.cols, V.cols), scale, X, 1, V, 0,
                      accumulate ? 1.0f : 0.0f);
}

int fopo_cpu_network_forward(fopo_device *d, fopo_matrix Q, fopo_matrix X,
                             const fopo_network_pass *pass) {
  (void)d;
  return fopo_network_forward(Q, pass->hidden, X, pass->theta, pass->net, pass->scale);
}

int fopo_cpu_network_backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                              const fopo_network_pass *pass, int accumulate) {
  (void)d;
  return fopo_network_backward(G, pass->delta, X, pass->hidden, V, pass->theta, pass->net,
                               pass->scale, accumulate);
}

/* ---- optimisers ---- */

/* Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1, uphill. */
fopo_adam_step fopo_cpu_adam_step(const fopo_adam *o, uint64_t t) {
  double steps = (double)t;
  return (fopo_adam_step){.beta1 = (float)o->beta1,
                          .rest1 = (float)(1 - o->beta1),
                          .beta2 = (float)o->beta2,
                          .rest2 = (float)(1 - o->beta2),
                          .lr = (float)(o->u.lr / (1 - pow(o->beta1, steps))),
                          .unbias = (float)(1 / (1 - pow(o->beta2, steps))),
                          .eps = (float)o->eps,
                          .scale = fopo_update_scale(&o->u, o->u.norm),
                          .decay = fopo_update_decay(&o->u),
                          .keep = fopo_update_keep(&o->u)};
}

int fopo_cpu_adam(fopo_device *d, const fopo_parameters *x, const float *G, const fopo_adam *o) {
  (void)d;
  fopo_adam_step step = fopo_cpu_adam_step(o, o->t);
  size_t n = x->n;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (n > FEW)
  for (size_t i = 0; i < n; i += PIECE) {
    size_t count = n - i < PIECE ? n - i : PIECE;
    fopo_kernels_get()->adam(x->theta + i, x->m + i, x->v + i, G + i, &step, count);
  }
  return FOPO_OK;
}

int fopo_cpu_sgd(fopo_device *d, const fopo_parameters *x, const float *G, const fopo_sgd *o) {
  (void)d;
  float lr = (float)o->u.lr, momentum = (float)o->momentum;
  float scale = fopo_update_scale(&o->u, o->u.norm);
  float decay = fopo_update_decay(&o->u), keep = fopo_update_keep(&o->u);
  float *theta = x->theta, *velocity = x->m;
  size_t n = x->n;
#pragma omp parallel for simd num_threads(fopo_threads()) schedule(static) if (n > FEW)
  for (size_t i = 0; i < n; i++) {
    velocity[i] = momentum * velocity[i] + (scale * G[i] - decay * theta[i]);
    theta[i] = keep * theta[i] + lr * velocity[i];
  }
  return FOPO_OK;
}

/* Duchi, Hazan and Singer, "Adaptive subgradient methods" (2011), with diagonal matrices, uphill.
 */
fopo_adagrad_step fopo_cpu_adagrad_step(const fopo_adagrad *o) {
  return (fopo_adagrad_step){.lr = (float)o->u.lr,
                             .eps = (float)o->eps,
                             .scale = fopo_update_scale(&o->u, o->u.norm),
                             .decay = fopo_update_decay(&o->u),
                             .keep = fopo_update_keep(&o->u)};
}

int fopo_cpu_adagrad(fopo_device *d, const fopo_parameters *x, const float *G,
                     const fopo_adagrad *o) {
  (void)d;
  fopo_adagrad_step step = fopo_cpu_adagrad_step(o);
  size_t n = x->n;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (n > FEW)
  for (size_t i = 0; i < n; i += PIECE) {
    size_t count = n - i < PIECE ? n - i : PIECE;
    fopo_kernels_get()->adagrad(x->theta + i, x->v + i, G + i, &step, count);
  }
  return FOPO_OK;
}

/* ---- whole arrays ---- */

int fopo_cpu_clear(fopo_device *d, float *x, size_t n) {
  (void)d;
  memset(x, 0, n * sizeof *x);
  return FOPO_OK;
}

/* Sums pieces of fixed length, then adds the sums in order: the same bits for any threads. */
int fopo_cpu_norm2(fopo_device *d, double *norm2, const float *x, size_t n) {
  size_t pieces = (n + NORM_PIECE - 1) / NORM_PIECE;
  int status = fopo_cpu_reserve_shared(d, (pieces + 1) * sizeof(double), "a norm");
  if (status != FOPO_OK) return status;
  double *sum = (double *)(void *)((fopo_cpu *)d->state)->shared;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (pieces > 1)
  for (size_t p = 0; p < pieces; p++) {
    size_t first = p * NORM_PIECE, count = n - first < NORM_PIECE ? n - first : NORM_PIECE;
    double moments[3];
    fopo_kernels_get()->moments(moments, x + first, x + first, count);
    sum[p] = moments[1];
  }
  *norm2 = 0;
  for (size_t p = 0; p < pieces; p++) *norm2 += sum[p];
  return FOPO_OK;
}
