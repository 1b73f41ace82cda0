/* The modules "fopo.native" and "fopo.term" from families.def, and the functions of the core. */
#include "bind/bind.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "train/job.h"

/* native.clock(): monotonic seconds. */
static int clock_now(lua_State *L) { return bind_return_number(L, fopo_clock()); }

/* native.memory(): {blocks, bytes, peak, foreseen}, memory allocated by C, and `available`, bytes
 * that the process may still allocate; math.huge if no limit is known. */
static int memory(lua_State *L) {
  fopo_memory_use use = fopo_memory_in_use();
  uint64_t available = fopo_memory_available();
  lua_createtable(L, 0, 5);
  bind_set_count(L, "blocks", use.blocks);
  bind_set_count(L, "foreseen", use.foreseen);
  bind_set_count(L, "bytes", use.bytes);
  bind_set_count(L, "peak", use.peak);
  if (available > (uint64_t)LUA_MAXINTEGER) {
    bind_set_number(L, "available", (double)INFINITY);
  } else {
    bind_set_count(L, "available", available);
  }
  return 1;
}

static void check_alone(lua_State *L) {
  if (fopo_jobs_running() == 0) return;
  bind_refuse(L, "a job is training; job:wait() or job:stop() first");
}

/* native.threads(n): sets the number of threads, if n is given; returns the number in use. */
static int threads(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) {
    check_alone(L);
    bind_check(L, fopo_threads_set((int)bind_count(L, 1, "threads", 0, INT_MAX)));
  }
  lua_pushinteger(L, fopo_threads());
  return 1;
}

/* native.isa(name): the instruction set in use, and why it is not the one that FOPO_ISA names. With
 * a name: uses that one from now on. */
static int isa(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) {
    check_alone(L);
    bind_check(L, fopo_kernels_force(bind_string(L, 1, "the name")));
  }
  lua_pushstring(L, fopo_kernels_get()->name);
  lua_pushstring(L, fopo_kernels_note());
  return 2;
}

/* native.isa_without_prefilter(): from now on the exact searches score every item in float32, until
 * native.isa chooses a set again. For comparisons. */
static int isa_without_prefilter(lua_State *L) {
  static fopo_kernels plain;
  (void)L;
  plain = *fopo_kernels_get();
  plain.prefilter = NULL;
  fopo_kernels_use(&plain);
  return 0;
}

/* native.isa_names(): all names that the program knows: "portable, avx2, ...". */
static int isa_names(lua_State *L) { return bind_return_string(L, fopo_kernels_names()); }

/* native.memory_mark(): from now on `peak` and `foreseen` are counted anew. */
static int memory_mark(lua_State *L) {
  (void)L;
  fopo_memory_mark();
  return 0;
}

/* native.interrupt_clear(): clears a pending interruption by Ctrl-C. */
static int interrupt_clear(lua_State *L) {
  (void)L;
  fopo_interrupt_clear();
  return 0;
}

const luaL_Reg bind_core_functions[] = {{"clock", clock_now},
                                        {"memory", memory},
                                        {"memory_mark", memory_mark},
                                        {"threads", threads},
                                        {"isa", isa},
                                        {"isa_names", isa_names},
                                        {"isa_without_prefilter", isa_without_prefilter},
                                        {"interrupt_clear", interrupt_clear},
                                        {NULL, NULL}};

/* ---- modules ---- */

static const struct {
  const char *module;
  const luaL_Reg *functions;
} families[] = {
#define FAMILY(module, name) {#module, bind_##name##_functions},
#define TYPE(module, name)
#include "bind/families.def"
#undef FAMILY
#undef TYPE
};

static const struct {
  const char *module;
  const bind_type *type;
} types[] = {
#define FAMILY(module, name)
#define TYPE(module, name) {#module, &bind_##name##_type},
#include "bind/families.def"
#undef FAMILY
#undef TYPE
};
enum { FAMILIES = sizeof families / sizeof *families, TYPES = sizeof types / sizeof *types };

/* Pushes the module: its functions, `types` (the methods of each type, by its short name) and
 * `fields` (the names of its fields). */
static void push_module(lua_State *L, const char *module) {
  lua_newtable(L);
  for (int i = 0; i < FAMILIES; i++) {
    if (strcmp(families[i].module, module) == 0) luaL_setfuncs(L, families[i].functions, 0);
  }
  lua_newtable(L);
  for (int i = 0; i < TYPES; i++) {
    if (strcmp(types[i].module, module) == 0) bind_type_open(L, types[i].type);
  }
  lua_setfield(L, -2, "types");
  lua_newtable(L);
  for (int i = 0; i < TYPES; i++) {
    if (strcmp(types[i].module, module) == 0) bind_type_fields(L, types[i].type);
  }
  lua_setfield(L, -2, "fields");
}

int luaopen_fopo_native(lua_State *L) {
  push_module(L, "native");
  lua_getfield(L, -1, "types");
  bind_type_add(L, &bind_array_type, bind_compute_methods);
  lua_pop(L, 1);
  lua_pushliteral(L, FOPO_VERSION);
  lua_setfield(L, -2, "version");
  return 1;
}

int luaopen_fopo_term(lua_State *L) {
  push_module(L, "term");
  return 1;
}
