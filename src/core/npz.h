/* .npy and .npz: the only forms of files that the program writes. Every artefact opens in NumPy
 * with one line. Nothing that is loaded is ever executed: object arrays (pickles) are refused.
 *
 * Writing goes to a temporary name in the same folder, is flushed to disk and renamed; the old file
 * stays until the new one is whole. Reading trusts nothing: sizes are checked against the file
 * before memory is taken, CRC-32 of every member is verified, and errors name file and member. */
#ifndef FOPO_CORE_NPZ_H
#define FOPO_CORE_NPZ_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
  FOPO_F32,
  FOPO_F64,
  FOPO_I32,
  FOPO_I64,
  FOPO_U8,
  FOPO_U32,
  FOPO_U64,
  FOPO_BOOL,
  FOPO_BYTES /* |Sn and <Un (as UTF-8) text; itemsize says n */
} fopo_dtype;

size_t fopo_dtype_size(fopo_dtype type); /* bytes; 1 for FOPO_BYTES (times itemsize) */

/* One array. Little-endian, C order (readers swap and transpose what is not). */
typedef struct {
  char name[64]; /* member name without .npy; "" in a bare .npy */
  fopo_dtype type;
  size_t itemsize; /* bytes of one element */
  int ndim;        /* 0, 1 or 2 */
  size_t shape[2]; /* unused ones are 1 */
  void *data;      /* fopo_alloc'ed by readers; borrowed by writers */
} fopo_array;

static inline size_t fopo_array_count(const fopo_array *a) { return a->shape[0] * a->shape[1]; }

/* The data, which the caller then owns: archive_done no longer frees it. */
static inline void *fopo_array_release(fopo_array *a) {
  void *data = a->data;
  a->data = NULL;
  return data;
}

/* A borrowed description, for writers. */
fopo_array fopo_array_of(const char *name, fopo_dtype type, const void *data, int ndim, size_t rows,
                         size_t cols);
fopo_array fopo_array_text(const char *name, const char *text); /* 0-d |Sn */

typedef struct {
  fopo_array *items; /* [n], owned, data owned */
  size_t n;
} fopo_archive;

int fopo_npz_save(const char *path, const fopo_array *arrays, size_t n, int compress);
int fopo_npz_load(fopo_archive *archive, const char *path);

/* Loads only the members that `names` (ended by NULL) lists; a missing one is no error. The others
 * are neither read nor verified. */
int fopo_npz_load_some(fopo_archive *archive, const char *path, const char *const *names);
void fopo_archive_done(fopo_archive *archive); /* accepts {0} */

/* The member of that name, or NULL. */
fopo_array *fopo_archive_find(const fopo_archive *archive, const char *name);

/* The member, converted in place to `type` (numbers to numbers; a loss such as 1e40 as F32, -1 as
 * U32 or 1.5 as I64 is FOPO_ERR_FORMAT) with ndim == `ndim` (-1: any), or NULL with a sentence
 * naming `path` (for the message only) and what was missing or wrong. */
fopo_array *fopo_archive_need(fopo_archive *archive, const char *path, const char *name,
                              fopo_dtype type, int ndim);

int fopo_npy_save(const char *path, const fopo_array *array);
int fopo_npy_load(fopo_array *array, const char *path); /* free data with fopo_free */

/* Writes through a temporary name: opens path.tmp.PID for writing and returns its descriptor
 * (or a negative status); commit flushes to disk, renames and flushes the folder; abandon removes
 * it. temporary is a buffer of at least strlen(path) + 32 bytes. Shared by all writers. */
int fopo_replace_begin(char *temporary, size_t size, const char *path);
int fopo_replace_commit(int fd, const char *temporary, const char *path);
void fopo_replace_abandon(int fd, const char *temporary);

#endif
