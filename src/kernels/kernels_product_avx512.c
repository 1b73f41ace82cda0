/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma */
/* Products of matrices for AVX-512: blocks of 12 rows times 32 columns. */
#include "kernels/kernels_tables.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)

enum { ROWS = 12 };

#include "kernels/kernels_product.h"

void fopo_product_avx512(const fopo_product_task *o) { product(o); }

#endif
