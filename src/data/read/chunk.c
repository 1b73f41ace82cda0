/* The rows of one chunk of a table.
 *
 * Most rows are integers between separators. They are parsed eight bytes at a time: an addition and
 * a mask say how many of them are digits, three multiplications make a number of them. */
#include "data/read/chunk.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/threads.h"

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
static const char *fast_id(int64_t *id, uint32_t *n, const char *p, const fopo_chunk_reader *k,
                           const fopo_chunk *c) {
  const char *end = plain_number(id, p);
  *n = 0;
  if (end != NULL) return end;
  *id = p - c->from;
  return plain_text(n, p, k->ends);
}

/* A value or a time of a fast row, [start, end); 0 if any_row must look closer. */
static int fast_number(fopo_chunk *c, const fopo_chunk_reader *k, size_t column, const char *start,
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
static const char *fast_row(const fopo_chunk_reader *k, fopo_chunk *c, const char *p) {
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

static void keep_id(int64_t *id, uint32_t *n, const fopo_key *key, fopo_chunk *c) {
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
static const char *any_row(fopo_table *r, fopo_chunk *c, const char *p) {
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

void fopo_chunk_read(fopo_chunk *c, const fopo_chunk_reader *k) {
  fopo_table r = *k->r;
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

void fopo_chunk_done(fopo_chunk *c) {
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

int fopo_chunk_reserve(fopo_chunk *c, const fopo_chunk_reader *k) {
  int is_json = k->parsers != NULL;
  size_t capacity = (size_t)(c->stop - c->from) / (is_json ? OBJECT_LEAST : ROW_LEAST) + 1;
  if (capacity <= c->capacity) return FOPO_OK;
  int with_values = k->r->value != FOPO_NO_COLUMN, with_times = k->r->pairs.with_times;
  fopo_chunk_done(c);
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
         r->columns <= FOPO_FAST_COLUMNS && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

static int make_parsers(fopo_chunk_reader *k) {
  size_t threads = (size_t)fopo_threads();
  k->parsers = fopo_alloc(threads, sizeof *k->parsers);
  if (k->parsers == NULL) return FOPO_ERR_MEMORY;
  int status = FOPO_OK;
  for (size_t i = 0; i < threads && status == FOPO_OK; i++) {
    status = fopo_json_new(&k->parsers[i], k->r->keys, k->r->columns);
  }
  return status;
}

int fopo_chunk_reader_init(fopo_chunk_reader *k, fopo_table *r) {
  *k = (fopo_chunk_reader){.r = r};
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

void fopo_chunk_skip_times(fopo_chunk_reader *k) {
  if (k->r->time != FOPO_NO_COLUMN) return;
  for (size_t i = 0; i < FOPO_FAST_COLUMNS; i++) {
    if (k->roles[i] == TIME) k->roles[i] = SKIPPED;
  }
}

void fopo_chunk_reader_done(fopo_chunk_reader *k) {
  for (size_t i = 0; k->parsers != NULL && i < (size_t)fopo_threads(); i++) {
    fopo_json_free(k->parsers[i]);
  }
  fopo_free(k->parsers);
  fopo_free(k->fields);
}
