/* Many processes that work on one problem: rank, size, and a few collective operations. Alone is
 * rank 0 of 1, not a special case: then every operation does what it would do with one rank.
 *
 * MPI is a shared object, fopo_mpi.so, which is opened at run time if mpirun or Slurm has started
 * several processes (comm/mpi/mpi.h), so that one program serves both.
 *
 * A collective operation is called by every rank, in the same order with sizes that fit, and by the
 * main thread alone. A rank that fails between two of them must not simply leave, for the others
 * would wait. So work in which a rank may fail alone is a stretch: fopo_comm_begin, then
 * fopo_comm_agree before each collective operation, which sends all ranks to the end if one has
 * failed, and fopo_comm_end. */
#ifndef FOPO_COMM_COMM_H
#define FOPO_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

enum { FOPO_COMM_RANKS = 1024 }; /* at most: lists of ranks lie on the stack */

/* How many processes the starter (mpirun, srun) says that it has started; asks nobody. */
int fopo_comm_started(void);

/* FOPO_ERR_UNAVAILABLE if this is one of several processes and MPI cannot be opened. */
int fopo_comm_open(int *argc, char ***argv);
void fopo_comm_close(void);

/* Ends all ranks at once, if there are others: for a rank that has failed for itself. Alone, it
 * does nothing. */
void fopo_comm_abort(int code);

const char *fopo_comm_name(void);        /* "alone" or "MPI" with its version */
size_t fopo_comm_ranks(void);            /* how many there are */
size_t fopo_comm_own_rank(void);         /* 0 .. fopo_comm_ranks() - 1 */
size_t fopo_comm_local(void);            /* ranks on this rank's host */
const char *fopo_comm_host(size_t rank); /* "?" if there is no such rank */

/* What this rank has done with others so far. */
typedef struct {
  uint64_t calls;     /* collective operations */
  uint64_t bytes;     /* of its own that it gave to them, each counted once */
  uint64_t messages;  /* that they take of a rank at least: log2(R) where R ranks get the same, one
                         to each rank that gets something of its own */
  double seconds;     /* in them, the waiting for other ranks included */
  double cpu_seconds; /* of the processor in them: most of it asks whether a message is there */
} fopo_comm_traffic;
fopo_comm_traffic fopo_comm_sent(void);

/* All ranks agree whether each has succeeded so far. Returns `status` if that is a failure; else
 * FOPO_OK, or the failure of another rank: FOPO_ERR_INTERRUPTED, after which this one is
 * interrupted too (it gets a SIGINT), or FOPO_ERR_UNAVAILABLE with the rank and its host. */
int fopo_comm_agree(int status);

/* The same if the statuses of all ranks [ranks] have come with something else: no message. */
int fopo_comm_heed(const int *all);

/* The beginning and the end of a stretch. end tells the others of a failure of which no agree has
 * told them, so that they leave at their next agree; returns `status`. Between a failed agree and
 * the end all ranks know, and a further agree fails at once, without a message. */
void fopo_comm_begin(void);
int fopo_comm_end(int status);

/* x[i] becomes the sum of x[i] over ranks, the same bits on every rank. */
int fopo_comm_sum(float *x, size_t n);
int fopo_comm_sum_doubles(double *x, size_t n);

/* Every rank's n bytes go to all ranks: all [ranks, n], in the order of the ranks. */
int fopo_comm_gather(void *all, const void *mine, size_t n);

/* The same with bytes[r] of rank r. `mine` may be in its place in `all`. */
int fopo_comm_gather_parts(void *all, const void *mine, const size_t *bytes);

/* Of `send`, sent[r] bytes go to rank r; of `receive`, received[r] bytes come from rank r. Both lie
 * in the order of the ranks, without gaps. */
int fopo_comm_exchange(void *receive, const size_t *received, const void *send, const size_t *sent);

/* The bytes of rank `from` to all. */
int fopo_comm_broadcast(void *bytes, size_t n, size_t from);

/* The places of n things that rank r takes: from *first on, as many as are returned. */
static inline size_t fopo_comm_share(size_t *first, size_t n, size_t r, size_t ranks) {
  size_t begin = n / ranks * r + (n % ranks) * r / ranks;
  size_t end = n / ranks * (r + 1) + (n % ranks) * (r + 1) / ranks;
  *first = begin;
  return end - begin;
}

/* The rank that takes thing i of n. */
static inline size_t fopo_comm_owner(size_t i, size_t n) {
  size_t ranks = fopo_comm_ranks(), first, r = (size_t)((double)i / (double)n * (double)ranks);
  if (r == ranks) r--;                                 /* rounding */
  size_t count = fopo_comm_share(&first, n, r, ranks); /* r, or a rank next to it */
  while (i < first) count = fopo_comm_share(&first, n, --r, ranks);
  while (i >= first + count) count = fopo_comm_share(&first, n, ++r, ranks);
  return r;
}

/* Those of this rank. */
static inline size_t fopo_comm_own_share(size_t *first, size_t n) {
  return fopo_comm_share(first, n, fopo_comm_own_rank(), fopo_comm_ranks());
}

#endif
