/* The innermost loops, one struct of function pointers filled once: portable first, overlaid with
 * the best instruction set that the CPU has. FOPO_ISA=portable|avx2|avx512|amx forces one; amx is
 * avx512 with screening.
 *
 * A kernel allocates nothing, checks nothing, prints nothing. All sizes may be 0; no alignment is
 * assumed. Integer kernels give the same bits in every table; float kernels differ by rounding
 * only (kernels_portable.c is the oracle, tests/c/test_kernels.c the proof). */
#ifndef FOPO_KERNELS_KERNELS_H
#define FOPO_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { FOPO_PANEL = 32 }; /* queries that `scores` takes at once */

/* A step of Adam: decay rates and what is left of them, lr / (1 - beta1^t), 1 / (1 - beta2^t). */
typedef struct {
  float beta1, rest1, beta2, rest2, lr, unbias, eps, decay;
} fopo_adam_step;

typedef struct {
  const char *name;

  /* sum_i a[i] b[i] */
  float (*dot)(const float *a, const float *b, size_t n);

  /* y[i] += a x[i] */
  void (*axpy)(float *y, float a, const float *x, size_t n);

  /* f[s] = sum_i rows[ids[s] * ld + i] q[i] for s < count. Prefetches the rows ahead. */
  void (*gather_dot)(float *f, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                     const float *q, size_t dim);

  /* v[i] += sum_s c[s] rows[ids[s] * ld + i] for s < count; samples whose c is 0 are skipped. ids
   * holds `after` more: their rows are read next, and some of them are asked for meanwhile. */
  void (*gather_axpy)(float *v, const float *rows, size_t ld, const uint32_t *ids, const float *c,
                      size_t count, size_t after, size_t dim);

  /* The same two over rows of 16 bits (kernels/rows.h), with sums in float. ld is a multiple of
   * FOPO_ROWS_PAD and the numbers of a row behind `dim` are 0: vectors may read them. */
  void (*gather_dot_float16)(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                             size_t count, const float *q, size_t dim);
  void (*gather_axpy_float16)(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                              const float *c, size_t count, size_t after, size_t dim);
  void (*gather_dot_bfloat16)(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                              size_t count, const float *q, size_t dim);
  void (*gather_axpy_bfloat16)(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                               const float *c, size_t count, size_t after, size_t dim);

  /* out[s * width + j] = sum_i row_s[i] panel[i * width + j] for s < count, j < width: rows
   * against `width` queries at once, FOPO_PANEL or half of it, stored column by column. row_s
   * starts at rows + ids[s] * ld, or at rows + s * ld where ids is NULL. A row's scores have the
   * same bits wherever it stands. Prefetches the rows ahead. */
  void (*scores)(float *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                 const float *panel, size_t dim, size_t width);

  /* Lists s * 16 + j, ascending, where x[s * ld + j] >= floor[j], s < count, j < 16; gives their
   * number. list has room for all. */
  size_t (*above)(uint32_t *list, const float *x, size_t ld, size_t count, const float *floor);

  /* A level for each of 16 columns that `rank` or more of x[s * ld + j], s < count, reach, and
   * hardly more: 2^-12 of the column's range below the rank-th largest. 1 <= rank <= count, values
   * finite. Same bits in every table. */
  void (*approximate_kth)(float *level, const float *x, size_t ld, size_t count, size_t rank);

  /* The k-th largest of n keys, 1 <= k <= n. Same bits in every table. */
  uint64_t (*kth)(const uint64_t *keys, size_t n, size_t k);

  /* Sorts n keys, no two of them equal, descending. Same bits in every table. */
  void (*sort)(uint64_t *keys, size_t n);

  /* Moves the keys >= least to the front, in the order they have; gives their number. */
  size_t (*keep)(uint64_t *keys, size_t n, uint64_t least);

  /* The largest x[i]; -inf for n == 0. */
  float (*max)(const float *x, size_t n);

  /* w[i] = exp(x[i] - shift), relative error < 2e-7 down to exp(-87), below that 0; returns
   * sum w in double. w may be x. */
  double (*exp_sum)(float *w, const float *x, float shift, size_t n);

  /* sum_i x[i], sum_i x[i]^2 and sum_i x[i] y[i] in double */
  void (*moments)(double out[3], const float *x, const float *y, size_t n);

  /* ids[s] uniform in 0 .. n-1, s = 0 .. count-1: word s & 3 of block s >> 2 of
   * FOPO_STREAM_SAMPLE through fopo_below (core/rng.h). Same bits in every table. */
  void (*draw_uniform)(uint32_t *ids, uint32_t n, size_t count, uint64_t seed, uint32_t step,
                       uint32_t row);

  /* Two words for each of the samples first .. first + count - 1, first even: words 2 (s & 1) and
   * 2 (s & 1) + 1 of block s >> 1 of FOPO_STREAM_SAMPLE go to a and b. Same bits in every table. */
  void (*draw_pairs)(uint32_t *a, uint32_t *b, size_t first, size_t count, uint64_t seed,
                     uint32_t step, uint32_t row);

  /* Lists the i < n, ascending, where words[i] >= least; gives their number. list has room for all.
   */
  size_t (*select_at_least)(uint32_t *list, const uint32_t *words, size_t n, uint64_t least);

  /* Lists the i < n, ascending, where fopo_bloom_may_hold(bloom, bits, ids[i]) (kernels/bloom.h);
   * gives their number. list has room for all. */
  size_t (*marked)(uint32_t *list, const uint32_t *ids, size_t n, const uint32_t *bloom,
                   unsigned bits);

  /* logq[i] = log(share + rest (w[i] / total)), in double and then rounded; -inf of 0. share,
   * rest, w >= 0. */
  void (*log_mixture)(float *logq, const float *w, double share, double rest, double total,
                      size_t n);

  /* Adam (Kingma and Ba, 2015) up the gradient, device/device.h: all of [n]. Same bits in every
   * table. */
  void (*adam)(float *theta, float *m, float *v, const float *G, const fopo_adam_step *o, size_t n);

  /* Scores in bfloat16 (kernels/prefilter.h); NULL where the CPU has no instruction for them. */
  const struct fopo_prefilter *prefilter;
} fopo_kernels;

/* The table in use. The first call chooses it; an unknown or unsupported FOPO_ISA falls back to the
 * best one and fopo_kernels_note() says so. */
const fopo_kernels *fopo_kernels_get(void);
const char *fopo_kernels_note(void);

/* For tests and the bench: "portable", "avx2", "avx512", "amx"; NULL where the CPU or the build
 * lacks it. */
const fopo_kernels *fopo_kernels_named(const char *name);

/* Makes the named table the one in use; FOPO_ERR_UNAVAILABLE where it cannot be. */
int fopo_kernels_force(const char *name);

#endif
