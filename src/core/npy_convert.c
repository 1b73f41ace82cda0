/* Conversion between number types; only rounding to float32 may lose information. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/npz.h"
#include "core/status.h"
#include "core/threads.h"

enum { PARALLEL_FROM = 1 << 20 }; /* numbers; fewer are checked by one thread */

/* Any element: a real, or an integer as its sign and two's complement bits. */
typedef struct {
  int is_real, negative;
  double real;
  uint64_t bits;
} number;

static const char *type_name(fopo_dtype type) {
  static const char *const names[] = {
      [FOPO_F32] = "float32", [FOPO_F64] = "float64", [FOPO_I32] = "int32",
      [FOPO_I64] = "int64",   [FOPO_U8] = "uint8",    [FOPO_U32] = "uint32",
      [FOPO_U64] = "uint64",  [FOPO_BOOL] = "bool",   [FOPO_BYTES] = "text"};
  return names[type];
}

static number number_at(const void *data, fopo_dtype type, size_t i) {
  number x = {0};
  int64_t s = 0;
  switch (type) {
  case FOPO_F32:
    x.is_real = 1;
    x.real = (double)((const float *)data)[i];
    break;
  case FOPO_F64:
    x.is_real = 1;
    x.real = ((const double *)data)[i];
    break;
  case FOPO_I32:
    s = ((const int32_t *)data)[i];
    x.bits = (uint64_t)s;
    break;
  case FOPO_I64:
    s = ((const int64_t *)data)[i];
    x.bits = (uint64_t)s;
    break;
  case FOPO_U32: x.bits = ((const uint32_t *)data)[i]; break;
  case FOPO_U64: x.bits = ((const uint64_t *)data)[i]; break;
  case FOPO_U8:
  case FOPO_BOOL:
  case FOPO_BYTES: x.bits = ((const uint8_t *)data)[i]; break;
  }
  x.negative = s < 0;
  return x;
}

/* Sets the integer of a real; 0 if it has a fraction or does not fit. */
static int integral(number *x) {
  if (!x->is_real) return 1;
  if (!(x->real >= -0x1p63 && x->real < 0x1p64) || x->real != trunc(x->real)) return 0;
  x->negative = x->real < 0;
  x->bits = x->negative ? (uint64_t)(int64_t)x->real : (uint64_t)x->real;
  return 1;
}

static double as_real(number x) {
  return x.is_real ? x.real : x.negative ? (double)(int64_t)x.bits : (double)x.bits;
}

/* Stores x as element i; 0 if it does not fit the type. */
static int store_number(void *data, fopo_dtype type, size_t i, number x) {
  if (type == FOPO_F64) {
    ((double *)data)[i] = as_real(x);
    return 1;
  }
  if (type == FOPO_F32) {
    double real = as_real(x);
    float single = (float)real;
    ((float *)data)[i] = single;
    return isfinite(single) || !isfinite(real);
  }
  if (!integral(&x)) return 0;
  int64_t s = (int64_t)x.bits;
  switch (type) {
  case FOPO_I32:
    ((int32_t *)data)[i] = (int32_t)s;
    return x.negative ? s >= INT32_MIN : x.bits <= INT32_MAX;
  case FOPO_I64: ((int64_t *)data)[i] = s; return x.negative || x.bits <= INT64_MAX;
  case FOPO_U32: ((uint32_t *)data)[i] = (uint32_t)x.bits; return x.bits <= UINT32_MAX;
  case FOPO_U64: ((uint64_t *)data)[i] = x.bits; return !x.negative;
  case FOPO_U8: ((uint8_t *)data)[i] = (uint8_t)x.bits; return x.bits <= UINT8_MAX;
  case FOPO_BOOL: ((uint8_t *)data)[i] = (uint8_t)x.bits; return x.bits <= 1;
  default: return 0;
  }
}

/* Changes the type without a copy if only the sign differs and no top bit is set, as usual for
 * index arrays. 1 if that was enough. */
static int relabel(fopo_array *a, fopo_dtype type) {
  size_t n = fopo_array_count(a);
  if ((a->type == FOPO_I32 && type == FOPO_U32) || (a->type == FOPO_U32 && type == FOPO_I32)) {
    const uint32_t *x = a->data;
    uint32_t any = 0;
#pragma omp parallel for simd num_threads(n > PARALLEL_FROM ? fopo_threads() : 1) reduction(| : any)
    for (size_t i = 0; i < n; i++) any |= x[i];
    if (any >> 31) return 0;
  } else if ((a->type == FOPO_I64 && type == FOPO_U64) ||
             (a->type == FOPO_U64 && type == FOPO_I64)) {
    const uint64_t *x = a->data;
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++) any |= x[i];
    if (any >> 63) return 0;
  } else if (a->type != type) {
    return 0;
  }
  a->type = type;
  return 1;
}

static int convert(fopo_array *a, fopo_dtype type, const char *path) {
  if (relabel(a, type)) return FOPO_OK;
  if (a->type == FOPO_BYTES || type == FOPO_BYTES) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: '%s' holds %s instead of %s", path, a->name,
                     type_name(a->type), type_name(type));
  }
  size_t n = fopo_array_count(a);
  void *fresh = fopo_alloc(n, fopo_dtype_size(type));
  if (fresh == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    number x = number_at(a->data, a->type, i);
    if (store_number(fresh, type, i, x)) continue;
    fopo_free(fresh);
    return fopo_fail(FOPO_ERR_FORMAT, "%s: '%s' holds %.17g at element %zu, which is no %s", path,
                     a->name, as_real(x), i + 1, type_name(type));
  }
  fopo_free(a->data);
  a->data = fresh;
  a->type = type;
  a->itemsize = fopo_dtype_size(type);
  return FOPO_OK;
}

fopo_array *fopo_archive_need(fopo_archive *archive, const char *path, const char *name,
                              fopo_dtype type, int ndim) {
  fopo_array *a = fopo_archive_find(archive, name);
  if (a == NULL) {
    fopo_fail(FOPO_ERR_FORMAT, "%s has no member '%s'", path, name);
    return NULL;
  }
  if (ndim >= 0 && a->ndim != ndim) {
    fopo_fail(FOPO_ERR_FORMAT, "%s: '%s' has %d dimensions instead of %d", path, name, a->ndim,
              ndim);
    return NULL;
  }
  return convert(a, type, path) == FOPO_OK ? a : NULL;
}
