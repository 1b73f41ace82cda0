/* The seam for faults: a library that is preloaded between the program and the system. It counts
 * the calls that can fail, and fails the nth of one kind, once or from then on.
 *
 * Preloaded, because then the program that is tested is the one that users run, to the byte, and
 * the calls that libraries make for it (libzip, zlib, Lua, the C library itself) fail too;
 * the linker's --wrap would reach the program's own objects alone. A call fails only if its caller
 * is the program or one of the libraries in `ours`: those that report a failure. OpenBLAS, OpenMP,
 * readline and the loader end the process instead, which nothing above them can change.
 *
 * Blocks that our callers allocate while the seam watches are remembered until they are freed. So
 * whatever a scenario has lost is known with its caller, without a sanitizer. Lua's own blocks are
 * not: its garbage collector owns them.
 *
 * Lua opens it with package.loadlib(path, "luaopen_seam"); tests/faults/sweep.lua drives it. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- kinds ---- */

/* "lua" is memory that Lua itself asks for: if it is refused once, Lua collects its garbage and
 * asks again. "again" interrupts a call as a signal does (EINTR), "short" moves a part of the
 * bytes: after both the work must be done all the same. */
#define KINDS(X)                                                                                   \
  X(memory, ENOMEM)                                                                                \
  X(lua, ENOMEM)                                                                                   \
  X(open, EMFILE)                                                                                  \
  X(read, EIO)                                                                                     \
  X(write, ENOSPC)                                                                                 \
  X(flush, EIO)                                                                                    \
  X(rename, EACCES)                                                                                \
  X(remove, EPERM)                                                                                 \
  X(close, EIO)                                                                                    \
  X(status, EACCES)                                                                                \
  X(lock, ENOLCK)                                                                                  \
  X(seek, ESPIPE)                                                                                  \
  X(start, EAGAIN)                                                                                 \
  X(again, EINTR)                                                                                  \
  X(short, 0)

enum {
#define KIND(name, code) kind_##name,
  KINDS(KIND) N_KINDS
#undef KIND
};

static const char *const names[] = {
#define KIND(name, code) #name,
    KINDS(KIND)
#undef KIND
        NULL};

static const int codes[] = {
#define KIND(name, code) code,
    KINDS(KIND)
#undef KIND
};

/* ---- callers ---- */

static const char *const ours[] = {"liblua5.4", "libzip.",    "libz.",
                                   "libstdc++", "liblapacke", "libc.so.6"};

typedef struct {
  uintptr_t from, to;
  int lua, careless; /* libraries: Lua; one that loses blocks of its own */
} range;

static range ranges[64];
static int n_ranges;

static int add_ranges(struct dl_phdr_info *info, size_t size, void *first) {
  (void)size;
  const char *slash = strrchr(info->dlpi_name, '/');
  const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
  int wanted = *(int *)first; /* the program itself comes first, without a name */
  *(int *)first = 0;
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
    wanted |= strncmp(name, ours[i], strlen(ours[i])) == 0;
  }
  for (int i = 0; i < info->dlpi_phnum && wanted; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || n_ranges == 64) continue;
    uintptr_t from = info->dlpi_addr + p->p_vaddr;
    ranges[n_ranges++] = (range){from, from + p->p_memsz, strncmp(name, "liblua", 6) == 0,
                                 strncmp(name, "libzip", 6) == 0};
  }
  return 0;
}

static const range *range_of(const void *caller) {
  uintptr_t at = (uintptr_t)caller;
  for (int i = 0; i < n_ranges; i++) {
    if (at >= ranges[i].from && at < ranges[i].to) return &ranges[i];
  }
  return NULL;
}

/* ---- faults ---- */

static atomic_int watching, armed, forever;
static atomic_long calls[N_KINDS], left, delivered;

/* True if this call must fail; counts it. */
static int fails(int kind, const void *caller) {
  if (!atomic_load_explicit(&watching, memory_order_relaxed) || range_of(caller) == NULL) return 0;
  atomic_fetch_add(&calls[kind], 1);
  if (atomic_load(&armed) != kind + 1) return 0;
  long n = atomic_fetch_sub(&left, 1);
  /* An interrupted call is made again, so every other one goes through. */
  int hit = n == 0 || (n < 0 && atomic_load(&forever) && (kind != kind_again || n % 2 == 0));
  if (!hit) return 0;
  atomic_fetch_add(&delivered, 1);
  if (codes[kind] != 0) errno = codes[kind];
  return 1;
}

static int fails_in_child(const range *r, const void *caller);

static int no_memory(const void *caller) {
  if (!atomic_load_explicit(&watching, memory_order_relaxed)) return 0;
  const range *r = range_of(caller);
  if (r == NULL) return 0;
  return fails_in_child(r, caller) || fails(r->lua ? kind_lua : kind_memory, caller);
}

/* ---- blocks ---- */

typedef struct {
  void *block;
  const void *caller;
} kept;

enum { SLOTS = 1 << 17 };
static kept table[SLOTS]; /* open addressing; no holes: removing moves the rest of a chain */
static size_t n_kept;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void enter(void) {
  while (atomic_flag_test_and_set(&busy)) {}
}
static void leave(void) { atomic_flag_clear(&busy); }

static size_t slot_of(const void *block) {
  return ((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15u >> 47 & (SLOTS - 1);
}

static void *keep(void *block, const void *caller) {
  if (block == NULL || !atomic_load_explicit(&watching, memory_order_relaxed)) return block;
  const range *r = range_of(caller);
  if (r == NULL || r->lua) return block;
  enter();
  size_t i = slot_of(block);
  while (table[i].block != NULL && table[i].block != block) i = (i + 1) & (SLOTS - 1);
  if (n_kept < SLOTS / 2) {
    n_kept += table[i].block == NULL;
    table[i] = (kept){block, caller};
  }
  leave();
  return block;
}

static void forget(const void *block) {
  if (block == NULL || n_kept == 0) return;
  enter();
  size_t i = slot_of(block);
  while (table[i].block != NULL && table[i].block != block) i = (i + 1) & (SLOTS - 1);
  if (table[i].block != NULL) {
    n_kept--;
    for (size_t j = (i + 1) & (SLOTS - 1); table[j].block != NULL; j = (j + 1) & (SLOTS - 1)) {
      size_t home = slot_of(table[j].block);
      if (((j - home) & (SLOTS - 1)) < ((j - i) & (SLOTS - 1))) continue;
      table[i] = table[j];
      i = j;
    }
    table[i] = (kept){NULL, NULL};
  }
  leave();
}

/* ---- the calls ---- */

#define CALLER __builtin_return_address(0)
#define NEXT(name)                                                                                 \
  static __typeof__(&(name)) next;                                                                 \
  if (next == NULL) next = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name)

/* A function of the C library: what it gives if it fails, else what the next one gives. */
#define WRAP(kind, type, name, parameters, arguments, failed)                                      \
  type name parameters {                                                                           \
    NEXT(name);                                                                                    \
    if (fails(kind_##kind, CALLER)) return failed;                                                 \
    return next arguments;                                                                         \
  }

/* As WRAP, of a function that a signal may interrupt. */
#define WRAP_AGAIN(kind, type, name, parameters, arguments, failed)                                \
  type name parameters {                                                                           \
    NEXT(name);                                                                                    \
    if (fails(kind_##kind, CALLER) || fails(kind_again, CALLER)) return failed;                    \
    return next arguments;                                                                         \
  }

#define WRAP_BLOCK(name, parameters, arguments)                                                    \
  void *name parameters {                                                                          \
    NEXT(name);                                                                                    \
    if (no_memory(CALLER)) return NULL;                                                            \
    return keep(next arguments, CALLER);                                                           \
  }

WRAP_BLOCK(malloc, (size_t n), (n))
WRAP_BLOCK(aligned_alloc, (size_t a, size_t n), (a, n))
WRAP_BLOCK(memalign, (size_t a, size_t n), (a, n))

/* dlsym may ask for memory before it has found the function. (It is declared to call nothing here,
 * hence volatile.) */
void *calloc(size_t n, size_t size) {
  static _Alignas(16) char early[4096];
  static size_t used;
  static volatile int looking;
  if (looking) {
    used += (n * size + 15) / 16 * 16;
    return used <= sizeof early ? early + used - (n * size + 15) / 16 * 16 : NULL;
  }
  static void *(*next)(size_t, size_t);
  if (next == NULL) {
    looking = 1;
    next = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    looking = 0;
  }
  if (no_memory(CALLER)) return NULL;
  return keep(next(n, size), CALLER);
}

void *realloc(void *old, size_t n) {
  NEXT(realloc);
  if (n > 0 && no_memory(CALLER)) return NULL;
  forget(old);
  return keep(next(old, n), CALLER);
}

int posix_memalign(void **block, size_t a, size_t n) {
  NEXT(posix_memalign);
  if (no_memory(CALLER)) return ENOMEM;
  int error = next(block, a, n);
  if (error == 0) keep(*block, CALLER);
  return error;
}

/* The copy belongs to the caller, not to the C library. */
char *strndup(const char *text, size_t n) {
  if (no_memory(CALLER)) return NULL;
  size_t length = strnlen(text, n);
  NEXT(malloc);
  char *copy = keep(next(length + 1), CALLER);
  if (copy != NULL) memcpy(copy, text, length), copy[length] = 0;
  return copy;
}

char *strdup(const char *text) {
  if (no_memory(CALLER)) return NULL;
  size_t length = strlen(text);
  NEXT(malloc);
  char *copy = keep(next(length + 1), CALLER);
  if (copy != NULL) memcpy(copy, text, length + 1);
  return copy;
}

/* dlsym frees the sentence about a name that was not found before; that block is left. */
void free(void *block) {
  static void (*next)(void *);
  static volatile int looking;
  if (looking) return;
  if (next == NULL) {
    looking = 1;
    next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    looking = 0;
  }
  forget(block);
  next(block);
}

WRAP(memory, void *, mmap, (void *p, size_t n, int x, int f, int d, off_t o), (p, n, x, f, d, o),
     MAP_FAILED)

void *mremap(void *old, size_t before, size_t n, int flags, ...) {
  NEXT(mremap);
  va_list more;
  va_start(more, flags);
  void *place = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
  va_end(more);
  if (no_memory(CALLER)) return MAP_FAILED;
  return next(old, before, n, flags, place);
}

static int mode_of(int flags, va_list more) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
}

#define WRAP_OPEN(name)                                                                            \
  int name(const char *path, int flags, ...) {                                                     \
    NEXT(name);                                                                                    \
    va_list more;                                                                                  \
    va_start(more, flags);                                                                         \
    int mode = mode_of(flags, more);                                                               \
    va_end(more);                                                                                  \
    return fails(kind_open, CALLER) ? -1 : next(path, flags, mode);                                \
  }
WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP(open, FILE *, fopen, (const char *p, const char *m), (p, m), NULL)
WRAP(open, FILE *, fopen64, (const char *p, const char *m), (p, m), NULL)
WRAP(open, FILE *, fdopen, (int fd, const char *m), (fd, m), NULL)
WRAP(open, FILE *, freopen, (const char *p, const char *m, FILE *f), (p, m, f),
     (fclose(f), NULL)) /* as the real one does */
WRAP(open, DIR *, opendir, (const char *p), (p), NULL)
WRAP(open, int, mkostemp, (char *p, int f), (p, f), -1)
WRAP(open, int, mkstemp, (char *p), (p), -1)
WRAP(open, int, mkdir, (const char *p, mode_t m), (p, m), -1)
WRAP(open, int, memfd_create, (const char *p, unsigned f), (p, f), -1)

/* Of n bytes a short transfer moves a third. */
#define WRAP_MOVE(kind, name, parameters, arguments)                                               \
  ssize_t name parameters {                                                                        \
    NEXT(name);                                                                                    \
    if (fails(kind_##kind, CALLER) || fails(kind_again, CALLER)) return -1;                        \
    if (n > 1 && fails(kind_short, CALLER)) n = (n + 2) / 3;                                       \
    return next arguments;                                                                         \
  }

/* ---- every allocation of a session, each in a child of its own ---- */

/* In place of failing one call of a process, the process forks at each allocation: there it fails
 * in the child, which ends its entry, takes the entry again, and then the lines `checks` in place
 * of what the parent will read. So each point costs the rest of its entry. For one thread. */
static long every, offset;      /* points at which a child is made: n % every == offset; 0: none */
static long point;              /* allocations so far */
static int in_child, lua_fails; /* calls of Lua that fail still: the first, and its second try */
static const char *checks;      /* lines that a child takes after its entry */
static char entry[4096];        /* the last line that was read, with its end */
static long n_entries;
static int report = -1; /* gets "== entry point kind status length caller\\n", what was said */
static int so_far = -1; /* what the parent has said of its entry */

static void tell(long status, const char *kind, const void *caller, int said) {
  static char text[1 << 16];
  Dl_info where = {0};
  ssize_t n = pread(said, text, sizeof text, 0);
  dladdr(caller, &where);
  dprintf(report, "== %ld %ld %s %ld %zd %s+%p\n", n_entries, point, kind, status, n < 0 ? 0 : n,
          where.dli_sname != NULL ? where.dli_sname : where.dli_fname,
          (void *)((uintptr_t)caller - (uintptr_t)where.dli_fbase));
  for (ssize_t at = 0, now; at < n; at += now) {
    if ((now = write(report, text + at, (size_t)(n - at))) <= 0) break;
  }
}

/* What the process says goes to the file. */
static void say_to(int fd) {
  fflush(stdout);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
}

/* True in the child. */
static int fork_child(const char *kind, const void *caller) {
  int said = memfd_create("said", 0), status = 0;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    off_t at = 0, length = lseek(so_far, 0, SEEK_CUR);
    in_child = 1;
    every = 0;
    while (at < length && sendfile(said, so_far, &at, (size_t)(length - at)) > 0) {}
    say_to(said);
    close(said);
    alarm(60);
    return 1;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  tell(status, kind, caller, said);
  close(said);
  return 0;
}

static int fails_in_child(const range *r, const void *caller) {
  if (in_child) return r->lua && lua_fails > 0 && lua_fails-- > 0;
  if (every == 0 || n_entries == 0 || point++ % every != offset) return 0;
  long before = every;
  int code = errno;
  every = 0; /* what follows allocates */
  int is_child = fork_child(r->lua ? "lua" : "memory", caller);
  every = is_child ? 0 : before;
  errno = is_child ? ENOMEM : code;
  lua_fails = is_child && r->lua;
  return is_child;
}

/* What a child reads: its entry again, then `checks`, line by line. */
static ssize_t line_of_child(char **line, size_t *size) {
  static int again;
  const char *from = again++ > 0 ? checks : entry;
  size_t length = strcspn(from, "\n") + 1;
  lua_fails = 0;
  fflush(stdout);
  if (again == 1) dprintf(STDOUT_FILENO, "== again\n");
  if (again == 2) dprintf(STDOUT_FILENO, "== checks\n");
  if (*from == 0) return -1;
  if (from == checks) checks += length;
  if (*size < length + 1) *line = realloc(*line, *size = length + 1);
  memcpy(*line, from, length);
  (*line)[length] = 0;
  return (ssize_t)length;
}

/* The parent has read a line: what it and the checks say without a fault is told first. */
static void entered(const char *line, ssize_t length) {
  if (length <= 0 || (size_t)length >= sizeof entry) every = 0; /* the session is at its end */
  if (every == 0) return;
  memcpy(entry, line, (size_t)length);
  entry[length] = 0;
  n_entries++;
  long before = every;
  every = 0;
  if (so_far < 0) so_far = memfd_create("so far", 0);
  say_to(so_far);
  if (ftruncate(so_far, 0) == 0) lseek(so_far, 0, SEEK_SET);
  if (!fork_child("none", NULL)) every = before;
}

/* ---- the prompt ---- */

/* 0: off; 1: the fault lasts until the next entry has been typed and run; 2: it was typed. */
static atomic_int at_prompt;

static void typed(int fd, const char *bytes, ssize_t n) {
  int armed_now = 1;
  if (fd != STDIN_FILENO || n < 1) return;
  if (memchr(bytes, '\n', (size_t)n) == NULL && memchr(bytes, '\r', (size_t)n) == NULL) return;
  atomic_compare_exchange_strong(&at_prompt, &armed_now, 2);
}

/* The prompt waits for another line: the entry is done, and so is the fault. */
static void waits(void) {
  int typed_now = 2;
  if (!atomic_compare_exchange_strong(&at_prompt, &typed_now, 0)) return;
  atomic_store(&armed, 0);
  atomic_store(&watching, 0);
}

int poll(struct pollfd *fds, nfds_t n, int ms) {
  NEXT(poll);
  if (n == 1 && fds[0].fd == STDIN_FILENO && next(fds, n, 0) == 0) waits();
  return next(fds, n, ms);
}

ssize_t read(int fd, void *p, size_t n) {
  NEXT(read);
  if (fails(kind_read, CALLER) || fails(kind_again, CALLER)) return -1;
  if (n > 1 && fails(kind_short, CALLER)) n = (n + 2) / 3;
  ssize_t got = next(fd, p, n);
  typed(fd, p, got);
  return got;
}

WRAP_MOVE(read, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
WRAP_MOVE(read, pread64, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
WRAP_MOVE(write, write, (int fd, const void *p, size_t n), (fd, p, n))
WRAP_MOVE(write, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
WRAP_MOVE(write, pwrite64, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(read, ssize_t, readlink, (const char *p, char *b, size_t n), (p, b, n), -1)
WRAP(read, struct dirent *, readdir, (DIR * d), (d), NULL)

/* A stream remembers that an operation has failed. */
static int mark(FILE *f) {
  f->_flags |= 0x20;
  return -1;
}
/* What is said on the terminal is not part of the work. */
static int spoken(const FILE *f) { return f == stdout || f == stderr; }

#define WRAP_STREAM(kind, type, name, parameters, arguments, failed)                               \
  type name parameters {                                                                           \
    NEXT(name);                                                                                    \
    if (!spoken(f) && fails(kind_##kind, CALLER)) return (type)(mark(f) * 0 + (failed));           \
    return next arguments;                                                                         \
  }
WRAP_STREAM(read, size_t, fread, (void *p, size_t s, size_t n, FILE *f), (p, s, n, f), 0)
WRAP_STREAM(write, size_t, fwrite, (const void *p, size_t s, size_t n, FILE *f), (p, s, n, f), 0)
WRAP_STREAM(write, int, fputs, (const char *p, FILE *f), (p, f), -1)
WRAP_STREAM(write, int, fputc, (int c, FILE *f), (c, f), -1)
WRAP_STREAM(write, int, vfprintf, (FILE * f, const char *p, va_list a), (f, p, a), -1)

static ssize_t line_of_child(char **line, size_t *size);
static void entered(const char *line, ssize_t length);

/* getline() becomes __getdelim() where the compiler optimises. */
#define WRAP_LINE(name, parameters, arguments)                                                     \
  ssize_t name parameters {                                                                        \
    NEXT(name);                                                                                    \
    if (f == stdin) waits();                                                                       \
    if (f == stdin && in_child) return line_of_child(p, n);                                        \
    if (fails(kind_read, CALLER)) return mark(f);                                                  \
    ssize_t got = next arguments;                                                                  \
    if (f == stdin) typed(STDIN_FILENO, "\n", 1);                                                  \
    if (f == stdin) entered(*p, got);                                                              \
    return got;                                                                                    \
  }
WRAP_LINE(getline, (char **p, size_t *n, FILE *f), (p, n, f))
WRAP_LINE(__getdelim, (char **p, size_t *n, int end, FILE *f), (p, n, end, f))

char *fgets(char *p, int n, FILE *f) {
  NEXT(fgets);
  if (!fails(kind_read, CALLER)) return next(p, n, f);
  mark(f);
  return NULL;
}

int fprintf(FILE *f, const char *format, ...) {
  va_list arguments;
  if (!spoken(f) && fails(kind_write, CALLER)) return mark(f);
  va_start(arguments, format);
  int n = vfprintf(f, format, arguments);
  va_end(arguments);
  return n;
}

int fflush(FILE *f) {
  NEXT(fflush);
  if (f != NULL && !spoken(f) && fails(kind_write, CALLER)) return mark(f);
  return next(f);
}

WRAP(write, int, ftruncate, (int fd, off_t n), (fd, n), -1)
WRAP(flush, int, fsync, (int fd), (fd), -1)
WRAP(flush, int, fdatasync, (int fd), (fd), -1)
WRAP(rename, int, rename, (const char *a, const char *b), (a, b), -1)
WRAP(remove, int, unlink, (const char *p), (p), -1)
WRAP(remove, int, remove, (const char *p), (p), -1)

/* The descriptor is closed all the same, as Linux does. */
static int after(int ignored) {
  (void)ignored;
  errno = codes[kind_close];
  return -1;
}
WRAP(close, int, close, (int fd), (fd), after(next(fd)))
WRAP(close, int, fclose, (FILE * f), (f), after(next(f)))

WRAP(status, int, fstat, (int fd, struct stat *s), (fd, s), -1)
WRAP(status, int, stat, (const char *p, struct stat *s), (p, s), -1)
WRAP(status, int, lstat, (const char *p, struct stat *s), (p, s), -1)
WRAP(status, int, fstat64, (int fd, struct stat64 *s), (fd, s), -1)
WRAP(status, int, stat64, (const char *p, struct stat64 *s), (p, s), -1)
WRAP(status, int, fstatvfs, (int fd, struct statvfs *s), (fd, s), -1)
WRAP(status, int, access, (const char *p, int m), (p, m), -1)
WRAP(status, int, fchmod, (int fd, mode_t m), (fd, m), -1)
WRAP(status, char *, getcwd, (char *p, size_t n), (p, n), NULL)
WRAP_AGAIN(lock, int, flock, (int fd, int how), (fd, how), -1)
WRAP(seek, off_t, lseek, (int fd, off_t at, int from), (fd, at, from), -1)
WRAP(seek, int, fseek, (FILE * f, long at, int from), (f, at, from), -1)
WRAP(seek, int, fseeko, (FILE * f, off_t at, int from), (f, at, from), -1)
WRAP(seek, int, fseeko64, (FILE * f, off64_t at, int from), (f, at, from), -1)
WRAP(seek, long, ftell, (FILE * f), (f), -1)

WRAP(start, int, pthread_create,
     (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *x), (t, a, f, x),
     codes[kind_start])
WRAP(start, int, posix_spawn,
     (pid_t * child, const char *p, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *t,
      char *const v[], char *const e[]),
     (child, p, a, t, v, e), codes[kind_start])

/* ---- for Lua ---- */

/* seam.every(n, offset, checks, report): from here on every nth allocation fails in a child, which
 * then takes the lines of `checks`; what it says goes to the descriptor `report`. */
static int set_every(lua_State *L) {
  const char *text = luaL_checkstring(L, 3);
  checks = strdup(text);
  offset = (long)luaL_checkinteger(L, 2);
  report = (int)luaL_checkinteger(L, 4);
  atomic_store(&watching, 1);
  every = (long)luaL_checkinteger(L, 1);
  return 0;
}

static char *label; /* a file that outlives the process: what it was at when it ended */

static int kind_at(lua_State *L, int i) { return luaL_checkoption(L, i, NULL, names); }

static void reset(void) {
  for (int k = 0; k < N_KINDS; k++) atomic_store(&calls[k], 0);
  atomic_store(&delivered, 0);
}

/* seam.watch(): from here on calls are counted and blocks remembered. */
static int watch(lua_State *L) {
  (void)L;
  enter();
  memset(table, 0, sizeof table);
  n_kept = 0;
  leave();
  reset();
  atomic_store(&watching, 1);
  return 0;
}

/* seam.arm(kind, n, forever, [prompt]): the call of that kind after n more fails; with `prompt`
 * while the next entry is typed and run. */
static int arm(lua_State *L) {
  int kind = kind_at(L, 1);
  long n = (long)luaL_checkinteger(L, 2);
  reset();
  atomic_store(&left, n);
  atomic_store(&forever, lua_toboolean(L, 3));
  atomic_store(&at_prompt, lua_toboolean(L, 4));
  atomic_store(&armed, kind + 1);
  atomic_store(&watching, 1);
  return 0;
}

/* At exit() too: then gcov writes its counts, in the name of the program. */
static void end(void) {
  atomic_store(&armed, 0);
  atomic_store(&watching, 0);
}

/* seam.disarm() -> faults: ends counting and remembering. */
static int disarm(lua_State *L) {
  end();
  lua_pushinteger(L, atomic_load(&delivered));
  return 1;
}

/* seam.calls(kind) -> calls that were counted. */
static int calls_of(lua_State *L) {
  lua_pushinteger(L, atomic_load(&calls[kind_at(L, 1)]));
  return 1;
}

/* seam.lost() -> blocks that are remembered and not freed, those of libzip, text of the callers.
 * libzip forgets some of its own blocks when it finds no memory for others. */
static int lost(lua_State *L) {
  luaL_Buffer text;
  lua_Integer told = 0, careless = 0;
  for (size_t i = 0; i < SLOTS; i++) {
    const range *r = table[i].block != NULL ? range_of(table[i].caller) : NULL;
    careless += r != NULL && r->careless;
  }
  lua_pushinteger(L, (lua_Integer)n_kept - careless);
  lua_pushinteger(L, careless);
  luaL_buffinit(L, &text);
  for (size_t i = 0; i < SLOTS && told < 4; i++) {
    Dl_info where;
    if (table[i].block == NULL || dladdr(table[i].caller, &where) == 0) continue;
    const char *name = where.dli_sname != NULL ? where.dli_sname : where.dli_fname;
    luaL_addstring(&text, told++ > 0 ? ", " : "");
    luaL_addstring(&text, name);
    lua_pushfstring(L, " (+%p)", (void *)((uintptr_t)table[i].caller - (uintptr_t)where.dli_fbase));
    luaL_addvalue(&text);
  }
  luaL_pushresult(&text);
  return 3;
}

/* seam.descriptors() -> open files. */
static int descriptors(lua_State *L) {
  int n = 0;
  for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
  lua_pushinteger(L, n);
  return 1;
}

/* seam.threads() -> threads of the process. */
static int threads(lua_State *L) {
  struct stat tasks;
  lua_pushinteger(L, stat("/proc/self/task", &tasks) == 0 ? (lua_Integer)tasks.st_nlink - 2 : -1);
  return 1;
}

/* seam.files(folder, part) -> how many names in the folder hold the part. */
static int files(lua_State *L) {
  DIR *folder = opendir(luaL_checkstring(L, 1));
  const char *part = luaL_checkstring(L, 2);
  lua_Integer n = 0;
  for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
    n += strstr(e->d_name, part) != NULL;
  }
  if (folder != NULL) closedir(folder);
  lua_pushinteger(L, n);
  return 1;
}

/* seam.label(text, seconds): what is tried now; it may take so long. */
static int set_label(lua_State *L) {
  const char *path = getenv("SEAM_LABEL"), *text = luaL_checkstring(L, 1);
  if (label == NULL && path != NULL) {
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd >= 0 && ftruncate(fd, 256) == 0) {
      label = mmap(NULL, 256, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0) close(fd);
  }
  if (label != NULL && label != MAP_FAILED) snprintf(label, 256, "%s\n", text);
  alarm((unsigned)luaL_optinteger(L, 2, 0));
  return 0;
}

int luaopen_seam(lua_State *L);
int luaopen_seam(lua_State *L) {
  static const luaL_Reg functions[] = {{"watch", watch},
                                       {"arm", arm},
                                       {"every", set_every},
                                       {"disarm", disarm},
                                       {"calls", calls_of},
                                       {"lost", lost},
                                       {"descriptors", descriptors},
                                       {"threads", threads},
                                       {"files", files},
                                       {"label", set_label},
                                       {NULL, NULL}};
  int first = 1;
  if (n_ranges == 0) {
    dl_iterate_phdr(add_ranges, &first);
    atexit(end);
  }
  luaL_newlib(L, functions);
  lua_createtable(L, N_KINDS, 0);
  for (int k = 0; k < N_KINDS; k++) {
    lua_pushstring(L, names[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, "kinds");
  return 1;
}
