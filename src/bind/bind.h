/* How everything is bound to Lua: objects, arguments, options, results, errors.
 *
 * A Lua value is a handle (a userdata that holds one pointer) on an object that counts its holders:
 * handles, and the objects that point into it. So a close, a finaliser in any order, or a function
 * that closes things while a trainer works never leaves a pointer to freed memory: the object is
 * freed with its last holder. A closed handle has no object and answers "this array has been
 * closed". Lua values that an object needs (the function of a custom reward) are user values of its
 * handle.
 *
 * Every function takes the same steps:
 *   1. it checks its arguments;
 *   2. it creates its results, empty, so that an error at any later moment leaks nothing;
 *   3. it fetches the objects of its arguments again, because creating may run finalisers, and they
 *      may close handles;
 *   4. it calls C that calls no Lua, but for the functions of a custom policy or objective
 *      (bind_custom.c).
 *
 * A file binds one family: static functions first, each with the Lua call above it, then the
 * luaL_Reg tables and the bind_type. Its rows in families.def put it into a module.
 *
 * Ranges: the declarations in lua/fopo check what users type, and C checks what it needs to be
 * safe. A function here checks a range only if it uses the value itself before C sees it.
 *
 * Ids are 0-based in C and 1-based in Lua. bind_id, bind_rows and bind_push_id convert them. */
#ifndef FOPO_BIND_BIND_H
#define FOPO_BIND_BIND_H

#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdint.h>

#include "core/status.h"

#define FOPO_VERSION "0.2.0"

/* The modules "fopo.native" and "fopo.term". */
int luaopen_fopo_native(lua_State *L);
int luaopen_fopo_term(lua_State *L);

/* Lets require find the Lua files inside the program and preloads the two modules; load, loadfile,
 * dofile and require take text only, because damaged bytecode crashes the interpreter. */
int fopo_lua_open(lua_State *L);

/* Makes the environment of the program's own files, FOPO_ENVIRONMENT, when the standard libraries
 * are as they shall stay there. */
void fopo_lua_seal(lua_State *L);

/* fopo --safe: scripts lose what reaches beyond fopo in io, os, package and debug, and the two
 * modules. To be called after fopo_lua_seal. */
void fopo_lua_safe(lua_State *L);

/* fopo --max-memory: the most bytes that Lua and fopo's objects may have together. */
void fopo_lua_limit(lua_State *L, uint64_t bytes);

/* fopo --json: runs print their records as JSON. */
void fopo_lua_json(int on);

/* fopo --checkpoint PATH: runs that name no checkpoint keep this one. Not copied. */
void fopo_lua_checkpoint(const char *path);

/* ---- objects: bind_object.c ---- */

typedef struct bind_object bind_object;

/* A field of a type, as in array.rows. The handle is at stack index 1, the name at 2. */
typedef struct {
  const char *name;
  int (*get)(lua_State *L, bind_object *o); /* pushes 1 value; 0: this object has no such field */
  int (*set)(lua_State *L, bind_object *o); /* to the value at 3; NULL: the field cannot be set */
} bind_field;

typedef struct {
  const char *name; /* "fopo.array": the name of the metatable */
  size_t size;      /* bytes of the struct that begins with a bind_object */
  /* Frees what the object owns; accepts one that is zero after its head. */
  void (*done)(bind_object *o);
  const luaL_Reg *methods;
  int (*element)(lua_State *L); /* o[i] and #o, as __index and __len; NULL: none */
  int (*length)(lua_State *L);
  const bind_field *fields; /* ended by {NULL}; NULL: none */
  /* As `get` and `set` of a field, for the object's own options (learn/option.h): asked before the
   * table, whatever the name; 0: there is none of that name. NULL: none. */
  int (*own)(lua_State *L, bind_object *o);
  int (*set_own)(lua_State *L, bind_object *o);
  /* The name of the i-th of all options that objects of this type may have, and NULL behind them,
   * for help and completion; NULL: none. */
  const char *(*own_name)(size_t i);
  /* As `get` of a field, for names that are not in the table; NULL: none. */
  int (*other)(lua_State *L, bind_object *o);
} bind_type;

enum { BIND_KEEPS = 7 };

struct bind_object {
  const bind_type *type;
  size_t refs;                    /* holders: handles, and objects that keep it */
  size_t attached;                /* jobs that train with it; it must not be changed if > 0 */
  bind_object *keeps[BIND_KEEPS]; /* the objects that this one points into; released after `done` */
};

/* Makes the metatable, and types[short name] = table of methods in the table on the top. */
void bind_type_open(lua_State *L, const bind_type *type);

/* Adds methods to a type of the table on the top; those whose names begin with __ are operators. */
void bind_type_add(lua_State *L, const bind_type *type, const luaL_Reg *methods);

/* fields[short name] = {field = true ...} in the table on the top. */
void bind_type_fields(lua_State *L, const bind_type *type);

/* Pushes a handle on a fresh object, zero after its head, with `values` user values. */
void *bind_new(lua_State *L, const bind_type *type, int values);

/* Pushes one more handle on the object at `index`: it then lives until the function returns,
 * whatever a finaliser or a Lua function closes. */
void bind_push_again(lua_State *L, int index, const bind_type *type);

/* Pushes a handle on the object that the one at `index` keeps in a slot; nil if the slot is empty.
 */
void bind_push_kept(lua_State *L, int index, const bind_type *type, int slot);

/* The same by one handle every time, which is user value slot + 1 of the handle at `index`; a new
 * one if that was closed or changed since. */
void bind_push_held(lua_State *L, int index, const bind_type *type, int slot);

/* The object at a stack index; raises if the value is no handle of this type or is closed. */
void *bind_get(lua_State *L, int index, const bind_type *type);

/* The same for a function that changes the object: raises also if a job trains with it. */
void *bind_get_free(lua_State *L, int index, const bind_type *type);
void bind_check_free(lua_State *L, const bind_object *o);

/* 1: Lua is called from inside a loop of C, and until 0 bind_get refuses all but arrays, and
 * closing waits for the collector. Returns what was before. */
int bind_arrays_alone(int on);

/* The object of the handle at a stack index; NULL if it is closed or no handle of that type. */
bind_object *bind_peek(lua_State *L, int index, const bind_type *type);

/* 1 if the value at the index is a handle of that type, closed or not. */
int bind_is(lua_State *L, int index, const bind_type *type);

/* Slot `slot` of o keeps `kept` (NULL: nothing) from now on; the object that it kept is released.
 */
void bind_keep(bind_object *o, int slot, bind_object *kept);

/* Releases one holder. */
void bind_release(bind_object *o);

/* Exchanges the objects of two handles of one type. */
void bind_swap(lua_State *L, int a, int b);

/* Tells Lua's collector of memory that it does not count. */
void bind_pressure(lua_State *L, size_t bytes);

/* Two full collections, before a second attempt at an allocation. */
void bind_collect(lua_State *L);

/* ---- arguments and sentences: bind_argument.c ---- */

/* Raises the core's sentence, led by the place in the user's file unless it is an interruption.
 * Its type lets a function of Lua end with it, as with lua_error. */
__attribute__((noreturn)) int bind_fail(lua_State *L, int status);

/* Raises a sentence of its own about a wrong argument. */
__attribute__((noreturn, format(printf, 2, 3))) int bind_refuse(lua_State *L, const char *format,
                                                                ...);

/* FOPO_OK passes, anything else raises. */
void bind_check(lua_State *L, int status);

/* The argument at a stack index. Numbers are numbers: a string is refused, and so is a fraction if
 * an integer is needed. `what` names the argument in sentences. Ranges are checked by the
 * declarations in lua/fopo for users, and by the core for any caller: `least` and `most` are the
 * limits of the C type, or those that this folder needs for its own allocations. */
uint64_t bind_seed(lua_State *L, int index);
uint32_t bind_step(lua_State *L, int index); /* nil: 0 */
size_t bind_count(lua_State *L, int index, const char *what, size_t least, size_t most);
double bind_number(lua_State *L, int index, const char *what);
float bind_float(lua_State *L, int index, const char *what); /* refuses what no float32 holds */
uint32_t bind_id(lua_State *L, int index, const char *what, size_t n); /* 1 .. n becomes 0-based */
int bind_boolean(lua_State *L, int index, const char *what);           /* nil: 0 */
const char *bind_string(lua_State *L, int index, const char *what);
const char *bind_path(lua_State *L, int index);

/* The path, or the list of n >= 1 paths, at `index`. Pushes the buffer that holds the list. */
const char **bind_paths(lua_State *L, int index, size_t *n);

void bind_table(lua_State *L, int index, const char *what);

/* Pushes field `name` of the table of options at `index` and returns its stack index. Metamethods
 * are not called. */
int bind_option(lua_State *L, int index, const char *name);
int bind_has(lua_State *L, int index, const char *name);

/* An option as bind_count, bind_number ... read an argument. The stack stays as it is, but for
 * bind_option_string: the string stays on it. */
size_t bind_option_count(lua_State *L, int index, const char *name, size_t least, size_t most);
size_t bind_option_count_or(lua_State *L, int index, const char *name, size_t least, size_t most,
                            size_t fallback);
double bind_option_number(lua_State *L, int index, const char *name);
double bind_option_number_or(lua_State *L, int index, const char *name, double fallback);
int bind_option_boolean(lua_State *L, int index, const char *name);        /* absent: 0 */
const char *bind_option_string(lua_State *L, int index, const char *name); /* absent: NULL */
int bind_option_choice(lua_State *L, int index, const char *name, const char *const *choices);
uint64_t bind_option_seed(lua_State *L, int index); /* "seed" */

/* What a value is, for sentences: "nil", "a string", "fopo.array", "2.5". Pushes the string. */
const char *bind_found(lua_State *L, int index);

/* The position of the string in the list (ended by NULL); raises, naming the list. */
int bind_choice(lua_State *L, int index, const char *what, const char *const *choices);

/* t[name] = value, for the table on the top. */
void bind_set_number(lua_State *L, const char *name, double value);
void bind_set_count(lua_State *L, const char *name, uint64_t value);
void bind_set_boolean(lua_State *L, const char *name, int value);
void bind_set_string(lua_State *L, const char *name, const char *value);

/* Push one result and return 1, the number of results: `return bind_return_number(L, x);`. */
static inline int bind_return_count(lua_State *L, size_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  return 1;
}

static inline int bind_return_number(lua_State *L, double value) {
  lua_pushnumber(L, value);
  return 1;
}

static inline int bind_return_string(lua_State *L, const char *value) {
  lua_pushstring(L, value); /* NULL: nil */
  return 1;
}

static inline int bind_return_boolean(lua_State *L, int value) {
  lua_pushboolean(L, value);
  return 1;
}

static inline int bind_return_nil(lua_State *L) {
  lua_pushnil(L);
  return 1;
}

/* nil for 0. */
static inline int bind_return_positive(lua_State *L, size_t value) {
  return value > 0 ? bind_return_count(L, value) : bind_return_nil(L);
}

/* nil for NaN. */
static inline int bind_return_known(lua_State *L, double value) {
  return isnan(value) ? bind_return_nil(L) : bind_return_number(L, value);
}

/* true, or nil and the core's sentence of a failure that is no error; returns how many. */
int bind_return_outcome(lua_State *L, int status);

/* The `get` of a field whose value is an expression of the object `o`: a count, number, string or
 * boolean, or one of which 0 (positive) or NaN (known) is nil. */
#define BIND_FIELD(function, kind, value)                                                          \
  static int function(lua_State *L, bind_object *o) { return bind_return_##kind(L, value); }

/* Pushes a 0-based id as Lua's 1-based one; nil for FOPO_NO_ITEM. */
void bind_push_id(lua_State *L, uint32_t id);

/* Pushes a list of n numbers, or of n counts. */
void bind_push_list(lua_State *L, const double *x, size_t n);
void bind_push_floats(lua_State *L, const float *x, size_t n);
void bind_push_counts(lua_State *L, const size_t *x, size_t n);

/* The numbers of the list in field `name` of the table on the top, one of several series; pushes
 * the scratch that holds them below that table. */
const double *bind_series_numbers(lua_State *L, const char *name, int series, size_t *n);

/* Pushes a buffer of n elements of `size` bytes, which Lua frees. */
void *bind_scratch(lua_State *L, size_t n, size_t size);

/* ---- strings that C makes: bind_text.c ---- */

typedef struct {
  bind_object object;
  char *text; /* of fopo_alloc; owned */
} bind_text;

bind_text *bind_text_new(lua_State *L);         /* pushes it, without a string */
int bind_text_push(lua_State *L, bind_text *t); /* pushes a copy and frees the string; returns 1 */

/* ---- families ---- */

/* Functions and types of all families. */
#define FAMILY(module, name) extern const luaL_Reg bind_##name##_functions[];
#define TYPE(module, name)   extern const bind_type bind_##name##_type;
#include "bind/families.def"
#undef FAMILY
#undef TYPE
extern const luaL_Reg bind_compute_methods[]; /* of arrays */

#endif
