/* The original ids of one side of a dataset or log (users, items, actions, feature columns), in the
 * order of its indices. */
#ifndef FOPO_DATA_NAMES_H
#define FOPO_DATA_NAMES_H

#include "core/npz.h"

/* Names are integers or texts: at most one of `numbers` and `text` is set. Both NULL: the name of
 * index i is i itself (ids kept as they stood, or made here). */
typedef struct {
  size_t n;
  int64_t *numbers;  /* [n] */
  char *text;        /* [offsets[n]] all names, one after the other, each ended by '\0' */
  uint64_t *offsets; /* [n + 1] into text */
} fopo_names;

void fopo_names_done(fopo_names *names); /* accepts {0} */

/* Writes the name of index i into buffer and returns it. */
const char *fopo_names_get(const fopo_names *names, size_t i, char *buffer, size_t size);

/* Index of a name given as text, or -1. Linear. */
int64_t fopo_names_find(const fopo_names *names, const char *name);

/* ---- making; *names is to be freed after a failure, too ---- */

/* The names 0 .. n - 1, as numbers. */
int fopo_names_count(fopo_names *names, size_t n);

/* *to = names first .. first + n - 1; of names that are indices, 0 .. n - 1. */
int fopo_names_copy(fopo_names *to, const fopo_names *from, size_t first, size_t n);

/* Appends a text. *capacity: bytes allocated for names->text, 0 at first. */
int fopo_names_append(fopo_names *names, size_t *capacity, const char *text, size_t n);

/* ---- members of a .npz: SIDE_numbers, or SIDE_text and SIDE_offsets ---- */

/* Describes the members to save, at most two; returns how many. 0 if every index is its own name.
 */
size_t fopo_names_members(fopo_array *out, const fopo_names *names, const char *side);

/* Reads back the n names of a side; *names stays {0} if the archive has none. Nothing is trusted:
 * sizes must fit n, and every text must be one C string of the length that its offsets say. */
int fopo_names_load(fopo_names *names, fopo_archive *archive, const char *path, const char *side,
                    size_t n);

/* ---- finding a name among many ---- */

/* The names must outlive it and stay unchanged. */
typedef struct {
  const fopo_names *names; /* not owned */
  uint32_t *slots;         /* [n_slots] 1 + index, 0: free; NULL if names are 0 .. n - 1 */
  size_t n_slots;          /* a power of two, at least twice the number of names */
} fopo_lookup;

int fopo_lookup_init(fopo_lookup *l, const fopo_names *names);
void fopo_lookup_done(fopo_lookup *l); /* accepts {0} */

/* The index of a name as text, or as an integer; -1 if there is none. Of equal names the first. */
int64_t fopo_lookup_text(const fopo_lookup *l, const char *text, size_t n);
int64_t fopo_lookup_number(const fopo_lookup *l, int64_t number);

/* 1 if both have the same names in the same order. */
int fopo_names_equal(const fopo_names *a, const fopo_names *b);

/* place [from->n]: the index in `to` of each name of `from`, FOPO_NO_NAME if `to` lacks it. */
#define FOPO_NO_NAME UINT32_MAX
int fopo_names_place(uint32_t *place, const fopo_names *from, const fopo_names *to);

/* The names most like `text`, best first, at most `most`: equal but for the case of ASCII letters,
 * then those that begin with it, that contain it, and that differ by a third of its letters or
 * less. *found: how many. For sentences; linear in the names. */
int fopo_names_near(uint32_t *near, size_t *found, size_t most, const fopo_names *names,
                    const char *text);

#endif
