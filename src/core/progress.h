/* Progress and interruption: one call, which every long loop makes at least every 50 ms of work.
 * The core neither prints nor calls Lua; a caller that draws progress bars installs a sink. */
#ifndef FOPO_CORE_PROGRESS_H
#define FOPO_CORE_PROGRESS_H

#include <stddef.h>

/* Called with what ("reading ratings.csv"), done and total in the same unit; total 0: not known.
 * closed == 1 with the last call: the work is done (done >= total > 0), or interrupted. */
typedef void fopo_progress_sink(void *payload, const char *what, double done, double total,
                                int closed);

/* NULL: no sink. Called from the main thread before and between the work, never during it. */
void fopo_progress_to(fopo_progress_sink *to, void *payload);

/* Reports to the sink and polls the interrupt flag: FOPO_OK, or FOPO_ERR_INTERRUPTED with the
 * sentence "interrupted while `what`". Call it from one thread at a time. */
int fopo_progress(const char *what, double done, double total);

/* Sets the flag; async-signal-safe. */
void fopo_interrupt_request(void);
void fopo_interrupt_clear(void);

/* Polls the flag only; cheap enough for worker threads. */
int fopo_interrupted(void);

/* For a thread in the background: from now on it polls wanted(payload) instead of the flag, so that
 * Ctrl-C does not stop it, and it reports to no sink. The worker threads of its parallel loops
 * still poll the flag: work that they stop ends with FOPO_ERR_INTERRUPTED although wanted() is 0,
 * and must be repeated. wanted NULL: polls the flag again. */
void fopo_interrupt_by(int (*wanted)(void *payload), void *payload);

#endif
