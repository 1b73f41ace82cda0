/* The life of a log, and parts of one. */
#include "data/logs/logs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/notice.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "data/ids.h"

void fopo_logs_free(fopo_logs *logs) {
  if (logs == NULL) return;
  if (!logs->contexts_borrowed) fopo_free(logs->contexts.x);
  if (!logs->items_borrowed) fopo_free(logs->items.x);
  fopo_free(logs->actions);
  fopo_free(logs->rewards);
  fopo_free(logs->propensities);
  fopo_free(logs->scales);
  fopo_names_done(&logs->names);
  fopo_names_done(&logs->features);
  fopo_free(logs);
}

/* ---- scales ---- */

static int copy_scales(fopo_logs *to, const fopo_logs *from) {
  if (from->scales == NULL) return FOPO_OK;
  to->scales = fopo_alloc(2 * from->contexts.cols, sizeof *to->scales);
  if (to->scales == NULL) return FOPO_ERR_MEMORY;
  memcpy(to->scales, from->scales, 2 * from->contexts.cols * sizeof *to->scales);
  return FOPO_OK;
}

/* x = (x - mean) / deviation. */
static void apply_scales(fopo_logs *logs) {
  size_t D = logs->contexts.cols;
  for (size_t n = 0; n < logs->n && logs->scales != NULL; n++) {
    float *x = fopo_matrix_row(logs->contexts, n);
    for (size_t i = 0; i < D; i++) x[i] = (x[i] - logs->scales[i]) / logs->scales[D + i];
  }
}

/* Those of a file that was saved standardised. */
static void undo_scales(fopo_logs *logs) {
  size_t D = logs->contexts.cols;
  for (size_t n = 0; n < logs->n && logs->scales != NULL; n++) {
    float *x = fopo_matrix_row(logs->contexts, n);
    for (size_t i = 0; i < D; i++) x[i] = x[i] * logs->scales[D + i] + logs->scales[i];
  }
  fopo_free(logs->scales);
  logs->scales = NULL;
}

/* Mean and standard deviation of column i, or 0 and 1 if it stays as it is. Returns whether. */
static int measure_column(float *mean, float *deviation, const fopo_logs *logs, size_t i) {
  double n = (double)logs->n, sum = 0.0, squares = 0.0, largest = 0.0;
  for (size_t row = 0; row < logs->n; row++) {
    double x = (double)fopo_matrix_row(logs->contexts, row)[i];
    sum += x;
    largest = fmax(largest, fabs(x));
  }
  for (size_t row = 0; row < logs->n; row++) {
    double d = (double)fopo_matrix_row(logs->contexts, row)[i] - sum / n;
    squares += d * d;
  }
  int large = largest > 10.0 && sqrt(squares / n) > 1e-6 * largest;
  *mean = large ? (float)(sum / n) : 0.0f;
  *deviation = large ? (float)sqrt(squares / n) : 1.0f;
  return large;
}

int fopo_logs_standardise(fopo_logs *logs, const char *path) {
  size_t D = logs->contexts.cols, changed = 0, length = 0;
  char list[200] = "", name[64];
  logs->scales = fopo_alloc(2 * D, sizeof *logs->scales);
  if (logs->scales == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < D; i++) {
    if (!measure_column(&logs->scales[i], &logs->scales[D + i], logs, i)) continue;
    const char *said = fopo_names_get(&logs->features, i, name, sizeof name);
    if (length + strlen(said) + 3 < sizeof list) {
      length += (size_t)snprintf(list + length, sizeof list - length, "%s%.60s",
                                 changed > 0 ? ", " : "", said);
    }
    changed++;
  }
  if (changed == 0) {
    fopo_free(logs->scales);
    logs->scales = NULL;
    return FOPO_OK;
  }
  apply_scales(logs);
  fopo_notice("%s: %zu column%s of large values %s standardised, mean 0 and deviation 1: %s "
              "(standardise = \"none\" keeps them; lg:scales() has the numbers)",
              path, changed, changed == 1 ? "" : "s", changed == 1 ? "is" : "are", list);
  return FOPO_OK;
}

/* ---- parts ---- */

enum { ROWS_AT_ONCE = 1 << 14 }; /* rows between two reports of progress */

static int copy_events(fopo_logs *to, const fopo_logs *from, const uint32_t *rows) {
  size_t D = from->contexts.cols;
  for (size_t i = 0; i < to->n; i++) {
    size_t row = rows[i];
    memcpy(to->contexts.x + i * D, fopo_matrix_row(from->contexts, row), D * sizeof(float));
    to->actions[i] = from->actions[row];
    to->rewards[i] = from->rewards[row];
    to->propensities[i] = from->propensities[row];
    if ((i + 1) % ROWS_AT_ONCE != 0) continue;
    int status = fopo_progress("taking a part of the log", (double)i + 1, (double)to->n);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

int fopo_logs_take(fopo_logs **part, const fopo_logs *logs, const uint32_t *rows, size_t count) {
  *part = NULL;
  if (count == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "a part of a log needs 1 event or more");
  fopo_logs *p = fopo_alloc(1, sizeof *p);
  if (p == NULL) return FOPO_ERR_MEMORY;
  p->n = count;
  p->n_actions = logs->n_actions;
  p->items = logs->items;
  p->items_borrowed = 1;
  memcpy(p->format, logs->format, sizeof p->format);
  int status = fopo_matrix_init(&p->contexts, count, logs->contexts.cols);
  p->actions = fopo_alloc(count, sizeof *p->actions);
  p->rewards = fopo_alloc(count, sizeof *p->rewards);
  p->propensities = fopo_alloc(count, sizeof *p->propensities);
  if (!p->actions || !p->rewards || !p->propensities) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_names_copy(&p->names, &logs->names, 0, logs->names.n);
  if (status == FOPO_OK) {
    status = fopo_names_copy(&p->features, &logs->features, 0, logs->features.n);
  }
  if (status == FOPO_OK) status = copy_scales(p, logs);
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
  if (first > logs->n || count > logs->n - first) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "events %zu to %zu are asked for but the log has %zu",
                     first + 1, first + count, logs->n);
  }
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
  if (n == 0 || n >= logs->n) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a split into %zu and %zu events leaves one side empty; the log has %zu", n,
                     n < logs->n ? logs->n - n : 0, logs->n);
  }
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

/* ---- columns and actions of another log ---- */

/* Gives a log the columns and actions of another one, so that a policy learned from one can be used
 * on both. Columns and actions correspond by their names; one that the other log lacks is refused,
 * because no policy learned from that log has a score for it. */

/* Name i of a log's actions or columns; without names, they are called 1 .. n. */
static const char *name_at(const fopo_names *names, size_t i, char *buffer, size_t size) {
  if (names->text != NULL) return names->text + names->offsets[i];
  if (names->n > 0) return fopo_names_get(names, i, buffer, size);
  snprintf(buffer, size, "%zu", i + 1);
  return buffer;
}

/* place [n]: the index of each of the n names `ours` among the m names `other`; *unknown: the first
 * that is not among them, or n. */
static int find_places(uint32_t *place, size_t *unknown, const fopo_names *ours, size_t n,
                       const fopo_names *other, size_t m) {
  fopo_ids ids = {0};
  char buffer[32];
  uint32_t index = 0;
  int status = FOPO_OK;
  *unknown = n;
  for (size_t i = 0; i < m && status == FOPO_OK; i++) {
    const char *name = name_at(other, i, buffer, sizeof buffer);
    status = fopo_ids_add(&ids, &index, name, strlen(name));
  }
  size_t known = ids.n;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    const char *name = name_at(ours, i, buffer, sizeof buffer);
    status = fopo_ids_add(&ids, &place[i], name, strlen(name));
    if (status == FOPO_OK && place[i] >= known && *unknown == n) *unknown = i;
  }
  fopo_ids_done(&ids);
  return status;
}

/* 1 if one of the columns is "base=...". */
static int has_category(const fopo_names *columns, const char *base, size_t n) {
  for (size_t i = 0; i < columns->n; i++) {
    const char *name = columns->text + columns->offsets[i];
    if (strncmp(name, base, n) == 0 && name[n] == '=') return 1;
  }
  return 0;
}

/* Refuses a column of `like` that this log lacks. A text of a category that both have is none: it
 * does not occur here, and its column is zero. */
static int check_lacking(const uint32_t *place, const fopo_logs *logs, const fopo_logs *like,
                         const char *path) {
  uint8_t *here = fopo_alloc(like->features.n, 1);
  if (here == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < logs->features.n; i++) here[place[i]] = 1;
  int status = FOPO_OK;
  for (size_t i = 0; i < like->features.n && status == FOPO_OK; i++) {
    const char *name = like->features.text + like->features.offsets[i];
    size_t base = strcspn(name, "=");
    if (here[i] || (name[base] == '=' && has_category(&logs->features, name, base))) continue;
    status = fopo_fail(FOPO_ERR_FORMAT,
                       "%s lacks the column %.80s of the log given as "
                       "`like`; name the columns of both with features = \"...\"",
                       path, name);
  }
  fopo_free(here);
  return status;
}

static int match_columns(fopo_logs *logs, const fopo_logs *like, const char *path) {
  size_t D = like->contexts.cols, columns = logs->contexts.cols, unknown;
  if (logs->features.text == NULL ||
      like->features.text == NULL) { /* hashed: columns have no names */
    if (logs->features.n == like->features.n && columns == D) return FOPO_OK;
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s has %zu %scolumns and the log given as `like` has %zu "
                     "%s; read both from the same form of file, with the same hash_bits",
                     path, columns, logs->features.n == 0 ? "hashed " : "", D,
                     like->features.n == 0 ? "hashed ones" : "with names");
  }
  uint32_t *place = fopo_alloc(columns, sizeof *place);
  fopo_matrix x = {0};
  fopo_names names = {0};
  int status = place != NULL
                   ? find_places(place, &unknown, &logs->features, columns, &like->features, D)
                   : FOPO_ERR_MEMORY;
  if (status == FOPO_OK && unknown < columns) {
    status = fopo_fail(FOPO_ERR_FORMAT,
                       "%s has %.80s, which the log given as `like` lacks; "
                       "read the two as one file, or name the columns without it with features = "
                       "\"...\"",
                       path, logs->features.text + logs->features.offsets[unknown]);
  }
  if (status == FOPO_OK) status = check_lacking(place, logs, like, path);
  /* contexts [n, columns] become x [n, D]: column i moves to place[i]. */
  if (status == FOPO_OK) status = fopo_matrix_init(&x, logs->n, D);
  if (status == FOPO_OK) status = fopo_names_copy(&names, &like->features, 0, like->features.n);
  if (status == FOPO_OK) {
    for (size_t n = 0; n < logs->n; n++) {
      const float *from = fopo_matrix_row(logs->contexts, n);
      float *to = fopo_matrix_row(x, n);
      for (size_t i = 0; i < columns; i++) to[place[i]] = from[i];
    }
    fopo_free(logs->contexts.x);
    fopo_names_done(&logs->features);
    logs->contexts = x;
    logs->features = names;
  } else {
    fopo_matrix_done(&x);
    fopo_names_done(&names);
  }
  fopo_free(place);
  return status;
}

static int match_actions(fopo_logs *logs, const fopo_logs *like, const char *path) {
  size_t P = logs->n_actions, unknown;
  char buffer[32];
  uint32_t *place = fopo_alloc(P, sizeof *place);
  fopo_names names = {0};
  int status = place != NULL
                   ? find_places(place, &unknown, &logs->names, P, &like->names, like->n_actions)
                   : FOPO_ERR_MEMORY;
  if (status == FOPO_OK && unknown < P) {
    status = fopo_fail(FOPO_ERR_FORMAT,
                       "%s has the action %.80s, which the log given as `like` "
                       "lacks; its propensities are those of another catalogue",
                       path, name_at(&logs->names, unknown, buffer, sizeof buffer));
  }
  if (status == FOPO_OK) status = fopo_names_copy(&names, &like->names, 0, like->names.n);
  if (status == FOPO_OK) {
    for (size_t n = 0; n < logs->n; n++) logs->actions[n] = place[logs->actions[n]];
    fopo_names_done(&logs->names);
    logs->names = names;
    logs->n_actions = like->n_actions;
  } else {
    fopo_names_done(&names);
  }
  fopo_free(place);
  return status;
}

int fopo_logs_match(fopo_logs *logs, const fopo_logs *like, const char *path) {
  undo_scales(logs);
  int status = match_columns(logs, like, path);
  if (status == FOPO_OK) status = copy_scales(logs, like);
  if (status == FOPO_OK) apply_scales(logs);
  if (status == FOPO_OK) status = match_actions(logs, like, path);
  if (status != FOPO_OK) return status;
  if (!logs->items_borrowed) fopo_free(logs->items.x);
  logs->items = like->items;
  logs->items_borrowed = 1;
  return FOPO_OK;
}
