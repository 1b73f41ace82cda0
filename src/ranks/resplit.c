#include "ranks/resplit.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "data/resplit.h"

static int check(const fopo_resplit_source *from, fopo_matrix given) {
  const fopo_sessions *s = from->sessions;
  if (s->all > 0 || !fopo_resplit_can(s)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "X and Y of these sessions %s; use resplit = false",
                     s->all > 0 ? "are shared out to the ranks, which do not divide them anew"
                                : "were not divided at random and have no order, so they are not "
                                  "drawn anew");
  }
  if (given.rows != s->X.rows || given.cols != from->items.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "contexts of %zu x %zu were not made of %zu sessions and items of dim %zu, so "
                     "they cannot be made anew; use resplit = false",
                     given.rows, given.cols, s->X.rows, from->items.cols);
  }
  uint64_t items = fopo_csr_nnz(&s->X) + fopo_csr_nnz(&s->Y), N = given.rows;
  return fopo_memory_suffices(4 * (N * given.cols + items * (s->at_random ? 1 : 2)) + 16 * N,
                              "drawing X and Y anew each epoch", "use resplit = false");
}

static void copy_lists(fopo_csr *to, const fopo_csr *from) {
  memcpy(to->indptr, from->indptr, (from->rows + 1) * sizeof *from->indptr);
  memcpy(to->ids, from->ids, fopo_csr_nnz(from) * sizeof *from->ids);
}

/* Epoch 0. */
static void take_given(fopo_resplit *r) {
  const fopo_sessions *s = r->from.sessions;
  copy_lists(&r->X, &s->X);
  copy_lists(&r->Y, &s->Y);
  for (size_t i = 0; i < r->x.rows; i++) {
    memcpy(fopo_matrix_row(r->x, i), fopo_matrix_row(r->given, i), r->x.cols * sizeof *r->x.x);
  }
}

int fopo_resplit_init(fopo_resplit *r, const fopo_resplit_source *from, fopo_matrix given) {
  const fopo_sessions *s = from->sessions;
  *r = (fopo_resplit){0};
  int status = check(from, given);
  if (status != FOPO_OK) return status;
  size_t N = s->X.rows, x = fopo_csr_nnz(&s->X), y = fopo_csr_nnz(&s->Y);
  *r = (fopo_resplit){.from = *from, .given = given, .room = s->at_random ? 0 : x + y};
  status = fopo_csr_init(&r->X, N, s->X.cols, r->room > 0 ? r->room : x, 0);
  if (status == FOPO_OK) {
    status = fopo_csr_init(&r->Y, N, s->Y.cols, r->room > 0 ? r->room : y, 0);
  }
  if (status == FOPO_OK) status = fopo_matrix_init(&r->x, given.rows, given.cols);
  if (status == FOPO_OK) {
    take_given(r);
  } else {
    fopo_resplit_done(r);
  }
  return status;
}

void fopo_resplit_done(fopo_resplit *r) {
  fopo_csr_done(&r->X);
  fopo_csr_done(&r->Y);
  fopo_matrix_done(&r->x);
  *r = (fopo_resplit){0};
}

int fopo_resplit_make(fopo_resplit *r, uint64_t seed, uint32_t epoch) {
  const fopo_resplit_source *from = &r->from;
  int status = FOPO_OK;
  r->epoch = UINT64_MAX;
  if (epoch == 0) {
    take_given(r);
  } else {
    fopo_resplit_draw(&r->X, &r->Y, from->sessions, seed, epoch);
    fopo_sessions drawn = {.X = r->X, .Y = r->Y};
    status = from->shard != NULL ? fopo_shard_contexts(r->x, &drawn, from->shard, from->how)
                                 : fopo_encode(r->x, from->how, &r->X, from->items);
  }
  if (status == FOPO_OK) r->epoch = epoch;
  return status;
}
