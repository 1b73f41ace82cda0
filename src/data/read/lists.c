/* Lines of integers: "user item item ..." (LightGCN, NGCF, KGAT), "count item item ..." (CiteULike:
 * line i is user i), or baskets "item item ..." (FIMI: line i is basket i). Lines have any length,
 * and a user may have no item.
 *
 * Ids are indices as they stand, so that several files of one set share their catalogue: the matrix
 * has 1 + the largest id rows and columns. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "data/pairs.h"
#include "data/read/readers.h"
#include "data/text.h"

typedef enum { USER_FIRST, COUNT_FIRST, BASKETS } layout;

typedef struct {
  fopo_text *t; /* not owned */
  layout layout;
  fopo_pairs pairs;
  uint8_t *seen; /* [seen_n] 1: this user had its line */
  size_t seen_n;
  uint64_t users, items; /* 1 + the largest id */
  uint64_t row;          /* lines so far, blank ones not counted */
} reader;

/* Ids are 32 bits, and one more than the largest must fit too. */
static const uint64_t id_most = UINT32_MAX - 1;

/* Fails with the place: the next line, `column` the number of the word from 1. */
static int refuse(const reader *r, size_t column, const char *at, size_t n, const char *why) {
  return fopo_text_refuse(r->t, r->t->line + 1, column, at, n, why);
}

static int ends_word(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* Bytes of the word at p. */
static size_t word(const char *p) {
  size_t n = 0;
  while (!ends_word(p[n])) n++;
  return n;
}

/* The next id of the line at *p, which moves behind it; *any = 0 at the end of the line. */
static int next_id(const reader *r, const char **p, size_t column, uint64_t *id, int *any) {
  const char *at = *p;
  while (*at == ' ' || *at == '\t' || *at == '\r') at++;
  *any = *at != '\n';
  *p = at;
  if (!*any) return FOPO_OK;
  uint64_t value = 0;
  for (; (unsigned char)(*at - '0') < 10 && value <= id_most; at++) {
    value = value * 10 + (uint64_t)(*at - '0');
  }
  if (at == *p || !ends_word(*at) || value > id_most) {
    return refuse(r, column, *p, word(*p),
                  value > id_most ? "is larger than 4294967294, the largest id in lists"
                                  : "is not an id: lists hold integers only");
  }
  *id = value;
  *p = at;
  return FOPO_OK;
}

/* Refuses a second line of one user: the file is damaged, or holds baskets. */
static int note_user(reader *r, uint64_t user) {
  if (user >= r->seen_n) {
    size_t n = (size_t)user + 1 > 2 * r->seen_n ? (size_t)user + 1 : 2 * r->seen_n;
    /* The matrix will need 8 bytes for each user up to the largest. */
    int status = fopo_memory_suffices(9 * (uint64_t)n, r->t->path,
                                      "renumber its users, or read it with format = \"pairs\"");
    if (status != FOPO_OK) return status;
    if (fopo_resize(&r->seen, n, 1) != FOPO_OK) return FOPO_ERR_MEMORY;
    r->seen_n = n;
  }
  if (r->seen[user]) {
    char id[24];
    int n = snprintf(id, sizeof id, "%llu", (unsigned long long)user);
    return refuse(r, 1, id, (size_t)n,
                  "is a user that had a line before; if lines hold items only, say format = "
                  "\"baskets\"");
  }
  r->seen[user] = 1;
  return FOPO_OK;
}

static int wrong_count(const reader *r, uint64_t claimed, size_t found) {
  char why[100];
  snprintf(why, sizeof why, "the line says %llu items and holds %zu", (unsigned long long)claimed,
           found);
  return refuse(r, 1, NULL, 0, why);
}

/* One line at *p, which moves to its end. */
static int read_line(reader *r, const char **p) {
  uint64_t id, count = 0, user = r->row;
  size_t column = 1, items = 0;
  int any, status = next_id(r, p, 1, &id, &any);
  if (status != FOPO_OK || !any) return status; /* a blank line */
  r->row++;
  if (r->layout != BASKETS) {
    count = id;
    if (r->layout == USER_FIRST) {
      user = id;
      status = note_user(r, user);
      if (status != FOPO_OK) return status;
    }
    status = next_id(r, p, ++column, &id, &any);
  }
  if (user >= r->users) r->users = user + 1;
  if (r->users > id_most) return refuse(r, 0, NULL, 0, "there are more than 4294967294 lines");
  for (; status == FOPO_OK && any; items++) {
    if (id >= r->items) r->items = id + 1;
    status = fopo_pairs_add(&r->pairs, (uint32_t)user, (uint32_t)id, 1.0f);
    if (status == FOPO_OK) status = next_id(r, p, ++column, &id, &any);
  }
  if (status == FOPO_OK && r->layout == COUNT_FIRST && items != count) {
    return wrong_count(r, count, items);
  }
  return status;
}

static int read_lines(reader *r) {
  fopo_text *t = r->t;
  int status = FOPO_OK;
  while (status == FOPO_OK && t->at < t->stop) {
    while (t->at < t->stop) {
      const char *p = t->at;
      status = read_line(r, &p);
      if (status != FOPO_OK) return status;
      t->at = p + 1;
      t->line++;
    }
    status = fopo_text_more(t);
  }
  return status;
}

static int read_layout(fopo_dataset *d, fopo_text *t, layout of) {
  reader r = {.t = t, .layout = of};
  /* An id and its blank take about 6 bytes; gzipped text is about 3 times as long as its file. */
  double bytes = (double)t->size * (t->unpacker != NULL ? 3 : 1);
  int status = fopo_pairs_check_memory(t->path, bytes / 6, 0);
  if (status == FOPO_OK) status = read_lines(&r);
  if (status == FOPO_OK) {
    d->users.n = (size_t)r.users;
    d->items.n = (size_t)r.items;
    status = fopo_pairs_build(d, &r.pairs, (size_t)r.users, (size_t)r.items, t->path);
  }
  fopo_free(r.seen);
  fopo_pairs_done(&r.pairs);
  return status;
}

static int read_lists(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  (void)o;
  return read_layout(d, t, USER_FIRST);
}

static int read_counted(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  (void)o;
  return read_layout(d, t, COUNT_FIRST);
}

static int read_baskets(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  (void)o;
  return read_layout(d, t, BASKETS);
}

/* ---- recognition ---- */

/* How many integers the line holds, and the first; *wide = 1 if two of them are more than one blank
 * apart, as columns are that were aligned. 0 if the line holds anything else. */
static int integers(const char *p, const char *end, size_t *n, uint64_t *first, int *wide) {
  const char *last = p; /* the end of the integer before */
  *wide = 0;
  for (*n = 0; p < end;) {
    if (*p == ' ' || *p == '\t') {
      p++;
      continue;
    }
    *wide |= *n > 0 && p - last > 1;
    uint64_t value = 0;
    const char *start = p;
    for (; p < end && isdigit((unsigned char)*p); p++) value = value * 10 + (uint64_t)(*p - '0');
    if (p == start || (p < end && *p != ' ' && *p != '\t')) return 0;
    if ((*n)++ == 0) *first = value;
    last = p;
  }
  return 1;
}

/* Lists hold nothing but integers, in lines of many lengths or of more fields than pairs have. A
 * few short or long lines among equal ones are malformed pairs, left to that reader to refuse; so
 * are lines whose numbers stand two blanks apart in most of them: they are columns. *counted = 1 if
 * the first number of every line counts the others. */
static int are_lists(const fopo_text *t, int *counted) {
  enum { PAIR_FIELDS = 5 };
  const char *p = t->at, *at, *end;
  size_t lines = 0, aligned = 0, longest = 0, n_counted = 0, of_length[PAIR_FIELDS + 1] = {0};
  while (fopo_text_peek(&p, t->stop, &at, &end)) {
    size_t n;
    uint64_t first = 0;
    int wide;
    if (!integers(at, end, &n, &first, &wide)) return 0;
    if (n == 0) continue;
    lines++;
    aligned += (size_t)wide;
    n_counted += first == n - 1;
    if (n > longest) longest = n;
    if (n <= PAIR_FIELDS) of_length[n]++;
  }
  size_t usual = 0;
  for (size_t n = 2; n <= PAIR_FIELDS; n++) {
    if (of_length[n] > usual) usual = of_length[n];
  }
  *counted = n_counted == lines && lines >= 3;
  return longest >= 3 && usual * 10 <= lines * 9 && 2 * aligned <= lines;
}

/* Options on columns say that the file holds pairs. */
static int sniff(const fopo_text *t, const fopo_read_options *o, int want_counted) {
  int counted = 0;
  if (fopo_read_has_columns(o) || o->separator != 0) return 0;
  return are_lists(t, &counted) && counted == want_counted;
}

static int sniff_lists(fopo_text *t, const fopo_read_options *o) { return sniff(t, o, 0); }

static int sniff_counted(fopo_text *t, const fopo_read_options *o) { return sniff(t, o, 1); }

/* ---- rows of the table ---- */

const fopo_reader fopo_reader_lists = {.name = "lists",
                                       .what = "\"user item item ...\" a line; a user has one line",
                                       .sniff = sniff_lists,
                                       .read = read_lists};

const fopo_reader fopo_reader_counted = {
    .name = "counted",
    .what = "\"count item item ...\" a line, as CiteULike: line i is user i",
    .users_are_lines = 1,
    .sniff = sniff_counted,
    .read = read_counted};

/* Baskets look like lists, so they are never recognised. */
const fopo_reader fopo_reader_baskets = {
    .name = "baskets",
    .what = "\"item item ...\" a line, as FIMI: line i is user i; only by name",
    .users_are_lines = 1,
    .read = read_baskets};
