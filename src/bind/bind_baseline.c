/* Baselines: each kind is a row of C (judge/baseline.h). */
#include <string.h>

#include "bind/families.h"
#include "data/histories.h"
#include "judge/baseline_search.h"

typedef struct {
  bind_object object; /* user value 1 of the handle: the function of a custom one */
  fopo_baseline *baseline;
  fopo_baseline_search search; /* of an option that was "auto" */
} bind_baseline;

static void done(bind_object *o) { fopo_baseline_free(((bind_baseline *)o)->baseline); }

const fopo_baseline *bind_get_baseline(lua_State *L, int index) {
  return ((bind_baseline *)bind_get(L, index, &bind_baseline_type))->baseline;
}

/* native.baselines(): a list of {name =, text =, example =, options = {...}, has_seed =}. */
static int baselines(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; fopo_baseline_kinds[i] != NULL; i++) {
    const fopo_baseline_kind *kind = fopo_baseline_kinds[i];
    bind_push_entry(L, kind->name, kind->name, kind->text, kind->example, kind->options);
    bind_set_boolean(L, "has_seed", kind->has_seed);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* A kind that learns from sessions. */
static const fopo_baseline_kind *kind_of(lua_State *L, int index) {
  const char *name = bind_string(L, index, "the kind");
  for (int i = 0; fopo_baseline_kinds[i] != NULL; i++) {
    const fopo_baseline_kind *kind = fopo_baseline_kinds[i];
    if (kind->fit != NULL && strcmp(kind->name, name) == 0) return kind;
  }
  bind_refuse(L, "there is no baseline %.40s", name);
  return NULL;
}

/* The kind `name` at 1, and its options in the table at 3. */
static fopo_baseline_options options_of(lua_State *L) {
  fopo_baseline_options o = {.kind = kind_of(L, 1)};
  bind_table(L, 3, "the options");
  for (const fopo_option *row = o.kind->options; row->name != NULL; row++) {
    bind_read_row(L, 3, row, &o);
    bind_check(L, fopo_option_check(row, &o));
  }
  if (o.kind->has_seed) o.seed = bind_option_seed(L, 3);
  return o;
}

/* native.baseline(name, sessions, {its options, seed, value}): a baseline that has learnt from the
 * sessions. */
static int baseline(lua_State *L) {
  fopo_baseline_options o = options_of(L);
  if (bind_any_sessions(L, 2)->all > 0 && !o.kind->shares) {
    bind_refuse(L,
                "fopo.baseline.%s %s, and of sessions that are shared out no rank has all; "
                "s:gather(1000) puts 1,000 of them on every rank, which it takes",
                o.kind->name, o.kind->whole != NULL ? o.kind->whole : "learns from all at once");
  }
  int at = bind_option(L, 3, "value");
  if (!lua_isnil(L, at)) bind_values(L, &o.n_values, at);
  bind_baseline *b = bind_new(L, &bind_baseline_type, 0);
  if (!lua_isnil(L, at)) o.value = bind_values(L, &o.n_values, at);
  bind_check(L, fopo_baseline_learn(&b->baseline, &b->search, bind_any_sessions(L, 2), &o));
  return 1;
}

/* native.baseline_each(name, sessions, {its options, seed}, {l2, ..}): those with each l2. */
static int each(lua_State *L) {
  fopo_baseline_options o = options_of(L);
  double l2[FOPO_SEARCH_MOST];
  fopo_baseline *made[FOPO_SEARCH_MOST];
  bind_table(L, 4, "l2");
  size_t n = lua_rawlen(L, 4);
  if (n > FOPO_SEARCH_MOST) return bind_refuse(L, "%zu l2 are too many", n);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 4, (lua_Integer)i + 1);
    l2[i] = luaL_checknumber(L, -1);
    lua_pop(L, 1);
    bind_new(L, &bind_baseline_type, 0);
    lua_rawseti(L, 5, (lua_Integer)i + 1);
  }
  bind_check(L, fopo_baseline_new_each(made, bind_get_sessions(L, 2), &o, l2, n));
  int solved = 1;
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 5, (lua_Integer)i + 1);
    ((bind_baseline *)bind_get(L, -1, &bind_baseline_type))->baseline = made[i];
    solved = solved && made[i] != NULL;
    lua_pop(L, 1);
  }
  return solved ? 1 : bind_refuse(L, "the weights of %s have no solution", o.kind->name);
}

/* native.baseline_custom(scores): that of the function scores(block). */
static int custom(lua_State *L) {
  const fopo_baseline_kind *const *kind = fopo_baseline_kinds;
  while ((*kind)->fit != NULL) kind++;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  bind_baseline *b = bind_new(L, &bind_baseline_type, 1);
  bind_check(L, fopo_baseline_new_given(&b->baseline, *kind));
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static int is_custom(lua_State *L) {
  return fopo_baseline_get(bind_get_baseline(L, 1))->kind->score == NULL;
}

/* Sessions of a block: so many that their scores stay small. */
static size_t block_of(size_t P) {
  enum { MOST = 1024, SCORES = 1 << 22 };
  size_t n = SCORES / (P + 1);
  return n < 1 ? 1 : n > MOST ? MOST : n;
}

/* Pushes X of the sessions at 2 from the first on, n of them. */
static void push_block(lua_State *L, size_t first, size_t n) {
  bind_sessions *block = bind_new(L, &bind_sessions_type, 0);
  const fopo_sessions *s = bind_get_sessions(L, 2);
  size_t unknown = 0;
  uint32_t *rows = bind_scratch(L, n, sizeof *rows);
  for (size_t i = 0; i < n; i++) rows[i] = (uint32_t)(first + i);
  bind_check(L, fopo_histories_of(&block->sessions, &unknown, &s->X, rows, n, NULL, s->X.cols));
  lua_pop(L, 1); /* rows */
}

/* The lists of the baseline at 1, whose scores its function gives block by block. */
static void best_of_custom(lua_State *L, uint32_t *ids, float *scores, uint32_t *counts, size_t k,
                           int unseen) {
  size_t N = bind_get_sessions(L, 2)->X.rows, P = bind_get_sessions(L, 2)->X.cols;
  float *given = bind_scratch(L, block_of(P) * P, sizeof *given);
  lua_getiuservalue(L, 1, 1);
  int function = lua_gettop(L);
  for (size_t first = 0, n; first < N; first += n) {
    n = N - first < block_of(P) ? N - first : block_of(P);
    lua_pushvalue(L, function);
    push_block(L, first, n);
    lua_call(L, 1, 1);
    bind_take_answer(L, &(bind_answer){"scores of baseline.custom", "the score", given, n, P});
    bind_check(L, fopo_baseline_choose(ids, scores, counts, bind_get_baseline(L, 1),
                                       bind_get_sessions(L, 2), k, unseen, given, first, n));
    lua_settop(L, function);
  }
}

/* native.baseline_best(baseline, sessions, k, unseen, left_out): ids, scores [N, k], the best items
 * of each session first; unseen: without those of X; left_out: as if the session had not been
 * learnt from. */
static int best(lua_State *L) {
  lua_settop(L, 5);
  int unseen = bind_boolean(L, 4, "unseen");
  size_t rows = bind_get_sessions(L, 2)->X.rows, P = bind_get_sessions(L, 2)->X.cols;
  int own = is_custom(L), left_out = lua_toboolean(L, 5);
  size_t k = bind_count(L, 3, "k", 1, own ? P : fopo_baseline_items(bind_get_baseline(L, 1)));
  if (own && left_out) {
    return bind_refuse(L, "a custom baseline has learnt from no sessions that fopo knows; leave "
                          "out left_out");
  }
  uint32_t *counts = bind_scratch(L, rows, sizeof *counts);
  bind_array *ids = bind_array_new(L, 1, rows, k);
  bind_array *scores = bind_array_new(L, 0, rows, k);
  if (own) {
    int top = lua_gettop(L);
    best_of_custom(L, ids->data, scores->data, counts, k, unseen);
    lua_settop(L, top);
    return 2;
  }
  bind_check(L, fopo_baseline_best(ids->data, scores->data, counts, bind_get_baseline(L, 1),
                                   bind_get_sessions(L, 2), k, unseen, left_out));
  return 2;
}

/* native.baseline_items(baseline): a copy of its items' factors [P, dim]. */
static int items(lua_State *L) {
  fopo_matrix rows;
  bind_check(L, fopo_baseline_factors(&rows, bind_get_baseline(L, 1)));
  bind_array *copy = bind_array_new(L, 0, rows.rows, rows.cols);
  bind_check(L, fopo_baseline_factors(&rows, bind_get_baseline(L, 1)));
  memcpy(copy->data, rows.x, bind_array_bytes(copy));
  return 1;
}

/* native.baseline_theta(baseline): [dim, dim]. */
static int theta(lua_State *L) {
  fopo_matrix rows;
  bind_check(L, fopo_baseline_factors(&rows, bind_get_baseline(L, 1)));
  bind_array *made = bind_array_new(L, 0, rows.cols, rows.cols);
  bind_check(L, fopo_baseline_theta(bind_matrix(made), bind_get_baseline(L, 1)));
  return 1;
}

/* native.baseline_expected(baseline, sessions, unseen, reward): {contexts, reward, se, effective};
 * nil if the baseline gives no probabilities. */
static int expected(lua_State *L) {
  fopo_expected e;
  int unseen = bind_boolean(L, 3, "unseen");
  fopo_sessions s = bind_judged(L, 2, 4);
  int status = fopo_baseline_expected(&e, bind_get_baseline(L, 1), &s, unseen);
  if (status == FOPO_ERR_UNAVAILABLE) return bind_return_nil(L);
  bind_check(L, status);
  return bind_push_expected(L, &e);
}

static const fopo_baseline *baseline_of(const bind_object *o) {
  return ((const bind_baseline *)o)->baseline;
}

BIND_FIELD(field_kind, string, fopo_baseline_get(baseline_of(o))->kind->name)
BIND_FIELD(field_valued, boolean, fopo_baseline_get(baseline_of(o))->value != NULL)
BIND_FIELD(field_n_items, count, fopo_baseline_items(baseline_of(o)))
BIND_FIELD(field_seconds, number,
           ((const bind_baseline *)o)->search.seconds + fopo_baseline_seconds(baseline_of(o)))

/* What the option that was "auto" follows from: {option =, held =, users =, items =, {value =, ndcg
 * =}, ...}; nil if there was none. */
static int field_tried(lua_State *L, bind_object *o) {
  const fopo_baseline_search *s = &((const bind_baseline *)o)->search;
  if (s->option == NULL) return bind_return_nil(L);
  lua_createtable(L, (int)s->n, 4);
  bind_set_string(L, "option", s->option->name);
  bind_set_count(L, "held", s->held);
  bind_set_count(L, "users", s->users);
  bind_set_count(L, "items", s->items);
  for (size_t i = 0; i < s->n; i++) {
    lua_createtable(L, 0, 2);
    bind_set_number(L, "value", s->value[i]);
    bind_set_number(L, "ndcg", s->ndcg[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* The options of its kind. */
static int other(lua_State *L, bind_object *o) {
  const fopo_baseline_options *options = fopo_baseline_get(baseline_of(o));
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  const fopo_option *row = bind_row(options->kind->options, name);
  if (row != NULL) return bind_push_row(L, row, options);
  if (strcmp(name, "seed") != 0 || !options->kind->has_seed) return 0;
  return bind_return_count(L, options->seed);
}

const luaL_Reg bind_baseline_functions[] = {
    {"baselines", baselines},  {"baseline", baseline},          {"baseline_custom", custom},
    {"baseline_each", each},   {"baseline_best", best},         {"baseline_items", items},
    {"baseline_theta", theta}, {"baseline_expected", expected}, {NULL, NULL}};

static const luaL_Reg methods[] = {{NULL, NULL}};

static const bind_field fields[] = {
    {"kind", field_kind, NULL},       {"valued", field_valued, NULL},
    {"n_items", field_n_items, NULL}, {"seconds", field_seconds, NULL},
    {"tried", field_tried, NULL},     {NULL, NULL, NULL}};

const bind_type bind_baseline_type = {.name = "fopo.baseline",
                                      .size = sizeof(bind_baseline),
                                      .done = done,
                                      .methods = methods,
                                      .fields = fields,
                                      .other = other};
