/* A table: its plan, its rows, and the dataset of them; or one of several files, whose rows
 * go to those of the files before (read/readers.h). */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/threads.h"
#include "data/merge.h"
#include "data/read/readers.h"
#include "data/read/table.h"
#include "data/spill.h"

/* ---- integer ids as indices ---- */

/* Ids that are all integers of 32 bits become indices in ascending order.
 *
 * A bit set says which integers occur. The index of one is its rank: the number of bits set before
 * its own. A running count is kept beside every 32 bits, so one cache line answers a lookup. For a
 * million ids the set fits the L2 cache, which a table of indices would not. Bits are only ever
 * set, so threads may do it in any order. */

enum {
  TASK = 1 << 16,    /* pairs that a thread takes at a time: about 0.2 ms */
  ALWAYS = 1 << 20,  /* the set may always span so many integers, */
  SPAN_PER_PAIR = 32 /* and so many more for each pair: 8 bytes */
};
#define ORDERING "ordering ids"

/* 32 integers of the set. */
typedef struct {
  _Atomic uint32_t bits; /* which of them occur */
  uint32_t before;       /* how many smaller integers occur */
} word;

static uint32_t count_bits(uint32_t x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

static uint32_t bits_of(word *w) { return atomic_load_explicit(&w->bits, memory_order_relaxed); }

static uint32_t largest_of(const uint32_t *numbers, size_t n) {
  uint32_t largest = 0;
#pragma omp parallel for simd num_threads(n > TASK ? fopo_threads() : 1) reduction(max : largest)
  for (size_t i = 0; i < n; i++) largest = numbers[i] > largest ? numbers[i] : largest;
  return largest;
}

/* Calls `task` for all numbers, TASK of them at a time, on several threads. */
static int each_task(void (*task)(uint32_t *numbers, word *words, size_t n), uint32_t *numbers,
                     word *words, size_t n) {
  int stopped = 0, threads = n > TASK ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(| : stopped)
  for (size_t from = 0; from < n; from += TASK) {
    stopped |= fopo_interrupted();
    if (!stopped) task(numbers + from, words, n - from < TASK ? n - from : TASK);
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while " ORDERING) : FOPO_OK;
}

/* Sets the bit of every number. */
static void mark(uint32_t *numbers, word *words, size_t n) {
  for (size_t i = 0; i < n; i++) {
    word *w = &words[numbers[i] / 32];
    uint32_t bit = (uint32_t)1 << numbers[i] % 32;
    /* Most are set already; testing first keeps the cache line shared among the threads. */
    if ((bits_of(w) & bit) == 0) atomic_fetch_or_explicit(&w->bits, bit, memory_order_relaxed);
  }
}

/* The running counts, and the names; none if the integers are 0 .. n - 1. */
static int name(fopo_names *names, word *words, size_t n_words) {
  uint32_t found = 0;
  size_t last = 0;
  for (size_t w = 0; w < n_words; w++) {
    words[w].before = found;
    found += count_bits(bits_of(&words[w]));
    if (bits_of(&words[w]) != 0) last = w;
  }
  *names = (fopo_names){.n = found};
  if (found == 0 || 32 * last + 32 - (size_t)__builtin_clz(bits_of(&words[last])) == found) {
    return FOPO_OK;
  }
  names->numbers = fopo_alloc(found, sizeof *names->numbers);
  if (names->numbers == NULL) return FOPO_ERR_MEMORY;
  for (size_t w = 0, at = 0; w < n_words; w++) {
    for (uint32_t bits = bits_of(&words[w]); bits != 0; bits &= bits - 1) {
      names->numbers[at++] = (int64_t)(32 * w + (size_t)__builtin_ctz(bits));
    }
  }
  return FOPO_OK;
}

/* Replaces the numbers by their ranks. */
static void rank(uint32_t *numbers, word *words, size_t n) {
  for (size_t i = 0; i < n; i++) {
    word *w = &words[numbers[i] / 32];
    uint32_t below = ((uint32_t)1 << numbers[i] % 32) - 1;
    numbers[i] = w->before + count_bits(bits_of(w) & below);
  }
}

/* numbers [n] become indices of the names, which are the different numbers, ascending. *done = 0,
 * and nothing has changed, if the numbers are too far apart for a bit set. */
static int finish_numbers(fopo_names *names, uint32_t *numbers, size_t n, int *done) {
  uint32_t largest = largest_of(numbers, n);
  *done = largest < ALWAYS + (uint64_t)SPAN_PER_PAIR * n;
  if (!*done) return FOPO_OK;
  size_t n_words = (size_t)largest / 32 + 1;
  word *words = fopo_alloc(n_words, sizeof *words);
  if (words == NULL) return FOPO_ERR_MEMORY;
  int status = each_task(mark, numbers, words, n);
  if (status == FOPO_OK) status = fopo_progress(ORDERING, 1, 2);
  if (status == FOPO_OK) status = name(names, words, n_words);
  if (status == FOPO_OK && names->numbers != NULL) status = each_task(rank, numbers, words, n);
  if (status == FOPO_OK) status = fopo_progress(ORDERING, 2, 2);
  fopo_free(words);
  return status;
}

static int read_rows(fopo_table *r) {
  fopo_text *t = r->t;
  fopo_chunks *chunks;
  int status = fopo_chunks_new(&chunks, r);
  while (status == FOPO_OK) {
    size_t left = (size_t)(t->stop - t->at);
    status = fopo_chunks_block(chunks);
    if (status == FOPO_OK && r->pairs.spill != NULL) {
      status = fopo_spill_add(r->pairs.spill, &r->pairs);
    }
    if (status != FOPO_OK || (left == (size_t)(t->stop - t->at) && t->ended)) break;
    if (fopo_text_can_seek(t) && fopo_text_place(t) >= t->limit) {
      status = fopo_progress(t->source.what, 1, 1);
      break;
    }
    status = fopo_text_more(t);
  }
  fopo_chunks_free(chunks);
  return status;
}

/* Estimates the rows from here on from those of the block at hand; gzip packs such text about 4 to
 * 1. Of a stream nothing is known: 0. */
static double expected_rows(const fopo_table *r) {
  const fopo_text *t = r->t;
  double lines = 0, bytes = (double)(t->stop - t->at), all = 4 * (double)t->size;
  for (const char *p = t->at; p < t->stop && (p = memchr(p, '\n', (size_t)(t->stop - p))); p++) {
    lines++;
  }
  if (fopo_text_can_seek(t)) {
    uint64_t end = t->limit < t->size ? t->limit : t->size, at = fopo_text_place(t);
    all = end > at ? (double)(end - at) : 0;
  }
  return bytes > 0 ? lines * all / bytes : 0;
}

static int check_memory(const fopo_table *r) {
  return fopo_spill_check_more(r->t->path, expected_rows(r), &r->pairs);
}

/* ---- a dataset ---- */

/* The names of one side; its pairs become indices of them. */
static int finish_side(fopo_names *names, fopo_side *side, uint32_t *pairs, size_t n) {
  int status = FOPO_OK, done = 0;
  if (side->as_numbers) status = finish_numbers(names, pairs, n, &done);
  if (status != FOPO_OK || done) return status;
  status = fopo_side_index(side, pairs, n);
  uint32_t *place = NULL;
  if (status == FOPO_OK) status = fopo_ids_finish(names, &place, &side->ids);
  if (status == FOPO_OK) status = fopo_merge_renumber(pairs, place, n);
  fopo_free(place);
  return status;
}

static int finish(fopo_table *r) {
  fopo_pairs *p = &r->pairs;
  fopo_dataset *d = r->d;
  int status = finish_side(&d->users, &r->users, p->user, p->n);
  if (status == FOPO_OK) status = finish_side(&d->items, &r->items, p->item, p->n);
  if (status != FOPO_OK) return status;
  d->users_seen = d->users.n; /* only ids that occur have names */
  d->items_seen = d->items.n;
  return fopo_pairs_build(d, p, d->users.n, d->items.n, r->t->path);
}

static int read_whole(fopo_table *r) {
  r->pairs.with_values = r->value != FOPO_NO_COLUMN;
  r->pairs.with_times = r->time != FOPO_NO_COLUMN;
  int status = check_memory(r);
  if (status == FOPO_OK) status = read_rows(r);
  return status == FOPO_OK ? finish(r) : status;
}

/* ---- one of several files ---- */

/* The table has what `several` has of its own while it reads. */
static void exchange(fopo_table *r, fopo_several *s) {
  fopo_ids users = r->users.ids, items = r->items.ids;
  fopo_pairs pairs = r->pairs;
  r->users.ids = s->users;
  r->items.ids = s->items;
  r->pairs = s->pairs;
  s->users = users;
  s->items = items;
  s->pairs = pairs;
}

static int read_several(fopo_table *r, fopo_several *s) {
  fopo_text *t = r->t;
  int is_unread = *r->d->no_times != '\0'; /* a column of times that nobody has named */
  if (is_unread) fopo_several_lose_times(s, "", r->d->no_times);
  s->timed |= is_unread;
  int status =
      fopo_several_expect(s, t->path, r->time != FOPO_NO_COLUMN, r->value != FOPO_NO_COLUMN);
  if (!s->pairs.with_times) r->time = FOPO_NO_COLUMN;
  int is_cut = fopo_text_can_seek(t); /* else the source is the stretch, or all */
  if (status == FOPO_OK && is_cut && s->from > fopo_text_place(t)) {
    status = fopo_text_seek(t, s->from);
  }
  if (status != FOPO_OK) return status;
  if (is_cut) s->begin = fopo_text_place(t);
  t->limit = s->to;
  r->errors = s->errors;
  exchange(r, s);
  status = check_memory(r);
  if (status == FOPO_OK) status = read_rows(r);
  exchange(r, s);
  s->errors = r->errors;
  if (is_cut) s->end = fopo_text_place(t);
  if (!is_unread && *r->d->no_times != '\0') {
    char why[sizeof r->d->no_times + 2];
    snprintf(why, sizeof why, ", %s", r->d->no_times);
    fopo_several_lose_times(s, t->path, why);
  }
  return status;
}

int fopo_table_read(fopo_dataset *d, fopo_text *t, const fopo_read_options *options,
                    fopo_table_roles *roles) {
  fopo_several *s = options->several; /* only names in order of appearance can go on with it */
  int as_numbers = s == NULL;
  fopo_table r = {.t = t,
                  .d = d,
                  .options = options,
                  .users.as_numbers = as_numbers,
                  .items.as_numbers = as_numbers};
  int status = fopo_table_plan(&r, roles);
  if (status == FOPO_OK) status = s != NULL ? read_several(&r, s) : read_whole(&r);
  fopo_table_done(&r);
  return status;
}
