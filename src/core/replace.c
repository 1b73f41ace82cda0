/* Atomic replacement of files: the data is written to path.tmp.PID, flushed to disk and renamed
 * over the old file, and the folder is flushed (as PostgreSQL's durable_rename does; without the
 * last step a power cut may bring the old name back).
 *
 * After a failed fsync the descriptor is closed and never flushed again: Linux marks the lost pages
 * clean, so a second fsync would report success (Rebello et al.: "Can applications recover from
 * fsync failures?", ATC 2020). */
#include "core/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/status.h"

int fopo_write_all(int fd, const void *bytes, size_t n) {
  const char *at = bytes;
  while (n > 0) {
    /* Linux writes at most 2 GiB in one call. */
    ssize_t wrote = write(fd, at, n < (1u << 30) ? n : (1u << 30));
    if (wrote < 0 && errno != EINTR) return errno;
    if (wrote > 0) {
      at += wrote;
      n -= (size_t)wrote;
    }
  }
  return 0;
}

/* Flushes the folder of path. Some file systems cannot, and return EINVAL. */
static int flush_folder(const char *path) {
  char copy[4096];
  if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy) return ENAMETOOLONG;
  int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  int error = fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
  close(fd);
  return error;
}

static void abandon(const fopo_replacement *r) {
  close(r->fd);
  unlink(r->temporary);
}

int fopo_replace_begin(fopo_replacement *r, const char *path) {
  struct stat old;
  int exists = stat(path, &old) == 0;
  r->path = path;
  if (exists && !S_ISREG(old.st_mode)) {
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: it is not a regular file", path);
  }
  int n = snprintf(r->temporary, sizeof r->temporary, "%s.tmp.%ld", path, (long)getpid());
  if (n >= (int)sizeof r->temporary) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the path %s is too long", path);
  }
  /* A file of this name can only be left over from a dead process with the same id. */
  if (unlink(r->temporary) != 0 && errno != ENOENT) {
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", path, strerror(errno));
  }
  r->fd = open(r->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (r->fd < 0) {
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", path,
                     errno == ENOENT ? "there is no such folder" : strerror(errno));
  }
  if (exists && fchmod(r->fd, old.st_mode & 0777) != 0 && errno != EPERM) {
    int error = errno;
    abandon(r);
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", path, strerror(error));
  }
  return FOPO_OK;
}

static int commit(const fopo_replacement *r) {
  int error = fsync(r->fd) != 0 ? errno : 0;
  if (close(r->fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(r->temporary, r->path) != 0) error = errno;
  if (error != 0) {
    unlink(r->temporary);
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s; the old file is untouched", r->path,
                     strerror(error));
  }
  error = flush_folder(r->path);
  if (error != 0) {
    return fopo_fail(FOPO_ERR_FILE, "%s is written, but its folder could not be flushed: %s",
                     r->path, strerror(error));
  }
  return FOPO_OK;
}

/* Abandons the replacement because of a failed write. */
static int give_up(const fopo_replacement *r, int error, uint64_t bytes) {
  struct statvfs disk;
  struct stat written;
  int full = error == ENOSPC && fstatvfs(r->fd, &disk) == 0 && fstat(r->fd, &written) == 0;
  double free_bytes =
      full ? (double)disk.f_bavail * (double)disk.f_frsize + (double)written.st_size : 0;
  abandon(r);
  if (full) {
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: it needs %.1f MB, %.1f MB are free", r->path,
                     (double)bytes / 1e6, free_bytes / 1e6);
  }
  return fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", r->path, strerror(error));
}

int fopo_replace_end(fopo_replacement *r, int status, int error, uint64_t bytes) {
  if (error != 0) return give_up(r, error, bytes);
  if (status == FOPO_OK) return commit(r);
  abandon(r);
  return status;
}
