/* The live view: term.view{...} gives an object that is fed with figures and words, drawn, and
 * asked for keys. It knows nothing of trainers; lua/fopo/view/sources.lua does. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"
#include "core/clock.h"
#include "core/progress.h"
#include "term/progress.h"
#include "term/view/terminal.h"
#include "term/view/view.h"

typedef struct {
  bind_object object;
  fopo_view_model model;
  fopo_screen screen;
  int terminal;    /* 1: it has the terminal */
  int rows, cols;  /* of a view without one */
  int anew;        /* 1: the next drawing sends every cell */
  int busy;        /* 1: the message is the progress of a long call */
  double drawn;    /* time of the last drawing, on the clock of core/clock.h */
  size_t captured; /* lines that others wrote: printed when the terminal is given back */
} bind_view;

static bind_view *get_view(lua_State *L) { return bind_get(L, 1, &bind_view_type); }

/* ---- drawing ---- */

/* Moves what was written to the standard streams into the model. */
static void fetch_output(bind_view *v) {
  char text[4096];
  size_t n;
  if (!v->terminal) return;
  while ((n = fopo_terminal_said(text, sizeof text)) > 0) {
    size_t before = v->model.n_lines;
    fopo_view_say(&v->model, text, n);
    v->captured += v->model.n_lines - before;
  }
}

static void get_size(const bind_view *v, int *rows, int *cols) {
  *rows = v->rows, *cols = v->cols;
  if (v->terminal) fopo_terminal_size(rows, cols);
}

static int redraw(bind_view *v) {
  int rows, cols;
  fetch_output(v);
  get_size(v, &rows, &cols);
  int status = fopo_screen_resize(&v->screen, rows, cols);
  if (status != FOPO_OK) return status;
  fopo_view_draw(&v->screen, &v->model);
  if (v->terminal) fopo_terminal_show(&v->screen, v->anew);
  v->anew = 0;
  v->drawn = fopo_clock();
  return FOPO_OK;
}

/* The progress of long calls while the view has the terminal: in the foot, ten times a second. */
static void on_progress(void *payload, const char *what, double done, double total, int closed) {
  bind_view *v = payload;
  char *message = v->model.message;
  if (closed) {
    if (v->busy) message[0] = '\0';
    v->busy = 0;
    return;
  }
  if (fopo_clock() - v->drawn < 0.1) return;
  v->busy = 1;
  if (total > 0) {
    snprintf(message, sizeof v->model.message, "%.100s  %.0f %%", what, 100 * done / total);
  } else {
    snprintf(message, sizeof v->model.message, "%.100s", what);
  }
  redraw(v);
}

/* v:draw(anew): makes the screen, and shows it if the view has the terminal; anew: every cell. */
static int draw(lua_State *L) {
  bind_view *v = get_view(L);
  if (bind_boolean(L, 2, "anew")) v->anew = 1;
  bind_check(L, redraw(v));
  return 0;
}

/* v:size(): rows, cols. */
static int size(lua_State *L) {
  int rows, cols;
  get_size(get_view(L), &rows, &cols);
  lua_pushinteger(L, rows);
  lua_pushinteger(L, cols);
  return 2;
}

/* Rows or columns; the screen brings them into its bounds. */
static int to_cells(lua_State *L, int index, const char *what) {
  return (int)bind_count(L, index, what, 1, INT32_MAX);
}

/* v:resize(rows, cols): of a view without a terminal. */
static int resize(lua_State *L) {
  bind_view *v = get_view(L);
  v->rows = to_cells(L, 2, "rows");
  v->cols = to_cells(L, 3, "cols");
  return 0;
}

/* v:render(format, rows, cols): the screen as "text", "ansi" or "svg", of the present size if none
 * is given. */
static int render(lua_State *L) {
  static const char *const formats[] = {"text", "ansi", "svg", NULL};
  static int (*const makers[])(char **, const fopo_screen *) = {fopo_screen_text, fopo_screen_ansi,
                                                                fopo_screen_svg};
  int format = lua_isnoneornil(L, 2) ? 0 : bind_choice(L, 2, "the format", formats), rows, cols;
  get_size(get_view(L), &rows, &cols);
  if (!lua_isnoneornil(L, 3)) rows = to_cells(L, 3, "rows");
  if (!lua_isnoneornil(L, 4)) cols = to_cells(L, 4, "cols");
  bind_text *text = bind_text_new(L);
  const bind_view *v = get_view(L);
  fopo_screen screen = {0};
  int status = fopo_screen_resize(&screen, rows, cols);
  if (status == FOPO_OK) {
    fopo_view_draw(&screen, &v->model);
    status = makers[format](&text->text, &screen);
  }
  fopo_screen_done(&screen);
  bind_check(L, status);
  return bind_text_push(L, text);
}

/* ---- feeding ---- */

/* What v:set takes beside the figures: where it lies in the model. */
typedef enum { WORDS, FLAG, NUMBER, INTEGER, AXIS, GLYPHS } setting_kind;

#define AT(field) offsetof(fopo_view_model, field), sizeof(((fopo_view_model *)NULL)->field)
static const struct {
  const char *name;
  setting_kind kind;
  size_t at, size; /* bytes */
} settings[] = {
    {"title", WORDS, AT(title)},     {"device", WORDS, AT(device)},
    {"state", WORDS, AT(state)},     {"message", WORDS, AT(message)},
    {"command", WORDS, AT(command)}, {"measure", WORDS, AT(measure)},
    {"lists", WORDS, AT(lists)},     {"cursor", INTEGER, AT(cursor)},
    {"glyphs", GLYPHS, AT(glyphs)},  {"axis", AXIS, AT(axis)},
    {"logy", FLAG, AT(logy)},        {"help", FLAG, AT(help)},
    {"mono", FLAG, AT(mono)},        {"overlays", FLAG, AT(overlays)},
    {"window", NUMBER, AT(window)},  {"smoothing", NUMBER, AT(smoothing)},
};
#undef AT

/* Puts the value on the top into settings[i]. */
static void set_setting(lua_State *L, fopo_view_model *m, size_t i) {
  static const char *const glyphs[] = {"ascii", "block", "braille", NULL};
  static const char *const axes[] = {"steps", "seconds", NULL};
  const char *name = settings[i].name;
  void *at = (char *)m + settings[i].at;
  switch (settings[i].kind) {
  case WORDS: snprintf(at, settings[i].size, "%s", bind_string(L, -1, name)); break;
  case FLAG: *(int *)at = bind_boolean(L, -1, name); break;
  case NUMBER: *(double *)at = bind_number(L, -1, name); break;
  case INTEGER: *(int *)at = (int)bind_number(L, -1, name); break;
  case AXIS: *(int *)at = bind_choice(L, -1, name, axes); break;
  case GLYPHS: *(fopo_glyphs *)at = (fopo_glyphs)bind_choice(L, -1, name, glyphs); break;
  }
}

/* Puts the value on the top into the figure or the setting of this name; 0 if there is none. */
static int set_one(lua_State *L, fopo_view_model *m, const char *name) {
  for (int i = 0; i < FOPO_VIEW_NUMBERS; i++) {
    if (strcmp(name, fopo_view_number_name(i)) != 0) continue;
    m->number[i] = bind_number(L, -1, name);
    return 1;
  }
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    if (strcmp(name, settings[i].name) != 0) continue;
    set_setting(L, m, i);
    return 1;
  }
  return 0;
}

/* v:set{step =, reward =, title =, state =, logy = ...}: figures, words, and what keys change. */
static int set(lua_State *L) {
  bind_view *v = get_view(L);
  bind_table(L, 2, "what is set");
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "[]";
    if (set_one(L, &v->model, name)) continue;
    return bind_refuse(L, "a view has no figure or setting '%s'", name);
  }
  return 0;
}

/* v:phases{search =, propose = ...}: seconds; 0 if left out. */
static int phases(lua_State *L) {
  bind_view *v = get_view(L);
  bind_table(L, 2, "the phases");
  for (int i = 0; i < FOPO_PHASES; i++) {
    v->model.phase[i] = bind_option_number_or(L, 2, fopo_phase_rows[i].name, 0);
  }
  return 0;
}

/* v:add(series, step, seconds, value): a point of "reward", "valid", "valid_index", "rate"
 * or "lists". */
static int add(lua_State *L) {
  static const char *const names[] = {"reward", "valid", "valid_index", "rate", "lists", NULL};
  bind_view *v = get_view(L);
  int series = bind_choice(L, 2, "the series", names);
  double step = bind_number(L, 3, "the step"), seconds = bind_number(L, 4, "the seconds");
  double value = bind_number(L, 5, "the value");
  bind_check(L, fopo_trace_add(&v->model.trace[series], step, seconds, value));
  return 0;
}

/* v:overlay(name, steps, seconds, rewards): an earlier run, from three lists of one length, 0 for
 * what a list lacks; false if there is no place for another. */
static int overlay(lua_State *L) {
  bind_view *v = get_view(L);
  const char *name = bind_string(L, 2, "the name");
  for (int i = 3; i <= 5; i++) bind_table(L, i, "a column of the earlier run");
  int at = v->model.n_overlays;
  lua_pushboolean(L, at < FOPO_VIEW_OVERLAYS);
  if (at == FOPO_VIEW_OVERLAYS) return 1;
  snprintf(v->model.overlay[at].name, sizeof v->model.overlay[at].name, "%s", name);
  fopo_trace *trace = &v->model.overlay[at].trace;
  fopo_trace_done(trace);
  v->model.n_overlays++;
  for (size_t i = 1, n = lua_rawlen(L, 5); i <= n; i++) {
    double value[3];
    for (int j = 0; j < 3; j++) {
      lua_rawgeti(L, 3 + j, (lua_Integer)i);
      value[j] = lua_tonumber(L, -1);
      lua_pop(L, 1);
    }
    bind_check(L, fopo_trace_add(trace, value[0], value[1], value[2]));
  }
  return 1;
}

/* v:say(text): a line of output. */
static int say(lua_State *L) {
  bind_view *v = get_view(L);
  const char *text = bind_string(L, 2, "the text");
  size_t n = lua_rawlen(L, 2);
  fetch_output(v);
  fopo_view_say(&v->model, text, n);
  if (n == 0 || text[n - 1] != '\n') fopo_view_say(&v->model, "\n", 1);
  return 0;
}

/* ---- keys ---- */

/* v:key(seconds): a character, the name of a key, or nil if none came in so many seconds. */
static int key(lua_State *L) {
  static const char *const names[] = {"left",   "right", "home", "end",    "backspace",
                                      "delete", "up",    "down", "resize", "gone"};
  const bind_view *v = get_view(L);
  double seconds = lua_isnoneornil(L, 2) ? 0 : bind_number(L, 2, "seconds");
  int code = v->terminal ? fopo_terminal_key(seconds) : FOPO_KEY_NONE;
  if (code == FOPO_KEY_NONE) {
    lua_pushnil(L);
  } else if (code >= FOPO_KEY_LEFT) {
    lua_pushstring(L, names[code - FOPO_KEY_LEFT]);
  } else {
    lua_pushfstring(L, "%U", (long)code);
  }
  return 1;
}

/* ---- life ---- */

/* Gives the terminal back, and prints what others wrote while it was taken. */
static void give_back(bind_view *v) {
  const fopo_view_model *m = &v->model;
  if (!v->terminal) return;
  fetch_output(v);
  v->terminal = 0;
  fopo_progress_bar(1);
  fopo_terminal_close();
  size_t n = m->n_lines + (m->line[m->n_lines % FOPO_VIEW_LINES][0] != '\0');
  size_t kept = n < FOPO_VIEW_LINES - 1 ? n : FOPO_VIEW_LINES - 1;
  if (v->captured == 0) return;
  if (n > kept) printf("(%zu earlier lines of output are not kept)\n", n - kept);
  for (size_t i = n - kept; i < n; i++) printf("%s\n", m->line[i % FOPO_VIEW_LINES]);
  fflush(stdout);
}

static void done(bind_object *o) {
  bind_view *v = (bind_view *)o;
  give_back(v);
  fopo_screen_done(&v->screen);
  fopo_view_model_done(&v->model);
}

/* term.view{rows = 24, cols = 80}: without a terminal; term.view{terminal = true, colour =}: takes
 * the terminal until it is closed. */
static int view(lua_State *L) {
  bind_table(L, 1, "the options");
  lua_settop(L, 1);
  int terminal = bind_option_boolean(L, 1, "terminal");
  int colour = bind_option_boolean(L, 1, "colour");
  size_t rows = bind_option_count_or(L, 1, "rows", 1, INT32_MAX, 24);
  size_t cols = bind_option_count_or(L, 1, "cols", 1, INT32_MAX, 80);
  bind_view *v = bind_new(L, &bind_view_type, 0);
  fopo_view_model_init(&v->model);
  v->rows = (int)rows, v->cols = (int)cols;
  if (terminal) {
    bind_check(L, fopo_terminal_open(colour));
    v->terminal = 1;
    v->anew = 1;
    fopo_progress_bar(0);
    fopo_progress_to(on_progress, v);
  }
  return 1;
}

/* term.view_possible(): true, or nil and why not. */
static int view_possible(lua_State *L) { return bind_return_outcome(L, fopo_terminal_possible()); }

const luaL_Reg bind_view_functions[] = {
    {"view", view}, {"view_possible", view_possible}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"draw", draw},     {"size", size},       {"resize", resize},
                                   {"render", render}, {"set", set},         {"phases", phases},
                                   {"add", add},       {"overlay", overlay}, {"say", say},
                                   {"key", key},       {NULL, NULL}};

const bind_type bind_view_type = {
    .name = "fopo.view", .size = sizeof(bind_view), .done = done, .methods = methods};
