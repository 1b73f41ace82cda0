/* The live view for Lua: term.view{...} gives an object that is fed with numbers and words, drawn,
 * and asked for keys. It knows nothing of trainers; lua/fopo/view.lua does. */
#include "term/bind_view.h"

#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "term/progress.h"
#include "term/view/terminal.h"
#include "term/view/view.h"

static const char type_name[] = "fopo.view";

typedef struct {
  fopo_view_model model;
  fopo_screen screen;
  int terminal;    /* 1: it has the terminal */
  int rows, cols;  /* of a view without one */
  int anew;        /* 1: the next drawing sends everything */
  int busy;        /* 1: the message is that of long work */
  double drawn;    /* when, on the clock of core/clock.h */
  size_t captured; /* lines that others wrote: shown again when the terminal is given back */
} view;

static view *get(lua_State *L) { return luaL_checkudata(L, 1, type_name); }

static int raise_status(lua_State *L, int status) {
  return status == FOPO_OK ? 0 : luaL_error(L, "%s", fopo_error_sentence());
}

/* ---- drawing ---- */

static void pump(view *v) {
  char text[4096];
  size_t n;
  if (!v->terminal) return;
  while ((n = fopo_terminal_said(text, sizeof text)) > 0) {
    size_t before = v->model.n_lines;
    fopo_view_say(&v->model, text, n);
    v->captured += v->model.n_lines - before;
  }
}

static int draw(view *v) {
  int rows = v->rows, cols = v->cols;
  pump(v);
  if (v->terminal) fopo_terminal_size(&rows, &cols);
  int status = fopo_screen_resize(&v->screen, rows, cols);
  if (status != FOPO_OK) return status;
  fopo_view_draw(&v->screen, &v->model);
  if (v->terminal) fopo_terminal_show(&v->screen, v->anew);
  v->anew = 0;
  v->drawn = fopo_clock();
  return FOPO_OK;
}

/* The sink of long work while the view is on: what is done, in the foot, ten times a second. */
static void on_progress(void *payload, const char *what, double done, double total, int closed) {
  view *v = payload;
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
  draw(v);
}

/* v:draw(anew): makes the screen, and shows it where there is a terminal. */
static int view_draw(lua_State *L) {
  view *v = get(L);
  if (lua_toboolean(L, 2)) v->anew = 1;
  return raise_status(L, draw(v));
}

/* v:size(): rows, cols. */
static int view_size(lua_State *L) {
  view *v = get(L);
  int rows = v->rows, cols = v->cols;
  if (v->terminal) fopo_terminal_size(&rows, &cols);
  lua_pushinteger(L, rows);
  lua_pushinteger(L, cols);
  return 2;
}

/* v:resize(rows, cols): of a view without a terminal. */
static int view_resize(lua_State *L) {
  view *v = get(L);
  v->rows = (int)luaL_checkinteger(L, 2);
  v->cols = (int)luaL_checkinteger(L, 3);
  return 0;
}

static int free_text(lua_State *L) {
  char **text = lua_touserdata(L, 1);
  fopo_free(*text);
  *text = NULL;
  return 0;
}

/* v:render(format, rows, cols): the screen as "text", "ansi" or "svg"; the present size where none
 * is given. */
static int view_render(lua_State *L) {
  static const char *const formats[] = {"text", "ansi", "svg", NULL};
  static int (*const makers[])(char **, const fopo_screen *) = {fopo_screen_text, fopo_screen_ansi,
                                                                fopo_screen_svg};
  view *v = get(L);
  int format = luaL_checkoption(L, 2, "text", formats), rows = v->rows, cols = v->cols;
  if (v->terminal) fopo_terminal_size(&rows, &cols);
  rows = (int)luaL_optinteger(L, 3, rows);
  cols = (int)luaL_optinteger(L, 4, cols);
  char **text = lua_newuserdatauv(L, sizeof *text, 0); /* frees the text where pushing it raises */
  *text = NULL;
  if (luaL_newmetatable(L, "fopo.view.text")) {
    lua_pushcfunction(L, free_text);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  fopo_screen screen = {0};
  int status = fopo_screen_resize(&screen, rows, cols);
  if (status == FOPO_OK) {
    fopo_view_draw(&screen, &v->model);
    status = makers[format](text, &screen);
  }
  fopo_screen_done(&screen);
  raise_status(L, status);
  lua_pushstring(L, *text);
  return 1;
}

/* ---- feeding ---- */

static void set_words(lua_State *L, char *to, size_t size, int index) {
  snprintf(to, size, "%s", lua_isnil(L, index) ? "" : luaL_checkstring(L, index));
}

/* The number of that name, or NULL. */
static double *number_of(view *v, const char *name) {
  for (int i = 0; i < FOPO_VIEW_NUMBERS; i++) {
    if (strcmp(name, fopo_view_number_names[i]) == 0) return &v->model.number[i];
  }
  return NULL;
}

/* One name with its value at the index -1. */
static void set_one(lua_State *L, view *v, const char *name) {
  static const char *const glyphs[] = {"ascii", "block", "braille", NULL};
  fopo_view_model *m = &v->model;
  double *number = number_of(v, name);
  int at = lua_gettop(L);
  if (number != NULL)
    *number = lua_isnil(L, at) ? (double)NAN : luaL_checknumber(L, at);
  else if (strcmp(name, "title") == 0)
    set_words(L, m->title, sizeof m->title, at);
  else if (strcmp(name, "device") == 0)
    set_words(L, m->device, sizeof m->device, at);
  else if (strcmp(name, "state") == 0)
    set_words(L, m->state, sizeof m->state, at);
  else if (strcmp(name, "message") == 0)
    set_words(L, m->message, sizeof m->message, at);
  else if (strcmp(name, "command") == 0)
    set_words(L, m->command, sizeof m->command, at);
  else if (strcmp(name, "cursor") == 0)
    m->cursor = (int)luaL_checkinteger(L, at);
  else if (strcmp(name, "glyphs") == 0)
    m->glyphs = luaL_checkoption(L, at, NULL, glyphs);
  else if (strcmp(name, "axis") == 0)
    m->axis = strcmp(luaL_checkstring(L, at), "seconds") == 0;
  else if (strcmp(name, "logy") == 0)
    m->logy = lua_toboolean(L, at);
  else if (strcmp(name, "help") == 0)
    m->help = lua_toboolean(L, at);
  else if (strcmp(name, "mono") == 0)
    m->mono = lua_toboolean(L, at);
  else if (strcmp(name, "overlays") == 0)
    m->overlays = lua_toboolean(L, at);
  else if (strcmp(name, "window") == 0)
    m->window = luaL_checknumber(L, at);
  else if (strcmp(name, "smoothing") == 0)
    m->smoothing = luaL_checknumber(L, at);
  else
    luaL_error(L, "the view has nothing that is called %s", name);
}

/* v:set{step =, reward =, title =, state =, logy = ...}: numbers, words, what the keys change. */
static int view_set(lua_State *L) {
  view *v = get(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) return luaL_error(L, "the view is set by names");
    set_one(L, v, lua_tostring(L, -2));
  }
  return 0;
}

/* v:phases(search, propose, reward, gradient, update): seconds. */
static int view_phases(lua_State *L) {
  view *v = get(L);
  for (int i = 0; i < FOPO_VIEW_PHASES; i++) v->model.phase[i] = luaL_optnumber(L, 2 + i, 0);
  return 0;
}

/* v:add(series, step, seconds, value): series is reward, valid, valid_index or rate. */
static int view_add(lua_State *L) {
  static const char *const names[] = {"reward", "valid", "valid_index", "rate", NULL};
  view *v = get(L);
  int series = luaL_checkoption(L, 2, NULL, names);
  return raise_status(L, fopo_trace_add(&v->model.trace[series], luaL_checknumber(L, 3),
                                        luaL_checknumber(L, 4), luaL_checknumber(L, 5)));
}

/* v:overlay(name, steps, seconds, rewards): an earlier run, from lists; false where there is no
 * room for another. */
static int view_overlay(lua_State *L) {
  view *v = get(L);
  const char *name = luaL_checkstring(L, 2);
  for (int i = 3; i <= 5; i++) luaL_checktype(L, i, LUA_TTABLE);
  int at = v->model.n_overlays;
  lua_pushboolean(L, at < FOPO_VIEW_OVERLAYS);
  if (at == FOPO_VIEW_OVERLAYS) return 1;
  snprintf(v->model.overlay[at].name, sizeof v->model.overlay[at].name, "%s", name);
  fopo_trace_done(&v->model.overlay[at].trace);
  v->model.n_overlays++;
  size_t n = lua_rawlen(L, 5);
  for (size_t i = 1; i <= n; i++) {
    double value[3];
    for (int j = 0; j < 3; j++) {
      lua_rawgeti(L, 3 + j, (lua_Integer)i);
      value[j] = lua_tonumber(L, -1);
      lua_pop(L, 1);
    }
    raise_status(L, fopo_trace_add(&v->model.overlay[at].trace, value[0], value[1], value[2]));
  }
  return 1;
}

/* v:say(text): a line for the pane of what was said. */
static int view_say(lua_State *L) {
  view *v = get(L);
  size_t n;
  const char *text = luaL_checklstring(L, 2, &n);
  pump(v);
  fopo_view_say(&v->model, text, n);
  if (n == 0 || text[n - 1] != '\n') fopo_view_say(&v->model, "\n", 1);
  return 0;
}

/* ---- keys ---- */

/* v:key(seconds): a character, or the name of a key, or nil; waits at most so long. */
static int view_key(lua_State *L) {
  static const char *const names[] = {"left",   "right", "home", "end",    "backspace",
                                      "delete", "up",    "down", "resize", "gone"};
  view *v = get(L);
  int key = v->terminal ? fopo_terminal_key(luaL_optnumber(L, 2, 0)) : FOPO_KEY_NONE;
  if (key == FOPO_KEY_NONE) {
    lua_pushnil(L);
  } else if (key >= FOPO_KEY_LEFT) {
    lua_pushstring(L, names[key - FOPO_KEY_LEFT]);
  } else {
    lua_pushfstring(L, "%U", (long)key);
  }
  return 1;
}

/* ---- life ---- */

/* Gives the terminal back; what others wrote meanwhile then comes out on it. */
static void give_back(view *v) {
  if (!v->terminal) return;
  pump(v);
  v->terminal = 0;
  fopo_progress_bar(1);
  fopo_terminal_close();
  size_t n = v->model.n_lines + (v->model.line[v->model.n_lines % FOPO_VIEW_LINES][0] != '\0');
  size_t kept = n < FOPO_VIEW_LINES - 1 ? n : FOPO_VIEW_LINES - 1;
  if (v->captured == 0) return;
  if (n > kept) printf("(%zu earlier lines of output are not kept)\n", n - kept);
  for (size_t i = n - kept; i < n; i++) printf("%s\n", v->model.line[i % FOPO_VIEW_LINES]);
  fflush(stdout);
}

static int view_close(lua_State *L) {
  view *v = get(L);
  give_back(v);
  fopo_screen_done(&v->screen);
  fopo_view_model_done(&v->model);
  return 0;
}

/* view{rows =, cols =}: without a terminal; view{terminal = true, colour =, utf8 =}: takes it. */
static int view_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_getfield(L, 1, "terminal");
  lua_getfield(L, 1, "colour");
  lua_getfield(L, 1, "rows");
  lua_getfield(L, 1, "cols");
  int terminal = lua_toboolean(L, 2), colour = lua_toboolean(L, 3);
  int rows = (int)luaL_optinteger(L, 4, 24), cols = (int)luaL_optinteger(L, 5, 80);
  view *v = lua_newuserdatauv(L, sizeof *v, 0);
  memset(v, 0, sizeof *v);
  fopo_view_model_init(&v->model);
  v->rows = rows, v->cols = cols;
  luaL_setmetatable(L, type_name);
  if (terminal) {
    raise_status(L, fopo_terminal_open(colour));
    v->terminal = 1;
    v->anew = 1;
    fopo_progress_bar(0);
    fopo_progress_to(on_progress, v);
  }
  return 1;
}

/* view_possible(): true, or nil and why not. */
static int view_possible(lua_State *L) {
  if (fopo_terminal_possible() == FOPO_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, fopo_error_sentence());
  return 2;
}

const luaL_Reg bind_view_functions[] = {
    {"view", view_new}, {"view_possible", view_possible}, {NULL, NULL}};

void bind_view_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"draw", view_draw}, {"size", view_size}, {"resize", view_resize}, {"render", view_render},
      {"set", view_set},   {"add", view_add},   {"phases", view_phases}, {"overlay", view_overlay},
      {"say", view_say},   {"key", view_key},   {"close", view_close},   {NULL, NULL},
  };
  luaL_newmetatable(L, type_name);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, view_close);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, view_close);
  lua_setfield(L, -2, "__close");
  lua_pushliteral(L, "fopo.view");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}
