#include "policy/lists.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"

/* One block: the rows, then the arrays of each, of [P] numbers of 4 bytes. */
int fopo_list_rows_renew(fopo_list_row **rows, size_t P, int slopes) {
  size_t threads = (size_t)fopo_threads(), numbers = slopes ? 9 + FOPO_LIST_SCALARS : 8;
  size_t bytes = threads * P * numbers * sizeof(float);
  fopo_free(*rows);
  *rows = NULL;
  int status = fopo_memory_suffices(bytes, "the candidates of a context, for each thread",
                                    "use fewer threads (fopo.threads(1))");
  if (status != FOPO_OK) return status;
  fopo_list_row *all = fopo_alloc(threads * sizeof *all + bytes, 1);
  if (all == NULL) return FOPO_ERR_MEMORY;
  for (size_t t = 0; t < threads; t++) {
    float *x = (float *)(void *)(all + threads) + t * P * numbers;
    all[t] = (fopo_list_row){.P = P,
                             .place = (uint32_t *)(void *)x,
                             .ids = (uint32_t *)(void *)(x + P),
                             .f = x + 2 * P,
                             .sums = x + 3 * P,
                             .values = x + 5 * P,
                             .w = x + 7 * P,
                             .c = slopes ? x + 8 * P : NULL,
                             .slopes = slopes ? x + 9 * P : NULL};
  }
  *rows = all;
  return FOPO_OK;
}

void fopo_list_clear(fopo_list_row *row, const fopo_list_context *context) {
  for (size_t i = 0; i < row->n; i++) row->place[row->ids[i]] = 0;
  for (size_t i = 0; i < context->n; i++) row->place[context->X[i]] = 0;
}

fopo_list_sums fopo_list_normalise(fopo_list_row *row) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t head = row->head, others = row->others;
  float top = others > 0 ? 0.0f : -INFINITY;
  for (size_t i = 0; i < row->n; i++) top = row->f[i] > top ? row->f[i] : top;
  fopo_list_sums s = {.top = (double)top};
  if (top == -INFINITY) return s;
  s.candidates = kernels->exp_sum(row->w, row->f, top, head);
  double outside = kernels->exp_sum(row->w + head, row->f + head, top, row->n - head);
  s.rest = others > 0 ? exp(-s.top) : 0.0;
  for (size_t i = 0; i < row->n; i++) s.ww += (double)row->w[i] * (double)row->w[i];
  s.w = s.candidates + outside + (double)others * s.rest;
  s.ww += (double)others * s.rest * s.rest;
  return s;
}
