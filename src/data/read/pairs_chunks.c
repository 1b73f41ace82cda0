/* Rows of pairs by the thousand, by several threads.
 *
 * A block of text is cut at line ends into chunks, whose rows are read independently, up to the
 * first that is not easy: a quote, or anything to be refused. Then the chunks
 * are taken in the order of the file. One counts only when the reader of single rows would arrive
 * at its first byte, so a quote that goes on over a border only makes the next chunk be read again,
 * and what could not be read here is left to that reader together with the rest of its chunk. So
 * results, line numbers and sentences are those of one thread that reads row after row; neither the
 * number of threads nor the size of chunks can change them.
 *
 * Most rows are numbers between separators. They are read eight bytes at a time: one subtraction
 * and one mask say how many of them are digits, three multiplications make them a number. */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/threads.h"
#include "data/read/pairs.h"

enum {
  CHUNK = 1 << 18,   /* bytes: its keys stay in a second-level cache until they are taken */
  CHUNKS = 32,       /* of a block: threads wait for each other once in 8 MiB */
  FAST_COLUMNS = 64, /* more of them are left to the general cut */
  ROW_LEAST = 4      /* bytes of the shortest row: 1,2 and its line end */
};

/* What a column is to a fast row. */
typedef enum { SKIPPED, USER, ITEM, VALUE } role;

typedef struct {
  const char *from, *stop;   /* its text */
  const char *reached;       /* the rows before it are read */
  int64_t *user, *item;      /* [n] ids; of a text, its place behind `from` */
  uint32_t *user_n, *item_n; /* [n] bytes of a text; 0: a number */
  float *value;              /* [n], or NULL */
  size_t room, n;
  size_t lines, left_out;
  int user_is_wide, item_is_wide; /* an id has more than 32 bits, or a sign, or is text */
  size_t first;                   /* place of its first pair among all */
} chunk;

struct fopo_chunks {
  fopo_table *r;      /* not owned */
  fopo_field *fields; /* [threads, columns] of the rows that are looked at */
  size_t size;        /* bytes of a chunk */
  int is_fast;        /* fast rows are tried */
  uint8_t roles[FAST_COLUMNS];
  uint64_t ends[3]; /* separator, line end and quote, eight times each */
  chunk list[CHUNKS];
};

static size_t chosen_size;

void fopo_chunks_size(size_t bytes) { chosen_size = bytes; }

/* ---- eight bytes at a time ---- */

static const uint64_t each = 0x0101010101010101u, tops = 0x8080808080808080u;

static uint64_t load(const char *p) {
  uint64_t word;
  memcpy(&word, p, sizeof word);
  return word;
}

/* The top bit of every byte that is 0; bytes above the lowest of them may have theirs set, too. */
static uint64_t zeros(uint64_t word) { return (word - each) & ~word & tops; }

/* The first separator, line end or quote at or behind p. */
static const char *field_end(const char *p, const uint64_t ends[3]) {
  for (;; p += 8) {
    uint64_t word = load(p);
    uint64_t found = zeros(word ^ ends[0]) | zeros(word ^ ends[1]) | zeros(word ^ ends[2]);
    if (found != 0) return p + __builtin_ctzll(found) / 8;
  }
}

/* Up to eight digits at p: how many there are, and their number. */
static size_t some_digits(uint64_t *number, const char *p) {
  uint64_t word = load(p) ^ 0x3030303030303030u;
  /* Digits are 0 .. 9 now: adding 0x76 sets the top bit of everything else. */
  uint64_t others = ((word + 0x7676767676767676u) | word) & tops;
  size_t n = others == 0 ? 8 : (size_t)__builtin_ctzll(others) / 8;
  if (n == 0) return 0;
  word <<= 64 - 8 * n;            /* leading zeros in front */
  word = word * 10 + (word >> 8); /* every second byte: two digits */
  const uint64_t pairs = 0x000000ff000000ffu;
  *number = ((word & pairs) * (100 + ((uint64_t)1000000 << 32)) +
             (word >> 16 & pairs) * (1 + ((uint64_t)10000 << 32))) >>
            32;
  return n;
}

/* A plain number of up to 16 digits; returns its end, or NULL where p begins with none. */
static const char *plain_number(int64_t *value, const char *p) {
  uint64_t number = 0, more = 0;
  size_t n = some_digits(&number, p);
  if (n == 0 || (*p == '0' && n > 1)) return NULL;
  if (n == 8) {
    static const uint64_t powers[] = {1,      10,      100,      1000,     10000,
                                      100000, 1000000, 10000000, 100000000};
    size_t rest = some_digits(&more, p + 8);
    if (rest == 8 && (unsigned char)(p[16] - '0') <= 9) return NULL;
    number = number * powers[rest] + more;
    n += rest;
  }
  *value = (int64_t)number;
  return p + n;
}

/* ---- rows ---- */

/* A text that begins like no number and no missing one, without blanks: most names. Returns its
 * end, or NULL where there must be a closer look. */
static const char *plain_text(uint32_t *n, const char *p, const uint64_t ends[3]) {
  if ((unsigned char)*p < 'A') return NULL;
  const char *end = field_end(p, ends);
  for (const char *c = p; c < end; c++)
    if ((unsigned char)*c <= ' ') return NULL;
  if (end - p <= 4) return NULL; /* NULL and the like */
  *n = (uint32_t)(end - p);
  return end;
}

/* An id of a fast row. */
static const char *fast_id(int64_t *id, uint32_t *n, const char *p, const fopo_chunks *k,
                           const chunk *c) {
  const char *end = plain_number(id, p);
  *n = 0;
  if (end != NULL) return end;
  *id = p - c->from;
  return plain_text(n, p, k->ends);
}

/* A row at p into place c->n of the chunk; returns where the next one begins, or NULL
 * where the row must be looked at more closely. */
static const char *fast_row(const fopo_chunks *k, chunk *c, const char *p) {
  size_t columns = k->r->columns;
  const char separator = k->r->separator;
  for (size_t i = 0; i < columns; i++) {
    const char *start = p;
    if (k->roles[i] == USER) {
      p = fast_id(&c->user[c->n], &c->user_n[c->n], p, k, c);
    } else if (k->roles[i] == ITEM) {
      p = fast_id(&c->item[c->n], &c->item_n[c->n], p, k, c);
    } else {
      p = field_end(p, k->ends);
      if (k->roles[i] == VALUE) {
        double x;
        size_t n = (size_t)(p - start);
        n -= *p == '\n' && n > 0 && p[-1] == '\r';
        if (fopo_read_real(&x, start, n) != FOPO_IS_NUMBER || fabs(x) > (double)FLT_MAX)
          return NULL;
        c->value[c->n] = (float)x;
      }
    }
    if (p == NULL) return NULL;
    if (i + 1 < columns) {
      if (*p != separator) return NULL;
    } else {
      p += *p == '\r' && p[1] == '\n';
      if (*p != '\n') return NULL;
    }
    p++;
  }
  c->n++;
  return p;
}

static void keep_id(int64_t *id, uint32_t *n, const fopo_key *key, const chunk *c) {
  *id = key->is_plain ? key->number : key->name.at - c->from;
  *n = key->is_plain ? 0 : (uint32_t)key->name.n;
}

/* The same by the general cut. r has its own fields; what it refuses is refused once more, and with
 * its place, by the reader of single rows. */
static const char *any_row(fopo_table *r, chunk *c, const char *p) {
  size_t count;
  const char *next = fopo_table_cut(r, p, &count);
  if (next == NULL) return NULL;
  if (count != r->columns) return fopo_row_is_blank(r->fields, count) ? next : NULL;
  fopo_key user, item;
  float value;
  int status = fopo_table_keys(r, &user, &item, &value);
  if (status == FOPO_ROW_LEFT_OUT) c->left_out++;
  if (status == FOPO_ROW_LEFT_OUT) return next;
  if (status != FOPO_OK) return NULL;
  keep_id(&c->user[c->n], &c->user_n[c->n], &user, c);
  keep_id(&c->item[c->n], &c->item_n[c->n], &item, c);
  if (c->value != NULL) c->value[c->n] = value;
  c->n++;
  return next;
}

static int is_wide(const int64_t *ids, const uint32_t *texts, size_t n) {
  uint64_t all = 0;
  uint32_t text = 0;
  for (size_t i = 0; i < n; i++) {
    all |= (uint64_t)ids[i];
    text |= texts[i];
  }
  return all > UINT32_MAX || text != 0;
}

static void read_chunk(const fopo_chunks *k, chunk *c) {
  fopo_table r = *k->r;
  r.fields = k->fields + (size_t)omp_get_thread_num() * r.columns;
  const char *p = c->from;
  c->n = c->lines = c->left_out = 0;
  while (p < c->stop && c->n < c->room) {
    const char *next = k->is_fast ? fast_row(k, c, p) : NULL;
    if (next == NULL) next = any_row(&r, c, p);
    if (next == NULL) break;
    c->lines++;
    p = next;
  }
  c->reached = p;
  c->user_is_wide = is_wide(c->user, c->user_n, c->n);
  c->item_is_wide = is_wide(c->item, c->item_n, c->n);
}

/* ---- chunks to pairs ---- */

static void copy_side(uint32_t *to, const int64_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = (uint32_t)ids[i];
}

/* The pairs of the chunks [from, to), which were found to count. */
static int take(fopo_chunks *k, size_t from, size_t to) {
  fopo_table *r = k->r;
  fopo_pairs *p = &r->pairs;
  size_t n = p->n;
  int wide_user = 0, wide_item = 0, status;
  for (size_t i = from; i < to; i++) {
    k->list[i].first = n;
    n += k->list[i].n;
    wide_user |= k->list[i].n > 0 && k->list[i].user_is_wide;
    wide_item |= k->list[i].n > 0 && k->list[i].item_is_wide;
  }
  if ((status = fopo_pairs_room(p, n - p->n)) != FOPO_OK) return status;
  if (wide_user) status = fopo_side_index(&r->users, p->user, p->n);
  if (wide_item && status == FOPO_OK) status = fopo_side_index(&r->items, p->item, p->n);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(to - from > 1 ? fopo_threads() : 1)
  for (size_t i = from; i < to; i++) {
    chunk *c = &k->list[i];
    if (r->users.as_numbers) copy_side(p->user + c->first, c->user, c->n);
    if (r->items.as_numbers) copy_side(p->item + c->first, c->item, c->n);
    if (p->with_values && c->n > 0) memcpy(p->value + c->first, c->value, c->n * sizeof *c->value);
  }
  for (size_t i = from; i < to && status == FOPO_OK; i++) {
    chunk *c = &k->list[i];
    if (!r->users.as_numbers)
      status =
          fopo_ids_add_all(&r->users.ids, p->user + c->first, c->user, c->user_n, c->from, c->n);
    if (!r->items.as_numbers && status == FOPO_OK)
      status =
          fopo_ids_add_all(&r->items.ids, p->item + c->first, c->item, c->item_n, c->from, c->n);
  }
  p->n = n;
  return status;
}

/* Takes what the chunks hold, in the order of the file. */
static int take_all(fopo_chunks *k, size_t n) {
  fopo_text *t = k->r->t;
  size_t from = 0; /* chunks before it are taken */
  for (size_t i = 0; i < n; i++) {
    chunk *c = &k->list[i];
    if (t->at == c->from) {
      t->at = c->reached;
      t->line += c->lines;
      k->r->d->skipped += c->left_out;
    } else {
      c->n = 0;
    }
    if (t->at >= c->stop) continue;
    int status = take(k, from, i + 1);
    from = i + 1;
    if (status == FOPO_OK) status = fopo_table_rows(k->r, c->stop);
    if (status != FOPO_OK || t->at < c->stop) return status;
  }
  return take(k, from, n);
}

static void chunk_done(chunk *c) {
  fopo_free(c->user);
  fopo_free(c->item);
  fopo_free(c->user_n);
  fopo_free(c->item_n);
  fopo_free(c->value);
  c->user = c->item = NULL;
  c->user_n = c->item_n = NULL;
  c->value = NULL;
  c->room = 0;
}

/* Room for the rows of the text of c. */
static int make_room(const fopo_chunks *k, chunk *c) {
  size_t room = (size_t)(c->stop - c->from) / ROW_LEAST + 1;
  if (room <= c->room) return FOPO_OK;
  int with_values = k->r->pairs.with_values;
  chunk_done(c);
  c->user = fopo_alloc(room, sizeof *c->user);
  c->item = fopo_alloc(room, sizeof *c->item);
  c->user_n = fopo_alloc(room, sizeof *c->user_n);
  c->item_n = fopo_alloc(room, sizeof *c->item_n);
  if (with_values) c->value = fopo_alloc(room, sizeof *c->value);
  if (c->user == NULL || c->item == NULL || c->user_n == NULL || c->item_n == NULL ||
      (with_values && c->value == NULL))
    return FOPO_ERR_MEMORY;
  c->room = room;
  return FOPO_OK;
}

/* Cuts the text behind `from` into at most CHUNKS chunks at line ends. */
static int cut_chunks(fopo_chunks *k, const char *from, size_t *n) {
  const char *stop = k->r->t->stop;
  for (*n = 0; *n < CHUNKS && from < stop; ++*n) {
    chunk *c = &k->list[*n];
    c->from = from;
    c->stop = stop;
    if ((size_t)(stop - from) > k->size)
      c->stop = (const char *)rawmemchr(from + k->size - 1, '\n') + 1;
    from = c->stop;
    int status = make_room(k, c);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

int fopo_chunks_block(fopo_chunks *k) {
  fopo_text *t = k->r->t;
  while (t->at < t->stop) {
    size_t n;
    int status = cut_chunks(k, t->at, &n), stopped = 0;
    if (status != FOPO_OK) return status;
    const char *stop = k->list[n - 1].stop;
#pragma omp parallel for num_threads(n > 1 ? fopo_threads() : 1) schedule(dynamic)                 \
    reduction(|                                                                                    \
              : stopped)
    for (size_t i = 0; i < n; i++) {
      stopped |= fopo_interrupted();
      if (!stopped) read_chunk(k, &k->list[i]);
    }
    if (stopped) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while %s", t->what);
    status = take_all(k, n);
    if (status != FOPO_OK || t->at < stop) return status;
  }
  return FOPO_OK;
}

/* ---- beginning and end ---- */

/* Every column in use has one meaning, and nothing but one byte separates. */
static int can_be_fast(const fopo_table *r) {
  int distinct = r->user != r->item && r->user != r->value && r->item != r->value;
  return distinct && !r->wide && !r->runs && r->n_conditions == 0 && r->columns <= FAST_COLUMNS &&
         __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

int fopo_chunks_new(fopo_chunks **chunks, fopo_table *r) {
  *chunks = NULL;
  fopo_chunks *k = fopo_alloc(1, sizeof *k);
  if (k == NULL) return FOPO_ERR_MEMORY;
  k->r = r;
  k->size = chosen_size > 0 ? chosen_size : CHUNK;
  k->fields = fopo_alloc((size_t)fopo_threads() * r->columns, sizeof *k->fields);
  if (k->fields == NULL) {
    fopo_free(k);
    return FOPO_ERR_MEMORY;
  }
  k->is_fast = can_be_fast(r);
  if (k->is_fast) {
    k->roles[r->user] = USER;
    k->roles[r->item] = ITEM;
    if (r->value != FOPO_NO_COLUMN) k->roles[r->value] = VALUE;
    k->ends[0] = each * (unsigned char)r->separator;
    k->ends[1] = each * '\n';
    k->ends[2] = r->ends['"'] ? each * '"' : k->ends[1];
  }
  r->t->step = (size_t)CHUNK * CHUNKS;
  *chunks = k;
  return FOPO_OK;
}

void fopo_chunks_free(fopo_chunks *k) {
  if (k == NULL) return;
  for (size_t i = 0; i < CHUNKS; i++) chunk_done(&k->list[i]);
  fopo_free(k->fields);
  fopo_free(k);
}
