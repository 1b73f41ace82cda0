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
  float before = sums->shift;
  sums->shift = shift;
  if (before == -INFINITY) return; /* all sums are 0 */
  double factor = exp((double)before - (double)shift);
  sums->w *= factor;
  sums->ww *= factor * factor;
  sums->wd *= factor;
  sums->head *= factor;
#pragma omp simd
  for (size_t i = 0; i < 2 * L; i++) sums->w_beta[i] *= (float)factor;
}

/* sum w over the draws of candidates, whose logq is above the floor; share [n] is scratch. */
static double head_weight(const float *w, const float *logq, float floor, float *share, size_t n) {
  double moments[3];
#pragma omp simd
  for (size_t s = 0; s < n; s++) share[s] = logq[s] > floor ? 1.0f : 0.0f;
  fopo_kernels_get()->moments(moments, w, share, n);
  return moments[2];
}

/* Adds the n draws of a tile, from the first on, to the sums. */
static void add_tile(fopo_running *sums, const fopo_draws_of_context *x, size_t first, size_t n) {
  const fopo_kernels *k = fopo_kernels_get();
  const uint32_t *ids = x->ids + first;
  const float *logq = x->logq + first, *r = x->r + first;
  size_t L = x->L, n_next = x->n - first - n + x->n_next;
  float *w = sums->scratch, *d = w + TILE, *c = d + TILE; /* [n] each */

  /* z = q . beta + s - log q */
  fopo_cpu_gather_dot(w, x->items, ids, n, x->q, L);
  fopo_cpu_sparse_add(w, x->sparse, ids, n);
#pragma omp simd
  for (size_t s = 0; s < n; s++) w[s] -= logq[s];
  if (x->z != NULL) memcpy(x->z + first, w, n * sizeof *w);
  float largest = k->max(w, n);
  if (largest > sums->shift) fopo_running_raise(sums, largest, L);
  if (sums->shift == -INFINITY && fopo_cpu_all_masked(w, n)) return;

  /* w = exp(z - shift), d = r - least */
  k->exp_sum(w, w, sums->shift, n);
#pragma omp simd
  for (size_t s = 0; s < n; s++) {
    d[s] = r[s] - x->least;
    c[s] = w[s] * d[s];
  }
  double moments[3];
  k->moments(moments, w, d, n);
  sums->w += moments[0];
  sums->ww += moments[1];
  sums->wd += moments[2];
  if (x->floor < INFINITY) sums->head += head_weight(w, logq, x->floor, d, n);

  /* most rewards are the least, with d = 0: the second sum reads few rows */
  fopo_cpu_gather_axpy(sums->w_beta, x->items, ids, w, n, n_next, L);
  fopo_cpu_gather_axpy(sums->wd_beta, x->items, ids, c, n, 0, L);
}

void fopo_running_add(fopo_running *sums, const fopo_draws_of_context *x) {
  for (size_t first = 0; first < x->n; first += TILE) {
    add_tile(sums, x, first, x->n - first < TILE ? x->n - first : TILE);
  }
}
