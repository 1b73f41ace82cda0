/* Optimisers and devices. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bind/families.h"
#include "device/arrays.h"

/* ---- devices ---- */

static const char devices[] = "fopo.devices"; /* registry: kind -> handle */

static void device_done(bind_object *o) { fopo_device_close(((bind_device *)o)->device); }

bind_device *bind_device_open(lua_State *L, const char *name) {
  luaL_checkstack(L, 8, NULL);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, devices);
  if (lua_getfield(L, -1, name) != LUA_TNIL) {
    lua_remove(L, -2);
    return bind_get(L, -1, &bind_device_type);
  }
  lua_pop(L, 1);
  bind_device *fresh = bind_new(L, &bind_device_type, 0);
  bind_check(L, fopo_device_open(&fresh->device, name));

  /* "auto" chose a kind. If a device of that kind is open already, use it and give it the note that
   * says why it was chosen. */
  const char *kind = fresh->device->ops->kind;
  if (lua_getfield(L, -2, kind) != LUA_TNIL) {
    bind_device *open = bind_get(L, -1, &bind_device_type);
    snprintf(open->device->note, sizeof open->device->note, "%s", fresh->device->note);
    lua_remove(L, -2);
  } else {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, kind);
  }
  if (strcmp(name, kind) != 0) {
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, name);
  }
  lua_remove(L, -2);
  return bind_get(L, -1, &bind_device_type);
}

/* native.device(name): "cpu", "cuda" or "auto"; the same device for the same kind. */
static int device(lua_State *L) {
  const char *name = bind_string(L, 1, "device");
  lua_settop(L, 1);
  bind_device_open(L, name);
  bind_push_again(L, 2, &bind_device_type);
  return 1;
}

/* native.device_cards(): the cards that "cuda" can use, one per line; or nil and why there is none.
 */
static int device_cards(lua_State *L) {
  char text[2048];
  int status = fopo_device_cards(text, sizeof text);
  return status == FOPO_OK ? bind_return_string(L, text) : bind_return_outcome(L, status);
}

static const fopo_device *device_of(const bind_object *o) {
  return ((const bind_device *)o)->device;
}

BIND_FIELD(device_kind, string, device_of(o)->ops->kind)
BIND_FIELD(device_name, string, device_of(o)->name)
BIND_FIELD(device_note, string, device_of(o)->note)

/* ---- optimisers ---- */

static void optim_done(bind_object *o) { fopo_optim_done(&((bind_optim *)o)->optim); }

void bind_optim_on(bind_optim *o, bind_object *device) {
  if (o->optim.device == NULL) bind_keep(&o->object, 0, device);
}

/* Reads lr_of = {items = 1e-2, W1 = 1e-4}; the items' rate is items_lr by another name. */
static void read_rates(lua_State *L, fopo_optim_options *o) {
  int at = bind_option(L, 1, "lr_of");
  bind_table(L, at, "lr_of");
  for (lua_pushnil(L); lua_next(L, at) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      bind_refuse(L, "lr_of has a key that is no name; use lr_of = {W1 = 1e-4}");
    }
    const char *name = lua_tostring(L, -2);
    double lr = bind_number(L, lua_gettop(L), name);
    if (!(lr > 0.0)) bind_refuse(L, "the learning rate of %s is %g; use > 0", name, lr);
    int block = FOPO_BLOCK_ITEMS;
    while (block < FOPO_BLOCKS && strcmp(name, fopo_block_names[block]) != 0) block++;
    if (block < FOPO_BLOCKS) {
      if (o->block_lr[block] > 0.0) {
        bind_refuse(L, "items_lr and lr_of.items are the same; give one of them");
      }
      o->block_lr[block] = lr;
      continue;
    }
    if (strlen(name) >= FOPO_PARAMETER_NAME || o->n_lr_of == FOPO_POLICY_PARAMETERS) {
      bind_refuse(L, "lr_of has \"%s\", which no policy has, or too many names", name);
    }
    snprintf(o->lr_of[o->n_lr_of].name, FOPO_PARAMETER_NAME, "%s", name);
    o->lr_of[o->n_lr_of++].lr = lr;
  }
  lua_pop(L, 1);
}

/* native.optim_NAME{lr, items_lr, lr_of, weight_decay, decoupled, clip, schedule, ...}, and the
 * options of the optimiser's row. */
static int new_optim(lua_State *L, const fopo_optimiser *kind) {
  fopo_optim_options options = {.kind = kind, .lr = bind_option_number(L, 1, "lr")};
  for (const fopo_option *row = kind->options; row->name != NULL; row++) {
    bind_read_row(L, 1, row, &options);
  }
  options.block_lr[FOPO_BLOCK_ITEMS] = bind_option_number_or(L, 1, "items_lr", 0.0);
  if (bind_has(L, 1, "lr_of")) read_rates(L, &options);
  options.weight_decay = bind_option_number(L, 1, "weight_decay");
  options.decoupled = bind_option_boolean(L, 1, "decoupled");
  options.clip = bind_option_number_or(L, 1, "clip", 0.0);
  if (bind_has(L, 1, "schedule")) {
    int at = bind_option(L, 1, "schedule");
    options.schedule = ((bind_schedule *)bind_get(L, at, &bind_schedule_type))->schedule;
  }
  bind_optim *o = bind_new(L, &bind_optim_type, 0);
  bind_check(L, fopo_optim_init(&o->optim, &options));
  return 1;
}

#define X(name)                                                                                    \
  static int optim_##name(lua_State *L) { return new_optim(L, &fopo_optimiser_##name); }
#include "train/optimisers.def"
#undef X

/* native.optimisers(): a table with each optimiser's declaration, lr its default learning rate. */
static int optimisers(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; fopo_optimisers[i] != NULL; i++) {
    const fopo_optimiser *kind = fopo_optimisers[i];
    bind_push_entry(L, kind->name, kind->name, kind->text, kind->example, kind->options);
    if (kind->lr > 0.0) bind_set_number(L, "lr", kind->lr);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Checks the gradient of the items: ids ascending, a row for each. */
static int check_items(const bind_policy *pi, const bind_array *ids, const bind_array *rows) {
  fopo_matrix items = pi->policy.items;
  const uint32_t *id = ids->data;
  size_t n = ids->rows * ids->cols;
  if (!pi->policy.learns[FOPO_BLOCK_ITEMS]) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the items of this policy are fixed; give pi and G alone");
  }
  if (rows->rows != n || rows->cols != items.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the items' gradient is %zu x %zu for %zu ids; it must be %zu x %zu",
                     rows->rows, rows->cols, n, n, items.cols);
  }
  for (size_t i = 0; i < n; i++) {
    if (id[i] < items.rows && (i == 0 || id[i] > id[i - 1])) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "id %zu of the items' gradient is not above the one before it, or is no item; "
                     "use the ids that g:compute returned",
                     i + 1);
  }
  return fopo_matrix_finite(bind_matrix(rows), "the items' gradient");
}

/* Moves a block on the device: its values x go there and come back. ids NULL: theta. */
static int step_there(fopo_optim *o, fopo_matrix x, const uint32_t *ids, const float *rows,
                      size_t n, double norm) {
  fopo_device *d = o->device;
  size_t bytes = x.rows * x.cols * sizeof *x.x;
  void *there = NULL, *their_ids = NULL, *their_rows = NULL;
  int status = d->ops->share(d, &there, x.x, bytes);
  if (status == FOPO_OK && ids != NULL) {
    status = d->ops->share(d, &their_ids, ids, n * sizeof *ids);
  }
  if (status == FOPO_OK) status = d->ops->share(d, &their_rows, rows, n * x.cols * sizeof *rows);
  fopo_item_gradient G = {.rows = their_rows, .ids = their_ids, .n = n};
  if (status == FOPO_OK) {
    fopo_optim_norm of = {.norm = norm};
    status = ids == NULL ? fopo_optim_step_theta(o, there, &G, of)
                         : fopo_optim_step(o, FOPO_BLOCK_ITEMS, there, &G, of);
  }
  if (status == FOPO_OK) status = d->ops->get(d, x.x, there, bytes);
  void *const blocks[] = {their_rows, their_ids, there};
  fopo_release_all(d, blocks, sizeof blocks / sizeof *blocks);
  return status;
}

/* The norm of the gradient of what is learnt of theta, and of the items (rows NULL: there is none).
 */
static double norm_of(const fopo_policy *pi, const bind_array *G, const bind_array *rows) {
  fopo_segment learnt[FOPO_POLICY_PARAMETERS];
  size_t n = fopo_policy_segments(learnt, pi, NULL);
  double norm2 = 0.0;
  for (size_t i = 0; i < n; i++) {
    norm2 +=
        fopo_matrix_norm2(fopo_matrix_view((float *)G->data + learnt[i].first, 1, learnt[i].n));
  }
  return sqrt(rows != NULL ? norm2 + fopo_matrix_norm2(bind_matrix(rows)) : norm2);
}

/* o:step(pi, G): one step of pi's theta in the direction of G, of theta's shape. o:step(pi, G, ids,
 * rows): also of the items of those ids, in the direction of their rows. */
static int step(lua_State *L) {
  bind_get(L, 1, &bind_optim_type);
  bind_get(L, 2, &bind_policy_type);
  bind_array_numbers(L, 3, "G");
  int with_items = !lua_isnoneornil(L, 4);
  lua_settop(L, 5);
  bind_device *cpu = bind_device_open(L, "cpu");
  bind_optim *o = bind_get_free(L, 1, &bind_optim_type);
  bind_policy *pi = bind_get_free(L, 2, &bind_policy_type);
  bind_array *G = bind_array_numbers(L, 3, "G");
  fopo_matrix theta = pi->policy.theta;
  if (G->rows != theta.rows || G->cols != theta.cols) {
    return bind_refuse(L, "G is %zu x %zu but theta is %zu x %zu; G must have the shape of theta",
                       G->rows, G->cols, theta.rows, theta.cols);
  }
  bind_check(L, fopo_matrix_finite(bind_matrix(G), "G"));
  bind_array *ids = with_items ? bind_array_ids(L, 4, "ids") : NULL;
  bind_array *rows = with_items ? bind_array_numbers(L, 5, "the items' gradient") : NULL;
  if (with_items) bind_check(L, check_items(pi, ids, rows));
  bind_optim_on(o, &cpu->object);
  fopo_device *d = ((bind_device *)o->object.keeps[0])->device;
  fopo_matrix items = pi->policy.items;
  fopo_optim *own = &o->optim;
  double norm = norm_of(&pi->policy, G, rows);
  fopo_block_shape shapes[FOPO_BLOCKS] = {fopo_policy_shape(&pi->policy, FOPO_BLOCK_THETA)};
  bind_check(L, fopo_optim_fit(own, &pi->policy));
  if (with_items) shapes[FOPO_BLOCK_ITEMS] = fopo_policy_shape(&pi->policy, FOPO_BLOCK_ITEMS);
  bind_check(L, fopo_optim_prepare(own, d, shapes));
  if (pi->policy.learns[FOPO_BLOCK_THETA]) {
    bind_check(L, step_there(own, theta, NULL, G->data, theta.rows, norm));
  }
  if (with_items) {
    bind_check(L, step_there(own, items, ids->data, rows->data, ids->rows * ids->cols, norm));
    pi->policy.version++;
  }
  own->t++;
  return 0;
}

static double *number_of(bind_object *o, const char *name) {
  fopo_optim_options *p = &((bind_optim *)o)->optim.options;
  if (strcmp(name, "lr") == 0) return &p->lr;
  if (strcmp(name, "items_lr") == 0) return &p->block_lr[FOPO_BLOCK_ITEMS];
  if (strcmp(name, "weight_decay") == 0) return &p->weight_decay;
  if (strcmp(name, "clip") == 0) return &p->clip;
  const fopo_option *row = bind_row(p->kind->options, name);
  return row != NULL ? (double *)(void *)((char *)p + row->member) : NULL;
}

/* The number named at stack index 2; 0 if an optimiser of this kind has none of that name. */
static int field_number(lua_State *L, bind_object *o) {
  const double *number = number_of(o, lua_tostring(L, 2));
  return number != NULL ? bind_return_number(L, *number) : 0;
}

/* Sets it, after the checks that a new optimiser with this value would pass. */
static int set_number(lua_State *L, bind_object *o) {
  const char *name = lua_tostring(L, 2);
  double *number = number_of(o, name);
  if (number == NULL) return 0;
  fopo_optim trial;
  double before = *number;
  *number = bind_number(L, 3, name);
  int status = fopo_optim_init(&trial, &((bind_optim *)o)->optim.options);
  if (status != FOPO_OK) *number = before;
  bind_check(L, status);
  return 1;
}

BIND_FIELD(field_decoupled, boolean, ((bind_optim *)o)->optim.options.decoupled)

static int set_decoupled(lua_State *L, bind_object *o) {
  ((bind_optim *)o)->optim.options.decoupled = bind_boolean(L, 3, "decoupled");
  return 1;
}

static int field_schedule(lua_State *L, bind_object *o) {
  fopo_schedule s = ((bind_optim *)o)->optim.options.schedule;
  bind_schedule_push(L, &s);
  return 1;
}

static int set_schedule(lua_State *L, bind_object *o) {
  bind_schedule *s = bind_get(L, 3, &bind_schedule_type);
  ((bind_optim *)o)->optim.options.schedule = s->schedule;
  return 1;
}

/* o.lr_of: the learning rates of blocks that have their own, by name. */
static int field_lr_of(lua_State *L, bind_object *o) {
  const fopo_optim_options *p = &((bind_optim *)o)->optim.options;
  lua_newtable(L);
  for (int i = FOPO_BLOCK_ITEMS; i < FOPO_BLOCKS; i++) {
    if (p->block_lr[i] > 0.0) bind_set_number(L, fopo_block_names[i], p->block_lr[i]);
  }
  for (size_t i = 0; i < p->n_lr_of; i++) bind_set_number(L, p->lr_of[i].name, p->lr_of[i].lr);
  return 1;
}

/* o.rate: the learning rate of the last update. */
BIND_FIELD(field_rate, number, fopo_optim_rate(&((bind_optim *)o)->optim))
BIND_FIELD(field_t, count, ((bind_optim *)o)->optim.t)
BIND_FIELD(field_kind, string, ((bind_optim *)o)->optim.options.kind->name)

const luaL_Reg bind_device_functions[] = {
    {"device", device}, {"device_cards", device_cards}, {NULL, NULL}};

const luaL_Reg bind_optim_functions[] = {{"optimisers", optimisers},
#define X(name) {"optim_" #name, optim_##name},
#include "train/optimisers.def"
#undef X
                                         {NULL, NULL}};

static const luaL_Reg methods[] = {{"step", step}, {NULL, NULL}};

static const bind_field device_fields[] = {{"kind", device_kind, NULL},
                                           {"name", device_name, NULL},
                                           {"note", device_note, NULL},
                                           {NULL, NULL, NULL}};

const bind_type bind_device_type = {.name = "fopo.device",
                                    .size = sizeof(bind_device),
                                    .done = device_done,
                                    .fields = device_fields};

static const bind_field fields[] = {{"kind", field_kind, NULL},
                                    {"t", field_t, NULL},
                                    {"rate", field_rate, NULL},
                                    {"lr_of", field_lr_of, NULL},
                                    {"schedule", field_schedule, set_schedule},
                                    {"decoupled", field_decoupled, set_decoupled},
                                    {"clip", field_number, set_number},
                                    {"lr", field_number, set_number},
                                    {"items_lr", field_number, set_number},
                                    {"beta1", field_number, set_number},
                                    {"beta2", field_number, set_number},
                                    {"eps", field_number, set_number},
                                    {"momentum", field_number, set_number},
                                    {"weight_decay", field_number, set_number},
                                    {NULL, NULL, NULL}};

const bind_type bind_optim_type = {.name = "fopo.optim",
                                   .size = sizeof(bind_optim),
                                   .done = optim_done,
                                   .methods = methods,
                                   .fields = fields};
