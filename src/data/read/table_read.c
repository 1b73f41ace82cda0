/* A whole table: its plan, its rows, and the dataset of them; or one of several files, whose rows
 * go to those of the files before (read/several.h). */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "data/merge.h"
#include "data/read/several.h"
#include "data/read/table.h"

static int read_rows(fopo_table *r) {
  fopo_text *t = r->t;
  fopo_chunks *chunks;
  int status = fopo_chunks_new(&chunks, r);
  while (status == FOPO_OK) {
    size_t left = (size_t)(t->stop - t->at);
    status = fopo_chunks_block(chunks);
    if (status != FOPO_OK || (left == (size_t)(t->stop - t->at) && t->ended)) break;
    if (t->inflater == NULL && fopo_text_place(t) >= t->limit) {
      status = fopo_progress(t->what, 1, 1);
      break;
    }
    status = fopo_text_more(t);
  }
  fopo_chunks_free(chunks);
  return status;
}

/* Estimates the rows from here on from those of the block at hand; gzip packs such text about 4 to
 * 1. */
static double expected_rows(const fopo_table *r) {
  const fopo_text *t = r->t;
  double lines = 0, bytes = (double)(t->stop - t->at), all = 4 * (double)t->size;
  for (const char *p = t->at; p < t->stop && (p = memchr(p, '\n', (size_t)(t->stop - p))); p++) {
    lines++;
  }
  if (t->inflater == NULL) {
    uint64_t end = t->limit < t->size ? t->limit : t->size, at = fopo_text_place(t);
    all = end > at ? (double)(end - at) : 0;
  }
  return bytes > 0 ? lines * all / bytes : 0;
}

static int check_memory(const fopo_table *r) {
  return fopo_pairs_check_more(r->t->path, expected_rows(r), &r->pairs);
}

/* ---- a dataset ---- */

/* The names of one side; its pairs become indices of them. */
static int finish_side(fopo_names *names, fopo_side *side, uint32_t *pairs, size_t n) {
  int status = FOPO_OK, done = 0;
  if (side->as_numbers) status = fopo_numbers_finish(names, pairs, n, &done);
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
  int status =
      fopo_several_expect(s, t->path, r->time != FOPO_NO_COLUMN, r->value != FOPO_NO_COLUMN);
  if (!s->pairs.with_times) r->time = FOPO_NO_COLUMN;
  if (status == FOPO_OK && s->from > fopo_text_place(t)) status = fopo_text_seek(t, s->from);
  if (status != FOPO_OK) return status;
  s->begin = fopo_text_place(t);
  t->limit = s->to;
  r->errors = s->errors;
  exchange(r, s);
  status = check_memory(r);
  if (status == FOPO_OK) status = read_rows(r);
  exchange(r, s);
  s->errors = r->errors;
  s->end = fopo_text_place(t);
  if (*r->d->no_times != '\0') {
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
