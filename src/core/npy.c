/* One array as NumPy writes it (numpy.lib.format, versions 1.0 to 3.0): magic, version, length of
 * the header, a Python dict in a fixed form, then the bytes of the array.
 *
 * The size that the dict claims must be that of the file or member, which is
 * checked before memory is allocated. Types without a fopo_dtype are widened: int8, int16 and
 * uint16 to int32, float16 to float32, text of code points to UTF-8. */
#include "core/npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/replace.h"
#include "core/status.h"

/* ---- the header ---- */

/* A parser that accepts the three keys of the dict and nothing else. Object arrays are pickles,
 * that is, programs, and are refused. */

/* What the header claims. */
typedef struct {
  char order;  /* '<' '>' '|' */
  char kind;   /* f i u b S U */
  size_t size; /* bytes of one element, for U four per character */
  int fortran;
  int ndim;
  size_t shape[2];
} claim;

typedef struct {
  const char *at, *end, *label;
} scanner;

static int malformed(const scanner *s, const char *why) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s: the .npy header is malformed: %s", s->label, why);
}

static void spaces(scanner *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t')) s->at++;
}

static int accept(scanner *s, char c) {
  spaces(s);
  if (s->at == s->end || *s->at != c) return 0;
  s->at++;
  return 1;
}

/* A quoted word without escapes. */
static int word(scanner *s, char *text, size_t size) {
  spaces(s);
  if (s->at == s->end || (*s->at != '\'' && *s->at != '"')) {
    return malformed(s, "a quote is missing");
  }
  char quote = *s->at++;
  size_t n = 0;
  while (s->at < s->end && *s->at != quote) {
    if (n + 1 >= size) return malformed(s, "a word is too long");
    text[n++] = *s->at++;
  }
  text[n] = '\0';
  return accept(s, quote) ? FOPO_OK : malformed(s, "a quote is not closed");
}

static int boolean(scanner *s, int *value) {
  spaces(s);
  size_t left = (size_t)(s->end - s->at);
  *value = left >= 4 && memcmp(s->at, "True", 4) == 0;
  if (!*value && !(left >= 5 && memcmp(s->at, "False", 5) == 0)) {
    return malformed(s, "fortran_order is neither True nor False");
  }
  s->at += *value ? 4 : 5;
  return FOPO_OK;
}

/* A dimension; Python 2 printed long ones as 10L. */
static int dimension(scanner *s, size_t *value) {
  spaces(s);
  if (s->at == s->end || !isdigit((unsigned char)*s->at)) {
    return malformed(s, "a dimension is not a number");
  }
  size_t n = 0;
  for (; s->at < s->end && isdigit((unsigned char)*s->at); s->at++) {
    if (n > (INT64_MAX - 9) / 10) return malformed(s, "a dimension is too large");
    n = 10 * n + (size_t)(*s->at - '0');
  }
  if (s->at < s->end && *s->at == 'L') s->at++;
  *value = n;
  return FOPO_OK;
}

static int shape(scanner *s, claim *c) {
  if (!accept(s, '(')) return malformed(s, "the shape is not a tuple");
  c->shape[0] = c->shape[1] = 1;
  for (c->ndim = 0; !accept(s, ')'); c->ndim++) {
    if (c->ndim == 2) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s has more than two dimensions; reshape it first",
                       s->label);
    }
    int status = dimension(s, &c->shape[c->ndim]);
    if (status != FOPO_OK) return status;
    if (!accept(s, ',') && !(s->at < s->end && *s->at == ')')) {
      return malformed(s, "the shape is not closed");
    }
  }
  return FOPO_OK;
}

static int descr(scanner *s, claim *c) {
  char text[32];
  spaces(s);
  if (s->at < s->end && *s->at == '[') {
    return fopo_fail(FOPO_ERR_FORMAT, "%s has named fields; save each field as an array of its own",
                     s->label);
  }
  int status = word(s, text, sizeof text);
  if (status != FOPO_OK) return status;
  c->order = text[0];
  c->kind = c->order != '\0' ? text[1] : '\0';
  if (c->kind == 'O') {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s holds Python objects (a pickle), which are never loaded; "
                     "save numbers instead",
                     s->label);
  }
  scanner digits = {text + 2, text + strlen(text), s->label};
  if (c->kind == '\0' || strchr("<>|=", c->order) == NULL ||
      dimension(&digits, &c->size) != FOPO_OK || digits.at != digits.end) {
    return malformed(s, "the type is not understood");
  }
  size_t n = c->size;
  int known = (c->kind == 'f' && (n == 2 || n == 4 || n == 8)) ||
              ((c->kind == 'i' || c->kind == 'u') && (n == 1 || n == 2 || n == 4 || n == 8)) ||
              (c->kind == 'b' && n == 1) || c->kind == 'S' || c->kind == 'U';
  if (!known) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s has type '%s'; float, int and bool arrays and text are read", s->label,
                     text);
  }
  if (c->kind == 'U' && __builtin_mul_overflow(c->size, (size_t)4, &c->size)) {
    return malformed(s, "the type is too large");
  }
  return FOPO_OK;
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } with each key once, in any order. */
/* Parses the dict of a header, text [length]. */
static int parse_header(claim *c, const char *text, size_t length, const char *label) {
  scanner scan = {text, text + length, label}, *s = &scan;
  unsigned seen = 0;
  if (!accept(s, '{')) return malformed(s, "it is not a dict");
  while (!accept(s, '}')) {
    char key[32];
    int status = word(s, key, sizeof key);
    if (status != FOPO_OK) return status;
    if (!accept(s, ':')) return malformed(s, "a colon is missing");
    unsigned bit = strcmp(key, "descr") == 0           ? 1
                   : strcmp(key, "fortran_order") == 0 ? 2
                   : strcmp(key, "shape") == 0         ? 4
                                                       : 0;
    if (bit == 0 || (seen & bit) != 0) return malformed(s, "a key is unknown or occurs twice");
    seen |= bit;
    status = bit == 1 ? descr(s, c) : bit == 2 ? boolean(s, &c->fortran) : shape(s, c);
    if (status != FOPO_OK) return status;
    if (!accept(s, ',') && !(s->at < s->end && *s->at == '}')) {
      return malformed(s, "a comma is missing");
    }
  }
  spaces(s);
  if (seen != 7) return malformed(s, "descr, fortran_order or shape is missing");
  return s->at == s->end ? FOPO_OK : malformed(s, "something follows the dict");
}

/* NumPy's own limit (max_header_size) for headers that are not trusted. */
enum { HEADER_MOST = 10000 };

size_t fopo_dtype_size(fopo_dtype type) {
  static const size_t sizes[] = {
      [FOPO_F32] = 4, [FOPO_F64] = 8, [FOPO_I32] = 4,  [FOPO_I64] = 8,  [FOPO_U8] = 1,
      [FOPO_U32] = 4, [FOPO_U64] = 8, [FOPO_BOOL] = 1, [FOPO_BYTES] = 1};
  return sizes[type];
}

/* ---- conversion to a fopo_dtype ---- */

static void swap_bytes(unsigned char *bytes, size_t size, size_t count) {
  for (size_t i = 0; i < count; i++, bytes += size) {
    for (size_t a = 0, b = size - 1; a < b; a++, b--) {
      unsigned char t = bytes[a];
      bytes[a] = bytes[b];
      bytes[b] = t;
    }
  }
}

/* IEEE 754 binary16 to binary32. A subnormal is its fraction times 2^-24, exact in float. */
static float half(uint16_t h) {
  uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = (h >> 10) & 31u, fraction = h & 1023u;
  float value;
  if (exponent == 0) {
    value = (float)fraction * 0x1p-24f;
    return sign ? -value : value;
  }
  uint32_t bits = sign | (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | fraction << 13;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Widens elements of 1 or 2 bytes, which lie at the end of the block, to 4 bytes each. The writes
 * from the front never overtake the reads. */
static void widen(void *block, char kind, size_t size, size_t count) {
  const char *narrow = (char *)block + count * (4 - size);
  float *reals = block;
  int32_t *ints = block;
  for (size_t i = 0; i < count; i++, narrow += size) {
    uint16_t two = (uint8_t)narrow[0];
    if (size == 2) memcpy(&two, narrow, 2);
    if (kind == 'f') {
      reals[i] = half(two);
    } else if (kind == 'u') {
      ints[i] = two;
    } else {
      ints[i] = size == 1 ? (int8_t)two : (int16_t)two;
    }
  }
}

/* Converts code points to UTF-8 in place: none needs more than its four bytes. */
static int utf8(unsigned char *element, size_t size, const char *label) {
  size_t n = 0;
  for (size_t i = 0; i < size; i += 4) {
    uint32_t c;
    memcpy(&c, element + i, 4);
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s holds text that is not Unicode", label);
    }
    if (c < 0x80) {
      element[n++] = (unsigned char)c;
    } else if (c < 0x800) {
      element[n++] = (unsigned char)(0xc0 | c >> 6);
      element[n++] = (unsigned char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
      element[n++] = (unsigned char)(0xe0 | c >> 12);
      element[n++] = (unsigned char)(0x80 | (c >> 6 & 63));
      element[n++] = (unsigned char)(0x80 | (c & 63));
    } else {
      element[n++] = (unsigned char)(0xf0 | c >> 18);
      element[n++] = (unsigned char)(0x80 | (c >> 12 & 63));
      element[n++] = (unsigned char)(0x80 | (c >> 6 & 63));
      element[n++] = (unsigned char)(0x80 | (c & 63));
    }
  }
  memset(element + n, 0, size - n);
  return FOPO_OK;
}

static fopo_dtype type_of(const claim *c) {
  switch (c->kind) {
  case 'f': return c->size == 8 ? FOPO_F64 : FOPO_F32;
  case 'i': return c->size == 8 ? FOPO_I64 : FOPO_I32;
  case 'u':
    return c->size == 8 ? FOPO_U64 : c->size == 4 ? FOPO_U32 : c->size == 1 ? FOPO_U8 : FOPO_I32;
  case 'b': return FOPO_BOOL;
  default: return FOPO_BYTES;
  }
}

/* Replaces data stored by columns by a fresh block stored by rows. */
static int transpose(fopo_array *a) {
  size_t rows = a->shape[0], cols = a->shape[1], size = a->itemsize;
  unsigned char *turned = fopo_alloc(rows * cols + 1, size);
  if (turned == NULL) return FOPO_ERR_MEMORY;
  const unsigned char *from = a->data;
  for (size_t j = 0; j < cols; j++) {
    for (size_t i = 0; i < rows; i++) {
      memcpy(turned + (i * cols + j) * size, from + (j * rows + i) * size, size);
    }
  }
  fopo_free(a->data);
  a->data = turned;
  return FOPO_OK;
}

/* Converts byte order, width and layout of the bytes that were read. */
static int convert(fopo_array *a, const claim *c, const char *label) {
  size_t count = fopo_array_count(a), wide = a->itemsize;
  unsigned char *data = a->data;
  unsigned char *raw = data + count * (wide - c->size);
  if (c->order == '>' && c->kind != 'S') {
    swap_bytes(raw, c->kind == 'U' ? 4 : c->size, c->kind == 'U' ? count * (c->size / 4) : count);
  }
  if (wide != c->size) widen(data, c->kind, c->size, count);
  if (c->kind == 'b') {
    for (size_t i = 0; i < count; i++) data[i] = data[i] != 0;
  }
  if (c->kind == 'U') {
    for (size_t i = 0; i < count; i++) {
      int status = utf8(data + i * wide, wide, label);
      if (status != FOPO_OK) return status;
    }
  }
  return c->fortran && a->ndim == 2 ? transpose(a) : FOPO_OK;
}

/* ---- reading ---- */

static int fetch(const fopo_npy_source *s, void *bytes, size_t n) {
  for (size_t done = 0; done < n;) {
    size_t part = n - done < FOPO_NPY_CHUNK ? n - done : FOPO_NPY_CHUNK;
    int status = s->read(s->handle, s->label, (char *)bytes + done, part);
    if (status != FOPO_OK) return status;
    done += part;
    *s->done += part;
    status = fopo_progress(s->what, (double)*s->done, (double)s->total);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* Reads magic, version and dict. *used: bytes consumed. */
static int read_header(claim *c, uint64_t *used, const fopo_npy_source *s) {
  unsigned char start[12];
  char text[HEADER_MOST];
  int status = s->size >= 10 ? fetch(s, start, 10) : FOPO_OK;
  if (status != FOPO_OK) return status;
  if (s->size < 10 || memcmp(start, "\x93NUMPY", 6) != 0) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s is not a .npy array", s->label);
  }
  if (start[6] < 1 || start[6] > 3) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s is of .npy version %d.%d; 1 to 3 are read", s->label,
                     start[6], start[7]);
  }
  size_t length = start[8] | (size_t)start[9] << 8;
  *used = 10;
  if (start[6] > 1) { /* two more bytes of length */
    status = s->size >= 12 ? fetch(s, start + 10, 2) : FOPO_OK;
    if (status != FOPO_OK) return status;
    if (s->size >= 12) length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    *used = 12;
  }
  if (length > s->size - *used || s->size < *used) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s is cut short inside its .npy header", s->label);
  }
  if (length > HEADER_MOST) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s has a .npy header of %zu bytes; at most %d are read",
                     s->label, length, HEADER_MOST);
  }
  status = fetch(s, text, length);
  if (status != FOPO_OK) return status;
  *used += length;
  return parse_header(c, text, length, s->label);
}

int fopo_npy_read(fopo_array *array, const fopo_npy_source *source) {
  claim c = {0};
  uint64_t used = 0;
  int status = read_header(&c, &used, source);
  if (status != FOPO_OK) return status;

  /* The claimed size must be that of the remaining bytes. */
  size_t count, raw;
  if (__builtin_mul_overflow(c.shape[0], c.shape[1], &count) ||
      __builtin_mul_overflow(count, c.size, &raw) || raw != source->size - used) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s claims %zu x %zu elements of %zu bytes, but %llu bytes follow its header",
                     source->label, c.shape[0], c.shape[1], c.size,
                     (unsigned long long)(source->size - used));
  }
  array->type = type_of(&c);
  array->itemsize = array->type == FOPO_BYTES ? c.size : fopo_dtype_size(array->type);
  array->ndim = c.ndim;
  array->shape[0] = c.shape[0];
  array->shape[1] = c.shape[1];

  size_t bytes;
  if (__builtin_mul_overflow(count, array->itemsize, &bytes)) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s is too large to be widened", source->label);
  }
  status = fopo_memory_suffices(c.fortran && c.ndim == 2 ? 2 * (uint64_t)bytes : bytes,
                                source->label, "load it on a machine with more memory");
  if (status != FOPO_OK) return status;
  array->data = fopo_alloc(bytes + 1, 1); /* one more, so that text ends in '\0' */
  if (array->data == NULL) return FOPO_ERR_MEMORY;
  status = fetch(source, (char *)array->data + (bytes - raw), raw);
  if (status == FOPO_OK) status = convert(array, &c, source->label);
  if (status != FOPO_OK) {
    fopo_free(array->data);
    array->data = NULL;
  }
  return status;
}

static int read_file(void *handle, const char *label, void *bytes, size_t n) {
  int fd = *(int *)handle;
  for (size_t done = 0; done < n;) {
    ssize_t got = read(fd, (char *)bytes + done, n - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fopo_fail(FOPO_ERR_FILE, "cannot read %s: %s", label, strerror(errno));
    if (got == 0) return fopo_fail(FOPO_ERR_FILE, "%s became shorter while it was read", label);
    done += (size_t)got;
  }
  return FOPO_OK;
}

int fopo_npy_load(fopo_array *array, const char *path) {
  memset(array, 0, sizeof *array);
  int fd;
  uint64_t size, done = 0;
  int status = fopo_open_regular(&fd, &size, path);
  if (status != FOPO_OK) return status;
  char what[256];
  snprintf(what, sizeof what, "reading %s", path);
  fopo_npy_source source = {read_file, &fd, path, what, size, &done, size};
  status = fopo_npy_read(array, &source);
  close(fd);
  return status;
}

/* The shape of the file, whose data begins at *used, if its rows can be read one by one. */
static int rows_of_file(size_t shape[2], uint64_t *used, const fopo_npy_source *s) {
  claim c = {0};
  int status = read_header(&c, used, s);
  if (status != FOPO_OK) return status;
  if (c.kind != 'f' || c.size != sizeof(float) || c.order == '>' || c.fortran || c.ndim != 2) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s is no matrix of float32 by rows; in NumPy, "
                     "np.save(name, np.ascontiguousarray(x, dtype=np.float32)) writes one",
                     s->label);
  }
  size_t bytes;
  if (__builtin_mul_overflow(c.shape[0], c.shape[1], &bytes) ||
      __builtin_mul_overflow(bytes, sizeof(float), &bytes) || bytes != s->size - *used) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s claims %zu x %zu numbers, but %llu bytes follow its header", s->label,
                     c.shape[0], c.shape[1], (unsigned long long)(s->size - *used));
  }
  shape[0] = c.shape[0];
  shape[1] = c.shape[1];
  return FOPO_OK;
}

int fopo_npy_rows(float *x, size_t shape[2], const char *path, size_t first, size_t n) {
  char what[256];
  uint64_t size, done = 0, used = 0;
  int fd, status = fopo_open_regular(&fd, &size, path);
  if (status != FOPO_OK) return status;
  snprintf(what, sizeof what, "reading %s", path);
  fopo_npy_source source = {read_file, &fd, path, what, size, &done, 0};
  status = rows_of_file(shape, &used, &source);
  if (status == FOPO_OK && x != NULL) {
    size_t width = shape[1] * sizeof *x;
    source.total = n * width;
    done = 0;
    if (first > shape[0] || n > shape[0] - first) {
      status = fopo_fail(FOPO_ERR_FORMAT, "%s has %zu rows, not %zu", path, shape[0], first + n);
    } else if (lseek(fd, (off_t)(used + first * width), SEEK_SET) < 0) {
      status = fopo_fail(FOPO_ERR_FILE, "cannot read %s: %s", path, strerror(errno));
    }
    if (status == FOPO_OK) status = fetch(&source, x, n * width);
  }
  close(fd);
  return status;
}

/* ---- writing ---- */

size_t fopo_npy_bytes(const fopo_array *a) { return fopo_array_count(a) * a->itemsize; }

int fopo_npy_check(const fopo_array *a, const char *path) {
  size_t count, bytes;
  if (a->ndim < 0 || a->ndim > 2 || a->itemsize == 0 ||
      __builtin_mul_overflow(a->shape[0], a->shape[1], &count) ||
      __builtin_mul_overflow(count, a->itemsize, &bytes)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "array '%s' for %s has %d dimensions, %zu x %zu elements of %zu bytes; "
                     "0 to 2 dimensions can be saved",
                     a->name, path, a->ndim, a->shape[0], a->shape[1], a->itemsize);
  }
  return FOPO_OK;
}

size_t fopo_npy_header(char header[FOPO_NPY_HEADER_MOST], const fopo_array *a) {
  static const char *const names[] = {
      [FOPO_F32] = "<f4", [FOPO_F64] = "<f8", [FOPO_I32] = "<i4", [FOPO_I64] = "<i8",
      [FOPO_U8] = "|u1",  [FOPO_U32] = "<u4", [FOPO_U64] = "<u8", [FOPO_BOOL] = "|b1"};
  char type[32], size[64] = "()";
  if (a->type == FOPO_BYTES) {
    snprintf(type, sizeof type, "|S%zu", a->itemsize);
  } else {
    snprintf(type, sizeof type, "%s", names[a->type]);
  }
  if (a->ndim == 1) snprintf(size, sizeof size, "(%zu,)", a->shape[0]);
  if (a->ndim == 2) snprintf(size, sizeof size, "(%zu, %zu)", a->shape[0], a->shape[1]);
  int text = snprintf(header + 10, FOPO_NPY_HEADER_MOST - 10,
                      "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, size);
  /* Spaces and a newline up to a multiple of 64, so that a mapped file has aligned data. */
  size_t total = (10 + (size_t)text + 1 + 63) / 64 * 64;
  memset(header + 10 + text, ' ', total - 10 - (size_t)text);
  header[total - 1] = '\n';
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)((total - 10) & 255);
  header[9] = (char)((total - 10) >> 8);
  return total;
}

int fopo_npy_save(const char *path, const fopo_array *array) {
  char header[FOPO_NPY_HEADER_MOST], what[256];
  int status = fopo_npy_check(array, path);
  if (status != FOPO_OK) return status;
  fopo_replacement r;
  status = fopo_replace_begin(&r, path);
  if (status != FOPO_OK) return status;
  snprintf(what, sizeof what, "writing %s", path);
  size_t bytes = fopo_npy_bytes(array);
  int error = fopo_write_all(r.fd, header, fopo_npy_header(header, array));
  for (size_t done = 0; done < bytes && error == 0 && status == FOPO_OK;) {
    size_t part = bytes - done < FOPO_NPY_CHUNK ? bytes - done : FOPO_NPY_CHUNK;
    error = fopo_write_all(r.fd, (const char *)array->data + done, part);
    done += part;
    if (error == 0) status = fopo_progress(what, (double)done, (double)bytes);
  }
  return fopo_replace_end(&r, status, error, bytes + FOPO_NPY_HEADER_MOST);
}
