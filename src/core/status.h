/* What can fail returns a status: 0, or one of the negative codes below. The sentence that a user
 * reads is kept per thread until the next failure of that thread. A failing function ends
 *
 *     return fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but the index holds %zu items; use k <= %zu",
 * ...);
 *
 * The sentence names the thing, the sizes, and what to do next; it is one line without a full stop
 * at its end. */
#ifndef FOPO_CORE_STATUS_H
#define FOPO_CORE_STATUS_H

enum {
  FOPO_OK = 0,
  FOPO_ERR_ARGUMENT = -1,    /* the caller is wrong: shape, size, option */
  FOPO_ERR_FILE = -2,        /* the system refused: missing file, full disk, no permission */
  FOPO_ERR_FORMAT = -3,      /* data is malformed: the sentence has file, line and column */
  FOPO_ERR_MEMORY = -4,      /* memory was refused, or would be too little */
  FOPO_ERR_NUMERIC = -5,     /* NaN, Inf or divergence: the sentence has the place */
  FOPO_ERR_INTERRUPTED = -6, /* Ctrl-C: all objects are still usable */
  FOPO_ERR_UNAVAILABLE = -7  /* this build or machine lacks it: CUDA, MPI, an instruction set */
};

/* Keeps the sentence for this thread and returns `code`. A sentence is cut at 1,023 bytes. */
int fopo_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The sentence of this thread's last failure; "" before the first. Valid until the next failure. */
const char *fopo_error_sentence(void);

/* Carries a failure from a worker thread to its caller: copy fopo_error_sentence() there, call
 * fopo_fail(code, "%s", copy) here. */

#endif
