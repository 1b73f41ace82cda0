/* Plots as text, and what the terminal can do: lua/fopo/plot.lua and reports build on it. */
#include <langinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "bind/bind.h"
#include "core/progress.h"
#include "term/endings.h"
#include "term/interrupt.h"
#include "term/plot.h"
#include "term/prompt.h"
#include "term/theme.h"

enum {
  MOST_SERIES = 64, /* bits of fopo_plot.points */
  MOST_CELLS = 100000
};

/* ---- the terminal ---- */

/* True if stdout shows colours: it is a terminal that is not dumb, and NO_COLOR is not set
 * (no-color.org). */
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

/* term.is_tty(): whether stdout is a terminal. */
static int is_tty(lua_State *L) { return bind_return_boolean(L, isatty(STDOUT_FILENO)); }

/* term.asks(): whether a person can be asked: a terminal to read from and one to write to. */
static int asks(lua_State *L) {
  return bind_return_boolean(L, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
}

/* term.waits(): whether a person at the prompt waits for the end of what runs. */
static int waits(lua_State *L) { return bind_return_boolean(L, fopo_prompt_waits()); }

/* term.forget_typed(): drops what was typed before the question. */
static int forget_typed(lua_State *L) {
  (void)L;
  if (isatty(STDIN_FILENO)) tcflush(STDIN_FILENO, TCIFLUSH);
  return 0;
}

/* term.width(): columns. */
static int width(lua_State *L) {
  lua_pushinteger(L, columns());
  return 1;
}

/* term.height(): lines. */
static int height(lua_State *L) {
  lua_pushinteger(L, lines());
  return 1;
}

/* term.colour(): whether stdout shows colours. */
static int colour(lua_State *L) { return bind_return_boolean(L, takes_colour()); }

/* Whether the terminal has blocks, but no braille: the console of Linux. */
static int takes_blocks(void) {
  const char *name = getenv("TERM");
  return name != NULL && strncmp(name, "linux", 5) == 0;
}

/* term.blocks(): the same. */
static int blocks(lua_State *L) { return bind_return_boolean(L, takes_blocks()); }

/* term.utf8(): whether the locale's characters are UTF-8. */
static int utf8(lua_State *L) { return bind_return_boolean(L, takes_utf8()); }

/* ---- the theme ---- */

static const char *const theme_names[] = {"dark", "light", NULL};

/* term.theme([name]): chooses the theme if a name is given; the name of the one in use. */
static int theme(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) fopo_theme_set((fopo_theme)luaL_checkoption(L, 1, NULL, theme_names));
  return bind_return_string(L, theme_names[fopo_theme_get()]);
}

/* term.colours(): of the theme in use: inks, a list of {rich, svg}, curves, a list of SGR
 * parameters, paper and bar. */
static int colours(lua_State *L) {
  fopo_theme now = fopo_theme_get();
  lua_newtable(L);
  lua_newtable(L);
  for (int ink = 0; ink < FOPO_INKS; ink++) {
    const fopo_colour *look = fopo_theme_ink(now, (fopo_ink)ink);
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, look->rich);
    lua_setfield(L, -2, "rich");
    bind_set_string(L, "svg", look->svg);
    lua_rawseti(L, -2, ink + 1);
  }
  lua_setfield(L, -2, "inks");
  lua_newtable(L);
  for (int i = 0; i < FOPO_THEME_CURVES; i++) {
    lua_pushstring(L, fopo_theme_curve(now, (size_t)i));
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "curves");
  bind_set_string(L, "paper", fopo_theme_paper(now));
  bind_set_string(L, "bar", fopo_theme_bar(now));
  return 1;
}

/* ---- plots ---- */

static int flag_or(lua_State *L, const char *name, int fallback) {
  return bind_has(L, 2, name) ? bind_option_boolean(L, 2, name) : fallback;
}

static int cells_or(lua_State *L, const char *name, int fallback) {
  return (int)bind_option_count_or(L, 2, name, 0, MOST_CELLS, (size_t)fallback);
}

/* Reads element i of the list of series. Returns whether its points are not to be joined. */
static int read_series(lua_State *L, fopo_series *s, int i) {
  size_t n;
  lua_rawgeti(L, 1, i);
  bind_table(L, lua_gettop(L), "a series");
  int points = bind_option_boolean(L, lua_gettop(L), "points");
  s->name = bind_option_string(L, lua_gettop(L), "name");
  lua_pop(L, 1); /* the series keeps its name */
  s->x = bind_series_numbers(L, "x", i, &s->n);
  s->y = bind_series_numbers(L, "y", i, &n);
  if (n != s->n) {
    bind_refuse(L, "series %d has %zu values of x but %zu of y", i, s->n, n);
  }
  lua_pop(L, 1);
  return points;
}

/* term.plot(series, options): the plot as a string. series: list of {x = list, y = list, name =,
 * points =}; options: title, xlabel, ylabel, logx, logy, width, height, and utf8, colour (as the
 * terminal is). */
static int plot(lua_State *L) {
  fopo_series series[MOST_SERIES];
  bind_table(L, 1, "the series");
  bind_table(L, 2, "the options");
  lua_settop(L, 2);
  size_t n = lua_rawlen(L, 1);
  if (n > MOST_SERIES) {
    return bind_refuse(L, "%zu series are more than a plot can show; use at most %d", n,
                       MOST_SERIES);
  }
  luaL_checkstack(L, 2 * MOST_SERIES + 16, NULL);
  uint64_t points = 0;
  for (size_t i = 0; i < n; i++) {
    points |= (uint64_t)read_series(L, &series[i], (int)i + 1) << i;
  }
  int cols = columns();
  fopo_plot p = {
      .series = series,
      .n_series = n,
      .points = points,
      .title = bind_option_string(L, 2, "title"),
      .xlabel = bind_option_string(L, 2, "xlabel"),
      .ylabel = bind_option_string(L, 2, "ylabel"),
      .logx = bind_option_boolean(L, 2, "logx"),
      .logy = bind_option_boolean(L, 2, "logy"),
      .width = cells_or(L, "width", cols < 100 ? cols : 100),
      .height = cells_or(L, "height", 0),
      .utf8 = flag_or(L, "utf8", takes_utf8()),
      .blocks = takes_blocks(),
      .colour = flag_or(L, "colour", takes_colour()),
  };
  bind_text *text = bind_text_new(L);
  bind_check(L, fopo_plot_text(&text->text, &p));
  return bind_text_push(L, text);
}

/* ---- fopo --json ---- */

static int json_wanted;

void fopo_lua_json(int on) { json_wanted = on; }

/* term.json(): whether runs print their records as JSON. */
static int json(lua_State *L) { return bind_return_boolean(L, json_wanted); }

/* ---- checkpoints and the end ---- */

static const char *checkpoint_path;

void fopo_lua_checkpoint(const char *path) { checkpoint_path = path; }

/* term.checkpoint(): the path of fopo --checkpoint, or nil. */
static int checkpoint(lua_State *L) { return bind_return_string(L, checkpoint_path); }

/* term.defer(change): +1 if one more run keeps a checkpoint, -1 if one less (term/endings.h). */
static int defer(lua_State *L) {
  fopo_endings_defer((int)luaL_checkinteger(L, 1));
  return 0;
}

/* term.ending(): the number of the signal that ends the program, or nil. */
static int ending(lua_State *L) {
  if (fopo_ending() == 0) return 0;
  lua_pushinteger(L, fopo_ending());
  return 1;
}

/* term.saving(f): calls f while an interruption that is under way waits; true, or false and the
 * error. A new Ctrl-C interrupts f. */
static int saving(lua_State *L) {
  int before = fopo_interrupted();
  lua_settop(L, 1);
  fopo_ending_begin_save();
  int status = lua_pcall(L, 0, 0, 0);
  fopo_ending_end_save();
  if (before) fopo_interrupt_by_signal(SIGINT);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}

const luaL_Reg bind_term_functions[] = {{"is_tty", is_tty},
                                        {"asks", asks},
                                        {"forget_typed", forget_typed},
                                        {"waits", waits},
                                        {"width", width},
                                        {"height", height},
                                        {"colour", colour},
                                        {"utf8", utf8},
                                        {"blocks", blocks},
                                        {"theme", theme},
                                        {"colours", colours},
                                        {"plot", plot},
                                        {"json", json},
                                        {"checkpoint", checkpoint},
                                        {"defer", defer},
                                        {"ending", ending},
                                        {"saving", saving},
                                        {"atomic", fopo_interrupt_atomic},
                                        {"divisible", fopo_interrupt_divisible},
                                        {NULL, NULL}};
