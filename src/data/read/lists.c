/* Lines of integers: "user item item ..." as LightGCN, NGCF and KGAT have them, "count item item
 * ..." (citeulike: line i is user i), or baskets "item item ..." (FIMI: line i is basket i).
 *
 * Ids are kept as they stand, so that several files of one set share their catalogue; the matrix
 * has 1 + the largest id rows and columns. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "data/read/internal.h"

typedef enum { USER_FIRST, COUNT_FIRST, BASKETS } layout;

typedef struct {
  fopo_text *t; /* not owned */
  layout layout;
  fopo_pairs pairs;
  uint8_t *seen; /* [seen_n]: users that had their line */
  size_t seen_n;
  uint64_t users, items; /* 1 + the largest id */
  uint64_t row;          /* lines that were no blank ones */
} reader;

/* Ids are 32 bits, and one more than the largest must fit too. */
static const uint64_t id_most = UINT32_MAX - 1;

static int refuse(const reader *r, size_t column, const char *at, size_t n, const char *why) {
  return fopo_text_refuse(r->t, r->t->line + 1, column, at, n, why);
}

static int ends_word(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static size_t word(const char *p) {
  size_t n = 0;
  while (!ends_word(p[n])) n++;
  return n;
}

/* The next integer of the line; *any = 0 at its end. */
static int next_id(const reader *r, const char **p, size_t column, uint64_t *id, int *any) {
  const char *at = *p;
  while (*at == ' ' || *at == '\t' || *at == '\r') at++;
  *any = *at != '\n';
  *p = at;
  if (!*any) return FOPO_OK;
  uint64_t value = 0;
  for (; (unsigned char)(*at - '0') < 10 && value <= id_most; at++)
    value = value * 10 + (uint64_t)(*at - '0');
  if (at == *p || !ends_word(*at) || value > id_most)
    return refuse(r, column, *p, word(*p),
                  value > id_most ? "is larger than 4294967294, the largest id in lists"
                                  : "is no id: lists hold integers alone");
  *id = value;
  *p = at;
  return FOPO_OK;
}

/* A second line of one user would be a basket or an error, and either should not pass silently. */
static int note_user(reader *r, uint64_t user) {
  if (user >= r->seen_n) {
    size_t n = (size_t)user + 1 > 2 * r->seen_n ? (size_t)user + 1 : 2 * r->seen_n;
    /* The matrix will need 8 bytes for each user up to the largest. */
    int status = fopo_memory_suffices(9 * (uint64_t)n, r->t->path,
                                      "renumber its users, or read it with format = \"pairs\"");
    if (status != FOPO_OK) return status;
    uint8_t *seen = fopo_realloc(r->seen, n, 1);
    if (seen == NULL) return FOPO_ERR_MEMORY;
    r->seen = seen;
    r->seen_n = n;
  }
  if (r->seen[user]) {
    char id[24];
    int n = snprintf(id, sizeof id, "%llu", (unsigned long long)user);
    return refuse(r, 1, id, (size_t)n,
                  "is a user that had a line before; if lines hold items alone, say format = "
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

/* One line at *p, which moves behind it. */
static int read_line(reader *r, const char **p) {
  uint64_t id, head = 0, user = r->row;
  size_t column = 1, items = 0;
  int any, status = next_id(r, p, 1, &id, &any);
  if (status != FOPO_OK || !any) return status; /* a blank line is none */
  r->row++;
  if (r->layout != BASKETS) {
    head = id;
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
  if (status == FOPO_OK && r->layout == COUNT_FIRST && items != head)
    return wrong_count(r, head, items);
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

/* Options that speak of columns have no meaning here. */
static int check_options(const fopo_read_options *o, const char *format) {
  if (o->user != NULL || o->item != NULL || (o->value != NULL && *o->value != '\0') ||
      o->where != NULL || o->header > 0 || (o->separator != 0 && o->separator != ' '))
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "user, item, value, where, header and separator are options of pairs, and "
                     "the format is \"%s\"",
                     format);
  return FOPO_OK;
}

int fopo_read_lists(fopo_dataset *d, fopo_text *t, const fopo_read_options *options,
                    const char *format) {
  reader r = {.t = t,
              .layout = strcmp(format, "counted") == 0   ? COUNT_FIRST
                        : strcmp(format, "baskets") == 0 ? BASKETS
                                                         : USER_FIRST};
  snprintf(d->format, sizeof d->format, "%s", format);
  int status = check_options(options, format);
  /* An id and its blank take 6 bytes or so; packed text is about 3 times as long. */
  double bytes = (double)t->size * (t->inflater != NULL ? 3 : 1);
  if (status == FOPO_OK) status = fopo_pairs_suffice(t->path, bytes / 6, 0);
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
