/* Logs in tables: plain CSV with named columns, and the Open Bandit Dataset.
 *
 * The file is read twice. The first pass checks what was shown and what came of it, counts the
 * events and finds which feature columns hold anything but numbers: nothing is guessed from a
 * sample. The second stores one word a feature and event, a number or the index of a text; then
 * the texts of a column are put into alphabetical order, so that files of the same world have the
 * same columns, and all is spread into contexts. */
#include "data/logs_internal.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/progress.h"

enum {
  COLUMNS_MOST = 65536,
  LEVELS_MOST = 4096,   /* different texts of a column: beyond it, it is no category */
  POSITIONS = 3,        /* places of an Open Bandit view */
  ROWS_AT_ONCE = 1 << 14
};

typedef struct {
  const char *at;
  size_t n;
} cell;

typedef struct {
  fopo_text t;
  char separator;
  char *header;   /* copy of the first line, what the names point into */
  cell *names;    /* [columns] */
  cell *cells;    /* [columns] of the current row */
  size_t columns;
} table;

typedef struct {
  int column;
  int is_text;
  fopo_ids levels;   /* texts, in order of appearance */
  uint32_t *place;   /* [levels.n] their alphabetical ranks */
  size_t first;      /* column of the features where it begins */
} feature;

typedef struct {
  feature *list;     /* [n] */
  size_t n;
  uint32_t *raw;     /* [room, n] the bits of a number, or the index of a text */
  size_t rows, room;
  size_t width;      /* columns that they become */
} features;

/* ---- tables ---- */

static void close_table(table *r) {
  fopo_text_close(&r->t);
  fopo_free(r->header);
  fopo_free(r->names);
  fopo_free(r->cells);
  *r = (table){0};
}

/* Cuts [p, end) into cells, at most `room` of which are kept; their number, or SIZE_MAX where a
 * quote is not closed. */
static size_t cut(cell *cells, size_t room, const char *p, const char *end, char separator) {
  size_t n = 0;
  for (;; p++, n++) {
    const char *start = p, *stop;
    if (p < end && *p == '"') {
      start = ++p;
      while (p < end && (*p != '"' || (p + 1 < end && p[1] == '"'))) p += *p == '"' ? 2 : 1;
      if (p >= end) return SIZE_MAX;
      stop = p++;
      if (p < end && *p != separator) return SIZE_MAX;
    } else {
      while (p < end && *p != separator) p++;
      stop = p;
      while (start < stop && *start == ' ') start++;
      while (stop > start && stop[-1] == ' ') stop--;
    }
    if (n < room) cells[n] = (cell){start, (size_t)(stop - start)};
    if (p >= end) return n + 1;
  }
}

static const char *line_end(const char *p, const char *stop) {
  const char *end = memchr(p, '\n', (size_t)(stop - p));
  return end > p && end[-1] == '\r' ? end - 1 : end;
}

/* Of , ; TAB the one that stands most often. */
static char sniff(const char *p, const char *end) {
  size_t counts[3] = {0};
  static const char separators[] = ",;\t";
  for (; p < end; p++)
    for (size_t i = 0; i < 3; i++) counts[i] += *p == separators[i];
  size_t best = counts[1] > counts[0];
  return separators[counts[2] > counts[best] ? 2 : best];
}

static int open_table(table *r, const char *path) {
  int status = fopo_text_open(&r->t, path);
  if (status != FOPO_OK) return status;
  fopo_text *t = &r->t;
  if (t->at == t->stop) return fopo_fail(FOPO_ERR_FORMAT, "%s is empty", path);
  const char *end = line_end(t->at, t->stop);
  size_t n = (size_t)(end - t->at);
  r->separator = sniff(t->at, end);
  r->header = fopo_alloc(n + 1, 1);
  if (r->header == NULL) return FOPO_ERR_MEMORY;
  memcpy(r->header, t->at, n);
  r->columns = cut(NULL, 0, r->header, r->header + n, r->separator);
  if (r->columns < 2 || r->columns > COLUMNS_MOST)
    return fopo_text_refuse(t, 1, 0, t->at, n,
                            "is no header of 2 to 65,536 columns separated by , ; or TAB");
  r->names = fopo_alloc(r->columns, sizeof *r->names);
  r->cells = fopo_alloc(r->columns, sizeof *r->cells);
  if (r->names == NULL || r->cells == NULL) return FOPO_ERR_MEMORY;
  cut(r->names, r->columns, r->header, r->header + n, r->separator);
  t->at = (const char *)memchr(t->at, '\n', (size_t)(t->stop - t->at)) + 1;
  t->line++;
  return FOPO_OK;
}

/* What becomes of a row: FOPO_OK, ROW_LEFT_OUT, or a failure. */
enum { ROW_LEFT_OUT = 1 };

typedef struct pass pass;
typedef int on_row(pass *p);

/* One pass over a table, and what the reader of rows needs. */
struct pass {
  table r;
  on_row *take;
  fopo_logs *logs;
  const fopo_logs_options *options;
  size_t *errors;
  int counts;   /* 1: malformed rows are counted in this pass, 0: they were in the one before */
  void *data;
};

/* Column is 0-based, -1: the whole row. */
static int reject(pass *p, int column, const char *text, size_t n, const char *why) {
  const fopo_logs_options *o = p->options;
  char more[512];
  if (!p->counts) return ROW_LEFT_OUT;
  if (o->skip_errors && *p->errors < o->max_errors) {
    ++*p->errors;
    p->logs->skipped++;
    return ROW_LEFT_OUT;
  }
  snprintf(more, sizeof more, "%s", why);
  if (o->skip_errors)
    snprintf(more, sizeof more, "%s; with it there are %zu malformed rows, max_errors is %zu", why,
             *p->errors + 1, o->max_errors);
  return fopo_text_refuse(&p->r.t, p->r.t.line, (size_t)(column + 1), text, n, more);
}

static int reject_cell(pass *p, int column, const char *why) {
  return reject(p, column, p->r.cells[column].at, p->r.cells[column].n, why);
}

static int take_line(pass *p, const char *at, const char *end) {
  table *r = &p->r;
  size_t n = cut(r->cells, r->columns, at, end, r->separator);
  if (n == r->columns) return p->take(p);
  if (n == 1 && r->cells[0].n == 0) return FOPO_OK; /* a blank line is no row */
  char why[128];
  snprintf(why, sizeof why, "has %zu fields where the header has %zu", n, r->columns);
  return reject(p, -1, at, (size_t)(end - at),
                n == SIZE_MAX ? "has a quote that is not closed on its line" : why);
}

static int run_pass(pass *p, const char *path) {
  int status = open_table(&p->r, path);
  fopo_text *t = &p->r.t;
  while (status >= FOPO_OK) {
    while (status >= FOPO_OK && t->at < t->stop) {
      const char *next = (const char *)memchr(t->at, '\n', (size_t)(t->stop - t->at)) + 1;
      t->line++;
      status = take_line(p, t->at, line_end(t->at, t->stop));
      t->at = next;
    }
    if (status >= FOPO_OK) status = fopo_text_more(t);
    if (status >= FOPO_OK && t->at == t->stop) break;
  }
  close_table(&p->r);
  return status < FOPO_OK ? status : FOPO_OK;
}

/* ---- columns ---- */

static int is_name(cell c, const char *name) {
  return c.n == strlen(name) && strncasecmp(c.at, name, c.n) == 0;
}

static int find(const table *r, const char *name) {
  for (size_t c = 0; c < r->columns; c++)
    if (is_name(r->names[c], name)) return (int)c;
  return -1;
}

/* The first of the usual names that there is. */
static int find_usual(const table *r, const char *const *usual) {
  for (; *usual != NULL; usual++) {
    int c = find(r, *usual);
    if (c >= 0) return c;
  }
  return -1;
}

static int refuse_column(const table *r, const char *wanted, const char *option) {
  char list[400] = "";
  size_t used = 0;
  for (size_t c = 0; c < r->columns && used + 80 < sizeof list; c++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s", c > 0 ? ", " : "",
                             (int)(r->names[c].n < 60 ? r->names[c].n : 60), r->names[c].at);
  return fopo_fail(FOPO_ERR_FORMAT, "%s has no column '%s'; it has %s; say which with %s = \"...\"",
                   r->t.path, wanted, list, option);
}

static int role(const table *r, int *column, const char *wanted, const char *const *usual,
                const char *option) {
  *column = wanted != NULL ? find(r, wanted) : find_usual(r, usual);
  return *column >= 0 ? FOPO_OK : refuse_column(r, wanted != NULL ? wanted : usual[0], option);
}

/* ---- features ---- */

static void features_done(features *f) {
  for (size_t i = 0; i < f->n; i++) {
    fopo_ids_done(&f->list[i].levels);
    fopo_free(f->list[i].place);
  }
  fopo_free(f->list);
  fopo_free(f->raw);
  *f = (features){0};
}

static int features_init(features *f, const table *r) {
  f->list = fopo_alloc(r->columns, sizeof *f->list);
  return f->list == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

static void features_add(features *f, int column, int is_text) {
  for (size_t i = 0; i < f->n; i++)
    if (f->list[i].column == column) return;
  f->list[f->n++] = (feature){.column = column, .is_text = is_text};
}

/* The columns that "x1, user_, age" names: each word a column, or the beginning of some. */
static int features_named(features *f, const table *r, const char *words) {
  while (*words != '\0') {
    words += strspn(words, " ,");
    size_t n = strcspn(words, ",");
    size_t used = n;
    while (used > 0 && words[used - 1] == ' ') used--;
    if (used > 0) {
      char word[128];
      snprintf(word, sizeof word, "%.*s", (int)used, words);
      size_t before = f->n;
      int exact = find(r, word);
      if (exact >= 0) features_add(f, exact, 0);
      for (size_t c = 0; exact < 0 && c < r->columns; c++)
        if (r->names[c].n >= used && strncasecmp(r->names[c].at, words, used) == 0)
          features_add(f, (int)c, 0);
      if (exact < 0 && f->n == before) return refuse_column(r, word, "features");
    }
    words += n;
  }
  return FOPO_OK;
}

/* First pass: a column holds text as soon as one of its cells does. */
static void features_look(features *f, const table *r) {
  for (size_t i = 0; i < f->n; i++) {
    double x;
    cell c = r->cells[f->list[i].column];
    if (!f->list[i].is_text && fopo_read_real(&x, c.at, c.n) == FOPO_NO_NUMBER)
      f->list[i].is_text = 1;
  }
}

static int features_grow(features *f) {
  if (f->rows < f->room) return FOPO_OK;
  size_t room = f->room == 0 ? 1024 : 2 * f->room;
  int status = fopo_memory_suffices(4 * (uint64_t)room * f->n, "the features read so far",
                                    "name fewer columns");
  if (status != FOPO_OK) return status;
  uint32_t *raw = fopo_realloc(f->raw, room * (f->n + (f->n == 0)), sizeof *raw);
  if (raw == NULL) return FOPO_ERR_MEMORY;
  f->raw = raw;
  f->room = room;
  return FOPO_OK;
}

static int add_level(pass *p, feature *f, uint32_t *index) {
  cell c = p->r.cells[f->column];
  int status = fopo_ids_add(&f->levels, index, c.at, c.n);
  if (status != FOPO_OK || f->levels.n <= LEVELS_MOST) return status;
  cell name = p->r.names[f->column];
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s: column %.*s holds more than %d different texts ('%.*s' in line %zu), which "
                   "is no category; name the columns to use with features = \"...\"", p->r.t.path,
                   (int)(name.n < 60 ? name.n : 60), name.at, LEVELS_MOST,
                   (int)(c.n < 40 ? c.n : 40), c.at, p->r.t.line);
}

/* Second pass: one row more. */
static int features_take(features *f, pass *p) {
  int status = features_grow(f);
  uint32_t *row = f->raw + f->rows * f->n;
  for (size_t i = 0; i < f->n && status == FOPO_OK; i++) {
    feature *one = &f->list[i];
    cell c = p->r.cells[one->column];
    double x;
    if (one->is_text) {
      status = add_level(p, one, &row[i]);
    } else if (fopo_read_real(&x, c.at, c.n) != FOPO_IS_NUMBER || fabs(x) > (double)FLT_MAX) {
      p->counts = 1; /* the first pass could not know that the column holds numbers */
      status = reject_cell(p, one->column, "is no finite number of float32");
      p->counts = 0;
    } else {
      float number = (float)x;
      memcpy(&row[i], &number, sizeof number);
    }
  }
  if (status == FOPO_OK) f->rows++;
  return status;
}

static int by_text(const void *a, const void *b, void *ids) {
  const fopo_ids *levels = ids;
  return strcmp(levels->text + levels->offsets[*(const uint32_t *)a],
                levels->text + levels->offsets[*(const uint32_t *)b]);
}

static int arrange_levels(feature *f) {
  size_t n = f->levels.n;
  uint32_t *order = fopo_alloc(n, sizeof *order);
  f->place = fopo_alloc(n, sizeof *f->place);
  int status = order != NULL && f->place != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof *order, by_text, &f->levels);
    for (size_t i = 0; i < n; i++) f->place[order[i]] = (uint32_t)i;
  }
  fopo_free(order);
  return status;
}

static int name_levels(fopo_names *names, size_t *room, const feature *f, cell column) {
  uint32_t *at = fopo_alloc(f->levels.n, sizeof *at);
  if (at == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < f->levels.n; i++) at[f->place[i]] = (uint32_t)i;
  int status = FOPO_OK;
  for (size_t i = 0; i < f->levels.n && status == FOPO_OK; i++) {
    char text[512];
    int n = snprintf(text, sizeof text, "%.*s=%.200s", (int)(column.n < 200 ? column.n : 200),
                     column.at, f->levels.text + f->levels.offsets[at[i]]);
    status = fopo_names_append(names, room, text, (size_t)n);
  }
  fopo_free(at);
  return status;
}

/* Where each feature begins, and the names of all columns; `header` has the names. */
static int features_arrange(features *f, fopo_names *names, const table *header) {
  int status = FOPO_OK;
  size_t room = 0;
  f->width = 0;
  for (size_t i = 0; i < f->n && status == FOPO_OK; i++) {
    feature *one = &f->list[i];
    cell column = header->names[one->column];
    one->first = f->width;
    f->width += one->is_text ? one->levels.n : 1;
    if (one->is_text) {
      status = arrange_levels(one);
      if (status == FOPO_OK) status = name_levels(names, &room, one, column);
    } else {
      status = fopo_names_append(names, &room, column.at, column.n);
    }
  }
  return status;
}

static void features_spread(float *to, const features *f, size_t row) {
  const uint32_t *raw = f->raw + row * f->n;
  for (size_t i = 0; i < f->n; i++) {
    const feature *one = &f->list[i];
    if (one->is_text) {
      to[one->first + one->place[raw[i]]] = 1.0f;
    } else {
      memcpy(to + one->first, &raw[i], sizeof *to);
    }
  }
}

static int spread_all(fopo_matrix *contexts, const features *f, const char *path) {
  int status = fopo_memory_suffices(4 * (uint64_t)f->rows * f->width, path,
                                    "name fewer columns with features = \"...\"");
  if (status == FOPO_OK) status = fopo_matrix_init(contexts, f->rows, f->width);
  for (size_t i = 0; i < f->rows && status == FOPO_OK; i++) {
    features_spread(fopo_matrix_row(*contexts, i), f, i);
    if ((i + 1) % ROWS_AT_ONCE == 0)
      status = fopo_progress("making contexts", (double)i + 1, (double)f->rows);
  }
  return status;
}

/* ---- rows of events ---- */

typedef struct {
  int action, reward, propensity, position; /* columns */
  int obd;
  features f;
  fopo_events events;
  fopo_ids ids;        /* csv: of the actions */
  size_t n_items;      /* obd: affinity columns; 0: none */
  size_t largest;      /* obd: item seen */
  int second;          /* the second pass */
} reading;

typedef struct {
  double reward, propensity;
  int64_t number;  /* of the action, where is_plain */
  int is_plain;
} event;

static int read_number(pass *p, int column, double *x, const char *what) {
  cell c = p->r.cells[column];
  return fopo_events_number(x, c.at, c.n) ? FOPO_OK : reject_cell(p, column, what);
}

/* Action, reward and propensity of the row, checked. */
static int read_event(pass *p, const reading *g, event *e) {
  const char *why;
  int status = read_number(p, g->propensity, &e->propensity, "is no propensity");
  if (status == FOPO_OK && (why = fopo_events_refuse_propensity(e->propensity)) != NULL)
    status = reject_cell(p, g->propensity, why);
  if (status != FOPO_OK) return status;
  status = read_number(p, g->reward, &e->reward, "is no reward");
  if (status == FOPO_OK && (why = fopo_events_refuse_reward(e->reward)) != NULL)
    status = reject_cell(p, g->reward, why);
  if (status != FOPO_OK) return status;
  cell a = p->r.cells[g->action];
  size_t P = p->options->n_actions;
  e->is_plain = fopo_read_plain(&e->number, a.at, a.n);
  if (g->obd) {
    if (!e->is_plain || e->number < 0 || e->number >= (int64_t)UINT32_MAX / POSITIONS)
      return reject_cell(p, g->action, "is no item");
    if (g->n_items > 0 && (size_t)e->number >= g->n_items)
      return reject_cell(p, g->action, "is no item: there are fewer affinity columns");
  } else if (P > 0 && (!e->is_plain || e->number < 1 || (size_t)e->number > P)) {
    return reject_cell(p, g->action, "is no action of 1 .. n_actions");
  } else if (a.n == 0) {
    return reject_cell(p, g->action, "is no action: it is missing");
  }
  return FOPO_OK;
}

/* The event's position for obd; ROW_LEFT_OUT where another one is wanted. */
static int read_position(pass *p, const reading *g, size_t *position) {
  int64_t number;
  cell c = p->r.cells[g->position];
  if (!fopo_read_plain(&number, c.at, c.n) || number < 1 || number > POSITIONS)
    return reject_cell(p, g->position, "is no position of 1, 2, 3");
  *position = (size_t)number;
  return p->options->position == 0 || p->options->position == *position ? FOPO_OK : ROW_LEFT_OUT;
}

static int take_event(pass *p) {
  reading *g = p->data;
  event e;
  size_t position = 1;
  int status = read_event(p, g, &e);
  if (status == FOPO_OK && g->obd) status = read_position(p, g, &position);
  if (status != FOPO_OK) return status;
  if (!g->second) {
    if (g->obd && (size_t)e.number > g->largest) g->largest = (size_t)e.number;
    features_look(&g->f, &p->r);
    return FOPO_OK;
  }
  status = fopo_events_grow(&g->events);
  if (status == FOPO_OK) status = features_take(&g->f, p);
  if (status != FOPO_OK) return status;

  uint32_t action = (uint32_t)e.number;
  cell name = p->r.cells[g->action];
  if (g->obd && p->options->position == 0) {
    action = (uint32_t)((size_t)e.number * POSITIONS + position - 1);
    e.propensity /= POSITIONS;
  } else if (!g->obd && p->options->n_actions > 0) {
    action--;
  } else if (!g->obd) {
    status = e.is_plain ? fopo_ids_number(&g->ids, &action, e.number)
                        : fopo_ids_add(&g->ids, &action, name.at, name.n);
  }
  fopo_logs *logs = p->logs;
  logs->actions[logs->n] = action;
  logs->rewards[logs->n] = (float)e.reward;
  logs->propensities[logs->n] = (float)e.propensity;
  logs->n++;
  return status;
}

/* ---- the plan ---- */

static int starts(cell c, const char *with) {
  return c.n >= strlen(with) && strncasecmp(c.at, with, strlen(with)) == 0;
}

/* Affinities are counted: there is one for each item. */
static void plan_obd_features(reading *g, const table *r) {
  for (size_t c = 0; c < r->columns; c++)
    if (starts(r->names[c], "user_feature_")) features_add(&g->f, (int)c, 1);
  for (size_t c = 0; c < r->columns; c++) {
    if (!starts(r->names[c], "user-item_affinity_") && !starts(r->names[c], "user_item_affinity_"))
      continue;
    features_add(&g->f, (int)c, 0);
    g->n_items++;
  }
}

static int plan(reading *g, const table *r, const fopo_logs_options *o) {
  static const char *const actions[] = {"action", "item_id", "itemid", "item", "arm", NULL};
  static const char *const rewards[] = {"reward", "click", "clicked", "r", NULL};
  static const char *const propensities[] = {"propensity", "propensity_score", "pscore",
                                             "action_prob", "probability", "prob", "p", NULL};
  static const char *const positions[] = {"position", NULL};
  int status = role(r, &g->action, o->action, actions, "action");
  if (status == FOPO_OK) status = role(r, &g->reward, o->reward, rewards, "reward");
  if (status == FOPO_OK)
    status = role(r, &g->propensity, o->propensity, propensities, "propensity");
  if (status == FOPO_OK && g->obd)
    status = role(r, &g->position, NULL, positions, "format = \"csv\", and position");
  if (status == FOPO_OK) status = features_init(&g->f, r);
  if (status != FOPO_OK) return status;
  if (g->obd) {
    plan_obd_features(g, r);
  } else if (o->features != NULL) {
    status = features_named(&g->f, r, o->features);
  } else {
    for (size_t c = 0; c < r->columns; c++) {
      int i = (int)c, taken = i == g->action || i == g->reward || i == g->propensity;
      if (!taken && r->names[c].n > 0) features_add(&g->f, i, 0);
    }
  }
  if (status == FOPO_OK && g->f.n == 0)
    return fopo_fail(FOPO_ERR_FORMAT, "%s has no column for contexts beside action, reward and "
                     "propensity", r->t.path);
  return status;
}

/* ---- catalogues ---- */

/* What item_context.csv becomes: features by item. */
typedef struct {
  features f;
  int id;
  uint32_t *item; /* [f.rows] */
  size_t room;
  int second;
} item_reading;

static int take_item(pass *p) {
  item_reading *g = p->data;
  int64_t number;
  cell c = p->r.cells[g->id];
  if (!fopo_read_plain(&number, c.at, c.n) || number < 0 || number >= (int64_t)UINT32_MAX)
    return reject_cell(p, g->id, "is no item");
  if (!g->second) {
    features_look(&g->f, &p->r);
    return FOPO_OK;
  }
  if (g->f.rows == g->room) {
    size_t room = g->room == 0 ? 256 : 2 * g->room;
    uint32_t *item = fopo_realloc(g->item, room, sizeof *item);
    if (item == NULL) return FOPO_ERR_MEMORY;
    g->item = item;
    g->room = room;
  }
  g->item[g->f.rows] = (uint32_t)number;
  return features_take(&g->f, p);
}

static int plan_items(item_reading *g, const table *r) {
  static const char *const ids[] = {"item_id", "itemid", "item", NULL};
  int status = role(r, &g->id, NULL, ids, "item_id");
  if (status == FOPO_OK) status = features_init(&g->f, r);
  for (size_t c = 0; c < r->columns && status == FOPO_OK; c++)
    if ((int)c != g->id && r->names[c].n > 0) features_add(&g->f, (int)c, 0);
  return status;
}

/* Rows of items by id, at each position where an action is a pair; each item exactly once. */
static int place_items(fopo_logs *logs, const item_reading *g, size_t n_items, size_t each,
                       const char *path) {
  size_t L = g->f.width + (each > 1 ? each : 0);
  uint8_t *seen = fopo_alloc(n_items, 1);
  int status = seen != NULL ? fopo_matrix_init(&logs->items, n_items * each, L) : FOPO_ERR_MEMORY;
  for (size_t i = 0; i < g->f.rows && status == FOPO_OK; i++) {
    size_t item = g->item[i];
    if (item >= n_items) continue; /* the file lists one item more than was ever shown */
    if (seen[item]++)
      status = fopo_fail(FOPO_ERR_FORMAT, "%s holds item %zu twice", path, item);
    for (size_t at = 0; at < each && status == FOPO_OK; at++) {
      float *row = fopo_matrix_row(logs->items, item * each + at);
      features_spread(row, &g->f, i);
      if (each > 1) row[g->f.width + at] = 1.0f;
    }
  }
  for (size_t i = 0; i < n_items && status == FOPO_OK; i++)
    if (!seen[i]) status = fopo_fail(FOPO_ERR_FORMAT, "%s lacks item %zu", path, i);
  fopo_free(seen);
  return status;
}

static int read_items(fopo_logs *logs, const fopo_logs_options *o, size_t n_items, size_t each) {
  item_reading g = {0};
  fopo_names names = {0};
  fopo_logs_options strict = {0};
  size_t errors = 0;
  table header = {0};
  int status = open_table(&header, o->items);
  if (status == FOPO_OK) status = plan_items(&g, &header);
  for (g.second = 0; g.second < 2 && status == FOPO_OK; g.second++) {
    pass p = {.take = take_item, .logs = logs, .options = &strict, .errors = &errors,
              .counts = 1, .data = &g};
    status = run_pass(&p, o->items);
  }
  if (status == FOPO_OK) status = features_arrange(&g.f, &names, &header);
  if (status == FOPO_OK) status = place_items(logs, &g, n_items, each, o->items);
  close_table(&header);
  features_done(&g.f);
  fopo_names_done(&names);
  fopo_free(g.item);
  return status;
}

/* The catalogue of obd: items, or pairs "item 7 at 2". */
static int finish_obd(fopo_logs *logs, const reading *g, const fopo_logs_options *o,
                      const char *path) {
  size_t n_items = g->n_items > 0 ? g->n_items : g->largest + 1;
  size_t each = o->position == 0 ? POSITIONS : 1, room = 0;
  logs->n_actions = n_items * each;
  int status = fopo_read_plausible(path, 1, n_items, logs->n);
  if (status == FOPO_OK && each == 1) status = fopo_names_count(&logs->names, n_items);
  for (size_t i = 0; each > 1 && i < logs->n_actions && status == FOPO_OK; i++) {
    char name[64];
    int n = snprintf(name, sizeof name, "item %zu at %zu", i / each, i % each + 1);
    status = fopo_names_append(&logs->names, &room, name, (size_t)n);
  }
  if (status == FOPO_OK && o->items != NULL) status = read_items(logs, o, n_items, each);
  return status;
}

static int finish_csv(fopo_logs *logs, reading *g, const fopo_logs_options *o) {
  if (o->n_actions > 0) {
    logs->n_actions = o->n_actions;
    return FOPO_OK;
  }
  uint32_t *place = NULL;
  logs->n_actions = g->ids.n;
  int status = fopo_ids_finish(&logs->names, &place, &g->ids);
  for (size_t i = 0; place != NULL && i < logs->n; i++) logs->actions[i] = place[logs->actions[i]];
  fopo_free(place);
  if (status == FOPO_OK && logs->names.numbers == NULL && logs->names.text == NULL)
    status = fopo_names_count(&logs->names, logs->n_actions);
  return status;
}

int fopo_logs_read_table(fopo_logs *logs, const char *path, const fopo_logs_options *o, int obd) {
  reading g = {.obd = obd, .events = {.logs = logs}};
  table header = {0};
  size_t errors = 0;
  int status = open_table(&header, path);
  if (status == FOPO_OK) status = plan(&g, &header, o);
  for (g.second = 0; g.second < 2 && status == FOPO_OK; g.second++) {
    pass p = {.take = take_event, .logs = logs, .options = o, .errors = &errors,
              .counts = !g.second, .data = &g};
    status = run_pass(&p, path);
  }
  if (status == FOPO_OK) status = features_arrange(&g.f, &logs->features, &header);
  if (status == FOPO_OK && logs->n > 0) status = spread_all(&logs->contexts, &g.f, path);
  if (status == FOPO_OK) status = obd ? finish_obd(logs, &g, o, path) : finish_csv(logs, &g, o);
  close_table(&header);
  features_done(&g.f);
  fopo_ids_done(&g.ids);
  return status;
}
