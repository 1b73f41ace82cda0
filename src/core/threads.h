/* The number of threads of the program's OpenMP loops. OpenBLAS itself is limited to one thread:
 * work is cut into tiles whose shape does not depend on the number of threads, and each tile is one
 * call of BLAS. So results have the same bits for any number of threads. */
#ifndef FOPO_CORE_THREADS_H
#define FOPO_CORE_THREADS_H

/* At start: FOPO_THREADS, else OMP_NUM_THREADS, else the processors this process may run on. */
int fopo_threads(void);

/* n >= 1, else FOPO_ERR_ARGUMENT; FOPO_ERR_MEMORY if a limited address space lacks room. Must not
 * be called while work runs. */
int fopo_threads_set(int n);

/* Call at the start: if the address space of the process is limited, refuses a limit that is too
 * small for the threads, and takes the buffers that they need. */
int fopo_threads_start(void);

#endif
