/* Ids of one side (users, items, actions) to dense indices, in one pass over a file.
 *
 * Indices are given in order of first appearance. Ids are integers until one comes that is no plain
 * integer (data/number.h); then all become text, and indices given before stay valid. */
#ifndef FOPO_DATA_IDS_H
#define FOPO_DATA_IDS_H

#include "core/status.h"
#include "data/names.h"

/* Start from {0}. All fields are private but n, is_text, numbers, text and offsets, which may be
 * read. */
typedef struct {
  size_t n; /* different ids so far */
  size_t capacity;
  int is_text;
  int64_t *numbers; /* [n] while they are integers */
  char *text;       /* [text_n] names, each ended by '\0' */
  size_t text_n, text_capacity;
  uint64_t *offsets; /* [n + 1] into text */
  uint32_t *hashes;  /* [n] of the texts */
  /* lookup */
  uint32_t *direct; /* [direct_n] 1 + index of the small integer i; 0: none */
  size_t direct_n;
  uint32_t
      *slots; /* [slot_n] hash table, open addressing: 1 + index of a large integer or a text */
  size_t slot_n, slots_used;
} fopo_ids;

void fopo_ids_done(fopo_ids *ids); /* accepts {0} */

/* The index of an id; an unknown one gets the next. FOPO_ERR_FORMAT beyond 2^32 - 2 ids. */
int fopo_ids_add(fopo_ids *ids, uint32_t *index, const char *name, size_t n);
int fopo_ids_add_number(fopo_ids *ids, uint32_t *index, int64_t number);

/* fopo_ids_add_number; inline for small integers that are known. */
static inline int fopo_ids_number(fopo_ids *ids, uint32_t *index, int64_t number) {
  if ((uint64_t)number < ids->direct_n && ids->direct[number] != 0) {
    *index = ids->direct[number] - 1;
    return FOPO_OK;
  }
  return fopo_ids_add_number(ids, index, number);
}

/* index [n] of n ids, added in their order: id i is the text of lengths[i] bytes at
 * text + numbers[i], or the integer numbers[i] if lengths[i] is 0. Faster than one by one: the
 * lookups of 32 ids are prefetched together. */
int fopo_ids_add_all(fopo_ids *ids, uint32_t *index, const int64_t *numbers,
                     const uint32_t *lengths, const char *text, size_t n);

/* The integers so far become texts, their digits; their indices stay. */
int fopo_ids_become_text(fopo_ids *ids);

/* No more ids are added: frees what they are looked up by. */
void fopo_ids_close(fopo_ids *ids);

/* Moves the names out, integers in ascending order. *place: fresh [n], to be freed; the id with
 * index i is name (*place)[i]. NULL if all indices stay. Integers 0 .. n - 1 need no names. */
int fopo_ids_finish(fopo_names *names, uint32_t **place, fopo_ids *ids);

/* Moves the names out in order of appearance. */
void fopo_ids_move(fopo_names *names, fopo_ids *ids);

#endif
