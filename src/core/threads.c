/* The number of threads, found once. The first call of fopo_threads() also limits OpenBLAS to one
 * thread, so it must precede every call of BLAS; matrix.c and factor.c make sure of that. */
#include "core/threads.h"

#include <cblas.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/memory.h"
#include "core/notice.h"
#include "core/status.h"

/* OpenBLAS keeps a buffer per calling thread and ends the process when it runs out of them. */
enum { MOST = 256 };

/* Address space of a thread: its stack, its arena of malloc, its buffer of OpenBLAS. */
#define A_THREAD ((uint64_t)80 << 20)

/* Address space of the program and its libraries, the threads that OpenBLAS starts included. */
#define THE_PROGRAM ((uint64_t)260 << 20)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int count;

/* The leading number of an environment variable ("4" or "4,2"), or 0. */
static int from_environment(const char *name) {
  const char *text = getenv(name);
  long n = text == NULL ? 0 : strtol(text, NULL, 10);
  if (n < 1) return 0;
  return n < MOST ? (int)n : MOST;
}

static int own_setting(void) {
  const char *text = getenv("FOPO_THREADS");
  int n = from_environment("FOPO_THREADS");
  if (text != NULL && *text != '\0' && (n == 0 || text[strspn(text, "0123456789")] != '\0')) {
    fopo_notice("FOPO_THREADS is \"%s\", which is no number of threads (1 to %d), and is ignored",
                text, MOST);
    return 0;
  }
  return n;
}

static void start(void) {
  openblas_set_num_threads(1);
  int n = own_setting();
  if (n == 0) n = from_environment("OMP_NUM_THREADS");
  if (n == 0) n = omp_get_num_procs();
  atomic_store(&count, n < MOST ? n : MOST);
}

int fopo_threads(void) {
  int n = atomic_load_explicit(&count, memory_order_acquire);
  if (n != 0) return n;
  pthread_once(&once, start);
  return atomic_load(&count);
}

/* OpenBLAS asks for its buffer again and again, for ever, if there is no address space for it. */
static int suffices(uint64_t left, uint64_t need, int n) {
  if (need <= left) return FOPO_OK;
  return fopo_fail(FOPO_ERR_MEMORY,
                   "the work of %d thread%s needs %.0f MB of address space, and the limit (ulimit "
                   "-v) allows %.0f MB; raise it, or use fewer threads (FOPO_THREADS=1)",
                   n, n == 1 ? "" : "s", (double)need / 1e6, (double)left / 1e6);
}

/* Makes OpenBLAS take its buffers, and OpenMP start its threads, so that what is asked for later
 * finds the address space without them. */
static void take_buffers(int n) {
#pragma omp parallel num_threads(n)
  {
    enum { N = 96 }; /* smaller products need no buffer */
    float *x = fopo_alloc(3 * N * N, sizeof *x);
    if (x != NULL) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1.0f, x, N, x + N * N, N,
                  0.0f, x + 2 * N * N, N);
    }
    fopo_free(x);
  }
}

int fopo_threads_start(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return FOPO_OK;
  int status = suffices(limit.rlim_cur, THE_PROGRAM + A_THREAD, 1); /* before OpenBLAS is called */
  if (status != FOPO_OK) return status;
  int n = fopo_threads();
  status = suffices(limit.rlim_cur, THE_PROGRAM + (uint64_t)n * A_THREAD, n);
  if (status == FOPO_OK) take_buffers(n);
  return status;
}

int fopo_threads_set(int n) {
  if (n < 1 || n > MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%d threads were requested; use 1 to %d", n, MOST);
  }
  int before = fopo_threads();
  if (n > before) {
    int more = n - before;
    int status = suffices(fopo_memory_address_space(), (uint64_t)more * A_THREAD, more);
    if (status != FOPO_OK) return status;
  }
  atomic_store(&count, n);
  return FOPO_OK;
}
