/* Rows of item embeddings as the sampled estimators read them: in float32, or in a 16-bit copy of
 * half the bytes. Sums are in float32 for all types. */
#ifndef FOPO_KERNELS_ROWS_H
#define FOPO_KERNELS_ROWS_H

#include <string.h>

#include "core/matrix.h"

typedef enum {
  FOPO_FLOAT32,
  FOPO_FLOAT16, /* IEEE 754 binary16: 11 bits of precision from 6e-5 to 65504, fewer below */
  FOPO_BFLOAT16 /* the upper half of a float32: 8 bits of precision over its whole range */
} fopo_float;

/* The names of fopo_float, in its order; NULL behind the last. */
extern const char *const fopo_float_names[];

typedef struct {
  const void *x; /* [P, ld]; in device memory where a device operation takes it. Not owned */
  size_t ld;     /* elements from row to row; a multiple of FOPO_ROWS_PAD for 16-bit types */
  fopo_float type;
} fopo_rows;

/* Rows of 16-bit numbers are padded with zeros, so that 16 bytes can always be read at once. */
enum { FOPO_ROWS_PAD = 8 };

static inline size_t fopo_float_bytes(fopo_float type) { return type == FOPO_FLOAT32 ? 4 : 2; }

static inline fopo_rows fopo_rows_float32(const float *x, size_t ld) {
  fopo_rows rows = {x, ld, FOPO_FLOAT32};
  return rows;
}

/* Elements of a 16-bit row of L numbers, padding included. */
static inline size_t fopo_rows_ld(size_t L) {
  return (L + FOPO_ROWS_PAD - 1) / FOPO_ROWS_PAD * FOPO_ROWS_PAD;
}

/* half [P, fopo_rows_ld(L)] = items [P, L], rounded to nearest, ties to even. FOPO_ERR_NUMERIC if a
 * number is beyond the range of float16 (65504; the sentence names the row), or if rounding loses
 * more than bfloat16 may (2^-8 of the largest norm); half is then undefined. */
int fopo_rows_halve(uint16_t *half, fopo_matrix items, fopo_float type);

/* x [P, L] = the rows, widened to float32. */
void fopo_rows_widen(fopo_matrix x, const fopo_rows *rows);

/* ---- one number ---- */

static inline uint32_t fopo_float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float fopo_bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* To nearest, ties to even; infinity beyond the range. */
static inline uint16_t fopo_to_bfloat16(float x) {
  uint32_t bits = fopo_float_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u); /* NaN stays one */
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float fopo_from_bfloat16(uint16_t x) { return fopo_bits_float((uint32_t)x << 16); }

static inline uint16_t fopo_to_float16(float x) {
  uint32_t sign = fopo_float_bits(x) >> 16 & 0x8000u, bits = fopo_float_bits(x) & 0x7fffffffu;
  if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on, half way to 2^16 */
  if (bits < 0x38800000u) { /* subnormal, a multiple of 2^-24: adding 0.5 rounds to that */
    return (uint16_t)(sign | (fopo_float_bits(fopo_bits_float(bits) + 0.5f) - 0x3f000000u));
  }
  bits += 0xfffu + (bits >> 13 & 1u);
  return (uint16_t)(sign | (bits - 0x38000000u) >> 13); /* the bias of the exponent: 127 to 15 */
}

static inline float fopo_from_float16(uint16_t x) {
  uint32_t sign = (uint32_t)(x & 0x8000u) << 16, rest = x & 0x7fffu;
  if (rest >= 0x7c00u) return fopo_bits_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x400u) return fopo_bits_float(sign | ((rest << 13) + 0x38000000u));
  float small = (float)rest * 0x1p-24f;
  return sign ? -small : small;
}

#endif
