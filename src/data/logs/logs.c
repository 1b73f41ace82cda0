/* The life of a log, and parts of one. */
#include "data/logs/logs.h"

#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"

void fopo_logs_free(fopo_logs *logs) {
  if (logs == NULL) return;
  if (!logs->contexts_borrowed) fopo_free(logs->contexts.x);
  if (!logs->items_borrowed) fopo_free(logs->items.x);
  fopo_free(logs->actions);
  fopo_free(logs->rewards);
  fopo_free(logs->propensities);
  fopo_names_done(&logs->names);
  fopo_names_done(&logs->features);
  fopo_free(logs);
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
  for (size_t i = 0; i < count; i++) {
    if (rows[i] >= logs->n) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "event %llu is asked for but the log has %zu",
                       (unsigned long long)rows[i] + 1, logs->n);
    }
  }
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
