/* What kernels do with memory, watched access by access: the compiler's ThreadSanitizer calls
 * watch.cc, in the place of its own runtime, which knows no blocks, warps and fences of a
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
#include <dlfcn.h>
#include <stdio.h>
#include <string>

#include "watcher.h"

namespace emulation {
namespace races {

uint32_t now = 1, launched;
__thread watcher *active;

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

const char *module_base() {
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

void say(const watcher *w, const char *what, uint32_t site) {
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

void touch_words(const watcher *w, cell *cells, const char *base, const char *x, size_t bytes,
                 kind how, uint32_t site, const char *where) {
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
  find_shared(w);
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

void fence(watcher *w, unsigned thread) {
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
