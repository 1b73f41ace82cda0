/* What a card does beside its ordinary arithmetic: products of small matrices by a warp (mma), and
 * copies to shared memory that a thread starts and waits for later (cp.async).
 *
 * The rounding of a tensor core's sums is not specified. Here it is worse than what has been found
 * on cards: the products of a step and the sum so far are cut, not rounded, to 24 bits below the
 * largest of them, and so is their sum. A result whose error is bounded for this is safe on them.
 */
#include "crew.h"

namespace emulation {

static float bfloat16(uint32_t pair, unsigned which) {
  return __uint_as_float(which == 0 ? pair << 16 : pair & 0xffff0000u);
}

/* x cut to a multiple of `unit`, a power of two. */
static double cut(double x, double unit) { return trunc(x / unit) * unit; }

enum { DEPTH = 16 };

/* sum + a b, of DEPTH products. */
static float dot_of_core(const float *a, const float *b, float sum) {
  double terms[DEPTH + 1], most = 0;
  for (int i = 0; i <= DEPTH; i++) {
    terms[i] = i < DEPTH ? (double)a[i] * (double)b[i] : (double)sum;
    if (!(fabs(terms[i]) <= 0x1p127)) return (float)(terms[i] + (double)sum); /* inf, NaN */
    most = fmax(most, fabs(terms[i]));
  }
  if (most < 0x1p-126) return 0.0f;
  int exponent;
  frexp(most, &exponent);
  double unit = ldexp(1.0, exponent - 24), total = 0;
  for (double term : terms) total += cut(term, unit);
  if (total == 0) return 0.0f;
  frexp(total, &exponent);
  return (float)cut(total, ldexp(1.0, exponent - 24));
}

/* Lane 4 g + t holds of A, as pairs of neighbours, row g and g + 8 from columns 2 t and 2 t + 8;
 * of B column g from rows 2 t and 2 t + 8; of the sums rows g and g + 8 of columns 2 t, 2 t + 1. */
void multiply(coroutine *lanes) {
  float A[16][DEPTH], B[8][DEPTH];
  for (unsigned lane = 0; lane < 32; lane++) {
    const uint32_t *x = lanes[lane].operands;
    unsigned g = lane / 4, t = lane % 4;
    for (unsigned j = 0; j < 2; j++) {
      A[g][2 * t + j] = bfloat16(x[0], j), A[g + 8][2 * t + j] = bfloat16(x[1], j);
      A[g][2 * t + 8 + j] = bfloat16(x[2], j), A[g + 8][2 * t + 8 + j] = bfloat16(x[3], j);
      B[g][2 * t + j] = bfloat16(x[4], j), B[g][2 * t + 8 + j] = bfloat16(x[5], j);
    }
  }
  for (unsigned lane = 0; lane < 32; lane++) {
    for (unsigned i = 0; i < 4; i++) {
      float &sum = lanes[lane].sums[i];
      sum = dot_of_core(A[lane / 4 + i / 2 * 8], B[lane % 4 * 2 + i % 2], sum);
    }
  }
}

void multiply_bf16(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], place where) {
  coroutine &me = mine->coroutines[mine->running];
  std::copy(a, a + 4, me.operands);
  std::copy(b, b + 2, me.operands + 4);
  std::copy(sums, sums + 4, me.sums);
  meet(PRODUCT, ~0u, 0, mine->running % 32, where);
  std::copy(me.sums, me.sums + 4, sums);
}

/* ---- copies ---- */

void put_copy(const async_copy &x) {
  outside_kernel pause;
  coroutine &me = mine->coroutines[mine->running];
  me.copies.push_back({x.to, x.from, me.groups});
  races::forget(mine->watcher, x.to, 16);
}

void close_copies() { mine->coroutines[mine->running].groups++; }

bool take_copy(async_copy *x, unsigned open) {
  outside_kernel pause;
  coroutine &me = mine->coroutines[mine->running];
  if (me.copies.empty() || me.copies[0].group + open >= me.groups) return false;
  *x = me.copies[0];
  me.copies.erase(me.copies.begin());
  return true;
}

} // namespace emulation
