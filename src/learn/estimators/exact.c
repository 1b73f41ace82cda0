/* The exact gradient: SNIS over an enumeration. All P items, c_a = pi_a (r_a - E_pi r). No bias, no
 * variance; P rows a context. The oracle. */
#include <math.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "learn/estimators/covariance.h"

static size_t draws(const fopo_batch *b) { return b->data->items.rows; }

/* Rows [part, P] of the items 0 .. P-1 (of a part of the catalogue, of its rows), each of the
 * uniform density, so that w_a = exp(f_a) up to a factor. */
static int enumerate(fopo_batch *b) {
  fopo_device *d = b->data->device;
  const fopo_samples *s = &b->draws.samples;
  size_t P = b->data->items.rows;
  uint32_t *ids = fopo_alloc(P, sizeof *ids);
  float *logq = fopo_alloc(P, sizeof *logq);
  int status = ids && logq ? FOPO_OK : FOPO_ERR_MEMORY;
  for (size_t a = 0; a < P && status == FOPO_OK; a++) {
    ids[a] = (uint32_t)a;
    logq[a] = (float)-log((double)b->data->P);
  }
  for (size_t i = 0; i < b->part_size && status == FOPO_OK; i++) {
    status = d->ops->put(d, s->ids + i * P, ids, P * sizeof *ids);
    if (status == FOPO_OK) status = d->ops->put(d, s->logq + i * P, logq, P * sizeof *logq);
  }
  if (status == FOPO_OK) b->draws.enumerated = b->part_size;
  fopo_free(ids);
  fopo_free(logq);
  return status;
}

/* The rows stay as they are from batch to batch. */
static int draw(fopo_batch *b) {
  if (b->draws.enumerated >= b->piece.n) return FOPO_OK;
  double start = fopo_clock();
  int status = enumerate(b);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

/* Of the items themselves, not of a copy in half the bytes: the truth has no rounding of theirs. */
static int combine(fopo_batch *b) {
  fopo_rows items = {b->data->device_items.x, b->data->device_items.ld, FOPO_FLOAT32};
  return fopo_combine_covariance(b, &items, INFINITY);
}

static int dense(const fopo_gradient_options *o) {
  (void)o;
  return 1;
}

/* Draw s is item s, so rows [P, L] += C^T Q / B. */
static int add_items(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_matrix c = {b->draws.c, b->piece.n, b->data->P, b->data->P};
  return d->ops->outer(d, b->items.sum.rows, c, b->piece.Q, 1.0f / (float)b->B, b->piece.first > 0);
}

static const fopo_option options[] = {{0}};

const fopo_estimator fopo_estimator_exact = {
    .name = "exact",
    .title = "exact",
    .needs = FOPO_TAKES_OBJECTIVES | FOPO_READS_ALL_ITEMS | FOPO_TAKES_PARTS,
    .draws = draws,
    .draw = draw,
    .combine = combine,
    .dense = dense,
    .add_items = add_items,
    .options = options,
    // clang-format off
    .text = "v = sum_a pi_a (r_a - E_pi r) beta_a over all P items: no bias, no variance, P rows a\n"
          "context. The oracle of every check; for small catalogues also a method.",
    .example = "g = fopo.gradient.exact{}",
    // clang-format on
};
