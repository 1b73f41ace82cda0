/* The exact gradient of a policy that scores lists (policy/lists.h): all items but the candidates
 * of a context have the same score, 0, whatever theta is. So the sums over the catalogue are those
 * over the candidates and a count, nothing is drawn, and the cost does not depend on P.
 *
 * With FOPO_SCORED_ALL the others have scores too, and the sums over them are estimated: U draws,
 * one in each of U equal strips of all P items by id, stand for P / U items each, unless they are
 * masked, candidates or in Y, which all stand for themselves. Y would be most of the variance. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "learn/batch.h"

static int scores_all(const fopo_batch *b) {
  return b->data->policy->options.scored == FOPO_SCORED_ALL;
}

static size_t draws(const fopo_batch *b) {
  size_t U = b->options->samples, P = b->data->P;
  if (!scores_all(b)) return 1; /* which nobody reads */
  return U < P ? U : P;
}

/* As a tail outside heads that are empty. */
static int draw(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_candidates *c = &b->candidates;
  fopo_candidate_sets none = {.k = 0, .ids = b->draws.samples.ids, .counts = c->device.counts};
  if (scores_all(b)) return d->ops->draw_tail(d, &b->draws.samples, &none, &b->piece.device);
  memset(b->draws.samples.ids, 0, b->piece.n * sizeof *b->draws.samples.ids);
  return FOPO_OK;
}

/* What a context earns: the items of Y, 1 each or its value, or the credit of the logged action. */
typedef struct {
  const uint32_t *ids; /* [n] */
  size_t n;
  const float *value; /* [P] what each item earns; NULL: `each` */
  float each;
} earnings;

static earnings earnings_of(const fopo_sparse_reward *r, uint32_t context) {
  if (r->Y.indptr != NULL) {
    const uint32_t *ids = fopo_csr_row(&r->Y, context);
    return (earnings){ids, fopo_csr_count(&r->Y, context), r->value, 1.0f};
  }
  const fopo_credit *c = &r->credit;
  float credit = c->weight[context] * (c->gain[context] - c->shift);
  return (earnings){&c->action[context], 1, NULL, credit};
}

static double earning(const earnings *e, size_t i) {
  return (double)(e->value != NULL ? e->value[e->ids[i]] : e->each);
}

/* v [4] += c times the slopes of an item; those of an item that is no candidate are 0. */
static void add_slopes(double *v, const fopo_list_row *row, uint32_t id, double c) {
  uint32_t place = row->place[id];
  if (place == 0 || place == FOPO_LIST_MASKED) return;
  const float *slope = row->slopes + (size_t)(place - 1) * FOPO_LIST_SCALARS;
  for (size_t j = 0; j < FOPO_LIST_SCALARS; j++) v[j] += c * (double)slope[j];
}

/* v [4] = sum over a of c_a df_a, c_a = pi_a (gamma (r_a - R) + alpha), and of target items the
 * mean of their slopes, weighted by what they earn, in addition. With pi = w / W this is
 *
 *   (alpha - gamma R) / W  sum over candidates of w_a df_a  +  gamma / W  sum of w_a r_a df_a,
 *
 * where the second sum has the few items that earn something. c [row->n] becomes c_a, if it is not
 * NULL. */
static void estimate(float *V, float *stats, float *c, const fopo_list_row *row,
                     const fopo_list_sums *s, const earnings *e, fopo_objective_kind objective) {
  double v[FOPO_LIST_SCALARS] = {0.0}, all[FOPO_LIST_SCALARS] = {0.0}, R = 0.0, target = 0.0;
  double worth = 0.0; /* of the target items that are not masked */
  memset(stats, 0, FOPO_STATS * sizeof *stats);
  if (c != NULL) memset(c, 0, row->n * sizeof *c);
  if (s->w == 0.0) return; /* all items are masked */
  for (size_t i = 0; i < e->n; i++) {
    R += earning(e, i) * fopo_list_weight(row, s, e->ids[i]) / s->w;
    if (row->place[e->ids[i]] == FOPO_LIST_MASKED) continue;
    target += earning(e, i) * (double)fopo_list_score(row, e->ids[i]);
    worth += earning(e, i);
  }
  fopo_objective_rule rule = fopo_objective_rule_of(objective, R, s->top, s->w);
  for (size_t i = 0; i < row->n; i++) {
    const float *slope = row->slopes + i * FOPO_LIST_SCALARS;
    for (size_t j = 0; j < FOPO_LIST_SCALARS; j++) all[j] += (double)(row->w[i] * slope[j]);
  }
  double all_c = (rule.alpha - rule.gamma * R) / s->w;
  for (size_t j = 0; j < FOPO_LIST_SCALARS; j++) v[j] = all_c * all[j];
  for (size_t i = 0; c != NULL && i < row->n; i++) c[i] = (float)(all_c * (double)row->w[i]);
  int targets = fopo_objective_rows[objective].targets;
  for (size_t i = 0; i < e->n; i++) {
    double pi = fopo_list_weight(row, s, e->ids[i]) / s->w;
    double r = earning(e, i);
    double own = rule.gamma * pi * r + (targets && worth > 0.0 ? r / worth : 0.0);
    uint32_t place = row->place[e->ids[i]];
    add_slopes(v, row, e->ids[i], own);
    if (c != NULL && place > 0 && place != FOPO_LIST_MASKED) c[place - 1] += (float)own;
  }
  if (targets && worth == 0.0) { /* the likelihood of nothing is 0 */
    memset(v, 0, sizeof v);
    if (c != NULL) memset(c, 0, row->n * sizeof *c);
  } else {
    stats[FOPO_STAT_REWARD] = (float)(targets ? target / worth - rule.value : rule.value);
  }
  for (size_t j = 0; j < FOPO_LIST_SCALARS; j++) V[j] = (float)v[j];
  stats[FOPO_STAT_ESS] = (float)(s->w * s->w / s->ww);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1.0 / s->w); /* weights are relative to the largest */
  stats[FOPO_STAT_HEAD_MASS] = (float)(s->candidates / s->w);
}

static fopo_list_context context_at(const fopo_batch *b, size_t i) {
  const fopo_span *x = &b->piece;
  uint32_t n = x->rows[i];
  return (fopo_list_context){.X = fopo_csr_row(&b->data->X, n),
                             .n = fopo_csr_count(&b->data->X, n),
                             .q = fopo_matrix_row(x->Q, i),
                             .row = n};
}

/* v and the statistics of the i-th context of the piece, and c; row stays as it was scored. */
static void estimate_at(const fopo_batch *b, float *c, fopo_list_row *row, size_t i,
                        const fopo_sparse_reward *reward) {
  const fopo_policy *pi = b->data->policy;
  const fopo_span *x = &b->piece;
  fopo_list_context context = context_at(b, i);
  earnings e = earnings_of(reward, x->rows[i]);
  const uint32_t *drawn = b->draws.samples.ids + i * b->S;
  float log_share = (float)log((double)b->data->P / (double)b->S);
  fopo_list_tail tail = {e.ids, drawn, e.n, b->S, log_share};
  float *V = fopo_matrix_row(x->V, i);
  memset(V, 0, x->V.cols * sizeof *V);
  context.tail = &tail;
  pi->kind->score_list(row, pi, b->theta, &context);
  fopo_list_sums s = fopo_list_normalise(row);
  estimate(V + x->V.cols - FOPO_LIST_SCALARS, x->stats + i * FOPO_STATS, c, row, &s, &e,
           b->options->objective);
  if (c != NULL && pi->kind->add_query_gradient != NULL) {
    pi->kind->add_query_gradient(V, row, pi, b->theta);
  }
}

/* Adds what the i-th context has to the gradient of what stands behind the scalars. */
static void add_at(fopo_batch *b, fopo_list_row *row, size_t i) {
  const fopo_policy *pi = b->data->policy;
  fopo_list_context context = context_at(b, i);
  float scale = 1.0f / (float)b->B;
  for (size_t k = 0; k < row->n; k++) row->c[k] *= scale;
  fopo_list_gradient to = {b->arrays.G, NULL, NULL};
  if (pi->learns[FOPO_BLOCK_WEIGHTS]) to.weights = b->weights.sum.rows, to.first = b->weights.first;
  pi->kind->add_list_gradient(&to, row, pi, b->theta, &context);
}

static void combine_scalars(fopo_batch *b, const fopo_sparse_reward *reward) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < b->piece.n; i++) {
    fopo_list_row *row = &b->lists[omp_get_thread_num()];
    fopo_list_context context = context_at(b, i);
    estimate_at(b, NULL, row, i, reward);
    fopo_list_clear(row, &context);
  }
}

/* Contexts are scored by all threads, but their gradients are added one after the other in their
 * order, so that the bits are the same for any number of threads. */
static void combine_all(fopo_batch *b, const fopo_sparse_reward *reward) {
#pragma omp parallel for ordered num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < b->piece.n; i++) {
    fopo_list_row *row = &b->lists[omp_get_thread_num()];
    fopo_list_context context = context_at(b, i);
    estimate_at(b, row->c, row, i, reward);
#pragma omp ordered
    add_at(b, row, i);
    fopo_list_clear(row, &context);
  }
}

static int combine(fopo_batch *b) {
  size_t more = b->data->n_theta - FOPO_LIST_SCALARS;
  int weights = b->data->policy->learns[FOPO_BLOCK_WEIGHTS];
  fopo_sparse_reward reward = fopo_batch_sparse(b);
  int status = fopo_batch_reserve_lists(b); /* nothing, unless there are more threads now */
  if (status != FOPO_OK) return status;
  if (more > 0 && b->piece.first == 0) {
    memset(b->arrays.G + FOPO_LIST_SCALARS, 0, more * sizeof *b->arrays.G);
  }
  if (weights && b->piece.first == 0) {
    status = fopo_weight_rows_begin(&b->weights, b->data, b->rows, b->B);
    if (status != FOPO_OK) return status;
  }
  if (more > 0 || weights) {
    combine_all(b, &reward);
  } else {
    combine_scalars(b, &reward);
  }
  return FOPO_OK;
}

static int check(const fopo_gradient_options *o, const fopo_estimator_use *use) {
  (void)o;
  if (!fopo_reward_is_sparse(use->reward)) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "the sparse gradient needs a reward of few items of a context; use hits, ips or "
        "switch, not %s",
        use->reward->kind->name);
  }
  return FOPO_OK;
}

static const fopo_option options[] = {
    {.name = "tail",
     .type = FOPO_OPTION_COUNT,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, samples),
     .standard = 1024,
     .least = 1,
     .symbol = "U",
     .text = "U, draws of items outside the candidates, P at most, for policies with scored = "
             "\"all\""},
    {0}};

const fopo_estimator fopo_estimator_sparse = {
    .name = "sparse",
    .title = "sparse",
    .needs = FOPO_TAKES_OBJECTIVES | FOPO_SCORES_LISTS,
    .draws = draws,
    .check = check,
    .draw = draw,
    .combine = combine,
    .options = options,
    // clang-format off
    .text = "The exact gradient of fopo.policy.neighbours: v = sum_a pi_a (r_a - E_pi r) df_a over the candidates of\n"
            "a context, by the scalars that its scores depend on. All other items have the score 0 whatever is\n"
            "learnt, and are counted: no bias, no variance, no draws, and a cost that does not depend on P. It\n"
            "runs on the CPU.\n"
            "Where all items have scores, by a dense part (scored = \"all\" of the policy), it is that of head and\n"
            "tail: the candidates, which are the head, and the items of Y stand for themselves, and U draws, one in\n"
            "each of U equal strips of the P items by id, for P / U items each, but for those that are candidates,\n"
            "seen or in Y. Bias of order 1 / U, of the tail alone; none with U = P. Cost: U rows a context more.",
    .example = "g = fopo.gradient.sparse{}",
    // clang-format on
};
