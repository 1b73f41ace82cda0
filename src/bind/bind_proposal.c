/* Proposals: what self-normalised importance sampling draws from. */
#include <string.h>

#include "bind/families.h"

static const char *const draws[] = {"iid", "stratified", NULL};

/* The option `refresh`: "once" or a number of visits; 1 if left out. */
static size_t refresh_option(lua_State *L, int index) {
  int at = bind_option(L, index, "refresh");
  if (lua_isnil(L, at)) return 1;
  if (lua_type(L, at) != LUA_TSTRING) return bind_count(L, at, "refresh", 0, UINT32_MAX);
  static const char *const words[] = {"once", NULL};
  bind_choice(L, at, "refresh", words);
  return FOPO_REFRESH_ONCE;
}

static bind_proposal *get_proposal(lua_State *L, int index) {
  return bind_get(L, index, &bind_proposal_type);
}

/* native.proposal_uniform(): q(a) = 1 / P. */
static int proposal_uniform(lua_State *L) {
  bind_proposal *q = bind_new(L, &bind_proposal_type, 0);
  q->proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_UNIFORM, .epsilon = 1.0};
  return 1;
}

/* native.proposal_custom(f): f(Q, rows, S, seed, step) makes the draws. */
static int proposal_custom(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  bind_proposal *q = bind_new(L, &bind_proposal_type, 1);
  q->proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_CUSTOM, .epsilon = 1.0};
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* Pushes a proposal that takes its candidates from the index at `at`; nil: from the automatic one.
 */
static int with_index(lua_State *L, int at, fopo_proposal p) {
  if (!lua_isnil(L, at)) bind_get(L, at, &bind_index_type);
  bind_proposal *q = bind_new(L, &bind_proposal_type, 0);
  if (lua_isnil(L, at)) {
    bind_check(L, fopo_proposal_check(&p, SIZE_MAX));
    q->proposal = p;
    return 1;
  }
  bind_index *ix = bind_get(L, at, &bind_index_type);
  bind_check(L, fopo_proposal_check(&p, bind_index_items(ix)));
  p.index = ix->index;
  q->proposal = p;
  bind_keep(&q->object, 0, &ix->object);
  return 1;
}

/* native.proposal_mixture{index, k, epsilon, draws = "iid" | "stratified", refresh = 1, by_mass}:
 * eps / P everywhere and 1 - eps by the softmax over the k candidates, which are reused for
 * `refresh` visits of their context, a number or "once". */
static int proposal_mixture(lua_State *L) {
  int at = bind_option(L, 1, "index");
  fopo_proposal p = {.kind = FOPO_PROPOSAL_MIXTURE,
                     .by_mass = bind_has(L, 1, "by_mass") && bind_option_boolean(L, 1, "by_mass"),
                     .k = bind_option_count(L, 1, "k", 0, SIZE_MAX),
                     .epsilon = bind_option_number(L, 1, "epsilon"),
                     .stratified = bind_option_choice(L, 1, "draws", draws),
                     .refresh = refresh_option(L, 1)};
  return with_index(L, at, p);
}

/* native.proposal_adaptive{index, k, floor, smoothing, refresh = 1}: a mixture whose epsilon the
 * gradient sets. */
static int proposal_adaptive(lua_State *L) {
  int at = bind_option(L, 1, "index");
  fopo_proposal p = {.kind = FOPO_PROPOSAL_MIXTURE,
                     .k = bind_option_count(L, 1, "k", 0, SIZE_MAX),
                     .epsilon = 1.0,
                     .refresh = refresh_option(L, 1),
                     .adaptive = 1,
                     .floor = bind_option_number(L, 1, "floor"),
                     .smoothing = bind_option_number(L, 1, "smoothing")};
  return with_index(L, at, p);
}

/* Pushes the queries [B, L] of the policy at `pi_at` for the contexts at `x_at`. */
static bind_array *push_queries(lua_State *L, int pi_at, int x_at) {
  bind_policy *pi = bind_get(L, pi_at, &bind_policy_type);
  size_t rows = bind_array_numbers(L, x_at, "x")->rows;
  bind_array *Q = bind_array_new(L, 0, rows, pi->policy.items.cols);
  pi = bind_get(L, pi_at, &bind_policy_type);
  bind_array *x = bind_array_numbers(L, x_at, "x");
  bind_check(L, fopo_policy_queries(bind_matrix(Q), &pi->policy, bind_matrix(x)));
  return Q;
}

/* The draws of a custom proposal. */
static void sample_custom(lua_State *L, const bind_array *Q, const uint32_t *rows, size_t S,
                          fopo_draw_key key, const bind_array *ids, const bind_array *logq) {
  int top = lua_gettop(L);
  size_t P = fopo_policy_n_items(&((bind_policy *)bind_get(L, 2, &bind_policy_type))->policy);
  fopo_drawn drawn = {.rows = rows,
                      .B = Q->rows,
                      .S = S,
                      .draws = ids->data,
                      .density = logq->data,
                      .Q = bind_matrix(Q),
                      .key = key};
  lua_pushnil(L);
  lua_pushnil(L);
  lua_getiuservalue(L, 1, 1);
  if (bind_fill(L, top + 1, &drawn) != LUA_OK) lua_error(L);
  bind_check(L, fopo_proposal_check_draws(ids->data, logq->data, rows, Q->rows, S, P));
  lua_settop(L, top);
}

/* q:sample(pi, x, S, {seed, step, rows, sessions}): ids [B, S] and the log of the proposal's
 * density at each. rows (1 .. B if left out) are the row coordinates of the random draws; they do
 * not select contexts. */
static int sample(lua_State *L) {
  get_proposal(L, 1);
  size_t S = bind_count(L, 4, "S", 1, UINT32_MAX), number;
  fopo_draw_key key = {.seed = bind_option_seed(L, 5),
                       .step = (uint32_t)bind_option_count(L, 5, "step", 0, UINT32_MAX)};
  bind_array *Q = push_queries(L, 2, 3);
  size_t B = Q->rows;
  uint32_t *rows = bind_rows(L, bind_option(L, 5, "rows"), UINT32_MAX, B, &number);
  if (number != B) {
    return bind_refuse(L, "rows has %zu entries but x has %zu rows; give one entry for each row",
                       number, B);
  }
  int sessions_at = bind_has(L, 5, "sessions") ? bind_option(L, 5, "sessions") : 0;
  bind_array *ids = bind_array_new(L, 1, B, S);
  bind_array *logq = bind_array_new(L, 0, B, S);
  if (get_proposal(L, 1)->proposal.kind == FOPO_PROPOSAL_CUSTOM) {
    sample_custom(L, Q, rows, S, key, ids, logq);
    return 2;
  }
  bind_policy *pi = bind_get(L, 2, &bind_policy_type);
  fopo_contexts contexts = {.n = B};
  if (sessions_at > 0) contexts.X = bind_get_sessions(L, sessions_at)->X;
  bind_check(L, fopo_policy_check_lists(&pi->policy, &contexts));
  fopo_sparse_scores seen = fopo_mask_of(&contexts.X);
  int masks = pi->policy.masks_seen && contexts.X.indptr != NULL;
  bind_check(L,
             fopo_proposal_sample(ids->data, logq->data, &get_proposal(L, 1)->proposal, &pi->policy,
                                  bind_matrix(Q), masks ? &seen : NULL, rows, S, key));
  return 2;
}

int bind_return_refresh(lua_State *L, const fopo_proposal *q) {
  if (q->kind != FOPO_PROPOSAL_MIXTURE) return bind_return_nil(L);
  if (q->refresh == FOPO_REFRESH_ONCE) return bind_return_string(L, "once");
  return bind_return_count(L, q->refresh > 1 ? q->refresh : 1);
}

/* ---- fields ---- */

static const fopo_proposal *proposal_of(const bind_object *o) {
  return &((const bind_proposal *)o)->proposal;
}

static int is_mixture(const bind_object *o) {
  return proposal_of(o)->kind == FOPO_PROPOSAL_MIXTURE;
}

static int field_kind(lua_State *L, bind_object *o) {
  static const char *const kinds[] = {"uniform", "mixture", "custom"};
  const fopo_proposal *q = proposal_of(o);
  return bind_return_string(L, q->adaptive ? "adaptive" : kinds[q->kind]);
}

static int field_index(lua_State *L, bind_object *o) {
  (void)o;
  bind_push_kept(L, 1, &bind_proposal_type, 0);
  return 1;
}

static int field_k(lua_State *L, bind_object *o) {
  return is_mixture(o) ? bind_return_count(L, proposal_of(o)->k) : bind_return_nil(L);
}

BIND_FIELD(field_epsilon, number, proposal_of(o)->epsilon)
BIND_FIELD(field_refresh, refresh, proposal_of(o))
BIND_FIELD(field_draws, string, is_mixture(o) ? draws[proposal_of(o)->stratified] : NULL)
BIND_FIELD(field_floor, known, proposal_of(o)->adaptive ? proposal_of(o)->floor : (double)NAN)
BIND_FIELD(field_smoothing, known,
           proposal_of(o)->adaptive ? proposal_of(o)->smoothing : (double)NAN)

const luaL_Reg bind_proposal_functions[] = {{"proposal_uniform", proposal_uniform},
                                            {"proposal_custom", proposal_custom},
                                            {"proposal_mixture", proposal_mixture},
                                            {"proposal_adaptive", proposal_adaptive},
                                            {NULL, NULL}};

static const luaL_Reg methods[] = {{"sample", sample}, {NULL, NULL}};

static const bind_field fields[] = {{"kind", field_kind, NULL},
                                    {"k", field_k, NULL},
                                    {"epsilon", field_epsilon, NULL},
                                    {"draws", field_draws, NULL},
                                    {"refresh", field_refresh, NULL},
                                    {"floor", field_floor, NULL},
                                    {"smoothing", field_smoothing, NULL},
                                    {"index", field_index, NULL},
                                    {NULL, NULL, NULL}};

const bind_type bind_proposal_type = {
    .name = "fopo.proposal", .size = sizeof(bind_proposal), .methods = methods, .fields = fields};
