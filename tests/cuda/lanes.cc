/* What the threads of a block do with each other: barriers, exchanges of a warp, fences, and atomic
 * operations. Threads must meet at the same barrier; lanes must come that a mask names. */
#include "crew.h"

namespace emulation {

void open_barrier(crew *c) {
  c->of_block.waiting = 0;
  c->of_block.result = c->of_block.vote;
  c->of_block.vote = false;
  std::copy(c->turns.living, c->turns.living + WARPS, c->turns.ready);
  races::barrier(c->watcher);
}

bool sync_block(bool vote, place where) {
  outside_kernel pause;
  crew *c = mine;
  barrier &b = c->of_block;
  if (b.waiting == 0) b.where = where;
  if (b.where.line != where.line) {
    give_up("the threads of a block wait at different barriers, %s:%d and :%d", where.file,
            b.where.line, where.line);
  }
  b.vote |= vote;
  if (++b.waiting == c->alive) {
    open_barrier(c);
    return b.result;
  }
  let_wait(c->turns, c->running);
  yield_turn();
  return b.result; /* the next barrier opens only after this thread has come there */
}

static void end_meeting(crew *c, unsigned w, meeting &m) {
  if (m.kind == PRODUCT) multiply(c->coroutines + w * 32);
  for (unsigned i = 0; i < 32; i++) {
    fiber &f = c->fibers[w * 32 + i];
    if ((m.mask >> i & 1) == 0) continue;
    if (m.kind == SHUFFLE && (m.mask >> f.from & 1) == 0) {
      give_up("a lane reads from lane %u, which its mask does not name, at %s:%d", f.from,
              m.where.file, m.where.line);
    }
    f.got = c->fibers[w * 32 + f.from].given;
    let_go_on(c->turns, w * 32 + i);
  }
  m.arrived = 0;
  c->warps[w].open--;
  if (m.kind == SYNC) races::warp_barrier(c->watcher, w, m.mask);
}

/* The meeting of these lanes, which may have begun. */
static meeting &find_meeting(warp &w, collective kind, uint32_t mask, place where) {
  meeting *free = nullptr;
  unsigned left = w.open; /* that are not looked at yet */
  for (meeting &m : w.meetings) {
    if (left == 0 && free != nullptr) break;
    if (m.arrived == 0) {
      if (free == nullptr) free = &m;
      continue;
    }
    left--;
    if ((m.mask & mask) == 0) continue;
    if (m.mask != mask || m.kind != kind || m.where.line != where.line) {
      give_up("lanes of a warp meet at %s:%d with mask %08x and at %s:%d with mask %08x",
              m.where.file, m.where.line, m.mask, where.file, where.line, mask);
    }
    return m;
  }
  *free = {mask, 0, kind, where};
  w.open++;
  return *free;
}

uint64_t meet(collective kind, unsigned mask, uint64_t value, unsigned from, place where) {
  outside_kernel pause;
  crew *c = mine;
  unsigned lane = c->running % 32, w = c->running / 32;
  fiber &me = c->fibers[c->running];
  if ((mask >> lane & 1) == 0) {
    give_up("a lane is not in the mask %08x that it names, at %s:%d", mask, where.file, where.line);
  }
  if ((mask & c->warps[w].ended) != 0) {
    give_up("a lane has ended that the mask %08x names, at %s:%d", mask, where.file, where.line);
  }
  meeting &m = find_meeting(c->warps[w], kind, mask, where);
  me.given = value;
  me.from = from;
  m.arrived |= 1u << lane;
  if (m.arrived == mask) {
    end_meeting(c, w, m);
  } else {
    let_wait(c->turns, c->running);
    yield_turn();
  }
  return me.got;
}

void fence() {
  outside_kernel pause;
  races::fence(mine->watcher, mine->running);
  maybe_change_blocks(4);
}

void begin_atomic(const volatile void *x, size_t bytes) {
  outside_kernel pause;
  maybe_change_blocks(8);
  if (seed() > 0 && chance(8) == 0) pass_turn();
  races::atomic(mine->watcher, mine->running, x, bytes, __builtin_return_address(0));
}

void end_atomic() {
  outside_kernel pause;
  maybe_change_blocks(8);
}

void give_way() {
  outside_kernel pause;
  maybe_change_blocks(1);
  pass_turn();
}

void *shared_memory() { return mine->dynamic.data(); }

void check_ended(crew *c, unsigned me) {
  warp &w = c->warps[me / 32];
  if (!c->coroutines[me].copies.empty()) give_up("a thread ends before its copies have come");
  w.ended |= 1u << me % 32;
  for (meeting &m : w.meetings) {
    if (m.arrived != 0 && (m.mask & w.ended) != 0) {
      give_up("a lane ends that the mask %08x names, at %s:%d", m.mask, m.where.file, m.where.line);
    }
  }
}

} // namespace emulation
