/* One array as NumPy writes it (numpy.lib.format, versions 1.0 to 3.0): magic, version, length of
 * the header, a Python dict in a fixed form, then the bytes of the array.
 *
 * npy_header.c parses the dict. The size it claims must be that of the file or member, which is
 * checked before memory is allocated. Types without a fopo_dtype are widened: int8, int16 and
 * uint16 to int32, float16 to float32, text of code points to UTF-8. */
#include "core/npy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

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

static fopo_dtype type_of(const fopo_npy_claim *c) {
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
static int convert(fopo_array *a, const fopo_npy_claim *c, const char *label) {
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
static int read_header(fopo_npy_claim *c, uint64_t *used, const fopo_npy_source *s) {
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
  return fopo_npy_parse(c, text, length, s->label);
}

int fopo_npy_read(fopo_array *array, const fopo_npy_source *source) {
  fopo_npy_claim c = {0};
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
  fopo_npy_claim c = {0};
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
