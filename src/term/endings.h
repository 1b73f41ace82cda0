/* How signals end the program.
 *
 * Every signal that ends it restores the terminal first. SIGPIPE and SIGXFSZ do not end it: the
 * write fails, and its caller says so. SIGTERM, SIGHUP and SIGXCPU wait while a run keeps a
 * checkpoint: they interrupt, as Ctrl-C does, again every second; the run writes its checkpoint,
 * and the program leaves with 128 + the number of the signal, after FOPO_ENDING_SECONDS at the
 * latest. */
#ifndef FOPO_TERM_ENDINGS_H
#define FOPO_TERM_ENDINGS_H

enum { FOPO_ENDING_SECONDS = 10 };

/* Call once, before other threads are started. A signal that was ignored at the start stays so. */
void fopo_endings_install(void);

/* Ends the program after so many seconds as SIGTERM does while a run keeps a checkpoint: it is
 * interrupted, writes the checkpoint and leaves, with 128 + SIGALRM. 0: the limit is lifted. */
void fopo_endings_limit(double seconds);

/* 1 if the limit of time is what ends the program. */
int fopo_ending_by_limit(void);

/* The function that restores the terminal before a signal ends the program; it may call only what
 * is safe in a signal handler. NULL: none. Returns the former one. */
typedef void fopo_restore(void);
fopo_restore *fopo_endings_restore(fopo_restore *restore);

/* +1: one more run keeps a checkpoint, -1: one less. */
void fopo_endings_defer(int change);

/* The signal that ends the program; 0: none has come. */
int fopo_ending(void);

/* Between the two calls a file is being written: neither an interruption nor the limit of time cuts
 * that short. `end` asks for the interruption again. */
void fopo_ending_begin_save(void);
void fopo_ending_end_save(void);

#endif
