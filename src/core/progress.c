/* One sink and one flag. The flag is a lock-free atomic: signal handlers set it, workers read it.
 * The caller that starts new work clears it (fopo_interrupt_clear); a loop that stops leaves it
 * set, so that all enclosing loops stop too. */
#include "core/progress.h"

#include <stdatomic.h>

#include "core/status.h"

static fopo_progress_sink *sink;
static void *sink_payload; /* not owned */
static atomic_int interrupted;
static _Thread_local int (*own_wanted)(void *payload); /* of a thread in the background */
static _Thread_local void *own_payload;                /* not owned */

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "the flag is set in signal handlers");

void fopo_progress_to(fopo_progress_sink *to, void *payload) {
  sink = to;
  sink_payload = payload;
}

int fopo_progress(const char *what, double done, double total) {
  int stop = fopo_interrupted();
  int closed = stop || (total > 0 && done >= total);
  if (sink != NULL && own_wanted == NULL) sink(sink_payload, what, done, total, closed);
  if (stop) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while %s", what);
  return FOPO_OK;
}

void fopo_interrupt_request(void) { atomic_store(&interrupted, 1); }

void fopo_interrupt_clear(void) { atomic_store(&interrupted, 0); }

void fopo_interrupt_by(int (*wanted)(void *payload), void *payload) {
  own_wanted = wanted;
  own_payload = payload;
}

int fopo_interrupted(void) {
  if (own_wanted != NULL) return own_wanted(own_payload);
  return atomic_load_explicit(&interrupted, memory_order_relaxed);
}
