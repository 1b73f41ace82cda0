/* An array with its type and shape, on its way to a file or from one (core/npz.h). */
#ifndef FOPO_CORE_ARRAY_H
#define FOPO_CORE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
  FOPO_F32,
  FOPO_F64,
  FOPO_I32,
  FOPO_I64,
  FOPO_U8,
  FOPO_U32,
  FOPO_U64,
  FOPO_BOOL,
  FOPO_BYTES /* |Sn and <Un (as UTF-8) text; itemsize says n */
} fopo_dtype;

size_t fopo_dtype_size(fopo_dtype type); /* bytes; 1 for FOPO_BYTES (times itemsize) */

/* One array. Little-endian, C order (readers swap and transpose what is not). */
typedef struct {
  char name[64]; /* member name without .npy; "" in a bare .npy */
  fopo_dtype type;
  size_t itemsize; /* bytes of one element */
  int ndim;        /* 0, 1 or 2 */
  size_t shape[2]; /* unused ones are 1 */
  void *data;      /* fopo_alloc'ed by readers; borrowed by writers */
} fopo_array;

static inline size_t fopo_array_count(const fopo_array *a) { return a->shape[0] * a->shape[1]; }

/* The data, which the caller then owns: archive_done no longer frees it. */
static inline void *fopo_array_release(fopo_array *a) {
  void *data = a->data;
  a->data = NULL;
  return data;
}

#endif
