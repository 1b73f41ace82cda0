/* The watcher of the kernels' accesses, in a build with -fsanitize=thread and EMULATION_RACES: the
 * compiler then calls races.cc, in the place of ThreadSanitizer's runtime, before each access.
 * In other builds it is nothing. */
#ifndef CUDA_EMULATION_RACES_H
#define CUDA_EMULATION_RACES_H

#include <stddef.h>
#include <stdint.h>

namespace emulation {
namespace races {

struct watcher; /* of the block that a thread of the host runs */

#ifdef EMULATION_RACES
void own(const void *x, size_t bytes, bool live); /* a block of device memory */
void close_gap(const void *x, size_t bytes);
void open_gaps(void);
watcher *new_watcher();
void begin_launch();
void begin_block(watcher *w, uint32_t block, unsigned threads, const void *dynamic, size_t bytes);
void resume(watcher *w, unsigned thread, const void *stack, size_t bytes);
void pause(watcher *w);   /* until resume its accesses are the emulation's */
void barrier(watcher *w); /* all threads of the block have come */
void warp_barrier(watcher *w, unsigned warp, uint32_t mask);
void fence(watcher *w, unsigned thread);
void atomic(watcher *w, unsigned thread, const volatile void *x, size_t bytes, const void *from);
void forget(watcher *w, const void *x, size_t bytes); /* shared memory that a copy will write */
#else
inline void own(const void *, size_t, bool) {}
inline void close_gap(const void *, size_t) {}
inline void open_gaps(void) {}
inline watcher *new_watcher() { return nullptr; }
inline void begin_launch() {}
inline void begin_block(watcher *, uint32_t, unsigned, const void *, size_t) {}
inline void resume(watcher *, unsigned, const void *, size_t) {}
inline void pause(watcher *) {}
inline void barrier(watcher *) {}
inline void warp_barrier(watcher *, unsigned, uint32_t) {}
inline void fence(watcher *, unsigned) {}
inline void atomic(watcher *, unsigned, const volatile void *, size_t, const void *) {}
inline void forget(watcher *, const void *, size_t) {}
#endif

} // namespace races
} // namespace emulation

#endif
