#include "core/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/replace.h"
#include "core/status.h"

/* Whether the path still names the file: whoever held it may have removed it before it was locked.
 * -1: the system does not tell. */
static int is_there(int fd, const char *path) {
  struct stat mine, there;
  if (fstat(fd, &mine) != 0) return -1;
  if (stat(path, &there) != 0) return errno == ENOENT ? 0 : -1;
  return mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

static void read_holder(char holder[FOPO_LOCK_HOLDER], int fd) {
  ssize_t n = pread(fd, holder, FOPO_LOCK_HOLDER - 1, 0);
  holder[n > 0 ? n : 0] = '\0';
  holder[strcspn(holder, "\n")] = '\0';
  if (holder[0] == '\0') snprintf(holder, FOPO_LOCK_HOLDER, "another process");
}

static void write_holder(int fd) {
  char host[64] = "", text[FOPO_LOCK_HOLDER];
  gethostname(host, sizeof host - 1);
  int n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
  if (ftruncate(fd, 0) == 0) fopo_write_all(fd, text, (size_t)n); /* on a full disk without */
}

int fopo_lock_open(char holder[FOPO_LOCK_HOLDER], const char *path) {
  holder[0] = '\0';
  if (fopo_replace_allowed(path) != FOPO_OK) return -2;
  for (;;) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return -2;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      int error = errno;
      if (error == EWOULDBLOCK) read_holder(holder, fd);
      close(fd);
      if (error == EINTR) continue;
      return error == EWOULDBLOCK ? -1 : -2;
    }
    int same = is_there(fd, path);
    if (same > 0) {
      write_holder(fd);
      return fd;
    }
    close(fd);
    if (same < 0) return -2;
  }
}

void fopo_lock_close(int fd, const char *path) {
  if (fd < 0) return;
  unlink(path); /* while it is held: nobody else's */
  close(fd);
}
