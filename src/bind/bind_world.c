/* Synthetic worlds, and the datasets drawn from them. */
#include "bind/families.h"
#include "data/world/synthetic.h"

typedef struct {
  bind_object object;
  fopo_world *world;
} bind_world;

static void world_done(bind_object *o) { fopo_world_free(((bind_world *)o)->world); }

/* native.data_twins(): the names of the sets that have twins. */
static int data_twins(lua_State *L) {
  lua_newtable(L);
  for (size_t i = 0; fopo_world_twin_name(i) != NULL; i++) {
    lua_pushstring(L, fopo_world_twin_name(i));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* native.data_twin(name, fraction): the options of the twin. */
static int data_twin(lua_State *L) {
  fopo_world_options o;
  double fraction = bind_number(L, 2, "fraction");
  bind_check(L, fopo_world_twin(&o, bind_string(L, 1, "the name"), fraction));
  lua_newtable(L);
  bind_set_count(L, "users", o.users);
  bind_set_count(L, "items", o.items);
  bind_set_count(L, "clusters", o.clusters);
  bind_set_count(L, "tastes", o.tastes);
  bind_set_count(L, "least_items", o.least_items);
  bind_set_number(L, "mean_items", o.mean_items);
  bind_set_number(L, "zipf", o.zipf);
  bind_set_number(L, "noise", o.noise);
  bind_set_number(L, "appeal", o.appeal);
  bind_set_number(L, "spread", o.spread);
  bind_set_boolean(L, "repeats", !o.ones);
  return 1;
}

/* native.data_synthetic{users, items, clusters, tastes, mean_items, zipf, noise, seed, and perhaps
 * appeal, spread, least_items, ones}: a dataset and the world it comes from. */
static int data_synthetic(lua_State *L) {
  fopo_world_options o = {.users = bind_option_count(L, 1, "users", 0, SIZE_MAX),
                          .items = bind_option_count(L, 1, "items", 0, SIZE_MAX),
                          .clusters = bind_option_count(L, 1, "clusters", 0, SIZE_MAX),
                          .tastes = bind_option_count(L, 1, "tastes", 0, SIZE_MAX),
                          .mean_items = bind_option_number(L, 1, "mean_items"),
                          .zipf = bind_option_number(L, 1, "zipf"),
                          .noise = bind_option_number(L, 1, "noise"),
                          .appeal = bind_option_number_or(L, 1, "appeal", 0),
                          .spread = bind_option_number_or(L, 1, "spread", 0),
                          .least_items = bind_option_count_or(L, 1, "least_items", 0, SIZE_MAX, 0),
                          .ones = bind_option_boolean(L, 1, "ones"),
                          .seed = bind_option_seed(L, 1)};
  bind_dataset *d = bind_new(L, &bind_dataset_type, 0);
  bind_world *w = bind_new(L, &bind_world_type, 0);
  bind_check(L, fopo_world_new(&w->world, &d->dataset, &o));
  bind_dataset_made(L, d);
  return 2;
}

static fopo_world *get_world(lua_State *L, int index) {
  return ((bind_world *)bind_get(L, index, &bind_world_type))->world;
}

/* world:best(sessions): the expected reward of the best possible policy, and what it achieves on
 * these sessions. */
static int world_best(lua_State *L) {
  double expected, achieved;
  fopo_sessions *s = bind_get_sessions(L, 2);
  bind_check(L, fopo_world_best(&expected, &achieved, get_world(L, 1), s));
  lua_pushnumber(L, expected);
  lua_pushnumber(L, achieved);
  return 2;
}

/* world:cluster(i): the cluster of item i. */
static int world_cluster(lua_State *L) {
  fopo_world *w = get_world(L, 1);
  return bind_return_count(L, (size_t)w->cluster[bind_id(L, 2, "item", w->items)] + 1);
}

static const fopo_world *world_of(const bind_object *o) { return ((const bind_world *)o)->world; }

BIND_FIELD(world_users, count, world_of(o)->users)
BIND_FIELD(world_items, count, world_of(o)->items)
BIND_FIELD(world_clusters, count, world_of(o)->clusters)

const luaL_Reg bind_world_functions[] = {{"data_synthetic", data_synthetic},
                                         {"data_twins", data_twins},
                                         {"data_twin", data_twin},
                                         {NULL, NULL}};

static const luaL_Reg world_methods[] = {
    {"best", world_best}, {"cluster", world_cluster}, {NULL, NULL}};

static const bind_field world_fields[] = {{"users", world_users, NULL},
                                          {"items", world_items, NULL},
                                          {"clusters", world_clusters, NULL},
                                          {NULL, NULL, NULL}};

const bind_type bind_world_type = {.name = "fopo.world",
                                   .size = sizeof(bind_world),
                                   .done = world_done,
                                   .methods = world_methods,
                                   .fields = world_fields};
