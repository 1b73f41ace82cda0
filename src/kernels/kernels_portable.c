/* The kernels in plain C, written to be read: the reference that the other sets are tested against,
 * and what runs on a CPU that has none of them. Sums are accumulated in double and rounded once,
 * except in `scores`. */
#include <math.h>

#include "kernels/kernels_tables.h"
#include "kernels/rows.h"

static float dot(const float *a, const float *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
  return (float)sum;
}

static void axpy(float *y, float a, const float *x, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

static void gather_dot(float *f, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                       const float *q, size_t dim) {
  for (size_t s = 0; s < count; s++) f[s] = dot(rows + ids[s] * ld, q, dim);
}

static void gather_axpy(float *v, const float *rows, size_t ld, const uint32_t *ids, const float *c,
                        size_t count, size_t n_next, size_t dim) {
  (void)n_next;
  for (size_t s = 0; s < count; s++) {
    if (c[s] != 0) axpy(v, c[s], rows + ids[s] * ld, dim);
  }
}

/* Rows of 16-bit numbers: each is widened to float32 by `value`, then the sums are the same. */

typedef float number(uint16_t x);

static inline void half_dot(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                            size_t count, const float *q, size_t dim, number *value) {
  for (size_t s = 0; s < count; s++) {
    const uint16_t *row = rows + ids[s] * ld;
    double sum = 0;
    for (size_t i = 0; i < dim; i++) sum += (double)value(row[i]) * (double)q[i];
    f[s] = (float)sum;
  }
}

static inline void half_axpy(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                             const float *c, size_t count, size_t dim, number *value) {
  for (size_t s = 0; s < count; s++) {
    const uint16_t *row = rows + ids[s] * ld;
    if (c[s] == 0) continue;
    for (size_t i = 0; i < dim; i++) v[i] += c[s] * value(row[i]);
  }
}

static void gather_dot_float16(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                               size_t count, const float *q, size_t dim) {
  half_dot(f, rows, ld, ids, count, q, dim, fopo_from_float16);
}

static void gather_axpy_float16(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                                const float *c, size_t count, size_t n_next, size_t dim) {
  (void)n_next;
  half_axpy(v, rows, ld, ids, c, count, dim, fopo_from_float16);
}

static void gather_dot_bfloat16(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                                size_t count, const float *q, size_t dim) {
  half_dot(f, rows, ld, ids, count, q, dim, fopo_from_bfloat16);
}

static void gather_axpy_bfloat16(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                                 const float *c, size_t count, size_t n_next, size_t dim) {
  (void)n_next;
  half_axpy(v, rows, ld, ids, c, count, dim, fopo_from_bfloat16);
}

/* In float32, because the selection allows for the error (mips/topk.h) and a compiler turns these
 * loops into vectors. */
static void scores(float *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                   const float *panel, size_t dim, size_t width) {
  for (size_t s = 0; s < count; s++) {
    const float *row = row_of(rows, ld, ids, s);
    float sum[FOPO_PANEL] = {0};
    for (size_t i = 0; i < dim; i++) {
      for (size_t j = 0; j < width; j++) sum[j] += row[i] * panel[i * width + j];
    }
    for (size_t j = 0; j < width; j++) out[s * width + j] = sum[j];
  }
}

static void max_columns(float *most, const float *x, size_t count, size_t width) {
  for (size_t j = 0; j < width; j++) most[j] = x[j];
  for (size_t s = 1; s < count; s++) {
    for (size_t j = 0; j < width; j++) {
      most[j] = x[s * width + j] > most[j] ? x[s * width + j] : most[j];
    }
  }
}

static void exp_columns(float *x, float *sum, float *squares, const float *shift, size_t count,
                        size_t width) {
  for (size_t j = 0; j < width; j++) sum[j] = squares[j] = 0.0f;
  for (size_t s = 0; s < count; s++) {
    for (size_t j = 0; j < width; j++) {
      float z = x[s * width + j] - shift[j], w = z < -87.0f ? 0.0f : expf(z);
      x[s * width + j] = w;
      sum[j] += w;
      squares[j] += w * w;
    }
  }
}

static void add_products(float *v, const float *rows, size_t ld, const float *w, size_t count,
                         size_t dim, size_t width) {
  for (size_t s = 0; s < count; s++) {
    for (size_t i = 0; i < dim; i++) {
      for (size_t j = 0; j < width; j++) v[i * width + j] += rows[s * ld + i] * w[s * width + j];
    }
  }
}

static size_t select_columns_at_least(uint32_t *list, const float *x, size_t ld, size_t count,
                                      const float *floor) {
  size_t n = 0;
  for (size_t s = 0; s < count; s++) {
    for (size_t j = 0; j < 16; j++) {
      if (x[s * ld + j] >= floor[j]) list[n++] = (uint32_t)(s * 16 + j);
    }
  }
  return n;
}

static float largest(const float *x, size_t n) {
  float m = -INFINITY;
  for (size_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}

static double exp_sum(float *w, const float *x, float shift, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    float z = x[i] - shift;
    w[i] = z < -87.0f ? 0.0f : expf(z);
    sum += (double)w[i];
  }
  return sum;
}

static void moments(double out[3], const float *x, const float *y, size_t n) {
  double sum = 0, squares = 0, products = 0;
  for (size_t i = 0; i < n; i++) {
    sum += (double)x[i];
    squares += (double)x[i] * (double)x[i];
    products += (double)x[i] * (double)y[i];
  }
  out[0] = sum;
  out[1] = squares;
  out[2] = products;
}

static void draw_uniform(uint32_t *ids, uint32_t n, size_t count, uint64_t seed, uint32_t step,
                         uint32_t row) {
  draw_uniform_from(ids, 0, n, count, seed, step, row);
}

static void draw_pairs(uint32_t *a, uint32_t *b, size_t first, size_t count, uint64_t seed,
                       uint32_t step, uint32_t row) {
  draw_pairs_from(a, b, 0, first, count, seed, step, row);
}

static void log_mixture(float *logq, const float *w, double share, double rest, double total,
                        size_t n) {
  for (size_t i = 0; i < n; i++) logq[i] = (float)log(share + rest * ((double)w[i] / total));
}

/* ---- selection among keys ---- */

static size_t count_at_least(const uint64_t *keys, size_t n, uint64_t least) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += keys[i] >= least;
  return count;
}

static uint64_t min_at_least(const uint64_t *keys, size_t n, uint64_t least) {
  uint64_t found = UINT64_MAX;
  for (size_t i = 0; i < n; i++) found = keys[i] >= least && keys[i] < found ? keys[i] : found;
  return found;
}

static uint64_t max_key(const uint64_t *keys, size_t n) {
  uint64_t most = 0;
  for (size_t i = 0; i < n; i++) most = keys[i] > most ? keys[i] : most;
  return most;
}

static uint64_t kth(const uint64_t *keys, size_t n, size_t k) {
  return fopo_kth(keys, n, k, (fopo_key_passes){count_at_least, min_at_least, max_key});
}

static size_t partition_at_least(uint64_t *keys, size_t n, uint64_t least) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t key = keys[i];
    keys[kept] = key;
    kept += key >= least;
  }
  return kept;
}

/* ---- selection among words and ids ---- */

static size_t select_at_least(uint32_t *list, const uint32_t *words, size_t n, uint64_t least) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    list[found] = (uint32_t)i;
    found += words[i] >= least;
  }
  return found;
}

static size_t select_in_bloom(uint32_t *list, const uint32_t *ids, size_t n, const uint32_t *bloom,
                              unsigned bits) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    list[found] = (uint32_t)i;
    found += (size_t)fopo_bloom_may_hold(bloom, bits, ids[i]);
  }
  return found;
}

FOPO_KERNELS_FILL(portable, table) {
  table->dot = dot;
  table->axpy = axpy;
  table->gather_dot = gather_dot;
  table->gather_axpy = gather_axpy;
  table->gather_dot_float16 = gather_dot_float16;
  table->gather_axpy_float16 = gather_axpy_float16;
  table->gather_dot_bfloat16 = gather_dot_bfloat16;
  table->gather_axpy_bfloat16 = gather_axpy_bfloat16;
  table->scores = scores;
  table->max_columns = max_columns;
  table->exp_columns = exp_columns;
  table->add_products = add_products;
  table->select_columns_at_least = select_columns_at_least;
  table->approximate_kth = fopo_approximate_kth;
  table->adam = fopo_adam_all;
  table->adagrad = fopo_adagrad_all;
  table->kth = kth;
  table->sort = fopo_sort_keys;
  table->partition_at_least = partition_at_least;
  table->max = largest;
  table->exp_sum = exp_sum;
  table->moments = moments;
  table->draw_uniform = draw_uniform;
  table->draw_pairs = draw_pairs;
  table->select_at_least = select_at_least;
  table->select_in_bloom = select_in_bloom;
  table->log_mixture = log_mixture;
  return 1;
}
