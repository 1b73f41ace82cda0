/* Estimators of the gradient. */
#include <string.h>

#include "bind/families.h"
#include "core/memory.h"

/* Slots. The proposal is a copy: its epsilon and k can be set without changing the one that was
 * given. */
enum { PROPOSAL, BOUND, OBJECTIVE };

/* An object without a handle; its slots keep the objects that a binding points into. */
static const bind_type binding_type = {.name = "fopo.binding", .size = sizeof(bind_object)};

static void done(bind_object *o) { fopo_gradient_free(((bind_gradient *)o)->gradient); }

static bind_gradient *get_gradient(lua_State *L, int index) {
  return bind_get(L, index, &bind_gradient_type);
}

/* ---- binding ---- */

int bind_gradient_bind_by(bind_gradient *g, bind_object *const *k, int (*bind)(void *payload),
                          void *payload) {
  static const int slots[] = {BIND_POLICY, BIND_CONTEXTS, BIND_REWARD, BIND_DEVICE, BIND_SESSIONS};
  bind_object *fresh = fopo_alloc(1, binding_type.size);
  if (fresh == NULL) return FOPO_ERR_MEMORY;
  fresh->type = &binding_type;
  fresh->refs = 1;
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
    bind_keep(fresh, slots[i], k[slots[i]]);
  }
  int status = bind(payload);
  /* The former binding is released last: the core compares with it, or goes back to it on failure.
   */
  if (status == FOPO_OK) bind_keep(&g->object, BOUND, fresh);
  bind_release(fresh);
  return status;
}

typedef struct {
  fopo_gradient *gradient;
  bind_object *const *k;
} to_objects;

static int bind_objects(void *payload) {
  const to_objects *to = payload;
  bind_object *const *k = to->k;
  return fopo_gradient_bind(to->gradient, ((bind_device *)k[BIND_DEVICE])->device,
                            &((bind_policy *)k[BIND_POLICY])->policy,
                            bind_contexts(k[BIND_CONTEXTS], k[BIND_SESSIONS]),
                            &((bind_reward *)k[BIND_REWARD])->reward);
}

int bind_gradient_bind(bind_gradient *g, bind_object *const *k) {
  return bind_gradient_bind_by(g, k, bind_objects, &(to_objects){g->gradient, k});
}

/* ---- making ---- */

/* The fault to inject, for lessons and tests; none if the option is left out, or is another of that
 * name. */
static fopo_fault fault_option(lua_State *L, int index, const fopo_estimator *e) {
  const fopo_option *row = bind_row(e->options, "fault");
  if (row != NULL && row->type != FOPO_OPTION_FAULT) return FOPO_FAULT_NONE;
  if (index == 0 || !bind_has(L, index, "fault")) return FOPO_FAULT_NONE;
  return (fopo_fault)bind_option_choice(L, index, "fault", fopo_fault_names);
}

fopo_objective_kind bind_objective(lua_State *L, int index) {
  const char *names[FOPO_OBJECTIVE_ROWS + 1] = {NULL};
  for (int i = 0; i < FOPO_OBJECTIVE_ROWS; i++) names[i] = fopo_objective_rows[i].name;
  return (fopo_objective_kind)bind_choice(L, index, "objective", names);
}

/* native.objectives(): a list of {name, title, text} (device/objectives/objectives.def). */
static int objectives(lua_State *L) {
  lua_createtable(L, FOPO_OBJECTIVE_ROWS, 0);
  for (int i = 0; i < FOPO_OBJECTIVE_ROWS; i++) {
    const fopo_objective *row = &fopo_objective_rows[i];
    lua_createtable(L, 0, 3);
    bind_set_string(L, "name", row->name);
    bind_set_string(L, "title", row->title);
    bind_set_string(L, "text", row->text);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Pushes a gradient over a copy of the proposal at `at`. */
static void with_proposal(lua_State *L, int at, fopo_gradient_options o) {
  bind_get(L, at, &bind_proposal_type);
  bind_proposal *own = bind_new(L, &bind_proposal_type, 0);
  bind_gradient *g = bind_new(L, &bind_gradient_type, 2);
  lua_getiuservalue(L, at, 1);
  lua_setiuservalue(L, -2, 2);
  bind_proposal *given = bind_get(L, at, &bind_proposal_type);
  own->proposal = o.proposal = given->proposal;
  bind_keep(&own->object, 0, given->object.keeps[0]);
  bind_keep(&g->object, PROPOSAL, &own->object);
  bind_check(L, fopo_gradient_new(&g->gradient, &o));
}

/* Pushes the gradient of these options, over a copy of the proposal at `at` if it needs one. */
static void push_gradient(lua_State *L, int at, fopo_gradient_options o, fopo_fault fault) {
  if (fopo_options_proposal(&o) != NULL) {
    with_proposal(L, at, o);
  } else {
    bind_gradient *g = bind_new(L, &bind_gradient_type, 2);
    bind_check(L, fopo_gradient_new(&g->gradient, &o));
  }
  bind_check(L, fopo_gradient_plant(get_gradient(L, -1)->gradient, fault));
}

/* The gradient on the top calls the function that is the option of its row, if it has one. */
static void take_function(lua_State *L, int table, const fopo_estimator *e) {
  for (const fopo_option *row = e->options; row->name != NULL; row++) {
    if (row->type != FOPO_OPTION_FUNCTION) continue;
    luaL_checktype(L, bind_option(L, table, row->name), LUA_TFUNCTION);
    lua_setiuservalue(L, -2, 1);
  }
}

/* What the gradient is of: a name, or an objective of the user's. */
static void read_objective(lua_State *L, int at, fopo_gradient_options *o) {
  if (!bind_is(L, at, &bind_objective_type)) {
    o->objective = bind_objective(L, at);
    o->rule = NULL;
    return;
  }
  o->objective = FOPO_OBJECTIVE_CUSTOM;
  o->rule = &((const bind_own_objective *)bind_get(L, at, &bind_objective_type))->rule;
}

/* native.gradient_NAME({...}[, proposal]): the estimator with its options. One that draws from a
 * proposal, or takes candidates from it, needs one: the argument, or the option `proposal`. */
static int make(lua_State *L, const fopo_estimator *e) {
  fopo_gradient_options o = {.estimator = e};
  int table = lua_isnoneornil(L, 1) ? 0 : 1;
  for (const fopo_option *row = e->options; row->name != NULL; row++) {
    if (!(row->flags & FOPO_OPTION_OF_CANDIDATES)) bind_read_row(L, table, row, &o);
  }
  int is_own = bind_row(e->options, "objective") != NULL;
  int named = table != 0 && !is_own && bind_has(L, table, "objective");
  int objective_at = named ? bind_option(L, table, "objective") : 0;
  if (named) read_objective(L, objective_at, &o);
  fopo_fault fault = fault_option(L, table, e);
  int needed = fopo_options_proposal(&o) != NULL, given = !lua_isnoneornil(L, 2);
  push_gradient(L, given || !needed ? 2 : bind_option(L, 1, "proposal"), o, fault);
  if (o.rule != NULL) {
    bind_keep(&get_gradient(L, -1)->object, OBJECTIVE,
              bind_get(L, objective_at, &bind_objective_type));
  }
  take_function(L, 1, e);
  return 1;
}

/* g:copy(q, objective): a gradient with the same options and the same fault, over a copy of the
 * proposal q if it uses one; of another objective, if one is named. */
static int copy(lua_State *L) {
  fopo_gradient_options o = *fopo_gradient_get(get_gradient(L, 1)->gradient);
  fopo_fault fault = fopo_gradient_planted(get_gradient(L, 1)->gradient);
  int other = !lua_isnoneornil(L, 3);
  if (other) read_objective(L, 3, &o);
  push_gradient(L, 2, o, fault);
  if (o.rule != NULL) {
    bind_keep(&get_gradient(L, -1)->object, OBJECTIVE,
              other ? bind_get(L, 3, &bind_objective_type)
                    : get_gradient(L, 1)->object.keeps[OBJECTIVE]);
  }
  lua_getiuservalue(L, 1, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* Whether a head is set by mass. */
static int is_by_mass(const fopo_gradient_options *o) {
  if (!(o->estimator->needs & FOPO_SHARES_HEAD) || o->head > 0) return 0;
  return fopo_proposal_is_automatic(&o->proposal);
}

/* Whether the option has a meaning here: that of a head for all contexts, or those of candidates.
 */
static int applies(const fopo_option *row, const fopo_gradient_options *o) {
  if (row->type == FOPO_OPTION_HEAD) return o->head > 0;
  return o->head == 0 || !(row->flags & FOPO_OPTION_OF_CANDIDATES);
}

/* Raises that the gradient has nothing of that name to set, with the names that it has. */
static void refuse_to_set(lua_State *L, const fopo_gradient_options *o, const char *name) {
  const fopo_estimator *e = o->estimator;
  luaL_Buffer names;
  luaL_buffinit(L, &names);
  for (const fopo_option *row = e->options; row->name != NULL; row++) {
    if (!(row->flags & FOPO_OPTION_SETTABLE) || !applies(row, o)) continue;
    if (luaL_bufflen(&names) > 0) luaL_addstring(&names, ", ");
    luaL_addstring(&names, row->name);
  }
  if (luaL_bufflen(&names) == 0) luaL_addstring(&names, "nothing");
  luaL_pushresult(&names);
  bind_refuse(L, "a gradient %s has no %.80s to set; it takes %s", e->title, name,
              lua_tostring(L, -1));
}

/* Raises unless `name` may be set: an option that may change between steps, or, where the estimator
 * has no option of that name, epsilon and k of a mixture. */
static void check_settable(lua_State *L, const fopo_gradient_options *o, const char *name) {
  const fopo_option *row = bind_row(o->estimator->options, name);
  int mixture =
      (o->estimator->needs & FOPO_NEEDS_PROPOSAL) != 0 && o->proposal.kind == FOPO_PROPOSAL_MIXTURE;
  if (row != NULL && !applies(row, o)) {
    bind_refuse(L, "this gradient %s, so it has no %.80s to set; make another one",
                o->head > 0     ? "has a head for all contexts"
                : is_by_mass(o) ? "sets its head by mass"
                                : "takes candidates of each context",
                name);
  }
  if (row != NULL && row->flags & FOPO_OPTION_SETTABLE) return;
  if (row != NULL) refuse_to_set(L, o, name);
  if (strcmp(name, "epsilon") == 0) {
    if (!mixture) {
      bind_refuse(L, "only a gradient with a mixture proposal has epsilon");
    }
    if (o->proposal.adaptive) {
      bind_refuse(L,
                  "an adaptive proposal sets its epsilon itself; use proposal.mixture to set it");
    }
  } else if (strcmp(name, "k") == 0) {
    if (!mixture) {
      bind_refuse(L, "only a gradient with candidates has k");
    }
  } else {
    refuse_to_set(L, o, name);
  }
}

/* Whether the table at 2 has `name` for the proposal: the estimator has no option of that name. */
static int is_of_proposal(lua_State *L, const fopo_gradient_options *o, const char *name) {
  return bind_row(o->estimator->options, name) == NULL && bind_has(L, 2, name);
}

/* g:set{epsilon, samples, k, tail, ...}: from the next batch on. */
static int set(lua_State *L) {
  fopo_gradient_options o = *fopo_gradient_get(get_gradient(L, 1)->gradient);
  bind_table(L, 2, "the options");
  for (lua_pushnil(L); lua_next(L, 2) != 0; lua_pop(L, 1)) {
    check_settable(L, &o, lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "[]");
  }
  for (const fopo_option *row = o.estimator->options; row->name != NULL; row++) {
    if (row->flags & FOPO_OPTION_SETTABLE && bind_has(L, 2, row->name)) {
      bind_read_row(L, 2, row, &o);
      bind_check(L, fopo_option_check(row, &o));
    }
  }
  fopo_proposal *q = &o.proposal;
  if (is_of_proposal(L, &o, "epsilon")) q->epsilon = bind_option_number(L, 2, "epsilon");
  if (is_of_proposal(L, &o, "k")) q->k = bind_option_count(L, 2, "k", 0, SIZE_MAX);
  bind_gradient *g = bind_get_free(L, 1, &bind_gradient_type);
  const fopo_index *ix = fopo_gradient_index(g->gradient);
  if (ix != NULL) {
    const fopo_parts *parts = fopo_gradient_binding(g->gradient)->parts;
    const fopo_part *part = parts != NULL ? parts->part : NULL;
    size_t P = part != NULL ? part->P : fopo_index_about(ix).n_items;
    bind_check(L, fopo_proposal_check(q, P));
  }
  bind_check(L, fopo_gradient_set(g->gradient, &o));
  if (g->object.keeps[PROPOSAL]) ((bind_proposal *)g->object.keeps[PROPOSAL])->proposal = *q;
  return 0;
}

/* g.samples = n: as g:set{samples = n}. */
static int set_one(lua_State *L, bind_object *o) {
  (void)o;
  lua_settop(L, 3);
  lua_createtable(L, 0, 1);
  lua_insert(L, 2);
  lua_rawset(L, 2);
  set(L);
  return 1;
}

/* ---- computing ---- */

/* Estimates the gradient of the batch that was begun. `functions`: as of bind_fill. If one raises,
 * the batch is abandoned. */
static void run(lua_State *L, bind_gradient *g, int functions) {
  fopo_drawn drawn;
  int status;
  while ((status = fopo_gradient_estimate(g->gradient, &drawn)) == FOPO_DRAWN) {
    if (bind_fill(L, functions, &drawn) != LUA_OK) {
      fopo_gradient_abandon(g->gradient);
      lua_error(L);
    }
  }
  bind_check(L, status);
}

/* Pushes the gradient of a block that moves by rows, of the last batch: ids [1, n] and rows
 * [n, dim]. */
static void push_rows_gradient(lua_State *L, const bind_gradient *g, fopo_block block, size_t dim) {
  fopo_device *d = ((bind_device *)g->object.keeps[BOUND]->keeps[BIND_DEVICE])->device;
  size_t n = fopo_gradient_of(g->gradient, block).n;
  bind_array *ids = bind_array_new(L, 1, 1, n), *rows = bind_array_new(L, 0, n, dim);
  fopo_item_gradient items = fopo_gradient_of(g->gradient, block);
  if (items.n != n) { /* a finaliser has used the gradient */
    bind_refuse(L, "a finaliser used the gradient while its results were copied; compute it again");
  }
  bind_check(L, d->ops->get(d, rows->data, items.rows, n * dim * sizeof(float)));
  if (items.ids != NULL) {
    bind_check(L, d->ops->get(d, ids->data, items.ids, n * sizeof(uint32_t)));
  } else {
    for (size_t a = 0; a < n; a++) ((uint32_t *)ids->data)[a] = (uint32_t)a;
  }
}

/* g:compute(pi, x, rows, reward, {seed, step}[, sessions]): G, of theta's shape, to be ascended,
 * and a table of statistics; x are the contexts of the sessions, if they are given. rows: an array
 * of ids, a table of 1-based integers, or nil for all. If the policy learns its items, also ids [1,
 * n] and rows [n, L], the gradient of the items; or, of weights between items, the numbers of
 * weights and rows [n, 1]. */
static int compute(lua_State *L) {
  enum { G_ARG = 1, PI, X, ROWS, RW, OPTIONS, SESSIONS };
  size_t B;
  fopo_draw_key key = {.seed = bind_option_seed(L, OPTIONS),
                       .step = (uint32_t)bind_option_count(L, OPTIONS, "step", 0, UINT32_MAX)};
  lua_settop(L, SESSIONS);
  get_gradient(L, G_ARG);
  bind_policy *pi = bind_get(L, PI, &bind_policy_type);
  fopo_matrix theta = pi->policy.theta;
  size_t dim = pi->policy.items.cols;
  fopo_block block = pi->policy.learns[FOPO_BLOCK_WEIGHTS] ? FOPO_BLOCK_WEIGHTS : FOPO_BLOCK_ITEMS;
  size_t N = bind_array_numbers(L, X, "x")->rows;
  bind_get(L, RW, &bind_reward_type);
  uint32_t *rows = bind_rows(L, ROWS, N, N, &B);
  bind_array *G = bind_array_new(L, 0, theta.rows, theta.cols);
  int result = lua_gettop(L);
  bind_device *device = bind_device_open(L, "cpu");
  lua_getiuservalue(L, RW, 1);
  int functions = lua_gettop(L);
  lua_getiuservalue(L, G_ARG, 1);
  lua_getiuservalue(L, G_ARG, 2);
  bind_push_again(L, G_ARG, &bind_gradient_type);
  luaL_checkstack(L, 16, NULL);

  bind_gradient *g = get_gradient(L, G_ARG);
  bind_object *const k[BIND_KEEPS] = {[BIND_POLICY] = bind_get(L, PI, &bind_policy_type),
                                      [BIND_CONTEXTS] = &bind_array_numbers(L, X, "x")->object,
                                      [BIND_REWARD] = bind_get(L, RW, &bind_reward_type),
                                      [BIND_DEVICE] = &device->object,
                                      [BIND_SESSIONS] = bind_sessions_or_none(L, SESSIONS)};
  bind_check(L, bind_gradient_bind(g, k));
  bind_check(L, fopo_gradient_plan(g->gradient, NULL, rows, B, B));
  bind_check(L, fopo_gradient_begin(g->gradient, NULL, rows, B, key));
  run(L, g, functions);
  fopo_gradient_stats stats;
  bind_check(L, fopo_gradient_finish(g->gradient, bind_matrix(G), &stats));
  fopo_gradient_commit(g->gradient, rows, B, &stats);
  int train = fopo_gradient_of(g->gradient, block).rows != NULL, last = lua_gettop(L);
  if (train) push_rows_gradient(L, g, block, block == FOPO_BLOCK_ITEMS ? dim : 1);
  lua_pushvalue(L, result);
  lua_createtable(L, 0, 8);
  bind_set_statistics(L, &stats.mean, stats.seconds, "seconds");
  if (fopo_gradient_get(g->gradient)->sigma > 0.0) {
    bind_set_number(L, "by_log_sigma", fopo_gradient_by_log_sigma(g->gradient));
  }
  if (!train) return 2;
  lua_pushvalue(L, last + 1);
  lua_pushvalue(L, last + 2);
  return 4;
}

void bind_set_statistics(lua_State *L, const fopo_statistics *mean, const double *phases,
                         const char *seconds_name) {
  for (size_t i = 0; i < FOPO_STATISTIC_ROWS; i++) {
    const fopo_statistic *row = &fopo_statistic_rows[i];
    if (row->label[0] != '\0') bind_set_number(L, row->name, fopo_statistics_get(mean, i));
  }
  if (phases == NULL) return;
  lua_createtable(L, 0, FOPO_PHASES);
  for (int i = 0; i < FOPO_PHASES; i++) bind_set_number(L, fopo_phase_rows[i].name, phases[i]);
  lua_setfield(L, -2, seconds_name);
}

/* 1 if some estimator has an option of that name, with all of these flags. */
static int is_option(const char *name, unsigned flags) {
  for (size_t i = 0; fopo_estimators[i] != NULL; i++) {
    const fopo_option *row = bind_row(fopo_estimators[i]->options, name);
    if (row != NULL && (row->flags & flags) == flags) return 1;
  }
  return 0;
}

/* ---- options as fields ---- */

static const fopo_gradient *gradient_of(const bind_object *o) {
  return ((const bind_gradient *)o)->gradient;
}

static const char *field_name(lua_State *L) {
  return lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
}

/* The option of that name, nil if it has no meaning here; 0 if there is none, or if its value is an
 * object, which a field has. */
static int own(lua_State *L, bind_object *o) {
  const fopo_gradient_options *g = fopo_gradient_get(gradient_of(o));
  const fopo_option *row = bind_row(g->estimator->options, field_name(L));
  if (row == NULL) return 0;
  if (row->type == FOPO_OPTION_HEAD && is_by_mass(g)) {
    return bind_return_string(L, row->choices[0]);
  }
  return applies(row, g) ? bind_push_row(L, row, g) : bind_return_nil(L);
}

/* g.NAME = value, of an option that may be set here or in another estimator, whose sentence is that
 * of g:set. */
static int set_own(lua_State *L, bind_object *o) {
  return is_option(field_name(L), FOPO_OPTION_SETTABLE) && set_one(L, o);
}

/* An option of other estimators is nil. */
static int other(lua_State *L, bind_object *o) {
  (void)o;
  return is_option(field_name(L), 0) ? bind_return_nil(L) : 0;
}

/* ---- fields: what is common to all, where the estimator has no option of that name ---- */

/* S, if the option `samples` is that of the draws. */
static int field_samples(lua_State *L, bind_object *o) {
  const fopo_gradient_options *g = fopo_gradient_get(gradient_of(o));
  const fopo_option *row = bind_row(g->estimator->options, "samples");
  int draws = row != NULL && row->member == offsetof(fopo_gradient_options, samples);
  return draws ? bind_return_count(L, g->samples) : bind_return_nil(L);
}

BIND_FIELD(field_kind, string, fopo_gradient_get(gradient_of(o))->estimator->name)

static const fopo_objective *objective_of(bind_object *o) {
  return &fopo_objective_rows[fopo_gradient_get(gradient_of(o))->objective];
}

static const char *title_of(bind_object *o) {
  const fopo_own_objective *own = fopo_gradient_get(gradient_of(o))->rule;
  return own != NULL ? own->title : objective_of(o)->title;
}

BIND_FIELD(field_objective, string, objective_of(o)->name)
BIND_FIELD(field_objective_title, string, title_of(o))

/* An objective of the user's; nil: its objective is another. */
static int field_own_objective(lua_State *L, bind_object *o) {
  (void)o;
  bind_push_kept(L, 1, &bind_gradient_type, OBJECTIVE);
  return 1;
}

static unsigned needs_of(bind_object *o) {
  return fopo_gradient_get(gradient_of(o))->estimator->needs;
}

BIND_FIELD(field_biased, boolean, (needs_of(o) & FOPO_IS_BIASED) != 0)
BIND_FIELD(field_reads_all_items, boolean, (needs_of(o) & FOPO_READS_ALL_ITEMS) != 0)
BIND_FIELD(field_slates, boolean, (needs_of(o) & FOPO_DRAWS_SLATES) != 0)

static int field_epsilon(lua_State *L, bind_object *o) {
  double epsilon = fopo_gradient_epsilon(gradient_of(o));
  return epsilon >= 0.0 ? bind_return_number(L, epsilon) : bind_return_nil(L);
}

static int field_k(lua_State *L, bind_object *o) {
  const fopo_proposal *q = fopo_gradient_proposal(gradient_of(o));
  return bind_return_positive(L, q != NULL ? q->k : 0);
}

static int field_refresh(lua_State *L, bind_object *o) {
  const fopo_proposal *q = fopo_gradient_proposal(gradient_of(o));
  return q != NULL ? bind_return_refresh(L, q) : bind_return_nil(L);
}

BIND_FIELD(field_kept_bytes, count, fopo_gradient_kept_bytes(gradient_of(o)))

/* The norms in use where they follow from the mass, by what g:compute has made. */
BIND_FIELD(field_norms, positive, (size_t)fopo_gradient_norms(gradient_of(o))->head)

static int field_fault(lua_State *L, bind_object *o) {
  fopo_fault fault = fopo_gradient_planted(gradient_of(o));
  return bind_return_string(L, fault != FOPO_FAULT_NONE ? fopo_fault_names[fault] : NULL);
}

/* The gradient's own proposal, with the present epsilon of an adaptive one. */
static int field_proposal(lua_State *L, bind_object *o) {
  const fopo_proposal *q = fopo_gradient_proposal(gradient_of(o));
  if (o->keeps[PROPOSAL] != NULL && q != NULL) {
    ((bind_proposal *)o->keeps[PROPOSAL])->proposal = *q;
  }
  bind_push_kept(L, 1, &bind_gradient_type, PROPOSAL);
  if (!lua_isnil(L, -1)) {
    lua_getiuservalue(L, 1, 2);
    lua_setiuservalue(L, -2, 1);
  }
  return 1;
}

static const bind_field fields[] = {{"kind", field_kind, NULL},
                                    {"objective", field_objective, NULL},
                                    {"objective_title", field_objective_title, NULL},
                                    {"own_objective", field_own_objective, NULL},
                                    {"samples", field_samples, NULL},
                                    {"epsilon", field_epsilon, set_one},
                                    {"k", field_k, set_one},
                                    {"refresh", field_refresh, NULL},
                                    {"kept_bytes", field_kept_bytes, NULL},
                                    {"norms", field_norms, NULL},
                                    {"proposal", field_proposal, NULL},
                                    {"fault", field_fault, NULL},
                                    {"biased", field_biased, NULL},
                                    {"reads_all_items", field_reads_all_items, NULL},
                                    {"slates", field_slates, NULL},
                                    {NULL, NULL, NULL}};

static const bind_field *find_field(const char *name) {
  for (const bind_field *f = fields; f->name != NULL; f++) {
    if (strcmp(f->name, name) == 0) return f;
  }
  return NULL;
}

/* Whether an estimator before the e-th has an option of that name, or a field is called so. */
static int is_named_before(const char *name, size_t e) {
  for (size_t i = 0; i < e; i++) {
    if (bind_row(fopo_estimators[i]->options, name) != NULL) return 1;
  }
  return find_field(name) != NULL;
}

/* The options whose value is no object, each once: an index, a proposal and a fault are fields. */
static const char *own_name(size_t i) {
  for (size_t e = 0; fopo_estimators[e] != NULL; e++) {
    for (const fopo_option *row = fopo_estimators[e]->options; row->name != NULL; row++) {
      int is_value = row->type <= FOPO_OPTION_CHOICE || row->type == FOPO_OPTION_HEAD;
      if (is_value && !is_named_before(row->name, e) && i-- == 0) return row->name;
    }
  }
  return NULL;
}

/* native.gradient_common(g, name): what is common to all, whatever options the estimator has. */
static int common(lua_State *L) {
  bind_object *o = &get_gradient(L, 1)->object;
  const char *name = luaL_checkstring(L, 2);
  const bind_field *f = find_field(name);
  return f != NULL ? f->get(L, o) : bind_refuse(L, "a gradient has no common %.80s", name);
}

/* native.gradients(): the estimators, as the declarations of fopo.gradient need them. */
static int gradients(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; fopo_estimators[i] != NULL; i++) {
    const fopo_estimator *e = fopo_estimators[i];
    bind_push_entry(L, e->name, e->title, e->text, e->example, e->options);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

#define X(name)                                                                                    \
  static int new_##name(lua_State *L) { return make(L, &fopo_estimator_##name); }
#include "learn/estimators/estimators.def"
#undef X

const luaL_Reg bind_gradient_functions[] = {{"gradients", gradients},
                                            {"objectives", objectives},
                                            {"gradient_common", common},
#define X(name) {"gradient_" #name, new_##name},
#include "learn/estimators/estimators.def"
#undef X
                                            {NULL, NULL}};

static const luaL_Reg methods[] = {
    {"compute", compute}, {"copy", copy}, {"set", set}, {NULL, NULL}};

const bind_type bind_gradient_type = {.name = "fopo.gradient",
                                      .size = sizeof(bind_gradient),
                                      .done = done,
                                      .methods = methods,
                                      .fields = fields,
                                      .own = own,
                                      .set_own = set_own,
                                      .own_name = own_name,
                                      .other = other};
