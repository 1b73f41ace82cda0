#include "data/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/replace.h"

enum { RANGES = FOPO_SPILL_PARTS };

/* Columns of n pairs in the file, one behind the other: users, items, values, times. */
typedef struct {
  uint64_t at;
  size_t n;
  int with_values, with_times; /* without values, all are 1 */
  uint32_t *start;             /* [RANGES + 1] of an arranged piece: the first pair of each range */
} piece;

/* The arrays of the matrix: files from which it is read. */
enum { IDS, VALUES, FIRST, LAST, ARRAYS };

struct fopo_spill {
  int fd, array[ARRAYS]; /* -1: not open */
  char folder[512];
  size_t parts, n;
  uint64_t bytes;
  piece *pieces; /* [n_pieces] */
  size_t n_pieces, capacity;
  int has_values, has_last; /* 1: some value is not 1; some pair has two times */
  uint64_t count[RANGES];   /* pairs of each range of the users: user >> shift */
  int shift;
};

/* ---- the file ---- */

static int refuse(const fopo_spill *s, int error) {
  struct statvfs disk;
  struct stat file;
  if (error == ENOSPC && fstatvfs(s->fd, &disk) == 0 && fstat(s->fd, &file) == 0) {
    double whole = (double)file.st_size + (double)disk.f_bavail * (double)disk.f_frsize;
    return fopo_fail(FOPO_ERR_FILE,
                     "reading in parts needs more than the %.1f MB that %s has; set TMPDIR to a "
                     "folder on a larger disk",
                     whole / 1e6, s->folder);
  }
  return fopo_fail(FOPO_ERR_FILE, "reading in parts keeps interactions in %s: %s; set TMPDIR",
                   s->folder, strerror(error));
}

static int open_file(fopo_spill *s, int *fd) {
  char path[sizeof s->folder + 16];
  snprintf(path, sizeof path, "%s/fopo-XXXXXX", s->folder);
  *fd = mkostemp(path, O_CLOEXEC);
  return *fd >= 0 && unlink(path) == 0 ? FOPO_OK : refuse(s, errno);
}

int fopo_spill_new(fopo_spill **spill, size_t parts) {
  fopo_spill *s = *spill = fopo_alloc(1, sizeof *s);
  if (s == NULL) return FOPO_ERR_MEMORY;
  const char *folder = fopo_replace_confined() ? "." : getenv("TMPDIR");
  snprintf(s->folder, sizeof s->folder, "%s", folder != NULL && *folder ? folder : "/var/tmp");
  s->parts = parts;
  for (int a = 0; a < ARRAYS; a++) s->array[a] = -1;
  return open_file(s, &s->fd);
}

void fopo_spill_free(fopo_spill *s) {
  if (s == NULL) return;
  if (s->fd >= 0) close(s->fd);
  for (int a = 0; a < ARRAYS; a++) {
    if (s->array[a] >= 0) close(s->array[a]);
  }
  for (size_t k = 0; k < s->n_pieces; k++) fopo_free(s->pieces[k].start);
  fopo_free(s->pieces);
  fopo_free(s);
}

static int check_disk(const fopo_spill *s, const char *path, double bytes) {
  struct statvfs disk;
  if (fstatvfs(s->fd, &disk) != 0) return FOPO_OK;
  double left = (double)disk.f_bavail * (double)disk.f_frsize;
  if (bytes <= left) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FILE,
                   "%s in parts needs %.1f MB in %s, %.1f MB are free; set TMPDIR to a folder on a "
                   "larger disk",
                   path, bytes / 1e6, s->folder, left / 1e6);
}

/* While a part is sorted there are twice its pairs. The arrays are on disk, too: ids, values,
 * and two times. */
int fopo_spill_check_more(const char *path, double rows, const fopo_pairs *p) {
  if (p->spill == NULL) return fopo_pairs_check_more(path, rows, p);
  double pair = (double)fopo_pairs_bytes(p), all = rows + (double)fopo_spill_n(p);
  double arrays = sizeof(uint32_t) + sizeof(float) + (p->with_times ? 2 * sizeof(double) : 0);
  int status = check_disk(p->spill, path, rows * pair + all * arrays);
  if (status != FOPO_OK) return status;
  return fopo_memory_suffices((uint64_t)(all * 2 * pair / (double)p->spill->parts), path,
                              "use more parts, or a machine with more memory");
}

/* ---- pieces ---- */

/* Writes a column where the file stands; NULL: there is none. */
static int write_column(fopo_spill *s, const void *column, size_t n, size_t width) {
  int error = column != NULL ? fopo_write_all(s->fd, column, n * width) : 0;
  return error == 0 ? FOPO_OK : refuse(s, error);
}

static int write_piece(fopo_spill *s, const piece *q, const fopo_pairs *p) {
  if (lseek(s->fd, (off_t)q->at, SEEK_SET) < 0) return refuse(s, errno);
  int status = write_column(s, p->user, q->n, sizeof *p->user);
  if (status == FOPO_OK) status = write_column(s, p->item, q->n, sizeof *p->item);
  if (status == FOPO_OK && q->with_values) {
    status = write_column(s, p->value, q->n, sizeof *p->value);
  }
  return status == FOPO_OK && q->with_times ? write_column(s, p->time, q->n, sizeof *p->time)
                                            : status;
}

static size_t bytes_of(const piece *q) {
  return q->n * (2 * sizeof(uint32_t) + (q->with_values ? sizeof(float) : 0) +
                 (q->with_times ? sizeof(double) : 0));
}

size_t fopo_spill_n(const fopo_pairs *p) { return p->n + (p->spill != NULL ? p->spill->n : 0); }

int fopo_spill_add(fopo_spill *s, fopo_pairs *p) {
  if (p->n == 0) return FOPO_OK;
  if (s->n_pieces == s->capacity) {
    size_t capacity = 2 * s->capacity + 16;
    if (fopo_resize(&s->pieces, capacity, sizeof *s->pieces) != FOPO_OK) return FOPO_ERR_MEMORY;
    s->capacity = capacity;
  }
  piece q = {.at = s->bytes,
             .n = p->n,
             .with_values = p->with_values && !fopo_values_are_ones(p->value, p->n),
             .with_times = p->with_times};
  int status = write_piece(s, &q, p);
  if (status != FOPO_OK) return status;
  s->pieces[s->n_pieces++] = q;
  s->bytes += bytes_of(&q);
  s->n += q.n;
  p->n = 0;
  return FOPO_OK;
}

/* Reads elements from .. from + n - 1 of the next column of the piece; *at moves behind it. */
static int read_column(fopo_spill *s, uint64_t *at, const piece *q, void *to, size_t from, size_t n,
                       size_t width) {
  size_t got;
  int error = fopo_read_at(s->fd, to, n * width, *at + from * width, &got);
  *at += q->n * width;
  if (error != 0) return refuse(s, error);
  return got == n * width ? FOPO_OK : refuse(s, EIO);
}

/* Appends pairs from .. from + n - 1 of the piece to p. */
static int read_pairs(fopo_spill *s, fopo_pairs *p, const piece *q, size_t from, size_t n) {
  uint64_t at = q->at;
  int status = fopo_pairs_reserve(p, n);
  if (status == FOPO_OK) status = read_column(s, &at, q, p->user + p->n, from, n, sizeof *p->user);
  if (status == FOPO_OK) status = read_column(s, &at, q, p->item + p->n, from, n, sizeof *p->item);
  if (status == FOPO_OK && q->with_values) {
    status = read_column(s, &at, q, p->value + p->n, from, n, sizeof *p->value);
  }
  for (size_t i = 0; i < n && p->with_values && !q->with_values; i++) p->value[p->n + i] = 1.0f;
  if (status == FOPO_OK && p->with_times) {
    status = read_column(s, &at, q, p->time + p->n, from, n, sizeof *p->time);
  }
  p->n += n;
  return status;
}

/* ---- ranges of the users ---- */

/* Sorts the pairs of a piece by range, into `to`; equal ones keep their order. */
static void sort_piece(fopo_spill *s, piece *q, fopo_pairs *to, const fopo_pairs *from) {
  size_t next[RANGES] = {0}, at = 0;
  for (size_t i = 0; i < from->n; i++) next[from->user[i] >> s->shift]++;
  for (size_t r = 0; r < RANGES; r++) {
    size_t here = next[r];
    s->count[r] += here;
    next[r] = at;
    q->start[r] = (uint32_t)at;
    at += here;
  }
  q->start[RANGES] = (uint32_t)at;
  for (size_t i = 0; i < from->n; i++) {
    size_t k = next[from->user[i] >> s->shift]++;
    to->user[k] = from->user[i];
    to->item[k] = from->item[i];
    if (q->with_values) to->value[k] = from->value[i];
    if (q->with_times) to->time[k] = from->time[i];
  }
}

static int arrange_piece(fopo_spill *s, piece *q, const uint32_t *user_place,
                         const uint32_t *item_place) {
  fopo_pairs before = {.with_values = q->with_values, .with_times = q->with_times}, after = before;
  int status = read_pairs(s, &before, q, 0, q->n);
  if (status == FOPO_OK) status = fopo_pairs_reserve(&after, q->n);
  q->start = fopo_alloc(RANGES + 1, sizeof *q->start);
  if (status == FOPO_OK && q->start == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    for (size_t i = 0; i < q->n && user_place; i++) before.user[i] = user_place[before.user[i]];
    for (size_t i = 0; i < q->n && item_place; i++) before.item[i] = item_place[before.item[i]];
    sort_piece(s, q, &after, &before);
    status = write_piece(s, q, &after);
  }
  fopo_pairs_done(&before);
  fopo_pairs_done(&after);
  return status;
}

int fopo_spill_arrange(fopo_spill *s, const uint32_t *user_place, const uint32_t *item_place,
                       size_t users) {
  int status = FOPO_OK;
  while (users > 0 && (users - 1) >> s->shift >= RANGES) s->shift++;
  for (size_t k = 0; k < s->n_pieces && status == FOPO_OK; k++) {
    status = arrange_piece(s, &s->pieces[k], user_place, item_place);
    if (status == FOPO_OK) {
      status = fopo_progress("ordering interactions", (double)k + 1, (double)s->n_pieces);
    }
  }
  return status;
}

/* ---- parts ---- */

/* The matrices of the parts follow each other in the files of the arrays. Values are written as 1,
 * and last times as the first, until a part has others. */

static int put(fopo_spill *s, int array, const void *from, size_t bytes) {
  int error = fopo_write_all(s->array[array], from, bytes);
  return error == 0 ? FOPO_OK : refuse(s, error);
}

static int put_values(fopo_spill *s, const float *values, size_t n) {
  enum { BLOCK = 4096 };
  float ones[BLOCK];
  if (values != NULL) return put(s, VALUES, values, n * sizeof *values);
  for (size_t i = 0; i < BLOCK; i++) ones[i] = 1.0f;
  int status = FOPO_OK;
  for (size_t at = 0; at < n && status == FOPO_OK; at += BLOCK) {
    status = put(s, VALUES, ones, (n - at < BLOCK ? n - at : BLOCK) * sizeof *ones);
  }
  return status;
}

/* Adds the rows of a part, which are those from `row` on. */
static int add_part(fopo_dataset *d, fopo_spill *s, const fopo_dataset *part, size_t row) {
  const fopo_csr *more = &part->matrix;
  const double *first = part->times.first, *last = part->times.last;
  uint64_t *end = d->matrix.indptr + row;
  size_t n = fopo_csr_nnz(more);
  for (size_t r = 1; r <= more->rows; r++) end[r] = end[0] + more->indptr[r];
  d->repeats += part->repeats;
  s->has_values |= more->values != NULL;
  s->has_last |= last != NULL;
  int status = put(s, IDS, more->ids, n * sizeof *more->ids);
  if (status == FOPO_OK) status = put_values(s, more->values, n);
  if (status == FOPO_OK && first != NULL) status = put(s, FIRST, first, n * sizeof *first);
  if (status != FOPO_OK || first == NULL) return status;
  return put(s, LAST, last != NULL ? last : first, n * sizeof *first);
}

/* Reads the pairs of the ranges from .. to - 1 in their order. */
static int read_part(fopo_spill *s, fopo_pairs *p, size_t from, size_t to) {
  size_t n = 0;
  for (size_t r = from; r < to; r++) n += s->count[r];
  int status = fopo_pairs_reserve(p, n);
  for (size_t k = 0; k < s->n_pieces && status == FOPO_OK; k++) {
    const piece *q = &s->pieces[k];
    status = read_pairs(s, p, q, q->start[from], q->start[to] - q->start[from]);
    if (status == FOPO_OK) {
      status = fopo_progress("reading a part", (double)k + 1, (double)s->n_pieces);
    }
  }
  return status;
}

/* The users of the ranges from .. to - 1 become rows of d. */
static int sort_part(fopo_dataset *d, fopo_spill *s, fopo_pairs *p, size_t from, size_t to) {
  size_t users = d->matrix.rows, first = from << s->shift, end = to << s->shift;
  if (end > users) end = users;
  fopo_dataset part = {0};
  int status = read_part(s, p, from, to);
  for (size_t i = 0; i < p->n; i++) p->user[i] -= (uint32_t)first;
  if (status == FOPO_OK) status = fopo_pairs_sort(&part, p, end - first, d->matrix.cols);
  if (status == FOPO_OK) status = add_part(d, s, &part, first);
  fopo_pairs_done(p);
  fopo_csr_done(&part.matrix);
  fopo_free(part.times.first);
  fopo_free(part.times.last);
  return status;
}

static int sort_parts(fopo_dataset *d, fopo_spill *s, int with_times) {
  size_t from = 0, done = 0, users = d->matrix.rows;
  int with_values = 0, status = FOPO_OK;
  for (size_t k = 0; k < s->n_pieces; k++) with_values |= s->pieces[k].with_values;
  for (size_t k = 1; from << s->shift < users && status == FOPO_OK; k++) {
    fopo_pairs p = {.with_values = with_values, .with_times = with_times};
    size_t to = from;
    while (to << s->shift < users && (k >= s->parts || done < s->n / s->parts * k)) {
      done += s->count[to++];
    }
    if (to > from) status = sort_part(d, s, &p, from, to);
    from = to;
  }
  return status;
}

/* array: of the n elements of that file. */
static int map(void *array, const fopo_spill *s, int file, size_t n, size_t width) {
  void *block = fopo_map_file(s->array[file], n * width);
  memcpy(array, &block, sizeof block);
  return block != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

static int map_arrays(fopo_dataset *d, const fopo_spill *s, int with_times) {
  fopo_csr *m = &d->matrix;
  fopo_csr_times *t = &d->times;
  size_t n = fopo_csr_nnz(m);
  fopo_free(m->ids);
  int status = map(&m->ids, s, IDS, n, sizeof *m->ids);
  if (status == FOPO_OK && s->has_values) status = map(&m->values, s, VALUES, n, sizeof(float));
  if (status == FOPO_OK && with_times) status = map(&t->first, s, FIRST, n, sizeof(double));
  return status == FOPO_OK && s->has_last ? map(&t->last, s, LAST, n, sizeof(double)) : status;
}

int fopo_spill_build(fopo_dataset *d, fopo_spill *s, int with_times, size_t users, size_t items,
                     const char *path) {
  if (s->n == 0) return fopo_pairs_refuse_none(path, d->skipped);
  int status = fopo_pairs_check_shape(path, users, items, s->n);
  if (status == FOPO_OK) status = fopo_csr_init(&d->matrix, users, items, 0, 0);
  for (int a = 0; a < ARRAYS && status == FOPO_OK; a++) status = open_file(s, &s->array[a]);
  if (status == FOPO_OK) status = sort_parts(d, s, with_times);
  if (status == FOPO_OK) status = map_arrays(d, s, with_times);
  if (status == FOPO_OK) status = fopo_dataset_finish(d, path);
  fopo_dataset_idle(d);
  return status;
}
