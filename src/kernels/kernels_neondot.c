/* flags aarch64: -march=armv8.2-a+dotprod */
/* NEON with products of 8-bit integers: a prefilter. */
#include "kernels/kernels_tables.h"
#include "kernels/prefilter_neon.h"

#if defined(__ARM_FEATURE_DOTPROD)

FOPO_UNIT_FUNCTIONS(int8, FOPO_PACKED_INT8, unit_select_neon)

FOPO_KERNELS_FILL(neondot, table) {
  static const fopo_prefilter prefilter = FOPO_UNIT_MEMBERS(int8, FOPO_PACKED_INT8, SIZE_MAX);
  table->prefilter = &prefilter;
  return 1;
}

#endif
