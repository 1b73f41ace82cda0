/* The ranks, and the opening of fopo_mpi.so. The object is looked for where fopo_cuda.so is: at the
 * path in FOPO_MPI ("none": never), in the program's folder, in ../lib/fopo beside that folder. */
#include "comm/comm.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/mpi/mpi.h"
#include "comm/watch.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/platform.h"
#include "core/progress.h"
#include "core/status.h"

static fopo_mpi mpi = {.name = "alone", .size = 1, .local = 1};
static fopo_watch_host *hosts; /* [size]; NULL: alone */
static fopo_comm_traffic sent_so_far;
enum { FEW = 8192 }; /* numbers of all ranks that are summed after a gather */

static int told;      /* how others fail since one has failed, which all know; or FOPO_OK */
static int stretched; /* 1: in a stretch */

/* ---- opening ---- */

static int number(const char *name) {
  const char *text = getenv(name);
  return text == NULL ? 0 : (int)strtol(text, NULL, 10);
}

/* How many processes the starter says that it has started: mpirun of Open MPI, then of MPICH and
 * Intel, then srun. 1: this is one process. */
static int count_started(const char **starter) {
  static const char *const names[][2] = {
      {"OMPI_COMM_WORLD_SIZE", "mpirun"}, {"PMI_SIZE", "mpirun"}, {"SLURM_STEP_NUM_TASKS", "srun"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    *starter = names[i][1];
    int n = number(names[i][0]);
    if (n > 0) return n;
  }
  return 1;
}

/* The path of fopo_mpi.so; 0 if there is none. */
static int find_object(char *path, size_t size) {
  const char *named = getenv("FOPO_MPI");
  if (named == NULL || *named == '\0') return fopo_platform_object(path, size, "fopo_mpi.so");
  snprintf(path, size, "%s", named);
  return 1;
}

/* Opens the object. RTLD_GLOBAL, for the plug-ins of Open MPI expect libmpi's symbols there. */
static int open_object(int *argc, char ***argv, int started, const char *starter) {
  char path[4096];
  const char *host = fopo_comm_host(0); /* not opened yet: the own one */
  if (!find_object(path, sizeof path)) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "%s has started %d processes, but on %s there is no %s; install "
                     "libopenmpi-dev and run make there, or start one process",
                     starter, started, host, path);
  }
  void *object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (object == NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "%s has started %d processes, but on %s MPI cannot be loaded: %s; install "
                     "openmpi-bin there, or start one process",
                     starter, started, host, dlerror());
  }
  fopo_mpi_opener *opener = NULL;
  void *found = dlsym(object, "fopo_mpi_open");
  memcpy(&opener, &found, sizeof found);
  if (opener == NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "%s is no fopo_mpi.so; run make", path);
  }
  fopo_mpi opened;
  int status = opener(&opened, argc, argv, FOPO_MPI_ABI);
  if (status != FOPO_OK) return status;
  mpi = opened;
  if (mpi.size > FOPO_COMM_RANKS) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%d ranks were started; at most %d work together", mpi.size,
                     FOPO_COMM_RANKS);
  }
  if (mpi.size > 1) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "%s has started %d processes, but MPI (%s) knows of one alone; start them by "
                   "its own mpirun, or by srun --mpi=pmix",
                   starter, started, mpi.name);
}

static int gather_hosts(void) {
  fopo_watch_host mine;
  fopo_watch_describe(&mine);
  hosts = fopo_alloc((size_t)mpi.size, sizeof *hosts);
  int status = fopo_comm_agree(hosts != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) status = fopo_comm_gather(hosts, &mine, sizeof mine);
  if (status == FOPO_OK) fopo_watch_start(hosts, (size_t)mpi.size, (size_t)mpi.rank);
  return status;
}

int fopo_comm_started(void) {
  const char *starter;
  return count_started(&starter);
}

int fopo_comm_open(int *argc, char ***argv) {
  const char *starter, *named = getenv("FOPO_MPI");
  int started = count_started(&starter);
  if (started == 1 || (named != NULL && strcmp(named, "none") == 0)) return FOPO_OK;
  int status = open_object(argc, argv, started, starter);
  return status == FOPO_OK ? gather_hosts() : status;
}

void fopo_comm_close(void) {
  fopo_watch_stop();
  if (mpi.close != NULL) mpi.close();
  fopo_free(hosts);
  hosts = NULL;
  mpi = (fopo_mpi){.name = "alone", .size = 1, .local = 1};
}

void fopo_comm_abort(int code) {
  if (mpi.size > 1) mpi.abort(code);
}

/* ---- who ---- */

const char *fopo_comm_name(void) { return mpi.name; }

size_t fopo_comm_ranks(void) { return (size_t)mpi.size; }

size_t fopo_comm_own_rank(void) { return (size_t)mpi.rank; }

size_t fopo_comm_local(void) { return (size_t)mpi.local; }

const char *fopo_comm_host(size_t rank) {
  static fopo_watch_host alone;
  if (rank >= fopo_comm_ranks()) return "?";
  if (hosts != NULL) return hosts[rank].name;
  fopo_watch_describe(&alone);
  return alone.name;
}

/* ---- collective operations ---- */

fopo_comm_traffic fopo_comm_sent(void) { return sent_so_far; }

/* The messages of a rank in what all ranks get: a round sends to one rank, and doubles how many of
 * the contributions each has. */
static size_t rounds(void) {
  size_t n = 0;
  while ((size_t)mpi.size > (size_t)1 << n) n++;
  return n;
}

typedef struct {
  double clock, cpu;
} moment;

static moment now(void) { return (moment){fopo_clock(), fopo_clock_of_thread()}; }

/* Counts a call that began at `start` and gave `bytes`; passes its status on. */
static int count(moment start, size_t bytes, size_t messages, int status) {
  moment end = now();
  sent_so_far.calls++;
  sent_so_far.bytes += bytes;
  sent_so_far.messages += messages;
  sent_so_far.seconds += end.clock - start.clock;
  sent_so_far.cpu_seconds += end.cpu - start.cpu;
  return status;
}

/* What a rank of this status does if the worst of all is {status, rank}. */
static int heed(int status, const int worst[2]) {
  int is_known = worst[0] == FOPO_OK || worst[0] == FOPO_ERR_INTERRUPTED;
  told = is_known ? worst[0] : FOPO_ERR_UNAVAILABLE;
  if (status < FOPO_OK || worst[0] == FOPO_OK) return status;
  if (worst[0] == FOPO_ERR_INTERRUPTED) {
    if (!fopo_interrupted()) raise(SIGINT); /* what interrupts one interrupts all */
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted on rank %d (%s)", worst[1],
                     fopo_comm_host((size_t)worst[1]));
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "rank %d (%s) has failed, and says why", worst[1],
                   fopo_comm_host((size_t)worst[1]));
}

int fopo_comm_agree(int status) {
  int worst[2] = {status < FOPO_OK ? status : FOPO_OK, mpi.rank};
  if (mpi.size == 1) return status;
  if (stretched && told != FOPO_OK) return status < FOPO_OK ? status : told;
  moment start = now();
  int sent = count(start, sizeof worst, rounds(), mpi.least(worst));
  int heeded = heed(status, worst);
  return heeded == status && status >= FOPO_OK && sent != FOPO_OK ? sent : heeded;
}

int fopo_comm_heed(const int *all) {
  int worst[2] = {FOPO_OK, 0};
  for (int r = 0; r < mpi.size; r++) {
    if (all[r] < worst[0]) worst[1] = r;
    if (all[r] < worst[0]) worst[0] = all[r];
  }
  return heed(all[mpi.rank], worst);
}

void fopo_comm_begin(void) {
  told = FOPO_OK;
  stretched = 1;
}

int fopo_comm_end(int status) {
  stretched = 0;
  return status < FOPO_OK && told == FOPO_OK ? fopo_comm_agree(status) : status;
}

int fopo_comm_sum(float *x, size_t n) {
  if (mpi.size == 1) return FOPO_OK;
  moment start = now();
  return count(start, n * sizeof *x, rounds(), mpi.sum(x, n, 0));
}

/* The sum of few numbers in the order of the ranks. */
static int sum_few(double *x, size_t n) {
  double all[FEW];
  int status = fopo_comm_gather(all, x, n * sizeof *x);
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < n; i++) {
    double sum = 0.0;
    for (size_t r = 0; r < (size_t)mpi.size; r++) sum += all[r * n + i];
    x[i] = sum;
  }
  return FOPO_OK;
}

int fopo_comm_sum_doubles(double *x, size_t n) {
  if (mpi.size == 1) return FOPO_OK;
  if (n * (size_t)mpi.size <= FEW) return sum_few(x, n);
  moment start = now();
  return count(start, n * sizeof *x, rounds(), mpi.sum(x, n, 1));
}

int fopo_comm_gather_parts(void *all, const void *mine, const size_t *bytes) {
  if (mpi.size == 1) {
    if (all != mine && bytes[0] > 0) memcpy(all, mine, bytes[0]);
    return FOPO_OK;
  }
  moment start = now();
  return count(start, bytes[mpi.rank], rounds(), mpi.gather(all, mine, bytes));
}

int fopo_comm_gather(void *all, const void *mine, size_t n) {
  size_t bytes[FOPO_COMM_RANKS];
  for (int r = 0; r < mpi.size; r++) bytes[r] = n;
  return fopo_comm_gather_parts(all, mine, bytes);
}

int fopo_comm_exchange(void *receive, const size_t *received, const void *send,
                       const size_t *sent) {
  if (mpi.size == 1) {
    if (sent[0] > 0) memcpy(receive, send, sent[0]); /* else they may be NULL */
    return FOPO_OK;
  }
  moment start = now();
  size_t bytes = 0, messages = 0;
  for (int r = 0; r < mpi.size; r++) {
    bytes += r == mpi.rank ? 0 : sent[r];
    messages += r != mpi.rank && sent[r] > 0;
  }
  return count(start, bytes, messages, mpi.exchange(receive, received, send, sent));
}

int fopo_comm_broadcast(void *bytes, size_t n, size_t from) {
  if (mpi.size == 1) return FOPO_OK;
  moment start = now();
  size_t own = fopo_comm_own_rank() == from ? n : 0;
  return count(start, own, rounds(), mpi.broadcast(bytes, n, (int)from));
}
