/* Bandit logs as .npz. Loaded values get the same validation as the text readers. */
#include "core/npz.h"

#include <stdio.h>

#include "core/status.h"
#include "data/logs/readers.h"

int fopo_logs_save(const fopo_logs *logs, const char *path) {
  uint64_t counts[2] = {logs->n_actions, logs->skipped};
  fopo_array a[12];
  a[0] = fopo_array_text("logs", logs->format);
  a[1] = fopo_array_of("contexts", FOPO_F32, logs->contexts.x, 2, logs->n, logs->contexts.cols);
  a[2] = fopo_array_of("actions", FOPO_U32, logs->actions, 1, logs->n, 1);
  a[3] = fopo_array_of("rewards", FOPO_F32, logs->rewards, 1, logs->n, 1);
  a[4] = fopo_array_of("propensities", FOPO_F32, logs->propensities, 1, logs->n, 1);
  a[5] = fopo_array_of("counts", FOPO_U64, counts, 1, 2, 1);
  size_t n = 6;
  if (logs->items.x != NULL) {
    a[n++] = fopo_array_of("items", FOPO_F32, logs->items.x, 2, logs->items.rows, logs->items.cols);
  }
  if (logs->scales != NULL) {
    a[n++] = fopo_array_of("scales", FOPO_F32, logs->scales, 2, 2, logs->contexts.cols);
  }
  if (logs->names.n > 0) n += fopo_names_members(a + n, &logs->names, "names");
  if (logs->features.n > 0) n += fopo_names_members(a + n, &logs->features, "features");
  return fopo_npz_save(path, a, n, 0);
}

/* A member of exactly `count` elements. */
static int need_count(fopo_array **a, fopo_archive *file, const char *path, const char *name,
                      fopo_dtype type, size_t count) {
  int status = fopo_archive_need(a, file, path, name, type, 1);
  if (status != FOPO_OK || (*a)->shape[0] == count) return status;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: %s has %zu elements instead of %zu", path, name,
                   (*a)->shape[0], count);
}

/* The checks of every event that the text readers make, too. */
static int check_events(const fopo_logs *logs, const char *path) {
  for (size_t i = 0; i < logs->n; i++) {
    const char *why = fopo_events_refuse_propensity((double)logs->propensities[i]);
    double shown = (double)logs->propensities[i];
    if (why == NULL) {
      why = fopo_events_refuse_reward((double)logs->rewards[i]);
      shown = (double)logs->rewards[i];
    }
    if (why == NULL && logs->actions[i] >= logs->n_actions) {
      why = "is not an action of the catalogue";
      shown = logs->actions[i];
    }
    if (why != NULL) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s, row %zu: %g %s", path, i + 1, shown, why);
    }
  }
  int status = fopo_matrix_finite(logs->contexts, "contexts");
  if (status == FOPO_OK && logs->scales != NULL) {
    size_t D = logs->contexts.cols;
    status = fopo_matrix_finite(fopo_matrix_view(logs->scales, 2, D), "scales");
    for (size_t i = D; i < 2 * D && status == FOPO_OK; i++) {
      if (logs->scales[i] > 0.0f) continue;
      status = fopo_fail(FOPO_ERR_FORMAT, "%s: column %zu was divided by %g", path, i - D + 1,
                         (double)logs->scales[i]);
    }
  }
  if (status == FOPO_OK && logs->items.x != NULL) status = fopo_matrix_finite(logs->items, "items");
  return status;
}

static int load_members(fopo_logs *logs, fopo_archive *file, const char *path) {
  int status = fopo_archive_check(file, path, "log");
  if (status != FOPO_OK) return status;
  fopo_array *kind = fopo_archive_find(file, "logs");
  if (kind == NULL || kind->type != FOPO_BYTES) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s was not written by logs:save", path);
  }
  snprintf(logs->format, sizeof logs->format, "%.*s", (int)kind->itemsize,
           (const char *)kind->data);
  fopo_array *x, *actions, *rewards, *p, *counts;
  status = fopo_archive_need(&x, file, path, "contexts", FOPO_F32, 2);
  if (status != FOPO_OK) return status;
  logs->n = x->shape[0];
  logs->contexts = fopo_matrix_view(fopo_array_release(x), x->shape[0], x->shape[1]);
  status = need_count(&actions, file, path, "actions", FOPO_U32, logs->n);
  if (status != FOPO_OK) return status;
  logs->actions = fopo_array_release(actions);
  status = need_count(&rewards, file, path, "rewards", FOPO_F32, logs->n);
  if (status != FOPO_OK) return status;
  logs->rewards = fopo_array_release(rewards);
  status = need_count(&p, file, path, "propensities", FOPO_F32, logs->n);
  if (status != FOPO_OK) return status;
  logs->propensities = fopo_array_release(p);
  status = need_count(&counts, file, path, "counts", FOPO_U64, 2);
  if (status != FOPO_OK) return status;
  const uint64_t *count = counts->data;
  logs->n_actions = (size_t)count[0];
  logs->skipped = (size_t)count[1];
  if (logs->n == 0 || logs->n_actions == 0 || logs->n_actions >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s holds %zu events over %zu actions", path, logs->n,
                     logs->n_actions);
  }
  if (fopo_archive_find(file, "scales") != NULL) {
    fopo_array *scales;
    status = fopo_archive_need(&scales, file, path, "scales", FOPO_F32, 2);
    if (status != FOPO_OK) return status;
    if (scales->shape[0] != 2 || scales->shape[1] != logs->contexts.cols) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s: scales is %zu x %zu for contexts of %zu columns", path,
                       scales->shape[0], scales->shape[1], logs->contexts.cols);
    }
    logs->scales = fopo_array_release(scales);
  }
  if (fopo_archive_find(file, "items") == NULL) return FOPO_OK;
  fopo_array *items;
  status = fopo_archive_need(&items, file, path, "items", FOPO_F32, 2);
  if (status != FOPO_OK) return status;
  if (items->shape[0] != logs->n_actions) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: items has %zu rows for %zu actions", path,
                     items->shape[0], logs->n_actions);
  }
  logs->items = fopo_matrix_view(fopo_array_release(items), items->shape[0], items->shape[1]);
  return FOPO_OK;
}

static int read_npz(fopo_logs *logs, const char *path, const fopo_logs_options *o) {
  (void)o;
  fopo_archive file = {0};
  int status = fopo_npz_load(&file, path);
  if (status == FOPO_OK) status = load_members(logs, &file, path);
  if (status == FOPO_OK) {
    status = fopo_names_load(&logs->names, &file, path, "names", logs->n_actions);
  }
  if (status == FOPO_OK) {
    status = fopo_names_load(&logs->features, &file, path, "features", logs->contexts.cols);
  }
  if (status == FOPO_OK) status = check_events(logs, path);
  fopo_archive_done(&file);
  return status;
}

const fopo_log_reader fopo_log_reader_npz = {
    .name = "npz", .what = "what lg:save wrote", .magic = "PK", .read_file = read_npz};
