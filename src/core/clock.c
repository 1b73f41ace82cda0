/* CLOCK_MONOTONIC: not affected by changes of the date. */
#include "core/clock.h"

#include <time.h>

static double read_clock(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double fopo_clock(void) { return read_clock(CLOCK_MONOTONIC); }

double fopo_clock_of_thread(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
