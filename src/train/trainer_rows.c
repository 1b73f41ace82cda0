/* Which contexts a step takes: a function of the seed and the step alone, so that a run is the same
 * for any length of slices, resumed or not. Each epoch has a permutation of the N contexts, and its
 * steps take one batch after the other. */
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/rng.h"
#include "core/status.h"
#include "train/state.h"

int fopo_trainer_check_batch(size_t batch, size_t N) {
  if (batch > 0 && batch <= N) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the batch is %zu but there are %zu contexts; use a batch of 1 to %zu", batch, N,
                   N);
}

static size_t count_steps(size_t N, size_t batch) { return (N + batch - 1) / batch; }

size_t fopo_trainer_steps_per_epoch(const fopo_trainer *t) {
  return count_steps(t->o.contexts.n, t->o.batch);
}

/* Which contexts step `step` takes: *B from position *first on of the permutation of the epoch that
 * it returns. */
static uint32_t place(size_t *first, size_t *B, size_t N, size_t batch, uint64_t step) {
  size_t per_epoch = count_steps(N, batch);
  *first = (size_t)(step % per_epoch) * batch;
  *B = N - *first < batch ? N - *first : batch;
  return (uint32_t)(step / per_epoch);
}

int fopo_trainer_batch(uint32_t *rows, size_t *B, size_t N, size_t batch, uint64_t seed,
                       uint64_t step) {
  int status = fopo_trainer_check_batch(batch, N);
  if (status != FOPO_OK) return status;
  uint32_t *order = fopo_alloc(N, sizeof *order);
  if (order == NULL) return FOPO_ERR_MEMORY;
  size_t first;
  uint32_t epoch = place(&first, B, N, batch, step);
  fopo_shuffle(order, (uint32_t)N, seed, FOPO_STREAM_SHUFFLE, epoch);
  memcpy(rows, order + first, *B * sizeof *rows);
  fopo_free(order);
  return FOPO_OK;
}

void fopo_trainer_choose_rows(fopo_trainer *t) {
  size_t N = t->o.contexts.n, first;
  uint32_t epoch = place(&first, &t->B, N, t->o.batch, t->step);
  if (epoch != t->shuffled) {
    fopo_shuffle(t->order, (uint32_t)N, t->o.seed, FOPO_STREAM_SHUFFLE, epoch);
    t->shuffled = epoch;
  }
  t->rows = t->order + first;
}

int fopo_trainer_resplit_is_due(const fopo_trainer *t) {
  return t->resplit.from.sessions != NULL && t->resplit.epoch != t->shuffled;
}

int fopo_trainer_resplit(fopo_trainer *t) {
  fopo_resplit *r = &t->resplit;
  uint64_t step = t->step;
  if (!fopo_trainer_resplit_is_due(t)) return FOPO_OK;
  int status = t->way != NULL ? t->way->wait(t) : FOPO_OK;
  if (status != FOPO_OK || t->step != step) return status;
  double start = fopo_clock();
  status = fopo_resplit_make(r, t->o.seed, (uint32_t)t->shuffled);
  if (status == FOPO_OK) status = fopo_gradient_renew_contexts(t->o.gradient);
  if (status != FOPO_OK) r->epoch = UINT64_MAX;
  t->slice.phases[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

/* "3, 17, 4, ..." the first contexts of the batch, 1-based. */
static void list_rows(char *text, size_t size, const fopo_trainer *t) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t b = 0; b < t->B && b < 8; b++) {
    int n = snprintf(text + used, size - used, "%s%llu", b ? ", " : "",
                     (unsigned long long)t->rows[b] + 1);
    if (n < 0 || (size_t)n >= size - used) return;
    used += (size_t)n;
  }
  if (t->B > 8) snprintf(text + used, size - used, ", ...");
}

int fopo_trainer_fail_numeric(const fopo_trainer *t) {
  char rows[160];
  list_rows(rows, sizeof rows, t);
  return fopo_fail(FOPO_ERR_NUMERIC,
                   "the gradient of step %llu is not finite, or longer than %g (learning rate %g, "
                   "contexts %s); theta stays as after step %llu; lower lr, or look at the rewards",
                   (unsigned long long)t->step + 1, FOPO_NORM_MOST, t->o.optim->options.lr, rows,
                   (unsigned long long)t->step);
}
