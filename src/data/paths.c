#include "data/paths.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/memory.h"
#include "core/status.h"

enum { DEPTH = 32 }; /* folders within folders: a link may lead back */

typedef struct {
  char *text;
  size_t bytes, capacity, n;
} list;

static int add(list *l, const char *path) {
  size_t size = strlen(path) + 1;
  if (l->bytes + size > l->capacity) {
    size_t capacity = 2 * (l->bytes + size);
    if (fopo_resize(&l->text, capacity, 1) != FOPO_OK) return FOPO_ERR_MEMORY;
    l->capacity = capacity;
  }
  memcpy(l->text + l->bytes, path, size);
  l->bytes += size;
  l->n++;
  return FOPO_OK;
}

static int is_shown(const struct dirent *entry) {
  return *entry->d_name != '.' && *entry->d_name != '_';
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_folder(const char *path) {
  struct stat file;
  return stat(path, &file) == 0 && S_ISDIR(file.st_mode);
}

/* Adds the file, or the files below the folder. */
static int add_below(list *l, const char *path, int depth) {
  struct dirent **entries;
  if (!is_folder(path)) return add(l, path);
  if (depth == DEPTH) return fopo_fail(FOPO_ERR_FILE, "%s: folders lie too deep", path);
  int n = scandir(path, &entries, is_shown, by_bytes), status = FOPO_OK;
  if (n < 0) {
    return fopo_fail(FOPO_ERR_FILE, "cannot read the folder %s: %s", path, strerror(errno));
  }
  for (int i = 0; i < n; i++) {
    size_t size = strlen(path) + strlen(entries[i]->d_name) + 2;
    char *below = status == FOPO_OK ? fopo_alloc(size, 1) : NULL;
    if (below == NULL && status == FOPO_OK) status = FOPO_ERR_MEMORY;
    if (below != NULL) {
      const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
      snprintf(below, size, "%s%s%s", path, slash, entries[i]->d_name);
      status = add_below(l, below, depth + 1);
    }
    fopo_free(below);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_matches(list *l, const char *pattern) {
  glob_t found = {0};
  int code = glob(pattern, GLOB_NOSORT, NULL, &found), status = FOPO_OK;
  if (code == GLOB_NOSPACE) status = FOPO_ERR_MEMORY;
  if (code == 0) qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare);
  for (size_t i = 0; code == 0 && i < found.gl_pathc && status == FOPO_OK; i++) {
    status = add_below(l, found.gl_pathv[i], 0);
  }
  globfree(&found);
  return status;
}

int fopo_paths_find(char **paths, size_t *n, const char *path) {
  struct stat file;
  list l = {0};
  int is_pattern = strpbrk(path, "*?[") != NULL && stat(path, &file) != 0;
  int status = is_pattern ? add_matches(&l, path) : add_below(&l, path, 0);
  if (status == FOPO_OK && l.n == 0) {
    status = fopo_fail(FOPO_ERR_FILE, is_pattern ? "no file matches %s" : "%s holds no file", path);
  }
  if (status != FOPO_OK) fopo_free(l.text);
  *paths = status == FOPO_OK ? l.text : NULL;
  *n = status == FOPO_OK ? l.n : 0;
  return status;
}
