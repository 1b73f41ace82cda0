/* Pairs that wait on disk until all are read, so that memory holds a part of them at a time: the
 * parts of several processes (ranks/read.h), one after the other.
 *
 * Every block of rows becomes a piece of a file. When all names are known, each piece is put in the
 * order of ranges of the users, in its place; then a part, some neighbouring ranges, is read from
 * all pieces and sorted, and its rows are added to files of the matrix's arrays, which it is read
 * from (fopo_map_file). The files have no names, so they are gone when the process ends, however
 * that is. */
#ifndef FOPO_DATA_SPILL_H
#define FOPO_DATA_SPILL_H

#include "data/pairs.h"

enum { FOPO_SPILL_PARTS = 1024 }; /* at most */

typedef struct fopo_spill fopo_spill;

/* A file in $TMPDIR, in /var/tmp if that is not set, or, of fopo --safe, in the current folder. */
int fopo_spill_new(fopo_spill **spill, size_t parts);
void fopo_spill_free(fopo_spill *s); /* accepts NULL */

/* Moves the pairs to the file. */
int fopo_spill_add(fopo_spill *s, fopo_pairs *p);

/* The pairs on disk and in the arrays. */
size_t fopo_spill_n(const fopo_pairs *p);

/* fopo_pairs_check_more of pairs that may have a file, whose disk must suffice, too. */
int fopo_spill_check_more(const char *path, double rows, const fopo_pairs *p);

/* Users and items i become user_place[i] and item_place[i], NULL: they stay; of `users` users. */
int fopo_spill_arrange(fopo_spill *s, const uint32_t *user_place, const uint32_t *item_place,
                       size_t users);

/* fopo_pairs_build of the pairs in the file, after arrange. */
int fopo_spill_build(fopo_dataset *d, fopo_spill *s, int with_times, size_t users, size_t items,
                     const char *path);

#endif
