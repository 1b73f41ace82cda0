/* The index of a name, in constant time: a hash table over the names of one side. */
#ifndef FOPO_DATA_LOOKUP_H
#define FOPO_DATA_LOOKUP_H

#include "data/names.h"

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
