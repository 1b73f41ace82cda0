#include "policy/lists.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"

static int row_init(fopo_list_row *row, size_t P, int slopes) {
  *row = (fopo_list_row){.P = P,
                         .place = fopo_alloc(P, sizeof *row->place),
                         .ids = fopo_alloc(P, sizeof *row->ids),
                         .f = fopo_alloc(P, sizeof *row->f),
                         .sums = fopo_alloc(P, 2 * sizeof *row->sums),
                         .values = fopo_alloc(2 * P, sizeof *row->values),
                         .w = fopo_alloc(P, sizeof *row->w)};
  int whole = row->place && row->ids && row->f && row->sums && row->values && row->w;
  if (!whole || !slopes) return whole ? FOPO_OK : FOPO_ERR_MEMORY;
  row->slopes = fopo_alloc(P, FOPO_LIST_SCALARS * sizeof *row->slopes);
  row->c = fopo_alloc(P, sizeof *row->c);
  return row->slopes && row->c ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void row_done(fopo_list_row *row) {
  fopo_free(row->place);
  fopo_free(row->ids);
  fopo_free(row->f);
  fopo_free(row->slopes);
  fopo_free(row->sums);
  fopo_free(row->c);
  fopo_free(row->values);
  fopo_free(row->w);
  *row = (fopo_list_row){0};
}

/* Ended by a row of no items. */
int fopo_list_rows_init(fopo_list_row **rows, size_t P, int slopes) {
  size_t threads = (size_t)fopo_threads();
  uint64_t numbers = slopes ? 9 + FOPO_LIST_SCALARS : 8, bytes = threads * P * numbers * 4;
  *rows = NULL;
  int status = fopo_memory_suffices(bytes, "the candidates of a context, for each thread",
                                    "use fewer threads (fopo.threads(1))");
  if (status != FOPO_OK) return status;
  fopo_list_row *all = fopo_alloc(threads + 1, sizeof *all);
  if (all == NULL) return FOPO_ERR_MEMORY;
  for (size_t t = 0; t < threads && status == FOPO_OK; t++) {
    status = row_init(&all[t], P, slopes);
  }
  if (status == FOPO_OK) {
    *rows = all;
  } else {
    fopo_list_rows_done(all);
  }
  return status;
}

void fopo_list_rows_done(fopo_list_row *rows) {
  for (size_t t = 0; rows != NULL && rows[t].P > 0; t++) row_done(&rows[t]);
  fopo_free(rows);
}

void fopo_list_clear(fopo_list_row *row, const fopo_list_context *context) {
  for (size_t i = 0; i < row->n; i++) row->place[row->ids[i]] = 0;
  for (size_t i = 0; i < context->n; i++) row->place[context->X[i]] = 0;
}

fopo_list_sums fopo_list_normalise(fopo_list_row *row) {
  size_t others = row->P - row->masked - row->n;
  float top = others > 0 ? 0.0f : -INFINITY;
  for (size_t i = 0; i < row->n; i++) top = row->f[i] > top ? row->f[i] : top;
  fopo_list_sums s = {.top = (double)top};
  if (top == -INFINITY) return s;
  s.candidates = fopo_kernels_get()->exp_sum(row->w, row->f, top, row->n);
  s.rest = others > 0 ? exp(-s.top) : 0.0;
  for (size_t i = 0; i < row->n; i++) s.ww += (double)row->w[i] * (double)row->w[i];
  s.w = s.candidates + (double)others * s.rest;
  s.ww += (double)others * s.rest * s.rest;
  return s;
}
