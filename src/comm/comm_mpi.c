/* MPI behind the same few calls. Errors are returned, not fatal: a failure becomes a sentence and
 * the caller may still save what it has. Counts are ints in MPI, so long arrays go in pieces.
 *
 * Only the main thread calls MPI; the program's other threads compute. */
#include <mpi.h>

#include "comm/comm.h"
#include "core/status.h"

#define PIECE ((size_t)1 << 28) /* elements per call, well inside an int */

static int rank, size = 1;
static int opened; /* by this module, so that close ends only what open began */

/* FOPO_OK, or the sentence of an MPI error. */
static int check(int error, const char *what) {
  if (error == MPI_SUCCESS) return FOPO_OK;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "MPI could not %s on rank %d of %d: %s", what, rank, size,
                   text);
}

static int begin(int *argc, char ***argv) {
  int given = MPI_THREAD_SINGLE;
  int status = check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &given), "start");
  if (status != FOPO_OK) return status;
  opened = 1;
  if (given >= MPI_THREAD_FUNNELED) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "this MPI does not allow threads; use one built with MPI_THREAD_FUNNELED");
}

int fopo_comm_open(int *argc, char ***argv) {
  int running = 0, status = check(MPI_Initialized(&running), "say whether it runs");
  if (status == FOPO_OK && !running) status = begin(argc, argv);
  if (status != FOPO_OK) return status;
  status =
      check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "set its error handler");
  if (status == FOPO_OK) status = check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "tell the rank");
  if (status == FOPO_OK) status = check(MPI_Comm_size(MPI_COMM_WORLD, &size), "tell the size");
  return status;
}

void fopo_comm_close(void) {
  if (opened) MPI_Finalize();
  opened = 0;
  rank = 0;
  size = 1;
}

const char *fopo_comm_name(void) { return "MPI"; }

int fopo_comm_rank(void) { return rank; }

int fopo_comm_size(void) { return size; }

int fopo_comm_sum(float *x, size_t n) {
  int status = FOPO_OK;
  for (size_t first = 0; size > 1 && first < n && status == FOPO_OK; first += PIECE) {
    size_t count = n - first < PIECE ? n - first : PIECE;
    status = check(
        MPI_Allreduce(MPI_IN_PLACE, x + first, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
        "sum over the ranks");
  }
  return status;
}

int fopo_comm_gather(void *all, const void *mine, size_t n) {
  if (n > PIECE) return fopo_fail(FOPO_ERR_ARGUMENT, "%zu bytes a rank are too many to gather", n);
  return check(MPI_Allgather(mine, (int)n, MPI_BYTE, all, (int)n, MPI_BYTE, MPI_COMM_WORLD),
               "gather from the ranks");
}

int fopo_comm_broadcast(void *bytes, size_t n) {
  int status = FOPO_OK;
  for (size_t first = 0; size > 1 && first < n && status == FOPO_OK; first += PIECE) {
    size_t count = n - first < PIECE ? n - first : PIECE;
    status = check(MPI_Bcast((char *)bytes + first, (int)count, MPI_BYTE, 0, MPI_COMM_WORLD),
                   "broadcast from rank 0");
  }
  return status;
}
