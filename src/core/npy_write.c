/* One array as a .npy file of version 1.0, or its header alone for an archive. */
#include <stdio.h>
#include <string.h>

#include "core/npy.h"
#include "core/progress.h"
#include "core/replace.h"
#include "core/status.h"

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
  return fopo_replace_end(&r, status, error, bytes);
}
