/* Logs in dsjson, the form of Vowpal Wabbit's decision service: one JSON object a line,
 *
 *   {"_label_cost": -1, "_label_probability": 0.8, "_label_Action": 2, ...,
 *    "c": {shared features, "_multi": [{features of action 1}, {features of action 2}, ...]}}
 *
 * The parser is strict (RFC 8259) and builds no tree: it walks over the text once and calls a
 * function for each member of an object or list.
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
#include "data/logs/events.h"
#include "data/logs/hashed.h"
#include "data/number.h"

enum { DEPTH_MOST = 64, PATH_MOST = 512 };

typedef struct {
  const char *at;
  size_t n;
} span;

typedef enum { IS_NULL, IS_FALSE, IS_TRUE, IS_NUMBER, IS_STRING, IS_OBJECT, IS_ARRAY } kind;

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
  const char *at, *end;
  const char *why; /* what is wrong with it, or NULL; "": a failure whose sentence is set */
  double cost, probability, drop;
  int64_t label; /* 1-based, 0: none */
  int has_context, skip_learn;
} reading;

/* ---- JSON ---- */

/* Keeps the first thing that is wrong with the line. Returns 0, as all parsing functions do then.
 */
static int wrong(reading *g, const char *why) {
  if (g->why == NULL) g->why = why;
  return 0;
}

static void skip_blanks(reading *g) {
  while (g->at < g->end && (*g->at == ' ' || *g->at == '\t' || *g->at == '\r')) g->at++;
}

/* Passes the byte and returns 1, or returns 0. */
static int take(reading *g, char c) {
  skip_blanks(g);
  if (g->at >= g->end || *g->at != c) return 0;
  g->at++;
  return 1;
}

static int take_string(reading *g, span *s) {
  if (!take(g, '"')) return wrong(g, "is not valid JSON: a string is expected");
  const char *start = g->at;
  for (; g->at < g->end && *g->at != '"'; g->at++) {
    if ((unsigned char)*g->at < 32) {
      return wrong(g, "is not valid JSON: a control byte inside a string");
    }
    if (*g->at != '\\') continue;
    g->at++;
    if (g->at >= g->end || strchr("\"\\/bfnrtu", *g->at) == NULL) {
      return wrong(g, "is not valid JSON: an unknown escape");
    }
    if (*g->at != 'u') continue;
    for (int i = 1; i <= 4; i++) {
      if (g->at + i >= g->end || !isxdigit((unsigned char)g->at[i])) {
        return wrong(g, "is not valid JSON: \\u needs four hexadecimal digits");
      }
    }
    g->at += 4;
  }
  *s = (span){start, (size_t)(g->at - start)};
  return take(g, '"') || wrong(g, "is not valid JSON: a string is not closed");
}

/* -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static int take_number(reading *g, double *value) {
  const char *start = g->at, *p = start + (*start == '-');
  const char *whole = p;
  while (p < g->end && isdigit((unsigned char)*p)) p++;
  int good = p > whole && !(*whole == '0' && p - whole > 1);
  if (good && p < g->end && *p == '.') {
    const char *point = p++;
    while (p < g->end && isdigit((unsigned char)*p)) p++;
    good = p > point + 1;
  }
  if (good && p < g->end && (*p == 'e' || *p == 'E')) {
    p++;
    if (p < g->end && (*p == '-' || *p == '+')) p++;
    const char *exponent = p;
    while (p < g->end && isdigit((unsigned char)*p)) p++;
    good = p > exponent;
  }
  g->at = p;
  if (!good || fopo_parse_real(value, start, (size_t)(p - start)) == FOPO_NO_NUMBER) {
    return wrong(g, "is not valid JSON: a number or another value is expected");
  }
  return 1;
}

/* The kind of the value at g->at, which is not passed; -1 at the end of the line. */
static int peek(reading *g) {
  skip_blanks(g);
  if (g->at >= g->end) return wrong(g, "is not valid JSON: it is cut short"), -1;
  static const struct {
    const char *word;
    kind is;
  } words[] = {{"null", IS_NULL}, {"false", IS_FALSE}, {"true", IS_TRUE}};
  for (size_t i = 0; i < 3; i++) {
    size_t n = strlen(words[i].word);
    if ((size_t)(g->end - g->at) >= n && memcmp(g->at, words[i].word, n) == 0) {
      return (int)words[i].is;
    }
  }
  switch (*g->at) {
  case '"': return IS_STRING;
  case '{': return IS_OBJECT;
  case '[': return IS_ARRAY;
  default: return IS_NUMBER;
  }
}

static void pass_word(reading *g, kind is) { g->at += is == IS_FALSE ? 5 : 4; }

static int skip_value(reading *g, int depth);

/* Called with g->at at the value of a key, or at an element of a list (key.at is NULL), which it
 * must pass. depth: objects and lists around it. */
typedef int on_member(reading *g, span key, void *data, int depth);

static int each_member(reading *g, on_member *member, void *data, int depth) {
  if (depth > DEPTH_MOST) return wrong(g, "is nested more than 64 deep");
  int object = *g->at == '{';
  g->at++;
  if (take(g, object ? '}' : ']')) return 1;
  do {
    span key = {NULL, 0};
    if (object && !take_string(g, &key)) return 0;
    if (object && !take(g, ':')) return wrong(g, "is not valid JSON: a colon is expected");
    if (!member(g, key, data, depth + 1)) return 0;
  } while (take(g, ','));
  return take(g, object ? '}' : ']') ||
         wrong(g, "is not valid JSON: a comma or a bracket is expected");
}

static int skip_member(reading *g, span key, void *data, int depth) {
  (void)key, (void)data;
  return skip_value(g, depth);
}

static int skip_value(reading *g, int depth) {
  span s;
  double x;
  switch (peek(g)) {
  case IS_NULL: pass_word(g, IS_NULL); return 1;
  case IS_FALSE: pass_word(g, IS_FALSE); return 1;
  case IS_TRUE: pass_word(g, IS_TRUE); return 1;
  case IS_NUMBER: return take_number(g, &x);
  case IS_STRING: return take_string(g, &s);
  case IS_OBJECT:
  case IS_ARRAY: return each_member(g, skip_member, NULL, depth);
  default: return 0;
  }
}

static int is_key(span key, const char *name) {
  return key.at != NULL && key.n == strlen(name) && memcmp(key.at, name, key.n) == 0;
}

static int number_of(reading *g, double *value) {
  return peek(g) == IS_NUMBER ? take_number(g, value)
                              : wrong(g, "has a label that is not a number");
}

/* ---- features ---- */

typedef struct {
  float *row;           /* what features are added to */
  char path[PATH_MOST]; /* names of the objects around, each followed by '.' */
  size_t n;
} place;

static void add_feature(reading *g, const place *at, span key, span text, double value) {
  char name[PATH_MOST];
  int n = snprintf(name, sizeof name, "%.*s%s%.*s", (int)(key.n < 200 ? key.n : 200), key.at,
                   text.at != NULL ? "=" : "", (int)(text.n < 250 ? text.n : 250),
                   text.at != NULL ? text.at : "");
  fopo_feature_add(at->row, g->catalogue.bits, at->path, at->n, name, (size_t)n, value);
}

static int take_actions(reading *g, int depth);

static int take_feature(reading *g, span key, void *data, int depth) {
  place *at = data, deeper;
  span text = {NULL, 0};
  double x = 1.0;
  if (is_key(key, "_multi") && depth == 2) return take_actions(g, depth);
  if (key.at != NULL && key.n > 0 && *key.at == '_') return skip_value(g, depth);
  if (key.at == NULL) key = (span){"", 0};
  /* A word, number or string is a feature; an object or a list holds features. */
  int is = peek(g);
  switch (is) {
  case IS_NULL:
  case IS_FALSE: pass_word(g, (kind)is); return 1;
  case IS_TRUE:
    pass_word(g, IS_TRUE);
    add_feature(g, at, key, text, 1.0);
    return 1;
  case IS_NUMBER:
    if (!take_number(g, &x)) return 0;
    if (!(fabs(x) <= (double)FLT_MAX)) return wrong(g, "has a feature that is not finite");
    add_feature(g, at, key, text, x);
    return 1;
  case IS_STRING:
    if (!take_string(g, &text)) return 0;
    add_feature(g, at, key, text, 1.0);
    return 1;
  case IS_OBJECT:
  case IS_ARRAY: break;
  default: return 0;
  }
  /* Inside, the name of the object is a prefix of the names. */
  deeper = *at;
  if (key.n > 0) {
    int n = snprintf(deeper.path + at->n, sizeof deeper.path - at->n, "%.*s.", (int)key.n, key.at);
    if (at->n + (size_t)n >= sizeof deeper.path) return wrong(g, "has names too long");
    deeper.n = at->n + (size_t)n;
  }
  return each_member(g, take_feature, &deeper, depth);
}

/* ---- actions ---- */

static int find_tag(reading *g, span key, void *data, int depth) {
  span *tag = data;
  if (is_key(key, "_tag") && peek(g) == IS_STRING) return take_string(g, tag);
  return skip_value(g, depth);
}

/* The features and the name of the new action at g->at. Its name is its tag, or else its text. */
static int learn_action(reading *g, uint32_t index, int depth) {
  const char *start = g->at;
  span tag = {NULL, 0};
  place at = {.row = fopo_catalogue_row(&g->catalogue, index)};
  if (!each_member(g, take_feature, &at, depth)) return 0;
  const char *stop = g->at;
  g->at = start;
  if (!each_member(g, find_tag, &tag, depth)) return 0;
  if (tag.at == NULL) tag = (span){start, (size_t)(stop - start)};
  if (fopo_names_append(&g->logs->names, &g->names_capacity, tag.at, tag.n) == FOPO_OK) return 1;
  return wrong(g, "");
}

/* Capacity for one more action of the event. */
static int reserve_action(reading *g) {
  if (g->n_actions < g->actions_capacity) return FOPO_OK;
  size_t capacity = g->actions_capacity == 0 ? 16 : 2 * g->actions_capacity;
  uint32_t *actions = fopo_realloc(g->actions, capacity, sizeof *actions);
  if (actions == NULL) return FOPO_ERR_MEMORY;
  g->actions = actions;
  g->actions_capacity = capacity;
  return FOPO_OK;
}

static int take_action(reading *g, span key, void *data, int depth) {
  (void)key, (void)data;
  uint32_t index;
  fopo_offer offer;
  if (peek(g) != IS_OBJECT) return wrong(g, "has an action in c._multi that is not an object");
  const char *start = g->at;
  if (!skip_value(g, depth)) return 0;
  size_t n = (size_t)(g->at - start);
  int status = fopo_catalogue_offer(&g->catalogue, &index, &offer, g->event, start, n);
  if (status == FOPO_OK) status = reserve_action(g);
  if (status != FOPO_OK) return wrong(g, "");
  g->actions[g->n_actions++] = index;
  switch (offer) {
  case FOPO_ACTION_KNOWN: break;
  case FOPO_ACTION_NEW: g->at = start; return learn_action(g, index, depth);
  case FOPO_ACTION_FOREIGN:
    return wrong(g, "offers an action that the first event does not; a policy here chooses from "
                    "one fixed catalogue");
  case FOPO_ACTION_TWICE: return wrong(g, "offers two actions with the same features");
  }
  return 1;
}

static int take_actions(reading *g, int depth) {
  if (g->n_actions > 0 || peek(g) != IS_ARRAY) return wrong(g, "has a c._multi that is not a list");
  return each_member(g, take_action, NULL, depth);
}

/* ---- events ---- */

static int take_top(reading *g, span key, void *data, int depth) {
  double x;
  (void)data;
  if (is_key(key, "_label_cost")) return number_of(g, &g->cost);
  if (is_key(key, "_label_probability")) return number_of(g, &g->probability);
  if (is_key(key, "pdrop")) return number_of(g, &g->drop);
  if (is_key(key, "_label_Action")) {
    if (!number_of(g, &x)) return 0;
    g->label = x >= 1.0 && x < 4e9 && x == floor(x) ? (int64_t)x : -1;
    return 1;
  }
  if (is_key(key, "_skipLearn")) {
    g->skip_learn = peek(g) == IS_TRUE;
    return skip_value(g, depth);
  }
  if (is_key(key, "c") && peek(g) == IS_OBJECT) {
    place at = {.row = g->row};
    g->has_context = 1;
    return each_member(g, take_feature, &at, depth);
  }
  return skip_value(g, depth);
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
  if (*g->why == '\0') return FOPO_ERR_MEMORY; /* the sentence is set */
  const char *from = g->at < g->end ? g->at : line;
  return fopo_events_reject(g->logs, &g->errors, g->options, g->t, g->t->line, 0, from,
                            (size_t)(g->end - from), g->why);
}

static int take_line(void *data, const char *p, const char *end) {
  reading *g = data;
  fopo_logs *logs = g->logs;
  size_t D = g->events.D;
  g->at = p;
  g->end = end;
  g->why = NULL;
  g->cost = g->probability = NAN;
  g->drop = 0.0;
  g->label = 0;
  g->has_context = g->skip_learn = 0;
  g->n_actions = 0;
  g->event++;
  memset(g->row, 0, D * sizeof *g->row);
  /* Parse: labels, context and offered actions, or g->why. */
  if (g->catalogue.size == 0) forget_catalogue(g);
  skip_blanks(g);
  if (g->at == end) return FOPO_OK;
  if (*g->at != '{') wrong(g, "is not a JSON object");
  if (g->why == NULL && each_member(g, take_top, NULL, 0)) {
    skip_blanks(g);
    if (g->at < end) wrong(g, "is not valid JSON: something follows the object");
  }
  if (g->why == NULL && (g->skip_learn || (!g->has_context && g->label == 0))) {
    logs->skipped++; /* a late observation, or an event that says not to learn from it */
    return FOPO_OK;
  }
  if (g->why == NULL) g->why = judge(g);
  if (g->why != NULL) return refuse(g, p);

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
