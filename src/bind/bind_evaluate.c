/* Judging a policy. */
#include "bind/bind.h"

#include "learn/evaluate.h"

/* native.evaluate(pi, x, sessions, index): the mean of 1[best item in Y] over the contexts x of the
 * sessions, with its 95 % Wilson interval. */
static int evaluate(lua_State *L) {
  fopo_evaluation e;
  bind_policy *pi = bind_get(L, 1, &bind_policy_type);
  bind_array *x = bind_array_numbers(L, 2, "x");
  bind_sessions *s = bind_get(L, 3, &bind_sessions_type);
  bind_index *ix = bind_get(L, 4, &bind_index_type);
  bind_check(L, fopo_evaluate(&e, &pi->policy, bind_matrix(x), &s->sessions, ix->index));
  lua_createtable(L, 0, 8);
  bind_set_count(L, "contexts", e.contexts);
  bind_set_count(L, "hits", e.hits);
  bind_set_count(L, "unanswered", e.unanswered);
  bind_set_number(L, "reward", e.reward);
  bind_set_number(L, "low", e.low);
  bind_set_number(L, "high", e.high);
  bind_set_number(L, "seconds", e.seconds);
  bind_set_count(L, "distinct", e.distinct);
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

const luaL_Reg bind_evaluate_functions[] = {
    {"evaluate", evaluate}, {"wilson", wilson}, {NULL, NULL}};
