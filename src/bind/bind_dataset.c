/* Datasets: reading them from files; their names, rows and counts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bind/families.h"
#include "comm/comm.h"
#include "core/memory.h"
#include "data/paths.h"
#include "data/spill.h"
#include "ranks/names.h"
#include "ranks/read.h"

static void dataset_done(bind_object *o) { fopo_dataset_free(((bind_dataset *)o)->dataset); }

fopo_dataset *bind_any_dataset(lua_State *L, int index) {
  return ((bind_dataset *)bind_get(L, index, &bind_dataset_type))->dataset;
}

fopo_dataset *bind_get_dataset(lua_State *L, int index) {
  fopo_dataset *d = bind_any_dataset(L, index);
  if (d->all_users > 0) {
    bind_refuse(L, "the dataset is shared out to the ranks, and none has all of it; split it with "
                   "d:sessions{}, or read it whole, without shard");
  }
  return d;
}

/* ---- reading ---- */

void bind_dataset_made(lua_State *L, const bind_dataset *d) {
  const fopo_csr *m = &d->dataset->matrix;
  if (m->indptr != NULL) bind_pressure(L, m->rows * sizeof *m->indptr + fopo_csr_nnz(m) * 8);
}

/* The character that the reader takes for "," "tab" "::" ...; 0: the reader finds out. */
static char separator_of(lua_State *L, int index) {
  const char *s = bind_option_string(L, index, "separator");
  if (s == NULL || *s == '\0') return 0;
  if (strcmp(s, "::") == 0) return 'D';
  if (strcmp(s, "tab") == 0) return '\t';
  if (strcmp(s, "space") == 0) return ' ';
  if (s[1] != '\0' || *s == 'D') {
    bind_refuse(L, "separator is \"%.20s\"; use one character, \"::\", \"tab\" or \"space\"", s);
  }
  return *s;
}

static int header_of(lua_State *L, int index) {
  static const char *const choices[] = {"yes", "no", NULL};
  int at = bind_option(L, index, "header");
  if (lua_isnil(L, at)) return 0;
  return bind_choice(L, at, "header", choices) == 0 ? 1 : -1;
}

fopo_read_options bind_read_options(lua_State *L, int index) {
  fopo_read_options o = {.format = bind_option_string(L, index, "format"),
                         .user = bind_option_string(L, index, "user"),
                         .item = bind_option_string(L, index, "item"),
                         .value = bind_option_string(L, index, "value"),
                         .time = bind_option_string(L, index, "time"),
                         .where = bind_option_string(L, index, "where"),
                         .separator = separator_of(L, index),
                         .header = header_of(L, index)};
  o.skip_errors = bind_option_boolean(L, index, "skip_errors");
  o.max_errors = bind_option_count_or(L, index, "max_errors", 0, SIZE_MAX, 0);
  return o;
}

/* native.data_read(path or {path ...}, {format, user, item, value, time, where, separator, header =
 * "yes" | "no", skip_errors, max_errors, parts, shard}): a dataset, shared out to the ranks if
 * `shard`, sorted on disk if there are parts. */
static int data_read(lua_State *L) {
  size_t n;
  const char **paths = bind_paths(L, 1, &n);
  fopo_read_options o = bind_read_options(L, 2);
  bind_dataset *d = bind_new(L, &bind_dataset_type, 0);
  o.parts = bind_option_count_or(L, 2, "parts", 1, FOPO_SPILL_PARTS, 0);
  int part = bind_has(L, 2, "shard") && bind_option_boolean(L, 2, "shard");
  bind_check(L, part ? fopo_ranks_read(&d->dataset, paths, n, &o)
                     : fopo_dataset_read_all(&d->dataset, paths, n, &o));
  bind_dataset_made(L, d);
  return 1;
}

/* native.data_paths(path): the list of the files that the path stands for (data/paths.h). */
static int data_paths(lua_State *L) {
  bind_text *found = bind_text_new(L);
  size_t n;
  bind_check(L, fopo_paths_find(&found->text, &n, bind_path(L, 1)));
  lua_createtable(L, (int)n, 0);
  const char *at = found->text;
  for (size_t i = 0; i < n; i++, at += strlen(at) + 1) {
    lua_pushstring(L, at);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* native.data_formats(): {name, what, name, what, ...}, the table of readers in its order. */
static int data_formats(lua_State *L) {
  const fopo_reader *reader;
  lua_Integer n = 0;
  lua_newtable(L);
  for (size_t i = 0; (reader = fopo_reader_at(i)) != NULL; i++) {
    lua_pushstring(L, reader->name);
    lua_rawseti(L, -2, ++n);
    lua_pushstring(L, reader->what);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* native.share_dataset(dataset): this rank's range of the users of a dataset that is whole. */
static int share_dataset(lua_State *L) {
  bind_any_dataset(L, 1);
  bind_dataset *share = bind_new(L, &bind_dataset_type, 0);
  int status = fopo_dataset_share(&share->dataset, bind_any_dataset(L, 1));
  bind_check(L, fopo_comm_agree(status));
  bind_pressure(L, fopo_csr_nnz(&share->dataset->matrix) * 8);
  return 1;
}

/* native.item_values(d, file, missing): the values of d's items in the dataset `file`, whose items
 * have one each, as an array [1, P], missing for those that it lacks; how many these are; and the
 * first of them. */
static int item_values(lua_State *L) {
  bind_any_dataset(L, 1);
  bind_any_dataset(L, 2);
  float missing = (float)bind_number(L, 3, "missing");
  size_t P = bind_any_dataset(L, 1)->matrix.cols, n = bind_any_dataset(L, 2)->matrix.cols;
  uint32_t *place = bind_scratch(L, P, sizeof *place);
  float *of_file = bind_scratch(L, n, sizeof *of_file);
  float *value = bind_array_new(L, 0, 1, P)->data;
  const fopo_dataset *d = bind_any_dataset(L, 1), *file = bind_any_dataset(L, 2);
  const fopo_csr *m = &file->matrix;
  size_t lacking = 0, first = 0;
  for (size_t i = 0; i < fopo_csr_nnz(m); i++) {
    of_file[m->ids[i]] = m->values != NULL ? m->values[i] : 1.0f;
  }
  bind_check(L, fopo_names_place(place, &d->items, &file->items));
  for (size_t a = 0; a < P; a++) {
    int known = place[a] != FOPO_NO_NAME;
    value[a] = known ? of_file[place[a]] : missing;
    if (!known && lacking++ == 0) first = a;
  }
  lua_pushinteger(L, (lua_Integer)lacking);
  lua_pushinteger(L, (lua_Integer)first + 1);
  return 3;
}

/* native.dataset_crc(d): the CRC-32 of its entries. */
static int dataset_crc(lua_State *L) {
  return bind_return_count(L, fopo_dataset_crc(bind_get_dataset(L, 1)));
}

fopo_dataset *bind_names_new(lua_State *L, size_t P) {
  bind_dataset *d = bind_new(L, &bind_dataset_type, 0);
  d->dataset = fopo_alloc(1, sizeof *d->dataset);
  if (d->dataset == NULL) bind_check(L, FOPO_ERR_MEMORY);
  bind_check(L, fopo_csr_init(&d->dataset->matrix, 0, P, 0, 0));
  snprintf(d->dataset->format, sizeof d->dataset->format, "names");
  return d->dataset;
}

/* The names of one side that are here, and of how many. */
static const fopo_names *names_of(const fopo_dataset *d, int items, size_t *n) {
  *n = items ? d->matrix.cols : fopo_dataset_users(d);
  return items ? &d->items : &d->users;
}

/* native.whole_names(d, "item" or "user"[, "first"]): d, or, if its names are shared out to the
 * ranks, a dataset of no interactions with all names of that side: on every rank, or on the first
 * alone. */
static int whole_names(lua_State *L) {
  static const char *const sides[] = {"user", "item", NULL};
  lua_settop(L, 3);
  int items = bind_choice(L, 2, "the side", sides), everywhere = lua_isnil(L, 3);
  lua_settop(L, 1);
  const fopo_dataset *d = bind_any_dataset(L, 1);
  if (d->all_users == 0) return 1;
  size_t n;
  const fopo_names *names = names_of(d, items, &n);
  fopo_dataset *to = bind_names_new(L, items ? n : 0);
  bind_check(L, fopo_ranks_gather_names(items ? &to->items : &to->users, names, n, everywhere));
  return 1;
}

/* native.malformed_rows(d): what is wrong with the first malformed rows, a list of sentences. */
static int malformed_rows(lua_State *L) {
  const fopo_dataset *d = bind_any_dataset(L, 1);
  lua_newtable(L);
  for (int i = 0; i < FOPO_EXAMPLES && d->examples[i][0] != '\0'; i++) {
    lua_pushstring(L, d->examples[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

const luaL_Reg bind_dataset_functions[] = {{"data_read", data_read},
                                           {"data_paths", data_paths},
                                           {"data_formats", data_formats},
                                           {"share_dataset", share_dataset},
                                           {"item_values", item_values},
                                           {"malformed_rows", malformed_rows},
                                           {"dataset_crc", dataset_crc},
                                           {"whole_names", whole_names},
                                           {NULL, NULL}};

/* ---- what a dataset holds ---- */

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
  const fopo_dataset *d = bind_any_dataset(L, 1);
  size_t n;
  const fopo_names *names = names_of(d, items, &n);
  int64_t at = -1;
  if (d->all_users == 0) {
    at = fopo_names_find(names, name);
  } else {
    bind_check(L, fopo_ranks_find_name(&at, names, n, name));
  }
  if (at < 0) {
    lua_pushnil(L);
  } else {
    lua_pushinteger(L, (lua_Integer)at + 1);
  }
  return 1;
}

static int push_name(lua_State *L, int items) {
  const fopo_dataset *d = bind_any_dataset(L, 1);
  size_t n;
  const fopo_names *names = names_of(d, items, &n);
  size_t i = bind_id(L, 2, items ? "item" : "user", n);
  if (d->all_users == 0) return bind_push_name(L, names, i);
  bind_text *name = bind_text_new(L);
  bind_check(L, fopo_ranks_name(&name->text, names, n, i));
  return bind_text_push(L, name);
}

/* d:user_name(i): the id that user i had in the file. */
static int user_name(lua_State *L) { return push_name(L, 0); }

/* d:item_name(j): the id that item j had in the file. */
static int item_name(lua_State *L) { return push_name(L, 1); }

/* d:find_user(name): its index, or nil. */
static int find_user(lua_State *L) { return push_found(L, 0); }

/* d:find_item(name): its index, or nil. */
static int find_item(lua_State *L) { return push_found(L, 1); }

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
  bind_push_ids(L, m, row);
  int results = d->times.last != NULL ? 4 : d->times.first != NULL ? 3 : m->values != NULL ? 2 : 1;
  if (results >= 2 && m->values != NULL) bind_push_floats(L, m->values + at, n);
  if (results >= 3 && m->values == NULL) lua_pushnil(L);
  if (results >= 3) push_times(L, d->times.first + at, n);
  if (results >= 4) push_times(L, d->times.last + at, n);
  return results;
}

static const fopo_dataset *dataset_of(const bind_object *o) {
  return ((const bind_dataset *)o)->dataset;
}

BIND_FIELD(dataset_n_users, count, fopo_dataset_users(dataset_of(o)))

/* Of a dataset that is shared out, the users of this rank; else all. */
BIND_FIELD(dataset_here, count, dataset_of(o)->matrix.rows)
BIND_FIELD(dataset_shared, boolean, dataset_of(o)->all_users > 0)
BIND_FIELD(dataset_n_items, count, dataset_of(o)->matrix.cols)
BIND_FIELD(dataset_nnz, count, fopo_dataset_nnz(dataset_of(o)))
BIND_FIELD(dataset_rows_read, count, dataset_of(o)->rows_read)
BIND_FIELD(dataset_repeats, count, dataset_of(o)->repeats)
BIND_FIELD(dataset_skipped, count, dataset_of(o)->skipped)
BIND_FIELD(dataset_malformed, count, dataset_of(o)->malformed)
BIND_FIELD(dataset_items_seen, count, dataset_of(o)->items_seen)
BIND_FIELD(dataset_users_seen, count, dataset_of(o)->users_seen)
BIND_FIELD(dataset_format, string, dataset_of(o)->format)
BIND_FIELD(dataset_has_times, boolean, dataset_of(o)->times.first != NULL)

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

BIND_FIELD(dataset_has_values, boolean, dataset_of(o)->matrix.values != NULL)

static const luaL_Reg dataset_methods[] = {{"save", dataset_save},
                                           {"user_name", user_name},
                                           {"item_name", item_name},
                                           {"find_user", find_user},
                                           {"find_item", find_item},
                                           {"row", dataset_row},
                                           {NULL, NULL}};

static const bind_field dataset_fields[] = {{"n_users", dataset_n_users, NULL},
                                            {"here", dataset_here, NULL},
                                            {"shared", dataset_shared, NULL},
                                            {"n_items", dataset_n_items, NULL},
                                            {"nnz", dataset_nnz, NULL},
                                            {"rows_read", dataset_rows_read, NULL},
                                            {"repeats", dataset_repeats, NULL},
                                            {"skipped", dataset_skipped, NULL},
                                            {"malformed", dataset_malformed, NULL},
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
