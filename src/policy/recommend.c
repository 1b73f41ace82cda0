/* The index is searched for more than k items, and those that are left out are skipped. How many
 * more are needed differs from context to context: a search begins with few, and contexts that were
 * left with less than k are searched again for four times as many, up to k and all that they leave
 * out, where the answer is certain. So a user who took 10,000 items does not slow the others. */
#include "policy/recommend.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/topk.h"
#include "policy/lists.h"
#include "policy/softmax.h"

enum { BLOCK = 256, FIRST = 32, FACTOR = 4 };

/* Buffers for the contexts of one block. */
typedef struct {
  fopo_matrix Q, open;   /* [BLOCK, L] queries, and those of the contexts without an answer */
  uint32_t which[BLOCK]; /* the contexts of `open`, by place in the block */
  uint32_t counts[BLOCK];
  uint32_t *ids; /* [BLOCK, wide] */
  float *scores;
  size_t wide; /* grown as needed */
} scratch;

static void scratch_done(scratch *s) {
  fopo_matrix_done(&s->Q);
  fopo_matrix_done(&s->open);
  fopo_free(s->ids);
  fopo_free(s->scores);
}

static int scratch_init(scratch *s, size_t rows, size_t L) {
  *s = (scratch){0};
  int status = fopo_matrix_init(&s->Q, rows, L);
  return status == FOPO_OK ? fopo_matrix_init(&s->open, rows, L) : status;
}

static int widen(scratch *s, size_t rows, size_t wide) {
  if (rows * wide <= s->wide) return FOPO_OK;
  fopo_free(s->ids);
  fopo_free(s->scores);
  s->wide = 0;
  s->ids = fopo_alloc(rows * wide, sizeof *s->ids);
  s->scores = fopo_alloc(rows * wide, sizeof *s->scores);
  if (s->ids == NULL || s->scores == NULL) return FOPO_ERR_MEMORY;
  s->wide = rows * wide;
  return FOPO_OK;
}

static int never_holds(const fopo_recommend_plan *p, uint32_t id) {
  return fopo_sorted_holds(p->never, p->n_never, id);
}

static int left_out(const fopo_recommend_plan *p, size_t n, uint32_t id) {
  fopo_score_row row = fopo_score_row_of(p->mask, n);
  return never_holds(p, id) || fopo_sorted_holds(row.ids, row.n, id);
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

/* Copies the first k items of a search that are not left out; returns how many there are. */
static uint32_t pick(uint32_t *ids, float *scores, const uint32_t *found, const float *of_found,
                     size_t n_found, const fopo_recommend_plan *p, size_t n, size_t k) {
  uint32_t count = 0;
  for (size_t i = 0; i < n_found && count < k; i++) {
    if (left_out(p, n, found[i])) continue;
    ids[count] = found[i];
    scores[count++] = of_found[i];
  }
  for (size_t i = count; i < k; i++) {
    ids[i] = FOPO_NO_ITEM;
    scores[i] = -INFINITY;
  }
  return count;
}

/* The answers of the contexts first .. first + rows - 1, whose queries are in s->Q. */
static int answer(uint32_t *ids, float *scores, uint32_t *counts, const fopo_recommend_plan *p,
                  size_t first, size_t rows, size_t k, scratch *s) {
  size_t P = fopo_policy_n_items(p->policy), L = s->Q.cols, open = rows;
  for (size_t i = 0; i < rows; i++) s->which[i] = (uint32_t)i;
  for (size_t take = k + FIRST; open > 0; take *= FACTOR) {
    if (take > P) take = P;
    for (size_t i = 0; i < open; i++) {
      memcpy(fopo_matrix_row(s->open, i), fopo_matrix_row(s->Q, s->which[i]), L * sizeof(float));
    }
    int status = widen(s, open, take);
    if (status != FOPO_OK) return status;
    status = fopo_shard_search(s->ids, s->scores, s->counts, p->policy->shard, p->index,
                               fopo_matrix_rows(s->open, 0, open), take, 0, 0);
    if (status != FOPO_OK) return status;
    size_t still = 0;
    for (size_t i = 0; i < open; i++) {
      size_t n = first + s->which[i];
      counts[n] = pick(ids + n * k, scores + n * k, s->ids + i * take, s->scores + i * take,
                       s->counts[i], p, n, k);
      /* the index has no more items, or all that are left have been found */
      int ended = s->counts[i] < take || take == P || take >= k + count_left_out(p, n);
      if (counts[n] < k && !ended) s->which[still++] = s->which[i];
    }
    open = still;
  }
  return FOPO_OK;
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
