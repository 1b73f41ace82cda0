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
#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/threads.h"
#include "data/read/table.h"

/* ---- the rows of one chunk ---- */

/* Most rows are integers between separators. They are parsed eight bytes at a time: an addition and
 * a mask say how many of them are digits, three multiplications make a number of them. */

enum { FAST_COLUMNS = 64 }; /* tables with more columns are cut by fopo_table_cut alone */

typedef struct {
  const char *from, *stop;   /* its text */
  const char *reached;       /* the rows before it have been read */
  int64_t *user, *item;      /* [n] an integer id, or the offset of a text from `from` */
  uint32_t *user_n, *item_n; /* [n] bytes of a text; 0: an integer */
  char *texts;               /* of JSON, instead of the text from `from` on; room for two copies */
  size_t texts_n;            /* bytes of them */
  float *value;              /* [n], or NULL */
  double *time;              /* [n], or NULL */
  size_t capacity, n;        /* rows */
  size_t lines, left_out;
  int user_is_wide, item_is_wide; /* 1: an id has more than 32 bits, or a sign, or is text */
  size_t first;                   /* index of its first pair among all pairs */
} chunk;

/* What the threads that read chunks share. */
typedef struct {
  fopo_table *r;               /* not owned */
  fopo_field *fields;          /* [threads, columns] the row that each thread cuts */
  fopo_json **parsers;         /* [threads] where rows are JSON objects, else NULL */
  int is_fast;                 /* 1: rows are first tried eight bytes at a time */
  uint8_t roles[FAST_COLUMNS]; /* what such a row's columns are */
  uint64_t ends[3];            /* separator, line end and quote, each byte repeated eight times */
} chunk_reader;

enum {
  ROW_LEAST = 4,    /* bytes of the shortest row: "1,2" and its line end */
  OBJECT_LEAST = 14 /* {"u":1,"i":1} */
};

/* What fast_row does with a column. */
typedef enum { SKIPPED, USER, ITEM, VALUE, TIME } role;

/* ---- eight bytes at a time ---- */

static const uint64_t each = 0x0101010101010101u, tops = 0x8080808080808080u;

static uint64_t load(const char *p) {
  uint64_t word;
  memcpy(&word, p, sizeof word);
  return word;
}

/* Sets the top bit of every byte that is 0. The lowest one set is right; a borrow may set others
 * above it. */
static uint64_t zeros(uint64_t word) { return (word - each) & ~word & tops; }

/* The first separator, line end or quote from p on. */
static const char *field_end(const char *p, const uint64_t ends[3]) {
  for (;; p += 8) {
    uint64_t word = load(p);
    uint64_t found = zeros(word ^ ends[0]) | zeros(word ^ ends[1]) | zeros(word ^ ends[2]);
    if (found != 0) return p + __builtin_ctzll(found) / 8;
  }
}

/* Parses up to eight digits at p; returns how many there are. */
static size_t some_digits(uint64_t *number, const char *p) {
  uint64_t word = load(p) ^ 0x3030303030303030u;
  /* Digits are 0 .. 9 now: adding 0x76 sets the top bit of everything else. */
  uint64_t others = ((word + 0x7676767676767676u) | word) & tops;
  size_t n = others == 0 ? 8 : (size_t)__builtin_ctzll(others) / 8;
  if (n == 0) return 0;
  word <<= 64 - 8 * n;            /* pads with leading zeros to eight digits */
  word = word * 10 + (word >> 8); /* every second byte: the number of two digits */
  const uint64_t pairs = 0x000000ff000000ffu;
  *number = ((word & pairs) * (100 + ((uint64_t)1000000 << 32)) +
             (word >> 16 & pairs) * (1 + ((uint64_t)10000 << 32))) >>
            32;
  return n;
}

/* A plain integer of up to 16 digits; returns its end, or NULL if there is none at p. */
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

/* A text that can be neither a number nor a missing value and holds no blanks: most names. Returns
 * its end, or NULL if any_row must look closer. */
static const char *plain_text(uint32_t *n, const char *p, const uint64_t ends[3]) {
  if ((unsigned char)*p < 'A') return NULL;
  const char *end = field_end(p, ends);
  for (const char *c = p; c < end; c++) {
    if ((unsigned char)*c <= ' ') return NULL;
  }
  if (end - p <= 4) return NULL; /* it may be NULL or NaN */
  *n = (uint32_t)(end - p);
  return end;
}

/* An id of a fast row; returns its end, or NULL. */
static const char *fast_id(int64_t *id, uint32_t *n, const char *p, const chunk_reader *k,
                           const chunk *c) {
  const char *end = plain_number(id, p);
  *n = 0;
  if (end != NULL) return end;
  *id = p - c->from;
  return plain_text(n, p, k->ends);
}

/* A value or a time of a fast row, [start, end); 0 if any_row must look closer. */
static int fast_number(chunk *c, const chunk_reader *k, size_t column, const char *start,
                       const char *end) {
  size_t n = (size_t)(end - start);
  n -= *end == '\n' && n > 0 && end[-1] == '\r';
  if (k->roles[column] == TIME) {
    int64_t whole;
    if (!k->r->time_is_date && plain_number(&whole, start) == end) {
      c->time[c->n] = (double)whole;
      return 1;
    }
    return fopo_field_time(&c->time[c->n], (fopo_field){start, n, 0}, k->r->time_is_date);
  }
  double x;
  if (fopo_parse_real(&x, start, n) != FOPO_IS_NUMBER || fabs(x) > (double)FLT_MAX) return 0;
  c->value[c->n] = (float)x;
  return 1;
}

/* Reads the row at p as row c->n of the chunk; returns where the next one begins, or NULL if
 * any_row must look closer. */
static const char *fast_row(const chunk_reader *k, chunk *c, const char *p) {
  size_t columns = k->r->columns;
  const char separator = k->r->separator;
  for (size_t i = 0; i < columns; i++) {
    /* The field, by the role of its column; p moves to its end. */
    const char *start = p;
    if (k->roles[i] == USER) {
      p = fast_id(&c->user[c->n], &c->user_n[c->n], p, k, c);
    } else if (k->roles[i] == ITEM) {
      p = fast_id(&c->item[c->n], &c->item_n[c->n], p, k, c);
    } else {
      p = field_end(p, k->ends);
      if (k->roles[i] != SKIPPED && !fast_number(c, k, i, start, p)) return NULL;
    }
    if (p == NULL) return NULL;
    /* It must end at a separator, the last one at a line end: quotes and blanks are not easy. */
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

static void keep_id(int64_t *id, uint32_t *n, const fopo_key *key, chunk *c) {
  *n = key->is_plain ? 0 : (uint32_t)key->name.n;
  if (key->is_plain) {
    *id = key->number;
  } else if (c->texts == NULL) {
    *id = key->name.at - c->from;
  } else {
    /* A text of JSON is no longer than it is written; one key may be both user and item. */
    memcpy(c->texts + c->texts_n, key->name.at, key->name.n);
    *id = (int64_t)c->texts_n;
    c->texts_n += key->name.n;
  }
}

/* The same by the general cut; NULL: left to the serial reader, which refuses it with its place or
 * reads it. r is this thread's copy of the table, with fields of its own. */
static const char *any_row(fopo_table *r, chunk *c, const char *p) {
  size_t count;
  const char *next = fopo_table_cut(r, p, &count);
  if (next == NULL) return NULL;
  if (count != r->columns) return fopo_row_is_blank(r->fields, count) ? next : NULL;
  fopo_row row;
  int status = fopo_table_keys(r, &row);
  if (status == FOPO_ROW_LEFT_OUT) c->left_out++;
  if (status == FOPO_ROW_LEFT_OUT) return next;
  if (status != FOPO_OK) return NULL;
  keep_id(&c->user[c->n], &c->user_n[c->n], &row.user, c);
  keep_id(&c->item[c->n], &c->item_n[c->n], &row.item, c);
  if (c->value != NULL) c->value[c->n] = row.value;
  if (r->time != FOPO_NO_COLUMN) c->time[c->n] = row.time;
  c->n++;
  return next;
}

/* 1 if one of the ids is no integer of 32 bits. */
static int is_wide(const int64_t *ids, const uint32_t *texts, size_t n) {
  uint64_t all = 0;
  uint32_t text = 0;
  for (size_t i = 0; i < n; i++) {
    all |= (uint64_t)ids[i];
    text |= texts[i];
  }
  return all > UINT32_MAX || text != 0;
}

/* Reads the rows of c up to the first one that is not easy: one with a quote, or with anything to
 * be refused. Called by the threads of a parallel region. */
static void chunk_read(chunk *c, const chunk_reader *k) {
  fopo_table r = *k->r;
  r.tries = 1;
  r.fields = k->fields + (size_t)omp_get_thread_num() * r.columns;
  if (k->parsers != NULL) r.json = k->parsers[omp_get_thread_num()];
  const char *p = c->from;
  c->n = c->lines = c->left_out = c->texts_n = 0;
  while (p < c->stop && c->n < c->capacity) {
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

/* ---- a chunk ---- */

static void chunk_done(chunk *c) {
  fopo_free(c->user);
  fopo_free(c->item);
  fopo_free(c->user_n);
  fopo_free(c->item_n);
  fopo_free(c->value);
  fopo_free(c->time);
  fopo_free(c->texts);
  c->texts = NULL;
  c->user = c->item = NULL;
  c->user_n = c->item_n = NULL;
  c->value = NULL;
  c->time = NULL;
  c->capacity = 0;
}

/* Capacity for as many rows as the text of c can hold. */
static int chunk_reserve(chunk *c, const chunk_reader *k) {
  int is_json = k->parsers != NULL;
  size_t capacity = (size_t)(c->stop - c->from) / (is_json ? OBJECT_LEAST : ROW_LEAST) + 1;
  if (capacity <= c->capacity) return FOPO_OK;
  int with_values = k->r->value != FOPO_NO_COLUMN, with_times = k->r->pairs.with_times;
  chunk_done(c);
  c->user = fopo_alloc(capacity, sizeof *c->user);
  c->item = fopo_alloc(capacity, sizeof *c->item);
  c->user_n = fopo_alloc(capacity, sizeof *c->user_n);
  c->item_n = fopo_alloc(capacity, sizeof *c->item_n);
  if (is_json) c->texts = fopo_alloc(2 * capacity, OBJECT_LEAST);
  if (is_json && c->texts == NULL) return FOPO_ERR_MEMORY;
  if (with_values) c->value = fopo_alloc(capacity, sizeof *c->value);
  if (with_times) c->time = fopo_alloc(capacity, sizeof *c->time);
  if (c->user == NULL || c->item == NULL || c->user_n == NULL || c->item_n == NULL ||
      (with_values && c->value == NULL) || (with_times && c->time == NULL)) {
    return FOPO_ERR_MEMORY;
  }
  c->capacity = capacity;
  return FOPO_OK;
}

/* ---- the reader ---- */

/* 1 if fast_row applies: no column has two roles, and one byte separates fields. */
static int can_be_fast(const fopo_table *r) {
  int distinct = r->user != r->item && r->user != r->value && r->item != r->value;
  int timed = r->time == FOPO_NO_COLUMN ||
              (r->time != r->user && r->time != r->item && r->time != r->value);
  return distinct && timed && r->keys == NULL && !r->wide && !r->runs && r->n_conditions == 0 &&
         r->columns <= FAST_COLUMNS && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

static int make_parsers(chunk_reader *k) {
  size_t threads = (size_t)fopo_threads();
  k->parsers = fopo_alloc(threads, sizeof *k->parsers);
  if (k->parsers == NULL) return FOPO_ERR_MEMORY;
  int status = FOPO_OK;
  for (size_t i = 0; i < threads && status == FOPO_OK; i++) {
    status = fopo_json_new(&k->parsers[i], k->r->keys, k->r->columns);
  }
  return status;
}

static int chunk_reader_init(chunk_reader *k, fopo_table *r) {
  *k = (chunk_reader){.r = r};
  k->fields = fopo_alloc((size_t)fopo_threads() * r->columns, sizeof *k->fields);
  if (k->fields == NULL) return FOPO_ERR_MEMORY;
  int status = r->keys != NULL ? make_parsers(k) : FOPO_OK;
  if (status != FOPO_OK) return status;
  k->is_fast = can_be_fast(r);
  if (k->is_fast) {
    k->roles[r->user] = USER;
    k->roles[r->item] = ITEM;
    if (r->value != FOPO_NO_COLUMN) k->roles[r->value] = VALUE;
    if (r->time != FOPO_NO_COLUMN) k->roles[r->time] = TIME;
    k->ends[0] = each * (unsigned char)r->separator;
    k->ends[1] = each * '\n';
    k->ends[2] = r->ends['"'] ? each * '"' : k->ends[1];
  }
  return FOPO_OK;
}

/* The column of times is skipped once the serial reader has given them up. */
static void chunk_skip_times(chunk_reader *k) {
  if (k->r->time != FOPO_NO_COLUMN) return;
  for (size_t i = 0; i < FAST_COLUMNS; i++) {
    if (k->roles[i] == TIME) k->roles[i] = SKIPPED;
  }
}

static void chunk_reader_done(chunk_reader *k) {
  for (size_t i = 0; k->parsers != NULL && i < (size_t)fopo_threads(); i++) {
    fopo_json_free(k->parsers[i]);
  }
  fopo_free(k->parsers);
  fopo_free(k->fields);
}

enum {
  CHUNK = 1 << 18, /* bytes: its ids stay in the L2 cache until they are committed */
  CHUNKS = 32      /* chunks of a block: threads wait for each other once in 8 MiB */
};

struct fopo_chunks {
  chunk_reader reader;
  size_t size; /* bytes of a chunk */
  chunk list[CHUNKS];
};

static size_t chosen_size;

void fopo_chunks_size(size_t bytes) { chosen_size = bytes; }

/* ---- chunks to pairs ---- */

static void copy_side(uint32_t *to, const int64_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = (uint32_t)ids[i];
}

/* Of a file without values, beside one that has them, they are 1. */
static void copy_values(float *to, const chunk *c) {
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
    chunk *c = &k->list[i];
    if (r->users.as_numbers) copy_side(p->user + c->first, c->user, c->n);
    if (r->items.as_numbers) copy_side(p->item + c->first, c->item, c->n);
    if (p->with_values) copy_values(p->value + c->first, c);
    if (p->with_times && c->n > 0) memcpy(p->time + c->first, c->time, c->n * sizeof *c->time);
  }
  /* Ids that need an index: one chunk after the other, since indices follow first appearance. */
  for (size_t i = from; i < to && status == FOPO_OK; i++) {
    chunk *c = &k->list[i];
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
    chunk *c = &k->list[i];
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
    chunk *c = &k->list[*n];
    c->from = from;
    c->stop = stop;
    if ((size_t)(stop - from) > k->size) {
      c->stop = strchr(from + k->size - 1, '\n') + 1;
    }
    from = c->stop;
    int status = chunk_reserve(c, &k->reader);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

int fopo_chunks_block(fopo_chunks *k) {
  fopo_text *t = k->reader.r->t;
  while (t->at < fopo_text_limit(t)) {
    size_t n;
    chunk_skip_times(&k->reader);
    int status = cut_chunks(k, t->at, &n), stopped = 0;
    if (status != FOPO_OK) return status;
    const char *stop = k->list[n - 1].stop;
#pragma omp parallel for num_threads(n > 1 ? fopo_threads() : 1) schedule(dynamic)                 \
    reduction(|                                                                                    \
              : stopped)
    for (size_t i = 0; i < n; i++) {
      stopped |= fopo_interrupted();
      if (!stopped) chunk_read(&k->list[i], &k->reader);
    }
    if (stopped) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while %s", t->source.what);
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
  int status = chunk_reader_init(&k->reader, r);
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
  for (size_t i = 0; i < CHUNKS; i++) chunk_done(&k->list[i]);
  chunk_reader_done(&k->reader);
  fopo_free(k);
}
