/* The number of threads, found once. The first call of fopo_threads() also limits OpenBLAS to one
 * thread, so it must precede every call of BLAS; matrix.c and factor.c make sure of that. */
#include "core/threads.h"

#include <cblas.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/status.h"

/* OpenBLAS keeps a buffer per calling thread and ends the process when it runs out of them. */
enum { MOST = 256 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int count;

/* The leading number of an environment variable ("4" or "4,2"), or 0. */
static int from_environment(const char *name) {
  const char *text = getenv(name);
  long n = text == NULL ? 0 : strtol(text, NULL, 10);
  if (n < 1) return 0;
  return n < MOST ? (int)n : MOST;
}

static void start(void) {
  openblas_set_num_threads(1);
  int n = from_environment("FOPO_THREADS");
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

int fopo_threads_set(int n) {
  if (n < 1 || n > MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%d threads were requested; use 1 to %d", n, MOST);
  }
  pthread_once(&once, start);
  atomic_store(&count, n);
  return FOPO_OK;
}
