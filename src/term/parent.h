/* A parent process, which outlives whatever happens to the one that it waits for: fopo --safe.
 *
 * It hands on the signals that are sent to it, ends its child when the child's time is over, gives
 * back the terminal as it was, and ends as the child did. Nothing but --safe has one: a debugger,
 * and a kill -9 of a program's only process, are worth more than what it would do elsewhere. */
#ifndef FOPO_TERM_PARENT_H
#define FOPO_TERM_PARENT_H

#include <stddef.h>
#include <sys/types.h>

/* Forks; to be called before any thread is started. *child is 0 in the child, which is killed if
 * its parent ends. In the parent signals wait for fopo_parent_wait. */
int fopo_parent_fork(pid_t *child);

/* Waits for the child's end, but not for longer than `seconds` (0: for ever): then it is killed,
 * and a sentence says so. Returns what waitpid said of it. */
int fopo_parent_wait(pid_t child, double seconds);

/* Ends the process by the signal that ended the child, or returns the child's exit status. */
int fopo_parent_end(int status);

/* The child, when it takes the terminal and when it gives it back (n = 0): the bytes that the
 * parent writes to it if the child cannot. At most 256; does nothing where there is no parent. */
void fopo_parent_restores(const char *bytes, size_t n);

#endif
