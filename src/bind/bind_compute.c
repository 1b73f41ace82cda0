/* What arrays compute: the operators, functions of each element, reductions, and what moves rows
 * and columns. */
#include <math.h>
#include <string.h>

#include "bind/families.h"
#include "core/progress.h"
#include "core/rng.h"
#include "kernels/arrays.h"
#include "kernels/kernels.h"
#include "mips/topk.h"

enum { ELEMENT = 4 }; /* bytes, of numbers and ids alike */

/* ---- element by element ---- */

/* The array at `index`, or the number, which `number` then holds. */
static fopo_matrix operand(lua_State *L, int index, float *number) {
  static const char *const names[] = {"a", "b", "c"};
  const char *what = names[index - 1];
  if (lua_type(L, index) == LUA_TNUMBER) {
    *number = bind_float(L, index, what);
    return fopo_matrix_view(number, 1, 1);
  }
  if (lua_type(L, index) != LUA_TUSERDATA) {
    const char *found = bind_found(L, index);
    bind_refuse(L, "%s must be an array or a number, not %.80s", what, found);
  }
  return bind_matrix(bind_array_numbers(L, index, what));
}

static int elementwise(lua_State *L, fopo_op op) {
  size_t n = fopo_op_operands(op), rows, cols;
  float numbers[FOPO_OPERANDS];
  fopo_matrix x[FOPO_OPERANDS];
  lua_settop(L, (int)n);
  for (size_t i = 0; i < n; i++) x[i] = operand(L, (int)i + 1, &numbers[i]);
  bind_check(L, fopo_broadcast(&rows, &cols, x, n));
  bind_array *out = bind_array_unset(L, 0, rows, cols);
  for (size_t i = 0; i < n; i++) x[i] = operand(L, (int)i + 1, &numbers[i]);
  bind_check(L, fopo_elementwise(out->data, rows, cols, op, x));
  return 1;
}

/* ---- reductions ---- */

enum { ALL, ROWS, COLUMNS };

/* The side that the argument names, ALL if there is none. */
static int side(lua_State *L, int index) {
  static const char *const names[] = {"rows", "columns", NULL};
  return lua_isnoneornil(L, index) ? ALL : ROWS + bind_choice(L, index, "the side", names);
}

/* Pushes the transpose of the array at `index`. */
static bind_array *push_transposed(lua_State *L, int index) {
  bind_array *a = bind_get(L, index, &bind_array_type);
  bind_array *out = bind_array_unset(L, a->ids, a->cols, a->rows);
  a = bind_get(L, index, &bind_array_type);
  bind_check(L, fopo_transpose(out->data, a->data, a->rows, a->cols));
  return out;
}

/* Refuses a mean or a largest number of nothing. */
static void check_some(lua_State *L, const bind_array *a, int by) {
  static const char *const what[] = {"the array is", "the rows are", "the columns are"};
  if ((by == COLUMNS || a->cols > 0) && (by == ROWS || a->rows > 0)) return;
  bind_refuse(L, "%s empty (%zu x %zu)", what[by], a->rows, a->cols);
}

static int reduce(lua_State *L, fopo_reduction op) {
  int by = side(L, 2), turned = by == COLUMNS && op == FOPO_REDUCTION_logsumexp;
  bind_array *a = bind_array_numbers(L, 1, "the array");
  if (op == FOPO_REDUCTION_mean || op == FOPO_REDUCTION_min || op == FOPO_REDUCTION_max) {
    check_some(L, a, by);
  }
  if (by == ALL) {
    double value;
    bind_check(L, fopo_reduce_all(&value, op, bind_matrix(a)));
    return bind_return_number(L, value);
  }
  lua_settop(L, 1);
  bind_array *out = bind_array_unset(L, 0, by == ROWS ? a->rows : 1, by == ROWS ? 1 : a->cols);
  fopo_matrix x =
      bind_matrix(turned ? push_transposed(L, 1) : bind_array_numbers(L, 1, "the array"));
  bind_check(L, by == ROWS || turned ? fopo_reduce_rows(out->data, op, x)
                                     : fopo_reduce_columns(out->data, op, x));
  lua_settop(L, 2);
  return 1;
}

#define OP(name, operands, value)                                                                  \
  static int op_##name(lua_State *L) { return elementwise(L, FOPO_OP_##name); }
#define REDUCTION(name, type, start, term, sum, result)                                            \
  static int reduce_##name(lua_State *L) { return reduce(L, FOPO_REDUCTION_##name); }
#include "kernels/arrays.def"
static int reduce_logsumexp(lua_State *L) { return reduce(L, FOPO_REDUCTION_logsumexp); }

/* a:argmax(side): ids; without a side the row and the column. */
static int argmax(lua_State *L) {
  int by = side(L, 2);
  bind_array *a = bind_array_numbers(L, 1, "the array");
  check_some(L, a, by);
  if (by == ALL) {
    uint32_t at;
    fopo_matrix all = fopo_matrix_view(a->data, 1, bind_array_count(a));
    bind_check(L, fopo_largest_places(&at, all));
    lua_pushinteger(L, (lua_Integer)(at / a->cols) + 1);
    lua_pushinteger(L, (lua_Integer)(at % a->cols) + 1);
    return 2;
  }
  lua_settop(L, 1);
  bind_array *out = bind_array_unset(L, 1, by == ROWS ? a->rows : 1, by == ROWS ? 1 : a->cols);
  a = by == COLUMNS ? push_transposed(L, 1) : bind_array_numbers(L, 1, "the array");
  bind_check(L, fopo_largest_places(out->data, bind_matrix(a)));
  lua_settop(L, 2);
  return 1;
}

/* A map of rows, or of columns, which are transposed before and after. */
static int along(lua_State *L, int map(float *y, fopo_matrix x)) {
  int by = side(L, 2);
  bind_array *a = bind_array_numbers(L, 1, "the array");
  if (by == ALL) return bind_refuse(L, "say along what: \"rows\" or \"columns\"");
  lua_settop(L, 1);
  if (by == COLUMNS) a = push_transposed(L, 1);
  bind_array *out = bind_array_unset(L, 0, a->rows, a->cols);
  a = bind_array_numbers(L, by == COLUMNS ? 2 : 1, "the array");
  bind_check(L, map(out->data, bind_matrix(a)));
  if (by == COLUMNS) push_transposed(L, 3);
  return 1;
}

static int softmax(lua_State *L) { return along(L, fopo_softmax_rows); }
static int cumsum(lua_State *L) { return along(L, fopo_cumsum_rows); }

/* a:near(b, tolerance): true, or false and a sentence that says where they differ. */
static int near(lua_State *L) {
  double tolerance = lua_isnoneornil(L, 3) ? 0.0 : bind_number(L, 3, "the tolerance");
  fopo_matrix a = bind_matrix(bind_array_numbers(L, 1, "a"));
  fopo_matrix b = bind_matrix(bind_array_numbers(L, 2, "b"));
  if (a.rows != b.rows || a.cols != b.cols) {
    lua_pushboolean(L, 0);
    lua_pushfstring(L, "a is %d x %d and b is %d x %d", (int)a.rows, (int)a.cols, (int)b.rows,
                    (int)b.cols);
    return 2;
  }
  for (size_t i = 0; i < a.rows * a.cols; i++) {
    double x = (double)a.x[i], y = (double)b.x[i];
    if (x == y || fabs(x - y) <= tolerance) continue;
    lua_pushboolean(L, 0);
    char where[128];
    snprintf(where, sizeof where, "a is %.9g and b is %.9g at row %zu, column %zu", x, y,
             i / a.cols + 1, i % a.cols + 1);
    lua_pushstring(L, where);
    return 2;
  }
  return bind_return_boolean(L, 1);
}

/* ---- rows and columns, of numbers or ids ---- */

/* Row `to` of out, from column `at` on, gets `cols` elements of row i of a, from column j on. */
static void copy_part(bind_array *out, size_t to, size_t at, const bind_array *a, size_t i,
                      size_t j, size_t cols) {
  memcpy((char *)out->data + (to * out->cols + at) * ELEMENT,
         (const char *)a->data + (i * a->cols + j) * ELEMENT, cols * ELEMENT);
}

/* a:transpose(). */
static int transpose(lua_State *L) {
  bind_array_whole(L, 1);
  push_transposed(L, 1);
  return 1;
}

/* a:reshape(rows, cols): the same elements in the same order. */
static int reshape(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1);
  size_t rows = bind_count(L, 2, "rows", 0, UINT32_MAX), count = bind_array_count(a);
  size_t cols = bind_count(L, 3, "cols", 0, UINT32_MAX);
  if (rows * cols != count) {
    return bind_refuse(L, "%zu x %zu has %zu elements and cannot become %zu x %zu, which has %zu",
                       a->rows, a->cols, count, rows, cols, rows * cols);
  }
  bind_array *out = bind_array_unset(L, a->ids, rows, cols);
  memcpy(out->data, bind_array_whole(L, 1)->data, count * ELEMENT);
  return 1;
}

/* The first of the rows or columns i to j, the arguments 2 and 3, and how many these are. */
static size_t range_of(lua_State *L, size_t n, size_t *count) {
  size_t first = bind_count(L, 2, "the first one", 1, n + 1);
  size_t last = lua_isnoneornil(L, 3) ? n : bind_count(L, 3, "the last one", first - 1, n);
  *count = last + 1 - first;
  return first - 1;
}

/* a:slice(i, j): the rows i to j. */
static int slice(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1);
  size_t n, first = range_of(L, a->rows, &n);
  bind_array *out = bind_array_unset(L, a->ids, n, a->cols);
  a = bind_array_whole(L, 1);
  if (n > 0) memcpy(out->data, (char *)a->data + first * a->cols * ELEMENT, bind_array_bytes(out));
  return 1;
}

/* a:columns(i, j). */
static int columns(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1);
  size_t n, first = range_of(L, a->cols, &n);
  bind_array *out = bind_array_unset(L, a->ids, a->rows, n);
  a = bind_array_whole(L, 1);
  for (size_t i = 0; i < a->rows; i++) copy_part(out, i, 0, a, i, first, n);
  return 1;
}

/* native.array_concat(list, side). */
static int concat(lua_State *L) {
  bind_table(L, 1, "the list of arrays");
  int across = side(L, 2) == COLUMNS;
  size_t n = lua_rawlen(L, 1), along = 0, other = 0;
  lua_settop(L, 1);
  if (n == 0) return bind_refuse(L, "the list of arrays is empty");
  luaL_checkstack(L, (int)(n < INT_MAX / 2 ? n : INT_MAX / 2) + 8, "too many arrays");
  int ids = 0;
  for (size_t k = 0; k < n; k++) { /* array k is at 2 + k */
    lua_rawgeti(L, 1, (lua_Integer)k + 1);
    bind_array *a = bind_array_whole(L, (int)k + 2);
    size_t width = across ? a->rows : a->cols;
    if (k > 0 && (width != other || a->ids != ids)) {
      return bind_refuse(
          L, "array %zu is %zu x %zu of %s and does not go %s array 1, of %zu %s of %s", k + 1,
          a->rows, a->cols, a->ids ? "ids" : "numbers", across ? "beside" : "below", other,
          across ? "rows" : "columns", ids ? "ids" : "numbers");
    }
    other = width;
    ids = a->ids;
    along += across ? a->cols : a->rows;
  }
  bind_array *out = bind_array_unset(L, ids, across ? other : along, across ? along : other);
  for (size_t k = 0, at = 0; k < n; k++) {
    bind_array *a = bind_array_whole(L, (int)k + 2);
    for (size_t i = 0; i < a->rows; i++) {
      copy_part(out, across ? i : at + i, across ? at : 0, a, i, 0, a->cols);
    }
    at += across ? a->cols : a->rows;
  }
  return 1;
}

/* The ids of the array at 2, which must be below n; `what` names one. */
static bind_array *ids_below(lua_State *L, size_t n, const char *what) {
  bind_array *ids = bind_array_ids(L, 2, "the second argument");
  const uint32_t *id = ids->data;
  for (size_t k = 0; k < bind_array_count(ids); k++) {
    if (id[k] < n) continue;
    bind_refuse(L, "%s %lld (row %zu, column %zu of the ids) does not exist; use 1 to %zu", what,
                id[k] == FOPO_NO_ITEM ? 0LL : (long long)id[k] + 1, k / ids->cols + 1,
                k % ids->cols + 1, n);
  }
  return ids;
}

/* a:gather(ids): element (i, k) is a[i][ids[i][k]]; one row of ids is for all rows. */
static int gather(lua_State *L) {
  bind_array *a = bind_array_whole(L, 1), *ids = ids_below(L, a->cols, "column");
  if (ids->rows != 1 && ids->rows != a->rows) {
    return bind_refuse(L,
                       "the array is %zu x %zu and the ids are %zu x %zu: they need 1 row or %zu",
                       a->rows, a->cols, ids->rows, ids->cols, a->rows);
  }
  lua_settop(L, 2);
  bind_array *out = bind_array_unset(L, a->ids, a->rows, ids->cols);
  a = bind_array_whole(L, 1);
  ids = bind_array_ids(L, 2, "the second argument");
  for (size_t i = 0; i < a->rows; i++) {
    const uint32_t *id = (uint32_t *)ids->data + (ids->rows == 1 ? 0 : i) * ids->cols;
    for (size_t k = 0; k < ids->cols; k++) copy_part(out, i, k, a, i, id[k], 1);
  }
  return 1;
}

/* a:scatter_add(ids, b): row ids[s] of a gets row s of b added, in place; returns a. */
static int scatter_add(lua_State *L) {
  bind_array *a = bind_array_numbers(L, 1, "the array"), *ids = ids_below(L, a->rows, "row");
  bind_array *b = bind_array_numbers(L, 3, "what is added");
  size_t n = bind_array_count(ids);
  if (b->rows != n || b->cols != a->cols) {
    return bind_refuse(L, "%zu ids of rows of %zu x %zu need %zu x %zu numbers, not %zu x %zu", n,
                       a->rows, a->cols, n, a->cols, b->rows, b->cols);
  }
  lua_settop(L, 3);
  if (b->data == a->data) { /* its rows are read as they were */
    bind_array *before = bind_array_unset(L, 0, n, b->cols);
    memcpy(before->data, bind_array_numbers(L, 3, "what is added")->data, bind_array_bytes(before));
    lua_replace(L, 3);
  }
  a = bind_array_own(L, 1);
  const uint32_t *id = bind_array_ids(L, 2, "the second argument")->data;
  fopo_matrix from = bind_matrix(bind_array_numbers(L, 3, "what is added")), to = bind_matrix(a);
  for (size_t s = 0; s < n; s++) {
    float *row = fopo_matrix_row(to, id[s]);
    const float *x = fopo_matrix_row(from, s);
    for (size_t j = 0; j < to.cols; j++) row[j] += x[j];
  }
  lua_settop(L, 1);
  return 1;
}

/* ---- order and chance ---- */

/* Pushes the k largest numbers of each row of the array at `index` (sign = 1), or the k smallest
 * (-1), in order, and their columns. NaN is larger than all others. */
static void push_ranked(lua_State *L, int index, size_t k, float sign) {
  bind_array *a = bind_array_numbers(L, index, "the array");
  size_t rows = a->rows, n = a->cols;
  uint64_t *keys = bind_scratch(L, n, sizeof *keys);
  float *value = bind_array_new(L, 0, rows, k)->data;
  uint32_t *ids = bind_array_new(L, 1, rows, k)->data;
  const float *x = bind_array_numbers(L, index, "the array")->data;
  const fopo_kernels *kernels = fopo_kernels_get();
  for (size_t i = 0; i < rows; i++, x += n, value += k, ids += k) {
    for (size_t j = 0; j < n; j++) {
      keys[j] = fopo_topk_key(isnan(x[j]) ? copysignf(NAN, sign) : sign * x[j], (uint32_t)j);
    }
    size_t found = fopo_topk_largest(keys, n, k, kernels);
    fopo_topk_give(ids, value, keys, found, k, kernels);
    for (size_t j = 0; j < k; j++) value[j] *= sign;
    bind_check(L, fopo_progress("sorting an array", (double)(i + 1), (double)rows));
  }
}

/* a:top(k): the k largest of each row, the largest first, and their columns. */
static int top(lua_State *L) {
  size_t k = bind_count(L, 2, "k", 1, bind_array_numbers(L, 1, "the array")->cols);
  push_ranked(L, 1, k, 1.0f);
  return 2;
}

/* a:sort(side): ascending, and where each element was. */
static int sort(lua_State *L) {
  int by = side(L, 2), index = by == COLUMNS ? 2 : 1;
  bind_array *a = bind_array_numbers(L, 1, "the array");
  if (by == ALL) return bind_refuse(L, "say along what: \"rows\" or \"columns\"");
  lua_settop(L, 1);
  if (by == COLUMNS) a = push_transposed(L, 1);
  push_ranked(L, index, a->cols, -1.0f);
  if (by == COLUMNS) {
    push_transposed(L, 4);
    push_transposed(L, 5);
  }
  return 2;
}

/* The sums of the weights w [n] up to each; refuses what no draw can be made by. */
static void accumulate(lua_State *L, double *sums, const float *w, size_t n, size_t row) {
  double sum = 0;
  for (size_t j = 0; j < n; j++) {
    if (!(w[j] >= 0 && w[j] < INFINITY)) {
      bind_refuse(L, "row %zu has the weight %g at column %zu; weights are at least 0 and finite",
                  row, (double)w[j], j + 1);
    }
    sums[j] = sum += (double)w[j];
  }
  if (sum == 0) bind_refuse(L, "row %zu has no weight above 0, so nothing can be drawn", row);
}

/* a:draw(n, seed, step): n columns of each row, by its weights. Draw s of row i is a function of
 * (seed, step, i, s) and of the weights. */
static int draw(lua_State *L) {
  bind_array *a = bind_array_numbers(L, 1, "the array");
  size_t n = bind_count(L, 2, "n", 0, UINT32_MAX), rows = a->rows, cols = a->cols;
  uint64_t seed = lua_isnoneornil(L, 3) ? 0 : bind_seed(L, 3);
  uint32_t step = bind_step(L, 4);
  double *sums = bind_scratch(L, cols, sizeof *sums);
  uint32_t *ids = bind_array_new(L, 1, rows, n)->data;
  const float *w = bind_array_numbers(L, 1, "the array")->data;
  for (size_t i = 0; i < rows; i++, w += cols, ids += n) {
    fopo_words words = {{0, 0, 0, 0}};
    accumulate(L, sums, w, cols, i + 1);
    for (size_t s = 0; s < n; s++) {
      if (s % 4 == 0) {
        words = fopo_random(seed, FOPO_STREAM_ARRAY, step, (uint32_t)i, (uint32_t)(s / 4));
      }
      double target = fopo_unit(words.v[s % 4]) * sums[cols - 1];
      ids[s] = (uint32_t)fopo_invert(sums, cols, target);
    }
    bind_check(L, fopo_progress("drawing", (double)(i + 1), (double)rows));
  }
  return 1;
}

/* Lua makes a boolean of what < gives. */
static int refuse_order(lua_State *L) {
  return luaL_error(L, "arrays are compared element by element by a:lt(b), a:le(b), a:gt(b) and "
                       "a:ge(b)");
}

/* ---- the tables ---- */

const luaL_Reg bind_compute_methods[] = {
#define OP(name, operands, value)                       {#name, op_##name},
#define OPERATOR(name, operands, value)                 {"__" #name, op_##name},
#define REDUCTION(name, type, start, term, sum, result) {#name, reduce_##name},
#include "kernels/arrays.def"
    {"__lt", refuse_order},
    {"__le", refuse_order},
    {"logsumexp", reduce_logsumexp},
    {"argmax", argmax},
    {"near", near},
    {"softmax", softmax},
    {"cumsum", cumsum},
    {"transpose", transpose},
    {"reshape", reshape},
    {"slice", slice},
    {"columns", columns},
    {"gather", gather},
    {"scatter_add", scatter_add},
    {"top", top},
    {"sort", sort},
    {"draw", draw},
    {NULL, NULL}};

const luaL_Reg bind_compute_functions[] = {{"array_concat", concat}, {NULL, NULL}};
