/* The sums of self-normalised importance sampling over the draws of one context, as they come. */
#ifndef FOPO_DEVICE_CPU_RUNNING_H
#define FOPO_DEVICE_CPU_RUNNING_H

#include "device/cpu/cpu.h"

/* All weights are relative to exp(shift), where shift is the largest f - log q so far, so nothing
 * overflows and the largest weight is 1. d = r - the least r. */
typedef struct {
  float shift;
  double w, ww, wd; /* sum w, sum w^2, sum w d */
  double head;      /* sum w over the draws of candidates */
  float *w_beta;    /* [L] sum w beta */
  float *wd_beta;   /* [L] sum w d beta, directly after w_beta */
  float *scratch;   /* private */
} fopo_running;

/* Bytes of memory that the sums need, and the sums of no draws in that memory. */
size_t fopo_running_bytes(size_t L);
fopo_running fopo_running_at(void *memory, size_t L);

/* Scales every sum to a larger shift. */
void fopo_running_raise(fopo_running *sums, float shift, size_t L);

/* Adds n draws of the context whose query is q. z [n] = f - log q if it is not NULL; a draw counts
 * as a candidate if its logq is above `floor`, INFINITY: none does. ids [n + n_next]: the next call
 * reads the rows of the last n_next (kernels/kernels.h). */
void fopo_running_add(fopo_running *sums, float *z, const float *q, const fopo_rows *items,
                      const uint32_t *ids, const float *logq, const float *r, float least,
                      float floor, size_t n, size_t n_next, size_t L);

/* Writes sums whose r counts from 0 as ops.h lays them out, to [fopo_sums_width(L)]. */
void fopo_cpu_put_sums(float *to, const fopo_running *sums, size_t L);

#endif
