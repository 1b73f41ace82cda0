/* What lua/fopo/plot.lua and reports build on. Options were checked there; here are types and
 * sizes only. Numbers live in userdata, so that an error at any moment frees them. */
#include "term/bind_term.h"

#include <langinfo.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "term/bind_view.h"
#include "term/interrupt.h"
#include "term/plot.h"

enum { MOST_SERIES = 64 };

/* Whether stdout takes colours: a terminal, not a dumb one, and nobody objects (no-color.org). */
static int takes_colour(void) {
  const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) && term != NULL && *term != '\0' && strcmp(term, "dumb") != 0 &&
         (no == NULL || *no == '\0');
}

static int takes_utf8(void) { return strcmp(nl_langinfo(CODESET), "UTF-8") == 0; }

static int columns(void) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

static int lines(void) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) return size.ws_row;
  return 24;
}

/* Field `name` of the table at `index`, or fallback. */
static int flag(lua_State *L, int index, const char *name, int fallback) {
  int value = lua_getfield(L, index, name) == LUA_TNIL ? fallback : lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

static int count(lua_State *L, int index, const char *name, int fallback) {
  if (lua_getfield(L, index, name) == LUA_TNIL) {
    lua_pop(L, 1);
    return fallback;
  }
  int whole;
  lua_Integer n = lua_tointegerx(L, -1, &whole);
  lua_pop(L, 1);
  if (!whole || n < 0 || n > 100000) {
    return luaL_error(L, "%s must be an integer from 0 to 100000", name);
  }
  return (int)n;
}

/* The string in field `name`, or NULL; the table keeps it. */
static const char *words(lua_State *L, int index, const char *name) {
  int type = lua_getfield(L, index, name);
  if (type != LUA_TNIL && type != LUA_TSTRING) luaL_error(L, "%s must be a string", name);
  const char *s = lua_tostring(L, -1);
  lua_pop(L, 1);
  return s;
}

/* The numbers of the list in field `name` of the table on the top; pushes the userdata that holds
 * them below that table. */
static const double *numbers(lua_State *L, const char *name, int series, size_t *n) {
  if (lua_getfield(L, -1, name) != LUA_TTABLE) {
    luaL_error(L, "series %d: %s must be a list of numbers", series, name);
  }
  *n = lua_rawlen(L, -1);
  double *x = lua_newuserdatauv(L, *n > 0 ? *n * sizeof *x : 1, 0);
  for (size_t i = 0; i < *n; i++) {
    int number;
    lua_rawgeti(L, -2, (lua_Integer)i + 1);
    x[i] = lua_tonumberx(L, -1, &number);
    if (!number || lua_type(L, -1) != LUA_TNUMBER) {
      luaL_error(L, "series %d: %s[%d] is not a number", series, name, (int)i + 1);
    }
    lua_pop(L, 1);
  }
  lua_replace(L, -2);
  lua_insert(L, -2);
  return x;
}

/* Returns whether its points stand alone. */
static int read_series(lua_State *L, fopo_series *s, int i) {
  size_t n;
  if (lua_rawgeti(L, 1, i) != LUA_TTABLE) luaL_error(L, "series %d is not a table", i);
  int points = flag(L, -1, "points", 0);
  s->name = words(L, -1, "name");
  s->x = numbers(L, "x", i, &s->n);
  s->y = numbers(L, "y", i, &n);
  if (n != s->n) {
    luaL_error(L, "series %d: %d values of x, but %d of y", i, (int)s->n, (int)n);
  }
  lua_pop(L, 1);
  return points;
}

static int free_text(lua_State *L) {
  char **text = lua_touserdata(L, 1);
  fopo_free(*text);
  *text = NULL;
  return 0;
}

/* Pushes the owner of a text to come: pushing that to Lua may raise. */
static char **new_text(lua_State *L) {
  char **text = lua_newuserdatauv(L, sizeof *text, 0);
  *text = NULL;
  if (luaL_newmetatable(L, "fopo.text")) {
    lua_pushcfunction(L, free_text);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return text;
}

/* plot(series, options) -> text. series: list of {x = list, y = list, name =, points =}; options:
 * title, xlabel, ylabel, logx, logy, width, height, and utf8, colour (as the terminal is). */
static int term_plot(lua_State *L) {
  fopo_series series[MOST_SERIES];
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  size_t n = lua_rawlen(L, 1);
  if (n > MOST_SERIES) {
    return luaL_error(L, "%d series are more than a plot can show; use at most %d", (int)n,
                      MOST_SERIES);
  }
  luaL_checkstack(L, 2 * MOST_SERIES + 8, NULL);
  uint64_t points = 0;
  for (size_t i = 0; i < n; i++) {
    points |= (uint64_t)read_series(L, &series[i], (int)i + 1) << i;
  }
  int width = columns();
  fopo_plot plot = {
      .series = series,
      .n_series = n,
      .points = points,
      .title = words(L, 2, "title"),
      .xlabel = words(L, 2, "xlabel"),
      .ylabel = words(L, 2, "ylabel"),
      .logx = flag(L, 2, "logx", 0),
      .logy = flag(L, 2, "logy", 0),
      .width = count(L, 2, "width", width < 100 ? width : 100),
      .height = count(L, 2, "height", 0),
      .utf8 = flag(L, 2, "utf8", takes_utf8()),
      .colour = flag(L, 2, "colour", takes_colour()),
  };
  char **text = new_text(L);
  if (fopo_plot_text(text, &plot) != FOPO_OK) return luaL_error(L, "%s", fopo_error_sentence());
  lua_pushstring(L, *text);
  fopo_free(*text);
  *text = NULL;
  return 1;
}

static int term_is_tty(lua_State *L) {
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  return 1;
}

/* asks(): whether somebody can be asked: a terminal to read from and one to write to. */
static int term_asks(lua_State *L) {
  lua_pushboolean(L, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
  return 1;
}

/* forget_typed(): drops what was typed while nobody asked. */
static int term_forget_typed(lua_State *L) {
  (void)L;
  if (isatty(STDIN_FILENO)) tcflush(STDIN_FILENO, TCIFLUSH);
  return 0;
}

static int term_width(lua_State *L) {
  lua_pushinteger(L, columns());
  return 1;
}

static int term_height(lua_State *L) {
  lua_pushinteger(L, lines());
  return 1;
}

static int term_colour(lua_State *L) {
  lua_pushboolean(L, takes_colour());
  return 1;
}

static int term_utf8(lua_State *L) {
  lua_pushboolean(L, takes_utf8());
  return 1;
}

static int json;

void fopo_term_json(int on) { json = on; }

/* json(): whether records are to be JSON. */
static int term_json(lua_State *L) {
  lua_pushboolean(L, json);
  return 1;
}

int luaopen_fopo_term(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"plot", term_plot},
      {"is_tty", term_is_tty},
      {"width", term_width},
      {"colour", term_colour},
      {"utf8", term_utf8},
      {"json", term_json},
      {"asks", term_asks},
      {"height", term_height},
      {"forget_typed", term_forget_typed},
      {"atomic", fopo_interrupt_atomic},
      {"divisible", fopo_interrupt_divisible},
      {NULL, NULL},
  };
  luaL_newlib(L, functions);
  luaL_setfuncs(L, bind_view_functions, 0);
  bind_view_open(L);
  return 1;
}
