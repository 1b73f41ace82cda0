/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni */
/* AVX-512 with VNNI: a prefilter by products of 8-bit integers. */
#include "kernels/kernels_tables.h"
#include "kernels/prefilter_512.h"

#if defined(__AVX512VNNI__)

FOPO_UNIT_FUNCTIONS(int8, FOPO_PACKED_INT8, unit_select_512)

FOPO_KERNELS_FILL(avx512vnni, table) {
  static const fopo_prefilter prefilter = FOPO_UNIT_MEMBERS(int8, FOPO_PACKED_INT8, SIZE_MAX);
  table->prefilter = &prefilter;
  return 1;
}

#endif
