/* What races.cc, which knows the rules, and watch.cc, which sees the accesses, have together. */
#ifndef CUDA_EMULATION_WATCHER_H
#define CUDA_EMULATION_WATCHER_H

#include <map>

#include "machine.h"
#include "races.h"

namespace emulation {
namespace races {

/* ---- time: it goes on at each barrier and fence ---- */

extern uint32_t now, launched;

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

extern __thread watcher *active; /* nullptr: accesses are the emulation's */

/* ---- races.cc ---- */

enum kind { READ, WRITE, ATOMIC };

/* An access of the words whose cells are those from `base` on. */
void touch_words(const watcher *w, cell *cells, const char *base, const char *x, size_t bytes,
                 kind how, uint32_t site, const char *where);

/* Ends the program with a sentence about the access at `site`. */
[[noreturn]] void say(const watcher *w, const char *what, uint32_t site);

/* Where the object of the kernels begins. */
const char *module_base();

/* ---- watch.cc ---- */

/* An access by the thread that runs, from the code at `from`. */
void touch(const void *at, size_t bytes, kind how, const void *from);

/* Finds the variables that are __shared__, once. */
void find_shared(watcher *w);

} // namespace races
} // namespace emulation

#endif
