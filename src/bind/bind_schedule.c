/* Learning-rate schedules: values that an optimiser copies. */
#include <string.h>

#include "bind/families.h"

static const char *const kinds[] = {"constant", "cosine", "linear", "step", NULL};

void bind_schedule_push(lua_State *L, const fopo_schedule *schedule) {
  bind_schedule *s = bind_new(L, &bind_schedule_type, 0);
  s->schedule = *schedule;
}

/* native.schedule{kind = one of kinds, warmup, steps, final, every, factor}. */
static int schedule(lua_State *L) {
  fopo_schedule s = {.kind = (fopo_schedule_kind)bind_option_choice(L, 1, "kind", kinds),
                     .warmup = bind_option_count_or(L, 1, "warmup", 0, SIZE_MAX, 0),
                     .steps = bind_option_count_or(L, 1, "steps", 0, SIZE_MAX, 0),
                     .final = bind_option_number_or(L, 1, "final", 0.0),
                     .every = bind_option_count_or(L, 1, "every", 0, SIZE_MAX, 0),
                     .factor = bind_option_number_or(L, 1, "factor", 1.0)};
  bind_check(L, fopo_schedule_check(&s));
  bind_schedule_push(L, &s);
  return 1;
}

static const fopo_schedule *schedule_of(const bind_object *o) {
  return &((const bind_schedule *)o)->schedule;
}

BIND_FIELD(field_kind, string, kinds[schedule_of(o)->kind])
BIND_FIELD(field_warmup, count, schedule_of(o)->warmup)

/* Those of one kind alone. */
static int field_steps(lua_State *L, bind_object *o) {
  const fopo_schedule *s = schedule_of(o);
  return fopo_schedule_ends(s) ? bind_return_count(L, s->steps) : 0;
}

static int field_final(lua_State *L, bind_object *o) {
  const fopo_schedule *s = schedule_of(o);
  return fopo_schedule_ends(s) ? bind_return_number(L, s->final) : 0;
}

static int field_every(lua_State *L, bind_object *o) {
  const fopo_schedule *s = schedule_of(o);
  return s->kind == FOPO_SCHEDULE_STEP ? bind_return_count(L, s->every) : 0;
}

static int field_factor(lua_State *L, bind_object *o) {
  const fopo_schedule *s = schedule_of(o);
  return s->kind == FOPO_SCHEDULE_STEP ? bind_return_number(L, s->factor) : 0;
}

/* s:at(t): the factor of the next update after t updates. */
static int at(lua_State *L) {
  size_t t = bind_count(L, 2, "t", 0, SIZE_MAX);
  const bind_schedule *s = bind_get(L, 1, &bind_schedule_type);
  return bind_return_number(L, fopo_schedule_factor(&s->schedule, t));
}

const luaL_Reg bind_schedule_functions[] = {{"schedule", schedule}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"at", at}, {NULL, NULL}};

static const bind_field fields[] = {{"kind", field_kind, NULL},
                                    {"warmup", field_warmup, NULL},
                                    {"steps", field_steps, NULL},
                                    {"final", field_final, NULL},
                                    {"every", field_every, NULL},
                                    {"factor", field_factor, NULL},
                                    {NULL, NULL, NULL}};

const bind_type bind_schedule_type = {
    .name = "fopo.schedule", .size = sizeof(bind_schedule), .methods = methods, .fields = fields};
