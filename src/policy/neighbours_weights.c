/* The weights of policy/neighbours.h: taken from a start, and as they are for a training context,
 * whose user they must not know.
 *
 * Of similarities the user u is left out by a formula. With c_ba users who took a and b, n_a and
 * n_b of each, and d = 1 if u took a, else 0, for an item b that u took:
 *
 *   cosine   w_ba = c_ba / (sqrt(n_a n_b) + shrink)     becomes (c - d) / (sqrt((n_a - d)(n_b - 1))
 * + shrink) jaccard  w_ba = c_ba / (n_a + n_b - c_ba + shrink)  becomes (c - d) / (n_a + n_b - 1 -
 * c + shrink)
 *
 * where n_a - d + n_b - 1 - (c - d) = n_a + n_b - 1 - c. c is the integer that is nearest to what w
 * says. A row that was cut to its largest weights has items of u that are there for u alone: those
 * that would now be smaller than all others in it are dropped, as they would have been. */
#include <math.h>

#include "core/memory.h"
#include "core/sort.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "mips/topk.h"
#include "policy/lists.h"
#include "policy/neighbours.h"

int fopo_neighbours_take(fopo_csr *weights, const fopo_csr *W, size_t n) {
  const fopo_kernels *kernels = fopo_kernels_get();
  uint64_t *keys = fopo_alloc(W->cols, sizeof *keys);
  size_t most = 0;
  for (size_t b = 0; b < W->rows; b++) {
    size_t count = fopo_csr_count(W, b);
    most += n > 0 && count > n ? n : count;
  }
  *weights = (fopo_csr){0};
  int status = keys != NULL ? fopo_csr_init(weights, W->rows, W->cols, most, 1) : FOPO_ERR_MEMORY;
  size_t at = 0;
  for (size_t b = 0; b < W->rows && status == FOPO_OK; b++) {
    const uint32_t *ids = fopo_csr_row(W, b);
    const float *values = W->values + W->indptr[b];
    size_t count = fopo_csr_count(W, b);
    uint64_t least = 0;
    if (n > 0 && count > n) {
      for (size_t i = 0; i < count; i++) keys[i] = fopo_topk_key(values[i], ids[i]);
      least = kernels->kth(keys, count, n);
    }
    for (size_t i = 0; i < count; i++) {
      if (ids[i] == b || fopo_topk_key(values[i], ids[i]) < least) continue;
      weights->ids[at] = ids[i];
      weights->values[at++] = values[i];
    }
    weights->indptr[b + 1] = at;
  }
  fopo_free(keys);
  return status;
}

int fopo_neighbours_count(float **log_m, const fopo_csr *M) {
  double mean = (double)fopo_csr_nnz(M) / (double)M->cols;
  float *m = *log_m = fopo_alloc(M->cols, sizeof *m);
  if (m == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < fopo_csr_nnz(M); i++) m[M->ids[i]] += 1.0f;
  for (size_t a = 0; a < M->cols; a++) {
    m[a] = (float)log(((double)m[a] + 1.0) / (mean + 1.0));
  }
  return FOPO_OK;
}

void fopo_neighbours_done(fopo_neighbours *x) {
  fopo_csr_done(&x->weights);
  for (size_t k = 0; k < x->n_held; k++) fopo_csr_done(&x->held[k]);
  fopo_free(x->held);
  fopo_free(x->log_m);
  fopo_free(x->part);
  fopo_csr_done(&x->taken);
  fopo_free(x->users);
  *x = (fopo_neighbours){0};
}

/* ---- leaving a user out ---- */

int fopo_neighbours_leave_out(fopo_neighbours *x, fopo_csr *M, int jaccard, double shrink) {
  float *users = fopo_alloc(M->cols, sizeof *users);
  if (users == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < fopo_csr_nnz(M); i++) users[M->ids[i]] += 1.0f;
  for (size_t a = 0; a < M->cols && !jaccard; a++) users[a] = sqrtf(users[a]);
  for (size_t b = 0; b < x->weights.rows; b++) {
    size_t n = fopo_csr_count(&x->weights, b);
    x->longest = n > x->longest ? n : x->longest;
  }
  x->users = users;
  x->jaccard = jaccard;
  x->shrink = (float)shrink;
  x->n_contexts = M->rows;
  x->taken = *M;
  *M = (fopo_csr){0};
  return FOPO_OK;
}

static int leaves_out(const fopo_neighbours *x, size_t context) {
  return context < x->n_contexts && x->taken.indptr != NULL;
}

static const fopo_csr *weights_for(const fopo_neighbours *x, size_t context) {
  return context < x->n_contexts && x->n_held > 0 ? &x->held[x->part[context]] : &x->weights;
}

/* The weight of an item a that the user took (d = 1) or not, from w_ba. */
static double without_user(const fopo_neighbours *x, double w, size_t a, size_t b, double d) {
  double n_a = (double)x->users[a], n_b = (double)x->users[b], shrink = (double)x->shrink;
  double together = x->jaccard ? w * (n_a + n_b + shrink) / (1.0 + w) : w * (n_a * n_b + shrink);
  double c = nearbyint(together);
  if (c - d <= 0.0) return 0.0;
  if (x->jaccard) return (c - d) / (n_a + n_b - 1.0 - c + shrink);
  return (c - d) / (sqrt((n_a * n_a - d) * (n_b * n_b - 1.0)) + shrink);
}

/* Equal numbers that were rounded are equal. */
static int is_kept(double w, double cut) { return w >= cut * (1.0 - 1e-6); }

/* The least of w [n] without the user's items; 0 if row b was not cut. */
static float cut_of(const fopo_neighbours *x, const float *w, const uint32_t *ids, size_t n,
                    const uint32_t *taken, size_t n_taken) {
  float least = INFINITY;
  if (n < x->longest) return 0.0f;
  for (size_t k = 0, i = 0; k < n; k++) {
    while (i < n_taken && taken[i] < ids[k]) i++;
    if (i < n_taken && taken[i] == ids[k]) continue;
    least = w[k] < least ? w[k] : least;
  }
  return least < INFINITY ? least : 0.0f;
}

/* to [n]: the weights w of row b for items that the user did not take. */
static void leave_out_row(float *to, const fopo_neighbours *x, const float *w, const uint32_t *ids,
                          size_t n, size_t b) {
  float n_b = x->users[b], shrink = x->shrink;
  float root = sqrtf(fmaxf(n_b * n_b - 1.0f, 0.0f));
  if (n_b <= 1.0f) { /* nobody else took b */
    for (size_t k = 0; k < n; k++) to[k] = 0.0f;
  } else if (x->jaccard) {
    for (size_t k = 0; k < n; k++) {
      float all = x->users[ids[k]] + n_b + shrink; /* c = w all / (1 + w) */
      to[k] = w[k] * all / (all - 1.0f - w[k]);
    }
  } else {
    for (size_t k = 0; k < n; k++) {
      float n_a = x->users[ids[k]];
      to[k] = w[k] * (n_a * n_b + shrink) / (n_a * root + shrink);
    }
  }
}

fopo_weights_row fopo_neighbours_row(const fopo_neighbours *x, fopo_list_row *row, size_t b,
                                     size_t context) {
  const fopo_csr *W = weights_for(x, context);
  const uint32_t *ids = fopo_csr_row(W, b);
  const float *w = W->values + W->indptr[b];
  size_t n = fopo_csr_count(W, b);
  if (!leaves_out(x, context)) return (fopo_weights_row){ids, w, n};
  leave_out_row(row->values, x, w, ids, n, b);
  const uint32_t *taken = fopo_csr_row(&x->taken, context);
  size_t n_taken = fopo_csr_count(&x->taken, context);
  float cut = cut_of(x, row->values, ids, n, taken, n_taken);
  for (size_t i = 0; i < n_taken; i++) {
    if (row->place[taken[i]] == FOPO_LIST_MASKED) continue;
    size_t at = fopo_sorted_place(ids, n, taken[i]);
    if (at == n || ids[at] != taken[i]) continue;
    float less = (float)without_user(x, (double)w[at], taken[i], b, 1.0);
    row->values[at] = is_kept((double)less, (double)cut) ? less : 0.0f;
  }
  return (fopo_weights_row){ids, row->values, n};
}

double fopo_neighbours_weight(const fopo_neighbours *x, size_t b, uint32_t a, size_t context) {
  const fopo_csr *W = weights_for(x, context);
  const uint32_t *ids = fopo_csr_row(W, b);
  const float *w = W->values + W->indptr[b];
  size_t n = fopo_csr_count(W, b), at = fopo_sorted_place(ids, n, a);
  double cut = INFINITY;
  if (at == n || ids[at] != a) return 0.0;
  if (!leaves_out(x, context)) return (double)w[at];
  if (!fopo_csr_contains(&x->taken, context, a)) return without_user(x, (double)w[at], a, b, 0.0);
  for (size_t k = 0; n == x->longest && k < n; k++) {
    if (fopo_csr_contains(&x->taken, context, ids[k])) continue;
    cut = fmin(cut, without_user(x, (double)w[k], ids[k], b, 0.0));
  }
  double less = without_user(x, (double)w[at], a, b, 1.0);
  return isinf(cut) || is_kept(less, cut) ? less : 0.0;
}
