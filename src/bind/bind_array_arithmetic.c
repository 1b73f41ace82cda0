/* What is computed with arrays of numbers: products and sums, and what their values are like. */
#include <math.h>

#include "bind/families.h"
#include "core/summary.h"

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

static fopo_summary summary_of(lua_State *L, int needs_one) {
  fopo_summary s;
  bind_array *a = bind_array_numbers(L, 1, "the array");
  if (needs_one && bind_array_count(a) == 0) {
    bind_refuse(L, "the array is empty (%zu x %zu)", a->rows, a->cols);
  }
  bind_check(L, fopo_summarise(&s, a->data, bind_array_count(a)));
  return s;
}

/* a:norm(): the square root of the sum of squares. */
static int norm(lua_State *L) {
  lua_pushnumber(L, sqrt(summary_of(L, 0).squares));
  return 1;
}

/* a:sum(). */
static int sum(lua_State *L) {
  lua_pushnumber(L, summary_of(L, 0).sum);
  return 1;
}

/* a:mean(). */
static int mean(lua_State *L) {
  fopo_summary s = summary_of(L, 1);
  lua_pushnumber(L, s.sum / (double)bind_array_count(bind_array_numbers(L, 1, "the array")));
  return 1;
}

/* a:min(): NaN if an element is NaN. */
static int least(lua_State *L) {
  lua_pushnumber(L, summary_of(L, 1).least);
  return 1;
}

/* a:max(): NaN if an element is NaN. */
static int largest(lua_State *L) {
  lua_pushnumber(L, summary_of(L, 1).largest);
  return 1;
}

enum { BINS_MOST = 1000 };

/* a:histogram(bins): a list of counts, and {min, max, mean, seen}. */
static int histogram(lua_State *L) {
  size_t counts[BINS_MOST], bins = 16;
  if (!lua_isnoneornil(L, 2)) bins = bind_count(L, 2, "bins", 1, BINS_MOST);
  fopo_summary s = summary_of(L, 1);
  if (!isfinite(s.squares) && !isfinite(s.sum)) {
    return bind_fail(L,
                     fopo_fail(FOPO_ERR_NUMERIC,
                               "the array has values that are not finite; a:finite() says where"));
  }
  bind_array *a = bind_array_numbers(L, 1, "the array");
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

const luaL_Reg bind_array_arithmetic[] = {
    {"matmul", matmul},    {"add", add},     {"scale", scale},
    {"norm", norm},        {"sum", sum},     {"mean", mean},
    {"min", least},        {"max", largest}, {"histogram", histogram},
    {"finite", is_finite}, {NULL, NULL}};
