/* Shared by the parts of the emulation: host.cc has the calls that are no work of the card, and the
 * streams; memory.cc the card's memory; products.cc cuBLAS and CUB; blocks.cc runs kernels, and
 * races.cc watches their accesses. */
#ifndef CUDA_EMULATION_MACHINE_H
#define CUDA_EMULATION_MACHINE_H

#include <atomic>
#include <mutex>
#include <thread>

#include "cuda_emulation.h"

namespace emulation {

[[noreturn]] __attribute__((format(printf, 1, 2))) void give_up(const char *format, ...);

/* A recursive mutex. A child of fork holds it like its parent, whose thread has the same name, but
 * not the same number, by which std::recursive_mutex knows it. */
class whole_lock {
  std::mutex mutex;
  std::atomic<std::thread::id> owner{};
  unsigned depth = 0;

public:
  void lock() {
    if (owner.load() != std::this_thread::get_id()) mutex.lock();
    owner = std::this_thread::get_id();
    depth++;
  }
  void unlock() {
    if (--depth > 0) return;
    owner = std::thread::id();
    mutex.unlock();
  }
};
extern whole_lock lock;
typedef std::lock_guard<whole_lock> held;
extern int last_error;
extern size_t others; /* streams and handles */

/* Counts a call and says what it must return. */
cudaError_t call();
/* For a call that a card forbids during a capture: fails with error 900 then. */
cudaError_t outside_capture();
bool capturing();

/* A piece of work of a stream. `check` is made when it is put off, and again when it begins and
 * when a graph that holds it is launched: all memory must still be there. */
struct job {
  std::function<void()> run, check;
  bool is_kernel = false; /* or a product: what a card launches */
};
void put_off(cudaStream_t stream, job x);
/* Does the work of a stream, or of all. */
void catch_up(cudaStream_t stream);
void catch_up_all();

/* Ends the program unless [x, x + bytes) lies in one block of device memory. */
void check_range(const void *x, size_t bytes, const char *what);
void check_gaps(void);                              /* behind the arrays in scratch */
const char *block_of(const void *x, size_t *bytes); /* nullptr: not in device memory */
bool in_arena(const void *x);
const char *arena_base();
constexpr size_t ARENA = (size_t)256 << 30;

struct on_device { /* while one lives, device memory is open */
  held holds{lock};
  static int depth;
  on_device();
  ~on_device();
};

/* Random numbers of the schedule: seed 0 runs threads and blocks in ascending order. */
unsigned seed();
uint32_t chance(uint32_t n); /* below n */

} // namespace emulation

#endif
