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
 * Where the catalogue is dealt out, each rank sums over the items, or the draws, of its part, and
 * the sums of a block are joined by one message (ope_join.h); all ranks then hold the same terms.
 *
 * A model of low rank gives the rewards of a tile by a second GEMM. The caller fills those of a
 * custom model, so the pass is a loop turned inside out: it stops when it needs some, and the next
 * call continues with the next stage. */
#include "judge/ope.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/ope_join.h"
#include "kernels/kernels.h"
#include "kernels/product.h"
#include "policy/recommend.h"

enum {
  BLOCK_CONTEXTS = 256,                    /* of a block: one pass over the items serves them all */
  TILE_ITEMS = 4096,                       /* of a tile; its scores take 4 MB */
  MOST_DRAWS = BLOCK_CONTEXTS * TILE_ITEMS /* most rewards handed out at once */
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
} ope_stage;

struct fopo_ope {
  fopo_ope_options o;
  const fopo_shard *shard; /* whose part the items are; NULL: they are all of the catalogue */
  size_t n, P;             /* P: items here */
  size_t block, wide;      /* contexts of a block, rewards of a context handed out at once */

  ope_stage stage;
  size_t first, count; /* this block's contexts */
  size_t item, width;  /* this tile's items */

  fopo_matrix Q;        /* [block, L] */
  float *scores;        /* [block, wide] */
  float *logq;          /* [block, S] sampled */
  uint32_t *ids, *rows; /* [block, wide], [block] what rewards are wanted for */
  float *reward;        /* [block, wide] */
  float *features;      /* [wide, rank] of the model's items in a tile of a part; NULL: none */
  uint32_t *found;      /* [block] how many the index found */
  fopo_ope_sums *sums;  /* [block] */
  size_t n_rewards;     /* rewards of a context that wait to be checked */
  float *shown;         /* [actions] 1 of those that the log shows in some event, else 0 */
  float *shown_here;    /* [P] the same of the items here */
  uint32_t *group_here; /* [P] their groups; NULL: none */

  fopo_index *own_index;                        /* of a proposal without one; NULL: none */
  double *chance, *logged, *expected, *z_error; /* [n] */
  double *shown_mass, *group;                   /* [n] */
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
  int status = fopo_score_check_mask(o->sparse, "an argmax policy");
  if (status != FOPO_OK) return status;
  return fopo_policy_check_index(o->index, o->pi->items.rows, o->pi->items.cols);
}

int fopo_ope_check_log(const fopo_logs *logs, const fopo_reward *model) {
  int status = check_events(logs);
  if (status != FOPO_OK || model == NULL) return status;
  const fopo_reward_kind *kind = model->kind;
  if (kind->needs & FOPO_REWARD_OF_ANY_ITEM) {
    return fopo_reward_check(model, logs->n, logs->n_actions);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the reward \"%s\" holds what the log's actions earned and "
                   "is no model of other actions; use a direct reward, or a function",
                   kind->title);
}

static int check(const fopo_ope_options *o) {
  size_t P = fopo_policy_n_items(o->pi);
  if (o->logs->n_actions != P) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the log has %zu actions but the policy chooses from %zu items; action j of "
                     "the log must be row j of the items",
                     o->logs->n_actions, P);
  }
  if (o->shown != NULL && o->shown->n_actions != P) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the log that shows has %zu actions, the other one %zu",
                     o->shown->n_actions, P);
  }
  fopo_contexts contexts = fopo_contexts_of(o->logs->contexts);
  int status = fopo_policy_check_contexts(o->pi, contexts.x);
  if (status == FOPO_OK && o->sparse == NULL) {
    status = fopo_policy_check_lists(o->pi, &contexts);
  }
  if (status == FOPO_OK) status = fopo_ope_check_log(o->logs, o->model);
  if (status == FOPO_OK && o->index != NULL) status = check_index(o);
  if (status == FOPO_OK && o->samples > 0) {
    status = fopo_proposal_check_for(&o->proposal, o->pi);
  }
  if (status == FOPO_OK && (o->samples == 1 || o->samples > MOST_DRAWS)) {
    status = fopo_fail(FOPO_ERR_ARGUMENT, "samples is %zu; a standard error needs 2 to %d draws",
                       o->samples, MOST_DRAWS);
  }
  return status;
}

/* ---- rewards ---- */

/* F [width, rank]: what the model knows of this tile's items. */
static fopo_matrix model_items(fopo_ope *o) {
  const fopo_low_rank *m = &o->o.model->model;
  if (o->shard == NULL) {
    return fopo_matrix_rows(fopo_matrix_const_view(m->items, o->P, m->rank), o->item, o->width);
  }
  for (size_t j = 0; j < o->width; j++) {
    const float *row = m->items + (size_t)o->shard->id[o->item + j] * m->rank;
    memcpy(o->features + j * m->rank, row, m->rank * sizeof *row);
  }
  return fopo_matrix_view(o->features, o->width, m->rank);
}

/* R = link(U F^T) for this block's events and this tile's items. */
static int model_tile(fopo_ope *o) {
  const fopo_low_rank *m = &o->o.model->model;
  const fopo_kernels *kernels = fopo_kernels_get();
  fopo_matrix U = fopo_matrix_const_view(m->users, o->n, m->rank);
  fopo_matrix R = fopo_matrix_view(o->reward, o->count, o->width);
  float sign = m->logistic ? -1.0f : 1.0f;
  int status =
      fopo_product(R, sign, fopo_matrix_rows(U, o->first, o->count), 0, model_items(o), 1, 0.0f);
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
static int continue_at(fopo_ope *o, fopo_drawn *drawn, size_t S, ope_stage then) {
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

/* Every reward that the model gave for the stage at hand must be finite. */
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

/* The row of sparse scores of context b. */
static fopo_score_row sparse_of(const fopo_ope *o, size_t b) {
  return fopo_score_row_of(o->o.sparse, o->first + b);
}

static double logged_score(const fopo_ope *o, size_t b) {
  fopo_matrix items = o->o.pi->items;
  fopo_score_row sparse = sparse_of(o, b);
  uint32_t action = o->o.logs->actions[o->first + b], row = fopo_shard_row(o->shard, action);
  if (row == UINT32_MAX) return -INFINITY;
  const float *beta = fopo_matrix_row(items, row);
  float f = fopo_kernels_get()->dot(fopo_matrix_row(o->Q, b), beta, items.cols);
  return (double)fopo_score_sum(f, fopo_score_of(&sparse, action));
}

/* Whether the action is in the group of the one that event i shows. */
static int is_of_group(const fopo_ope *o, size_t i, uint32_t action) {
  const uint32_t *groups = o->o.groups;
  return groups != NULL && groups[action] == groups[o->o.logs->actions[i]];
}

/* Context b has no item that is not masked: nothing is shown and nothing earned. */
static void leave_out(fopo_ope *o, size_t b) {
  size_t i = o->first + b;
  o->chance[i] = 0.0;
  o->shown_mass[i] = 1.0;
  if (o->group != NULL) o->group[i] = 0.0;
  if (o->z_error != NULL) o->z_error[i] = 0.0;
  if (o->expected != NULL) o->expected[i] = 0.0;
  o->unanswered++;
}

/* The sums of this block, of all ranks if the items are dealt out. */
static int join_sums(fopo_ope *o, int status) {
  return o->shard == NULL ? status : fopo_ope_join(o->sums, o->count, status);
}

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
    o->sums[b] = (fopo_ope_sums){.m = -INFINITY, .logged = logged_score(o, b)};
  }
  return continue_at(o, drawn, 1, o->o.model != NULL ? KEEP_LOGGED : CATALOGUE);
}

static int keep_logged(fopo_ope *o) {
  for (size_t b = 0; b < o->count; b++) o->logged[o->first + b] = (double)o->reward[b];
  o->stage = CATALOGUE;
  return FOPO_OK;
}

/* ---- exactly ---- */

static int score_tile(fopo_ope *o, fopo_drawn *drawn) {
  o->width = least(o->wide, o->P - o->item);
  fopo_matrix scores = fopo_matrix_view(o->scores, o->count, o->width);
  int status = fopo_product(scores, 1.0f, fopo_matrix_rows(o->Q, 0, o->count), 0,
                            fopo_matrix_rows(o->o.pi->items, o->item, o->width), 1, 0.0f);
  for (size_t b = 0; o->o.model != NULL && b < o->count; b++) {
    for (size_t j = 0; j < o->width; j++) {
      size_t row = o->item + j;
      o->ids[b * o->width + j] = o->shard == NULL ? (uint32_t)row : o->shard->id[row];
    }
  }
  return status == FOPO_OK ? continue_at(o, drawn, o->width, SUM_TILE) : status;
}

/* sum f [width] of this tile's items in the group of event i. */
static double sum_group(const fopo_ope *o, const float *f, size_t i) {
  const uint32_t *groups = o->group_here + o->item, group = o->o.groups[o->o.logs->actions[i]];
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (size_t j = 0; j < o->width; j++) sum += groups[j] == group ? (double)f[j] : 0.0;
  return sum;
}

static void sum_context(fopo_ope *o, size_t b) {
  const fopo_kernels *kernels = fopo_kernels_get();
  float *f = o->scores + b * o->width;
  fopo_ope_sums *s = &o->sums[b];
  fopo_score_row sparse = sparse_of(o, b);
  fopo_score_add(f, &sparse, o->shard != NULL ? &o->shard->part : NULL, o->item, o->width);
  float largest = kernels->max(f, o->width);
  if ((double)largest > s->m) {
    double factor = exp(s->m - (double)largest);
    s->z *= factor;
    s->zr *= factor;
    s->shown *= factor;
    s->group *= factor;
    s->m = (double)largest;
  }
  if (s->m < -DBL_MAX && fopo_score_all_masked(f, o->width)) return;
  s->z += kernels->exp_sum(f, f, (float)s->m, o->width);
  s->shown += (double)kernels->dot(f, o->shown_here + o->item, o->width);
  if (o->group != NULL) s->group += sum_group(o, f, o->first + b);
  if (o->o.model == NULL) return;
  double sums[3];
  kernels->moments(sums, f, o->reward + b * o->width, o->width);
  s->zr += sums[2];
}

/* pi(a_i | x_i) = exp(f - m) / z;  E_pi r_M = zr / z */
static int end_exact(fopo_ope *o) {
  int status = join_sums(o, FOPO_OK);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < o->count; b++) {
    const fopo_ope_sums *s = &o->sums[b];
    size_t i = o->first + b;
    int masked = s->z == 0.0 && sparse_of(o, b).n > 0;
    if (!isfinite(s->z) || (s->z == 0.0 && !masked)) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the policy's scores in event %zu are too large for a "
                       "float; look at theta and at the contexts",
                       i + 1);
    }
    if (masked) {
      leave_out(o, b);
      continue;
    }
    o->chance[i] = fmin(exp(s->logged - s->m) / s->z, 1.0);
    o->shown_mass[i] = fmin(s->shown / s->z, 1.0);
    if (o->group != NULL) o->group[i] = fmin(s->group / s->z, 1.0);
    if (o->o.model != NULL) o->expected[i] = s->zr / s->z;
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

/* f [S] + s of the draws of context b. */
static void add_sparse(const fopo_ope *o, float *f, const uint32_t *ids, size_t b) {
  fopo_score_row sparse = sparse_of(o, b);
  for (size_t s = 0; s < o->o.samples && sparse.n > 0; s++) {
    f[s] = fopo_score_sum(f[s], fopo_score_of(&sparse, ids[s]));
  }
}

/* The scores of the draws of context b; of those that another rank holds, -INFINITY. */
static void score_draws(fopo_ope *o, size_t b) {
  const fopo_kernels *kernels = fopo_kernels_get();
  fopo_matrix items = o->o.pi->items;
  size_t S = o->o.samples;
  const uint32_t *ids = o->ids + b * S;
  const float *q = fopo_matrix_row(o->Q, b);
  float *f = o->scores + b * S;
  if (o->shard == NULL) {
    kernels->gather_dot(f, items.x, items.ld, ids, S, q, items.cols);
    add_sparse(o, f, ids, b);
    return;
  }
  for (size_t s = 0; s < S; s++) {
    uint32_t row = fopo_shard_row(o->shard, ids[s]);
    f[s] = row == UINT32_MAX ? -INFINITY : kernels->dot(q, fopo_matrix_row(items, row), items.cols);
  }
  add_sparse(o, f, ids, b);
}

static int draw(fopo_ope *o, fopo_drawn *drawn) {
  fopo_matrix Q = fopo_matrix_rows(o->Q, 0, o->count);
  size_t S = o->o.samples;
  fopo_draw_key key = {.seed = o->o.seed};
  int status =
      fopo_proposal_sample(o->ids, o->logq, &o->o.proposal, o->o.pi, Q, NULL, o->rows, S, key);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < o->count; b++) score_draws(o, b);
  return continue_at(o, drawn, S, WEIGH_DRAWS);
}

/* u_s = 1[a_s != a_i] exp(f_s - log q_s - m), and their sums. */
static void sum_draws(fopo_ope *o, size_t b) {
  size_t S = o->o.samples, i = o->first + b;
  uint32_t logged = o->o.logs->actions[i];
  const uint32_t *ids = o->ids + b * S;
  const float *f = o->scores + b * S, *logq = o->logq + b * S;
  fopo_ope_sums *sums = &o->sums[b];
  double m = sums->logged;
  for (size_t s = 0; s < S; s++) m = fmax(m, (double)f[s] - (double)logq[s]);
  sums->m = m;
  if (m < -DBL_MAX) return; /* other ranks hold all of them, or all are masked */
  double sum = 0.0, squares = 0.0, rewards = 0.0;
  for (size_t s = 0; s < S; s++) {
    double u = ids[s] == logged ? 0.0 : exp((double)f[s] - (double)logq[s] - m);
    sum += u;
    squares += u * u;
    if (o->shown[ids[s]] > 0.0f) sums->shown += u;
    if (is_of_group(o, i, ids[s])) sums->group += u;
    if (o->o.model != NULL) rewards += u * (double)o->reward[b * S + s];
  }
  sums->z = sum;
  sums->zz = squares;
  sums->zr = rewards;
}

/* Z exp(-m) = exp(f_i - m) + mean(u) */
static void weigh_context(fopo_ope *o, size_t b) {
  const fopo_ope_sums *s = &o->sums[b];
  if (s->m < -DBL_MAX) {
    leave_out(o, b);
    return;
  }
  size_t i = o->first + b;
  double n = (double)o->o.samples, mean = s->z / n, e = exp(s->logged - s->m), z = e + mean;
  o->chance[i] = e / z;
  o->shown_mass[i] = (e + s->shown / n) / z;
  if (o->group != NULL) o->group[i] = (e + s->group / n) / z;
  o->z_error[i] = sqrt(fmax(s->zz / n - mean * mean, 0.0) / (n - 1.0)) / z;
  if (o->o.model != NULL) o->expected[i] = (e * o->logged[i] + s->zr / n) / z;
}

static int weigh_draws(fopo_ope *o) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < o->count; b++) sum_draws(o, b);
  int status = join_sums(o, FOPO_OK);
  for (size_t b = 0; b < o->count && status == FOPO_OK; b++) weigh_context(o, b);
  o->stage = NEXT_BLOCK;
  return status;
}

/* ---- argmax ---- */

/* The best item of each context, without those that are masked. */
static int search_unmasked(fopo_ope *o) {
  fopo_sparse_scores mask = fopo_score_from(o->o.sparse, o->first);
  fopo_recommend_plan plan = {.policy = o->o.pi,
                              .index = o->o.index,
                              .x = fopo_matrix_rows(o->o.logs->contexts, o->first, o->count),
                              .mask = &mask,
                              .may_be_short = 1};
  return fopo_recommend(o->ids, o->scores, o->found, NULL, &plan, 1);
}

static int search(fopo_ope *o) {
  if (o->o.sparse != NULL) return search_unmasked(o);
  return fopo_shard_search(o->ids, o->scores, o->found, o->o.pi->shard, o->o.index,
                           fopo_matrix_rows(o->Q, 0, o->count), 1, 0, 0);
}

static int find_best(fopo_ope *o, fopo_drawn *drawn) {
  int status = search(o);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < o->count; b++) {
    uint32_t logged = o->o.logs->actions[o->first + b];
    size_t i = o->first + b;
    if (o->found[b] == 0) {
      leave_out(o, b);
      o->ids[b] = logged; /* an id that the model knows; its answer is not used */
      continue;
    }
    o->chance[i] = o->ids[b] == logged;
    o->shown_mass[i] = (double)o->shown[o->ids[b]];
    if (o->group != NULL) o->group[i] = is_of_group(o, i, o->ids[b]);
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

/* ---- the stages ---- */

/* One stage: FOPO_OK, FOPO_DRAWN, or a failure. Where the items are dealt out, stages that end a
 * block are collective. */
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

/* ---- making ---- */

static int reserve(fopo_ope *o) {
  size_t n = o->n, B = o->block, cells = B * o->wide, L = o->o.pi->items.cols;
  if (fopo_matrix_init(&o->Q, B, L) != FOPO_OK) return FOPO_ERR_MEMORY;
  o->scores = fopo_alloc(cells, sizeof *o->scores);
  o->ids = fopo_alloc(cells, sizeof *o->ids);
  o->rows = fopo_alloc(B, sizeof *o->rows);
  o->found = fopo_alloc(B, sizeof *o->found);
  o->sums = fopo_alloc(B, sizeof *o->sums);
  o->chance = fopo_alloc(n, sizeof *o->chance);
  o->shown_mass = fopo_alloc(n, sizeof *o->shown_mass);
  o->shown = fopo_alloc(o->o.logs->n_actions, sizeof *o->shown);
  o->shown_here = fopo_alloc(o->P, sizeof *o->shown_here);
  if (!o->scores || !o->ids || !o->rows || !o->found || !o->sums || !o->chance || !o->shown_mass ||
      !o->shown || !o->shown_here) {
    return FOPO_ERR_MEMORY;
  }
  if (o->o.groups != NULL) {
    o->group = fopo_alloc(n, sizeof *o->group);
    o->group_here = fopo_alloc(o->P, sizeof *o->group_here);
    if (!o->group || !o->group_here) return FOPO_ERR_MEMORY;
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
    if (o->shard == NULL || o->o.model->model.items == NULL) return FOPO_OK;
    o->features = fopo_alloc(o->wide * o->o.model->model.rank, sizeof *o->features);
    if (o->features == NULL) return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

/* What is known of actions, of those of the log and of those here. */
static void know_actions(fopo_ope *o) {
  const fopo_logs *shown = o->o.shown != NULL ? o->o.shown : o->o.logs;
  for (size_t i = 0; i < shown->n; i++) o->shown[shown->actions[i]] = 1.0f;
  for (size_t row = 0; row < o->P; row++) {
    size_t a = o->shard == NULL ? row : o->shard->id[row];
    o->shown_here[row] = o->shown[a];
    if (o->group != NULL) o->group_here[row] = o->o.groups[a];
  }
}

/* A proposal without an index searches in one over the policy's items. */
static int make_index(fopo_ope *o) {
  fopo_proposal *q = &o->o.proposal;
  if (o->o.samples == 0 || !fopo_proposal_uses_index(q) || q->index != NULL) return FOPO_OK;
  int status = fopo_index_norm(&o->own_index, o->o.pi->items, 0);
  q->index = o->own_index;
  return status;
}

static int make(fopo_ope **out, const fopo_ope_options *options) {
  int status = check(options);
  if (status != FOPO_OK) return status;
  fopo_ope *o = fopo_alloc(1, sizeof *o);
  if (o == NULL) return FOPO_ERR_MEMORY;

  o->o = *options;
  o->shard = options->pi->shard;
  o->n = options->logs->n;
  o->P = options->pi->items.rows;
  o->wide = options->index != NULL ? 1
            : options->samples > 0 ? options->samples
                                   : least(TILE_ITEMS, o->P);
  o->block = least(least(BLOCK_CONTEXTS, MOST_DRAWS / o->wide), o->n);
  status = reserve(o);
  if (status == FOPO_OK) know_actions(o);
  if (status == FOPO_OK) status = make_index(o);
  if (status != FOPO_OK) {
    fopo_ope_free(o);
    return status;
  }
  *out = o;
  return FOPO_OK;
}

/* Whether all ranks have the same log, after `status` of the work before. Collective. */
static int compare_logs(const fopo_logs *logs, int status) {
  uint64_t mine[2] = {logs->n, 0}, all[2 * FOPO_COMM_RANKS];
  uLong crc = crc32_z(0, (const Bytef *)logs->actions, logs->n * sizeof *logs->actions);
  mine[1] = crc32_z(crc, (const Bytef *)logs->rewards, logs->n * sizeof *logs->rewards);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(all, mine, sizeof mine);
  for (size_t r = 1; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    if (all[2 * r] == all[0] && all[2 * r + 1] == all[1]) continue;
    status = fopo_fail(FOPO_ERR_ARGUMENT,
                       "rank %zu (%s) has another log than rank 0, %zu events and not %zu; over "
                       "items that are dealt out, give every rank the whole log",
                       r, fopo_comm_host(r), (size_t)all[2 * r], (size_t)all[0]);
  }
  return status;
}

int fopo_ope_new(fopo_ope **out, const fopo_ope_options *options) {
  *out = NULL;
  int status = make(out, options);
  if (options->pi->shard == NULL) return status;
  status = compare_logs(options->logs, status); /* the pass is collective: all begin it, or none */
  if (status == FOPO_OK) return FOPO_OK;
  fopo_ope_free(*out);
  *out = NULL;
  return status;
}

void fopo_ope_free(fopo_ope *o) {
  if (o == NULL) return;
  fopo_matrix_done(&o->Q);
  fopo_index_free(o->own_index);
  void *const owned[] = {o->scores,     o->logq,    o->ids,   o->rows,       o->reward,
                         o->features,   o->found,   o->sums,  o->chance,     o->logged,
                         o->expected,   o->z_error, o->shown, o->shown_here, o->group_here,
                         o->shown_mass, o->group};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) fopo_free(owned[i]);
  fopo_free(o);
}

/* ---- the loop ---- */

static int run(fopo_ope *o, fopo_drawn *drawn) {
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

int fopo_ope_run(fopo_ope *o, fopo_drawn *drawn) {
  if (o->shard == NULL) return run(o, drawn);
  fopo_comm_begin();
  return fopo_comm_end(run(o, drawn));
}

void fopo_ope_abandon(fopo_ope *o) {
  if (o->shard == NULL || o->stage == ALL_DONE) return;
  fopo_comm_begin();
  fopo_comm_end(FOPO_ERR_ARGUMENT); /* the others wait for its sums */
}

fopo_ope_terms fopo_ope_result(const fopo_ope *o) {
  return (fopo_ope_terms){.n = o->n,
                          .chance = o->chance,
                          .logged = o->logged,
                          .expected = o->expected,
                          .z_error = o->z_error,
                          .shown = o->shown_mass,
                          .group = o->group,
                          .unanswered = o->unanswered};
}
