/* Interactions: who took what, as a sparse users x items matrix with the names of both. */
#ifndef FOPO_DATA_DATASET_H
#define FOPO_DATA_DATASET_H

#include "core/csr.h"
#include "data/names.h"

typedef struct {
  fopo_csr matrix;      /* [n_users, n_items]; repeats are summed */
  fopo_csr_times times; /* of its entries, as the file says them: numbers, or dates in seconds since
                           1970; times.first is NULL if there are none */
  char no_times[240];   /* why there are none, if a column seemed to hold times; else "" */
  fopo_names users, items;
  char format[32];   /* name of the reader ("pairs", "lists", ...), or "synthetic" */
  size_t rows_read;  /* interactions read, repeats included: entries of matrix + repeats */
  size_t repeats;    /* interactions summed into an earlier one */
  size_t skipped;    /* rows left out by a condition (is_read = 0), or malformed and counted */
  size_t items_seen; /* columns with at least one entry */
  size_t users_seen; /* rows with at least one entry */
} fopo_dataset;

void fopo_dataset_free(fopo_dataset *d); /* accepts NULL */

/* The earliest and the latest time; 0 if there are none. */
int fopo_dataset_period(double *first, double *last, const fopo_dataset *d);

/* .npz that scipy.sparse.load_npz reads (format, shape, indptr, indices, data), with the names and
 * counts and times above as further members. */
int fopo_dataset_save(const fopo_dataset *d, const char *path);

#endif
