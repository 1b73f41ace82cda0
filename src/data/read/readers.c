/* The choice of a reader. What a file is, is decided by its first bytes and the options, never by
 * its name (except a MatrixMarket file without a banner). */
#include "data/read/readers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/formats.h"
#include "data/merge.h"
#include "data/read/table.h"
#include "data/spill.h"

#define X(name) &fopo_reader_##name,
static const fopo_reader *const readers[] = {
#include "data/read/readers.def"
    NULL};
#undef X

enum { READERS = sizeof readers / sizeof *readers - 1 };

const fopo_reader *fopo_reader_at(size_t i) { return i < READERS ? readers[i] : NULL; }

/* ---- options ---- */

int fopo_read_has_columns(const fopo_read_options *o) {
  return o->user != NULL || o->item != NULL || (o->value != NULL && *o->value != '\0') ||
         (o->time != NULL && *o->time != '\0') || o->where != NULL || o->header > 0 ||
         (o->separator != 0 && o->separator != ' ');
}

static int check_options(const fopo_reader *reader, const fopo_read_options *o, const char *path) {
  if (reader->users_are_lines && o->several != NULL && o->several->many) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%s is read as format = \"%s\", where line i is user i, so it cannot be read "
                     "with other files as one; write them as one file",
                     path, reader->name);
  }
  if (reader->has_columns || !fopo_read_has_columns(o)) return FOPO_OK;
  return fopo_fail(
      FOPO_ERR_ARGUMENT,
      "user, item, value, time, where, header and separator are options of pairs, and %s "
      "is read as format = \"%s\" (value = \"\" uses no values, time = \"\" no times)",
      path, reader->name);
}

static const char *name_at(size_t i) { return i < READERS ? readers[i]->name : NULL; }

/* ---- format = "auto" ---- */

static const fopo_reader *find_magic(const char *path) {
  if (fopo_source_is_stream(path)) return NULL;
  for (size_t i = 0; i < READERS; i++) {
    const char *magic = readers[i]->magic;
    if (magic != NULL && fopo_file_begins(path, magic)) return readers[i];
  }
  return NULL;
}

/* "1:0.5:0.25 | features": action, cost and probability in front of a bar. */
static int is_vw(const char *p) {
  for (int colons = 0;; p++) {
    size_t n = strspn(p, "0123456789.-");
    if (n == 0) return 0;
    p += n;
    if (*p != ':') return colons == 2 && strncmp(p, " |", 2) == 0;
    colons++;
  }
}

/* Refuses text that holds no interactions but has a known form. */
static int refuse_other_kinds(const fopo_text *t) {
  const char *what = NULL;
  size_t first = strcspn(t->at, "\n");
  if (*t->at == '[') what = "is one JSON list; write an object a line: jq -c '.[]'";
  if (*t->at == '{' && memmem(t->at, first, "\"_label_cost\"", 13) != NULL) {
    what = "is a log of actions in dsjson; read it with fopo.data.logs";
  }
  if (strncmp(t->at, "shared |", 8) == 0 || is_vw(t->at)) {
    what = "is in Vowpal Wabbit's form, a log of actions; read it with fopo.data.logs";
  }
  return what == NULL ? FOPO_OK : fopo_fail(FOPO_ERR_FORMAT, "%s %s", t->path, what);
}

/* Reads on until there are ten lines to judge by, or the file ends. */
static int read_ten_lines(fopo_text *t) {
  for (;;) {
    int lines = 0;
    for (const char *p = t->at; p < t->stop && lines < 10; lines++) {
      p = (const char *)memchr(p, '\n', (size_t)(t->stop - p)) + 1;
    }
    if (lines == 10 || t->ended) return FOPO_OK;
    int status = fopo_text_more(t);
    if (status != FOPO_OK) return status;
  }
}

static int find_sniffed(const fopo_reader **reader, fopo_text *t, const fopo_read_options *o) {
  int status = refuse_other_kinds(t);
  for (size_t i = 0; i < READERS && status == FOPO_OK; i++) {
    if (readers[i]->sniff == NULL) continue;
    status = readers[i]->sniff(t, o);
    *reader = readers[i];
  }
  return status < 0 ? status : FOPO_OK;
}

/* ---- reading ---- */

/* The source of columnar files, with those columns that may be read, and of their row groups those
 * of the stretch. */
static int columnar_source(char **source, const char *const *paths, size_t n,
                           const fopo_read_options *o) {
  char wanted[FOPO_WANTED];
  fopo_table_wanted(wanted, o);
  return fopo_columnar_source(source, paths, n, wanted, o->several ? o->several->from : 0,
                              o->several ? o->several->to : UINT64_MAX);
}

static int open_source(fopo_text *t, const char *path, const fopo_read_options *o) {
  if (fopo_columnar_kind(path) == NULL) return fopo_text_open(t, path);
  char *source;
  int status = columnar_source(&source, &path, 1, o);
  if (status == FOPO_OK) status = fopo_text_open(t, source);
  fopo_free(source);
  return status;
}

static int open_text(const fopo_reader **reader, fopo_text *t, const char *path,
                     const fopo_read_options *o) {
  int status = open_source(t, path, o);
  if (status == FOPO_OK) status = read_ten_lines(t);
  if (status == FOPO_OK && *reader == NULL) status = find_sniffed(reader, t, o);
  if (status == FOPO_OK) status = check_options(*reader, o, t->path);
  if (status != FOPO_OK) fopo_text_close(t);
  return status;
}

int fopo_reader_open(const fopo_reader **reader, fopo_text *t, const char *path,
                     const fopo_read_options *o) {
  size_t row;
  int status = fopo_format_find(&row, o->format, name_at);
  if (status != FOPO_OK) return status;
  *reader = row < READERS ? readers[row] : find_magic(path);
  if (*reader != NULL && (*reader)->read_file != NULL) return FOPO_OK;
  return open_text(reader, t, path, o);
}

static int read_text(fopo_dataset *d, const fopo_reader *reader, const char *path,
                     const fopo_read_options *o) {
  fopo_text t = {0};
  int status = open_text(&reader, &t, path, o);
  if (status == FOPO_OK) {
    snprintf(d->format, sizeof d->format, "%s", reader->name);
    status = reader->read(d, &t, o);
  }
  fopo_text_close(&t);
  return status;
}

static int read_file(fopo_dataset *d, const fopo_reader *reader, const char *path,
                     const fopo_read_options *o) {
  int status = check_options(reader, o, path);
  if (status != FOPO_OK) return status;
  snprintf(d->format, sizeof d->format, "%s", reader->name);
  return reader->read_file(d, path, o);
}

int fopo_dataset_read(fopo_dataset **dataset, const char *path, const fopo_read_options *options) {
  static const fopo_read_options none = {0};
  const fopo_read_options *o = options != NULL ? options : &none;
  size_t row;
  *dataset = NULL;
  int status = fopo_format_find(&row, o->format, name_at);
  if (status != FOPO_OK) return status;
  fopo_dataset *d = fopo_alloc(1, sizeof *d);
  if (d == NULL) return FOPO_ERR_MEMORY;
  const fopo_reader *reader = row < READERS ? readers[row] : find_magic(path);
  if (reader == NULL && !fopo_source_is_stream(path) && fopo_file_begins(path, "\x93NUMPY")) {
    status = fopo_fail(FOPO_ERR_FORMAT,
                       "%s is one .npy array; interactions are a sparse matrix, "
                       "which scipy.sparse.save_npz writes",
                       path);
  } else {
    int by_path = reader != NULL && reader->read_file != NULL;
    status = by_path ? read_file(d, reader, path, o) : read_text(d, reader, path, o);
  }
  if (status != FOPO_OK) {
    fopo_dataset_free(d);
    return status;
  }
  *dataset = d;
  return FOPO_OK;
}

/* ---- several files ---- */

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
  size_t before = fopo_spill_n(&s->pairs);
  own.several = s;
  s->from = s->begin = from;
  s->to = s->end = to;
  int status = fopo_dataset_read(&d, path, &own);
  if (status != FOPO_OK) return status;
  int is_table = d->matrix.indptr == NULL;
  if (!is_table) status = add_entries(s, d, path);
  s->rows_read += is_table ? fopo_spill_n(&s->pairs) - before : d->rows_read;
  if (status == FOPO_OK && s->pairs.spill != NULL) {
    status = fopo_spill_add(s->pairs.spill, &s->pairs);
  }
  s->skipped += d->skipped;
  for (size_t i = 0, at = s->errors - d->malformed; i < d->malformed && at < FOPO_EXAMPLES; i++) {
    memcpy(s->examples[at++], d->examples[i], sizeof s->examples[0]);
  }
  if (s->files == 0) memcpy(s->format, d->format, sizeof s->format);
  if (strcmp(s->format, d->format) != 0) snprintf(s->format, sizeof s->format, "mixed");
  s->files++;
  fopo_dataset_free(d);
  return status;
}

/* ---- all files ---- */

int fopo_several_sizes(uint64_t *sizes, const char *const *paths, size_t n) {
  for (size_t i = 0; i < n; i++) {
    sizes[i] = 0;
    if (fopo_source_is_stream(paths[i])) continue;
    int fd, status = fopo_open_regular(&fd, &sizes[i], paths[i]);
    if (status != FOPO_OK) return status;
    close(fd);
    if (sizes[i] == 0) return fopo_fail(FOPO_ERR_FORMAT, "%s is empty", paths[i]);
  }
  return FOPO_OK;
}

const char *fopo_several_title(char title[FOPO_SEVERAL_TITLE], const char *const *paths, size_t n) {
  char first[200];
  fopo_source_name(first, sizeof first, paths[0]);
  snprintf(title, FOPO_SEVERAL_TITLE, "%s", first);
  if (n > 1) {
    snprintf(title, FOPO_SEVERAL_TITLE, "%s and %zu more file%s", first, n - 1, n == 2 ? "" : "s");
  }
  return title;
}

/* The names of both sides; the pairs become indices of them. */
static int finish_names(fopo_dataset *d, fopo_several *s) {
  fopo_pairs *p = &s->pairs;
  uint32_t *user = NULL, *item = NULL;
  int status = fopo_ids_finish(&d->users, &user, &s->users);
  fopo_ids_done(&s->users);
  if (status == FOPO_OK) status = fopo_ids_finish(&d->items, &item, &s->items);
  fopo_ids_done(&s->items);
  if (status == FOPO_OK && p->spill != NULL) {
    status = fopo_spill_arrange(p->spill, user, item, d->users.n);
  }
  if (status == FOPO_OK) status = fopo_merge_renumber(p->user, user, p->n);
  if (status == FOPO_OK) status = fopo_merge_renumber(p->item, item, p->n);
  fopo_free(user);
  fopo_free(item);
  return status;
}

static int build(fopo_dataset *d, fopo_several *s, const char *what) {
  fopo_pairs *p = &s->pairs;
  memcpy(d->format, s->format, sizeof d->format);
  if (s->timed) memcpy(d->no_times, s->no_times, sizeof d->no_times);
  d->skipped = s->skipped;
  d->malformed = s->errors;
  memcpy(d->examples, s->examples, sizeof d->examples);
  int status = finish_names(d, s);
  size_t users = d->users.n, items = d->items.n;
  if (status == FOPO_OK) {
    status = p->spill != NULL ? fopo_spill_build(d, p->spill, p->with_times, users, items, what)
                              : fopo_pairs_build(d, p, users, items, what);
  }
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
  double rows = (double)fopo_spill_n(&s->pairs);
  return fopo_spill_check_more(path, rows * rest / done, &s->pairs);
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

/* They are one table, so that one program reads them. */
static int read_columnar(fopo_dataset **d, const char *const *paths, size_t n,
                         const fopo_read_options *options) {
  char *source;
  int status = columnar_source(&source, paths, n, options);
  if (status == FOPO_OK) status = fopo_dataset_read(d, source, options);
  fopo_free(source);
  return status;
}

int fopo_dataset_read_all(fopo_dataset **d, const char *const *paths, size_t n,
                          const fopo_read_options *options) {
  static const fopo_read_options none = {0};
  if (options == NULL) options = &none;
  if (n == 1 && options->parts == 0) return fopo_dataset_read(d, paths[0], options);
  if (fopo_columnar_are(paths, n) && options->parts == 0) {
    return read_columnar(d, paths, n, options);
  }
  fopo_several s = {.many = n > 1};
  char what[FOPO_SEVERAL_TITLE];
  fopo_spill *spill = NULL;
  *d = NULL;
  int status = options->parts > 0 ? fopo_spill_new(&spill, options->parts) : FOPO_OK;
  s.pairs.spill = spill;
  if (status == FOPO_OK) status = read_all(&s, paths, n, options);
  if (status == FOPO_OK) status = fopo_several_build(d, &s, fopo_several_title(what, paths, n));
  fopo_several_done(&s);
  fopo_spill_free(spill);
  return status;
}
