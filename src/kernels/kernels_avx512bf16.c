/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 */
/* AVX-512 with BF16: a prefilter by products of bfloat16. */
#include "kernels/kernels_tables.h"
#include "kernels/prefilter_512.h"

#if defined(__AVX512BF16__)

FOPO_UNIT_FUNCTIONS(bfloat16, FOPO_PACKED_BFLOAT16, unit_select_512)

FOPO_KERNELS_FILL(avx512bf16, table) {
  static const fopo_prefilter prefilter = FOPO_UNIT_MEMBERS(bfloat16, FOPO_PACKED_BFLOAT16, 64);
  table->prefilter = &prefilter;
  return 1;
}

#endif
