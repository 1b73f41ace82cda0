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

int fopo_names_copy(fopo_names *to, const fopo_names *from);

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

#endif
