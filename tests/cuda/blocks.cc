/* Blocks: each thread is a coroutine that runs until it must wait. FOPO_EMULATION_SEED=n draws the
 * order in which threads run and blocks begin, and how many blocks run side by side (0: ascending,
 * one by one). Blocks side by side have a thread of the host each, because their shared memory is
 * thread_local, but only one of these runs at a time; they change places at barriers, exchanges,
 * fences and atomic operations. */
#include <map>
#include <numeric>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crew.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulation {

constexpr size_t SHARED_MOST = 48 << 10, SHARED_OPT_IN = 163 << 10; /* 163 KiB: of an A100 */

/* ---- the schedule's random numbers ---- */

unsigned seed() {
  static const unsigned value = [] {
    const char *text = getenv("FOPO_EMULATION_SEED");
    return text != nullptr ? (unsigned)strtoul(text, nullptr, 10) : 1u;
  }();
  return value;
}

uint32_t chance(uint32_t n) { /* Knuth's MMIX generator */
  static uint64_t state = seed();
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((state >> 32) * n >> 32);
}

template <class T> static void shuffle(T *x, size_t n) {
  for (size_t i = n; i > 1; i--) std::swap(x[i - 1], x[chance((uint32_t)i)]);
}

thread_local crew *mine;
static crew *crews[MOST_CREWS];

/* The launch that is being run. */
static struct {
  const task *kernel;
  size_t blocks, next, shared;
  unsigned threads, beside;
  std::vector<uint32_t> order; /* of the blocks; empty: ascending */
} grid;

/* ---- blocks side by side: the right to run goes from crew to crew ---- */

static crew *another_busy() {
  crew *found[MOST_CREWS];
  unsigned n = 0;
  for (crew *c : crews) {
    if (c != nullptr && c != mine && c->busy) found[n++] = c;
  }
  return n > 0 ? found[chance(n)] : nullptr;
}

static void hand_over(crew *to) {
  sem_post(&to->turn);
  while (sem_wait(&mine->turn) != 0) {}
}

void maybe_change_blocks(uint32_t one_in) {
  if (grid.beside <= 1 || chance(one_in) != 0) return;
  crew *other = another_busy();
  if (other != nullptr) hand_over(other);
}

/* ---- switches between threads of a block ---- */

constexpr unsigned NOBODY = MOST_THREADS; /* the scheduler */

#if defined(__SANITIZE_ADDRESS__)
static void leave(void **fake, unsigned to) {
  bool fiber = to != NOBODY;
  __sanitizer_start_switch_fiber(fake, fiber ? mine->coroutines[to].stack : mine->scheduler_stack,
                                 fiber ? STACK : mine->scheduler_size);
}
static void leave_scheduler(unsigned to) { leave(&mine->scheduler_fake, to); }
static void back_in_scheduler() {
  __sanitizer_finish_switch_fiber(mine->scheduler_fake, nullptr, nullptr);
}
static void enter_fiber(bool first) {
  const void *stack;
  size_t size;
  __sanitizer_finish_switch_fiber(first ? nullptr : mine->coroutines[mine->running].fake, &stack,
                                  &size);
  if (mine->scheduler_stack == nullptr) mine->scheduler_stack = stack, mine->scheduler_size = size;
}
static void leave_fiber(unsigned to) { leave(&mine->coroutines[mine->running].fake, to); }
#else
static void leave_scheduler(unsigned) {}
static void back_in_scheduler() {}
static void enter_fiber(bool) {}
static void leave_fiber(unsigned) {}
#endif

/* The thread whose turn is next in this round, or NOBODY. */
static unsigned next_turn(schedule &s) {
  for (; s.row < s.end; s.row++, s.bit = 0) {
    uint64_t can = s.ready[s.row] & (s.prompt[s.row] | s.others), later = can >> s.bit << s.bit;
    if (later == 0 && s.by_rows) later = can;
    if (later == 0) continue;
    s.bit = (unsigned)__builtin_ctzll(later) + 1;
    return s.order[s.row * 32 + s.bit - 1];
  }
  return NOBODY;
}

/* Goes on with thread t, or the scheduler, and returns when `here` is gone on with. */
static void switch_to(crew *c, void **here, unsigned t) {
  if (__builtin_setjmp(here) != 0) return;
  if (t == NOBODY) __builtin_longjmp(c->scheduler, 1);
  fiber &f = c->fibers[t];
  c->running = t;
  threadIdx.x = t;
  if (f.begun) __builtin_longjmp(f.here, 1);
  f.begun = true;
  setcontext(&c->coroutines[t].context);
}

void yield_turn() {
  crew *c = mine;
  fiber &me = c->fibers[c->running];
  unsigned next = next_turn(c->turns);
  leave_fiber(next);
  switch_to(c, me.here, next);
  enter_fiber(false);
}

void pass_turn() {
  schedule &s = mine->turns;
  if (s.by_rows) s.row++, s.bit = 0;
  yield_turn();
}

/* The turns of the rows from .. end - 1; whether there was one. */
static bool run_rows(crew *c, unsigned from, unsigned end) {
  c->turns.row = from, c->turns.bit = 0, c->turns.end = end;
  unsigned first = next_turn(c->turns);
  if (first == NOBODY) return false;
  leave_scheduler(first);
  switch_to(c, c->scheduler, first);
  back_in_scheduler();
  return true;
}

/* ---- the life of a thread ---- */

static void live() {
  enter_fiber(true);
  for (;;) {
    crew *c = mine;
    unsigned me = c->running;
    races::resume(c->watcher, me, c->coroutines[me].stack, STACK);
    grid.kernel->run();
    races::pause(c->watcher);
    let_wait(c->turns, me);
    c->turns.living[c->turns.place_of[me] / 32] &= ~bit_of(c->turns, me);
    c->alive--;
    check_ended(c, me);
    if (c->of_block.waiting > 0 && c->of_block.waiting == c->alive) open_barrier(c);
    yield_turn();
  }
}

/* Stacks that began at equal places of their pages would share few lines of the caches. */
static void make_coroutine(coroutine &f, unsigned t) {
  if (f.stack != nullptr) return;
  f.stack =
      (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (f.stack == (char *)MAP_FAILED) give_up("no memory for a thread's stack");
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = STACK - t * 7 % 256 * 64;
  f.context.uc_link = nullptr;
  makecontext(&f.context, live, 0);
}

/* ---- a block ---- */

static void begin_block(crew *c, size_t b) {
  c->alive = c->threads = grid.threads;
  c->of_block = {};
  for (unsigned w = 0; w < grid.threads / 32; w++) c->warps[w] = {};
  for (unsigned t = 0; t < grid.threads; t++) make_coroutine(c->coroutines[t], t);
  c->dynamic.assign(grid.shared + 64, (char)0xff);
  blockDim = {grid.threads, 1, 1};
  gridDim = {(unsigned)grid.blocks, 1, 1};
  blockIdx = {(unsigned)b, 0, 0};
  races::begin_block(c->watcher, (uint32_t)b, grid.threads, c->dynamic.data(), grid.shared);
}

/* How the threads of a block take turns: ascending or descending, where a warp goes on until all
 * its lanes wait for others; in an order that is drawn and that each round begins elsewhere; or
 * some threads only if no other can go on. */
enum manner { ASCENDING, DESCENDING, RANDOM, LAGGING, N_MANNERS };

static void order_turns(crew *c, manner how) {
  schedule &s = c->turns;
  std::iota(s.order, s.order + c->threads, (uint16_t)0);
  if (how == DESCENDING) std::reverse(s.order, s.order + c->threads);
  if (how == RANDOM) shuffle(s.order, c->threads);
  for (unsigned i = 0; i < c->threads; i++) s.place_of[s.order[i]] = (uint16_t)i;
  std::fill(s.living, s.living + WARPS, 0);
  std::fill(s.living, s.living + c->threads / 32, ~0u);
  std::copy(s.living, s.living + WARPS, s.ready);
  std::fill(s.prompt, s.prompt + WARPS, ~0u);
  uint32_t lagging = how == LAGGING ? chance(UINT32_MAX) : 0; /* hashes of threads */
  for (unsigned t = 0; t < c->threads && how == LAGGING; t++) {
    if (lagging >> (t * 2654435769u >> 27) & 1) s.prompt[t / 32] &= ~bit_of(s, t);
  }
  s.by_rows = how == ASCENDING || how == DESCENDING;
}

/* Each thread that can run has a turn, or each of those that do not lag. */
static bool run_round(crew *c, unsigned first, bool all) {
  c->turns.others = all ? ~0u : 0;
  bool moved = run_rows(c, first, c->threads / 32);
  return run_rows(c, 0, first) || moved;
}

static void say_why_stuck(const crew *c) {
  for (unsigned w = 0; w < c->threads / 32; w++) {
    for (const meeting &m : c->warps[w].meetings) {
      if (m.arrived == 0) continue;
      give_up("lanes %08x of the mask %08x never come to %s:%d", m.mask & ~m.arrived, m.mask,
              m.where.file, m.where.line);
    }
  }
  give_up("threads of a block wait at a barrier to which others do not come");
}

static void run_block(crew *c, size_t b) {
  manner how = seed() == 0 ? ASCENDING : (manner)chance(N_MANNERS);
  begin_block(c, b);
  order_turns(c, how);
  while (c->alive > 0) {
    unsigned first = how == RANDOM ? chance(c->threads / 32) : 0;
    if (!run_round(c, first, false) && !run_round(c, first, true)) say_why_stuck(c);
    maybe_change_blocks(4);
  }
}

/* ---- a grid ---- */

static void run_blocks() {
  while (grid.next < grid.blocks) {
    size_t i = grid.next++;
    run_block(mine, grid.order.empty() ? i : grid.order[i]);
  }
  mine->busy = false;
}

static crew *new_crew() {
  crew *c = new crew();
  sem_init(&c->turn, 0, 0);
  c->watcher = races::new_watcher();
  return c;
}

/* A thread of the host beside the one that waits for the grid: crew 0 is woken by the last. */
static void *serve(void *own) {
  mine = (crew *)own;
  for (;;) {
    while (sem_wait(&mine->turn) != 0) {}
    run_blocks();
    crew *other = another_busy();
    sem_post(other != nullptr ? &other->turn : &crews[0]->turn);
  }
  return nullptr;
}

/* A child of fork has none of the threads. */
static void forget_crews_of_parent() {
  static pid_t process;
  if (process != getpid()) std::fill(crews + 1, crews + MOST_CREWS, nullptr);
  process = getpid();
}

static void make_crews(unsigned n) {
  forget_crews_of_parent();
  for (unsigned i = 1; i < n; i++) {
    pthread_t thread;
    if (crews[i] != nullptr) continue;
    crews[i] = new_crew();
    if (pthread_create(&thread, nullptr, serve, crews[i]) != 0) give_up("no thread for a block");
    pthread_detach(thread);
  }
}

/* How many blocks run side by side in a launch: all of them if they may wait for each other. */
static unsigned draw_beside(size_t blocks, bool together) {
  if (together) return (unsigned)blocks;
  if (seed() == 0 || blocks < 2 || chance(8) > 0) return 1;
  unsigned n = 2 + chance(MOST_CREWS - 1);
  return n < blocks ? n : (unsigned)blocks;
}

static void run_grid(const task &kernel, size_t blocks, unsigned threads, size_t shared,
                     bool together) {
  on_device open;
  static thread_local crew *own; /* a coroutine stays on the thread of the host where it began */
  crew *before = mine;
  grid = {&kernel, blocks, 0, shared, threads, draw_beside(blocks, together), {}};
  if (seed() > 0 && blocks <= (1 << 20)) {
    grid.order.resize(blocks);
    std::iota(grid.order.begin(), grid.order.end(), 0u);
    shuffle(grid.order.data(), blocks);
  }
  if (own == nullptr) own = new_crew();
  mine = crews[0] = own;
  make_crews(grid.beside);
  races::begin_launch();
  for (unsigned i = 0; i < grid.beside; i++) crews[i]->busy = true;
  run_blocks();
  crew *other = another_busy();
  if (other != nullptr) hand_over(other);
  mine = before;
  check_gaps();
}

static std::map<const void *, size_t> opted_in; /* bytes of dynamic shared memory, by kernel */

void launch(size_t blocks, unsigned threads, size_t shared, cudaStream_t stream, const void *kernel,
            std::unique_ptr<task> made, bool together) {
  if (threads == 0 || threads > MOST_THREADS || threads % 32 != 0) {
    give_up("a block has 32 to 1024 threads here, a multiple of 32");
  }
  if (blocks == 0 || blocks > 0x7fffffff) give_up("a grid of %zu blocks", blocks);
  auto most = opted_in.find(kernel);
  if (shared > (most != opted_in.end() ? most->second : SHARED_MOST)) {
    give_up("a block asks for %zu bytes of shared memory, more than its kernel may", shared);
  }
  if (together && blocks > MOST_CREWS) {
    held here(lock);
    last_error = cudaErrorCooperativeLaunchTooLarge;
    return;
  }
  std::shared_ptr<task> kept = std::move(made);
  put_off(stream, {[=] { run_grid(*kept, blocks, threads, shared, together); },
                   [=] { kept->check(); }, true});
}

} // namespace emulation

constinit thread_local uint3 threadIdx = {}, blockIdx = {}, blockDim = {}, gridDim = {};

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value) {
  emulation::held here(emulation::lock);
  cudaError_t error = emulation::call();
  if (error != cudaSuccess) return error;
  if (value < 0 || (size_t)value > emulation::SHARED_OPT_IN) {
    return emulation::last_error = 1, cudaErrorInvalidValue;
  }
  emulation::opted_in[kernel] = (size_t)value;
  return cudaSuccess;
}
