/* Pictures: lua/fopo/view/picture.lua says what is in them. */
#include <limits.h>
#include <string.h>

#include "bind/bind.h"
#include "term/drawer.h"

const double *bind_series_numbers(lua_State *L, const char *name, int series, size_t *n) {
  char what[80];
  snprintf(what, sizeof what, "%s of series %d", name, series);
  bind_table(L, bind_option(L, lua_gettop(L), name), what);
  *n = lua_rawlen(L, -1);
  double *x = bind_scratch(L, *n, sizeof *x);
  for (size_t i = 0; i < *n; i++) {
    lua_rawgeti(L, -2, (lua_Integer)i + 1);
    if (lua_type(L, -1) != LUA_TNUMBER) {
      snprintf(what, sizeof what, "series %d: %s[%zu]", series, name, i + 1);
    }
    x[i] = bind_number(L, -1, what);
    lua_pop(L, 1);
  }
  lua_replace(L, -2);
  lua_insert(L, -2);
  return x;
}

static void copy_word(lua_State *L, fopo_picture_word word, const char *given, const char *name) {
  size_t n = given != NULL ? strlen(given) : 0;
  if (n >= FOPO_PICTURE_WORD) {
    bind_refuse(L, "%s has %zu bytes; the words of a picture have at most %d", name, n,
                FOPO_PICTURE_WORD - 1);
  }
  if (given != NULL) memcpy(word, given, n + 1);
}

/* Copies option `name` of the table at `index`. */
static void read_word(lua_State *L, int index, const char *name, fopo_picture_word word) {
  copy_word(L, word, bind_option_string(L, index, name), name);
  lua_pop(L, 1);
}

/* Reads the list of labels of the options, if there is one. It stays on the stack. */
static void read_labels(lua_State *L, fopo_picture *p) {
  if (!bind_has(L, 1, "labels")) return;
  bind_table(L, bind_option(L, 1, "labels"), "labels");
  size_t n = lua_rawlen(L, -1);
  if (n > FOPO_PICTURE_LABELS) {
    bind_refuse(L, "%zu labels are more than a picture can show; use at most %d", n,
                FOPO_PICTURE_LABELS);
  }
  fopo_picture_word *labels = bind_scratch(L, n, sizeof *labels);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, -2, (lua_Integer)i + 1);
    copy_word(L, labels[i], lua_tostring(L, -1), "a label");
    lua_pop(L, 1);
  }
  p->labels = labels;
  p->n_labels = n;
}

/* Reads element i of the list of series, index 2. Its numbers stay on the stack. */
static void read_series(lua_State *L, fopo_picture_series *s, int i) {
  static const char *const styles[] = {"lines", "points", "bars", NULL};
  size_t n[4];
  lua_rawgeti(L, 2, i);
  int at = lua_gettop(L);
  bind_table(L, at, "a series");
  read_word(L, at, "name", s->name);
  s->style = (fopo_picture_style)bind_option_choice(L, at, "style", styles);
  int has = bind_has(L, at, "low");
  s->x = bind_series_numbers(L, "x", i, &n[0]);
  s->y = bind_series_numbers(L, "y", i, &n[1]);
  s->low = has ? bind_series_numbers(L, "low", i, &n[2]) : NULL;
  s->high = has ? bind_series_numbers(L, "high", i, &n[3]) : NULL;
  for (int k = 1; k < (has ? 4 : 2); k++) {
    if (n[k] != n[0]) bind_refuse(L, "series %d has lists of %zu and %zu numbers", i, n[0], n[k]);
  }
  s->n = n[0];
  lua_pop(L, 1);
}

static void read_options(lua_State *L, fopo_picture *p) {
  static const char *const kinds[] = {"svg", "png", NULL};
  static const char *const intervals[] = {"few", "bands", "bars", NULL};
  p->kind = (fopo_picture_kind)bind_option_choice(L, 1, "kind", kinds);
  p->width = (int)bind_option_count(L, 1, "width", 1, INT_MAX);
  p->height = (int)bind_option_count(L, 1, "height", 1, INT_MAX);
  p->logx = bind_option_boolean(L, 1, "logx");
  p->logy = bind_option_boolean(L, 1, "logy");
  p->intervals = (fopo_picture_intervals)bind_option_choice(L, 1, "intervals", intervals);
  read_word(L, 1, "title", p->title);
  read_word(L, 1, "xlabel", p->xlabel);
  read_word(L, 1, "ylabel", p->ylabel);
}

/* native.draw_picture(options, series): gnuplot's exit status, the picture and what gnuplot said;
 * or nil and a sentence. options: kind, width, height, logx, logy, intervals, title, xlabel,
 * ylabel, labels; series: a list of {x =, y =, low =, high =, name =, style =}. */
static int draw_picture(lua_State *L) {
  fopo_output output;
  bind_table(L, 1, "the options");
  bind_table(L, 2, "the series");
  lua_settop(L, 2);
  size_t n = lua_rawlen(L, 2);
  if (n > FOPO_PICTURE_SERIES) {
    return bind_refuse(L, "%zu series are more than a picture can show; use at most %d", n,
                       FOPO_PICTURE_SERIES);
  }
  luaL_checkstack(L, 4 * FOPO_PICTURE_SERIES + 16, NULL);
  fopo_picture *p = bind_scratch(L, 1, sizeof *p);
  fopo_picture_series *series = bind_scratch(L, n, sizeof *series);
  memset(p, 0, sizeof *p);
  memset(series, 0, n * sizeof *series);
  read_options(L, p);
  read_labels(L, p);
  for (size_t i = 0; i < n; i++) read_series(L, &series[i], (int)i + 1);
  p->series = series;
  p->n_series = n;
  int status = fopo_drawer_draw(&output, p);
  if (status != FOPO_OK) return bind_return_outcome(L, status);
  lua_pushinteger(L, output.code);
  /* Only the lack of memory for a string can raise here, and loses the output's memory. */
  lua_pushlstring(L, output.out, output.out_bytes);
  lua_pushlstring(L, output.errors, output.errors_bytes);
  fopo_output_done(&output);
  return 3;
}

const luaL_Reg bind_picture_functions[] = {{"draw_picture", draw_picture}, {NULL, NULL}};
