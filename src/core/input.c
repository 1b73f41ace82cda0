#include "core/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/progress.h"
#include "core/replace.h"
#include "core/status.h"

/* O_NONBLOCK: opening a pipe must not block, since it is refused anyway; regular files ignore it.
 */
int fopo_open_regular(int *fd, uint64_t *size, const char *path) {
  struct stat file;
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*fd < 0) {
    int border = errno == EACCES && fopo_replace_confined();
    return fopo_fail(FOPO_ERR_FILE, "cannot open %s: %s%s", path, strerror(errno),
                     border ? "; --safe reads below the current folder, and what --read PATH names"
                            : "");
  }
  int failed = fstat(*fd, &file) != 0, why = errno;
  if (!failed && S_ISREG(file.st_mode)) {
    *size = (uint64_t)file.st_size;
    return FOPO_OK;
  }
  close(*fd);
  *fd = -1;
  return fopo_fail(FOPO_ERR_FILE, "cannot read %s: %s", path,
                   failed ? strerror(why) : "it is not a regular file");
}

int fopo_read_at(int fd, void *bytes, size_t n, uint64_t from, size_t *got) {
  for (*got = 0; *got < n;) {
    ssize_t r = pread(fd, (char *)bytes + *got, n - *got, (off_t)(from + *got));
    if (r < 0 && errno == EINTR) continue;
    if (r < 0) return errno;
    if (r == 0) break;
    *got += (size_t)r;
  }
  return 0;
}

int fopo_read_stream(int fd, void *bytes, size_t n, size_t *got, const char *what) {
  enum { WAIT = 50 }; /* milliseconds between two polls of the interrupt flag */
  for (*got = 0; *got < n;) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (fopo_interrupted()) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while %s", what);
    if (poll(&ready, 1, WAIT) <= 0) continue;
    ssize_t r = read(fd, (char *)bytes + *got, n - *got);
    if (r < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (r < 0) return fopo_fail(FOPO_ERR_FILE, "%s failed: %s", what, strerror(errno));
    if (r == 0) break;
    *got += (size_t)r;
  }
  return FOPO_OK;
}

int fopo_file_begins(const char *path, const char *magic) {
  char first[16];
  uint64_t size;
  size_t n = strlen(magic), got = 0;
  int fd;
  if (n > sizeof first || fopo_open_regular(&fd, &size, path) != FOPO_OK) return 0;
  int failed = fopo_read_at(fd, first, n, 0, &got);
  close(fd);
  return failed == 0 && got == n && memcmp(first, magic, n) == 0;
}
