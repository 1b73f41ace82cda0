/* Options that are rows of a table (core/option.h): reads them from Lua, pushes them as fields,
 * and describes them for the declarations in Lua. */
#include <math.h>
#include <string.h>

#include "bind/families.h"

static const char *const only_auto[] = {"auto", NULL};

static int is_count(const fopo_option *row) {
  return row->type == FOPO_OPTION_COUNT || row->type == FOPO_OPTION_HEAD;
}

static int is_number(const fopo_option *row) {
  return is_count(row) || row->type == FOPO_OPTION_NUMBER;
}

static int is_word(const fopo_option *row) {
  return row->type == FOPO_OPTION_CHOICE || row->type == FOPO_OPTION_START;
}

const fopo_option *bind_row(const fopo_option *rows, const char *name) {
  for (const fopo_option *row = rows; row != NULL && row->name != NULL; row++) {
    if (strcmp(row->name, name) == 0) return row;
  }
  return NULL;
}

/* The list of counts at stack index `at`; 0: the default. */
static fopo_counts read_counts(lua_State *L, int at, const fopo_option *row) {
  fopo_counts c = {1, {(size_t)row->standard}};
  if (at == 0) return c;
  bind_table(L, at, row->name);
  c.n = lua_rawlen(L, at);
  if (c.n > FOPO_COUNTS) {
    bind_refuse(L, "%s has %zu entries; give %d at most", row->name, c.n, FOPO_COUNTS);
  }
  for (size_t i = 0; i < c.n; i++) {
    lua_rawgeti(L, at, (lua_Integer)i + 1);
    c.at[i] = bind_count(L, lua_gettop(L), row->name, 0, SIZE_MAX);
    lua_pop(L, 1);
  }
  return c;
}

static int may_be_auto(const fopo_option *row) { return (row->flags & FOPO_OPTION_AUTO) != 0; }

/* A number, or 0 for "auto". */
static double read_number(lua_State *L, int at, const fopo_option *row) {
  int is_word = may_be_auto(row) && lua_type(L, at) == LUA_TSTRING;
  if (!is_word) return bind_number(L, at, row->name);
  bind_choice(L, at, row->name, only_auto);
  return 0.0;
}

void bind_read_row(lua_State *L, int index, const fopo_option *row, void *options) {
  char *member = (char *)options + row->member;
  if (!is_number(row) && !is_word(row) && row->type != FOPO_OPTION_COUNTS) return;
  int given = index > 0 && bind_has(L, index, row->name);
  int at = given ? bind_option(L, index, row->name) : 0;
  if (is_count(row)) {
    size_t most = row->most > 0.0 ? (size_t)row->most : UINT32_MAX - 1;
    *(size_t *)(void *)member =
        given ? bind_count(L, at, row->name, (size_t)row->least, most) : (size_t)row->standard;
  } else if (row->type == FOPO_OPTION_NUMBER) {
    *(double *)(void *)member = given ? read_number(L, at, row) : row->standard;
  } else if (row->type == FOPO_OPTION_COUNTS) {
    *(fopo_counts *)(void *)member = read_counts(L, at, row);
  } else if (given && row->type == FOPO_OPTION_START && bind_is(L, at, &bind_array_type)) {
    *(int *)(void *)member = (int)row->standard; /* the caller takes the array */
  } else {
    *(int *)(void *)member =
        given ? bind_choice(L, at, row->name, row->choices) : (int)row->standard;
  }
  if (given) lua_pop(L, 1);
}

int bind_push_row(lua_State *L, const fopo_option *row, const void *options) {
  const char *member = (const char *)options + row->member;
  switch (row->type) {
  case FOPO_OPTION_HEAD:
    if (*(const size_t *)(const void *)member == 0) return bind_return_nil(L);
  /* fall through */
  case FOPO_OPTION_COUNT: return bind_return_count(L, *(const size_t *)(const void *)member);
  case FOPO_OPTION_NUMBER: lua_pushnumber(L, *(const double *)(const void *)member); return 1;
  case FOPO_OPTION_CHOICE:
    return bind_return_string(L, row->choices[*(const int *)(const void *)member]);
  case FOPO_OPTION_COUNTS: {
    const fopo_counts *c = (const void *)member;
    bind_push_counts(L, c->at, c->n);
    return 1;
  }
  default: return 0;
  }
}

/* t[name] = value, as an integer if it is whole: help then shows 0, not 0.0. */
static void set_limit(lua_State *L, const char *name, double value) {
  lua_Integer whole;
  lua_pushnumber(L, value);
  if (lua_numbertointeger(value, &whole) && value >= (double)whole && value <= (double)whole) {
    lua_pop(L, 1);
    lua_pushinteger(L, whole);
  }
  lua_setfield(L, -2, name);
}

static void set_choices(lua_State *L, const char *const *choices) {
  lua_newtable(L);
  for (int i = 0; choices[i] != NULL; i++) {
    lua_pushstring(L, choices[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "one_of");
}

/* {name =, type =, default =, text =, min =, above =, max =, below =, one_of =, symbol =,
 * candidates =, settable =, head =, saved =, fault =, required =, low =, high =} */
static void push_row(lua_State *L, const fopo_option *row) {
  static const char *const types[] = {"integer",      "number",   "string",   "table",
                                      "string|array", "proposal", "index",    "integer|string",
                                      "integer",      "string",   "function", "table"};
  lua_createtable(L, 0, 14);
  bind_set_string(L, "name", row->name);
  bind_set_string(L, "type", may_be_auto(row) ? "number|string" : types[row->type]);
  bind_set_string(L, "text", row->text);
  if (row->symbol != NULL) bind_set_string(L, "symbol", row->symbol);
  if (row->flags & FOPO_OPTION_OF_CANDIDATES) bind_set_boolean(L, "candidates", 1);
  if (row->high > 0.0) {
    set_limit(L, "low", row->low);
    set_limit(L, "high", row->high);
  }
  if (row->flags & FOPO_OPTION_SETTABLE) bind_set_boolean(L, "settable", 1);
  if (row->type == FOPO_OPTION_HEAD) bind_set_boolean(L, "head", 1);
  if (row->flags & FOPO_OPTION_SAVED) bind_set_boolean(L, "saved", 1);
  if (row->type == FOPO_OPTION_FAULT) bind_set_boolean(L, "fault", 1);
  if (row->type >= FOPO_OPTION_FUNCTION) bind_set_boolean(L, "required", 1);
  if (row->choices != NULL) set_choices(L, row->choices);
  if (may_be_auto(row)) set_choices(L, only_auto);
  if (row->choices != NULL && row->type != FOPO_OPTION_HEAD && row->type != FOPO_OPTION_START) {
    bind_set_string(L, "default", row->choices[(int)row->standard]);
  }
  if (row->type == FOPO_OPTION_COUNTS) {
    bind_push_counts(L, (size_t[]){(size_t)row->standard}, 1);
    lua_setfield(L, -2, "default");
  }
  if (is_number(row)) {
    if (may_be_auto(row) && row->standard <= 0.0) {
      bind_set_string(L, "default", only_auto[0]);
    } else if (row->type != FOPO_OPTION_HEAD) {
      set_limit(L, "default", row->standard);
    }
    const char *limit = row->flags & FOPO_OPTION_ABOVE ? "above" : "min";
    if (isfinite(row->least)) set_limit(L, limit, row->least);
    if (row->most > 0.0) {
      set_limit(L, row->flags & FOPO_OPTION_BELOW ? "below" : "max", row->most);
    }
  }
}

static void push_rows(lua_State *L, const fopo_option *rows) {
  lua_newtable(L);
  for (int i = 0; rows != NULL && rows[i].name != NULL; i++) {
    push_row(L, &rows[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

void bind_push_entry(lua_State *L, const char *name, const char *title, const char *text,
                     const char *example, const fopo_option *rows) {
  luaL_checkstack(L, 8, NULL);
  lua_createtable(L, 0, 8);
  bind_set_string(L, "name", name);
  bind_set_string(L, "title", title);
  bind_set_string(L, "text", text);
  bind_set_string(L, "example", example);
  push_rows(L, rows);
  lua_setfield(L, -2, "options");
}
