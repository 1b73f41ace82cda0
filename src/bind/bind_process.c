/* Child processes for Lua: core/child.h. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "bind/bind.h"
#include "core/child.h"

/* native.fork(threads): the child's number; 0 in the child, which must end by native.leave. */
static int process_fork(lua_State *L) {
  pid_t child;
  bind_check(L, fopo_child_fork(&child, (int)luaL_checkinteger(L, 1)));
  lua_pushinteger(L, child);
  return 1;
}

/* native.leave(code): ends a child, without what the parent has still to do at its end. As the
 * __close of a value it ends with 130, the code of Ctrl-C. */
static int process_leave(lua_State *L) {
  int code = lua_isinteger(L, 1) ? (int)lua_tointeger(L, 1) : 130;
  fflush(NULL);
  _exit(code);
}

/* native.ended(child): its exit status, or 128 and the number of a signal; nil while it runs. */
static int process_ended(lua_State *L) {
  int code;
  if (!fopo_child_ended((pid_t)luaL_checkinteger(L, 1), &code)) return bind_return_nil(L);
  lua_pushinteger(L, code);
  return 1;
}

/* native.stop(child): a run in it that keeps a checkpoint writes that first. */
static int process_stop(lua_State *L) {
  fopo_child_stop((pid_t)luaL_checkinteger(L, 1));
  return 0;
}

/* native.sleep(seconds): shorter if a signal comes. */
static int process_sleep(lua_State *L) {
  double seconds = luaL_checknumber(L, 1);
  struct timespec time = {.tv_sec = (time_t)seconds};
  time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
  nanosleep(&time, NULL);
  return 0;
}

const luaL_Reg bind_process_functions[] = {{"fork", process_fork},   {"leave", process_leave},
                                           {"ended", process_ended}, {"stop", process_stop},
                                           {"sleep", process_sleep}, {NULL, NULL}};
