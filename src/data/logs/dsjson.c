/* Logs in dsjson, the form of Vowpal Wabbit's decision service: one JSON object a line,
 *
 *   {"_label_cost": -1, "_label_probability": 0.8, "_label_Action": 2, ...,
 *    "c": {shared features, "_multi": [{features of action 1}, {features of action 2}, ...]}}
 *
 * A strict parser (data/json_walk.h) walks over each line.
 *
 * Features are hashed (hashed.h): "key": "text" as key=text with the value 1, "key": 0.5 as key
 * with its value, true as 1. The names of the objects around it are part of the name; keys that
 * begin with _ are no features. Escapes in strings are checked but not decoded: a name is hashed as
 * it is written. The last column of the contexts is always 1. An action is known by the text of its
 * features, and all events must offer the same ones. */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "data/json_walk.h"
#include "data/logs/hashed.h"
#include "data/logs/readers.h"

enum { PATH_MOST = 512 };

typedef struct {
  fopo_text *t; /* not owned */
  const fopo_logs_options *options;
  fopo_logs *logs;
  fopo_events events;
  size_t errors;            /* malformed events so far */
  float *row;               /* [2^bits + 1] the context being read */
  fopo_catalogue catalogue; /* of the first event; its bits are those of all features */
  size_t names_capacity;    /* bytes of logs->names.text */
  size_t event;             /* number of the line's event, from 1 */
  uint32_t *actions;        /* [actions_capacity] offered in the event, in its order */
  size_t n_actions, actions_capacity;
  /* the line */
  fopo_walk walk; /* .why "": a failure whose sentence is set */
  double cost, probability, drop;
  int64_t label; /* 1-based, 0: none */
  int has_context, skip_learn;
} reading;

/* ---- members ---- */

static reading *reader(const fopo_walk *w) { return w->owner; }

static int is_key(fopo_chars key, const char *name) {
  return key.at != NULL && key.n == strlen(name) && memcmp(key.at, name, key.n) == 0;
}

static int number_of(fopo_walk *w, double *value) {
  return fopo_walk_peek(w) == FOPO_WALK_NUMBER
             ? fopo_walk_number(w, value)
             : fopo_walk_wrong(w, "has a label that is not a number");
}

/* ---- features ---- */

typedef struct {
  float *row;           /* what features are added to */
  char path[PATH_MOST]; /* names of the objects around, each followed by '.' */
  size_t n;
} place;

static void add_feature(reading *g, const place *at, fopo_chars key, fopo_chars text,
                        double value) {
  char name[PATH_MOST];
  int n = snprintf(name, sizeof name, "%.*s%s%.*s", (int)(key.n < 200 ? key.n : 200), key.at,
                   text.at != NULL ? "=" : "", (int)(text.n < 250 ? text.n : 250),
                   text.at != NULL ? text.at : "");
  fopo_feature_add(at->row, g->catalogue.bits, at->path, at->n, name, (size_t)n, value);
}

static int take_actions(fopo_walk *w, int depth);

static int take_feature(fopo_walk *w, fopo_chars key, void *data, int depth) {
  reading *g = reader(w);
  place *at = data, deeper;
  fopo_chars text = {NULL, 0};
  double x = 1.0;
  if (is_key(key, "_multi") && depth == 2) return take_actions(w, depth);
  if (key.at != NULL && key.n > 0 && *key.at == '_') return fopo_walk_skip(w, depth);
  if (key.at == NULL) key = (fopo_chars){"", 0};
  /* A word, number or string is a feature; an object or a list holds features. */
  int is = fopo_walk_peek(w);
  switch (is) {
  case FOPO_WALK_NULL:
  case FOPO_WALK_FALSE: return fopo_walk_skip(w, depth);
  case FOPO_WALK_TRUE: add_feature(g, at, key, text, 1.0); return fopo_walk_skip(w, depth);
  case FOPO_WALK_NUMBER:
    if (!fopo_walk_number(w, &x)) return 0;
    if (!(fabs(x) <= (double)FLT_MAX)) {
      return fopo_walk_wrong(w, "has a feature that is not finite");
    }
    add_feature(g, at, key, text, x);
    return 1;
  case FOPO_WALK_STRING:
    if (!fopo_walk_string(w, &text)) return 0;
    add_feature(g, at, key, text, 1.0);
    return 1;
  case FOPO_WALK_OBJECT:
  case FOPO_WALK_ARRAY: break;
  default: return 0;
  }
  /* Inside, the name of the object is a prefix of the names. */
  deeper = *at;
  if (key.n > 0) {
    int n = snprintf(deeper.path + at->n, sizeof deeper.path - at->n, "%.*s.", (int)key.n, key.at);
    if (at->n + (size_t)n >= sizeof deeper.path) return fopo_walk_wrong(w, "has names too long");
    deeper.n = at->n + (size_t)n;
  }
  return fopo_walk_each(w, take_feature, &deeper, depth);
}

/* ---- actions ---- */

static int find_tag(fopo_walk *w, fopo_chars key, void *data, int depth) {
  fopo_chars *tag = data;
  if (is_key(key, "_tag") && fopo_walk_peek(w) == FOPO_WALK_STRING) return fopo_walk_string(w, tag);
  return fopo_walk_skip(w, depth);
}

/* The features and the name of the new action at w->at. Its name is its tag, or else its text. */
static int learn_action(fopo_walk *w, uint32_t index, int depth) {
  reading *g = reader(w);
  const char *start = w->at;
  fopo_chars tag = {NULL, 0};
  place at = {.row = fopo_catalogue_row(&g->catalogue, index)};
  if (!fopo_walk_each(w, take_feature, &at, depth)) return 0;
  const char *stop = w->at;
  w->at = start;
  fopo_walk_each(w, find_tag, &tag, depth); /* what was good JSON before is so again */
  if (tag.at == NULL) tag = (fopo_chars){start, (size_t)(stop - start)};
  if (fopo_names_append(&g->logs->names, &g->names_capacity, tag.at, tag.n) == FOPO_OK) return 1;
  return fopo_walk_wrong(w, "");
}

/* Capacity for one more action of the event. */
static int reserve_action(reading *g) {
  if (g->n_actions < g->actions_capacity) return FOPO_OK;
  size_t capacity = g->actions_capacity == 0 ? 16 : 2 * g->actions_capacity;
  if (fopo_resize(&g->actions, capacity, sizeof *g->actions) != FOPO_OK) return FOPO_ERR_MEMORY;
  g->actions_capacity = capacity;
  return FOPO_OK;
}

static int take_action(fopo_walk *w, fopo_chars key, void *data, int depth) {
  (void)key, (void)data;
  reading *g = reader(w);
  uint32_t index;
  fopo_offer offer;
  if (fopo_walk_peek(w) != FOPO_WALK_OBJECT) {
    return fopo_walk_wrong(w, "has an action in c._multi that is not an object");
  }
  const char *start = w->at;
  if (!fopo_walk_skip(w, depth)) return 0;
  size_t n = (size_t)(w->at - start);
  int status = fopo_catalogue_offer(&g->catalogue, &index, &offer, g->event, start, n);
  if (status == FOPO_OK) status = reserve_action(g);
  if (status != FOPO_OK) return fopo_walk_wrong(w, "");
  g->actions[g->n_actions++] = index;
  switch (offer) {
  case FOPO_ACTION_KNOWN: break;
  case FOPO_ACTION_NEW: w->at = start; return learn_action(w, index, depth);
  case FOPO_ACTION_FOREIGN:
    return fopo_walk_wrong(
        w, "offers an action that the first event does not; a policy here chooses from "
           "one fixed catalogue");
  case FOPO_ACTION_TWICE: return fopo_walk_wrong(w, "offers two actions with the same features");
  }
  return 1;
}

static int take_actions(fopo_walk *w, int depth) {
  if (reader(w)->n_actions > 0 || fopo_walk_peek(w) != FOPO_WALK_ARRAY) {
    return fopo_walk_wrong(w, "has a c._multi that is not a list");
  }
  return fopo_walk_each(w, take_action, NULL, depth);
}

/* ---- events ---- */

static int take_top(fopo_walk *w, fopo_chars key, void *data, int depth) {
  reading *g = reader(w);
  double x;
  (void)data;
  if (is_key(key, "_label_cost")) return number_of(w, &g->cost);
  if (is_key(key, "_label_probability")) return number_of(w, &g->probability);
  if (is_key(key, "pdrop")) return number_of(w, &g->drop);
  if (is_key(key, "_label_Action")) {
    if (!number_of(w, &x)) return 0;
    g->label = x >= 1.0 && x < 4e9 && x == floor(x) ? (int64_t)x : -1;
    return 1;
  }
  if (is_key(key, "_skipLearn")) {
    g->skip_learn = fopo_walk_peek(w) == FOPO_WALK_TRUE;
    return fopo_walk_skip(w, depth);
  }
  if (is_key(key, "c") && fopo_walk_peek(w) == FOPO_WALK_OBJECT) {
    place at = {.row = g->row};
    g->has_context = 1;
    return fopo_walk_each(w, take_feature, &at, depth);
  }
  return fopo_walk_skip(w, depth);
}

/* While the catalogue is open, every event before was malformed, and so were its actions. */
static void forget_catalogue(reading *g) {
  fopo_catalogue_reset(&g->catalogue);
  fopo_names_done(&g->logs->names);
  g->names_capacity = 0;
}

/* What is wrong with the event of a line that is good JSON, or NULL. */
static const char *judge(const reading *g) {
  if (g->n_actions == 0) {
    return "has no c._multi: only logs with the features of their actions are read";
  }
  if (g->catalogue.size > 0 && g->n_actions != g->catalogue.size) {
    return "offers fewer actions than the first event; a policy here chooses from one fixed "
           "catalogue";
  }
  if (g->label < 1 || (size_t)g->label > g->n_actions) {
    return "has a _label_Action that is none of its actions";
  }
  if (g->drop != 0.0) return "was thinned out (pdrop), which is not supported";
  const char *why = fopo_events_refuse_propensity(g->probability);
  return why != NULL ? why : fopo_events_refuse_reward(g->cost);
}

static int refuse(reading *g, const char *line) {
  const fopo_walk *w = &g->walk;
  if (*w->why == '\0') return FOPO_ERR_MEMORY; /* the sentence is set */
  const char *from = w->at < w->end ? w->at : line;
  return fopo_events_reject(g->logs, &g->errors, g->options, g->t, g->t->line, 0, from,
                            (size_t)(w->end - from), w->why);
}

static int take_line(void *data, const char *p, const char *end) {
  reading *g = data;
  fopo_logs *logs = g->logs;
  size_t D = g->events.D;
  fopo_walk *w = &g->walk;
  *w = (fopo_walk){.at = p, .end = end, .owner = g};
  g->cost = g->probability = NAN;
  g->drop = 0.0;
  g->label = 0;
  g->has_context = g->skip_learn = 0;
  g->n_actions = 0;
  g->event++;
  memset(g->row, 0, D * sizeof *g->row);
  /* Parse: labels, context and offered actions, or w->why. */
  if (g->catalogue.size == 0) forget_catalogue(g);
  if (p + strspn(p, " \t\r") >= end) return FOPO_OK;
  fopo_walk_object(w, take_top, NULL);
  if (w->why == NULL && (g->skip_learn || (!g->has_context && g->label == 0))) {
    logs->skipped++; /* a late observation, or an event that says not to learn from it */
    return FOPO_OK;
  }
  if (w->why == NULL) w->why = judge(g);
  if (w->why != NULL) return refuse(g, p);

  if (g->catalogue.size == 0) g->catalogue.size = g->n_actions;
  g->row[D - 1] = 1.0f;
  double reward = 0.0 - g->cost; /* not -cost: a cost of 0 gives 0, not -0 */
  return fopo_events_add(&g->events, g->row, g->actions[g->label - 1], reward, g->probability);
}

static int read_dsjson(fopo_logs *logs, fopo_text *t, const fopo_logs_options *o) {
  size_t bits = o->hash_bits > 0 ? o->hash_bits : 8;
  reading g = {.t = t, .options = o, .logs = logs, .catalogue.bits = bits};
  g.events = (fopo_events){.logs = logs, .D = ((size_t)1 << bits) + 1};
  g.row = fopo_alloc(g.events.D, sizeof *g.row);
  int status = g.row != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_text_each_line(t, take_line, &g);
  logs->contexts = fopo_matrix_view(logs->contexts.x, logs->n, g.events.D);
  if (status == FOPO_OK && logs->n > 0) {
    logs->n_actions = g.catalogue.size;
    logs->items = fopo_matrix_view(g.catalogue.items, g.catalogue.size, (size_t)1 << bits);
    g.catalogue.items = NULL;
  }
  fopo_catalogue_done(&g.catalogue);
  fopo_free(g.actions);
  fopo_free(g.row);
  return status;
}

static int sniff(const fopo_text *t) {
  const char *p = t->at;
  while (p < t->stop && isspace((unsigned char)*p)) p++;
  return p < t->stop && *p == '{';
}

const fopo_log_reader fopo_log_reader_dsjson = {
    .name = "dsjson",
    .what = "JSON lines: _label_cost, _label_probability, _label_Action, c._multi",
    .sniff = sniff,
    .read = read_dsjson};
