/* Times of interactions: dates, the columns that hold them, repeats, what is malformed, the cache.
 */
#include <math.h>
#include <time.h>

#include "core/npz.h"
#include "core/threads.h"
#include "data/read/table.h"
#include "folder.h"

FREED_BY(fopo_dataset_free, fopo_dataset)

static fopo_dataset *must_read(const char *path, const fopo_read_options *options) {
  fopo_dataset *d;
  if (fopo_dataset_read(&d, path, options) != FOPO_OK) fail_msg("%s", fopo_error_sentence());
  return d;
}
#define READ_AS(path, ...) must_read(path, &(fopo_read_options){__VA_ARGS__})
#define READ(path)         must_read(path, NULL)

static void refuse_as(const char *path, const char *part, const fopo_read_options *options) {
  fopo_dataset *d;
  size_t blocks = fopo_memory_in_use().blocks;
  assert_int_not_equal(fopo_dataset_read(&d, path, options), FOPO_OK);
  says(part);
  assert_int_equal(fopo_memory_in_use().blocks, blocks);
}
#define REFUSE_AS(path, part, ...) refuse_as(path, part, &(fopo_read_options){__VA_ARGS__})

/* ---- dates ---- */

TEST(dates) {
  static const struct {
    const char *text;
    double seconds;
  } good[] = {{"1970-01-01", 0},
              {"1969-12-31T23:59:59Z", -1},
              {"2016-05-09", 1462752000},
              {"2014-04-07T10:51:09.277Z", 1396867869.277},
              {"2014-04-07t10:51:09.277z", 1396867869.277},
              {"2019-11-24 00:03:13.44+00:00", 1574553793.44},
              {"2019-11-24 00:03:13.442536+00:00", 1574553793.442536},
              {"2019-11-24 00:03:13", 1574553793},
              {"2019-11-24 00:03", 1574553780},
              {"2019-11-24T00:03+0530", 1574533980},
              {"2019-11-24T00:03-01", 1574557380},
              {"2016-12-31T23:59:60Z", 1483228800},
              {"2000-02-29", 951782400},
              {"0001-01-01", -62135596800.0},
              {"9999-12-31", 253402214400.0}};
  static const char *const bad[] = {"",
                                    "2016",
                                    "2016-05",
                                    "2016-5-9",
                                    "20160509",
                                    "2016-05-09T",
                                    "2016-05-09 ",
                                    "2016-05-09T10",
                                    "2016-05-09T10:",
                                    "2016-05-09T1:00",
                                    "2016-13-01",
                                    "2016-00-01",
                                    "2016-01-00",
                                    "2016-01-32",
                                    "2015-02-29",
                                    "1900-02-29",
                                    "0000-01-01",
                                    "2016-05-09T24:00",
                                    "2016-05-09T10:60",
                                    "2016-05-09T10:00:61",
                                    "2016-05-09T10:00:00.",
                                    "2016-05-09T10:00:00.5x",
                                    "2016-05-09T10:00Zx",
                                    "2016-05-09T10:00+1",
                                    "2016-05-09T10:00+1:00",
                                    "2016-05-09T10:00+24:00",
                                    "2016-05-09T10:00+00:60",
                                    "2016-05-09x",
                                    "2016/05/09",
                                    "-016-05-09",
                                    "2016-05-09T10:00+00:"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    double x = 0;
    if (!fopo_parse_date(&x, good[i].text, strlen(good[i].text)) ||
        fabs(x - good[i].seconds) > 1e-6) {
      fail_msg("%s: %.6f", good[i].text, x);
    }
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    double x;
    if (fopo_parse_date(&x, bad[i], strlen(bad[i]))) fail_msg("'%s' was taken for a date", bad[i]);
  }
}

/* Every day of the years 1600 to 2399 against the C library's calendar. */
TEST(every_day) {
  size_t days = 0;
  for (time_t at = -11676096000; at < 13569465600; at += 86400, days++) {
    struct tm day;
    char text[32];
    double x = 0.5;
    gmtime_r(&at, &day);
    snprintf(text, sizeof text, "%04d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
    if (!fopo_parse_date(&x, text, 10) || x != (double)at) fail_msg("%s: %f", text, x);
  }
  assert_int_equal(days, 2 * 146097);
}

/* ---- which column ---- */

/* The times of the first entries are t0, t1 (NAN: the dataset has none). */
static void assert_times(fopo_dataset *d, double t0, double t1) {
  if (isnan(t0)) {
    assert_null(d->times.first);
  } else {
    assert_non_null(d->times.first);
    if (d->times.first[0] != t0 || d->times.first[1] != t1) {
      fail_msg("%.14g and %.14g", d->times.first[0], d->times.first[1]);
    }
  }
  fopo_dataset_free(d);
}

TEST(columns_are_found) {
  static const char *const names[] = {"timestamp", "Time Stamp", "unix_time", "time",      "ts",
                                      "DATE",      "event-time", "datetime",  "created_at"};
  char text[128];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(text, sizeof text, "user,%s,item\n1,30,1\n1,-2.5,2\n", names[i]);
    assert_times(READ(write_text(text)), 30, -2.5);
  }
  assert_times(READ(write_text("user,item,when\n1,1,30\n1,2,20\n")), (double)NAN, 0);
  assert_times(READ_AS(write_text("user,item,when\n1,1,30\n1,2,20\n"), .time = "when"), 30, 20);
  assert_times(READ_AS(write_text("user,item,when\n1,1,30\n1,2,20\n"), .time = "3"), 30, 20);
  assert_times(READ_AS(write_text("user,item,time\n1,1,30\n1,2,20\n"), .time = ""), (double)NAN, 0);
  /* The column is in use: the times are the values. */
  assert_times(READ_AS(write_text("user,item,time\n1,1,30\n1,2,20\n"), .value = "time"),
               (double)NAN, 0);
  assert_times(
      READ_AS(write_text("user,item,time\n1,1,30\n1,2,20\n"), .value = "time", .time = "time"), 30,
      20);
}

TEST(columns_without_names) {
  assert_times(READ("tests/fixtures/u.data"), 891717742, 881250949);
  assert_times(READ("tests/fixtures/ratings_ml1m.dat"), 978302109, 978300760);
  assert_times(READ(write_text("1,5,978302109\n1,6,978302110\n")), 978302109, 978302110);
  assert_times(READ(write_text("1,5,978302109000\n1,6,978302110000\n")), 978302109000,
               978302110000);
  assert_times(READ(write_text("1 5 2016-05-09\n1 6 2016-05-10\n")), 1462752000, 1462838400);
  assert_times(READ(write_text("1,5,x,2016-05-09,7\n1,6,y,2016-05-10,7\n")), 1462752000,
               1462838400);
  /* Not times: an id of ten digits, numbers in another place, one row that is no time. */
  assert_times(READ(write_text("1,5,33842865744\n1,6,33846768288\n")), (double)NAN, 0);
  assert_times(READ(write_text("1,5,4,978302109,x\n1,6,4,978302110,x\n")), (double)NAN, 0);
  assert_times(READ(write_text("1,5,978302109\n1,6,7\n")), (double)NAN, 0);
  assert_times(READ_AS("tests/fixtures/yoochoose.dat", .item = "3"), 1396868049.868,
               1396867869.277);
  assert_times(READ(write_text("1,33842865744,mithzz,154,156\n1,33846768288,alptv,166,169\n")), 154,
               166);
}

/* ---- repeats, chunks ---- */

enum { ROWS = 400, USERS = 9, ITEMS = 40 };

/* A file and what must come of it, by another way: the earliest and latest time of each pair. */
typedef struct {
  char text[1 << 16];
  size_t n;
  double first[USERS][ITEMS], last[USERS][ITEMS];
} made;

static void make_file(made *f, int dates_too, int quotes, int crlf, size_t bad_row) {
  const char *end = crlf ? "\r\n" : "\n";
  uint32_t x = 12345;
  for (size_t u = 0; u < USERS; u++) {
    for (size_t i = 0; i < ITEMS; i++) f->first[u][i] = INFINITY;
    for (size_t i = 0; i < ITEMS; i++) f->last[u][i] = -INFINITY;
  }
  f->n = (size_t)sprintf(f->text, "user,time,item,rating%s", end);
  for (size_t i = 0; i < ROWS; i++) {
    x = x * 1664525u + 1013904223u;
    unsigned user = x >> 8 & 7, item = (x >> 12) % ITEMS;
    double t = (double)(x >> 4) + (x & 1 ? 0.5 : 0);
    time_t whole = (time_t)floor(t);
    char when[40];
    struct tm day;
    snprintf(when, sizeof when, "%.1f", t);
    if (dates_too) {
      gmtime_r(&whole, &day);
      size_t at = strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &day);
      snprintf(when + at, sizeof when - at, x & 1 ? ".5Z" : "Z");
    }
    if (i == bad_row) snprintf(when, sizeof when, "soon");
    const char *q = quotes && i % 7 == 3 ? "\"" : "";
    f->n += (size_t)sprintf(f->text + f->n, "%u,%s%s%s,%u,%u%s", user, q, when, q, item,
                            (unsigned)i % 5, end);
    if (i == bad_row) continue;
    f->first[user][item] = fmin(f->first[user][item], t);
    f->last[user][item] = fmax(f->last[user][item], t);
  }
}

static void assert_as_made(const fopo_dataset *d, const made *f) {
  const fopo_csr *m = &d->matrix;
  assert_non_null(d->times.first);
  assert_non_null(d->times.last);
  for (size_t u = 0; u < m->rows; u++) {
    for (uint64_t e = m->indptr[u]; e < m->indptr[u + 1]; e++) {
      char name[32];
      size_t user = strtoul(fopo_names_get(&d->users, u, name, sizeof name), NULL, 10);
      size_t item = strtoul(fopo_names_get(&d->items, m->ids[e], name, sizeof name), NULL, 10);
      assert_true(d->times.first[e] == f->first[user][item]);
      assert_true(d->times.last[e] == f->last[user][item]);
    }
  }
}

/* The earliest and the latest of a pair, for any form, size of chunks and number of threads. */
TEST(repeats_keep_first_and_last) {
  static const size_t sizes[] = {0, 40, 150, 700};
  int before = fopo_threads();
  FREED(free) made *f = malloc(sizeof *f);
  for (int form = 0; form < 8; form++) {
    make_file(f, form & 1, form & 2, form & 4, SIZE_MAX);
    spit(in_folder("case.csv"), f->text, f->n);
    for (int i = 0; i < 4; i++) {
      fopo_threads_set(1 + i);
      fopo_chunks_size(sizes[i]);
      FREED(fopo_dataset_free)
      fopo_dataset *d = READ_AS(in_folder("case.csv"), .where = i == 3 ? "rating>=0" : NULL);
      assert_true(d->repeats > 50);
      assert_as_made(d, f);
    }
  }
  fopo_chunks_size(0);
  fopo_threads_set(before);
}

/* Without repeats there is no second array, and times change nothing else of a dataset. */
TEST(only_where_needed) {
  const char *path = write_text("user,item,rating,time\n2,5,1.5,9\n1,6,2,8\n1,5,2,7\n");
  FREED(fopo_dataset_free) fopo_dataset *d = READ(path), *without = READ_AS(path, .time = "");
  assert_non_null(d->times.first);
  assert_null(d->times.last);
  assert_true(d->times.first[0] == 7 && d->times.first[1] == 8 && d->times.first[2] == 9);
  assert_null(without->times.first);
  assert_memory_equal(d->matrix.ids, without->matrix.ids, 3 * sizeof *d->matrix.ids);
  assert_memory_equal(d->matrix.values, without->matrix.values, 3 * sizeof *d->matrix.values);
}

/* ---- what is malformed ---- */

TEST(malformed_times) {
  const char *path = write_text("user,item,time\n1,1,30\n1,2,\n1,3,nan\n2,3,40\n");
  REFUSE_AS(path, "line 3, column 3 (time): '' is not a time, a number", .time = "time");
  REFUSE_AS(path,
            "line 4, column 3 (time): 'nan' is not a time, a number (time = \"\" reads no times); "
            "with it "
            "there are 2",
            .time = "time", .skip_errors = 1, .max_errors = 1);
  fopo_dataset *d = READ_AS(path, .time = "time", .skip_errors = 1, .max_errors = 9);
  assert_int_equal(d->skipped, 2);
  assert_times(d, 30, 40);
  REFUSE_AS(write_text("user,item,time\n1,1,2016-05-09\n1,2,30\n"),
            "line 3, column 3 (time): '30' is not a date such as", .time = "time");
  REFUSE_AS(path, "time = \"when\": ", .time = "when");
  REFUSE_AS("tests/fixtures/kgat.txt", "options of pairs", .format = "lists", .time = "2");
  fopo_dataset_free(READ_AS("tests/fixtures/kgat.txt", .time = ""));
}

/* Nobody asked for a recognised column: the rows are kept, and the dataset says why. */
TEST(recognised_times_are_given_up) {
  FREED(free) made *f = malloc(sizeof *f);
  int before = fopo_threads();
  for (int i = 0; i < 4; i++) {
    make_file(f, i & 1, i & 2, 0, 207);
    spit(in_folder("case.csv"), f->text, f->n);
    fopo_threads_set(1 + i);
    fopo_chunks_size(i == 0 ? 0 : 100);
    FREED(fopo_dataset_free) fopo_dataset *d = READ(in_folder("case.csv"));
    assert_int_equal(d->rows_read, ROWS);
    assert_int_equal(d->skipped, 0);
    assert_null(d->times.first);
    if (strstr(d->no_times, "line 209, column 2 (time): 'soon' is not a") == NULL) {
      fail_msg("%s", d->no_times);
    }
  }
  fopo_chunks_size(0);
  fopo_threads_set(before);
}

/* ---- the cache ---- */

TEST(cache_keeps_times) {
  FREED(free) made *f = malloc(sizeof *f);
  make_file(f, 0, 0, 0, SIZE_MAX);
  spit(in_folder("case.csv"), f->text, f->n);
  FREED(fopo_dataset_free) fopo_dataset *d = READ(in_folder("case.csv"));
  ok(fopo_dataset_save(d, in_folder("times.npz")));
  fopo_dataset_free(d), d = READ(in_folder("times.npz"));
  assert_as_made(d, f);
  fopo_dataset_free(d), d = READ_AS(in_folder("times.npz"), .time = "");
  assert_null(d->times.first);
  assert_null(d->times.last);
}

/* A CSR file of three entries with these times. */
static const char *write_timed(const double *times, size_t n, const double *last, int sorted) {
  static const int64_t shape[2] = {2, 3}, start[3] = {0, 1, 3};
  static const int32_t ids[3] = {1, 0, 2}, unsorted[3] = {1, 2, 0};
  fopo_array a[6] = {fopo_array_of("shape", FOPO_I64, shape, 1, 2, 1),
                     fopo_array_of("indptr", FOPO_I64, start, 1, 3, 1),
                     fopo_array_of("indices", FOPO_I32, sorted ? ids : unsorted, 1, 3, 1),
                     fopo_array_text("format", "csr"),
                     fopo_array_of("times", FOPO_F64, times, 1, n, 1),
                     fopo_array_of("last_times", FOPO_F64, last, 1, 3, 1)};
  const char *path = in_folder("bad.npz");
  ok(fopo_npz_save(path, a, last != NULL ? 6 : 5, 0));
  return path;
}

TEST(times_of_other_files) {
  double t[3] = {5, 7, 6}, last[3] = {5, 9, 6}, early[3] = {5, 9, 5}, bad[3] = {5, (double)NAN, 6};
  assert_times(READ_AS(write_timed(t, 3, NULL, 1), .value = ""), 5, 7);
  assert_times(READ_AS(write_timed(t, 3, NULL, 0), .value = ""), 5, 6);
  fopo_dataset *d = READ_AS(write_timed(t, 3, last, 1), .value = "");
  assert_true(d->times.last[1] == 9);
  fopo_dataset_free(d);
  REFUSE_AS(write_timed(t, 2, NULL, 1), "2 times for 3 entries", .value = "");
  REFUSE_AS(write_timed(bad, 3, NULL, 1), "element 2 of 'times' is nan", .value = "");
  REFUSE_AS(write_timed(bad, 3, NULL, 0), "element 2 of 'times' is nan", .value = "");
  REFUSE_AS(write_timed(t, 3, early, 1), "element 3 of 'last_times' is earlier", .value = "");
}

TEST(memory_faults) {
  const char *text = "user,item,time\n1,1,30\n1,2,40\n1,1,20\n2,1,5\n";
  size_t blocks = fopo_memory_in_use().blocks;
  for (int cached = 0; cached < 2; cached++) {
    const char *path = cached ? in_folder("f.npz") : write_text(text);
    for (long after = 0, status = -1; status != FOPO_OK; after++) {
      fopo_dataset *d;
      fopo_memory_fail_after(after, 0);
      status = fopo_dataset_read(&d, path, NULL);
      if (status == FOPO_OK && !cached) status = fopo_dataset_save(d, in_folder("f.npz"));
      fopo_memory_fail_after(-1, 0);
      fopo_dataset_free(d);
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
      assert_true(after < 300);
    }
  }
}

int main(void) { return run_all(make_folder, remove_folder); }
