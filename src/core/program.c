/* Input, output and errors are files without a name, not pipes: so neither side waits for the other
 * to read. */
#include "core/program.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/replace.h"
#include "core/status.h"

enum { INPUT, OUTPUT, ERRORS, FILES };

int fopo_program_find(char *path, size_t size, const char *name) {
  const char *folders = getenv("PATH");
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

/* A file without a name, for reading and writing, or -1. */
static int unnamed_file(void) {
  const char *folder = getenv("TMPDIR");
  char path[4096];
  if (snprintf(path, sizeof path, "%s/fopo-XXXXXX", folder ? folder : "/tmp") >= (int)sizeof path) {
    return -1;
  }
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  if (fd < 0 && errno == EACCES) fd = memfd_create("fopo", MFD_CLOEXEC); /* behind a border */
  return fd;
}

/* Starts the program with the three files and waits for its end: its code, or -errno. */
static int start_and_wait(const char *path, char *const argv[], const int files[FILES]) {
  posix_spawn_file_actions_t actions;
  pid_t child;
  int status, error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return -error;
  for (int i = 0; i < FILES && error == 0; i++) {
    error = posix_spawn_file_actions_adddup2(&actions, files[i], i);
  }
  if (error == 0) error = posix_spawn(&child, path, &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -error;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -errno;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
    files[i] = unnamed_file();
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
