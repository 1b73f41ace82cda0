/* Logs in Vowpal Wabbit's text, plain and ADF (action-dependent features).
 *
 *   plain   "action:cost:prob tag| features"; with --cb_eval's leading action, too
 *   ADF     "shared | features" and one line an action, "0:cost:prob | features" for the chosen
 *           one; a blank line ends the event. An action is known by its features, and all events
 *           must offer the same ones
 *
 * Features stand behind bars: "|space:weight name:value name ...". They are hashed (hashed.h), and
 * the last column of the contexts is always 1. */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "data/logs/hashed.h"
#include "data/logs/readers.h"
#include "data/number.h"
#include "data/pairs.h"

/* ---- lines ---- */

typedef struct {
  fopo_text *t; /* not owned */
  const fopo_logs_options *options;
  fopo_logs *logs;
  fopo_events events;
  size_t errors, largest;   /* malformed events; largest action of plain lines */
  float *row;               /* [2^bits + 1] the context being read */
  fopo_catalogue catalogue; /* ADF: of the first event; its bits are those of all features */
  /* ADF: the event being read */
  int adf, in_event, bad;
  size_t n_offered, event, first_line;
  int64_t chosen; /* the action with the label, or -1 */
  double cost, probability;
} reading;

/* The next word of [*p, end), blanks and TABs between them. */
static int next_word(fopo_chars *w, const char **p, const char *end) {
  while (*p < end && (**p == ' ' || **p == '\t' || **p == '\r')) ++*p;
  w->at = *p;
  while (*p < end && **p != ' ' && **p != '\t' && **p != '\r') ++*p;
  w->n = (size_t)(*p - w->at);
  return w->n > 0;
}

static int refuse(reading *g, size_t line, const char *text, size_t n, const char *why) {
  return fopo_events_reject(g->logs, &g->errors, g->options, g->t, line, 0, text, n, why);
}

/* "name:0.5" or "name": cuts the number behind the last colon off w; 1.0 without one. 0 if it is no
 * finite number. */
static int weighted(fopo_chars *w, double *value) {
  const char *colon = w->at + w->n;
  *value = 1.0;
  while (colon > w->at && colon[-1] != ':') colon--;
  if (colon-- == w->at) return 1;
  size_t n = (size_t)(w->at + w->n - colon - 1);
  if (fopo_parse_real(value, colon + 1, n) != FOPO_IS_NUMBER || fabs(*value) > (double)FLT_MAX) {
    return 0;
  }
  w->n = (size_t)(colon - w->at);
  return 1;
}

/* Adds the features of "|a x y |b z" to row. 1: the line is malformed and was counted. */
static int take_features(reading *g, float *row, const char *bar, const char *end) {
  fopo_chars w, space = {bar, 0};
  double scale = 1.0;
  while (bar < end) {
    const char *p = bar + 1;
    int named = p < end && *p != ' ' && *p != '\t' && *p != '\r' && *p != '|';
    const char *stop = memchr(p, '|', (size_t)(end - p));
    if (stop == NULL) stop = end;
    space = (fopo_chars){p, 0};
    scale = 1.0;
    if (named && next_word(&space, &p, stop) && !weighted(&space, &scale)) {
      return refuse(g, g->t->line, space.at, space.n, "is not a namespace with a finite weight");
    }
    while (next_word(&w, &p, stop)) {
      double value;
      if (!weighted(&w, &value)) {
        return refuse(g, g->t->line, w.at, w.n, "is not a feature with a finite value");
      }
      fopo_feature_add(row, g->catalogue.bits, space.at, space.n, w.at, w.n, value * scale);
    }
    bar = stop;
  }
  return FOPO_OK;
}

/* 1 and the three numbers if w is "action:cost:prob". */
static int is_label(fopo_chars w, int64_t *action, double *cost, double *probability) {
  const char *first = memchr(w.at, ':', w.n), *end = w.at + w.n;
  const char *second = first != NULL ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
  if (second == NULL) return 0;
  return fopo_parse_plain(action, w.at, (size_t)(first - w.at)) &&
         fopo_events_number(cost, first + 1, (size_t)(second - first - 1)) &&
         fopo_events_number(probability, second + 1, (size_t)(end - second - 1));
}

/* The words in front of the first bar. */
typedef struct {
  int labels, bare; /* how many are labels, and how many are plain actions without one */
  int shared;       /* "shared" is among them */
  int64_t action;
  double cost, probability;
  fopo_chars label;
} prefix;

static int read_prefix(reading *g, prefix *h, const char *p, const char *bar) {
  fopo_chars w;
  int64_t number;
  *h = (prefix){.action = -1};
  while (next_word(&w, &p, bar)) {
    int64_t action;
    double cost, probability;
    if (is_label(w, &action, &cost, &probability)) {
      h->labels++;
      h->action = action;
      h->cost = cost;
      h->probability = probability;
      h->label = w;
    } else if (w.n == 6 && memcmp(w.at, "shared", 6) == 0) {
      h->shared = 1;
    } else if (fopo_parse_plain(&number, w.at, w.n) && p < bar) {
      h->bare++;
    } else if (*w.at != '\'' && p < bar) { /* tags have a quote, or touch the bar */
      return refuse(g, g->t->line, w.at, w.n, "is not a label action:cost:prob");
    }
  }
  if (h->labels > 1) {
    return refuse(g, g->t->line, h->label.at, h->label.n,
                  "is a second label: an event has one action that was shown");
  }
  const char *why = h->labels == 1 ? fopo_events_refuse_propensity(h->probability) : NULL;
  if (why == NULL && h->labels == 1 && fopo_events_refuse_reward(h->cost) != NULL) {
    why = "has a cost that is not finite";
  }
  return why == NULL ? FOPO_OK : refuse(g, g->t->line, h->label.at, h->label.n, why);
}

/* The context in g->row becomes an event. */
static int add_event(reading *g, uint32_t action, double cost, double probability) {
  g->row[g->events.D - 1] = 1.0f;
  double reward = 0.0 - cost; /* not -cost: a cost of 0 gives 0, not -0 */
  return fopo_events_add(&g->events, g->row, action, reward, probability);
}

static void clear_row(reading *g) { memset(g->row, 0, g->events.D * sizeof *g->row); }

/* ---- plain ---- */

static int take_plain(void *data, const char *p, const char *end) {
  reading *g = data;
  const char *at = p, *bar = memchr(p, '|', (size_t)(end - p));
  prefix h;
  fopo_chars w;
  if (!next_word(&w, &at, end)) return FOPO_OK;
  if (bar == NULL) return refuse(g, g->t->line, p, (size_t)(end - p), "has no | and features");
  int status = read_prefix(g, &h, p, bar);
  if (status != FOPO_OK) return status;
  if (h.shared) {
    return refuse(g, g->t->line, p, (size_t)(bar - p), "begins an ADF event in a plain file");
  }
  if (h.labels == 0) {
    g->logs->skipped++; /* an event to be predicted */
    return FOPO_OK;
  }
  if (h.bare > 1) {
    return refuse(g, g->t->line, p, (size_t)(bar - p),
                  "lists the actions that were open; a policy here chooses from one fixed "
                  "catalogue");
  }
  size_t P = g->options->n_actions;
  if (h.action < 1 || h.action >= UINT32_MAX || (P > 0 && (size_t)h.action > P)) {
    return refuse(g, g->t->line, h.label.at, h.label.n,
                  P > 0 ? "has an action outside 1 .. n_actions" : "has no action of 1 or more");
  }
  clear_row(g);
  status = take_features(g, g->row, bar, end);
  if (status != FOPO_OK) return status;
  if ((size_t)h.action > g->largest) g->largest = (size_t)h.action;
  return add_event(g, (uint32_t)(h.action - 1), h.cost, h.probability);
}

/* ---- ADF ---- */

static const char not_fixed[] =
    "; a policy here chooses from one fixed catalogue, so all events must offer the same actions";

/* Refuses the event because of one of its actions. */
static int refuse_event(reading *g, const char *text, size_t n, const char *why) {
  char more[256];
  snprintf(more, sizeof more, "%s%s", why, not_fixed);
  g->bad = 1;
  return refuse(g, g->t->line, text, n, more);
}

static int end_event(reading *g) {
  if (!g->in_event) return FOPO_OK;
  g->in_event = 0;
  if (g->bad) return FOPO_OK; /* it has been counted as malformed */
  if (g->catalogue.size == 0) g->catalogue.size = g->n_offered;
  if (g->n_offered != g->catalogue.size) {
    char why[200];
    snprintf(why, sizeof why, "the event offers %zu actions where the first offers %zu%s",
             g->n_offered, g->catalogue.size, not_fixed);
    return refuse(g, g->first_line, NULL, 0, why);
  }
  if (g->chosen < 0) {
    g->logs->skipped++; /* an event to be predicted */
    return FOPO_OK;
  }
  return add_event(g, (uint32_t)g->chosen, g->cost, g->probability);
}

static void begin_event(reading *g) {
  g->in_event = 1;
  g->bad = 0;
  g->n_offered = 0;
  g->event++;
  g->chosen = -1;
  g->first_line = g->t->line;
  clear_row(g);
  /* Still open: the events before were malformed, and so were their actions. */
  if (g->catalogue.size == 0) fopo_catalogue_reset(&g->catalogue);
}

/* The event offers the action whose features stand behind the bar. */
static int offer(reading *g, uint32_t *index, const char *bar, const char *end) {
  while (end[-1] == ' ' || end[-1] == '\r' || end[-1] == '\t') end--; /* the bar stops it */
  size_t n = (size_t)(end - bar);
  fopo_offer kind;
  int status = fopo_catalogue_offer(&g->catalogue, index, &kind, g->event, bar + 1, n - 1);
  if (status != FOPO_OK) return status;
  g->n_offered++;
  switch (kind) {
  case FOPO_ACTION_KNOWN: break;
  case FOPO_ACTION_NEW:
    return take_features(g, fopo_catalogue_row(&g->catalogue, *index), bar, end);
  case FOPO_ACTION_FOREIGN:
    return refuse_event(g, bar, n, "is an action that the first event does not offer");
  case FOPO_ACTION_TWICE: return refuse_event(g, bar, n, "occurs twice in its event");
  }
  return FOPO_OK;
}

static int take_adf(void *data, const char *p, const char *end) {
  reading *g = data;
  fopo_chars w;
  const char *at = p, *bar = memchr(p, '|', (size_t)(end - p));
  if (!next_word(&w, &at, end)) return end_event(g);
  if (!g->in_event) begin_event(g);
  if (g->bad) return FOPO_OK;
  if (bar == NULL) {
    g->bad = 1;
    return refuse(g, g->t->line, p, (size_t)(end - p), "has no | and features");
  }
  prefix h;
  uint32_t index;
  int status = read_prefix(g, &h, p, bar);
  if (status == FOPO_OK && h.shared) {
    status = take_features(g, g->row, bar, end);
  } else if (status == FOPO_OK) {
    status = offer(g, &index, bar, end);
    if (status == FOPO_OK && h.labels == 1 && g->chosen >= 0) {
      status = refuse(g, g->t->line, h.label.at, h.label.n, "is a second label in its event");
    } else if (status == FOPO_OK && h.labels == 1) {
      g->chosen = index;
      g->cost = h.cost;
      g->probability = h.probability;
    }
  }
  if (status != FOPO_OK) g->bad = 1;
  return status;
}

/* ---- the file ---- */

/* An ADF file begins with "shared", with an action that has no label, or with the label's action 0,
 * which plain files cannot have. */
static int is_adf(const fopo_text *t) {
  const char *p = t->at;
  while (p < t->stop && (*p == '\n' || *p == '\r' || *p == ' ')) p++;
  return strncmp(p, "shared", 6) == 0 || *p == '|' || strncmp(p, "0:", 2) == 0;
}

static int finish(reading *g) {
  fopo_logs *logs = g->logs;
  int status = g->adf ? end_event(g) : FOPO_OK;
  if (status < FOPO_OK) return status;
  logs->contexts = fopo_matrix_view(logs->contexts.x, logs->n, g->events.D);
  if (!g->adf) {
    logs->n_actions = g->options->n_actions > 0 ? g->options->n_actions : g->largest;
    return fopo_pairs_check_shape(g->t->path, 1, logs->n_actions, logs->n);
  }
  fopo_catalogue *c = &g->catalogue;
  logs->n_actions = c->size;
  logs->items = fopo_matrix_view(c->items, c->size, (size_t)1 << c->bits);
  c->items = NULL;
  c->ids.n = c->size; /* malformed events may have added others */
  fopo_ids_move(&logs->names, &c->ids);
  return FOPO_OK;
}

static int read_vw(fopo_logs *logs, fopo_text *t, const fopo_logs_options *o) {
  size_t bits = o->hash_bits > 0 ? o->hash_bits : 8;
  reading g = {.t = t, .options = o, .logs = logs, .catalogue.bits = bits};
  g.events = (fopo_events){.logs = logs, .D = ((size_t)1 << bits) + 1};
  g.row = fopo_alloc(g.events.D, sizeof *g.row);
  int status = g.row != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  g.adf = status == FOPO_OK && is_adf(t);
  if (status == FOPO_OK) status = fopo_text_each_line(t, g.adf ? take_adf : take_plain, &g);
  if (status == FOPO_OK) status = finish(&g);
  fopo_catalogue_done(&g.catalogue);
  fopo_free(g.row);
  return status;
}

/* Nothing, "shared" or a word with two colons stands before the bar, and no comma. */
static int sniff(const fopo_text *t) {
  const char *p = t->at;
  while (p < t->stop && isspace((unsigned char)*p)) p++;
  const char *end = memchr(p, '\n', (size_t)(t->stop - p));
  const char *bar = end != NULL ? memchr(p, '|', (size_t)(end - p)) : NULL;
  if (bar == NULL || memchr(p, ',', (size_t)(bar - p)) != NULL) return 0;
  if (strncmp(p, "shared", 6) == 0) return 1;
  int colons = 0, words = 0;
  for (; p < bar; p++) {
    if (isspace((unsigned char)*p)) {
      colons = 0;
      continue;
    }
    words = 1;
    colons += *p == ':';
    if (colons == 2) return 1;
  }
  return !words;
}

const fopo_log_reader fopo_log_reader_vw = {
    .name = "vw",
    .what = "Vowpal Wabbit's \"action:cost:prob | features\"; --cb_eval and ADF, too",
    .sniff = sniff,
    .read = read_vw};
