/* Cells of tables, and features of columns. Quoted cells may hold separators, but no line ends. */
#include "data/logs/columns.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/progress.h"
#include "data/logs/readers.h"
#include "data/number.h"

enum {
  COLUMNS_MOST = 65536,
  LEVELS_MOST = 4096,    /* different texts of a column; with more it is no category */
  ROWS_AT_ONCE = 1 << 14 /* rows between two reports of progress */
};

/* ---- tables ---- */

void fopo_log_table_close(fopo_log_table *r) {
  fopo_text_close(&r->t);
  fopo_free(r->header);
  fopo_free(r->names);
  fopo_free(r->cells);
  *r = (fopo_log_table){0};
}

/* Cuts [p, end) into cells, of which at most `most` are stored. Returns how many there are, or
 * SIZE_MAX if a quote is not closed. */
static size_t cut(fopo_chars *cells, size_t most, const char *p, const char *end, char separator) {
  size_t n = 0;
  for (;; p++, n++) {
    const char *start = p, *stop;
    if (p < end && *p == '"') {
      start = ++p;
      while (p < end && (*p != '"' || (p + 1 < end && p[1] == '"'))) p += *p == '"' ? 2 : 1;
      if (p >= end) return SIZE_MAX;
      stop = p++;
      if (p < end && *p != separator) return SIZE_MAX;
    } else {
      while (p < end && *p != separator) p++;
      stop = p;
      while (start < stop && *start == ' ') start++;
      while (stop > start && stop[-1] == ' ') stop--;
    }
    if (n < most) cells[n] = (fopo_chars){start, (size_t)(stop - start)};
    if (p >= end) return n + 1;
  }
}

static const char *line_end(const char *p, const char *stop) {
  const char *end = memchr(p, '\n', (size_t)(stop - p));
  return end > p && end[-1] == '\r' ? end - 1 : end;
}

/* The most frequent of , ; TAB. */
static char sniff_separator(const char *p, const char *end) {
  size_t counts[3] = {0};
  static const char separators[] = ",;\t";
  for (; p < end; p++) {
    for (size_t i = 0; i < 3; i++) counts[i] += *p == separators[i];
  }
  size_t best = counts[1] > counts[0];
  return separators[counts[2] > counts[best] ? 2 : best];
}

int fopo_log_table_open(fopo_log_table *r, const char *path) {
  int status = fopo_text_open(&r->t, path);
  if (status != FOPO_OK) return status;
  fopo_text *t = &r->t;
  const char *end = line_end(t->at, t->stop);
  size_t n = (size_t)(end - t->at);
  r->separator = sniff_separator(t->at, end);
  r->header = fopo_alloc(n + 1, 1);
  if (r->header == NULL) return FOPO_ERR_MEMORY;
  memcpy(r->header, t->at, n);
  r->columns = cut(NULL, 0, r->header, r->header + n, r->separator);
  if (r->columns < 2 || r->columns > COLUMNS_MOST) {
    return fopo_text_refuse(t, 1, 0, t->at, n,
                            "is not a header of 2 to 65,536 columns separated by , ; or TAB");
  }
  r->names = fopo_alloc(r->columns, sizeof *r->names);
  r->cells = fopo_alloc(r->columns, sizeof *r->cells);
  if (r->names == NULL || r->cells == NULL) return FOPO_ERR_MEMORY;
  cut(r->names, r->columns, r->header, r->header + n, r->separator);
  t->at = (const char *)memchr(t->at, '\n', (size_t)(t->stop - t->at)) + 1;
  t->line++;
  return FOPO_OK;
}

/* fopo_log_reject_cell for any text; column -1: the whole row. */
static int reject(fopo_log_pass *p, int column, const char *text, size_t n, const char *why) {
  if (!p->counts) return FOPO_ROW_LEFT_OUT;
  return fopo_events_reject(p->logs, p->errors, p->options, &p->r.t, p->r.t.line,
                            (size_t)(column + 1), text, n, why);
}

int fopo_log_reject_cell(fopo_log_pass *p, int column, const char *why) {
  return reject(p, column, p->r.cells[column].at, p->r.cells[column].n, why);
}

static int take_line(void *data, const char *at, const char *end) {
  fopo_log_pass *p = data;
  fopo_log_table *r = &p->r;
  if (end > at && end[-1] == '\r') end--;
  size_t n = cut(r->cells, r->columns, at, end, r->separator);
  if (n == r->columns) return p->take(p);
  if (n == 1 && r->cells[0].n == 0) return FOPO_OK; /* a blank line is no row */
  char why[128];
  snprintf(why, sizeof why, "has %zu fields where the header has %zu", n, r->columns);
  return reject(p, -1, at, (size_t)(end - at),
                n == SIZE_MAX ? "has a quote that is not closed on its line" : why);
}

int fopo_log_pass_run(fopo_log_pass *p, const char *path) {
  int status = fopo_log_table_open(&p->r, path);
  if (status == FOPO_OK) status = fopo_text_each_line(&p->r.t, take_line, p);
  fopo_log_table_close(&p->r);
  return status;
}

/* ---- columns ---- */

static int is_name(fopo_chars c, const char *name) {
  return c.n == strlen(name) && strncasecmp(c.at, name, c.n) == 0;
}

static int find(const fopo_log_table *r, const char *name) {
  for (size_t c = 0; c < r->columns; c++) {
    if (is_name(r->names[c], name)) return (int)c;
  }
  return -1;
}

static int find_usual(const fopo_log_table *r, const char *const *usual) {
  for (; *usual != NULL; usual++) {
    int c = find(r, *usual);
    if (c >= 0) return c;
  }
  return -1;
}

static int refuse_column(const fopo_log_table *r, const char *wanted, const char *option) {
  char list[400] = "";
  size_t used = 0;
  for (size_t c = 0; c < r->columns && used + 80 < sizeof list; c++) {
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s", c > 0 ? ", " : "",
                             (int)(r->names[c].n < 60 ? r->names[c].n : 60), r->names[c].at);
  }
  return fopo_fail(FOPO_ERR_FORMAT, "%s has no column '%s'; it has %s; say which with %s = \"...\"",
                   r->t.path, wanted, list, option);
}

int fopo_log_role(const fopo_log_table *r, int *column, const char *wanted,
                  const char *const *usual, const char *option) {
  *column = wanted != NULL ? find(r, wanted) : find_usual(r, usual);
  return *column >= 0 ? FOPO_OK : refuse_column(r, wanted != NULL ? wanted : usual[0], option);
}

/* ---- features ---- */

void fopo_features_done(fopo_features *f) {
  for (size_t i = 0; i < f->n; i++) {
    fopo_ids_done(&f->list[i].levels);
    fopo_free(f->list[i].place);
  }
  fopo_free(f->list);
  fopo_free(f->raw);
  *f = (fopo_features){0};
}

int fopo_features_init(fopo_features *f, const fopo_log_table *r) {
  f->list = fopo_alloc(r->columns, sizeof *f->list);
  return f->list == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

void fopo_features_add(fopo_features *f, int column, int is_text) {
  for (size_t i = 0; i < f->n; i++) {
    if (f->list[i].column == column) return;
  }
  f->list[f->n++] = (fopo_feature){.column = column, .is_text = is_text};
}

/* What is done with a column that is named. */
typedef void named_column(fopo_features *f, int column);

static void add_named(fopo_features *f, int column) { fopo_features_add(f, column, 0); }

static void mark_category(fopo_features *f, int column) {
  for (size_t i = 0; i < f->n; i++) {
    if (f->list[i].column == column) f->list[i].is_text = 1;
  }
}

/* Calls take for the column of that name, or those whose names begin so. Returns how many. */
static size_t each_column(fopo_features *f, const fopo_log_table *r, const char *word,
                          named_column *take) {
  size_t n = strlen(word), found = 0;
  int exact = find(r, word);
  if (exact >= 0) {
    take(f, exact);
    return 1;
  }
  for (size_t c = 0; c < r->columns; c++) {
    if (r->names[c].n < n || strncasecmp(r->names[c].at, word, n) != 0) continue;
    take(f, (int)c);
    found++;
  }
  return found;
}

/* The same for each word of a list, separated by commas. */
static int each_named(fopo_features *f, const fopo_log_table *r, const char *words,
                      named_column *take, const char *option) {
  while (*words != '\0') {
    words += strspn(words, " ,");
    size_t n = strcspn(words, ",");
    size_t used = n;
    while (used > 0 && words[used - 1] == ' ') used--;
    if (used > 0) {
      char word[128];
      snprintf(word, sizeof word, "%.*s", (int)used, words);
      if (each_column(f, r, word, take) == 0) return refuse_column(r, word, option);
    }
    words += n;
  }
  return FOPO_OK;
}

int fopo_features_named(fopo_features *f, const fopo_log_table *r, const char *words) {
  return each_named(f, r, words, add_named, "features");
}

int fopo_features_categories(fopo_features *f, const fopo_log_table *r, const char *words) {
  return words == NULL ? FOPO_OK : each_named(f, r, words, mark_category, "categories");
}

void fopo_features_look(fopo_features *f, const fopo_log_table *r) {
  for (size_t i = 0; i < f->n; i++) {
    double x;
    fopo_feature *one = &f->list[i];
    fopo_chars c = r->cells[one->column];
    if (one->is_text || c.n == 0) continue;
    int is_text = fopo_parse_real(&x, c.at, c.n) == FOPO_NO_NUMBER;
    one->texts += (size_t)is_text;
    one->numbers += (size_t)!is_text;
  }
}

void fopo_features_decide(fopo_features *f) {
  for (size_t i = 0; i < f->n; i++) {
    if (f->list[i].texts >= f->list[i].numbers) f->list[i].is_text = 1;
  }
}

/* Capacity for one more row. */
static int reserve_row(fopo_features *f) {
  if (f->rows < f->capacity) return FOPO_OK;
  size_t capacity = f->capacity == 0 ? 1024 : 2 * f->capacity;
  int status = fopo_memory_suffices(4 * (uint64_t)capacity * f->n, "the features read so far",
                                    "name fewer columns");
  size_t n = capacity * (f->n + (f->n == 0));
  if (status == FOPO_OK) status = fopo_resize(&f->raw, n, sizeof *f->raw);
  if (status == FOPO_OK) f->capacity = capacity;
  return status;
}

static int add_level(fopo_log_pass *p, fopo_feature *f, uint32_t *index) {
  fopo_chars c = p->r.cells[f->column];
  int status = fopo_ids_add(&f->levels, index, c.at, c.n);
  if (status != FOPO_OK || f->levels.n <= LEVELS_MOST) return status;
  fopo_chars name = p->r.names[f->column];
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s: column %.*s holds more than %d different texts ('%.*s' in line %zu), which "
                   "is not a category; name the columns to use with features = \"...\"",
                   p->r.t.path, (int)(name.n < 60 ? name.n : 60), name.at, LEVELS_MOST,
                   (int)(c.n < 40 ? c.n : 40), c.at, p->r.t.line);
}

int fopo_features_take(fopo_features *f, fopo_log_pass *p) {
  int status = reserve_row(f);
  if (status != FOPO_OK) return status;
  uint32_t *row = f->raw + f->rows * f->n;
  for (size_t i = 0; i < f->n && status == FOPO_OK; i++) {
    fopo_feature *one = &f->list[i];
    fopo_chars c = p->r.cells[one->column];
    double x;
    if (one->is_text) {
      status = add_level(p, one, &row[i]);
    } else if (fopo_parse_real(&x, c.at, c.n) != FOPO_IS_NUMBER || fabs(x) > (double)FLT_MAX) {
      p->counts = 1; /* the first pass did not know yet that the column holds numbers */
      status = fopo_log_reject_cell(p, one->column,
                                    "is not a finite number of float32, as most of its column; "
                                    "categories = \"...\" names columns of texts");
      p->counts = 0;
    } else {
      float number = (float)x;
      memcpy(&row[i], &number, sizeof number);
    }
  }
  if (status == FOPO_OK) f->rows++;
  return status;
}

typedef struct {
  const char *text;
  size_t id;
} level;

static int by_text(const void *a, const void *b) {
  return strcmp(((const level *)a)->text, ((const level *)b)->text);
}

static int arrange_levels(fopo_feature *f) {
  size_t n = f->levels.n;
  level *order = fopo_alloc(n, sizeof *order);
  f->place = fopo_alloc(n, sizeof *f->place);
  int status = order != NULL && f->place != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    for (size_t i = 0; i < n; i++) order[i] = (level){f->levels.text + f->levels.offsets[i], i};
    qsort(order, n, sizeof *order, by_text);
    for (size_t i = 0; i < n; i++) f->place[order[i].id] = (uint32_t)i;
  }
  fopo_free(order);
  return status;
}

/* Appends "column=text" for each text, in alphabetical order. */
static int name_levels(fopo_names *names, size_t *capacity, const fopo_feature *f,
                       fopo_chars column) {
  uint32_t *at = fopo_alloc(f->levels.n, sizeof *at);
  if (at == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < f->levels.n; i++) at[f->place[i]] = (uint32_t)i;
  int status = FOPO_OK;
  for (size_t i = 0; i < f->levels.n && status == FOPO_OK; i++) {
    char text[512];
    int n = snprintf(text, sizeof text, "%.*s=%.200s", (int)(column.n < 200 ? column.n : 200),
                     column.at, f->levels.text + f->levels.offsets[at[i]]);
    status = fopo_names_append(names, capacity, text, (size_t)n);
  }
  fopo_free(at);
  return status;
}

int fopo_features_arrange(fopo_features *f, fopo_names *names, const fopo_log_table *header) {
  int status = FOPO_OK;
  size_t capacity = 0;
  f->width = 0;
  for (size_t i = 0; i < f->n && status == FOPO_OK; i++) {
    fopo_feature *one = &f->list[i];
    fopo_chars column = header->names[one->column];
    one->first = f->width;
    f->width += one->is_text ? one->levels.n : 1;
    if (one->is_text) {
      status = arrange_levels(one);
      if (status == FOPO_OK) status = name_levels(names, &capacity, one, column);
    } else {
      status = fopo_names_append(names, &capacity, column.at, column.n);
    }
  }
  return status;
}

void fopo_features_spread(float *to, const fopo_features *f, size_t row) {
  const uint32_t *raw = f->raw + row * f->n;
  for (size_t i = 0; i < f->n; i++) {
    const fopo_feature *one = &f->list[i];
    if (one->is_text) {
      to[one->first + one->place[raw[i]]] = 1.0f;
    } else {
      memcpy(to + one->first, &raw[i], sizeof *to);
    }
  }
}

int fopo_features_matrix(fopo_matrix *contexts, const fopo_features *f, const char *path) {
  int status = fopo_memory_suffices(4 * (uint64_t)f->rows * f->width, path,
                                    "name fewer columns with features = \"...\"");
  if (status == FOPO_OK) status = fopo_matrix_init(contexts, f->rows, f->width);
  for (size_t i = 0; i < f->rows && status == FOPO_OK; i++) {
    fopo_features_spread(fopo_matrix_row(*contexts, i), f, i);
    if ((i + 1) % ROWS_AT_ONCE == 0) {
      status = fopo_progress("making contexts", (double)i + 1, (double)f->rows);
    }
  }
  return status;
}
