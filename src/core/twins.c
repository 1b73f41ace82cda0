/* Items are ordered by a hash of their users, and compared with the one before. Two lists of one
 * hash may separate some twins, which are then computed twice. */
#include "core/twins.h"

#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/sort.h"
#include "core/status.h"

static uint64_t hash_of(const uint32_t *users, size_t n) {
  uint64_t h = n;
  for (size_t i = 0; i < n; i++) h = fopo_hash_mix(h ^ users[i]);
  return h;
}

static int are_same(const fopo_csr *users, size_t a, size_t b) {
  size_t n = fopo_csr_count(users, a);
  return n == fopo_csr_count(users, b) &&
         memcmp(fopo_csr_row(users, a), fopo_csr_row(users, b), n * sizeof(uint32_t)) == 0;
}

int fopo_twins_find(fopo_twins *t, const fopo_csr *users) {
  size_t P = users->rows;
  *t = (fopo_twins){fopo_alloc(P, sizeof(uint32_t)), fopo_alloc(P, sizeof(uint32_t))};
  uint64_t *keys = fopo_alloc(P, sizeof *keys);
  int status = t->first && t->next && keys ? FOPO_OK : FOPO_ERR_MEMORY;
  for (uint32_t a = 0; status == FOPO_OK && a < P; a++) {
    uint64_t h = hash_of(fopo_csr_row(users, a), fopo_csr_count(users, a));
    keys[a] = (h & ~(uint64_t)UINT32_MAX) | (uint32_t)~a;
  }
  if (status == FOPO_OK) fopo_sort_keys(keys, P); /* by equal hashes ids ascend */
  for (size_t i = 0; status == FOPO_OK && i < P; i++) {
    uint32_t a = ~(uint32_t)keys[i], before = i > 0 ? ~(uint32_t)keys[i - 1] : a;
    int is_twin = before < a && are_same(users, before, a);
    t->first[a] = is_twin ? t->first[before] : a;
    if (is_twin) t->next[before] = a;
  }
  fopo_free(keys);
  return status;
}

void fopo_twins_done(fopo_twins *t) {
  fopo_free(t->first);
  fopo_free(t->next);
  *t = (fopo_twins){0};
}
