/* Item to item: what a session says for item a is a sum over its items b,
 *
 *   f(a | X) = v_a^c2 (tau |X|^-1/2 m_a^c1 sum over b in X of g_b w_ba  +  t q . beta_a)  + bias_a,
 *
 *   g_b = m_b^c0 exp(importance_b),
 *
 * for the candidates a, for which a weight w_ba is there, and 0 for all others; with
 * FOPO_SCORED_ALL for all items, of which the others have no w_ba. m is how often an item was taken
 * and v what it is worth, relative to their means. The scalars c0, c1, log tau and, if there is a
 * dense part, t, and if items differ in value, c2, are learnt by the exact gradient, which costs
 * the candidates alone (policy/lists.h); bias [P] and importance [P], behind the scalars in theta,
 * are there only if they are to be learnt. Weights that are learnt are those of the start with
 * delta added (policy/neighbours_weights.c).
 *
 * The query q of the dense part is the context x itself, or h(x) of another kind of policy, the
 * part, whose parameters stand at the end of theta. */
#include "policy/neighbours.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "kernels/kernels.h"
#include "policy/lists.h"
#include "policy/policy_file.h"

/* theta [1, 5 + P for each of bias and importance], and the columns of slopes. */
enum { C0, C1, LOG_TAU, DENSE, C2 };
static const char *const names[FOPO_LIST_SCALARS] = {"c0", "c1", "log_tau", "dense", "c2"};

/* options.own of this kind. BIAS, IMPORTANCE and PART: where in theta they begin; 0: they are not
 * there. PART_ROWS: of the part's theta. */
enum { TAU, DENSE_START, BIAS, IMPORTANCE, VALUE_START, PART, PART_ROWS };
static const char *const part_names[] = {[BIAS] = "bias", [IMPORTANCE] = "importance"};

/* Such a part [P] of a theta; NULL: it is not there. */
static const float *part_of(const fopo_policy *pi, const float *theta, int part) {
  size_t at = (size_t)pi->options.own[part];
  return at > 0 ? theta + at : NULL;
}

/* Whether a scalar is there: t where there is a dense part, c2 where items differ in value. */
static int has(const fopo_policy_options *o, size_t scalar) {
  if (scalar == DENSE) return o->own[DENSE_START] != 0.0;
  return scalar != C2 || o->own[VALUE_START] != 0.0;
}

static int has_dense(const fopo_policy *pi) { return has(&pi->options, DENSE); }

/* The columns of the dense part. */
static fopo_matrix dense_columns(fopo_matrix x) {
  return (fopo_matrix){x.x, x.rows, x.cols - FOPO_LIST_SCALARS, x.ld};
}

/* A part scores the given items by a query, which it knows in double too, and has the options with
 * this kind in common. */
static int can_be_part(const fopo_policy_kind *kind) {
  size_t own = offsetof(fopo_policy_options, own);
  for (const fopo_option *row = kind->options; row->name != NULL; row++) {
    if (row->member >= own && row->member < own + FOPO_POLICY_OWN * sizeof(double)) return 0;
  }
  return kind->score_list == NULL && kind->more_columns == 0 && kind->reference != NULL;
}

/* NULL: there is no part, or it is none that can be. */
static const fopo_policy_kind *part_kind(const fopo_policy_options *o) {
  const fopo_policy_kind *kind = o->dense_kind > 0 ? fopo_policy_kinds[o->dense_kind - 1] : NULL;
  return kind != NULL && can_be_part(kind) ? kind : NULL;
}

static int has_wrong_part(const fopo_policy_options *o) {
  return o->dense_kind > 0 && (part_kind(o) == NULL || !has(o, DENSE));
}

/* The part as a policy, over the parameters of pi; kind NULL: there is none. */
static fopo_policy part_in(const fopo_policy *pi) {
  const double *own = pi->options.own;
  size_t at = (size_t)own[PART], rows = (size_t)own[PART_ROWS];
  fopo_policy in = {.kind = part_kind(&pi->options),
                    .options = pi->options,
                    .items = dense_columns(pi->items),
                    .n_hidden = pi->n_hidden,
                    .temperature = 1.0f};
  if (at > 0) in.theta = fopo_matrix_view(pi->theta.x + at, rows, (pi->theta.cols - at) / rows);
  return in;
}

/* ---- the kind ---- */

/* The columns of the slopes stand behind those of the dense part, and are 0: they make room for
 * the sums over the candidates in V, from which the gradient is made (backward). */
static void fill_items(fopo_matrix own, fopo_matrix given, const fopo_policy_options *o) {
  (void)o;
  for (size_t a = 0; a < given.rows; a++) {
    memcpy(fopo_matrix_row(own, a), fopo_matrix_row(given, a), given.cols * sizeof *own.x);
    memset(fopo_matrix_row(own, a) + given.cols, 0, FOPO_LIST_SCALARS * sizeof *own.x);
  }
}

/* The part's first parameters, in *theta, and where they are to stand: behind `n` numbers. */
static int init_part(fopo_matrix *theta, fopo_policy *pi, size_t n) {
  fopo_policy in = part_in(pi);
  *theta = (fopo_matrix){0};
  if (in.kind == NULL) return FOPO_OK;
  int status = in.kind->init(&in);
  *theta = in.theta;
  pi->n_hidden = in.n_hidden;
  pi->options.own[PART] = (double)n;
  pi->options.own[PART_ROWS] = (double)in.theta.rows;
  return status;
}

static int init(fopo_policy *pi) {
  const fopo_policy_options *o = &pi->options;
  fopo_matrix part_theta;
  if (part_kind(o) == NULL && o->context_dim + FOPO_LIST_SCALARS != pi->items.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "contexts have %zu features but the items %zu dimensions; the dense part "
                     "needs as many",
                     o->context_dim, pi->items.cols - FOPO_LIST_SCALARS);
  }
  if (has_wrong_part(o)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a policy as dense part has dense scores, as linear or "
                                        "mlp, and dense_start above 0");
  }
  if (o->scored == FOPO_SCORED_ALL && !has(o, DENSE)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "scored = \"all\" scores items that are no candidates by the "
                     "dense part, which is not there; give items");
  }
  if (pi->temperature < 1.0f || pi->temperature > 1.0f) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the temperature is %g; here it is learnt, as tau: use 1",
                     (double)pi->temperature);
  }
  size_t n = FOPO_LIST_SCALARS;
  for (int part = BIAS; part <= IMPORTANCE; part++) {
    int learnt = fopo_policy_options_learn(o, part_names[part]);
    pi->options.own[part] = learnt ? (double)n : 0.0;
    if (learnt) n += pi->items.rows;
  }
  pi->options.own[PART] = 0.0;
  int status = init_part(&part_theta, pi, n);
  size_t more = part_theta.rows * part_theta.cols;
  if (status == FOPO_OK) status = fopo_matrix_init(&pi->theta, 1, n + more);
  for (size_t i = 0; i < more && status == FOPO_OK; i++) pi->theta.x[n + i] = part_theta.x[i];
  fopo_matrix_done(&part_theta);
  if (status != FOPO_OK) return status;
  pi->theta.x[LOG_TAU] = o->own[TAU] > 0.0 ? (float)log(o->own[TAU]) : 0.0f;
  pi->theta.x[DENSE] = (float)o->own[DENSE_START];
  pi->theta.x[C2] = (float)o->own[VALUE_START];
  pi->masks_seen = 1;
  return FOPO_OK;
}

static int parameter(fopo_parameter *p, const fopo_policy *pi, size_t i) {
  size_t P = pi->items.rows;
  for (size_t scalar = 0; scalar < FOPO_LIST_SCALARS; scalar++) {
    if (!has(&pi->options, scalar) || i-- > 0) continue;
    *p = (fopo_parameter){.ndim = 1, .view = {pi->theta.x + scalar, 1, 1, 1}};
    snprintf(p->name, sizeof p->name, "%s", names[scalar]);
    return 1;
  }
  for (int part = BIAS; part <= IMPORTANCE; part++) {
    size_t at = (size_t)pi->options.own[part];
    if (at == 0 || i-- > 0) continue;
    *p = (fopo_parameter){.ndim = 1, .view = {pi->theta.x + at, 1, P, P}};
    snprintf(p->name, sizeof p->name, "%s", part_names[part]);
    return 1;
  }
  fopo_policy in = part_in(pi);
  return in.kind != NULL && in.kind->parameter(p, &in, i);
}

/* The context itself, without a part, and 0 in the columns of the slopes. */
static void take_contexts(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  size_t L = part_kind(&pi->options) == NULL ? x.cols : 0;
  for (size_t n = 0; n < Q.rows; n++) {
    float *q = fopo_matrix_row(Q, n);
    if (L > 0) memcpy(q, fopo_matrix_row(x, n), L * sizeof *q);
    memset(q + L, 0, (Q.cols - L) * sizeof *q);
  }
}

static int queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  fopo_policy in = part_in(pi);
  take_contexts(Q, pi, x);
  return in.kind != NULL ? in.kind->queries(dense_columns(Q), &in, x) : FOPO_OK;
}

/* Dense scores are in those of the lists (reference_list), so that they are 0 here. */
static void reference(double *q, double *scratch, const fopo_policy *pi, const double *theta,
                      const double *x) {
  (void)scratch;
  (void)theta;
  (void)x;
  for (size_t j = 0; j < pi->items.cols; j++) q[j] = 0.0;
}

/* g_b = m_b^c0 exp(importance_b); importance NULL: 0. */
static double voice_of(const float *log_m, const float *importance, double c0, uint32_t b) {
  return exp(c0 * (double)log_m[b] + (importance != NULL ? (double)importance[b] : 0.0));
}

/* Gives an item a place in the row. */
static uint32_t add_item(fopo_list_row *row, uint32_t a) {
  size_t n = row->n++;
  row->ids[n] = a;
  row->sums[2 * n] = row->sums[2 * n + 1] = 0.0f;
  return row->place[a] = (uint32_t)row->n;
}

/* Whether all weights of EASE are there, and no gradient will ask for those of one item. */
static int are_whole(const fopo_policy *pi, size_t context) {
  const fopo_neighbours *x = pi->neighbours;
  size_t P = x->weights.rows;
  int is_held = context < x->n_contexts && x->n_held > 0;
  int learns_rows = pi->delta.x != NULL || pi->options.own[IMPORTANCE] > 0.0;
  return !is_held && !learns_rows && fopo_csr_nnz(&x->weights) == P * (P - 1);
}

/* add_votes of whole rows: products of dense rows, then those that are not 0 are listed. */
static void add_whole_votes(fopo_list_row *row, const fopo_policy *pi, double c0,
                            const fopo_list_context *context) {
  const fopo_neighbours *x = pi->neighbours;
  float *voice = row->values, *sums = row->f, *slopes = row->w;
  for (size_t i = 0; i < context->n; i++) {
    voice[i] = (float)voice_of(x->log_m, NULL, c0, context->X[i]);
  }
  fopo_neighbours_sum_whole(sums, x, voice, context);
  for (size_t i = 0; i < context->n; i++) voice[i] *= x->log_m[context->X[i]];
  if (row->slopes != NULL) fopo_neighbours_sum_whole(slopes, x, voice, context);
  for (uint32_t a = 0; a < row->P; a++) {
    if (row->place[a] == FOPO_LIST_MASKED || sums[a] == 0.0f) continue;
    float *of = row->sums + 2 * (size_t)(add_item(row, a) - 1);
    of[0] = sums[a];
    of[1] = row->slopes != NULL ? slopes[a] : 0.0f;
  }
}

static void add_sparse_votes(fopo_list_row *row, const fopo_policy *pi, const float *importance,
                             double c0, const fopo_list_context *context) {
  const fopo_neighbours *x = pi->neighbours;
  uint32_t *place = row->place;
  for (size_t i = 0; i < context->n; i++) {
    uint32_t b = context->X[i];
    fopo_weights_row W = fopo_neighbours_row(pi, row, b, context->row, 0);
    float g = (float)voice_of(x->log_m, importance, c0, b), slope = g * x->log_m[b];
    for (size_t k = 0; k < W.n; k++) {
      uint32_t at = place[W.ids[k]];
      if (at == FOPO_LIST_MASKED || W.w[k] == 0.0f) continue;
      if (at == 0) at = add_item(row, W.ids[k]);
      float *sum = row->sums + 2 * (size_t)(at - 1);
      sum[0] += g * W.w[k];
      sum[1] += slope * W.w[k];
    }
  }
}

/* Finds the candidates, with sums [n, 2]: of g_b w_ba, and of its slope by c0. */
static void add_votes(fopo_list_row *row, const fopo_policy *pi, const float *importance, double c0,
                      const fopo_list_context *context) {
  row->used = row->n = 0;
  for (size_t i = 0; i < context->n; i++) row->place[context->X[i]] = FOPO_LIST_MASKED;
  if (are_whole(pi, context->row)) {
    add_whole_votes(row, pi, c0, context);
  } else {
    add_sparse_votes(row, pi, importance, c0, context);
  }
  row->head = row->n;
  row->others = row->P - context->n - row->n;
}

/* Those of the items ids [n] that have no place; ids NULL: of 0 .. n - 1. */
static void add_others(fopo_list_row *row, const uint32_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t a = ids != NULL ? ids[i] : (uint32_t)i;
    if (row->place[a] == 0) add_item(row, a);
  }
}

/* Places for items outside the candidates. Returns that of the first draw. */
static size_t add_tail(fopo_list_row *row, const fopo_list_tail *tail) {
  if (tail == NULL) {
    add_others(row, NULL, row->P);
  } else {
    add_others(row, tail->own, tail->n_own);
  }
  size_t first = row->n;
  if (tail != NULL) add_others(row, tail->drawn, tail->n_drawn);
  row->others = 0;
  return first;
}

/* The log of how many items draw a stands for; *at is a place of the ascending draws before it.
 * Strips that share an item may both draw it. */
static float log_share_of(const fopo_list_tail *tail, size_t *at, uint32_t a) {
  size_t times = 0;
  while (tail->drawn[*at] != a) ++*at;
  for (; *at < tail->n_drawn && tail->drawn[*at] == a; ++*at) times++;
  return tail->log_share + logf((float)times);
}

/* The log of v_a^c2. */
static float log_worth(const fopo_neighbours *x, const float *theta, uint32_t a) {
  return x->log_v != NULL ? theta[C2] * x->log_v[a] : 0.0f;
}

/* sums [n, 2] is left with m_a^c1 v_a^c2 tau |X|^-1/2 in its second column. */
static void score_list(fopo_list_row *row, const fopo_policy *pi, const float *theta,
                       const fopo_list_context *context) {
  const fopo_neighbours *x = pi->neighbours;
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t L = pi->items.cols - FOPO_LIST_SCALARS;
  fopo_matrix items;
  const float *q = NULL;
  if (has_dense(pi)) q = fopo_neighbours_dense(&items, row->w, pi, context);
  const float *bias = part_of(pi, theta, BIAS), *importance = part_of(pi, theta, IMPORTANCE);
  double root = sqrt((double)(context->n > 0 ? context->n : 1));
  float scale = (float)(exp((double)theta[LOG_TAU]) / root);
  add_votes(row, pi, importance, (double)theta[C0], context);
  size_t drawn = SIZE_MAX, at = 0;
  if (pi->options.scored == FOPO_SCORED_ALL) drawn = add_tail(row, context->tail);
  /* f = m_a^c1 v_a^c2, then the scores in its place */
  for (size_t i = 0; i < row->n; i++) {
    uint32_t a = row->ids[i];
    row->f[i] = theta[C1] * x->log_m[a] + log_worth(x, theta, a);
  }
  kernels->exp_sum(row->f, row->f, 0.0f, row->n);
  for (size_t i = 0; i < row->n; i++) {
    uint32_t a = row->ids[i];
    float e = scale * row->f[i], votes = e * row->sums[2 * i], dense = 0.0f;
    if (q != NULL) dense = kernels->dot(q, fopo_matrix_row(items, a), L);
    if (q != NULL && x->log_v != NULL) dense *= expf(log_worth(x, theta, a));
    float scored = votes + theta[DENSE] * dense;
    row->f[i] = bias != NULL ? scored + bias[a] : scored;
    if (i >= drawn) row->f[i] += log_share_of(context->tail, &at, a);
    if (row->slopes == NULL) continue;
    float *slope = row->slopes + i * FOPO_LIST_SCALARS;
    slope[C0] = e * row->sums[2 * i + 1];
    slope[C1] = votes * x->log_m[a];
    slope[LOG_TAU] = votes;
    slope[DENSE] = dense;
    slope[C2] = x->log_v != NULL ? scored * x->log_v[a] : 0.0f;
    row->sums[2 * i + 1] = e;
  }
}

/* With e_a = tau |X|^-1/2 m_a^c1 v_a^c2: df_a / dbias_a = 1, df_a / dw_ba = e_a g_b, and the
 * gradient of importance_b is g_b sum over a of c_a e_a w_ba. */
static void add_list_gradient(const fopo_list_gradient *to, fopo_list_row *row,
                              const fopo_policy *pi, const float *theta,
                              const fopo_list_context *context) {
  const float *importance = part_of(pi, theta, IMPORTANCE);
  size_t bias_at = (size_t)pi->options.own[BIAS];
  for (size_t i = 0; bias_at > 0 && i < row->n; i++) {
    to->theta[bias_at + row->ids[i]] += row->c[i];
  }
  if (importance == NULL && to->weights == NULL) return;
  row->used = 0;
  for (size_t i = 0; i < row->n; i++) row->sums[2 * i] = row->c[i] * row->sums[2 * i + 1];
  for (size_t i = 0; i < context->n; i++) {
    uint32_t b = context->X[i];
    fopo_weights_row W = fopo_neighbours_row(pi, row, b, context->row, 1);
    float g = (float)voice_of(pi->neighbours->log_m, importance, (double)theta[C0], b), sum = 0.0f;
    float *weights = to->weights != NULL ? to->weights + to->first[b] : NULL;
    for (size_t k = 0; k < W.n; k++) {
      uint32_t at = row->place[W.ids[k]];
      if (at == FOPO_LIST_MASKED || W.w[k] == 0.0f) continue;
      float c = row->sums[2 * (size_t)(at - 1)];
      sum += c * W.w[k];
      if (weights != NULL) weights[k] += c * g;
    }
    if (importance != NULL) to->theta[(size_t)pi->options.own[IMPORTANCE] + b] += g * sum;
  }
}

/* V += sum over a of c_a v_a^c2 t beta_a */
static void add_query_gradient(float *V, const fopo_list_row *row, const fopo_policy *pi,
                               const float *theta) {
  fopo_matrix items = dense_columns(pi->items);
  if (pi->options.own[PART] == 0.0) return;
  for (size_t i = 0; i < row->n; i++) {
    float c = row->c[i] * theta[DENSE] * expf(log_worth(pi->neighbours, theta, row->ids[i]));
    fopo_kernels_get()->axpy(V, c, fopo_matrix_row(items, row->ids[i]), items.cols);
  }
}

/* The query of the dense part in double, and *items; scratch. */
static const double *reference_query(double *scratch, fopo_matrix *items, const fopo_policy *pi,
                                     const double *theta, const fopo_list_context *context) {
  fopo_policy in = part_in(pi);
  size_t L = pi->items.cols - FOPO_LIST_SCALARS, D = fopo_policy_context_dim(pi);
  double *x = scratch + L, *hidden = x + D;
  const float *q = fopo_neighbours_dense(items, (void *)hidden, pi, context);
  for (size_t j = 0; j < D; j++) x[j] = (double)q[j];
  if (in.kind == NULL) return x;
  in.kind->reference(scratch, hidden, &in, theta + (size_t)pi->options.own[PART], x);
  return scratch;
}

/* f [P] in double, straight from the formula, item by item; behind it there is scratch. The query
 * of the context is x itself here. */
static void reference_list(double *f, const fopo_policy *pi, const double *theta,
                           const fopo_list_context *context) {
  const fopo_neighbours *x = pi->neighbours;
  size_t bias_at = (size_t)pi->options.own[BIAS], L = pi->items.cols - FOPO_LIST_SCALARS;
  size_t importance_at = (size_t)pi->options.own[IMPORTANCE];
  double scale = exp(theta[LOG_TAU]) / sqrt((double)(context->n > 0 ? context->n : 1));
  fopo_matrix items;
  const double *q = reference_query(f + pi->items.rows, &items, pi, theta, context);
  for (size_t a = 0; a < pi->items.rows; a++) {
    double votes = 0.0, dense = 0.0;
    int is_candidate = 0;
    for (size_t i = 0; i < context->n; i++) {
      uint32_t b = context->X[i];
      double w = fopo_neighbours_weight(pi, b, (uint32_t)a, context->row);
      if (w == 0.0) continue;
      double voice = theta[C0] * (double)x->log_m[b];
      if (importance_at > 0) voice += theta[importance_at + b];
      votes += exp(voice) * w;
      is_candidate = 1;
    }
    for (size_t j = 0; has_dense(pi) && j < L; j++) {
      dense += q[j] * (double)fopo_matrix_row(items, a)[j];
    }
    double worth = x->log_v != NULL ? exp(theta[C2] * (double)x->log_v[a]) : 1.0;
    f[a] = scale * exp(theta[C1] * (double)x->log_m[a]) * votes + theta[DENSE] * dense;
    f[a] *= worth;
    if (bias_at > 0) f[a] += theta[bias_at + a];
    if (!is_candidate && pi->options.scored == FOPO_SCORED_CANDIDATES) f[a] = 0.0;
  }
}

void fopo_neighbours_votes(double *votes, const fopo_policy *pi, const uint32_t *X, size_t n,
                           uint32_t a) {
  const fopo_neighbours *x = pi->neighbours;
  const float *theta = pi->theta.x, *importance = part_of(pi, theta, IMPORTANCE);
  double scale = exp((double)(theta[C1] * x->log_m[a] + log_worth(x, theta, a) + theta[LOG_TAU]));
  scale /= sqrt((double)n);
  for (size_t i = 0; i < n; i++) {
    double w = fopo_neighbours_weight(pi, X[i], a, SIZE_MAX);
    votes[i] = scale * voice_of(x->log_m, importance, (double)theta[C0], X[i]) * w;
  }
}

/* The pass of the part. */
static fopo_policy_pass pass_of(const fopo_policy_pass *pass, const fopo_policy *in) {
  fopo_policy_pass own = *pass;
  own.policy = in;
  own.theta += (size_t)pass->policy->options.own[PART];
  return own;
}

static int forward(fopo_device *d, fopo_matrix Q, fopo_matrix X, const fopo_policy_pass *pass) {
  fopo_policy in = part_in(pass->policy);
  fopo_policy_pass own = pass_of(pass, &in);
  take_contexts(Q, pass->policy, X);
  return in.kind != NULL ? in.kind->forward(d, dense_columns(Q), X, &own) : FOPO_OK;
}

/* G [5], the scalars' = scale sum_b V_b, whose last columns are the sums over the candidates of
 * c_a slope_a, and the part's from the others. What stands between was made by add_list_gradient.
 */
static int backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                    const fopo_policy_pass *pass, int accumulate) {
  fopo_policy in = part_in(pass->policy);
  fopo_policy_pass own = pass_of(pass, &in);
  for (size_t j = 0; j < FOPO_LIST_SCALARS; j++) {
    double sum = 0.0;
    for (size_t b = 0; b < V.rows; b++) {
      sum += (double)fopo_matrix_row(V, b)[V.cols - FOPO_LIST_SCALARS + j];
    }
    G[j] = (accumulate ? G[j] : 0.0f) + pass->scale * (float)sum;
  }
  if (in.kind == NULL) return FOPO_OK;
  G += (size_t)pass->policy->options.own[PART];
  return in.kind->backward(d, G, X, dense_columns(V), &own, accumulate);
}

static size_t shape(uint64_t *to, const fopo_policy *pi) {
  to[0] = pi->items.rows;
  to[1] = fopo_csr_nnz(&pi->neighbours->weights);
  fopo_policy in = part_in(pi);
  return 2 + (in.kind != NULL && in.kind->shape != NULL ? in.kind->shape(to + 2, &in) : 0);
}

static void describe(char text[FOPO_POLICY_DESCRIPTION], const fopo_policy *pi) {
  const float *theta = pi->theta.x;
  int n = snprintf(text, FOPO_POLICY_DESCRIPTION, "%zu weights, c0 %.3g, c1 %.3g, tau %.4g",
                   fopo_csr_nnz(&pi->neighbours->weights), (double)theta[C0], (double)theta[C1],
                   exp((double)theta[LOG_TAU]));
  if (has_dense(pi)) {
    const fopo_policy_kind *part = part_kind(&pi->options);
    n += snprintf(text + n, FOPO_POLICY_DESCRIPTION - (size_t)n, ", dense %.3g%s%s",
                  (double)theta[DENSE], part != NULL ? " " : "", part != NULL ? part->name : "");
  }
  if (has(&pi->options, C2)) {
    n += snprintf(text + n, FOPO_POLICY_DESCRIPTION - (size_t)n, ", c2 %.3g", (double)theta[C2]);
  }
  for (int part = BIAS; part <= IMPORTANCE; part++) {
    if (pi->options.own[part] == 0.0) continue;
    n += snprintf(text + n, FOPO_POLICY_DESCRIPTION - (size_t)n, ", %s", part_names[part]);
  }
}

/* ---- files ---- */

static size_t members(fopo_array *a, const fopo_policy *pi) {
  const fopo_neighbours *x = pi->neighbours;
  size_t P = x->weights.rows, n = fopo_csr_nnz(&x->weights);
  a[0] = fopo_array_of("weights_indptr", FOPO_U64, x->weights.indptr, 1, P + 1, 1);
  a[1] = fopo_array_of("weights_ids", FOPO_U32, x->weights.ids, 1, n, 1);
  a[2] = fopo_array_of("weights", FOPO_F32, x->weights.values, 1, n, 1);
  a[3] = fopo_array_of("log_m", FOPO_F32, x->log_m, 1, P, 1);
  if (x->log_v == NULL) return 4;
  a[4] = fopo_array_of("log_v", FOPO_F32, x->log_v, 1, P, 1);
  return 5;
}

/* Whether indptr and ids are those of P rows over P items. */
static int are_rows(const fopo_array *indptr, const fopo_array *ids) {
  const uint64_t *at = indptr->data;
  const uint32_t *id = ids->data;
  size_t P = indptr->shape[0] - 1, n = ids->shape[0];
  if (indptr->shape[0] < 2 || at[0] != 0 || at[P] != n) return 0;
  for (size_t b = 0; b < P; b++) {
    if (at[b] > at[b + 1] || at[b + 1] > n) return 0;
    for (uint64_t i = at[b]; i < at[b + 1]; i++) {
      if (id[i] >= P || (i > at[b] && id[i - 1] >= id[i])) return 0;
    }
  }
  return 1;
}

/* Finite numbers [n]. */
static int check_numbers(fopo_policy_file *f, const char *name, size_t n) {
  char label[512];
  fopo_array *a;
  int status = fopo_archive_need(&a, f->archive, f->path, name, FOPO_F32, 1);
  if (status != FOPO_OK) return status;
  if (a->shape[0] != n) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: %s has %zu numbers, but %zu belong to its weights",
                     f->path, name, a->shape[0], n);
  }
  snprintf(label, sizeof label, "%.400s: %s", f->path, name);
  return fopo_matrix_finite(fopo_matrix_view(a->data, 1, n), label);
}

static int load(fopo_policy_file *f) {
  size_t one = 1;
  fopo_array *indptr, *ids;
  int status = fopo_archive_need(&indptr, f->archive, f->path, "weights_indptr", FOPO_U64, 1);
  if (status == FOPO_OK) {
    status = fopo_archive_need(&ids, f->archive, f->path, "weights_ids", FOPO_U32, 1);
  }
  if (status != FOPO_OK) return status;
  if (!are_rows(indptr, ids)) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its weights are not rows of items", f->path);
  }
  size_t P = indptr->shape[0] - 1;
  for (size_t i = 0; i < FOPO_LIST_SCALARS && status == FOPO_OK; i++) {
    if (has(&f->facts->options, i)) status = fopo_policy_file_matrix(f, names[i], 1, &one, &one);
  }
  for (int part = BIAS; part <= IMPORTANCE && status == FOPO_OK; part++) {
    if (fopo_archive_find(f->archive, part_names[part]) == NULL) continue;
    status = fopo_policy_file_matrix(f, part_names[part], 1, &P, &one);
  }
  if (status == FOPO_OK) status = check_numbers(f, "log_m", P);
  const fopo_policy_kind *part = part_kind(&f->facts->options);
  if (has_wrong_part(&f->facts->options)) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its dense part is no policy of dense scores", f->path);
  }
  if (status == FOPO_OK && part != NULL) status = part->load(f);
  int valued = has(&f->facts->options, C2) || fopo_archive_find(f->archive, "log_v") != NULL;
  if (status == FOPO_OK && valued) status = check_numbers(f, "log_v", P);
  return status == FOPO_OK ? check_numbers(f, "weights", ids->shape[0]) : status;
}

static const char *const scored_items[] = {"candidates", "all", NULL}; /* fopo_scored */

#define X(name) #name,
static const char *const dense_kinds[] = {"none",
#include "policy/policies.def"
                                          NULL};
#undef X

static const fopo_option options[] = {
    {.name = "tau",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_ABOVE | FOPO_OPTION_AUTO,
     .member = offsetof(fopo_policy_options, own[TAU]),
     .standard = 0,
     .text =
         "the first tau; auto: by the expected reward of held out users, or 500 where none are"},
    {.name = "dense_start",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_SAVED,
     .member = offsetof(fopo_policy_options, own[DENSE_START]),
     .standard = 0,
     .text = "the first t of the dense part, which needs items; 0: there is no dense part"},
    {.name = "value_start",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_SAVED,
     .member = offsetof(fopo_policy_options, own[VALUE_START]),
     .standard = 0,
     .text = "the first c2, which needs value; 0: what items are worth plays no part"},
    {.name = "dense_kind",
     .type = FOPO_OPTION_CHOICE,
     .flags = FOPO_OPTION_SAVED,
     .member = offsetof(fopo_policy_options, dense_kind),
     .choices = dense_kinds,
     .text = "of the policy that is the dense part"},
    {.name = "scored",
     .type = FOPO_OPTION_CHOICE,
     .flags = FOPO_OPTION_SAVED,
     .member = offsetof(fopo_policy_options, scored),
     .choices = scored_items,
     .text =
         "which items have scores, and can be recommended: the candidates, or all, by the dense "
         "part: see below"},
    {0}};

const fopo_policy_kind fopo_policy_neighbours = {
    .name = "neighbours",
    .more_columns = FOPO_LIST_SCALARS,
    .fill_items = fill_items,
    .init = init,
    .optional = "bias, importance",
    .parameter = parameter,
    .queries = queries,
    .reference = reference,
    .difference_step = 1e-5,
    .score_list = score_list,
    .reference_list = reference_list,
    .add_list_gradient = add_list_gradient,
    .add_query_gradient = add_query_gradient,
    .part = part_kind,
    .members = members,
    .forward = forward,
    .backward = backward,
    .load = load,
    .shape = shape,
    .describe = describe,
    .options = options,
    .seed = "of the users whose sessions are held out",
    // clang-format off
    .text = "pi(a | X) = exp f(a, X) / Z over all P items without X, the items that the user took, which are masked:\n"
          "  f(a, X) = tau |X|^-1/2 m_a^c1  sum over b in X of m_b^c0 w_ba\n"
          "for the candidates a, for which a weight w_ba is there, and 0 for all others; m = (users of an item + 1) / (their mean + 1).\n"
          "The weights are those of `start`, which is learnt from the sessions first, and stay as they are. Learnt are three scalars:\n"
          "c0, what a popular item of X says less (it ends below 0), c1, how much popular items are preferred, and log tau, how\n"
          "sharp the softmax is. Z needs the candidates alone, so the gradient is exact and its cost does not depend on P\n"
          "(fopo.gradient.sparse, the default of fopo.trainer for such a policy).\n"
          "A start that was learnt from all users knows each of them, so that their sessions look better than those of new users.\n"
          "Training contexts are scored by weights that do not know their user. Of similarities and of all weights of EASE (up to\n"
          "0.5 GB) these follow by a formula, and all of data are trained on. Others, as EASE cut to its largest, are learnt anew\n"
          "for `held` contexts or more, in tenths of the users, each without that tenth (cross-fitting).\n"
          "pi:training() are these sessions. The policy itself has the weights of all users.\n"
          "The start is chosen by such contexts: c0 of 0, -0.2, -0.4 and -0.6, of slim with l2 of 10, 30, 100, 300 and 1000, by\n"
          "the reward and, where chance can make its difference, by NDCG@20; those of 0 and 100 unless one of the two is larger by\n"
          "more than chance. tau is the smallest of 125, 250, .. 16000 whose expected reward is 98 % of the largest: from smaller\n"
          "ones training sharpens the softmax by what it should not, and from larger ones it has no gradient.\n"
          "With items there is a dense part too, t x . beta_a of the candidates, x the context of X by `contexts`, and t is learnt.\n"
          "Items know the users that they were made of, as starts do: given as a function of sessions, they are made once more\n"
          "without each tenth of the users, and score the dense part of training contexts.\n"
          "With dense = a policy its scores are the dense part, t from 1 / its temperature on: trained before, or with the scalars\n"
          "where learn names theta or W1, b1, .. (lr_of gives them a rate). It knows the users that are trained on: choose t by\n"
          "validation. With scored = \"all\" items that are no candidates have the dense score, in the place of 0, and can be\n"
          "recommended. Then the gradient is that of the candidates, of Y and of a uniform tail (fopo.gradient.sparse), and\n"
          "evaluation and recommending read all P rows of items.\n"
          "With value scores are multiplied by v_a^c2, v what an item is worth relative to the mean of those above 0, and c2 is\n"
          "learnt from 1 on, where an EASE or kNN start ranks by its scores times value. Train with reward =\n"
          "fopo.reward.hits(s.train, {value = ..}).\n"
          "`learn` names the blocks that are learnt: c0, c1, log_tau, dense and c2, theta for these, bias, importance and weights. bias\n"
          "[P] is added to f of the candidates, and importance [P] is of the items of X: exp(importance_b) multiplies what b says.\n"
          "Both are there only if they are named, and cost a number an item in every update of the optimiser. Learnt weights are\n"
          "those of the start and a number that is added to each, at a rate of its own, lr_of = {weights = 0.01}; an update moves those\n"
          "of the items of X alone. Of starts that are not similarities all tenths of the users are held out then. They take 16 bytes\n"
          "a weight with fopo.optim.adagrad, and 4 more where validation keeps the best ones.\n"
          "Else a recommendation is a candidate: a user of few items may get fewer than were asked for. pi:explain gives the votes of\n"
          "the items of X; pi:save keeps the weights as rows of a sparse matrix, so that NumPy and SciPy serve it (docs/serving.md).\n"
          "Memory: 8 bytes a weight, and as many for each tenth that is held out. Source: item-based recommendation (Deshpande and\n"
          "Karypis 2004); SLIM of few items (Ning and Karypis 2011) and EASE (Steck 2019) as starts.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
               "pi = fopo.policy.neighbours{data = s.train, start = \"cosine\"}\n"
               "t = fopo.trainer{policy = pi, data = s.train}\n"
               "t:run{epochs = 2, view = false}\n"
               "assert(fopo.evaluate(pi, s.test).reward > 0.05)",
    // clang-format on
};
