#include "data/columnar.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum {
  COLUMNS_MOST = 4096,
  HEAD_MOST = 1 << 20, /* bytes of the header */
  NUMBER = 32          /* characters of a number, at most */
};

typedef enum { INTEGERS, REALS, TEXTS } kind;

typedef struct {
  kind kind;
  const uint8_t *valid;   /* [rows]; NULL: no field is missing */
  const int64_t *numbers; /* [rows]; of texts [rows + 1] where they start in `text` */
  const double *reals;
  const char *text;
} column;

struct fopo_columnar {
  char *block; /* [capacity] */
  size_t capacity;
  size_t rows, row; /* of the block, and how many of them are text already */
  size_t columns;   /* 0: the header has not been read */
  column of[COLUMNS_MOST];
};

static const char magic[8] = "\x02"
                             "fopocol";

int fopo_columnar_is(const unsigned char *first) { return memcmp(first, magic, sizeof magic) == 0; }

int fopo_columnar_open(fopo_columnar **c) {
  *c = fopo_alloc(1, sizeof **c);
  return *c != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

void fopo_columnar_close(fopo_columnar *c) {
  if (c == NULL) return;
  fopo_free(c->block);
  fopo_free(c);
}

static int cut_short(const fopo_source *s) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s: what pyarrow sends is cut short", s->name);
}

/* Reads n bytes into the block; *ended = 1 if the source ends before the first. */
static int read_bytes(fopo_columnar *c, fopo_source *s, size_t n, int *ended, uint64_t *taken) {
  size_t got = 0;
  int status = FOPO_OK;
  if (n > c->capacity) {
    status = fopo_resize(&c->block, n, 1);
    if (status != FOPO_OK) return status;
    c->capacity = n;
  }
  status = fopo_source_next(s, c->block, n, &got);
  *taken += got;
  *ended = got == 0;
  return status == FOPO_OK && got > 0 && got < n ? cut_short(s) : status;
}

/* A number of 8 bytes, which says how many follow, and these. */
static int read_sized(fopo_columnar *c, fopo_source *s, size_t *n, int *ended, uint64_t *taken) {
  int64_t size = 0;
  int status = read_bytes(c, s, sizeof size, ended, taken);
  if (status != FOPO_OK || *ended) return status;
  memcpy(&size, c->block, sizeof size);
  if (size <= 0) return cut_short(s);
  *n = (size_t)size;
  status = read_bytes(c, s, *n, ended, taken);
  return status == FOPO_OK && *ended ? cut_short(s) : status;
}

/* Takes n elements of `size` bytes, padded to 8, from the block at *at; NULL beyond its end. */
static const void *take(const char **at, const char *end, size_t n, size_t size) {
  size_t left = (size_t)(end - *at), bytes = (n * size + 7) / 8 * 8;
  const void *from = *at;
  if (n > left / size || bytes > left) return NULL;
  *at += bytes;
  return from;
}

/* Where the columns of the block [n] lie. */
static int place_columns(fopo_columnar *c, const fopo_source *s, size_t n) {
  const char *at = c->block, *end = at + n;
  const int64_t *rows = take(&at, end, 1, 8);
  if (rows == NULL || *rows < 0) return cut_short(s);
  c->rows = (size_t)*rows;
  c->row = 0;
  for (size_t i = 0; i < c->columns; i++) {
    const int64_t *head = take(&at, end, 2, 8);
    if (head == NULL) return cut_short(s);
    column *of = &c->of[i];
    *of = (column){.kind = (kind)head[0]};
    if (head[1] != 0 && (of->valid = take(&at, end, c->rows, 1)) == NULL) return cut_short(s);
    const void *numbers = take(&at, end, c->rows + (of->kind == TEXTS), 8);
    if (numbers == NULL) return cut_short(s);
    of->numbers = numbers;
    of->reals = numbers;
    if (of->kind != TEXTS) continue;
    of->text = take(&at, end, (size_t)of->numbers[c->rows], 1);
    if (of->text == NULL) return cut_short(s);
  }
  return FOPO_OK;
}

/* The header goes to the caller as it is; its columns are those between commas outside of quotes.
 */
static int read_header(fopo_columnar *c, fopo_source *s, char *bytes, size_t n, size_t *got,
                       uint64_t *taken) {
  int ended, quoted = 0;
  size_t size;
  int status = read_bytes(c, s, sizeof magic, &ended, taken);
  if (status == FOPO_OK) status = read_sized(c, s, &size, &ended, taken);
  if (status != FOPO_OK) return status;
  if (ended || size > n || size > HEAD_MOST) return cut_short(s);
  c->columns = 1;
  for (size_t i = 0; i < size; i++) {
    quoted ^= c->block[i] == '"';
    c->columns += c->block[i] == ',' && !quoted;
  }
  if (c->columns > COLUMNS_MOST) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s has %zu columns; name user and item, and only those and "
                     "known ones are read",
                     s->name, c->columns);
  }
  memcpy(bytes, c->block, size);
  *got = size;
  return FOPO_OK;
}

/* ---- fields as text ---- */

static char *write_integer(char *to, int64_t x) {
  char digits[NUMBER], *from = digits + sizeof digits;
  uint64_t rest = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  do {
    *--from = (char)('0' + rest % 10);
  } while ((rest /= 10) > 0);
  if (x < 0) *--from = '-';
  size_t n = (size_t)(digits + sizeof digits - from);
  memcpy(to, from, n);
  return to + n;
}

/* Ratings and times are mostly whole, or have a few decimals. */
static char *write_real(char *to, double x) {
  enum { PARTS = 1000 };
  if (fabs(x) < 1e12) {
    double whole = trunc(x), parts = nearbyint(fabs(x - whole) * PARTS);
    if (parts == 0 && whole == x) return write_integer(to, (int64_t)x);
    double near = fabs(whole) + parts / PARTS;
    if (near == fabs(x) && parts < PARTS) {
      int three = (int)parts;
      if (x < 0) *to++ = '-';
      to = write_integer(to, (int64_t)fabs(whole));
      *to++ = '.';
      for (int unit = PARTS / 10; three > 0; three %= unit, unit /= 10) {
        *to++ = (char)('0' + three / unit);
        if (unit == 1) break;
      }
      return to;
    }
  }
  return to + snprintf(to, NUMBER, "%.17g", x);
}

static int needs_quotes(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (strchr(",\"\r\n", text[i]) != NULL && text[i] != '\0') return 1;
  }
  return 0;
}

static char *write_text(char *to, const char *text, size_t n) {
  if (!needs_quotes(text, n)) {
    if (n > 0) memcpy(to, text, n);
    return to + n;
  }
  *to++ = '"';
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '"') *to++ = '"';
    *to++ = text[i];
  }
  *to++ = '"';
  return to;
}

/* The most bytes that a row may take. */
static size_t room_of(const fopo_columnar *c, size_t row) {
  size_t room = 0;
  for (size_t i = 0; i < c->columns; i++) {
    const column *of = &c->of[i];
    room += of->kind == TEXTS ? 2 * (size_t)(of->numbers[row + 1] - of->numbers[row]) + 3 : NUMBER;
  }
  return room;
}

static char *write_row(const fopo_columnar *c, char *to, size_t row) {
  for (size_t i = 0; i < c->columns; i++) {
    const column *of = &c->of[i];
    if (of->valid != NULL && !of->valid[row]) {
    } else if (of->kind == INTEGERS) {
      to = write_integer(to, of->numbers[row]);
    } else if (of->kind == REALS) {
      to = write_real(to, of->reals[row]);
    } else {
      int64_t start = of->numbers[row];
      to = write_text(to, of->text + start, (size_t)(of->numbers[row + 1] - start));
    }
    *to++ = i + 1 < c->columns ? ',' : '\n';
  }
  return to;
}

int fopo_columnar_next(fopo_columnar *c, fopo_source *s, char *bytes, size_t n, size_t *got,
                       uint64_t *taken) {
  int status = FOPO_OK, ended = 0;
  size_t size;
  *got = 0;
  if (c->columns == 0) return read_header(c, s, bytes, n, got, taken);
  while (status == FOPO_OK && c->row == c->rows && !ended) {
    status = read_sized(c, s, &size, &ended, taken);
    if (status == FOPO_OK && !ended) status = place_columns(c, s, size);
  }
  if (status != FOPO_OK || ended) return status;
  char *to = bytes;
  for (; c->row < c->rows; c->row++) {
    if (room_of(c, c->row) > n - (size_t)(to - bytes)) break;
    to = write_row(c, to, c->row);
  }
  *got = (size_t)(to - bytes);
  if (*got > 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s has a row of more than 500 kB", s->name);
}
