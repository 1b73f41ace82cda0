/* flags x86_64: -mavx2 -mfma -mf16c */
/* Products of matrices for AVX2 with FMA: blocks of 6 rows times 16 columns. */
#include "kernels/kernels_tables.h"

#if defined(__AVX2__) && defined(__FMA__)

enum { ROWS = 6 };

#include "kernels/kernels_product.h"

void fopo_product_avx2(const fopo_product_task *o) { product(o); }

#endif
