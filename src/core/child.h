/* Child processes that go on with this program's state: a copy of all that it has, on one thread.
 * They end with their parent, however that ends. */
#ifndef FOPO_CORE_CHILD_H
#define FOPO_CORE_CHILD_H

#include <sys/types.h>

/* Forks. *child is 0 in the child, which has no GPU and `threads` threads; a child that cannot have
 * them says so and ends with 1. No other thread of the program may be at work. */
int fopo_child_fork(pid_t *child, int threads);

/* Of a child that has ended, by what waitpid says: its exit status, or 128 and the number of the
 * signal. */
int fopo_child_code(int status);

/* 1 if it has ended, and its *code. */
int fopo_child_ended(pid_t child, int *code);

/* Ends it by SIGTERM and waits for that, at most ten seconds; then by SIGKILL. */
void fopo_child_stop(pid_t child);

#endif
