/* Rows of item embeddings as the sampled estimators read them: in float32, or in a copy of half the
 * bytes. Sums are in float32 whatever the rows are. */
#ifndef FOPO_DEVICE_ROWS_H
#define FOPO_DEVICE_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
  FOPO_FLOAT32,
  FOPO_FLOAT16, /* IEEE 754 binary16: 11 bits of precision, up to 65504 */
  FOPO_BFLOAT16 /* the upper half of a float32: 8 bits of precision, its whole range */
} fopo_float;

typedef struct {
  const void *x;   /* [P, ld]; device where an operation takes it. Not owned */
  size_t ld;       /* elements from row to row */
  fopo_float type;
} fopo_rows;

static inline fopo_rows fopo_rows_float32(const float *x, size_t ld) {
  return (fopo_rows){x, ld, FOPO_FLOAT32};
}

#endif
