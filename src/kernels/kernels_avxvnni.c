/* flags x86_64: -mavx2 -mfma -mf16c -mavxvnni */
/* AVX2 with VNNI: a prefilter by products of 8-bit integers. */
#include "kernels/kernels_tables.h"
#include "kernels/prefilter_256.h"

#if defined(__AVXVNNI__)

FOPO_UNIT_FUNCTIONS(int8, FOPO_PACKED_INT8, unit_select_256)

FOPO_KERNELS_FILL(avxvnni, table) {
  static const fopo_prefilter prefilter = FOPO_UNIT_MEMBERS(int8, FOPO_PACKED_INT8, SIZE_MAX);
  table->prefilter = &prefilter;
  return 1;
}

#endif
