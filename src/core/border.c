/* Landlock: Documentation/userspace-api/landlock.rst of Linux; the numbers of its interface stand
 * here, as the headers of Debian 12 know the first three versions alone. seccomp: seccomp(2). */
#include "core/border.h"

#include "core/status.h"

#if defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

/* ---- Landlock ---- */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 }; /* on every architecture */

/* Rights, by the version of the interface that brought them. */
enum {
  EXECUTE = 1 << 0,
  WRITE_FILE = 1 << 1,
  READ_FILE = 1 << 2,
  READ_DIR = 1 << 3,
  REMOVE_DIR = 1 << 4,
  REMOVE_FILE = 1 << 5,
  MAKE_DIR = 1 << 7,
  MAKE_REG = 1 << 8,
  VERSION_1 = (1 << 13) - 1,
  REFER = 1 << 13,     /* version 2 */
  TRUNCATE = 1 << 14,  /* version 3 */
  IOCTL_DEV = 1 << 15, /* version 5 */
  OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
};
enum { BIND_TCP = 1, CONNECT_TCP = 2 };        /* version 4 */
enum { ABSTRACT_UNIX_SOCKET = 1, SIGNAL = 2 }; /* version 6 */
enum { PATH_BENEATH = 1, ASK_VERSION = 1 };

typedef struct {
  uint64_t files, net, scoped;
} ruleset;

typedef struct {
  uint64_t rights;
  int32_t fd;
} __attribute__((packed)) path_beneath;

/* 0: the kernel has no Landlock. */
static int version(void) {
  long v = syscall(CREATE_RULESET, NULL, (size_t)0, ASK_VERSION);
  return v > 0 ? (int)v : 0;
}

const char *fopo_border_lacks(void) {
  uint32_t action = SECCOMP_RET_ERRNO;
  if (version() == 0) return "Landlock";
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 ? NULL : "seccomp";
}

static uint64_t rights_of(int may) {
  uint64_t rights = 0;
  if (may & FOPO_BORDER_READ) rights |= READ_FILE | READ_DIR;
  if (may & FOPO_BORDER_RUN) rights |= EXECUTE;
  if (may & FOPO_BORDER_WRITE) {
    rights |= WRITE_FILE | TRUNCATE | IOCTL_DEV | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG;
  }
  return rights;
}

/* Adds a rule. A descriptor of a file of /proc or /sys stays open, or the kernel might forget the
 * file and make another one of that name. */
static int add_rule(int set, const fopo_border_rule *r, uint64_t known) {
  struct stat file;
  path_beneath rule = {.fd = open(r->path, O_PATH | O_CLOEXEC)};
  if (rule.fd < 0) return 0;
  int failed = fstat(rule.fd, &file) != 0;
  rule.rights = rights_of(r->may) & known;
  if (!S_ISDIR(file.st_mode)) rule.rights &= OF_FILES;
  failed = failed || syscall(ADD_RULE, set, PATH_BENEATH, &rule, 0) != 0;
  int error = errno;
  if (failed && error == EBADFD) failed = 0; /* a pipe, which Landlock leaves alone */
  if (strncmp(r->path, "/proc", 5) != 0 && strncmp(r->path, "/sys", 4) != 0) close(rule.fd);
  errno = error;
  return failed ? -1 : 0;
}

int fopo_border_files(const fopo_border_rule *rules, size_t n) {
  int v = version(), failed = 0;
  ruleset handled = {VERSION_1, 0, 0};
  if (v >= 2) handled.files |= REFER;
  if (v >= 3) handled.files |= TRUNCATE;
  if (v >= 4) handled.net = BIND_TCP | CONNECT_TCP;
  if (v >= 5) handled.files |= IOCTL_DEV;
  if (v >= 6) handled.scoped = ABSTRACT_UNIX_SOCKET | SIGNAL;
  size_t size = v < 4 ? offsetof(ruleset, net) : v < 6 ? offsetof(ruleset, scoped) : sizeof handled;
  int set = v == 0 ? -1 : (int)syscall(CREATE_RULESET, &handled, size, 0);
  if (set < 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "this kernel has no Landlock (Linux 5.13): %s",
                     v == 0 ? "it is not there or switched off" : strerror(errno));
  }
  for (size_t i = 0; i < n && !failed; i++) failed = add_rule(set, &rules[i], handled.files) != 0;
  failed =
      failed || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(RESTRICT_SELF, set, 0) != 0;
  int error = errno;
  close(set);
  if (!failed) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "Landlock does not hold the process: %s", strerror(error));
}

/* ---- seccomp ---- */

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

#define ALLOW   SECCOMP_RET_ALLOW
#define REFUSE  (SECCOMP_RET_ERRNO | EPERM)
#define UNKNOWN (SECCOMP_RET_ERRNO | ENOSYS)

enum { NEWEST = 450 }; /* calls that are younger than those of Linux 6.0 */

/* What is done with call `nr` if argument `argument`, masked, is `value`; mask 0: always. */
typedef struct {
  int nr, argument;
  uint64_t mask, value;
  uint32_t action;
} row;

#define ONLY(name, argument, x)                                                                    \
  { SYS_##name, argument, UINT32_MAX, x, ALLOW }
#define NEVER(name, argument, x)                                                                   \
  { SYS_##name, argument, UINT32_MAX, x, REFUSE }

#define THREADS (CLONE_THREAD | CLONE_VM | CLONE_SIGHAND)
#define SPACES                                                                                     \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |    \
   CLONE_NEWNET)

/* The first row that fits decides; where none does, the list below. */
static const row rows[] = {
    {SYS_openat, 2, O_ACCMODE | O_TRUNC, O_RDONLY | O_TRUNC, REFUSE},
    {SYS_openat, 2, O_ACCMODE, O_ACCMODE, REFUSE},
#ifdef SYS_open
    {SYS_open, 1, O_ACCMODE | O_TRUNC, O_RDONLY | O_TRUNC, REFUSE},
    {SYS_open, 1, O_ACCMODE, O_ACCMODE, REFUSE},
#endif
    NEVER(fcntl, 1, F_SETOWN),
    NEVER(fcntl, 1, F_SETOWN_EX),
    NEVER(fcntl, 1, F_SETSIG),
    NEVER(fcntl, 1, F_NOTIFY),
    {SYS_mmap, 2, PROT_EXEC, PROT_EXEC, REFUSE},
    {SYS_mprotect, 2, PROT_EXEC, PROT_EXEC, REFUSE},
    {SYS_clone, 0, THREADS | SPACES, THREADS, ALLOW},
#ifdef SYS_clone3 /* its arguments are in memory; the C library takes clone then */
    {SYS_clone3, 0, 0, 0, UNKNOWN},
#endif
    ONLY(prctl, 0, PR_SET_NAME),
    ONLY(prctl, 0, PR_GET_NAME),
    ONLY(prctl, 0, 0x53564d41),               /* names of mappings, by the C library */
    {SYS_prlimit64, 2, UINT64_MAX, 0, ALLOW}, /* asks, and sets nothing */
    /* The terminal, into which nothing is typed (TIOCSTI, TIOCLINUX). The last four are those of
     * newer C libraries: TCGETS2, TCSETS2, TCSETSW2, TCSETSF2. */
    ONLY(ioctl, 1, TCGETS),
    ONLY(ioctl, 1, TCSETS),
    ONLY(ioctl, 1, TCSETSW),
    ONLY(ioctl, 1, TCSETSF),
    ONLY(ioctl, 1, TIOCGWINSZ),
    ONLY(ioctl, 1, TIOCGPGRP),
    ONLY(ioctl, 1, TIOCSPGRP),
    ONLY(ioctl, 1, TCFLSH),
    ONLY(ioctl, 1, TCXONC),
    ONLY(ioctl, 1, TCSBRK),
    ONLY(ioctl, 1, FIONREAD),
    ONLY(ioctl, 1, 0x802c542a),
    ONLY(ioctl, 1, 0x402c542b),
    ONLY(ioctl, 1, 0x402c542c),
    ONLY(ioctl, 1, 0x402c542d),
};

static const int always[] = {
#ifdef __x86_64__ /* which has the older forms too */
    SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_getdents, SYS_rename, SYS_unlink,
    SYS_mkdir, SYS_rmdir, SYS_dup2, SYS_poll, SYS_select, SYS_time, SYS_alarm, SYS_getpgrp,
    SYS_getrlimit,
#endif
    /* files: Landlock decides which */
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev,
    SYS_lseek, SYS_openat, SYS_close, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs,
    SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_renameat,
    SYS_renameat2, SYS_unlinkat, SYS_mkdirat, SYS_fsync, SYS_fdatasync, SYS_ftruncate,
    SYS_fallocate, SYS_flock, SYS_fadvise64, SYS_fcntl, SYS_dup, SYS_dup3, SYS_memfd_create,
    SYS_umask,
    /* memory and threads */
    SYS_mmap, SYS_mprotect, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_mincore,
    SYS_membarrier, SYS_futex, SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address,
    SYS_rseq, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_getcpu, SYS_gettid, SYS_exit,
    SYS_exit_group, SYS_restart_syscall,
    /* signals and time */
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend, SYS_sigaltstack, SYS_pselect6, SYS_ppoll, SYS_clock_gettime,
    SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_times,
    SYS_timer_create, SYS_timer_settime, SYS_timer_gettime, SYS_timer_delete, SYS_setitimer,
    /* the machine and the process */
    SYS_getrusage, SYS_getpid, SYS_getppid, SYS_getpgid, SYS_getsid, SYS_getuid, SYS_geteuid,
    SYS_getgid, SYS_getegid, SYS_uname, SYS_sysinfo, SYS_getrandom};
enum { ROWS = sizeof rows / sizeof *rows, ALWAYS = sizeof always / sizeof *always };
enum { MOST = 16 + 9 * (ROWS + 2) + 2 * ALWAYS }; /* instructions */

typedef struct {
  struct sock_filter code[MOST];
  unsigned short n;
} program;

static void emit(program *p, uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false) {
  p->code[p->n++] = (struct sock_filter){code, if_true, if_false, k};
}

static void load(program *p, size_t at) { emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0); }

static void leave(program *p, uint32_t action) { emit(p, BPF_RET | BPF_K, action, 0, 0); }

/* Compares half a word of an argument: further if it is the value, else to the instruction `skip`
 * behind the next one. */
static void compare(program *p, size_t at, uint32_t mask, uint32_t value, uint8_t skip) {
  load(p, at);
  emit(p, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
  emit(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
}

/* The accumulator holds the number of the call before and after. Both machines are little-endian.
 */
static void add_row(program *p, const row *r) {
  size_t low = offsetof(struct seccomp_data, args) + 8 * (size_t)r->argument;
  size_t number = offsetof(struct seccomp_data, nr);
  if (r->mask == 0) {
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr, 0, 1);
    leave(p, r->action);
  } else if (r->mask <= UINT32_MAX) {
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr, 0, 5);
    compare(p, low, (uint32_t)r->mask, (uint32_t)r->value, 1);
    leave(p, r->action);
    load(p, number);
  } else {
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr, 0, 8);
    compare(p, low, (uint32_t)r->mask, (uint32_t)r->value, 4);
    compare(p, low + 4, (uint32_t)(r->mask >> 32), (uint32_t)(r->value >> 32), 1);
    leave(p, r->action);
    load(p, number);
  }
}

int fopo_border_calls(void) {
  program p = {.n = 0};
  uint32_t self = (uint32_t)getpid();
  const row own[] = {ONLY(kill, 0, self), ONLY(tgkill, 0, self)};
  load(&p, offsetof(struct seccomp_data, arch));
  emit(&p, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
  leave(&p, SECCOMP_RET_KILL_PROCESS); /* calls of another architecture have other numbers */
  load(&p, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < ROWS; i++) add_row(&p, &rows[i]);
  for (size_t i = 0; i < 2; i++) add_row(&p, &own[i]);
  for (size_t i = 0; i < ALWAYS; i++) add_row(&p, &(row){always[i], 0, 0, 0, ALLOW});
  emit(&p, BPF_JMP | BPF_JGE | BPF_K, NEWEST, 0, 1); /* x32's numbers are above too */
  leave(&p, UNKNOWN);
  leave(&p, REFUSE);
  struct sock_fprog filter = {p.n, p.code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0) {
    return FOPO_OK;
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "seccomp does not hold the process: %s", strerror(errno));
}

#else

const char *fopo_border_lacks(void) { return "Landlock"; }

int fopo_border_files(const fopo_border_rule *rules, size_t n) {
  (void)rules, (void)n;
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "this system has no Landlock; Linux 5.13 has it");
}

int fopo_border_calls(void) {
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "this system has no seccomp; Linux has it");
}

#endif
