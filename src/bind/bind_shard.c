/* Arrays that are dealt out to the ranks, and sessions that are shared out to them. */
#include "bind/families.h"
#include "comm/comm.h"
#include "core/memory.h"
#include "core/npy.h"
#include "ranks/dataset.h"
#include "ranks/gather.h"

bind_array *bind_array_new_part(lua_State *L) {
  bind_array *a = bind_new(L, &bind_array_type, 0);
  a->shard = fopo_alloc(1, sizeof *a->shard);
  bind_check(L, fopo_comm_agree(a->shard != NULL ? FOPO_OK : FOPO_ERR_MEMORY));
  return a;
}

void bind_array_dealt(lua_State *L, bind_array *a) {
  a->data = a->shard->items.x;
  a->rows = a->shard->part.rows;
  a->cols = a->shard->items.cols;
  bind_pressure(L, a->rows * a->cols * sizeof(float));
}

/* native.shard_array(items): deals out an array that every rank has whole. */
static int shard_array(lua_State *L) {
  bind_array *items = bind_array_numbers(L, 1, "items");
  size_t first, n = fopo_comm_own_share(&first, items->rows);
  bind_array *a = bind_array_new_part(L);
  bind_check(L, fopo_shard_deal(a->shard, fopo_matrix_rows(bind_matrix(items), first, n)));
  bind_array_dealt(L, a);
  return 1;
}

/* This rank's range of the rows of files that follow one another. */
typedef struct {
  const char **paths; /* [n]; not owned */
  size_t *rows;       /* [n] of each file; not owned */
  size_t n, cols, first;
} range_of_files;

/* Rows first .. first + n - 1 of the range. */
static int read_range(void *payload, float *x, size_t first, size_t n) {
  const range_of_files *r = payload;
  size_t before = 0, shape[2];
  int status = FOPO_OK;
  first += r->first;
  for (size_t i = 0; i < r->n && status == FOPO_OK; i++) {
    size_t begin = first > before ? first - before : 0, end = first + n - before;
    if (first + n > before && begin < r->rows[i]) {
      if (end > r->rows[i]) end = r->rows[i];
      float *to = x + (before + begin - first) * r->cols;
      status = fopo_npy_rows(to, shape, r->paths[i], begin, end - begin);
    }
    before += r->rows[i];
  }
  return status;
}

/* How many rows and columns the files have. */
static int measure_files(range_of_files *r, size_t *P) {
  size_t shape[2];
  int status = FOPO_OK;
  for (size_t i = 0; i < r->n && status == FOPO_OK; i++) {
    status = fopo_npy_rows(NULL, shape, r->paths[i], 0, 0);
    if (status != FOPO_OK) break;
    if (i > 0 && shape[1] != r->cols) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s has %zu columns, the files before it %zu", r->paths[i],
                       shape[1], r->cols);
    }
    r->rows[i] = shape[0];
    r->cols = shape[1];
    *P += shape[0];
  }
  return status;
}

/* native.shard_files{path ...}: deals out the matrix whose rows the .npy files hold, one after
 * another. Each rank reads its range of the rows alone, a piece at a time. */
static int shard_files(lua_State *L) {
  lua_settop(L, 1);
  range_of_files r = {0};
  size_t P = 0;
  r.paths = bind_paths(L, 1, &r.n);
  r.rows = bind_scratch(L, r.n, sizeof *r.rows);
  int status = measure_files(&r, &P);
  bind_check(L, fopo_comm_agree(status));
  fopo_shard_source from = {.read = read_range, .payload = &r, .cols = r.cols};
  from.rows = fopo_comm_own_share(&r.first, P);
  bind_array *a = bind_array_new_part(L);
  bind_check(L, fopo_shard_deal_from(a->shard, &from));
  bind_array_dealt(L, a);
  return 1;
}

/* native.shard_save(items, path): this rank writes its range of the rows, by id, as a .npy. */
static int shard_save(lua_State *L) {
  fopo_shard *s = bind_array_items(L, 1, "items")->shard;
  const char *path = bind_path(L, 2);
  if (s == NULL) return bind_refuse(L, "this array is whole; a:save(path) writes it");
  bind_array *range = bind_new(L, &bind_array_type, 0);
  fopo_matrix rows;
  bind_check(L, fopo_shard_range(&rows, bind_array_items(L, 1, "items")->shard));
  range->data = rows.x;
  range->rows = rows.rows;
  range->cols = rows.cols;
  fopo_array array = fopo_array_of("array", FOPO_F32, rows.x, 2, rows.rows, rows.cols);
  int status = fopo_comm_agree(fopo_npy_save(path, &array));
  fopo_free(range->data);
  range->data = NULL;
  range->rows = 0;
  bind_check(L, status);
  return 0;
}

/* ---- sessions that are shared out ---- */

static void shared_done(bind_object *o) { fopo_shared_done(&((bind_shared *)o)->shared); }

fopo_matrix bind_contexts(const bind_object *o) {
  if (o->type != &bind_shared_type) return bind_matrix((const bind_array *)o);
  const fopo_shared *s = &((const bind_shared *)o)->shared;
  return fopo_matrix_view(s->x.x, s->N, s->x.cols);
}

/* native.share_sessions(sessions, items, scale): this rank's range of the sessions, with contexts
 * made of items, which may be dealt out. */
static int share_sessions(lua_State *L) {
  int scale = bind_choice(L, 3, "scale", fopo_contexts_names);
  bind_any_sessions(L, 1);
  bind_array_items(L, 2, "items");
  bind_shared *shared = bind_new(L, &bind_shared_type, 0);
  const fopo_sessions *s = bind_any_sessions(L, 1);
  bind_array *items = bind_array_items(L, 2, "items");
  bind_check(L, fopo_shared_init(&shared->shared, s, bind_matrix(items), items->shard,
                                 (fopo_contexts_scale)scale));
  bind_pressure(L, shared->shared.x.rows * shared->shared.x.cols * sizeof(float) +
                       fopo_csr_nnz(&shared->shared.Y) * sizeof(uint32_t));
  return 1;
}

/* native.gather_sessions(sessions, n): n of them, evenly spread, on every rank. */
static int gather_sessions(lua_State *L) {
  size_t n = bind_count(L, 2, "n", 1, SIZE_MAX);
  bind_any_sessions(L, 1);
  bind_sessions *some = bind_new(L, &bind_sessions_type, 0);
  bind_check(L, fopo_sessions_gather(&some->sessions, bind_any_sessions(L, 1), n));
  bind_pressure(L, fopo_csr_nnz(&some->sessions.X) * sizeof(uint32_t) +
                       fopo_csr_nnz(&some->sessions.Y) * sizeof(uint32_t));
  return 1;
}

/* native.share_dataset(dataset): this rank's range of the users of a dataset that is whole. */
static int share_dataset(lua_State *L) {
  bind_any_dataset(L, 1);
  bind_dataset *share = bind_new(L, &bind_dataset_type, 0);
  int status = fopo_dataset_share(&share->dataset, bind_any_dataset(L, 1));
  bind_check(L, fopo_comm_agree(status));
  bind_pressure(L, fopo_csr_nnz(&share->dataset->matrix) * 8);
  return 1;
}

static const fopo_shared *shared_of(const bind_object *o) {
  return &((const bind_shared *)o)->shared;
}

static int shared_n(lua_State *L, bind_object *o) { return bind_return_count(L, shared_of(o)->N); }

static int shared_here(lua_State *L, bind_object *o) {
  return bind_return_count(L, shared_of(o)->x.rows);
}

static int shared_n_items(lua_State *L, bind_object *o) {
  return bind_return_count(L, shared_of(o)->Y.cols);
}

static const bind_field shared_fields[] = {{"n", shared_n, NULL},
                                           {"here", shared_here, NULL},
                                           {"n_items", shared_n_items, NULL},
                                           {NULL, NULL, NULL}};

const bind_type bind_shared_type = {.name = "fopo.shared_sessions",
                                    .size = sizeof(bind_shared),
                                    .done = shared_done,
                                    .fields = shared_fields};

const luaL_Reg bind_shard_functions[] = {{"shard_array", shard_array},
                                         {"shard_files", shard_files},
                                         {"shard_save", shard_save},
                                         {"share_sessions", share_sessions},
                                         {"gather_sessions", gather_sessions},
                                         {"share_dataset", share_dataset},
                                         {NULL, NULL}};
