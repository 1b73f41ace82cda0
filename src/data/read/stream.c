/* A user ends where another one begins. Those that have ended are remembered by 64 bits of their
 * names, 16 to 32 bytes a user, so that a user who comes back is noticed: a context of half a
 * history would be a wrong recommendation. Two of ten million names have the same bits with a
 * probability of 3e-6. */
#include "data/read/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/histories.h"
#include "data/names.h"
#include "data/read/table.h"

/* A set of hashes, open addressing; 0 stands for a free slot. */
typedef struct {
  uint64_t *slots; /* [n_slots], a power of two */
  size_t n_slots, n;
} hash_set;

struct fopo_stream {
  char path[4096]; /* the text keeps a pointer to it */
  fopo_text text;
  fopo_table table;
  fopo_dataset counts; /* `skipped` is counted there */
  fopo_read_options options;
  fopo_lookup items;
  int by_number; /* 1: items have no names and are numbers from 1 on */
  size_t P;
  hash_set ended;
  uint64_t current; /* hash of the user whose rows are being read */
  /* the users of one call of fopo_stream_next */
  size_t most;
  fopo_names names;
  size_t capacity; /* of names.text */
  fopo_pairs pairs;
  fopo_stream_facts facts;
};

/* ---- users ---- */

static int grow(hash_set *set) {
  hash_set larger = {.n_slots = set->n_slots == 0 ? 1024 : 2 * set->n_slots, .n = set->n};
  larger.slots = fopo_alloc(larger.n_slots, sizeof *larger.slots);
  if (larger.slots == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < set->n_slots; i++) {
    uint64_t h = set->slots[i];
    if (h == 0) continue;
    size_t at = h & (larger.n_slots - 1);
    while (larger.slots[at] != 0) at = (at + 1) & (larger.n_slots - 1);
    larger.slots[at] = h;
  }
  fopo_free(set->slots);
  *set = larger;
  return FOPO_OK;
}

/* *is_new = 0 if the set has the hash already. */
static int add_hash(int *is_new, hash_set *set, uint64_t h) {
  int status = 2 * set->n >= set->n_slots ? grow(set) : FOPO_OK;
  if (status != FOPO_OK) return status;
  size_t at = h & (set->n_slots - 1);
  while (set->slots[at] != 0 && set->slots[at] != h) at = (at + 1) & (set->n_slots - 1);
  *is_new = set->slots[at] == 0;
  set->n += (size_t)*is_new;
  set->slots[at] = h;
  return FOPO_OK;
}

/* The key as text, without quotes that are doubled. Returns its length. */
static size_t text_of(char *out, size_t size, const fopo_key *key) {
  if (key->is_plain) return (size_t)snprintf(out, size, "%" PRId64, key->number);
  size_t n = 0;
  for (size_t i = 0; i < key->name.n && n + 1 < size; i++) {
    out[n++] = key->name.at[i];
    i += key->name.doubled && key->name.at[i] == '"';
  }
  out[n] = '\0';
  return n;
}

enum { NAME = 4096 }; /* bytes of a name, at most */

/* Begins a user, unless the call has enough of them: FOPO_ROW_NOT_NOW. */
static int begin_user(fopo_stream *s, uint64_t hash, const char *name, size_t n) {
  int is_new;
  if (s->names.n == s->most) return FOPO_ROW_NOT_NOW;
  int status = add_hash(&is_new, &s->ended, hash);
  if (status == FOPO_OK && !is_new) {
    s->facts.is_grouped = 0;
    status = fopo_fail(FOPO_ERR_FORMAT,
                       "%s, line %zu: user %.60s stood further up too; sort the file by user, so "
                       "that the rows of each stand together",
                       s->text.path, s->text.line + 1, name);
  }
  if (status == FOPO_OK) status = fopo_names_append(&s->names, &s->capacity, name, n);
  if (status != FOPO_OK) return status;
  s->current = hash;
  s->facts.users++;
  return FOPO_OK;
}

/* ---- rows ---- */

static int64_t find_item(const fopo_stream *s, const fopo_key *key, const char *name, size_t n) {
  if (s->by_number) {
    return key->is_plain && key->number >= 1 && (uint64_t)key->number <= s->P ? key->number - 1
                                                                              : -1;
  }
  return key->is_plain ? fopo_lookup_number(&s->items, key->number)
                       : fopo_lookup_text(&s->items, name, n);
}

static int take_row(fopo_table *r, const fopo_row *row) {
  fopo_stream *s = r->taker;
  char name[NAME];
  size_t n = text_of(name, sizeof name, &row->user);
  uint64_t hash = fopo_hash_text(name, n);
  if (hash == 0) hash = 1; /* 0: a free slot, no user yet */
  if (hash != s->current) {
    int status = begin_user(s, hash, name, n);
    if (status != FOPO_OK) return status;
  }
  n = text_of(name, sizeof name, &row->item);
  int64_t item = find_item(s, &row->item, name, n);
  s->facts.rows++;
  if (item >= 0) return fopo_pairs_add(&s->pairs, (uint32_t)s->names.n - 1, (uint32_t)item, 1.0f);
  if (s->facts.unknown++ == 0) {
    snprintf(s->facts.example, sizeof s->facts.example, "%.*s", (int)sizeof s->facts.example - 1,
             name);
  }
  return FOPO_OK;
}

/* ---- the stream ---- */

int fopo_stream_open(fopo_stream **stream, const char *path, const fopo_read_options *options,
                     const fopo_names *items, size_t P) {
  const fopo_reader *reader = NULL;
  *stream = NULL;
  fopo_stream *s = fopo_alloc(1, sizeof *s);
  if (s == NULL) return FOPO_ERR_MEMORY;
  s->options = *options;
  s->options.value = s->options.time = ""; /* neither is used */
  s->by_number = items == NULL;
  s->P = P;
  s->facts.is_grouped = 1;
  snprintf(s->path, sizeof s->path, "%s", path);
  int status = items != NULL ? fopo_lookup_init(&s->items, items) : FOPO_OK;
  if (status == FOPO_OK) status = fopo_reader_open(&reader, &s->text, s->path, &s->options);
  if (status == FOPO_OK && reader->roles == NULL) {
    fopo_stream_close(s);
    return FOPO_OK;
  }
  if (status == FOPO_OK) {
    s->table = (fopo_table){
        .t = &s->text, .d = &s->counts, .options = &s->options, .take = take_row, .taker = s};
    status = fopo_table_plan(&s->table, reader->roles);
  }
  /* the strings of the options are the caller's, and have been used */
  s->options.format = s->options.user = s->options.item = s->options.where = NULL;
  if (status != FOPO_OK) {
    fopo_stream_close(s);
    return status;
  }
  *stream = s;
  return FOPO_OK;
}

void fopo_stream_close(fopo_stream *s) {
  if (s == NULL) return;
  fopo_table_done(&s->table);
  fopo_text_close(&s->text);
  fopo_lookup_done(&s->items);
  fopo_names_done(&s->names);
  fopo_pairs_done(&s->pairs);
  fopo_free(s->ended.slots);
  fopo_free(s);
}

/* Reads rows until `most` users are complete or the file ends. */
static int read_users(fopo_stream *s) {
  fopo_text *t = &s->text;
  for (;;) {
    size_t left = (size_t)(t->stop - t->at);
    int status = fopo_table_rows(&s->table, t->stop);
    if (status == FOPO_ROW_NOT_NOW) return FOPO_OK;
    if (status != FOPO_OK || (left == (size_t)(t->stop - t->at) && t->ended)) return status;
    status = fopo_text_more(t);
    if (status != FOPO_OK) return status;
  }
}

int fopo_stream_next(fopo_sessions *out, fopo_names *users, fopo_stream *s, size_t most) {
  *out = (fopo_sessions){0};
  *users = (fopo_names){0};
  s->most = most;
  int status = read_users(s);
  if (status == FOPO_OK) {
    status = fopo_histories_from(out, s->pairs.user, s->pairs.item, s->pairs.n, s->names.n, s->P);
  }
  if (status == FOPO_OK) {
    *users = s->names;
    s->names = (fopo_names){0};
  }
  fopo_names_done(&s->names);
  s->capacity = 0;
  s->pairs.n = 0;
  return status;
}

fopo_stream_facts fopo_stream_about(const fopo_stream *s) {
  fopo_stream_facts facts = s->facts;
  facts.skipped = s->counts.skipped;
  facts.taken = s->text.taken - (uint64_t)(s->text.stop - s->text.at);
  facts.size = s->text.size;
  if (!fopo_text_can_seek(&s->text) || s->text.at >= s->text.stop) facts.taken = s->text.taken;
  return facts;
}
