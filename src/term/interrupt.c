/* The running states form a linked list whose nodes lie on the C stack: each resume puts its
 * coroutine in front of the states that wait for it. The handler runs on the main thread (other
 * threads forward the signal), so it sees a consistent list. lua_sethook may be called from a
 * signal handler. */
#include "term/interrupt.h"

#include <errno.h>
#include <lauxlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/progress.h"

typedef struct running running;
struct running {
  lua_State *L;
  running *below;
  lua_Hook hook; /* the user's hook while ours is set */
  int mask, count;
};

static running base;                  /* the main state */
static running *volatile top = &base; /* the active state; `below`: the ones that wait for it */
static pthread_t main_thread;
static volatile double first; /* time of the first Ctrl-C that has not been handled yet */
static volatile sig_atomic_t warned;
static int atomic; /* 1: the function that runs now must not be interrupted half-way */

static void stop(lua_State *L, lua_Debug *where) {
  (void)where;
  if (fopo_interrupted()) {
    if (atomic) return; /* the hook stays, and raises after the call */
    luaL_where(L, 0);   /* the function that was running */
    lua_pushliteral(L, "interrupted");
    lua_concat(L, 2);
    lua_error(L);
  }
  lua_sethook(L, NULL, 0, 0); /* a coroutine that kept the hook of an earlier interruption */
}

/* Sets our hook on all running states; while the main state is closed those are finalisers alone.
 * Async-signal-safe. Lua may be about to call the user's hook for lines: then it counts the one
 * instruction down under the former mask, and what is counted is over for 2^32 more. So lines are
 * asked for as well, and a further signal sets the hook once more. No call hook: message handlers
 * must run. */
static void arm(void) {
  for (running *r = top; r != NULL; r = r->below) {
    if (r->L == NULL) continue;
    if (lua_gethook(r->L) != stop) {
      r->hook = lua_gethook(r->L);
      r->mask = lua_gethookmask(r->L);
      r->count = lua_gethookcount(r->L);
    }
    lua_sethook(r->L, stop, LUA_MASKCOUNT | LUA_MASKLINE, 1);
  }
}

/* A further Ctrl-C, a second or more after the first that has not been handled. */
static void insist(void) {
  static const char hint[] = "\nfopo: still stopping; the next Ctrl-C ends the program\n";
  if (fopo_clock() - first < 1.0) return;
  if (!warned) {
    warned = 1;
    if (write(STDERR_FILENO, hint, sizeof hint - 1) < 0) return;
  } else {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
}

int fopo_interrupt_by_signal(int number) {
  if (!pthread_equal(pthread_self(), main_thread)) {
    pthread_kill(main_thread, number);
    return 0;
  }
  if (!fopo_interrupted()) first = fopo_clock();
  fopo_interrupt_request();
  arm();
  return 1;
}

lua_State *fopo_interrupt_running(void) {
  return pthread_equal(pthread_self(), main_thread) ? top->L : NULL;
}

static void on_interrupt(int number) {
  int saved = errno, again = fopo_interrupted();
  if (fopo_interrupt_by_signal(number) && again) insist();
  errno = saved;
}

void fopo_interrupt_done(void) {
  fopo_interrupt_clear();
  warned = 0;
  if (lua_gethook(base.L) == stop) lua_sethook(base.L, base.hook, base.mask, base.count);
}

void fopo_interrupt_uninstall(void) {
  struct sigaction action;
  if (base.L == NULL) return;
  sigaction(SIGINT, NULL, &action);
  if (action.sa_handler == on_interrupt) signal(SIGINT, SIG_DFL);
  fopo_interrupt_done();
  base.L = NULL;
}

/* ---- atomic functions ---- */

/* Calls the function in upvalue 1 with the arguments on the stack; upvalue 2: atomic or not. */
static int call(lua_State *L) {
  int outside = atomic;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  atomic = lua_toboolean(L, lua_upvalueindex(2));
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  atomic = outside;
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

static int wrap_function(lua_State *L, int is_atomic) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_pushboolean(L, is_atomic);
  lua_pushcclosure(L, call, 2);
  return 1;
}

int fopo_interrupt_atomic(lua_State *L) { return wrap_function(L, 1); }

int fopo_interrupt_divisible(lua_State *L) { return wrap_function(L, 0); }

/* ---- xpcall ---- */

/* The user's message handler, upvalue 1; an interruption passes it by, because a hook cannot stop
 * the handler of the error that the hook itself has raised. */
static int handle(lua_State *L) {
  if (fopo_interrupted() && !atomic) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

static int after_xpcall(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

/* xpcall(f, handler, ...): the stock function (upvalue 1) with a handler that can be interrupted. A
 * handler in C, such as debug.traceback, ends by itself. */
static int own_xpcall(lua_State *L) {
  if (lua_isfunction(L, 2) && !lua_iscfunction(L, 2)) {
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, handle, 1);
    lua_replace(L, 2);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, after_xpcall);
  return lua_gettop(L);
}

/* ---- coroutines ---- */

static lua_State *coroutine_at(lua_State *L, int index) {
  lua_State *co = lua_tothread(L, index);
  luaL_argexpected(L, co != NULL, index, "coroutine");
  return co;
}

static running *enter(running *r, lua_State *co) {
  *r = (running){.L = co, .below = top};
  atomic_signal_fence(memory_order_seq_cst);
  top = r;
  return r;
}

static void leave(const running *r) { top = r->below; }

/* Moves the n values on top of L into co and runs it. Returns the number of results, which are then
 * on top of L, or -1 with the error there. */
static int resume(lua_State *L, lua_State *co, int n) {
  running here;
  int results = 0;
  if (fopo_interrupted() && !atomic) return luaL_error(L, "interrupted");
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, n);
  enter(&here, co);
  int status = lua_resume(co, L, n, &results);
  leave(&here);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
    return -1;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return results;
}

/* Closes the pending to-be-closed variables of a coroutine that has ended or is suspended. */
static int reset(lua_State *co) {
  running here;
  enter(&here, co);
  int status = lua_resetthread(co);
  leave(&here);
  return status;
}

static int coroutine_resume(lua_State *L) {
  lua_State *co = coroutine_at(L, 1);
  int results = resume(L, co, lua_gettop(L) - 1);
  lua_pushboolean(L, results >= 0);
  if (results < 0) results = 1;
  lua_insert(L, -(results + 1));
  return results + 1;
}

/* The function that coroutine.wrap returns. */
static int resume_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  int results = resume(L, co, lua_gettop(L));
  if (results >= 0) return results;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) { /* it died: close its variables */
    status = reset(co);
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING && !fopo_interrupted()) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int coroutine_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, resume_wrapped, 1);
  return 1;
}

static int coroutine_close(lua_State *L) {
  lua_State *co = coroutine_at(L, 1);
  lua_Debug frame;
  int active = lua_status(co) == LUA_OK && lua_getstack(co, 0, &frame);
  if (co == L || active) {
    return luaL_error(L, "cannot close a %s coroutine", co == L ? "running" : "normal");
  }
  if (reset(co) == LUA_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushboolean(L, 0);
  lua_xmove(co, L, 1);
  return 2;
}

/* ---- finalisers ---- */

/* Lua runs __gc without hooks, but a coroutine has hooks of its own: the user's function, upvalue
 * 1, runs in one. An interruption that waits already is for what was running before. */
static int finalise(lua_State *L) {
  running here;
  int results = 0;
  lua_State *co = lua_newthread(L);
  lua_sethook(co, NULL, 0, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 2);
  enter(&here, co);
  int status = lua_resume(co, L, 1, &results);
  leave(&here);
  if (status == LUA_OK) return 0;
  if (status == LUA_YIELD) return luaL_error(L, "attempt to yield from a finaliser");
  lua_xmove(co, L, 1);
  return lua_error(L);
}

/* setmetatable as Lua has it; a __gc written in Lua becomes one that can be interrupted. */
static int own_setmetatable(lua_State *L) {
  int type = lua_type(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
  if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) {
    return luaL_error(L, "cannot change a protected metatable");
  }
  lua_settop(L, 2);
  if (type == LUA_TTABLE) {
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, 2) == LUA_TFUNCTION && !lua_iscfunction(L, -1)) {
      lua_pushliteral(L, "__gc");
      lua_insert(L, -2);
      lua_pushcclosure(L, finalise, 1);
      lua_rawset(L, 2);
    }
    lua_settop(L, 2);
  }
  lua_setmetatable(L, 1);
  return 1;
}

/* debug.sethook: calls the library's, then sets our hook again if an interruption is pending. */
static int debug_sethook(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  if (fopo_interrupted()) arm();
  return 0;
}

void fopo_interrupt_install(lua_State *L) {
  static const luaL_Reg own[] = {{"resume", coroutine_resume},
                                 {"wrap", coroutine_wrap},
                                 {"close", coroutine_close},
                                 {NULL, NULL}};
  struct sigaction action, former;
  base = (running){.L = L};
  main_thread = pthread_self();

  lua_getglobal(L, "xpcall");
  lua_pushcclosure(L, own_xpcall, 1);
  lua_setglobal(L, "xpcall");
  lua_pushcfunction(L, own_setmetatable);
  lua_setglobal(L, "setmetatable");
  lua_getglobal(L, "coroutine");
  luaL_setfuncs(L, own, 0);
  lua_getglobal(L, "debug");
  lua_getfield(L, -1, "sethook");
  lua_pushcclosure(L, debug_sethook, 1);
  lua_setfield(L, -2, "sethook");
  lua_pop(L, 2);

  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt; /* no SA_RESTART: io.read() at a terminal must come back */
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, NULL, &former);
  if (former.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
}
