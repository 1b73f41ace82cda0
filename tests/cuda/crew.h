/* What blocks.cc and lanes.cc know of the threads of the blocks that run. */
#ifndef CUDA_EMULATION_CREW_H
#define CUDA_EMULATION_CREW_H

#include <semaphore.h>
#include <ucontext.h>

#include "machine.h"
#include "races.h"

namespace emulation {

enum { MOST_THREADS = 1024, WARPS = MOST_THREADS / 32, STACK = 64 << 10, MOST_CREWS = 4 };

struct barrier {
  unsigned waiting;
  bool vote, result; /* of those that wait; of those that it let through last */
  place where;
};

/* Lanes that wait for each other: those of the mask. */
struct meeting {
  uint32_t mask, arrived; /* arrived 0: free */
  collective kind;
  place where;
};

struct warp {
  meeting meetings[32];
  unsigned open; /* meetings that have begun */
  uint32_t ended;
};

/* What a switch to a thread needs, in one line of the cache. */
struct alignas(64) fiber {
  void *here[5];       /* where it goes on, by __builtin_setjmp */
  uint64_t given, got; /* in a meeting */
  unsigned from;
  bool begun;
};

/* The rest of a thread. */
struct coroutine {
  ucontext_t context;
  char *stack;
  uint32_t operands[6]; /* of a product of matrices */
  float sums[4];
  std::vector<async_copy> copies; /* under way, oldest first */
  unsigned groups;                /* of copies, that it has closed */
#if defined(__SANITIZE_ADDRESS__)
  void *fake;
#endif
};

/* The order in which threads take turns. A place of it is a row and a bit of that row's words. */
struct schedule {
  uint16_t order[MOST_THREADS], place_of[MOST_THREADS];
  uint32_t living[WARPS], ready[WARPS]; /* have not ended; can go on */
  uint32_t prompt[WARPS];               /* have a turn in every round */
  uint32_t others;                      /* ~0 in a round of all threads, else 0 */
  unsigned row, bit, end;               /* where the next turn is looked for, up to row `end` */
  bool by_rows;                         /* a row goes on until none of its threads can */
};

/* What runs one block after another. */
struct crew {
  fiber fibers[MOST_THREADS];
  coroutine coroutines[MOST_THREADS];
  warp warps[WARPS];
  barrier of_block;
  schedule turns;
  void *scheduler[5]; /* by __builtin_setjmp */
  unsigned running, alive, threads;
  std::vector<char> dynamic;
  races::watcher *watcher;
  sem_t turn;
  bool busy;
#if defined(__SANITIZE_ADDRESS__)
  void *scheduler_fake;
  const void *scheduler_stack; /* known from the first switch on */
  size_t scheduler_size;
#endif
};

extern constinit thread_local crew *mine;

/* Lets other threads run; returns when this thread's turn comes again. */
void yield_turn();
/* The same, of a thread that could go on: it lets other warps run, too. */
void pass_turn();
/* Lets another block run, if blocks run side by side and the dice say so. */
void maybe_change_blocks(uint32_t one_in);

/* tensor.cc: the product of the 16 x 16 and 16 x 8 matrices that the lanes of a warp hold. */
void multiply(coroutine *lanes);

inline uint32_t bit_of(const schedule &s, unsigned thread) { return 1u << s.place_of[thread] % 32; }
inline void let_go_on(schedule &s, unsigned thread) {
  s.ready[s.place_of[thread] / 32] |= bit_of(s, thread);
}
inline void let_wait(schedule &s, unsigned thread) {
  s.ready[s.place_of[thread] / 32] &= ~bit_of(s, thread);
}

/* lanes.cc: the threads that waited at the block's barrier go on. */
void open_barrier(crew *c);
/* Ends the program if others wait for this thread, which has ended. */
void check_ended(crew *c, unsigned thread);

/* While one lives, accesses are the emulation's and not the kernel's. */
struct outside_kernel {
  crew *c = mine;
  outside_kernel() { races::pause(c->watcher); }
  ~outside_kernel() {
    races::resume(c->watcher, c->running, c->coroutines[c->running].stack, STACK);
  }
};

} // namespace emulation

#endif
