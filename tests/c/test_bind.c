/* Every allocation of a scenario fails in turn: those of the core (fopo_alloc) and those of Lua,
 * once each and from then on. Whatever fails raises a sentence; afterwards the scenario runs in the
 * same state; after lua_close nothing is left. */
#include <lualib.h>
#include <unistd.h>

#include "bind/bind.h"
#include "checks.h"
#include "core/progress.h"
#include "core/threads.h"

/* After every so many faults the scenario runs again in the same state. Of what fails once, every
 * STRIDEth allocation of a run does: Lua collects its garbage, tries again, and nobody notices. */
enum { AGAIN = 4, STRIDE = 64 };

/* The sanitizer need not look for leaks: every block is counted here, and the one that Lua itself
 * drops (see `heard`) is no fault of ours. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }

/* Lua's allocator: counts, and fails the allocation after `left` more, and from then on all or one
 * of each STRIDE. */
typedef struct {
  size_t bytes;
  long left; /* < 0: off */
  int forever;
  long failed;
  int unfinished; /* Lua had no memory even to call a finaliser, and said so */
} heap;

/* Lua drops an object whose finaliser it cannot call; that leak is Lua's, and it is counted. */
static void heard(void *payload, const char *message, int to_be_continued) {
  (void)to_be_continued;
  heap *h = payload;
  if (strstr(message, "__gc") != NULL) h->unfinished = 1;
}

static void *heap_alloc(void *payload, void *block, size_t old, size_t size) {
  heap *h = payload;
  if (block == NULL) old = 0;
  if (size == 0) {
    free(block);
    h->bytes -= old;
    return NULL;
  }
  /* A block that shrinks must not fail: Lua relies on it. */
  if (size > old && h->left >= 0 && h->left-- == 0) {
    h->failed++;
    h->left = h->forever ? 0 : STRIDE; /* what comes next is the second try */
    return NULL;
  }
  void *moved = realloc(block, size);
  if (moved) h->bytes += size - old;
  return moved;
}

static const char scenario[] =
    "local n = require 'fopo.native'\n"
    "local d, w = n.data_synthetic{users = 20, items = 20, clusters = 3, tastes = 2,\n"
    "  mean_items = 9, zipf = 1.0, noise = 0.1, seed = 1}\n"
    "local s, v = n.data_split(d, {min_items = 4, valid = 0.2, test = 0, seed = 1})\n"
    "local items = n.embed_svd(s, {dim = 3, scale = 'none', seed = 1, power_iterations = 1,\n"
    "  oversample = 2})\n"
    "w:best(v)\n"
    "local row, values = d:row(2)\n"
    "local x = n.contexts(s, items, 'mean')\n"
    "local a = n.array_from{{1, 2}, {3, 4}}\n"
    "a:matmul(a):add(a, 2):totable()\n"
    "a:save(path)\n"
    "n.array_load(path)\n"
    "d:save(path .. '.npz')\n"
    "local again = n.data_read(path .. '.npz', {skip_errors = false, max_errors = 1})\n"
    "local exact, ix = n.index_exact(items), n.index_norm(items, {})\n"
    "ix:save(path .. '.npz')\n"
    "ix = n.index_load(path .. '.npz', items)\n"
    "ix:search(x, 4)\n"
    "ix:recall(x, 2)\n"
    "n.index_hnsw(items, {M = 4, ef_construction = 10, ef = 10, seed = 1, deterministic = true})\n"
    "local hybrid = n.index_hybrid(items, {head = 0.2, M = 4, ef_construction = 10, ef = 10,\n"
    "  seed = 1, deterministic = true})\n"
    "hybrid.ef = 12\n"
    "n.index_measure(hybrid, x, select(2, exact:search(x, 2)), 3)\n"
    "local pi = n.policy_linear{items = items, theta = 'identity', temperature = 1, seed = 1}\n"
    "pi:best(x, exact, 2)\n"
    "n.evaluate_lost(pi, x, s, exact, hybrid)\n"
    "local lists = n.recommend(pi, x, exact, 2, {seen = s, may_be_short = true})\n"
    "assert(n.first_values(lists, s).cols == s.n and #n.measure_lists(lists, s, {1, 2}) == 2)\n"
    "n.baseline_best(n.baseline('popular', s, {}), v, 2, true)\n"
    "local seen = n.histories(d, {3, 1}, d.n_items, again)\n"
    "seen = n.histories_from({{1, 2, 3}, {4}}, d.n_items)\n"
    "n.recommend(pi, n.contexts(seen, items, 'mean'), exact, 3,\n"
    "  {seen = seen, never = {7, 5, 7}, normalised = true})\n"
    "n.names_near(d, '12', true, 3)\n"
    "n.policy_save(pi, path .. '.npz', items, d)\n"
    "n.policy_load(path .. '.npz')\n"
    "local rows = io.open(path, 'w')\n"
    "rows:write('a,1\\nb,2\\n'):close()\n"
    "local users = n.stream_open(path, {}, 20, d)\n"
    "while n.stream_next(users, 1) do end\n"
    "assert(n.stream_about(users).users == 2)\n"
    "local q = n.proposal_mixture{index = ix, k = 5, epsilon = 0.5, draws = 'iid'}\n"
    "q:sample(pi, x, 4, {seed = 1, step = 0, rows = nil})\n"
    "local hits = n.reward_hits(s)\n"
    "local by_value = n.reward_hits(s, n.array_randn(1, d.n_items, 1, 0))\n"
    "assert(n.first_values(lists, s, by_value).cols == s.n)\n"
    "n.measure_lists(lists, s, {2}, by_value)\n"
    "n.baseline_expected(n.baseline('popular', s, {value = by_value}), s, true, by_value)\n"
    "n.item_values(d, again, 0)\n"
    "local custom = n.reward_custom(function(ids, rows) return hits:value(ids, rows) end)\n"
    "local g = n.gradient_snis{proposal = q, samples = 6}\n"
    "local G = g:compute(pi, x, {1, 2}, custom, {seed = 1, step = 0})\n"
    "n.gradient_exact():compute(pi, x, nil, hits, {seed = 1, step = 0})\n"
    "local o = n.optim_adam{lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, weight_decay = 0}\n"
    "o:step(pi, G)\n"
    "local t = n.trainer{policy = pi, contexts = x, reward = custom, gradient = g, optim = o,\n"
    "  batch = 4, seed = 1, device = 'auto'}\n"
    "t:advance(2)\n"
    "t:save(path .. '.npz', {step = {1, 2}, reward = {0.5, 1}}, {note = 'x'})\n"
    "local history, meta = t:resume(path .. '.npz')\n"
    "t:advance(1)\n"
    "local e = n.evaluate_lost(pi, n.contexts(v, items, 'mean'), v, ix, ix).exact\n"
    "assert(history.step[2] == 2 and meta.note == 'x' and e.contexts == v.n)\n"
    "local term = require 'fopo.term'\n"
    "local screen = term.view{rows = 6, cols = 30}\n"
    "screen:add('reward', 1, 1, 0.5)\n"
    "screen:set{title = 'a run', reward = 0.5}\n"
    "screen:draw()\n"
    "screen:render('svg')\n"
    "term.plot({{x = {1, 2}, y = {1, 4}, name = 'a'}}, {width = 30, height = 3})\n"
    "screen:close()\n"
    "return tostring(a)\n";

/* ---- states ---- */

static char path[64];

static int open_libraries(lua_State *L) {
  luaL_openlibs(L);
  fopo_lua_open(L);
  lua_pushstring(L, path);
  lua_setglobal(L, "path");
  return 0;
}

static lua_State *new_state(heap *h) {
  *h = (heap){.left = -1};
  lua_State *L = lua_newstate(heap_alloc, h);
  assert_non_null(L);
  lua_setwarnf(L, heard, h);
  lua_pushcfunction(L, open_libraries);
  assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
  return L;
}

/* Lua's status; what the scenario left, or the error, is on the top. */
static int run(lua_State *L) {
  lua_settop(L, 0);
  int status = luaL_loadbufferx(L, scenario, sizeof scenario - 1, "=scenario", "t");
  return status == LUA_OK ? lua_pcall(L, 0, 1, 0) : status;
}

static void close_state(lua_State *L, heap *h, size_t blocks, long fault) {
  h->left = -1;
  lua_close(L);
  size_t left = fopo_memory_in_use().blocks - blocks;
  if (h->unfinished) return;
  if (h->bytes != 0 || left != 0) {
    fail_msg("after fault %ld: %zu bytes of Lua and %zu blocks are left", fault, h->bytes, left);
  }
}

/* The state after a fault: a sentence about memory, and everything works again. */
static void check_after(lua_State *L, heap *h, int status, long fault) {
  h->left = -1;
  fopo_memory_fail_after(-1, 0);
  if (status != LUA_OK) {
    const char *sentence = lua_tostring(L, -1);
    /* Of a stack that could not grow, Lua says that it overflowed. */
    if (sentence == NULL ||
        (strstr(sentence, "memory") == NULL && strstr(sentence, "stack overflow") == NULL)) {
      fail_msg("fault %ld: the error is \"%s\"", fault, sentence ? sentence : "(no string)");
    }
  }
  if (fault % AGAIN == 0 && run(L) != LUA_OK) {
    fail_msg("after fault %ld: %s", fault, lua_tostring(L, -1));
  }
}

/* ---- sweeps ---- */

/* Allocations of the core in one run: what is left of a large number when it is over. */
static long core_allocations(void) {
  enum { MANY = 100000 };
  heap h;
  lua_State *L = new_state(&h);
  fopo_memory_fail_after(MANY, 0);
  if (run(L) != LUA_OK) fail_msg("%s", lua_tostring(L, -1));
  long left = 0;
  void *block;
  while ((block = fopo_alloc(1, 1)) != NULL) {
    fopo_free(block);
    left++;
  }
  fopo_memory_fail_after(-1, 0);
  lua_close(L);
  return MANY - left;
}

static void sweep_core(int forever) {
  long n = core_allocations(), raised = 0;
  size_t blocks = fopo_memory_in_use().blocks;
  for (long fault = 0; fault < n; fault++) {
    heap h;
    lua_State *L = new_state(&h);
    fopo_memory_fail_after(fault, forever);
    int status = run(L);
    raised += status != LUA_OK;
    check_after(L, &h, status, fault);
    close_state(L, &h, blocks, fault);
  }
  print_message("%ld allocations of the core failed %s, %ld times that was an error\n", n,
                forever ? "and all after them" : "once", raised);
  assert_true(raised > n / 2);
}

static void sweep_lua(int forever) {
  long fault = 0, failed = 0, raised = 0, unfinished = 0;
  for (long last = 1; last > 0 && (forever || fault < STRIDE); fault++) {
    heap h;
    size_t blocks = fopo_memory_in_use().blocks;
    lua_State *L = new_state(&h);
    h.left = fault;
    h.forever = forever;
    int status = run(L);
    last = h.failed;
    failed += forever ? last > 0 : last;
    raised += status != LUA_OK;
    check_after(L, &h, status, fault);
    close_state(L, &h, blocks, fault);
    unfinished += h.unfinished;
  }
  print_message(
      "%ld allocations of Lua failed %s, %ld times that was an error; %ld times Lua could "
      "not call a finaliser\n",
      failed, forever ? "and all after them" : "once", raised, unfinished);
  assert_true(failed > 1000 && unfinished <= failed / 100);
  assert_int_equal(raised, forever ? failed : 0);
}

TEST(core_once) { sweep_core(0); }

TEST(core_forever) { sweep_core(1); }

/* Once: Lua collects its garbage and tries again, so finalisers and calls meet in odd places. */
TEST(lua_once) { sweep_lua(0); }

TEST(lua_forever) { sweep_lua(1); }

/* An interruption comes as a sentence or, from a trainer, as a short slice. */
TEST(interrupted) {
  heap h;
  size_t blocks = fopo_memory_in_use().blocks;
  lua_State *L = new_state(&h);
  fopo_interrupt_request();
  assert_int_not_equal(run(L), LUA_OK);
  assert_non_null(strstr(lua_tostring(L, -1), "interrupted"));
  assert_ptr_equal(strstr(lua_tostring(L, -1), "interrupted"), lua_tostring(L, -1));
  fopo_interrupt_clear();
  assert_int_equal(run(L), LUA_OK);
  close_state(L, &h, blocks, -1);
}

int main(void) {
  /* Every run writes files; in memory they cost nothing to flush. */
  const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(path, sizeof path, "%s/fopo_test_bind_%ld.npy", folder, (long)getpid());
  fopo_threads_set(1);
  int failures = run_all(NULL, NULL);
  unlink(path);
  strcat(path, ".npz");
  unlink(path);
  return failures;
}
