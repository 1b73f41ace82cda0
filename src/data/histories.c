#include "data/histories.h"

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/names.h"

int fopo_histories_from(fopo_sessions *s, const uint32_t *user, const uint32_t *item, size_t n,
                        size_t users, size_t P) {
  size_t repeats;
  *s = (fopo_sessions){0};
  int status = fopo_csr_from_pairs(&s->X, user, item, NULL, n, users, P, &repeats);
  if (status == FOPO_OK) status = fopo_csr_init(&s->Y, users, P, 0, 0);
  if (status == FOPO_OK) {
    s->users = fopo_alloc(users, sizeof *s->users);
    if (s->users == NULL) status = FOPO_ERR_MEMORY;
  }
  for (size_t i = 0; i < users && status == FOPO_OK; i++) s->users[i] = (uint32_t)i;
  if (status != FOPO_OK) fopo_sessions_done(s);
  return status;
}

int fopo_histories_of(fopo_sessions *s, size_t *unknown, const fopo_csr *m, const uint32_t *rows,
                      size_t n, const uint32_t *place, size_t P) {
  size_t most = 0, kept = 0;
  *s = (fopo_sessions){0};
  *unknown = 0;
  if (place == NULL && m->cols != P) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the data have %zu items but the policy has %zu; give the data that its items "
                     "were made from",
                     m->cols, P);
  }
  for (size_t i = 0; i < n; i++) most += fopo_csr_count(m, rows[i]);
  int status = fopo_memory_suffices((uint64_t)most * 24, "the users' items", "take fewer users");
  if (status != FOPO_OK) return status;
  uint32_t *user = fopo_alloc(most, sizeof *user), *item = fopo_alloc(most, sizeof *item);
  status = user == NULL || item == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    const uint32_t *ids = fopo_csr_row(m, rows[i]);
    for (size_t k = 0; k < fopo_csr_count(m, rows[i]); k++) {
      uint32_t a = place != NULL ? place[ids[k]] : ids[k];
      if (a == FOPO_NO_NAME) continue;
      user[kept] = (uint32_t)i;
      item[kept++] = a;
    }
  }
  *unknown = most - kept;
  if (status == FOPO_OK) status = fopo_histories_from(s, user, item, kept, n, P);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) s->users[i] = rows[i];
  fopo_free(user);
  fopo_free(item);
  return status;
}

/* ---- X and Y as one ---- */

/* Two ascending rows become one. Each row is written by one thread. */

/* Merges X and Y of a session into out, and adds 1 to the count [P] of each item; either may be
 * NULL. Returns how many items there are. */
static size_t merge_row(uint32_t *out, double *count, const fopo_sessions *s, size_t row) {
  const uint32_t *x = fopo_csr_row(&s->X, row), *x_end = x + fopo_csr_count(&s->X, row);
  const uint32_t *y = fopo_csr_row(&s->Y, row), *y_end = y + fopo_csr_count(&s->Y, row);
  size_t n = 0;
  while (x < x_end || y < y_end) {
    uint32_t id = y == y_end || (x < x_end && *x <= *y) ? *x : *y;
    if (x < x_end && *x == id) x++;
    if (y < y_end && *y == id) y++;
    if (out != NULL) out[n] = id;
    if (count != NULL) count[id] += 1.0;
    n++;
  }
  return n;
}

int fopo_interactions_count(double *n, const fopo_sessions *s) {
  enum { POLL = 4096 }; /* rows */
  for (size_t row = 0; row < s->X.rows; row++) {
    if (row % POLL == 0 && fopo_interrupted()) {
      return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while counting interactions");
    }
    merge_row(NULL, n, s, row);
  }
  return FOPO_OK;
}

int fopo_interactions(fopo_csr *m, const fopo_sessions *s) {
  size_t N = s->X.rows; /* perhaps some rows of a matrix, whose indptr does not begin at 0 */
  size_t nnz = (size_t)(s->X.indptr[N] - s->X.indptr[0] + s->Y.indptr[N] - s->Y.indptr[0]);
  int status = fopo_csr_init(m, N, s->X.cols, nnz, 0);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t row = 0; row < N; row++) m->indptr[row + 1] = merge_row(NULL, NULL, s, row);
  for (size_t row = 0; row < N; row++) m->indptr[row + 1] += m->indptr[row];
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t row = 0; row < N; row++) merge_row(m->ids + m->indptr[row], NULL, s, row);
  return FOPO_OK;
}
