/* The weights of policy/neighbours.h: taken from a start, and as they are for a training context,
 * whose user they must not know.
 *
 * Of similarities the user u is left out by a formula. With c_ba users who took a and b, n_a and
 * n_b of each, and d = 1 if u took a, else 0, for an item b that u took:
 *
 *   cosine   w_ba = c_ba / (sqrt(n_a n_b) + shrink)
 *   becomes  (c - d) / (sqrt((n_a - d)(n_b - 1)) + shrink)
 *
 *   jaccard  w_ba = c_ba / (n_a + n_b - c_ba + shrink)
 *   becomes  (c - d) / (n_a + n_b - 1 - c + shrink)
 *
 * where n_a - d + n_b - 1 - (c - d) = n_a + n_b - 1 - c. c is the integer that is nearest to what w
 * says. A row that was cut to its largest weights has items of u that are there for u alone: those
 * that would now be smaller than all others in it are dropped, as they would have been. */
#include <math.h>
#include <string.h>

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

/* That of an item which is worth nothing: it is scored last, and its log is finite. */
static const double WORTHLESS = 1e-6;

int fopo_neighbours_value(float **log_v, const float *value, size_t P) {
  double sum = 0.0;
  size_t n = 0;
  for (size_t a = 0; a < P; a++) {
    if (!(value[a] >= 0.0f) || isinf(value[a])) {
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "the value of item %zu is %g; values are finite numbers, 0 or more", a + 1,
                       (double)value[a]);
    }
    sum += (double)value[a];
    n += value[a] > 0.0f;
  }
  if (n == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "all items are worth 0; leave out value");
  float *v = *log_v = fopo_alloc(P, sizeof *v);
  if (v == NULL) return FOPO_ERR_MEMORY;
  double mean = sum / (double)n;
  for (size_t a = 0; a < P; a++) v[a] = (float)log(fmax((double)value[a] / mean, WORTHLESS));
  return FOPO_OK;
}

void fopo_neighbours_done(fopo_neighbours *x) {
  fopo_csr_done(&x->weights);
  for (size_t k = 0; k < x->n_held; k++) fopo_csr_done(&x->held[k]);
  fopo_free(x->held);
  fopo_free(x->log_m);
  fopo_free(x->log_v);
  for (size_t k = 0; k < x->n_dense; k++) fopo_matrix_done(&x->dense[k]);
  fopo_free(x->dense);
  fopo_free(x->dense_part);
  fopo_free(x->dense_weights);
  fopo_free(x->part);
  fopo_csr_done(&x->taken);
  fopo_free(x->users);
  fopo_matrix_done(&x->g);
  fopo_free(x->d);
  fopo_free(x->over);
  *x = (fopo_neighbours){0};
}

/* ---- leaving a user out ---- */

int fopo_neighbours_leave_out(fopo_neighbours *x, fopo_csr *M, int jaccard, double shrink) {
  float *users = fopo_alloc(M->cols, sizeof *users);
  if (users == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < fopo_csr_nnz(M); i++) users[M->ids[i]] += 1.0f;
  for (size_t a = 0; a < M->cols && !jaccard; a++) users[a] = sqrtf(users[a]);
  x->longest = fopo_csr_longest(&x->weights);
  x->users = users;
  x->jaccard = jaccard;
  x->shrink = (float)shrink;
  x->n_contexts = M->rows;
  x->taken = *M;
  *M = (fopo_csr){0};
  return FOPO_OK;
}

static int leaves_out(const fopo_neighbours *x, size_t context) {
  return context < x->n_contexts && (x->taken.indptr != NULL || x->g.x != NULL);
}

/* The weights of row b as they are stored for a context. */
static fopo_weights_row stored_row(const fopo_neighbours *x, size_t b, size_t context) {
  const fopo_csr *W = &x->weights;
  const float *values = W->values;
  if (context < x->n_contexts && x->n_held > 0) {
    const fopo_csr *held = &x->held[x->part[context]];
    if (held->ids != NULL) W = held;
    values = held->values;
  }
  return (fopo_weights_row){fopo_csr_row(W, b), values + W->indptr[b], fopo_csr_count(W, b)};
}

/* The weight of an item a that the user took (d = 1) or not, from w_ba. */
static double without_user(const fopo_neighbours *x, double w, size_t a, size_t b, double d) {
  double n_a = (double)x->users[a], n_b = (double)x->users[b], shrink = (double)x->shrink;
  double together = x->jaccard ? w * (n_a + n_b + shrink) / (1.0 + w) : w * (n_a * n_b + shrink);
  double c = (double)(int64_t)(together + 0.5);
  if (c - d <= 0.0) return 0.0;
  if (x->jaccard) return (c - d) / (n_a + n_b - 1.0 - c + shrink);
  return (c - d) / (sqrt((n_a * n_a - d) * (n_b * n_b - 1.0)) + shrink);
}

/* Equal numbers that were rounded are equal. */
static int is_kept(double w, double cut) { return w >= cut * (1.0 - 1e-6); }

/* The least of w [n]; several at a time, for the compiler to make vectors of. */
static float least_of(const float *w, size_t n) {
  enum { WIDE = 8 };
  float least[WIDE], all = INFINITY;
  for (int j = 0; j < WIDE; j++) least[j] = INFINITY;
  size_t k = 0;
  for (; k + WIDE <= n; k += WIDE) {
    for (int j = 0; j < WIDE; j++) {
      least[j] = w[k + (size_t)j] < least[j] ? w[k + (size_t)j] : least[j];
    }
  }
  for (; k < n; k++) all = w[k] < all ? w[k] : all;
  for (int j = 0; j < WIDE; j++) all = least[j] < all ? least[j] : all;
  return all;
}

/* to [n]: the weights w of row b for items that the user did not take. The loops over numbers alone
 * are for the compiler to make vectors of. */
static void leave_out_row(float *restrict to, const fopo_neighbours *x, const float *restrict w,
                          const uint32_t *ids, size_t n, size_t b) {
  float n_b = x->users[b], shrink = x->shrink;
  float root = sqrtf(fmaxf(n_b * n_b - 1.0f, 0.0f));
  int alone = n_b <= 1.0f; /* nobody else took b */
  for (size_t k = 0; k < n; k++) to[k] = alone ? 0.0f : x->users[ids[k]];
  if (alone) return;
  if (x->jaccard) { /* c = w all / (1 + w) of all = n_a + n_b + shrink */
    for (size_t k = 0; k < n; k++) {
      float all = to[k] + n_b + shrink;
      to[k] = w[k] * all / (all - 1.0f - w[k]);
    }
  } else {
    for (size_t k = 0; k < n; k++) {
      to[k] = w[k] * (to[k] * n_b + shrink) / (to[k] * root + shrink);
    }
  }
}

/* The next place from `at` on, in both lists, of an item of the row that the user took; 0: none. */
typedef struct {
  size_t k, i; /* in the row and in the user's items */
} common;

static int next_common(common *at, const uint32_t *ids, size_t n, const uint32_t *taken,
                       size_t n_taken) {
  for (; at->i < n_taken; at->i++) {
    while (at->k < n && ids[at->k] < taken[at->i]) at->k++;
    if (at->k == n) return 0;
    if (ids[at->k] == taken[at->i]) return 1;
  }
  return 0;
}

/* What is left of w without a user: nothing, if rounding alone has left it. */
static float remainder_of(float left, float w) {
  return fabsf(left) > 1e-5f * fabsf(w) ? left : 0.0f;
}

/* The same of a linear model. */
static void leave_out_linear(float *restrict to, const fopo_neighbours *x, fopo_weights_row W,
                             size_t b, size_t context) {
  const float *restrict over = x->over, *restrict g_of = fopo_matrix_row(x->g, context);
  float over_d = 1.0f / x->d[context], g_b = g_of[b];
  for (size_t k = 0; k < W.n; k++) {
    float g = g_of[W.ids[k]], t = g * over[W.ids[k]] * over_d;
    to[k] = remainder_of(W.w[k] - g_b * t, W.w[k]) / (1.0f + g * t);
  }
}

/* to [n]: the row W of item b for a training context, without its user. place: X. */
static void leave_out(float *to, const fopo_neighbours *x, fopo_weights_row W, size_t b,
                      size_t context, const uint32_t *place) {
  const uint32_t *taken = fopo_csr_row(&x->taken, context);
  size_t n_taken = fopo_csr_count(&x->taken, context), own = 0;
  leave_out_row(to, x, W.w, W.ids, W.n, b);
  for (common at = {0}; next_common(&at, W.ids, W.n, taken, n_taken); at.i++) {
    to[at.k] = INFINITY;
    own += place[W.ids[at.k]] != FOPO_LIST_MASKED;
  }
  if (own == 0) return;
  float cut = W.n < x->longest ? 0.0f : least_of(to, W.n);
  if (cut == INFINITY) cut = 0.0f;
  for (common at = {0}; next_common(&at, W.ids, W.n, taken, n_taken); at.i++) {
    if (place[W.ids[at.k]] == FOPO_LIST_MASKED) continue;
    double less = without_user(x, (double)W.w[at.k], W.ids[at.k], b, 1.0);
    to[at.k] = is_kept(less, (double)cut) ? (float)less : 0.0f;
  }
}

void fopo_neighbours_sum_whole(float *sums, const fopo_neighbours *x, const float *voice,
                               const fopo_list_context *context) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t P = x->weights.rows;
  memset(sums, 0, P * sizeof *sums);
  for (size_t i = 0; i < context->n; i++) {
    size_t b = context->X[i];
    const float *w = x->weights.values + x->weights.indptr[b];
    kernels->axpy(sums, voice[i], w, b);
    kernels->axpy(sums + b + 1, voice[i], w + b, P - 1 - b);
  }
  if (x->g.x == NULL || context->row >= x->n_contexts) return;
  /* without the user: sum of voice_b w_ba becomes (it - t_a sum of voice_b g_b) / (1 + g_a t_a) */
  const float *g = fopo_matrix_row(x->g, context->row);
  float own = 0.0f, over_d = 1.0f / x->d[context->row];
  for (size_t i = 0; i < context->n; i++) own += voice[i] * g[context->X[i]];
  for (size_t a = 0; a < P; a++) {
    float t = g[a] * x->over[a] * over_d;
    sums[a] = remainder_of(sums[a] - own * t, sums[a]) / (1.0f + g[a] * t);
  }
}

fopo_weights_row fopo_neighbours_row(const fopo_policy *pi, fopo_list_row *row, size_t b,
                                     size_t context, int again) {
  const fopo_neighbours *x = pi->neighbours;
  fopo_weights_row W = stored_row(x, b, context);
  int left_out = leaves_out(x, context), fits = W.n <= row->P - row->used;
  float *to = fits ? row->values + row->used : row->values + row->P;
  if (!left_out && pi->delta.x == NULL) return W;
  if (fits) row->used += W.n;
  if (fits && again) return (fopo_weights_row){W.ids, to, W.n};
  if (left_out && x->g.x != NULL) leave_out_linear(to, x, W, b, context);
  if (left_out && x->g.x == NULL) leave_out(to, x, W, b, context, row->place);
  if (left_out) W.w = to;
  if (pi->delta.x != NULL) {
    const float *delta = pi->delta.x + x->weights.indptr[b];
    for (size_t k = 0; k < W.n; k++) to[k] = W.w[k] == 0.0f ? 0.0f : W.w[k] + delta[k];
  }
  return (fopo_weights_row){W.ids, to, W.n};
}

const float *fopo_neighbours_dense(fopo_matrix *items, float *scratch, const fopo_policy *pi,
                                   const fopo_list_context *context) {
  const fopo_neighbours *x = pi->neighbours;
  *items = pi->items;
  if (context->row >= x->n_contexts || x->n_dense == 0) return context->q;
  fopo_matrix held = x->dense[x->dense_part[context->row]];
  if (held.cols != fopo_policy_context_dim(pi)) return context->q; /* of another policy */
  *items = held;
  fopo_encode_list(scratch, x->how, context->X, context->n, *items);
  return scratch;
}

/* Without what is added. */
static double start_of(const fopo_neighbours *x, size_t b, uint32_t a, size_t context) {
  fopo_weights_row W = stored_row(x, b, context);
  size_t at = fopo_sorted_place(W.ids, W.n, a);
  double cut = INFINITY;
  if (at == W.n || W.ids[at] != a) return 0.0;
  double w = (double)W.w[at];
  if (!leaves_out(x, context)) return w;
  if (x->g.x != NULL) {
    const float *g = fopo_matrix_row(x->g, context);
    double g_a = (double)g[a], g_b = (double)g[b];
    double t = g_a * (double)x->over[a] / (double)x->d[context];
    return (double)remainder_of((float)(w - g_b * t), (float)w) / (1.0 + g_a * t);
  }
  if (!fopo_csr_contains(&x->taken, context, a)) return without_user(x, w, a, b, 0.0);
  for (size_t k = 0; W.n == x->longest && k < W.n; k++) {
    if (fopo_csr_contains(&x->taken, context, W.ids[k])) continue;
    cut = fmin(cut, without_user(x, (double)W.w[k], W.ids[k], b, 0.0));
  }
  double less = without_user(x, w, a, b, 1.0);
  return isinf(cut) || is_kept(less, cut) ? less : 0.0;
}

double fopo_neighbours_weight(const fopo_policy *pi, size_t b, uint32_t a, size_t context) {
  const fopo_csr *W = &pi->neighbours->weights;
  double w = start_of(pi->neighbours, b, a, context);
  if (w == 0.0 || pi->delta.x == NULL) return w;
  size_t at = fopo_sorted_place(fopo_csr_row(W, b), fopo_csr_count(W, b), a);
  return w + (double)pi->delta.x[W->indptr[b] + at];
}

/* ---- weights that are learnt ---- */

/* The values of held weights at the places of W, 0 where they have none. */
static int align(fopo_csr *held, const fopo_csr *W) {
  float *values = fopo_alloc(fopo_csr_nnz(W), sizeof *values);
  if (values == NULL) return FOPO_ERR_MEMORY;
  for (size_t b = 0; b < W->rows; b++) {
    uint64_t at = held->indptr[b], end = held->indptr[b + 1];
    for (uint64_t k = W->indptr[b]; k < W->indptr[b + 1]; k++) {
      while (at < end && held->ids[at] < W->ids[k]) at++;
      if (at < end && held->ids[at] == W->ids[k]) values[k] = held->values[at];
    }
  }
  fopo_csr_done(held);
  *held = (fopo_csr){.rows = W->rows, .cols = W->cols, .values = values};
  return FOPO_OK;
}

int fopo_neighbours_attach(fopo_policy *pi, fopo_neighbours *x) {
  size_t n = fopo_csr_nnz(&x->weights);
  pi->neighbours = x;
  if (!pi->learns[FOPO_BLOCK_WEIGHTS]) return FOPO_OK;
  if (n == 0 || n >= UINT32_MAX) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "there are %zu weights; 1 to %u can be learnt, keep the n largest of each item", n,
        UINT32_MAX - 1);
  }
  /* what is added, Adagrad's sum, and a copy of the best or for a file */
  int status = fopo_memory_suffices((uint64_t)n * 3 * sizeof(float), "learning the weights",
                                    "keep fewer weights of an item (n = ..), or learn the scalars");
  for (size_t k = 0; k < x->n_held && status == FOPO_OK; k++) {
    if (x->held[k].ids != NULL) status = align(&x->held[k], &x->weights);
  }
  return status == FOPO_OK ? fopo_matrix_init(&pi->delta, n, 1) : status;
}

/* Numbers that another machine has made may be rounded otherwise. */
static int are_near(const float *a, const float *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!(fabsf(a[i] - b[i]) <= 1e-3f * fabsf(a[i]) + 1e-5f)) return 0;
  }
  return 1;
}

int fopo_neighbours_resume(fopo_policy *pi, fopo_neighbours *x, const fopo_neighbours *from) {
  size_t P = x->weights.rows, n = fopo_csr_nnz(&x->weights);
  const float *w = from->weights.values;
  int is_same = from->weights.rows == P && fopo_csr_nnz(&from->weights) == n &&
                (from->log_v == NULL) == (x->log_v == NULL) &&
                memcmp(from->weights.indptr, x->weights.indptr, (P + 1) * sizeof(uint64_t)) == 0 &&
                memcmp(from->weights.ids, x->weights.ids, n * sizeof(uint32_t)) == 0 &&
                are_near(from->log_m, x->log_m, P);
  if (is_same && x->log_v != NULL) is_same = are_near(from->log_v, x->log_v, P);
  if (!is_same || (pi->delta.x == NULL && !are_near(w, x->weights.values, n))) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the weights of the file are not those of this start on these sessions; give "
                     "the data and the options that its policy was made with");
  }
  for (size_t i = 0; pi->delta.x != NULL && i < n; i++) {
    pi->delta.x[i] = w[i] - x->weights.values[i];
  }
  if (pi->delta.x == NULL) memcpy(x->weights.values, w, n * sizeof *w);
  return FOPO_OK;
}
