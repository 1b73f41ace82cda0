/* Arrays: dense float32 matrices, and matrices of ids. Both have 4 bytes per element.
 *
 * An index, a policy or a trainer that keeps an array relies on its values, so an array with other
 * holders is copied before it is changed. */
#include <math.h>
#include <string.h>

#include "bind/families.h"
#include "comm/comm.h"
#include "core/memory.h"
#include "core/npy.h"
#include "core/rng.h"
#include "core/summary.h"

enum {
  ELEMENT = 4,        /* bytes, float and uint32_t alike */
  ESTIMATE = 64 << 20 /* bytes from which on the free memory is checked before the allocation */
};

/* ---- making ---- */

static int take(bind_array *a, int zeroed) {
  size_t n;
  if (__builtin_mul_overflow(a->rows, a->cols, &n)) n = SIZE_MAX;
  if (n < SIZE_MAX / ELEMENT && n * ELEMENT >= ESTIMATE) {
    int status = fopo_memory_suffices(n * ELEMENT, "the array", "take fewer rows or columns");
    if (status != FOPO_OK) return status;
  }
  a->data = zeroed ? fopo_alloc(n, ELEMENT) : fopo_alloc_unset(n, ELEMENT);
  return a->data ? FOPO_OK : FOPO_ERR_MEMORY;
}

static bind_array *push_array(lua_State *L, int ids, size_t rows, size_t cols, int zeroed) {
  size_t n;
  if (!__builtin_mul_overflow(rows, cols, &n)) {
    bind_pressure(L, n < SIZE_MAX / ELEMENT ? n * ELEMENT : 0);
  }
  bind_array *a = bind_new(L, &bind_array_type, 0);
  a->ids = ids;
  a->rows = rows;
  a->cols = cols;
  int status = take(a, zeroed);
  if (status == FOPO_ERR_MEMORY) {
    bind_collect(L);
    status = take(a, zeroed);
  }
  bind_check(L, status);
  return a;
}

bind_array *bind_array_new(lua_State *L, int ids, size_t rows, size_t cols) {
  return push_array(L, ids, rows, cols, 1);
}

bind_array *bind_array_unset(lua_State *L, int ids, size_t rows, size_t cols) {
  return push_array(L, ids, rows, cols, 0);
}

void bind_push_ids(lua_State *L, const fopo_csr *m, size_t i) {
  size_t n = fopo_csr_count(m, i);
  bind_array *ids = bind_array_new(L, 1, 1, n);
  memcpy(ids->data, fopo_csr_row(m, i), n * sizeof(uint32_t));
}

static void done(bind_object *o) {
  bind_array *a = (bind_array *)o;
  if (a->shard == NULL) fopo_free(a->data);
  if (a->shard != NULL) fopo_shard_done(a->shard);
  fopo_free(a->shard);
}

static void archive_done(bind_object *o) { fopo_archive_done(&((bind_archive *)o)->archive); }

/* The array at `index`, which this rank must have whole; `what` names it. */
static bind_array *get_whole(lua_State *L, int index, const char *what) {
  bind_array *a = bind_get(L, index, &bind_array_type);
  if (a->shard != NULL) {
    bind_refuse(
        L,
        "%s is dealt out to %d ranks, and this needs the whole array; what takes items that "
        "are dealt out, help(fopo.shard) lists",
        what, (int)a->shard->part.size);
  }
  return a;
}

bind_array *bind_array_whole(lua_State *L, int index) { return get_whole(L, index, "the array"); }

bind_array *bind_array_items(lua_State *L, int index, const char *what) {
  bind_array *a = bind_get(L, index, &bind_array_type);
  if (a->ids) bind_refuse(L, "%s is an array of ids; an array of numbers is needed", what);
  return a;
}

bind_array *bind_array_numbers(lua_State *L, int index, const char *what) {
  get_whole(L, index, what);
  return bind_array_items(L, index, what);
}

bind_array *bind_array_ids(lua_State *L, int index, const char *what) {
  bind_array *a = get_whole(L, index, what);
  if (!a->ids) {
    bind_refuse(L, "%s is an array of numbers; an array of ids is needed (fopo.array.ids{...})",
                what);
  }
  return a;
}

bind_array *bind_array_own(lua_State *L, int index) {
  bind_array *a = bind_array_whole(L, index);
  if (a->object.refs == 1) return a;
  bind_array *fresh = bind_array_new(L, a->ids, a->rows, a->cols);
  a = bind_array_whole(L, index);
  memcpy(fresh->data, a->data, bind_array_bytes(a));
  bind_swap(L, index, lua_gettop(L));
  lua_pop(L, 1);
  return fresh;
}

static size_t to_size(lua_State *L, int index, const char *what) {
  return bind_count(L, index, what, 0, SIZE_MAX);
}

/* native.array_zeros(rows, cols): float32 zeros. */
static int array_zeros(lua_State *L) {
  size_t rows = to_size(L, 1, "rows"), cols = to_size(L, 2, "cols");
  bind_array_new(L, 0, rows, cols);
  return 1;
}

/* native.array_randn(rows, cols, seed, scale, step): scale times standard normal numbers; element i
 * is a function of (seed, step, i) alone. seed and step are 0 and scale 1 if left out. */
static int array_randn(lua_State *L) {
  size_t rows = to_size(L, 1, "rows"), cols = to_size(L, 2, "cols");
  uint64_t seed = lua_isnoneornil(L, 3) ? 0 : bind_seed(L, 3);
  double scale = lua_isnoneornil(L, 4) ? 1.0 : bind_number(L, 4, "scale");
  uint32_t step = bind_step(L, 5);
  bind_array *a = bind_array_new(L, 0, rows, cols);
  fopo_fill_normals(a->data, bind_array_count(a), scale, seed, FOPO_STREAM_INIT, step);
  return 1;
}

/* native.array_uniform(rows, cols, seed, step): uniform numbers, between 0 and 1. */
static int array_uniform(lua_State *L) {
  size_t rows = to_size(L, 1, "rows"), cols = to_size(L, 2, "cols");
  uint64_t seed = lua_isnoneornil(L, 3) ? 0 : bind_seed(L, 3);
  uint32_t step = bind_step(L, 4);
  bind_array *a = bind_array_new(L, 0, rows, cols);
  fopo_fill_uniform(a->data, bind_array_count(a), seed, FOPO_STREAM_ARRAY, step);
  return 1;
}

/* Reads the n numbers of the table at `table` into x; `row` is its number for sentences. */
static void read_row(lua_State *L, float *x, int table, size_t n, size_t row) {
  char what[64];
  for (size_t j = 0; j < n; j++) {
    if (lua_rawgeti(L, table, (lua_Integer)j + 1) != LUA_TNUMBER) {
      snprintf(what, sizeof what, "element %zu of row %zu", j + 1, row);
    } else {
      strcpy(what, "an element");
    }
    x[j] = bind_float(L, -1, what);
    lua_pop(L, 1);
  }
}

/* native.array_from{{1, 2}, {3, 4}} or {1, 2} for one row. */
static int array_from(lua_State *L) {
  luaL_checkstack(L, 8, NULL);
  bind_table(L, 1, "what the array is made from");
  lua_settop(L, 1);
  size_t rows = lua_rawlen(L, 1), cols = rows;
  int nested = lua_rawgeti(L, 1, 1) == LUA_TTABLE;
  if (nested) cols = lua_rawlen(L, 2);
  if (rows == 0) {
    return bind_refuse(L, "the table is empty; an array needs a row");
  }
  lua_settop(L, 1);
  bind_array *a =
      bind_array_new(L, 0, nested ? rows : 1, cols); /* at 2, where no script can reach it */
  float *x = a->data;
  if (!nested) {
    read_row(L, x, 1, cols, 1);
    return 1;
  }
  for (size_t i = 0; i < rows; i++) {
    if (lua_rawgeti(L, 1, (lua_Integer)i + 1) != LUA_TTABLE) {
      return bind_refuse(L, "row %zu is %.80s; rows are tables of %zu numbers, as row 1 is", i + 1,
                         bind_found(L, 3), cols);
    }
    if (lua_rawlen(L, 3) != cols) {
      return bind_refuse(L, "row %zu has %zu numbers but row 1 has %zu; rows must be equally long",
                         i + 1, (size_t)lua_rawlen(L, 3), cols);
    }
    read_row(L, x + i * cols, 3, cols, i + 1);
    lua_settop(L, 2);
  }
  return 1;
}

/* native.array_ids{3, 1, 2}: a row of 1-based ids. */
static int array_ids(lua_State *L) {
  bind_table(L, 1, "the list of ids");
  lua_settop(L, 1);
  size_t n = lua_rawlen(L, 1);
  uint32_t *ids = bind_array_new(L, 1, 1, n)->data;
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    ids[i] = bind_id(L, -1, "id", UINT32_MAX);
    lua_pop(L, 1);
  }
  return 1;
}

uint32_t *bind_rows(lua_State *L, int index, size_t n, size_t all, size_t *number) {
  uint32_t *rows;
  if (lua_isnoneornil(L, index)) {
    rows = bind_scratch(L, all, sizeof *rows);
    for (size_t i = 0; i < all; i++) rows[i] = (uint32_t)i;
    *number = all;
  } else if (lua_istable(L, index)) {
    *number = lua_rawlen(L, index);
    rows = bind_scratch(L, *number, sizeof *rows);
    for (size_t i = 0; i < *number; i++) {
      lua_rawgeti(L, index, (lua_Integer)i + 1);
      rows[i] = bind_id(L, -1, "row", n);
      lua_pop(L, 1);
    }
  } else {
    *number = bind_array_count(bind_array_ids(L, index, "the list of rows"));
    rows = bind_scratch(L, *number, sizeof *rows);
    bind_array *a = bind_array_ids(L, index, "the list of rows");
    memcpy(rows, a->data, *number * sizeof *rows);
    for (size_t i = 0; i < *number; i++) {
      if (rows[i] < n) continue;
      bind_refuse(L, "row %lld (element %zu of the list) does not exist; use 1 to %zu",
                  rows[i] == FOPO_NO_ITEM ? 0LL : (long long)rows[i] + 1, i + 1, n);
    }
  }
  return rows;
}

/* ---- files ---- */

/* native.array_load(path, as_ids): .npy, or .npz with one member. Numbers become float32; with
 * as_ids they are 0-based ids. One dimension is one row. */
static int array_load(lua_State *L) {
  const char *path = bind_path(L, 1);
  int ids = bind_boolean(L, 2, "as_ids");
  bind_archive *box = bind_new(L, &bind_archive_type, 0);
  fopo_dtype type = ids ? FOPO_U32 : FOPO_F32;
  int status = fopo_array_load(&box->archive, path, type);
  if (status == FOPO_ERR_MEMORY) {
    bind_collect(L);
    status = fopo_array_load(&box->archive, path, type);
  }
  bind_check(L, status);

  bind_array *a = bind_new(L, &bind_array_type, 0);
  fopo_array *found = box->archive.items;
  a->ids = ids;
  a->rows = found->ndim == 2 ? found->shape[0] : 1;
  a->cols = found->ndim == 2 ? found->shape[1] : found->shape[0];
  a->data = fopo_array_release(found);
  bind_pressure(L, bind_array_bytes(a));
  return 1;
}

/* a:save(path): .npy, or .npz with the member "array" if the path ends in .npz. Ids are saved
 * 0-based. */
static int save(lua_State *L) {
  const char *path = bind_path(L, 2);
  bind_array *a = bind_array_whole(L, 1);
  fopo_array array =
      fopo_array_of("array", a->ids ? FOPO_U32 : FOPO_F32, a->data, 2, a->rows, a->cols);
  bind_check(L, fopo_array_save(path, &array));
  return 0;
}

/* ---- elements ---- */

/* The offset of element (i, j), the arguments 2 and 3. */
static size_t place(lua_State *L, const bind_array *a) {
  size_t i = bind_id(L, 2, "row", a->rows);
  return i * a->cols + bind_id(L, 3, "column", a->cols);
}

/* a:get(i, j): a number, or a 1-based id, nil for none. */
static int get(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1);
  size_t at = place(L, a);
  if (!a->ids) return bind_return_number(L, (double)((float *)a->data)[at]);
  bind_push_id(L, ((uint32_t *)a->data)[at]);
  return 1;
}

/* a:set(i, j, value): value is a number, or a 1-based id, or nil for none. */
static int set(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1);
  size_t at = place(L, a);
  if (a->ids) {
    uint32_t id = lua_isnil(L, 4) ? FOPO_NO_ITEM : bind_id(L, 4, "id", UINT32_MAX);
    ((uint32_t *)bind_array_own(L, 1)->data)[at] = id;
  } else {
    float value = bind_float(L, 4, "the value");
    ((float *)bind_array_own(L, 1)->data)[at] = value;
  }
  return 0;
}

/* #a: rows, or elements of a row. */
static int length(lua_State *L) {
  const bind_array *a = bind_get(L, 1, &bind_array_type);
  return bind_return_count(L, a->row ? a->cols : a->rows);
}

/* a[i]: row i, a copy, or element i of a row; nil behind the last, where ipairs ends. */
static int element(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1);
  size_t n = a->row ? a->cols : a->rows;
  if (lua_isinteger(L, 2) && lua_tointeger(L, 2) == (lua_Integer)n + 1) return bind_return_nil(L);
  size_t i = bind_id(L, 2, a->row ? "element" : "row", n);
  if (a->row && a->ids) return bind_push_id(L, ((uint32_t *)a->data)[i]), 1;
  if (a->row) return bind_return_number(L, (double)((float *)a->data)[i]);
  bind_array *row = bind_array_unset(L, a->ids, 1, a->cols);
  a = bind_array_whole(L, 1);
  row->row = 1;
  memcpy(row->data, (char *)a->data + i * a->cols * 4, a->cols * 4);
  return 1;
}

/* a:rows_of(ids): the rows of an array of ids or a table of 1-based integers. */
static int rows_of(lua_State *L) {
  size_t n;
  bind_array *a = bind_array_whole(L, 1);
  if (lua_isnoneornil(L, 2)) bind_array_ids(L, 2, "the list of rows");
  uint32_t *rows = bind_rows(L, 2, a->rows, 0, &n);
  a = bind_array_whole(L, 1);
  bind_array *out = bind_array_unset(L, a->ids, n, a->cols);
  a = bind_array_whole(L, 1);
  size_t bytes = a->cols * ELEMENT;
  for (size_t i = 0; i < n; i++) {
    memcpy((char *)out->data + i * bytes, (char *)a->data + rows[i] * bytes, bytes);
  }
  return 1;
}

/* a:copy(). */
static int copy(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1);
  bind_array *out = bind_array_unset(L, a->ids, a->rows, a->cols);
  a = bind_array_whole(L, 1);
  memcpy(out->data, a->data, bind_array_bytes(a));
  return 1;
}

/* Pushes row i as a table. Nothing allocates between fetching the array and reading it. */
static void push_row(lua_State *L, size_t i, size_t cols) {
  lua_createtable(L, (int)cols, 0);
  bind_array *a = bind_array_whole(L, 1);
  for (size_t j = 0; j < cols; j++) {
    size_t at = i * cols + j;
    if (a->ids) {
      uint32_t id = ((uint32_t *)a->data)[at];
      lua_pushinteger(L, id == FOPO_NO_ITEM ? 0 : (lua_Integer)id + 1);
    } else {
      lua_pushnumber(L, (double)((float *)a->data)[at]);
    }
    lua_rawseti(L, -2, (lua_Integer)j + 1);
  }
}

/* a:totable(): {{...}, ...}; 0 for no id. */
static int totable(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1);
  size_t rows = a->rows, cols = a->cols;
  if (rows > INT_MAX || cols > INT_MAX) {
    return bind_refuse(L, "%zu x %zu is too large for a table; take fewer rows with a:rows_of",
                       rows, cols);
  }
  luaL_checkstack(L, 8, NULL);
  lua_createtable(L, (int)rows, 0);
  for (size_t i = 0; i < rows; i++) {
    push_row(L, i, cols);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* ---- products and sums, and what the values are like ---- */

/* a:matmul(b, transpose_a, transpose_b): op(a) op(b). */
static int matmul(lua_State *L) {
  int ta = bind_boolean(L, 3, "transpose_a"), tb = bind_boolean(L, 4, "transpose_b");
  bind_array *a = bind_array_numbers(L, 1, "the left factor");
  bind_array *b = bind_array_numbers(L, 2, "the right factor");
  size_t m = ta ? a->cols : a->rows, inner = ta ? a->rows : a->cols;
  size_t n = tb ? b->rows : b->cols, other = tb ? b->cols : b->rows;
  if (inner != other) {
    return bind_refuse(L, "%zu x %zu times %zu x %zu does not fit: the inner sizes are %zu and %zu",
                       m, inner, other, n, inner, other);
  }
  bind_array *c = bind_array_new(L, 0, m, n);
  a = bind_array_numbers(L, 1, "the left factor");
  b = bind_array_numbers(L, 2, "the right factor");
  bind_check(L, fopo_gemm(bind_matrix(c), 1.0f, bind_matrix(a), ta, bind_matrix(b), tb, 0.0f));
  return 1;
}

/* a:add(b, alpha): a + alpha b in place; returns a. */
static int add(lua_State *L) {
  float alpha = lua_isnoneornil(L, 3) ? 1.0f : bind_float(L, 3, "alpha");
  bind_array *a = bind_array_numbers(L, 1, "the array");
  bind_array *b = bind_array_numbers(L, 2, "what is added");
  if (a->rows != b->rows || a->cols != b->cols) {
    return bind_refuse(L, "%zu x %zu and %zu x %zu cannot be added: their shapes must be equal",
                       a->rows, a->cols, b->rows, b->cols);
  }
  lua_settop(L, 2);
  a = bind_array_own(L, 1);
  b = bind_array_numbers(L, 2, "what is added");
  float *x = a->data, *y = b->data;
  for (size_t i = 0, n = bind_array_count(a); i < n; i++) x[i] += alpha * y[i];
  lua_settop(L, 1);
  return 1;
}

/* a:scale(alpha): alpha a in place; returns a. */
static int scale(lua_State *L) {
  bind_array_numbers(L, 1, "the array");
  float alpha = bind_float(L, 2, "alpha");
  bind_array *a = bind_array_own(L, 1);
  float *x = a->data;
  for (size_t i = 0, n = bind_array_count(a); i < n; i++) x[i] *= alpha;
  lua_settop(L, 1);
  return 1;
}

enum { BINS_MOST = 1000 };

/* a:histogram(bins): a list of counts, and {min, max, mean, seen}. */
static int histogram(lua_State *L) {
  size_t counts[BINS_MOST], bins = 16;
  if (!lua_isnoneornil(L, 2)) bins = bind_count(L, 2, "bins", 1, BINS_MOST);
  bind_array *a = bind_array_numbers(L, 1, "the array");
  fopo_summary s;
  if (bind_array_count(a) == 0) {
    return bind_refuse(L, "the array is empty (%zu x %zu)", a->rows, a->cols);
  }
  bind_check(L, fopo_summarise(&s, a->data, bind_array_count(a)));
  if (!isfinite(s.squares) && !isfinite(s.sum)) {
    return bind_fail(L,
                     fopo_fail(FOPO_ERR_NUMERIC,
                               "the array has values that are not finite; a:finite() says where"));
  }
  a = bind_array_numbers(L, 1, "the array");
  size_t n = bind_array_count(a), seen = fopo_summary_bins(counts, bins, &s, a->data, n);
  bind_push_counts(L, counts, bins);
  lua_createtable(L, 0, 4);
  bind_set_number(L, "min", s.least);
  bind_set_number(L, "max", s.largest);
  bind_set_number(L, "mean", s.sum / (double)n);
  bind_set_count(L, "seen", seen);
  return 2;
}

/* a:finite(): true, or false and a sentence that names the first element that is not. */
static int is_finite(lua_State *L) {
  bind_array *a = bind_array_numbers(L, 1, "the array");
  int status = fopo_matrix_finite(bind_matrix(a), "array");
  if (status == FOPO_ERR_INTERRUPTED) return bind_fail(L, status);
  lua_pushboolean(L, status == FOPO_OK);
  if (status == FOPO_OK) return 1;
  lua_pushstring(L, fopo_error_sentence());
  return 2;
}

/* ---- arrays that are dealt out to the ranks ---- */

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

/* native.shard_save_whole(items, path): all items as one .npy; returns the CRC-32 of its numbers.
 */
static int shard_save_whole(lua_State *L) {
  fopo_shard *s = bind_array_items(L, 1, "items")->shard;
  const char *path = bind_path(L, 2);
  uint32_t crc;
  if (s == NULL) return bind_refuse(L, "this array is whole; a:save(path) writes it");
  bind_check(L, fopo_shard_save(&crc, s, path));
  return bind_return_count(L, crc);
}

/* ---- the type ---- */

static int field_rows(lua_State *L, bind_object *o) {
  const bind_array *a = (bind_array *)o;
  return bind_return_count(L, a->shard != NULL ? a->shard->part.P : a->rows);
}

/* Of an array that is dealt out {rank, size, rows}: whose part this is, and how many rows it has.
 */
static int field_part(lua_State *L, bind_object *o) {
  const bind_array *a = (bind_array *)o;
  if (a->shard == NULL) return bind_return_nil(L);
  lua_createtable(L, 0, 3);
  bind_set_count(L, "rank", a->shard->part.rank);
  bind_set_count(L, "size", a->shard->part.size);
  bind_set_count(L, "rows", a->rows);
  return 1;
}

BIND_FIELD(field_cols, count, ((bind_array *)o)->cols)
BIND_FIELD(field_kind, string, ((bind_array *)o)->ids ? "ids" : "float")
BIND_FIELD(field_bytes, count, bind_array_bytes((bind_array *)o))

const luaL_Reg bind_array_functions[] = {{"array_zeros", array_zeros},
                                         {"array_uniform", array_uniform},
                                         {"array_randn", array_randn},
                                         {"array_from", array_from},
                                         {"array_ids", array_ids},
                                         {"array_load", array_load},
                                         {"shard_array", shard_array},
                                         {"shard_files", shard_files},
                                         {"shard_save", shard_save},
                                         {"shard_save_whole", shard_save_whole},
                                         {NULL, NULL}};

static const luaL_Reg methods[] = {{"get", get},          {"set", set},
                                   {"save", save},        {"rows_of", rows_of},
                                   {"copy", copy},        {"totable", totable},
                                   {"matmul", matmul},    {"add", add},
                                   {"scale", scale},      {"histogram", histogram},
                                   {"finite", is_finite}, {NULL, NULL}};

static const bind_field fields[] = {{"rows", field_rows, NULL},   {"part", field_part, NULL},
                                    {"cols", field_cols, NULL},   {"kind", field_kind, NULL},
                                    {"bytes", field_bytes, NULL}, {NULL, NULL, NULL}};

const bind_type bind_array_type = {.name = "fopo.array",
                                   .size = sizeof(bind_array),
                                   .done = done,
                                   .methods = methods,
                                   .element = element,
                                   .length = length,
                                   .fields = fields};

const bind_type bind_archive_type = {
    .name = "fopo.archive", .size = sizeof(bind_archive), .done = archive_done};
