/* The softmax policy. */
#include <string.h>

#include "bind/families.h"
#include "contexts/contexts.h"
#include "core/memory.h"
#include "policy/softmax.h"

enum {
  ITEMS,
  INITIAL
}; /* slots; user value slot + 1 of the handle is a handle on the same array */

static void done(bind_object *o) { fopo_policy_done(&((bind_policy *)o)->policy); }

static bind_policy *get_policy(lua_State *L, int index) {
  return bind_get(L, index, &bind_policy_type);
}

bind_policy *bind_policy_whole(lua_State *L, int index, const char *what) {
  bind_policy *pi = get_policy(L, index);
  bind_check(L, fopo_policy_check_whole(&pi->policy, what));
  return pi;
}

static int put_theta(bind_policy *pi, const bind_array *theta) {
  fopo_matrix own = pi->policy.theta;
  if (theta->rows != own.rows || theta->cols != own.cols) {
    if (pi->policy.net.layers > 0) {
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "theta is %zu x %zu but this network's parameters are 1 x %zu; "
                       "pi:set_parameters takes them by name",
                       theta->rows, theta->cols, own.cols);
    }
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "theta is %zu x %zu but contexts have %zu features and the items have %zu "
                     "columns; it must be %zu x %zu",
                     theta->rows, theta->cols, own.rows, own.cols, own.rows, own.cols);
  }
  int status = fopo_matrix_finite(bind_matrix(theta), "theta");
  if (status == FOPO_OK) memcpy(own.x, theta->data, own.rows * own.cols * sizeof(float));
  return status;
}

/* The number of features of a context: the option, or the columns of the items. */
static size_t context_dim(lua_State *L, size_t columns) {
  if (!bind_has(L, 1, "context_dim")) return columns;
  return bind_option_count(L, 1, "context_dim", 0, SIZE_MAX);
}

/* Pushes a policy without parameters that keeps the items at `items_at`, or, with train_items, a
 * copy of them that it learns. */
static bind_policy *begin(lua_State *L, int items_at) {
  int train = bind_option_boolean(L, 1, "train_items");
  bind_array *given = bind_array_items(L, items_at, "items");
  if (train) {
    given = bind_array_numbers(L, items_at, "items that are learnt");
    /* the copy, and Adam's two moments from the first step on */
    bind_check(L, fopo_memory_suffices((uint64_t)given->rows * given->cols * 3 * sizeof(float),
                                       "training the items (a copy and the optimiser's state)",
                                       "use fewer items or dimensions, or train_items = false"));
    bind_array *copy = bind_array_new(L, 0, given->rows, given->cols);
    given = bind_array_numbers(L, items_at, "items");
    memcpy(copy->data, given->data, given->rows * given->cols * sizeof(float));
  } else {
    lua_pushvalue(L, items_at);
  }
  int own_at = lua_gettop(L);
  bind_policy *pi = bind_new(L, &bind_policy_type, 2);
  lua_pushvalue(L, own_at);
  lua_setiuservalue(L, -2, 1 + ITEMS);
  lua_pushvalue(L, items_at);
  lua_setiuservalue(L, -2, 1 + INITIAL);
  bind_keep(&pi->object, ITEMS, &bind_array_items(L, own_at, "items")->object);
  bind_keep(&pi->object, INITIAL, &bind_array_items(L, items_at, "items")->object);
  pi->policy.learns[FOPO_BLOCK_ITEMS] = train;
  pi->encoder = fopo_encoders[bind_has(L, 1, "contexts")
                                  ? bind_option_choice(L, 1, "contexts", fopo_encoder_names)
                                  : 0];
  return pi;
}

/* After the init, which forgets what was there. */
static void set_shard(bind_policy *pi) {
  pi->policy.shard = ((const bind_array *)pi->object.keeps[ITEMS])->shard;
}

static fopo_matrix items_of(const bind_policy *pi) {
  return bind_matrix((const bind_array *)pi->object.keeps[ITEMS]);
}

/* Applies the option `rows` to a policy that has its parameters. */
static void halve(lua_State *L, bind_policy *pi) {
  if (!bind_has(L, 1, "rows")) return;
  int at = bind_option(L, 1, "rows");
  fopo_float type = (fopo_float)bind_choice(L, at, "rows", fopo_float_names);
  lua_pop(L, 1);
  bind_check(L, fopo_policy_halve(&pi->policy, type));
}

/* native.policy_linear{items, theta = "identity" | "random" | array, context_dim, contexts,
 * temperature, seed, train_items, rows}. */
static int policy_linear(lua_State *L) {
  static const char *const starts[] = {"identity", "random", NULL};
  int items_at = bind_option(L, 1, "items"), theta_at = bind_option(L, 1, "theta");
  double temperature = bind_option_number(L, 1, "temperature");
  uint64_t seed = bind_option_seed(L, 1);
  int given = bind_is(L, theta_at, &bind_array_type);
  int start = given ? 1 : bind_choice(L, theta_at, "theta", starts);
  size_t D = context_dim(L, bind_array_items(L, items_at, "items")->cols);

  bind_policy *pi = begin(L, items_at);
  int train = pi->policy.learns[FOPO_BLOCK_ITEMS];
  bind_check(L, fopo_policy_init_linear(&pi->policy, items_of(pi), D,
                                        start == 0 ? FOPO_THETA_IDENTITY : FOPO_THETA_RANDOM,
                                        (float)temperature, seed));
  pi->policy.learns[FOPO_BLOCK_ITEMS] = train;
  set_shard(pi);
  halve(L, pi);
  if (given) bind_check(L, put_theta(pi, bind_array_numbers(L, theta_at, "theta")));
  return 1;
}

/* The layers {D, hidden .., L} of a network, from the option hidden = {h} or {h1, h2}. */
static fopo_network network_option(lua_State *L, size_t D, size_t dim) {
  int at = bind_option(L, 1, "hidden");
  bind_table(L, at, "hidden");
  size_t n = lua_rawlen(L, at);
  if (n < 1 || n > FOPO_LAYERS - 1) {
    bind_refuse(L,
                "hidden has %zu entries; give the units of 1 or 2 hidden layers, as in "
                "{64} or {64, 32}",
                n);
  }
  fopo_network net = {.layers = n + 1, .width = {D}};
  for (size_t i = 1; i <= n; i++) {
    lua_rawgeti(L, at, (lua_Integer)i);
    net.width[i] = bind_count(L, lua_gettop(L), "the units of a hidden layer", 0, SIZE_MAX);
    lua_pop(L, 1);
  }
  net.width[n + 1] = dim;
  net.activation = (fopo_activation)bind_option_choice(L, 1, "activation", fopo_activation_names);
  return net;
}

/* native.policy_mlp{items, hidden, activation, context_dim, temperature, seed, train_items,
 * rows}. */
static int policy_mlp(lua_State *L) {
  int items_at = bind_option(L, 1, "items");
  double temperature = bind_option_number(L, 1, "temperature");
  uint64_t seed = bind_option_seed(L, 1);
  size_t dim = bind_array_items(L, items_at, "items")->cols;
  fopo_network net = network_option(L, context_dim(L, dim), dim);

  bind_policy *pi = begin(L, items_at);
  int train = pi->policy.learns[FOPO_BLOCK_ITEMS];
  bind_check(L,
             fopo_policy_init_network(&pi->policy, items_of(pi), &net, (float)temperature, seed));
  pi->policy.learns[FOPO_BLOCK_ITEMS] = train;
  set_shard(pi);
  halve(L, pi);
  return 1;
}

/* ---- parameters by name ---- */

/* Part i of the parameters: W1, b1, W2 .. of a network, theta alone of a linear policy. Returns 0
 * after the last one. */
typedef struct {
  char name[8];
  fopo_matrix view; /* into pi's theta */
} part;

static int part_of(part *p, const fopo_policy *pi, size_t i) {
  if (pi->net.layers == 0) {
    *p = (part){"theta", pi->theta};
    return i == 0;
  }
  size_t layer = i / 2;
  if (layer >= pi->net.layers) return 0;
  size_t in = pi->net.width[layer], out = pi->net.width[layer + 1];
  float *W = pi->theta.x + fopo_network_offset(&pi->net, layer);
  *p = (part){"",
              i % 2 == 0 ? fopo_matrix_view(W, in, out) : fopo_matrix_view(W + in * out, 1, out)};
  p->name[0] = i % 2 == 0 ? 'W' : 'b';
  p->name[1] = (char)('1' + layer);
  return 1;
}

/* pi:parameters(): a table of copies by name. */
static int parameters(lua_State *L) {
  part p;
  lua_newtable(L);
  for (size_t i = 0; part_of(&p, &get_policy(L, 1)->policy, i); i++) {
    bind_array *copy = bind_array_new(L, 0, p.view.rows, p.view.cols);
    part_of(&p, &get_policy(L, 1)->policy, i);
    memcpy(copy->data, p.view.x, p.view.rows * p.view.cols * sizeof(float));
    lua_setfield(L, -2, p.name);
  }
  return 1;
}

/* pi:set_parameters(t): arrays by name, all those of pi:parameters(). On failure nothing has
 * changed. */
static int set_parameters(lua_State *L) {
  part p;
  lua_settop(L, 2);
  bind_table(L, 2, "the parameters");
  bind_get_free(L, 1, &bind_policy_type);
  for (size_t i = 0; part_of(&p, &get_policy(L, 1)->policy, i); i++) {
    bind_array *a = bind_array_numbers(L, bind_option(L, 2, p.name), p.name);
    if (a->rows != p.view.rows || a->cols != p.view.cols) {
      return bind_refuse(L, "%s is %zu x %zu but must be %zu x %zu", p.name, a->rows, a->cols,
                         p.view.rows, p.view.cols);
    }
    bind_check(L, fopo_matrix_finite(bind_matrix(a), p.name));
  }
  for (size_t i = 0; part_of(&p, &get_policy(L, 1)->policy, i); i++) {
    const bind_array *a = bind_array_numbers(L, 3 + (int)i, p.name);
    memcpy(p.view.x, a->data, a->rows * a->cols * sizeof(float));
  }
  return 0;
}

/* pi:queries(x): Q [N, L] = x theta / temperature. */
static int queries(lua_State *L) {
  size_t dim = get_policy(L, 1)->policy.items.cols;
  bind_array *Q = bind_array_new(L, 0, bind_array_numbers(L, 2, "x")->rows, dim);
  bind_array *x = bind_array_numbers(L, 2, "x");
  bind_check(L, fopo_policy_queries(bind_matrix(Q), &get_policy(L, 1)->policy, bind_matrix(x)));
  return 1;
}

/* native.policy_temperature(x, items, effective): the temperature at which the softmax of
 * x . beta_a / temperature has `effective` items in effect, in the median of the contexts x. */
static int policy_temperature(lua_State *L) {
  bind_array *x = bind_array_numbers(L, 1, "x"), *items = bind_array_items(L, 2, "items");
  double effective = bind_number(L, 3, "effective"), temperature;
  if (x->cols != items->cols) {
    return bind_refuse(L, "contexts of %zu columns do not fit items of %zu", x->cols, items->cols);
  }
  fopo_scores scores = {.Q = bind_matrix(x), .items = bind_matrix(items)};
  if (items->shard != NULL) {
    scores.items = items->shard->items;
    scores.part = &items->shard->part;
  }
  bind_check(L, fopo_softmax_temperature(&temperature, &scores, effective));
  return bind_return_number(L, temperature);
}

/* pi:best(x, index, k): ids, scores [N, k] of the best items of each context, best first, and how
 * many rows got fewer than k. */
static int best(lua_State *L) {
  get_policy(L, 1);
  bind_index *ix = bind_get(L, 3, &bind_index_type);
  size_t k = bind_index_k(L, 4, ix), rows = bind_array_numbers(L, 2, "x")->rows;
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

/* pi:theta(): a copy of theta [D, L]; of a network all parameters [1, n_params]. */
static int theta(lua_State *L) {
  fopo_matrix own = get_policy(L, 1)->policy.theta;
  bind_array *copy = bind_array_new(L, 0, own.rows, own.cols);
  memcpy(copy->data, get_policy(L, 1)->policy.theta.x, own.rows * own.cols * sizeof(float));
  return 1;
}

/* pi:set_theta(array): copies [D, L] finite numbers into theta. */
static int set_theta(lua_State *L) {
  bind_policy *pi = bind_get_free(L, 1, &bind_policy_type);
  bind_check(L, put_theta(pi, bind_array_numbers(L, 2, "theta")));
  return 0;
}

/* pi:items(): the array it was made with, or the policy's own copy if it learns the items. */
static int items(lua_State *L) {
  bind_push_held(L, 1, &bind_policy_type, ITEMS);
  return 1;
}

/* pi:initial_items(): the array it was made with. */
static int initial_items(lua_State *L) {
  bind_push_held(L, 1, &bind_policy_type, INITIAL);
  return 1;
}

/* pi:set_items(array): copies [P, L] finite numbers into items that the policy learns. */
static int set_items(lua_State *L) {
  bind_policy *pi = get_policy(L, 1);
  bind_array *a = bind_array_numbers(L, 2, "items");
  fopo_matrix own = pi->policy.items;
  if (!pi->policy.learns[FOPO_BLOCK_ITEMS]) {
    return bind_refuse(L, "the items of this policy are fixed; make it with "
                          "train_items = true, or make another from other items");
  }
  if (a->rows != own.rows || a->cols != own.cols) {
    return bind_refuse(L, "these items are %zu x %zu but the policy's are %zu x %zu", a->rows,
                       a->cols, own.rows, own.cols);
  }
  bind_check(L, fopo_matrix_finite(bind_matrix(a), "items"));
  if (a->data != own.x) memcpy(own.x, a->data, own.rows * own.cols * sizeof(float));
  pi->policy.version++;
  return 0;
}

/* ---- fields ---- */

static const fopo_policy *policy_of(const bind_object *o) {
  return &((const bind_policy *)o)->policy;
}

/* The units of the hidden layers, a list; nil for a linear policy. */
static int field_hidden(lua_State *L, bind_object *o) {
  const fopo_network *net = &policy_of(o)->net;
  if (net->layers == 0) return bind_return_nil(L);
  bind_push_counts(L, net->width + 1, net->layers - 1);
  return 1;
}

static int field_activation(lua_State *L, bind_object *o) {
  const fopo_network *net = &policy_of(o)->net;
  if (net->layers == 0) return bind_return_nil(L);
  return bind_return_string(L, fopo_activation_names[net->activation]);
}

static int field_kind(lua_State *L, bind_object *o) {
  return bind_return_string(L, policy_of(o)->net.layers > 0 ? "mlp" : "linear");
}

static int field_n_items(lua_State *L, bind_object *o) {
  return bind_return_count(L, fopo_policy_n_items(policy_of(o)));
}

static int field_dim(lua_State *L, bind_object *o) {
  return bind_return_count(L, policy_of(o)->items.cols);
}

static int field_context_dim(lua_State *L, bind_object *o) {
  return bind_return_count(L, fopo_policy_context_dim(policy_of(o)));
}

static int field_n_params(lua_State *L, bind_object *o) {
  return bind_return_count(L, policy_of(o)->theta.rows * policy_of(o)->theta.cols);
}

static int field_temperature(lua_State *L, bind_object *o) {
  return bind_return_number(L, (double)policy_of(o)->temperature);
}

static int field_contexts(lua_State *L, bind_object *o) {
  return bind_return_string(L, ((bind_policy *)o)->encoder->name);
}

static int field_train_items(lua_State *L, bind_object *o) {
  return bind_return_boolean(L, policy_of(o)->learns[FOPO_BLOCK_ITEMS]);
}

static int field_rows(lua_State *L, bind_object *o) {
  return bind_return_string(L, fopo_float_names[policy_of(o)->rows.type]);
}

static int field_version(lua_State *L, bind_object *o) {
  return bind_return_count(L, policy_of(o)->version);
}

const luaL_Reg bind_policy_functions[] = {{"policy_linear", policy_linear},
                                          {"policy_mlp", policy_mlp},
                                          {"policy_temperature", policy_temperature},
                                          {NULL, NULL}};

static const luaL_Reg methods[] = {{"queries", queries},       {"best", best},
                                   {"theta", theta},           {"set_theta", set_theta},
                                   {"parameters", parameters}, {"set_parameters", set_parameters},
                                   {"items", items},           {"initial_items", initial_items},
                                   {"set_items", set_items},   {NULL, NULL}};

static const bind_field fields[] = {{"kind", field_kind, NULL},
                                    {"hidden", field_hidden, NULL},
                                    {"activation", field_activation, NULL},
                                    {"n_items", field_n_items, NULL},
                                    {"dim", field_dim, NULL},
                                    {"context_dim", field_context_dim, NULL},
                                    {"n_params", field_n_params, NULL},
                                    {"temperature", field_temperature, NULL},
                                    {"contexts", field_contexts, NULL},
                                    {"train_items", field_train_items, NULL},
                                    {"rows", field_rows, NULL},
                                    {"version", field_version, NULL},
                                    {NULL, NULL, NULL}};

const bind_type bind_policy_type = {.name = "fopo.policy",
                                    .size = sizeof(bind_policy),
                                    .done = done,
                                    .methods = methods,
                                    .fields = fields};
