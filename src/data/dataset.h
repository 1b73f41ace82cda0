/* Interactions: who took what, as a sparse users x items matrix with the names of both. */
#ifndef FOPO_DATA_DATASET_H
#define FOPO_DATA_DATASET_H

#include "core/csr.h"
#include "core/npz.h"

/* The original ids of one side, in the order of the rows or columns. Exactly one of numbers and
 * text is set; both NULL: the id of index i is i itself (ids kept as they stood, or made here). */
typedef struct {
  size_t n;
  int64_t *numbers;  /* [n] */
  char *text;        /* all names, one after the other, each ended by '\0' */
  uint64_t *offsets; /* [n + 1] into text */
} fopo_names;

void fopo_names_done(fopo_names *names); /* accepts {0} */

/* Writes the name of index i into buffer and returns it. */
const char *fopo_names_get(const fopo_names *names, size_t i, char *buffer, size_t size);

/* Index of a name given as text, or -1. Linear. */
int64_t fopo_names_find(const fopo_names *names, const char *name);

/* The members of a .npz that hold the names, up to two of them, called after `side`: side_numbers,
 * or side_text and side_offsets. Their number; 0 where every index is its own id. */
size_t fopo_names_members(fopo_array *out, const fopo_names *names, const char *side);

typedef struct {
  fopo_csr matrix; /* [n_users, n_items]; repeats are summed */
  fopo_names users, items;
  char format[32];   /* what was read: "pairs", "lists", ..., "synthetic" */
  size_t rows_read;  /* interactions taken from the file, repeats counted */
  size_t repeats;    /* those of them that stood before: rows_read = entries + repeats */
  size_t skipped;    /* rows left out by a rule of the format (is_read = 0) or by on_error */
  size_t items_seen; /* columns with at least one entry */
  size_t users_seen; /* rows with at least one entry */
} fopo_dataset;

void fopo_dataset_free(fopo_dataset *d); /* accepts NULL */

/* .npz that scipy.sparse.load_npz reads (format, shape, indptr, indices, data), with the names and
 * the counts above as further members. */
int fopo_dataset_save(const fopo_dataset *d, const char *path);

#endif
