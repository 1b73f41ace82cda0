/* The border of fopo --safe against code that has taken the process over: each attack is a call of
 * the system that must fail behind the border. Most of them are tried without it too, where they
 * must succeed, or they would show nothing. What the program needs still works. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

#include "checks.h"
#include "core/border.h"
#include "folder.h"

enum { MOST = 200 };

/* What a process that attacks finds out; shared with the test. */
typedef struct {
  int n;          /* attacks */
  int done[MOST]; /* 1: it succeeded */
  char name[MOST][64];
  int broken; /* what must work and does not */
  char missing[64];
} report;

static report *seen;

/* result: of a call, -1 if it failed. */
static void attack(const char *name, long result) {
  snprintf(seen->name[seen->n], sizeof seen->name[0], "%s", name);
  seen->done[seen->n++] = result >= 0;
}

static void needed(const char *name, int works) {
  if (works) return;
  seen->broken++;
  snprintf(seen->missing, sizeof seen->missing, "%s", name);
}

static long opened(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd;
}

static long process(void) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  return child < 0 ? -1 : waitpid(child, NULL, 0);
}

static long by_clone(unsigned long flags) {
  long child = syscall(SYS_clone, flags, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  return child < 0 ? -1 : waitpid((pid_t)child, NULL, 0);
}

static long sockets(int family, int type) {
  int fd = socket(family, type, 0);
  if (fd >= 0) close(fd);
  return fd;
}

static long executable(void) {
  void *code =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return code == MAP_FAILED ? -1 : munmap(code, 4096);
}

static long made_executable(void) {
  void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mprotect(code, 4096, PROT_READ | PROT_EXEC);
}

static long library(void) { /* as dlopen maps one */
  int fd = open("/usr/lib/os-release", O_RDONLY | O_CLOEXEC);
  void *code = mmap(NULL, 100, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  close(fd);
  return code == MAP_FAILED ? -1 : 0;
}

static long limit_raised(void) {
  struct rlimit r;
  getrlimit(RLIMIT_NOFILE, &r);
  return setrlimit(RLIMIT_NOFILE, &r);
}

static long typed(void) { /* into a terminal of our own */
  char key = 'x';
  int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  long result = fd < 0 ? -1 : ioctl(fd, TIOCSTI, &key);
  if (fd >= 0) close(fd);
  return result;
}

static long owned_signals(void) { /* a signal to others when something happens to a file */
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  long result = fcntl(fd, F_SETOWN, getppid());
  close(fd);
  return result;
}

static long clone3(void) {
  uint64_t arguments[11] = {0}; /* struct clone_args */
  arguments[4] = SIGCHLD;
  long child = syscall(435, arguments, sizeof arguments);
  if (child == 0) _exit(0);
  return child < 0 ? -1 : waitpid((pid_t)child, NULL, 0);
}

static long opened2(const char *path, uint64_t flags) {
  uint64_t how[3] = {flags, 0, 0}; /* struct open_how */
  long fd = syscall(437, AT_FDCWD, path, how, sizeof how);
  if (fd >= 0) close((int)fd);
  return fd;
}

/* ---- the attacks; `in` may be written, `out` and all else may not ---- */

static void attack_files(const char *in, const char *out) {
  char secret[300], other[300], mine[300], link_in[300];
  struct timespec times[2] = {{0, 0}, {0, 0}};
  snprintf(secret, sizeof secret, "%s/secret", out);
  snprintf(other, sizeof other, "%s/other", out);
  snprintf(mine, sizeof mine, "%s/mine", in);
  snprintf(link_in, sizeof link_in, "%s/link", in);
  int folder_fd = open(out, O_PATH | O_CLOEXEC), kept = open(mine, O_RDWR | O_CLOEXEC);

  attack("read", opened(secret, O_RDONLY));
  attack("write", opened(secret, O_WRONLY));
  attack("read and write", opened(secret, O_RDWR));
  attack("append", opened(secret, O_WRONLY | O_APPEND));
  attack("make", opened(other, O_WRONLY | O_CREAT));
  unlink(other);
  attack("make, exclusive", opened(other, O_WRONLY | O_CREAT | O_EXCL));
  unlink(other);
  attack("creat", opened(other, O_WRONLY | O_CREAT | O_TRUNC));
  unlink(other);
  attack("cut by reading", opened(secret, O_RDONLY | O_TRUNC));
  attack("open for ioctl", opened("/dev/null", O_ACCMODE));
  attack("cut", truncate(secret, 0));
  attack("cut by SYS_truncate", syscall(SYS_truncate, secret, 0L));
  attack("a file without a name", opened(out, O_TMPFILE | O_RDWR));
  attack("list", opened(out, O_RDONLY | O_DIRECTORY));
  attack("list /", opened("/", O_RDONLY | O_DIRECTORY));
  attack("openat a path", syscall(SYS_openat, AT_FDCWD, secret, O_RDONLY));
  attack("openat a folder", syscall(SYS_openat, folder_fd, "secret", O_RDONLY));
  attack("openat, up", syscall(SYS_openat, folder_fd, "../out/secret", O_RDWR));
  attack("openat2", opened2(secret, O_RDONLY));
  attack("openat2 to write", opened2(secret, O_WRONLY));
  attack("through a link", opened(link_in, O_RDONLY));
  attack("write through a link", opened(link_in, O_WRONLY));
  attack("through /proc/self/root", opened("/proc/self/root/etc/passwd", O_RDONLY));
  attack("/etc/passwd", opened("/etc/passwd", O_RDONLY));
  attack("/etc/hostname", opened("/etc/hostname", O_RDONLY));
  attack("/proc/1/cmdline", opened("/proc/1/cmdline", O_RDONLY));
  attack("/proc/self/environ", opened("/proc/self/environ", O_RDONLY));
  attack("/proc/self/mem", opened("/proc/self/mem", O_RDWR));
  attack("/proc/self/maps", opened("/proc/self/maps", O_RDONLY));
  attack("/proc/version", opened("/proc/version", O_RDONLY));
  attack("/proc/self/oom_score_adj", opened("/proc/self/oom_score_adj", O_RDWR));
  attack("/dev/full", opened("/dev/full", O_WRONLY));
  attack("/dev/shm", opened("/dev/shm/fopo-border", O_RDWR | O_CREAT));
  unlink("/dev/shm/fopo-border");
  attack("/dev/ptmx", opened("/dev/ptmx", O_RDWR | O_NOCTTY));
  attack("/tmp", opened("/tmp/fopo-border", O_RDWR | O_CREAT));
  unlink("/tmp/fopo-border");
  attack("chmod", chmod(secret, 0644));
  attack("fchmodat", fchmodat(AT_FDCWD, secret, 0644, 0));
  attack("fchmod", fchmod(kept, 0755));
  attack("chown", chown(secret, getuid(), getgid()));
  attack("fchown", fchown(kept, getuid(), getgid()));
  attack("utimensat", utimensat(AT_FDCWD, secret, times, 0));
  attack("setxattr", syscall(SYS_setxattr, mine, "user.fopo", "x", 1, 0));
  attack("symlink in", symlink("/etc/passwd", "border-link"));
  unlink("border-link");
  attack("hard link in", link(secret, "border-hard"));
  unlink("border-hard");
  attack("hard link out", link(mine, other));
  unlink(other);
  attack("mkfifo", mkfifo("border-fifo", 0600));
  unlink("border-fifo");
  attack("mknod", mknod("border-node", S_IFREG | 0600, 0));
  unlink("border-node");
  attack("mkdir out", mkdir(other, 0700));
  rmdir(other);
  attack("rename in", rename(secret, "border-taken"));
  rename("border-taken", secret);
  attack("rename out", rename(mine, other));
  rename(other, mine);
  attack("exchange", renameat2(AT_FDCWD, mine, AT_FDCWD, secret, RENAME_EXCHANGE));
  renameat2(AT_FDCWD, mine, AT_FDCWD, secret, RENAME_EXCHANGE);
  attack("unlink", unlink(secret));
  close(open(secret, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  attack("copy_file_range", syscall(SYS_copy_file_range, kept, NULL, kept, NULL, 0UL, 0));
  attack("sync", syscall(SYS_sync));
  close(kept);
  close(folder_fd);
}

static void attack_processes(void) {
  struct iovec mine = {&mine, 1};
  stack_t none = {.ss_flags = SS_DISABLE};
  sigaltstack(&none, NULL);
  attack("fork", process());
  attack("clone", by_clone(SIGCHLD));
  attack("clone, a user of its own", by_clone(SIGCHLD | CLONE_NEWUSER));
  attack("clone, a network of its own", by_clone(SIGCHLD | CLONE_NEWNET));
  attack("clone3", clone3());
  attack("unshare files", unshare(CLONE_FS));
  attack("setns", setns(-1, 0) < 0 && errno == EBADF ? 0 : -1);
  attack("kill the parent", kill(getppid(), 0));
  attack("kill the group", kill(0, 0));
  attack("kill all", kill(-1, 0));
  attack("kill 1", kill(1, 0));
  attack("tkill", syscall(SYS_tkill, getppid(), 0));
  attack("tgkill", syscall(SYS_tgkill, getppid(), getppid(), 0));
  attack("pidfd_open", syscall(434, getppid(), 0));
  attack("pidfd_getfd", syscall(438, -1, 0, 0) < 0 && errno == EBADF ? 0 : -1);
  attack("signals of files", owned_signals());
  attack("process_vm_readv", process_vm_readv(getpid(), &mine, 1, &mine, 1, 0));
  attack("priority", setpriority(PRIO_PROCESS, 0, 0));
  attack("limits", limit_raised());
  attack("a group of its own", setpgid(0, 0));
  attack("dumpable", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
  attack("a parent's death", prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0));
  attack("another filter", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
  attack("personality", syscall(SYS_personality, 0xffffffffUL));
  attack("setuid", setuid(getuid()));
  attack("setgid", setgid(getgid()));
  attack("capabilities", syscall(SYS_capget, (uint32_t[]){0x20080522, 0}, (uint32_t[6]){0}));
  attack("affinity", sched_setaffinity(0, sizeof(cpu_set_t), &(cpu_set_t){{1}}));
  attack("kcmp", syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 0));
}

static void attack_kernel(void) {
  int ends[2];
  attack("memory that is executed", executable());
  attack("memory made executable", made_executable());
  attack("a library", library());
  attack("a socket, IPv4", sockets(AF_INET, SOCK_STREAM));
  attack("a socket, UDP", sockets(AF_INET, SOCK_DGRAM));
  attack("a socket, IPv6", sockets(AF_INET6, SOCK_STREAM));
  attack("a socket, Unix", sockets(AF_UNIX, SOCK_STREAM));
  attack("a socket, netlink", sockets(AF_NETLINK, SOCK_RAW));
  attack("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  attack("type into a terminal", typed());
  attack("io_uring", syscall(425, 0, NULL) < 0 && errno == EFAULT ? 0 : -1);
  attack("bpf", syscall(SYS_bpf, -1, NULL, 0) < 0 && errno == EINVAL ? 0 : -1);
  attack("perf", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0) < 0 && errno == EFAULT ? 0 : -1);
  attack("keyctl", syscall(SYS_keyctl, 0, -3, 0));
  attack("add_key", syscall(SYS_add_key, "user", "fopo", "x", 1, -3));
  attack("userfaultfd", syscall(SYS_userfaultfd, 0));
  attack("inotify", syscall(SYS_inotify_init1, 0));
  attack("fanotify", syscall(SYS_fanotify_init, 0, 0));
  attack("shared memory", syscall(SYS_shmget, 0, 4096UL, 0600));
  attack("message queues", syscall(SYS_msgget, 0, 0600));
  attack("semaphores", syscall(SYS_semget, 0, 1, 0600));
  attack("mount", mount("none", "/mnt", "tmpfs", 0, NULL));
  umount("/mnt");
  attack("a handle", name_to_handle_at(-1, "x", NULL, NULL, 0) < 0 && errno == EFAULT ? 0 : -1);
  attack("eventfd", syscall(SYS_eventfd2, 0, 0));
  attack("signalfd", syscall(SYS_signalfd4, -1, &(uint64_t){0}, 8UL, 0));
  attack("epoll", syscall(SYS_epoll_create1, 0));
  attack("pipes", syscall(SYS_pipe2, ends, 0));
  attack("splice", syscall(SYS_splice, -1, NULL, -1, NULL, 1UL, 0) < 0 && errno == EBADF ? 0 : -1);
  attack("mlock", syscall(SYS_mlock, ends, sizeof ends));
  attack("acct", acct(NULL));
  attack("sethostname", syscall(SYS_sethostname, "", -1L) < 0 && errno == EINVAL ? 0 : -1);
  attack("clock_settime", syscall(SYS_clock_settime, 0, NULL) < 0 && errno == EFAULT ? 0 : -1);
  attack("a young call", syscall(451, -1, NULL, NULL, 0) < 0 && errno != ENOSYS ? 0 : -1);
#ifdef __x86_64__
  attack("x32", syscall(0x40000000 | SYS_getpid));
  attack("iopl", syscall(SYS_iopl, 0));
  attack("modify_ldt", syscall(SYS_modify_ldt, 0, ends, 0UL));
#endif
}

/* Without the border they would change what comes behind them. */
static void attack_for_good(void) {
  char *const argv[] = {"true", NULL}, *const none[] = {NULL};
  attack("execve", execve("/bin/true", argv, none));
  attack("execve sh", execve("/bin/sh", argv, none));
  attack("execve itself", execve("/proc/self/exe", argv, none));
  attack("execve a file of the folder", execve("mine", argv, none));
  attack("execveat", syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, none, 0));
  attack("execveat a descriptor", syscall(SYS_execveat, 0, "", argv, none, AT_EMPTY_PATH));
  attack("posix_spawn", system("true") == 0 ? 0 : -1);
  attack("reboot", syscall(SYS_reboot, 0, 0, 0, NULL));
  attack("ptrace", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
  attack("unshare users", unshare(CLONE_NEWUSER));
  attack("vfork", vfork() == 0 ? (_exit(0), 0) : -1);
  attack("chdir", chdir("/usr"));
  attack("chroot", chroot("/usr"));
}

/* ---- what the program needs ---- */

static void *one(void *payload) { return payload; }

static void use(void) {
  pthread_t thread;
  struct stat file;
  struct rlimit now;
  char bytes[8];
  timer_t timer;
  int fd = open("new", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  needed("make a file", fd >= 0 && write(fd, "12345", 5) == 5);
  needed("flush and lock", fsync(fd) == 0 && flock(fd, LOCK_EX) == 0 && ftruncate(fd, 3) == 0);
  needed("read it", pread(fd, bytes, sizeof bytes, 0) == 3 && fstat(fd, &file) == 0);
  close(fd);
  needed("replace", rename("new", "newer") == 0 && unlink("newer") == 0);
  needed("folders", mkdir("sub", 0777) == 0 && rmdir("sub") == 0);
  needed("read the system", opened("/usr/lib/os-release", O_RDONLY) >= 0);
  needed("list", access(".", R_OK) == 0 && opened(".", O_RDONLY | O_DIRECTORY) >= 0);
  needed("/dev/null", opened("/dev/null", O_RDWR) >= 0);
  needed("threads",
         pthread_create(&thread, NULL, one, NULL) == 0 && pthread_join(thread, NULL) == 0);
  needed("timers", timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
  needed("a signal to itself", kill(getpid(), 0) == 0 && raise(SIGURG) == 0);
  needed("limits are told", getrlimit(RLIMIT_AS, &now) == 0);
  needed("memory",
         munmap(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                1 << 20) == 0);
}

/* ---- the test ---- */

/* Runs the attacks in a process of its own. */
static void run(int border, const char *in, const char *out) {
  memset(seen, 0, sizeof *seen);
  pid_t child = fork();
  if (child == 0) {
    const fopo_border_rule rules[] = {{in, FOPO_BORDER_READ | FOPO_BORDER_WRITE},
                                      {"/usr", FOPO_BORDER_READ},
                                      {"/lib", FOPO_BORDER_READ},
                                      {"/none", FOPO_BORDER_READ},
                                      {"/dev/null", FOPO_BORDER_READ | FOPO_BORDER_WRITE}};
    if (chdir(in) != 0) _exit(2);
    if (border && fopo_border_files(rules, 5) != FOPO_OK) _exit(3);
    if (border && fopo_border_calls() != FOPO_OK) _exit(4);
    if (border) use();
    attack_files(in, out);
    attack_kernel();
    attack_processes();
    if (border) attack_for_good();
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void write_file(const char *path) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("a secret", file);
  fclose(file);
}

TEST(no_attack_passes_the_border) {
  char in[200], out[200], path[300], link_in[300];
  if (fopo_border_lacks() != NULL) {
    printf("skip: the border (this kernel has no %s)\n", fopo_border_lacks());
    return;
  }
  snprintf(in, sizeof in, "%s/in", folder);
  snprintf(out, sizeof out, "%s/out", folder);
  assert_int_equal(mkdir(in, 0700) | mkdir(out, 0700), 0);
  snprintf(path, sizeof path, "%s/secret", out);
  snprintf(link_in, sizeof link_in, "%s/link", in);
  write_file(path);
  assert_int_equal(symlink(path, link_in), 0);
  snprintf(path, sizeof path, "%s/mine", in);
  write_file(path);
  seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(seen, MAP_FAILED);

  run(0, in, out);
  int attacks = seen->n, succeed = 0;
  for (int i = 0; i < seen->n; i++) succeed += seen->done[i];
  assert_true(attacks > 110);
  if (getenv("FOPO_SHOW")) {
    for (int i = 0; i < seen->n; i++) {
      if (!seen->done[i]) printf("fails without the border too: %s\n", seen->name[i]);
    }
  }
  assert_true(succeed > 80); /* the rest needs rights, or parts of the kernel, that are not here */

  run(1, in, out);
  assert_true(seen->n >= attacks);
  assert_string_equal(seen->missing, "");
  assert_int_equal(seen->broken, 0);
  int passed = 0;
  for (int i = 0; i < seen->n; i++) {
    if (!seen->done[i]) continue;
    passed++;
    printf("passes the border: %s\n", seen->name[i]);
  }
  assert_int_equal(passed, 0);
  printf("%d attacks, of which %d succeed without the border and none with it\n", seen->n, succeed);
}

int main(void) { return run_all(make_folder, remove_folder); }
