/* Synthetic worlds of logged decisions. */
#include "bind/families.h"
#include "data/world/synthetic_logs.h"

typedef struct {
  bind_object object; /* keeps: the log, whose contexts and items it uses */
  fopo_log_world *world;
} bind_log_world;

static void world_done(bind_object *o) { fopo_log_world_free(((bind_log_world *)o)->world); }

static fopo_log_world *get_world(lua_State *L, int index) {
  return ((bind_log_world *)bind_get(L, index, &bind_log_world_type))->world;
}

/* native.logs_synthetic{n, actions, dim, k, epsilon, skill, sharpness, bias, slope, spread, seed}:
 * a log and the world it comes from. */
static int logs_synthetic(lua_State *L) {
  luaL_checkstack(L, 20, NULL);
  fopo_log_world_options o = {.n = bind_option_count_or(L, 1, "n", 0, SIZE_MAX, 0),
                              .actions = bind_option_count_or(L, 1, "actions", 0, SIZE_MAX, 0),
                              .dim = bind_option_count_or(L, 1, "dim", 0, SIZE_MAX, 0),
                              .k = bind_option_count_or(L, 1, "k", 0, SIZE_MAX, 0),
                              .epsilon = bind_option_number(L, 1, "epsilon"),
                              .skill = bind_option_number(L, 1, "skill"),
                              .sharpness = bind_option_number(L, 1, "sharpness"),
                              .bias = bind_option_number(L, 1, "bias"),
                              .slope = bind_option_number(L, 1, "slope"),
                              .spread = bind_option_number(L, 1, "spread"),
                              .seed = bind_option_seed(L, 1)};
  bind_logs_new(L, 0);
  int log = lua_gettop(L);
  bind_log_world *w = bind_new(L, &bind_log_world_type, 0);
  bind_logs *box = bind_get(L, log, &bind_logs_type);
  bind_check(L, fopo_log_world_new(&w->world, &box->logs, &o));
  bind_keep(&w->object, 0, &box->object);
  bind_logs_made(L, box);
  return 2;
}

/* The contexts at `index`; those of the world's log if there is nothing. */
static fopo_matrix world_contexts(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return get_world(L, 1)->contexts;
  return bind_matrix(bind_array_numbers(L, index, "contexts"));
}

/* world:true_value(pi, contexts, greedy): of the policy on these contexts (the log's if nil). */
static int true_value(lua_State *L) {
  int greedy = bind_boolean(L, 4, "greedy");
  get_world(L, 1);
  bind_policy *pi = bind_policy_whole(L, 2, "world:true_value");
  fopo_matrix X = world_contexts(L, 3);
  lua_settop(L, 4);
  bind_push_again(L, 1, &bind_log_world_type);
  bind_push_again(L, 2, &bind_policy_type);
  bind_array *q = bind_array_new(L, 0, X.rows, pi->policy.items.cols);
  pi = bind_get(L, 6, &bind_policy_type);
  X = world_contexts(L, 3);
  double value = 0;
  bind_check(L, fopo_policy_queries(bind_matrix(q), &pi->policy, X));
  bind_check(L, fopo_log_world_value(&value, get_world(L, 5), X, bind_matrix(q), pi->policy.items,
                                     greedy));
  return bind_return_number(L, value);
}

/* world:best(contexts): the true value of the best policy. */
static int world_best(lua_State *L) {
  double value = 0;
  bind_check(L, fopo_log_world_best(&value, get_world(L, 1), world_contexts(L, 2)));
  return bind_return_number(L, value);
}

/* world:logging(contexts): the true value of the logging policy. */
static int world_logging(lua_State *L) {
  double value = 0;
  bind_check(L, fopo_log_world_logging(&value, get_world(L, 1), world_contexts(L, 2)));
  return bind_return_number(L, value);
}

/* world:contexts(n, seed): n new contexts [n, D] of the same distribution. */
static int world_draw(lua_State *L) {
  size_t n = bind_count(L, 2, "n", 1, UINT32_MAX - 1), D = get_world(L, 1)->options.dim;
  uint64_t seed = bind_seed(L, 3);
  bind_push_again(L, 1, &bind_log_world_type);
  bind_array *x = bind_array_new(L, 0, n, D);
  bind_check(L, fopo_log_world_contexts(bind_matrix(x), get_world(L, 1), seed));
  return 1;
}

/* world:reward(ids, rows, contexts): rho [B, S] of actions ids [B, S] in the contexts rows. */
static int world_reward(lua_State *L) {
  bind_array *ids = bind_array_ids(L, 2, "ids");
  size_t B = ids->rows, S = ids->cols, n;
  lua_settop(L, 4);
  size_t N = world_contexts(L, 4).rows;
  uint32_t *rows = bind_rows(L, 3, N, B < N ? B : N, &n);
  if (n != B) {
    return bind_refuse(
        L, "ids has %zu rows but %zu contexts are given; give one context for each row", B, n);
  }
  bind_push_again(L, 1, &bind_log_world_type);
  bind_push_again(L, 2, &bind_array_type);
  bind_array *r = bind_array_new(L, 0, B, S);
  ids = bind_array_ids(L, 2, "ids");
  bind_check(L, fopo_log_world_rewards(r->data, get_world(L, 1), world_contexts(L, 4), ids->data,
                                       rows, B, S));
  return 1;
}

/* world:groups(groups, logs): [1, n], mu(c(a_i) | x_i) of the events of a log of this world. */
static int world_groups(lua_State *L) {
  const bind_array *groups = bind_array_ids(L, 2, "groups");
  const fopo_logs *logs = ((bind_logs *)bind_get(L, 3, &bind_logs_type))->logs;
  const fopo_log_world_options *o = &get_world(L, 1)->options;
  if (groups->rows * groups->cols != o->actions || logs->n_actions != o->actions ||
      logs->contexts.cols != o->dim) {
    return bind_refuse(L,
                       "%zu groups and a log of %zu actions and %zu columns are given; this world "
                       "has %zu actions and contexts of %zu columns",
                       groups->rows * groups->cols, logs->n_actions, logs->contexts.cols,
                       o->actions, o->dim);
  }
  for (int i = 1; i <= 3; i++) {
    bind_push_again(L, i,
                    i == 1   ? &bind_log_world_type
                    : i == 2 ? &bind_array_type
                             : &bind_logs_type);
  }
  bind_array *p = bind_array_new(L, 0, 1, logs->n);
  logs = ((bind_logs *)bind_get(L, 3, &bind_logs_type))->logs;
  bind_check(L, fopo_log_world_groups(p->data, get_world(L, 1), logs->contexts,
                                      bind_array_ids(L, 2, "groups")->data, logs->actions));
  return 1;
}

static const fopo_log_world_options *options_of(const bind_object *o) {
  return &((const bind_log_world *)o)->world->options;
}

BIND_FIELD(world_actions, count, options_of(o)->actions)
BIND_FIELD(world_dim, count, options_of(o)->dim)
BIND_FIELD(world_epsilon, number, options_of(o)->epsilon)
BIND_FIELD(world_k, count, options_of(o)->k)

const luaL_Reg bind_log_world_functions[] = {{"logs_synthetic", logs_synthetic}, {NULL, NULL}};

static const luaL_Reg world_methods[] = {{"true_value", true_value},
                                         {"best", world_best},
                                         {"logging", world_logging},
                                         {"contexts", world_draw},
                                         {"reward", world_reward},
                                         {"groups", world_groups},
                                         {NULL, NULL}};

static const bind_field world_fields[] = {{"actions", world_actions, NULL},
                                          {"dim", world_dim, NULL},
                                          {"epsilon", world_epsilon, NULL},
                                          {"k", world_k, NULL},
                                          {NULL, NULL, NULL}};

const bind_type bind_log_world_type = {.name = "fopo.log_world",
                                       .size = sizeof(bind_log_world),
                                       .done = world_done,
                                       .methods = world_methods,
                                       .fields = world_fields};
