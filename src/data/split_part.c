/* A user's row is read from left to right, which keeps the ids in ascending order: what has a side
 * of `x` goes to X, what has one of `y` to Y. */
#include "data/split_part.h"

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"

static int in_x(uint8_t sides, fopo_rule r) { return (sides & r.x) != 0; }
static int in_y(uint8_t sides, fopo_rule r) {
  return (sides & r.y) != 0 && (r.keep || !in_x(sides, r));
}

/* Users of a part are in no order, so the processor cannot foresee which rows are read: what row
 * i + 8 needs is prefetched, in two steps, since its place must be known first. */
static void prefetch(const fopo_csr *m, const uint8_t *sides, const uint32_t *users, size_t i,
                     size_t n) {
  if (i + 16 < n) __builtin_prefetch(&m->indptr[users[i + 16]]);
  if (i + 8 >= n) return;
  uint64_t e = m->indptr[users[i + 8]];
  __builtin_prefetch(&sides[e]);
  __builtin_prefetch(&m->ids[e]);
  __builtin_prefetch(&m->ids[e] + 16);
}

/* x, y [n]: the items of each user in X and in Y; both 0 if one of them is. */
static void count_items(uint64_t *x, uint64_t *y, const fopo_csr *m, const uint8_t *sides,
                        fopo_rule r, const uint32_t *users, size_t n) {
#pragma omp parallel for num_threads(n > 4096 ? fopo_threads() : 1) schedule(dynamic, 1024)
  for (size_t i = 0; i < n; i++) {
    uint32_t here = 0, there = 0;
    prefetch(m, sides, users, i, n);
    for (uint64_t e = m->indptr[users[i]]; e < m->indptr[users[i] + 1]; e++) {
      here += (uint32_t)in_x(sides[e], r);
      there += (uint32_t)in_y(sides[e], r);
    }
    x[i] = here > 0 && there > 0 ? here : 0;
    y[i] = here > 0 && there > 0 ? there : 0;
  }
}

/* Allocates the sessions of those users that have one. */
static int init_sessions(fopo_sessions *s, size_t cols, const uint64_t *x, const uint64_t *y,
                         const uint32_t *users, size_t n) {
  size_t rows = 0, nnz_x = 0, nnz_y = 0;
  for (size_t i = 0; i < n; i++) {
    rows += x[i] > 0;
    nnz_x += x[i];
    nnz_y += y[i];
  }
  if (rows == 0) return FOPO_OK;
  int status = fopo_memory_suffices((uint64_t)(nnz_x + nnz_y) * sizeof(uint32_t),
                                    "splitting the sessions", "lower max_users");
  if (status == FOPO_OK) status = fopo_csr_init(&s->X, rows, cols, nnz_x, 0);
  if (status == FOPO_OK) status = fopo_csr_init(&s->Y, rows, cols, nnz_y, 0);
  if (status != FOPO_OK) return status;
  s->users = fopo_alloc(rows, sizeof *s->users);
  if (s->users == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0, row = 0; i < n; i++) {
    if (x[i] == 0) continue;
    s->users[row] = users[i];
    s->X.indptr[row + 1] = s->X.indptr[row] + x[i];
    s->Y.indptr[row + 1] = s->Y.indptr[row] + y[i];
    row++;
  }
  return FOPO_OK;
}

static void fill_sessions(fopo_sessions *s, const fopo_csr *m, const uint8_t *sides, fopo_rule r) {
#pragma omp parallel for num_threads(s->X.rows > 4096 ? fopo_threads() : 1) schedule(dynamic, 1024)
  for (size_t i = 0; i < s->X.rows; i++) {
    uint32_t *x = s->X.ids + s->X.indptr[i], *y = s->Y.ids + s->Y.indptr[i];
    prefetch(m, sides, s->users, i, s->X.rows);
    for (uint64_t e = m->indptr[s->users[i]]; e < m->indptr[s->users[i] + 1]; e++) {
      if (in_x(sides[e], r)) *x++ = m->ids[e];
      if (in_y(sides[e], r)) *y++ = m->ids[e];
    }
  }
}

int fopo_split_part(fopo_sessions *s, const fopo_csr *m, const uint8_t *sides, fopo_rule r,
                    const uint32_t *users, size_t n) {
  uint64_t *x = fopo_alloc(n, sizeof *x), *y = fopo_alloc(n, sizeof *y);
  int status = x != NULL && y != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    count_items(x, y, m, sides, r, users, n);
    status = init_sessions(s, m->cols, x, y, users, n);
  }
  if (status == FOPO_OK && s->users != NULL) fill_sessions(s, m, sides, r);
  fopo_free(x);
  fopo_free(y);
  return status;
}
