/* Text that Lua gives away. Files are written as wholes, by core/replace.h; a disk that is full is
 * no error here: the functions return nil and the sentence. */
#include <stdio.h>
#include <string.h>

#include "bind/families.h"
#include "core/lock.h"
#include "core/plain.h"
#include "core/replace.h"

/* native.write_file(path, text): replaces the file by the text. */
static int write_file(lua_State *L) {
  size_t n;
  const char *path = bind_path(L, 1), *text = luaL_checklstring(L, 2, &n);
  return bind_return_outcome(L, fopo_replace_whole(path, text, n));
}

/* native.append_file(path, text, to_disk): adds the text to the end of the file. */
static int append_file(lua_State *L) {
  size_t n;
  const char *path = bind_path(L, 1), *text = luaL_checklstring(L, 2, &n);
  return bind_return_outcome(L, fopo_replace_append(path, text, n, lua_toboolean(L, 3)));
}

/* native.lock(path): an integer for native.unlock; where another run holds it false and who; nil
 * where no lock can be made. */
static int lock(lua_State *L) {
  char holder[FOPO_LOCK_HOLDER], shown[4 * FOPO_LOCK_HOLDER];
  int fd = fopo_lock_open(holder, bind_path(L, 1));
  if (fd >= 0) {
    lua_pushinteger(L, fd);
    return 1;
  }
  if (fd != -1) return bind_return_nil(L);
  lua_pushboolean(L, 0);
  lua_pushstring(L, fopo_plain(shown, sizeof shown, holder, strlen(holder)) > 0 ? shown : "");
  return 2;
}

/* native.unlock(lock, path). */
static int unlock(lua_State *L) {
  fopo_lock_close((int)luaL_checkinteger(L, 1), bind_path(L, 2));
  return 0;
}

/* native.plain(text): the text with its control characters escaped (core/plain.h). */
static int plain(lua_State *L) {
  size_t n;
  luaL_Buffer b;
  const char *text = luaL_checklstring(L, 1, &n);
  char *to = luaL_buffinitsize(L, &b, 4 * n + 1); /* a byte becomes at most four */
  luaL_pushresultsize(&b, fopo_plain(to, 4 * n + 1, text, n));
  return 1;
}

/* ---- a file that is written piece by piece ---- */

typedef struct {
  bind_object head;
  fopo_replacement file;
  char path[FOPO_PATH_MOST]; /* `file` points to it */
  int open;
  uint64_t bytes; /* written so far */
  double share;   /* of the whole; 0: not known */
} replacement;

/* Ends the file, which takes the old one's place if status is FOPO_OK and error 0. */
static int end(replacement *r, int status, int error) {
  if (!r->open) return status;
  r->open = 0;
  double whole = r->share > 0 ? (double)r->bytes / r->share : 0;
  return fopo_replace_end(&r->file, status, error, (uint64_t)whole);
}

static void replacement_done(bind_object *o) { end((replacement *)o, FOPO_ERR_INTERRUPTED, 0); }

/* native.replacement(path): the old file stays until r:finish(). */
static int replacement_new(lua_State *L) {
  const char *path = bind_path(L, 1);
  replacement *r = bind_new(L, &bind_replacement_type, 0);
  if (snprintf(r->path, sizeof r->path, "%s", path) >= (int)sizeof r->path) {
    return bind_return_outcome(L, fopo_fail(FOPO_ERR_ARGUMENT, "the path %s is too long", path));
  }
  int status = fopo_replace_begin(&r->file, r->path);
  r->open = status == FOPO_OK;
  if (!r->open) return bind_return_outcome(L, status);
  return 1;
}

/* r:write(text, share): after a failure the new file is gone. share: of the whole that is written
 * then, if that is known, to say what the whole needs. */
static int replacement_write(lua_State *L) {
  size_t n;
  replacement *r = bind_get(L, 1, &bind_replacement_type);
  const char *text = luaL_checklstring(L, 2, &n);
  if (!r->open) return bind_refuse(L, "%s is finished; nothing more is written to it", r->path);
  int error = fopo_write_all(r->file.fd, text, n);
  r->bytes += n;
  r->share = lua_isnumber(L, 3) ? lua_tonumber(L, 3) : 0;
  return bind_return_outcome(L, error == 0 ? FOPO_OK : end(r, FOPO_OK, error));
}

/* r:finish(): the file takes the old one's place. */
static int replacement_finish(lua_State *L) {
  replacement *r = bind_get(L, 1, &bind_replacement_type);
  return bind_return_outcome(L, end(r, FOPO_OK, 0));
}

/* r:cancel(): the old file stays as it is. */
static int replacement_cancel(lua_State *L) {
  replacement_done(bind_get(L, 1, &bind_replacement_type));
  return 0;
}

const luaL_Reg bind_file_functions[] = {{"write_file", write_file},
                                        {"append_file", append_file},
                                        {"lock", lock},
                                        {"unlock", unlock},
                                        {"replacement", replacement_new},
                                        {"plain", plain},
                                        {NULL, NULL}};

static const luaL_Reg methods[] = {{"write", replacement_write},
                                   {"finish", replacement_finish},
                                   {"cancel", replacement_cancel},
                                   {NULL, NULL}};

const bind_type bind_replacement_type = {
    .name = "fopo.replacement",
    .size = sizeof(replacement),
    .done = replacement_done,
    .methods = methods,
};
