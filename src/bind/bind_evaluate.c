/* Evaluation of policies on sessions. */
#include "bind/families.h"
#include "judge/evaluate.h"
#include "judge/expected.h"

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

/* native.evaluate(pi, x, sessions, index): the mean of 1[best item in Y] over the contexts x of the
 * sessions, with its 95 % Wilson interval. */
static int evaluate(lua_State *L) {
  fopo_evaluation e;
  bind_policy *pi = bind_get(L, 1, &bind_policy_type);
  bind_array *x = bind_array_numbers(L, 2, "x");
  bind_sessions *s = bind_get(L, 3, &bind_sessions_type);
  bind_index *ix = bind_get(L, 4, &bind_index_type);
  bind_check(L, fopo_evaluate(&e, &pi->policy, bind_matrix(x), &s->sessions, ix->index));
  push_evaluation(L, &e);
  return 1;
}

/* native.evaluate_expected(pi, x, sessions, most): {contexts, reward, se, effective}, the mean of
 * sum over Y of pi(a | x) over at most `most` contexts, evenly spread (0: all). */
static int evaluate_expected(lua_State *L) {
  fopo_expected e;
  bind_policy *pi = bind_get(L, 1, &bind_policy_type);
  bind_array *x = bind_array_numbers(L, 2, "x");
  bind_sessions *s = bind_get(L, 3, &bind_sessions_type);
  size_t most = bind_count(L, 4, "most", 0, SIZE_MAX);
  bind_check(L, fopo_evaluate_expected(&e, &pi->policy, bind_matrix(x), &s->sessions, most));
  lua_createtable(L, 0, 4);
  bind_set_count(L, "contexts", e.contexts);
  bind_set_number(L, "reward", e.reward);
  bind_set_number(L, "se", e.se);
  bind_set_number(L, "effective", e.effective);
  return 1;
}

/* native.evaluate_lost(pi, x, sessions, exact, index): {exact, index: tables as of
 * native.evaluate, lost, low, high, only_exact, only_index}, the paired difference with its 95 %
 * interval. */
static int evaluate_lost(lua_State *L) {
  fopo_evaluation_lost e;
  bind_policy *pi = bind_get(L, 1, &bind_policy_type);
  bind_array *x = bind_array_numbers(L, 2, "x");
  bind_sessions *s = bind_get(L, 3, &bind_sessions_type);
  bind_index *exact = bind_get(L, 4, &bind_index_type);
  bind_index *ix = bind_get(L, 5, &bind_index_type);
  bind_check(L, fopo_evaluate_lost(&e, &pi->policy, bind_matrix(x), &s->sessions, exact->index,
                                   ix->index));
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

/* native.wilson(k, n): the 95 % Wilson score interval of k hits in n trials. */
static int wilson(lua_State *L) {
  double low, high;
  size_t n = bind_count(L, 2, "n", 1, SIZE_MAX), k = bind_count(L, 1, "k", 0, n);
  fopo_wilson(&low, &high, k, n);
  lua_pushnumber(L, low);
  lua_pushnumber(L, high);
  return 2;
}

const luaL_Reg bind_evaluate_functions[] = {{"evaluate", evaluate},
                                            {"evaluate_expected", evaluate_expected},
                                            {"evaluate_lost", evaluate_lost},
                                            {"wilson", wilson},
                                            {NULL, NULL}};
