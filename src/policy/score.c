#include "policy/score.h"

#include "core/status.h"

/* The rows of a part are in the norm order, so each entry of the row is looked up. */
static void add_to_part(float *f, const fopo_score_row *row, const fopo_part *part, size_t first,
                        size_t n) {
  for (size_t i = 0; i < row->n; i++) {
    size_t here = fopo_part_row(part, row->ids[i]);
    if (here < first || here - first >= n) continue;
    f[here - first] = fopo_score_sum(f[here - first], fopo_score_entry(row, i));
  }
}

void fopo_score_add(float *f, const fopo_score_row *row, const fopo_part *part, size_t first,
                    size_t n) {
  if (part != NULL) {
    add_to_part(f, row, part, first, n);
    return;
  }
  size_t i = row->n > 0 ? fopo_sorted_place(row->ids, row->n, (uint32_t)first) : 0;
  for (; i < row->n && row->ids[i] - first < n; i++) {
    float *score = f + (row->ids[i] - first);
    *score = fopo_score_sum(*score, fopo_score_entry(row, i));
  }
}

int fopo_mask_check(const fopo_csr *X, size_t contexts, size_t P) {
  if (X->rows == contexts && X->cols == P) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "what is seen is %zu x %zu but there are %zu contexts over %zu items", X->rows,
                   X->cols, contexts, P);
}

int fopo_score_check_mask(const fopo_sparse_scores *s, const char *what) {
  if (s == NULL || s->values == NULL) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "%s knows masks alone, not the values of sparse scores; use a policy without "
                   "them",
                   what);
}
