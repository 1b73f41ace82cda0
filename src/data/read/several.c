#include "data/read/several.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/input.h"
#include "core/memory.h"
#include "data/merge.h"

void fopo_several_done(fopo_several *s) {
  fopo_ids_done(&s->users);
  fopo_ids_done(&s->items);
  fopo_pairs_done(&s->pairs);
  *s = (fopo_several){0};
}

/* ---- one file ---- */

void fopo_several_lose_times(fopo_several *s, const char *path, const char *why) {
  fopo_pairs_drop_times(&s->pairs);
  if (*s->no_times != '\0') return;
  size_t n = (size_t)snprintf(s->no_times, sizeof s->no_times, "%.120s", path);
  snprintf(s->no_times + n, sizeof s->no_times - n, "%s", why);
}

int fopo_several_expect(fopo_several *s, const char *path, int times, int values) {
  if (s->files == 0) s->pairs.with_times = 1;
  s->timed |= times;
  if (!times) fopo_several_lose_times(s, path, " has none");
  return values ? fopo_pairs_add_values(&s->pairs) : FOPO_OK;
}

/* The entries of a dataset that a reader has made. */
static int add_entries(fopo_several *s, const fopo_dataset *d, const char *path) {
  uint32_t *users = fopo_alloc(d->users.n, sizeof *users);
  uint32_t *items = fopo_alloc(d->items.n, sizeof *items);
  int status = users != NULL && items != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    status = fopo_several_expect(s, path, d->times.first != NULL, fopo_merge_needs_values(d));
  }
  if (status == FOPO_OK) status = fopo_merge_names(&s->users, users, &d->users);
  if (status == FOPO_OK) status = fopo_merge_names(&s->items, items, &d->items);
  if (status == FOPO_OK) status = fopo_merge_pairs(&s->pairs, d, users, items);
  fopo_free(users);
  fopo_free(items);
  return status;
}

int fopo_several_add(fopo_several *s, const char *path, uint64_t from, uint64_t to,
                     const fopo_read_options *options) {
  fopo_read_options own = *options;
  fopo_dataset *d;
  size_t before = s->pairs.n;
  own.several = s;
  s->from = s->begin = from;
  s->to = s->end = to;
  int status = fopo_dataset_read(&d, path, &own);
  if (status != FOPO_OK) return status;
  int is_table = d->matrix.indptr == NULL;
  if (!is_table) status = add_entries(s, d, path);
  s->rows_read += is_table ? s->pairs.n - before : d->rows_read;
  s->skipped += d->skipped;
  if (s->files == 0) memcpy(s->format, d->format, sizeof s->format);
  if (strcmp(s->format, d->format) != 0) snprintf(s->format, sizeof s->format, "mixed");
  s->files++;
  fopo_dataset_free(d);
  return status;
}

/* ---- all files ---- */

int fopo_several_sizes(uint64_t *sizes, const char *const *paths, size_t n) {
  for (size_t i = 0; i < n; i++) {
    int fd, status = fopo_open_regular(&fd, &sizes[i], paths[i]);
    if (status != FOPO_OK) return status;
    close(fd);
    if (sizes[i] == 0) return fopo_fail(FOPO_ERR_FORMAT, "%s is empty", paths[i]);
  }
  return FOPO_OK;
}

const char *fopo_several_title(char title[FOPO_SEVERAL_TITLE], const char *const *paths, size_t n) {
  if (n == 1) snprintf(title, FOPO_SEVERAL_TITLE, "%.200s", paths[0]);
  if (n > 1) {
    snprintf(title, FOPO_SEVERAL_TITLE, "%.200s and %zu more file%s", paths[0], n - 1,
             n == 2 ? "" : "s");
  }
  return title;
}

/* The names of a side; its pairs become indices of them. */
static int finish_side(fopo_names *names, fopo_ids *ids, uint32_t *pairs, size_t n) {
  uint32_t *place = NULL;
  int status = fopo_ids_finish(names, &place, ids);
  fopo_ids_done(ids);
  if (status == FOPO_OK) status = fopo_merge_renumber(pairs, place, n);
  fopo_free(place);
  return status;
}

static int build(fopo_dataset *d, fopo_several *s, const char *what) {
  fopo_pairs *p = &s->pairs;
  memcpy(d->format, s->format, sizeof d->format);
  if (s->timed) memcpy(d->no_times, s->no_times, sizeof d->no_times);
  d->skipped = s->skipped;
  int status = finish_side(&d->users, &s->users, p->user, p->n);
  if (status == FOPO_OK) status = finish_side(&d->items, &s->items, p->item, p->n);
  if (status == FOPO_OK) status = fopo_pairs_build(d, p, d->users.n, d->items.n, what);
  if (status != FOPO_OK) return status;
  d->rows_read = s->rows_read;
  d->repeats = d->rows_read - fopo_csr_nnz(&d->matrix);
  return FOPO_OK;
}

int fopo_several_build(fopo_dataset **dataset, fopo_several *s, const char *what) {
  fopo_dataset *d = fopo_alloc(1, sizeof *d);
  int status = d != NULL ? build(d, s, what) : FOPO_ERR_MEMORY;
  if (status != FOPO_OK) fopo_dataset_free(d);
  *dataset = status == FOPO_OK ? d : NULL;
  return status;
}

/* Refuses the rest of the files if their rows, by those of the `done` bytes so far, would not fit
 * into memory. */
static int check_rest(const fopo_several *s, const char *path, double done, double rest) {
  if (done == 0) return FOPO_OK;
  double rows = (double)s->pairs.n;
  return fopo_pairs_check_more(path, rows * rest / done, &s->pairs);
}

static int read_all(fopo_several *s, const char *const *paths, size_t n,
                    const fopo_read_options *options) {
  double all = 0, done = 0;
  uint64_t *sizes = fopo_alloc(n, sizeof *sizes);
  int status = sizes != NULL ? fopo_several_sizes(sizes, paths, n) : FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) all += (double)sizes[i];
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    status = check_rest(s, paths[i], done, all - done);
    if (status == FOPO_OK) status = fopo_several_add(s, paths[i], 0, UINT64_MAX, options);
    done += (double)sizes[i];
  }
  fopo_free(sizes);
  return status;
}

int fopo_dataset_read_all(fopo_dataset **d, const char *const *paths, size_t n,
                          const fopo_read_options *options) {
  if (n == 1) return fopo_dataset_read(d, paths[0], options);
  static const fopo_read_options none = {0};
  fopo_several s = {.many = 1};
  char what[FOPO_SEVERAL_TITLE];
  *d = NULL;
  int status = read_all(&s, paths, n, options != NULL ? options : &none);
  if (status == FOPO_OK) status = fopo_several_build(d, &s, fopo_several_title(what, paths, n));
  fopo_several_done(&s);
  return status;
}
