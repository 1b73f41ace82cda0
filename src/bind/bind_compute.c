/* What arrays compute: the operators, functions of each element, reductions, and what moves rows
 * and columns. */
#include <math.h>
#include <string.h>

#include "bind/families.h"
#include "kernels/arrays.h"

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
  bind_array *out = bind_array_new(L, 0, rows, cols);
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
  bind_array *out = bind_array_new(L, a->ids, a->cols, a->rows);
  a = bind_get(L, index, &bind_array_type);
  fopo_transpose(out->data, a->data, a->rows, a->cols);
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
  bind_array *out = bind_array_new(L, 0, by == ROWS ? a->rows : 1, by == ROWS ? 1 : a->cols);
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
  bind_array *out = bind_array_new(L, 1, by == ROWS ? a->rows : 1, by == ROWS ? 1 : a->cols);
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
  bind_array *out = bind_array_new(L, 0, a->rows, a->cols);
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

/* ---- the tables ---- */

const luaL_Reg bind_compute_methods[] = {
#define OP(name, operands, value)                       {#name, op_##name},
#define OPERATOR(name, operands, value)                 {"__" #name, op_##name},
#define REDUCTION(name, type, start, term, sum, result) {#name, reduce_##name},
#include "kernels/arrays.def"
    {"logsumexp", reduce_logsumexp},
    {"argmax", argmax},
    {"near", near},
    {"softmax", softmax},
    {"cumsum", cumsum},
    {NULL, NULL}};
