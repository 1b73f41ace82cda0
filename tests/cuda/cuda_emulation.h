/* The parts of the CUDA runtime, cuBLAS and CUB that src/device/cuda uses, emulated on the CPU: the
 * kernels are compiled by g++, and the threads of a block run as coroutines, which are switched
 * when they wait for each other. It tests the arithmetic and indexing of the kernels and the host's
 * side of every call. It says nothing about time, occupancy and the card's compiler.
 *
 * It is stricter than a card if that is cheap, and ends the program with a sentence. Work is
 * deferred until the host waits for it, as on a card that is far behind, and host memory is
 * read only then. The host cannot touch device memory between kernels; device memory starts as NaN
 * and ends at a guard (to the byte under AddressSanitizer), and so do arrays in scratch. Loads by
 * __ldg must be aligned. What a call, a kernel or a graph is given must be device memory when it is
 * put off, when it is launched and when it runs. Threads run, and blocks begin and take turns, in
 * an order that a seed draws (blocks.cc). Threads must meet at the same barrier; lanes must come
 * that a mask names. A build watches each access of the kernels for races (races.cc). And any call
 * can be made to fail. */
#ifndef CUDA_EMULATION_H
#define CUDA_EMULATION_H

#include <stddef.h>

#define EMULATION_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th call from now on (0: the next) gives `code`; with for_ever so do all that follow.
 * n < 0 switches it off. Kernel launches count as calls. */
EMULATION_API void emulation_fail_at(long n, int code, int for_ever);
/* Something to do at the beginning of every call, which may let just that call fail; NULL: nothing.
 */
EMULATION_API void emulation_at_calls(void (*act)(void));
EMULATION_API long emulation_calls(void);    /* made so far */
EMULATION_API size_t emulation_sent(void);   /* bytes copied from the host so far */
EMULATION_API long emulation_copies(void);   /* from and to the host so far */
EMULATION_API long emulation_launches(void); /* of kernels and products so far, of graphs too */
EMULATION_API long emulation_replays(void);  /* launches of graphs so far */
EMULATION_API long emulation_waits(void);    /* of the host for the stream so far */
EMULATION_API size_t emulation_live(void);   /* blocks, streams and handles not given back */
EMULATION_API void emulation_memory(size_t bytes); /* of the card; 2 GiB at first */
EMULATION_API void emulation_processors(int n);    /* of the card; 4 at first */
EMULATION_API void emulation_driver(int version);  /* 0: no driver; 13000 at first */

#ifdef __cplusplus
}

#include "calls.h"
#include "language.h"

namespace emulation {
/* A kernel with its arguments, which a thread of a block runs. */
struct task {
  virtual void run() const = 0;
  virtual void check() const = 0; /* its pointers */
  virtual ~task() = default;
};

bool enter_launch();                      /* counts the call; false: it must fail */
void put_off(std::function<void()> work); /* until the host waits */
void launch(size_t blocks, unsigned threads, size_t shared, cudaStream_t stream, const void *kernel,
            std::unique_ptr<task> kernel_with_arguments, bool together = false);
void check_pointer(const void *pointer);
void begin_gaps(char *scratch, cudaStream_t stream); /* in the order of its work; NULL: as before */
void add_gap(char *x, size_t bytes);                 /* nothing may touch it from then on */

template <class T> void check_argument(const T &x) {
  if constexpr (std::is_pointer_v<T>) check_pointer((const void *)x);
}

template <class... P> struct call_of final : task {
  void (*kernel)(P...);
  std::tuple<P...> arguments;
  call_of(void (*k)(P...), P... x) : kernel(k), arguments(x...) {}
  template <size_t... I>
  __attribute__((no_sanitize("thread"))) void call(std::index_sequence<I...>) const {
    kernel(std::get<I>(arguments)...);
  }
  __attribute__((no_sanitize("thread"))) void run() const override {
    call(std::index_sequence_for<P...>());
  }
  void check() const override {
    std::apply([](const P &...x) { (check_argument(x), ...); }, arguments);
  }
};
} // namespace emulation

namespace gpu {
template <class... P>
void start(void (*kernel)(P...), size_t blocks, unsigned threads, size_t shared,
           cudaStream_t stream, std::type_identity_t<P>... arguments) {
  if (!emulation::enter_launch()) return;
  emulation::launch(blocks, threads, shared, stream, (const void *)kernel,
                    std::make_unique<emulation::call_of<P...>>(kernel, arguments...));
}

/* Work in a stream is in order here. */
template <class... P>
void start_early(void (*kernel)(P...), size_t blocks, unsigned threads, size_t shared,
                 cudaStream_t stream, std::type_identity_t<P>... arguments) {
  start(kernel, blocks, threads, shared, stream, arguments...);
}
inline void await_inputs() {}

template <class... P>
void start_together(void (*kernel)(P...), size_t blocks, unsigned threads, size_t shared,
                    cudaStream_t stream, std::type_identity_t<P>... arguments) {
  if (!emulation::enter_launch()) return;
  emulation::launch(blocks, threads, shared, stream, (const void *)kernel,
                    std::make_unique<emulation::call_of<P...>>(kernel, arguments...), true);
}

template <class T> T *dynamic_shared() { return (T *)emulation::shared_memory(); }

constexpr size_t GAP = 256; /* bytes behind an array in scratch that nobody may touch */
using emulation::add_gap;
using emulation::begin_gaps;
} // namespace gpu

#endif
#endif
