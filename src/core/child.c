#include "core/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/platform.h"
#include "core/status.h"
#include "core/threads.h"

int fopo_child_fork(pid_t *child, int threads) {
  pid_t parent = getpid();
  fflush(NULL); /* else the child would print it once more */
  fopo_threads_release();
  *child = fork();
  if (*child < 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "no process can be started: %s; jobs = 1 needs none",
                     strerror(errno));
  }
  if (*child > 0) return FOPO_OK;
  fopo_platform_follow(parent);
  setenv("FOPO_CUDA", "none", 1); /* a driver does not outlive a fork */
  if (fopo_threads_set(threads) == FOPO_OK) return FOPO_OK;
  fprintf(stderr, "fopo: a process of a sweep: %s\n", fopo_error_sentence());
  _exit(1); /* what calls this would go on as the parent does */
}

int fopo_child_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int fopo_child_ended(pid_t child, int *code) {
  int status;
  pid_t gone = waitpid(child, &status, WNOHANG);
  if (gone == 0 || (gone < 0 && errno == EINTR)) return 0;
  if (gone < 0) status = 0;
  *code = fopo_child_code(status);
  return 1;
}

void fopo_child_stop(pid_t child) {
  double end = fopo_clock() + 10;
  int code;
  kill(child, SIGTERM);
  while (fopo_clock() < end) {
    if (fopo_child_ended(child, &code)) return;
    usleep(5000);
  }
  kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
}
