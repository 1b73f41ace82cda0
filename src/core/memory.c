/* Counted blocks: a 64-byte header in front of each has its size and its origin.
 *
 * Small blocks come from the C library. From BIG bytes on, a block is a mapping of its own, aligned
 * to 2 MiB so that the kernel can back it with huge pages: its zeros cost nothing, freeing it
 * returns the memory, and growing it moves page tables instead of bytes.
 *
 * Counters and the fault switch are atomics. */
#include "core/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes) ((void)(from), (void)(bytes))
#endif

#include "core/platform.h"
#include "core/status.h"

#define HEAD      ((size_t)64)      /* keeps the block behind it on a cache line */
#define BIG       ((size_t)4 << 20) /* two huge pages; a smaller mapping gains nothing */
#define HUGE_PAGE ((size_t)2 << 20)
#define PAGE      ((size_t)65536) /* a multiple of every page: arm64 has 4, 16 or 64 KiB */
#define SMALL     1024            /* bytes: what the lists of malloc have */
#define KEPT      (64 << 20)
#define ASK_FROM  ((uint64_t)16 << 20) /* smaller needs are not worth reading /proc for */

enum { LIVE = 0x0b10c, DEAD = 0x0dead };

typedef struct {
  size_t bytes;  /* as requested */
  size_t mapped; /* length of the mapping, header included; 0: from the C library */
  void *from;    /* where the mapping begins, or what the C library gave */
  int state;     /* LIVE or DEAD */
} head;

_Static_assert(sizeof(head) <= 64, "the header has 64 bytes");

static atomic_size_t live_blocks, live_bytes, peak_bytes, foreseen_bytes;
static atomic_size_t charged_bytes;     /* of other allocators */
static uint64_t most_bytes;             /* of live and charged bytes; 0: none */
static atomic_long fail_countdown = -1; /* successes left before the failure; < 0: off */
static atomic_int fail_forever;

/* 1 if this allocation must fail; counts it. */
static int fault(void) {
  long left = atomic_load(&fail_countdown);
  for (;;) {
    if (left < 0) return 0;
    long next = left > 0 ? left - 1 : (atomic_load(&fail_forever) ? 0 : -1);
    if (atomic_compare_exchange_weak(&fail_countdown, &left, next)) return left == 0;
  }
}

static void raise_to(atomic_size_t *most, size_t now) {
  size_t before = atomic_load(most);
  while (now > before && !atomic_compare_exchange_weak(most, &before, now)) {}
}

static void count_blocks(size_t blocks, size_t added, size_t removed) {
  atomic_fetch_add(&live_blocks, blocks);
  raise_to(&peak_bytes, atomic_fetch_add(&live_bytes, added - removed) + added - removed);
}

/* What the limit still allows; UINT64_MAX: there is no limit. */
static uint64_t left_in_limit(void) {
  uint64_t used = atomic_load(&live_bytes) + atomic_load(&charged_bytes);
  return most_bytes == 0 ? UINT64_MAX : most_bytes > used ? most_bytes - used : 0;
}

static void *refused(size_t n, size_t size) {
  if (most_bytes > 0 && n * size > left_in_limit()) {
    fopo_fail(FOPO_ERR_MEMORY,
              "no memory for %zu elements of %zu bytes: %.2f GB of the %.2f GB that --max-memory "
              "allows are in use; use fewer rows, free objects first, or raise it",
              n, size, (double)(most_bytes - left_in_limit()) / 1e9, (double)most_bytes / 1e9);
    return NULL;
  }
  fopo_fail(FOPO_ERR_MEMORY,
            "no memory for %zu elements of %zu bytes while %.2f GB are in use; "
            "use fewer rows or free objects first",
            n, size, (double)atomic_load(&live_bytes) / 1e9);
  return NULL;
}

/* A mapping of `length` bytes aligned to HUGE_PAGE, or NULL. */
static char *map_aligned(size_t length) {
  size_t larger = length + HUGE_PAGE;
  char *whole = mmap(NULL, larger, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) return NULL;
  size_t before = (HUGE_PAGE - (uintptr_t)whole % HUGE_PAGE) % HUGE_PAGE;
  if (before > 0) munmap(whole, before);
  munmap(whole + before + length, HUGE_PAGE - before);
  fopo_platform_huge(whole + before, length);
  return whole + before;
}

void fopo_memory_start(void) { fopo_platform_heap(BIG, KEPT); }

static size_t mapped_length(size_t bytes) { return (bytes + HEAD + PAGE - 1) / PAGE * PAGE; }

static head *new_block(size_t bytes, int zeroed) {
  head *h;
  char *from = NULL;
  size_t mapped = bytes >= BIG ? mapped_length(bytes) : 0;
  if (mapped > 0) {
    h = (head *)(void *)map_aligned(mapped);
  } else {
    /* malloc has short lists of small blocks, and calloc knows what the system gave as zeros;
     * aligned_alloc has neither. */
    int whole = zeroed && bytes >= SMALL;
    from = whole ? calloc(1, bytes + 2 * HEAD) : malloc(bytes + 2 * HEAD);
    h = (head *)(void *)(from + (HEAD - (uintptr_t)from % HEAD) % HEAD);
    if (from != NULL && zeroed && !whole) memset(h, 0, HEAD + bytes);
  }
  if (mapped > 0 ? h == NULL : from == NULL) return NULL;
  *h = (head){bytes, mapped, mapped > 0 ? (char *)h : from, LIVE};
  /* ASan takes what is left of both HEADs for the block's own, and misses one number too many. */
  if (mapped == 0) {
    char *block = (char *)h + HEAD;
    ASAN_POISON_MEMORY_REGION((char *)(h + 1), HEAD - sizeof *h);
    ASAN_POISON_MEMORY_REGION(block + bytes, (size_t)(from + HEAD - (char *)h));
  }
  return h;
}

static void free_block(head *h) {
  h->state = DEAD;
  if (h->mapped > 0) {
    munmap(h->from, h->mapped);
  } else {
    free(h->from);
  }
}

static head *head_of(void *block) {
  head *h = (head *)(void *)((char *)block - HEAD);
  assert(h->state == LIVE);
  return h;
}

/* n * size; *fits = 0 if it overflows with header and rounding. */
static size_t checked(size_t n, size_t size, int *fits) {
  size_t bytes = 0;
  *fits = !__builtin_mul_overflow(n, size, &bytes) && bytes < SIZE_MAX / 2;
  return bytes;
}

static void *allocate(size_t n, size_t size, int zeroed) {
  int fits;
  size_t bytes = checked(n, size, &fits);
  head *h = fits && bytes <= left_in_limit() && !fault() ? new_block(bytes, zeroed) : NULL;
  if (h == NULL) return refused(n, size);
  count_blocks(1, bytes, 0);
  return (char *)h + HEAD;
}

void *fopo_alloc(size_t n, size_t size) { return allocate(n, size, 1); }
void *fopo_alloc_unset(size_t n, size_t size) { return allocate(n, size, 0); }

void *fopo_map_file(int fd, size_t bytes) {
  size_t mapped = PAGE + (bytes + PAGE - 1) / PAGE * PAGE;
  char *from = fault() ? NULL : map_aligned(mapped);
  if (from == NULL) return refused(bytes, 1);
  head *h = (head *)(void *)(from + PAGE - HEAD);
  *h = (head){0, mapped, from, LIVE};
  count_blocks(1, 0, 0);
  void *file = mmap(from + PAGE, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
  if (file != MAP_FAILED) return file;
  fopo_free(from + PAGE);
  return refused(bytes, 1);
}

void fopo_map_idle(void *block) {
  head *h = block != NULL ? head_of(block) : NULL;
  if (h != NULL && h->mapped > 0 && h->bytes == 0) madvise(block, h->mapped - PAGE, MADV_DONTNEED);
}

/* Changes the length of a mapping, in place or at a new aligned address; NULL: no memory. */
static head *remap(head *h, size_t mapped) {
  if (mapped == h->mapped) return h;
  if (fopo_platform_remap(h, h->mapped, mapped, NULL) != NULL) return h;
  char *place = map_aligned(mapped);
  if (place == NULL) return NULL;
  void *moved = fopo_platform_remap(h, h->mapped, mapped, place);
  if (moved == NULL) munmap(place, mapped);
  return moved;
}

static head *resize_mapping(head *h, size_t bytes) {
  size_t mapped = mapped_length(bytes), before = h->mapped;
  head *moved = remap(h, mapped);
  if (moved == NULL) return NULL;
  fopo_platform_huge(moved, mapped);
  /* Pages past the old mapping are zero; the rest of the last old page may not be. */
  size_t end = HEAD + bytes < before ? HEAD + bytes : before;
  size_t start = HEAD + moved->bytes;
  if (start < end) memset((char *)moved + start, 0, end - start);
  moved->bytes = bytes;
  moved->mapped = mapped;
  moved->from = moved;
  return moved;
}

static head *resize_copy(head *h, size_t bytes) {
  head *fresh = new_block(bytes, 1);
  if (fresh == NULL) return NULL;
  memcpy((char *)fresh + HEAD, (char *)h + HEAD, bytes < h->bytes ? bytes : h->bytes);
  free_block(h);
  return fresh;
}

void *fopo_realloc(void *block, size_t n, size_t size) {
  if (block == NULL) return fopo_alloc(n, size);
  head *h = head_of(block);
  int fits;
  size_t before = h->bytes, bytes = checked(n, size, &fits);
  if (!fits || (bytes > before && bytes - before > left_in_limit()) || fault()) {
    return refused(n, size);
  }
  h = FOPO_PLATFORM_REMAPS && h->mapped > 0 ? resize_mapping(h, bytes) : resize_copy(h, bytes);
  if (h == NULL) return refused(n, size);
  count_blocks(0, bytes, before);
  return (char *)h + HEAD;
}

int fopo_resize(void *array, size_t n, size_t size) {
  void *block;
  memcpy(&block, array, sizeof block);
  block = fopo_realloc(block, n, size);
  if (block == NULL) return FOPO_ERR_MEMORY;
  memcpy(array, &block, sizeof block);
  return FOPO_OK;
}

void fopo_free(void *block) {
  if (block == NULL) return;
  head *h = head_of(block);
  atomic_fetch_sub(&live_blocks, 1);
  atomic_fetch_sub(&live_bytes, h->bytes);
  free_block(h);
}

void fopo_memory_limit(uint64_t bytes) { most_bytes = bytes; }

uint64_t fopo_memory_limited(void) { return most_bytes; }

int fopo_memory_charge(size_t before, size_t after) {
  if (after > before && after - before > left_in_limit()) return 0;
  atomic_fetch_add(&charged_bytes, after - before);
  return 1;
}

fopo_memory_use fopo_memory_in_use(void) {
  return (fopo_memory_use){atomic_load(&live_blocks), atomic_load(&live_bytes),
                           atomic_load(&peak_bytes), atomic_load(&foreseen_bytes)};
}

void fopo_memory_mark(void) {
  size_t now = atomic_load(&live_bytes);
  atomic_store(&peak_bytes, now);
  atomic_store(&foreseen_bytes, now);
}

void fopo_memory_fail_after(long n, int forever) {
  atomic_store(&fail_forever, forever);
  atomic_store(&fail_countdown, n);
}

/* ---- free memory ---- */

/* The number behind `key` in a file of "key number" lines; with key "", the number it starts with.
 * UINT64_MAX if there is no such number ("max" in a cgroup file). */
static uint64_t number_in(const char *path, const char *key) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return UINT64_MAX;
  char line[256];
  uint64_t value = UINT64_MAX;
  size_t length = strlen(key);
  while (value == UINT64_MAX && fgets(line, sizeof line, file) != NULL) {
    unsigned long long number;
    if (strncmp(line, key, length) == 0 && sscanf(line + length, "%llu", &number) == 1) {
      value = number;
    }
  }
  fclose(file);
  return value;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Bytes that one cgroup still allows: its limit minus its use, without the file pages that the
 * kernel drops on demand. */
static uint64_t left_in_cgroup(const char *folder, const char *limit, const char *use,
                               const char *idle) {
  char path[4400];
  snprintf(path, sizeof path, "%s/%s", folder, limit);
  uint64_t most = number_in(path, "");
  snprintf(path, sizeof path, "%s/%s", folder, use);
  uint64_t used = number_in(path, "");
  if (most == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  uint64_t droppable = number_in(path, idle);
  if (droppable != UINT64_MAX) used = minus(used, droppable);
  return minus(most, used);
}

/* The least over a cgroup and its ancestors. `group`, its path under `mount`, is destroyed. */
static uint64_t left_in_ancestors(const char *mount, char *group, int version) {
  uint64_t left = UINT64_MAX;
  for (;;) {
    char folder[4200];
    snprintf(folder, sizeof folder, "%s%s", mount, group);
    left = least(left, version == 2
                           ? left_in_cgroup(folder, "memory.max", "memory.current", "inactive_file")
                           : left_in_cgroup(folder, "memory.limit_in_bytes",
                                            "memory.usage_in_bytes", "total_inactive_file"));
    char *slash = strrchr(group, '/');
    if (slash == NULL) return left;
    *slash = '\0';
  }
}

/* /proc/self/cgroup has "0::/path" (version 2) and "n:memory:/path" (version 1). */
static uint64_t left_in_cgroups(void) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL) return UINT64_MAX;
  char line[4096];
  uint64_t left = UINT64_MAX;
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *names = strchr(line, ':');
    char *group = names == NULL ? NULL : strchr(names + 1, ':');
    if (group == NULL) continue;
    *group++ = '\0';
    if (names[1] == '\0') left = least(left, left_in_ancestors("/sys/fs/cgroup", group, 2));
    if (strcmp(names + 1, "memory") == 0) {
      left = least(left, left_in_ancestors("/sys/fs/cgroup/memory", group, 1));
    }
  }
  fclose(file);
  return left;
}

uint64_t fopo_memory_address_space(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  uint64_t pages = number_in("/proc/self/statm", "");
  if (pages == UINT64_MAX) return limit.rlim_cur;
  return minus(limit.rlim_cur, pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

uint64_t fopo_memory_available(void) {
  uint64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:");
  uint64_t left = kilobytes == UINT64_MAX ? UINT64_MAX : kilobytes * 1024;
  left = least(least(left, left_in_cgroups()), left_in_limit());
  return least(left, fopo_memory_address_space());
}

int fopo_memory_suffices(uint64_t bytes, const char *what, const char *remedy) {
  if (bytes < SIZE_MAX / 2) raise_to(&foreseen_bytes, atomic_load(&live_bytes) + bytes);
  if (bytes < ASK_FROM) return FOPO_OK;
  uint64_t left = fopo_memory_available();
  if (left == UINT64_MAX || bytes <= left - left / 10) return FOPO_OK;
  return fopo_fail(FOPO_ERR_MEMORY, "%s needs %.2f GB, %.2f GB are free; %s", what,
                   (double)bytes / 1e9, (double)left / 1e9, remedy);
}
