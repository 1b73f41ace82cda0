/* Replacing a file as a whole: the old one stays until the new one is complete on disk. */
#ifndef FOPO_CORE_REPLACE_H
#define FOPO_CORE_REPLACE_H

#include <stddef.h>
#include <stdint.h>

/* Writes through a temporary name: opens path.tmp.PID for writing and returns its descriptor
 * (or a negative status); commit flushes to disk, renames and flushes the folder; abandon removes
 * it. temporary is a buffer of at least strlen(path) + 32 bytes. Shared by all writers. */
int fopo_replace_begin(char *temporary, size_t size, const char *path);
int fopo_replace_commit(int fd, const char *temporary, const char *path);
void fopo_replace_abandon(int fd, const char *temporary);

/* Writes all n bytes at the descriptor's position: short writes and EINTR handled. 0, or errno. */
int fopo_write_all(int fd, const void *bytes, size_t n);

/* Abandons a replacement because of errno `error`: removes the temporary file and fails with a
 * sentence, for a full disk with the bytes needed and free. */
int fopo_replace_fail(int fd, const char *temporary, const char *path, int error, uint64_t bytes);

#endif
