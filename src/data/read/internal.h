/* What the readers share: text in blocks of whole lines, ids to indices, pairs to a matrix. */
#ifndef FOPO_DATA_READ_INTERNAL_H
#define FOPO_DATA_READ_INTERNAL_H

#include "core/status.h"
#include "data/read/readers.h"

/* ---- text: read_text.c ---- */

/* A plain or gzipped text file. After fopo_text_more, [at, stop) holds whole lines, each ended by
 * '\n' (added where the file's last line has none; lone CR line ends are turned into it); readers
 * move `at` forward and count `line`. Bytes beyond stop are private, and reading up to 16 of them
 * is harmless. */
typedef struct {
  const char *path; /* not owned */
  char what[256];   /* "reading PATH", for progress */
  int fd;
  void *inflater;        /* z_stream of a gzipped file, or NULL */
  unsigned char *packed; /* its input block */
  char *buffer;
  size_t room, filled; /* bytes of buffer, and how many of them are text */
  size_t step;         /* bytes read at once: 1 MiB, and a reader with many threads takes more */
  const char *at, *stop;
  uint64_t taken, size; /* bytes of the file read so far, and its length */
  size_t line;          /* number of the line that ends before `at`: lines passed so far */
  int ended;            /* the file has no more bytes */
  int lone_cr;          /* lines end in CR alone */
} fopo_text;

int fopo_text_open(fopo_text *t, const char *path);
void fopo_text_close(fopo_text *t); /* accepts {0} */

/* Reads on, keeping what lies between at and stop; at == stop afterwards means the end. When lines
 * remain unread it still adds at least one more, for a reader that needs to see further. */
int fopo_text_more(fopo_text *t);

/* "PATH, line 7, column 2: 'text' why"; column 0 is left out, and so is text NULL. */
int fopo_text_refuse(const fopo_text *t, size_t line, size_t column, const char *text, size_t n,
                     const char *why);

/* ---- numbers: read_number.c ---- */

typedef enum { FOPO_IS_NUMBER, FOPO_NO_NUMBER, FOPO_NOT_FINITE } fopo_is;

/* A decimal real, the whole of text: digits, point, exponent, sign; no hexadecimal. */
fopo_is fopo_read_real(double *value, const char *text, size_t n);

/* 1 for an integer that prints back as it stood: no plus, no leading zeros, at most 18 digits. */
static inline int fopo_read_plain(int64_t *value, const char *text, size_t n) {
  const char *end = text + n;
  int negative = n > 1 && *text == '-';
  text += negative;
  if (text == end || end - text > 18 || (*text == '0' && (end - text > 1 || negative))) return 0;
  int64_t v = 0;
  for (; text < end; text++) {
    unsigned digit = (unsigned)(unsigned char)*text - '0';
    if (digit > 9) return 0;
    v = v * 10 + (int64_t)digit;
  }
  *value = negative ? -v : v;
  return 1;
}

/* ---- ids: read_ids.c ---- */

/* Names of one side, numbered in order of first appearance. They are numbers until one comes that
 * is no plain integer; then all become text. */
typedef struct {
  size_t n, room;
  int is_text;
  int64_t *numbers; /* [n] while they are numbers */
  uint32_t *direct; /* [direct_n]: 1 + index of the small number i, 0: none */
  size_t direct_n;
  uint32_t *slots; /* [slot_n], open addressing: 1 + index; of large numbers, or of text */
  size_t slot_n, slots_used;
  char *text; /* [text_n] names, each ended by '\0' */
  size_t text_n, text_room;
  uint64_t *offsets; /* [n + 1] */
  uint32_t *hashes;  /* [n] of the texts */
} fopo_ids;

void fopo_ids_done(fopo_ids *ids); /* accepts {0} */
int fopo_ids_add_number(fopo_ids *ids, uint32_t *index, int64_t number);
int fopo_ids_add(fopo_ids *ids, uint32_t *index, const char *name, size_t n);

/* n ids in their order: numbers, or texts[i] bytes at text + numbers[i] where texts[i] > 0. Quicker
 * than one by one: what they need from memory is asked for beforehand. */
int fopo_ids_add_all(fopo_ids *ids, uint32_t *index, const int64_t *numbers, const uint32_t *texts,
                     const char *text, size_t n);

static inline int fopo_ids_number(fopo_ids *ids, uint32_t *index, int64_t number) {
  if ((uint64_t)number < ids->direct_n && ids->direct[number] != 0) {
    *index = ids->direct[number] - 1;
    return FOPO_OK;
  }
  return fopo_ids_add_number(ids, index, number);
}

/* Hands the names over, numbers in ascending order; place[i] (fresh, to be freed) is where the id
 * numbered i went, or NULL where all stayed. */
int fopo_ids_finish(fopo_names *names, uint32_t **place, fopo_ids *ids);

/* ---- pairs: read_build.c ---- */

typedef struct {
  uint32_t *user, *item; /* [n] */
  float *value;          /* [n], or NULL where every interaction counts 1 */
  size_t n, room;
  int with_values;
} fopo_pairs;

void fopo_pairs_done(fopo_pairs *p);             /* accepts {0} */
int fopo_pairs_room(fopo_pairs *p, size_t more); /* room for so many more */

static inline int fopo_pairs_add(fopo_pairs *p, uint32_t user, uint32_t item, float value) {
  if (p->n == p->room) {
    int status = fopo_pairs_room(p, 1);
    if (status != FOPO_OK) return status;
  }
  p->user[p->n] = user;
  p->item[p->n] = item;
  if (p->with_values) p->value[p->n] = value;
  p->n++;
  return FOPO_OK;
}

/* Memory that `rows` interactions will take while they are read and sorted, checked beforehand. */
int fopo_pairs_suffice(const char *path, double rows, int with_values);

/* Where ids are kept as they stand, one wrong digit could claim a matrix of 4e9 empty columns:
 * at most 16 rows or columns for each interaction, and 2^24 in any case. */
int fopo_read_plausible(const char *path, size_t users, size_t items, size_t n);

/* The matrix and the counts of d from the pairs, which are freed. Fails with FOPO_ERR_FORMAT where
 * nothing was read. */
int fopo_pairs_build(fopo_dataset *d, fopo_pairs *p, size_t users, size_t items, const char *path);

/* Drops values that are all 1, refuses those that are not finite, and counts users_seen and
 * items_seen unless items_seen is known. */
int fopo_dataset_settle(fopo_dataset *d, const char *path);

/* ---- the forms ---- */

int fopo_read_pairs(fopo_dataset *d, fopo_text *t, const fopo_read_options *options,
                    const char *format);
int fopo_read_lists(fopo_dataset *d, fopo_text *t, const fopo_read_options *options,
                    const char *format);
int fopo_read_mtx(fopo_dataset *d, fopo_text *t, const fopo_read_options *options);
int fopo_read_npz(fopo_dataset *d, const char *path, const fopo_read_options *options);

/* What separates the fields of these lines: one of ",;\t :|", or 'D' for "::"; 0: nothing. */
char fopo_sniff_separator(const char *at, const char *stop);

/* "lists", "counted" (citeulike: the first number counts the others) or "pairs". */
const char *fopo_sniff_lists(const char *at, const char *stop);

#endif
