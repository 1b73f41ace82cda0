/* Policies as files, for Lua to make policies of. */
#include <string.h>

#include "bind/families.h"
#include "policy/policy_file.h"
#include "ranks/shard.h"

/* A policy on its way from a file to Lua. */
typedef struct {
  bind_object object;
  fopo_archive archive;
  fopo_policy_loaded facts;
} bind_policy_file;

static void done(bind_object *o) {
  bind_policy_file *f = (bind_policy_file *)o;
  fopo_archive_done(&f->archive);
  fopo_policy_loaded_done(&f->facts);
}

const bind_type bind_policy_file_type = {
    .name = "fopo.policy_file", .size = sizeof(bind_policy_file), .done = done};

/* native.policy_save(pi, path, initial[, names[, items_file[, provenance[, items_crc]]]]): initial
 * is pi:initial_items(), and the names are those of the items of the dataset `names`. Of items that
 * are dealt out items_file holds all, with that CRC. */
static int policy_save(lua_State *L) {
  lua_settop(L, 7);
  const char *path = bind_path(L, 2);
  bind_policy *pi = bind_get(L, 1, &bind_policy_type);
  bind_array *initial = bind_array_items(L, 3, "initial");
  size_t P = initial->shard != NULL ? initial->shard->part.P : initial->rows;
  fopo_policy_saving s = {.policy = &pi->policy,
                          .initial = fopo_matrix_view(initial->data, P, initial->cols),
                          .items_crc = (uint32_t)lua_tointeger(L, 7),
                          .encoding = pi->encoding,
                          .items_file = lua_isnil(L, 5) ? NULL : bind_string(L, 5, "items"),
                          .provenance = lua_isnil(L, 6) ? NULL : bind_string(L, 6, "provenance")};
  if (!lua_isnil(L, 4)) {
    s.names = &bind_any_dataset(L, 4)->items;
  }
  fopo_matrix items = pi->policy.items;
  if (initial->rows != items.rows || initial->cols + pi->policy.kind->more_columns != items.cols ||
      (s.names != NULL && s.names->n != P)) {
    return bind_refuse(L, "the items or the names are not those of this policy's %zu items", P);
  }
  bind_check(L, fopo_policy_save(&s, path));
  return 0;
}

/* Moves a member of the archive into t[name], an array, for the table t on the top. */
static void set_array(lua_State *L, bind_policy_file *f, const char *name) {
  bind_array *a = bind_new(L, &bind_array_type, 0);
  fopo_array *member = fopo_archive_find(&f->archive, name);
  a->rows = member->ndim == 2 ? member->shape[0] : 1;
  a->cols = member->ndim == 2 ? member->shape[1] : member->shape[0];
  a->data = fopo_array_release(member);
  bind_pressure(L, a->rows * a->cols * sizeof(float));
  lua_setfield(L, -2, name);
}

static void set_parameters(lua_State *L, bind_policy_file *f) {
  lua_newtable(L);
  for (size_t i = 0; f->facts.parameters[i][0] != '\0'; i++) {
    set_array(L, f, f->facts.parameters[i]);
  }
  lua_setfield(L, -2, "parameters");
}

/* t[name] of the options of the kind that a file keeps. */
static void set_options(lua_State *L, const fopo_policy_loaded *facts) {
  const fopo_policy_kind *of = facts->kind;
  for (; of != NULL; of = fopo_policy_part(of, &facts->options)) {
    for (const fopo_option *row = of->options; row->name != NULL; row++) {
      if (!(row->flags & FOPO_OPTION_SAVED)) continue;
      bind_push_row(L, row, &facts->options);
      lua_setfield(L, -2, row->name);
    }
  }
}

/* t.names: a dataset of no users whose items have the names of the file. */
static void set_names(lua_State *L, fopo_policy_loaded *facts) {
  bind_names_new(L, facts->P)->items = facts->names;
  facts->names = (fopo_names){0};
  lua_setfield(L, -2, "names");
}

/* Moves a member of the archive. */
static void *release(bind_policy_file *f, const char *name) {
  return fopo_array_release(fopo_archive_find(&f->archive, name));
}

/* t.neighbours of a kind that scores lists, for the table t on the top. */
static void set_neighbours(lua_State *L, bind_policy_file *f) {
  bind_neighbours *x = bind_new(L, &bind_neighbours_type, 0);
  fopo_csr *W = &x->neighbours.weights;
  if (fopo_archive_find(&f->archive, "log_m")->shape[0] != f->facts.P) {
    bind_refuse(L, "the file's weights are of other items than its %zu", f->facts.P);
  }
  W->rows = W->cols = f->facts.P;
  W->indptr = release(f, "weights_indptr");
  W->ids = release(f, "weights_ids");
  W->values = release(f, "weights");
  x->neighbours.log_m = release(f, "log_m");
  if (fopo_archive_find(&f->archive, "log_v") != NULL) x->neighbours.log_v = release(f, "log_v");
  bind_pressure(L, fopo_csr_nnz(W) * 8);
  lua_setfield(L, -2, "neighbours");
}

/* native.policy_load(path): {kind, context_dim, temperature, contexts, seen, rows, train_items,
 * learn = "W2, b2"; item_weights; parameters = {theta} or {W1, b1, ..}; options of the kind, as
 * hidden and activation; items, or items_file, n_items, dim and items_crc; learnt_items; names;
 * provenance}. */
static int policy_load(lua_State *L) {
  const char *path = bind_path(L, 1);
  bind_policy_file *f = bind_new(L, &bind_policy_file_type, 0);
  fopo_policy_loaded *facts = &f->facts;
  bind_check(L, fopo_policy_load(facts, &f->archive, path));
  lua_createtable(L, 0, 14);
  bind_set_string(L, "kind", facts->kind->name);
  set_options(L, facts);
  bind_set_count(L, "context_dim", facts->options.context_dim);
  bind_set_count(L, "n_items", facts->P);
  bind_set_count(L, "dim", facts->L);
  bind_set_number(L, "temperature", (double)facts->options.temperature);
  bind_set_string(L, "contexts", facts->encoder->name);
  bind_set_string(L, "rows", fopo_float_names[facts->rows]);
  bind_set_string(L, "seen", fopo_seen_names[facts->masks_seen]);
  bind_set_boolean(L, "train_items", facts->train_items);
  if (facts->learn[0] != '\0') bind_set_string(L, "learn", facts->learn);
  set_parameters(L, f);
  if (facts->items_file[0] == '\0') {
    set_array(L, f, "items");
  } else {
    bind_set_string(L, "items_file", facts->items_file);
    bind_set_count(L, "items_crc", facts->items_crc);
  }
  if (facts->train_items) set_array(L, f, "learnt_items");
  if (facts->encoder->weight != NULL) set_array(L, f, "item_weights");
  if (facts->kind->score_list != NULL) set_neighbours(L, f);
  if (facts->names.n > 0) set_names(L, facts);
  if (fopo_archive_find(&f->archive, "provenance") != NULL) {
    fopo_array *a;
    bind_check(L, fopo_archive_need(&a, &f->archive, path, "provenance", FOPO_BYTES, 0));
    lua_pushlstring(L, a->data, strnlen(a->data, a->itemsize));
    lua_setfield(L, -2, "provenance");
  }
  return 1;
}

/* native.items_crc(array): the CRC-32 of its numbers. */
static int items_crc(lua_State *L) {
  return bind_return_count(L, fopo_items_crc(bind_matrix(bind_array_numbers(L, 1, "items"))));
}

const luaL_Reg bind_policy_file_functions[] = {{"policy_save", policy_save},
                                               {"policy_load", policy_load},
                                               {"items_crc", items_crc},
                                               {NULL, NULL}};
