/* Several files as one dataset: those that a table was cut into, anywhere, are that table. */
#include <zlib.h>

#include "core/threads.h"
#include "data/read/table.h"
#include "datasets.h"
#include "folder.h"
#include "ranks/read.h"
#include "sound.h"

FREED_BY(fopo_dataset_free, fopo_dataset)

static const char *write_named(const char *name, const char *text) {
  return write_bytes(name, text, strlen(text));
}

/* ---- cuts ---- */

/* Reads the file by stretches between the cuts, as ranks do: each begins where the one before has
 * ended. *moved counts those that would have begun elsewhere by themselves. */
static int read_cut(fopo_dataset **d, const char *path, const uint64_t *cuts, size_t parts,
                    const fopo_read_options *o, int *moved) {
  fopo_several all = {0};
  uint64_t end = 0;
  int status = FOPO_OK;
  *d = NULL;
  for (size_t i = 0; i < parts && status == FOPO_OK; i++) {
    fopo_several alone = {0};
    if (fopo_several_add(&alone, path, cuts[i], cuts[i + 1], o) != FOPO_OK) {
      *moved += 1; /* inside a quoted field nothing may make sense */
    } else if (i > 0) {
      *moved += alone.begin != end;
    }
    fopo_several_done(&alone);
    status = fopo_several_add(&all, path, i == 0 ? 0 : end, cuts[i + 1], o);
    if (status == FOPO_OK && i > 0) assert_int_equal(all.begin, end);
    end = all.end;
  }
  if (status == FOPO_OK) status = fopo_several_build(d, &all, path);
  fopo_several_done(&all);
  return status;
}

/* A file, and what reading the whole of it gives: a dataset, or a sentence. */
typedef struct {
  const char *path;
  const fopo_read_options *options;
  fopo_dataset *d;
  int status;
  char sentence[1024];
} known;

static known read_whole(const char *path, const fopo_read_options *o) {
  known w = {.path = path, .options = o};
  w.status = fopo_dataset_read(&w.d, path, o);
  if (w.status != FOPO_OK) snprintf(w.sentence, sizeof w.sentence, "%s", fopo_error_sentence());
  return w;
}

static void known_done(known *w) { fopo_dataset_free(w->d); }

/* The same dataset, or the same sentence, as reading the whole. Returns how many stretches begin
 * elsewhere than they would by themselves. */
static int check_cut(const known *w, const uint64_t *cuts, size_t parts) {
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  int moved = 0, cut = read_cut(&d, w->path, cuts, parts, w->options, &moved);
  if (cut != w->status || (cut != FOPO_OK && strcmp(w->sentence, fopo_error_sentence()) != 0)) {
    fail_msg("cut at %zu: '%s', not '%s'", (size_t)cuts[1], fopo_error_sentence(), w->sentence);
  }
  if (cut == FOPO_OK && !same_dataset(w->d, d)) fail_msg("cut at %zu differs", (size_t)cuts[1]);
  return moved;
}

typedef struct {
  const char *text;
  int quotes; /* 1: a quoted field holds a line end */
  fopo_read_options options;
} table;

TEST(any_cut_of_a_table) {
  static const table tables[] = {
      {"user,item,rating,time\nann,3,.1,5\nbob,x,2,4\nann,3,.2,3\nann,3,.3,9\ncy,3,1,4\n", 0, {0}},
      {"user,item,rating,time\r\nann,3,.1,5\r\nbob,x,2,4\r\nann,3,.2,3\r\ncy,3,1,4", 0, {0}},
      {"# a comment\n\n# user,item\nuser,item\n9,4\n\n\n7,5\n9,4\n8,5\n12345678901,4\n", 0, {0}},
      {"\xef\xbb\xbf"
       "5::4::3\n5::7::1\n4::4::2.5\n5::4::.25\n",
       0,
       {0}},
      {"1\t2\r2\t3\r1\t5\r", 0, {.header = -1}},
      {"7 8\n  8   9\n7 10", 0, {.header = -1}},
      {"user;item;note\n1;2;\"a\n3;4;b\n5\"\n6;7;\"\"\"\"\n\"8\n\";9;\"\n\n\"\n3;2;\"x\"\n",
       1,
       {0}},
      {"{\"user\":1,\"item\":\"a\",\"rating\":2}\n{\"item\":\"b\",\"user\":2,\"rating\":3}\n\n"
       "{\"rating\":1,\"item\":\"a\",\"user\":1}\n{\"user\":3,\"item\":\"b\",\"rating\":1}",
       0,
       {0}},
      {"user,item,rating\n1,2,3\n4,5,6\n7,8,9\n1,8,x\n4,2,3\n", 0, {0}},
      {"user,item,rating\n1,2,3\nx\n7,8,9\n1,8,x\n4,2,3\n,,\n",
       0,
       {.skip_errors = 1, .max_errors = 3}},
      {"user,item,rating\n1,2,3\nx\n7,8,9\n1,8,x\n4,2,3\n,,\n",
       0,
       {.skip_errors = 1, .max_errors = 2}},
      {"user,item,rating\n1,2,3\n1,3,4\n7,8,1\n1,2,5\n4,2,3\n", 0, {.where = "rating>=3"}},
      {"user,item,time\n1,2,3\n1,3,4\n7,8,soon\n1,2,5\n4,2,then\n", 0, {0}},
      {"1,10,sue,20,30\n2,11,tim,21,31\n1,12,sue,25,26\n3,13,sue,19,22\n", 0, {0}}};
  int threads = fopo_threads();
  fopo_threads_set(1); /* they would wait for each other in every file */
  for (size_t c = 0; c < sizeof tables / sizeof *tables; c++) {
    const table *one = &tables[c];
    size_t n = strlen(one->text);
    const char *path = write_named("case.txt", one->text);
    int moved = 0;
    fopo_chunks_size(c % 2 ? 20 : 0);
    DONE(known_done) known w = read_whole(path, &one->options);
    for (size_t a = 0; a <= n; a++) {
      moved += check_cut(&w, (uint64_t[]){0, a, n}, 2);
      for (size_t b = a; b <= n; b += 5 + a % 3) {
        size_t last = b + (n - b) / 2;
        moved += a % 5 == 0 ? check_cut(&w, (uint64_t[]){0, a, b, last, n}, 4)
                            : check_cut(&w, (uint64_t[]){0, a, b, n}, 3);
      }
    }
    /* Only where a row holds a line end need a stretch be told where to begin. */
    if (w.status == FOPO_OK && (moved > 0) != one->quotes) {
      fail_msg("table %zu: %d moved", c, moved);
    }
  }
  fopo_chunks_size(0);
  fopo_threads_set(threads);
}

/* Tables with every feature, in blocks and chunks of many sizes. */
TEST(any_cut_of_many_rows) {
  FREED(free) char *text = malloc(1 << 16);
  int threads = fopo_threads();
  for (int kinds = 0; kinds < KINDS; kinds += 29) {
    const fopo_read_options options = options_of_many(kinds);
    size_t n = many_rows(text, kinds);
    const char *path = write_bytes("case.txt", text, n);
    fopo_chunks_size(kinds % 3 ? 150 : 0);
    fopo_threads_set(kinds % 8 ? 1 : 2);
    DONE(known_done) known w = read_whole(path, &options);
    for (uint64_t i = 1; i < 9; i++) {
      uint64_t a = n * i / 9 + (uint64_t)kinds % 7, b = a + (n - a) / 3, c = b + (n - b) / 2;
      check_cut(&w, (uint64_t[]){0, a, b, c, n}, 4);
    }
  }
  fopo_chunks_size(0);
  fopo_threads_set(threads);
}

/* Lines before a stretch are counted when there is something to refuse, over blocks of text. */
TEST(lines_of_a_long_file) {
  enum { ROWS = 400000 };
  FREED(free) char *text = malloc(ROWS * 16);
  size_t n = (size_t)sprintf(text, "user,item\n");
  for (int i = 0; i < ROWS; i++) {
    n += (size_t)sprintf(text + n, i == 390000 ? "%d,\n" : "%d,%d\n", i % 977, i % 1013);
  }
  const char *path = write_bytes("long.csv", text, n);
  DONE(fopo_several_done) fopo_several s = {0};
  ok(fopo_several_add(&s, path, n / 3, n / 2, &(fopo_read_options){0}));
  assert_true(s.begin >= n / 3 && s.begin < n / 3 + 16 && s.end >= n / 2 && s.end < n / 2 + 16);
  refused(fopo_several_add(&s, path, s.end, UINT64_MAX, &(fopo_read_options){0}), FOPO_ERR_FORMAT,
          "long.csv, line 390002, column 2 (item): '' is not an id: it is missing");
}

/* ---- lists of files ---- */

/* As one process, and as rank 0 of 1. */
static fopo_dataset *read_files(const char *const *paths, size_t n, const fopo_read_options *o) {
  fopo_dataset *d, *part;
  if (fopo_dataset_read_all(&d, paths, n, o) != FOPO_OK) fail_msg("%s", fopo_error_sentence());
  int status = fopo_ranks_read(&part, paths, n, o != NULL ? o : &(fopo_read_options){0});
  if (status != FOPO_OK) fail_msg("%s", fopo_error_sentence());
  assert_true(same_dataset(d, part) && strcmp(d->format, part->format) == 0);
  if (n > 1) assert_string_equal(d->no_times, part->no_times);
  fopo_dataset_free(part);
  assert_true(is_sound(&d->matrix, fopo_csr_nnz(&d->matrix)));
  assert_true(d->users.n == d->matrix.rows && d->items.n == d->matrix.cols);
  assert_int_equal(d->rows_read, fopo_csr_nnz(&d->matrix) + d->repeats);
  return d;
}
#define READ(...)                                                                                  \
  read_files((const char *const[]){__VA_ARGS__},                                                   \
             sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), NULL)

static void refuse(const char *const *paths, size_t n, const char *part,
                   const fopo_read_options *o) {
  fopo_dataset *d;
  size_t blocks = fopo_memory_in_use().blocks;
  assert_int_not_equal(fopo_dataset_read_all(&d, paths, n, o), FOPO_OK);
  assert_null(d);
  says(part);
  int status = fopo_ranks_read(&d, paths, n, o != NULL ? o : &(fopo_read_options){0});
  assert_int_not_equal(status, FOPO_OK);
  assert_null(d);
  says(part);
  assert_int_equal(fopo_memory_in_use().blocks, blocks);
}
#define REFUSE(part, ...)                                                                          \
  refuse((const char *const[]){__VA_ARGS__},                                                       \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), part, NULL)

static const char *write_gzip(const char *name, const char *text) {
  const char *path = in_folder(name);
  gzFile f = gzopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(gzwrite(f, text, (unsigned)strlen(text)), strlen(text));
  gzclose(f);
  return path;
}

#define DAY_1 "ann,3,.1,50\nbob,x,2,40\nann,3,.2,30\n"
#define DAY_2 "3,3,.3,90\nann,3,.3,90\n03,y,1,1\n"

/* Files of one table, plain and gzipped and read before, are that table. */
TEST(files_are_one) {
  const char *head = "user,item,rating,time\n";
  char text[400];
  snprintf(text, sizeof text, "%s%s%s", head, DAY_1, DAY_2);
  FREED(fopo_dataset_free) fopo_dataset *whole = READ(write_named("whole.csv", text));
  snprintf(text, sizeof text, "%s%s", head, DAY_1);
  const char *one = write_named("one.csv", text);
  snprintf(text, sizeof text, "time;rating;item;user\r\n90;.3;3;3\r\n90;.3;3;ann\r\n1;1;y;03");
  const char *two = write_gzip("two.csv.gz", text);
  FREED(fopo_dataset_free) fopo_dataset *d = READ(one, two);
  assert_true(same_dataset(whole, d));
  fopo_dataset_free(d);
  /* The first one as it was saved: its repeat has been summed, with both times. */
  d = READ(one);
  const char *saved = in_folder("one.npz");
  ok(fopo_dataset_save(d, saved));
  fopo_dataset_free(d), d = READ(saved, two);
  assert_string_equal(d->format, "mixed");
  assert_true(same_dataset(whole, d));
}

TEST(names_of_files) {
  /* Integers ascend over all files; one text anywhere, and all are in order of appearance. */
  const char *a = write_named("a.csv", "user,item\n9,4\n7,5\n"),
             *b = write_named("b.csv", "user,item\n8,4\n-1,1\n"),
             *c = write_named("c.csv", "item,user\n4,7\n5,x\n");
  FREED(fopo_dataset_free) fopo_dataset *d = READ(a, b);
  static const int64_t users[] = {-1, 7, 8, 9}, items[] = {1, 4, 5};
  assert_memory_equal(d->users.numbers, users, sizeof users);
  assert_memory_equal(d->items.numbers, items, sizeof items);
  fopo_dataset_free(d), d = READ(a, b, c);
  static const char *const names[] = {"9", "7", "8", "-1", "x"};
  for (size_t i = 0; i < 5; i++) assert_int_equal(fopo_names_find(&d->users, names[i]), i);
  assert_memory_equal(d->items.numbers, items, sizeof items);
  assert_int_equal(d->rows_read, 6);
  fopo_dataset_free(d);
  /* Indices agree as they stand. */
  const char *m = write_named("m.mtx",
                              "%%MatrixMarket matrix coordinate real general\n2 9 1\n1 1 2\n"),
             *n = write_named("n.mtx",
                              "%%MatrixMarket matrix coordinate real general\n4 3 1\n1 1 3\n");
  d = READ(m, n);
  assert_true(d->matrix.rows == 4 && d->matrix.cols == 9 && d->matrix.values[0] == 5.0f);
  assert_true(d->users.numbers == NULL && d->items_seen == 1 && d->repeats == 1);
}

TEST(lines_that_are_users) {
  const char *a = write_named("a.txt", "1 2 3\n4 5\n"),
             *b = write_named("b.txt", "1 2 9 10\n7 7 8\n"), *paths[] = {a, b};
  FREED(fopo_dataset_free)
  fopo_dataset *d = read_files(paths, 2, &(fopo_read_options){.format = "lists"});
  assert_true(d->matrix.rows == 8 && d->matrix.cols == 11 && d->repeats == 1);
  fopo_dataset_free(d);
  refuse(paths, 2, "a.txt is read as format = \"baskets\", where line i is user i",
         &(fopo_read_options){.format = "baskets"});
  d = read_files(paths, 1, &(fopo_read_options){.format = "baskets"});
  assert_int_equal(d->matrix.rows, 2);
}

/* Values and times that not every file has. */
TEST(values_and_times) {
  const char *plain = write_named("plain.csv", "user,item\n1,1\n1,2\n1,1\n"),
             *rated = write_named("rated.csv", "user,item,rating\n1,1,.5\n2,2,1\n"),
             *timed = write_named("timed.csv", "user,item,time\n1,1,7\n2,2,3\n1,1,5\n");
  FREED(fopo_dataset_free) fopo_dataset *d = READ(plain, rated);
  assert_true(d->matrix.values[0] == 2.5f && d->matrix.values[1] == 1.0f && *d->no_times == '\0');
  fopo_dataset_free(d), d = READ(rated, plain);
  assert_true(d->matrix.values[0] == 2.5f && d->repeats == 2 && d->rows_read == 5);
  fopo_dataset_free(d), d = READ(timed, timed);
  assert_true(d->times.first[0] == 5 && d->times.last[0] == 7 && d->matrix.values[0] == 4.0f);
  fopo_dataset_free(d), d = READ(timed, plain);
  assert_null(d->times.first);
  if (strstr(d->no_times, "plain.csv has none") == NULL) fail_msg("%s", d->no_times);
  fopo_dataset_free(d), d = READ(plain, timed);
  if (strstr(d->no_times, "plain.csv has none") == NULL) fail_msg("%s", d->no_times);
  fopo_dataset_free(d);
  const char *late = write_named("late.csv", "user,item,time\n1,1,7\n2,2,soon\n");
  d = READ(timed, late, plain);
  if (strstr(d->no_times, "late.csv, line 3, column 3 (time): 'soon'") == NULL) {
    fail_msg("%s", d->no_times);
  }
}

TEST(files_that_are_wrong) {
  const char *good = write_named("good.csv", "user,item\n1,1\n"),
             *bad = write_named("bad.csv", "user,item\n1,1\n2\n"),
             *empty = write_named("empty.csv", "user,item\n");
  REFUSE("bad.csv, line 3: '2' has 1 field where the first row has 2", good, bad);
  REFUSE("no-such.csv", good, "no-such.csv");
  REFUSE("empty.csv and 2 more files holds no interaction", empty, empty, empty);
  fopo_dataset *d = READ(empty, good); /* a day without rows */
  assert_int_equal(d->rows_read, 1);
  fopo_dataset_free(d);
  /* The number of malformed rows is that of all files. */
  const char *paths[] = {bad, bad};
  d = read_files(paths, 2, &(fopo_read_options){.skip_errors = 1, .max_errors = 2});
  assert_true(d->skipped == 2 && d->rows_read == 2 && d->repeats == 1);
  fopo_dataset_free(d);
  refuse(paths, 2, "there are 2 malformed rows, max_errors is 1",
         &(fopo_read_options){.skip_errors = 1, .max_errors = 1});
}

TEST(memory_faults) {
  const char *paths[] = {write_named("a.csv", "user,item,time\nann,4,1\n7,5,2\nann,4,2\n"),
                         write_named("b.csv", "user,item,rating,time\nann,4,2,3\nx,5,3,4\n"),
                         write_named("c.mtx", "%%MatrixMarket matrix coordinate pattern general\n"
                                              "2 2 1\n1 2\n")};
  size_t blocks = fopo_memory_in_use().blocks;
  for (int forever = 0; forever < 4; forever++) {
    int failed = 1;
    for (long n = 0; failed; n++) {
      fopo_dataset *d;
      fopo_memory_fail_after(n, forever % 2);
      int status = forever < 2 ? fopo_dataset_read_all(&d, paths, 3, NULL)
                               : fopo_ranks_read(&d, paths, 3, &(fopo_read_options){0});
      fopo_memory_fail_after(-1, 0);
      failed = status != FOPO_OK;
      fopo_dataset_free(d);
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
    }
  }
}

int main(void) { return run_all(make_folder, remove_folder); }
