/* Ranks on machines of several kinds. Float kernels of two instruction sets may differ by rounding
 * (portable and those of x86-64 with vectors do), and OpenBLAS's for two kinds of processor do,
 * from which embeddings come. Every rank makes the update for itself: with different bits their
 * parameters would drift apart. */
#ifndef FOPO_KERNELS_ALIKE_H
#define FOPO_KERNELS_ALIKE_H

/* All ranks use the best set that every one of them has, and none above one that FOPO_ISA asks for;
 * the first rank says so if they differ. FOPO_ERR_UNAVAILABLE if OpenBLAS differs, which cannot be
 * told to change. Collective; alone it does nothing. */
int fopo_kernels_make_alike(void);

/* OpenBLAS knows the processors that are older than itself. On one that it does not know it may
 * compute as on a Prescott of 2004, at a quarter of the speed. The value of OPENBLAS_CORETYPE that
 * gives it the vectors of this CPU; NULL: it has them, or they are none. */
const char *fopo_kernels_blas_wanted(void);

#endif
