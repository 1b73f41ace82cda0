/* The softmax policy. */
#include <string.h>

#include "bind/families.h"
#include "contexts/contexts.h"
#include "core/memory.h"
#include "policy/softmax.h"

enum {
  ITEMS,
  INITIAL,
  WEIGHTS, /* of the encoding; empty if it weighs no items */
  OWN      /* the weights of a policy that scores lists; the functions of a custom one */
};         /* slots; user value slot + 1 of the handle is a handle on the same object */

static void done(bind_object *o) { fopo_policy_done(&((bind_policy *)o)->policy); }

static bind_policy *get_policy(lua_State *L, int index) {
  return bind_get(L, index, &bind_policy_type);
}

bind_policy *bind_policy_whole(lua_State *L, int index, const char *what) {
  bind_policy *pi = get_policy(L, index);
  bind_check(L, fopo_policy_check_whole(&pi->policy, what));
  return pi;
}

/* The number of features of a context: the option, or the columns of the items. */
static size_t context_dim(lua_State *L, size_t columns) {
  if (!bind_has(L, 1, "context_dim")) return columns;
  return bind_option_count(L, 1, "context_dim", 0, SIZE_MAX);
}

/* Pushes an array of the items that a policy scores, where they are not those that are given at
 * `items_at`: a copy that is learnt, or one with columns of the kind. */
static void push_own_items(lua_State *L, const fopo_policy_kind *kind, const fopo_policy_options *o,
                           int items_at, int train) {
  const char *what = train ? "items that are learnt" : "items to which the policy adds columns";
  bind_array *given = bind_array_numbers(L, items_at, what);
  size_t P = given->rows, L_own = given->cols + kind->more_columns;
  /* the copy, and Adam's two moments from the first step on */
  uint64_t bytes = (uint64_t)P * L_own * (train ? 3 : 1) * sizeof(float);
  bind_check(L, fopo_memory_suffices(bytes,
                                     train ? "training the items (a copy and the optimiser's state)"
                                           : "the items with columns of the policy",
                                     "use fewer items or dimensions, or do not learn the items"));
  bind_array *own = bind_array_new(L, 0, P, L_own);
  given = bind_array_numbers(L, items_at, what);
  if (kind->fill_items != NULL) {
    kind->fill_items(bind_matrix(own), bind_matrix(given), o);
  } else {
    memcpy(own->data, given->data, bind_array_bytes(given));
  }
}

/* Pushes a policy without parameters that scores the items at `own_at` and was made with those at
 * `items_at`. */
static bind_policy *begin(lua_State *L, int own_at, int items_at) {
  bind_policy *pi = bind_new(L, &bind_policy_type, 4);
  lua_pushvalue(L, own_at);
  lua_setiuservalue(L, -2, 1 + ITEMS);
  lua_pushvalue(L, items_at);
  lua_setiuservalue(L, -2, 1 + INITIAL);
  bind_keep(&pi->object, ITEMS, &bind_array_items(L, own_at, "items")->object);
  bind_keep(&pi->object, INITIAL, &bind_array_items(L, items_at, "items")->object);
  return pi;
}

/* Contexts by this encoder, with the weights at stack index `at`, if they are not nil. */
static void set_encoding(lua_State *L, bind_policy *pi, const fopo_encoder *encoder, int at) {
  const bind_array *items = (const bind_array *)pi->object.keeps[ITEMS];
  size_t P = items->shard != NULL ? items->shard->part.P : items->rows;
  pi->encoding = bind_encoding(L, encoder, at, P);
  if (pi->encoding.weights == NULL) return;
  bind_keep(&pi->object, WEIGHTS, &bind_array_numbers(L, at, "item_weights")->object);
  lua_pushvalue(L, at);
  lua_setiuservalue(L, -2, 1 + WEIGHTS);
}

/* pi, which is on the top of the stack, scores by the weights at `at` from now on. */
static void set_neighbours(lua_State *L, bind_policy *pi, int at) {
  bind_neighbours *x = bind_get(L, at, &bind_neighbours_type);
  if (x->neighbours.weights.rows != pi->policy.items.rows) {
    bind_refuse(L, "the weights are of %zu items but the policy has %zu",
                x->neighbours.weights.rows, pi->policy.items.rows);
  }
  lua_pushvalue(L, at);
  lua_setiuservalue(L, -2, 1 + OWN);
  bind_keep(&pi->object, OWN, &x->object);
  bind_check(L, fopo_neighbours_attach(&pi->policy, &x->neighbours));
  bind_pressure(L, pi->policy.delta.rows * sizeof(float));
}

/* After the init, which forgets what was there. */
static void set_shard(bind_policy *pi) {
  pi->policy.shard = ((const bind_array *)pi->object.keeps[ITEMS])->shard;
}

const bind_array *bind_policy_initial(const bind_policy *pi) {
  return (const bind_array *)pi->object.keeps[INITIAL];
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

/* Reads the options of the kind and of its part. Returns the stack index of the array that one of
 * them is, its first parameters; 0: none is. */
static int read_options(lua_State *L, const fopo_policy_kind *kind, fopo_policy_options *o) {
  int array_at = 0;
  for (; kind != NULL; kind = fopo_policy_part(kind, o)) {
    for (const fopo_option *row = kind->options; row->name != NULL; row++) {
      bind_read_row(L, 1, row, o);
      if (row->type != FOPO_OPTION_START || !bind_has(L, 1, row->name)) continue;
      int at = bind_option(L, 1, row->name);
      if (bind_is(L, at, &bind_array_type)) array_at = at;
    }
  }
  return array_at;
}

/* Names in the option learn, at most: the parameters, "theta" for all, and "items". */
enum { NAMES = FOPO_POLICY_PARAMETERS + 2 };

/* names [NAMES] of the option learn, which stay in its table; returns how many. */
static size_t read_learn(lua_State *L, const char **names, int at) {
  bind_table(L, at, "learn");
  size_t n = lua_rawlen(L, at);
  if (n > NAMES) bind_refuse(L, "learn has %zu names; give %d at most", n, (int)NAMES);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, at, (lua_Integer)i + 1);
    if (lua_type(L, -1) != LUA_TSTRING) bind_refuse(L, "learn is a list of names, as {\"theta\"}");
    names[i] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  return n;
}

/* native.policy_NAME{items, neighbours (of a kind that scores lists), names (of the parameters of a
 * custom one), context_dim, contexts,
 * item_weights, temperature, seed, seen, train_items, learn, rows, and those of the kind}. */
static int make(lua_State *L, const fopo_policy_kind *kind) {
  int items_at = bind_option(L, 1, "items"), train = bind_option_boolean(L, 1, "train_items");
  const char *names[NAMES + 1], *items_name = fopo_block_names[FOPO_BLOCK_ITEMS];
  int chosen = bind_has(L, 1, "learn");
  size_t n = chosen ? read_learn(L, names, bind_option(L, 1, "learn")) : 0;
  if (train) names[n++] = items_name;
  for (size_t i = 0; i < n; i++) train = train || strcmp(names[i], items_name) == 0;
  fopo_policy_options o = {.temperature = (float)bind_option_number(L, 1, "temperature"),
                           .seed = kind->seed != NULL ? bind_option_seed(L, 1) : 0};
  o.context_dim = context_dim(L, bind_array_items(L, items_at, "items")->cols);
  int array_at = read_options(L, kind, &o), own_at = items_at;
  o.learn = names;
  o.n_learn = n;
  int weights_at = bind_option(L, 1, "item_weights");
  if (train || kind->fill_items != NULL) {
    push_own_items(L, kind, &o, items_at, train);
    own_at = lua_gettop(L);
  }
  int lists_at = kind->score_list != NULL ? bind_option(L, 1, "neighbours") : 0;
  bind_policy *pi = begin(L, own_at, items_at);
  int encoder =
      bind_has(L, 1, "contexts") ? bind_option_choice(L, 1, "contexts", fopo_encoder_names) : 0;
  set_encoding(L, pi, fopo_encoders[encoder], weights_at);
  if (bind_row(kind->options, "queries") != NULL) {
    if (bind_array_items(L, items_at, "items")->shard != NULL) {
      bind_refuse(L, "a custom policy needs all items here, and they are dealt out to the ranks; "
                     "give the whole array, or use a policy in C");
    }
    bind_custom_attach(L, &pi->object, OWN, &o);
  }
  if (array_at > 0) o.given = bind_matrix(bind_array_numbers(L, array_at, "theta"));
  bind_check(L, fopo_policy_init(&pi->policy, kind, items_of(pi), &o));
  pi->policy.learns[FOPO_BLOCK_ITEMS] = train;
  if (chosen) bind_check(L, fopo_policy_learn(&pi->policy, names, n));
  if (lists_at > 0) {
    set_neighbours(L, pi, lists_at);
  } else {
    pi->policy.masks_seen =
        bind_has(L, 1, "seen") ? bind_option_choice(L, 1, "seen", fopo_seen_names) : FOPO_SEEN_KEEP;
  }
  set_shard(pi);
  halve(L, pi);
  return 1;
}

/* native.policy_over(pi, items[, rows]): a policy with the parameters of pi that scores these items
 * [P, L], for checks. */
static int policy_over(lua_State *L) {
  lua_settop(L, 3);
  size_t dim = get_policy(L, 1)->policy.items.cols;
  if (bind_array_items(L, 2, "items")->cols != dim) {
    return bind_refuse(L, "the policy scores items of %zu columns", dim);
  }
  bind_policy *pi = begin(L, 2, 2);
  const bind_policy *from = get_policy(L, 1);
  fopo_matrix items = items_of(pi);
  bind_check(L, fopo_policy_copy(&pi->policy, &from->policy));
  pi->encoding = from->encoding;
  bind_keep(&pi->object, WEIGHTS, from->object.keeps[WEIGHTS]);
  pi->policy.items = items;
  pi->policy.rows = fopo_rows_float32(items.x, items.ld);
  pi->policy.learns[FOPO_BLOCK_ITEMS] = 0;
  set_shard(pi);
  bind_keep(&pi->object, OWN, from->object.keeps[OWN]);
  if (lua_isnil(L, 3)) return 1;
  bind_check(
      L, fopo_policy_halve(&pi->policy, (fopo_float)bind_choice(L, 3, "rows", fopo_float_names)));
  return 1;
}

/* native.policy_moved(pi, items, ids, rows, h): the same, with h times rows [n, 1] added to the
 * weights of the numbers ids, for checks. */
static int policy_moved(lua_State *L) {
  double h = bind_number(L, 5, "h");
  lua_pushcfunction(L, policy_over);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  fopo_matrix delta = get_policy(L, -1)->policy.delta;
  const bind_array *ids = bind_array_ids(L, 3, "ids"), *rows = bind_array_numbers(L, 4, "rows");
  size_t n = ids->rows * ids->cols;
  if (rows->rows * rows->cols != n) return bind_refuse(L, "%zu ids but %zu rows", n, rows->rows);
  for (size_t i = 0; i < n; i++) {
    uint32_t id = ((const uint32_t *)ids->data)[i];
    if (id >= delta.rows) return bind_refuse(L, "the policy learns %zu weights", delta.rows);
    delta.x[id] += (float)(h * (double)((const float *)rows->data)[i]);
  }
  return 1;
}

/* native.policy_begin(pi, from): pi begins as `from`, which was made with the same items and
 * options but for those that sessions decide; false, and nothing is done, if its parameters were
 * set before. */
static int policy_begin(lua_State *L) {
  bind_policy *pi = bind_get_free(L, 1, &bind_policy_type);
  const bind_policy *from = get_policy(L, 2);
  int as_made = pi->policy.set == 0;
  if (as_made) {
    bind_check(L, fopo_policy_set_theta(&pi->policy, from->policy.theta));
    pi->policy.temperature = from->policy.temperature;
    pi->policy.options.temperature = from->policy.options.temperature;
    pi->policy.masks_seen = from->policy.masks_seen;
    pi->encoding = from->encoding; /* unit, or by the weights that both were given */
  }
  return bind_return_boolean(L, as_made);
}

/* ---- parameters by name ---- */

/* *p = parameter i of the policy at index 1; 0 after the last one. */
static int parameter(lua_State *L, fopo_parameter *p, size_t i) {
  const fopo_policy *pi = &get_policy(L, 1)->policy;
  return pi->kind->parameter(p, pi, i);
}

/* pi:parameters(): a table of copies by name. */
static int parameters(lua_State *L) {
  fopo_parameter p;
  lua_newtable(L);
  for (size_t i = 0; parameter(L, &p, i); i++) {
    bind_array *copy = bind_array_new(L, 0, p.view.rows, p.view.cols);
    parameter(L, &p, i);
    memcpy(copy->data, p.view.x, p.view.rows * p.view.cols * sizeof(float));
    lua_setfield(L, -2, p.name);
  }
  return 1;
}

/* pi:set_parameters(t): arrays by name, all those of pi:parameters(). On failure nothing has
 * changed. */
static int set_parameters(lua_State *L) {
  fopo_parameter p;
  lua_settop(L, 2);
  bind_table(L, 2, "the parameters");
  bind_get_free(L, 1, &bind_policy_type);
  for (size_t i = 0; parameter(L, &p, i); i++) {
    bind_array *a = bind_array_numbers(L, bind_option(L, 2, p.name), p.name);
    if (a->rows != p.view.rows || a->cols != p.view.cols) {
      return bind_refuse(L, "%s is %zu x %zu but must be %zu x %zu", p.name, a->rows, a->cols,
                         p.view.rows, p.view.cols);
    }
    bind_check(L, fopo_matrix_finite(bind_matrix(a), p.name));
  }
  get_policy(L, 1)->policy.set++;
  for (size_t i = 0; parameter(L, &p, i); i++) {
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

/* native.policy_temperature(x, items, effective[, seen]): the temperature at which the softmax of
 * x . beta_a / temperature has `effective` items in effect, in the median of the contexts x; over
 * the items that are not in X of the sessions `seen`. */
static int policy_temperature(lua_State *L) {
  bind_array *x = bind_array_numbers(L, 1, "x"), *items = bind_array_items(L, 2, "items");
  double effective = bind_number(L, 3, "effective"), temperature;
  if (x->cols != items->cols) {
    return bind_refuse(L, "contexts of %zu columns do not fit items of %zu", x->cols, items->cols);
  }
  fopo_scores scores = {.Q = bind_matrix(x), .items = bind_matrix(items)};
  fopo_sparse_scores seen;
  if (!lua_isnoneornil(L, 4)) {
    const fopo_csr *X = &bind_get_sessions(L, 4)->X;
    bind_check(L, fopo_mask_check(X, x->rows, items->shard ? items->shard->part.P : items->rows));
    seen = fopo_mask_of(X);
    scores.sparse = &seen;
  }
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
  fopo_contexts contexts = fopo_contexts_of(bind_matrix(x));
  bind_check(L, fopo_policy_check_lists(&get_policy(L, 1)->policy, &contexts));
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
  bind_check(L, fopo_policy_set_theta(&pi->policy, bind_matrix(bind_array_numbers(L, 2, "theta"))));
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

/* pi:item_weights(): the weights of the items in its contexts; nil if it weighs none. */
static int item_weights(lua_State *L) {
  bind_push_held(L, 1, &bind_policy_type, WEIGHTS);
  return 1;
}

/* pi:set_items(array): copies [P, L] finite numbers into items that the policy learns. */
static int set_items(lua_State *L) {
  bind_policy *pi = get_policy(L, 1);
  bind_array *a = bind_array_numbers(L, 2, "items");
  fopo_matrix own = pi->policy.items;
  if (!pi->policy.learns[FOPO_BLOCK_ITEMS]) {
    return bind_refuse(L, "the items of this policy are fixed; make it with "
                          "learn = {\"items\"}, or make another from other items");
  }
  if (a->rows != own.rows || a->cols != own.cols) {
    return bind_refuse(L, "these items are %zu x %zu but the policy's are %zu x %zu", a->rows,
                       a->cols, own.rows, own.cols);
  }
  bind_check(L, fopo_matrix_finite(bind_matrix(a), "items"));
  if (a->data != own.x) memcpy(own.x, a->data, own.rows * own.cols * sizeof(float));
  pi->policy.version++;
  pi->policy.set++;
  return 0;
}

/* ---- fields ---- */

static const fopo_policy *policy_of(const bind_object *o) {
  return &((const bind_policy *)o)->policy;
}

static const fopo_option *saved_option(const fopo_policy_kind *kind, const char *name) {
  const fopo_option *row = bind_row(kind->options, name);
  return row != NULL && row->flags & FOPO_OPTION_SAVED ? row : NULL;
}

/* The option of the kind named at stack index 2: nil if it is one of other kinds, 0 if of none. */
static int field_option(lua_State *L, bind_object *o) {
  const fopo_policy *pi = policy_of(o);
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  const fopo_policy_kind *part = fopo_policy_part(pi->kind, &pi->options);
  const fopo_option *row = saved_option(pi->kind, name);
  if (row == NULL && part != NULL) row = saved_option(part, name);
  if (row != NULL) return bind_push_row(L, row, &pi->options);
  for (int i = 0; fopo_policy_kinds[i] != NULL; i++) {
    if (saved_option(fopo_policy_kinds[i], name) != NULL) return bind_return_nil(L);
  }
  return 0;
}

BIND_FIELD(field_kind, string, policy_of(o)->kind->name)

/* The shape of the parameters in words; nil: theta [D, L]. */
static int field_shape(lua_State *L, bind_object *o) {
  char text[FOPO_POLICY_DESCRIPTION];
  const fopo_policy *pi = policy_of(o);
  if (pi->kind->describe == NULL) return bind_return_nil(L);
  pi->kind->describe(text, pi);
  return bind_return_string(L, text);
}

BIND_FIELD(field_scores_lists, boolean, policy_of(o)->kind->score_list != NULL)
BIND_FIELD(field_difference_step, number, policy_of(o)->kind->difference_step)
BIND_FIELD(field_in_double, boolean, policy_of(o)->kind->reference != NULL)
BIND_FIELD(field_n_items, count, fopo_policy_n_items(policy_of(o)))
BIND_FIELD(field_dim, count, policy_of(o)->items.cols)
BIND_FIELD(field_context_dim, count, fopo_policy_context_dim(policy_of(o)))
BIND_FIELD(field_n_params, count, (policy_of(o)->theta.rows) * policy_of(o)->theta.cols)
BIND_FIELD(field_temperature, number, (double)policy_of(o)->temperature)
BIND_FIELD(field_contexts, string, ((bind_policy *)o)->encoding.encoder->name)

static int field_seen(lua_State *L, bind_object *o) {
  fopo_seen seen = policy_of(o)->masks_seen ? FOPO_SEEN_MASK : FOPO_SEEN_KEEP;
  return bind_return_string(L, fopo_seen_names[seen]);
}

BIND_FIELD(field_train_items, boolean, policy_of(o)->learns[FOPO_BLOCK_ITEMS])

/* pi.learn and pi.fixed: the names of the blocks that are learnt; of the parameters that are not.
 */
static int push_names(lua_State *L, const fopo_policy *pi, int learnt) {
  fopo_parameter p;
  lua_newtable(L);
  for (size_t i = 0; pi->kind->parameter(&p, pi, i); i++) {
    if ((pi->fixed >> i & 1) == (uint32_t)learnt) continue;
    lua_pushstring(L, p.name);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  for (int i = FOPO_BLOCK_ITEMS; learnt && i < FOPO_BLOCKS; i++) {
    if (!pi->learns[i]) continue;
    lua_pushstring(L, fopo_block_names[i]);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  return 1;
}

static int field_learn(lua_State *L, bind_object *o) { return push_names(L, policy_of(o), 1); }

static int field_fixed(lua_State *L, bind_object *o) { return push_names(L, policy_of(o), 0); }

BIND_FIELD(field_rows, string, fopo_float_names[policy_of(o)->rows.type])
BIND_FIELD(field_version, count, policy_of(o)->version)

/* native.policies(): the kinds, as the declarations of fopo.policy need them. */
static int policies(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; fopo_policy_kinds[i] != NULL; i++) {
    const fopo_policy_kind *kind = fopo_policy_kinds[i];
    bind_push_entry(L, kind->name, kind->name, kind->text, kind->example, kind->options);
    bind_set_string(L, "seed", kind->seed);
    bind_set_boolean(L, "scores_lists", kind->score_list != NULL);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

#define X(name)                                                                                    \
  static int new_##name(lua_State *L) { return make(L, &fopo_policy_##name); }
#include "policy/policies.def"
#undef X

const luaL_Reg bind_policy_functions[] = {{"policies", policies},
#define X(name) {"policy_" #name, new_##name},
#include "policy/policies.def"
#undef X
                                          {"policy_over", policy_over},
                                          {"policy_moved", policy_moved},
                                          {"policy_begin", policy_begin},
                                          {"policy_temperature", policy_temperature},
                                          {NULL, NULL}};

static const luaL_Reg methods[] = {{"queries", queries},
                                   {"best", best},
                                   {"theta", theta},
                                   {"set_theta", set_theta},
                                   {"parameters", parameters},
                                   {"set_parameters", set_parameters},
                                   {"items", items},
                                   {"initial_items", initial_items},
                                   {"item_weights", item_weights},
                                   {"set_items", set_items},
                                   {NULL, NULL}};

static const bind_field fields[] = {{"kind", field_kind, NULL},
                                    {"shape", field_shape, NULL},
                                    {"scores_lists", field_scores_lists, NULL},
                                    {"difference_step", field_difference_step, NULL},
                                    {"in_double", field_in_double, NULL},
                                    {"n_items", field_n_items, NULL},
                                    {"dim", field_dim, NULL},
                                    {"context_dim", field_context_dim, NULL},
                                    {"n_params", field_n_params, NULL},
                                    {"temperature", field_temperature, NULL},
                                    {"contexts", field_contexts, NULL},
                                    {"train_items", field_train_items, NULL},
                                    {"learn", field_learn, NULL},
                                    {"fixed", field_fixed, NULL},
                                    {"seen", field_seen, NULL},
                                    {"rows", field_rows, NULL},
                                    {"version", field_version, NULL},
                                    {NULL, NULL, NULL}};

const bind_type bind_policy_type = {.name = "fopo.policy",
                                    .size = sizeof(bind_policy),
                                    .done = done,
                                    .methods = methods,
                                    .fields = fields,
                                    .other = field_option};
