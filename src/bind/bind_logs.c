/* Bandit logs. */
#include "bind/bind.h"

#include <string.h>

#include "core/memory.h"

enum { CONTEXTS, ITEMS }; /* slots; the user values of the handle are one more */

static bind_logs *get_box(lua_State *L, int index) {
  return bind_get(L, index, &bind_logs_type);
}

static fopo_logs *get_logs(lua_State *L, int index) { return get_box(L, index)->logs; }

static void done(bind_object *o) { fopo_logs_free(((bind_logs *)o)->logs); }

/* Pushes the array of a slot of the log at `log`, the same one every time. */
static int push_array(lua_State *L, int log, int slot) {
  bind_logs *box = get_box(L, log);
  lua_getiuservalue(L, log, slot + 1);
  if (bind_peek(L, -1, &bind_array_type) == box->head.keeps[slot]) return 1;
  bind_push_kept(L, log, &bind_logs_type, slot);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, log, slot + 1);
  return 1;
}

/* ---- making ---- */

/* Slot `slot` of the log at `log` keeps the array at the top, which goes. */
static void keep_array(lua_State *L, int log, int slot) {
  bind_keep(bind_get(L, log, &bind_logs_type), slot, bind_peek(L, -1, &bind_array_type));
  lua_setiuservalue(L, log, slot + 1);
}

bind_logs *bind_logs_new(lua_State *L, int lender) {
  luaL_checkstack(L, 8, NULL);
  bind_new(L, &bind_logs_type, 2);
  int log = lua_gettop(L);
  bind_array_new(L, 0, 0, 0);
  keep_array(L, log, CONTEXTS);
  if (lender == 0) {
    bind_array_new(L, 0, 0, 0);
  } else {
    push_array(L, lender, ITEMS);
  }
  keep_array(L, log, ITEMS);
  return get_box(L, log);
}

/* The matrix becomes that of the array, which is empty and owns it from now on. */
static void move(bind_object *array, fopo_matrix m) {
  bind_array *a = (bind_array *)array;
  fopo_free(a->data);
  a->data = m.x;
  a->rows = m.rows;
  a->cols = m.cols;
}

void bind_logs_settle(lua_State *L, bind_logs *box) {
  fopo_logs *logs = box->logs;
  size_t bytes = logs->n * 12;
  if (!logs->contexts_lent) {
    move(box->head.keeps[CONTEXTS], logs->contexts);
    logs->contexts_lent = 1;
    bytes += logs->n * logs->contexts.cols * sizeof(float);
  }
  if (!logs->items_lent && logs->items.x != NULL) {
    move(box->head.keeps[ITEMS], logs->items);
    logs->items_lent = 1;
    bytes += logs->items.rows * logs->items.cols * sizeof(float);
  }
  bind_pressure(L, bytes);
}

static const char *text_option(lua_State *L, int index, const char *name) {
  int at = bind_option(L, index, name);
  return lua_isnil(L, at) ? NULL : bind_string(L, at, name);
}

static size_t size_option(lua_State *L, int index, const char *name) {
  int at = bind_option(L, index, name);
  return lua_isnil(L, at) ? 0 : bind_count(L, at, name, 0, SIZE_MAX);
}

/* native.logs_read(path, {format, action, reward, propensity, features, items, position, hash_bits,
 * n_actions, skip_errors, max_errors}): a log. */
static int logs_read(lua_State *L) {
  luaL_checkstack(L, 20, NULL);
  const char *path = bind_path(L, 1);
  fopo_logs_options o = {.format = text_option(L, 2, "format"),
                         .action = text_option(L, 2, "action"),
                         .reward = text_option(L, 2, "reward"),
                         .propensity = text_option(L, 2, "propensity"),
                         .features = text_option(L, 2, "features"),
                         .items = text_option(L, 2, "items"),
                         .position = size_option(L, 2, "position"),
                         .hash_bits = size_option(L, 2, "hash_bits"),
                         .n_actions = size_option(L, 2, "n_actions"),
                         .max_errors = size_option(L, 2, "max_errors")};
  o.skip_errors = bind_boolean(L, bind_option(L, 2, "skip_errors"), "skip_errors");
  bind_logs *box = bind_logs_new(L, 0);
  bind_check(L, fopo_logs_read(&box->logs, path, &o));
  bind_logs_settle(L, box);
  return 1;
}

/* ---- methods ---- */

/* lg:contexts(): [n, D], the features of each event; the same array every time. */
static int contexts(lua_State *L) { return push_array(L, 1, CONTEXTS); }

/* lg:items(): [P, L], the features of the actions, or nil; the same array every time. */
static int items(lua_State *L) {
  if (get_logs(L, 1)->items.x != NULL) return push_array(L, 1, ITEMS);
  lua_pushnil(L);
  return 1;
}

/* Pushes n numbers or ids of the log as an array [1, n]. */
static int push_column(lua_State *L, int ids, int which) {
  size_t n = get_logs(L, 1)->n;
  bind_push_again(L, 1, &bind_logs_type);
  bind_array *a = bind_array_new(L, ids, 1, n);
  const fopo_logs *logs = get_logs(L, 1);
  const void *columns[] = {logs->actions, logs->rewards, logs->propensities};
  memcpy(a->data, columns[which], n * 4);
  return 1;
}

/* lg:actions(): the actions shown, as ids [1, n]. */
static int actions(lua_State *L) { return push_column(L, 1, 0); }

/* lg:rewards(): [1, n]. */
static int rewards(lua_State *L) { return push_column(L, 0, 1); }

/* lg:propensities(): [1, n]. */
static int propensities(lua_State *L) { return push_column(L, 0, 2); }

static int push_name(lua_State *L, const fopo_names *names, size_t i) {
  char buffer[64];
  lua_pushstring(L, names->text != NULL ? names->text + names->offsets[i]
                                        : fopo_names_get(names, i, buffer, sizeof buffer));
  return 1;
}

/* lg:action_name(j): what action j is called in the file. */
static int action_name(lua_State *L) {
  fopo_logs *logs = get_logs(L, 1);
  size_t j = bind_id(L, 2, "action", logs->n_actions);
  return push_name(L, &logs->names, j);
}

/* lg:feature_name(i): the name of column i of the contexts, or nil where features are hashed. */
static int feature_name(lua_State *L) {
  fopo_logs *logs = get_logs(L, 1);
  size_t i = bind_id(L, 2, "feature", logs->contexts.cols);
  if (logs->features.n > i) return push_name(L, &logs->features, i);
  lua_pushnil(L);
  return 1;
}

/* lg:part(first, count): events first .. first + count - 1 as a log of their own. */
static int part(lua_State *L) {
  fopo_logs *logs = get_logs(L, 1);
  size_t first = bind_id(L, 2, "first", logs->n);
  size_t count = bind_count(L, 3, "count", 1, logs->n - first);
  bind_logs *box = bind_logs_new(L, 1);
  bind_check(L, fopo_logs_part(&box->logs, get_logs(L, 1), first, count));
  bind_logs_settle(L, box);
  return 1;
}

/* lg:take(ids): these events as a log of their own. */
static int take(lua_State *L) {
  size_t n;
  lua_settop(L, 2);
  uint32_t *rows = bind_rows(L, 2, get_logs(L, 1)->n, 0, &n);
  bind_logs *box = bind_logs_new(L, 1);
  bind_check(L, fopo_logs_take(&box->logs, get_logs(L, 1), rows, n));
  bind_logs_settle(L, box);
  return 1;
}

/* native.logs_split(lg, n, seed): n random events, and the others. */
static int logs_split(lua_State *L) {
  size_t n = bind_count(L, 2, "n", 0, SIZE_MAX);
  uint64_t seed = bind_seed(L, 3);
  bind_logs_new(L, 1);
  int first = lua_gettop(L);
  bind_logs *test = bind_logs_new(L, 1), *train = get_box(L, first);
  bind_check(L, fopo_logs_split(&train->logs, &test->logs, get_logs(L, 1), n, seed));
  bind_logs_settle(L, train);
  bind_logs_settle(L, test);
  return 2;
}

/* lg:save(path): an .npz that fopo.data.logs reads. */
static int save(lua_State *L) {
  const char *path = bind_path(L, 2);
  bind_check(L, fopo_logs_save(get_logs(L, 1), path));
  return 0;
}

static int field(lua_State *L, bind_object *o, const char *name) {
  const fopo_logs *logs = ((bind_logs *)o)->logs;
  const struct { const char *name; size_t value; } counts[] = {
      {"n", logs->n}, {"n_actions", logs->n_actions}, {"dim", logs->contexts.cols},
      {"skipped", logs->skipped}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    if (strcmp(name, counts[i].name) == 0) {
      lua_pushinteger(L, (lua_Integer)counts[i].value);
      return 1;
    }
  }
  if (strcmp(name, "format") == 0) {
    lua_pushstring(L, logs->format);
  } else if (strcmp(name, "mean_reward") == 0) {
    double sum = 0;
    for (size_t i = 0; i < logs->n; i++) sum += (double)logs->rewards[i];
    lua_pushnumber(L, sum / (double)logs->n);
  } else if (strcmp(name, "least_propensity") == 0) {
    double least = 1;
    for (size_t i = 0; i < logs->n; i++) {
      if ((double)logs->propensities[i] < least) least = (double)logs->propensities[i];
    }
    lua_pushnumber(L, least);
  } else {
    return 0;
  }
  return 1;
}

const luaL_Reg bind_logs_functions[] = {
    {"logs_read", logs_read}, {"logs_split", logs_split}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"contexts", contexts},
                                   {"items", items},
                                   {"actions", actions},
                                   {"rewards", rewards},
                                   {"propensities", propensities},
                                   {"action_name", action_name},
                                   {"feature_name", feature_name},
                                   {"part", part},
                                   {"take", take},
                                   {"save", save},
                                   {NULL, NULL}};

const bind_type bind_logs_type = {.name = "fopo.logs",
                                  .size = sizeof(bind_logs),
                                  .done = done,
                                  .methods = methods,
                                  .fields = "n n_actions dim mean_reward least_propensity skipped "
                                            "format",
                                  .get = field};
