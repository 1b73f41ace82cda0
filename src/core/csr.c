/* Sparse rows: allocation, search, the product with a dense matrix, and their making from pairs. */
#include "core/csr.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  TILE_WORK = 1 << 18, /* multiply-adds that a thread takes at a time */
  AHEAD = 8            /* entries between the prefetch of a row of B and its use */
};
#define MOST_COLS ((size_t)UINT32_MAX)
#define LONG      (256.0 * 1024 * 1024) /* multiply-adds; longer products can be interrupted */

int fopo_csr_init(fopo_csr *m, size_t rows, size_t cols, size_t nnz, int with_values) {
  *m = (fopo_csr){0};
  if (cols > MOST_COLS || rows >= SIZE_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a sparse matrix of %zu columns is too wide; use at most %zu", cols,
                     MOST_COLS);
  }
  m->rows = rows;
  m->cols = cols;
  m->indptr = fopo_alloc(rows + 1, sizeof *m->indptr);
  m->ids = m->indptr == NULL ? NULL : fopo_alloc(nnz, sizeof *m->ids);
  if (m->ids != NULL && with_values) m->values = fopo_alloc(nnz, sizeof *m->values);
  if (m->ids == NULL || (with_values && m->values == NULL)) {
    fopo_csr_done(m);
    return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

void fopo_csr_done(fopo_csr *m) {
  fopo_free(m->indptr);
  fopo_free(m->ids);
  fopo_free(m->values);
  *m = (fopo_csr){0};
}

int fopo_csr_copy(fopo_csr *to, const fopo_csr *from) {
  uint64_t begin = from->indptr[0];
  size_t nnz = (size_t)(from->indptr[from->rows] - begin);
  int status = fopo_csr_init(to, from->rows, from->cols, nnz, from->values != NULL);
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < from->rows; i++) to->indptr[i + 1] = from->indptr[i + 1] - begin;
  memcpy(to->ids, from->ids + begin, nnz * sizeof *to->ids);
  if (from->values != NULL) memcpy(to->values, from->values + begin, nnz * sizeof *to->values);
  return FOPO_OK;
}

int fopo_csr_take(fopo_csr *some, const fopo_csr *m, const uint32_t *rows, size_t n) {
  size_t nnz = 0;
  for (size_t i = 0; i < n; i++) nnz += fopo_csr_count(m, rows[i]);
  int status = fopo_csr_init(some, n, m->cols, nnz, 0);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    size_t count = fopo_csr_count(m, rows[i]);
    memcpy(some->ids + some->indptr[i], fopo_csr_row(m, rows[i]), count * sizeof *some->ids);
    some->indptr[i + 1] = some->indptr[i] + count;
  }
  return status;
}

int fopo_csr_contains(const fopo_csr *m, size_t row, uint32_t id) {
  return fopo_sorted_holds(fopo_csr_row(m, row), fopo_csr_count(m, row), id);
}

/* ---- the product ---- */

/* c [n] += w0 b0 + w1 b1 + w2 b2 + w3 b3, summed in this order. */
static void add_four(float *restrict c, const float *b0, const float *b1, const float *b2,
                     const float *b3, const float *w, size_t n) {
  float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
#pragma omp simd
  for (size_t j = 0; j < n; j++) c[j] = c[j] + w0 * b0[j] + w1 * b1[j] + w2 * b2[j] + w3 * b3[j];
}

static void add_one(float *restrict c, const float *b, float w, size_t n) {
#pragma omp simd
  for (size_t j = 0; j < n; j++) c[j] = c[j] + w * b[j];
}

/* Rows of B are used in no order that the processor could predict. */
static void prefetch(const float *b, size_t n) {
  for (size_t j = 0; j < n; j += 16) __builtin_prefetch(b + j);
}

void fopo_csr_add_rows(float *c, const uint32_t *ids, const float *values, size_t n, size_t more,
                       size_t first, fopo_matrix B) {
  static const float ones[4] = {1, 1, 1, 1};
  for (size_t e = 0, step; e < n; e += step) {
    step = n - e >= 4 ? 4 : 1;
    for (size_t ahead = e + AHEAD; ahead < e + AHEAD + step && ahead < n + more; ahead++) {
      prefetch(fopo_matrix_row(B, ids[ahead] - first), B.cols);
    }
    const uint32_t *id = ids + e;
    const float *w = values == NULL ? ones : values + e;
    if (step == 4) {
      add_four(c, fopo_matrix_row(B, id[0] - first), fopo_matrix_row(B, id[1] - first),
               fopo_matrix_row(B, id[2] - first), fopo_matrix_row(B, id[3] - first), w, B.cols);
    } else {
      add_one(c, fopo_matrix_row(B, id[0] - first), w[0], B.cols);
    }
  }
}

/* One row of C: c += sum over its entries of value * B[id]. last: entries of the whole matrix. */
static void row_times_dense(float *c, const fopo_csr *m, size_t row, fopo_matrix B, uint64_t last) {
  uint64_t begin = m->indptr[row], end = m->indptr[row + 1];
  fopo_csr_add_rows(c, m->ids + begin, m->values == NULL ? NULL : m->values + begin,
                    (size_t)(end - begin), (size_t)(last - end), 0, B);
}

int fopo_csr_columns_used(size_t *n, const fopo_csr *m) {
  uint8_t *used = fopo_alloc(m->cols, sizeof *used);
  if (used == NULL) return FOPO_ERR_MEMORY;
  for (size_t k = 0; k < fopo_csr_nnz(m); k++) used[m->ids[k]] = 1;
  *n = 0;
  for (size_t c = 0; c < m->cols; c++) *n += used[c];
  fopo_free(used);
  return FOPO_OK;
}

int fopo_csr_times_dense(fopo_matrix C, const fopo_csr *m, fopo_matrix B, int adds) {
  if (B.rows != m->cols || C.rows != m->rows || C.cols != B.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a sparse [%zu, %zu] times [%zu, %zu] does not fit in [%zu, %zu]", m->rows,
                     m->cols, B.rows, B.cols, C.rows, C.cols);
  }
  if (m->rows == 0) return FOPO_OK;
  double work = (double)(m->indptr[m->rows] - m->indptr[0] + m->rows) * (double)B.cols;
  size_t tiles = (size_t)(work / TILE_WORK) + 1;
  if (tiles > m->rows) tiles = m->rows;
  size_t size = (m->rows + tiles - 1) / tiles;
  int stopped = 0, interruptible = work > LONG;
  int threads = tiles > 1 ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(| : stopped)
  for (size_t t = 0; t < tiles; t++) {
    size_t end = (t + 1) * size < m->rows ? (t + 1) * size : m->rows;
    for (size_t r = t * size; r < end && !stopped; r++) {
      if (!adds) memset(fopo_matrix_row(C, r), 0, C.cols * sizeof *C.x);
      row_times_dense(fopo_matrix_row(C, r), m, r, B, m->indptr[m->rows]);
    }
    if (interruptible) stopped |= fopo_interrupted();
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while multiplying") : FOPO_OK;
}

/* ---- rows from pairs in any order ---- */

/* First, pairs are distributed to buckets of neighbouring rows, so many that a bucket fits the L2
 * cache. There they are sorted by column, some bits at a time, least significant first, and last by
 * row (Knuth, volume 3, section 5.2.5, algorithm R). Every pass is stable, so pairs that repeat end
 * side by side in the order in which they were given, and sums do not depend on threads.
 *
 * The distribution works on slices of the pairs in parallel: each slice has its own count per
 * bucket, and from the counts its own range of each bucket. The rest is one task per bucket. */

enum {
  BUCKET = 1 << 15, /* pairs of a bucket if they spread evenly: 256 KiB of keys, twice */
  BUCKETS = 1024,   /* at most: the write streams of a slice must fit the L1 cache */
  SLICE = 1 << 17,  /* pairs of a slice, at least */
  SLICES = 64,
  DIGIT = 11,           /* bits that one pass sorts by, at most: the counts fit the L1 cache */
  REPORT_FROM = 1 << 20 /* pairs; smaller matrices report no progress */
};
#define SORTING  "sorting a sparse matrix"
#define BUILDING "building a sparse matrix"

/* Pairs on their way, as arrays that are moved together. */
typedef struct {
  uint64_t *key; /* row << 32 | column */
  float *weight; /* the value; NULL without values */
  double *time;  /* NULL without times */
} entries;

typedef struct {
  const uint32_t *row, *col; /* [n], not owned */
  const float *values;       /* [n] or NULL, not owned */
  const double *times;       /* [n] or NULL, not owned */
  size_t n;
  fopo_csr *m;          /* the result; not owned */
  double *first, *last; /* the times of its entries, as in fopo_csr_times; owned until it is made */
  int counted;          /* 1: the number of repeats of a pair becomes its value */
  void (*used)(void *); /* called with `of` once no pair is read any more; or NULL */
  void *of;
  size_t slices, buckets;
  int shift;         /* row >> shift is the bucket */
  int passes, digit; /* passes over the bits of a column, and bits of each */
  uint64_t *place;   /* [slices, buckets] counts, then next positions in sorted */
  uint64_t *start;   /* [buckets + 1] first position of each bucket */
  uint64_t *repeats; /* [buckets] */
  entries sorted;    /* [n] by bucket */
  entries spare;     /* a pass writes here */
  size_t spare_n;    /* entries of spare for each thread */
  int is_shared;     /* 1: spare is one array [n] for all threads */
} job;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static entries entries_from(entries e, size_t i) {
  return (entries){e.key + i, e.weight != NULL ? e.weight + i : NULL,
                   e.time != NULL ? e.time + i : NULL};
}

static int entries_alloc(entries *e, size_t n, int with_weights, int with_times) {
  e->key = fopo_alloc(n, sizeof *e->key);
  if (e->key != NULL && with_weights) e->weight = fopo_alloc(n, sizeof *e->weight);
  if (e->key != NULL && with_times) e->time = fopo_alloc(n, sizeof *e->time);
  int all =
      e->key != NULL && (!with_weights || e->weight != NULL) && (!with_times || e->time != NULL);
  return all ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void entries_done(entries *e) {
  fopo_free(e->key);
  fopo_free(e->weight);
  fopo_free(e->time);
  *e = (entries){0};
}

static int interrupted(void) {
  return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while " SORTING);
}

/* 1 if the work must stop. Thread 0 is the calling thread, which also reports progress. */
static int must_stop(const job *j, size_t done, size_t total) {
  if (j->n < REPORT_FROM || omp_get_thread_num() != 0) return fopo_interrupted();
  return fopo_progress(SORTING, (double)done, (double)total) != FOPO_OK;
}

/* ---- pairs to buckets ---- */

static size_t slice_start(const job *j, size_t s) { return j->n / j->slices * s; }
static size_t slice_end(const job *j, size_t s) {
  return s + 1 < j->slices ? slice_start(j, s + 1) : j->n;
}

/* Counts the pairs of a slice by bucket; returns the first outside of the matrix, or n. */
static size_t count_slice(job *j, size_t s) {
  uint64_t *count = j->place + s * j->buckets;
  for (size_t i = slice_start(j, s); i < slice_end(j, s); i++) {
    if (j->row[i] >= j->m->rows || j->col[i] >= j->m->cols) return i;
    count[j->row[i] >> j->shift]++;
  }
  return j->n;
}

static int count(job *j) {
  size_t bad = j->n;
  int stopped = 0, threads = j->slices > 1 ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(min                      \
                                                                          : bad)                   \
    reduction(|                                                                                    \
              : stopped)
  for (size_t s = 0; s < j->slices; s++) {
    stopped |= must_stop(j, s, 4 * j->slices);
    size_t first = stopped ? j->n : count_slice(j, s);
    if (first < bad) bad = first;
  }
  if (stopped) return interrupted();
  if (bad == j->n) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "pair %zu is (%u, %u), outside a matrix of %zu rows and %zu columns", bad + 1,
                   j->row[bad], j->col[bad], j->m->rows, j->m->cols);
}

/* Turns counts into positions: the slices of a bucket follow each other in their order. Returns the
 * pairs of the largest bucket. */
static uint64_t place_buckets(job *j) {
  uint64_t at = 0, largest = 0;
  for (size_t b = 0; b < j->buckets; b++) {
    j->start[b] = at;
    for (size_t s = 0; s < j->slices; s++) {
      uint64_t n = j->place[s * j->buckets + b];
      j->place[s * j->buckets + b] = at;
      at += n;
    }
    if (at - j->start[b] > largest) largest = at - j->start[b];
  }
  j->start[j->buckets] = at;
  return largest;
}

static void scatter_slice(job *j, size_t s) {
  uint64_t *place = j->place + s * j->buckets;
  const float *values = j->values;
  const double *times = j->times;
  entries sorted = j->sorted;
  for (size_t i = slice_start(j, s); i < slice_end(j, s); i++) {
    uint64_t to = place[j->row[i] >> j->shift]++;
    sorted.key[to] = (uint64_t)j->row[i] << 32 | j->col[i];
    if (values != NULL) sorted.weight[to] = values[i];
    if (times != NULL) sorted.time[to] = times[i];
  }
}

static int scatter(job *j) {
  int stopped = 0, threads = j->slices > 1 ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(| : stopped)
  for (size_t s = 0; s < j->slices; s++) {
    stopped |= must_stop(j, j->slices + s, 4 * j->slices);
    if (!stopped) scatter_slice(j, s);
  }
  return stopped ? interrupted() : FOPO_OK;
}

/* ---- a bucket to rows ---- */

/* A constant with_times makes loops without times as short as they can be. */
static inline void move(entries to, size_t p, entries from, size_t i, int with_times) {
  to.key[p] = from.key[i];
  if (from.weight != NULL) to.weight[p] = from.weight[i];
  if (with_times) to.time[p] = from.time[i];
}

/* One stable pass: sorts by `bits` bits of the key from `shift` on. */
static void sort_pass(entries to, entries from, size_t n, int shift, int bits) {
  size_t place[1 << DIGIT], at = 0;
  uint64_t mask = ((uint64_t)1 << bits) - 1;
  memset(place, 0, sizeof *place << bits);
  const uint64_t *keys = from.key;
  for (size_t i = 0; i < n; i++) place[keys[i] >> shift & mask]++;
  for (size_t d = 0; d <= mask; d++) {
    size_t here = place[d];
    place[d] = at;
    at += here;
  }
  if (from.time == NULL) {
    for (size_t i = 0; i < n; i++) move(to, place[keys[i] >> shift & mask]++, from, i, 0);
  } else {
    for (size_t i = 0; i < n; i++) move(to, place[keys[i] >> shift & mask]++, from, i, 1);
  }
}

static size_t bucket_row(const job *j, size_t b) { return least(b << j->shift, j->m->rows); }

/* The last pass, by row, writes into the matrix. Afterwards indptr[r + 1] is the end of row r. */
static void sort_rows(job *j, size_t b, entries from) {
  fopo_csr *m = j->m;
  const uint64_t *keys = from.key;
  uint64_t *end = m->indptr + 1, at = j->start[b];
  size_t n = (size_t)(j->start[b + 1] - at);
  uint32_t *ids = m->ids;
  float *values = m->values;
  double *first = j->first;
  for (size_t i = 0; i < n; i++) end[keys[i] >> 32]++;
  for (size_t r = bucket_row(j, b); r < bucket_row(j, b + 1); r++) {
    uint64_t here = end[r];
    end[r] = at;
    at += here;
  }
  for (size_t i = 0; i < n; i++) {
    uint64_t to = end[keys[i] >> 32]++;
    ids[to] = (uint32_t)keys[i];
    if (from.weight != NULL) values[to] = from.weight[i];
    if (from.time != NULL) first[to] = from.time[i];
  }
}

static uint64_t count_repeats(const job *j, size_t b) {
  const fopo_csr *m = j->m;
  uint64_t e = j->start[b], repeats = 0;
  for (size_t r = bucket_row(j, b); r < bucket_row(j, b + 1); r++) {
    uint64_t end = m->indptr[r + 1];
    for (e++; e < end; e++) repeats += m->ids[e] == m->ids[e - 1];
    e = end;
  }
  return repeats;
}

static void sort_bucket(job *j, size_t b) {
  size_t first = (size_t)j->start[b], n = (size_t)(j->start[b + 1] - first);
  size_t mine = j->is_shared ? first : (size_t)omp_get_thread_num() * j->spare_n;
  entries from = entries_from(j->sorted, first), to = entries_from(j->spare, mine);
  /* By column, digit by digit, between the two; then by row, into the matrix. */
  for (int pass = 0; pass < j->passes; pass++) {
    sort_pass(to, from, n, pass * j->digit, j->digit);
    entries other = from;
    from = to;
    to = other;
  }
  sort_rows(j, b, from);
  j->repeats[b] = count_repeats(j, b);
}

static int sort_buckets(job *j) {
  int stopped = 0, threads = j->buckets > 1 ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(| : stopped)
  for (size_t b = 0; b < j->buckets; b++) {
    stopped |= must_stop(j, j->buckets + b, 2 * j->buckets);
    if (!stopped) sort_bucket(j, b);
  }
  return stopped ? interrupted() : FOPO_OK;
}

/* ---- repeats ---- */

/* Entries without repeats; arrays that the job does not have are NULL. */
typedef struct {
  uint32_t *ids;
  float *values;
  double *first, *last;
} merged;

/* The earliest and the latest time of each entry of bucket b, from position `to` on. */
static void merge_times(const job *j, size_t b, merged out, uint64_t to) {
  const fopo_csr *m = j->m;
  uint64_t e = j->start[b];
  for (size_t r = bucket_row(j, b); r < bucket_row(j, b + 1); r++) {
    for (uint64_t begin = e; e < m->indptr[r + 1]; e++) {
      double time = j->first[e];
      if (e == begin || m->ids[e] != m->ids[e - 1]) {
        out.first[to] = out.last[to] = time;
        to++;
      } else {
        if (time < out.first[to - 1]) out.first[to - 1] = time;
        if (time > out.last[to - 1]) out.last[to - 1] = time;
      }
    }
  }
}

/* Writes the rows of bucket b without repeats, from position `to` on, and where they end. */
static void merge_bucket(job *j, size_t b, merged out, uint64_t to) {
  fopo_csr *m = j->m;
  uint64_t e = j->start[b];
  if (j->times != NULL) merge_times(j, b, out, to);
  for (size_t r = bucket_row(j, b); r < bucket_row(j, b + 1); r++) {
    uint64_t end = m->indptr[r + 1], begin = to;
    for (; e < end; e++) {
      float value = m->values != NULL ? m->values[e] : 1.0f;
      if (to > begin && out.ids[to - 1] == m->ids[e]) {
        if (out.values != NULL) out.values[to - 1] += value;
        continue;
      }
      out.ids[to] = m->ids[e];
      if (out.values != NULL) out.values[to] = value;
      to++;
    }
    m->indptr[r + 1] = to;
  }
}

static void merged_done(merged *out) {
  fopo_free(out->ids);
  fopo_free(out->values);
  fopo_free(out->first);
  fopo_free(out->last);
}

static int merged_alloc(merged *out, const job *j, size_t n) {
  int with_values = j->m->values != NULL || j->counted, with_times = j->times != NULL;
  *out = (merged){.ids = fopo_alloc(n, sizeof *out->ids)};
  int status = out->ids != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (with_values && status == FOPO_OK) {
    out->values = fopo_alloc(n, sizeof *out->values);
    if (out->values == NULL) status = FOPO_ERR_MEMORY;
  }
  if (with_times && status == FOPO_OK) {
    out->first = fopo_alloc(n, sizeof *out->first);
    out->last = fopo_alloc(n, sizeof *out->last);
    if (out->first == NULL || out->last == NULL) status = FOPO_ERR_MEMORY;
  }
  if (status != FOPO_OK) merged_done(out);
  return status;
}

/* Sums the repeats of all rows, into arrays of the final size. */
static int merge(job *j, size_t repeats) {
  fopo_csr *m = j->m;
  size_t n = j->n - repeats;
  merged out;
  if (merged_alloc(&out, j, n) != FOPO_OK) return FOPO_ERR_MEMORY;
  uint64_t *to = j->repeats, before = 0; /* the repeats become first positions */
  for (size_t b = 0; b < j->buckets; b++) {
    uint64_t here = j->repeats[b];
    to[b] = j->start[b] - before;
    before += here;
  }
#pragma omp parallel for num_threads(j->buckets > 1 ? fopo_threads() : 1) schedule(dynamic)
  for (size_t b = 0; b < j->buckets; b++) merge_bucket(j, b, out, to[b]);
  fopo_free(m->ids);
  fopo_free(m->values);
  m->ids = out.ids;
  m->values = out.values;
  if (j->times == NULL) return FOPO_OK;
  fopo_free(j->first);
  j->first = out.first;
  j->last = out.last;
  return FOPO_OK;
}

/* ---- all of it ---- */

static int bits_of(size_t n) { return n < 2 ? 0 : 64 - __builtin_clzll(n - 1); }

/* Numbers of buckets, slices and passes, from the sizes alone. */
static void plan(job *j) {
  size_t wanted = least(j->n / BUCKET + 1, BUCKETS);
  while ((j->m->rows - 1) >> j->shift >= wanted) j->shift++;
  j->buckets = ((j->m->rows - 1) >> j->shift) + 1;
  j->slices = least(j->n / SLICE + 1, SLICES);
  int bits = bits_of(j->m->cols);
  j->passes = (bits + DIGIT - 1) / DIGIT;
  j->digit = j->passes > 0 ? (bits + j->passes - 1) / j->passes : 0;
}

static int alloc_counts(job *j) {
  j->place = fopo_alloc(j->slices * j->buckets, sizeof *j->place);
  j->start = fopo_alloc(j->buckets + 1, sizeof *j->start);
  j->repeats = fopo_alloc(j->buckets, sizeof *j->repeats);
  return j->place != NULL && j->start != NULL && j->repeats != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* If one bucket holds most pairs, a spare array per thread would take more than one for all. */
static int alloc_entries(job *j, size_t largest) {
  size_t threads = j->buckets > 1 ? (size_t)fopo_threads() : 1;
  j->is_shared = threads * largest >= j->n;
  j->spare_n = j->is_shared ? j->n : largest;
  size_t spare = j->is_shared ? j->n : threads * largest;
  int with_weights = j->values != NULL, with_times = j->times != NULL;
  uint64_t entry =
      sizeof(uint64_t) + (with_weights ? sizeof(float) : 0) + (with_times ? sizeof(double) : 0);
  int status = fopo_memory_suffices((j->n + spare) * entry, BUILDING, "use fewer users or items");
  if (status == FOPO_OK) status = entries_alloc(&j->sorted, j->n, with_weights, with_times);
  return status == FOPO_OK ? entries_alloc(&j->spare, spare, with_weights, with_times) : status;
}

/* The matrix, which has its rows, gets room for all pairs. */
static int alloc_matrix(job *j) {
  fopo_csr *m = j->m;
  int with_values = j->values != NULL, with_times = j->times != NULL;
  int status = fopo_resize(&m->ids, j->n, sizeof *m->ids);
  if (status == FOPO_OK && with_values) status = fopo_resize(&m->values, j->n, sizeof *m->values);
  return status == FOPO_OK && with_times ? fopo_resize(&j->first, j->n, sizeof *j->first) : status;
}

static int build(job *j, size_t *repeats) {
  fopo_csr *m = j->m;
  if (j->n == 0) return alloc_matrix(j);
  j->slices = 1;
  if (m->rows == 0) return count(j); /* refuses the first pair */
  plan(j);
  int status = alloc_counts(j);
  if (status == FOPO_OK) status = count(j);
  if (status == FOPO_OK) status = alloc_entries(j, (size_t)place_buckets(j));
  if (status == FOPO_OK) status = scatter(j);
  if (status == FOPO_OK && j->used != NULL) j->used(j->of);
  if (status == FOPO_OK) status = alloc_matrix(j);
  if (status == FOPO_OK) status = sort_buckets(j);
  entries_done(&j->sorted);
  entries_done(&j->spare);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < j->buckets; b++) *repeats += (size_t)j->repeats[b];
  if (*repeats > 0) status = merge(j, *repeats);
  if (status == FOPO_OK && j->n >= REPORT_FROM) status = fopo_progress(SORTING, 1, 1);
  return status;
}

/* The matrix of the job, which has its arguments; its times are the caller's afterwards. */
static int run(job *j, size_t rows, size_t cols, size_t *repeats) {
  *j->m = (fopo_csr){0};
  *repeats = 0;
  /* One array of entries, and the matrix, for which the pairs leave room if they go; alloc_entries
   * knows how long the spare ones are. */
  int with_values = j->values != NULL, with_times = j->times != NULL;
  uint64_t entry =
      sizeof(uint64_t) + (with_values ? sizeof(float) : 0) + (with_times ? sizeof(double) : 0);
  uint64_t bytes = j->n * (j->used != NULL ? entry : 2 * entry - sizeof(uint32_t));
  int status =
      fopo_memory_suffices(bytes + rows * sizeof(uint64_t), BUILDING, "use fewer users or items");
  if (status == FOPO_OK) status = fopo_csr_init(j->m, rows, cols, 0, 0);
  if (status == FOPO_OK) status = build(j, repeats);
  fopo_free(j->place);
  fopo_free(j->start);
  fopo_free(j->repeats);
  if (status == FOPO_OK) return FOPO_OK;
  fopo_csr_done(j->m);
  fopo_free(j->first);
  fopo_free(j->last);
  return status;
}

int fopo_csr_from_pairs(fopo_csr *m, const uint32_t *row, const uint32_t *col, const float *values,
                        size_t n, size_t rows, size_t cols, size_t *repeats) {
  job j = {.row = row, .col = col, .values = values, .n = n, .m = m};
  return run(&j, rows, cols, repeats);
}

int fopo_csr_from_timed_pairs(fopo_csr *m, fopo_csr_times *entry, const uint32_t *row,
                              const uint32_t *col, const float *values, const double *times,
                              size_t n, size_t rows, size_t cols, size_t *repeats,
                              void (*used)(void *), void *of) {
  job j = {.row = row,
           .col = col,
           .values = values,
           .times = times,
           .n = n,
           .m = m,
           .counted = values == NULL,
           .used = used,
           .of = of};
  *entry = (fopo_csr_times){0};
  int status = run(&j, rows, cols, repeats);
  if (status == FOPO_OK) *entry = (fopo_csr_times){j.first, j.last};
  return status;
}

/* ---- the transpose ---- */

/* The entries of each column are counted, and then written in the order of the rows. A thread reads
 * all entries and writes those of its columns. */

enum { SHARES = 64 };
#define TRANSPOSING "transposing a sparse matrix"

static size_t entries_of(const fopo_csr *m) { return (size_t)(m->indptr[m->rows] - m->indptr[0]); }

/* Afterwards start[c] is where column c begins, and first [shares + 1] whose columns each has. */
static void share_columns(size_t *first, size_t shares, uint64_t *start, const fopo_csr *m) {
  size_t nnz = entries_of(m), at = 0, share = 0;
  for (uint64_t e = m->indptr[0]; e < m->indptr[m->rows]; e++) start[m->ids[e]]++;
  for (size_t c = 0; c < m->cols; c++) {
    while (share < shares && at >= nnz / shares * share) first[share++] = c;
    size_t here = (size_t)start[c];
    start[c] = at;
    at += here;
  }
  while (share <= shares) first[share++] = m->cols;
}

/* Writes columns first .. last - 1 of t, whose next entries are at next[c]; 1: interrupted. */
static int write_columns(fopo_csr *t, uint64_t *next, const fopo_csr *m, size_t first,
                         size_t last) {
  enum { POLL = 1024 }; /* rows */
  int reports = entries_of(m) >= REPORT_FROM && omp_get_thread_num() == 0;
  for (size_t r = 0; r < m->rows; r++) {
    if (r % POLL == 0 && reports) {
      if (fopo_progress(TRANSPOSING, (double)r, (double)m->rows) != FOPO_OK) return 1;
    } else if (r % POLL == 0 && fopo_interrupted()) {
      return 1;
    }
    for (uint64_t e = m->indptr[r]; e < m->indptr[r + 1]; e++) {
      uint32_t c = m->ids[e];
      if (c < first || c >= last) continue;
      t->ids[next[c]] = (uint32_t)r;
      if (t->values != NULL) t->values[next[c]] = m->values[e];
      next[c]++;
    }
  }
  return 0;
}

int fopo_csr_transpose(fopo_csr *t, const fopo_csr *m) {
  size_t nnz = entries_of(m), first[SHARES + 1];
  size_t shares = nnz > SLICE ? least((size_t)fopo_threads(), SHARES) : 1;
  uint64_t entry = sizeof *m->ids + (m->values != NULL ? sizeof *m->values : 0);
  *t = (fopo_csr){0};
  int stopped = 0, status = fopo_memory_suffices(nnz * entry + m->cols * sizeof *m->indptr,
                                                 TRANSPOSING, "use fewer users or items");
  if (status == FOPO_OK) status = fopo_csr_init(t, m->cols, m->rows, nnz, m->values != NULL);
  if (status != FOPO_OK) return status;
  uint64_t *next = t->indptr + 1; /* the end of a column once all its entries are there */
  share_columns(first, shares, next, m);
#pragma omp parallel for num_threads(shares) schedule(static, 1) reduction(| : stopped)
  for (size_t k = 0; k < shares; k++) stopped |= write_columns(t, next, m, first[k], first[k + 1]);
  if (nnz >= REPORT_FROM && !stopped) stopped = fopo_progress(TRANSPOSING, 1, 1) != FOPO_OK;
  if (!stopped) return FOPO_OK;
  fopo_csr_done(t);
  return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while " TRANSPOSING);
}
