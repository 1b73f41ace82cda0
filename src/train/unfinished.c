#include "train/unfinished.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

static const char counts_name[] = "run", numbers_name[] = "run_worths";
static const char *const kept_names[FOPO_BLOCKS] = {[FOPO_BLOCK_THETA] = "best_theta",
                                                    [FOPO_BLOCK_ITEMS] = "best_items",
                                                    [FOPO_BLOCK_WEIGHTS] = "best_weights"};
static const char *const each_names[FOPO_BYS] = {[FOPO_BY_REWARD] = "best_rewards",
                                                 [FOPO_BY_EXPECTED] = "best_expected",
                                                 [FOPO_BY_MEASURE] = "best_measures"};

int fopo_unfinished_reserve(fopo_unfinished *u, const fopo_policy *pi) {
  for (int i = 0; i < FOPO_BLOCKS; i++) {
    fopo_block_shape shape = fopo_policy_shape(pi, (fopo_block)i);
    if (shape.rows == 0) continue;
    u->kept[i] = fopo_alloc(shape.rows * shape.cols, sizeof *u->kept[i]);
    if (u->kept[i] == NULL) return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

void fopo_unfinished_done(fopo_unfinished *u) {
  for (int i = 0; i < FOPO_BLOCKS; i++) fopo_free(u->kept[i]);
  fopo_worth_each_done(&u->each);
  *u = (fopo_unfinished){0};
}

/* ---- writing ---- */

static void put_counts(uint64_t *x, const fopo_unfinished *u) {
  const uint64_t counts[FOPO_UNFINISHED_COUNTS] = {
      u->first, u->last, u->every, u->waited, u->basis, u->best.step, (uint64_t)u->best.known};
  memcpy(x, counts, sizeof counts);
}

size_t fopo_unfinished_describe(fopo_array *a, const fopo_unfinished *u, const fopo_policy *pi,
                                fopo_unfinished_room *room) {
  size_t n = 0;
  if (!u->open) return 0;
  put_counts(room->counts, u);
  room->numbers[0] = u->seconds;
  fopo_worth_put(room->numbers + 1, &u->start);
  fopo_worth_put(room->numbers + 1 + FOPO_WORTH_NUMBERS, &u->best.worth);
  a[n++] = fopo_array_of(counts_name, FOPO_U64, room->counts, 1, FOPO_UNFINISHED_COUNTS, 1);
  a[n++] = fopo_array_of(numbers_name, FOPO_F64, room->numbers, 1, FOPO_UNFINISHED_NUMBERS, 1);
  for (int i = 0; i < FOPO_BLOCKS && u->best.known; i++) {
    fopo_matrix own = fopo_policy_values(pi, (fopo_block)i);
    if (u->kept[i] == NULL) continue;
    a[n++] = fopo_array_of(kept_names[i], FOPO_F32, u->kept[i], 2, own.rows, own.cols);
  }
  for (int by = 0; by < FOPO_BYS && u->best.known; by++) {
    if (u->each.n[by] == 0) continue;
    a[n++] = fopo_array_of(each_names[by], FOPO_F32, u->each.of[by], 1, u->each.n[by], 1);
  }
  return n;
}

/* ---- reading ---- */

static int read_kept(fopo_unfinished *u, fopo_archive *archive, const char *path,
                     const fopo_policy *pi, int block) {
  fopo_matrix own = fopo_policy_values(pi, (fopo_block)block);
  if (u->kept[block] == NULL) return FOPO_OK;
  if (fopo_archive_find(archive, kept_names[block]) == NULL) { /* keep_best = false */
    fopo_free(u->kept[block]);
    u->kept[block] = NULL;
    return FOPO_OK;
  }
  fopo_array *a;
  int status = fopo_archive_need(&a, archive, path, kept_names[block], FOPO_F32, 2);
  if (status != FOPO_OK) return status;
  if (a->shape[0] != own.rows || a->shape[1] != own.cols) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: %s is %zu x %zu but the policy needs %zu x %zu", path,
                     kept_names[block], a->shape[0], a->shape[1], own.rows, own.cols);
  }
  memcpy(u->kept[block], a->data, own.rows * own.cols * sizeof *u->kept[block]);
  return fopo_matrix_finite(fopo_matrix_view(u->kept[block], own.rows, own.cols),
                            kept_names[block]);
}

static int read_each(fopo_unfinished *u, fopo_archive *archive, const char *path, int by) {
  if (fopo_archive_find(archive, each_names[by]) == NULL) return FOPO_OK;
  fopo_array *a;
  int status = fopo_archive_need(&a, archive, path, each_names[by], FOPO_F32, 1);
  if (status != FOPO_OK) return status;
  size_t n = a->shape[0];
  u->each.of[by] = n > 0 ? fopo_alloc(n, sizeof *u->each.of[by]) : NULL;
  if (n > 0 && u->each.of[by] == NULL) return FOPO_ERR_MEMORY;
  if (n > 0) memcpy(u->each.of[by], a->data, n * sizeof *u->each.of[by]);
  u->each.n[by] = n;
  return FOPO_OK;
}

static int read_numbers(fopo_unfinished *u, fopo_archive *archive, const char *path,
                        uint64_t step) {
  fopo_array *counts, *numbers;
  int status = fopo_archive_need(&counts, archive, path, counts_name, FOPO_U64, 1);
  if (status == FOPO_OK) {
    status = fopo_archive_need(&numbers, archive, path, numbers_name, FOPO_F64, 1);
  }
  if (status != FOPO_OK) return status;
  uint64_t x[FOPO_UNFINISHED_COUNTS];
  double y[FOPO_UNFINISHED_NUMBERS];
  int fits =
      counts->shape[0] == FOPO_UNFINISHED_COUNTS && numbers->shape[0] == FOPO_UNFINISHED_NUMBERS;
  if (fits) {
    memcpy(x, counts->data, sizeof x);
    memcpy(y, numbers->data, sizeof y);
    fits = x[0] <= step && x[1] >= step && x[5] <= step && x[6] <= 1 && y[0] >= 0.0;
  }
  if (!fits) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its run, \"%s\" and \"%s\", cannot be one of step %llu",
                     path, counts_name, numbers_name, (unsigned long long)step);
  }
  u->first = x[0];
  u->last = x[1];
  u->every = x[2];
  u->waited = x[3];
  u->basis = x[4];
  u->best.step = x[5];
  u->best.known = (int)x[6];
  u->seconds = y[0];
  u->start = fopo_worth_take(y + 1);
  u->best.worth = fopo_worth_take(y + 1 + FOPO_WORTH_NUMBERS);
  return FOPO_OK;
}

int fopo_unfinished_read(fopo_unfinished *u, fopo_archive *archive, const char *path,
                         const fopo_policy *pi, uint64_t step) {
  if (fopo_archive_find(archive, counts_name) == NULL) return FOPO_OK;
  int status = read_numbers(u, archive, path, step);
  if (status == FOPO_OK) status = fopo_unfinished_reserve(u, pi);
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    status = read_kept(u, archive, path, pi, i);
  }
  for (int by = 0; by < FOPO_BYS && status == FOPO_OK; by++) {
    status = read_each(u, archive, path, by);
  }
  u->open = status == FOPO_OK;
  return status;
}
