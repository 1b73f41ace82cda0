#include "policy/recommend.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/topk.h"
#include "policy/lists.h"
#include "policy/softmax.h"

enum { BLOCK = 256 };

/* Buffers for the contexts of one block. */
typedef struct {
  fopo_matrix Q; /* [BLOCK, L] queries */
  fopo_left_out out[BLOCK];
  uint32_t *ids; /* [room] of those in `out` for which a mask and `never` are joined */
  size_t room;
} scratch;

static void scratch_done(scratch *s) {
  fopo_matrix_done(&s->Q);
  fopo_free(s->ids);
}

static int scratch_init(scratch *s, size_t rows, size_t L) {
  *s = (scratch){0};
  return fopo_matrix_init(&s->Q, rows, L);
}

static int never_holds(const fopo_recommend_plan *p, uint32_t id) {
  return fopo_sorted_holds(p->never, p->n_never, id);
}

/* Items left out of context n; one that is both masked and in `never` counts once. */
static size_t count_left_out(const fopo_recommend_plan *p, size_t n) {
  size_t count = p->n_never;
  fopo_score_row row = fopo_score_row_of(p->mask, n);
  for (size_t i = 0; i < row.n; i++) count += !never_holds(p, row.ids[i]);
  return count;
}

static int check(const fopo_recommend_plan *p, size_t k) {
  size_t P = fopo_policy_n_items(p->policy);
  fopo_matrix items = p->policy->items;
  int status = fopo_policy_check_contexts(p->policy, p->x);
  if (status == FOPO_OK) status = fopo_policy_check_index(p->index, items.rows, items.cols);
  if (status != FOPO_OK) return status;
  if (k == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "0 items are asked for; ask for 1 or more");
  status = fopo_score_check_mask(p->mask, "recommending");
  if (status != FOPO_OK) return status;
  for (size_t n = 0; n < p->x.rows; n++) {
    size_t out = p->may_be_short ? 0 : count_left_out(p, n);
    if (k <= P && out <= P - k) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu items are asked for, but of %zu items %zu are left out in context %zu; "
                     "ask for at most %zu, or leave fewer out",
                     k, P, out, n + 1, P - out);
  }
  return FOPO_OK;
}

/* Joins two ascending lists, in which an item may come twice; returns how many there are. */
static size_t join(uint32_t *to, const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b) {
  size_t n = 0, i = 0, j = 0;
  while (i < n_a || j < n_b) {
    uint32_t id = j == n_b || (i < n_a && a[i] <= b[j]) ? a[i] : b[j];
    i += i < n_a && a[i] == id;
    j += j < n_b && b[j] == id;
    to[n++] = id;
  }
  return n;
}

/* What the contexts from `first` on leave out. */
static int leave_out(scratch *s, const fopo_recommend_plan *p, size_t first, size_t rows) {
  size_t all = 0, used = 0;
  for (size_t i = 0; i < rows; i++) all += p->n_never + fopo_score_row_of(p->mask, first + i).n;
  if (p->n_never == 0 || p->mask == NULL) all = 0;
  if (all > s->room) {
    int status = fopo_resize(&s->ids, all, sizeof *s->ids);
    if (status != FOPO_OK) return status;
    s->room = all;
  }
  for (size_t i = 0; i < rows; i++) {
    fopo_score_row row = fopo_score_row_of(p->mask, first + i);
    if (p->n_never > 0 && row.n > 0) {
      uint32_t *ids = s->ids + used;
      used += row.n = join(ids, row.ids, row.n, p->never, p->n_never);
      row.ids = ids;
    } else if (p->n_never > 0) {
      row = (fopo_score_row){.ids = p->never, .n = p->n_never};
    }
    s->out[i] = fopo_left_out_of(row.ids, row.n);
  }
  return FOPO_OK;
}

/* The answers of the contexts first .. first + rows - 1, whose queries are in s->Q. */
static int answer(uint32_t *ids, float *scores, uint32_t *counts, const fopo_recommend_plan *p,
                  size_t first, size_t rows, size_t k, scratch *s) {
  int status = leave_out(s, p, first, rows);
  if (p->policy->shard != NULL) status = fopo_comm_agree(status);
  if (status != FOPO_OK) return status;
  return fopo_shard_search_without(ids + first * k, scores + first * k, counts + first,
                                   p->policy->shard, p->index, fopo_matrix_rows(s->Q, 0, rows), k,
                                   (fopo_without){s->out, 1});
}

/* log_z [Q.rows] of the contexts from `first` on. */
static int normalise(double *log_z, const fopo_recommend_plan *p, fopo_matrix Q, size_t first) {
  const fopo_shard *shard = p->policy->shard;
  fopo_sparse_scores own = fopo_score_from(p->masked ? p->mask : NULL, first);
  fopo_scores f = {.Q = Q,
                   .items = p->policy->items,
                   .part = shard != NULL ? &shard->part : NULL,
                   .sparse = &own};
  int status = fopo_softmax_sums(log_z, NULL, &f, first, p->x.rows);
  return shard == NULL ? status : fopo_shard_log_sums(log_z, NULL, Q.rows, status);
}

/* The k best items of a row; returns how many there are. */
static uint32_t choose(uint32_t *ids, float *scores, uint64_t *keys, const fopo_list_row *row,
                       const fopo_recommend_plan *p, size_t k) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t n = 0;
  for (size_t i = 0; i < row->n; i++) {
    if (fopo_sorted_holds(p->never, p->n_never, row->ids[i])) continue;
    keys[n++] = fopo_topk_key(row->f[i], row->ids[i]);
  }
  return fopo_topk_give(ids, scores, keys, fopo_topk_largest(keys, n, k, kernels), k, kernels);
}

enum { WAVE = 4096 }; /* contexts between two reports of progress */

/* Of a kind that scores lists: if it scores the candidates alone, a row may be short. */
static int recommend_lists(uint32_t *ids, float *scores, uint32_t *counts, double *log_z,
                           const fopo_recommend_plan *p, size_t k) {
  const fopo_policy *pi = p->policy;
  size_t P = pi->items.rows, N = p->x.rows;
  fopo_list_row *rows = NULL;
  uint64_t *keys = fopo_alloc((size_t)fopo_threads() * P, sizeof *keys);
  fopo_matrix Q = {0};
  int status = keys != NULL ? fopo_list_rows_renew(&rows, P, 0) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_matrix_init(&Q, N < WAVE ? N : WAVE, pi->items.cols);
  for (size_t first = 0; first < N && status == FOPO_OK; first += WAVE) {
    size_t last = N - first < WAVE ? N : first + WAVE;
    status = fopo_policy_queries(fopo_matrix_rows(Q, 0, last - first), pi,
                                 fopo_matrix_rows(p->x, first, last - first));
    if (status != FOPO_OK) break;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 8)
    for (size_t n = first; n < last; n++) {
      size_t t = (size_t)omp_get_thread_num();
      fopo_list_row *row = &rows[t];
      fopo_score_row seen = fopo_score_row_of(p->mask, n);
      size_t training = p->training != NULL ? p->training[n] : SIZE_MAX;
      fopo_list_context context = {seen.ids, seen.n, fopo_matrix_row(Q, n - first), training, NULL};
      pi->kind->score_list(row, pi, pi->theta.x, &context);
      counts[n] = choose(ids + n * k, scores + n * k, keys + t * P, row, p, k);
      if (log_z != NULL) {
        fopo_list_sums s = fopo_list_normalise(row);
        log_z[n] = s.top + log(s.w);
      }
      fopo_list_clear(row, &context);
    }
    status = fopo_progress("recommending", (double)last, (double)N);
  }
  fopo_matrix_done(&Q);
  fopo_free(rows);
  fopo_free(keys);
  return status;
}

int fopo_recommend(uint32_t *ids, float *scores, uint32_t *counts, double *log_z,
                   const fopo_recommend_plan *p, size_t k) {
  scratch s;
  size_t N = p->x.rows;
  int status = check(p, k);
  if (status != FOPO_OK) return status;
  if (p->policy->kind->score_list != NULL) {
    return recommend_lists(ids, scores, counts, log_z, p, k);
  }
  status = scratch_init(&s, N < BLOCK ? N : BLOCK, p->policy->items.cols);
  for (size_t first = 0; first < N && status == FOPO_OK; first += BLOCK) {
    size_t rows = N - first < BLOCK ? N - first : BLOCK;
    fopo_matrix Q = fopo_matrix_rows(s.Q, 0, rows);
    status = fopo_policy_queries(Q, p->policy, fopo_matrix_rows(p->x, first, rows));
    if (status == FOPO_OK) status = answer(ids, scores, counts, p, first, rows, k, &s);
    if (status == FOPO_OK && log_z != NULL) status = normalise(log_z + first, p, Q, first);
    if (status == FOPO_OK) {
      status = fopo_progress("recommending", (double)(first + rows), (double)N);
    }
  }
  scratch_done(&s);
  return status;
}
