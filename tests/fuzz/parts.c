/* A table that is read in several parts, as by so many ranks (ranks/read.h), is the table read
 * whole, wherever it is cut: the same dataset, or the same sentence. The ranks are played one after
 * another, and their names and pairs are joined here instead of by messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../c/tables.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/merge.h"
#include "data/read/readers.h"
#include "data/read/table.h"
#include "fuzz.h"

enum { PARTS = 7, MOST = 1 << 16 };

/* ---- reading ---- */

typedef struct {
  fopo_several rows;
  uint64_t begin, end; /* of them */
} part;

/* The rows that begin in from .. to - 1 of so many bytes; told: the first is known to be at `from`.
 */
static int read_part(part *p, const char *path, uint64_t from, uint64_t to, uint64_t bytes,
                     int told, const fopo_read_options *o) {
  fopo_several_done(&p->rows);
  p->begin = from;
  p->end = from > to ? from : to;
  if (from >= to) return FOPO_OK;
  int status = fopo_several_add(&p->rows, path, from, to < bytes ? to : UINT64_MAX, o);
  if (from > 0 && !told) p->begin = p->rows.begin;
  if (to < bytes) p->end = p->rows.end;
  return status;
}

/* All parts [n], cut at cuts [n + 1]: one that has begun inside of a field begins again where the
 * one before has ended. */
static int read_parts(part *parts, size_t n, const char *path, const uint64_t *cuts,
                      const fopo_read_options *o) {
  uint64_t bytes = cuts[n];
  int status = FOPO_OK;
  for (size_t r = 0; r < n && status == FOPO_OK; r++) {
    part *p = &parts[r];
    status = read_part(p, path, cuts[r], cuts[r + 1], bytes, 0, o);
    if (r > 0 && p->begin != p[-1].end) {
      status = read_part(p, path, p[-1].end, cuts[r + 1], bytes, 1, o);
    }
  }
  return status;
}

/* ---- joining ---- */

/* Moves the names of a part to those of all; its pairs get their indices. */
static int join_side(fopo_ids *all, fopo_ids *own, uint32_t *pairs, size_t n) {
  fopo_names names;
  fopo_ids_move(&names, own);
  uint32_t *place = fopo_alloc(names.n, sizeof *place);
  int status = place != NULL ? fopo_merge_names(all, place, &names) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_merge_renumber(pairs, place, n);
  fopo_names_done(&names);
  fopo_free(place);
  return status;
}

static int join(fopo_several *all, fopo_several *s) {
  fopo_pairs *to = &all->pairs, *from = &s->pairs;
  int status = join_side(&all->users, &s->users, from->user, from->n);
  if (status == FOPO_OK) status = join_side(&all->items, &s->items, from->item, from->n);
  for (size_t i = 0; i < from->n && status == FOPO_OK; i++) {
    float value = from->with_values ? from->value[i] : 1.0f;
    status = fopo_pairs_add(to, from->user[i], from->item[i], value);
    if (status == FOPO_OK && to->with_times) to->time[to->n - 1] = from->time[i];
  }
  all->rows_read += s->rows_read;
  all->skipped += s->skipped;
  all->errors += s->errors;
  all->timed |= s->timed;
  if (all->files++ == 0) memcpy(all->format, s->format, sizeof all->format);
  if (*all->no_times == '\0') memcpy(all->no_times, s->no_times, sizeof all->no_times);
  return status;
}

static int build(fopo_dataset **d, part *parts, size_t n, const char *path, size_t max_errors) {
  fopo_several all = {.pairs = {.with_times = 1}};
  int status = FOPO_OK;
  for (size_t r = 0; r < n; r++) {
    if (parts[r].rows.files == 0) continue;
    all.pairs.with_values |= parts[r].rows.pairs.with_values;
    all.pairs.with_times &= parts[r].rows.pairs.with_times;
  }
  for (size_t r = 0; r < n && status == FOPO_OK; r++) {
    if (parts[r].rows.files > 0) status = join(&all, &parts[r].rows);
  }
  if (status == FOPO_OK && all.errors > max_errors) status = FOPO_ERR_FORMAT;
  if (status == FOPO_OK) status = fopo_several_build(d, &all, path);
  fopo_several_done(&all);
  return status;
}

/* ---- what must hold ---- */

static void fail(const char *what, size_t n, const uint64_t *cuts, const char *one,
                 const char *other) {
  fprintf(stderr, "not so: %s, in %zu parts:", what, n);
  for (size_t r = 0; r <= n; r++) fprintf(stderr, " %zu", (size_t)cuts[r]);
  fprintf(stderr, "\nnot so: '%s', '%s'\n", one, other);
  abort();
}

static int by_place(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* 1: a table that is not gzipped. */
static int can_be_cut(const char *path, const fopo_read_options *o) {
  const fopo_reader *reader = NULL;
  fopo_text t = {0};
  int status = fopo_reader_open(&reader, &t, path, o);
  int answer = status == FOPO_OK && reader->roles != NULL && fopo_text_can_seek(&t);
  fopo_text_close(&t);
  return answer;
}

static void compare(const char *path, size_t n, const uint64_t *cuts, const fopo_read_options *o) {
  part parts[PARTS] = {{.begin = 0}};
  fopo_dataset *whole, *joined = NULL;
  char why[1024] = "";
  int status = fopo_dataset_read(&whole, path, o);
  if (status != FOPO_OK) snprintf(why, sizeof why, "%s", fopo_error_sentence());
  int own = read_parts(parts, n, path, cuts, o);
  if (own == FOPO_OK) own = build(&joined, parts, n, path, o->max_errors);
  const char *sentence = own == FOPO_OK ? "" : fopo_error_sentence();
  if (status != FOPO_ERR_MEMORY && own != FOPO_ERR_MEMORY) { /* refused by what it would take */
    if (own != status) fail("the same status", n, cuts, why, sentence);
    if (!o->skip_errors && strcmp(why, sentence) != 0) fail("the same", n, cuts, why, sentence);
    if (own == FOPO_OK && !same_dataset(whole, joined)) fail("the dataset", n, cuts, "", "");
  }
  for (size_t r = 0; r < n; r++) fopo_several_done(&parts[r].rows);
  fopo_dataset_free(joined);
  fopo_dataset_free(whole);
}

/* The bytes say where they are cut, into how many parts, and how they are read. */
int fuzz_parts(const char *path) {
  static char bytes[MOST];
  uint64_t cuts[PARTS + 1] = {0};
  FILE *f = fopen(path, "rb");
  size_t n = f != NULL ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f != NULL) fclose(f);
  uint64_t random = fopo_hash_text(bytes, n);
  size_t parts = 1 + random % PARTS;
  fopo_read_options o = {.format = random & 1 << 20 ? "pairs" : NULL};
  if (random & 1 << 21) o.skip_errors = 1, o.max_errors = 9;
  if (n == 0 || n == sizeof bytes || !can_be_cut(path, &o)) return FOPO_ERR_FORMAT;
  fopo_chunks_size(random & 1 << 22 ? 150 : 0);
  for (size_t r = 1; r < parts; r++) {
    random = fopo_hash_mix(random + r);
    cuts[r] = random % (n + 1);
  }
  cuts[parts] = n;
  qsort(cuts, parts + 1, sizeof *cuts, by_place);
  compare(path, parts, cuts, &o);
  fopo_chunks_size(0);
  return FOPO_OK;
}

void fuzz_parts_seeds(const char *folder) {
  static char text[MOST];
  for (int kinds = 0; kinds < KINDS; kinds += 17) {
    char path[512];
    size_t n = many_rows(text, kinds);
    while (n > 1500 + (size_t)kinds && !(kinds & HAS_LONG)) n--;
    snprintf(path, sizeof path, "%s/kind%d", folder, kinds);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(text, 1, n, f) != n || fclose(f) != 0) abort();
  }
}
