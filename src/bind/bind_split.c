/* Splits of datasets into sessions. */
#include <math.h>
#include <string.h>

#include "bind/families.h"
#include "data/merge.h"
#include "data/number.h"
#include "ranks/split.h"

/* Where a split puts its results on the stack: train, valid, test. */
typedef struct {
  int base;
  bind_sessions *parts[3];
} places;

static fopo_split_options options_of(lua_State *L, int index) {
  fopo_split_options o = {.min_items = bind_option_count(L, index, "min_items", 0, SIZE_MAX),
                          .valid = bind_option_number(L, index, "valid"),
                          .test = bind_option_number(L, index, "test"),
                          .seed = bind_option_seed(L, index)};
  o.max_users = bind_option_count_or(L, index, "max_users", 0, SIZE_MAX, 0);
  return o;
}

/* from [2] holds what the plan points to. */
static fopo_split_plan plan_of(lua_State *L, int index, double *from) {
  static const char *const kinds[] = {"users", "time", "last", NULL};
  static const char *const names[] = {"valid_from", "test_from"};
  fopo_split_plan p = {.by_time = bind_option_boolean(L, index, "by_time"),
                       .keep_seen = bind_option_boolean(L, index, "keep_seen"),
                       .observed = bind_option_number_or(L, index, "observed", 0)};
  if (!lua_isnil(L, bind_option(L, index, "kind"))) {
    p.kind = (fopo_split_kind)bind_option_choice(L, index, "kind", kinds);
  }
  for (int i = 0; i < 2; i++) {
    from[i] = bind_option_number_or(L, index, names[i], (double)NAN);
    if (!isnan(from[i])) p.from[i] = &from[i];
  }
  return p;
}

static places push_parts(lua_State *L) {
  places at = {.base = lua_gettop(L) + 1};
  for (int i = 0; i < 3; i++) at.parts[i] = bind_new(L, &bind_sessions_type, 0);
  return at;
}

/* Sets the field `name` of the table on top to the integers [n]. */
static void set_counts(lua_State *L, const char *name, const size_t *counts, size_t n) {
  bind_push_counts(L, counts, n);
  lua_setfield(L, -2, name);
}

/* Moves the split to its places (nil for a part without contexts), and pushes users kept, users
 * dropped, {without = {train, valid, test}, from = {valid, test}}. */
static void return_split(lua_State *L, places at, const fopo_split *split) {
  const fopo_sessions *made[3] = {&split->train, &split->valid, &split->test};
  for (int i = 0; i < 3; i++) {
    at.parts[i]->sessions = *made[i];
    if (fopo_sessions_count(made[i]) > 0) continue;
    lua_pushnil(L);
    lua_replace(L, at.base + i);
  }
  lua_pushinteger(L, (lua_Integer)split->kept);
  lua_pushinteger(L, (lua_Integer)split->dropped);
  lua_newtable(L);
  set_counts(L, "without", split->without, 3);
  bind_push_list(L, split->from, 2);
  lua_setfield(L, -2, "from");
}

/* native.data_split(dataset, {min_items, max_users, valid, test, seed, kind = "users" | "time" |
 * "last", by_time, keep_seen, observed, valid_from, test_from}): what return_split says. */
static int data_split(lua_State *L) {
  double from[2];
  fopo_split_options o = options_of(L, 2);
  fopo_split_plan plan = plan_of(L, 2, from);
  places at = push_parts(L);
  fopo_dataset *d = bind_any_dataset(L, 1);
  fopo_split split = {0};
  bind_check(L, fopo_ranks_split(&split, d, &o, &plan));
  bind_pressure(L, fopo_csr_nnz(&d->matrix) * 8);
  return_split(L, at, &split);
  return 6;
}

/* native.data_split_files(train, valid or nil, test or nil, options): the same, and the joined
 * dataset, the counts {users, items} that only valid has, and those that only test has. */
static int data_split_files(lua_State *L) {
  double from[2];
  fopo_split_options o = options_of(L, 4);
  fopo_split_plan plan = plan_of(L, 4, from);
  bind_dataset *all = bind_new(L, &bind_dataset_type, 0);
  int joined_at = lua_gettop(L);
  places at = push_parts(L);
  const fopo_dataset *parts[3];
  for (int p = 0; p < 3; p++) parts[p] = lua_isnil(L, p + 1) ? NULL : bind_get_dataset(L, p + 1);

  fopo_joined joined;
  size_t users[3], items[3];
  fopo_split split = {0};
  int status = fopo_dataset_join(&joined, parts);
  if (status == FOPO_OK) {
    memcpy(users, joined.new_users, sizeof users);
    memcpy(items, joined.new_items, sizeof items);
    plan.kind = FOPO_SPLIT_FILES;
    plan.windows = joined.windows;
    all->dataset = joined.dataset;
    joined.dataset = NULL;
    status = fopo_ranks_split(&split, all->dataset, &o, &plan);
    fopo_joined_done(&joined);
  }
  bind_check(L, status);
  return_split(L, at, &split);
  lua_pushvalue(L, joined_at);
  lua_newtable(L);
  set_counts(L, "users", users, 3);
  set_counts(L, "items", items, 3);
  return 8;
}

/* native.data_date(text): seconds since 1970 UTC, or nil. */
static int data_date(lua_State *L) {
  double seconds;
  const char *text = bind_string(L, 1, "the date");
  if (!fopo_parse_date(&seconds, text, strlen(text))) return bind_return_nil(L);
  return bind_return_number(L, seconds);
}

const luaL_Reg bind_split_functions[] = {{"data_split", data_split},
                                         {"data_split_files", data_split_files},
                                         {"data_date", data_date},
                                         {NULL, NULL}};
