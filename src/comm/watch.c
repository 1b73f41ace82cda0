/* What TCP knows of a connection is asked of the kernel (TCP_INFO): the time since the other side
 * last acknowledged anything. An idle connection acknowledges probes (TCP_KEEPIDLE), which a
 * process that is stopped or busy answers too, for its kernel does; so silence is the host's or the
 * network's.
 *
 * A connection belongs to the host that has its address. Addresses that several hosts list, as
 * those of a container bridge, and those of the own host are left out. */
#include "comm/watch.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/platform.h"

enum {
  SCANS = 4,   /* a second */
  SILENCE = 6, /* seconds; mpirun needs up to 3 more to end all */
  GONE = 4,    /* scans without a connection, for Open MPI may replace one */
  LATER = 4,   /* scans that others leave to the first rank that is left, to say it once */
  IDLE = 2     /* seconds before the first probe; then one every second */
};

/* Of each host: its connections in the last scans. */
typedef struct {
  int had, now, missed; /* ever; in this scan; scans without one since it had some */
} contact;

static const fopo_watch_host *hosts;
static size_t n_hosts, own;
static contact *contacts; /* [size], of the first rank of each host */
static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int running; /* under the lock */
static double silence;

/* ---- addresses ---- */

/* address [16] of a socket address; 0 if it is neither IPv4 nor IPv6. */
static int read_address(uint8_t *address, const struct sockaddr *from) {
  if (from->sa_family == AF_INET6) {
    struct sockaddr_in6 six;
    memcpy(&six, from, sizeof six);
    memcpy(address, &six.sin6_addr, 16);
  } else if (from->sa_family == AF_INET) {
    struct sockaddr_in four;
    memcpy(&four, from, sizeof four);
    memset(address, 0, 10);
    memset(address + 10, 0xff, 2);
    memcpy(address + 12, &four.sin_addr, 4);
  }
  return from->sa_family == AF_INET6 || from->sa_family == AF_INET;
}

static int is_loopback(const uint8_t *address) {
  static const uint8_t mapped[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
  return memcmp(address, &in6addr_loopback, 16) == 0 || memcmp(address, mapped, 13) == 0;
}

void fopo_watch_describe(fopo_watch_host *host) {
  struct ifaddrs *list = NULL;
  size_t n = 0;
  memset(host, 0, sizeof *host);
  if (gethostname(host->name, sizeof host->name) != 0) strcpy(host->name, "?");
  host->name[sizeof host->name - 1] = '\0';
  if (getifaddrs(&list) != 0) return;
  for (struct ifaddrs *i = list; i != NULL && n < FOPO_WATCH_ADDRESSES; i = i->ifa_next) {
    if (i->ifa_addr == NULL || !read_address(host->address[n], i->ifa_addr)) continue;
    if (is_loopback(host->address[n])) {
      memset(host->address[n], 0, 16);
    } else {
      n++;
    }
  }
  freeifaddrs(list);
}

static int same_host(size_t a, size_t b) { return strcmp(hosts[a].name, hosts[b].name) == 0; }

static int lists(const fopo_watch_host *host, const uint8_t *address) {
  static const uint8_t none[16];
  if (memcmp(address, none, 16) == 0) return 0;
  for (size_t i = 0; i < FOPO_WATCH_ADDRESSES; i++) {
    if (memcmp(host->address[i], address, 16) == 0) return 1;
  }
  return 0;
}

/* The first rank of the one other host that lists the address; n_hosts if there is none. */
static size_t owner(const uint8_t *address) {
  size_t found = n_hosts;
  if (lists(&hosts[own], address)) return n_hosts;
  for (size_t r = 0; r < n_hosts; r++) {
    if (!lists(&hosts[r], address)) continue;
    if (found < n_hosts && !same_host(found, r)) return n_hosts;
    if (found == n_hosts) found = r;
  }
  return found;
}

/* ---- looking ---- */

/* The rank to whose host the descriptor is connected; n_hosts if to none. */
static size_t peer_of(int fd) {
  struct sockaddr_storage to;
  socklen_t size = sizeof to;
  uint8_t address[16];
  if (getpeername(fd, (struct sockaddr *)&to, &size) != 0) return n_hosts;
  return read_address(address, (struct sockaddr *)&to) ? owner(address) : n_hosts;
}

static void lose(size_t rank, const char *how, double seconds) {
  char more[48] = "", time[48] = "";
  size_t others = 0;
  for (size_t r = rank + 1; r < n_hosts; r++) others += (size_t)same_host(rank, r);
  if (others > 0) snprintf(more, sizeof more, " and %zu more there", others);
  if (seconds > 0.0) snprintf(time, sizeof time, " for %.0f seconds", seconds);
  fprintf(stderr,
          "fopo: rank %zu of %zu on %s has lost rank %zu on %s%s: %s%s; all end, and the last "
          "checkpoint is whole\n",
          own, n_hosts, hosts[own].name, rank, hosts[rank].name, more, how, time);
  fflush(stderr);
  _exit(1); /* the main thread may wait in MPI for ever */
}

/* How many scans this rank waits with what it has to say of the host of `rank`. */
static int patience(size_t rank) { return own == (size_t)same_host(0, rank) ? 0 : LATER; }

static void look_at(int fd) {
  size_t rank = peer_of(fd);
  if (rank == n_hosts) return;
  fopo_platform_probe(fd, IDLE);
  double seconds = fopo_platform_silence(fd);
  if (seconds < 0.0) return;
  contacts[rank].now++;
  if (seconds >= silence + (double)patience(rank) / SCANS) {
    lose(rank, "the host has not answered", seconds);
  }
}

static void count_missing(void) {
  for (size_t r = 0; r < n_hosts; r++) {
    contact *c = &contacts[r];
    if (c->now > 0) c->had = 1;
    c->missed = c->had && c->now == 0 ? c->missed + 1 : 0;
    c->now = 0;
    if (c->missed >= GONE + patience(r)) lose(r, "it has closed its connections", 0.0);
  }
}

static void scan(void) {
  DIR *folder = opendir(FOPO_PLATFORM_OPEN);
  if (folder == NULL) return;
  for (struct dirent *e; (e = readdir(folder)) != NULL;) {
    char *end;
    long fd = strtol(e->d_name, &end, 10);
    if (end != e->d_name && *end == '\0') look_at((int)fd);
  }
  closedir(folder);
  count_missing();
}

/* Waits for a part of a second; 0: the watch has been stopped. */
static int wait_for_next(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 1000000000 / SCANS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  if (running) pthread_cond_timedwait(&ended, &lock, &until);
  return running;
}

static void *watch(void *nothing) {
  (void)nothing;
  pthread_mutex_lock(&lock);
  while (wait_for_next()) scan();
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* ---- starting ---- */

static double wanted_silence(void) {
  const char *text = getenv("FOPO_MPI_SILENCE");
  return text == NULL || *text == '\0' ? SILENCE : strtod(text, NULL);
}

static int has_other_hosts(void) {
  for (size_t r = 0; r < n_hosts; r++) {
    if (!same_host(own, r)) return 1;
  }
  return 0;
}

void fopo_watch_start(const fopo_watch_host *list, size_t size, size_t rank) {
  sigset_t all, before;
  hosts = list;
  n_hosts = size;
  own = rank;
  silence = wanted_silence();
  if (!has_other_hosts() || !(silence > 0.0)) return;
  contacts = fopo_alloc(size, sizeof *contacts);
  if (contacts == NULL) return;
  sigfillset(&all); /* signals are the main thread's */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  running = 1;
  running = pthread_create(&thread, NULL, watch, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void fopo_watch_stop(void) {
  pthread_mutex_lock(&lock);
  int was = running;
  running = 0;
  pthread_cond_signal(&ended);
  pthread_mutex_unlock(&lock);
  if (was) pthread_join(thread, NULL);
  fopo_free(contacts);
  contacts = NULL;
}
