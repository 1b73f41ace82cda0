/* Datasets, synthetic worlds, sessions, embeddings; bind_read.c reads files. */
#include <math.h>
#include <string.h>

#include "bind/families.h"
#include "data/embed.h"
#include "data/world/synthetic.h"

typedef struct {
  bind_object object;
  fopo_world *world;
} bind_world;

static void dataset_done(bind_object *o) { fopo_dataset_free(((bind_dataset *)o)->dataset); }

static void world_done(bind_object *o) { fopo_world_free(((bind_world *)o)->world); }

static void sessions_done(bind_object *o) { fopo_sessions_done(&((bind_sessions *)o)->sessions); }

fopo_dataset *bind_any_dataset(lua_State *L, int index) {
  return ((bind_dataset *)bind_get(L, index, &bind_dataset_type))->dataset;
}

fopo_sessions *bind_any_sessions(lua_State *L, int index) {
  return &((bind_sessions *)bind_get(L, index, &bind_sessions_type))->sessions;
}

fopo_dataset *bind_get_dataset(lua_State *L, int index) {
  fopo_dataset *d = bind_any_dataset(L, index);
  if (d->all_users > 0) {
    bind_refuse(L, "the dataset is shared out to the ranks, and none has all of it; split it with "
                   "d:sessions{}, or read it whole, without shard");
  }
  return d;
}

fopo_sessions *bind_get_sessions(lua_State *L, int index) {
  fopo_sessions *s = bind_any_sessions(L, index);
  if (s->all > 0) {
    bind_refuse(L, "the sessions are shared out to the ranks, and none has all of them; "
                   "s:gather(1000) puts 1,000 of them on every rank, and s:share(pi) is to train "
                   "on");
  }
  return s;
}

/* ---- synthetic worlds ---- */

/* native.data_twins(): the names of the sets that have twins. */
static int data_twins(lua_State *L) {
  lua_newtable(L);
  for (size_t i = 0; fopo_world_twin_name(i) != NULL; i++) {
    lua_pushstring(L, fopo_world_twin_name(i));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* native.data_twin(name, fraction): the options of the twin. */
static int data_twin(lua_State *L) {
  fopo_world_options o;
  double fraction = bind_number(L, 2, "fraction");
  bind_check(L, fopo_world_twin(&o, bind_string(L, 1, "the name"), fraction));
  lua_newtable(L);
  bind_set_count(L, "users", o.users);
  bind_set_count(L, "items", o.items);
  bind_set_count(L, "clusters", o.clusters);
  bind_set_count(L, "tastes", o.tastes);
  bind_set_count(L, "least_items", o.least_items);
  bind_set_number(L, "mean_items", o.mean_items);
  bind_set_number(L, "zipf", o.zipf);
  bind_set_number(L, "noise", o.noise);
  bind_set_number(L, "appeal", o.appeal);
  bind_set_number(L, "spread", o.spread);
  bind_set_boolean(L, "repeats", !o.ones);
  return 1;
}

/* native.data_synthetic{users, items, clusters, tastes, mean_items, zipf, noise, seed, and perhaps
 * appeal, spread, least_items, ones}: a dataset and the world it comes from. */
static int data_synthetic(lua_State *L) {
  fopo_world_options o = {.users = bind_option_count(L, 1, "users", 0, SIZE_MAX),
                          .items = bind_option_count(L, 1, "items", 0, SIZE_MAX),
                          .clusters = bind_option_count(L, 1, "clusters", 0, SIZE_MAX),
                          .tastes = bind_option_count(L, 1, "tastes", 0, SIZE_MAX),
                          .mean_items = bind_option_number(L, 1, "mean_items"),
                          .zipf = bind_option_number(L, 1, "zipf"),
                          .noise = bind_option_number(L, 1, "noise"),
                          .appeal = bind_option_number_or(L, 1, "appeal", 0),
                          .spread = bind_option_number_or(L, 1, "spread", 0),
                          .least_items = bind_option_count_or(L, 1, "least_items", 0, SIZE_MAX, 0),
                          .ones = bind_option_boolean(L, 1, "ones"),
                          .seed = bind_option_seed(L, 1)};
  bind_dataset *d = bind_new(L, &bind_dataset_type, 0);
  bind_world *w = bind_new(L, &bind_world_type, 0);
  bind_check(L, fopo_world_new(&w->world, &d->dataset, &o));
  bind_dataset_made(L, d);
  return 2;
}

/* ---- datasets ---- */

/* d:save(path): an .npz that scipy.sparse.load_npz reads, names included. */
static int dataset_save(lua_State *L) {
  const char *path = bind_path(L, 2);
  bind_check(L, fopo_dataset_save(bind_get_dataset(L, 1), path));
  return 0;
}

int bind_push_name(lua_State *L, const fopo_names *names, size_t i) {
  char buffer[64]; /* enough for a name that is a number; others lie in `text` */
  if (names->text != NULL) return bind_return_string(L, names->text + names->offsets[i]);
  return bind_return_string(L, fopo_names_get(names, i, buffer, sizeof buffer));
}

/* Pushes the 1-based index of the name at stack index 2, a string or an integer; nil if there is
 * none. */
static int push_found(lua_State *L, int items) {
  if (lua_isinteger(L, 2)) {
    lua_settop(L, 2);
    lua_tostring(L, 2);
  }
  const char *name = bind_string(L, 2, "the name");
  fopo_dataset *d = bind_any_dataset(L, 1);
  const fopo_names *names = items ? &d->items : &d->users;
  int64_t at = fopo_names_find(names, name);
  if (at < 0) {
    lua_pushnil(L);
  } else {
    lua_pushinteger(L, (lua_Integer)at + 1);
  }
  return 1;
}

/* d:user_name(i): the id that user i had in the file. */
static int user_name(lua_State *L) {
  fopo_dataset *d = bind_any_dataset(L, 1);
  size_t i = bind_id(L, 2, "user", fopo_dataset_users(d));
  return bind_push_name(L, &d->users, i);
}

/* d:item_name(j): the id that item j had in the file. */
static int item_name(lua_State *L) {
  fopo_dataset *d = bind_any_dataset(L, 1);
  size_t j = bind_id(L, 2, "item", d->matrix.cols);
  return bind_push_name(L, &d->items, j);
}

/* d:find_user(name): its index, or nil. */
static int find_user(lua_State *L) { return push_found(L, 0); }

/* d:find_item(name): its index, or nil. */
static int find_item(lua_State *L) { return push_found(L, 1); }

/* Pushes row i of m as an array of ids. */
static void push_csr_row(lua_State *L, const fopo_csr *m, size_t i) {
  size_t n = fopo_csr_count(m, i);
  bind_array *ids = bind_array_new(L, 1, 1, n);
  memcpy(ids->data, fopo_csr_row(m, i), n * sizeof(uint32_t));
}

/* Pushes a list of n floats. */
static void push_numbers(lua_State *L, const float *x, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushnumber(L, (double)x[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* A time; as an integer if it is one. */
static void push_time(lua_State *L, double t) {
  if (fabs(t) < 9007199254740992.0 && floor(t) == t) {
    lua_pushinteger(L, (lua_Integer)t);
  } else {
    lua_pushnumber(L, t);
  }
}

static void push_times(lua_State *L, const double *t, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    push_time(L, t[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* The row of d that holds user u of all ranks: *at. Of a dataset that is shared out the ranks fetch
 * it together into one that is pushed. */
static const fopo_dataset *row_of(lua_State *L, size_t u, size_t *at) {
  const fopo_dataset *d = bind_any_dataset(L, 1);
  *at = u;
  if (d->all_users == 0) return d;
  bind_dataset *row = bind_new(L, &bind_dataset_type, 0);
  bind_check(L, fopo_dataset_fetch(&row->dataset, bind_any_dataset(L, 1), u));
  *at = 0;
  return row->dataset;
}

/* d:row(u): the items of user u, a table of their values (nil if all are 1), and tables of their
 * first and last times (nil if there are none, or if no pair repeats). */
static int dataset_row(lua_State *L) {
  lua_settop(L, 2);
  bind_push_again(L, 1, &bind_dataset_type);
  size_t u = bind_id(L, 2, "user", fopo_dataset_users(bind_any_dataset(L, 1))), row;
  const fopo_dataset *d = row_of(L, u, &row);
  const fopo_csr *m = &d->matrix;
  size_t n = fopo_csr_count(m, row), at = (size_t)m->indptr[row];
  push_csr_row(L, m, row);
  int results = d->times.last != NULL ? 4 : d->times.first != NULL ? 3 : m->values != NULL ? 2 : 1;
  if (results >= 2 && m->values != NULL) push_numbers(L, m->values + at, n);
  if (results >= 3 && m->values == NULL) lua_pushnil(L);
  if (results >= 3) push_times(L, d->times.first + at, n);
  if (results >= 4) push_times(L, d->times.last + at, n);
  return results;
}

static const fopo_dataset *dataset_of(const bind_object *o) {
  return ((const bind_dataset *)o)->dataset;
}

static int dataset_n_users(lua_State *L, bind_object *o) {
  return bind_return_count(L, fopo_dataset_users(dataset_of(o)));
}

/* Of a dataset that is shared out, the users of this rank; else all. */
static int dataset_here(lua_State *L, bind_object *o) {
  return bind_return_count(L, dataset_of(o)->matrix.rows);
}

static int dataset_shared(lua_State *L, bind_object *o) {
  return bind_return_boolean(L, dataset_of(o)->all_users > 0);
}

static int dataset_n_items(lua_State *L, bind_object *o) {
  return bind_return_count(L, dataset_of(o)->matrix.cols);
}

static int dataset_nnz(lua_State *L, bind_object *o) {
  return bind_return_count(L, fopo_dataset_nnz(dataset_of(o)));
}

static int dataset_rows_read(lua_State *L, bind_object *o) {
  return bind_return_count(L, dataset_of(o)->rows_read);
}

static int dataset_repeats(lua_State *L, bind_object *o) {
  return bind_return_count(L, dataset_of(o)->repeats);
}

static int dataset_skipped(lua_State *L, bind_object *o) {
  return bind_return_count(L, dataset_of(o)->skipped);
}

static int dataset_items_seen(lua_State *L, bind_object *o) {
  return bind_return_count(L, dataset_of(o)->items_seen);
}

static int dataset_users_seen(lua_State *L, bind_object *o) {
  return bind_return_count(L, dataset_of(o)->users_seen);
}

static int dataset_format(lua_State *L, bind_object *o) {
  return bind_return_string(L, dataset_of(o)->format);
}

static int dataset_has_times(lua_State *L, bind_object *o) {
  return bind_return_boolean(L, dataset_of(o)->times.first != NULL);
}

/* Why the dataset has no times, if it seemed to have them; else nil. */
static int dataset_no_times(lua_State *L, bind_object *o) {
  const char *why = dataset_of(o)->no_times;
  return bind_return_string(L, *why != '\0' ? why : NULL);
}

/* Pushes the earliest or the latest time, or nil. */
static int return_period(lua_State *L, bind_object *o, int latest) {
  double period[2];
  if (!fopo_dataset_period(&period[0], &period[1], dataset_of(o))) return bind_return_nil(L);
  push_time(L, period[latest]);
  return 1;
}

static int dataset_first_time(lua_State *L, bind_object *o) { return return_period(L, o, 0); }

static int dataset_last_time(lua_State *L, bind_object *o) { return return_period(L, o, 1); }

static int dataset_has_values(lua_State *L, bind_object *o) {
  return bind_return_boolean(L, dataset_of(o)->matrix.values != NULL);
}

/* ---- worlds ---- */

static fopo_world *get_world(lua_State *L, int index) {
  return ((bind_world *)bind_get(L, index, &bind_world_type))->world;
}

/* world:best(sessions): the expected reward of the best possible policy, and what it achieves on
 * these sessions. */
static int world_best(lua_State *L) {
  double expected, achieved;
  fopo_sessions *s = bind_get_sessions(L, 2);
  bind_check(L, fopo_world_best(&expected, &achieved, get_world(L, 1), s));
  lua_pushnumber(L, expected);
  lua_pushnumber(L, achieved);
  return 2;
}

/* world:cluster(i): the cluster of item i. */
static int world_cluster(lua_State *L) {
  fopo_world *w = get_world(L, 1);
  lua_pushinteger(L, (lua_Integer)w->cluster[bind_id(L, 2, "item", w->items)] + 1);
  return 1;
}

static const fopo_world *world_of(const bind_object *o) { return ((const bind_world *)o)->world; }

static int world_users(lua_State *L, bind_object *o) {
  return bind_return_count(L, world_of(o)->users);
}

static int world_items(lua_State *L, bind_object *o) {
  return bind_return_count(L, world_of(o)->items);
}

static int world_clusters(lua_State *L, bind_object *o) {
  return bind_return_count(L, world_of(o)->clusters);
}

/* ---- sessions ---- */

/* s:contexts(items, {scale = "mean" | "unit"}): [N, L], the mean embedding of the items in each X,
 * as it is or of unit length. */
static int sessions_contexts(lua_State *L) {
  fopo_sessions *s = bind_get_sessions(L, 1);
  bind_array *items = bind_array_items(L, 2, "items");
  int scale = lua_isnoneornil(L, 3) ? 0 : bind_option_choice(L, 3, "scale", fopo_contexts_names);
  bind_array *x = bind_array_new(L, 0, s->X.rows, items->cols);
  s = bind_get_sessions(L, 1);
  items = bind_array_items(L, 2, "items");
  if (items->shard != NULL) {
    bind_check(L, fopo_shard_contexts(bind_matrix(x), s, items->shard, (fopo_contexts_scale)scale));
  } else {
    bind_check(L, fopo_contexts(bind_matrix(x), s, bind_matrix(items), (fopo_contexts_scale)scale));
  }
  return 1;
}

static int push_part(lua_State *L, int observed) {
  bind_push_again(L, 1, &bind_sessions_type);
  fopo_sessions *s = bind_get_sessions(L, 1);
  size_t i = bind_id(L, 2, "context", s->X.rows);
  push_csr_row(L, observed ? &s->X : &s->Y, i);
  return 1;
}

/* s:x(i): the observed items of context i. */
static int sessions_x(lua_State *L) { return push_part(L, 1); }

/* s:y(i): the held-out items, which a policy should find. */
static int sessions_y(lua_State *L) { return push_part(L, 0); }

/* s:user(i): the dataset's row that context i comes from. */
static int sessions_user(lua_State *L) {
  fopo_sessions *s = bind_get_sessions(L, 1);
  uint32_t i = bind_id(L, 2, "context", s->X.rows);
  lua_pushinteger(L, (lua_Integer)s->users[i] + 1);
  return 1;
}

/* s:hits(i, item): whether the item is in Y of context i. */
static int sessions_hits(lua_State *L) {
  fopo_sessions *s = bind_get_sessions(L, 1);
  uint32_t i = bind_id(L, 2, "context", s->Y.rows);
  lua_pushboolean(L, fopo_csr_contains(&s->Y, i, bind_id(L, 3, "item", s->Y.cols)));
  return 1;
}

static int sessions_n(lua_State *L, bind_object *o) {
  return bind_return_count(L, fopo_sessions_count(&((bind_sessions *)o)->sessions));
}

/* Of sessions that are shared out, those of this rank; else all. */
static int sessions_here(lua_State *L, bind_object *o) {
  return bind_return_count(L, ((bind_sessions *)o)->sessions.X.rows);
}

static int sessions_shared(lua_State *L, bind_object *o) {
  return bind_return_boolean(L, ((bind_sessions *)o)->sessions.all > 0);
}

static int sessions_n_items(lua_State *L, bind_object *o) {
  return bind_return_count(L, ((bind_sessions *)o)->sessions.X.cols);
}

/* ---- embeddings ---- */

/* native.embed_svd(sessions, {dim, scale, seed, power_iterations, oversample, shard}): items [P,
 * L], dealt out if `shard`, and a table of the L singular values. */
static int embed_svd(lua_State *L) {
  static const char *const scales[] = {"none", "sqrt", "sigma", NULL};
  fopo_svd_options o = {.dim = bind_option_count(L, 2, "dim", 0, SIZE_MAX),
                        .oversample = bind_option_count(L, 2, "oversample", 0, SIZE_MAX),
                        .power_iterations =
                            bind_option_count(L, 2, "power_iterations", 0, SIZE_MAX),
                        .seed = bind_option_seed(L, 2)};
  fopo_scale scale = (fopo_scale)bind_option_choice(L, 2, "scale", scales);
  int is_dealt = bind_has(L, 2, "shard") && bind_option_boolean(L, 2, "shard");
  fopo_sessions *s = is_dealt ? bind_any_sessions(L, 1) : bind_get_sessions(L, 1);
  size_t N = fopo_sessions_count(s), most = N < s->X.cols ? N : s->X.cols;
  if (o.dim > most) {
    return bind_refuse(L,
                       "dim is %zu but %zu contexts x %zu items have at most %zu "
                       "singular vectors; use dim <= %zu",
                       o.dim, N, s->X.cols, most, most);
  }
  float *singular = bind_scratch(L, o.dim, sizeof *singular);
  if (is_dealt) {
    bind_array *part = bind_array_new_part(L);
    bind_check(L, fopo_shard_svd(part->shard, singular, bind_any_sessions(L, 1), scale, &o));
    bind_array_dealt(L, part);
  } else {
    bind_array *items = bind_array_new(L, 0, s->X.cols, o.dim);
    s = bind_get_sessions(L, 1);
    bind_check(L, fopo_embed_svd(bind_matrix(items), singular, s, scale, &o));
  }
  push_numbers(L, singular, o.dim);
  return 2;
}

const luaL_Reg bind_data_functions[] = {{"data_synthetic", data_synthetic},
                                        {"data_twins", data_twins},
                                        {"data_twin", data_twin},
                                        {"embed_svd", embed_svd},
                                        {NULL, NULL}};

static const luaL_Reg dataset_methods[] = {{"save", dataset_save},
                                           {"user_name", user_name},
                                           {"item_name", item_name},
                                           {"find_user", find_user},
                                           {"find_item", find_item},
                                           {"row", dataset_row},
                                           {NULL, NULL}};

static const luaL_Reg world_methods[] = {
    {"best", world_best}, {"cluster", world_cluster}, {NULL, NULL}};

static const luaL_Reg sessions_methods[] = {
    {"contexts", sessions_contexts}, {"x", sessions_x},       {"y", sessions_y},
    {"user", sessions_user},         {"hits", sessions_hits}, {NULL, NULL}};

static const bind_field dataset_fields[] = {{"n_users", dataset_n_users, NULL},
                                            {"here", dataset_here, NULL},
                                            {"shared", dataset_shared, NULL},
                                            {"n_items", dataset_n_items, NULL},
                                            {"nnz", dataset_nnz, NULL},
                                            {"rows_read", dataset_rows_read, NULL},
                                            {"repeats", dataset_repeats, NULL},
                                            {"skipped", dataset_skipped, NULL},
                                            {"items_seen", dataset_items_seen, NULL},
                                            {"users_seen", dataset_users_seen, NULL},
                                            {"format", dataset_format, NULL},
                                            {"has_values", dataset_has_values, NULL},
                                            {"has_times", dataset_has_times, NULL},
                                            {"first_time", dataset_first_time, NULL},
                                            {"last_time", dataset_last_time, NULL},
                                            {"no_times", dataset_no_times, NULL},
                                            {NULL, NULL, NULL}};

const bind_type bind_dataset_type = {.name = "fopo.dataset",
                                     .size = sizeof(bind_dataset),
                                     .done = dataset_done,
                                     .methods = dataset_methods,
                                     .fields = dataset_fields};

static const bind_field world_fields[] = {{"users", world_users, NULL},
                                          {"items", world_items, NULL},
                                          {"clusters", world_clusters, NULL},
                                          {NULL, NULL, NULL}};

const bind_type bind_world_type = {.name = "fopo.world",
                                   .size = sizeof(bind_world),
                                   .done = world_done,
                                   .methods = world_methods,
                                   .fields = world_fields};

static const bind_field sessions_fields[] = {{"n", sessions_n, NULL},
                                             {"here", sessions_here, NULL},
                                             {"shared", sessions_shared, NULL},
                                             {"n_items", sessions_n_items, NULL},
                                             {NULL, NULL, NULL}};

const bind_type bind_sessions_type = {.name = "fopo.sessions",
                                      .size = sizeof(bind_sessions),
                                      .done = sessions_done,
                                      .methods = sessions_methods,
                                      .fields = sessions_fields};
