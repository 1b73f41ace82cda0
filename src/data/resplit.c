/* Selection sampling (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S): the items of a
 * session are read in ascending order, and each goes to X with the probability m / n, n items being
 * left and m places of X. So ids stay in order, and no scratch is needed.
 *
 * Randomness: FOPO_STREAM_RESPLIT, step = the epoch, row = the context, index = the item's place in
 * the session, or 0 for where it is cut; one word each. Each row is written by one thread. */
#include "data/resplit.h"

#include <string.h>

#include "core/rng.h"
#include "core/sort.h"
#include "core/threads.h"

static void draw_row(uint32_t *X, uint32_t *Y, const fopo_sessions *s, size_t row, uint64_t seed,
                     uint32_t epoch) {
  const uint32_t *x = fopo_csr_row(&s->X, row), *x_end = x + fopo_csr_count(&s->X, row);
  const uint32_t *y = fopo_csr_row(&s->Y, row), *y_end = y + fopo_csr_count(&s->Y, row);
  uint32_t m = (uint32_t)(x_end - x), n = m + (uint32_t)(y_end - y);
  fopo_words words = {{0}};
  for (uint32_t k = 0; k < n; k++) {
    uint32_t id = y == y_end || (x < x_end && *x < *y) ? *x++ : *y++;
    if (k % 4 == 0) words = fopo_random(seed, FOPO_STREAM_RESPLIT, epoch, (uint32_t)row, k / 4);
    if (fopo_below(n - k, words.v[k % 4], seed, epoch, (uint32_t)row, k) < m) {
      *X++ = id;
      m--;
    } else {
      *Y++ = id;
    }
  }
}

static void cut_rows(fopo_csr *X, fopo_csr *Y, const fopo_sessions *s, uint64_t seed,
                     uint32_t epoch) {
  for (size_t row = 0; row < s->X.rows; row++) {
    size_t y = fopo_csr_count(&s->Y, row);
    uint32_t word = fopo_random(seed, FOPO_STREAM_RESPLIT, epoch, (uint32_t)row, 0).v[0];
    size_t more = fopo_below((uint32_t)y, word, seed, epoch, (uint32_t)row, 0);
    X->indptr[row + 1] = X->indptr[row] + fopo_csr_count(&s->X, row) + more;
    Y->indptr[row + 1] = Y->indptr[row] + y - more;
  }
}

static void take_items(fopo_csr *to, size_t row, const uint32_t *ids) {
  size_t n = fopo_csr_count(to, row);
  memcpy(to->ids + to->indptr[row], ids, n * sizeof *ids);
  fopo_sort_u32(to->ids + to->indptr[row], n);
}

void fopo_resplit_draw(fopo_csr *X, fopo_csr *Y, const fopo_sessions *s, uint64_t seed,
                       uint32_t epoch) {
  if (!s->at_random) cut_rows(X, Y, s, seed, epoch);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 256)
  for (size_t row = 0; row < s->X.rows; row++) {
    if (s->at_random) {
      draw_row(X->ids + X->indptr[row], Y->ids + Y->indptr[row], s, row, seed, epoch);
    } else {
      const uint32_t *ids = s->order + s->X.indptr[row] + s->Y.indptr[row];
      take_items(X, row, ids);
      take_items(Y, row, ids + fopo_csr_count(X, row));
    }
  }
}
