/* The kernels over item rows, once for AVX2, AVX-512 and NEON. The file of each set includes this
 * behind its own part:
 *
 *   - four: 4 floats. sum4 adds them, store4 stores the sums of four of them
 *   - LEAST_DIM: rows of fewer numbers go to short_one, short_dot and short_axpy
 *   - SPREAD: rows of more bytes have their prefetches spread over the dot products; 0: none
 *   - dots: dot products of n_rows <= 4 rows with q, each folded to 4 partial sums. next [n_rows],
 *     unless NULL, are rows to prefetch, a cache line with each line that is read
 *   - pick: compacts the samples with c != 0, in order, and returns how many; it may write
 *     PICK_SPARE more
 *   - add_rows: adds the samples of a batch to v [dim]
 *
 * With FOPO_ROW_VECTORS it has dots and add_rows from here, and defines instead the vector `vec` of
 * VEC numbers, `tail`, and the operations used below. AVX2 has its own, which sum in the order of
 * AVX-512 with vectors half as wide.
 *
 * dot and gather_dot sum in the same order, so a row's score has the same bits from both, at any
 * place among the ids. */

#if defined(FOPO_ROW_VECTORS)

/* Two accumulators a row: vector i goes to accumulator i mod 2, and the last, incomplete one to
 * accumulator 1. */
INLINE void dots(four *out, const char *const *row, const char *const *next, const float *q,
                 size_t n, const int n_rows, const fopo_float type) {
  const size_t size = fopo_float_bytes(type);
  vec even[4], odd[4];
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) even[l] = odd[l] = vec_zero();
  /* Two vectors at a time; the same lines of the next rows are prefetched. */
  size_t i = 0;
  for (; i + 2 * VEC <= n; i += 2 * VEC) {
    vec q0 = vec_of(q + i), q1 = vec_of(q + i + VEC);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      if (next != NULL) {
        __builtin_prefetch(next[l] + i * size, 0, 2);
        if (type == FOPO_FLOAT32) __builtin_prefetch(next[l] + i * size + LINE, 0, 2);
      }
      even[l] = add_product(even[l], load(row[l], i, type), q0);
      odd[l] = add_product(odd[l], load(row[l], i + VEC, type), q1);
    }
  }
  /* The prefetches of the last lines. */
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) {
    if (next != NULL) prefetch_bytes(next[l] + i * size, (n - i) * size);
  }
  /* One more whole vector, then the last lanes. */
  if (i + VEC <= n) {
    vec q0 = vec_of(q + i);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      even[l] = add_product(even[l], load(row[l], i, type), q0);
    }
    i += VEC;
  }
  if (i < n) {
    tail last = tail_of(n);
    vec q1 = load_tail(q, last);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) odd[l] = add_last(odd[l], row[l], q1, last, type);
  }
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) out[l] = fold(add(even[l], odd[l]));
}

/* One sample times its weight, to `vectors` accumulators. */
INLINE void add_sample(vec *sum, const batch *b, size_t s, size_t first, const int vectors,
                       tail last, const fopo_float type) {
  const char *row = row_at(b->rows, b->ld, b->id[s], type);
  vec scale = vec_all(b->w[s]);
#pragma GCC unroll 8
  for (int k = 0; k < vectors; k++) {
    vec x = k + 1 < vectors ? load(row, first + (size_t)k * VEC, type) : load_last(row, last, type);
    sum[k] = add_product(sum[k], scale, x);
  }
}

/* v[i] += sum_s w[s] row_s[i] over `vectors` vectors of columns from i = first on; the last vector
 * is `last`. Sample s is added to accumulator s mod chains: with few vectors a single accumulator
 * would wait for its own previous FMA. vectors * chains <= 8, all in registers. With every fourth
 * sample the same columns of a row of `next` are prefetched. */
INLINE void add_block(float *v, const batch *b, size_t first, const int vectors, const int chains,
                      tail last, const fopo_float type) {
  const size_t size = fopo_float_bytes(type);
  vec sum[8];
#pragma GCC unroll 8
  for (int k = 0; k < vectors * chains; k++) sum[k] = vec_zero();
  /* `chains` samples at a time, one for each set of accumulators. */
  size_t s = 0;
  for (; s + (size_t)chains <= b->n; s += (size_t)chains) {
    if (s % 4 == 0 && s / 4 < b->n_next) {
      prefetch_bytes(row_at(b->rows, b->ld, b->next[s / 4], type) + first * size,
                     (end_of(last) - first) * size);
    }
#pragma GCC unroll 4
    for (int l = 0; l < chains; l++) {
      add_sample(sum + l * vectors, b, s + (size_t)l, first, vectors, last, type);
    }
  }
  /* The last n mod chains samples go to accumulator 0. */
  for (; s < b->n; s++) add_sample(sum, b, s, first, vectors, last, type);
    /* The accumulators of each column are summed and added to v. */
#pragma GCC unroll 8
  for (int k = 0; k < vectors; k++) {
    int whole = k + 1 < vectors;
    size_t at = first + (size_t)k * VEC;
    vec total = whole ? vec_of(v + at) : load_tail(v, last);
#pragma GCC unroll 4
    for (int l = 0; l < chains; l++) total = add(total, sum[l * vectors + k]);
    if (whole) {
      vec_store(v + at, total);
    } else {
      store_tail(v, total, last);
    }
  }
}

/* All columns: blocks of 8 vectors first, then the rest with as many chains as registers allow.
 * Each case is a copy of add_block with constant sizes. */
INLINE void add_rows(float *v, const batch *b, size_t dim, const fopo_float type) {
  size_t first = 0;
  for (; dim - first >= 8 * VEC; first += 8 * VEC) {
    add_block(v, b, first, 8, 1, tail_of(first + 8 * VEC), type);
  }
  tail last = tail_of(dim);
  switch ((dim - first + VEC - 1) / VEC) {
  case 1: add_block(v, b, first, 1, 4, last, type); break;
  case 2: add_block(v, b, first, 2, 4, last, type); break;
  case 3: add_block(v, b, first, 3, 2, last, type); break;
  case 4: add_block(v, b, first, 4, 2, last, type); break;
  case 5: add_block(v, b, first, 5, 1, last, type); break;
  case 6: add_block(v, b, first, 6, 1, last, type); break;
  case 7: add_block(v, b, first, 7, 1, last, type); break;
  case 8: add_block(v, b, first, 8, 1, last, type); break;
  default: break;
  }
}

#endif

INLINE float dot_row(const char *row, const float *q, size_t n, const fopo_float type) {
  four sum;
  dots(&sum, &row, NULL, q, n, 1, type);
  return sum4(sum);
}

INLINE void gather_dot(float *f, const void *rows, size_t ld, const uint32_t *ids, size_t count,
                       const float *q, size_t dim, const fopo_float type) {
  if (dim < LEAST_DIM) {
    short_dot(f, rows, ld, ids, count, q, dim, type);
    return;
  }
  size_t bytes = dim * fopo_float_bytes(type), s = 0;
  for (; s < count && s < AHEAD; s++) prefetch_bytes(row_at(rows, ld, ids[s], type), bytes);
  for (s = 0; s + 4 <= count; s += 4) {
    const char *row[4], *next[4];
    four sum[4];
#pragma GCC unroll 4
    for (size_t l = 0; l < 4; l++) row[l] = row_at(rows, ld, ids[s + l], type);
    if (SPREAD > 0 && bytes > SPREAD && s + AHEAD + 4 <= count) {
      for (size_t l = 0; l < 4; l++) next[l] = row_at(rows, ld, ids[s + AHEAD + l], type);
      dots(sum, row, next, q, dim, 4, type);
    } else {
      for (size_t at = s + AHEAD; at < s + AHEAD + 4 && at < count; at++) {
        prefetch_bytes(row_at(rows, ld, ids[at], type), bytes);
      }
      dots(sum, row, NULL, q, dim, 4, type);
    }
    store4(f + s, sum);
  }
  for (; s < count; s++) f[s] = dot_row(row_at(rows, ld, ids[s], type), q, dim, type);
}

INLINE void gather_axpy(float *v, const void *rows, size_t ld, const uint32_t *ids, const float *c,
                        size_t count, size_t n_next, size_t dim, const fopo_float type) {
  uint32_t id[PICK + PICK_SPARE];
  float w[PICK + PICK_SPARE];
  if (dim < LEAST_DIM) {
    short_axpy(v, rows, ld, ids, c, count, n_next, dim, type);
    return;
  }
  for (size_t s = 0; s < count; s += PICK) {
    size_t n = pick(id, w, ids + s, c + s, count - s < PICK ? count - s : PICK);
    size_t prefetched = s / 4 < n_next ? s / 4 : n_next; /* one for every fourth sample so far */
    batch b = {rows, ld, id, w, n, ids + count + prefetched, n_next - prefetched};
    if (n > 0) add_rows(v, &b, dim, type);
  }
}

/* The kernels of one instruction set: the type of the rows is a constant of each copy. */
#define GATHERS(name, row, type)                                                                   \
  void fopo_gather_dot_##name(float *f, const row *rows, size_t ld, const uint32_t *ids,           \
                              size_t count, const float *q, size_t dim) {                          \
    gather_dot(f, rows, ld, ids, count, q, dim, type);                                             \
  }                                                                                                \
  void fopo_gather_axpy_##name(float *v, const row *rows, size_t ld, const uint32_t *ids,          \
                               const float *c, size_t count, size_t n_next, size_t dim) {          \
    gather_axpy(v, rows, ld, ids, c, count, n_next, dim, type);                                    \
  }
#define FOPO_ROW_KERNELS(isa)                                                                      \
  float fopo_dot_##isa(const float *a, const float *b, size_t n) {                                 \
    if (n < LEAST_DIM) return short_one(a, b, n);                                                  \
    return dot_row((const char *)a, b, n, FOPO_FLOAT32);                                           \
  }                                                                                                \
  GATHERS(isa, float, FOPO_FLOAT32)                                                                \
  GATHERS(float16_##isa, uint16_t, FOPO_FLOAT16)                                                   \
  GATHERS(bfloat16_##isa, uint16_t, FOPO_BFLOAT16)                                                 \
  void fopo_fill_rows_##isa(fopo_kernels *table) {                                                 \
    table->dot = fopo_dot_##isa;                                                                   \
    table->gather_dot = fopo_gather_dot_##isa;                                                     \
    table->gather_axpy = fopo_gather_axpy_##isa;                                                   \
    table->gather_dot_float16 = fopo_gather_dot_float16_##isa;                                     \
    table->gather_axpy_float16 = fopo_gather_axpy_float16_##isa;                                   \
    table->gather_dot_bfloat16 = fopo_gather_dot_bfloat16_##isa;                                   \
    table->gather_axpy_bfloat16 = fopo_gather_axpy_bfloat16_##isa;                                 \
  }
