/* A border around a process that the kernel holds: fopo --safe.
 *
 * Landlock says which files may be read, written and executed, and seccomp which calls of the
 * system remain. Neither can be taken back, and all that the process starts has them too. Landlock
 * holds the thread that asks for it and those that it starts, so it comes first of all; seccomp
 * holds every thread.
 *
 * Kernels before 6.2 have no right of Landlock to cut files to length; open(2) with O_TRUNC and
 * without write access is therefore refused by seccomp, as truncate(2) is. */
#ifndef FOPO_CORE_BORDER_H
#define FOPO_CORE_BORDER_H

#include <stddef.h>

enum { FOPO_BORDER_READ = 1, FOPO_BORDER_WRITE = 2, FOPO_BORDER_RUN = 4 };

/* A file, or a folder with all below it. A path that does not exist is left out. */
typedef struct {
  const char *path;
  int may; /* FOPO_BORDER_READ ..., added */
} fopo_border_rule;

/* What the kernel lacks of the border: "Landlock", "seccomp", or NULL. */
const char *fopo_border_lacks(void);

/* From now on this thread reads, writes and executes what the rules say alone. A folder that may be
 * written is one where files and folders may be made and removed. Nobody is reached by TCP, nor by
 * a signal, where the kernel knows of that (5.19 and later). */
int fopo_border_files(const fopo_border_rule *rules, size_t n);

/* From now on the process executes nothing, starts threads but no processes, has no sockets, maps
 * no memory that can be executed, signals itself alone, and does not change limits, owners, modes
 * or mounts: calls that do not belong to reading, computing, writing and the terminal fail. */
int fopo_border_calls(void);

#endif
