/* The choice of a reader. What a file is, is decided by its first bytes and the options, never by
 * its name (except a MatrixMarket file without a banner). */
#include "data/read/readers.h"

#include <stdio.h>
#include <string.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/formats.h"
#include "data/read/several.h"

#define FOPO_READER_ROW(name) &fopo_reader_##name,
static const fopo_reader *const readers[] = {FOPO_READERS(FOPO_READER_ROW) NULL};
#undef FOPO_READER_ROW

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

static int open_text(const fopo_reader **reader, fopo_text *t, const char *path,
                     const fopo_read_options *o) {
  int status = fopo_text_open(t, path);
  if (status == FOPO_OK) status = read_ten_lines(t);
  if (status == FOPO_OK && *reader == NULL) status = find_sniffed(reader, t, o);
  if (status == FOPO_OK) status = check_options(*reader, o, path);
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
  if (reader == NULL && fopo_file_begins(path, "\x93NUMPY")) {
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
