/* What a run's log says about the machine, and the folder that it lies in. */
#include "bind/bind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* native.machine(): {host, system, cores}. */
static int machine(lua_State *L) {
  struct utsname name;
  char system[sizeof name.sysname + sizeof name.release + sizeof name.machine + 3];
  memset(&name, 0, sizeof name);
  uname(&name);
  snprintf(system, sizeof system, "%s %s %s", name.sysname, name.release, name.machine);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  lua_createtable(L, 0, 3);
  lua_pushstring(L, name.nodename);
  lua_setfield(L, -2, "host");
  lua_pushstring(L, system);
  lua_setfield(L, -2, "system");
  bind_set_count(L, "cores", cores > 0 ? (size_t)cores : 1);
  return 1;
}

/* native.make_folder(path): makes the folder and those above it; true, or nil and a sentence. */
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
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushfstring(L, "the folder %s cannot be made: %s", path, strerror(error));
  return 2;
}

const luaL_Reg bind_machine_functions[] = {
    {"machine", machine}, {"make_folder", make_folder}, {NULL, NULL}};
