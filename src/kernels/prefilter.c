/* The prefilter in plain C: the definition that instruction sets are tested against. */
#include "kernels/prefilter.h"

#include <string.h>

#include "kernels/kernels.h"

static uint16_t bf16_of(float x) {
  uint32_t bits;
  x = fopo_prefilter_round(x);
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static float float_of(uint16_t bf16) {
  uint32_t bits = (uint32_t)bf16 << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Where column i of row s is in packed rows. */
static size_t row_place(size_t s, size_t i, size_t dim) {
  size_t width = fopo_prefilter_width(dim), row = fopo_prefilter_row(dim);
  size_t group = s / FOPO_PREFILTER_GROUP * FOPO_PREFILTER_GROUP;
  return group * row + i / width * width * FOPO_PREFILTER_GROUP + s % FOPO_PREFILTER_GROUP * width +
         i % width;
}

/* Where column i of query j is in packed queries. */
static size_t query_place(size_t j, size_t i, size_t dim) {
  size_t width = fopo_prefilter_width(dim), pair = i % width / 2;
  return i / width * width * FOPO_PANEL + j / 16 * width * 16 + (pair * 16 + j % 16) * 2 + i % 2;
}

static void pack(uint16_t *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                 size_t dim) {
  memset(out, 0, fopo_prefilter_rows(count) * fopo_prefilter_row(dim) * sizeof *out);
  for (size_t s = 0; s < count; s++) {
    const float *row = rows + (ids != NULL ? ids[s] : s) * ld;
    for (size_t i = 0; i < dim; i++) out[row_place(s, i, dim)] = bf16_of(row[i]);
  }
}

static void pack_queries(uint16_t *out, const float *panel, size_t dim, size_t width) {
  memset(out, 0, FOPO_PANEL * fopo_prefilter_row(dim) * sizeof *out);
  for (size_t i = 0; i < dim; i++) {
    for (size_t j = 0; j < width; j++) {
      out[query_place(j, i, dim)] = bf16_of(panel[i * width + j]);
    }
  }
}

static void score_and_select(uint32_t *list, float *scores, size_t found[2], const uint16_t *rows,
                             size_t count, const uint16_t *queries, size_t dim, size_t width,
                             const float *floor) {
  found[0] = found[1] = 0;
  for (size_t s = 0; s < count; s++) {
    for (size_t j = 0; j < width; j++) {
      float sum = 0;
      for (size_t i = 0; i < dim; i++) {
        sum += float_of(rows[row_place(s, i, dim)]) * float_of(queries[query_place(j, i, dim)]);
      }
      if (!(sum >= floor[j])) continue;
      size_t half = j / 16, at = half * 16 * count + found[half]++;
      scores[at] = sum;
      list[at] = (uint32_t)(s * 16 + j % 16);
    }
  }
}

const fopo_prefilter *fopo_prefilter_portable(void) {
  static const fopo_prefilter prefilter = {pack, pack_queries, score_and_select};
  return &prefilter;
}
