/* Off-policy evaluation, the pass over the catalogue: pi(a_i | x_i) of the logged actions and
 * E_pi r_M(., x_i), for blocks of contexts.
 *
 * Exactly: tiles of items are scored by GEMM, and each context keeps a running maximum m of its
 * scores with the sums relative to it (the streaming log-sum-exp),
 *
 *   z = sum_a exp(f_a - m),   zr = sum_a exp(f_a - m) r_M(a),
 *
 * which are multiplied by exp(m_old - m) when a tile raises m. Sums are in double. A block's shape
 * follows from the sizes alone and a context is summed by one thread in the order of the items, so
 * the number of threads changes no bit.
 *
 * A model of low rank gives the rewards of a tile by a second GEMM. The pass is a loop turned
 * inside out, because the caller fills the rewards of a custom model: it stops when it needs some,
 * and the next call continues it. */
#include "judge/ope.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"

enum {
  CONTEXTS = 256,          /* of a block: one pass over the items serves them all */
  ITEMS = 4096,            /* of a tile; its scores take 4 MB */
  DRAWS = CONTEXTS * ITEMS /* most rewards handed out at once */
};

/* What the next call continues with. */
typedef enum {
  NEXT_BLOCK,
  KEEP_LOGGED, /* r_M of the logged actions is there */
  CATALOGUE,   /* the actions of the policy */
  SUM_TILE,
  WEIGH_DRAWS,
  KEEP_BEST, /* r_M of the best actions is there, if there is a model */
  ALL_DONE
} stage;

struct fopo_ope {
  fopo_ope_options o;
  size_t n, P, block, wide; /* contexts of a block, rewards of a context handed out at once */

  stage stage;
  size_t first, count; /* this block's contexts */
  size_t item, width;  /* this tile's items */

  fopo_matrix Q;        /* [block, L] */
  float *scores;        /* [block, wide] */
  float *logq;          /* [block, S] sampled */
  uint32_t *ids, *rows; /* [block, wide], [block] what rewards are wanted for */
  float *reward;        /* [block, wide] */
  uint32_t *found;      /* [block] how many the index found */
  float *m;             /* [block] */
  double *z, *zr;       /* [block] */
  size_t n_rewards;     /* rewards of a context that wait to be checked */

  fopo_index *own_index;                        /* of a proposal without one; NULL: none */
  double *chance, *logged, *expected, *z_error; /* [n] */
  size_t unanswered;
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- the arguments ---- */

static int check_events(const fopo_logs *logs) {
  for (size_t i = 0; i < logs->n; i++) {
    double p = (double)logs->propensities[i], r = (double)logs->rewards[i];
    if (logs->actions[i] >= logs->n_actions) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "event %zu shows action %zu of %zu", i + 1,
                       (size_t)logs->actions[i] + 1, logs->n_actions);
    }
    if (!(p > 0.0 && p <= 1.0)) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the propensity of event %zu is %g; it is the probability that its action "
                       "was shown, 0 < p <= 1",
                       i + 1, p);
    }
    if (!isfinite(r)) {
      return fopo_fail(FOPO_ERR_NUMERIC, "the reward of event %zu is %g; rewards must be finite",
                       i + 1, r);
    }
  }
  return FOPO_OK;
}

static int check_index(const fopo_ope_options *o) {
  if (o->samples > 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "an argmax policy has no normaliser to sample; leave out "
                                        "samples, or evaluate the softmax");
  }
  return fopo_policy_check_index(o->index, o->pi->items.rows, o->pi->items.cols);
}

static int check_model(const fopo_ope_options *o) {
  const fopo_reward_kind *kind = o->model->kind;
  if (kind->needs & FOPO_REWARD_OF_ANY_ITEM) {
    return fopo_reward_check(o->model, o->logs->n, o->pi->items.rows);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the reward \"%s\" holds what the log's actions earned and "
                   "is no model of other actions; use a direct reward, or a function",
                   kind->title);
}

static int check(const fopo_ope_options *o) {
  size_t P = o->pi->items.rows;
  if (o->logs->n_actions != P) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the log has %zu actions but the policy chooses from %zu items; action j of "
                     "the log must be row j of the items",
                     o->logs->n_actions, P);
  }
  int status = fopo_policy_check_contexts(o->pi, o->logs->contexts);
  if (status == FOPO_OK) status = check_events(o->logs);
  if (status == FOPO_OK && o->index != NULL) status = check_index(o);
  if (status == FOPO_OK && o->model != NULL) status = check_model(o);
  if (status == FOPO_OK && o->samples > 0) {
    status = fopo_proposal_check(&o->proposal, P, o->pi->items.cols);
  }
  if (status == FOPO_OK && (o->samples == 1 || o->samples > DRAWS)) {
    status = fopo_fail(FOPO_ERR_ARGUMENT, "samples is %zu; a standard error needs 2 to %d draws",
                       o->samples, DRAWS);
  }
  return status;
}

/* ---- making ---- */

static int reserve(fopo_ope *o) {
  size_t n = o->n, B = o->block, cells = B * o->wide, L = o->o.pi->items.cols;
  if (fopo_matrix_init(&o->Q, B, L) != FOPO_OK) return FOPO_ERR_MEMORY;
  o->scores = fopo_alloc(cells, sizeof *o->scores);
  o->ids = fopo_alloc(cells, sizeof *o->ids);
  o->rows = fopo_alloc(B, sizeof *o->rows);
  o->found = fopo_alloc(B, sizeof *o->found);
  o->m = fopo_alloc(B, sizeof *o->m);
  o->z = fopo_alloc(B, sizeof *o->z);
  o->zr = fopo_alloc(B, sizeof *o->zr);
  o->chance = fopo_alloc(n, sizeof *o->chance);
  if (!o->scores || !o->ids || !o->rows || !o->found || !o->m || !o->z || !o->zr || !o->chance) {
    return FOPO_ERR_MEMORY;
  }
  if (o->o.samples > 0) {
    o->logq = fopo_alloc(cells, sizeof *o->logq);
    o->z_error = fopo_alloc(n, sizeof *o->z_error);
    if (!o->logq || !o->z_error) return FOPO_ERR_MEMORY;
  }
  if (o->o.model != NULL) {
    o->reward = fopo_alloc(cells, sizeof *o->reward);
    o->logged = fopo_alloc(n, sizeof *o->logged);
    o->expected = fopo_alloc(n, sizeof *o->expected);
    if (!o->reward || !o->logged || !o->expected) return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

/* A proposal without an index searches in one over the policy's items. */
static int make_index(fopo_ope *o) {
  fopo_proposal *q = &o->o.proposal;
  if (o->o.samples == 0 || !fopo_proposal_uses_index(q) || q->index != NULL) return FOPO_OK;
  int status = fopo_index_norm(&o->own_index, o->o.pi->items, 0);
  q->index = o->own_index;
  return status;
}

int fopo_ope_new(fopo_ope **out, const fopo_ope_options *options) {
  *out = NULL;
  int status = check(options);
  if (status != FOPO_OK) return status;
  fopo_ope *o = fopo_alloc(1, sizeof *o);
  if (o == NULL) return FOPO_ERR_MEMORY;

  o->o = *options;
  o->n = options->logs->n;
  o->P = options->pi->items.rows;
  o->wide = options->index != NULL ? 1
            : options->samples > 0 ? options->samples
                                   : least(ITEMS, o->P);
  o->block = least(least(CONTEXTS, DRAWS / o->wide), o->n);
  status = reserve(o);
  if (status == FOPO_OK) status = make_index(o);
  if (status != FOPO_OK) {
    fopo_ope_free(o);
    return status;
  }
  *out = o;
  return FOPO_OK;
}

void fopo_ope_free(fopo_ope *o) {
  if (o == NULL) return;
  fopo_matrix_done(&o->Q);
  fopo_index_free(o->own_index);
  void *const owned[] = {o->scores, o->logq, o->ids,    o->rows,   o->reward,   o->found,  o->m,
                         o->z,      o->zr,   o->chance, o->logged, o->expected, o->z_error};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) fopo_free(owned[i]);
  fopo_free(o);
}

/* ---- rewards ---- */

/* R = link(U F^T) for this block's events and this tile's items. */
static int model_tile(fopo_ope *o) {
  const fopo_low_rank *m = &o->o.model->model;
  const fopo_kernels *kernels = fopo_kernels_get();
  fopo_matrix U = fopo_matrix_const_view(m->users, o->n, m->rank);
  fopo_matrix F = fopo_matrix_const_view(m->items, o->P, m->rank);
  fopo_matrix R = fopo_matrix_view(o->reward, o->count, o->width);
  float sign = m->logistic ? -1.0f : 1.0f;
  int status = fopo_gemm(R, sign, fopo_matrix_rows(U, o->first, o->count), 0,
                         fopo_matrix_rows(F, o->item, o->width), 1, 0.0f);
  if (status != FOPO_OK || !m->logistic) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < o->count; b++) {
    float *r = fopo_matrix_row(R, b);
    for (size_t j = 0; j < o->width; j++) r[j] = r[j] > 80.0f ? 80.0f : r[j]; /* exp is finite */
    kernels->exp_sum(r, r, 0.0f, o->width);
    for (size_t j = 0; j < o->width; j++) r[j] = 1.0f / (1.0f + r[j]);
  }
  return FOPO_OK;
}

/* Continues at `then`; with a model, after the rewards of ids [count, S] have been filled. */
static int continue_at(fopo_ope *o, fopo_drawn *drawn, size_t S, stage then) {
  const fopo_reward *model = o->o.model;
  o->stage = then;
  if (model == NULL) return FOPO_OK;
  o->n_rewards = S;
  if ((model->kind->needs & FOPO_REWARD_IS_MODEL) && then == SUM_TILE) return model_tile(o);
  if (!fopo_reward_from_caller(model)) {
    return fopo_reward_fill(o->reward, model, o->ids, o->rows, o->count, S);
  }
  for (size_t k = 0; k < o->count * S; k++) o->reward[k] = NAN;
  *drawn = (fopo_drawn){.ids = o->ids, .rows = o->rows, .reward = o->reward, .B = o->count, .S = S};
  return FOPO_DRAWN;
}

/* Every reward that the model gave must be finite. */
static int check_rewards(fopo_ope *o) {
  size_t S = o->n_rewards;
  o->n_rewards = 0;
  for (size_t k = 0; k < o->count * S; k++) {
    if (!isfinite(o->reward[k])) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the model's reward of item %zu in event %zu is %g; it must be finite",
                       (size_t)o->ids[k] + 1, o->first + k / S + 1, (double)o->reward[k]);
    }
  }
  return FOPO_OK;
}

/* ---- a block of contexts ---- */

static int next_block(fopo_ope *o, fopo_drawn *drawn) {
  o->first += o->count;
  o->count = least(o->block, o->n - o->first);
  o->item = o->width = 0;
  if (o->count == 0) {
    o->stage = ALL_DONE;
    return FOPO_OK;
  }
  fopo_matrix Q = fopo_matrix_rows(o->Q, 0, o->count);
  fopo_matrix x = fopo_matrix_rows(o->o.logs->contexts, o->first, o->count);
  int status = fopo_policy_queries(Q, o->o.pi, x);
  if (status == FOPO_OK) status = fopo_matrix_finite(Q, "a context's query (context times theta)");
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < o->count; b++) {
    o->rows[b] = (uint32_t)(o->first + b);
    o->ids[b] = o->o.logs->actions[o->first + b];
    o->m[b] = -INFINITY;
    o->z[b] = o->zr[b] = 0.0;
  }
  return continue_at(o, drawn, 1, o->o.model != NULL ? KEEP_LOGGED : CATALOGUE);
}

static int keep_logged(fopo_ope *o) {
  for (size_t b = 0; b < o->count; b++) o->logged[o->first + b] = (double)o->reward[b];
  o->stage = CATALOGUE;
  return FOPO_OK;
}

static double logged_score(const fopo_ope *o, size_t b) {
  fopo_matrix items = o->o.pi->items;
  const float *beta = fopo_matrix_row(items, o->o.logs->actions[o->first + b]);
  return (double)fopo_kernels_get()->dot(fopo_matrix_row(o->Q, b), beta, items.cols);
}

/* ---- exactly ---- */

static int score_tile(fopo_ope *o, fopo_drawn *drawn) {
  o->width = least(o->wide, o->P - o->item);
  fopo_matrix scores = fopo_matrix_view(o->scores, o->count, o->width);
  int status = fopo_gemm(scores, 1.0f, fopo_matrix_rows(o->Q, 0, o->count), 0,
                         fopo_matrix_rows(o->o.pi->items, o->item, o->width), 1, 0.0f);
  for (size_t b = 0; o->o.model != NULL && b < o->count; b++) {
    for (size_t j = 0; j < o->width; j++) o->ids[b * o->width + j] = (uint32_t)(o->item + j);
  }
  return status == FOPO_OK ? continue_at(o, drawn, o->width, SUM_TILE) : status;
}

static void sum_context(fopo_ope *o, size_t b) {
  const fopo_kernels *kernels = fopo_kernels_get();
  float *f = o->scores + b * o->width, largest = kernels->max(f, o->width);
  if (largest > o->m[b]) {
    double factor = exp((double)o->m[b] - (double)largest);
    o->z[b] *= factor;
    o->zr[b] *= factor;
    o->m[b] = largest;
  }
  o->z[b] += kernels->exp_sum(f, f, o->m[b], o->width);
  if (o->o.model == NULL) return;
  double sums[3];
  kernels->moments(sums, f, o->reward + b * o->width, o->width);
  o->zr[b] += sums[2];
}

/* pi(a_i | x_i) = exp(f - m) / z;  E_pi r_M = zr / z */
static int end_exact(fopo_ope *o) {
  for (size_t b = 0; b < o->count; b++) {
    size_t i = o->first + b;
    if (!isfinite(o->z[b])) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the policy's scores in event %zu are too large for a "
                       "float; look at theta and at the contexts",
                       i + 1);
    }
    o->chance[i] = fmin(exp(logged_score(o, b) - (double)o->m[b]) / o->z[b], 1.0);
    if (o->o.model != NULL) o->expected[i] = o->zr[b] / o->z[b];
  }
  o->stage = NEXT_BLOCK;
  return FOPO_OK;
}

static int sum_tile(fopo_ope *o, fopo_drawn *drawn) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < o->count; b++) sum_context(o, b);
  o->item += o->width;
  return o->item < o->P ? score_tile(o, drawn) : end_exact(o);
}

/* ---- by sampling ---- */

static int draw(fopo_ope *o, fopo_drawn *drawn) {
  fopo_matrix items = o->o.pi->items, Q = fopo_matrix_rows(o->Q, 0, o->count);
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t S = o->o.samples;
  fopo_draw_key key = {.seed = o->o.seed};
  int status = fopo_proposal_sample(o->ids, o->logq, &o->o.proposal, o->o.pi, Q, o->rows, S, key);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < o->count; b++) {
    kernels->gather_dot(o->scores + b * S, items.x, items.ld, o->ids + b * S, S,
                        fopo_matrix_row(Q, b), items.cols);
  }
  return continue_at(o, drawn, S, WEIGH_DRAWS);
}

static void weigh_context(fopo_ope *o, size_t b) {
  size_t S = o->o.samples, i = o->first + b;
  uint32_t logged = o->o.logs->actions[i];
  const uint32_t *ids = o->ids + b * S;
  const float *f = o->scores + b * S, *logq = o->logq + b * S;
  double own = logged_score(o, b), m = own;
  for (size_t s = 0; s < S; s++) m = fmax(m, (double)f[s] - (double)logq[s]);

  /* u_s = 1[a_s != a_i] exp(f_s - log q_s - m):  Z exp(-m) = exp(f_i - m) + mean(u) */
  double sum = 0.0, squares = 0.0, rewards = 0.0;
  for (size_t s = 0; s < S; s++) {
    double u = ids[s] == logged ? 0.0 : exp((double)f[s] - (double)logq[s] - m);
    sum += u;
    squares += u * u;
    if (o->o.model != NULL) rewards += u * (double)o->reward[b * S + s];
  }
  double n = (double)S, mean = sum / n, e = exp(own - m), z = e + mean;
  o->chance[i] = e / z;
  o->z_error[i] = sqrt(fmax(squares / n - mean * mean, 0.0) / (n - 1.0)) / z;
  if (o->o.model != NULL) o->expected[i] = (e * o->logged[i] + rewards / n) / z;
}

static int weigh_draws(fopo_ope *o) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < o->count; b++) weigh_context(o, b);
  o->stage = NEXT_BLOCK;
  return FOPO_OK;
}

/* ---- argmax ---- */

static int find_best(fopo_ope *o, fopo_drawn *drawn) {
  int status = fopo_index_search(o->ids, o->scores, o->found, o->o.index,
                                 fopo_matrix_rows(o->Q, 0, o->count), 1);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < o->count; b++) {
    uint32_t logged = o->o.logs->actions[o->first + b];
    o->chance[o->first + b] = o->found[b] > 0 && o->ids[b] == logged ? 1.0 : 0.0;
    if (o->found[b] > 0) continue;
    o->unanswered++;
    o->ids[b] = logged; /* an id that the model knows; its answer is not used */
  }
  return continue_at(o, drawn, 1, KEEP_BEST);
}

/* If the index found nothing, nothing is shown and nothing earned. */
static int keep_best(fopo_ope *o) {
  for (size_t b = 0; o->o.model != NULL && b < o->count; b++) {
    o->expected[o->first + b] = o->found[b] > 0 ? (double)o->reward[b] : 0.0;
  }
  o->stage = NEXT_BLOCK;
  return FOPO_OK;
}

/* ---- the loop ---- */

static int step(fopo_ope *o, fopo_drawn *drawn) {
  switch (o->stage) {
  case NEXT_BLOCK: return next_block(o, drawn);
  case KEEP_LOGGED: return keep_logged(o);
  case CATALOGUE:
    if (o->o.index != NULL) return find_best(o, drawn);
    return o->o.samples > 0 ? draw(o, drawn) : score_tile(o, drawn);
  case SUM_TILE: return sum_tile(o, drawn);
  case WEIGH_DRAWS: return weigh_draws(o);
  case KEEP_BEST: return keep_best(o);
  case ALL_DONE: break;
  }
  return FOPO_OK;
}

int fopo_ope_run(fopo_ope *o, fopo_drawn *drawn) {
  int status = FOPO_OK;
  while (status == FOPO_OK && o->stage != ALL_DONE) {
    double share = o->stage == SUM_TILE ? (double)o->item / (double)o->P : 0.0;
    status = fopo_progress("evaluating off policy", (double)o->first + share * (double)o->count,
                           (double)o->n);
    if (status == FOPO_OK) status = check_rewards(o);
    if (status == FOPO_OK) status = step(o, drawn);
  }
  if (status == FOPO_OK) {
    status = fopo_progress("evaluating off policy", (double)o->n, (double)o->n);
  }
  return status;
}

fopo_ope_terms fopo_ope_result(const fopo_ope *o) {
  return (fopo_ope_terms){.n = o->n,
                          .chance = o->chance,
                          .logged = o->logged,
                          .expected = o->expected,
                          .z_error = o->z_error,
                          .unanswered = o->unanswered};
}
