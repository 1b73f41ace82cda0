/* What the families of the Lua binding share: objects, arguments, sentences.
 *
 * A Lua value is a handle (a userdata that holds one pointer) on an object that counts its holders:
 * handles, and the objects that point into it. So a close, a finaliser in any order, or a function
 * that closes things while a trainer works never leaves a pointer to freed memory: the object goes
 * with its last holder. A closed handle has no object and answers "this array has been closed".
 * Lua values that an object needs (the function of a custom reward) are user values of its handle.
 *
 * Every function goes the same way: arguments are checked, results are created (closed and empty,
 * so that an error at any later moment leaks nothing), then the arguments' objects are fetched
 * again, because creating may run finalisers and they may close; then comes C that calls no Lua.
 *
 * Ids are 0-based in C and 1-based in Lua; they are converted in bind/ and nowhere else. */
#ifndef FOPO_BIND_BIND_H
#define FOPO_BIND_BIND_H

#include <lauxlib.h>
#include <lua.h>

#include "core/matrix.h"
#include "core/npz.h"
#include "core/status.h"
#include "data/logs/logs.h"
#include "data/sessions.h"
#include "device/device.h"
#include "judge/reward_model.h"
#include "learn/gradient.h"
#include "train/optim.h"
#include "train/trainer.h"

#define FOPO_VERSION "0.1.0"

/* The module "fopo.native". */
int luaopen_fopo_native(lua_State *L);

/* Lets require find the Lua files inside the program and preloads fopo.native; load, loadfile,
 * dofile and require take text only, because damaged bytecode crashes the interpreter. */
int fopo_lua_open(lua_State *L);

/* ---- objects: bind_object.c ---- */

typedef struct bind_object bind_object;

typedef struct {
  const char *name;             /* "fopo.array": the metatable's name */
  size_t size;                  /* bytes of the struct that begins with a bind_object */
  void (*done)(bind_object *o); /* frees what it owns; accepts one that is zero after its head */
  const luaL_Reg *methods;
  const char *fields; /* "rows cols ...", for sentences; "": none */
  int (*get)(lua_State *L, bind_object *o, const char *field); /* pushes 1, or returns 0 */
  int (*set)(lua_State *L, bind_object *o, const char *field); /* value at 3; 0: no such field */
} bind_type;

enum { BIND_KEEPS = 6 };

struct bind_object {
  const bind_type *type;
  size_t refs;                    /* handles and keepers */
  size_t lent;                    /* jobs that train with it: it is not to be changed */
  bind_object *keeps[BIND_KEEPS]; /* what this one points into; released after `done` */
};

/* Makes the metatable, and types[short name] = table of methods in the table on the top. */
void bind_type_open(lua_State *L, const bind_type *type);

/* fields[short name] = {field = true ...} in the table on the top. */
void bind_type_fields(lua_State *L, const bind_type *type);

/* Pushes a handle on a fresh object, zero after its head, with `values` user values. */
void *bind_new(lua_State *L, const bind_type *type, int values);

/* Pushes one more handle on the object at `index`: it then lives until the function returns,
 * whatever a finaliser or a Lua function closes. */
void bind_push_again(lua_State *L, int index, const bind_type *type);

/* Pushes a handle on what the object at `index` keeps in a slot, nil where that is nothing. */
void bind_push_kept(lua_State *L, int index, const bind_type *type, int slot);

/* The object at a stack index; raises where it is something else or closed. */
void *bind_get(lua_State *L, int index, const bind_type *type);

/* The same for a change: raises also where a job trains with the object. */
void *bind_get_free(lua_State *L, int index, const bind_type *type);
void bind_check_free(lua_State *L, const bind_object *o);

/* The object of the handle at a stack index, NULL where it is closed or no handle of that type. */
bind_object *bind_peek(lua_State *L, int index, const bind_type *type);

/* 1 where a handle of that type stands at the index, closed or not. */
int bind_is(lua_State *L, int index, const bind_type *type);

/* slot `slot` of o holds `kept` (NULL: nothing) from now on; what it held is released. */
void bind_keep(bind_object *o, int slot, bind_object *kept);

/* Releases one holder. */
void bind_release(bind_object *o);

/* Exchanges the objects of two handles of one type. */
void bind_swap(lua_State *L, int a, int b);

/* Tells Lua's collector of memory it cannot see. */
void bind_pressure(lua_State *L, size_t bytes);

/* Two full collections: before a second try to get memory. */
void bind_collect(lua_State *L);

/* ---- arguments and sentences: bind_argument.c ---- */

/* Raises the core's sentence, led by the place in the user's file unless it is an interruption.
 * Never returns. */
int bind_fail(lua_State *L, int status);

/* FOPO_OK passes, anything else raises. */
void bind_check(lua_State *L, int status);

/* Numbers are numbers: strings are refused, and so are fractions where integers are due. `what`
 * names the argument in sentences. */
uint64_t bind_seed(lua_State *L, int index);
size_t bind_count(lua_State *L, int index, const char *what, size_t least, size_t most);
double bind_number(lua_State *L, int index, const char *what);
uint32_t bind_id(lua_State *L, int index, const char *what, size_t n); /* 1 .. n becomes 0-based */
int bind_boolean(lua_State *L, int index, const char *what);           /* nil: 0 */
const char *bind_string(lua_State *L, int index, const char *what);
const char *bind_path(lua_State *L, int index);

void bind_table(lua_State *L, int index, const char *what);

/* Pushes field `name` of the table of options at `index` and returns its stack index; nothing of
 * the table's metatable is asked. */
int bind_option(lua_State *L, int index, const char *name);
int bind_has(lua_State *L, int index, const char *name);

/* What was found instead, for sentences: "nil", "a string", "fopo.array", "2.5". Pushes it. */
const char *bind_found(lua_State *L, int index);

/* The place of `choice` in the list (ended by NULL); raises with the list. */
int bind_choice(lua_State *L, int index, const char *what, const char *const *choices);

/* t[name] = value, for the table on the top. */
void bind_set_number(lua_State *L, const char *name, double value);
void bind_set_count(lua_State *L, const char *name, uint64_t value);

/* A uint32_t or float buffer that Lua frees; pushed. */
void *bind_scratch(lua_State *L, size_t n, size_t size);

/* ---- arrays: bind_array.c ---- */

typedef struct {
  bind_object object;
  int ids; /* 1: uint32_t, 0-based, FOPO_NO_ITEM where there is none; 0: float */
  size_t rows, cols;
  void *data; /* [rows, cols]; owned */
} bind_array;

extern const bind_type bind_array_type;

/* Pushes a fresh zeroed array. */
bind_array *bind_array_new(lua_State *L, int ids, size_t rows, size_t cols);

/* The array at `index`, of numbers or of ids; raises with `what` where it is of the other kind. */
bind_array *bind_array_numbers(lua_State *L, int index, const char *what);
bind_array *bind_array_ids(lua_State *L, int index, const char *what);

static inline fopo_matrix bind_matrix(const bind_array *a) {
  return fopo_matrix_view(a->data, a->rows, a->cols);
}

/* Ids from an array of ids or a table of 1-based integers <= n, or, where there is nothing at
 * `index`, 0 .. all - 1. Pushes a scratch that holds them. */
uint32_t *bind_rows(lua_State *L, int index, size_t n, size_t all, size_t *count);

/* ---- the families' objects ---- */

typedef struct {
  bind_object object;
  fopo_archive archive; /* on its way from a file to Lua */
} bind_archive;

typedef struct {
  bind_object object;
  fopo_dataset *dataset;
} bind_dataset;

typedef struct {
  bind_object object;
  fopo_sessions sessions;
} bind_sessions;

typedef struct {
  bind_object object; /* keeps: the arrays of contexts and of items, which own what the log is lent.
                       * User values 1, 2 of the handle: handles on them */
  fopo_logs *logs;
} bind_logs;

typedef struct {
  bind_object object; /* keeps: items */
  fopo_index *index;
} bind_index;

typedef struct {
  bind_object object; /* keeps: items, and those it was made with where it learns its own copy. User
                       * values 1 and 2 of the handle: handles on them */
  fopo_policy policy;
} bind_policy;

typedef struct {
  bind_object object; /* keeps: the index */
  fopo_proposal proposal;
} bind_proposal;

typedef struct {
  bind_object object; /* keeps: the sessions or the log, then what its model lies in: another
                       * reward, or two arrays. User value 1 of the handle: the function */
  fopo_reward reward;
  fopo_model *model; /* direct: fitted here, owned */
  fopo_matrix users; /* [n, rank] of the model in another reward for this log; owned */
} bind_reward;

typedef struct {
  bind_object object; /* keeps: its own proposal, and what it is bound to */
  fopo_gradient *gradient;
} bind_gradient;

typedef struct {
  bind_object object; /* keeps: the device of its state */
  fopo_optim optim;
} bind_optim;

typedef struct {
  bind_object object;
  fopo_device *device;
} bind_device;

enum { BIND_POLICY, BIND_CONTEXTS, BIND_REWARD, BIND_GRADIENT, BIND_OPTIM, BIND_DEVICE };

typedef struct {
  bind_object object; /* keeps: the slots above. User value 1 of the handle: the function of a
                       * custom reward */
  fopo_trainer *trainer;
  int busy; /* 1: in advance */
} bind_trainer;

extern const bind_type bind_dataset_type, bind_world_type, bind_sessions_type, bind_logs_type,
    bind_log_world_type, bind_ope_type, bind_index_type, bind_policy_type, bind_proposal_type,
    bind_reward_type, bind_gradient_type, bind_optim_type, bind_device_type, bind_trainer_type,
    bind_job_type, bind_archive_type;

/* Pushes a handle on the device of that name. There is one device of a kind in a Lua state, so
 * that an optimiser's state and a gradient's data may pass between calls. */
bind_device *bind_device_open(lua_State *L, const char *name);

/* The optimiser's state lies on this device, or will after the next step. */
void bind_optim_on(bind_optim *o, bind_object *device);

/* Calls the Lua function at `function` for the draws and fills drawn->reward. Returns Lua's status;
 * where it is not LUA_OK the error stands on the top, and nothing was raised. Takes 4 places of the
 * stack. */
int bind_reward_call(lua_State *L, int function, const fopo_drawn *drawn);

/* Pushes how many visits candidates serve: a number, "once", or nil. */
void bind_push_refresh(lua_State *L, const fopo_proposal *q);

/* Binds the gradient to its data, which then lives as long as the binding. A failure leaves the
 * former binding, or none. */
int bind_gradient_bind(bind_gradient *g, bind_device *device, bind_policy *pi, bind_array *x,
                       bind_reward *reward);

/* t.reward, t.ess ... and t[seconds_name] = {search = ...} in the table on the top. */
void bind_set_stats(lua_State *L, const fopo_gradient_stats *stats, const char *seconds_name);

/* The families' constructors, put into "fopo.native". */
extern const luaL_Reg bind_array_functions[], bind_data_functions[], bind_index_functions[],
    bind_logs_functions[], bind_policy_functions[], bind_proposal_functions[],
    bind_reward_functions[], bind_gradient_functions[], bind_optim_functions[],
    bind_device_functions[], bind_trainer_functions[], bind_job_functions[],
    bind_evaluate_functions[], bind_ope_functions[], bind_machine_functions[],
    bind_check_functions[];

#endif
