/* The number of threads of the program's OpenMP loops. OpenBLAS itself is limited to one thread:
 * work is cut into tiles whose shape does not depend on the number of threads, and each tile is one
 * call of BLAS. So results have the same bits for any number of threads. */
#ifndef FOPO_CORE_THREADS_H
#define FOPO_CORE_THREADS_H

#include <stddef.h>

/* At start: FOPO_THREADS, else OMP_NUM_THREADS, else the processors this process may run on. */
int fopo_threads(void);

/* Threads for a loop of so many multiply-adds, or of what takes as long: no more than have enough
 * of it to be worth waking. */
int fopo_threads_for(size_t work);

/* n >= 1, else FOPO_ERR_ARGUMENT; FOPO_ERR_MEMORY if a limited address space lacks room, or if the
 * system starts no more threads. Must not be called while work runs. */
int fopo_threads_set(int n);

/* FOPO_ERR_MEMORY if the system does not start n more threads now, or their stacks and buffers do
 * not fit into a limited address space. To be asked before the first
 * parallel work of a new thread, for which OpenMP starts fopo_threads() - 1 others: it ends the
 * process if it cannot. */
int fopo_threads_more(int n);

/* Call at the start, before any work: refuses an address space that is limited and too small for
 * the threads. */
int fopo_threads_check(void);

/* Call after it: starts the threads, or as many as the system lets it, which it says and which
 * fopo_threads() then is. In a limited address space, takes the buffers that they need. */
void fopo_threads_start(void);

/* Ends the threads that wait for work; the next work starts them again. Before a fork, because the
 * child has the calling thread alone and would wait for the others. Must not be called while work
 * runs. */
void fopo_threads_release(void);

#endif
