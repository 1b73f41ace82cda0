#include "term/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/platform.h"
#include "core/status.h"

/* Sent to the parent they are meant for the child. Those of the keyboard reach both. */
static const int meant_for_child[] = {SIGTERM,   SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1,
                                      SIGUSR2,   SIGXCPU, SIGALRM, SIGPROF, SIGIO,
#if defined(SIGPWR)
                                      SIGPWR,
#endif
                                      SIGVTALRM, SIGTSTP};
enum { MEANT = sizeof meant_for_child / sizeof *meant_for_child };

/* Both processes have this page. */
typedef struct {
  volatile size_t n;
  char bytes[256];
} terminal;

static terminal *shared;      /* NULL: neither a parent nor a watcher */
static struct termios before; /* the terminal's modes */
static int has_terminal;      /* 1: descriptor 0 is one */
static int has_parent;

/* Makes the page, and remembers the terminal's modes. */
static void share(void) {
  enum { ACCESS = PROT_READ | PROT_WRITE };
  if (shared == NULL) {
    shared = mmap(NULL, sizeof *shared, ACCESS, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  if (shared == MAP_FAILED) shared = NULL;
  has_terminal = tcgetattr(STDIN_FILENO, &before) == 0;
}

/* Those that the parent waits for. */
static sigset_t waited(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (int i = 0; i < MEANT; i++) sigaddset(&set, meant_for_child[i]);
  return set;
}

int fopo_parent_fork(pid_t *child) {
  sigset_t waits = waited(), former;
  share();
  has_parent = 1;
  sigprocmask(SIG_BLOCK, &waits, &former);
  signal(SIGCHLD, SIG_DFL); /* ignored, it would not be sent */
  pid_t parent = getpid();
  *child = fork();
  if (*child < 0) {
    sigprocmask(SIG_SETMASK, &former, NULL);
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "no process can be started: %s", strerror(errno));
  }
  if (*child > 0) return FOPO_OK;
  sigprocmask(SIG_SETMASK, &former, NULL);
  fopo_platform_follow(parent);
  return FOPO_OK;
}

/* What the kernel sends (the keyboard, si_code > 0) has reached the child too, but for the end of
 * the terminal, which the leader of a session alone is told. */
static void hand_on(pid_t child, const siginfo_t *info) {
  if (info->si_code <= 0 || info->si_signo == SIGHUP) kill(child, info->si_signo);
}

/* Waits for a signal, at most until `end` on the clock of core/clock.h (0: for ever). Its number;
 * 0: that time has come. */
static int next_signal(siginfo_t *info, double end) {
  sigset_t waits = waited();
  for (;;) {
    double left = end > 0 ? end - fopo_clock() : 3600;
    if (left <= 0) return 0;
    struct timespec most = {.tv_sec = (time_t)left};
    most.tv_nsec = (long)((left - (double)most.tv_sec) * 1e9);
    int number = sigtimedwait(&waits, info, &most);
    if (number > 0) return number;
  }
}

static void refused(int number) { (void)number; }

/* Only after an end by a signal: else the terminal has been given back. Its modes only while it is
 * this group's: a shell that has taken it has set its own. The kernel asks that once more when they
 * are set, if SIGTTOU can come, since the shell may take it in between. */
static void restore(void) {
  static const char paste_off[] = "\033[?2004l"; /* no marks around pastes, as readline asks for */
  struct sigaction none = {.sa_handler = refused}; /* not SA_RESTART: it would ask for ever */
  sigset_t out;
  sigemptyset(&out);
  sigaddset(&out, SIGTTOU);
  sigprocmask(SIG_BLOCK, &out, NULL);
  size_t n = shared != NULL && shared->n <= sizeof shared->bytes ? shared->n : 0;
  if (n > 0 && write(STDOUT_FILENO, shared->bytes, n) < 0) n = 0;
  pid_t owner = tcgetpgrp(STDIN_FILENO); /* -1: a leader of a session has died with it */
  struct termios now;
  if (!has_terminal || (owner >= 0 && owner != getpgrp())) return;
  int changed = tcgetattr(STDIN_FILENO, &now) == 0 && now.c_lflag != before.c_lflag;
  if (changed && write(STDIN_FILENO, paste_off, sizeof paste_off - 1) < 0) n = 0;
  sigaction(SIGTTOU, &none, NULL);
  sigprocmask(SIG_UNBLOCK, &out, NULL);
  tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

int fopo_parent_wait(pid_t child, double seconds) {
  double end = seconds > 0 ? fopo_clock() + seconds : 0;
  int status = 0;
  siginfo_t info;
  for (;;) {
    int number = next_signal(&info, end);
    if (number == 0) {
      fputs("fopo: the script did not stop when its time was over\n", stderr);
      kill(child, SIGKILL);
      end = 0;
    } else if (number != SIGCHLD) {
      hand_on(child, &info);
    }
    pid_t gone = waitpid(child, &status, WNOHANG | WUNTRACED);
    if (gone == child && WIFSTOPPED(status)) {
      raise(SIGSTOP); /* after Ctrl-Z the shell comes back when the child has left the terminal */
    } else if (gone == child || (gone < 0 && errno != EINTR)) {
      break;
    }
  }
  if (WIFSIGNALED(status)) restore();
  return status;
}

int fopo_parent_end(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  struct rlimit none = {0, 0};
  sigset_t this;
  setrlimit(RLIMIT_CORE, &none); /* the child's core, if any, is the one to look at */
  sigemptyset(&this);
  sigaddset(&this, WTERMSIG(status));
  signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));
  sigprocmask(SIG_UNBLOCK, &this, NULL);
  return 128 + WTERMSIG(status);
}

/* ---- a watcher, where there is no parent ---- */

static int watcher = -1; /* the end of a pipe that closes with this process; -1: there is none */
static pid_t watcher_id;
static int takers; /* that have the terminal */

/* The process that waits for the pipe's end. A byte says that the program ends by itself. It has a
 * group of its own, which no key and no kill of a job reaches, until the end: then it joins the
 * dead group, which exists until the shell has seen that it is dead. */
static _Noreturn void watch(int end, pid_t group) {
  sigset_t all;
  char byte;
  ssize_t n;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  setpgid(0, 0);
  dup2(end, STDERR_FILENO);
  fopo_platform_close(-1);
  while ((n = read(STDERR_FILENO, &byte, 1)) < 0 && errno == EINTR) continue;
  if (n == 0) {
    setpgid(0, group);
    restore();
  }
  _exit(0);
}

static void dismiss(void) {
  if (watcher >= 0 && write(watcher, "", 1) == 1) close(watcher);
  watcher = -1;
}

void fopo_parent_watch(void) {
  static int once;
  int ends[2];
  if (takers++ > 0 || has_parent) return;
  share();
  if (shared == NULL || !has_terminal || pipe2(ends, O_CLOEXEC) != 0) return;
  pid_t group = getpgrp();
  watcher_id = _Fork(); /* not fork, for which OpenBLAS ends its threads, which jobs may use */
  if (watcher_id == 0) {
    close(ends[1]);
    watch(ends[0], group);
  }
  close(ends[0]);
  watcher = ends[1];
  if (watcher_id < 0) close(watcher), watcher = -1;
  if (!once && atexit(dismiss) == 0) once = 1;
}

void fopo_parent_unwatch(void) {
  if (--takers > 0 || watcher < 0) return;
  dismiss();
  waitpid(watcher_id, NULL, 0);
}

void fopo_parent_restores(const char *bytes, size_t n) {
  if (shared == NULL) return;
  shared->n = 0;
  if (n == 0 || n > sizeof shared->bytes) return;
  memcpy(shared->bytes, bytes, n);
  shared->n = n;
}
