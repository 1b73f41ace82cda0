/* An index is given when an id first appears, so pairs can be stored as two 32-bit indices at once.
 * What is found out later (one id is text; integers should ascend) changes the names and their
 * order, never an index.
 *
 * Small integers are looked up in a direct table, large ones and texts in a hash table with linear
 * probing, at most half full. */
#include "data/ids.h"

#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

enum {
  DIRECT_ALWAYS = 1 << 16, /* integers below this are always looked up directly */
  DIRECT_PER_ID = 8,       /* the direct table has at most so many more entries per known id */
  LATEST = 32,             /* ids by which it is judged whether most will be in that table */
  FIRST_CAPACITY = 1024
};

void fopo_ids_done(fopo_ids *ids) {
  fopo_free(ids->numbers);
  fopo_free(ids->direct);
  fopo_free(ids->slots);
  fopo_free(ids->text);
  fopo_free(ids->offsets);
  fopo_free(ids->hashes);
  *ids = (fopo_ids){0};
}

/* ---- hashing ---- */

static uint32_t hash_text(const char *text, size_t n) {
  return (uint32_t)(fopo_hash_text(text, n) >> 32);
}

static uint32_t hash_of(const fopo_ids *ids, size_t i) {
  return ids->is_text ? ids->hashes[i] : (uint32_t)(fopo_hash_mix((uint64_t)ids->numbers[i]) >> 32);
}

static void place_slot(fopo_ids *ids, uint32_t hash, uint32_t index) {
  size_t mask = ids->slot_n - 1, at = hash & mask;
  while (ids->slots[at] != 0) at = (at + 1) & mask;
  ids->slots[at] = index + 1;
  ids->slots_used++;
}

/* Doubles the hash table and places every id again that is not in the direct table. */
static int grow_slots(fopo_ids *ids) {
  size_t n = ids->slot_n == 0 ? 2 * FIRST_CAPACITY : 2 * ids->slot_n;
  uint32_t *slots = fopo_alloc(n, sizeof *slots);
  if (slots == NULL) return FOPO_ERR_MEMORY;
  fopo_free(ids->slots);
  ids->slots = slots;
  ids->slot_n = n;
  ids->slots_used = 0;
  for (size_t i = 0; i < ids->n; i++) {
    if (ids->is_text || (uint64_t)ids->numbers[i] >= ids->direct_n) {
      place_slot(ids, hash_of(ids, i), (uint32_t)i);
    }
  }
  return FOPO_OK;
}

/* Capacity for one more slot. */
static int reserve_slot(fopo_ids *ids) {
  return 2 * (ids->slots_used + 1) > ids->slot_n ? grow_slots(ids) : FOPO_OK;
}

/* ---- integers ---- */

/* Capacity for one more id in the arrays with one entry per id. */
static int reserve_name(fopo_ids *ids) {
  if (ids->n >= UINT32_MAX - 1) {
    return fopo_fail(FOPO_ERR_FORMAT, "there are more than %u different ids", UINT32_MAX - 1);
  }
  if (ids->n < ids->capacity) return FOPO_OK;
  size_t capacity = ids->capacity == 0 ? FIRST_CAPACITY : 2 * ids->capacity;
  int status;
  if (ids->is_text) {
    status = fopo_resize(&ids->offsets, capacity + 1, sizeof *ids->offsets);
    if (status == FOPO_OK) status = fopo_resize(&ids->hashes, capacity, sizeof *ids->hashes);
  } else {
    status = fopo_resize(&ids->numbers, capacity, sizeof *ids->numbers);
  }
  if (status == FOPO_OK) ids->capacity = capacity;
  return status;
}

/* Extends the direct table to `number` if that is worth its memory, which a small number among
 * large ones is not. Ids that were hashed before are
 * entered; their slots remain and are no longer looked up. */
static int cover(fopo_ids *ids, int64_t number) {
  uint64_t wanted = (uint64_t)number + 1;
  size_t latest = ids->n < LATEST ? ids->n : LATEST, inside = 0;
  if (number < 0 || wanted <= ids->direct_n ||
      wanted > DIRECT_ALWAYS + (uint64_t)DIRECT_PER_ID * ids->n) {
    return FOPO_OK;
  }
  for (size_t i = 1; i <= latest; i++) inside += (uint64_t)ids->numbers[ids->n - i] < wanted;
  if (wanted > DIRECT_ALWAYS && 2 * inside < latest) return FOPO_OK;
  size_t n = ids->direct_n == 0 ? DIRECT_ALWAYS : 2 * ids->direct_n;
  if (n < wanted) n = (size_t)wanted;
  if (fopo_resize(&ids->direct, n, sizeof *ids->direct) != FOPO_OK) return FOPO_ERR_MEMORY;
  ids->direct_n = n;
  for (size_t i = 0; i < ids->n; i++) {
    if ((uint64_t)ids->numbers[i] < n) ids->direct[ids->numbers[i]] = (uint32_t)i + 1;
  }
  return FOPO_OK;
}

static int find_number(const fopo_ids *ids, uint32_t *index, int64_t number) {
  if (ids->slot_n == 0) return 0;
  size_t mask = ids->slot_n - 1;
  for (size_t at = (size_t)(fopo_hash_mix((uint64_t)number) >> 32) & mask; ids->slots[at] != 0;
       at = (at + 1) & mask) {
    *index = ids->slots[at] - 1;
    if (ids->numbers[*index] == number) return 1;
  }
  return 0;
}

int fopo_ids_add_number(fopo_ids *ids, uint32_t *index, int64_t number) {
  if (ids->is_text) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return fopo_ids_add(ids, index, digits, (size_t)n);
  }
  int is_direct = (uint64_t)number < ids->direct_n;
  if (!is_direct && find_number(ids, index, number)) return FOPO_OK;
  int status = reserve_name(ids);
  if (status == FOPO_OK && !is_direct) status = cover(ids, number);
  if (status != FOPO_OK) return status;
  is_direct = (uint64_t)number < ids->direct_n;
  if (!is_direct && (status = reserve_slot(ids)) != FOPO_OK) return status;
  *index = (uint32_t)ids->n;
  ids->numbers[ids->n++] = number;
  if (is_direct) {
    ids->direct[number] = *index + 1;
  } else {
    place_slot(ids, hash_of(ids, *index), *index);
  }
  return FOPO_OK;
}

/* ---- text ---- */

/* A text that is not among the ids yet; capacity for it in the other arrays is there. */
static int append(fopo_ids *ids, const char *name, size_t n, uint32_t hash) {
  if (ids->text_n + n + 1 > ids->text_capacity) {
    size_t capacity = 2 * (ids->text_capacity + n + FIRST_CAPACITY);
    int status = fopo_memory_suffices(capacity, "the ids read so far", "use fewer or shorter ids");
    if (status != FOPO_OK) return status;
    if (fopo_resize(&ids->text, capacity, 1) != FOPO_OK) return FOPO_ERR_MEMORY;
    ids->text_capacity = capacity;
  }
  memcpy(ids->text + ids->text_n, name, n);
  ids->text[ids->text_n + n] = '\0';
  ids->text_n += n + 1;
  ids->hashes[ids->n] = hash;
  ids->offsets[++ids->n] = ids->text_n;
  return FOPO_OK;
}

int fopo_ids_become_text(fopo_ids *ids) {
  fopo_ids text = {.is_text = 1};
  int status = FOPO_OK;
  if (ids->is_text) return status;
  for (size_t i = 0; i < ids->n && status == FOPO_OK; i++) {
    char digits[24];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)ids->numbers[i]);
    status = reserve_name(&text);
    if (status == FOPO_OK) status = append(&text, digits, n, hash_text(digits, n));
  }
  /* All ids are placed at once, so the table is made large enough for them before. */
  for (text.slot_n = FIRST_CAPACITY; text.slot_n < text.n;) text.slot_n *= 2;
  if (status == FOPO_OK) status = grow_slots(&text);
  if (status != FOPO_OK) {
    fopo_ids_done(&text);
    return status;
  }
  fopo_ids_done(ids);
  *ids = text;
  return FOPO_OK;
}

/* The index of a text whose hash is known, when all ids are texts. */
static int add_text(fopo_ids *ids, uint32_t *index, const char *name, size_t n, uint32_t hash) {
  int status = reserve_slot(ids);
  if (status != FOPO_OK) return status;
  size_t mask = ids->slot_n - 1;
  for (size_t at = hash & mask; ids->slots[at] != 0; at = (at + 1) & mask) {
    uint32_t i = ids->slots[at] - 1;
    if (ids->hashes[i] == hash && ids->offsets[i + 1] - ids->offsets[i] == n + 1 &&
        memcmp(ids->text + ids->offsets[i], name, n) == 0) {
      *index = i;
      return FOPO_OK;
    }
  }
  status = reserve_name(ids);
  if (status == FOPO_OK) status = append(ids, name, n, hash);
  if (status != FOPO_OK) return status;
  *index = (uint32_t)(ids->n - 1);
  place_slot(ids, hash, *index);
  return FOPO_OK;
}

int fopo_ids_add(fopo_ids *ids, uint32_t *index, const char *name, size_t n) {
  int status = fopo_ids_become_text(ids);
  return status == FOPO_OK ? add_text(ids, index, name, n, hash_text(name, n)) : status;
}

/* ---- many at once ---- */

enum { GROUP = 32 }; /* ids that are prefetched together */

/* Prefetches what the lookups of n ids will read, in three rounds: the slot of each, then the entry
 * that the slot names, then its text. The data of a round has arrived when the next one needs it.
 */
static void prefetch(const fopo_ids *ids, const uint32_t *hashes, size_t n) {
  uint32_t found[GROUP];
  if (ids->slot_n == 0) return;
  size_t mask = ids->slot_n - 1;
  for (size_t i = 0; i < n; i++) __builtin_prefetch(&ids->slots[hashes[i] & mask]);
  for (size_t i = 0; i < n; i++) {
    found[i] = ids->slots[hashes[i] & mask];
    if (found[i]-- == 0) found[i] = 0;
    if (ids->is_text) {
      __builtin_prefetch(&ids->hashes[found[i]]);
      __builtin_prefetch(&ids->offsets[found[i]]);
    } else {
      __builtin_prefetch(&ids->numbers[found[i]]);
    }
  }
  for (size_t i = 0; i < n && ids->is_text; i++) {
    __builtin_prefetch(ids->text + ids->offsets[found[i]]);
  }
}

int fopo_ids_add_all(fopo_ids *ids, uint32_t *index, const int64_t *numbers,
                     const uint32_t *lengths, const char *text, size_t n) {
  int status = FOPO_OK;
  for (size_t from = 0; from < n; from += GROUP) {
    size_t end = n - from < GROUP ? n : from + GROUP;
    uint32_t hashes[GROUP];
    for (size_t i = from; i < end; i++) {
      hashes[i - from] = lengths[i] > 0 ? hash_text(text + numbers[i], lengths[i])
                                        : (uint32_t)(fopo_hash_mix((uint64_t)numbers[i]) >> 32);
    }
    if (ids->n > 0) prefetch(ids, hashes, end - from);
    for (size_t i = from; i < end && status == FOPO_OK; i++) {
      if (lengths[i] == 0) {
        status = fopo_ids_number(ids, &index[i], numbers[i]);
      } else {
        status = fopo_ids_become_text(ids);
        if (status == FOPO_OK) {
          status = add_text(ids, &index[i], text + numbers[i], lengths[i], hashes[i - from]);
        }
      }
    }
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* ---- names ---- */

static int ascending(const int64_t *numbers, size_t n) {
  for (size_t i = 1; i < n; i++) {
    if (numbers[i - 1] >= numbers[i]) return 0;
  }
  return 1;
}

/* order [n]: the indices of the numbers in ascending order. Radix sort by 16 bits, least
 * significant first; the sign bit is flipped so that negative numbers come first. */
static int sort_numbers(uint32_t *order, const int64_t *numbers, size_t n) {
  uint32_t *other = fopo_alloc(n, sizeof *other);
  size_t *start = fopo_alloc(65537, sizeof *start);
  int status = other != NULL && start != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  uint64_t all = 0;
  for (size_t i = 0; i < n; i++) {
    order[i] = (uint32_t)i;
    all |= (uint64_t)numbers[i] ^ (uint64_t)numbers[0];
  }
  for (int shift = 0; shift < 64 && status == FOPO_OK; shift += 16) {
    if ((all >> shift & 0xffff) == 0) continue; /* these bits are equal in all numbers */
    status = fopo_progress("sorting ids", shift, 64);
    if (status != FOPO_OK) break;
    uint64_t sign = shift == 48 ? 0x8000 : 0;
    memset(start, 0, 65537 * sizeof *start);
    for (size_t i = 0; i < n; i++) start[(((uint64_t)numbers[i] >> shift & 0xffff) ^ sign) + 1]++;
    for (size_t i = 0; i < 65536; i++) start[i + 1] += start[i];
    for (size_t i = 0; i < n; i++) {
      other[start[((uint64_t)numbers[order[i]] >> shift & 0xffff) ^ sign]++] = order[i];
    }
    memcpy(order, other, n * sizeof *order);
  }
  if (status == FOPO_OK) status = fopo_progress("sorting ids", 64, 64);
  fopo_free(start);
  fopo_free(other);
  return status;
}

/* Sorts the numbers; (*place)[i] is where number i went. */
static int arrange(int64_t *numbers, uint32_t **place, size_t n) {
  uint32_t *order = fopo_alloc(n, sizeof *order);
  int64_t *sorted = fopo_alloc(n, sizeof *sorted);
  *place = fopo_alloc(n, sizeof **place);
  int status = order != NULL && sorted != NULL && *place != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = sort_numbers(order, numbers, n);
  if (status == FOPO_OK) {
    for (size_t i = 0; i < n; i++) {
      (*place)[order[i]] = (uint32_t)i;
      sorted[i] = numbers[order[i]];
    }
    memcpy(numbers, sorted, n * sizeof *numbers);
  } else {
    fopo_free(*place);
    *place = NULL;
  }
  fopo_free(order);
  fopo_free(sorted);
  return status;
}

void fopo_ids_move(fopo_names *names, fopo_ids *ids) {
  *names = (fopo_names){.n = ids->n};
  if (ids->is_text) {
    names->text = ids->text;
    names->offsets = ids->offsets;
    ids->text = NULL;
    ids->offsets = NULL;
  } else {
    names->numbers = ids->numbers;
    ids->numbers = NULL;
  }
}

void fopo_ids_close(fopo_ids *ids) {
  fopo_free(ids->direct);
  fopo_free(ids->slots);
  fopo_free(ids->hashes);
  ids->direct = ids->slots = ids->hashes = NULL;
  ids->direct_n = ids->slot_n = 0;
}

int fopo_ids_finish(fopo_names *names, uint32_t **place, fopo_ids *ids) {
  *place = NULL;
  *names = (fopo_names){.n = ids->n};
  fopo_ids_close(ids);
  if (ids->is_text) {
    fopo_ids_move(names, ids);
    return FOPO_OK;
  }
  if (!ascending(ids->numbers, ids->n)) {
    int status = arrange(ids->numbers, place, ids->n);
    if (status != FOPO_OK) return status;
  }
  if (ids->n == 0 || (ids->numbers[0] == 0 && ids->numbers[ids->n - 1] == (int64_t)ids->n - 1)) {
    return FOPO_OK; /* 0 .. n - 1: each id is its own index */
  }
  fopo_ids_move(names, ids);
  return FOPO_OK;
}
