/* The sums of self-normalised importance sampling over the draws of one context, as they come. */
#ifndef FOPO_DEVICE_CPU_RUNNING_H
#define FOPO_DEVICE_CPU_RUNNING_H

#include "device/cpu/cpu.h"
#include "device/cpu/sparse.h"

/* All weights are relative to exp(shift), where shift is the largest f - log q so far, so nothing
 * overflows and the largest weight is 1. d = r - the least r. Draws of masked items have no part in
 * any sum; while there are no others, shift is -infinity. */
typedef struct {
  float shift;
  double w, ww, wd; /* sum w, sum w^2, sum w d */
  double head;      /* sum w over the draws of candidates */
  float *w_beta;    /* [L] sum w beta */
  float *wd_beta;   /* [L] sum w d beta, directly after w_beta */
  float *scratch;   /* private */
} fopo_running;

/* Draws of one context. */
typedef struct {
  const float *q; /* [L] its query */
  size_t L;
  const fopo_cpu_sparse *sparse; /* the sparse part of its scores */
  const fopo_rows *items;
  const uint32_t *ids; /* [n + n_next] */
  const float *logq;   /* [n] */
  const float *r;      /* [n] */
  size_t n;            /* draws */
  size_t n_next;       /* ids behind them, whose rows the next call reads (kernels/kernels.h) */
  float least;         /* the least r */
  float floor;         /* a draw of a larger logq counts as a candidate; INFINITY: none does */
  float *z;            /* [n] out: f - log q; NULL: not wanted */
} fopo_draws_of_context;

/* The draws of context b, its place in samples of `batch`; none counts as a candidate. */
static inline fopo_draws_of_context fopo_cpu_draws(const fopo_samples *samples,
                                                   const fopo_rows *items,
                                                   const fopo_cpu_sparse *sparse,
                                                   const fopo_device_batch *batch, size_t b) {
  size_t first = b * batch->S;
  return (fopo_draws_of_context){.q = batch->Q + b * batch->L,
                                 .L = batch->L,
                                 .sparse = sparse,
                                 .items = items,
                                 .ids = samples->ids + first,
                                 .logq = samples->logq + first,
                                 .r = samples->r + first,
                                 .n = batch->counts == NULL ? batch->S : batch->counts[b],
                                 .floor = INFINITY};
}

/* Bytes of memory that the sums need, and the sums of no draws in that memory. */
size_t fopo_running_bytes(size_t L);
fopo_running fopo_running_at(void *memory, size_t L);

/* Scales every sum to a larger shift. */
void fopo_running_raise(fopo_running *sums, float shift, size_t L);

void fopo_running_add(fopo_running *sums, const fopo_draws_of_context *x);

/* Writes sums whose r counts from 0 as ops.h lays them out, to [fopo_sums_width(L)]. */
void fopo_cpu_put_sums(float *to, const fopo_running *sums, size_t L);

#endif
