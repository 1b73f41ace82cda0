/* Replacing a file as a whole: the old one stays until the new one is complete on disk. */
#ifndef FOPO_CORE_REPLACE_H
#define FOPO_CORE_REPLACE_H

#include <stddef.h>
#include <stdint.h>

#define FOPO_PATH_MOST 4096

/* A file that is being replaced. */
typedef struct {
  const char *path;            /* as the user wrote it; not owned */
  char target[FOPO_PATH_MOST]; /* the file that it names: links are followed */
  int fd;                      /* of the new file, at first under the name `temporary` */
  char temporary[FOPO_PATH_MOST + 32];
} fopo_replacement;

/* From now on files are written below this folder alone (fopo --safe). To be set before other
 * threads are started. */
int fopo_replace_within(const char *folder);

/* 1 if that has been called. */
int fopo_replace_confined(void);

/* FOPO_OK, or the sentence of why nothing may be written there: the file or folder need not exist,
 * nor the last ones of the folders above it. */
int fopo_replace_allowed(const char *path);

/* Opens TARGET.tmp.PID.N for writing, and keeps a lock on it until it is closed. Files of that form
 * which nobody holds a lock on were left over by processes that were killed: they are removed, and
 * a notice says so. After a failure there is nothing to end. */
int fopo_replace_begin(fopo_replacement *r, const char *path);

/* Writes all n bytes at the descriptor's position: short writes and EINTR handled. 0, or errno. */
int fopo_write_all(int fd, const void *bytes, size_t n);

/* Ends the replacement. If status is FOPO_OK and error 0: flushes to disk, renames and flushes the
 * folder. Else removes the temporary file and returns status, or, because of errno `error` of a
 * failed write, fails with a sentence, for a full disk with the bytes that the whole file needs (0:
 * they are not known) and those that are free. */
int fopo_replace_end(fopo_replacement *r, int status, int error, uint64_t bytes);

/* Replaces the file by these bytes. */
int fopo_replace_whole(const char *path, const void *bytes, size_t n);

/* Adds these bytes to the end of the file and, if `to_disk`, flushes them to disk. If they do not
 * fit the file is as long as before. */
int fopo_replace_append(const char *path, const void *bytes, size_t n, int to_disk);

#endif
