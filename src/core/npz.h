/* .npy and .npz: the only forms of files that the program writes. Every artefact opens in NumPy
 * with one line. Nothing that is loaded is ever executed: object arrays (pickles) are refused.
 *
 * Writing goes to a temporary name in the same folder, is flushed to disk and renamed; the old file
 * stays until the new one is whole. Reading trusts nothing: sizes are checked against the file
 * before memory is taken, CRC-32 of every member is verified, and errors name file and member. */
#ifndef FOPO_CORE_NPZ_H
#define FOPO_CORE_NPZ_H

#include "core/array.h"

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

/* One array in a file of its own, a .npy, or an .npz with one member if the path ends in .npz.
 * Loaded, its elements become `type`, as fopo_archive_need converts them; the archive then holds it
 * alone, and is {0} after a failure. */
int fopo_array_load(fopo_archive *archive, const char *path, fopo_dtype type);
int fopo_array_save(const char *path, const fopo_array *array);

/* Loads only the members that `names` (ended by NULL) lists; a missing one is no error. The others
 * are neither read nor verified. */
int fopo_npz_load_some(fopo_archive *archive, const char *path, const char *const *names);
void fopo_archive_done(fopo_archive *archive); /* accepts {0} */

/* FOPO_ERR_FORMAT with a sentence that says what reads it, if the archive is one of the program's
 * files, but not one of the wanted kind ("checkpoint", "policy", "index", "log", "dataset", or in
 * words what else). An archive of no known kind passes. */
int fopo_archive_check(const fopo_archive *archive, const char *path, const char *wanted);

/* The member of that name, or NULL. */
fopo_array *fopo_archive_find(const fopo_archive *archive, const char *name);

/* *a: the member, converted in place to `type` (numbers to numbers) with ndim == `ndim` (-1: any).
 * Where there is none, or a number is lost, as of 1e40 as F32, -1 as U32 or 1.5 as I64: *a is NULL,
 * FOPO_ERR_FORMAT and a sentence naming `path`, which is for the message only. */
int fopo_archive_need(fopo_array **a, fopo_archive *archive, const char *path, const char *name,
                      fopo_dtype type, int ndim);

/* The same of one number, which *value becomes; and of a text, of which out [size] gets what
 * fits. */
int fopo_archive_number(void *value, fopo_archive *archive, const char *path, const char *name,
                        fopo_dtype type);
int fopo_archive_text(char *out, size_t size, fopo_archive *archive, const char *path,
                      const char *name);

#endif
