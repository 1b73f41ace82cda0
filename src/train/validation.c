#include "train/validation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* n of the contexts, evenly spread. */
static int take_contexts(fopo_validation *v, size_t n) {
  const fopo_validation_options *o = &v->o;
  uint32_t *rows = fopo_alloc(n, sizeof *rows);
  int status = rows != NULL ? fopo_matrix_init(&v->some, n, o->contexts.cols) : FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    rows[i] = (uint32_t)fopo_spread_context(i, n, o->contexts.rows);
    memcpy(fopo_matrix_row(v->some, i), fopo_matrix_row(o->contexts, rows[i]),
           o->contexts.cols * sizeof *v->some.x);
  }
  if (status == FOPO_OK) status = fopo_csr_take(&v->some_of.Y, &o->sessions->Y, rows, n);
  if (status == FOPO_OK && o->unseen) {
    status = fopo_csr_take(&v->some_of.X, &o->sessions->X, rows, n);
  }
  fopo_free(rows);
  return status;
}

int fopo_validation_init(fopo_validation *v, const fopo_validation_options *options,
                         uint64_t version) {
  *v = (fopo_validation){.o = *options, .version = version};
  if (options->exact == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "validation needs an index of the true argmax");
  }
  size_t N = options->sessions->Y.rows, most = options->most;
  if (most == 0 || most >= N || options->contexts.rows != N) return FOPO_OK;
  int status = take_contexts(v, most);
  if (status != FOPO_OK) fopo_validation_done(v);
  return status;
}

void fopo_validation_done(fopo_validation *v) {
  fopo_matrix_done(&v->some);
  fopo_sessions_done(&v->some_of);
  *v = (fopo_validation){0};
}

static int judge(fopo_evaluation *e, const fopo_validation *v, const fopo_policy *pi,
                 fopo_index *ix) {
  const fopo_validation_options *o = &v->o;
  fopo_sessions s = v->some.x != NULL ? v->some_of : *o->sessions;
  fopo_matrix x = v->some.x != NULL ? v->some : o->contexts;
  fopo_sparse_scores seen = fopo_mask_of(&s.X);
  s.value = o->value;
  return fopo_evaluate(e, pi, x, &s, ix, o->unseen ? &seen : NULL);
}

static int refresh(fopo_validation *v, const fopo_policy *pi) {
  if (!pi->learns[FOPO_BLOCK_ITEMS] || pi->version == v->version) return FOPO_OK;
  int status = fopo_index_refresh(v->o.exact);
  if (status == FOPO_OK) v->version = pi->version;
  return status;
}

fopo_worth fopo_worth_unknown(void) {
  double unknown = (double)NAN;
  return (fopo_worth){.reward = unknown,
                      .reward_se = unknown,
                      .index = unknown,
                      .expected = unknown,
                      .se = unknown};
}

static int check_theta(const fopo_policy *pi) {
  char where[160];
  int status = fopo_matrix_finite(pi->theta, "theta");
  if (status != FOPO_ERR_NUMERIC) return status;
  snprintf(where, sizeof where, "%s", fopo_error_sentence());
  return fopo_fail(status, "%s, so the policy cannot be judged; lower lr, or clip the gradient",
                   where);
}

int fopo_validation_run(fopo_worth *w, fopo_validation *v, const fopo_policy *pi) {
  fopo_evaluation e, through;
  fopo_expected expected;
  *w = fopo_worth_unknown();
  int status = check_theta(pi);
  if (status == FOPO_OK) status = refresh(v, pi);
  if (status == FOPO_OK) status = judge(&e, v, pi, v->o.exact);
  if (status != FOPO_OK) return status;
  w->reward = e.reward;
  w->reward_se = e.se;
  w->contexts = e.contexts;
  w->distinct = e.distinct;
  w->top = e.top;
  if (v->o.index != NULL) {
    status = judge(&through, v, pi, v->o.index);
    if (status == FOPO_OK) w->index = through.reward;
  }
  const fopo_validation_options *o = &v->o;
  if (status != FOPO_OK || o->expected_most == 0) return status;
  fopo_sessions s = *o->sessions;
  fopo_sparse_scores seen = fopo_mask_of(&s.X);
  s.value = o->value;
  status = fopo_evaluate_expected(&expected, pi, o->contexts, &s, o->unseen ? &seen : NULL,
                                  o->expected_most);
  if (status != FOPO_OK) return status;
  w->expected = expected.value[o->objective];
  w->se = expected.value_se[o->objective];
  return FOPO_OK;
}
