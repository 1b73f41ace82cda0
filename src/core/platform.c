#include "core/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__linux__)
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

int fopo_platform_program(char *path, size_t size) {
  ssize_t n = readlink("/proc/self/exe", path, size - 1); /* elsewhere there is no such file */
  path[n > 0 ? n : 0] = '\0';
  return n > 0;
}

int fopo_platform_object(char *path, size_t size, const char *name) {
  char folder[3072];
  fopo_platform_program(folder, sizeof folder);
  char *slash = strrchr(folder, '/');
  if (slash != NULL) slash[1] = '\0';
  snprintf(path, size, "%s%s", folder, name);
  if (access(path, R_OK) == 0) return 1;
  snprintf(path, size, "%s../lib/fopo/%s", folder, name);
  if (access(path, R_OK) == 0) return 1;
  snprintf(path, size, "%s%s", folder, name);
  return 0;
}

void fopo_platform_close(int but) {
  int most = (int)sysconf(_SC_OPEN_MAX);
#ifdef SYS_close_range
  unsigned kept = but > 2 ? (unsigned)but : 2;
  int closed = (kept == 2 || kept == 3 || syscall(SYS_close_range, 3u, kept - 1, 0u) == 0) &&
               syscall(SYS_close_range, kept + 1, ~0u, 0u) == 0;
  if (closed) return;
#endif
  if (most < 0 || most > 65536) most = 65536;
  for (int fd = 3; fd < most; fd++) {
    if (fd != but) close(fd);
  }
}

#if defined(__linux__)

void fopo_platform_follow(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL); /* it has ended already */
}

int fopo_platform_file(void) { return memfd_create("fopo", MFD_CLOEXEC); }

void *fopo_platform_remap(void *mapping, size_t before, size_t length, void *place) {
  void *at = place == NULL ? mremap(mapping, before, length, 0)
                           : mremap(mapping, before, length, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  return at == MAP_FAILED ? NULL : at;
}

/* Advice: a refusal costs speed only. */
void fopo_platform_huge(void *mapping, size_t length) { madvise(mapping, length, MADV_HUGEPAGE); }

int fopo_platform_tiles(void) {
#if defined(__x86_64__)
  enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return 0;
#endif
}

void fopo_platform_probe(int fd, int idle) {
  enum { PROBES = 100 }; /* who asks decides, not the kernel */
  int on = 1, before = 0, interval = 1, probes = PROBES;
  socklen_t size = sizeof before;
  if (getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &before, &size) != 0 || before == idle) return;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

double fopo_platform_silence(int fd) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return -1.0;
  if (info.tcpi_state != TCP_ESTABLISHED) return -1.0;
  uint32_t ms = info.tcpi_last_ack_recv;
  if (info.tcpi_last_data_recv < ms) ms = info.tcpi_last_data_recv;
  return ms / 1e3;
}

#else

void fopo_platform_follow(pid_t parent) { (void)parent; }

int fopo_platform_file(void) {
  char path[] = "/tmp/fopo-XXXXXX";
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  return fd;
}

void *fopo_platform_remap(void *mapping, size_t before, size_t length, void *place) {
  (void)mapping, (void)before, (void)length, (void)place;
  return NULL;
}

void fopo_platform_huge(void *mapping, size_t length) { (void)mapping, (void)length; }

int fopo_platform_tiles(void) { return 0; }

void fopo_platform_probe(int fd, int idle) { (void)fd, (void)idle; }

double fopo_platform_silence(int fd) {
  (void)fd;
  return -1.0;
}

#endif

void fopo_platform_heap(size_t big, size_t kept) {
#if defined(__linux__) && defined(M_MMAP_THRESHOLD) /* musl has no such call */
  mallopt(M_MMAP_THRESHOLD, (int)big);
  mallopt(M_TRIM_THRESHOLD, (int)kept);
#else
  (void)big, (void)kept;
#endif
}
