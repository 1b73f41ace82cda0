/* The machine, folders for logs, and the processes of a distributed run. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bind/bind.h"
#include "comm/comm.h"
#include "core/clock.h"
#include "core/replace.h"

/* native.machine(): {host, system, cores}. */
static int machine(lua_State *L) {
  struct utsname name;
  char system[sizeof name.sysname + sizeof name.release + sizeof name.machine + 3];
  memset(&name, 0, sizeof name);
  uname(&name);
  snprintf(system, sizeof system, "%s %s %s", name.sysname, name.release, name.machine);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  lua_createtable(L, 0, 3);
  bind_set_string(L, "host", name.nodename);
  bind_set_string(L, "system", system);
  bind_set_count(L, "cores", cores > 0 ? (size_t)cores : 1);
  return 1;
}

/* native.make_folder(path): makes the folder and its parents; true, or nil and a sentence. */
static int make_folder(lua_State *L) {
  char path[4096];
  size_t n = strlen(bind_path(L, 1));
  if (n == 0 || n >= sizeof path) {
    lua_pushnil(L);
    lua_pushfstring(L, "a folder's path has 1 to %d bytes", (int)sizeof path - 1);
    return 2;
  }
  memcpy(path, lua_tostring(L, 1), n + 1);
  int failed = 0;
  if (fopo_replace_allowed(path) != FOPO_OK) return bind_return_outcome(L, FOPO_ERR_FILE);
  for (char *at = path + 1; !failed && *at != '\0'; at++) {
    if (*at != '/') continue;
    *at = '\0';
    failed = mkdir(path, 0777) != 0 && errno != EEXIST;
    *at = '/';
  }
  struct stat there;
  failed = failed || (mkdir(path, 0777) != 0 && errno != EEXIST);
  int error = failed ? errno : 0;
  if (!failed && (stat(path, &there) != 0 || !S_ISDIR(there.st_mode))) error = ENOTDIR;
  if (error == 0) {
    return bind_return_boolean(L, 1);
  }
  lua_pushnil(L);
  lua_pushfstring(L, "the folder %s cannot be made: %s", path, strerror(error));
  return 2;
}

/* native.ranks(): this process's rank, 0 .. size - 1, and the size. */
static int ranks(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)fopo_comm_own_rank());
  lua_pushinteger(L, (lua_Integer)fopo_comm_ranks());
  return 2;
}

/* native.ranks_about(): what fopo.ranks returns. */
static int ranks_about(lua_State *L) {
  fopo_comm_traffic sent = fopo_comm_sent();
  lua_createtable(L, 0, 10);
  bind_set_count(L, "rank", fopo_comm_own_rank());
  bind_set_count(L, "size", fopo_comm_ranks());
  bind_set_count(L, "on_host", fopo_comm_local());
  bind_set_string(L, "by", fopo_comm_name());
  bind_set_string(L, "host", fopo_comm_host(fopo_comm_own_rank()));
  bind_set_count(L, "calls", sent.calls);
  bind_set_count(L, "bytes", sent.bytes);
  bind_set_count(L, "messages", sent.messages);
  bind_set_number(L, "seconds", sent.seconds);
  bind_set_number(L, "cpu_seconds", sent.cpu_seconds);
  lua_createtable(L, (int)fopo_comm_ranks(), 0);
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    lua_pushstring(L, fopo_comm_host(r));
    lua_rawseti(L, -2, (lua_Integer)r + 1);
  }
  lua_setfield(L, -2, "hosts");
  return 1;
}

/* Fills seconds [3] with those of one agreement, one exchange and one gather of `bytes` from each
 * rank to each. Collective. */
static int time_calls(double *seconds, char *in, const char *out, size_t bytes) {
  size_t each[FOPO_COMM_RANKS];
  for (size_t r = 0; r < fopo_comm_ranks(); r++) each[r] = bytes;
  double start = fopo_clock();
  int status = fopo_comm_agree(FOPO_OK);
  seconds[0] = fopo_clock() - start;
  start = fopo_clock();
  if (status == FOPO_OK) status = fopo_comm_exchange(in, each, out, each);
  seconds[1] = fopo_clock() - start;
  start = fopo_clock();
  if (status == FOPO_OK) status = fopo_comm_gather(in, out, bytes);
  seconds[2] = fopo_clock() - start;
  return status;
}

/* native.network(n, bytes): three lists of n seconds: agreements, exchanges and gathers. All ranks
 * must call it. */
static int network(lua_State *L) {
  size_t n = bind_count(L, 1, "n", 1, 1000000), bytes = bind_count(L, 2, "bytes", 1, 1 << 24);
  size_t whole = bytes * fopo_comm_ranks();
  double *seconds = bind_scratch(L, 3 * n, sizeof *seconds);
  char *in = bind_scratch(L, whole, 1), *out = bind_scratch(L, whole, 1);
  int status = fopo_comm_agree(FOPO_OK); /* all have come so far */
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    status = time_calls(seconds + 3 * i, in, out, bytes);
  }
  bind_check(L, status);
  for (int kind = 0; kind < 3; kind++) {
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
      lua_pushnumber(L, seconds[3 * i + (size_t)kind]);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
  }
  return 3;
}

/* native.share(word): returns the string of rank 0 on every rank. All ranks must call it. */
static int share(lua_State *L) {
  size_t n;
  const char *own = luaL_optlstring(L, 1, "", &n);
  bind_check(L, fopo_comm_broadcast(&n, sizeof n, 0));
  char *word = bind_scratch(L, n + 1, 1);
  if (fopo_comm_own_rank() == 0) memcpy(word, own, n);
  bind_check(L, fopo_comm_broadcast(word, n, 0));
  lua_pushlstring(L, word, n);
  return 1;
}

const luaL_Reg bind_machine_functions[] = {{"machine", machine}, {"make_folder", make_folder},
                                           {"ranks", ranks},     {"ranks_about", ranks_about},
                                           {"network", network}, {"share", share},
                                           {NULL, NULL}};
