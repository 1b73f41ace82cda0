/* A process that outlives whatever happens to fopo, and gives back the terminal as it was.
 *
 * fopo --safe has a parent. It hands on the signals that are sent to it, ends its child when the
 * child's time is over, and ends as the child did. Else fopo has none: a debugger, and a kill -9 of
 * a program's only process, are worth more than what a parent would do. While the prompt or the
 * live view has the terminal there is a watcher then, a child that does nothing until fopo is
 * killed. */
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

/* Who takes the terminal and who gives it back: with the first of them a watcher begins, unless
 * there is a parent, and it ends with the last one, or with the program. */
void fopo_parent_watch(void);
void fopo_parent_unwatch(void);

/* When the terminal is taken and when it is given back (n = 0): the bytes that the parent or the
 * watcher writes to it if fopo cannot. At most 256. Safe in a signal handler. */
void fopo_parent_restores(const char *bytes, size_t n);

#endif
