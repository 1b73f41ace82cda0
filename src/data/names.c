/* Names as one array of integers, or as one block of texts. */
#include "data/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "data/number.h"

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

int fopo_names_copy(fopo_names *to, const fopo_names *from, size_t first, size_t n) {
  *to = (fopo_names){.n = n};
  if (from->numbers != NULL) {
    to->numbers = fopo_alloc(n, sizeof *to->numbers);
    if (to->numbers == NULL) return FOPO_ERR_MEMORY;
    memcpy(to->numbers, from->numbers + first, n * sizeof *to->numbers);
  }
  if (from->text == NULL) return FOPO_OK;
  const uint64_t *at = from->offsets + first;
  to->text = fopo_alloc((size_t)(at[n] - at[0]), 1);
  to->offsets = fopo_alloc(n + 1, sizeof *to->offsets);
  if (to->text == NULL || to->offsets == NULL) return FOPO_ERR_MEMORY;
  memcpy(to->text, from->text + at[0], (size_t)(at[n] - at[0]));
  for (size_t i = 0; i <= n; i++) to->offsets[i] = at[i] - at[0];
  return FOPO_OK;
}

int fopo_names_append(fopo_names *names, size_t *capacity, const char *text, size_t n) {
  size_t used = names->offsets != NULL ? (size_t)names->offsets[names->n] : 0;
  int status = fopo_resize(&names->offsets, names->n + 2, sizeof *names->offsets);
  if (status == FOPO_OK && used + n + 1 > *capacity) {
    size_t more = 2 * (used + n + 64);
    status = fopo_resize(&names->text, more, 1);
    if (status == FOPO_OK) *capacity = more;
  }
  if (status != FOPO_OK) return status;
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
    fopo_array *numbers;
    int status = fopo_archive_need(&numbers, archive, path, name, FOPO_I64, 1);
    if (status != FOPO_OK) return status;
    if (numbers->shape[0] != n) return bad_names(path, side);
    *names = (fopo_names){.n = n, .numbers = fopo_array_release(numbers)};
    return FOPO_OK;
  }
  if (fopo_archive_find(archive, member(name, side, "text")) == NULL) return FOPO_OK;
  fopo_array *text, *offsets;
  int status = fopo_archive_need(&text, archive, path, name, FOPO_U8, 1);
  if (status == FOPO_OK) {
    status = fopo_archive_need(&offsets, archive, path, member(name, side, "offsets"), FOPO_U64, 1);
  }
  if (status != FOPO_OK) return status;
  if (offsets->shape[0] != n + 1 || !are_strings(text->data, offsets->data, n, text->shape[0])) {
    return bad_names(path, side);
  }
  *names = (fopo_names){
      .n = n, .text = fopo_array_release(text), .offsets = fopo_array_release(offsets)};
  return FOPO_OK;
}

/* ---- finding a name among many ---- */

/* Open addressing with linear probing; at most half of the slots are taken. */

enum { POLL = 1 << 16 }; /* names between two reports of progress: some milliseconds */

static const char *text_of(const fopo_names *names, size_t i) {
  return names->text + names->offsets[i];
}

static size_t length_of(const fopo_names *names, size_t i) {
  return (size_t)(names->offsets[i + 1] - names->offsets[i]) - 1;
}

static uint64_t hash_of(const fopo_names *names, size_t i) {
  return names->text != NULL ? fopo_hash_text(text_of(names, i), length_of(names, i))
                             : fopo_hash_mix((uint64_t)names->numbers[i]);
}

int fopo_lookup_init(fopo_lookup *l, const fopo_names *names) {
  *l = (fopo_lookup){.names = names};
  if (names->text == NULL && names->numbers == NULL) return FOPO_OK;
  l->n_slots = 16;
  while (l->n_slots < 2 * names->n) l->n_slots *= 2;
  l->slots = fopo_alloc(l->n_slots, sizeof *l->slots);
  if (l->slots == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < names->n; i++) {
    size_t at = hash_of(names, i) & (l->n_slots - 1);
    while (l->slots[at] != 0) at = (at + 1) & (l->n_slots - 1);
    l->slots[at] = (uint32_t)i + 1;
  }
  return FOPO_OK;
}

void fopo_lookup_done(fopo_lookup *l) {
  fopo_free(l->slots);
  *l = (fopo_lookup){0};
}

static int64_t find_text(const fopo_lookup *l, const char *text, size_t n) {
  size_t at = fopo_hash_text(text, n) & (l->n_slots - 1);
  for (; l->slots[at] != 0; at = (at + 1) & (l->n_slots - 1)) {
    size_t i = l->slots[at] - 1;
    if (length_of(l->names, i) == n && memcmp(text_of(l->names, i), text, n) == 0) {
      return (int64_t)i;
    }
  }
  return -1;
}

int64_t fopo_lookup_number(const fopo_lookup *l, int64_t number) {
  const fopo_names *names = l->names;
  if (names->text != NULL) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, number);
    return find_text(l, digits, (size_t)n);
  }
  if (names->numbers == NULL) return number >= 0 && (uint64_t)number < names->n ? number : -1;
  size_t at = fopo_hash_mix((uint64_t)number) & (l->n_slots - 1);
  for (; l->slots[at] != 0; at = (at + 1) & (l->n_slots - 1)) {
    if (names->numbers[l->slots[at] - 1] == number) return l->slots[at] - 1;
  }
  return -1;
}

int64_t fopo_lookup_text(const fopo_lookup *l, const char *text, size_t n) {
  int64_t number;
  if (l->names->text != NULL) return find_text(l, text, n);
  return fopo_parse_plain(&number, text, n) ? fopo_lookup_number(l, number) : -1;
}

/* ---- one list of names in another ---- */

int fopo_names_equal(const fopo_names *a, const fopo_names *b) {
  if (a->n != b->n || (a->text != NULL) != (b->text != NULL) ||
      (a->numbers != NULL) != (b->numbers != NULL)) {
    return 0;
  }
  if (a->numbers != NULL) return memcmp(a->numbers, b->numbers, a->n * sizeof *a->numbers) == 0;
  if (a->text == NULL) return 1;
  return memcmp(a->offsets, b->offsets, (a->n + 1) * sizeof *a->offsets) == 0 &&
         memcmp(a->text, b->text, (size_t)a->offsets[a->n]) == 0;
}

static int64_t place_of(const fopo_lookup *to, const fopo_names *from, size_t i) {
  if (from->text != NULL) return fopo_lookup_text(to, text_of(from, i), length_of(from, i));
  return fopo_lookup_number(to, from->numbers != NULL ? from->numbers[i] : (int64_t)i);
}

int fopo_names_place(uint32_t *place, const fopo_names *from, const fopo_names *to) {
  fopo_lookup l;
  int status = fopo_lookup_init(&l, to);
  for (size_t i = 0; i < from->n && status == FOPO_OK; i++) {
    int64_t at = place_of(&l, from, i);
    place[i] = at < 0 ? FOPO_NO_NAME : (uint32_t)at;
    if (i % POLL == POLL - 1) {
      status = fopo_progress("matching names", (double)i, (double)from->n);
    }
  }
  fopo_lookup_done(&l);
  return status;
}

/* ---- the names most like a text ---- */

enum {
  WORD = 64,   /* bytes of a text and a name that are compared letter by letter */
  FOLDED = 256 /* bytes of a name that are looked at, with the '\0' */
};

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* The text in lower case; returns its length. */
static size_t fold(char out[FOLDED], const char *text) {
  size_t n = 0;
  for (; text[n] != '\0' && n + 1 < FOLDED; n++) out[n] = lower(text[n]);
  out[n] = '\0';
  return n;
}

/* The edit distance (Levenshtein) of two short words. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
  size_t row[WORD + 1];
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = corner + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      corner = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

/* How unlike the two are; SIZE_MAX: too much. */
static size_t unlikeness(const char *wanted, size_t n, const char *name, size_t m) {
  enum { CONTAINS = 1000, DIFFERS = 2000 };
  const char *at = n > 0 ? strstr(name, wanted) : NULL;
  if (at != NULL) return (at == name ? 0 : CONTAINS) + m - n;
  size_t most = n / 3 > 2 ? n / 3 : 2, gap = n > m ? n - m : m - n;
  if (n > WORD || m > WORD || gap > most) return SIZE_MAX;
  size_t d = distance(wanted, n, name, m);
  return d <= most ? DIFFERS + d : SIZE_MAX;
}

/* The best so far, in ascending order of rank. */
typedef struct {
  uint32_t *near;  /* [most] indices; not owned */
  size_t rank[16]; /* [n] */
  size_t n, most;
} ranking;

static void enter(ranking *k, uint32_t i, size_t rank) {
  if (rank == SIZE_MAX || (k->n == k->most && k->rank[k->most - 1] <= rank)) return;
  size_t at = k->n < k->most ? k->n++ : k->most - 1;
  for (; at > 0 && k->rank[at - 1] > rank; at--) {
    k->rank[at] = k->rank[at - 1];
    k->near[at] = k->near[at - 1];
  }
  k->rank[at] = rank;
  k->near[at] = i;
}

int fopo_names_near(uint32_t *near, size_t *found, size_t most, const fopo_names *names,
                    const char *text) {
  ranking k = {.near = near, .most = most < 16 ? most : 16};
  char wanted[FOLDED], name[FOLDED], digits[24];
  size_t length = fold(wanted, text);
  for (size_t i = 0; i < names->n; i++) {
    const char *original =
        names->text != NULL ? text_of(names, i) : fopo_names_get(names, i, digits, sizeof digits);
    enter(&k, (uint32_t)i, unlikeness(wanted, length, name, fold(name, original)));
    int status = i % POLL == POLL - 1
                     ? fopo_progress("looking for names", (double)i, (double)names->n)
                     : FOPO_OK;
    if (status != FOPO_OK) return status;
  }
  *found = k.n;
  return FOPO_OK;
}
