/* Bandit logs. bind_log_world.c makes synthetic ones. */
#include <string.h>

#include "bind/families.h"
#include "core/memory.h"
#include "data/logs/readers.h"

enum {
  CONTEXTS,
  ITEMS
}; /* slots; user value slot + 1 of the handle is a handle on the same array */

static bind_logs *get_box(lua_State *L, int index) { return bind_get(L, index, &bind_logs_type); }

static fopo_logs *get_logs(lua_State *L, int index) { return get_box(L, index)->logs; }

static void done(bind_object *o) { fopo_logs_free(((bind_logs *)o)->logs); }

/* Pushes the array in a slot of the log at `log`; the same handle every time. */
static int push_array(lua_State *L, int log, int slot) {
  bind_push_held(L, log, &bind_logs_type, slot);
  return 1;
}

/* ---- making ---- */

/* Puts the array on the top into a slot of the log at `log` and pops it. */
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

/* Moves the matrix into the array, which is empty and owns it from now on. */
static void move(bind_object *array, fopo_matrix m) {
  bind_array *a = (bind_array *)array;
  fopo_free(a->data);
  a->data = m.x;
  a->rows = m.rows;
  a->cols = m.cols;
}

void bind_logs_made(lua_State *L, bind_logs *box) {
  fopo_logs *logs = box->logs;
  size_t bytes = logs->n * 12;
  if (!logs->contexts_borrowed) {
    move(box->object.keeps[CONTEXTS], logs->contexts);
    logs->contexts_borrowed = 1;
    bytes += logs->n * logs->contexts.cols * sizeof(float);
  }
  if (!logs->items_borrowed && logs->items.x != NULL) {
    move(box->object.keeps[ITEMS], logs->items);
    logs->items_borrowed = 1;
    bytes += logs->items.rows * logs->items.cols * sizeof(float);
  }
  bind_pressure(L, bytes);
}

/* native.logs_read(path or {path ...}, {format, action, reward, propensity, features, categories,
 * items, position, hash_bits, n_actions, skip_errors, max_errors, standardise, like}): a log. */
static int logs_read(lua_State *L) {
  luaL_checkstack(L, 20, NULL);
  size_t n;
  const char **paths = bind_paths(L, 1, &n);
  fopo_logs_options o = {.format = bind_option_string(L, 2, "format"),
                         .action = bind_option_string(L, 2, "action"),
                         .reward = bind_option_string(L, 2, "reward"),
                         .propensity = bind_option_string(L, 2, "propensity"),
                         .features = bind_option_string(L, 2, "features"),
                         .categories = bind_option_string(L, 2, "categories"),
                         .items = bind_option_string(L, 2, "items"),
                         .position = bind_option_count_or(L, 2, "position", 0, SIZE_MAX, 0),
                         .hash_bits = bind_option_count_or(L, 2, "hash_bits", 0, SIZE_MAX, 0),
                         .n_actions = bind_option_count_or(L, 2, "n_actions", 0, SIZE_MAX, 0),
                         .max_errors = bind_option_count_or(L, 2, "max_errors", 0, SIZE_MAX, 0)};
  o.skip_errors = bind_option_boolean(L, 2, "skip_errors");
  const char *standardise = bind_option_string(L, 2, "standardise");
  int like = bind_option(L, 2, "like");
  o.standardise = lua_isnil(L, like) && standardise != NULL && strcmp(standardise, "auto") == 0;
  bind_logs *box;
  if (lua_isnil(L, like)) {
    box = bind_logs_new(L, 0);
    bind_check(L, fopo_logs_read(&box->logs, paths, n, &o));
  } else {
    get_logs(L, like);
    box = bind_logs_new(L, like);
    char name[256];
    bind_check(L, fopo_logs_read(&box->logs, paths, n, &o));
    fopo_source_name(name, sizeof name, paths[0]);
    bind_check(L, fopo_logs_match(box->logs, get_logs(L, like), name));
  }
  bind_logs_made(L, box);
  return 1;
}

/* native.logs_formats(): {name, what, name, what, ...}, the table of readers of logs in its order.
 */
static int logs_formats(lua_State *L) {
  const fopo_log_reader *reader;
  lua_Integer n = 0;
  lua_newtable(L);
  for (size_t i = 0; (reader = fopo_log_reader_at(i)) != NULL; i++) {
    lua_pushstring(L, reader->name);
    lua_rawseti(L, -2, ++n);
    lua_pushstring(L, reader->what);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* ---- methods ---- */

/* lg:contexts(): [n, D], the features of each event; the same array every time. */
static int contexts(lua_State *L) { return push_array(L, 1, CONTEXTS); }

/* lg:scales(): [2, D], what was taken from each column and what it was divided by, or nil. */
static int scales(lua_State *L) {
  const fopo_logs *logs = get_logs(L, 1);
  size_t D = logs->contexts.cols;
  if (logs->scales == NULL) return 0;
  bind_push_again(L, 1, &bind_logs_type);
  bind_array *a = bind_array_new(L, 0, 2, D);
  memcpy(a->data, get_logs(L, 1)->scales, 2 * D * sizeof(float));
  return 1;
}

/* lg:items(): [P, L], the features of the actions, or nil; the same array every time. */
static int items(lua_State *L) {
  if (get_logs(L, 1)->items.x != NULL) return push_array(L, 1, ITEMS);
  return bind_return_nil(L);
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

/* lg:action_name(j): the name of action j in the file. */
static int action_name(lua_State *L) {
  fopo_logs *logs = get_logs(L, 1);
  size_t j = bind_id(L, 2, "action", logs->n_actions);
  if (logs->names.n > 0) return bind_push_name(L, &logs->names, j);
  lua_pushfstring(L, "%I", (LUAI_UACINT)j + 1);
  return 1;
}

/* lg:feature_name(i): the name of column i of the contexts, or nil if features are hashed. */
static int feature_name(lua_State *L) {
  fopo_logs *logs = get_logs(L, 1);
  size_t i = bind_id(L, 2, "feature", logs->contexts.cols);
  if (logs->features.n > i) return bind_push_name(L, &logs->features, i);
  return bind_return_nil(L);
}

/* lg:part(first, count): events first .. first + count - 1 as a log of their own. */
static int part(lua_State *L) {
  fopo_logs *logs = get_logs(L, 1);
  size_t first = bind_id(L, 2, "first", logs->n);
  size_t count = bind_count(L, 3, "count", 1, logs->n - first);
  bind_logs *box = bind_logs_new(L, 1);
  bind_check(L, fopo_logs_part(&box->logs, get_logs(L, 1), first, count));
  bind_logs_made(L, box);
  return 1;
}

/* lg:take(ids): these events as a log of their own. */
static int take(lua_State *L) {
  size_t n;
  lua_settop(L, 2);
  uint32_t *rows = bind_rows(L, 2, get_logs(L, 1)->n, 0, &n);
  bind_logs *box = bind_logs_new(L, 1);
  bind_check(L, fopo_logs_take(&box->logs, get_logs(L, 1), rows, n));
  bind_logs_made(L, box);
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
  bind_logs_made(L, train);
  bind_logs_made(L, test);
  return 2;
}

/* lg:save(path): an .npz that fopo.data.logs reads. */
static int save(lua_State *L) {
  const char *path = bind_path(L, 2);
  bind_check(L, fopo_logs_save(get_logs(L, 1), path));
  return 0;
}

/* ---- fields ---- */

static const fopo_logs *logs_of(const bind_object *o) { return ((const bind_logs *)o)->logs; }

static int field_mean_reward(lua_State *L, bind_object *o) {
  const fopo_logs *logs = logs_of(o);
  double sum = 0;
  for (size_t i = 0; i < logs->n; i++) sum += (double)logs->rewards[i];
  return bind_return_number(L, sum / (double)logs->n);
}

static int field_least_propensity(lua_State *L, bind_object *o) {
  const fopo_logs *logs = logs_of(o);
  double least = 1;
  for (size_t i = 0; i < logs->n; i++) {
    if ((double)logs->propensities[i] < least) least = (double)logs->propensities[i];
  }
  return bind_return_number(L, least);
}

BIND_FIELD(field_n, count, logs_of(o)->n)
BIND_FIELD(field_n_actions, count, logs_of(o)->n_actions)
BIND_FIELD(field_dim, count, logs_of(o)->contexts.cols)
BIND_FIELD(field_skipped, count, logs_of(o)->skipped)
BIND_FIELD(field_format, string, logs_of(o)->format)

const luaL_Reg bind_logs_functions[] = {{"logs_read", logs_read},
                                        {"logs_formats", logs_formats},
                                        {"logs_split", logs_split},
                                        {NULL, NULL}};

static const luaL_Reg methods[] = {{"contexts", contexts},
                                   {"items", items},
                                   {"scales", scales},
                                   {"actions", actions},
                                   {"rewards", rewards},
                                   {"propensities", propensities},
                                   {"action_name", action_name},
                                   {"feature_name", feature_name},
                                   {"part", part},
                                   {"take", take},
                                   {"save", save},
                                   {NULL, NULL}};

static const bind_field fields[] = {{"n", field_n, NULL},
                                    {"n_actions", field_n_actions, NULL},
                                    {"dim", field_dim, NULL},
                                    {"mean_reward", field_mean_reward, NULL},
                                    {"least_propensity", field_least_propensity, NULL},
                                    {"skipped", field_skipped, NULL},
                                    {"format", field_format, NULL},
                                    {NULL, NULL, NULL}};

const bind_type bind_logs_type = {.name = "fopo.logs",
                                  .size = sizeof(bind_logs),
                                  .done = done,
                                  .methods = methods,
                                  .fields = fields};
