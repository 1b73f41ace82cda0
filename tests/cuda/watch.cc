/* The accesses of the kernels, as the compiler's ThreadSanitizer tells them: whether their memory
 * is the card's, a block's or nobody's, and the cells of their words, which races.cc judges. */
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "watcher.h"

namespace emulation {
namespace races {

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

void forget(watcher *w, const void *at, size_t bytes) {
  const char *x = (const char *)at;
  bool dynamic = (size_t)(x - w->dynamic) < w->dynamic_bytes;
  std::vector<cell> &cells = dynamic ? w->of_dynamic : w->of_fixed;
  size_t first = (size_t)(x - (dynamic ? w->dynamic : w->fixed)) / 4;
  for (size_t i = first; i < first + bytes / 4 && i < cells.size(); i++) cells[i].write[0] = {};
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

void find_shared(watcher *w) {
  if (w->fixed != nullptr) return;
  dl_iterate_phdr(find_fixed, w);
  w->of_fixed.assign(w->fixed_bytes / 4 + 1, cell{});
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

void touch(const void *at, size_t bytes, kind how, const void *from) {
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
