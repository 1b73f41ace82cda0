/* Of a program that runs as a whole, input, output and errors are files without a name, not pipes:
 * so neither side waits for the other to read. */
#include "core/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/child.h"
#include "core/input.h"
#include "core/memory.h"
#include "core/platform.h"
#include "core/progress.h"
#include "core/replace.h"
#include "core/status.h"

enum { INPUT, OUTPUT, ERRORS, FILES };

int fopo_program_find(char *path, size_t size, const char *name) {
  const char *folders = getenv("PATH");
  if (*name == '/') return snprintf(path, size, "%s", name) < (int)size && access(path, X_OK) == 0;
  for (const char *at = folders ? folders : ""; *at != 0;) {
    size_t n = strcspn(at, ":");
    if (at[0] == '/' && snprintf(path, size, "%.*s/%s", (int)n, at, name) < (int)size &&
        access(path, X_OK) == 0) {
      return 1;
    }
    at += n + (at[n] == ':');
  }
  return 0;
}

/* Starts the program with the three files, in the group of this process or in one of its own. 0, or
 * errno. */
static int start(pid_t *child, const char *path, char *const argv[], const int files[FILES],
                 int own_group) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  error = posix_spawnattr_init(&attributes);
  for (int i = 0; i < FILES && error == 0; i++) {
    error = posix_spawn_file_actions_adddup2(&actions, files[i], i);
  }
  if (error == 0 && own_group) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  if (error == 0) error = posix_spawn(child, path, &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* Starts the program with the three files and waits for its end: its code, or -errno. */
static int start_and_wait(const char *path, char *const argv[], const int files[FILES]) {
  pid_t child;
  int status, error = start(&child, path, argv, files, 0);
  if (error != 0) return -error;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -errno;
  }
  return fopo_child_code(status);
}

/* Reads a whole file. 0, or errno. */
static int read_whole(int fd, char **bytes, size_t *n) {
  off_t size = lseek(fd, 0, SEEK_END);
  if (size < 0) return errno;
  *bytes = fopo_alloc((size_t)size + 1, 1);
  if (!*bytes) return ENOMEM;
  int error = fopo_read_at(fd, *bytes, (size_t)size, 0, n);
  (*bytes)[*n] = 0;
  return error;
}

static int run_with_files(fopo_output *output, const char *path, char *const argv[],
                          const int files[FILES], const char *input, size_t n) {
  int error = fopo_write_all(files[INPUT], input, n);
  if (error == 0 && lseek(files[INPUT], 0, SEEK_SET) != 0) error = errno;
  if (error == 0) output->code = start_and_wait(path, argv, files);
  if (error == 0 && output->code < 0) error = -output->code;
  if (error == 0) error = read_whole(files[OUTPUT], &output->out, &output->out_bytes);
  if (error == 0) error = read_whole(files[ERRORS], &output->errors, &output->errors_bytes);
  return error;
}

int fopo_program_run(fopo_output *output, const char *name, char *const argv[], const char *input,
                     size_t n) {
  char path[4096];
  int files[FILES], error = 0;
  memset(output, 0, sizeof *output);
  if (!fopo_program_find(path, sizeof path, name)) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "%s is in no absolute folder of PATH", name);
  }
  for (int i = 0; i < FILES; i++) {
    files[i] = fopo_platform_file();
    if (files[i] < 0) error = errno;
  }
  if (error == 0) error = run_with_files(output, path, argv, files, input, n);
  for (int i = 0; i < FILES; i++) {
    if (files[i] >= 0) close(files[i]);
  }
  if (error == 0) return FOPO_OK;
  fopo_output_done(output);
  return fopo_fail(FOPO_ERR_FILE, "%s cannot be run: %s", path, strerror(error));
}

void fopo_output_done(fopo_output *output) {
  fopo_free(output->out);
  fopo_free(output->errors);
  memset(output, 0, sizeof *output);
}

/* ---- a program whose output is read while it runs ---- */

enum {
  WAIT = 50,     /* milliseconds between two polls of the interrupt flag */
  ROOM = 1 << 20 /* bytes that wait in a pipe */
};

void fopo_pipe_close(fopo_pipe *p) {
  if (p->out >= 0) close(p->out);
  if (p->errors >= 0) close(p->errors);
  if (p->child > 0) {
    kill(-p->child, SIGTERM);
    while (waitpid(p->child, NULL, 0) < 0 && errno == EINTR) {}
  }
  *p = (fopo_pipe){.out = -1, .errors = -1};
}

int fopo_pipe_open(fopo_pipe *p, const char *name, char *const argv[]) {
  char path[4096];
  int ends[2] = {-1, -1}, nothing = -1, error = 0;
  *p = (fopo_pipe){.out = -1, .errors = -1};
  if (fopo_replace_confined()) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "%s cannot be run: --safe starts no program", name);
  }
  if (!fopo_program_find(path, sizeof path, name)) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "%s is in no absolute folder of PATH", name);
  }
  p->errors = fopo_platform_file();
  nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (p->errors < 0 || nothing < 0 || pipe2(ends, O_CLOEXEC) != 0) error = errno;
  p->out = ends[0];
#if defined(F_SETPIPE_SZ)
  if (error == 0) fcntl(p->out, F_SETPIPE_SZ, ROOM); /* if it is refused, there are more turns */
#endif
  if (error == 0) {
    const int files[FILES] = {nothing, ends[1], p->errors};
    error = start(&p->child, path, argv, files, 1);
  }
  if (ends[1] >= 0) close(ends[1]);
  if (nothing >= 0) close(nothing);
  if (error == 0) return FOPO_OK;
  fopo_pipe_close(p);
  return fopo_fail(FOPO_ERR_FILE, "%s cannot be run: %s", path, strerror(error));
}

/* The last line that is not blank of what the program said. */
static void last_words(int fd, char *said, size_t size) {
  off_t end = lseek(fd, 0, SEEK_END);
  size_t n = 0, from = end > (off_t)size - 1 ? (size_t)end - (size - 1) : 0;
  if (end <= 0 || fopo_read_at(fd, said, size - 1, from, &n) != 0) n = 0;
  while (n > 0 && strchr(" \t\r\n", said[n - 1]) != NULL) n--;
  said[n] = 0;
  char *line = strrchr(said, '\n');
  if (line != NULL) memmove(said, line + 1, strlen(line));
}

int fopo_pipe_wait(fopo_pipe *p, int *code, char *said, size_t size, const char *what) {
  int status, ended;
  close(p->out); /* a program that goes on writing learns of it */
  p->out = -1;
  while ((ended = waitpid(p->child, &status, WNOHANG)) == 0 && !fopo_interrupted()) {
    poll(NULL, 0, WAIT);
  }
  if (ended > 0) {
    p->child = 0;
    *code = fopo_child_code(status);
    last_words(p->errors, said, size);
  }
  fopo_pipe_close(p);
  return ended > 0 ? FOPO_OK : fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while %s", what);
}
