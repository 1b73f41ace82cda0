/* What blocks.cc and lanes.cc know of the threads of the blocks that run. */
#ifndef CUDA_EMULATION_CREW_H
#define CUDA_EMULATION_CREW_H

#undef _FORTIFY_SOURCE /* its longjmp refuses to go from one coroutine's stack to another's */
#include <semaphore.h>
#include <setjmp.h>
#include <ucontext.h>

#include "machine.h"
#include "races.h"

namespace emulation {

enum { MOST_THREADS = 1024, WARPS = MOST_THREADS / 32, STACK = 64 << 10, MOST_CREWS = 4 };

struct barrier {
  unsigned waiting, generation;
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

/* What is looked at in every round of turns. */
struct fiber {
  const unsigned *gate; /* it waits while *gate is `closed` */
  unsigned closed;
  bool begun, done, waits_for_lanes;
  unsigned from;
  uint64_t given, got; /* in a meeting */
};

/* The rest of a thread. */
struct coroutine {
  ucontext_t context;
  jmp_buf here;
  char *stack;
  uint32_t operands[6]; /* of a product of matrices */
  float sums[4];
  std::vector<async_copy> copies; /* under way, oldest first */
  unsigned groups;                /* of copies, that it has closed */
#if defined(__SANITIZE_ADDRESS__)
  void *fake;
#endif
};

/* What runs one block after another. */
struct crew {
  fiber fibers[MOST_THREADS];
  coroutine coroutines[MOST_THREADS];
  warp warps[WARPS];
  barrier of_block;
  jmp_buf scheduler;
  unsigned running, alive, threads;
  uint16_t order[MOST_THREADS];
  std::vector<char> dynamic;
  races::watcher *watcher;
  sem_t turn;
  bool busy;
#if defined(__SANITIZE_ADDRESS__)
  void *scheduler_fake;
  const void *scheduler_stack;
  size_t scheduler_size;
#endif
};

extern thread_local crew *mine;

/* Back to the scheduler; returns when this thread's turn comes again. */
void yield_turn();
/* Lets another block run, if blocks run side by side and the dice say so. */
void maybe_change_blocks(uint32_t one_in);

/* tensor.cc: the product of the 16 x 16 and 16 x 8 matrices that the lanes of a warp hold. */
void multiply(coroutine *lanes);

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
