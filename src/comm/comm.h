/* Many machines: rank, size, sum, gather and broadcast. Alone is rank 0 of 1, not a special case:
 * one of comm_alone.c and comm_mpi.c is linked (make MPI=1). Called from the main thread only. */
#ifndef FOPO_COMM_COMM_H
#define FOPO_COMM_COMM_H

#include <stddef.h>

int fopo_comm_open(int *argc, char ***argv);
void fopo_comm_close(void);
const char *fopo_comm_name(void); /* "alone" or "MPI" */
int fopo_comm_rank(void);
int fopo_comm_size(void);

/* x[i] becomes the sum of x[i] over ranks, on every rank. */
int fopo_comm_sum(float *x, size_t n);

/* Every rank's n bytes go to all ranks: all [ranks, n], in the order of the ranks. */
int fopo_comm_gather(void *all, const void *mine, size_t n);

/* Rank 0's bytes to all. */
int fopo_comm_broadcast(void *bytes, size_t n);

#endif
