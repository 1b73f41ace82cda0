/* Strings that C makes. A handle owns the string until Lua has its copy, because making the copy
 * may raise. */
#include "bind/bind.h"
#include "core/memory.h"

static void done(bind_object *o) { fopo_free(((bind_text *)o)->text); }

bind_text *bind_text_new(lua_State *L) { return bind_new(L, &bind_text_type, 0); }

int bind_text_push(lua_State *L, bind_text *t) {
  lua_pushstring(L, t->text);
  fopo_free(t->text);
  t->text = NULL;
  return 1;
}

const bind_type bind_text_type = {.name = "fopo.text", .size = sizeof(bind_text), .done = done};
