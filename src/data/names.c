/* Names as one array of integers, or as one block of texts. */
#include "data/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

void fopo_names_done(fopo_names *names) {
  fopo_free(names->numbers);
  fopo_free(names->text);
  fopo_free(names->offsets);
  *names = (fopo_names){0};
}

const char *fopo_names_get(const fopo_names *names, size_t i, char *buffer, size_t size) {
  if (names->text != NULL) {
    snprintf(buffer, size, "%s", names->text + names->offsets[i]);
  } else {
    snprintf(buffer, size, "%" PRId64, names->numbers != NULL ? names->numbers[i] : (int64_t)i);
  }
  return buffer;
}

int64_t fopo_names_find(const fopo_names *names, const char *name) {
  char buffer[24];
  for (size_t i = 0; i < names->n; i++) {
    const char *known = names->text != NULL ? names->text + names->offsets[i]
                                            : fopo_names_get(names, i, buffer, sizeof buffer);
    if (strcmp(known, name) == 0) return (int64_t)i;
  }
  return -1;
}

/* ---- making ---- */

int fopo_names_count(fopo_names *names, size_t n) {
  names->numbers = fopo_alloc(n, sizeof *names->numbers);
  if (names->numbers == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) names->numbers[i] = (int64_t)i;
  names->n = n;
  return FOPO_OK;
}

int fopo_names_copy(fopo_names *to, const fopo_names *from) {
  *to = (fopo_names){.n = from->n};
  if (from->numbers != NULL) {
    to->numbers = fopo_alloc(from->n, sizeof *to->numbers);
    if (to->numbers == NULL) return FOPO_ERR_MEMORY;
    memcpy(to->numbers, from->numbers, from->n * sizeof *to->numbers);
  }
  if (from->text == NULL) return FOPO_OK;
  size_t bytes = (size_t)from->offsets[from->n];
  to->text = fopo_alloc(bytes, 1);
  to->offsets = fopo_alloc(from->n + 1, sizeof *to->offsets);
  if (to->text == NULL || to->offsets == NULL) return FOPO_ERR_MEMORY;
  memcpy(to->text, from->text, bytes);
  memcpy(to->offsets, from->offsets, (from->n + 1) * sizeof *to->offsets);
  return FOPO_OK;
}

int fopo_names_append(fopo_names *names, size_t *capacity, const char *text, size_t n) {
  size_t used = names->offsets != NULL ? (size_t)names->offsets[names->n] : 0;
  uint64_t *offsets = fopo_realloc(names->offsets, names->n + 2, sizeof *offsets);
  if (offsets == NULL) return FOPO_ERR_MEMORY;
  names->offsets = offsets;
  if (used + n + 1 > *capacity) {
    size_t more = 2 * (used + n + 64);
    char *block = fopo_realloc(names->text, more, 1);
    if (block == NULL) return FOPO_ERR_MEMORY;
    names->text = block;
    *capacity = more;
  }
  memcpy(names->text + used, text, n);
  names->text[used + n] = '\0';
  names->offsets[++names->n] = used + n + 1;
  return FOPO_OK;
}

/* ---- members of a .npz ---- */

enum { MEMBER = 32 }; /* bytes of a member's name */

static const char *member(char name[MEMBER], const char *side, const char *end) {
  snprintf(name, MEMBER, "%s_%s", side, end);
  return name;
}

size_t fopo_names_members(fopo_array *out, const fopo_names *names, const char *side) {
  char name[MEMBER];
  if (names->numbers != NULL) {
    out[0] = fopo_array_of(member(name, side, "numbers"), FOPO_I64, names->numbers, 1, names->n, 1);
    return 1;
  }
  if (names->text == NULL) return 0;
  size_t bytes = (size_t)names->offsets[names->n];
  out[0] = fopo_array_of(member(name, side, "text"), FOPO_U8, names->text, 1, bytes, 1);
  out[1] =
      fopo_array_of(member(name, side, "offsets"), FOPO_U64, names->offsets, 1, names->n + 1, 1);
  return 2;
}

static int bad_names(const char *path, const char *side) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s: the names of its %s do not fit", path, side);
}

/* Text i must be the C string in bytes [at[i], at[i + 1]), at least its '\0'. */
static int are_strings(const char *bytes, const uint64_t *at, size_t n, size_t size) {
  if (at[0] != 0 || at[n] != size) return 0;
  for (size_t i = 0; i < n; i++) {
    if (at[i] >= at[i + 1] || at[i + 1] > size) return 0;
    size_t length = (size_t)(at[i + 1] - at[i]);
    if (strnlen(bytes + at[i], length) + 1 != length) return 0;
  }
  return 1;
}

int fopo_names_load(fopo_names *names, fopo_archive *archive, const char *path, const char *side,
                    size_t n) {
  char name[MEMBER];
  *names = (fopo_names){0};
  if (fopo_archive_find(archive, member(name, side, "numbers")) != NULL) {
    fopo_array *numbers = fopo_archive_need(archive, path, name, FOPO_I64, 1);
    if (numbers == NULL) return FOPO_ERR_FORMAT;
    if (numbers->shape[0] != n) return bad_names(path, side);
    *names = (fopo_names){.n = n, .numbers = fopo_array_release(numbers)};
    return FOPO_OK;
  }
  if (fopo_archive_find(archive, member(name, side, "text")) == NULL) return FOPO_OK;
  fopo_array *text = fopo_archive_need(archive, path, name, FOPO_U8, 1);
  if (text == NULL) return FOPO_ERR_FORMAT;
  fopo_array *offsets =
      fopo_archive_need(archive, path, member(name, side, "offsets"), FOPO_U64, 1);
  if (offsets == NULL) return FOPO_ERR_FORMAT;
  if (offsets->shape[0] != n + 1 || !are_strings(text->data, offsets->data, n, text->shape[0])) {
    return bad_names(path, side);
  }
  *names = (fopo_names){
      .n = n, .text = fopo_array_release(text), .offsets = fopo_array_release(offsets)};
  return FOPO_OK;
}
