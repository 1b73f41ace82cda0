/* What kernels do with memory, watched access by access: the compiler's ThreadSanitizer calls the
 * functions below, in the place of its own runtime, which knows no blocks, warps and fences of a
 * card. The program ends with both places of a race: two accesses of one word by two threads, one
 * of them a write, of which neither
 *   - comes before a barrier of the block that the other comes after (__syncthreads), nor
 *   - before a __syncwarp whose mask names both lanes, nor
 *   - before a fence of its thread, then an atomic operation of a thread that this fence is known
 *     to, then one on the same word by another thread, then a fence (__threadfence), nor
 *   - belongs to an earlier launch.
 * Exchanges of a warp order nothing, and neither does the order in which lanes happen to run. So a
 * race is found in any schedule that comes to both accesses.
 *
 * It ends too if a kernel touches memory that is not the card's or was released, or goes beyond a
 * block of it; reads shared memory that no thread of its block has written; or misaligns an access,
 * which the compiler's checks of undefined behaviour report here. */
#include "races.h"

#include <dlfcn.h>
#include <link.h>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>

#include "machine.h"

namespace emulation {
namespace races {

/* ---- time: it goes on at each barrier and fence ---- */

static uint32_t now = 1, launched;

struct access {
  uint32_t block, clock; /* clock 0: there is none */
  uint32_t site;         /* in the object's code */
  uint16_t thread;
  uint8_t bytes; /* a bit for each of the word's four */
  bool atomic;
};

/* The last accesses of a word of 4 bytes; each pair by different threads, or of different bytes. */
struct cell {
  access write[2], read[2];
};

/* By block, for each of its threads: its accesses before this time are known. */
typedef std::map<uint32_t, std::vector<uint32_t>> knowledge;

struct watcher {
  uint32_t block, begun, last_barrier;
  unsigned threads, thread;
  const char *stack, *dynamic, *fixed; /* fixed: the variables that are __shared__ */
  size_t stack_bytes, dynamic_bytes, fixed_bytes;
  std::vector<cell> of_dynamic, of_fixed;
  uint32_t seen[1024][32]; /* by thread: up to when it knows the lanes of its warp */
  uint32_t fenced[1024], fenced_at_barrier[1024];
  bool any_known;
  knowledge known, observed;                       /* of all threads of the block */
  std::map<unsigned, knowledge> own, own_observed; /* of one thread, since the last barrier */
};

static thread_local watcher *active;

static void join(knowledge *into, const knowledge &from) {
  for (const auto &[block, clocks] : from) {
    std::vector<uint32_t> &mine = (*into)[block];
    if (mine.size() < clocks.size()) mine.resize(clocks.size());
    for (size_t i = 0; i < clocks.size(); i++) mine[i] = std::max(mine[i], clocks[i]);
  }
}

static bool knows(const knowledge &k, const access &a) {
  auto found = k.find(a.block);
  return found != k.end() && a.thread < found->second.size() && a.clock < found->second[a.thread];
}

/* Whether an earlier access comes before whatever the running thread does now. */
static bool is_before(const watcher *w, const access &a) {
  if (a.clock < launched) return true;
  if (a.block == w->block) {
    if (a.thread == w->thread || a.clock < w->last_barrier) return true;
    if (a.thread / 32 == w->thread / 32 && a.clock < w->seen[w->thread][a.thread % 32]) return true;
  }
  if (!w->any_known) return false;
  auto own = w->own.find(w->thread);
  return knows(w->known, a) || (own != w->own.end() && knows(own->second, a));
}

/* ---- what is said ---- */

static const char *module_base() {
  static const char *base = [] {
    Dl_info about = {};
    dladdr((const void *)&module_base, &about);
    return (const char *)about.dli_fbase;
  }();
  return base;
}

/* function at file:line, by addr2line if it is there; of a load in language.h, its caller. */
static std::string name_of(uint32_t site) {
  Dl_info about = {};
  char line[4096], command[4600];
  dladdr((const void *)&name_of, &about);
  snprintf(command, sizeof command, "addr2line -sCpif -e '%s' 0x%x 2>/dev/null", about.dli_fname,
           site - 1);
  FILE *pipe = popen(command, "r");
  std::string name;
  while (pipe != nullptr && fgets(line, sizeof line, pipe) != nullptr) {
    line[strcspn(line, "\n")] = '\0';
    if (name.empty()) name = line + (strncmp(line, " (inlined by) ", 14) == 0 ? 14 : 0);
    if (name.find(" at language.h:") != std::string::npos) name.clear();
  }
  if (pipe != nullptr) pclose(pipe);
  snprintf(line, sizeof line, "0x%x", site);
  return name.empty() ? line : name;
}

[[noreturn]] static void say(const watcher *w, const char *what, uint32_t site) {
  give_up("%s: thread %u of block %u, %s", what, w->thread, w->block, name_of(site).c_str());
}

[[noreturn]] static void say_race(const watcher *w, const access &before, bool wrote_before,
                                  bool writes, uint32_t site, const char *where) {
  give_up("a race in %s memory: thread %u of block %u %s at %s; thread %u of block %u %s at %s",
          where, before.thread, before.block, wrote_before ? "wrote" : "read",
          name_of(before.site).c_str(), w->thread, w->block, writes ? "writes" : "reads",
          name_of(site).c_str());
}

/* ---- an access of one word ---- */

static bool clash(const watcher *w, const access &before, const access &a) {
  return before.clock != 0 && (before.bytes & a.bytes) != 0 && !(before.atomic && a.atomic) &&
         !is_before(w, before);
}

static bool same_thread(const access &x, const access &y) {
  return x.block == y.block && x.thread == y.thread;
}

static void read_word(const watcher *w, cell &c, const access &a, const char *where) {
  access &last = c.read[0];
  if (same_thread(last, a) && last.clock == a.clock && (last.bytes & a.bytes) == a.bytes) return;
  for (const access &x : c.write) {
    if (clash(w, x, a)) say_race(w, x, true, false, a.site, where);
  }
  if (!same_thread(last, a)) c.read[1] = last;
  last = a;
}

static void write_word(const watcher *w, cell &c, const access &a, const char *where) {
  for (const access &x : c.write) {
    if (clash(w, x, a)) say_race(w, x, true, true, a.site, where);
  }
  for (const access &x : c.read) {
    if (clash(w, x, a)) say_race(w, x, false, true, a.site, where);
  }
  if ((c.write[0].bytes & ~a.bytes) != 0) c.write[1] = c.write[0];
  c.write[0] = a;
  if (a.bytes == 15) c.read[0] = c.read[1] = {};
}

enum kind { READ, WRITE, ATOMIC };

/* cells: of the words from `base` on. */
static void touch_words(const watcher *w, cell *cells, const char *base, const char *x,
                        size_t bytes, kind how, uint32_t site, const char *where) {
  size_t first = (size_t)(x - base), end = first + bytes;
  for (size_t at = first / 4; at * 4 < end; at++) {
    size_t low = at * 4 < first ? first - at * 4 : 0, high = std::min(end - at * 4, (size_t)4);
    uint8_t mask = (uint8_t)((1u << high) - (1u << low));
    access a = {w->block, now, site, (uint16_t)w->thread, mask, how == ATOMIC};
    if (how == READ) {
      read_word(w, cells[at], a, where);
    } else {
      write_word(w, cells[at], a, where);
    }
  }
}

/* ---- device memory ---- */

static const size_t PAGE = 4096;
static cell *of_device; /* of the whole arena's words; untouched pages take no memory */
static uint32_t *owner; /* by page: 1 + the block's place in */
static std::vector<std::pair<const char *, size_t>> owned;

template <class T> static T *reserve_pages(size_t n) {
  void *x = mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (x == MAP_FAILED) give_up("no address space to watch its memory");
  return (T *)x;
}

void own(const void *x, size_t bytes, bool live) {
  if (of_device == nullptr) {
    of_device = reserve_pages<cell>(ARENA / 4);
    owner = reserve_pages<uint32_t>(ARENA / PAGE);
  }
  size_t first = (size_t)((const char *)x - arena_base()), end = first + std::max(bytes, (size_t)1);
  if (live) owned.push_back({(const char *)x, bytes});
  for (size_t page = first / PAGE; page * PAGE < end; page++) {
    owner[page] = live ? (uint32_t)owned.size() : 0;
  }
  /* the cells of whole pages: blocks begin at pages */
  madvise(of_device + first / 4, (end - first + PAGE - 1) / PAGE * PAGE / 4 * sizeof(cell),
          MADV_DONTNEED);
}

/* Behind the arrays in scratch: bytes and where they begin, in ascending order. */
static std::map<const char *, size_t> gaps;

void close_gap(const void *x, size_t bytes) { gaps[(const char *)x] = bytes; }

void open_gaps() { gaps.clear(); }

static bool in_gap(const char *x, size_t bytes) {
  auto after = gaps.lower_bound(x + bytes);
  if (after == gaps.begin()) return false;
  const auto &[begin, size] = *--after;
  return begin + size > x;
}

static void touch_device(const watcher *w, const char *x, size_t bytes, kind how, uint32_t site) {
  size_t page = (size_t)(x - arena_base()) / PAGE;
  uint32_t block = owner[page];
  if (block == 0 && page > 0) block = owner[page - 1]; /* a little beyond it */
  if (block == 0) say(w, "a kernel touches memory that was released or never given", site);
  const auto &[begin, size] = owned[block - 1];
  if (x + bytes > begin + size) say(w, "a kernel goes beyond a block of device memory", site);
  if (in_gap(x, bytes)) say(w, "a kernel goes beyond an array in scratch memory", site);
  touch_words(w, of_device, arena_base(), x, bytes, how, site, "device");
}

/* ---- shared memory ---- */

static void touch_shared(watcher *w, std::vector<cell> &cells, const char *base, const char *x,
                         size_t bytes, kind how, uint32_t site) {
  for (size_t at = (size_t)(x - base) / 4; at * 4 < (size_t)(x - base) + bytes; at++) {
    if (cells[at].write[0].clock >= w->begun) continue;
    if (how != WRITE) {
      say(w, "a kernel reads shared memory that no thread of its block has written", site);
    }
    cells[at] = {}; /* of an earlier block */
  }
  touch_words(w, cells.data(), base, x, bytes, how, site, "shared");
}

static int find_fixed(struct dl_phdr_info *about, size_t, void *to) {
  watcher *w = (watcher *)to;
  if ((const char *)about->dlpi_addr != module_base()) return 0;
  for (int i = 0; i < about->dlpi_phnum; i++) {
    if (about->dlpi_phdr[i].p_type == PT_TLS) w->fixed_bytes = about->dlpi_phdr[i].p_memsz;
  }
  w->fixed = (const char *)about->dlpi_tls_data;
  return 1;
}

/* ---- any access ---- */

/* Constants and tables that the compiler has made lie in the object itself. */
static bool is_constant(const char *x) {
  Dl_info about = {};
  return dladdr(x, &about) != 0 && (const char *)about.dli_fbase == module_base();
}

static bool within(const char *x, const char *base, size_t bytes) {
  return (size_t)(x - base) < bytes;
}

static void touch(const void *at, size_t bytes, kind how, const void *from) {
  watcher *w = active;
  const char *x = (const char *)at;
  if (w == nullptr || within(x, w->stack, w->stack_bytes) || bytes == 0) return;
  uint32_t site = (uint32_t)((const char *)from - module_base());
  if (in_arena(x)) return touch_device(w, x, bytes, how, site);
  if (within(x, w->fixed, w->fixed_bytes)) {
    for (const uint3 *number : {&threadIdx, &blockIdx, &blockDim, &gridDim}) {
      if (within(x, (const char *)number, sizeof *number)) return;
    }
    return touch_shared(w, w->of_fixed, w->fixed, x, bytes, how, site);
  }
  if (within(x, w->dynamic, w->dynamic_bytes + 64)) {
    if (x + bytes > w->dynamic + w->dynamic_bytes) {
      say(w, "a kernel goes beyond its dynamic shared memory", site);
    }
    return touch_shared(w, w->of_dynamic, w->dynamic, x, bytes, how, site);
  }
  if (how != READ || !is_constant(x)) say(w, "a kernel touches memory of the host", site);
}

/* ---- what blocks.cc tells ---- */

watcher *new_watcher() { return new watcher(); }

void begin_launch() { launched = ++now; }

void begin_block(watcher *w, uint32_t block, unsigned threads, const void *dynamic, size_t bytes) {
  w->block = block;
  w->threads = threads;
  w->begun = w->last_barrier = ++now;
  w->dynamic = (const char *)dynamic;
  w->dynamic_bytes = bytes;
  w->of_dynamic.assign(bytes / 4 + 1, cell{});
  if (w->fixed == nullptr) {
    dl_iterate_phdr(find_fixed, w);
    w->of_fixed.assign(w->fixed_bytes / 4 + 1, cell{});
  }
  memset(w->seen, 0, threads * sizeof w->seen[0]);
  memset(w->fenced, 0, sizeof w->fenced);
  memset(w->fenced_at_barrier, 0, sizeof w->fenced_at_barrier);
  w->any_known = false;
  w->known.clear(), w->observed.clear(), w->own.clear(), w->own_observed.clear();
}

void resume(watcher *w, unsigned thread, const void *stack, size_t bytes) {
  w->thread = thread;
  w->stack = (const char *)stack;
  w->stack_bytes = bytes;
  active = w;
}

void pause(watcher *) { active = nullptr; }

void barrier(watcher *w) {
  w->last_barrier = ++now;
  memcpy(w->fenced_at_barrier, w->fenced, sizeof w->fenced);
  for (const auto &[thread, k] : w->own) join(&w->known, k);
  for (const auto &[thread, k] : w->own_observed) join(&w->observed, k);
  w->own.clear(), w->own_observed.clear();
}

void warp_barrier(watcher *w, unsigned warp, uint32_t mask) {
  uint32_t all[32] = {}, tick = ++now;
  for (unsigned i = 0; i < 32; i++) {
    for (unsigned j = 0; j < 32 && (mask >> i & 1); j++) {
      all[j] = std::max(all[j], mask >> j & 1 ? tick : w->seen[warp * 32 + i][j]);
    }
  }
  for (unsigned i = 0; i < 32; i++) {
    if (mask >> i & 1) memcpy(w->seen[warp * 32 + i], all, sizeof all);
  }
}

/* A fence of the block's scope orders nothing between blocks; within a block it is taken for none,
 * so that barriers must order what they can. */
void fence(watcher *w, unsigned thread, bool of_block) {
  if (of_block) return;
  w->thread = thread;
  w->fenced[w->thread] = ++now;
  auto seen = w->own_observed.find(w->thread);
  if (seen != w->own_observed.end()) {
    join(&w->own[w->thread], seen->second);
    w->any_known = true;
  }
  if (!w->observed.empty()) {
    join(&w->own[w->thread], w->observed);
    w->any_known = true;
  }
}

/* What is known to who finds a value that an atomic operation has left. */
static std::map<const volatile void *, knowledge> left;
static uint32_t left_in;

void atomic(watcher *w, unsigned thread, const volatile void *x, size_t bytes, const void *from) {
  w->thread = thread;
  active = w;
  touch((const void *)x, bytes, ATOMIC, from);
  active = nullptr;
  if (!in_arena((const void *)x)) return;
  if (left_in != launched) left.clear(), left_in = launched;
  knowledge mine = w->known;
  auto own = w->own.find(w->thread);
  if (own != w->own.end()) join(&mine, own->second);
  std::vector<uint32_t> fenced(w->fenced_at_barrier, w->fenced_at_barrier + w->threads);
  fenced[w->thread] = w->fenced[w->thread];
  if (std::any_of(fenced.begin(), fenced.end(), [](uint32_t clock) { return clock > 0; })) {
    join(&mine, {{w->block, fenced}});
  }
  auto there = left.find(x);
  if (there != left.end()) join(&w->own_observed[w->thread], there->second);
  if (!mine.empty()) join(&left[x], mine);
}

} // namespace races
} // namespace emulation

/* ---- what the compiler calls ---- */

using namespace emulation::races;

#define HOOK extern "C" __attribute__((visibility("default")))
#define HERE __builtin_return_address(0)

HOOK void __tsan_init(void) {}
HOOK void __tsan_func_entry(void *) {}
HOOK void __tsan_func_exit(void) {}
#define HOOKS(n)                                                                                   \
  HOOK void __tsan_read##n(void *x) { touch(x, n, READ, HERE); }                                   \
  HOOK void __tsan_write##n(void *x) { touch(x, n, WRITE, HERE); }                                 \
  HOOK void __tsan_unaligned_read##n(void *x) { touch(x, n, READ, HERE); }                         \
  HOOK void __tsan_unaligned_write##n(void *x) { touch(x, n, WRITE, HERE); }                       \
  HOOK void __tsan_volatile_read##n(void *x) { touch(x, n, READ, HERE); }                          \
  HOOK void __tsan_volatile_write##n(void *x) { touch(x, n, WRITE, HERE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
HOOK void __tsan_read_range(void *x, size_t n) { touch(x, n, READ, HERE); }
HOOK void __tsan_write_range(void *x, size_t n) { touch(x, n, WRITE, HERE); }
HOOK void __tsan_vptr_update(void **, void *) {}
/* of the host's own atomics */
HOOK int __tsan_atomic32_load(const volatile int *x, int) { return *x; }
HOOK void __tsan_atomic32_store(volatile int *x, int y, int) { *x = y; }

/* The beginning of what the checks of undefined behaviour hand over. */
struct checked {
  const char *file;
  uint32_t line, column;
};

#define UNDEFINED(name, what)                                                                      \
  HOOK void __ubsan_handle_##name(const checked *at, ...) {                                        \
    emulation::give_up("%s, at %s:%u", what, at->file, at->line);                                  \
  }
UNDEFINED(type_mismatch_v1, "an access is not aligned to its type")
UNDEFINED(out_of_bounds, "an index is beyond its array")
UNDEFINED(shift_out_of_bounds, "a shift by more bits than there are")
UNDEFINED(add_overflow, "a sum is too large for its type")
UNDEFINED(sub_overflow, "a difference is too large for its type")
UNDEFINED(mul_overflow, "a product is too large for its type")
UNDEFINED(negate_overflow, "a number is too large for its type")
UNDEFINED(divrem_overflow, "a division by 0")
