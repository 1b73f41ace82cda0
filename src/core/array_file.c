/* One array in a file of its own: a .npy, or an .npz with one member. */
#include <string.h>

#include "core/memory.h"
#include "core/npy.h"
#include "core/npz.h"
#include "core/status.h"

static int is_npz(const char *path) {
  size_t n = strlen(path);
  return n >= 4 && strcmp(path + n - 4, ".npz") == 0;
}

static int read_npy(fopo_archive *archive, const char *path) {
  archive->items = fopo_alloc(1, sizeof *archive->items);
  if (archive->items == NULL) return FOPO_ERR_MEMORY;
  int status = fopo_npy_load(archive->items, path);
  archive->n = status == FOPO_OK ? 1 : 0;
  return status;
}

static int read_one(fopo_archive *archive, const char *path, fopo_dtype type) {
  int status = is_npz(path) ? fopo_npz_load(archive, path) : read_npy(archive, path);
  if (status != FOPO_OK) return status;
  if (archive->n != 1) {
    status = fopo_archive_check(archive, path, "an array");
    if (status != FOPO_OK) return status;
    return fopo_fail(
        FOPO_ERR_FORMAT,
        "%s has %zu members; an array is read from a .npy, or from an .npz with one member", path,
        archive->n);
  }
  char name[sizeof archive->items->name];
  strcpy(name, archive->items->name);
  return fopo_archive_need(archive, path, name, type, -1) ? FOPO_OK : FOPO_ERR_FORMAT;
}

int fopo_array_load(fopo_archive *archive, const char *path, fopo_dtype type) {
  *archive = (fopo_archive){0};
  int status = read_one(archive, path, type);
  if (status != FOPO_OK) fopo_archive_done(archive);
  return status;
}

int fopo_array_save(const char *path, const fopo_array *array) {
  return is_npz(path) ? fopo_npz_save(path, array, 1, 0) : fopo_npy_save(path, array);
}
