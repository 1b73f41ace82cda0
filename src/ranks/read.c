/* A read is one stretch of comm.h: a step that fails alone returns, and the other ranks learn of it
 * when they agree next. The steps: each rank measures the files and finds its range (part), reads
 * its rows, and tells the others what it found (facts); the names of all ranks get their indices
 * (ranks/names.h); every pair goes to the rank that has its user, which builds its rows of the
 * matrix. */
#include "ranks/read.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/pieces.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/merge.h"
#include "ranks/names.h"

/* Places are counted over the bytes of all files. */
typedef struct {
  const char *const *paths; /* [n]; not owned, as the options */
  size_t n;
  const fopo_read_options *options;
  uint64_t *first;     /* [n + 1] the place of each file; the last is that of the end */
  uint64_t from, to;   /* the own range */
  uint64_t begin, end; /* of the own rows */
  int told;            /* 1: `from` is where the rows of the rank before end */
  fopo_several rows;
} part;

/* ---- ranges ---- */

static int refuse_stream(const char *path) {
  char name[200];
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "%s cannot be shared out to the ranks: it can be read once; write it to a file",
                   fopo_source_name(name, sizeof name, path));
}

/* Where the files are, which all ranks must see alike. */
static int measure(part *p) {
  uint64_t mine[2] = {p->n, 0}, all[2 * FOPO_COMM_RANKS];
  p->first = fopo_alloc(p->n + 1, sizeof *p->first);
  int status = p->first != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_several_sizes(p->first + 1, p->paths, p->n);
  for (size_t k = 0; k < p->n && status == FOPO_OK; k++) {
    if (p->first[k + 1] == 0) status = refuse_stream(p->paths[k]);
    p->first[k + 1] += p->first[k];
  }
  status = fopo_comm_agree(status);
  if (status != FOPO_OK) return status;
  mine[1] = p->first[p->n];
  status = fopo_comm_gather(all, mine, sizeof mine);
  for (size_t r = 1; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    if (all[2 * r] == all[0] && all[2 * r + 1] == all[1]) continue;
    status = fopo_fail(FOPO_ERR_FILE,
                       "rank %zu (%s) sees other files than rank 0: %zu with %zu bytes, not %zu "
                       "with %zu",
                       r, fopo_comm_host(r), (size_t)all[2 * r], (size_t)all[2 * r + 1],
                       (size_t)all[0], (size_t)all[1]);
  }
  return status;
}

/* *answer = 1 if stretches of the file can be read by themselves. */
static int can_be_cut(int *answer, const part *p, size_t k) {
  const fopo_reader *reader = NULL;
  fopo_text t = {0};
  *answer = fopo_columnar_kind(p->paths[k]) != NULL;
  if (*answer) return FOPO_OK;
  int status = fopo_reader_open(&reader, &t, p->paths[k], p->options);
  *answer = status == FOPO_OK && reader->roles != NULL && fopo_text_can_seek(&t);
  fopo_text_close(&t);
  return status;
}

/* Moves a place inside a file that cannot be cut to the nearer end of it. */
static int move_out(const part *p, uint64_t *place) {
  size_t k = 0;
  while (k < p->n && p->first[k + 1] <= *place) k++;
  if (k == p->n || p->first[k] == *place) return FOPO_OK;
  int fits, status = can_be_cut(&fits, p, k);
  if (status == FOPO_OK && !fits) {
    uint64_t middle = p->first[k] + (p->first[k + 1] - p->first[k]) / 2;
    *place = middle < *place ? p->first[k + 1] : p->first[k];
  }
  return status;
}

static int find_range(part *p) {
  size_t first, n = fopo_comm_own_share(&first, (size_t)p->first[p->n]);
  p->from = first;
  p->to = first + n;
  int status = move_out(p, &p->from);
  return status == FOPO_OK ? move_out(p, &p->to) : status;
}

/* ---- rows ---- */

/* Reads the rows that begin in the own range. */
static int read_range(part *p) {
  int status = FOPO_OK;
  fopo_several_done(&p->rows);
  p->rows.many = p->n > 1;
  p->begin = p->from;
  p->end = p->from > p->to ? p->from : p->to;
  for (size_t k = 0; k < p->n && status == FOPO_OK; k++) {
    uint64_t file = p->first[k], next = p->first[k + 1];
    uint64_t from = p->from > file ? p->from : file, to = p->to < next ? p->to : next;
    if (from >= to) continue;
    status = fopo_several_add(&p->rows, p->paths[k], from - file,
                              to < next ? to - file : UINT64_MAX, p->options);
    if (from > file && !p->told) p->begin = file + p->rows.begin;
    if (to < next) p->end = file + p->rows.end;
  }
  return status;
}

typedef struct {
  uint64_t begin, end;
  int status;
} stretch;

/* What is wrong with a file, as opposed to memory, discs and interruptions. */
static int is_of_file(int status) {
  return status == FOPO_ERR_FORMAT || status == FOPO_ERR_NUMERIC;
}

/* Reads the rows of all ranks. Where a quoted field has line ends, a rank may have begun inside of
 * it: it reads again from where the rows of the rank before have ended. What it found wrong until
 * then means nothing. */
static int read_rows(part *p) {
  stretch all[FOPO_COMM_RANKS];
  for (int own = read_range(p);;) {
    stretch mine = {p->begin, p->end, own};
    int status = fopo_comm_agree(is_of_file(own) ? FOPO_OK : own);
    if (status == FOPO_OK) status = fopo_comm_gather(all, &mine, sizeof mine);
    if (status != FOPO_OK) return status;
    size_t r = 0; /* the first rank that has failed or does not begin where it should */
    int meets = 1;
    for (; r < fopo_comm_ranks(); r++) {
      meets = r == 0 || all[r].begin == all[r - 1].end;
      if (!meets || all[r].status != FOPO_OK) break;
    }
    if (r == fopo_comm_ranks()) return FOPO_OK;
    if (meets) return fopo_comm_agree(r == fopo_comm_own_rank() ? own : FOPO_OK);
    if (r != fopo_comm_own_rank()) continue;
    p->from = all[r - 1].end;
    p->told = 1;
    own = read_range(p);
  }
}

/* ---- what the ranks have found ---- */

/* Of the rows of one rank, and of all. */
typedef struct {
  size_t files, pairs, rows_read, skipped, errors;
  int values, ones;           /* 1: there are values; all of them are 1 */
  int times, timed;           /* 1: every file has times; some file has */
  int text_users, text_items; /* 1: some name of theirs is no integer */
  char format[32], no_times[240];
} facts;

static facts facts_of(const fopo_several *s) {
  facts f = {.files = s->files,
             .pairs = s->pairs.n,
             .rows_read = s->rows_read,
             .skipped = s->skipped,
             .errors = s->errors,
             .values = s->pairs.with_values,
             .ones = !s->pairs.with_values || fopo_values_are_ones(s->pairs.value, s->pairs.n),
             .times = s->files == 0 || s->pairs.with_times,
             .timed = s->timed,
             .text_users = s->users.is_text,
             .text_items = s->items.is_text};
  memcpy(f.format, s->format, sizeof f.format);
  memcpy(f.no_times, s->no_times, sizeof f.no_times);
  return f;
}

static void add_facts(facts *sum, const facts *one) {
  sum->pairs += one->pairs;
  sum->rows_read += one->rows_read;
  sum->skipped += one->skipped;
  sum->errors += one->errors;
  sum->values |= one->values;
  sum->ones &= one->ones;
  sum->times &= one->times;
  sum->timed |= one->timed;
  sum->text_users |= one->text_users;
  sum->text_items |= one->text_items;
  if (*sum->no_times == '\0') memcpy(sum->no_times, one->no_times, sizeof sum->no_times);
  if (one->files == 0) return;
  if (sum->files == 0) memcpy(sum->format, one->format, sizeof sum->format);
  if (strcmp(sum->format, one->format) != 0) snprintf(sum->format, sizeof sum->format, "mixed");
  sum->files += one->files;
}

static int gather_facts(facts *sum, const fopo_several *s) {
  facts mine = facts_of(s), *all = fopo_alloc(fopo_comm_ranks(), sizeof *all);
  int status = fopo_comm_agree(all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) status = fopo_comm_gather(all, &mine, sizeof mine);
  *sum = (facts){.ones = 1, .times = 1};
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) add_facts(sum, &all[r]);
  fopo_free(all);
  return status;
}

static int check_facts(const facts *f, const fopo_read_options *o, const char *title) {
  if (f->errors > o->max_errors) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: there are %zu malformed rows, max_errors is %zu", title,
                     f->errors, o->max_errors);
  }
  return f->pairs > 0 ? FOPO_OK : fopo_pairs_refuse_none(title, f->skipped);
}

/* The pairs have what those of all ranks have. */
static int unify(fopo_pairs *p, const facts *f) {
  if (!f->times) fopo_pairs_drop_times(p);
  p->with_times = f->times;
  if (f->values && !f->ones) return fopo_pairs_add_values(p);
  fopo_pairs_drop_values(p);
  return FOPO_OK;
}

/* ---- pairs ---- */

/* Interactions go to the ranks that have their users, column by column, and keep their order: those
 * of rank 0 first, which read the first part of the files. */

typedef struct {
  size_t n;                                            /* own pairs before */
  size_t all;                                          /* and after */
  uint16_t *to;                                        /* [n] the rank that has the user */
  size_t sent[FOPO_COMM_RANKS], come[FOPO_COMM_RANKS]; /* pairs to and from each rank */
} moving;

/* Whom each pair goes to, and from whom how many come. */
static int address(moving *m, const uint32_t *user, size_t users) {
  size_t end[FOPO_COMM_RANKS], first;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    end[r] = fopo_comm_share(&first, users, r, fopo_comm_ranks());
    end[r] += first;
  }
  m->to = fopo_alloc(m->n, sizeof *m->to);
  for (size_t i = 0; i < m->n && m->to != NULL; i++) {
    size_t r = (size_t)((uint64_t)user[i] * fopo_comm_ranks() / users); /* or next to it */
    while (r > 0 && user[i] < end[r - 1]) r--;
    while (user[i] >= end[r]) r++;
    m->to[i] = (uint16_t)r;
    m->sent[r]++;
  }
  int status = fopo_pieces_sizes(m->come, m->sent, m->to != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) m->all += m->come[r];
  return status;
}

/* sorted = the n elements of one column by receiver, in their order. */
static void sort_column(char *sorted, const char *column, const moving *m, size_t width) {
  size_t next[FOPO_COMM_RANKS], sum = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    next[r] = sum;
    sum += m->sent[r];
  }
  for (size_t i = 0; i < m->n; i++) {
    memcpy(sorted + next[m->to[i]]++ * width, column + i * width, width);
  }
}

/* *column [n] becomes [all]: what has come from all ranks, in their order. */
static int move_column(void *column, const moving *m, size_t width) {
  size_t sent[FOPO_COMM_RANKS], come[FOPO_COMM_RANKS];
  void *before, *after = NULL;
  char *sorted = fopo_alloc(m->n, width);
  if (sorted == NULL) return FOPO_ERR_MEMORY;
  memcpy(&before, column, sizeof before);
  sort_column(sorted, before, m, width);
  fopo_free(before);
  after = fopo_alloc(m->all, width);
  memcpy(column, &after, sizeof after);
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    sent[r] = m->sent[r] * width;
    come[r] = m->come[r] * width;
  }
  int status = after != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  status = fopo_pieces_exchange(after, come, sorted, sent, FOPO_PIECE, status);
  fopo_free(sorted);
  return status;
}

/* Sends every pair to the rank that has its user, of all `users`; *p becomes those of the own
 * users, in the order of the files. `title` names the files. */
static int move_pairs(fopo_pairs *p, size_t users, const char *title) {
  moving m = {.n = p->n};
  fopo_pairs like = {.with_values = p->with_values, .with_times = p->with_times};
  int status = address(&m, p->user, users);
  /* twice what comes at most, of which the own pairs are there already */
  double rows = (double)m.all - (double)m.n / 2;
  if (status == FOPO_OK && rows > 0) status = fopo_pairs_check_more(title, rows, &like);
  if (status == FOPO_OK) status = move_column(&p->item, &m, sizeof *p->item);
  if (status == FOPO_OK && p->with_values) status = move_column(&p->value, &m, sizeof *p->value);
  if (status == FOPO_OK && p->with_times) status = move_column(&p->time, &m, sizeof *p->time);
  if (status == FOPO_OK) status = move_column(&p->user, &m, sizeof *p->user);
  p->n = p->capacity = m.all;
  fopo_free(m.to);
  return status;
}

/* ---- the dataset of the own users ---- */

/* What each rank says of its matrix. */
typedef struct {
  size_t nnz, users_seen;
  int ones, repeated; /* 1: every value is 1; some pair has two times */
  double first, last; /* of all times, if nnz > 0 */
} summary;

static summary summarise(const fopo_dataset *d) {
  const fopo_csr *m = &d->matrix;
  summary s = {.nnz = fopo_csr_nnz(m), .repeated = d->times.last != NULL};
  s.ones = m->values == NULL || fopo_values_are_ones(m->values, s.nnz);
  for (size_t u = 0; u < m->rows; u++) s.users_seen += fopo_csr_count(m, u) > 0;
  fopo_dataset_period(&s.first, &s.last, d);
  return s;
}

/* The sum of all. */
static int add_up(fopo_dataset *d, summary *sum) {
  summary mine = summarise(d), *all = fopo_alloc(fopo_comm_ranks(), sizeof *all);
  int status = fopo_comm_agree(all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) status = fopo_comm_gather(all, &mine, sizeof mine);
  *sum = (summary){.ones = 1};
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    const summary *one = &all[r];
    if (one->nnz > 0) {
      int is_first = sum->nnz == 0;
      if (is_first || one->first < sum->first) sum->first = one->first;
      if (is_first || one->last > sum->last) sum->last = one->last;
    }
    sum->nnz += one->nnz;
    sum->users_seen += one->users_seen;
    sum->ones &= one->ones;
    sum->repeated |= one->repeated;
  }
  fopo_free(all);
  return status;
}

/* Values and later times are there on all ranks or on none. */
static int complete(fopo_dataset *d, const summary *sum) {
  fopo_csr *m = &d->matrix;
  size_t nnz = fopo_csr_nnz(m);
  if (sum->ones) {
    fopo_free(m->values);
    m->values = NULL;
  } else if (m->values == NULL) {
    m->values = fopo_alloc(nnz, sizeof *m->values);
    if (m->values == NULL) return FOPO_ERR_MEMORY;
    for (size_t e = 0; e < nnz; e++) m->values[e] = 1.0f;
  }
  if (!sum->repeated || d->times.last != NULL) return FOPO_OK;
  d->times.last = fopo_alloc(nnz, sizeof *d->times.last);
  if (d->times.last == NULL) return FOPO_ERR_MEMORY;
  memcpy(d->times.last, d->times.first, nnz * sizeof *d->times.last);
  return FOPO_OK;
}

/* d->items_seen: columns with an entry on any rank. Bits of a block of columns of all ranks at a
 * time. */
static int count_items(fopo_dataset *d) {
  enum { BLOCK = 1 << 15 }; /* bytes of a block */
  const fopo_csr *m = &d->matrix;
  size_t bytes = m->cols / 8 + 1;
  uint8_t *seen = fopo_alloc(bytes, 1), *all = fopo_alloc(fopo_comm_ranks(), BLOCK);
  int status = fopo_comm_agree(seen != NULL && all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  for (size_t e = 0; e < fopo_csr_nnz(m) && status == FOPO_OK; e++) {
    seen[m->ids[e] / 8] |= (uint8_t)(1 << m->ids[e] % 8);
  }
  d->items_seen = 0;
  for (size_t at = 0; at < bytes && status == FOPO_OK; at += BLOCK) {
    size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
    status = fopo_comm_gather(all, seen + at, n);
    for (size_t i = 0; i < n && status == FOPO_OK; i++) {
      unsigned any = 0;
      for (size_t r = 0; r < fopo_comm_ranks(); r++) any |= all[r * n + i];
      d->items_seen += (size_t)__builtin_popcount(any);
    }
  }
  fopo_free(seen);
  fopo_free(all);
  return status;
}

/* d's matrix, times and counts from the own pairs, which are freed; d has the names, and the
 * format, rows_read and skipped of all ranks. */
static int build_own(fopo_dataset *d, fopo_pairs *p, size_t users, size_t items,
                     const char *title) {
  size_t n = fopo_comm_own_share(&d->first_user, users);
  summary sum;
  int status = fopo_pairs_check_shape(title, users, items, d->rows_read);
  for (size_t i = 0; i < p->n; i++) p->user[i] -= (uint32_t)d->first_user;
  if (status == FOPO_OK) status = fopo_pairs_sort(d, p, n, items);
  if (status == FOPO_OK) status = fopo_dataset_check_values(d, title);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = add_up(d, &sum);
  if (status == FOPO_OK) status = fopo_comm_agree(complete(d, &sum));
  if (status == FOPO_OK) status = count_items(d);
  if (status != FOPO_OK) return status;
  d->users_seen = sum.users_seen;
  d->repeats = d->rows_read - sum.nnz;
  if (fopo_comm_ranks() == 1) return FOPO_OK; /* it is not shared out */
  d->all_users = users;
  d->all_nnz = sum.nnz;
  d->period[0] = sum.first;
  d->period[1] = sum.last;
  return FOPO_OK;
}

/* ---- the dataset ---- */

/* The names of one side, *all of them; its pairs become indices of them. */
static int join_side(fopo_names *names, size_t *all, fopo_ids *ids, int is_text, uint32_t *pairs,
                     size_t n) {
  uint32_t *place = NULL;
  int status = fopo_ranks_join_names(names, all, &place, ids, is_text);
  if (status == FOPO_OK) status = fopo_merge_renumber(pairs, place, n);
  fopo_free(place);
  return status;
}

static int build(fopo_dataset *d, part *p, const char *title) {
  fopo_several *s = &p->rows;
  fopo_pairs *pairs = &s->pairs;
  size_t users, items;
  facts all;
  int status = gather_facts(&all, s);
  if (status == FOPO_OK) status = check_facts(&all, p->options, title);
  if (status == FOPO_OK) status = unify(pairs, &all);
  if (status != FOPO_OK) return status;
  memcpy(d->format, all.format, sizeof d->format);
  if (all.timed) memcpy(d->no_times, all.no_times, sizeof d->no_times);
  d->rows_read = all.rows_read;
  d->skipped = all.skipped;
  d->malformed = all.errors;
  fopo_ids_close(&s->users);
  fopo_ids_close(&s->items);
  status = join_side(&d->users, &users, &s->users, all.text_users, pairs->user, pairs->n);
  if (status != FOPO_OK) return status;
  status = join_side(&d->items, &items, &s->items, all.text_items, pairs->item, pairs->n);
  if (status == FOPO_OK) status = move_pairs(pairs, users, title);
  return status == FOPO_OK ? build_own(d, pairs, users, items, title) : status;
}

static int run(fopo_dataset *d, part *p, const char *title) {
  int status = measure(p);
  if (status == FOPO_OK) status = find_range(p);
  if (status == FOPO_OK) status = read_rows(p);
  return status == FOPO_OK ? build(d, p, title) : status;
}

int fopo_ranks_read(fopo_dataset **dataset, const char *const *paths, size_t n,
                    const fopo_read_options *options) {
  part p = {.paths = paths, .n = n, .options = options};
  char title[FOPO_SEVERAL_TITLE];
  fopo_several_title(title, paths, n);
  *dataset = NULL;
  fopo_comm_begin();
  fopo_dataset *d = fopo_alloc(1, sizeof *d);
  int status = d != NULL ? run(d, &p, title) : FOPO_ERR_MEMORY;
  status = fopo_comm_end(status);
  fopo_several_done(&p.rows);
  fopo_free(p.first);
  if (status == FOPO_OK) {
    *dataset = d;
  } else {
    fopo_dataset_free(d);
  }
  return status;
}

/* ---- shares ---- */

/* *to becomes a copy of from [begin .. begin + n - 1], if there is `from`. */
static int copy_times(double **to, const double *from, size_t begin, size_t n) {
  if (from == NULL) return FOPO_OK;
  *to = fopo_alloc(n, sizeof **to);
  if (*to == NULL) return FOPO_ERR_MEMORY;
  memcpy(*to, from + begin, n * sizeof **to);
  return FOPO_OK;
}

/* Users first .. first + n - 1 of the matrix, and their times. */
static int copy_users(fopo_dataset *to, const fopo_dataset *d, size_t first, size_t n) {
  const fopo_csr some = fopo_csr_rows(&d->matrix, first, n);
  size_t begin = (size_t)some.indptr[0], nnz = (size_t)some.indptr[n] - begin;
  int status = fopo_csr_copy(&to->matrix, &some);
  if (status == FOPO_OK) status = copy_times(&to->times.first, d->times.first, begin, nnz);
  return status == FOPO_OK ? copy_times(&to->times.last, d->times.last, begin, nnz) : status;
}

int fopo_dataset_share(fopo_dataset **share, const fopo_dataset *d) {
  if (d->all_users > 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the dataset is shared out to the ranks already");
  }
  fopo_dataset *to = fopo_alloc(1, sizeof *to);
  if (to == NULL) return FOPO_ERR_MEMORY;
  *to = *d; /* the counts; what it owns follows */
  to->matrix = (fopo_csr){0};
  to->times = (fopo_csr_times){0};
  to->users = to->items = (fopo_names){0};
  to->all_users = d->matrix.rows;
  to->all_nnz = fopo_csr_nnz(&d->matrix);
  fopo_dataset_period(&to->period[0], &to->period[1], d);
  size_t n = fopo_comm_own_share(&to->first_user, to->all_users);
  int status = copy_users(to, d, to->first_user, n);
  if (status == FOPO_OK) status = fopo_ranks_share_names(&to->users, &d->users);
  if (status == FOPO_OK) status = fopo_ranks_share_names(&to->items, &d->items);
  if (status == FOPO_OK) {
    *share = to;
  } else {
    fopo_dataset_free(to);
  }
  return status;
}

/* ---- one row on every rank ---- */

/* A matrix of one row of n entries, with the arrays that d has. */
static int reserve(fopo_dataset *row, const fopo_dataset *d, size_t n) {
  int status = fopo_csr_init(&row->matrix, 1, d->matrix.cols, n, d->matrix.values != NULL);
  if (status != FOPO_OK) return status;
  row->matrix.indptr[1] = n;
  if (d->times.first != NULL) row->times.first = fopo_alloc(n, sizeof *row->times.first);
  if (d->times.last != NULL) row->times.last = fopo_alloc(n, sizeof *row->times.last);
  int missing = (d->times.first != NULL && row->times.first == NULL) ||
                (d->times.last != NULL && row->times.last == NULL);
  return missing ? FOPO_ERR_MEMORY : FOPO_OK;
}

/* to [n] = from[at ..] of rank r, on every rank; to NULL: there is no such array. */
static int send(void *to, const void *from, size_t at, size_t n, size_t width, size_t r) {
  if (to == NULL) return FOPO_OK;
  if (fopo_comm_own_rank() == r) memcpy(to, (const char *)from + at * width, n * width);
  return fopo_comm_broadcast(to, n * width, r);
}

static int fetch(fopo_dataset *row, const fopo_dataset *d, size_t user) {
  const fopo_csr *m = &d->matrix, *to = &row->matrix;
  size_t r = fopo_comm_owner(user, d->all_users);
  int mine = fopo_comm_own_rank() == r;
  size_t n = mine ? fopo_csr_count(m, user - d->first_user) : 0;
  size_t at = mine ? (size_t)m->indptr[user - d->first_user] : 0;
  int status = fopo_comm_broadcast(&n, sizeof n, r);
  if (status == FOPO_OK) status = fopo_comm_agree(reserve(row, d, n));
  if (status == FOPO_OK) status = send(to->ids, m->ids, at, n, sizeof *m->ids, r);
  if (status == FOPO_OK) status = send(to->values, m->values, at, n, sizeof *m->values, r);
  if (status == FOPO_OK) status = send(row->times.first, d->times.first, at, n, sizeof(double), r);
  return status == FOPO_OK ? send(row->times.last, d->times.last, at, n, sizeof(double), r)
                           : status;
}

int fopo_dataset_fetch(fopo_dataset **row, const fopo_dataset *d, size_t user) {
  fopo_dataset *fresh = fopo_alloc(1, sizeof *fresh);
  int status = fopo_comm_agree(fresh != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) status = fetch(fresh, d, user);
  if (status != FOPO_OK) fopo_dataset_free(fresh);
  *row = status == FOPO_OK ? fresh : NULL;
  return status;
}
