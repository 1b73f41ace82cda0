/* Logs: their life, parts of them, and the choice of a reader. */
#include "data/logs/logs.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "data/logs/internal.h"

void fopo_logs_free(fopo_logs *logs) {
  if (logs == NULL) return;
  if (!logs->contexts_lent) fopo_free(logs->contexts.x);
  if (!logs->items_lent) fopo_free(logs->items.x);
  fopo_free(logs->actions);
  fopo_free(logs->rewards);
  fopo_free(logs->propensities);
  fopo_names_done(&logs->names);
  fopo_names_done(&logs->features);
  fopo_free(logs);
}

/* ---- events as they are read ---- */

enum { FIRST_EVENTS = 1024 };

static int resize(void *array, size_t n, size_t size) {
  void *block;
  memcpy(&block, array, sizeof block);
  block = fopo_realloc(block, n, size);
  if (block == NULL) return FOPO_ERR_MEMORY;
  memcpy(array, &block, sizeof block);
  return FOPO_OK;
}

int fopo_events_grow(fopo_events *e) {
  fopo_logs *logs = e->logs;
  if (logs->n < e->room) return FOPO_OK;
  if (logs->n >= UINT32_MAX / 2) return fopo_fail(FOPO_ERR_FORMAT, "more than 2^31 events");
  size_t room = e->room == 0 ? FIRST_EVENTS : 2 * e->room;
  int status = fopo_memory_suffices((uint64_t)room * (12 + 4 * (uint64_t)e->D),
                                    "the events read so far", "use fewer hash_bits or events");
  if (status == FOPO_OK) status = resize(&logs->actions, room, sizeof *logs->actions);
  if (status == FOPO_OK) status = resize(&logs->rewards, room, sizeof *logs->rewards);
  if (status == FOPO_OK) status = resize(&logs->propensities, room, sizeof *logs->propensities);
  if (status == FOPO_OK && e->D > 0) status = resize(&logs->contexts.x, room, e->D * sizeof(float));
  if (status == FOPO_OK) e->room = room;
  return status;
}

int fopo_events_number(double *x, const char *text, size_t n) {
  *x =
      memchr(text, 'a', n) != NULL || memchr(text, 'A', n) != NULL ? (double)NAN : (double)INFINITY;
  return fopo_read_real(x, text, n) != FOPO_NO_NUMBER;
}

const char *fopo_events_refuse_propensity(double p) {
  if (isnan(p)) return "is no propensity: it is NaN";
  if (p > 1.0) return "is no propensity: it is above 1";
  if ((float)p <= 0.0f) return "is no propensity: what was shown had a probability above 0";
  return NULL;
}

const char *fopo_events_refuse_reward(double r) {
  return fabs(r) <= (double)FLT_MAX ? NULL : "is no finite reward";
}

int fopo_logs_reject(fopo_logs *logs, size_t *errors, const fopo_logs_options *o,
                     const fopo_text *t, size_t line, const char *text, size_t n, const char *why) {
  char more[512];
  if (o->skip_errors && *errors < o->max_errors) {
    ++*errors;
    logs->skipped++;
    return 1;
  }
  snprintf(more, sizeof more, "%s", why);
  if (o->skip_errors)
    snprintf(more, sizeof more, "%s; with it there are %zu malformed events, max_errors is %zu",
             why, *errors + 1, o->max_errors);
  return fopo_text_refuse(t, line, 0, text, n, more);
}

/* ---- names ---- */

int fopo_names_count(fopo_names *names, size_t n) {
  names->numbers = fopo_alloc(n, sizeof *names->numbers);
  if (names->numbers == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) names->numbers[i] = (int64_t)i;
  names->n = n;
  return FOPO_OK;
}

int fopo_names_of_ids(fopo_names *names, fopo_ids *ids) {
  *names = (fopo_names){.n = ids->n,
                        .numbers = ids->is_text ? NULL : ids->numbers,
                        .text = ids->is_text ? ids->text : NULL,
                        .offsets = ids->is_text ? ids->offsets : NULL};
  if (ids->is_text) {
    ids->text = NULL;
    ids->offsets = NULL;
  } else {
    ids->numbers = NULL;
  }
  return FOPO_OK;
}

int fopo_names_append(fopo_names *names, size_t *room, const char *text, size_t n) {
  size_t used = names->offsets != NULL ? (size_t)names->offsets[names->n] : 0;
  int status = resize(&names->offsets, names->n + 2, sizeof *names->offsets);
  if (status == FOPO_OK && used + n + 1 > *room) {
    *room = 2 * (used + n + 64);
    status = resize(&names->text, *room, 1);
  }
  if (status != FOPO_OK) return status;
  memcpy(names->text + used, text, n);
  names->text[used + n] = '\0';
  names->offsets[++names->n] = used + n + 1;
  return FOPO_OK;
}

int fopo_names_copy(fopo_names *to, const fopo_names *from) {
  *to = (fopo_names){.n = from->n};
  if (from->numbers != NULL) {
    to->numbers = fopo_alloc(from->n, sizeof *to->numbers);
    if (to->numbers == NULL) return FOPO_ERR_MEMORY;
    memcpy(to->numbers, from->numbers, from->n * sizeof *to->numbers);
  }
  if (from->text == NULL) return FOPO_OK;
  size_t bytes = (size_t)from->offsets[from->n];
  to->text = fopo_alloc(bytes, 1);
  to->offsets = fopo_alloc(from->n + 1, sizeof *to->offsets);
  if (to->text == NULL || to->offsets == NULL) return FOPO_ERR_MEMORY;
  memcpy(to->text, from->text, bytes);
  memcpy(to->offsets, from->offsets, (from->n + 1) * sizeof *to->offsets);
  return FOPO_OK;
}

/* ---- parts ---- */

enum { COPIED_AT_ONCE = 1 << 14 }; /* rows between two reports of progress */

static int copy_events(fopo_logs *to, const fopo_logs *from, const uint32_t *rows) {
  size_t D = from->contexts.cols;
  for (size_t i = 0; i < to->n; i++) {
    size_t row = rows[i];
    memcpy(to->contexts.x + i * D, fopo_matrix_row(from->contexts, row), D * sizeof(float));
    to->actions[i] = from->actions[row];
    to->rewards[i] = from->rewards[row];
    to->propensities[i] = from->propensities[row];
    if ((i + 1) % COPIED_AT_ONCE != 0) continue;
    int status = fopo_progress("taking a part of the log", (double)i + 1, (double)to->n);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

int fopo_logs_take(fopo_logs **part, const fopo_logs *logs, const uint32_t *rows, size_t count) {
  *part = NULL;
  if (count == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "a part of a log needs 1 event or more");
  for (size_t i = 0; i < count; i++)
    if (rows[i] >= logs->n)
      return fopo_fail(FOPO_ERR_ARGUMENT, "event %llu is asked for but the log has %zu",
                       (unsigned long long)rows[i] + 1, logs->n);
  fopo_logs *p = fopo_alloc(1, sizeof *p);
  if (p == NULL) return FOPO_ERR_MEMORY;
  p->n = count;
  p->n_actions = logs->n_actions;
  p->items = logs->items;
  p->items_lent = 1;
  memcpy(p->format, logs->format, sizeof p->format);
  int status = fopo_matrix_init(&p->contexts, count, logs->contexts.cols);
  p->actions = fopo_alloc(count, sizeof *p->actions);
  p->rewards = fopo_alloc(count, sizeof *p->rewards);
  p->propensities = fopo_alloc(count, sizeof *p->propensities);
  if (!p->actions || !p->rewards || !p->propensities) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_names_copy(&p->names, &logs->names);
  if (status == FOPO_OK) status = fopo_names_copy(&p->features, &logs->features);
  if (status == FOPO_OK) status = copy_events(p, logs, rows);
  if (status != FOPO_OK) {
    fopo_logs_free(p);
    return status;
  }
  *part = p;
  return FOPO_OK;
}

int fopo_logs_part(fopo_logs **part, const fopo_logs *logs, size_t first, size_t count) {
  *part = NULL;
  if (first > logs->n || count > logs->n - first)
    return fopo_fail(FOPO_ERR_ARGUMENT, "events %zu to %zu are asked for but the log has %zu",
                     first + 1, first + count, logs->n);
  uint32_t *rows = fopo_alloc(count, sizeof *rows);
  if (rows == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < count; i++) rows[i] = (uint32_t)(first + i);
  int status = fopo_logs_take(part, logs, rows, count);
  fopo_free(rows);
  return status;
}

int fopo_logs_split(fopo_logs **train, fopo_logs **test, const fopo_logs *logs, size_t n,
                    uint64_t seed) {
  *train = *test = NULL;
  if (n == 0 || n >= logs->n)
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a split into %zu and %zu events leaves one side empty; the log has %zu", n,
                     n < logs->n ? logs->n - n : 0, logs->n);
  uint32_t *order = fopo_alloc(logs->n, sizeof *order);
  uint32_t *rows = fopo_alloc(logs->n, sizeof *rows);
  uint8_t *chosen = fopo_alloc(logs->n, 1);
  int status = order && rows && chosen ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    fopo_shuffle(order, (uint32_t)logs->n, seed, FOPO_STREAM_SPLIT, 0);
    for (size_t i = 0; i < n; i++) chosen[order[i]] = 1;
    size_t at[2] = {n, 0};
    for (size_t i = 0; i < logs->n; i++) rows[at[chosen[i]]++] = (uint32_t)i;
    status = fopo_logs_take(train, logs, rows, n);
  }
  if (status == FOPO_OK) status = fopo_logs_take(test, logs, rows + n, logs->n - n);
  if (status != FOPO_OK) {
    fopo_logs_free(*train);
    *train = NULL;
  }
  fopo_free(order);
  fopo_free(rows);
  fopo_free(chosen);
  return status;
}

/* ---- one reader for all ---- */

static const char *const formats[] = {"auto", "obd", "vw", "dsjson", "csv", "npz", NULL};

static int check_options(const fopo_logs_options *o, const char *format) {
  size_t i = 0;
  while (formats[i] != NULL && strcmp(format, formats[i]) != 0) i++;
  if (formats[i] == NULL)
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "format = \"%s\" is none of auto, obd, vw, dsjson, csv, npz", format);
  if (o->position > 3)
    return fopo_fail(FOPO_ERR_ARGUMENT, "position is %zu; it is 1, 2 or 3, or 0 for all",
                     o->position);
  if (o->hash_bits > 20)
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "hash_bits is %zu; use 1 to 20, that is 2 to 1,048,576 "
                     "columns",
                     o->hash_bits);
  if (o->n_actions >= UINT32_MAX)
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu actions are more than there can be", o->n_actions);
  return FOPO_OK;
}

static int is_zip(const char *path) {
  char magic[2] = {0};
  FILE *f = fopen(path, "rb");
  if (f == NULL) return 0; /* whoever opens it next says why */
  size_t got = fread(magic, 1, 2, f);
  fclose(f);
  return got == 2 && memcmp(magic, "PK", 2) == 0;
}

static int line_has(const char *at, const char *stop, const char *word) {
  const char *end = memchr(at, '\n', (size_t)(stop - at));
  return memmem(at, (size_t)((end != NULL ? end : stop) - at), word, strlen(word)) != NULL;
}

/* Nothing, "shared" or a word with two colons stands before the bar. */
static int is_vw(const char *p, const char *bar) {
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

/* What the first lines are: JSON, a header of the Open Bandit Dataset, features behind a bar, or a
 * table. */
static const char *recognise(const fopo_text *t) {
  const char *p = t->at;
  while (p < t->stop && isspace((unsigned char)*p)) p++;
  if (p < t->stop && *p == '{') return "dsjson";
  if (line_has(p, t->stop, "propensity_score") && line_has(p, t->stop, "item_id") &&
      line_has(p, t->stop, "position") && line_has(p, t->stop, "click"))
    return "obd";
  const char *end = memchr(p, '\n', (size_t)(t->stop - p));
  const char *bar = end != NULL ? memchr(p, '|', (size_t)(end - p)) : NULL;
  return bar != NULL && memchr(p, ',', (size_t)(bar - p)) == NULL && is_vw(p, bar) ? "vw" : "csv";
}

static int read_text(fopo_logs *logs, const char *path, const fopo_logs_options *o,
                     const char *format) {
  fopo_text t = {0};
  int status = fopo_text_open(&t, path);
  if (status == FOPO_OK && t.at == t.stop) status = fopo_fail(FOPO_ERR_FORMAT, "%s is empty", path);
  if (status == FOPO_OK && strcmp(format, "auto") == 0) format = recognise(&t);
  if (status == FOPO_OK) {
    snprintf(logs->format, sizeof logs->format, "%s", format);
    if (strcmp(format, "vw") == 0) {
      status = fopo_logs_read_vw(logs, &t, o);
    } else if (strcmp(format, "dsjson") == 0) {
      status = fopo_logs_read_dsjson(logs, &t, o);
    } else {
      fopo_text_close(&t);
      status = fopo_logs_read_table(logs, path, o, strcmp(format, "obd") == 0);
    }
  }
  fopo_text_close(&t);
  if (status == FOPO_OK && logs->n == 0)
    status = fopo_fail(FOPO_ERR_FORMAT, "%s holds no event (%zu left out)", path, logs->skipped);
  return status;
}

int fopo_logs_read(fopo_logs **logs, const char *path, const fopo_logs_options *options) {
  static const fopo_logs_options none = {0};
  const fopo_logs_options *o = options != NULL ? options : &none;
  const char *format = o->format != NULL ? o->format : "auto";
  *logs = NULL;
  int status = check_options(o, format);
  if (status != FOPO_OK) return status;
  fopo_logs *fresh = fopo_alloc(1, sizeof *fresh);
  if (fresh == NULL) return FOPO_ERR_MEMORY;
  int npz = strcmp(format, "npz") == 0 || (strcmp(format, "auto") == 0 && is_zip(path));
  status = npz ? fopo_logs_load(fresh, path) : read_text(fresh, path, o, format);
  if (status != FOPO_OK) {
    fopo_logs_free(fresh);
    return status;
  }
  *logs = fresh;
  return FOPO_OK;
}
