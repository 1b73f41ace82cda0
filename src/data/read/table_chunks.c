/* Reads the rows of a table on several threads.
 *
 * A block of text is cut at line ends into chunks. Threads read the chunks independently, each up
 * to the first row that is not easy: one with a quote, or with anything to be refused. Then the
 * chunks are committed in the order of the file:
 *
 *   - A chunk counts only if the serial reader (fopo_table_rows) would arrive at its first byte.
 *     If a quoted field spans the border, it does not, and the serial reader reads it again.
 *   - The rest of a chunk, from its first row that is not easy, is left to the serial reader.
 *
 * So results, line numbers and sentences are those of the serial reader, whatever the number of
 * threads and the size of chunks. */
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/threads.h"
#include "data/read/chunk.h"

enum {
  CHUNK = 1 << 18, /* bytes: its ids stay in the L2 cache until they are committed */
  CHUNKS = 32      /* chunks of a block: threads wait for each other once in 8 MiB */
};

struct fopo_chunks {
  fopo_chunk_reader reader;
  size_t size; /* bytes of a chunk */
  fopo_chunk list[CHUNKS];
};

static size_t chosen_size;

void fopo_chunks_size(size_t bytes) { chosen_size = bytes; }

/* ---- chunks to pairs ---- */

static void copy_side(uint32_t *to, const int64_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = (uint32_t)ids[i];
}

/* Of a file without values, beside one that has them, they are 1. */
static void copy_values(float *to, const fopo_chunk *c) {
  for (size_t i = 0; i < c->n; i++) to[i] = c->value != NULL ? c->value[i] : 1.0f;
}

/* Appends the rows of the chunks [from, to) to the pairs. Integer ids are copied in parallel; ids
 * that need an index get it in the order of the file. */
static int append(fopo_chunks *k, size_t from, size_t to) {
  fopo_table *r = k->reader.r;
  fopo_pairs *p = &r->pairs;
  size_t n = p->n;
  int wide_user = 0, wide_item = 0, status;
  /* Where the rows of each chunk go, and whether an id no longer fits 32 bits. */
  for (size_t i = from; i < to; i++) {
    k->list[i].first = n;
    n += k->list[i].n;
    wide_user |= k->list[i].n > 0 && k->list[i].user_is_wide;
    wide_item |= k->list[i].n > 0 && k->list[i].item_is_wide;
  }
  if (n == p->n) return FOPO_OK; /* there may be no arrays yet */
  if ((status = fopo_pairs_reserve(p, n - p->n)) != FOPO_OK) return status;
  /* The first such id makes indices of all ids before it. */
  if (wide_user) status = fopo_side_index(&r->users, p->user, p->n);
  if (wide_item && status == FOPO_OK) status = fopo_side_index(&r->items, p->item, p->n);
  if (status != FOPO_OK) return status;
    /* Values, and ids that are stored as they are: in parallel. */
#pragma omp parallel for num_threads(to - from > 1 ? fopo_threads() : 1)
  for (size_t i = from; i < to; i++) {
    fopo_chunk *c = &k->list[i];
    if (r->users.as_numbers) copy_side(p->user + c->first, c->user, c->n);
    if (r->items.as_numbers) copy_side(p->item + c->first, c->item, c->n);
    if (p->with_values) copy_values(p->value + c->first, c);
    if (p->with_times && c->n > 0) memcpy(p->time + c->first, c->time, c->n * sizeof *c->time);
  }
  /* Ids that need an index: one chunk after the other, since indices follow first appearance. */
  for (size_t i = from; i < to && status == FOPO_OK; i++) {
    fopo_chunk *c = &k->list[i];
    const char *texts = c->texts != NULL ? c->texts : c->from;
    if (!r->users.as_numbers) {
      status = fopo_ids_add_all(&r->users.ids, p->user + c->first, c->user, c->user_n, texts, c->n);
    }
    if (!r->items.as_numbers && status == FOPO_OK) {
      status = fopo_ids_add_all(&r->items.ids, p->item + c->first, c->item, c->item_n, texts, c->n);
    }
  }
  p->n = n;
  return status;
}

/* Commits the n chunks in the order of the file, with the serial reader where one is incomplete. */
static int commit(fopo_chunks *k, size_t n) {
  fopo_text *t = k->reader.r->t;
  size_t from = 0; /* the chunks before it are in the pairs */
  for (size_t i = 0; i < n; i++) {
    fopo_chunk *c = &k->list[i];
    if (t->at == c->from) {
      t->at = c->reached;
      t->line += c->lines;
      k->reader.r->d->skipped += c->left_out;
    } else {
      c->n = 0; /* its first byte is inside a row: what was read of it is void */
    }
    if (t->at >= c->stop) continue;
    int status = append(k, from, i + 1);
    from = i + 1;
    if (status == FOPO_OK) status = fopo_table_rows(k->reader.r, c->stop);
    if (status != FOPO_OK || t->at < c->stop) return status;
  }
  return append(k, from, n);
}

/* Cuts the text behind `from` into at most CHUNKS chunks at line ends. */
static int cut_chunks(fopo_chunks *k, const char *from, size_t *n) {
  const char *stop = fopo_text_limit(k->reader.r->t);
  for (*n = 0; *n < CHUNKS && from < stop; ++*n) {
    fopo_chunk *c = &k->list[*n];
    c->from = from;
    c->stop = stop;
    if ((size_t)(stop - from) > k->size) {
      c->stop = (const char *)rawmemchr(from + k->size - 1, '\n') + 1;
    }
    from = c->stop;
    int status = fopo_chunk_reserve(c, &k->reader);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

int fopo_chunks_block(fopo_chunks *k) {
  fopo_text *t = k->reader.r->t;
  while (t->at < fopo_text_limit(t)) {
    size_t n;
    fopo_chunk_skip_times(&k->reader);
    int status = cut_chunks(k, t->at, &n), stopped = 0;
    if (status != FOPO_OK) return status;
    const char *stop = k->list[n - 1].stop;
#pragma omp parallel for num_threads(n > 1 ? fopo_threads() : 1) schedule(dynamic)                 \
    reduction(|                                                                                    \
              : stopped)
    for (size_t i = 0; i < n; i++) {
      stopped |= fopo_interrupted();
      if (!stopped) fopo_chunk_read(&k->list[i], &k->reader);
    }
    if (stopped) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while %s", t->what);
    status = commit(k, n);
    if (status != FOPO_OK || t->at < stop) return status;
  }
  return FOPO_OK;
}

/* ---- beginning and end ---- */

int fopo_chunks_new(fopo_chunks **chunks, fopo_table *r) {
  *chunks = NULL;
  fopo_chunks *k = fopo_alloc(1, sizeof *k);
  if (k == NULL) return FOPO_ERR_MEMORY;
  k->size = chosen_size > 0 ? chosen_size : CHUNK;
  int status = fopo_chunk_reader_init(&k->reader, r);
  if (status != FOPO_OK) {
    fopo_chunks_free(k);
    return status;
  }
  r->t->step = (size_t)CHUNK * CHUNKS;
  *chunks = k;
  return FOPO_OK;
}

void fopo_chunks_free(fopo_chunks *k) {
  if (k == NULL) return;
  for (size_t i = 0; i < CHUNKS; i++) fopo_chunk_done(&k->list[i]);
  fopo_chunk_reader_done(&k->reader);
  fopo_free(k);
}
