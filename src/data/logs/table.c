/* Logs in tables: CSV with named columns, and the Open Bandit Dataset (Saito et al. 2021).
 *
 *   csv   a header and named columns; columns of texts become one-hot
 *   obd   contexts are the user features one-hot and the user-item affinities; items are those of
 *         item_context.csv, numeric and one-hot. The propensity in the file is that of the item at
 *         its position. With position = 0 an action is the pair (item, position) and its propensity
 *         is p / 3, since each of the three positions of a view is one event
 *
 * The file is read twice. The first pass checks action, reward and propensity of every row and
 * counts the numbers and texts of each feature column: nothing is guessed from a sample. The
 * second stores 32 bits for each feature of each event, a float or the index of a text. Then the
 * texts of a column are sorted, so that files of the same world have the same columns, and the
 * features are spread into contexts. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "data/logs/columns.h"
#include "data/logs/readers.h"
#include "data/number.h"
#include "data/pairs.h"

enum { POSITIONS = 3 }; /* positions of an Open Bandit view */

/* ---- rows of events ---- */

typedef struct {
  int action, reward, propensity, position; /* columns */
  int obd;
  fopo_features f;
  fopo_events events;
  fopo_ids ids;   /* csv: of the actions */
  size_t n_items; /* obd: affinity columns; 0: none */
  size_t largest; /* obd: the largest item so far */
  int second;     /* 1: the second pass */
} reading;

typedef struct {
  double reward, propensity;
  int64_t number; /* of the action, if is_plain */
  int is_plain;
} event;

static int read_number(fopo_log_pass *p, int column, double *x, const char *what) {
  fopo_chars c = p->r.cells[column];
  return fopo_events_number(x, c.at, c.n) ? FOPO_OK : fopo_log_reject_cell(p, column, what);
}

/* Action, reward and propensity of the row, checked. */
static int read_event(fopo_log_pass *p, const reading *g, event *e) {
  const char *why;
  int status = read_number(p, g->propensity, &e->propensity, "is not a propensity");
  if (status == FOPO_OK && (why = fopo_events_refuse_propensity(e->propensity)) != NULL) {
    status = fopo_log_reject_cell(p, g->propensity, why);
  }
  if (status != FOPO_OK) return status;
  status = read_number(p, g->reward, &e->reward, "is not a reward");
  if (status == FOPO_OK && (why = fopo_events_refuse_reward(e->reward)) != NULL) {
    status = fopo_log_reject_cell(p, g->reward, why);
  }
  if (status != FOPO_OK) return status;
  fopo_chars a = p->r.cells[g->action];
  size_t P = p->options->n_actions;
  e->is_plain = fopo_parse_plain(&e->number, a.at, a.n);
  if (g->obd) {
    if (!e->is_plain || e->number < 0 || e->number >= (int64_t)UINT32_MAX / POSITIONS) {
      return fopo_log_reject_cell(p, g->action, "is not an item");
    }
    if (g->n_items > 0 && (size_t)e->number >= g->n_items) {
      return fopo_log_reject_cell(p, g->action, "is not an item: there are fewer affinity columns");
    }
  } else if (P > 0 && (!e->is_plain || e->number < 1 || (size_t)e->number > P)) {
    return fopo_log_reject_cell(p, g->action, "is not an action of 1 .. n_actions");
  } else if (a.n == 0) {
    return fopo_log_reject_cell(p, g->action, "is not an action: it is missing");
  }
  return FOPO_OK;
}

/* obd: the event's position; FOPO_ROW_LEFT_OUT if the options ask for another one. */
static int read_position(fopo_log_pass *p, const reading *g, size_t *position) {
  int64_t number;
  fopo_chars c = p->r.cells[g->position];
  if (!fopo_parse_plain(&number, c.at, c.n) || number < 1 || number > POSITIONS) {
    return fopo_log_reject_cell(p, g->position, "is not a position of 1, 2, 3");
  }
  *position = (size_t)number;
  size_t wanted = p->options->position;
  return wanted == 0 || wanted == *position ? FOPO_OK : FOPO_ROW_LEFT_OUT;
}

static int take_event(fopo_log_pass *p) {
  reading *g = p->data;
  event e;
  size_t position = 1;
  int status = read_event(p, g, &e);
  if (status == FOPO_OK && g->obd) status = read_position(p, g, &position);
  if (status != FOPO_OK) return status;
  if (!g->second) {
    if (g->obd && (size_t)e.number > g->largest) g->largest = (size_t)e.number;
    fopo_features_look(&g->f, &p->r);
    return FOPO_OK;
  }
  status = fopo_events_reserve(&g->events);
  if (status == FOPO_OK) status = fopo_features_take(&g->f, p);
  if (status != FOPO_OK) return status;

  uint32_t action = (uint32_t)e.number;
  fopo_chars name = p->r.cells[g->action];
  if (g->obd && p->options->position == 0) {
    action = (uint32_t)((size_t)e.number * POSITIONS + position - 1);
    e.propensity /= POSITIONS;
  } else if (!g->obd && p->options->n_actions > 0) {
    action--;
  } else if (!g->obd) {
    status = e.is_plain ? fopo_ids_number(&g->ids, &action, e.number)
                        : fopo_ids_add(&g->ids, &action, name.at, name.n);
  }
  if (status != FOPO_OK) return status;
  return fopo_events_add(&g->events, NULL, action, e.reward, e.propensity);
}

/* ---- the plan ---- */

static int starts(fopo_chars c, const char *with) {
  return c.n >= strlen(with) && strncasecmp(c.at, with, strlen(with)) == 0;
}

/* Counts the affinities: there is one for each item. */
static void plan_obd_features(reading *g, const fopo_log_table *r) {
  for (size_t c = 0; c < r->columns; c++) {
    if (starts(r->names[c], "user_feature_")) fopo_features_add(&g->f, (int)c, 1);
  }
  for (size_t c = 0; c < r->columns; c++) {
    if (!starts(r->names[c], "user-item_affinity_") &&
        !starts(r->names[c], "user_item_affinity_")) {
      continue;
    }
    fopo_features_add(&g->f, (int)c, 0);
    g->n_items++;
  }
}

static int plan(reading *g, const fopo_log_table *r, const fopo_logs_options *o) {
  static const char *const actions[] = {"action", "item_id", "itemid", "item", "arm", NULL};
  static const char *const rewards[] = {"reward", "click", "clicked", "r", NULL};
  static const char *const propensities[] = {
      "propensity", "propensity_score", "pscore", "action_prob", "probability", "prob", "p", NULL};
  static const char *const positions[] = {"position", NULL};
  int status = fopo_log_role(r, &g->action, o->action, actions, "action");
  if (status == FOPO_OK) status = fopo_log_role(r, &g->reward, o->reward, rewards, "reward");
  if (status == FOPO_OK) {
    status = fopo_log_role(r, &g->propensity, o->propensity, propensities, "propensity");
  }
  if (status == FOPO_OK && g->obd) {
    status = fopo_log_role(r, &g->position, NULL, positions, "format = \"csv\", and position");
  }
  if (status == FOPO_OK) status = fopo_features_init(&g->f, r);
  if (status != FOPO_OK) return status;
  if (g->obd) {
    plan_obd_features(g, r);
  } else if (o->features != NULL) {
    status = fopo_features_named(&g->f, r, o->features);
  } else {
    for (size_t c = 0; c < r->columns; c++) {
      int i = (int)c, taken = i == g->action || i == g->reward || i == g->propensity;
      if (!taken && r->names[c].n > 0) fopo_features_add(&g->f, i, 0);
    }
  }
  if (status == FOPO_OK) status = fopo_features_categories(&g->f, r, o->categories);
  if (status == FOPO_OK && g->f.n == 0) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s has no column for contexts besides action, reward and "
                     "propensity",
                     r->t.path);
  }
  return status;
}

/* ---- catalogues ---- */

/* item_context.csv: features by item. */
typedef struct {
  fopo_features f;
  int id;
  uint32_t *item; /* [capacity] the item of each row */
  size_t capacity;
  int second; /* 1: the second pass */
} item_reading;

static int take_item(fopo_log_pass *p) {
  item_reading *g = p->data;
  int64_t number;
  fopo_chars c = p->r.cells[g->id];
  if (!fopo_parse_plain(&number, c.at, c.n) || number < 0 || number >= (int64_t)UINT32_MAX) {
    return fopo_log_reject_cell(p, g->id, "is not an item");
  }
  if (!g->second) {
    fopo_features_look(&g->f, &p->r);
    return FOPO_OK;
  }
  if (g->f.rows == g->capacity) {
    size_t capacity = g->capacity == 0 ? 256 : 2 * g->capacity;
    if (fopo_resize(&g->item, capacity, sizeof *g->item) != FOPO_OK) return FOPO_ERR_MEMORY;
    g->capacity = capacity;
  }
  g->item[g->f.rows] = (uint32_t)number;
  return fopo_features_take(&g->f, p);
}

static int plan_items(item_reading *g, const fopo_log_table *r) {
  static const char *const ids[] = {"item_id", "itemid", "item", NULL};
  int status = fopo_log_role(r, &g->id, NULL, ids, "item_id");
  if (status == FOPO_OK) status = fopo_features_init(&g->f, r);
  for (size_t c = 0; c < r->columns && status == FOPO_OK; c++) {
    if ((int)c != g->id && r->names[c].n > 0) fopo_features_add(&g->f, (int)c, 0);
  }
  return status;
}

/* logs->items: the features of each item, repeated for each of its `each` positions with one column
 * more per position. Every item must occur exactly once. */
static int place_items(fopo_logs *logs, const item_reading *g, size_t n_items, size_t each,
                       const char *path) {
  size_t L = g->f.width + (each > 1 ? each : 0);
  uint8_t *seen = fopo_alloc(n_items, 1);
  int status = seen != NULL ? fopo_matrix_init(&logs->items, n_items * each, L) : FOPO_ERR_MEMORY;
  for (size_t i = 0; i < g->f.rows && status == FOPO_OK; i++) {
    size_t item = g->item[i];
    if (item >= n_items) continue; /* the data set lists one item more than was ever shown */
    if (seen[item]++) status = fopo_fail(FOPO_ERR_FORMAT, "%s holds item %zu twice", path, item);
    for (size_t at = 0; at < each && status == FOPO_OK; at++) {
      float *row = fopo_matrix_row(logs->items, item * each + at);
      fopo_features_spread(row, &g->f, i);
      if (each > 1) row[g->f.width + at] = 1.0f;
    }
  }
  for (size_t i = 0; i < n_items && status == FOPO_OK; i++) {
    if (!seen[i]) status = fopo_fail(FOPO_ERR_FORMAT, "%s lacks item %zu", path, i);
  }
  fopo_free(seen);
  return status;
}

static int read_items(fopo_logs *logs, const fopo_logs_options *o, size_t n_items, size_t each) {
  item_reading g = {0};
  fopo_names names = {0};
  fopo_logs_options strict = {0};
  size_t errors = 0;
  fopo_log_table header = {0};
  int status = fopo_log_table_open(&header, o->items);
  if (status == FOPO_OK) status = plan_items(&g, &header);
  for (g.second = 0; g.second < 2 && status == FOPO_OK; g.second++) {
    fopo_log_pass p = {.take = take_item,
                       .logs = logs,
                       .options = &strict,
                       .errors = &errors,
                       .counts = 1,
                       .data = &g};
    status = fopo_log_pass_run(&p, o->items);
    fopo_features_decide(&g.f);
  }
  if (status == FOPO_OK) status = fopo_features_arrange(&g.f, &names, &header);
  if (status == FOPO_OK) status = place_items(logs, &g, n_items, each, o->items);
  fopo_log_table_close(&header);
  fopo_features_done(&g.f);
  fopo_names_done(&names);
  fopo_free(g.item);
  return status;
}

/* The catalogue of obd: items, or pairs "item 7 at 2". */
static int finish_obd(fopo_logs *logs, const reading *g, const fopo_logs_options *o,
                      const char *path) {
  size_t n_items = g->n_items > 0 ? g->n_items : g->largest + 1;
  size_t each = o->position == 0 ? POSITIONS : 1, capacity = 0;
  logs->n_actions = n_items * each;
  int status = fopo_pairs_check_shape(path, 1, n_items, logs->n);
  if (status == FOPO_OK && each == 1) status = fopo_names_count(&logs->names, n_items);
  for (size_t i = 0; each > 1 && i < logs->n_actions && status == FOPO_OK; i++) {
    char name[64];
    int n = snprintf(name, sizeof name, "item %zu at %zu", i / each, i % each + 1);
    status = fopo_names_append(&logs->names, &capacity, name, (size_t)n);
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
  if (status == FOPO_OK && logs->names.numbers == NULL && logs->names.text == NULL) {
    status = fopo_names_count(&logs->names, logs->n_actions);
  }
  return status;
}

static int read_table(fopo_logs *logs, const char *path, const fopo_logs_options *o, int obd) {
  reading g = {.obd = obd, .events = {.logs = logs}};
  fopo_log_table header = {0};
  size_t errors = 0;
  int status = fopo_log_table_open(&header, path);
  if (status == FOPO_OK) status = plan(&g, &header, o);
  for (g.second = 0; g.second < 2 && status == FOPO_OK; g.second++) {
    fopo_log_pass p = {.take = take_event,
                       .logs = logs,
                       .options = o,
                       .errors = &errors,
                       .counts = !g.second,
                       .data = &g};
    status = fopo_log_pass_run(&p, path);
    fopo_features_decide(&g.f);
  }
  if (status == FOPO_OK) status = fopo_features_arrange(&g.f, &logs->features, &header);
  if (status == FOPO_OK && logs->n > 0) {
    status = fopo_features_matrix(&logs->contexts, &g.f, header.t.path);
  }
  if (status == FOPO_OK) {
    status = obd ? finish_obd(logs, &g, o, header.t.path) : finish_csv(logs, &g, o);
  }
  fopo_log_table_close(&header);
  fopo_features_done(&g.f);
  fopo_ids_done(&g.ids);
  return status;
}

static int read_csv(fopo_logs *logs, const char *path, const fopo_logs_options *o) {
  return read_table(logs, path, o, 0);
}

static int read_obd(fopo_logs *logs, const char *path, const fopo_logs_options *o) {
  return read_table(logs, path, o, 1);
}

/* ---- recognition ---- */

static int line_has(const char *at, const char *end, const char *word) {
  return memmem(at, (size_t)(end - at), word, strlen(word)) != NULL;
}

static int sniff_obd(const fopo_text *t) {
  const char *p = t->at;
  while (p < t->stop && isspace((unsigned char)*p)) p++;
  const char *end = memchr(p, '\n', (size_t)(t->stop - p));
  if (end == NULL) end = t->stop;
  return line_has(p, end, "propensity_score") && line_has(p, end, "item_id") &&
         line_has(p, end, "position") && line_has(p, end, "click");
}

/* Any text may be a table. */
static int sniff_csv(const fopo_text *t) {
  (void)t;
  return 1;
}

const fopo_log_reader fopo_log_reader_obd = {
    .name = "obd",
    .what = "the Open Bandit Dataset: item_id, position, click, propensity_score",
    .sniff = sniff_obd,
    .read_file = read_obd};

const fopo_log_reader fopo_log_reader_csv = {
    .name = "csv",
    .what = "a header and named columns; columns of texts become one-hot",
    .sniff = sniff_csv,
    .read_file = read_csv};
