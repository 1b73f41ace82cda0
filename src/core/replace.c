/* Atomic replacement of files: the data is written to TARGET.tmp.PID.N, flushed to disk and renamed
 * over the old file, and the folder is flushed (as PostgreSQL's durable_rename does; without the
 * last step a power cut may bring the old name back).
 *
 * After a failed fsync the descriptor is closed and never flushed again: Linux marks the lost pages
 * clean, so a second fsync would report success (Rebello et al.: "Can applications recover from
 * fsync failures?", ATC 2020). */
#include "core/replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/notice.h"
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

/* Flushes the folder of the target. Some file systems cannot, and return EINVAL. */
static int flush_folder(const fopo_replacement *r) {
  char copy[sizeof r->target];
  strcpy(copy, r->target);
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

/* ---- the target and its temporary ---- */

/* The folder of a path, with its last slash: its length. */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* path, or what the link at path names, and so on: the file need not exist. */
static int follow(char target[FOPO_PATH_MOST], const char *path) {
  char link[FOPO_PATH_MOST], next[2 * FOPO_PATH_MOST];
  if (snprintf(target, FOPO_PATH_MOST, "%s", path) >= FOPO_PATH_MOST) return ENAMETOOLONG;
  for (int i = 0; i < 40; i++) { /* the kernel's own bound */
    ssize_t n = readlink(target, link, sizeof link - 1);
    if (n < 0) return 0;
    link[n] = 0;
    size_t folder = link[0] == '/' ? 0 : folder_length(target);
    snprintf(next, sizeof next, "%.*s%s", (int)folder, target, link);
    if (snprintf(target, FOPO_PATH_MOST, "%s", next) >= FOPO_PATH_MOST) return ENAMETOOLONG;
  }
  return ELOOP;
}

/* Removes the temporary at path if the process that made it is gone: its lock is free, and it has
 * not become the target, after which its maker may use the name again. One in which nothing was
 * written may be that of a process about to lock it, which tries again, so nothing is said. */
static void remove_if_left_over(const char *path) {
  struct stat held, named;
  int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &held) == 0 && lstat(path, &named) == 0 &&
      held.st_ino == named.st_ino && unlink(path) == 0 && held.st_size > 0) {
    fopo_notice("%s was left by a save that was cut off and is removed", path);
  }
  close(fd);
}

static int is_temporary_of(const char *name, const char *base, size_t length) {
  if (strncmp(name, base, length) != 0 || strncmp(name + length, ".tmp.", 5) != 0) return 0;
  const char *number = name + length + 5;
  return *number != 0 && strspn(number, "0123456789.") == strlen(number);
}

/* Removes the temporaries of the target that dead processes left. */
static void remove_left_over(const char *target) {
  size_t folder = folder_length(target), base = strlen(target) - folder;
  char path[FOPO_PATH_MOST + 256];
  snprintf(path, sizeof path, "%.*s", (int)folder, folder > 0 ? target : "");
  DIR *entries = opendir(folder > 0 ? path : ".");
  if (!entries) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (!is_temporary_of(entry->d_name, target + folder, base)) continue;
    snprintf(path, sizeof path, "%.*s%s", (int)folder, target, entry->d_name);
    remove_if_left_over(path);
  }
  closedir(entries);
}

/* Opens a new file TARGET.tmp.PID.N of that mode, less the umask, and locks it. -1: none could be
 * opened; errno says why. Another process may take the file for left over between the two calls:
 * then it has no name any more. File systems without locks are good enough: no process can take the
 * lock there, so none removes it. */
static int open_locked(fopo_replacement *r, mode_t mode) {
  for (int n = 0; n < 1000; n++) {
    struct stat made;
    snprintf(r->temporary, sizeof r->temporary, "%s.tmp.%ld.%d", r->target, (long)getpid(), n);
    r->fd = open(r->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (r->fd < 0 && errno != EEXIST) return -1;
    if (r->fd < 0) continue; /* another thread's, or another host's on a shared disk */
    while (flock(r->fd, LOCK_EX) != 0 && errno == EINTR) continue;
    if (fstat(r->fd, &made) != 0 || made.st_nlink > 0) return 0;
    close(r->fd);
  }
  errno = EEXIST;
  return -1;
}

/* ---- the folder that files must lie in ---- */

static char within[PATH_MAX]; /* without its last slash; "": anywhere */
static int confined;

int fopo_replace_within(const char *folder) {
  char real[PATH_MAX];
  if (realpath(folder, real) == NULL) {
    return fopo_fail(FOPO_ERR_FILE, "the folder %s cannot be found: %s", folder, strerror(errno));
  }
  strcpy(within, strcmp(real, "/") == 0 ? "" : real);
  confined = 1;
  return FOPO_OK;
}

int fopo_replace_confined(void) { return confined; }

/* The real path of the nearest folder above path that exists. 0: it cannot be told, or folders that
 * do not exist are left by ".." again. */
static int nearest_folder(char real[PATH_MAX], const char *path) {
  char copy[FOPO_PATH_MOST];
  if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy) return 0;
  const char *folder = dirname(copy);
  while (realpath(folder, real) == NULL) {
    const char *name = strrchr(folder, '/');
    if (errno != ENOENT || strcmp(name ? name + 1 : folder, "..") == 0) return 0;
    folder = dirname((char *)folder);
  }
  return 1;
}

int fopo_replace_allowed(const char *path) {
  char real[PATH_MAX];
  size_t n = strlen(within);
  if (!confined) return FOPO_OK;
  if (nearest_folder(real, path) && strncmp(real, within, n) == 0 &&
      (real[n] == '/' || real[n] == 0)) {
    return FOPO_OK;
  }
  return fopo_fail(FOPO_ERR_FILE, "cannot write %.300s%s: --safe lets scripts write below %s alone",
                   path, strlen(path) > 300 ? "..." : "", n == 0 ? "/" : within);
}

/* The path may be longer than a sentence; the reason must be in it. */
static int refuse(const char *path, int error) {
  return fopo_fail(FOPO_ERR_FILE, "cannot write %.700s%s: %s", path,
                   strlen(path) > 700 ? "..." : "",
                   error == ENOENT ? "there is no such folder" : strerror(error));
}

int fopo_replace_begin(fopo_replacement *r, const char *path) {
  struct stat old;
  r->path = path;
  int error = follow(r->target, path);
  if (error != 0) return refuse(path, error);
  if (fopo_replace_allowed(r->target) != FOPO_OK) return FOPO_ERR_FILE;
  int exists = stat(r->target, &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: it is not a regular file", path);
  }
  remove_left_over(r->target);
  mode_t mode = exists ? old.st_mode & 0777 : 0666;
  if (open_locked(r, mode) != 0) return refuse(path, errno);
  if (exists && fchmod(r->fd, mode) != 0 && errno != EPERM) { /* as behind a border */
    error = errno;
    abandon(r);
    return refuse(path, error);
  }
  return FOPO_OK;
}

/* ---- the end ---- */

/* A second descriptor holds the lock until the temporary has its new name: another process that
 * writes the same file would take it for left over. */
static int commit(const fopo_replacement *r) {
  int error = fsync(r->fd) != 0 ? errno : 0, lock = fcntl(r->fd, F_DUPFD_CLOEXEC, 0);
  if (close(r->fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(r->temporary, r->target) != 0) error = errno;
  if (lock >= 0) close(lock);
  if (error != 0) {
    unlink(r->temporary);
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s; the old file is untouched", r->path,
                     strerror(error));
  }
  error = flush_folder(r);
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
  if (!full) return fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", r->path, strerror(error));
  int large = bytes >= 1000000 || (bytes == 0 && free_bytes >= 1e6);
  double unit = large ? 1e6 : 1e3;
  const char *name = large ? "MB" : "kB";
  if (bytes == 0) {
    return fopo_fail(FOPO_ERR_FILE, "cannot write %s: it needs more than the %.1f %s that are free",
                     r->path, free_bytes / unit, name);
  }
  return fopo_fail(FOPO_ERR_FILE, "cannot write %s: it needs %.1f %s, %.1f %s are free", r->path,
                   (double)bytes / unit, name, free_bytes / unit, name);
}

int fopo_replace_end(fopo_replacement *r, int status, int error, uint64_t bytes) {
  if (error != 0) return give_up(r, error, bytes);
  if (status == FOPO_OK) return commit(r);
  abandon(r);
  return status;
}

int fopo_replace_whole(const char *path, const void *bytes, size_t n) {
  fopo_replacement r;
  int status = fopo_replace_begin(&r, path);
  if (status != FOPO_OK) return status;
  return fopo_replace_end(&r, FOPO_OK, fopo_write_all(r.fd, bytes, n), n);
}

int fopo_replace_append(const char *path, const void *bytes, size_t n, int to_disk) {
  if (fopo_replace_allowed(path) != FOPO_OK) return FOPO_ERR_FILE;
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return refuse(path, errno);
  off_t before = lseek(fd, 0, SEEK_END);
  int error = before < 0 ? errno : fopo_write_all(fd, bytes, n);
  if (error == 0 && to_disk && fsync(fd) != 0) error = errno;
  /* What cannot be cut off either, of a device, is a torn line to who reads it. */
  if (error != 0 && before >= 0) (void)!ftruncate(fd, before);
  close(fd);
  return error == 0 ? FOPO_OK : refuse(path, error);
}
