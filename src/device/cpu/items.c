/* Training the items: their gradient from the coefficients of draws, and the updates of rows.
 *
 * A draw of item a in context b adds c Q_b to the gradient of beta_a. The draws are sorted by item,
 * and draws of one item keep their order, so that one thread sums each row in one order: the same
 * bits for any number of threads. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "device/cpu/sparse.h"
#include "kernels/kernels.h"
#include "kernels/product.h"

enum {
  TILE = 1024,  /* items of one product with a block of contexts */
  BLOCK = 64,   /* contexts of a block: their scores fill 256 KiB */
  DIGIT = 11,   /* bits of one pass of the sort: its counts fill 16 KiB */
  FEW_ROWS = 64 /* not worth waking the threads for; and how many a thread takes at once */
};

typedef struct {
  uint32_t id, place; /* the item, and b S + s */
} draw;

/* Radix sort by id, least significant digit first, which keeps the order of equal ids. The result
 * is in x. */
static void sort_by_id(draw *x, draw *spare, size_t n, size_t P) {
  for (unsigned shift = 0; shift < 32 && (P - 1) >> shift > 0; shift += DIGIT) {
    size_t start[1 << DIGIT] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++) start[x[i].id >> shift & ((1u << DIGIT) - 1)]++;
    for (size_t k = 0; k < (size_t)1 << DIGIT; k++) {
      size_t count = start[k];
      start[k] = sum;
      sum += count;
    }
    for (size_t i = 0; i < n; i++) spare[start[x[i].id >> shift & ((1u << DIGIT) - 1)]++] = x[i];
    memcpy(x, spare, n * sizeof *x);
  }
}

/* first[g] = the index of the first draw of the g-th distinct item; first[groups] = n. Returns
 * `groups`, the number of distinct items. */
static size_t group(uint32_t *first, const draw *x, size_t n) {
  size_t groups = 0;
  for (size_t i = 0; i < n; i++) {
    if (i == 0 || x[i].id != x[i - 1].id) first[groups++] = (uint32_t)i;
  }
  first[groups] = (uint32_t)n;
  return groups;
}

int fopo_cpu_items_gradient(fopo_device *d, fopo_item_gradient *g, const float *c,
                            const fopo_samples *samples, float scale,
                            const fopo_device_batch *batch) {
  size_t S = batch->S, L = batch->L, n = batch->B * S;
  if (n >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu draws at once are too many to learn items from; use "
                     "a smaller batch or fewer samples",
                     n);
  }
  int status = fopo_cpu_reserve_shared(d, 2 * n * sizeof(draw) + (n + 1) * sizeof(uint32_t),
                                       "sorting the draws by item");
  if (status != FOPO_OK) return status;
  draw *x = (draw *)(void *)((fopo_cpu *)d->state)->shared;
  uint32_t *first = (uint32_t *)(void *)(x + 2 * n);
  for (size_t i = 0; i < n; i++) x[i] = (draw){samples->ids[i], (uint32_t)i};
  sort_by_id(x, x + n, n, batch->P);
  size_t groups = group(first, x, n);

#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, FEW_ROWS)
  for (size_t j = 0; j < groups; j++) {
    uint32_t id = x[first[j]].id;
    float *row = g->rows + (g->ids != NULL ? j : id) * L;
    if (g->ids != NULL) {
      g->ids[j] = id;
      memset(row, 0, L * sizeof *row);
    }
    for (size_t i = first[j]; i < first[j + 1]; i++) {
      size_t place = x[i].place;
      fopo_kernels_get()->axpy(row, scale * c[place], batch->Q + place / S * L, L);
    }
  }
  if (g->ids != NULL) g->n = groups;
  return FOPO_OK;
}

/* One tile of items, from the first on: rows += sum_b weight_b exp(f_ab - log Z_b) Q_b, contexts in
 * their order. */
static void expect_tile(fopo_matrix out, float *scratch, fopo_matrix items, size_t first,
                        const float *log_z, const float *weight, const fopo_device_batch *batch) {
  size_t n = items.rows, L = items.cols, B = batch->B;
  fopo_sparse_scores sparse = fopo_batch_scores(batch);
  for (size_t b = 0; b < B; b += BLOCK) {
    size_t m = B - b < BLOCK ? B - b : BLOCK;
    fopo_matrix W = fopo_matrix_view(scratch, m, n);
    fopo_matrix block = fopo_matrix_const_view(batch->Q + b * L, m, L);
    fopo_product_tile(W, 1.0f, block, 0, items, 1, 0.0f);
    for (size_t i = 0; i < m; i++) {
      float *w = fopo_matrix_row(W, i), share = weight[b + i];
      fopo_score_row row = fopo_score_row_of(&sparse, b + i);
      fopo_cpu_sparse_add_run(w, &row, first, n);
      if (log_z[b + i] == -INFINITY) { /* all items are masked */
        memset(w, 0, n * sizeof *w);
        continue;
      }
      fopo_kernels_get()->exp_sum(w, w, log_z[b + i], n);
      for (size_t a = 0; a < n; a++) w[a] *= share;
    }
    fopo_product_tile(out, 1.0f, W, 1, block, 0, 1.0f);
  }
}

int fopo_cpu_items_expectation(fopo_device *d, float *rows, fopo_matrix items, const float *log_z,
                               const float *weight, const fopo_device_batch *batch) {
  size_t P = items.rows, L = items.cols;
  int status = fopo_cpu_reserve(d, (size_t)BLOCK * TILE * sizeof(float));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t t = 0; t < (P + TILE - 1) / TILE; t++) {
    size_t first = t * TILE, n = P - first < TILE ? P - first : TILE;
    expect_tile(fopo_matrix_view(rows + first * L, n, L), fopo_cpu_scratch(d),
                fopo_matrix_rows(items, first, n), first, log_z, weight, batch);
  }
  return FOPO_OK;
}

/* ---- updates ---- */

int fopo_cpu_adam_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
                       const fopo_adam *o, size_t L) {
  (void)d;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (g->n > FEW_ROWS)
  for (size_t i = 0; i < g->n; i++) {
    size_t a = g->ids != NULL ? g->ids[i] : i, at = a * L;
    fopo_adam_step step = fopo_cpu_adam_step(o, ++x->updates[a]);
    fopo_kernels_get()->adam(x->theta + at, x->m + at, x->v + at, g->rows + i * L, &step, L);
  }
  return FOPO_OK;
}

int fopo_cpu_sgd_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
                      const fopo_sgd *o, size_t L) {
  (void)d;
  float lr = (float)o->u.lr, momentum = (float)o->momentum;
  float scale = fopo_update_scale(&o->u, o->u.norm);
  float decay = fopo_update_decay(&o->u), keep = fopo_update_keep(&o->u);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (g->n > FEW_ROWS)
  for (size_t i = 0; i < g->n; i++) {
    size_t a = g->ids != NULL ? g->ids[i] : i;
    float *theta = x->theta + a * L, *velocity = x->m + a * L;
    const float *G = g->rows + i * L;
#pragma omp simd
    for (size_t j = 0; j < L; j++) {
      velocity[j] = momentum * velocity[j] + (scale * G[j] - decay * theta[j]);
      theta[j] = keep * theta[j] + lr * velocity[j];
    }
  }
  return FOPO_OK;
}

int fopo_cpu_adagrad_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
                          const fopo_adagrad *o, size_t L) {
  (void)d;
  fopo_adagrad_step step = fopo_cpu_adagrad_step(o);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (g->n > FEW_ROWS)
  for (size_t first = 0; first < g->n; first += FEW_ROWS) {
    size_t end = g->n - first < FEW_ROWS ? g->n : first + FEW_ROWS, next;
    for (size_t i = first; i < end; i = next) { /* rows that lie one behind another at once */
      size_t at = (g->ids != NULL ? g->ids[i] : i) * L;
      for (next = i + 1; next < end; next++) {
        if (g->ids != NULL && g->ids[next] != g->ids[next - 1] + 1) break;
      }
      fopo_kernels_get()->adagrad(x->theta + at, x->v + at, g->rows + i * L, &step, (next - i) * L);
    }
  }
  return FOPO_OK;
}
