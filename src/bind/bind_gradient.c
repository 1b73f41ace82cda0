/* Estimators of the gradient. */
#include <string.h>

#include "bind/families.h"
#include "core/memory.h"

/* Slots. The proposal is the gradient's own: its epsilon and k may be changed without touching the
 * one it was made from. */
enum { PROPOSAL, BOUND };

/* An object without a handle: what a binding points into, in its slots. */
static const bind_type binding_type = {.name = "fopo.binding", .size = sizeof(bind_object)};

static void done(bind_object *o) { fopo_gradient_free(((bind_gradient *)o)->gradient); }

static bind_gradient *get_gradient(lua_State *L, int index) {
  return bind_get(L, index, &bind_gradient_type);
}

/* ---- binding ---- */

int bind_gradient_bind(bind_gradient *g, bind_device *device, bind_policy *pi, bind_array *x,
                       bind_reward *reward) {
  bind_object *fresh = fopo_alloc(1, binding_type.size);
  if (fresh == NULL) return FOPO_ERR_MEMORY;
  fresh->type = &binding_type;
  fresh->refs = 1;
  bind_keep(fresh, 0, &device->object);
  bind_keep(fresh, 1, &pi->object);
  bind_keep(fresh, 2, &x->object);
  bind_keep(fresh, 3, &reward->object);
  int status =
      fopo_gradient_bind(g->gradient, device->device, &pi->policy, bind_matrix(x), &reward->reward);
  /* What it was bound to before goes last: until now it may have been compared or given back. */
  if (status == FOPO_OK) bind_keep(&g->object, BOUND, fresh);
  bind_release(fresh);
  return status;
}

/* ---- making ---- */

static size_t samples_option(lua_State *L, int index) {
  return bind_count(L, bind_option(L, index, "samples"), "samples", 2, UINT32_MAX - 1);
}

static size_t tail_option(lua_State *L, int index) {
  return bind_count(L, bind_option(L, index, "tail"), "tail", 1, UINT32_MAX - 1);
}

/* native.gradient_exact(): all P items; no bias, no variance. */
static int gradient_exact(lua_State *L) {
  fopo_gradient_options o = {.kind = FOPO_GRADIENT_EXACT};
  bind_gradient *g = bind_new(L, &bind_gradient_type, 0);
  bind_check(L, fopo_gradient_new(&g->gradient, &o));
  return 1;
}

/* native.gradient_reinforce{samples, baseline = "none" | "mean"}: draws of the policy itself. */
static int gradient_reinforce(lua_State *L) {
  static const char *const baselines[] = {"none", "mean", NULL};
  fopo_gradient_options o = {
      .kind = FOPO_GRADIENT_REINFORCE,
      .samples = samples_option(L, 1),
      .baseline = bind_choice(L, bind_option(L, 1, "baseline"), "baseline", baselines)};
  bind_gradient *g = bind_new(L, &bind_gradient_type, 0);
  bind_check(L, fopo_gradient_new(&g->gradient, &o));
  return 1;
}

/* A gradient over a copy of the proposal at `at`. */
static int with_proposal(lua_State *L, int at, fopo_gradient_options o) {
  bind_get(L, at, &bind_proposal_type);
  bind_proposal *own = bind_new(L, &bind_proposal_type, 0);
  bind_gradient *g = bind_new(L, &bind_gradient_type, 0);
  bind_proposal *given = bind_get(L, at, &bind_proposal_type);
  own->proposal = o.proposal = given->proposal;
  bind_keep(&own->object, 0, given->object.keeps[0]);
  bind_keep(&g->object, PROPOSAL, &own->object);
  bind_check(L, fopo_gradient_new(&g->gradient, &o));
  return 1;
}

/* The mistake to plant; none where the option is left out. */
static fopo_fault fault_option(lua_State *L, int index) {
  const char *names[FOPO_FAULTS + 1] = {NULL};
  if (!bind_has(L, index, "fault")) return FOPO_FAULT_NONE;
  for (int i = 0; i < FOPO_FAULTS; i++) names[i] = fopo_fault_names[i];
  return (fopo_fault)bind_choice(L, bind_option(L, index, "fault"), "fault", names);
}

/* native.gradient_snis{proposal, samples, fault}: self-normalised importance sampling. */
static int gradient_snis(lua_State *L) {
  int at = bind_option(L, 1, "proposal");
  fopo_gradient_options o = {.kind = FOPO_GRADIENT_SNIS, .samples = samples_option(L, 1)};
  fopo_fault fault = fault_option(L, 1);
  with_proposal(L, at, o);
  bind_check(L, fopo_gradient_plant(get_gradient(L, -1)->gradient, fault));
  return 1;
}

/* native.gradient_head_tail{proposal, tail}: the candidates of a mixture of epsilon 0 in full, and
 * draws of the other items. */
static int gradient_head_tail(lua_State *L) {
  int at = bind_option(L, 1, "proposal");
  fopo_gradient_options o = {.kind = FOPO_GRADIENT_HEAD_TAIL, .samples = tail_option(L, 1)};
  return with_proposal(L, at, o);
}

/* g:set{epsilon, samples, k, tail}: from the next batch on. */
static int set(lua_State *L) {
  fopo_gradient_options o = *fopo_gradient_get(get_gradient(L, 1)->gradient);
  fopo_proposal *q = &o.proposal;
  int head = o.kind == FOPO_GRADIENT_HEAD_TAIL;
  int mixture = o.kind == FOPO_GRADIENT_SNIS && q->kind == FOPO_PROPOSAL_MIXTURE;
  if (bind_has(L, 2, "samples")) {
    if (o.kind == FOPO_GRADIENT_EXACT || head) {
      return bind_fail(L,
                       fopo_fail(FOPO_ERR_ARGUMENT,
                                 head ? "a head and tail has no samples; its tail and k may be set"
                                      : "an exact gradient draws no samples"));
    }
    o.samples = samples_option(L, 2);
  }
  if (bind_has(L, 2, "tail")) {
    if (!head) {
      return bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "only a head and tail has a tail"));
    }
    o.samples = tail_option(L, 2);
  }
  if (bind_has(L, 2, "epsilon")) {
    if (!mixture) {
      return bind_fail(
          L, fopo_fail(FOPO_ERR_ARGUMENT, "only a gradient with a mixture proposal has epsilon"));
    }
    if (q->adaptive) {
      return bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT,
                                    "an adaptive proposal sets its epsilon "
                                    "itself; use proposal.mixture for one of your own"));
    }
    q->epsilon = bind_number(L, bind_option(L, 2, "epsilon"), "epsilon");
  }
  if (bind_has(L, 2, "k")) {
    if (!mixture && !head) {
      return bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "only a gradient with candidates has k"));
    }
    q->k = bind_count(L, bind_option(L, 2, "k"), "k", 1, SIZE_MAX);
  }
  bind_gradient *g = bind_get_free(L, 1, &bind_gradient_type);
  if (mixture || head) {
    fopo_index_facts facts = fopo_index_about(q->index);
    bind_check(L, fopo_proposal_check(q, facts.n_items, facts.dim));
  }
  bind_check(L, fopo_gradient_set(g->gradient, &o));
  if (g->object.keeps[PROPOSAL]) ((bind_proposal *)g->object.keeps[PROPOSAL])->proposal = *q;
  return 0;
}

/* ---- computing ---- */

/* Draws, rewards and absorbs until the batch is done. `function` is where a custom reward's
 * function stands. Raises; the batch is then given up. */
static void run(lua_State *L, bind_gradient *g, int custom, int function) {
  fopo_drawn drawn;
  int status;
  while ((status = fopo_gradient_draw(g->gradient, custom ? &drawn : NULL)) == FOPO_DRAWN) {
    if (!custom) {
      status = fopo_gradient_reward(g->gradient);
    } else if (bind_reward_call(L, function, &drawn) == LUA_OK) {
      status = FOPO_OK;
    } else {
      fopo_gradient_abandon(g->gradient);
      lua_error(L);
    }
    if (status == FOPO_OK) status = fopo_gradient_absorb(g->gradient);
    if (status != FOPO_OK) break;
  }
  bind_check(L, status);
}

/* Pushes the items' gradient of the last batch: ids [1, n] and rows [n, L]. */
static void push_items_gradient(lua_State *L, const bind_gradient *g, size_t dim) {
  fopo_device *d = ((bind_device *)g->object.keeps[BOUND]->keeps[0])->device;
  size_t n = fopo_gradient_items(g->gradient).n;
  bind_array *ids = bind_array_new(L, 1, 1, n), *rows = bind_array_new(L, 0, n, dim);
  fopo_item_gradient items = fopo_gradient_items(g->gradient);
  if (items.n != n) { /* a finaliser has used the gradient */
    bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "the gradient was used while it was given out"));
  }
  bind_check(L, d->ops->get(d, rows->data, items.rows, n * dim * sizeof(float)));
  if (items.ids != NULL) {
    bind_check(L, d->ops->get(d, ids->data, items.ids, n * sizeof(uint32_t)));
  } else {
    for (size_t a = 0; a < n; a++) ((uint32_t *)ids->data)[a] = (uint32_t)a;
  }
}

/* g:compute(pi, x, rows, reward, {seed, step}): G, of theta's shape, to be ascended, and a table of
 * what was seen. rows: an array of ids, a table of 1-based integers, or nil for all. Of a policy
 * that learns its items also ids [1, n] and rows [n, L], the items' gradient. */
static int compute(lua_State *L) {
  enum { G_ARG = 1, PI, X, ROWS, RW, OPTIONS };
  size_t B;
  fopo_draw_key key = {
      .seed = bind_seed(L, bind_option(L, OPTIONS, "seed")),
      .step = (uint32_t)bind_count(L, bind_option(L, OPTIONS, "step"), "step", 0, UINT32_MAX)};
  get_gradient(L, G_ARG);
  bind_policy *pi = bind_get(L, PI, &bind_policy_type);
  fopo_matrix theta = pi->policy.theta;
  size_t dim = pi->policy.items.cols;
  size_t N = bind_array_numbers(L, X, "x")->rows;
  bind_get(L, RW, &bind_reward_type);
  uint32_t *rows = bind_rows(L, ROWS, N, N, &B);
  bind_array *G = bind_array_new(L, 0, theta.rows, theta.cols);
  int result = lua_gettop(L);
  bind_device *device = bind_device_open(L, "cpu");
  lua_getiuservalue(L, RW, 1);
  int function = lua_gettop(L);
  bind_push_again(L, G_ARG, &bind_gradient_type);
  luaL_checkstack(L, 16, NULL);

  bind_gradient *g = get_gradient(L, G_ARG);
  pi = bind_get(L, PI, &bind_policy_type);
  bind_array *x = bind_array_numbers(L, X, "x");
  bind_reward *reward = bind_get(L, RW, &bind_reward_type);
  int custom = reward->reward.kind == FOPO_REWARD_CUSTOM;
  bind_check(L, bind_gradient_bind(g, device, pi, x, reward));
  bind_check(L, fopo_gradient_begin(g->gradient, NULL, rows, B, key));
  run(L, g, custom, function);
  fopo_gradient_stats stats;
  bind_check(L, fopo_gradient_finish(g->gradient, bind_matrix(G), &stats));
  fopo_gradient_commit(g->gradient, rows, B, &stats);
  int train = fopo_gradient_items(g->gradient).rows != NULL, last = lua_gettop(L);
  if (train) push_items_gradient(L, g, dim);
  lua_pushvalue(L, result);
  lua_createtable(L, 0, 8);
  bind_set_statistics(L, &stats.mean, stats.seconds, "seconds");
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
  lua_createtable(L, 0, FOPO_PHASES);
  for (int i = 0; i < FOPO_PHASES; i++) bind_set_number(L, fopo_phase_rows[i].name, phases[i]);
  lua_setfield(L, -2, seconds_name);
}

static int field(lua_State *L, bind_object *o, const char *name) {
  static const char *const kinds[] = {"exact", "reinforce", "snis", "head_tail"};
  const fopo_gradient_options *g = fopo_gradient_get(((bind_gradient *)o)->gradient);
  int head = g->kind == FOPO_GRADIENT_HEAD_TAIL;
  const fopo_proposal *q = g->kind == FOPO_GRADIENT_SNIS || head ? &g->proposal : NULL;
  if (strcmp(name, "kind") == 0) {
    lua_pushstring(L, kinds[g->kind]);
  } else if (strcmp(name, "samples") == 0) {
    g->samples && !head ? lua_pushinteger(L, (lua_Integer)g->samples) : lua_pushnil(L);
  } else if (strcmp(name, "tail") == 0) {
    head ? lua_pushinteger(L, (lua_Integer)g->samples) : lua_pushnil(L);
  } else if (strcmp(name, "baseline") == 0) {
    g->kind == FOPO_GRADIENT_REINFORCE ? (void)lua_pushstring(L, g->baseline ? "mean" : "none")
                                       : lua_pushnil(L);
  } else if (strcmp(name, "epsilon") == 0) {
    q && !head ? lua_pushnumber(L, q->epsilon) : lua_pushnil(L);
  } else if (strcmp(name, "k") == 0) {
    q && q->k ? lua_pushinteger(L, (lua_Integer)q->k) : lua_pushnil(L);
  } else if (strcmp(name, "refresh") == 0) {
    q ? bind_push_refresh(L, q) : lua_pushnil(L);
  } else if (strcmp(name, "kept_bytes") == 0) {
    lua_pushinteger(L, (lua_Integer)fopo_gradient_kept_bytes(((bind_gradient *)o)->gradient));
  } else if (strcmp(name, "fault") == 0) {
    fopo_fault fault = fopo_gradient_planted(((bind_gradient *)o)->gradient);
    fault ? (void)lua_pushstring(L, fopo_fault_names[fault]) : lua_pushnil(L);
  } else if (strcmp(name, "proposal") == 0) {
    if (o->keeps[PROPOSAL] && q) ((bind_proposal *)o->keeps[PROPOSAL])->proposal = *q;
    bind_push_kept(L, 1, &bind_gradient_type, PROPOSAL);
  } else {
    return 0;
  }
  return 1;
}

const luaL_Reg bind_gradient_functions[] = {{"gradient_exact", gradient_exact},
                                            {"gradient_reinforce", gradient_reinforce},
                                            {"gradient_snis", gradient_snis},
                                            {"gradient_head_tail", gradient_head_tail},
                                            {NULL, NULL}};

static const luaL_Reg methods[] = {{"compute", compute}, {"set", set}, {NULL, NULL}};

const bind_type bind_gradient_type = {.name = "fopo.gradient",
                                      .size = sizeof(bind_gradient),
                                      .done = done,
                                      .methods = methods,
                                      .fields = "kind samples tail baseline epsilon k refresh "
                                                "kept_bytes proposal fault",
                                      .get = field};
