/* The emulated card's memory: pages that the host cannot touch while no kernel runs. An address is
 * not given twice while any block lives, so memory that was released is noticed. */
#include <stdlib.h>
#include <sys/mman.h>

#include "machine.h"
#include "races.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(x, n)   ((void)(x), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(x, n) ((void)(x), (void)(n))
#endif

namespace emulation {

static const size_t PAGE = 4096, MARKED = 1 << 20;
static char *arena;
static long copies;
static size_t top, in_use, sent, limit = (size_t)2 << 30;
struct block {
  char *x;
  size_t bytes;
};
static std::vector<block> blocks;
static std::vector<block> pinned; /* on the host */

const char *arena_base() { return arena; }

bool in_arena(const void *x) {
  return arena != nullptr && (size_t)((const char *)x - arena) < ARENA;
}

static void open_memory(bool open) {
  if (top > 0 && mprotect(arena, top, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    give_up("its memory cannot be opened or closed");
  }
}

int on_device::depth;
on_device::on_device() {
  if (depth++ == 0) open_memory(true);
}
on_device::~on_device() {
  if (--depth == 0) open_memory(false);
}

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE + PAGE; }

/* Blocks are in the order of their addresses. */
static std::vector<block>::iterator find(const void *x) {
  auto after = std::upper_bound(blocks.begin(), blocks.end(), (const char *)x,
                                [](const char *p, const block &b) { return p < b.x; });
  if (after == blocks.begin()) return blocks.end();
  auto b = after - 1;
  return (const char *)x < b->x + (b->bytes > 0 ? b->bytes : 1) ? b : blocks.end();
}

const char *block_of(const void *x, size_t *bytes) {
  auto b = find(x);
  if (b == blocks.end()) return nullptr;
  *bytes = b->bytes;
  return b->x;
}

void check_range(const void *x, size_t bytes, const char *what) {
  held here(lock);
  auto b = find(x);
  if (bytes == 0) return;
  if (b == blocks.end()) give_up("%s uses memory that is not the card's, or was released", what);
  if ((const char *)x + bytes > b->x + b->bytes) {
    give_up("%s goes beyond a block of device memory", what);
  }
}

void check_pointer(const void *x) {
  held here(lock);
  if (x != nullptr && find(x) == blocks.end()) {
    auto end = find((const char *)x - 1); /* a pointer one past the end is allowed */
    if (end == blocks.end()) give_up("a kernel was given a pointer that is not device memory");
  }
}

/* ---- gaps behind the arrays in scratch: they keep their NaNs ---- */

static std::vector<block> gaps;
static cudaStream_t stream_of_gaps;

/* Under the address sanitizer the gaps are poisoned, and it tells of a write by itself. */
__attribute__((no_sanitize("address"))) void check_gaps() {
  for (const block &gap : gaps) {
    for (size_t i = 0; i < gap.bytes; i++) {
      if (gap.x[i] != (char)0xff) give_up("an array in scratch memory was written beyond its end");
    }
  }
}

/* Calls f for each gap that lies in [x, x + bytes): one call may clear several arrays. */
template <class F> static void each_gap(const void *x, size_t bytes, F f) {
  for (const block &gap : gaps) {
    if (gap.x >= (const char *)x && gap.x + gap.bytes <= (const char *)x + bytes) f(gap);
  }
}

static void drop_gaps() {
  for (const block &gap : gaps) ASAN_UNPOISON_MEMORY_REGION(gap.x, gap.bytes);
  check_gaps();
  gaps.clear();
  races::open_gaps();
}

void begin_gaps(char *scratch, cudaStream_t stream) {
  held here(lock);
  if (stream != nullptr) stream_of_gaps = stream;
  if (scratch == nullptr) return;
  put_off(stream_of_gaps, {[] {
                             on_device open;
                             drop_gaps();
                           },
                           nullptr});
}

void add_gap(char *x, size_t bytes) {
  held here(lock);
  auto close = [=] {
    on_device open;
    memset(x, 0xff, bytes);
    ASAN_POISON_MEMORY_REGION(x, bytes);
    gaps.push_back({x, bytes});
    races::close_gap(x, bytes);
  };
  put_off(stream_of_gaps, {close, nullptr});
}

void misaligned() { give_up("a load is not aligned to its size"); }

} // namespace emulation

using namespace emulation;

extern "C" void emulation_memory(size_t bytes) { limit = bytes; }
extern "C" size_t emulation_live(void) { return blocks.size() + others; }
extern "C" size_t emulation_sent(void) { return sent; }
extern "C" long emulation_copies(void) { return copies; }

cudaError_t cudaMalloc(void **device, size_t bytes) {
  held here(lock);
  cudaError_t error = call();
  if (error == cudaSuccess) error = outside_capture();
  if (error != cudaSuccess) return error;
  if (in_use + bytes > limit) return last_error = 2, cudaErrorMemoryAllocation;
  if (arena == nullptr) {
    arena =
        (char *)mmap(nullptr, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == (char *)MAP_FAILED) give_up("no address space for its memory");
  }
  if (top + pages(bytes) > ARENA) give_up("its address space is used up");
  block b = {arena + top, bytes};
  top += pages(bytes);
  on_device open;
  ASAN_UNPOISON_MEMORY_REGION(b.x, bytes);
  memset(b.x, 0xff, bytes < MARKED ? bytes : MARKED); /* NaN, and ids beyond any catalogue */
  ASAN_POISON_MEMORY_REGION(b.x + bytes, pages(bytes) - bytes);
  blocks.push_back(b);
  races::own(b.x, bytes, true);
  in_use += bytes;
  *device = b.x;
  return cudaSuccess;
}

cudaError_t cudaFree(void *device) {
  held here(lock);
  cudaError_t error = call(); /* freed in any case: the error belongs to earlier work */
  if (device == nullptr) return error;
  if (outside_capture() != cudaSuccess) give_up("memory is freed while a stream is captured");
  catch_up_all();
  auto b = find(device);
  if (b == blocks.end() || b->x != device) {
    give_up("a pointer is freed that is no block of device memory");
  }
  if (!gaps.empty() && find(gaps[0].x) == b) {
    on_device open;
    drop_gaps();
  }
  madvise(b->x, pages(b->bytes), MADV_DONTNEED);
  ASAN_POISON_MEMORY_REGION(b->x, b->bytes);
  races::own(b->x, b->bytes, false);
  in_use -= b->bytes;
  blocks.erase(b);
  if (blocks.empty()) top = 0;
  return error;
}

cudaError_t cudaMallocHost(void **host, size_t bytes) {
  held here(lock);
  cudaError_t error = call();
  if (error == cudaSuccess) error = outside_capture();
  *host = nullptr;
  if (error != cudaSuccess) return error;
  *host = malloc(bytes);
  pinned.push_back({(char *)*host, bytes});
  others++;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *host) {
  held here(lock);
  if (outside_capture() != cudaSuccess) give_up("memory is freed while a stream is captured");
  catch_up_all();
  auto b = std::find_if(pinned.begin(), pinned.end(), [=](const block &x) { return x.x == host; });
  if (b == pinned.end()) give_up("a pointer is freed that is no pinned memory");
  pinned.erase(b);
  free(host);
  others--;
  return call();
}

/* The host's memory is read and written when the stream comes to the copy, whether it is pinned or
 * pageable: of the program's own, a driver may have done it before the call returns, or not. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  if (kind == cudaMemcpyHostToDevice) sent += bytes;
  copies++;
  if (kind != cudaMemcpyDeviceToDevice) { /* the program would copy an old place at each replay */
    error = outside_capture();
    if (error != cudaSuccess) return error;
  }
  auto check = [=] {
    if (kind != cudaMemcpyDeviceToHost) check_range(to, bytes, "a copy");
    if (kind != cudaMemcpyHostToDevice) check_range(from, bytes, "a copy");
    const void *host = kind == cudaMemcpyHostToDevice ? from : to;
    if (kind != cudaMemcpyDeviceToDevice && in_arena(host)) give_up("a copy has the wrong kind");
  };
  put_off(stream, {[=] {
                     on_device open;
                     memcpy(to, from, bytes);
                   },
                   check});
  return cudaSuccess;
}

/* Whole pages of zeros are given back, so that a block which is larger than the machine's memory
 * may be cleared. */
static void clear_pages(char *x, size_t bytes) {
  char *first = arena + ((size_t)(x - arena) + PAGE - 1) / PAGE * PAGE;
  char *end = arena + (size_t)(x + bytes - arena) / PAGE * PAGE;
  memset(x, 0, (size_t)(first - x));
  madvise(first, (size_t)(end - first), MADV_DONTNEED);
  memset(end, 0, (size_t)(x + bytes - end));
}

cudaError_t cudaMemsetAsync(void *device, int value, size_t bytes, cudaStream_t stream) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  put_off(stream, {[=] {
                     on_device open;
                     each_gap(device, bytes, [](const block &gap) {
                       ASAN_UNPOISON_MEMORY_REGION(gap.x, gap.bytes);
                     });
                     if (value == 0 && bytes >= 16 * MARKED) {
                       clear_pages((char *)device, bytes);
                     } else {
                       memset(device, value, bytes);
                     }
                     each_gap(device, bytes, [](const block &gap) {
                       memset(gap.x, 0xff, gap.bytes);
                       ASAN_POISON_MEMORY_REGION(gap.x, gap.bytes);
                     });
                   },
                   [=] { check_range(device, bytes, "clearing"); }});
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
  held here(lock);
  *all = limit;
  *left = limit > in_use ? limit - in_use : 0;
  return call();
}
