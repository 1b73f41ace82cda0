/* Evaluation of policies on sessions. */
#include <math.h>

#include "bind/families.h"
#include "judge/evaluate.h"
#include "judge/measures.h"
#include "policy/recommend.h"

static void push_evaluation(lua_State *L, const fopo_evaluation *e) {
  lua_createtable(L, 0, 8);
  bind_set_count(L, "contexts", e->contexts);
  bind_set_count(L, "hits", e->hits);
  bind_set_count(L, "unanswered", e->unanswered);
  bind_set_number(L, "reward", e->reward);
  bind_set_number(L, "low", e->low);
  bind_set_number(L, "high", e->high);
  bind_set_number(L, "seconds", e->seconds);
  bind_set_count(L, "distinct", e->distinct);
}

/* Of all functions here that end with a reward, it is one of hits, by whose values they judge; nil:
 * each hit is worth 1. */

int bind_push_expected(lua_State *L, const fopo_expected *e) {
  lua_createtable(L, 0, 6);
  bind_set_count(L, "contexts", e->contexts);
  bind_set_number(L, "reward", e->reward);
  bind_set_number(L, "se", e->se);
  bind_set_number(L, "effective", e->effective);
  if (isnan(e->likelihood)) return 1;
  bind_set_number(L, "likelihood", e->likelihood);
  bind_set_number(L, "likelihood_se", e->likelihood_se);
  return 1;
}

/* native.evaluate_expected(pi, x, sessions, most, unseen, reward): {contexts, reward, se,
 * effective, likelihood, likelihood_se}, the mean of sum over Y of pi(a | x) over at most `most`
 * contexts, evenly spread (0: all), and that of log pi(a | x) over Y, nil if there is none; and an
 * array [1, contexts] of the sums. unseen: of the policy without the items of X. */
static int evaluate_expected(lua_State *L) {
  fopo_expected e;
  lua_settop(L, 6);
  size_t most = bind_count(L, 4, "most", 0, SIZE_MAX), N = bind_get_sessions(L, 3)->Y.rows;
  float *each = bind_array_new(L, 0, 1, most > 0 && most < N ? most : N)->data;
  bind_policy *pi = bind_get(L, 1, &bind_policy_type);
  bind_array *x = bind_array_numbers(L, 2, "x");
  fopo_sessions s = bind_judged(L, 3, 6);
  fopo_sparse_scores seen = fopo_mask_of(&s.X);
  const fopo_sparse_scores *mask = bind_boolean(L, 5, "unseen") ? &seen : NULL;
  bind_check(L, fopo_evaluate_expected(&e, each, FOPO_OBJECTIVE_REWARD, NULL, &pi->policy,
                                       bind_matrix(x), &s, mask, most, NULL));
  bind_push_expected(L, &e);
  lua_pushvalue(L, 7);
  return 2;
}

/* native.evaluate_lost(pi, x, sessions, exact, index): {exact, index: tables as of
 * native.evaluate, lost, low, high, only_exact, only_index}, the paired difference with its 95 %
 * interval. */
static int evaluate_lost(lua_State *L) {
  fopo_evaluation_lost e;
  bind_policy *pi = bind_get(L, 1, &bind_policy_type);
  bind_array *x = bind_array_numbers(L, 2, "x");
  const fopo_sessions *s = bind_get_sessions(L, 3);
  bind_index *exact = bind_get(L, 4, &bind_index_type);
  bind_index *ix = bind_get(L, 5, &bind_index_type);
  bind_check(L,
             fopo_evaluate_lost(&e, &pi->policy, bind_matrix(x), s, exact->index, ix->index, NULL));
  lua_createtable(L, 0, 7);
  push_evaluation(L, &e.exact);
  lua_setfield(L, -2, "exact");
  push_evaluation(L, &e.index);
  lua_setfield(L, -2, "index");
  bind_set_number(L, "lost", e.lost);
  bind_set_number(L, "low", e.low);
  bind_set_number(L, "high", e.high);
  bind_set_count(L, "only_exact", e.only_exact);
  bind_set_count(L, "only_index", e.only_index);
  return 1;
}

static void set_measure(lua_State *L, const char *name, fopo_measure m) {
  const double numbers[] = {m.value, m.low, m.high};
  bind_push_list(L, numbers, 3);
  lua_setfield(L, -2, name);
}

static void push_measures(lua_State *L, const fopo_measures *m) {
  lua_createtable(L, 0, 10);
  bind_set_count(L, "k", m->k);
  bind_set_count(L, "hits", m->hits);
  bind_set_count(L, "unanswered", m->unanswered);
  bind_set_count(L, "distinct", m->distinct);
  bind_set_number(L, "coverage", m->coverage);
  bind_set_number(L, "gini", m->gini);
  set_measure(L, "hit", m->hit);
  set_measure(L, "precision", m->precision);
  set_measure(L, "recall", m->recall);
  set_measure(L, "ndcg", m->ndcg);
  set_measure(L, "seen", m->seen);
  set_measure(L, "value", m->value);
}

/* Raises unless there is a list for each of n sessions. */
static void check_lists(lua_State *L, const bind_array *ids, size_t n) {
  if (ids->rows == n) return;
  bind_refuse(L, "%zu lists do not fit %zu sessions; give one list a session", ids->rows, n);
}

/* native.measure_lists(ids, sessions, {k, ..}, reward): for each k {k, hits, unanswered, distinct,
 * coverage, gini, hit = {value, low, high}, precision, recall, ndcg, seen, value}, of lists [N,
 * width] of ids. */
static int measure_lists(lua_State *L) {
  lua_settop(L, 4);
  bind_table(L, 3, "the list of k");
  size_t n = lua_rawlen(L, 3);
  luaL_checkstack(L, 8, NULL);
  fopo_measures *m = bind_scratch(L, n, sizeof *m);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    m[i].k = bind_count(L, -1, "k", 0, SIZE_MAX);
    lua_pop(L, 1);
  }
  bind_array *ids = bind_array_ids(L, 1, "the lists");
  fopo_sessions s = bind_judged(L, 2, 4);
  check_lists(L, ids, s.Y.rows);
  bind_check(L, fopo_measure_lists(m, n, ids->data, ids->cols, &s));
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    push_measures(L, &m[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* native.measure_each(ids, sessions, k, reward[, measure]): arrays [1, N] of the reward and of
 * another measure of the first k items, NDCG if left out, of each session, from lists [N, width]
 * of ids. */
static int measure_each(lua_State *L) {
  fopo_measure_kind kind = FOPO_MEASURE_NDCG;
  lua_settop(L, 5);
  if (!lua_isnil(L, 5)) kind = (fopo_measure_kind)bind_choice(L, 5, "measure", fopo_measure_names);
  size_t k = bind_count(L, 3, "k", 1, SIZE_MAX), N = bind_get_sessions(L, 2)->Y.rows;
  bind_array_ids(L, 1, "the lists");
  float *reward = bind_array_new(L, 0, 1, N)->data, *other = bind_array_new(L, 0, 1, N)->data;
  const bind_array *ids = bind_array_ids(L, 1, "the lists");
  fopo_sessions s = bind_judged(L, 2, 4);
  check_lists(L, ids, N);
  bind_check(L, fopo_measure_each(reward, FOPO_MEASURE_VALUE, 1, ids->data, ids->cols, &s));
  bind_check(L, fopo_measure_each(other, kind, k, ids->data, ids->cols, &s));
  return 2;
}

/* native.first_values(ids, sessions, reward): what the first item of each list earns, as an array
 * [1, N]. */
static int first_values(lua_State *L) {
  bind_array_ids(L, 1, "the lists");
  lua_settop(L, 3);
  size_t n = bind_get_sessions(L, 2)->Y.rows;
  float *earned = bind_array_new(L, 0, 1, n)->data;
  const bind_array *lists = bind_array_ids(L, 1, "the lists");
  fopo_sessions s = bind_judged(L, 2, 3);
  if (lists->rows != n || lists->cols == 0) {
    return bind_refuse(L, "%zu lists of %zu items do not fit %zu sessions; give one list a session",
                       lists->rows, lists->cols, n);
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t first = ((const uint32_t *)lists->data)[i * lists->cols];
    earned[i] = fopo_csr_contains(&s.Y, i, first) ? fopo_sessions_value(&s, first) : 0.0f;
  }
  return 1;
}

/* The two arrays of native.first_values on the same sessions. */
static void read_pairs(lua_State *L, const float **a, const float **b, size_t *n) {
  const bind_array *earned = bind_array_numbers(L, 1, "earned");
  const bind_array *others = bind_array_numbers(L, 2, "others");
  if (earned->cols != others->cols || earned->cols == 0) {
    bind_refuse(L, "%zu and %zu contexts are no pairs; evaluate on the same sessions", earned->cols,
                others->cols);
  }
  *a = earned->data;
  *b = others->data;
  *n = earned->cols;
}

/* native.paired_values(earned, others): the normal 95 % interval of the difference of their means,
 * for two arrays of native.first_values on the same sessions. */
static int paired_values(lua_State *L) {
  const float *a, *b;
  size_t n;
  double mean, se;
  read_pairs(L, &a, &b, &n);
  fopo_mean_of_pairs(&mean, &se, a, b, n);
  lua_pushnumber(L, mean - FOPO_Z95 * se);
  lua_pushnumber(L, mean + FOPO_Z95 * se);
  return 2;
}

/* native.paired(hits, others): the same of hits, by how many contexts differ. */
static int paired(lua_State *L) {
  size_t n, alone[2] = {0, 0};
  const float *a, *b;
  double low, high;
  read_pairs(L, &a, &b, &n);
  for (size_t i = 0; i < n; i++) {
    alone[0] += a[i] > b[i];
    alone[1] += a[i] < b[i];
  }
  fopo_paired(&low, &high, alone[0], alone[1], n);
  lua_pushnumber(L, low);
  lua_pushnumber(L, high);
  return 2;
}

const luaL_Reg bind_evaluate_functions[] = {
    {"evaluate_expected", evaluate_expected}, {"evaluate_lost", evaluate_lost},
    {"measure_lists", measure_lists},         {"measure_each", measure_each},
    {"first_values", first_values},           {"paired", paired},
    {"paired_values", paired_values},         {NULL, NULL}};
