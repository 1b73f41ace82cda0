/* Logs in Vowpal Wabbit's text, plain and ADF (action-dependent features).
 *
 *   plain   "action:cost:prob tag| features"; in front of it, for --cb_eval, one action more
 *   ADF     "shared | features" and one line an action, "0:cost:prob | features" being the chosen
 *           one; a blank line ends the event
 *
 * Features stand behind bars: "|space:weight name:value name ...". They are hashed with a sign, so
 * that inner products are kept in the mean (Weinberger et al.: "Feature hashing for large scale
 * multitask learning", ICML 2009). */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "data/logs/internal.h"

/* ---- hashed features ---- */

/* FNV-1a, and the finaliser of splitmix64 for its low bits. */
static uint64_t hash(uint64_t h, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
  return h;
}

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void fopo_feature_add(float *row, size_t bits, const char *space, size_t space_n, const char *name,
                      size_t name_n, double value) {
  uint64_t h = hash(0xcbf29ce484222325u, space, space_n);
  h = mix(hash(hash(h, "^", 1), name, name_n));
  size_t column = (size_t)(h & (((uint64_t)1 << bits) - 1));
  row[column] += (float)(h >> 63 ? -value : value);
}

/* ---- lines ---- */

typedef struct {
  const char *at;
  size_t n;
} word;

typedef struct {
  fopo_text *t; /* not owned */
  const fopo_logs_options *options;
  fopo_logs *logs;
  fopo_events events;
  size_t bits, errors, largest; /* largest action of plain lines */
  float *row;                   /* [2^bits + 1] the context being read */
  /* ADF: the event being read, and the catalogue of the first one */
  int adf, in_event, bad;
  fopo_ids catalogue;      /* actions by the text of their features */
  float *items;            /* [items_room, 2^bits] */
  size_t items_room, size; /* size: actions of the catalogue once it is known, else 0 */
  uint32_t *offered;       /* [offered_room] event in which an action was last offered */
  size_t offered_n, offered_room, event, first_line;
  int64_t chosen; /* action with the label, or -1 */
  double cost, probability;
} reading;

/* The next word of [*p, end), blanks and TABs between them. */
static int next_word(word *w, const char **p, const char *end) {
  while (*p < end && (**p == ' ' || **p == '\t' || **p == '\r')) ++*p;
  w->at = *p;
  while (*p < end && **p != ' ' && **p != '\t' && **p != '\r') ++*p;
  w->n = (size_t)(*p - w->at);
  return w->n > 0;
}

static int refuse(reading *g, size_t line, const char *text, size_t n, const char *why) {
  return fopo_logs_reject(g->logs, &g->errors, g->options, g->t, line, text, n, why);
}

/* "name:0.5" or "name": the number behind the last colon, 1 without one. */
static int weighted(word *w, double *value) {
  const char *colon = memrchr(w->at, ':', w->n);
  *value = 1.0;
  if (colon == NULL) return 1;
  size_t n = (size_t)(w->at + w->n - colon - 1);
  if (fopo_read_real(value, colon + 1, n) != FOPO_IS_NUMBER || fabs(*value) > (double)FLT_MAX)
    return 0;
  w->n = (size_t)(colon - w->at);
  return 1;
}

/* Adds the features of "|a x y |b z" to row. 1: the line is left out. */
static int take_features(reading *g, float *row, const char *bar, const char *end) {
  word w, space = {bar, 0};
  double scale = 1.0;
  while (bar < end) {
    const char *p = bar + 1;
    int named = p < end && *p != ' ' && *p != '\t' && *p != '\r' && *p != '|';
    const char *stop = memchr(p, '|', (size_t)(end - p));
    if (stop == NULL) stop = end;
    space = (word){p, 0};
    scale = 1.0;
    if (named && next_word(&space, &p, stop) && !weighted(&space, &scale))
      return refuse(g, g->t->line, space.at, space.n, "is no namespace and weight");
    while (next_word(&w, &p, stop)) {
      double value;
      if (!weighted(&w, &value))
        return refuse(g, g->t->line, w.at, w.n, "is no feature and its finite number");
      fopo_feature_add(row, g->bits, space.at, space.n, w.at, w.n, value * scale);
    }
    bar = stop;
  }
  return FOPO_OK;
}

/* "action:cost:prob": 1 and the three, 0 where it is something else. */
static int is_label(word w, int64_t *action, double *cost, double *probability) {
  const char *first = memchr(w.at, ':', w.n), *end = w.at + w.n;
  const char *second = first != NULL ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
  if (second == NULL) return 0;
  return fopo_read_plain(action, w.at, (size_t)(first - w.at)) &&
         fopo_events_number(cost, first + 1, (size_t)(second - first - 1)) &&
         fopo_events_number(probability, second + 1, (size_t)(end - second - 1));
}

typedef struct {
  int labels, bare; /* words that are labels, and plain actions without one */
  int shared;
  int64_t action;
  double cost, probability;
  word label;
} head;

/* What stands before the first bar. */
static int read_head(reading *g, head *h, const char *p, const char *bar) {
  word w;
  int64_t number;
  *h = (head){.action = -1};
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
    } else if (fopo_read_plain(&number, w.at, w.n) && p < bar) {
      h->bare++;
    } else if (*w.at != '\'' && p < bar) { /* else a tag: it has a quote, or touches the bar */
      return refuse(g, g->t->line, w.at, w.n, "is no label action:cost:prob");
    }
  }
  if (h->labels > 1)
    return refuse(g, g->t->line, h->label.at, h->label.n,
                  "is a second label: an event has one action that was shown");
  const char *why = h->labels == 1 ? fopo_events_refuse_propensity(h->probability) : NULL;
  if (why == NULL && h->labels == 1 && fopo_events_refuse_reward(h->cost) != NULL)
    why = "has a cost that is not finite";
  return why == NULL ? FOPO_OK : refuse(g, g->t->line, h->label.at, h->label.n, why);
}

/* The context in g->row with what came of it becomes an event. reward = -cost. */
static int add_event(reading *g, uint32_t action, double cost, double probability) {
  int status = fopo_events_grow(&g->events);
  if (status != FOPO_OK) return status;
  fopo_logs *logs = g->logs;
  size_t D = g->events.D;
  g->row[D - 1] = 1.0f;
  memcpy(logs->contexts.x + logs->n * D, g->row, D * sizeof *g->row);
  logs->actions[logs->n] = action;
  logs->rewards[logs->n] = (float)(0.0 - cost); /* of a cost of 0: 0, not -0 */
  logs->propensities[logs->n] = (float)probability;
  logs->n++;
  return FOPO_OK;
}

static void clear_row(reading *g) { memset(g->row, 0, g->events.D * sizeof *g->row); }

/* ---- plain ---- */

static int take_plain(reading *g, const char *p, const char *end) {
  const char *bar = memchr(p, '|', (size_t)(end - p));
  head h;
  if (bar == NULL) return refuse(g, g->t->line, p, (size_t)(end - p), "has no | and features");
  int status = read_head(g, &h, p, bar);
  if (status != FOPO_OK) return status;
  if (h.shared)
    return refuse(g, g->t->line, p, (size_t)(bar - p), "begins an ADF event in a plain file");
  if (h.labels == 0) {
    g->logs->skipped++; /* an event to be predicted */
    return FOPO_OK;
  }
  if (h.bare > 1)
    return refuse(g, g->t->line, p, (size_t)(bar - p),
                  "lists the actions that were open; a policy here chooses from one fixed "
                  "catalogue");
  size_t P = g->options->n_actions;
  if (h.action < 1 || h.action >= UINT32_MAX || (P > 0 && (size_t)h.action > P))
    return refuse(g, g->t->line, h.label.at, h.label.n,
                  P > 0 ? "has an action outside 1 .. n_actions" : "has no action of 1 or more");
  clear_row(g);
  status = take_features(g, g->row, bar, end);
  if (status != FOPO_OK) return status;
  if ((size_t)h.action > g->largest) g->largest = (size_t)h.action;
  return add_event(g, (uint32_t)(h.action - 1), h.cost, h.probability);
}

/* ---- ADF ---- */

static const char not_fixed[] =
    "; a policy here chooses from one fixed catalogue, so all events must offer the same actions";

/* What is wrong with the event as a whole. */
static int spoil(reading *g, const char *text, size_t n, const char *why) {
  char more[256];
  snprintf(more, sizeof more, "%s%s", why, not_fixed);
  g->bad = 1;
  return refuse(g, g->t->line, text, n, more);
}

static int end_event(reading *g) {
  if (!g->in_event) return FOPO_OK;
  g->in_event = 0;
  if (g->bad) return FOPO_OK; /* counted where it was met */
  if (g->size == 0) g->size = g->offered_n;
  if (g->offered_n != g->size) {
    char why[200];
    snprintf(why, sizeof why, "the event offers %zu actions where the first offers %zu%s",
             g->offered_n, g->size, not_fixed);
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
  g->offered_n = 0;
  g->event++;
  g->chosen = -1;
  g->first_line = g->t->line;
  clear_row(g);
  if (g->size > 0 || g->items == NULL) return;
  fopo_ids_done(&g->catalogue); /* the event before was no good, and so was its catalogue */
  memset(g->items, 0, (g->items_room << g->bits) * sizeof *g->items);
}

/* Room for one more action of the catalogue. */
static int grow_catalogue(reading *g) {
  size_t n = g->catalogue.n;
  if (n < g->items_room) return FOPO_OK;
  size_t room = n == 0 ? 16 : 2 * n;
  int status = fopo_memory_suffices((uint64_t)room << (g->bits + 2), "the features of the actions",
                                    "use fewer hash_bits");
  if (status != FOPO_OK) return status;
  float *items = fopo_realloc(g->items, room, sizeof *items << g->bits);
  if (items == NULL) return FOPO_ERR_MEMORY;
  g->items = items;
  uint32_t *offered = fopo_realloc(g->offered, room, sizeof *offered);
  if (offered == NULL) return FOPO_ERR_MEMORY;
  g->offered = offered;
  g->items_room = room;
  return FOPO_OK;
}

/* The action of these features is offered. The first event makes the catalogue. */
static int offer(reading *g, uint32_t *index, const char *bar, const char *end) {
  size_t known = g->catalogue.n;
  while (end > bar && (end[-1] == ' ' || end[-1] == '\r' || end[-1] == '\t')) end--;
  int status = g->size == 0 ? grow_catalogue(g) : FOPO_OK;
  if (status == FOPO_OK)
    status = fopo_ids_add(&g->catalogue, index, bar + 1, (size_t)(end - bar - 1));
  if (status != FOPO_OK) return status;
  if (g->size > 0 && *index >= g->size)
    return spoil(g, bar, (size_t)(end - bar), "is an action that the first event does not offer");
  if (*index >= known) {
    status = take_features(g, g->items + (*index << g->bits), bar, end);
  } else if (g->offered[*index] == g->event) {
    return spoil(g, bar, (size_t)(end - bar), "stands twice in its event");
  }
  g->offered[*index] = (uint32_t)g->event;
  g->offered_n++;
  return status;
}

static int take_adf(reading *g, const char *p, const char *end) {
  word w;
  const char *at = p, *bar = memchr(p, '|', (size_t)(end - p));
  if (!next_word(&w, &at, end)) return end_event(g);
  if (!g->in_event) begin_event(g);
  if (g->bad) return FOPO_OK;
  if (bar == NULL) {
    g->bad = 1;
    return refuse(g, g->t->line, p, (size_t)(end - p), "has no | and features");
  }
  head h;
  uint32_t index;
  int status = read_head(g, &h, p, bar);
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
    return fopo_read_plausible(g->t->path, 1, logs->n_actions, logs->n);
  }
  logs->n_actions = g->size;
  logs->items = fopo_matrix_view(g->items, g->size, (size_t)1 << g->bits);
  g->items = NULL;
  g->catalogue.n = g->size; /* later events may have named others, which were left out */
  return fopo_names_of_ids(&logs->names, &g->catalogue);
}

int fopo_logs_read_vw(fopo_logs *logs, fopo_text *t, const fopo_logs_options *o) {
  reading g = {.t = t, .options = o, .logs = logs, .bits = o->hash_bits > 0 ? o->hash_bits : 8};
  g.events = (fopo_events){.logs = logs, .D = ((size_t)1 << g.bits) + 1};
  g.row = fopo_alloc(g.events.D, sizeof *g.row);
  int status = g.row != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  g.adf = status == FOPO_OK && is_adf(t);
  while (status >= FOPO_OK) {
    while (status >= FOPO_OK && t->at < t->stop) {
      const char *end = memchr(t->at, '\n', (size_t)(t->stop - t->at));
      const char *p = t->at;
      word w;
      t->line++;
      if (g.adf) {
        status = take_adf(&g, t->at, end);
      } else if (next_word(&w, &p, end)) {
        status = take_plain(&g, t->at, end);
      }
      t->at = end + 1;
    }
    if (status >= FOPO_OK) status = fopo_text_more(t);
    if (status >= FOPO_OK && t->at == t->stop) break;
  }
  if (status >= FOPO_OK) status = finish(&g);
  fopo_ids_done(&g.catalogue);
  fopo_free(g.items);
  fopo_free(g.offered);
  fopo_free(g.row);
  return status < FOPO_OK ? status : FOPO_OK;
}
