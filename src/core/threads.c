/* The number of threads, found once. The first call of fopo_threads() also limits OpenBLAS to one
 * thread, so it must precede every call of BLAS; matrix.c, qr.c and svd_dense.c make sure. */
#include "core/threads.h"

#include <cblas.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "core/memory.h"
#include "core/notice.h"
#include "core/status.h"

/* OpenBLAS keeps a buffer per calling thread and ends the process when it runs out of them. */
enum { MOST = 256 };

/* Multiply-adds of a thread: a tenth of a millisecond, several times what it takes to wake one that
 * sleeps. */
enum { ENOUGH = 1 << 21 };

/* Address space of a thread without its stack: its arena of malloc, its buffer of OpenBLAS. */
#define A_THREAD ((uint64_t)72 << 20)

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

int fopo_threads_for(size_t work) {
  size_t n = work / ENOUGH, most = (size_t)fopo_threads();
  return n == 0 ? 1 : (int)(n < most ? n : most);
}

/* Address space of n threads; their stacks have the size that ulimit -s gives. */
static uint64_t room_of(int n) {
  pthread_attr_t attributes;
  size_t stack = (size_t)8 << 20;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_destroy(&attributes);
  }
  return (uint64_t)n * (A_THREAD + stack);
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

/* ---- threads that the system refuses ---- */

/* Threads of the probe wait here, so that all of them live at once. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t opened;
  int is_open;
} gate;

static void *wait_at(void *payload) {
  gate *g = payload;
  pthread_mutex_lock(&g->lock);
  while (!g->is_open) pthread_cond_wait(&g->opened, &g->lock);
  pthread_mutex_unlock(&g->lock);
  return NULL;
}

static void open_gate(gate *g) {
  pthread_mutex_lock(&g->lock);
  g->is_open = 1;
  pthread_cond_broadcast(&g->opened);
  pthread_mutex_unlock(&g->lock);
}

/* Threads of this process, as the system counts them; 0 if it does not say. */
static unsigned long counted(void) {
  struct stat tasks;
  return stat("/proc/self/task", &tasks) == 0 ? (unsigned long)tasks.st_nlink : 0;
}

/* A thread that has been joined still counts for the limits of the system until it is reaped. Waits
 * for that, at most 0.2 s. */
static void wait_until_reaped(unsigned long before) {
  for (int i = 0; i < 2000 && counted() > before; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
}

/* How many of n more threads the system starts; *why: the error number of the first that it does
 * not. They end at once. They are asked for in this way because libgomp ends the process if it is
 * refused a thread. */
static int startable(int n, int *why) {
  pthread_t threads[MOST];
  gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
  sigset_t all, before;
  unsigned long running = counted();
  int started = 0;
  *why = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
  while (started < n && (*why = pthread_create(&threads[started], NULL, wait_at, &g)) == 0) {
    started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  open_gate(&g);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  wait_until_reaped(running);
  return started;
}

int fopo_threads_more(int n) {
  int status = suffices(fopo_memory_address_space(), room_of(n), n);
  if (status != FOPO_OK) return status;
  int why, started = startable(n < MOST ? n : MOST, &why);
  if (why == 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_MEMORY,
                   "%d more thread%s needed, and the system starts %d (%s); use fewer threads "
                   "(fopo.threads(1)), t:run instead of a job, or a higher limit (ulimit -u)",
                   n, n == 1 ? " is" : "s are", started, strerror(why));
}

/* Lowers the count to what the system starts; libgomp then holds its threads. */
static void lower_count(void) {
  int n = fopo_threads(), why;
  int all = 1 + startable(n - 1, &why);
  if (all < n) {
    fopo_notice("the system starts %d of %d threads (%s), and fopo goes on with %s; its limit "
                "(ulimit -u, ulimit -v) can be raised, and FOPO_THREADS=%d asks for no more",
                all, n, strerror(why), all == 1 ? "one" : "them", all);
    atomic_store(&count, all);
  }
#pragma omp parallel num_threads(all)
  {}
}

/* ---- the count ---- */

static int is_limited(struct rlimit *limit) {
  return getrlimit(RLIMIT_AS, limit) == 0 && limit->rlim_cur != RLIM_INFINITY;
}

int fopo_threads_check(void) {
  struct rlimit limit;
  if (!is_limited(&limit)) return FOPO_OK;
  int status =
      suffices(limit.rlim_cur, THE_PROGRAM + room_of(1), 1); /* before OpenBLAS is called */
  if (status != FOPO_OK) return status;
  int n = fopo_threads();
  return suffices(limit.rlim_cur, THE_PROGRAM + room_of(n), n);
}

void fopo_threads_start(void) {
  struct rlimit limit;
  lower_count();
  if (is_limited(&limit)) take_buffers(fopo_threads());
}

int fopo_threads_set(int n) {
  if (n < 1 || n > MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%d threads were requested; use 1 to %d", n, MOST);
  }
  int before = fopo_threads();
  int status = n > before ? fopo_threads_more(n - before) : FOPO_OK;
  if (status != FOPO_OK) return status;
  atomic_store(&count, n);
  return FOPO_OK;
}

void fopo_threads_release(void) { omp_pause_resource_all(omp_pause_hard); }
