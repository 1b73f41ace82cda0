/* Selection sampling (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S): the items of a
 * session are read in ascending order, and each goes to X with the probability m / n, n items being
 * left and m places of X. So ids stay in order, and no scratch is needed.
 *
 * Randomness: FOPO_STREAM_RESPLIT, step = the epoch, row = the context, index = the item's place in
 * the session; one word each. Each row is written by one thread. */
#include "data/resplit.h"

#include "core/rng.h"
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

void fopo_resplit_draw(fopo_csr *X, fopo_csr *Y, const fopo_sessions *s, uint64_t seed,
                       uint32_t epoch) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 256)
  for (size_t row = 0; row < s->X.rows; row++) {
    draw_row(X->ids + X->indptr[row], Y->ids + Y->indptr[row], s, row, seed, epoch);
  }
}
