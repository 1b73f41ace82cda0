/* Sessions made by hand from a seed: each has 2 to 13 items, floor(n / 2) of them in X. */
#ifndef FOPO_TESTS_SMALL_SESSIONS_H
#define FOPO_TESTS_SMALL_SESSIONS_H

#include "checks.h"
#include "core/memory.h"
#include "core/rng.h"
#include "data/sessions.h"

static inline void small_sessions_init(fopo_sessions *s, size_t N, size_t P, uint64_t seed) {
  size_t most = N * 13, n[2] = {0}, repeats;
  uint32_t *row[2], *col[2], *order = fopo_alloc(P, sizeof *order);
  for (int side = 0; side < 2; side++) {
    row[side] = fopo_alloc(most, sizeof **row);
    col[side] = fopo_alloc(most, sizeof **col);
  }
  for (uint32_t i = 0; i < N; i++) {
    uint32_t count = 2 + fopo_random(seed, FOPO_STREAM_WORLD, 9, i, 0).v[0] % 12;
    fopo_shuffle(order, (uint32_t)P, seed, FOPO_STREAM_WORLD, 10 + i);
    for (uint32_t k = 0; k < count; k++) {
      int side = k >= count / 2;
      row[side][n[side]] = i;
      col[side][n[side]++] = order[k];
    }
  }
  *s = (fopo_sessions){.at_random = 1};
  ok(fopo_csr_from_pairs(&s->X, row[0], col[0], NULL, n[0], N, P, &repeats));
  ok(fopo_csr_from_pairs(&s->Y, row[1], col[1], NULL, n[1], N, P, &repeats));
  for (int side = 0; side < 2; side++) {
    fopo_free(row[side]);
    fopo_free(col[side]);
  }
  fopo_free(order);
}

#endif
