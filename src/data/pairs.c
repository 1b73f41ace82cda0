/* The arrays of pairs, and the matrix that is sorted from them. */
#include "data/pairs.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"

void fopo_pairs_done(fopo_pairs *p) {
  fopo_free(p->user);
  fopo_free(p->item);
  fopo_free(p->value);
  fopo_free(p->time);
  *p = (fopo_pairs){0};
}

size_t fopo_pairs_bytes(const fopo_pairs *p) {
  return 2 * sizeof *p->user + (p->with_values ? sizeof *p->value : 0) +
         (p->with_times ? sizeof *p->time : 0);
}

int fopo_pairs_reserve(fopo_pairs *p, size_t more) {
  if (p->n + more <= p->capacity) return FOPO_OK;
  size_t capacity = p->capacity == 0 ? 4096 : 2 * p->capacity;
  if (capacity < p->n + more) capacity = p->n + more;
  /* Checked here too: how many rows a gzipped file holds is only a guess beforehand. */
  int status = fopo_memory_suffices(fopo_pairs_bytes(p) * (uint64_t)(capacity - p->capacity),
                                    "the interactions read so far",
                                    "read a part of the file, or on a machine with more memory");
  if (status == FOPO_OK) status = fopo_resize(&p->user, capacity, sizeof *p->user);
  if (status == FOPO_OK) status = fopo_resize(&p->item, capacity, sizeof *p->item);
  if (status == FOPO_OK && p->with_values) {
    status = fopo_resize(&p->value, capacity, sizeof *p->value);
  }
  if (status == FOPO_OK && p->with_times) {
    status = fopo_resize(&p->time, capacity, sizeof *p->time);
  }
  if (status == FOPO_OK) p->capacity = capacity;
  return status;
}

int fopo_pairs_add_values(fopo_pairs *p) {
  if (p->with_values) return FOPO_OK;
  p->value = fopo_alloc(p->capacity, sizeof *p->value);
  if (p->value == NULL) return FOPO_ERR_MEMORY;
  p->with_values = 1;
  for (size_t i = 0; i < p->n; i++) p->value[i] = 1.0f;
  return FOPO_OK;
}

void fopo_pairs_drop_times(fopo_pairs *p) {
  fopo_free(p->time);
  p->time = NULL;
  p->with_times = 0;
}

int fopo_pairs_check_more(const char *path, double rows, const fopo_pairs *p) {
  /* While sorting, two things exist at once: the pairs and their keys, or the keys and the matrix.
   * While reading it is no more: arrays of at most twice the need. */
  double bytes = (rows * 2 + (double)p->n) * (double)fopo_pairs_bytes(p);
  return fopo_memory_suffices((uint64_t)bytes, path,
                              "read a part of the file, or on a machine with more memory");
}

int fopo_pairs_check_memory(const char *path, double rows, int with_values) {
  return fopo_pairs_check_more(path, rows, &(fopo_pairs){.with_values = with_values});
}

/* NaN and the infinities have all exponent bits set. Without a branch, so that it vectorises. */
static int all_finite(const float *values, size_t n) {
  uint32_t bad = 0;
#pragma omp parallel for simd num_threads(n > 1 << 20 ? fopo_threads() : 1) reduction(| : bad)
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    bad |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  return !bad;
}

int fopo_values_are_ones(const float *values, size_t n) {
  enum { BLOCK = 4096 }; /* a block is compared without a branch; the test stands between blocks */
  for (size_t at = 0; at < n; at += BLOCK) {
    int other = 0;
    for (size_t i = at; i < n && i < at + BLOCK; i++) other |= values[i] != 1.0f;
    if (other) return 0;
  }
  return 1;
}

static int refuse_value(const fopo_dataset *d, const char *path) {
  const fopo_csr *m = &d->matrix;
  size_t r = 0, e = 0;
  while (isfinite(m->values[e])) e++;
  while (m->indptr[r + 1] <= e) r++;
  return fopo_fail(FOPO_ERR_NUMERIC, "%s: the value of user %zu, item %u is %g", path,
                   d->first_user + r + 1, m->ids[e] + 1, (double)m->values[e]);
}

int fopo_dataset_check_values(const fopo_dataset *d, const char *path) {
  const fopo_csr *m = &d->matrix;
  if (m->values == NULL || all_finite(m->values, fopo_csr_nnz(m))) return FOPO_OK;
  return refuse_value(d, path);
}

static int count_seen(fopo_dataset *d) {
  const fopo_csr *m = &d->matrix;
  d->users_seen = 0;
  for (size_t r = 0; r < m->rows; r++) d->users_seen += fopo_csr_count(m, r) > 0;
  return fopo_csr_columns_used(&d->items_seen, m);
}

int fopo_dataset_finish(fopo_dataset *d, const char *path) {
  fopo_csr *m = &d->matrix;
  size_t nnz = fopo_csr_nnz(m);
  if (m->values != NULL && fopo_values_are_ones(m->values, nnz)) {
    fopo_free(m->values);
    m->values = NULL;
  }
  int status = fopo_dataset_check_values(d, path);
  return status == FOPO_OK && d->items_seen == 0 ? count_seen(d) : status;
}

int fopo_pairs_check_shape(const char *path, size_t users, size_t items, size_t n) {
  enum { ALWAYS = 1 << 24, PER_PAIR = 16 };
  size_t largest = users > items ? users : items;
  if (largest <= ALWAYS + PER_PAIR * n) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s: %zu users and %zu items for %zu interactions: the ids are "
                   "far apart; renumber them, or write one pair a line (there, only ids that occur "
                   "count)",
                   path, users, items, n);
}

static void free_pairs(void *pairs) { fopo_pairs_done(pairs); }

int fopo_pairs_sort(fopo_dataset *d, fopo_pairs *p, size_t users, size_t items) {
  int status = fopo_csr_from_timed_pairs(&d->matrix, &d->times, p->user, p->item, p->value, p->time,
                                         p->n, users, items, &d->repeats, free_pairs, p);
  fopo_pairs_done(p);
  return status;
}

int fopo_pairs_refuse_none(const char *path, size_t skipped) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s holds no interaction%s", path,
                   skipped > 0 ? ": every row was left out" : "");
}

void fopo_pairs_drop_values(fopo_pairs *p) {
  fopo_free(p->value);
  p->value = NULL;
  p->with_values = 0;
}

int fopo_pairs_build(fopo_dataset *d, fopo_pairs *p, size_t users, size_t items, const char *path) {
  if (p->n == 0) return fopo_pairs_refuse_none(path, d->skipped);
  d->rows_read = p->n;
  int status = fopo_pairs_check_shape(path, users, items, p->n);
  if (status != FOPO_OK) return status;
  if (p->with_values && fopo_values_are_ones(p->value, p->n)) fopo_pairs_drop_values(p);
  status = fopo_pairs_sort(d, p, users, items);
  return status == FOPO_OK ? fopo_dataset_finish(d, path) : status;
}
