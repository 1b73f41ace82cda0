/* Ranks on machines of several kinds. Float kernels of two instruction sets, or of two of
 * OpenBLAS's kinds of processor, differ by rounding, and every rank makes the update for itself:
 * with different kernels their parameters would drift apart. */
#ifndef FOPO_KERNELS_ALIKE_H
#define FOPO_KERNELS_ALIKE_H

/* All ranks use the best set that every one of them has, and none above one that FOPO_ISA asks for;
 * the first rank says so if they differ. FOPO_ERR_UNAVAILABLE if OpenBLAS differs, which cannot be
 * told to change. Collective; alone it does nothing. */
int fopo_kernels_make_alike(void);

#endif
