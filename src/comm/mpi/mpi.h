/* What fopo_mpi.so offers, the part of the program that is built against MPI (by mpicc, where that
 * is found). The program opens it at run time and calls this table; the object calls the program's
 * fopo_fail. */
#ifndef FOPO_COMM_MPI_MPI_H
#define FOPO_COMM_MPI_MPI_H

#include <stddef.h>

/* Changed with the table, so that a program and an object of different builds refuse each other. */
enum { FOPO_MPI_ABI = 2 };

typedef struct {
  char name[128]; /* "Open MPI v4.1.4, ..." */
  int rank, size;
  int local; /* ranks on this host */

  void (*close)(void);
  void (*abort)(int code);
  int (*sum)(void *x, size_t n, int doubles);
  int (*least)(
      int value[2]); /* the smallest value[0], and the smallest rank value[1] that has it */
  int (*gather)(void *all, const void *mine, const size_t *bytes); /* [size] of each rank */
  int (*exchange)(void *receive, const size_t *received, const void *send, const size_t *sent);
  int (*broadcast)(void *bytes, size_t n, int from);
} fopo_mpi;

/* The one symbol of the object: starts MPI and fills *mpi; FOPO_ERR_UNAVAILABLE with a sentence. */
typedef int fopo_mpi_opener(fopo_mpi *mpi, int *argc, char ***argv, int abi);

#endif
