/* A few items, contexts and hits made by hand from a seed, with the expected reward and its
 * gradient in double: what the learning code is compared with. Shared by its tests. */
#ifndef FOPO_TESTS_SMALL_WORLD_H
#define FOPO_TESTS_SMALL_WORLD_H

#include <math.h>

#include "checks.h"
#include "core/rng.h"
#include "core/threads.h"
#include "learn/gradient.h"
#include "policies.h"
#include "train/trainer.h"

FREED_BY(fopo_device_close, fopo_device)
FREED_BY(fopo_gradient_free, fopo_gradient)
FREED_BY(fopo_index_free, fopo_index)
FREED_BY(fopo_trainer_free, fopo_trainer)

typedef struct {
  size_t P, N, D, L;
  fopo_matrix items;    /* [P, L] */
  fopo_matrix contexts; /* [N, D] */
  fopo_csr Y;           /* [N, P] */
  fopo_policy pi;       /* {0} after small_world_data */
  fopo_network net;     /* of pi; layers == 0: it is no network */
  fopo_reward reward;
  fopo_device *device;
  uint32_t *rows; /* [N] 0 .. N-1 */
} small_world;

/* Standard normal items and contexts; each (context, item) is a hit with probability `density`. */
static inline void small_world_data(small_world *w, size_t P, size_t N, size_t D, size_t L,
                                    double density, uint64_t seed) {
  *w = (small_world){.P = P, .N = N, .D = D, .L = L};
  ok(fopo_matrix_init(&w->items, P, L));
  ok(fopo_matrix_init(&w->contexts, N, D));
  fopo_fill_normal(w->items.x, P * L, 1.0, seed, FOPO_STREAM_WORLD);
  fopo_fill_normal(w->contexts.x, N * D, 1.0, seed + 1, FOPO_STREAM_WORLD);

  size_t n = 0, repeats;
  uint32_t *row = fopo_alloc(N * P, sizeof *row), *col = fopo_alloc(N * P, sizeof *col);
  w->rows = fopo_alloc(N, sizeof *w->rows);
  for (uint32_t i = 0; i < N; i++) {
    w->rows[i] = i;
    for (uint32_t a = 0; a < P; a++) {
      fopo_words u = fopo_random(seed, FOPO_STREAM_WORLD, 7, i, a);
      row[n] = i;
      col[n] = a;
      n += fopo_unit(u.v[0]) < density;
    }
  }
  ok(fopo_csr_from_pairs(&w->Y, row, col, NULL, n, N, P, &repeats));
  fopo_free(row);
  fopo_free(col);
  w->reward = (fopo_reward){.kind = &fopo_reward_hits, .Y = &w->Y, .contexts = N};
  ok(fopo_device_cpu_open(&w->device));
}

/* The same with D = L and a policy whose theta is `peak` times standard normal: the larger, the
 * further from uniform. */
static inline void small_world_init(small_world *w, size_t P, size_t N, size_t L, double density,
                                    double peak, uint64_t seed) {
  small_world_data(w, P, N, L, L, density, seed);
  ok(init_linear(&w->pi, w->items, L, FOPO_THETA_RANDOM, 0.8f, seed));
  for (size_t i = 0; i < L * L; i++) w->pi.theta.x[i] *= (float)(peak / 0.005);
}

static inline void small_world_done(small_world *w) {
  fopo_device_close(w->device);
  fopo_policy_done(&w->pi);
  fopo_csr_done(&w->Y);
  fopo_matrix_done(&w->items);
  fopo_matrix_done(&w->contexts);
  fopo_free(w->rows);
}

static inline fopo_optim_options adam_of(double lr) {
  return (fopo_optim_options){
      .kind = &fopo_optimiser_adam, .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

/* The options of a trainer over the world. */
static inline fopo_trainer_options trainer_over(small_world *w, fopo_gradient *g, fopo_optim *o,
                                                size_t batch) {
  return (fopo_trainer_options){.policy = &w->pi,
                                .contexts = fopo_contexts_of(w->contexts),
                                .reward = &w->reward,
                                .gradient = g,
                                .optim = o,
                                .device = w->device,
                                .batch = batch,
                                .seed = 9};
}

/* Plans a batch at the policy's theta, if that is due, and begins it. */
static inline int begin_batch(fopo_gradient *g, const uint32_t *rows, size_t B, fopo_draw_key key) {
  int due = fopo_gradient_plan_is_due(g, B);
  int status = due ? fopo_gradient_plan(g, NULL, rows, B, B) : FOPO_OK;
  return status == FOPO_OK ? fopo_gradient_begin(g, NULL, rows, B, key) : status;
}

/* A whole batch at the policy's theta, for rewards that no caller fills. */
static inline int compute_gradient(fopo_gradient *g, fopo_matrix G, fopo_gradient_stats *stats,
                                   const uint32_t *rows, size_t B, fopo_draw_key key) {
  int status = begin_batch(g, rows, B, key);
  if (status == FOPO_OK) status = fopo_gradient_estimate(g, NULL);
  if (status == FOPO_OK) status = fopo_gradient_finish(g, G, stats);
  if (status == FOPO_OK) fopo_gradient_commit(g, rows, B, stats);
  return status;
}

/* pi(. | x_n) [P] in double, for theta [L, L] in double. */
static inline void small_world_policy(double *pi, const small_world *w, const double *theta,
                                      size_t n) {
  const float *x = fopo_matrix_row(w->contexts, n);
  double top = -INFINITY, Z = 0.0;
  for (size_t a = 0; a < w->P; a++) {
    const float *beta = fopo_matrix_row(w->items, a);
    pi[a] = 0.0;
    for (size_t i = 0; i < w->L; i++) {
      for (size_t j = 0; j < w->L; j++) {
        pi[a] += (double)x[i] * theta[i * w->L + j] * (double)beta[j];
      }
    }
    pi[a] /= (double)w->pi.temperature;
    if (pi[a] > top) top = pi[a];
  }
  for (size_t a = 0; a < w->P; a++) Z += pi[a] = exp(pi[a] - top);
  for (size_t a = 0; a < w->P; a++) pi[a] /= Z;
}

/* theta of the policy in double [L, L], to be freed. */
static inline double *small_world_theta(const small_world *w) {
  double *theta = fopo_alloc(w->L * w->L, sizeof *theta);
  for (size_t i = 0; i < w->L * w->L; i++) theta[i] = (double)w->pi.theta.x[i];
  return theta;
}

/* The mean over contexts 0 .. B-1 of E_pi r, and its gradient G [L, L] where not NULL:
 * sum_a pi_a (r_a - E r) x beta_a^T / T. */
static inline double small_world_reward(double *G, const small_world *w, const double *theta,
                                        size_t B) {
  size_t L = w->L;
  double total = 0.0, *pi = fopo_alloc(w->P, sizeof *pi), *v = fopo_alloc(L, sizeof *v);
  for (size_t i = 0; G != NULL && i < L * L; i++) G[i] = 0.0;
  for (size_t n = 0; n < B; n++) {
    double mean = 0.0;
    small_world_policy(pi, w, theta, n);
    for (size_t a = 0; a < w->P; a++) mean += pi[a] * fopo_csr_contains(&w->Y, n, (uint32_t)a);
    total += mean;
    if (G == NULL) continue;
    memset(v, 0, L * sizeof *v);
    for (size_t a = 0; a < w->P; a++) {
      double c = pi[a] * (fopo_csr_contains(&w->Y, n, (uint32_t)a) - mean);
      for (size_t j = 0; j < L; j++) v[j] += c * (double)fopo_matrix_row(w->items, a)[j];
    }
    for (size_t i = 0; i < L; i++) {
      double x = (double)fopo_matrix_row(w->contexts, n)[i];
      for (size_t j = 0; j < L; j++) {
        G[i * L + j] += x * v[j] / ((double)B * (double)w->pi.temperature);
      }
    }
  }
  fopo_free(pi);
  fopo_free(v);
  return total / (double)B;
}

#endif
