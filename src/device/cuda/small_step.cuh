/* A step of a small batch: what its kernels share with the one that makes many such steps
 * (persistent.cu), and what its operations note for it while a step is recorded. */
#ifndef FOPO_DEVICE_CUDA_SMALL_STEP_CUH
#define FOPO_DEVICE_CUDA_SMALL_STEP_CUH

#include "device/cuda/cuda.cuh"

namespace gpu {

/* ---- contexts ---- */

/* Where the ids of rows come from: they stand in `rows`, or in `order` at the place of the step. */
struct row_source {
  uint32_t *rows;
  const uint32_t *order; /* NULL: in rows */
  size_t first, skipped;
  const step_table *steps; /* NULL: the batch is at `first` */
};

/* ---- the gradient ---- */

constexpr unsigned SIDE = 32, EACH_OF_TILE = SIDE * SIDE / THREADS; /* of a tile of a gradient */

struct outer_arguments {
  float *G;         /* [D, L] = scale X^T V */
  fopo_matrix X, V; /* [B, D] and [B, L] */
  float scale;
  unsigned across; /* tiles of a row of G */
  double *pieces;  /* [tiles] the sums of squares of each tile's numbers */
  unsigned *arrivals;
  fopo_totals *t; /* what the step is added to */
  const fopo_statistics *sums;
  step_table *steps;
};

/* sum[k] += sum x[b, at[k]] v[b] over n contexts, whose x and v are ldx and ldv apart. */
__device__ inline void add_outer(float (&sum)[EACH_OF_TILE], const float *x, size_t ldx,
                                 const unsigned (&at)[EACH_OF_TILE], const float *v, size_t ldv,
                                 unsigned n) {
  for (unsigned b = 0; b < n; b++) {
#pragma unroll
    for (unsigned k = 0; k < EACH_OF_TILE; k++) sum[k] += x[b * ldx + at[k]] * v[b * ldv];
  }
}

/* f(k, i) of the numbers k of a thread's column of a tile that G [D, L] has, at place i of it. */
template <class F>
__device__ inline void each_of_tile(size_t row, size_t column, size_t D, size_t L, F f) {
#pragma unroll
  for (unsigned k = 0; k < EACH_OF_TILE; k++) {
    size_t i = row + k * (THREADS / SIDE);
    if (i < D && column < L) f(k, i * L + column);
  }
}

/* Adds a step, with the norm of its gradient, to *t; by one thread. */
__device__ inline void add_step(fopo_totals *t, const fopo_statistics *sums, double norm) {
  if (t->broken) return;
  if (!isfinite(norm)) {
    t->broken = 1;
    return;
  }
  fopo_statistics step = *sums;
  step.norm = t->norm = norm;
  step.steps = 1;
  fopo_statistics_add(&t->slice, &step);
  fopo_statistics_add(&t->record, &step);
}

/* ---- the update ---- */

/* After a gradient that is not finite, parameters stay as they are. */
__device__ inline bool halted(const fopo_totals *t) { return t != nullptr && t->broken != 0; }

/* What an update does with the gradient, the same for all parameters. */
struct update {
  float lr, scale, decay, keep;
  fopo_update u;
};

struct adam_arguments {
  float *theta, *m, *v; /* [n] */
  const float *G;       /* [n] */
  update o;
  float beta1, rest1, beta2, rest2; /* rest = 1 - beta */
  float unbias, eps;
  const step_table *steps;
  size_t n;
};

/* Moves one of the parameters by its gradient G, with the lr, keep and scale of o. */
__device__ inline void move_by_adam(float *theta, float *m, float *v, float G,
                                    const adam_arguments &a, const update &o, float unbias) {
  float g = o.scale * G - o.decay * *theta;
  *m = a.beta1 * *m + a.rest1 * g;
  *v = a.beta2 * *v + a.rest2 * g * g;
  /* theta = keep theta + lr mhat / (sqrt(vhat) + eps) */
  *theta = o.keep * *theta + o.lr * *m / (sqrtf(*v * unbias) + a.eps);
}

/* ---- what a recorded step does ---- */

struct noted_estimate; /* snis.cuh */

/* An operation notes, behind its launches, what it was; before: of(d)->launched before them. It is
 * nothing unless a step is recorded for the one kernel. */
void note(fopo_device *d, size_t before, const fopo_batch_start &start);
void note(fopo_device *d, size_t before, const noted_estimate &estimate);
void note(fopo_device *d, size_t before, const outer_arguments &outer);
void note(fopo_device *d, size_t before, const adam_arguments &adam);

} // namespace gpu

#endif
