#include "data/merge.h"

#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"

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

/* ---- files for train, valid and test ---- */

/* Names of all files get indices in the order in which they are met (data/ids.h), the pairs are
 * built anew with these, and then every pair is looked up in the files. */

enum { PARTS = 3 };

/* The index in the joined dataset of each user or item of a part. */
typedef struct {
  uint32_t *of[PARTS];
  fopo_names names;
} side;

static void side_done(side *s) {
  for (int p = 0; p < PARTS; p++) fopo_free(s->of[p]);
  fopo_names_done(&s->names);
}

static const fopo_names *names_of(const fopo_dataset *d, int items) {
  return items ? &d->items : &d->users;
}

/* Names that are all their own index need not be kept. */
static void drop_plain_names(fopo_names *names) {
  if (names->numbers == NULL) return;
  for (size_t i = 0; i < names->n; i++) {
    if (names->numbers[i] != (int64_t)i) return;
  }
  fopo_free(names->numbers);
  names->numbers = NULL;
}

static int add_names(side *s, fopo_ids *ids, const fopo_names *names, int part) {
  s->of[part] = fopo_alloc(names->n, sizeof *s->of[part]);
  if (s->of[part] == NULL) return FOPO_ERR_MEMORY;
  return fopo_merge_names(ids, s->of[part], names);
}

static int match_side(side *s, const fopo_dataset *const parts[PARTS], int items) {
  fopo_ids ids = {0};
  int status = FOPO_OK;
  for (int p = 0; p < PARTS && status == FOPO_OK; p++) {
    if (parts[p] != NULL) status = add_names(s, &ids, names_of(parts[p], items), p);
  }
  if (status == FOPO_OK) fopo_ids_move(&s->names, &ids);
  drop_plain_names(&s->names);
  fopo_ids_done(&ids);
  return status;
}

static int build(fopo_dataset *d, const fopo_dataset *const parts[PARTS], const side *users,
                 const side *items) {
  fopo_pairs all = {.with_times = 1};
  size_t entries = 0;
  int status = FOPO_OK;
  for (int p = 0; p < PARTS; p++) {
    if (parts[p] == NULL) continue;
    all.with_values |= fopo_merge_needs_values(parts[p]);
    all.with_times &= parts[p]->times.first != NULL;
    entries += fopo_csr_nnz(&parts[p]->matrix);
  }
  for (int p = 0; p < PARTS && status == FOPO_OK; p++) {
    if (parts[p] != NULL) status = fopo_merge_pairs(&all, parts[p], users->of[p], items->of[p]);
  }
  if (status == FOPO_OK) {
    status = fopo_pairs_build(d, &all, users->names.n, items->names.n, "the given datasets");
  }
  if (status == FOPO_OK) {
    d->rows_read = entries;
    d->repeats = entries - fopo_csr_nnz(&d->matrix);
  }
  fopo_pairs_done(&all);
  return status;
}

/* The entry of a pair that is in the matrix. */
static uint64_t find_entry(const fopo_csr *m, uint32_t user, uint32_t item) {
  return m->indptr[user] + fopo_sorted_place(fopo_csr_row(m, user), fopo_csr_count(m, user), item);
}

static int set_windows(fopo_joined *j, const fopo_dataset *const parts[PARTS], const side *users,
                       const side *items) {
  const fopo_csr *all = &j->dataset->matrix;
  j->windows = fopo_alloc(fopo_csr_nnz(all), sizeof *j->windows);
  if (j->windows == NULL) return FOPO_ERR_MEMORY;
  for (int p = 0; p < PARTS; p++) {
    if (parts[p] == NULL) continue;
    const fopo_csr *m = &parts[p]->matrix;
    for (size_t u = 0; u < m->rows; u++) {
      int status =
          u % 4096 == 0 ? fopo_progress("matching files", (double)u, (double)m->rows) : FOPO_OK;
      if (status != FOPO_OK) return status;
      for (uint64_t e = m->indptr[u]; e < m->indptr[u + 1]; e++) {
        uint64_t entry = find_entry(all, users->of[p][u], items->of[p][m->ids[e]]);
        j->windows[entry] |= (uint8_t)(1 << p);
      }
    }
  }
  return fopo_progress("matching files", 1, 1);
}

/* in [n]: the bits of the files in which each user or item has interactions. */
static void count_new(size_t count[PARTS], const uint8_t *in, size_t n) {
  for (int p = 1; p < PARTS; p++) {
    for (size_t i = 0; i < n; i++) count[p] += (in[i] & 1) == 0 && (in[i] >> p & 1) != 0;
  }
}

static int count_all_new(fopo_joined *j) {
  const fopo_csr *m = &j->dataset->matrix;
  uint8_t *user = fopo_alloc(m->rows, sizeof *user), *item = fopo_alloc(m->cols, sizeof *item);
  int status = user != NULL && item != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  for (size_t u = 0; u < m->rows && status == FOPO_OK; u++) {
    for (uint64_t e = m->indptr[u]; e < m->indptr[u + 1]; e++) {
      user[u] |= j->windows[e];
      item[m->ids[e]] |= j->windows[e];
    }
  }
  if (status == FOPO_OK) {
    count_new(j->new_users, user, m->rows);
    count_new(j->new_items, item, m->cols);
  }
  fopo_free(user);
  fopo_free(item);
  return status;
}

int fopo_dataset_join(fopo_joined *joined, const fopo_dataset *const parts[PARTS]) {
  side users = {0}, items = {0};
  *joined = (fopo_joined){.dataset = fopo_alloc(1, sizeof *joined->dataset)};
  if (joined->dataset == NULL) return FOPO_ERR_MEMORY;
  strcpy(joined->dataset->format, "joined");
  int status = match_side(&users, parts, 0);
  if (status == FOPO_OK) status = match_side(&items, parts, 1);
  if (status == FOPO_OK) status = build(joined->dataset, parts, &users, &items);
  if (status == FOPO_OK) status = set_windows(joined, parts, &users, &items);
  if (status == FOPO_OK) status = count_all_new(joined);
  if (status == FOPO_OK) {
    joined->dataset->users = users.names;
    joined->dataset->items = items.names;
    users.names = items.names = (fopo_names){0};
  } else {
    fopo_joined_done(joined);
  }
  side_done(&users);
  side_done(&items);
  return status;
}

void fopo_joined_done(fopo_joined *joined) {
  fopo_dataset_free(joined->dataset);
  fopo_free(joined->windows);
  *joined = (fopo_joined){0};
}
