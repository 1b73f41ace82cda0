/* One call for every form: what a file is, is decided by its first bytes, never by its name (but
 * for MatrixMarket files without a banner), and by the options. */
#include "data/read/readers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/status.h"
#include "data/read/internal.h"

static const char *const formats[] = {"auto",    "pairs",   "movielens", "lists",
                                      "counted", "baskets", "twitch",    "goodreads",
                                      "npz",     "mtx",     NULL};

static int check_format(const char *format) {
  for (size_t i = 0; formats[i] != NULL; i++)
    if (strcmp(format, formats[i]) == 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "format = \"%s\" is none of auto, pairs, movielens, lists, "
                   "counted, baskets, twitch, goodreads, npz, mtx",
                   format);
}

/* The first bytes of the file, at most n; fewer where it is shorter. */
static int first_bytes(const char *path, char *bytes, size_t n) {
  memset(bytes, 0, n);
  FILE *f = fopen(path, "rb");
  if (f == NULL) return 0; /* whoever opens it next says why */
  size_t got = fread(bytes, 1, n, f);
  fclose(f);
  return got > 0;
}

static int ends_with(const char *path, const char *end) {
  size_t n = strlen(path), m = strlen(end);
  return n > m && strcasecmp(path + n - m, end) == 0;
}

static int is_mtx(const fopo_text *t) {
  static const char banner[] = "%%MatrixMarket";
  size_t n = sizeof banner - 1;
  return ((size_t)(t->stop - t->at) > n && strncasecmp(t->at, banner, n) == 0) ||
         ends_with(t->path, ".mtx") || ends_with(t->path, ".mtx.gz");
}

/* Options that make sense for one interaction a line alone. */
static int speaks_of_columns(const fopo_read_options *o) {
  return o->user != NULL || o->item != NULL || (o->value != NULL && *o->value != '\0') ||
         o->where != NULL || o->header > 0 || o->separator != 0;
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

/* Text that other readers are for, or none. */
static int other_kind(const fopo_text *t) {
  const char *what = NULL;
  if (*t->at == '{') what = "is JSON; write users and items as two columns";
  if (strncmp(t->at, "shared |", 8) == 0 || is_vw(t->at))
    what = "is in Vowpal Wabbit's form, a log of actions; read it with fopo.data.logs";
  return what == NULL ? FOPO_OK : fopo_fail(FOPO_ERR_FORMAT, "%s %s", t->path, what);
}

/* At least ten lines to judge by, where there are so many; a first line may be a short one. */
static int enough_lines(fopo_text *t) {
  for (;;) {
    int lines = 0;
    for (const char *p = t->at; p < t->stop && lines < 10; lines++)
      p = (const char *)memchr(p, '\n', (size_t)(t->stop - p)) + 1;
    if (lines == 10 || t->ended) return FOPO_OK;
    int status = fopo_text_more(t);
    if (status != FOPO_OK) return status;
  }
}

static int read_text(fopo_dataset *d, const char *path, const fopo_read_options *o,
                     const char *format) {
  fopo_text t = {0};
  int status = fopo_text_open(&t, path);
  if (status == FOPO_OK) status = enough_lines(&t);
  if (status != FOPO_OK) {
    fopo_text_close(&t);
    return status;
  }
  int automatic = strcmp(format, "auto") == 0;
  if (t.at == t.stop) {
    status = fopo_fail(FOPO_ERR_FORMAT, "%s is empty", path);
  } else if (strcmp(format, "mtx") == 0 || (automatic && is_mtx(&t))) {
    status = fopo_read_mtx(d, &t, o);
  } else {
    if (automatic) status = other_kind(&t);
    if (automatic && !speaks_of_columns(o)) {
      const char *seen = fopo_sniff_lists(t.at, t.stop);
      if (strcmp(seen, "pairs") != 0) format = seen;
    }
    int lists = strcmp(format, "lists") == 0 || strcmp(format, "counted") == 0 ||
                strcmp(format, "baskets") == 0;
    if (status == FOPO_OK)
      status = lists ? fopo_read_lists(d, &t, o, format) : fopo_read_pairs(d, &t, o, format);
  }
  fopo_text_close(&t);
  return status;
}

int fopo_dataset_read(fopo_dataset **dataset, const char *path, const fopo_read_options *options) {
  static const fopo_read_options none = {0};
  const fopo_read_options *o = options != NULL ? options : &none;
  const char *format = o->format != NULL ? o->format : "auto";
  *dataset = NULL;
  int status = check_format(format);
  if (status != FOPO_OK) return status;
  fopo_dataset *d = fopo_alloc(1, sizeof *d);
  if (d == NULL) return FOPO_ERR_MEMORY;
  char magic[8];
  int automatic = strcmp(format, "auto") == 0 && first_bytes(path, magic, sizeof magic);
  if (strcmp(format, "npz") == 0 || (automatic && memcmp(magic, "PK", 2) == 0)) {
    status = fopo_read_npz(d, path, o);
  } else if (automatic && memcmp(magic, "\x93NUMPY", 6) == 0) {
    status = fopo_fail(FOPO_ERR_FORMAT,
                       "%s is one .npy array; interactions are a sparse matrix, "
                       "which scipy.sparse.save_npz writes",
                       path);
  } else {
    status = read_text(d, path, o, format);
  }
  if (status != FOPO_OK) {
    fopo_dataset_free(d);
    return status;
  }
  *dataset = d;
  return FOPO_OK;
}
