/* Indexes for maximum inner product search. */
#include <string.h>

#include "bind/families.h"

static void done(bind_object *o) { fopo_index_free(((bind_index *)o)->index); }

static fopo_index *get_index(lua_State *L, int at) {
  return ((bind_index *)bind_get(L, at, &bind_index_type))->index;
}

/* Pushes an empty index over the array of items at `at` and keeps that array alive. The array is
 * fetched again after bind_new, which may run a finaliser that closes it. */
static bind_index *begin(lua_State *L, int at, fopo_matrix *items) {
  bind_array_items(L, at, "items");
  bind_index *ix = bind_new(L, &bind_index_type, 0);
  bind_array *a = bind_array_items(L, at, "items");
  bind_keep(&ix->object, 0, &a->object);
  *items = bind_matrix(a);
  return ix;
}

static int finish(lua_State *L, bind_index *ix, int status) {
  bind_check(L, status);
  bind_pressure(L, fopo_index_about(ix->index).bytes);
  return 1;
}

/* native.index_exact(items): scores every item. */
static int index_exact(lua_State *L) {
  fopo_matrix items;
  bind_index *ix = begin(L, 1, &items);
  return finish(L, ix, fopo_index_exact(&ix->index, items));
}

/* A budget: a number, or "auto"; 0 for nil. */
static size_t budget_at(lua_State *L, int at) {
  static const char *const words[] = {"auto", NULL};
  if (lua_isnil(L, at)) return 0;
  if (lua_type(L, at) != LUA_TSTRING) return bind_count(L, at, "budget", 1, UINT32_MAX);
  bind_choice(L, at, "budget", words);
  return FOPO_BUDGET_AUTO;
}

/* native.index_norm(items, {budget}): scores items by descending norm; exact if budget is nil. */
static int index_norm(lua_State *L) {
  fopo_matrix items;
  size_t budget = 0;
  if (!lua_isnoneornil(L, 2) && bind_has(L, 2, "budget")) {
    budget = budget_at(L, bind_option(L, 2, "budget"));
  }
  bind_index *ix = begin(L, 1, &items);
  return finish(L, ix, fopo_index_norm(&ix->index, items, budget));
}

/* {M, ef_construction, ef, seed, deterministic} at stack index 2. */
static fopo_hnsw_options graph_options(lua_State *L) {
  return (fopo_hnsw_options){.M = bind_option_count(L, 2, "M", 0, SIZE_MAX),
                             .ef_construction =
                                 bind_option_count(L, 2, "ef_construction", 0, SIZE_MAX),
                             .ef = bind_option_count(L, 2, "ef", 0, SIZE_MAX),
                             .seed = bind_option_seed(L, 2),
                             .deterministic = bind_option_boolean(L, 2, "deterministic")};
}

/* native.index_hnsw(items, {M, ef_construction, ef, seed, deterministic}): a graph. */
static int index_hnsw(lua_State *L) {
  fopo_matrix items;
  fopo_hnsw_options o = graph_options(L);
  bind_index *ix = begin(L, 1, &items);
  return finish(L, ix, fopo_index_hnsw(&ix->index, items, &o));
}

/* native.index_hybrid(items, {head, M, ef_construction, ef, seed, deterministic}): the share `head`
 * of the items, those of largest norm, exactly; a graph over the others. */
static int index_hybrid(lua_State *L) {
  fopo_matrix items;
  fopo_hnsw_options o = graph_options(L);
  double head = bind_option_number(L, 2, "head");
  bind_index *ix = begin(L, 1, &items);
  return finish(L, ix, fopo_index_hybrid(&ix->index, items, head, &o));
}

/* native.index_clusters(items, {clusters, ef}): the items of the clusters with the best centres. */
static int index_clusters(lua_State *L) {
  fopo_matrix items;
  size_t C = bind_option_count(L, 2, "clusters", 0, SIZE_MAX);
  size_t ef = bind_option_count(L, 2, "ef", 0, SIZE_MAX);
  bind_index *ix = begin(L, 1, &items);
  return finish(L, ix, fopo_index_clusters(&ix->index, items, C, ef));
}

/* native.index_load(path, items): the items must be those that the index was built on. */
static int index_load(lua_State *L) {
  fopo_matrix items;
  const char *path = bind_path(L, 1);
  bind_index *ix = begin(L, 2, &items);
  return finish(L, ix, fopo_index_load(&ix->index, path, items));
}

/* native.index_reads(ix, path): loads the file over the items of ix, and lets go of what came. */
static int index_reads(lua_State *L) {
  fopo_index *again = NULL;
  const char *path = bind_path(L, 2);
  const bind_index *ix = bind_get(L, 1, &bind_index_type);
  fopo_matrix items = bind_matrix((const bind_array *)ix->object.keeps[0]);
  bind_check(L, fopo_index_load(&again, path, items));
  fopo_index_free(again);
  return 0;
}

/* The part of the catalogue that an index is over; NULL: the whole. */
static fopo_shard *shard_of(const bind_index *ix) {
  return ((const bind_array *)ix->object.keeps[0])->shard;
}

size_t bind_index_items(const bind_index *ix) {
  const fopo_shard *s = shard_of(ix);
  return s != NULL ? s->part.P : fopo_index_about(ix->index).n_items;
}

size_t bind_index_k(lua_State *L, int at, const bind_index *ix) {
  size_t k = bind_count(L, at, "k", 1, SIZE_MAX), P = bind_index_items(ix);
  if (shard_of(ix) == NULL) bind_check(L, fopo_index_check_k(ix->index, k));
  if (k > P) bind_refuse(L, "k is %zu but the index holds %zu items; use k from 1 to %zu", k, P, P);
  return k;
}

/* The index at `at`, which must be over whole items. */
static bind_index *whole(lua_State *L, int at) {
  bind_index *ix = bind_get(L, at, &bind_index_type);
  if (shard_of(ix) != NULL) {
    bind_refuse(L, "this index is over items that are dealt out, and finds those of this rank "
                   "alone; use pi:best(x, {index = ix, k = k}), which asks all ranks");
  }
  return ix;
}

/* ix:search(Q, k): ids [B, k] and scores [B, k], best first, and how many rows got fewer than k
 * items: such a row ends with nil and -inf. */
static int search(lua_State *L) {
  size_t k = bind_index_k(L, 3, whole(L, 1)), rows = bind_array_numbers(L, 2, "Q")->rows;
  uint32_t *counts = bind_scratch(L, rows, sizeof *counts);
  bind_array *ids = bind_array_new(L, 1, rows, k);
  bind_array *scores = bind_array_new(L, 0, rows, k);
  bind_array *Q = bind_array_numbers(L, 2, "Q");
  bind_check(
      L, fopo_index_search(ids->data, scores->data, counts, get_index(L, 1), bind_matrix(Q), k));
  size_t shorter = 0;
  for (size_t b = 0; b < rows; b++) shorter += counts[b] < k;
  lua_pushinteger(L, (lua_Integer)shorter);
  return 3;
}

static int push_recall(lua_State *L, const fopo_recall *r) {
  lua_createtable(L, 0, 9);
  bind_set_number(L, "recall", r->recall);
  bind_set_number(L, "mass", r->mass);
  bind_set_number(L, "recall_at_1", r->recall_at_1);
  bind_set_count(L, "short_rows", r->short_rows);
  bind_set_count(L, "reachable", r->reachable);
  bind_set_number(L, "scored", r->scored);
  bind_set_number(L, "ms_per_query", r->ms_per_query);
  return 1;
}

/* ix:recall(Q, k): a table {recall, mass, recall_at_1, short_rows, reachable, scored,
 * ms_per_query, exact_ms_per_query} that compares the index with exact search. */
static int recall(lua_State *L) {
  fopo_recall r;
  size_t k = bind_index_k(L, 3, whole(L, 1));
  bind_array *Q = bind_array_numbers(L, 2, "Q");
  bind_check(L, fopo_index_recall(&r, get_index(L, 1), bind_matrix(Q), k));
  push_recall(L, &r);
  bind_set_number(L, "exact_ms_per_query", r.exact_ms_per_query);
  return 1;
}

/* native.index_measure(ix, Q, truth, batch): the same without exact_ms_per_query; truth holds the
 * scores that ix:search returns for an exact index. `batch` queries are searched at a time. */
static int index_measure(lua_State *L) {
  fopo_recall r;
  fopo_index *ix = get_index(L, 1);
  bind_array *Q = bind_array_numbers(L, 2, "Q"), *truth = bind_array_numbers(L, 3, "truth");
  size_t batch = bind_count(L, 4, "batch", 1, SIZE_MAX);
  if (truth->rows != Q->rows || truth->cols == 0) {
    bind_refuse(L, "truth is %zu x %zu for %zu queries; give the scores of their exact search",
                truth->rows, truth->cols, Q->rows);
  }
  bind_check(L, fopo_index_measure(&r, ix, bind_matrix(Q), truth->cols, truth->data, batch));
  return push_recall(L, &r);
}

/* ix:save(path). */
static int save(lua_State *L) {
  const char *path = bind_path(L, 2);
  bind_check(L, fopo_index_save(get_index(L, 1), path));
  return 0;
}

/* ix:about(): a table of facts; M, ef_construction, ef, head and budget only if the kind has them.
 */
static int about(lua_State *L) {
  fopo_index_facts f = fopo_index_about(get_index(L, 1));
  const struct {
    const char *name;
    size_t value;
  } options[] = {{"M", f.M},
                 {"ef_construction", f.ef_construction},
                 {"ef", f.ef},
                 {"head", f.prefix},
                 {"clusters", f.clusters},
                 {"budget", f.budget < FOPO_BUDGET_AUTO ? f.budget : 0}};
  lua_createtable(L, 0, 14);
  bind_set_string(L, "kind", f.kind);
  bind_set_boolean(L, "exact", f.exhaustive && f.reachable == f.n_items);
  bind_set_count(L, "n_items", f.n_items);
  bind_set_count(L, "dim", f.dim);
  bind_set_count(L, "bytes", f.bytes);
  bind_set_number(L, "build_seconds", f.build_seconds);
  bind_set_count(L, "reachable", f.reachable);
  bind_set_count(L, "scored", f.scored);
  bind_set_count(L, "queries", f.queries);
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    if (options[i].value > 0) bind_set_count(L, options[i].name, options[i].value);
  }
  if (f.budget == FOPO_BUDGET_AUTO) bind_set_string(L, "budget", "auto");
  return 1;
}

/* ix:groups(): ids [1, P], the cluster of each item. */
static int groups(lua_State *L) {
  size_t P = fopo_index_about(get_index(L, 1)).n_items;
  bind_push_again(L, 1, &bind_index_type);
  bind_array *ids = bind_array_new(L, 1, 1, P);
  bind_check(L, fopo_index_groups(ids->data, get_index(L, 1)));
  return 1;
}

/* ix:update(): brings the index up to date with items that were changed in place. */
static int update(lua_State *L) {
  bind_get_free(L, 1, &bind_index_type);
  bind_push_again(L, 1, &bind_index_type);
  bind_check(L, fopo_index_refresh(get_index(L, 1)));
  return 0;
}

/* ---- fields ---- */

static fopo_index_facts facts_of(const bind_object *o) {
  return fopo_index_about(((const bind_index *)o)->index);
}

BIND_FIELD(field_kind, string, facts_of(o).kind)
BIND_FIELD(field_n_items, count, facts_of(o).n_items)
BIND_FIELD(field_dim, count, facts_of(o).dim)

/* 0: the kind has no such option, or it is not set. */
BIND_FIELD(field_ef, positive, facts_of(o).ef)

static int field_budget(lua_State *L, bind_object *o) {
  size_t budget = facts_of(o).budget;
  if (budget == FOPO_BUDGET_AUTO) return bind_return_string(L, "auto");
  return bind_return_positive(L, budget);
}

/* ix.ef = n: for searches from now on. */
static int set_ef(lua_State *L, bind_object *o) {
  size_t ef = bind_count(L, 3, "ef", 0, SIZE_MAX);
  bind_check(L, fopo_index_set_ef(((bind_index *)o)->index, ef));
  return 1;
}

/* ix.budget = n or "auto", nil for none: for searches from now on. */
static int set_budget(lua_State *L, bind_object *o) {
  size_t budget = budget_at(L, 3);
  bind_check(L, fopo_index_set_budget(((bind_index *)o)->index, budget));
  return 1;
}

const luaL_Reg bind_index_functions[] = {{"index_exact", index_exact},
                                         {"index_norm", index_norm},
                                         {"index_hnsw", index_hnsw},
                                         {"index_hybrid", index_hybrid},
                                         {"index_clusters", index_clusters},
                                         {"index_measure", index_measure},
                                         {"index_load", index_load},
                                         {"index_reads", index_reads},
                                         {NULL, NULL}};

static const luaL_Reg methods[] = {{"update", update}, {"search", search}, {"recall", recall},
                                   {"save", save},     {"about", about},   {"groups", groups},
                                   {NULL, NULL}};

static const bind_field fields[] = {
    {"kind", field_kind, NULL}, {"n_items", field_n_items, NULL},     {"dim", field_dim, NULL},
    {"ef", field_ef, set_ef},   {"budget", field_budget, set_budget}, {NULL, NULL, NULL}};

const bind_type bind_index_type = {.name = "fopo.index",
                                   .size = sizeof(bind_index),
                                   .done = done,
                                   .methods = methods,
                                   .fields = fields};
