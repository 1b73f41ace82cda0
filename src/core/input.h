/* Opening and reading files. All but text (data/source.h) is read from regular files alone: a pipe
 * would wait for its writer. */
#ifndef FOPO_CORE_INPUT_H
#define FOPO_CORE_INPUT_H

#include <stddef.h>
#include <stdint.h>

/* Opens a regular file for reading, and says its size. After a failure *fd is -1. */
int fopo_open_regular(int *fd, uint64_t *size, const char *path);

/* Reads n bytes from offset `from` on: short reads and EINTR handled. *got < n only at the end of
 * the file. 0, or errno. */
int fopo_read_at(int fd, void *bytes, size_t n, uint64_t from, size_t *got);

/* Reads n bytes from where a pipe or a terminal stands: *got < n only at its end. Waits for them,
 * as long as nobody interrupts; `what` is the title of the work. */
int fopo_read_stream(int fd, void *bytes, size_t n, size_t *got, const char *what);

/* True if the file is a regular one that begins with these bytes, at most 16. */
int fopo_file_begins(const char *path, const char *magic);

#endif
