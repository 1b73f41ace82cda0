/* Off-policy evaluation: the arguments of a pass, and the loop over its stages (ope_pass.c). */
#include "judge/ope.h"

#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "judge/ope_pass.h"

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

static int check_model(const fopo_ope_options *o) {
  const fopo_reward_kind *kind = o->model->kind;
  if (kind->needs & FOPO_REWARD_OF_ANY_ITEM) {
    return fopo_reward_check(o->model, o->logs->n, fopo_policy_n_items(o->pi));
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
  fopo_contexts contexts = fopo_contexts_of(o->logs->contexts);
  int status = fopo_policy_check_contexts(o->pi, contexts.x);
  if (status == FOPO_OK && o->sparse == NULL) {
    status = fopo_policy_check_lists(o->pi, &contexts);
  }
  if (status == FOPO_OK) status = check_events(o->logs);
  if (status == FOPO_OK && o->index != NULL) status = check_index(o);
  if (status == FOPO_OK && o->model != NULL) status = check_model(o);
  if (status == FOPO_OK && o->samples > 0) {
    status = fopo_proposal_check_for(&o->proposal, o->pi);
  }
  if (status == FOPO_OK && (o->samples == 1 || o->samples > FOPO_OPE_DRAWS)) {
    status = fopo_fail(FOPO_ERR_ARGUMENT, "samples is %zu; a standard error needs 2 to %d draws",
                       o->samples, FOPO_OPE_DRAWS);
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
  o->sums = fopo_alloc(B, sizeof *o->sums);
  o->chance = fopo_alloc(n, sizeof *o->chance);
  if (!o->scores || !o->ids || !o->rows || !o->found || !o->sums || !o->chance) {
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
    if (o->shard == NULL || o->o.model->model.items == NULL) return FOPO_OK;
    o->features = fopo_alloc(o->wide * o->o.model->model.rank, sizeof *o->features);
    if (o->features == NULL) return FOPO_ERR_MEMORY;
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
                                   : least(FOPO_OPE_ITEMS, o->P);
  o->block = least(least(FOPO_OPE_CONTEXTS, FOPO_OPE_DRAWS / o->wide), o->n);
  status = reserve(o);
  if (status == FOPO_OK) status = make_index(o);
  if (status != FOPO_OK) {
    fopo_ope_free(o);
    return status;
  }
  *out = o;
  return FOPO_OK;
}

int fopo_ope_new(fopo_ope **out, const fopo_ope_options *options) {
  *out = NULL;
  int status = make(out, options);
  if (options->pi->shard == NULL) return status;
  status = fopo_comm_agree(status); /* the pass is collective: all begin it, or none */
  if (status == FOPO_OK) return FOPO_OK;
  fopo_ope_free(*out);
  *out = NULL;
  return status;
}

void fopo_ope_free(fopo_ope *o) {
  if (o == NULL) return;
  fopo_matrix_done(&o->Q);
  fopo_index_free(o->own_index);
  void *const owned[] = {o->scores, o->logq, o->ids,    o->rows,   o->reward,   o->features,
                         o->found,  o->sums, o->chance, o->logged, o->expected, o->z_error};
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
    if (status == FOPO_OK) status = fopo_ope_check_rewards(o);
    if (status == FOPO_OK) status = fopo_ope_step(o, drawn);
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
                          .unanswered = o->unanswered};
}
