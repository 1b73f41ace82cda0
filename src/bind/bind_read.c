/* Reading datasets from files. */
#include "bind/families.h"
#include "ranks/read.h"

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
 * "yes" | "no", skip_errors, max_errors, shard}): a dataset, shared out to the ranks if `shard`. */
static int data_read(lua_State *L) {
  size_t n;
  const char **paths = bind_paths(L, 1, &n);
  fopo_read_options o = bind_read_options(L, 2);
  bind_dataset *d = bind_new(L, &bind_dataset_type, 0);
  int part = bind_has(L, 2, "shard") && bind_option_boolean(L, 2, "shard");
  bind_check(L, part ? fopo_ranks_read(&d->dataset, paths, n, &o)
                     : fopo_dataset_read_all(&d->dataset, paths, n, &o));
  bind_dataset_made(L, d);
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

const luaL_Reg bind_read_functions[] = {
    {"data_read", data_read}, {"data_formats", data_formats}, {NULL, NULL}};
