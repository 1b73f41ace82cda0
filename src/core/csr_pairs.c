/* Sparse rows from pairs in any order.
 *
 * First, pairs are distributed to buckets of neighbouring rows, so many that a bucket fits the L2
 * cache. There they are sorted by column, some bits at a time, least significant first, and last by
 * row (Knuth, volume 3, section 5.2.5, algorithm R). Every pass is stable, so pairs that repeat end
 * side by side in the order in which they were given, and sums do not depend on threads.
 *
 * The distribution works on slices of the pairs in parallel: each slice has its own count per
 * bucket, and from the counts its own range of each bucket. The rest is one task per bucket. */
#include <omp.h>
#include <string.h>

#include "core/csr.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  BUCKET = 1 << 15, /* pairs of a bucket if they spread evenly: 256 KiB of keys, twice */
  BUCKETS = 1024,   /* at most: the write streams of a slice must fit the L1 cache */
  SLICE = 1 << 17,  /* pairs of a slice, at least */
  SLICES = 64,
  DIGIT = 11,           /* bits that one pass sorts by, at most: the counts fit the L1 cache */
  REPORT_FROM = 1 << 20 /* pairs; smaller matrices report no progress */
};
#define SORTING "sorting a sparse matrix"

typedef struct {
  const uint32_t *row, *col; /* [n], not owned */
  const float *values;       /* [n] or NULL, not owned */
  size_t n;
  fopo_csr *m; /* the result; not owned */
  int counted; /* 1: the number of repeats of a pair becomes its value */
  size_t slices, buckets;
  int shift;                      /* row >> shift is the bucket */
  int passes, digit;              /* passes over the bits of a column, and bits of each */
  uint64_t *place;                /* [slices, buckets] counts, then next positions in keys */
  uint64_t *start;                /* [buckets + 1] first position of each bucket */
  uint64_t *repeats;              /* [buckets] */
  uint64_t *keys, *spare;         /* [n] row << 32 | column; [spare_n] a pass writes here */
  float *weights, *spare_weights; /* the values, in the order of the keys; or NULL */
  size_t spare_n;                 /* entries of spare for each thread */
  int is_shared;                  /* 1: spare is one array [n] for all threads */
} job;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

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
  for (size_t i = slice_start(j, s); i < slice_end(j, s); i++) {
    uint64_t to = place[j->row[i] >> j->shift]++;
    j->keys[to] = (uint64_t)j->row[i] << 32 | j->col[i];
    if (j->values != NULL) j->weights[to] = j->values[i];
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

/* One stable pass: sorts by `bits` bits of the key from `shift` on. weights may be NULL. */
static void sort_pass(uint64_t *to, float *to_weights, const uint64_t *keys, const float *weights,
                      size_t n, int shift, int bits) {
  size_t place[1 << DIGIT], at = 0;
  uint64_t mask = ((uint64_t)1 << bits) - 1;
  memset(place, 0, sizeof *place << bits);
  for (size_t i = 0; i < n; i++) place[keys[i] >> shift & mask]++;
  for (size_t d = 0; d <= mask; d++) {
    size_t here = place[d];
    place[d] = at;
    at += here;
  }
  for (size_t i = 0; i < n; i++) {
    size_t p = place[keys[i] >> shift & mask]++;
    to[p] = keys[i];
    if (weights != NULL) to_weights[p] = weights[i];
  }
}

static size_t bucket_row(const job *j, size_t b) { return least(b << j->shift, j->m->rows); }

/* The last pass, by row, writes into the matrix. Afterwards indptr[r + 1] is the end of row r. */
static void sort_rows(job *j, size_t b, const uint64_t *keys, const float *weights) {
  fopo_csr *m = j->m;
  uint64_t *end = m->indptr + 1, at = j->start[b];
  size_t n = (size_t)(j->start[b + 1] - at);
  for (size_t i = 0; i < n; i++) end[keys[i] >> 32]++;
  for (size_t r = bucket_row(j, b); r < bucket_row(j, b + 1); r++) {
    uint64_t here = end[r];
    end[r] = at;
    at += here;
  }
  for (size_t i = 0; i < n; i++) {
    uint64_t to = end[keys[i] >> 32]++;
    m->ids[to] = (uint32_t)keys[i];
    if (weights != NULL) m->values[to] = weights[i];
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
  uint64_t *keys = j->keys + first, *other = j->spare + mine;
  float *weights = NULL, *other_weights = NULL;
  if (j->weights != NULL) {
    weights = j->weights + first;
    other_weights = j->spare_weights + mine;
  }
  /* By column, digit by digit, between the two arrays; then by row, into the matrix. */
  for (int pass = 0; pass < j->passes; pass++) {
    sort_pass(other, other_weights, keys, weights, n, pass * j->digit, j->digit);
    uint64_t *k = keys;
    float *w = weights;
    keys = other;
    weights = other_weights;
    other = k;
    other_weights = w;
  }
  sort_rows(j, b, keys, weights);
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

/* Writes the rows of bucket b without repeats, from position `to` of ids and values on. */
static void merge_bucket(job *j, size_t b, uint32_t *ids, float *values, uint64_t to) {
  fopo_csr *m = j->m;
  uint64_t e = j->start[b];
  for (size_t r = bucket_row(j, b); r < bucket_row(j, b + 1); r++) {
    uint64_t end = m->indptr[r + 1], begin = to;
    for (; e < end; e++) {
      float value = m->values != NULL ? m->values[e] : 1.0f;
      if (to > begin && ids[to - 1] == m->ids[e]) {
        if (values != NULL) values[to - 1] += value;
        continue;
      }
      ids[to] = m->ids[e];
      if (values != NULL) values[to] = value;
      to++;
    }
    m->indptr[r + 1] = to;
  }
}

/* Sums the repeats of all rows, into arrays of the final size. */
static int merge(job *j, size_t repeats) {
  fopo_csr *m = j->m;
  int with_values = m->values != NULL || j->counted;
  size_t n = j->n - repeats;
  float *values = with_values ? fopo_alloc(n, sizeof *values) : NULL;
  uint32_t *ids = !with_values || values != NULL ? fopo_alloc(n, sizeof *ids) : NULL;
  if (ids == NULL) {
    fopo_free(values);
    return FOPO_ERR_MEMORY;
  }
  uint64_t *to = j->repeats, before = 0; /* the repeats become first positions */
  for (size_t b = 0; b < j->buckets; b++) {
    uint64_t here = j->repeats[b];
    to[b] = j->start[b] - before;
    before += here;
  }
#pragma omp parallel for num_threads(j->buckets > 1 ? fopo_threads() : 1) schedule(dynamic)
  for (size_t b = 0; b < j->buckets; b++) merge_bucket(j, b, ids, values, to[b]);
  fopo_free(m->ids);
  fopo_free(m->values);
  m->ids = ids;
  m->values = values;
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
static int alloc_keys(job *j, size_t largest) {
  size_t threads = j->buckets > 1 ? (size_t)fopo_threads() : 1;
  j->is_shared = threads * largest >= j->n;
  j->spare_n = j->is_shared ? j->n : largest;
  size_t spare = j->is_shared ? j->n : threads * largest;
  j->keys = fopo_alloc(j->n, sizeof *j->keys);
  j->spare = fopo_alloc(spare, sizeof *j->spare);
  if (j->keys == NULL || j->spare == NULL) return FOPO_ERR_MEMORY;
  if (j->values == NULL) return FOPO_OK;
  j->weights = fopo_alloc(j->n, sizeof *j->weights);
  j->spare_weights = fopo_alloc(spare, sizeof *j->spare_weights);
  return j->weights != NULL && j->spare_weights != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void keys_done(job *j) {
  fopo_free(j->keys);
  fopo_free(j->spare);
  fopo_free(j->weights);
  fopo_free(j->spare_weights);
  j->keys = j->spare = NULL;
  j->weights = j->spare_weights = NULL;
}

static int build(job *j, size_t *repeats) {
  fopo_csr *m = j->m;
  if (j->n == 0) return FOPO_OK;
  j->slices = 1;
  if (m->rows == 0) return count(j); /* refuses the first pair */
  plan(j);
  int status = alloc_counts(j);
  if (status == FOPO_OK) status = count(j);
  if (status == FOPO_OK) status = alloc_keys(j, (size_t)place_buckets(j));
  if (status == FOPO_OK) status = scatter(j);
  if (status == FOPO_OK) status = sort_buckets(j);
  keys_done(j);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < j->buckets; b++) *repeats += (size_t)j->repeats[b];
  if (*repeats > 0) status = merge(j, *repeats);
  if (status == FOPO_OK && j->n >= REPORT_FROM) status = fopo_progress(SORTING, 1, 1);
  return status;
}

static int from_pairs(fopo_csr *m, const uint32_t *row, const uint32_t *col, const float *values,
                      size_t n, size_t rows, size_t cols, size_t *repeats, int counted) {
  *m = (fopo_csr){0};
  *repeats = 0;
  uint64_t entry = 2 * sizeof(uint64_t) + (values == NULL ? 0 : 3 * sizeof(float));
  uint64_t bytes = n * entry + rows * sizeof(uint64_t);
  int status = fopo_memory_suffices(bytes, "building a sparse matrix", "use fewer users or items");
  if (status == FOPO_OK) status = fopo_csr_init(m, rows, cols, n, values != NULL);
  if (status != FOPO_OK) return status;
  job j = {.row = row, .col = col, .values = values, .n = n, .m = m, .counted = counted};
  status = build(&j, repeats);
  fopo_free(j.place);
  fopo_free(j.start);
  fopo_free(j.repeats);
  if (status != FOPO_OK) fopo_csr_done(m);
  return status;
}

int fopo_csr_from_pairs(fopo_csr *m, const uint32_t *row, const uint32_t *col, const float *values,
                        size_t n, size_t rows, size_t cols, size_t *repeats) {
  return from_pairs(m, row, col, values, n, rows, cols, repeats, 0);
}

int fopo_csr_count_pairs(fopo_csr *m, const uint32_t *row, const uint32_t *col, size_t n,
                         size_t rows, size_t cols, size_t *repeats) {
  return from_pairs(m, row, col, NULL, n, rows, cols, repeats, 1);
}

/* Entry e of row r becomes the pair (ids[e], r). */
int fopo_csr_transpose(fopo_csr *t, const fopo_csr *m) {
  size_t nnz = fopo_csr_nnz(m), repeats;
  uint32_t *row = fopo_alloc(nnz, sizeof *row);
  *t = (fopo_csr){0};
  if (row == NULL) return FOPO_ERR_MEMORY;
#pragma omp parallel for num_threads(nnz > SLICE ? fopo_threads() : 1) schedule(dynamic, 1024)
  for (size_t r = 0; r < m->rows; r++) {
    for (uint64_t e = m->indptr[r]; e < m->indptr[r + 1]; e++) row[e] = (uint32_t)r;
  }
  int status = from_pairs(t, m->ids, row, m->values, nnz, m->cols, m->rows, &repeats, 0);
  fopo_free(row);
  return status;
}
