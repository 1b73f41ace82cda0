/* The choice of a reader of logs, by the first bytes and lines of the file. */
#include "data/logs/readers.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/formats.h"
#include "data/number.h"

#define X(name) &fopo_log_reader_##name,
static const fopo_log_reader *const readers[] = {
#include "data/logs/readers.def"
    NULL};
#undef X

enum { READERS = sizeof readers / sizeof *readers - 1 };

const fopo_log_reader *fopo_log_reader_at(size_t i) { return i < READERS ? readers[i] : NULL; }

static const char *name_at(size_t i) { return i < READERS ? readers[i]->name : NULL; }

static int check_options(const fopo_logs_options *o) {
  if (o->position > 3) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "position is %zu; it is 1, 2 or 3, or 0 for all",
                     o->position);
  }
  if (o->hash_bits > 20) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "hash_bits is %zu; use 1 to 20, that is 2 to 1,048,576 "
                     "columns",
                     o->hash_bits);
  }
  if (o->n_actions >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu actions are too many; the limit is 4294967294",
                     o->n_actions);
  }
  return FOPO_OK;
}

static const fopo_log_reader *find_magic(const char *path) {
  if (fopo_source_is_stream(path)) return NULL;
  for (size_t i = 0; i < READERS; i++) {
    const char *magic = readers[i]->magic;
    if (magic != NULL && fopo_file_begins(path, magic)) return readers[i];
  }
  return NULL;
}

static const fopo_log_reader *find_sniffed(const fopo_text *t) {
  for (size_t i = 0; i < READERS; i++) {
    if (readers[i]->sniff != NULL && readers[i]->sniff(t)) return readers[i];
  }
  return &fopo_log_reader_csv;
}

static int read_as(fopo_logs *logs, const fopo_log_reader *reader, fopo_text *t, const char *path,
                   const fopo_logs_options *o) {
  snprintf(logs->format, sizeof logs->format, "%s", reader->name);
  char kept[FOPO_KEPT];
  int file = -1, status = FOPO_OK;
  if (reader->read != NULL) return reader->read(logs, t, o);
  if (t->source.is_stream && *path != FOPO_SOURCE_COLUMNAR) {
    status = fopo_text_keep(kept, &file, t);
    path = kept;
  }
  fopo_text_close(t);
  if (status == FOPO_OK) status = reader->read_file(logs, path, o);
  if (file >= 0) close(file);
  return status;
}

/* reader NULL: the one that recognises the text. */
static int read_log(fopo_logs *logs, const fopo_log_reader *reader, const char *path,
                    const fopo_logs_options *o) {
  fopo_text t = {0};
  char name[FOPO_KEPT];
  int status = FOPO_OK, is_binary = reader != NULL && reader->magic != NULL;
  fopo_source_name(name, sizeof name, path);
  if (is_binary && fopo_source_is_stream(path)) {
    status = fopo_fail(FOPO_ERR_ARGUMENT, "%s is no file, which format = \"%s\" needs", name,
                       reader->name);
  } else if (!is_binary) {
    status = fopo_text_open(&t, path);
    if (status == FOPO_OK && reader == NULL) reader = find_sniffed(&t);
  }
  if (status == FOPO_OK) status = read_as(logs, reader, &t, path, o);
  fopo_text_close(&t);
  if (status == FOPO_OK && logs->n == 0) {
    status = fopo_fail(FOPO_ERR_FORMAT, "%s holds no event (%zu left out)", name, logs->skipped);
  }
  int standardise = o->standardise && !is_binary && logs->features.n > 0;
  if (status == FOPO_OK && standardise) status = fopo_logs_standardise(logs, name);
  return status;
}

/* *source: the columnar files as one, or NULL: the path is that of the source. */
static int open_sources(char **source, const char *const *paths, size_t n) {
  *source = NULL;
  if (fopo_columnar_are(paths, n)) {
    return fopo_columnar_source(source, paths, n, "", 0, UINT64_MAX);
  }
  return n == 1 ? FOPO_OK
                : fopo_fail(FOPO_ERR_ARGUMENT,
                            "%s and %zu more: a log is one file, or several of Parquet or of Arrow",
                            paths[0], n - 1);
}

int fopo_logs_read(fopo_logs **logs, const char *const *paths, size_t n,
                   const fopo_logs_options *options) {
  static const fopo_logs_options none = {0};
  const fopo_logs_options *o = options != NULL ? options : &none;
  char *source = NULL;
  size_t row;
  *logs = NULL;
  int status = fopo_format_find(&row, o->format, name_at);
  if (status == FOPO_OK) status = check_options(o);
  if (status == FOPO_OK) status = open_sources(&source, paths, n);
  fopo_logs *fresh = status == FOPO_OK ? fopo_alloc(1, sizeof *fresh) : NULL;
  if (status == FOPO_OK && fresh == NULL) status = FOPO_ERR_MEMORY;
  const char *path = source != NULL ? source : paths[0];
  if (status == FOPO_OK) {
    status = read_log(fresh, row < READERS ? readers[row] : find_magic(path), path, o);
  }
  fopo_free(source);
  if (status != FOPO_OK) {
    fopo_logs_free(fresh);
    return status;
  }
  *logs = fresh;
  return FOPO_OK;
}

/* ---- events as they are read ---- */

/* Growing arrays of events, and the checks that every format makes. */

enum { FIRST_CAPACITY = 1024 };

int fopo_events_reserve(fopo_events *e) {
  fopo_logs *logs = e->logs;
  if (logs->n < e->capacity) return FOPO_OK;
  if (logs->n >= UINT32_MAX / 2) return fopo_fail(FOPO_ERR_FORMAT, "more than 2^31 events");
  size_t n = e->capacity == 0 ? FIRST_CAPACITY : 2 * e->capacity;
  int status = fopo_memory_suffices((uint64_t)n * (12 + 4 * (uint64_t)e->D),
                                    "the events read so far", "use fewer hash_bits or events");
  if (status == FOPO_OK) status = fopo_resize(&logs->actions, n, sizeof *logs->actions);
  if (status == FOPO_OK) status = fopo_resize(&logs->rewards, n, sizeof *logs->rewards);
  if (status == FOPO_OK) status = fopo_resize(&logs->propensities, n, sizeof *logs->propensities);
  if (status == FOPO_OK && e->D > 0) {
    status = fopo_resize(&logs->contexts.x, n, e->D * sizeof(float));
  }
  if (status == FOPO_OK) e->capacity = n;
  return status;
}

int fopo_events_add(fopo_events *e, const float *row, uint32_t action, double reward,
                    double propensity) {
  int status = fopo_events_reserve(e);
  if (status != FOPO_OK) return status;
  fopo_logs *logs = e->logs;
  if (e->D > 0) memcpy(logs->contexts.x + logs->n * e->D, row, e->D * sizeof *row);
  logs->actions[logs->n] = action;
  logs->rewards[logs->n] = (float)reward;
  logs->propensities[logs->n] = (float)propensity;
  logs->n++;
  return FOPO_OK;
}

int fopo_events_number(double *x, const char *text, size_t n) {
  /* fopo_parse_real sets no value for nan and the infinities. */
  int is_nan = memchr(text, 'a', n) != NULL || memchr(text, 'A', n) != NULL;
  *x = is_nan ? (double)NAN : (double)INFINITY;
  return fopo_parse_real(x, text, n) != FOPO_NO_NUMBER;
}

const char *fopo_events_refuse_propensity(double p) {
  if (isnan(p)) return "is not a propensity: it is NaN";
  if (p > 1.0) return "is not a propensity: it is above 1";
  if ((float)p <= 0.0f) {
    return "is not a propensity: an action that was shown had a probability above 0";
  }
  return NULL;
}

const char *fopo_events_refuse_reward(double r) {
  return fabs(r) <= (double)FLT_MAX ? NULL : "is not a finite reward";
}

int fopo_events_reject(fopo_logs *logs, size_t *errors, const fopo_logs_options *o,
                       const fopo_text *t, size_t line, size_t column, const char *text, size_t n,
                       const char *why) {
  char more[FOPO_MALFORMED];
  if (fopo_text_leave_out(more, errors, o->skip_errors, o->max_errors, "event", why)) {
    logs->skipped++;
    return 1;
  }
  return fopo_text_refuse(t, line, column, text, n, more);
}
