/* The training loop: slices of steps, and checkpoints that include the history kept in Lua. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind/families.h"
#include "train/trainer.h"

/* The options that name the objects of a trainer, in the order of its slots. */
static const char *const parts[] = {"policy", "contexts", "reward", "gradient", "optim"};
static const bind_type *const part_types[] = {
    &bind_policy_type, &bind_array_type, &bind_reward_type, &bind_gradient_type, &bind_optim_type};

static void done(bind_object *o) { fopo_trainer_free(((bind_trainer *)o)->trainer); }

static bind_trainer *get_trainer(lua_State *L, int index) {
  return bind_get(L, index, &bind_trainer_type);
}

void bind_trainer_check(lua_State *L, const bind_trainer *t) {
  if (t->busy) bind_refuse(L, "this trainer is in the middle of a step; use it after the step");
  bind_check_free(L, &t->object);
  bind_check_free(L, t->object.keeps[BIND_POLICY]);
  bind_check_free(L, t->object.keeps[BIND_GRADIENT]);
  bind_check_free(L, t->object.keeps[BIND_OPTIM]);
}

/* ---- making ---- */

/* Where the trainer has contexts of its own, it binds the gradient to them itself. */
static int make(void *payload) {
  bind_trainer *t = payload;
  return fopo_trainer_new(&t->trainer, &t->options);
}

static int bind_own(void *payload) { return fopo_trainer_bind(((bind_trainer *)payload)->trainer); }

/* Binds the gradient to this trainer's data; it may have been bound to others since the last slice.
 */
static int bind_all(bind_trainer *t, int (*bind)(void *payload)) {
  bind_object **k = t->object.keeps;
  bind_gradient *g = (bind_gradient *)k[BIND_GRADIENT];
  bind_optim_on((bind_optim *)k[BIND_OPTIM], k[BIND_DEVICE]);
  if (t->options.resplit.sessions != NULL) return bind_gradient_bind_by(g, k, bind, t);
  int status = bind_gradient_bind(g, k);
  return status == FOPO_OK ? bind(t) : status;
}

void bind_trainer_prepare(lua_State *L, bind_trainer *t) {
  bind_trainer_check(L, t);
  bind_check(L, bind_all(t, bind_own));
}

/* What the contexts of the sessions are made of. */
static fopo_resplit_source resplit_of(bind_object *const *k) {
  const bind_policy *pi = (const bind_policy *)k[BIND_POLICY];
  const bind_array *items = bind_policy_initial(pi);
  return (fopo_resplit_source){.sessions = &((const bind_sessions *)k[BIND_SESSIONS])->sessions,
                               .how = pi->encoding,
                               .items = bind_matrix(items),
                               .shard = items->shard};
}

/* Whether contexts and rewards are those of the sessions. */
static int is_divided(const bind_trainer *t) {
  bind_object *const *k = t->object.keeps;
  return k[BIND_SESSIONS] != NULL && k[BIND_CONTEXTS]->type == &bind_array_type &&
         ((const bind_reward *)k[BIND_REWARD])->reward.Y ==
             &((const bind_sessions *)k[BIND_SESSIONS])->sessions.Y;
}

static int open(bind_trainer *t, size_t batch, size_t index_refresh, uint64_t seed, int resplit) {
  bind_object **k = t->object.keeps;
  fopo_trainer_options o = {.policy = &((bind_policy *)k[BIND_POLICY])->policy,
                            .contexts = bind_contexts(k[BIND_CONTEXTS], k[BIND_SESSIONS]),
                            .reward = &((bind_reward *)k[BIND_REWARD])->reward,
                            .gradient = ((bind_gradient *)k[BIND_GRADIENT])->gradient,
                            .optim = &((bind_optim *)k[BIND_OPTIM])->optim,
                            .device = ((bind_device *)k[BIND_DEVICE])->device,
                            .batch = batch,
                            .index_refresh = index_refresh,
                            .seed = seed};
  if (resplit) o.resplit = resplit_of(k);
  t->options = o;
  return bind_all(t, make);
}

/* The type of part i at `at`: contexts are an array, or sessions that are shared out. */
static const bind_type *type_of(lua_State *L, int at, int i) {
  int is_shared = i == BIND_CONTEXTS && bind_is(L, at, &bind_shared_type);
  return is_shared ? &bind_shared_type : part_types[i];
}

/* native.trainer{policy, contexts, sessions, reward, gradient, optim, batch, seed, device,
 * index_refresh, resplit}: sessions, or nil, are those that the contexts were made of; resplit: X
 * and Y of them are drawn anew in each epoch. */
static int trainer(lua_State *L) {
  size_t batch = bind_option_count(L, 1, "batch", 0, SIZE_MAX);
  uint64_t seed = bind_option_seed(L, 1);
  size_t refresh = bind_option_count_or(L, 1, "index_refresh", 0, SIZE_MAX, 0);
  const char *name = bind_string(L, bind_option(L, 1, "device"), "device");
  int at[BIND_DEVICE], sessions_at = 0, resplit = bind_option_boolean(L, 1, "resplit");
  luaL_checkstack(L, 20, NULL);
  for (int i = 0; i < BIND_DEVICE; i++) at[i] = bind_option(L, 1, parts[i]);
  if (bind_has(L, 1, "sessions")) sessions_at = bind_option(L, 1, "sessions");
  for (int i = 0; i < BIND_DEVICE; i++) bind_get(L, at[i], type_of(L, at[i], i));
  if (type_of(L, at[BIND_CONTEXTS], BIND_CONTEXTS) == &bind_array_type) {
    bind_array_numbers(L, at[BIND_CONTEXTS], "contexts");
  }
  bind_device *device = bind_device_open(L, name);
  bind_trainer *t = bind_new(L, &bind_trainer_type, 3);
  lua_getiuservalue(L, at[BIND_REWARD], 1);
  lua_setiuservalue(L, -2, 1);
  for (int i = 1; i <= 2; i++) {
    lua_getiuservalue(L, at[BIND_GRADIENT], i);
    lua_setiuservalue(L, -2, 1 + i);
  }
  for (int i = 0; i < BIND_DEVICE; i++) {
    bind_keep(&t->object, i, bind_get(L, at[i], type_of(L, at[i], i)));
  }
  bind_keep(&t->object, BIND_DEVICE, &device->object);
  if (sessions_at > 0) {
    bind_keep(&t->object, BIND_SESSIONS, bind_sessions_or_none(L, sessions_at));
  }
  if (resplit && !is_divided(t)) {
    bind_refuse(L, "resplit needs the sessions that contexts and reward were made of");
  }
  bind_check(L, open(t, batch, refresh, seed, resplit));
  return 1;
}

/* ---- steps ---- */

int bind_push_slice(lua_State *L, const fopo_slice *slice, int interrupted) {
  lua_createtable(L, 0, 16);
  bind_set_count(L, "steps", slice->steps);
  bind_set_count(L, "step", slice->step);
  bind_set_number(L, "seconds", slice->seconds);
  bind_set_statistics(L, &slice->mean, slice->phases, "time");
  if (interrupted) {
    bind_set_boolean(L, "interrupted", 1);
  }
  return 1;
}

/* t:advance(n): makes at most n steps. A table {steps, step, seconds, reward, ess, ..., time =
 * {search = ...}}, interrupted = true if Ctrl-C ended it early. */
static int advance(lua_State *L) {
  size_t n = bind_count(L, 2, "the number of steps", 1, SIZE_MAX);
  lua_settop(L, 2);
  luaL_checkstack(L, 16, NULL);
  bind_trainer_check(L, get_trainer(L, 1));
  bind_push_again(L, 1, &bind_trainer_type);               /* 3: a function may close the first */
  for (int i = 1; i <= 3; i++) lua_getiuservalue(L, 1, i); /* from 4 on: the functions */
  bind_trainer *t = get_trainer(L, 3);
  bind_trainer_prepare(L, t);

  fopo_slice slice;
  int status, lua = LUA_OK;
  t->busy = 1;
  while ((status = fopo_trainer_advance(t->trainer, n, &slice)) == FOPO_DRAWN) {
    lua = bind_fill(L, 4, fopo_trainer_drawn(t->trainer));
    if (lua != LUA_OK) break;
  }
  if (lua != LUA_OK) fopo_trainer_abandon(t->trainer);
  t->busy = 0;
  if (lua != LUA_OK) return lua_error(L);
  if (status != FOPO_ERR_INTERRUPTED) bind_check(L, status);
  return bind_push_slice(L, &slice, status == FOPO_ERR_INTERRUPTED);
}

/* native.statistics(): the rows of device/statistics.def, a list of {name, label, tag, text}. */
static int statistics(lua_State *L) {
  lua_createtable(L, FOPO_STATISTIC_ROWS, 0);
  for (int i = 0; i < FOPO_STATISTIC_ROWS; i++) {
    const fopo_statistic *row = &fopo_statistic_rows[i];
    lua_createtable(L, 0, 4);
    bind_set_string(L, "name", row->name);
    bind_set_string(L, "label", row->label);
    bind_set_string(L, "tag", row->tag);
    bind_set_string(L, "text", row->text);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* native.phases(): a list of {name, column}. */
static int phases(lua_State *L) {
  lua_createtable(L, FOPO_PHASES, 0);
  for (int i = 0; i < FOPO_PHASES; i++) {
    lua_createtable(L, 0, 2);
    bind_set_string(L, "name", fopo_phase_rows[i].name);
    bind_set_string(L, "column", fopo_phase_rows[i].column);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- checkpoints ---- */

/* Arrays that are saved beside the trainer's own. The table at stack index `anchor` keeps the
 * values that they point to alive. */
typedef struct {
  fopo_array *arrays;
  size_t n, room;
  int anchor;
} extras;

/* Moves the value on the top into the anchor. */
static void keep_alive(lua_State *L, const extras *x) {
  lua_rawseti(L, x->anchor, (lua_Integer)lua_rawlen(L, x->anchor) + 1);
}

static void add_extra(lua_State *L, extras *x, const char *prefix, const char *key,
                      fopo_array array) {
  if (x->n == x->room || strlen(key) == 0 || strlen(key) > 40 || strpbrk(key, "/\\") ||
      snprintf(array.name, sizeof array.name, "%s.%s", prefix, key) < 0) {
    bind_refuse(L, "\"%.60s\" cannot name an array of a file; use 1 to 40 letters without / and \\",
                key);
  }
  x->arrays[x->n++] = array;
}

/* Adds the list at `at`, as int64 if all its elements are integers, else as float64. */
static void add_list(lua_State *L, extras *x, const char *key, int at) {
  size_t n = lua_rawlen(L, at);
  int whole = 1;
  for (size_t i = 0; i < n; i++) {
    int number = lua_rawgeti(L, at, (lua_Integer)i + 1) == LUA_TNUMBER;
    whole = whole && lua_isinteger(L, -1);
    lua_pop(L, 1);
    if (!number) {
      bind_refuse(L, "element %zu of the history's \"%.60s\" is no number", i + 1, key);
    }
  }
  char *data = bind_scratch(L, n, 8);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, at, (lua_Integer)i + 1);
    lua_Integer integer = lua_tointeger(L, -1);
    double number = lua_tonumber(L, -1);
    memcpy(data + 8 * i, whole ? (const void *)&integer : (const void *)&number, 8);
    lua_pop(L, 1);
  }
  keep_alive(L, x);
  add_extra(L, x, "history", key,
            fopo_array_of("", whole && n > 0 ? FOPO_I64 : FOPO_F64, data, 1, n, 1));
}

static size_t entries(lua_State *L, int at) {
  size_t n = 0;
  if (!lua_istable(L, at)) return 0;
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) n++;
  return n;
}

/* The key below the top; raises unless it is a string. */
static const char *key_of(lua_State *L, const char *what) {
  if (lua_type(L, -2) != LUA_TSTRING) {
    const char *found = bind_found(L, lua_gettop(L) - 1);
    bind_refuse(L, "the %s has the key %.80s; its keys are names", what, found);
  }
  return lua_tostring(L, -2);
}

static void add_history(lua_State *L, extras *x, int at) {
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
    const char *key = key_of(L, "history");
    if (!lua_istable(L, -1)) {
      bind_refuse(L, "the history's \"%.60s\" is no list of numbers", key);
    }
    add_list(L, x, key, lua_gettop(L));
  }
}

static void add_meta(lua_State *L, extras *x, int at) {
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
    const char *key = key_of(L, "table of facts");
    lua_pushvalue(L, -1);
    if (lua_type(L, -1) != LUA_TSTRING && lua_type(L, -1) != LUA_TNUMBER) {
      bind_refuse(L, "the fact \"%.60s\" is no string or number", key);
    }
    const char *text = lua_tostring(L, -1); /* converts the copy, not the key of lua_next */
    keep_alive(L, x);
    add_extra(L, x, "meta", key, fopo_array_text("", text));
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const fopo_array *)a)->name, ((const fopo_array *)b)->name);
}

/* t:save(path, history, meta): history is a table name -> list of numbers, meta name -> string or
 * number; both may be nil. A number as meta stands for {seconds = number}. */
static int save(lua_State *L) {
  const char *path = bind_path(L, 2);
  get_trainer(L, 1);
  lua_settop(L, 4);
  luaL_checkstack(L, 24, NULL);
  if (!lua_isnil(L, 3)) bind_table(L, 3, "the history");
  if (lua_type(L, 4) == LUA_TNUMBER) {
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, 4);
    lua_setfield(L, -2, "seconds");
    lua_replace(L, 4);
  }
  if (!lua_isnil(L, 4)) bind_table(L, 4, "the table of facts");
  extras x = {.room = entries(L, 3) + entries(L, 4)};
  x.arrays = bind_scratch(L, x.room, sizeof *x.arrays);
  lua_newtable(L);
  x.anchor = lua_gettop(L);
  if (lua_istable(L, 3)) add_history(L, &x, 3);
  if (lua_istable(L, 4)) add_meta(L, &x, 4);
  /* Sorted, because the order of a Lua table varies and equal runs must give equal files. */
  qsort(x.arrays, x.n, sizeof *x.arrays, by_name);
  bind_check(L, fopo_trainer_save(get_trainer(L, 1)->trainer, path, x.arrays, x.n));
  return 0;
}

/* t:reads(path): raises if t:resume would refuse the file. */
static int reads(lua_State *L) {
  const char *path = bind_path(L, 2);
  bind_check(L, fopo_trainer_reads(get_trainer(L, 1)->trainer, path));
  return 0;
}

/* Pushes an array of the file as a list, of integers if it holds integers. */
static void push_list(lua_State *L, fopo_archive *archive, fopo_array *a, const char *path) {
  fopo_dtype type = a->type == FOPO_I64 ? FOPO_I64 : FOPO_F64;
  bind_check(L, fopo_archive_need(&a, archive, path, a->name, type, -1));
  size_t n = fopo_array_count(a);
  lua_createtable(L, (int)(n < INT_MAX ? n : INT_MAX), 0);
  for (size_t i = 0; i < n; i++) {
    if (type == FOPO_I64) {
      int64_t value;
      memcpy(&value, (const char *)a->data + 8 * i, sizeof value);
      lua_pushinteger(L, value);
    } else {
      double value;
      memcpy(&value, (const char *)a->data + 8 * i, sizeof value);
      lua_pushnumber(L, value);
    }
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* t:resume(path): continues from the file; returns its history and its facts. On failure nothing
 * has changed. */
static int resume(lua_State *L) {
  const char *path = bind_path(L, 2);
  bind_trainer_check(L, get_trainer(L, 1));
  bind_archive *box = bind_new(L, &bind_archive_type, 0);
  bind_trainer *t = get_trainer(L, 1);
  bind_check(L, fopo_trainer_resume(t->trainer, path, &box->archive));
  bind_keep(t->object.keeps[BIND_OPTIM], 0,
            t->object.keeps[BIND_DEVICE]); /* its state is on that device now */
  luaL_checkstack(L, 8, NULL);
  lua_newtable(L);
  int history = lua_gettop(L);
  lua_newtable(L);
  for (size_t i = 0; i < box->archive.n; i++) {
    fopo_array *a = &box->archive.items[i];
    if (strncmp(a->name, "history.", 8) == 0) {
      push_list(L, &box->archive, a, path);
      lua_setfield(L, history, a->name + 8);
    } else if (strncmp(a->name, "meta.", 5) == 0 && a->type == FOPO_BYTES) {
      lua_pushlstring(L, a->data, strnlen(a->data, a->itemsize));
      lua_setfield(L, history + 1, a->name + 5);
    }
  }
  return 2;
}

/* ---- fields ---- */

static const fopo_device *device_of(const bind_object *o) {
  return ((const bind_device *)o->keeps[BIND_DEVICE])->device;
}

BIND_FIELD(field_step, count, fopo_trainer_step(((bind_trainer *)o)->trainer))
BIND_FIELD(field_steps_per_epoch, count, fopo_trainer_steps_per_epoch(((bind_trainer *)o)->trainer))

/* How many of the largest norms are in use, and the share of the mass that they hold; nil unless
 * they follow from the mass. */
static int field_head(lua_State *L, bind_object *o) {
  return bind_return_positive(L, (size_t)fopo_trainer_norms(((bind_trainer *)o)->trainer)->head);
}

static int field_held(lua_State *L, bind_object *o) {
  const fopo_mass *norms = fopo_trainer_norms(((bind_trainer *)o)->trainer);
  return norms->head > 0 ? bind_return_number(L, norms->held) : bind_return_nil(L);
}

/* t:uses(head): what steps make of so many of the largest norms: the number of items that all
 * contexts share as their head, or nil; and where candidates are found among all items: "index",
 * "clusters" or "items". */
static int uses(lua_State *L) {
  const fopo_trainer_options *o = &get_trainer(L, 1)->options;
  size_t head = bind_count(L, 2, "the number of norms", 1, SIZE_MAX);
  fopo_norms_use use = fopo_gradient_use(o->gradient, o->policy, o->device, head);
  bind_return_positive(L, use.shared);
  lua_pushstring(L, use.by_index ? "index" : use.clusters ? "clusters" : "items");
  return 2;
}

/* The run that was left before its end: {first, last, seconds, every}, with nil for what is not
 * known; nil: there is none. */
static int field_unfinished(lua_State *L, bind_object *o) {
  const fopo_unfinished *u = fopo_trainer_unfinished(((bind_trainer *)o)->trainer);
  if (!u->open) return bind_return_nil(L);
  lua_createtable(L, 0, 4);
  bind_set_count(L, "first", u->first);
  if (u->last < UINT64_MAX) bind_set_count(L, "last", u->last);
  if (isfinite(u->seconds)) bind_set_number(L, "seconds", u->seconds);
  if (u->every > 0) bind_set_count(L, "every", u->every);
  return 1;
}

BIND_FIELD(field_device_name, string, device_of(o)->name)
BIND_FIELD(field_device_note, string, device_of(o)->note)

/* native.trainer_batch(n, batch, seed, step): the contexts of a step, as ids. */
static int trainer_batch(lua_State *L) {
  size_t n = bind_count(L, 1, "n", 1, UINT32_MAX - 1), B;
  size_t batch = bind_count(L, 2, "size", 1, n);
  uint64_t seed = bind_seed(L, 3);
  size_t step = bind_count(L, 4, "step", 0, SIZE_MAX / 2);
  size_t left = n - step % ((n + batch - 1) / batch) * batch;
  bind_array *rows = bind_array_new(L, 1, 1, left < batch ? left : batch);
  bind_check(L, fopo_trainer_batch(rows->data, &B, n, batch, seed, step));
  return 1;
}

const luaL_Reg bind_trainer_functions[] = {{"trainer", trainer},
                                           {"trainer_batch", trainer_batch},
                                           {"statistics", statistics},
                                           {"phases", phases},
                                           {NULL, NULL}};

static const luaL_Reg methods[] = {{"advance", advance}, {"save", save}, {"reads", reads},
                                   {"resume", resume},   {"uses", uses}, {NULL, NULL}};

static const bind_field fields[] = {{"step", field_step, NULL},
                                    {"steps_per_epoch", field_steps_per_epoch, NULL},
                                    {"head", field_head, NULL},
                                    {"held", field_held, NULL},
                                    {"unfinished", field_unfinished, NULL},
                                    {"device_name", field_device_name, NULL},
                                    {"device_note", field_device_note, NULL},
                                    {NULL, NULL, NULL}};

const bind_type bind_trainer_type = {.name = "fopo.trainer",
                                     .size = sizeof(bind_trainer),
                                     .done = done,
                                     .methods = methods,
                                     .fields = fields};
