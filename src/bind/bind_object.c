/* Handles and objects: counted holders, closing, fields. See bind.h for the rule that makes them
 * safe. */
#include <string.h>

#include "bind/bind.h"
#include "core/memory.h"

/* The userdata. */
typedef struct {
  bind_object *object; /* NULL: closed */
} handle;

enum {
  PRESSURE_KB = 64 << 10, /* the largest step of the collector: a full collection anyway */
  STEP_KB = 64,           /* smaller ones wait until so much has come together */
  GARBAGE_KB = 16 << 10   /* bytes of objects that are worth a collection of a small heap */
};

static const char *short_name(const bind_type *type) { return strchr(type->name, '.') + 1; }

/* ---- remedies ---- */

static const char remedies[] = "fopo.remedies"; /* registry: the function */

/* native.remedies(f): f(what, kind, value, name) returns what to do about an error, or nil, or
 * raises the error itself (lua/fopo/base/remedy.lua). */
static int set_remedies(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, remedies);
  return 0;
}

/* Pushes "; " and the remedy, or "". what: "kind", a value that is no object of this type; "read"
 * or "set", a field that is not there or cannot be set. `name`: the method that was called with the
 * value as its first argument, or NULL. */
static const char *push_remedy(lua_State *L, const char *what, const bind_type *type, int index,
                               const char *name) {
  luaL_checkstack(L, 8, NULL);
  index = lua_type(L, index) == LUA_TNONE ? 0 : lua_absindex(L, index);
  if (lua_getfield(L, LUA_REGISTRYINDEX, remedies) != LUA_TFUNCTION) return "";
  lua_pushstring(L, what);
  lua_pushstring(L, short_name(type));
  if (index != 0) {
    lua_pushvalue(L, index);
  } else {
    lua_pushnil(L);
  }
  lua_pushstring(L, name);
  lua_call(L, 4, 1);
  if (lua_type(L, -1) != LUA_TSTRING) return "";
  return lua_pushfstring(L, "; %s", lua_tostring(L, -1));
}

/* The name by which the running function was called, as o.name(...), or NULL. */
static const char *called_by_dot(lua_State *L) {
  lua_Debug call;
  if (!lua_getstack(L, 0, &call) || !lua_getinfo(L, "n", &call)) return NULL;
  return strcmp(call.namewhat, "field") == 0 ? call.name : NULL;
}

/* ---- holders ---- */

void bind_release(bind_object *o) {
  if (o == NULL || --o->refs > 0) return;
  if (o->type->done) o->type->done(o);
  for (int i = 0; i < BIND_KEEPS; i++) bind_release(o->keeps[i]);
  fopo_free(o);
}

void bind_keep(bind_object *o, int slot, bind_object *kept) {
  bind_object *before = o->keeps[slot];
  if (kept) kept->refs++;
  o->keeps[slot] = kept;
  bind_release(before);
}

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* Call before a collection that may run finalisers. Each finaliser needs a call frame; if Lua
 * cannot allocate one it drops the finaliser and its object leaks. A call now makes the frame, and
 * raises while nothing can leak. */
static void make_frame(lua_State *L) {
  luaL_checkstack(L, 2 * LUA_MINSTACK, NULL);
  lua_pushcfunction(L, nothing);
  lua_call(L, 0, 0);
}

void bind_collect(lua_State *L) {
  make_frame(L);
  /* The second collection frees the objects that finalisers of the first released. */
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
}

static size_t said; /* bytes that bind_pressure was told of since the last object was made */

/* A step of n KB is the n-th part of the work of going through a heap of n KB. Where Lua's heap is
 * small, a step for every byte would go through all of it again and again for a few arrays. */
void bind_pressure(lua_State *L, size_t bytes) {
  static double owed;
  double heap = lua_gc(L, LUA_GCCOUNT), kb = (double)bytes / 1024;
  said += bytes;
  owed += heap < GARBAGE_KB ? kb * heap / GARBAGE_KB : kb;
  if (owed < STEP_KB) return;
  int step = owed < PRESSURE_KB ? (int)owed : PRESSURE_KB;
  owed = 0;
  make_frame(L);
  lua_gc(L, LUA_GCSTEP, step);
}

/* ---- handles ---- */

static handle *push_handle(lua_State *L, const bind_type *type, int values) {
  make_frame(L);
  handle *h = lua_newuserdatauv(L, sizeof *h, values);
  h->object = NULL;
  luaL_setmetatable(L, type->name);
  return h;
}

/* Tells the collector what the last objects have taken and nobody said: a policy's own rows, a
 * trainer's state. Temporaries of any type stay bounded by that. */
static void press_for_the_rest(lua_State *L) {
  static size_t before, announced;
  size_t now = fopo_memory_in_use().bytes, grown = now > before ? now - before : 0;
  size_t next = said; /* about the object that is made now */
  if (grown > announced) bind_pressure(L, grown - announced);
  announced = next;
  said = 0;
  before = fopo_memory_in_use().bytes;
}

void *bind_new(lua_State *L, const bind_type *type, int values) {
  press_for_the_rest(L);
  handle *h = push_handle(L, type, values);
  bind_object *o = fopo_alloc(1, type->size);
  if (o == NULL) {
    bind_collect(L);
    o = fopo_alloc(1, type->size);
  }
  if (o == NULL) bind_fail(L, FOPO_ERR_MEMORY);
  o->type = type;
  o->refs = 1;
  h->object = o;
  return o;
}

/* The handle is made before the object is fetched: making it may run finalisers. */
void bind_push_again(lua_State *L, int index, const bind_type *type) {
  handle *h = push_handle(L, type, 0);
  h->object = bind_get(L, index, type);
  h->object->refs++;
}

void bind_push_kept(lua_State *L, int index, const bind_type *type, int slot) {
  bind_object *o = bind_get(L, index, type);
  if (o->keeps[slot] == NULL) {
    lua_pushnil(L);
    return;
  }
  handle *h = push_handle(L, o->keeps[slot]->type, 1);
  o = bind_get(L, index, type);
  h->object = o->keeps[slot];
  h->object->refs++;
}

void bind_push_held(lua_State *L, int index, const bind_type *type, int slot) {
  const bind_object *kept = ((bind_object *)bind_get(L, index, type))->keeps[slot];
  lua_getiuservalue(L, index, slot + 1);
  if (kept != NULL && bind_peek(L, -1, kept->type) == kept) return;
  lua_pop(L, 1);
  bind_push_kept(L, index, type, slot);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, index, slot + 1);
}

int bind_is(lua_State *L, int index, const bind_type *type) {
  return luaL_testudata(L, index, type->name) != NULL;
}

/* The handle of an object of this type, closed or not. */
static handle *get_handle(lua_State *L, int index, const bind_type *type) {
  handle *h = luaL_testudata(L, index, type->name);
  if (h != NULL) return h;
  const char *name = short_name(type), *found = bind_found(L, index);
  const char *remedy = push_remedy(L, "kind", type, index, index == 1 ? called_by_dot(L) : NULL);
  bind_refuse(L, "%s %s is needed here, not %s%s", strchr("aeio", name[0]) ? "an" : "a", name,
              found, remedy);
}

static int arrays_alone;

int bind_arrays_alone(int on) {
  int before = arrays_alone;
  arrays_alone = on;
  return before;
}

void *bind_get(lua_State *L, int index, const bind_type *type) {
  handle *h = get_handle(L, index, type);
  if (arrays_alone && type != &bind_array_type) {
    bind_refuse(L,
                "a function of a custom policy or objective computes with arrays alone; take what "
                "it needs of "
                "a %s before",
                short_name(type));
  }
  if (h->object == NULL) bind_refuse(L, "this %s has been closed", short_name(type));
  return h->object;
}

void bind_check_free(lua_State *L, const bind_object *o) {
  if (o->attached == 0) return;
  bind_refuse(L, "this %s is in use by a job; job:pause() first, or job:wait() for its end",
              short_name(o->type));
}

void *bind_get_free(lua_State *L, int index, const bind_type *type) {
  bind_object *o = bind_get(L, index, type);
  bind_check_free(L, o);
  return o;
}

bind_object *bind_peek(lua_State *L, int index, const bind_type *type) {
  handle *h = luaL_testudata(L, index, type->name);
  return h ? h->object : NULL;
}

void bind_swap(lua_State *L, int a, int b) {
  handle *x = lua_touserdata(L, a);
  handle *y = lua_touserdata(L, b);
  bind_object *o = x->object;
  x->object = y->object;
  y->object = o;
}

/* ---- metamethods ---- */

static const bind_type *upvalue_type(lua_State *L) {
  return lua_touserdata(L, lua_upvalueindex(1));
}

/* __gc: the handle releases its object. May be called again. */
static int collect_handle(lua_State *L) {
  handle *h = get_handle(L, 1, upvalue_type(L));
  bind_object *o = h->object;
  h->object = NULL;
  bind_release(o);
  return 0;
}

/* :close() and __close */
static int close_handle(lua_State *L) { return arrays_alone ? 0 : collect_handle(L); }

static const char *own_name(const bind_type *type, size_t i) {
  return type->own_name != NULL ? type->own_name(i) : NULL;
}

/* Raises the sentence for a field that does not exist, which Lua words. */
static int no_field(lua_State *L, const bind_type *type, const char *field) {
  push_remedy(L, "read", type, 2, NULL);
  return bind_refuse(L, "%s has no field '%.80s'", short_name(type), field);
}

static const bind_field *find_field(const bind_type *type, const char *name) {
  for (const bind_field *f = type->fields; f && f->name; f++) {
    if (strcmp(f->name, name) == 0) return f;
  }
  return NULL;
}

/* __index: methods first, then the object's own options, then fields. Upvalue 2: the methods. */
static int get_field(lua_State *L) {
  const bind_type *type = upvalue_type(L);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL) return 1;
  if (type->element && lua_type(L, 2) == LUA_TNUMBER) return type->element(L);
  if (lua_type(L, 2) != LUA_TSTRING) {
    const char *found = bind_found(L, 2);
    return bind_refuse(L, "%s has no element [%s]; its elements are reached by methods",
                       short_name(type), found);
  }
  bind_object *o = bind_get(L, 1, type);
  const char *field = lua_tostring(L, 2);
  const bind_field *f = find_field(type, field);
  if (type->own && type->own(L, o)) return 1;
  if (f && f->get(L, o)) return 1;
  if (!f && type->other && type->other(L, o)) return 1;
  return no_field(L, type, field);
}

static int set_field(lua_State *L) {
  const bind_type *type = upvalue_type(L);
  bind_object *o = bind_get_free(L, 1, type);
  const char *field = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "[]";
  const bind_field *f = find_field(type, field);
  if (type->set_own && type->set_own(L, o)) return 0;
  if (f && f->set && f->set(L, o)) return 0;
  if (f && f->set) {
    return bind_refuse(L, "this %s has no field '%.80s' that can be set", short_name(type), field);
  }
  lua_pushvalue(L, 2);
  int is_method = lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL;
  int is_own = type->own && type->own(L, o);
  int is_element = type->element && lua_type(L, 2) != LUA_TSTRING;
  if (!f && !is_method && !is_element && !is_own && !(type->other && type->other(L, o))) {
    return no_field(L, type, field);
  }
  const char *remedy = push_remedy(L, "set", type, 2, NULL);
  return bind_refuse(L, "%s.%.80s cannot be set%s", short_name(type), field, remedy);
}

/* __tostring: the method `describe`, which the Lua files give each type; a closed handle has no
 * object to describe. */
static int describe(lua_State *L) {
  const bind_type *type = upvalue_type(L);
  handle *h = luaL_testudata(L, 1, type->name);
  if (h && h->object && lua_getfield(L, lua_upvalueindex(2), "describe") == LUA_TFUNCTION) {
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
  }
  lua_pushfstring(L, h && h->object ? "%s" : "%s (closed)", short_name(type));
  return 1;
}

void bind_type_open(lua_State *L, const bind_type *type) {
  static const luaL_Reg close[] = {{"close", close_handle}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", collect_handle}, {"__close", close_handle},
                                  {"__index", get_field},   {"__newindex", set_field},
                                  {"__tostring", describe}, {NULL, NULL}};
  int types = lua_gettop(L);

  lua_newtable(L);
  if (type->methods) luaL_setfuncs(L, type->methods, 0);
  lua_pushlightuserdata(L, (void *)type);
  luaL_setfuncs(L, close, 1);

  luaL_newmetatable(L, type->name);
  lua_pushlightuserdata(L, (void *)type);
  lua_pushvalue(L, types + 1);
  luaL_setfuncs(L, meta, 2);
  if (type->length) {
    lua_pushcfunction(L, type->length);
    lua_setfield(L, -2, "__len");
  }
  bind_set_string(L, "__metatable", type->name);
  lua_pop(L, 1);
  lua_setfield(L, types, short_name(type));
}

void bind_type_add(lua_State *L, const bind_type *type, const luaL_Reg *methods) {
  lua_getfield(L, -1, short_name(type));
  luaL_getmetatable(L, type->name);
  for (; methods->name; methods++) {
    lua_pushcfunction(L, methods->func);
    lua_setfield(L, strncmp(methods->name, "__", 2) == 0 ? -2 : -3, methods->name);
  }
  lua_pop(L, 2);
}

const luaL_Reg bind_object_functions[] = {{"remedies", set_remedies}, {NULL, NULL}};

void bind_type_fields(lua_State *L, const bind_type *type) {
  lua_newtable(L);
  for (const bind_field *f = type->fields; f && f->name; f++) {
    bind_set_boolean(L, f->name, 1);
  }
  for (size_t i = 0; own_name(type, i) != NULL; i++) bind_set_boolean(L, own_name(type, i), 1);
  lua_setfield(L, -2, short_name(type));
}
