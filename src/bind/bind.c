/* The module "fopo.native": every family's functions in one table, its types' methods in `types`,
 * and what concerns the machine. */
#include "bind/bind.h"

#include <limits.h>
#include <math.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "train/job.h"

/* native.clock(): monotonic seconds. */
static int clock_now(lua_State *L) {
  lua_pushnumber(L, fopo_clock());
  return 1;
}

/* native.memory(): {blocks, bytes, peak} of what C holds and `available`, what the process may
 * still take; math.huge where nothing says. */
static int memory(lua_State *L) {
  fopo_memory_use use = fopo_memory_in_use();
  uint64_t available = fopo_memory_available();
  lua_createtable(L, 0, 4);
  bind_set_count(L, "blocks", use.blocks);
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
  bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "a job is training; job:wait() or job:stop() first"));
}

/* native.threads(n): uses n threads from now on (as before where left out); how many are used. */
static int threads(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) {
    check_alone(L);
    bind_check(L, fopo_threads_set((int)bind_count(L, 1, "threads", 1, INT_MAX)));
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

/* native.isa_names(): all that the program knows, as text: "portable, avx2, ...". */
static int isa_names(lua_State *L) {
  lua_pushstring(L, fopo_kernels_names());
  return 1;
}

/* native.interrupt_clear(): forgets Ctrl-C. */
static int interrupt_clear(lua_State *L) {
  (void)L;
  fopo_interrupt_clear();
  return 0;
}

static const luaL_Reg functions[] = {
    {"clock", clock_now}, {"memory", memory},       {"threads", threads},
    {"isa", isa},         {"isa_names", isa_names}, {"interrupt_clear", interrupt_clear},
    {NULL, NULL}};

int luaopen_fopo_native(lua_State *L) {
  static const luaL_Reg *const families[] = {functions,
                                             bind_array_functions,
                                             bind_data_functions,
                                             bind_logs_functions,
                                             bind_index_functions,
                                             bind_policy_functions,
                                             bind_proposal_functions,
                                             bind_reward_functions,
                                             bind_gradient_functions,
                                             bind_optim_functions,
                                             bind_device_functions,
                                             bind_trainer_functions,
                                             bind_job_functions,
                                             bind_evaluate_functions,
                                             bind_ope_functions,
                                             bind_machine_functions,
                                             bind_check_functions};
  static const bind_type *const types[] = {
      &bind_array_type,    &bind_archive_type,   &bind_dataset_type, &bind_world_type,
      &bind_sessions_type, &bind_index_type,     &bind_policy_type,  &bind_proposal_type,
      &bind_logs_type,     &bind_log_world_type, &bind_reward_type,  &bind_gradient_type,
      &bind_optim_type,    &bind_device_type,    &bind_trainer_type, &bind_job_type,
      &bind_ope_type};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    luaL_setfuncs(L, families[i], 0);
  }
  lua_newtable(L);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) bind_type_open(L, types[i]);
  lua_setfield(L, -2, "types");
  lua_newtable(L);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) bind_type_fields(L, types[i]);
  lua_setfield(L, -2, "fields");
  lua_pushliteral(L, FOPO_VERSION);
  lua_setfield(L, -2, "version");
  return 1;
}
