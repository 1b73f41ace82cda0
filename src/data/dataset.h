/* Interactions: who took what, as a sparse users x items matrix with the names of both.
 *
 * A dataset may be shared out to several processes, each of which has a range of the users: then
 * matrix and times have the users first_user .. first_user + matrix.rows - 1 of all_users. Columns
 * and counts are those of the whole dataset in every process, each has a share of the names
 * (ranks/names.h), and each array of values and times is there in all processes or in none. */
#ifndef FOPO_DATA_DATASET_H
#define FOPO_DATA_DATASET_H

#include "core/csr.h"
#include "data/names.h"

#define FOPO_EXAMPLES 3

typedef struct {
  fopo_csr matrix;      /* [n_users, n_items]; repeats are summed */
  fopo_csr_times times; /* of its entries, as the file says them: numbers, or dates in seconds since
                           1970; times.first is NULL if there are none */
  char no_times[240];   /* why there are none, if a column seemed to hold times; else "" */
  fopo_names users, items;
  char format[32];  /* name of the reader ("pairs", "lists", ...), or "synthetic" */
  size_t rows_read; /* interactions read, repeats included: entries of matrix + repeats */
  size_t repeats;   /* interactions summed into an earlier one */
  size_t skipped;   /* rows left out by a condition (is_read = 0), or malformed and counted */
  size_t malformed; /* the latter alone */
  char examples[FOPO_EXAMPLES][240]; /* what is wrong with the first of them; "": not known */
  size_t items_seen;                 /* columns with at least one entry */
  size_t users_seen;                 /* rows with at least one entry */
  /* of a dataset that is shared out; all_users 0: it is not */
  size_t first_user, all_users;
  size_t all_nnz;   /* entries of the matrices of all processes */
  double period[2]; /* what fopo_dataset_period says, if there are times */
} fopo_dataset;

void fopo_dataset_free(fopo_dataset *d); /* accepts NULL */

/* What lies on disk is not read for a while (fopo_map_idle). */
void fopo_dataset_idle(const fopo_dataset *d);

static inline size_t fopo_dataset_users(const fopo_dataset *d) {
  return d->all_users > 0 ? d->all_users : d->matrix.rows;
}

/* Entries of the matrix, of all processes. */
static inline size_t fopo_dataset_nnz(const fopo_dataset *d) {
  return d->all_users > 0 ? d->all_nnz : fopo_csr_nnz(&d->matrix);
}

/* CRC-32 of its entries: row ends, columns and values. */
uint32_t fopo_dataset_crc(const fopo_dataset *d);

/* The earliest and the latest time, of all processes; 0 if there are none. */
int fopo_dataset_period(double *first, double *last, const fopo_dataset *d);

/* .npz that scipy.sparse.load_npz reads (format, shape, indptr, indices, data), with the names and
 * counts and times above as further members. */
int fopo_dataset_save(const fopo_dataset *d, const char *path);

#endif
