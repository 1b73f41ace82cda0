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
 * A model of low rank gives the rewards of a tile by a second GEMM. */
#include "judge/ope_pass.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/product.h"
#include "policy/recommend.h"

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

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
static int continue_at(fopo_ope *o, fopo_drawn *drawn, size_t S, fopo_ope_stage then) {
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

int fopo_ope_check_rewards(fopo_ope *o) {
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

/* The row of an item here; UINT32_MAX: another rank holds it. */
static uint32_t row_of(const fopo_ope *o, uint32_t item) {
  return o->shard == NULL ? item : fopo_part_row(&o->shard->part, item);
}

/* The row of sparse scores of context b. */
static fopo_score_row sparse_of(const fopo_ope *o, size_t b) {
  return fopo_score_row_of(o->o.sparse, o->first + b);
}

static double logged_score(const fopo_ope *o, size_t b) {
  fopo_matrix items = o->o.pi->items;
  fopo_score_row sparse = sparse_of(o, b);
  uint32_t action = o->o.logs->actions[o->first + b], row = row_of(o, action);
  if (row == UINT32_MAX) return -INFINITY;
  const float *beta = fopo_matrix_row(items, row);
  float f = fopo_kernels_get()->dot(fopo_matrix_row(o->Q, b), beta, items.cols);
  return (double)fopo_score_sum(f, fopo_score_of(&sparse, action));
}

/* Context b has no item that is not masked: nothing is shown and nothing earned. */
static void leave_out(fopo_ope *o, size_t b) {
  size_t i = o->first + b;
  o->chance[i] = 0.0;
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
    s->m = (double)largest;
  }
  if (s->m < -DBL_MAX && fopo_score_all_masked(f, o->width)) return;
  s->z += kernels->exp_sum(f, f, (float)s->m, o->width);
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
    uint32_t row = row_of(o, ids[s]);
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

/* ---- the stages ---- */

int fopo_ope_step(fopo_ope *o, fopo_drawn *drawn) {
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
