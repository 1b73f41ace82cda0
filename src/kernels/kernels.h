/* The innermost loops of the program: one struct of function pointers for each instruction set. The
 * best set that the CPU has is chosen at the first question; FOPO_ISA=NAME forces one. The names
 * are the rows of kernels/instruction_sets.def, where a new set is described.
 *
 * A kernel allocates nothing, checks nothing, prints nothing. All sizes may be 0; no alignment is
 * assumed. Integer kernels return the same bits in every table. Those over floats do in all tables
 * of x86-64 with vectors, whose sums have one order (tests/c/test_same_bits.c); the others differ
 * by rounding alone (kernels_portable.c is the reference, tests/c/test_kernels.c compares them). */
#ifndef FOPO_KERNELS_KERNELS_H
#define FOPO_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { FOPO_PANEL = 32 }; /* queries that `scores` multiplies at once */

/* The constants of one step of Adam, step t = 1, 2 .. */
typedef struct {
  float beta1, rest1, beta2, rest2; /* rest = 1 - beta */
  float lr;                         /* learning rate / (1 - beta1^t) */
  float unbias;                     /* 1 / (1 - beta2^t) */
  float eps;
  float scale; /* of the gradient */
  float decay; /* L2: subtracts decay theta from the gradient */
  float keep;  /* decoupled weight decay: theta is multiplied by it before it moves */
} fopo_adam_step;

/* Those of a step of Adagrad. */
typedef struct {
  float lr, eps, scale, decay, keep; /* as of Adam; lr is the learning rate itself */
} fopo_adagrad_step;

/* C = alpha op(A) op(B) + beta C: c [m, n], op(A) [m, k], op(B) [k, n], each row-major with its
 * stride, and op the transpose if the flag is 1. c is only written if beta = 0. */
typedef struct {
  float *c;
  const float *a, *b;
  size_t ldc, lda, ldb;
  size_t m, n, k;
  int transpose_a, transpose_b;
  float alpha, beta;
} fopo_product_task;

typedef struct {
  const char *name;

  /* sum_i a[i] b[i] */
  float (*dot)(const float *a, const float *b, size_t n);

  /* y[i] += a x[i] */
  void (*axpy)(float *y, float a, const float *x, size_t n);

  /* f[s] = sum_i rows[ids[s] * ld + i] q[i] for s < count. Prefetches the rows to come. */
  void (*gather_dot)(float *f, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                     const float *q, size_t dim);

  /* v[i] += sum_s c[s] rows[ids[s] * ld + i] for s < count; samples with c[s] = 0 are skipped.
   * ids [count + n_next]: the caller reads the rows of the last n_next in a later call, and some of
   * them are prefetched during this one. */
  void (*gather_axpy)(float *v, const float *rows, size_t ld, const uint32_t *ids, const float *c,
                      size_t count, size_t n_next, size_t dim);

  /* The same two over rows of 16-bit numbers (kernels/rows.h), summed in float32. ld is a multiple
   * of FOPO_ROWS_PAD and a row's numbers from `dim` on are 0, so that vectors may read them. */
  void (*gather_dot_float16)(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                             size_t count, const float *q, size_t dim);
  void (*gather_axpy_float16)(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                              const float *c, size_t count, size_t n_next, size_t dim);
  void (*gather_dot_bfloat16)(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                              size_t count, const float *q, size_t dim);
  void (*gather_axpy_bfloat16)(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                               const float *c, size_t count, size_t n_next, size_t dim);

  /* out[s * width + j] = sum_i row_s[i] panel[i * width + j] for s < count, j < width: `count`
   * rows against `width` queries at once. width is FOPO_PANEL or half of it; panel [dim, width] is
   * the transposed queries. row_s starts at rows + ids[s] * ld, or at rows + s * ld if ids is NULL.
   * A row's scores have the same bits at any s. Prefetches the rows to come. */
  void (*scores)(float *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                 const float *panel, size_t dim, size_t width);

  /* For a head that all contexts share, over panels as `scores` gives them: x, w [count, width],
   * width FOPO_PANEL or half of it, count > 0; all sums in float32.
   *
   *   most[j] = max_s x[s * width + j]
   *   x = exp(x - shift[j]) in place, to 0 below exp(-87); sum[j] and squares[j] are its sums
   *   v[i * width + j] += sum_s rows[s * ld + i] w[s * width + j] for i < dim, v [dim, width] */
  void (*max_columns)(float *most, const float *x, size_t count, size_t width);
  void (*exp_columns)(float *x, float *sum, float *squares, const float *shift, size_t count,
                      size_t width);
  void (*add_products)(float *v, const float *rows, size_t ld, const float *w, size_t count,
                       size_t dim, size_t width);

  /* Lists every s * 16 + j, ascending, with x[s * ld + j] >= floor[j], s < count, j < 16, and
   * returns how many. list [16 * count]. */
  size_t (*select_columns_at_least)(uint32_t *list, const float *x, size_t ld, size_t count,
                                    const float *floor);

  /* kth[j] <= the rank-th largest of x[s * ld + j], s < count, for each of 16 columns j, and at
   * most 2^-12 of the column's range below it. 1 <= rank <= count, values finite. Same bits in
   * every table. */
  void (*approximate_kth)(float *kth, const float *x, size_t ld, size_t count, size_t rank);

  /* The k-th largest of n keys, 1 <= k <= n. Same bits in every table. */
  uint64_t (*kth)(const uint64_t *keys, size_t n, size_t k);

  /* Sorts n keys, no two of them equal, descending. Same bits in every table. */
  void (*sort)(uint64_t *keys, size_t n);

  /* Moves the keys >= least to the front, in their order, and returns how many; the keys behind
   * them are undefined. */
  size_t (*partition_at_least)(uint64_t *keys, size_t n, uint64_t least);

  /* The largest x[i]; -inf for n == 0. */
  float (*max)(const float *x, size_t n);

  /* w[i] = exp(x[i] - shift), relative error < 2e-7 down to exp(-87), below that 0; returns
   * sum_i w[i] in double. w may be x. */
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

  /* Lists the i < n, ascending, with words[i] >= least, and returns how many. list [n]. */
  size_t (*select_at_least)(uint32_t *list, const uint32_t *words, size_t n, uint64_t least);

  /* Lists the i < n, ascending, with fopo_bloom_may_hold(bloom, bits, ids[i]) (kernels/bloom.h),
   * and returns how many. list [n]. */
  size_t (*select_in_bloom)(uint32_t *list, const uint32_t *ids, size_t n, const uint32_t *bloom,
                            unsigned bits);

  /* logq[i] = log(share + rest (w[i] / total)), computed in double, then rounded; log 0 = -inf.
   * share, rest, w >= 0. */
  void (*log_mixture)(float *logq, const float *w, double share, double rest, double total,
                      size_t n);

  /* One step of Adam (Kingma and Ba, 2015) up the gradient G: theta, m, v, G [n]. Same bits in
   * every table. */
  void (*adam)(float *theta, float *m, float *v, const float *G, const fopo_adam_step *o, size_t n);

  /* One step of Adagrad (Duchi, Hazan and Singer, 2011) up the gradient G: theta, v, G [n]. Same
   * bits in every table. */
  void (*adagrad)(float *theta, float *v, const float *G, const fopo_adagrad_step *o, size_t n);

  /* A product of matrices. Each number of c is one chain of fused multiply-adds over k, so it has
   * the same bits in every table that has the kernel, however a product is cut into tiles. NULL:
   * BLAS makes it. */
  void (*product)(const fopo_product_task *o);

  /* Scores of rounded numbers (kernels/prefilter.h); NULL: none are faster than float32. */
  const struct fopo_prefilter *prefilter;
} fopo_kernels;

/* The table in use. The first call chooses it. If FOPO_ISA names a set that is unknown or that this
 * CPU lacks, the best one is used and fopo_kernels_note() says so; otherwise the note is empty. */
const fopo_kernels *fopo_kernels_get(void);
const char *fopo_kernels_note(void);

/* The names of all sets, those that this CPU lacks included, from the simplest to the widest: the
 * i-th, NULL behind the last; and all of them, "portable, avx2, ...". */
const char *fopo_kernels_name(size_t i);
const char *fopo_kernels_names(void);

/* The table of that name; NULL if the CPU or the build lacks it. */
const fopo_kernels *fopo_kernels_named(const char *name);

/* Makes the named table the one in use. FOPO_ERR_UNAVAILABLE if the CPU lacks it or no set has that
 * name: the sentence lists those that can be used. */
int fopo_kernels_force(const char *name);

/* For tests: makes any table the one in use. It must stay valid until another takes its place. */
void fopo_kernels_use(const fopo_kernels *table);

#endif
