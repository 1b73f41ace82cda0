/* Serving: the histories of users, their best items, and names. */
#include "bind/families.h"
#include "core/memory.h"
#include "core/sort.h"
#include "data/histories.h"
#include "data/names.h"
#include "data/read/stream.h"
#include "policy/recommend.h"

/* ---- histories ---- */

/* Pushes the buffer [d->items.n] of the place of each of d's items among `names`; NULL, and pushes
 * nil, if they are the same. */
static uint32_t *push_place(lua_State *L, const fopo_dataset *d, const fopo_dataset *names) {
  if (names == d || fopo_names_equal(&d->items, &names->items)) {
    lua_pushnil(L);
    return NULL;
  }
  uint32_t *place = bind_scratch(L, d->matrix.cols, sizeof *place);
  bind_check(L, fopo_names_place(place, &d->items, &names->items));
  return place;
}

/* native.histories(dataset, rows, P[, names]): the rows of the dataset as sessions over P items,
 * whose names are the items of `names`, a dataset; and how many interactions with other items were
 * left out. Without `names` the columns are the items. */
static int histories(lua_State *L) {
  size_t n, unknown, P = bind_count(L, 3, "P", 1, UINT32_MAX - 1);
  lua_settop(L, 4);
  bind_push_again(L, 1, &bind_dataset_type);
  uint32_t *rows = bind_rows(L, 2, bind_get_dataset(L, 1)->matrix.rows, 0, &n);
  bind_sessions *s = bind_new(L, &bind_sessions_type, 0);
  fopo_dataset *d = bind_get_dataset(L, 5);
  uint32_t *place = lua_isnil(L, 4) ? NULL : push_place(L, d, bind_any_dataset(L, 4));
  bind_check(L, fopo_histories_of(&s->sessions, &unknown, &d->matrix, rows, n, place, P));
  bind_pressure(L, fopo_csr_nnz(&s->sessions.X) * sizeof(uint32_t));
  bind_push_again(L, 7, &bind_sessions_type);
  lua_pushinteger(L, (lua_Integer)unknown);
  return 2;
}

/* The number of ids in the lists of the table at `at`. */
static size_t count_ids(lua_State *L, int at, size_t users) {
  size_t n = 0;
  for (size_t i = 0; i < users; i++) {
    lua_rawgeti(L, at, (lua_Integer)i + 1);
    bind_table(L, lua_gettop(L), "a history");
    n += lua_rawlen(L, -1);
    lua_pop(L, 1);
  }
  return n;
}

/* native.histories_from({{ids}, {ids}, ...}, P): the lists as sessions over P items. */
static int histories_from(lua_State *L) {
  bind_table(L, 1, "the histories");
  size_t users = lua_rawlen(L, 1), P = bind_count(L, 2, "P", 1, UINT32_MAX - 1), n = 0;
  lua_settop(L, 2);
  size_t most = count_ids(L, 1, users);
  uint32_t *user = bind_scratch(L, most, sizeof *user);
  uint32_t *item = bind_scratch(L, most, sizeof *item);
  for (size_t i = 0; i < users; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    size_t count = lua_rawlen(L, -1);
    for (size_t k = 0; k < count && n < most; k++, n++) {
      lua_rawgeti(L, -1, (lua_Integer)k + 1);
      user[n] = (uint32_t)i;
      item[n] = bind_id(L, -1, "item", P);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  bind_sessions *s = bind_new(L, &bind_sessions_type, 0);
  bind_check(L, fopo_histories_from(&s->sessions, user, item, n, users, P));
  return 1;
}

/* ---- recommendations ---- */

/* The ids at `index`, sorted, without repeats; nil: none. Pushes the buffer. */
static uint32_t *sorted_ids(lua_State *L, int index, size_t P, size_t *n) {
  *n = 0;
  if (lua_isnoneornil(L, index)) {
    lua_pushnil(L);
    return NULL;
  }
  size_t kept = 0;
  uint32_t *ids = bind_rows(L, index, P, 0, n);
  fopo_sort_u32(ids, *n);
  for (size_t i = 0; i < *n; i++) {
    if (i == 0 || ids[i] != ids[i - 1]) ids[kept++] = ids[i];
  }
  *n = kept;
  return ids;
}

/* The numbers of training contexts in the list at `index`, one for each of n; NULL: nil is there.
 */
static const uint32_t *read_training(lua_State *L, int index, size_t n) {
  if (lua_isnoneornil(L, index)) return NULL;
  bind_table(L, index, "the training contexts");
  if (lua_rawlen(L, index) != n) {
    bind_refuse(L, "%zu training contexts are named for %zu sessions; name one for each",
                (size_t)lua_rawlen(L, index), n);
  }
  uint32_t *training = bind_scratch(L, n, sizeof *training);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, index, (lua_Integer)i + 1);
    training[i] = (uint32_t)bind_count(L, -1, "a training context", 1, UINT32_MAX) - 1;
    lua_pop(L, 1);
  }
  return training;
}

/* native.recommend(pi, x, index, k, {seen, never, normalised, may_be_short, training}): ids and
 * scores [N, k], the best items without those in X of the sessions `seen` and the ids `never`, and
 * a table of log Z of each context if `normalised`. A policy that masks X needs `seen`, and leaves
 * it out of Z too. training: a list [N] of which of a policy's training contexts each context is;
 * nil: none is one. */
static int recommend(lua_State *L) {
  lua_settop(L, 5);
  bind_table(L, 5, "the options");
  int seen_at = bind_option(L, 5, "seen"), never_at = bind_option(L, 5, "never");
  int training_at = bind_option(L, 5, "training");
  int normalised = bind_option_boolean(L, 5, "normalised");
  size_t rows = bind_array_numbers(L, 2, "x")->rows;
  size_t P = fopo_policy_n_items(&((bind_policy *)bind_get(L, 1, &bind_policy_type))->policy);
  size_t k = bind_index_k(L, 4, bind_get(L, 3, &bind_index_type)), n_never;
  uint32_t *never = sorted_ids(L, never_at, P, &n_never);
  const uint32_t *training = read_training(L, training_at, rows);
  uint32_t *counts = bind_scratch(L, rows, sizeof *counts);
  double *log_z = bind_scratch(L, rows, sizeof *log_z);
  bind_array *ids = bind_array_new(L, 1, rows, k);
  bind_array *scores = bind_array_new(L, 0, rows, k);
  fopo_recommend_plan plan = {.policy = &((bind_policy *)bind_get(L, 1, &bind_policy_type))->policy,
                              .index = ((bind_index *)bind_get(L, 3, &bind_index_type))->index,
                              .x = bind_matrix(bind_array_numbers(L, 2, "x")),
                              .never = never,
                              .training = training,
                              .may_be_short = bind_option_boolean(L, 5, "may_be_short"),
                              .n_never = n_never};
  fopo_sparse_scores seen;
  fopo_contexts contexts = fopo_contexts_of(plan.x);
  if (!lua_isnil(L, seen_at)) contexts.X = bind_get_sessions(L, seen_at)->X;
  bind_check(L, fopo_policy_check_lists(plan.policy, &contexts));
  if (!lua_isnil(L, seen_at)) {
    bind_check(L, fopo_mask_check(&contexts.X, rows, P));
    seen = fopo_mask_of(&contexts.X);
    plan.mask = &seen;
    plan.masked = plan.policy->masks_seen;
  }
  bind_check(L,
             fopo_recommend(ids->data, scores->data, counts, normalised ? log_z : NULL, &plan, k));
  if (!normalised) return 2;
  bind_push_list(L, log_z, rows);
  return 3;
}

/* ---- users of a file ---- */

typedef struct {
  bind_object object; /* keeps: the dataset with the names of the items */
  fopo_stream *stream;
} bind_stream;

static void stream_done(bind_object *o) { fopo_stream_close(((bind_stream *)o)->stream); }

const bind_type bind_stream_type = {
    .name = "fopo.stream", .size = sizeof(bind_stream), .done = stream_done};

static fopo_stream *get_stream(lua_State *L, int index) {
  return ((bind_stream *)bind_get(L, index, &bind_stream_type))->stream;
}

/* native.stream_open(path, options as of native.data_read, P[, names]): the users of a file, for a
 * catalogue of P items with the names of the items of the dataset `names`; nil if the format of the
 * file is no table. */
static int stream_open(lua_State *L) {
  lua_settop(L, 4);
  const char *path = bind_path(L, 1);
  size_t P = bind_count(L, 3, "P", 1, UINT32_MAX - 1);
  fopo_read_options o = bind_read_options(L, 2);
  bind_stream *s = bind_new(L, &bind_stream_type, 0);
  const fopo_names *names = NULL;
  if (!lua_isnil(L, 4)) {
    bind_dataset *d = bind_get(L, 4, &bind_dataset_type);
    bind_keep(&s->object, 0, &d->object);
    names = &d->dataset->items;
    P = d->dataset->matrix.cols;
  }
  bind_check(L, fopo_stream_open(&s->stream, path, &o, names, P));
  return s->stream != NULL ? 1 : bind_return_nil(L);
}

/* native.stream_next(stream, most): sessions of the next users and a list of their names; nil at
 * the end. If the rows of a user do not stand together: nil and a sentence. */
static int stream_next(lua_State *L) {
  size_t most = bind_count(L, 2, "most", 1, UINT32_MAX - 1);
  bind_sessions *s = bind_new(L, &bind_sessions_type, 0);
  bind_dataset *d = bind_new(L, &bind_dataset_type, 0);
  d->dataset = fopo_alloc(1, sizeof *d->dataset);
  if (d->dataset == NULL) bind_check(L, FOPO_ERR_MEMORY);
  fopo_stream *stream = get_stream(L, 1);
  int status = fopo_stream_next(&s->sessions, &d->dataset->users, stream, most);
  if (status == FOPO_ERR_FORMAT && !fopo_stream_about(stream).is_grouped) {
    return bind_return_outcome(L, status);
  }
  bind_check(L, status);
  const fopo_names *users = &d->dataset->users;
  if (users->n == 0) return bind_return_nil(L);
  bind_push_again(L, lua_gettop(L) - 1, &bind_sessions_type);
  lua_createtable(L, (int)users->n, 0);
  for (size_t i = 0; i < users->n; i++) {
    bind_push_name(L, users, i);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 2;
}

/* native.stream_about(stream): {users, rows, unknown, skipped, taken, size, example}. */
static int stream_about(lua_State *L) {
  fopo_stream_facts f = fopo_stream_about(get_stream(L, 1));
  lua_createtable(L, 0, 7);
  bind_set_count(L, "users", f.users);
  bind_set_count(L, "rows", f.rows);
  bind_set_count(L, "unknown", f.unknown);
  bind_set_count(L, "skipped", f.skipped);
  bind_set_count(L, "taken", f.taken);
  bind_set_count(L, "size", f.size);
  bind_set_string(L, "example", f.example);
  return 1;
}

/* ---- names ---- */

/* native.names_near(dataset, name, items, most): a list of the items, or users, whose names are
 * most like it. */
static int names_near(lua_State *L) {
  uint32_t near[8];
  size_t n, most = bind_count(L, 4, "most", 1, sizeof near / sizeof *near);
  const char *name = bind_string(L, 2, "the name");
  int items = bind_boolean(L, 3, "items");
  fopo_dataset *d = bind_any_dataset(L, 1);
  bind_check(L, fopo_names_near(near, &n, most, items ? &d->items : &d->users, name));
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    bind_push_id(L, near[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

const luaL_Reg bind_serve_functions[] = {
    {"histories", histories},     {"histories_from", histories_from},
    {"recommend", recommend},     {"stream_open", stream_open},
    {"stream_next", stream_next}, {"stream_about", stream_about},
    {"names_near", names_near},   {NULL, NULL}};
