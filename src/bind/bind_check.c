/* The computations of fopo.check: the reference in double, and projections. */
#include <math.h>

#include "bind/families.h"
#include "judge/reference.h"

/* native.check_slopes(pi, x, r, U, h[, seen[, objective[, row]]]): the central differences of the
 * value of the objective, by default the expected reward, along the rows of U [count, n_params] as
 * a list, that value, and log Z, all in double. x [1, D] is one context and r [1, P] the rewards of
 * all items in it; the sessions `seen` have its X, and row is its number among the training
 * contexts. */
static int check_slopes(lua_State *L) {
  double slope[FOPO_REFERENCE_DIRECTIONS], value, log_z;
  fopo_policy *pi = &bind_policy_whole(L, 1, "fopo.check")->policy;
  bind_array *x = bind_array_numbers(L, 2, "x"), *r = bind_array_numbers(L, 3, "r");
  bind_array *U = bind_array_numbers(L, 4, "U");
  double h = bind_number(L, 5, "h");
  bind_check(L, fopo_policy_check_contexts(pi, bind_matrix(x)));
  if (x->rows != 1 || r->rows != 1 || r->cols != pi->items.rows) {
    return bind_refuse(
        L, "one context and its %zu rewards are needed, not %zu contexts and %zu x %zu rewards",
        pi->items.rows, x->rows, r->rows, r->cols);
  }
  bind_check(L, fopo_matrix_finite(bind_matrix(r), "r"));
  fopo_reference_context context = {.x = x->data, .r = r->data, .row = SIZE_MAX};
  if (!lua_isnoneornil(L, 8)) context.row = bind_id(L, 8, "row", UINT32_MAX - 1);
  fopo_contexts contexts = fopo_contexts_of(bind_matrix(x));
  if (!lua_isnoneornil(L, 6)) contexts.X = bind_get_sessions(L, 6)->X;
  bind_check(L, fopo_policy_check_lists(pi, &contexts));
  fopo_sparse_scores seen = fopo_mask_of(&contexts.X);
  if (pi->masks_seen && contexts.X.indptr != NULL) context.sparse = &seen;
  if (!lua_isnoneornil(L, 7)) context.objective = bind_objective(L, 7);
  bind_check(L, fopo_reference_slopes(slope, &value, &log_z, pi, &context, bind_matrix(U), h));
  bind_push_list(L, slope, U->rows);
  lua_pushnumber(L, value);
  lua_pushnumber(L, log_z);
  return 3;
}

/* native.check_project(G, U): the inner products in double of G, taken as one row, with the rows
 * of U, as a list. */
static int check_project(lua_State *L) {
  bind_array *G = bind_array_numbers(L, 1, "G"), *U = bind_array_numbers(L, 2, "U");
  size_t n = G->rows * G->cols;
  if (U->cols != n) {
    return bind_refuse(
        L, "G has %zu elements but the directions have %zu; they must have the same number", n,
        U->cols);
  }
  lua_createtable(L, (int)U->rows, 0);
  for (size_t k = 0; k < U->rows; k++) {
    const float *g = G->data, *u = fopo_matrix_row(bind_matrix(U), k);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)g[i] * (double)u[i];
    lua_pushnumber(L, sum);
    lua_rawseti(L, -2, (lua_Integer)k + 1);
  }
  return 1;
}

/* native.check_stack(G, ...): the arrays, each as one row of the result, scaled to length 1. An
 * array of zeros stays zero. */
static int check_stack(lua_State *L) {
  int count = lua_gettop(L);
  size_t n = bind_array_numbers(L, 1, "the first array")->rows *
             bind_array_numbers(L, 1, "the first array")->cols;
  bind_array *out = bind_array_new(L, 0, (size_t)count, n);
  for (int k = 0; k < count; k++) {
    bind_array *a = bind_array_numbers(L, k + 1, "the array");
    if (a->rows * a->cols != n) {
      return bind_refuse(
          L, "array %d has %zu elements but the first one has %zu; all must have the same number",
          k + 1, a->rows * a->cols, n);
    }
    double norm = sqrt(fopo_matrix_norm2(bind_matrix(a)));
    const float *from = a->data;
    float *to = fopo_matrix_row(bind_matrix(out), (size_t)k);
    for (size_t i = 0; i < n && norm > 0.0; i++) to[i] = (float)((double)from[i] / norm);
  }
  return 1;
}

/* native.check_rows(pi): the items [P, L] as the steps of snis and head_tail read them. */
static int check_rows(lua_State *L) {
  const fopo_policy *pi = &bind_policy_whole(L, 1, "fopo.check")->policy;
  size_t P = pi->items.rows, dim = pi->items.cols;
  bind_array *a = bind_array_new(L, 0, P, dim);
  pi = &((bind_policy *)bind_get(L, 1, &bind_policy_type))->policy;
  fopo_rows_widen(bind_matrix(a), &pi->rows);
  return 1;
}

const luaL_Reg bind_check_functions[] = {{"check_slopes", check_slopes},
                                         {"check_project", check_project},
                                         {"check_stack", check_stack},
                                         {"check_rows", check_rows},
                                         {NULL, NULL}};
