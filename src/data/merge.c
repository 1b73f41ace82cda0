#include "data/merge.h"

#include <string.h>

#include "core/progress.h"

static int add_name(fopo_ids *all, uint32_t *index, const fopo_names *names, size_t i) {
  if (names->text == NULL) {
    return fopo_ids_number(all, index, names->numbers != NULL ? names->numbers[i] : (int64_t)i);
  }
  const char *name = names->text + names->offsets[i];
  return fopo_ids_add(all, index, name, strlen(name));
}

int fopo_merge_names(fopo_ids *all, uint32_t *place, const fopo_names *names) {
  enum { POLL = 1 << 16 }; /* names between two polls: a few milliseconds */
  for (size_t i = 0; i < names->n; i++) {
    int status =
        i % POLL == 0 ? fopo_progress("matching names", (double)i, (double)names->n) : FOPO_OK;
    if (status == FOPO_OK) status = add_name(all, &place[i], names, i);
    if (status != FOPO_OK) return status;
  }
  return fopo_progress("matching names", 1, 1);
}

int fopo_merge_needs_values(const fopo_dataset *d) {
  return d->matrix.values != NULL || d->times.last != NULL;
}

int fopo_merge_pairs(fopo_pairs *all, const fopo_dataset *d, const uint32_t *users,
                     const uint32_t *items) {
  const fopo_csr *m = &d->matrix;
  const double *first = d->times.first, *last = d->times.last;
  int status = fopo_pairs_reserve(all, fopo_csr_nnz(m));
  for (size_t u = 0; u < m->rows && status == FOPO_OK; u++) {
    for (uint64_t e = m->indptr[u]; e < m->indptr[u + 1] && status == FOPO_OK; e++) {
      uint32_t item = items[m->ids[e]];
      status = fopo_pairs_add(all, users[u], item, m->values != NULL ? m->values[e] : 1.0f);
      if (status != FOPO_OK || !all->with_times) continue;
      all->time[all->n - 1] = first[e];
      if (last == NULL || last[e] == first[e]) continue;
      status = fopo_pairs_add(all, users[u], item, 0.0f);
      if (status == FOPO_OK) all->time[all->n - 1] = last[e];
    }
  }
  return status;
}

int fopo_merge_renumber(uint32_t *ids, const uint32_t *place, size_t n) {
  enum { POLL = 1 << 20 }; /* ids between two polls: about 2 ms */
  for (size_t from = 0; place != NULL && from < n; from += POLL) {
    size_t to = n - from < POLL ? n : from + POLL;
    for (size_t i = from; i < to; i++) ids[i] = place[ids[i]];
    int status = fopo_progress("ordering ids", (double)to, (double)n);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}
