#include "term/safe.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/border.h"
#include "core/memory.h"
#include "core/notice.h"
#include "core/platform.h"
#include "core/replace.h"
#include "core/status.h"
#include "term/drawer.h"
#include "term/endings.h"
#include "term/parent.h"

enum { GRACE = 5 }; /* seconds of the parent above those after which the script ends itself */

static int say(int *status) {
  fprintf(stderr, "fopo: %s\n", fopo_error_sentence());
  *status = 1;
  return 1;
}

/* ---- what may be read and written ---- */

/* The system: libraries, locales, terminals, and what is asked about memory and processors. */
static const fopo_border_rule system_rules[] = {
    {"/usr", FOPO_BORDER_READ},
    {"/lib", FOPO_BORDER_READ},
    {"/lib64", FOPO_BORDER_READ},
    {"/etc/ld.so.cache", FOPO_BORDER_READ},
    {"/etc/localtime", FOPO_BORDER_READ},
    {"/etc/inputrc", FOPO_BORDER_READ},
    {"/etc/terminfo", FOPO_BORDER_READ},
    {"/proc/meminfo", FOPO_BORDER_READ},
    {"/proc/cpuinfo", FOPO_BORDER_READ},
    {"/proc/self/cgroup", FOPO_BORDER_READ},
    {"/proc/self/statm", FOPO_BORDER_READ},
    {"/sys/fs/cgroup", FOPO_BORDER_READ},
    {"/sys/devices/system", FOPO_BORDER_READ},
    {"/dev/zero", FOPO_BORDER_READ},
    {"/dev/urandom", FOPO_BORDER_READ},
    {"/dev/null", FOPO_BORDER_READ | FOPO_BORDER_WRITE},
    {"/dev/tty", FOPO_BORDER_READ | FOPO_BORDER_WRITE},
};
enum { SYSTEM_RULES = sizeof system_rules / sizeof *system_rules, OWN_RULES = 6 };

/* The settings of a prompt, below the home folder. */
static const char *const settings[] = {".inputrc", ".terminfo", ".config/fopo"};

static int confine_files(const fopo_safe *s) {
  char home[3][1024];
  size_t n = 0;
  fopo_border_rule *rules = fopo_alloc(SYSTEM_RULES + OWN_RULES + s->n_reads, sizeof *rules);
  if (rules == NULL) return fopo_fail(FOPO_ERR_MEMORY, "there is not enough memory to start");
  memcpy(rules, system_rules, sizeof system_rules);
  n = SYSTEM_RULES;
  for (size_t i = 0; i < 3; i++) {
    snprintf(home[i], sizeof home[i], "%.900s/%s", getenv("HOME") ? getenv("HOME") : "",
             settings[i]);
    rules[n++] = (fopo_border_rule){home[i], FOPO_BORDER_READ};
  }
  rules[n++] = (fopo_border_rule){".", FOPO_BORDER_READ | FOPO_BORDER_WRITE};
  rules[n++] = (fopo_border_rule){"/dev/stdin", FOPO_BORDER_READ};
  if (s->script != NULL) rules[n++] = (fopo_border_rule){s->script, FOPO_BORDER_READ};
  for (size_t i = 0; i < s->n_reads; i++) {
    rules[n++] = (fopo_border_rule){s->reads[i], FOPO_BORDER_READ};
  }
  int status = fopo_border_files(rules, n);
  fopo_free(rules);
  return status;
}

/* ---- refusals ---- */

/* Below / and the home folder lie files that others execute: .bashrc, bin. */
static int check_folder(void) {
  char here[PATH_MAX], home[PATH_MAX];
  const char *named = getenv("HOME");
  if (realpath(".", here) == NULL) {
    return fopo_fail(FOPO_ERR_FILE, "the current folder cannot be found: %s", strerror(errno));
  }
  int is_home = named != NULL && realpath(named, home) != NULL && strcmp(here, home) == 0;
  if (!is_home && strcmp(here, "/") != 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "--safe lets a script write below the current folder, and %s has files that "
                   "other programs run; go to a folder of the script's own first",
                   here);
}

static int check_reads(const fopo_safe *s) {
  for (size_t i = 0; i < s->n_reads; i++) {
    if (access(s->reads[i], F_OK) == 0) continue;
    return fopo_fail(FOPO_ERR_FILE, "--read %s: %s", s->reads[i], strerror(errno));
  }
  return FOPO_OK;
}

static int check_kernel(const fopo_safe *s) {
  const char *lacks = fopo_border_lacks();
  if (lacks == NULL || s->without_border) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "--safe needs %s, which this kernel does not have or allow (Linux 5.13 and "
                   "later have it); with --without-border fopo's own checks stop mistakes, but no "
                   "malice",
                   lacks);
}

/* ---- the three processes ---- */

/* The descriptor of a script that is one, as the shell's <(command) gives; else -1. */
static int script_descriptor(const fopo_safe *s) {
  int fd = -1;
  if (s->script != NULL && sscanf(s->script, "/dev/fd/%d", &fd) != 1) fd = -1;
  return fd;
}

int fopo_safe_enter(const fopo_safe *s, int *status) {
  pid_t child;
  int is_drawer;
  if (check_folder() != FOPO_OK || check_reads(s) != FOPO_OK || check_kernel(s) != FOPO_OK) {
    return say(status);
  }
  fopo_platform_close(script_descriptor(s));
  if (fopo_drawer_fork(&is_drawer) != FOPO_OK) return say(status);
  if (is_drawer) {
    fopo_drawer_serve();
    *status = 0;
    return 1;
  }
  if (fopo_parent_fork(&child) != FOPO_OK) return say(status);
  if (child > 0) {
    double most = s->seconds > 0 ? s->seconds + FOPO_ENDING_SECONDS + GRACE : 0;
    *status = fopo_parent_end(fopo_parent_wait(child, most));
    return 1;
  }
  /* No card and no other process: their drivers need what the border takes. No history. */
  setenv("FOPO_CUDA", "none", 1);
  setenv("FOPO_HISTORY", "/dev/null", 1);
  const char *lacks = fopo_border_lacks();
  if (lacks != NULL) {
    fopo_notice("this kernel has no %s: --safe stops mistakes of the script, but no malice", lacks);
  }
  if (lacks == NULL && confine_files(s) != FOPO_OK) return say(status);
  return fopo_replace_within(".") == FOPO_OK ? 0 : say(status);
}

#if defined __SANITIZE_ADDRESS__
/* Looking for leaks needs ptrace, which the border refuses. Weak: a test has one of its own. */
__attribute__((weak)) int __lsan_is_turned_off(void);
static int closed;
int __lsan_is_turned_off(void) { return closed; }
#define SANITIZED 1
#elif defined __SANITIZE_THREAD__
static int closed;
#define SANITIZED 1 /* whose shadows take terabytes of address space */
#else
static int closed;
#define SANITIZED 0
#endif

static void limit(int what, uint64_t soft, uint64_t hard) {
  struct rlimit now, lower = {soft, hard};
  if (getrlimit(what, &now) != 0) return;
  if (now.rlim_max < lower.rlim_max) lower.rlim_max = now.rlim_max;
  if (now.rlim_max < lower.rlim_cur) lower.rlim_cur = now.rlim_max;
  setrlimit(what, &lower);
}

/* Bytes of address space that the process has taken. */
static uint64_t address_space(void) {
  unsigned long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL) return 0;
  if (fscanf(file, "%llu", &pages) != 1) pages = 0;
  fclose(file);
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int fopo_safe_close(const fopo_safe *s, uint64_t memory) {
  uint64_t cores = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN), now = address_space();
  if (s->seconds > 0) { /* of all threads; never before the limit of time */
    uint64_t cpu = ((uint64_t)s->seconds + 1 + FOPO_ENDING_SECONDS) * cores + 60;
    limit(RLIMIT_CPU, cpu, cpu + 30);
  }
  if (memory > 0 && now > 0 && !SANITIZED) { /* each thread takes a stack, an arena, a buffer */
    uint64_t most = now + memory + memory / 4 + ((uint64_t)4 << 30) + (cores << 27);
    limit(RLIMIT_AS, most, most);
  }
  closed = 1;
  int status = fopo_border_calls();
  return status == FOPO_OK || s->without_border ? FOPO_OK : status;
}
