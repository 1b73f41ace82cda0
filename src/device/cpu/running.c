#include "device/cpu/running.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

/* Samples of a tile. Its rows are read twice, for the scores and for the sums: the second time they
 * come from L1 or, if they are long, from L2. */
enum { TILE = 128 };

/* Three numbers for each sample of a tile, f and then w, d and w d; and the two sums of rows. */
size_t fopo_running_bytes(size_t L) { return (3 * TILE + 2 * L) * sizeof(float); }

fopo_running fopo_running_at(void *memory, size_t L) {
  float *scratch = memory;
  fopo_running sums = {.shift = -INFINITY, .scratch = scratch, .w_beta = scratch + 3 * TILE};
  sums.wd_beta = sums.w_beta + L;
  memset(sums.w_beta, 0, 2 * L * sizeof(float));
  return sums;
}

void fopo_running_raise(fopo_running *sums, float shift, size_t L) {
  double factor = exp((double)sums->shift - (double)shift);
  sums->w *= factor;
  sums->ww *= factor * factor;
  sums->wd *= factor;
  sums->head *= factor;
  for (size_t i = 0; i < 2 * L; i++) sums->w_beta[i] *= (float)factor;
  sums->shift = shift;
}

/* sum w over the draws of candidates, whose logq is above the floor; share [n] is scratch. */
static double head_weight(const float *w, const float *logq, float floor, float *share, size_t n) {
  double moments[3];
#pragma omp simd
  for (size_t s = 0; s < n; s++) share[s] = logq[s] > floor ? 1.0f : 0.0f;
  fopo_kernels_get()->moments(moments, w, share, n);
  return moments[2];
}

/* Adds a tile of n samples to the sums; z [n] = f - log q if not NULL. n_next samples
 * follow in ids, whose rows the next call reads. */
static void add_tile(fopo_running *sums, float *z, const float *q, const fopo_rows *items,
                     const uint32_t *ids, const float *logq, const float *r, float least,
                     float floor, size_t n, size_t n_next, size_t L) {
  const fopo_kernels *k = fopo_kernels_get();
  float *w = sums->scratch, *d = w + TILE, *c = d + TILE;
  fopo_cpu_gather_dot(w, items, ids, n, q, L);
#pragma omp simd
  for (size_t s = 0; s < n; s++) w[s] -= logq[s];
  if (z != NULL) memcpy(z, w, n * sizeof *z);
  float largest = k->max(w, n);
  if (largest > sums->shift) fopo_running_raise(sums, largest, L);

  /* w = exp(f - log q - shift), d = r - least */
  k->exp_sum(w, w, sums->shift, n);
#pragma omp simd
  for (size_t s = 0; s < n; s++) {
    d[s] = r[s] - least;
    c[s] = w[s] * d[s];
  }
  double moments[3];
  k->moments(moments, w, d, n);
  sums->w += moments[0];
  sums->ww += moments[1];
  sums->wd += moments[2];
  if (floor < INFINITY) sums->head += head_weight(w, logq, floor, d, n);

  /* most rewards are the least, with d = 0: the second sum reads few rows */
  fopo_cpu_gather_axpy(sums->w_beta, items, ids, w, n, n_next, L);
  fopo_cpu_gather_axpy(sums->wd_beta, items, ids, c, n, 0, L);
}

void fopo_running_add(fopo_running *sums, float *z, const float *q, const fopo_rows *items,
                      const uint32_t *ids, const float *logq, const float *r, float least,
                      float floor, size_t n, size_t n_next, size_t L) {
  for (size_t s = 0; s < n; s += TILE) {
    size_t count = n - s < TILE ? n - s : TILE;
    add_tile(sums, z == NULL ? NULL : z + s, q, items, ids + s, logq + s, r + s, least, floor,
             count, n - s - count + n_next, L);
  }
}
