/* MatrixMarket (https://math.nist.gov/MatrixMarket/formats.html): rows are users, columns items.
 *
 * Coordinate and array forms; pattern, integer and real values; general, symmetric and
 * skew-symmetric storage, the last two expanded. Values must fit the type of a second line
 * "%%GraphBLAS type int8_t", as SuiteSparse and LAGraph write it.
 *
 * The number of entries must be that of the size line, but no memory is reserved by it: pairs grow
 * as they are read. A file named .mtx may lack the banner; its first entry then says whether there
 * are values. */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/status.h"
#include "data/number.h"
#include "data/pairs.h"
#include "data/read/readers.h"
#include "data/text.h"

enum { WORDS = 6 };

typedef struct {
  fopo_text *t; /* not owned */
  int banner;   /* the file has one */
  int array, pattern, integer;
  int mirror; /* 0 general, 1 symmetric, -1 skew-symmetric */
  int use_values;
  double least, most; /* range of the GraphBLAS type */
  uint64_t rows, cols, entries;
  fopo_chars words[WORDS]; /* of the current line */
  size_t n;                /* words of the line; WORDS means WORDS or more */
  fopo_pairs pairs;
} reader;

/* Fails with the place: the last line, `column` the word at fault, from 1; 0: the whole line. */
static int refuse(const reader *r, size_t column, const char *why) {
  const fopo_chars *w = column > 0 ? &r->words[column - 1] : NULL;
  return fopo_text_refuse(r->t, r->t->line, column, w != NULL ? w->at : NULL, w != NULL ? w->n : 0,
                          why);
}

static void split(reader *r, const char *p, const char *end) {
  for (r->n = 0; r->n < WORDS; r->n++) {
    while (p < end && isspace((unsigned char)*p)) p++;
    if (p == end) return;
    const char *start = p;
    while (p < end && !isspace((unsigned char)*p)) p++;
    r->words[r->n] = (fopo_chars){start, (size_t)(p - start)};
  }
}

/* Splits the next line into r->words, skipping comments and blank lines; r->n = 0 at the end of the
 * file. */
static int next_line(reader *r) {
  fopo_text *t = r->t;
  for (;;) {
    if (t->at == t->stop) {
      int status = fopo_text_more(t);
      if (status != FOPO_OK) return status;
      r->n = 0;
      if (t->at == t->stop) return FOPO_OK;
    }
    const char *at = t->at, *end = memchr(at, '\n', (size_t)(t->stop - at));
    t->at = end + 1;
    t->line++;
    split(r, at, end);
    if (r->n > 0 && *r->words[0].at != '%') return FOPO_OK;
  }
}

/* 1 if word i is `text`, in any case. */
static int is(const reader *r, size_t i, const char *text) {
  return i < r->n && r->words[i].n == strlen(text) &&
         strncasecmp(r->words[i].at, text, r->words[i].n) == 0;
}

/* %%MatrixMarket matrix coordinate|array real|... general|... */
static int read_banner(reader *r) {
  r->array = is(r, 2, "array");
  if (!is(r, 1, "matrix") || (!r->array && !is(r, 2, "coordinate"))) {
    return refuse(r, 0, "a MatrixMarket matrix is coordinate or array");
  }
  r->pattern = is(r, 3, "pattern");
  r->integer = is(r, 3, "integer");
  if (is(r, 3, "complex") || is(r, 4, "hermitian")) {
    return refuse(r, 0, "complex matrices are not supported; save the real part");
  }
  if (!r->pattern && !r->integer && !is(r, 3, "real") && !is(r, 3, "double")) {
    return refuse(r, 0, "the values are none of real, double, integer and pattern");
  }
  if (r->array && r->pattern) {
    return refuse(r, 0, "an array cannot be a pattern; use coordinate pattern");
  }
  r->mirror = is(r, 4, "symmetric") ? 1 : is(r, 4, "skew-symmetric") ? -1 : 0;
  if (r->mirror == 0 && !is(r, 4, "general")) {
    return refuse(r, 0, "the storage is none of general, symmetric and skew-symmetric");
  }
  if (r->mirror < 0 && r->pattern) return refuse(r, 0, "a pattern cannot be skew-symmetric");
  return FOPO_OK;
}

/* %%GraphBLAS type uint8_t */
static int read_type(reader *r) {
  static const struct {
    const char *name;
    double least, most;
  } types[] = {
      {"bool", 0, 1},          {"int8_t", -0x1p7, 0x1p7 - 1}, {"int16_t", -0x1p15, 0x1p15 - 1},
      {"uint8_t", 0, 0xff},    {"uint16_t", 0, 0xffff},       {"int32_t", -0x1p31, 0x1p31 - 1},
      {"uint64_t", 0, 0x1p64}, {"uint32_t", 0, 0x1p32 - 1},   {"int64_t", -0x1p63, 0x1p63}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (is(r, 2, types[i].name)) {
      r->least = types[i].least;
      r->most = types[i].most;
    }
  }
  return FOPO_OK;
}

/* The banner and the type line, before anything else. */
static int read_head(reader *r) {
  fopo_text *t = r->t;
  r->least = -DBL_MAX;
  r->most = DBL_MAX;
  while (t->at < t->stop && t->at[0] == '%' && t->at[1] == '%') {
    const char *end = memchr(t->at, '\n', (size_t)(t->stop - t->at));
    split(r, t->at, end);
    t->at = end + 1;
    t->line++;
    int status = FOPO_OK;
    if (is(r, 0, "%%MatrixMarket")) {
      r->banner = 1;
      status = read_banner(r);
    } else if (is(r, 0, "%%GraphBLAS")) {
      status = read_type(r);
    }
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* A size in word i. */
static int natural(const reader *r, size_t i, uint64_t *value) {
  int64_t v;
  if (!fopo_parse_plain(&v, r->words[i].at, r->words[i].n) || v < 0) {
    return refuse(r, i + 1, "is not a number of rows, columns or entries");
  }
  *value = (uint64_t)v;
  return FOPO_OK;
}

static int read_size(reader *r) {
  int status = next_line(r);
  if (status != FOPO_OK) return status;
  size_t wanted = r->array ? 2 : 3;
  /* Some writers, LAGraph among them, give arrays a third number. */
  if (r->n != wanted && !(r->array && r->n == 3)) {
    return refuse(r, 0,
                  r->array ? "the size line needs rows and columns"
                           : "the size line needs rows, columns and entries");
  }
  status = natural(r, 0, &r->rows);
  if (status == FOPO_OK) status = natural(r, 1, &r->cols);
  if (status == FOPO_OK && !r->array) status = natural(r, 2, &r->entries);
  if (status != FOPO_OK) return status;
  if (r->rows >= UINT32_MAX || r->cols >= UINT32_MAX) {
    return refuse(r, 0, "there are more than 4294967294 rows or columns");
  }
  if (r->mirror != 0 && r->rows != r->cols) {
    return refuse(r, 0, "a symmetric matrix has as many rows as columns");
  }
  /* An array stores whole columns, a symmetric one the part on and below the diagonal, a
   * skew-symmetric one the part below it. */
  uint64_t n = r->cols;
  if (r->array) {
    r->entries = r->mirror == 0  ? r->rows * n
                 : r->mirror > 0 ? n * (n + 1) / 2
                                 : n * (n - (n > 0)) / 2;
  }
  return fopo_memory_suffices(8 * (r->rows + 2 * r->cols), r->t->path, "it claims too many rows");
}

/* The value in word i. */
static int read_value(const reader *r, size_t i, float *value) {
  double x;
  fopo_chars w = r->words[i];
  fopo_number_kind kind = fopo_parse_real(&x, w.at, w.n);
  if (kind == FOPO_NO_NUMBER) return refuse(r, i + 1, "is not a number");
  *value = 1.0f;
  if (!r->use_values) return FOPO_OK;
  if (kind == FOPO_NOT_FINITE || fabs(x) > (double)FLT_MAX) {
    return refuse(r, i + 1, "is not a finite number of float32 (value = \"\" uses no values)");
  }
  if (r->integer && x != trunc(x)) return refuse(r, i + 1, "is not an integer");
  if (x < r->least || x > r->most) {
    return refuse(r, i + 1, "is outside the GraphBLAS type that the file names");
  }
  *value = (float)x;
  return FOPO_OK;
}

/* The index in word i, made 0-based. */
static int read_index(const reader *r, size_t i, uint64_t limit, uint32_t *index) {
  int64_t v;
  if (!fopo_parse_plain(&v, r->words[i].at, r->words[i].n) || v < 1 || (uint64_t)v > limit) {
    return refuse(r, i + 1,
                  i == 0 ? "is not a row of the matrix" : "is not a column of the matrix");
  }
  *index = (uint32_t)(v - 1);
  return FOPO_OK;
}

/* An entry and its mirror image. */
static int add(reader *r, uint32_t row, uint32_t col, float value) {
  int status = fopo_pairs_add(&r->pairs, row, col, value);
  if (status != FOPO_OK || r->mirror == 0 || row == col) return status;
  return fopo_pairs_add(&r->pairs, col, row, r->mirror < 0 ? -value : value);
}

static int read_coordinates(reader *r) {
  int undecided = !r->banner; /* without a banner the first entry says whether there are values */
  for (uint64_t e = 0; e < r->entries; e++) {
    uint32_t row = 0, col = 0;
    float value = 1.0f;
    int status = next_line(r);
    if (status != FOPO_OK) return status;
    if (r->n == 0) return refuse(r, 0, "the file ends before all of its entries came");
    if (undecided) r->pattern = r->n == 2;
    undecided = 0;
    if (r->n != (r->pattern ? 2u : 3u)) {
      return refuse(r, 0,
                    r->pattern ? "an entry of a pattern is a row and a column"
                               : "an entry is a row, a column and a value");
    }
    status = read_index(r, 0, r->rows, &row);
    if (status == FOPO_OK) status = read_index(r, 1, r->cols, &col);
    if (status == FOPO_OK && !r->pattern) status = read_value(r, 2, &value);
    if (status == FOPO_OK && r->mirror < 0 && row == col) {
      status = refuse(r, 0, "a skew-symmetric matrix has no diagonal");
    }
    if (status == FOPO_OK) status = add(r, row, col, value);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* Column by column, one value a line; zeros are no interactions. */
static int read_array(reader *r) {
  for (uint64_t col = 0; col < r->cols; col++) {
    for (uint64_t row = r->mirror == 0 ? 0 : col + (r->mirror < 0); row < r->rows; row++) {
      float value;
      int status = next_line(r);
      if (status != FOPO_OK) return status;
      if (r->n == 0) return refuse(r, 0, "the file ends before all of its entries came");
      if (r->n != 1) return refuse(r, 0, "an array has one value a line");
      status = read_value(r, 0, &value);
      if (status == FOPO_OK && value != 0) status = add(r, (uint32_t)row, (uint32_t)col, value);
      if (status != FOPO_OK) return status;
    }
  }
  return FOPO_OK;
}

static int read_entries(reader *r) {
  int status = r->array ? read_array(r) : read_coordinates(r);
  if (status == FOPO_OK) status = next_line(r);
  if (status == FOPO_OK && r->n > 0) {
    status = refuse(r, 0, "there are more entries than the size line says");
  }
  return status;
}

static int read_mtx(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  reader r = {.t = t, .use_values = o->value == NULL};
  int status = read_head(&r);
  if (status == FOPO_OK) status = read_size(&r);
  r.pairs.with_values = r.use_values && !r.pattern;
  if (status == FOPO_OK) status = read_entries(&r);
  if (status == FOPO_OK) {
    d->users.n = (size_t)r.rows;
    d->items.n = (size_t)r.cols;
    status = fopo_pairs_build(d, &r.pairs, (size_t)r.rows, (size_t)r.cols, t->path);
  }
  fopo_pairs_done(&r.pairs);
  return status;
}

static int ends_with(const char *path, const char *end) {
  size_t n = strlen(path), m = strlen(end);
  return n > m && strcasecmp(path + n - m, end) == 0;
}

static int sniff(fopo_text *t, const fopo_read_options *o) {
  static const char banner[] = "%%MatrixMarket";
  size_t n = sizeof banner - 1;
  (void)o;
  return ((size_t)(t->stop - t->at) > n && strncasecmp(t->at, banner, n) == 0) ||
         ends_with(t->path, ".mtx") || ends_with(t->path, ".mtx.gz");
}

const fopo_reader fopo_reader_mtx = {
    .name = "mtx",
    .what = "MatrixMarket: coordinate and array, general and symmetric",
    .sniff = sniff,
    .read = read_mtx};
