/* flags aarch64: -march=armv8.2-a+bf16 */
/* NEON with products of bfloat16: a prefilter. */
#include "kernels/kernels_tables.h"
#include "kernels/prefilter_neon.h"

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)

FOPO_UNIT_FUNCTIONS(bfloat16, FOPO_PACKED_BFLOAT16, unit_select_neon)

FOPO_KERNELS_FILL(neonbf16, table) {
  static const fopo_prefilter prefilter = FOPO_UNIT_MEMBERS(bfloat16, FOPO_PACKED_BFLOAT16, 64);
  table->prefilter = &prefilter;
  return 1;
}

#endif
