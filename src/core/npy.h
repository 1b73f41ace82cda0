/* One array in NumPy's .npy, in a file of its own or as a member of an .npz (core/npz.h, which says
 * what readers and writers promise). */
#ifndef FOPO_CORE_NPY_H
#define FOPO_CORE_NPY_H

#include "core/array.h"

int fopo_npy_save(const char *path, const fopo_array *array);

int fopo_npy_load(fopo_array *array, const char *path); /* free data with fopo_free */

/* Rows of a matrix of float32: x [n, shape[1]] = the rows first .. first + n - 1. x NULL: the shape
 * alone. FOPO_ERR_FORMAT for an array of another type or order, or without these rows. */
int fopo_npy_rows(float *x, size_t shape[2], const char *path, size_t first, size_t n);

/* ---- for core/npz.c ---- */

enum {
  FOPO_NPY_CHUNK = 8 << 20,  /* bytes between two polls of the interrupt flag: about 10 ms */
  FOPO_NPY_HEADER_MOST = 256 /* bytes; the longest header written here is well below it */
};

/* Where the bytes of one .npy come from. `read` gives exactly n bytes or fails with a sentence. */
typedef struct {
  int (*read)(void *handle, const char *label, void *bytes, size_t n);
  void *handle;
  const char *label; /* "x.npz, member 'indices'": for sentences; not owned */
  const char *what;  /* "reading x.npz": for progress; not owned */
  uint64_t size;     /* bytes of this .npy, header included */
  uint64_t *done;    /* bytes read so far of `total`, shared by the members of one archive */
  uint64_t total;
} fopo_npy_source;

/* Reads one array; its name is left alone. The header is checked against source->size before
 * memory is taken, and all of source->size is consumed. */
int fopo_npy_read(fopo_array *array, const fopo_npy_source *source);

/* Writes the header of `array` (magic to newline, a multiple of 64 bytes); returns its length. */
size_t fopo_npy_header(char header[FOPO_NPY_HEADER_MOST], const fopo_array *array);

/* FOPO_OK if a writer can store it: at most two dimensions and no overflow of its bytes. */
int fopo_npy_check(const fopo_array *array, const char *path);

/* Bytes of the data alone. */
size_t fopo_npy_bytes(const fopo_array *array);

#endif
