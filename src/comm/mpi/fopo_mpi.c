/* MPI behind the few calls of comm/mpi/mpi.h. Errors are returned, not fatal: a failure becomes a
 * sentence and the caller may still save what it has. Counts are ints in MPI, so long arrays go in
 * pieces.
 *
 * Only the main thread calls MPI; the program's other threads compute. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mpi/mpi.h"
#include "core/status.h"

#define PIECE ((size_t)1 << 28) /* elements of a call, well inside an int */

static int rank, size = 1;
static int opened;                   /* by this module, so that close ends only what open began */
static int *counts, *places;         /* [size] for what is sent, or by gather */
static int *other_counts, *other_at; /* [size] for what is received */

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

static int count_local(int *local) {
  MPI_Comm host;
  int status =
      check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host),
            "find the ranks of this host");
  if (status == FOPO_OK) status = check(MPI_Comm_size(host, local), "count the ranks of this host");
  if (status == FOPO_OK) MPI_Comm_free(&host);
  return status;
}

/* ---- the calls ---- */

static void end(void) {
  if (opened) MPI_Finalize();
  opened = 0;
}

static void end_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

static int sum(void *x, size_t n, int doubles) {
  size_t width = doubles ? sizeof(double) : sizeof(float);
  int status = FOPO_OK;
  for (size_t first = 0; first < n && status == FOPO_OK; first += PIECE) {
    size_t count = n - first < PIECE ? n - first : PIECE;
    status = check(MPI_Allreduce(MPI_IN_PLACE, (char *)x + first * width, (int)count,
                                 doubles ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
                   "sum over the ranks");
  }
  return status;
}

static int least(int value[2]) {
  return check(MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD),
               "compare the ranks");
}

/* count and at [size] of MPI from bytes [size]. */
static int lay_out(int *count, int *at, const size_t *bytes, const char *what) {
  size_t sum_of_bytes = 0;
  for (int r = 0; r < size; r++) {
    count[r] = (int)bytes[r];
    at[r] = (int)sum_of_bytes;
    sum_of_bytes += bytes[r];
  }
  if (sum_of_bytes <= INT_MAX) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%zu bytes are too many to %s in one call", sum_of_bytes,
                   what);
}

static int gather(void *all, const void *mine, const size_t *bytes) {
  int status = lay_out(counts, places, bytes, "gather");
  if (status != FOPO_OK) return status;
  const void *from = mine == (char *)all + places[rank] ? MPI_IN_PLACE : mine;
  return check(
      MPI_Allgatherv(from, counts[rank], MPI_BYTE, all, counts, places, MPI_BYTE, MPI_COMM_WORLD),
      "gather from the ranks");
}

static int exchange(void *receive, const size_t *received, const void *send, const size_t *sent) {
  int status = lay_out(counts, places, sent, "send");
  if (status == FOPO_OK) status = lay_out(other_counts, other_at, received, "receive");
  if (status != FOPO_OK) return status;
  return check(MPI_Alltoallv(send, counts, places, MPI_BYTE, receive, other_counts, other_at,
                             MPI_BYTE, MPI_COMM_WORLD),
               "exchange between the ranks");
}

static int broadcast(void *bytes, size_t n, int from) {
  int status = FOPO_OK;
  for (size_t first = 0; first < n && status == FOPO_OK; first += PIECE) {
    size_t count = n - first < PIECE ? n - first : PIECE;
    status = check(MPI_Bcast((char *)bytes + first, (int)count, MPI_BYTE, from, MPI_COMM_WORLD),
                   "broadcast from one rank");
  }
  return status;
}

/* ---- opening ---- */

static int reserve(void) {
  counts = calloc((size_t)size * 4, sizeof *counts);
  if (counts == NULL) return fopo_fail(FOPO_ERR_MEMORY, "no memory for %d ranks", size);
  places = counts + size;
  other_counts = places + size;
  other_at = other_counts + size;
  return FOPO_OK;
}

/* The first line of what the library says of itself. */
static void name_library(char *name, size_t bytes) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  text[strcspn(text, ",\n")] = '\0';
  snprintf(name, bytes, "%.120s", text);
}

__attribute__((visibility("default"))) fopo_mpi_opener fopo_mpi_open;

int fopo_mpi_open(fopo_mpi *mpi, int *argc, char ***argv, int abi) {
  int running = 0, local = 1;
  if (abi != FOPO_MPI_ABI) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "fopo_mpi.so is of another build (%d, not %d); run make",
                     FOPO_MPI_ABI, abi);
  }
  int status = check(MPI_Initialized(&running), "say whether it runs");
  if (status == FOPO_OK && !running) status = begin(argc, argv);
  if (status != FOPO_OK) return status;
  status =
      check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "set its error handler");
  if (status == FOPO_OK) status = check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "tell the rank");
  if (status == FOPO_OK) status = check(MPI_Comm_size(MPI_COMM_WORLD, &size), "tell the size");
  if (status == FOPO_OK) status = count_local(&local);
  if (status == FOPO_OK) status = reserve();
  *mpi = (fopo_mpi){.rank = rank,
                    .size = size,
                    .local = local,
                    .close = end,
                    .abort = end_all,
                    .sum = sum,
                    .least = least,
                    .gather = gather,
                    .exchange = exchange,
                    .broadcast = broadcast};
  name_library(mpi->name, sizeof mpi->name);
  return status;
}
