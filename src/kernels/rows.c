/* Item rows in 16 bits. The measure of their rounding is what it does to a score f = q . beta: a
 * row with error d changes its score by |q| |d| at most, and the largest scores are about |q| max
 * |beta|. So the largest error of a row is compared with the largest norm. */
#include "kernels/rows.h"

#include <math.h>

#include "core/status.h"
#include "core/threads.h"

const char *const fopo_float_names[] = {"float32", "float16", "bfloat16", NULL};

/* bfloat16 rounds a number by 2^-8 of it at most, so a row by 2^-8 of its norm. */
#define MAX_LOSS 0x1p-8

enum { FEW_ROWS = 4096 }; /* up to here one thread is faster than a team */

/* One row. Returns 0 if a number is beyond the range of the type. squares: |row|^2, |error|^2. */
static int halve_row(uint16_t *half, const float *row, size_t L, fopo_float type,
                     double squares[2]) {
  double norm2 = 0, lost2 = 0;
  int fits = 1;
  for (size_t i = 0; i < L; i++) {
    half[i] = type == FOPO_FLOAT16 ? fopo_to_float16(row[i]) : fopo_to_bfloat16(row[i]);
    float back = type == FOPO_FLOAT16 ? fopo_from_float16(half[i]) : fopo_from_bfloat16(half[i]);
    double lost = (double)row[i] - (double)back;
    fits &= isfinite(back) != 0;
    norm2 += (double)row[i] * (double)row[i];
    lost2 += lost * lost;
  }
  for (size_t i = L; i < fopo_rows_ld(L); i++) half[i] = 0;
  squares[0] = norm2;
  squares[1] = lost2;
  return fits;
}

static float largest_of(const float *row, size_t L) {
  float most = 0;
  for (size_t i = 0; i < L; i++) most = fmaxf(most, fabsf(row[i]));
  return most;
}

int fopo_rows_halve(uint16_t *half, fopo_matrix items, fopo_float type) {
  size_t P = items.rows, L = items.cols, ld = fopo_rows_ld(L), misfit = P;
  double norm2 = 0, lost2 = 0;
// clang-format off
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (P > FEW_ROWS) \
    reduction(max : norm2, lost2) reduction(min : misfit)
  // clang-format on
  for (size_t a = 0; a < P; a++) {
    double squares[2];
    int fits = halve_row(half + a * ld, fopo_matrix_row(items, a), L, type, squares);
    if (!fits && a < misfit) misfit = a;
    norm2 = squares[0] > norm2 ? squares[0] : norm2;
    lost2 = squares[1] > lost2 ? squares[1] : lost2;
  }
  if (misfit < P) {
    return fopo_fail(
        FOPO_ERR_NUMERIC, "item %zu has an entry of size %.6g, beyond %s; %s", misfit + 1,
        (double)largest_of(fopo_matrix_row(items, misfit), L), fopo_float_names[type],
        type == FOPO_FLOAT16 ? "use bfloat16, or scale the items to below 65504" : "use float32");
  }
  if (lost2 <= MAX_LOSS * MAX_LOSS * norm2) return FOPO_OK;
  return fopo_fail(FOPO_ERR_NUMERIC,
                   "rounding to %s changes an item by up to %.3g, and the largest norm is only "
                   "%.3g: the items are too small for it; %s",
                   fopo_float_names[type], sqrt(lost2), sqrt(norm2),
                   type == FOPO_FLOAT16 ? "use bfloat16, or scale the items up" : "use float32");
}

static float number_at(const fopo_rows *rows, size_t i) {
  if (rows->type == FOPO_FLOAT32) return ((const float *)rows->x)[i];
  uint16_t half = ((const uint16_t *)rows->x)[i];
  return rows->type == FOPO_FLOAT16 ? fopo_from_float16(half) : fopo_from_bfloat16(half);
}

void fopo_rows_widen(fopo_matrix x, const fopo_rows *rows) {
  for (size_t a = 0; a < x.rows; a++) {
    float *row = fopo_matrix_row(x, a);
    for (size_t i = 0; i < x.cols; i++) row[i] = number_at(rows, a * rows->ld + i);
  }
}
