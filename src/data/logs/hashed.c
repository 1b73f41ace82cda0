/* Hashing is FNV-1a with the finaliser of splitmix64, which mixes its low bits. */
#include "data/logs/hashed.h"

#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/status.h"

static uint64_t hash(uint64_t h, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
  return h;
}

void fopo_feature_add(float *row, size_t bits, const char *space, size_t space_n, const char *name,
                      size_t name_n, double value) {
  uint64_t h = hash(0xcbf29ce484222325u, space, space_n);
  h = fopo_hash_mix(hash(hash(h, "^", 1), name, name_n));
  size_t column = (size_t)(h & (((uint64_t)1 << bits) - 1));
  row[column] += (float)(h >> 63 ? -value : value);
}

void fopo_catalogue_done(fopo_catalogue *c) {
  fopo_ids_done(&c->ids);
  fopo_free(c->items);
  fopo_free(c->offered);
  *c = (fopo_catalogue){.bits = c->bits};
}

void fopo_catalogue_reset(fopo_catalogue *c) { fopo_ids_done(&c->ids); }

/* Capacity for one more action. */
static int reserve(fopo_catalogue *c) {
  size_t n = c->ids.n;
  if (n < c->capacity) return FOPO_OK;
  size_t capacity = n == 0 ? 16 : 2 * n;
  int status = fopo_memory_suffices((uint64_t)capacity << (c->bits + 2),
                                    "the features of the actions", "use fewer hash_bits");
  if (status != FOPO_OK) return status;
  status = fopo_resize(&c->items, capacity, sizeof *c->items << c->bits);
  if (status == FOPO_OK) status = fopo_resize(&c->offered, capacity, sizeof *c->offered);
  if (status == FOPO_OK) c->capacity = capacity;
  return status;
}

int fopo_catalogue_offer(fopo_catalogue *c, uint32_t *index, fopo_offer *offer, size_t event,
                         const char *text, size_t n) {
  size_t known = c->ids.n;
  int status = c->size == 0 ? reserve(c) : FOPO_OK;
  if (status == FOPO_OK) status = fopo_ids_add(&c->ids, index, text, n);
  if (status != FOPO_OK) return status;
  if (c->size > 0 && *index >= c->size) {
    *offer = FOPO_ACTION_FOREIGN;
    return FOPO_OK;
  }
  *offer = *index >= known               ? FOPO_ACTION_NEW
           : c->offered[*index] == event ? FOPO_ACTION_TWICE
                                         : FOPO_ACTION_KNOWN;
  if (*offer == FOPO_ACTION_NEW) {
    memset(fopo_catalogue_row(c, *index), 0, sizeof *c->items << c->bits);
  }
  c->offered[*index] = (uint32_t)event;
  return FOPO_OK;
}
