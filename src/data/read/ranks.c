#include "data/read/ranks.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "data/merge.h"

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

/* Where the files are, which all ranks must see alike. */
static int measure(part *p) {
  uint64_t mine[2] = {p->n, 0}, all[2 * FOPO_COMM_RANKS];
  p->first = fopo_alloc(p->n + 1, sizeof *p->first);
  int status = p->first != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_several_sizes(p->first + 1, p->paths, p->n);
  for (size_t k = 0; k < p->n && status == FOPO_OK; k++) p->first[k + 1] += p->first[k];
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
  int status = fopo_reader_open(&reader, &t, p->paths[k], p->options);
  *answer = status == FOPO_OK && reader->roles != NULL && t.inflater == NULL;
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
  int values, ones; /* 1: there are values; all of them are 1 */
  int times, timed; /* 1: every file has times; some file has */
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
             .timed = s->timed};
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

/* ---- the dataset ---- */

/* The names of one side on every rank; its pairs become indices of them. */
static int join_side(fopo_names *names, fopo_ids *ids, uint32_t *pairs, size_t n) {
  uint32_t *place = NULL;
  int status = fopo_ranks_names(names, &place, ids);
  if (status == FOPO_OK) status = fopo_merge_renumber(pairs, place, n);
  fopo_free(place);
  return status;
}

static int build(fopo_dataset *d, part *p, const char *title) {
  fopo_several *s = &p->rows;
  facts all;
  int status = gather_facts(&all, s);
  if (status == FOPO_OK) status = check_facts(&all, p->options, title);
  if (status == FOPO_OK) status = unify(&s->pairs, &all);
  if (status != FOPO_OK) return status;
  memcpy(d->format, all.format, sizeof d->format);
  if (all.timed) memcpy(d->no_times, all.no_times, sizeof d->no_times);
  d->rows_read = all.rows_read;
  d->skipped = all.skipped;
  status = join_side(&d->users, &s->users, s->pairs.user, s->pairs.n);
  if (status == FOPO_OK) status = join_side(&d->items, &s->items, s->pairs.item, s->pairs.n);
  if (status == FOPO_OK) status = fopo_ranks_pairs(&s->pairs, d->users.n, title);
  return status == FOPO_OK ? fopo_ranks_build(d, &s->pairs, title) : status;
}

static int run(fopo_dataset *d, part *p, const char *title) {
  int status = measure(p);
  if (status == FOPO_OK) status = find_range(p);
  if (status == FOPO_OK) status = read_rows(p);
  return status == FOPO_OK ? build(d, p, title) : status;
}

int fopo_dataset_read_part(fopo_dataset **dataset, const char *const *paths, size_t n,
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
