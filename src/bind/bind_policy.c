/* The softmax policy. */
#include "bind/bind.h"

#include <string.h>

static void done(bind_object *o) {
  fopo_policy_done(&((bind_policy *)o)->policy);
}

static bind_policy *get_policy(lua_State *L, int index) {
  return bind_get(L, index, &bind_policy_type);
}

static int put_theta(bind_policy *pi, const bind_array *theta) {
  fopo_matrix own = pi->policy.theta;
  if (theta->rows != own.rows || theta->cols != own.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "theta is %zu x %zu but contexts have %zu features and "
                     "the items have %zu columns; it must be %zu x %zu", theta->rows, theta->cols,
                     own.rows, own.cols, own.rows, own.cols);
  }
  int status = fopo_matrix_finite(bind_matrix(theta), "theta");
  if (status == FOPO_OK) memcpy(own.x, theta->data, own.rows * own.cols * sizeof(float));
  return status;
}

/* The features of a context: the option, or the columns of the items. */
static size_t context_dim(lua_State *L, size_t columns) {
  if (!bind_has(L, 1, "context_dim")) return columns;
  return bind_count(L, bind_option(L, 1, "context_dim"), "context_dim", 1, UINT32_MAX);
}

/* native.policy_linear{items, theta = "identity" | "random" | array, context_dim, temperature,
 * seed}. */
static int policy_linear(lua_State *L) {
  static const char *const starts[] = {"identity", "random", NULL};
  int items_at = bind_option(L, 1, "items"), theta_at = bind_option(L, 1, "theta");
  double temperature = bind_number(L, bind_option(L, 1, "temperature"), "temperature");
  uint64_t seed = bind_seed(L, bind_option(L, 1, "seed"));
  int given = bind_is(L, theta_at, &bind_array_type);
  int start = given ? 1 : bind_choice(L, theta_at, "theta", starts);
  size_t D = context_dim(L, bind_array_numbers(L, items_at, "items")->cols);

  bind_policy *pi = bind_new(L, &bind_policy_type, 1);
  lua_pushvalue(L, items_at);
  lua_setiuservalue(L, -2, 1);
  bind_array *items = bind_array_numbers(L, items_at, "items");
  bind_keep(&pi->head, 0, &items->head);
  bind_check(L, fopo_policy_init_linear(&pi->policy, bind_matrix(items), D,
                                        start == 0 ? FOPO_THETA_IDENTITY : FOPO_THETA_RANDOM,
                                        (float)temperature, seed));
  if (given) bind_check(L, put_theta(pi, bind_array_numbers(L, theta_at, "theta")));
  return 1;
}

/* pi:queries(x): Q [N, L] = x theta / temperature. */
static int queries(lua_State *L) {
  size_t dim = get_policy(L, 1)->policy.items.cols;
  bind_array *Q = bind_array_new(L, 0, bind_array_numbers(L, 2, "x")->rows, dim);
  bind_array *x = bind_array_numbers(L, 2, "x");
  bind_check(L, fopo_policy_queries(bind_matrix(Q), &get_policy(L, 1)->policy, bind_matrix(x)));
  return 1;
}

/* pi:best(x, index, k): ids, scores [N, k] of the best items of each context, best first, and how
 * many rows got fewer than k. */
static int best(lua_State *L) {
  get_policy(L, 1);
  bind_index *ix = bind_get(L, 3, &bind_index_type);
  size_t items = fopo_index_about(ix->index).n_items, k = bind_count(L, 4, "k", 1, SIZE_MAX);
  size_t rows = bind_array_numbers(L, 2, "x")->rows;
  if (k > items) {
    return bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but the index holds %zu items; use "
                                  "k <= %zu", k, items, items));
  }
  uint32_t *counts = bind_scratch(L, rows, sizeof *counts);
  bind_array *ids = bind_array_new(L, 1, rows, k);
  bind_array *scores = bind_array_new(L, 0, rows, k);
  ix = bind_get(L, 3, &bind_index_type);
  bind_array *x = bind_array_numbers(L, 2, "x");
  bind_check(L, fopo_policy_best(ids->data, scores->data, counts, &get_policy(L, 1)->policy,
                                 bind_matrix(x), ix->index, k));
  size_t shorter = 0;
  for (size_t i = 0; i < rows; i++) shorter += counts[i] < k;
  lua_pushinteger(L, (lua_Integer)shorter);
  return 3;
}

/* pi:theta(): a copy of theta [D, L]. */
static int theta(lua_State *L) {
  fopo_matrix own = get_policy(L, 1)->policy.theta;
  bind_array *copy = bind_array_new(L, 0, own.rows, own.cols);
  memcpy(copy->data, get_policy(L, 1)->policy.theta.x, own.rows * own.cols * sizeof(float));
  return 1;
}

/* pi:set_theta(array): puts [D, L] finite numbers in its place. */
static int set_theta(lua_State *L) {
  bind_policy *pi = get_policy(L, 1);
  bind_check(L, put_theta(pi, bind_array_numbers(L, 2, "theta")));
  return 0;
}

/* pi:items(): the array it was made with, the same one every time. Where that has been closed or
 * changed since, another one with the values that the policy holds. */
static int items(lua_State *L) {
  bind_policy *pi = get_policy(L, 1);
  lua_getiuservalue(L, 1, 1);
  if (bind_peek(L, -1, &bind_array_type) == pi->head.keeps[0]) return 1;
  bind_push_kept(L, 1, &bind_policy_type, 0);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, 1);
  return 1;
}

static int field(lua_State *L, bind_object *o, const char *name) {
  const fopo_policy *pi = &((bind_policy *)o)->policy;
  if (strcmp(name, "n_items") == 0) {
    lua_pushinteger(L, (lua_Integer)pi->items.rows);
  } else if (strcmp(name, "dim") == 0) {
    lua_pushinteger(L, (lua_Integer)pi->items.cols);
  } else if (strcmp(name, "context_dim") == 0) {
    lua_pushinteger(L, (lua_Integer)fopo_policy_context_dim(pi));
  } else if (strcmp(name, "n_params") == 0) {
    lua_pushinteger(L, (lua_Integer)(pi->theta.rows * pi->theta.cols));
  } else if (strcmp(name, "temperature") == 0) {
    lua_pushnumber(L, (double)pi->temperature);
  } else {
    return 0;
  }
  return 1;
}

const luaL_Reg bind_policy_functions[] = {{"policy_linear", policy_linear}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"queries", queries},     {"best", best},   {"theta", theta},
                                   {"set_theta", set_theta}, {"items", items}, {NULL, NULL}};

const bind_type bind_policy_type = {.name = "fopo.policy",
                                    .size = sizeof(bind_policy),
                                    .done = done,
                                    .methods = methods,
                                    .fields = "n_items dim context_dim n_params temperature",
                                    .get = field};
