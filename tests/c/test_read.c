/* Readers: a small file for each quirk, published counts of real files, the cache, and scipy. */
#include <zlib.h>

#include "core/clock.h"
#include "core/npy.h"
#include "core/npz.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/threads.h"
#include "data/read/table.h"
#include "datasets.h"
#include "folder.h"
#include "real_data.h"
#include "sound.h"

FREED_BY(fopo_dataset_free, fopo_dataset)

/* Reads with options that are given as fields: READ_AS(path, .user = "2"). */
static fopo_dataset *must_read(const char *path, const fopo_read_options *options) {
  fopo_dataset *d;
  if (fopo_dataset_read(&d, path, options) != FOPO_OK) fail_msg("%s", fopo_error_sentence());
  const fopo_csr *m = &d->matrix;
  assert_true(is_sound(m, fopo_csr_nnz(m)));
  assert_int_equal(d->users.n, m->rows);
  assert_int_equal(d->items.n, m->cols);
  return d;
}
#define READ(path)         must_read(path, NULL)
#define READ_AS(path, ...) must_read(path, &(fopo_read_options){__VA_ARGS__})

#define REFUSE(path, code, part) must_refuse(path, code, part, NULL)
#define REFUSE_AS(path, code, part, ...)                                                           \
  must_refuse(path, code, part, &(fopo_read_options){__VA_ARGS__})

/* The value at (user, item), by their names; -1000 if there is none. */
static double at(const fopo_dataset *d, const char *user, const char *item) {
  int64_t u = fopo_names_find(&d->users, user), i = fopo_names_find(&d->items, item);
  if (u < 0 || i < 0) return -1000;
  for (uint64_t e = d->matrix.indptr[u]; e < d->matrix.indptr[u + 1]; e++) {
    if (d->matrix.ids[e] == (uint32_t)i) {
      return d->matrix.values != NULL ? (double)d->matrix.values[e] : 1;
    }
  }
  return -1000;
}

static int shaped(const fopo_dataset *d, const char *format, size_t users, size_t items,
                  size_t nnz) {
  int fits = strcmp(d->format, format) == 0 && d->matrix.rows == users && d->matrix.cols == items &&
             fopo_csr_nnz(&d->matrix) == nnz;
  if (!fits) {
    fprintf(stderr, "%s of %zu users, %zu items, %zu entries\n", d->format, d->matrix.rows,
            d->matrix.cols, fopo_csr_nnz(&d->matrix));
  }
  return fits;
}

#define FIXTURE(name) "tests/fixtures/" name

/* ---- forms of real files ---- */

TEST(pairs_with_header) {
  FREED(fopo_dataset_free) fopo_dataset *d = READ(FIXTURE("hetrec.dat"));
  assert_true(shaped(d, "pairs", 2, 2, 3) && at(d, "2", "52") == 11690);
  fopo_dataset_free(d), d = READ(FIXTURE("caserec.dat"));
  assert_true(shaped(d, "pairs", 2, 1, 2) && at(d, "3", "6264") == 0.5);
  fopo_dataset_free(d), d = READ(FIXTURE("retailrocket.csv"));
  assert_true(shaped(d, "pairs", 2, 3, 3) && at(d, "257597", "356475") == 1);
  assert_null(d->matrix.values);
  fopo_dataset_free(d), d = READ_AS(FIXTURE("retailrocket.csv"), .where = "event = view");
  assert_true(shaped(d, "pairs", 2, 2, 2) && d->skipped == 1 && d->rows_read == 2);
}

TEST(quoted_latin1) {
  FREED(fopo_dataset_free) fopo_dataset *d = READ(FIXTURE("bookcrossing.csv"));
  assert_true(shaped(d, "pairs", 2, 3, 3) && at(d, "11676", "0155061224") == 5);
  assert_true(at(d, "20", "Un \xe9t\xe9; \"po\xe8mes\"") == 10);
  assert_true(at(d, "11676", "034545104X") == 0);
}

TEST(pairs_without_header) {
  FREED(fopo_dataset_free) fopo_dataset *d = READ(FIXTURE("u.data"));
  assert_true(shaped(d, "pairs", 2, 2, 3) && at(d, "5", "902") == 1 && at(d, "31", "7") == 3);
  assert_int_equal(d->users.numbers[0], 5); /* ascending */
  fopo_dataset_free(d), d = READ(FIXTURE("ratings_ml1m.dat"));
  assert_true(shaped(d, "pairs", 2, 2, 3) && at(d, "4", "1193") == 4);
  fopo_dataset_free(d), d = READ(FIXTURE("sasrec.txt"));
  assert_true(shaped(d, "pairs", 2, 4, 5) && at(d, "2", "9") == 1);
  fopo_dataset_free(d);
  REFUSE(FIXTURE("yoochoose.dat"), FOPO_ERR_FORMAT, "second column holds times");
  d = READ_AS(FIXTURE("yoochoose.dat"), .item = "3");
  assert_true(shaped(d, "pairs", 2, 3, 3) && d->matrix.values == NULL);
}

TEST(missing_ids) {
  REFUSE(FIXTURE("diginetica.csv"), FOPO_ERR_FORMAT,
         "diginetica.csv, line 2, column 2 (user_id): 'NA' is not an id: it is missing");
  FREED(fopo_dataset_free)
  fopo_dataset *d = READ_AS(FIXTURE("diginetica.csv"), .user = "Session-ID");
  assert_true(shaped(d, "pairs", 2, 3, 3) && at(d, "10", "32118") == 1);
  fopo_dataset_free(d), d = READ_AS(FIXTURE("diginetica.csv"), .where = "user_id != NA");
  assert_true(shaped(d, "pairs", 1, 1, 1) && d->skipped == 2);
}

TEST(goodreads) {
  fopo_dataset *d = READ(FIXTURE("goodreads.csv"));
  assert_true(shaped(d, "goodreads", 3, 2, 4) && d->skipped == 2 && d->matrix.values == NULL);
  assert_true(at(d, "0", "14") == 1 && at(d, "0", "13") == -1000);
  fopo_dataset_free(d);
  d = READ_AS(FIXTURE("goodreads.csv"), .value = "rating", .where = "rating>=4");
  assert_true(shaped(d, "goodreads", 2, 2, 2) && at(d, "2", "14") == 4 && d->skipped == 4);
  fopo_dataset_free(d), d = READ(FIXTURE("goodreads_index.csv"));
  assert_true(shaped(d, "goodreads", 2, 1, 2) && at(d, "9", "423") == 1);
  fopo_dataset_free(d), d = READ_AS(FIXTURE("goodreads.csv"), .format = "pairs");
  assert_true(shaped(d, "pairs", 3, 4, 6) && at(d, "0", "12") == 5);
  fopo_dataset_free(d);
  REFUSE_AS(FIXTURE("hetrec.dat"), FOPO_ERR_FORMAT, "is_read is missing", .format = "goodreads");
}

TEST(lists) {
  fopo_dataset *d = READ(FIXTURE("kgat.txt"));
  assert_true(shaped(d, "lists", 4, 12, 14) && d->repeats == 1 && d->rows_read == 15);
  assert_true(d->users_seen == 3 && at(d, "0", "3") == 2 && at(d, "1", "9") == 1);
  fopo_dataset_free(d), d = READ(FIXTURE("citeulike.dat"));
  assert_true(shaped(d, "counted", 4, 8, 6) && at(d, "2", "7") == 1 && d->users_seen == 3);
  fopo_dataset_free(d);
  REFUSE(FIXTURE("fimi.dat"), FOPO_ERR_FORMAT, "line 3, column 1: '0' is a user that had a line");
  d = READ_AS(FIXTURE("fimi.dat"), .format = "baskets");
  assert_true(shaped(d, "baskets", 3, 6, 9) && at(d, "2", "5") == 1);
  fopo_dataset_free(d);
  REFUSE_AS(write_text("0 5 6 7\n1 2 x\n2 3\n"), FOPO_ERR_FORMAT, "line 2, column 3: 'x'",
            .format = "lists");
  REFUSE_AS(write_text("0 5 6\nx 2\n"), FOPO_ERR_FORMAT, "line 2, column 1: 'x'",
            .format = "lists");
  REFUSE_AS(write_text("0 5 6 4294967295\n"), FOPO_ERR_FORMAT, "largest id", .format = "lists");
  REFUSE_AS(write_text("0 5 6 4294967294\n"), FOPO_ERR_FORMAT, "far apart", .format = "lists");
  REFUSE_AS(write_text("0 5 6 -1\n"), FOPO_ERR_FORMAT, "column 4: '-1'", .format = "lists");
  REFUSE_AS(write_text("3 1 2\n1 1\n1 4\n"), FOPO_ERR_FORMAT, "says 3 items and holds 2",
            .format = "counted");
  REFUSE_AS(FIXTURE("kgat.txt"), FOPO_ERR_ARGUMENT, "options of pairs", .format = "lists",
            .user = "2");
  REFUSE_AS(write_text("1 2\n1 3\n"), FOPO_ERR_FORMAT, "line 2, column 1: '1' is a user that",
            .format = "lists");
  /* A tenth of the lines must be of another length, and at most half aligned. */
  d = READ(write_text("1 2 3\n2 2 3\n3 2 3\n4 2 3\n5 2 3\n6 2 3\n7 2 3\n8 2 3\n9 2 3\n"
                      "10 2 3 4 5\n"));
  assert_true(shaped(d, "lists", 11, 6, 22));
  fopo_dataset_free(d), d = READ(write_text("1  2\n2  3\n3 2 3\n4 5\n"));
  assert_true(shaped(d, "lists", 5, 6, 5));
  fopo_dataset_free(d);
}

/* Every row has a name of its own, a sentence of help and one way to read. */
TEST(table_of_readers) {
  size_t n = 0;
  const fopo_reader *r;
  for (; (r = fopo_reader_at(n)) != NULL; n++) {
    assert_true(r->name[0] != '\0' && strlen(r->name) < sizeof((fopo_dataset *)0)->format);
    assert_true(strcmp(r->name, "auto") != 0 && strlen(r->what) > 10 && strlen(r->what) < 75);
    assert_true((r->read == NULL) != (r->read_file == NULL));
    assert_true(r->magic == NULL || r->sniff == NULL);
    for (size_t i = 0; i < n; i++) assert_string_not_equal(r->name, fopo_reader_at(i)->name);
    REFUSE_AS(in_folder("absent"), FOPO_ERR_FILE, "absent", .format = r->name);
    /* Without columns, options on them are refused; with them they are not. */
    const char *path = write_text("1,2,3\n1,3,4\n");
    FREED(fopo_dataset_free) fopo_dataset *d = NULL;
    fopo_read_options o = {.format = r->name, .user = "1", .item = "2"};
    int status = fopo_dataset_read(&d, path, &o);
    assert_int_equal(status == FOPO_ERR_ARGUMENT, !r->has_columns);
    if (status != FOPO_OK) continue;
    assert_string_equal(d->format, r->name);
  }
  assert_true(n >= 9);
  assert_null(fopo_reader_at(n + 1));
  /* The sentence for an unknown name lists all of them. */
  for (size_t i = 0; i < n; i++) {
    REFUSE_AS(in_folder("absent"), FOPO_ERR_ARGUMENT, fopo_reader_at(i)->name, .format = "books");
  }
}

/* Lines of more than a block, in one piece. */
TEST(long_line) {
  size_t items = 500000, n = 0;
  FREED(free) char *text = malloc(8 * items + 64);
  n += (size_t)sprintf(text + n, "0 1\n1");
  for (size_t i = 0; i < items; i++) n += (size_t)sprintf(text + n, " %zu", i);
  n += (size_t)sprintf(text + n, "\n2 7 8 9\n");
  FREED(fopo_dataset_free) fopo_dataset *d = READ(write_bytes("long.txt", text, n));
  assert_true(shaped(d, "lists", 3, items, items + 4));
}

TEST(ids_of_many_kinds) {
  FREED(fopo_dataset_free) fopo_dataset *d = READ(FIXTURE("mixed_ids.csv"));
  assert_true(shaped(d, "pairs", 2, 2, 3) && at(d, "10", "0104257") == 3.5 &&
              at(d, "10", "104257") == 4 && at(d, "11", "0104257") == (double)-0.1f);
  assert_non_null(d->users.numbers);
  assert_string_equal(d->items.text, "0104257");
  fopo_dataset_free(d);
  /* Numbers of every size, both signs, unsorted. */
  d = READ(write_text("user,item\n5,999999999999999999\n-7,33842865744\n5,0\n4294967296,-1\n"));
  assert_true(shaped(d, "pairs", 3, 4, 4));
  assert_true(d->users.numbers[0] == -7 && d->users.numbers[2] == 4294967296);
  assert_true(d->items.numbers[0] == -1 && d->items.numbers[3] == 999999999999999999);
  assert_true(at(d, "5", "0") == 1 && at(d, "-7", "33842865744") == 1);
  fopo_dataset_free(d);
  /* Numbers become text where one id is none; what was counted before keeps its index. */
  d = READ(write_text("user,item\n1,10\n1,20\n2,10\n2,x\n3,1.0\n3,9223372036854775808\n3,20\n"));
  assert_true(shaped(d, "pairs", 3, 5, 7));
  static const char *const names[] = {"10", "20", "x", "1.0", "9223372036854775808"};
  char name[32];
  for (size_t i = 0; i < 5; i++) {
    assert_string_equal(fopo_names_get(&d->items, i, name, sizeof name), names[i]);
  }
  assert_true(at(d, "3", "20") == 1 && at(d, "2", "10") == 1);
  fopo_dataset_free(d);
  d = READ(write_text("user,item\n0,1\n1,0\n")); /* ids that are their own index */
  assert_true(d->users.numbers == NULL && d->users.text == NULL && at(d, "1", "0") == 1);
}

/* So many ids that all tables grow; the result is known by arithmetic. */
TEST(many_ids) {
  enum { N = 60000 };
  for (int text = 0; text < 2; text++) {
    DONE(fopo_ids_done) fopo_ids ids = {0};
    DONE(fopo_names_done) fopo_names names;
    uint32_t index = 0, *place;
    for (int pass = 0; pass < 2; pass++) {
      for (uint64_t i = 0; i < N; i++) {
        char name[32];
        int64_t number = (int64_t)(i % 3 == 0 ? N - i : i * 0x9e3779b97f4a7c15u >> (i % 40));
        number = number == 0 ? 7 : number;
        int n = snprintf(name, sizeof name, "%s%lld", text ? "n" : "", (long long)number);
        int64_t plain;
        int status = fopo_parse_plain(&plain, name, (size_t)n)
                         ? fopo_ids_number(&ids, &index, plain)
                         : fopo_ids_add(&ids, &index, name, (size_t)n);
        assert_int_equal(status, FOPO_OK);
        if (ids.is_text) {
          assert_string_equal(ids.text + ids.offsets[index], name);
        } else {
          assert_int_equal(ids.numbers[index], number);
        }
      }
    }
    size_t n = ids.n;
    ok(fopo_ids_finish(&names, &place, &ids));
    assert_int_equal(names.n, n);
    for (size_t i = 1; i < n && names.numbers != NULL; i++) {
      assert_true(names.numbers[i - 1] < names.numbers[i]);
    }
    fopo_free(place);
  }
}

/* Small numbers among large ones: no table up to the small ones for their sake. */
TEST(few_small_ids) {
  DONE(fopo_ids_done) fopo_ids ids = {0};
  uint32_t index;
  for (int64_t i = 0; i < 200000; i++) {
    ok(fopo_ids_number(&ids, &index, i % 1000 == 999 ? 7 * i : 1000000000 + 7919 * i));
    assert_int_equal(index, i);
  }
  assert_true(ids.direct_n <= 1 << 17);
  ok(fopo_ids_number(&ids, &index, 7 * 199999));
  assert_int_equal(index, 199999);
}

/* Integers of every length, and texts that begin like them, are read back unchanged. */
TEST(numbers_of_every_length) {
  static const char digits[] = "9081726354091827364";
  char text[4096], id[32];
  size_t n = (size_t)sprintf(text, "user,item,rating\n");
  for (int length = 1; length <= 19; length++) {
    for (int sign = 0; sign < 2; sign++) {
      n += (size_t)sprintf(text + n, "%s%.*s,%d,%d.%d\n", sign ? "-" : "", length, digits, length,
                           length, sign);
    }
  }
  write_bytes("case.txt", text, n);
  for (int texts = 0; texts < 2; texts++) { /* an id of 19 digits makes all ids texts */
    if (!texts) n -= strlen("9081726354091827364,19,19.0\n-9081726354091827364,19,19.1\n");
    fopo_dataset *d = READ(write_bytes("case.txt", text, n));
    assert_true((d->users.text != NULL) == (texts == 1));
    for (int length = 1; length <= 18 + texts; length++) {
      for (int sign = 0; sign < 2; sign++) {
        char item[8];
        snprintf(id, sizeof id, "%s%.*s", sign ? "-" : "", length, digits);
        snprintf(item, sizeof item, "%d", length);
        assert_true(at(d, id, item) == (double)((float)length + (sign ? 0.1f : 0.0f)));
      }
    }
    fopo_dataset_free(d);
    n = strlen(text);
  }
  /* Integers at the limits of 32 bits, and of the words of the bit set. */
  FREED(fopo_dataset_free)
  fopo_dataset *d =
      READ(write_text("user,item\n4294967295,31\n0,32\n31,63\n32,64\n4294967295,0\n"));
  assert_true(shaped(d, "pairs", 4, 5, 5) && at(d, "4294967295", "0") == 1);
  assert_true(at(d, "31", "63") == 1 && d->users.numbers[3] == 4294967295);
  fopo_dataset_free(d), d = READ(write_text("user,item\n4294967296,31\n5,32\n"));
  assert_true(shaped(d, "pairs", 2, 2, 2) && at(d, "4294967296", "31") == 1);
}

/* ---- many rows at once ---- */

/* Any size of chunks and number of threads gives the same result, or the same sentence. */
TEST(chunks_change_nothing) {
  static const int threads[] = {1, 2, 3, 7};
  static const size_t sizes[] = {40, 150, 700, 4000};
  int before = fopo_threads();
  char *text = malloc(1 << 16), sentence[1024];
  for (int kinds = 0; kinds < KINDS; kinds += 13) { /* prime: all pairs of features occur */
    const fopo_read_options options = {.user = "1",
                                       .item = "3",
                                       .value = "4",
                                       .header = kinds & HAS_COLONS ? -1 : 1,
                                       .where = kinds % 3 == 2 ? "4!=0.5" : NULL,
                                       .skip_errors = kinds % 5 == 4,
                                       .max_errors = 9};
    const char *path = write_bytes("case.txt", text, many_rows(text, kinds));
    fopo_dataset *whole, *d;
    fopo_threads_set(1);
    fopo_chunks_size(0);
    int status = fopo_dataset_read(&whole, path, &options);
    snprintf(sentence, sizeof sentence, "%s", status == FOPO_OK ? "" : fopo_error_sentence());
    if ((status != FOPO_OK) != (kinds & HAS_BAD && !options.skip_errors && options.where == NULL) &&
        options.where == NULL) {
      fail_msg("kinds %d: %s", kinds, sentence);
    }
    for (size_t i = 0; i < 4; i++) {
      fopo_threads_set(threads[i]);
      fopo_chunks_size(sizes[(i + (size_t)kinds) % 4]);
      if (fopo_dataset_read(&d, path, &options) != status ||
          (status != FOPO_OK && strcmp(fopo_error_sentence(), sentence) != 0)) {
        fail_msg("kinds %d: '%s', not '%s'", kinds, fopo_error_sentence(), sentence);
      }
      if (status == FOPO_OK && !same_dataset(whole, d)) fail_msg("kinds %d differ", kinds);
      fopo_dataset_free(d);
    }
    fopo_dataset_free(whole);
  }
  /* The line is counted over chunks, blank lines and quotes. */
  size_t n = many_rows(text, HAS_BLANKS | HAS_QUOTES | HAS_BAD);
  size_t line = 1;
  for (const char *p = text; p < strstr(text, "bad"); p++) line += *p == '\n';
  snprintf(sentence, sizeof sentence, "line %zu, column 4 (rating): 'bad' is not a number", line);
  fopo_chunks_size(100);
  REFUSE(write_bytes("case.txt", text, n), FOPO_ERR_FORMAT, sentence);
  fopo_chunks_size(0);
  fopo_threads_set(before);
  free(text);
}

/* More text than one read, by one thread and by three; the result is known by arithmetic. */
TEST(many_blocks) {
  enum { ROWS = 1200000, USERS = 5000, ITEMS = 700 };
  FREED(free) char *text = malloc(16 * ROWS);
  size_t n = 0;
  for (size_t i = 0; i < ROWS; i++) {
    n += (size_t)sprintf(text + n, "%zu,%zu\n", 3 * (i * 7919 % USERS), i % ITEMS);
  }
  const char *path = write_bytes("case.csv", text, n);
  int before = fopo_threads();
  fopo_threads_set(1);
  FREED(fopo_dataset_free) fopo_dataset *one = READ(path);
  fopo_threads_set(3);
  FREED(fopo_dataset_free) fopo_dataset *three = READ(path);
  assert_true(same_dataset(one, three) && one->rows_read == ROWS);
  assert_true(shaped(one, "pairs", USERS, ITEMS, 35000) && one->repeats == ROWS - 35000);
  for (size_t e = 0; e < 35000; e++) { /* the pair of i comes again after lcm(USERS, ITEMS) */
    assert_true(one->matrix.values[e] == 34 || one->matrix.values[e] == 35);
  }
  memcpy(text + n - 3, "x\n", 2);
  char place[32];
  snprintf(place, sizeof place, "line %d: ", ROWS);
  text[n - 4] = ';';
  for (size_t at = n - 5; text[at] != '\n'; at--) {
    if (text[at] == ',') text[at] = ';';
  }
  REFUSE(write_bytes("case.csv", text, n - 1), FOPO_ERR_FORMAT, place);
  fopo_threads_set(before);
}

/* ---- quirks of text ---- */

TEST(line_ends_and_marks) {
  static const char *const same[] = {
      "userId,movieId,rating\n1,5,4\n2,5,3.5\n",
      "userId,movieId,rating\r\n1,5,4\r\n2,5,3.5",
      "userId,movieId,rating\r1,5,4\r2,5,3.5\r",
      "\xef\xbb\xbfuserId,movieId,rating\n1,5,4\n2,5,3.5\n",
      "\n\nuserId,movieId,rating\n\n1,5,4\n\r\n2,5,3.5\n\n",
      "# a comment\nuserId,movieId,rating\n1,5,4\n2,5,3.5\n",
      "USER_ID, Movie Id ,\"Rating\"\n 1 , 5 ,4\n2,\"5\",\"3.5\"\n",
      "1,5,4\n2,5,3.5\n",
      "1 5 4\n2 5 3.5",
      "  1   5  4 \r\n2 5 3.5 \r\n",
      "1::5::4\n2::5::3.5\n",
      "1\t5\t4\n2\t5\t3.5\n",
      "1|5|4\n2|5|3.5\n",
      "1:5:4\n2:5:3.5\n",
      "1;5;4\n2;5;3.5\n",
      ",user-id,item-id,rating,tags\n0,1,5,4.0,\"a,b\"\n1,2,5,+3.50e0,\"two\nlines, \"\"x\"\"\"\n"};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    FREED(fopo_dataset_free) fopo_dataset *d = READ(write_text(same[i]));
    if (!shaped(d, "pairs", 2, 1, 2) || at(d, "1", "5") != 4 || at(d, "2", "5") != 3.5) {
      fail_msg("case %zu: %s", i, same[i]);
    }
  }
}

#define TWENTY "aaaaaaaaaaaaaaaaaaaa"
#define EIGHTY TWENTY TWENTY TWENTY TWENTY /* so much of a field is shown */

TEST(malformed_rows) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"user,item,rating\n1,2,3\n1,3\n",
       "case.txt, line 3: '1,3' has 2 fields where the first row has 3"},
      {"user,item,rating\n1,2,3\n1,3,4,5\n", "line 3: '1,3,4,5' has 4 fields"},
      {"user,item,rating\n1,2,abc\n", "line 2, column 3 (rating): 'abc' is not a number"},
      {"user,item,rating\n1,2,\n", "line 2, column 3 (rating): '' is empty where a value"},
      {"user,item,rating\n1,2,0x10\n", "'0x10' is not a number"},
      {"user,item,rating\n1,2,1e400\n", "'1e400' is not a finite"},
      {"user,item,rating\n1,2,1e39\n", "'1e39' is not a finite"},
      {"user,item,rating\n1,2,3\n1,3,NaN\n", "line 3, column 3 (rating): 'NaN' is not a finite"},
      {"user,item,rating\n1,2,-Infinity\n", "'-Infinity' is not a finite"},
      {"user,item,rating\n1,2,1 000\n", "'1 000' is not a number"},
      {"user,item\n1,\n", "line 2, column 2 (item): '' is not an id"},
      {"user,item\n,2\n", "line 2, column 1 (user): '' is not an id"},
      {"user,item\nNULL,2\n", "'NULL' is not an id"},
      {"user,item\n1,a\x01z\n", "'a\\x01z' holds a control character"},
      {"user,item\n1,\"a\n", "line 2: '1,\"a' has a quote that is not closed"},
      {"user,item\n1,\"a\"b\n", "line 2: '1,\"a\"b' has text behind a closing quote"},
      {"1 2\n3 4\n5 6\n7 8\n1 2\n3 4\n5 6\n7 8\n1 2\n3 4\n5 6\n7 8 9\n", "format = \"lists\""},
      {"user,item\n", "holds no interaction"},
      {"user,item", "holds no interaction"},
      {"user,name\n1,x\n", "no column is known as the item; it has 2 columns: user, name"},
      {"alpha,beta\n1,2\n",
       "no column is known as the user, and none as the item; it has 2 columns: alpha, beta; say "
       "which with user = \"...\", item = \"...\""},
      {"just words\nmore\n", "1"},
      {"one\ntwo\n", "line 1: 'one' holds one field"},
      {"{\"user\": 1, \"item\"\n", "JSON"},
      {"1:0.5:0.25 | a b c\n2:0:0.5 | a\n", "fopo.data.logs"},
      {"user,item\n1," EIGHTY "aa\x02\n", "'" EIGHTY "...' holds a control"},
      {"", "is empty"},
      {"\n\n", "is empty"},
      {"\xef\xbb\xbf", "is empty"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    REFUSE(write_text(cases[i].text), FOPO_ERR_FORMAT, cases[i].part);
  }
  REFUSE(write_bytes("case.txt", "user,item\n1,2\n1,\0\n", 18), FOPO_ERR_FORMAT,
         "line 3: there is a NUL");
  REFUSE(write_bytes("case.txt", "\xff\xfeu\0s\0", 6), FOPO_ERR_FORMAT, "is text in UTF-16");
  REFUSE(write_bytes("case.txt", "\xfe\xff\0u\0s", 6), FOPO_ERR_FORMAT, "is text in UTF-16");
  static const char *const half_marked[] = {"\xff,2\nb,4\n", "\xfe,2\nb,4\n", "a\xfe,2\nb,4\n"};
  for (int i = 0; i < 3; i++) {
    FREED(fopo_dataset_free) fopo_dataset *d = READ(write_text(half_marked[i]));
    assert_int_equal(fopo_csr_nnz(&d->matrix), 2);
  }
  REFUSE(in_folder("absent.csv"), FOPO_ERR_FILE, "absent.csv: No such file");
  REFUSE(folder, FOPO_ERR_FILE, "not a regular file");
}

TEST(bad_options) {
  const char *path = write_text("user,item,rating\n1,2,3\n4,5,6\n");
  REFUSE_AS(path, FOPO_ERR_ARGUMENT, "\"movies\" is none of auto", .format = "movies");
  REFUSE_AS(path, FOPO_ERR_ARGUMENT, "it has 3 columns: user, item, rating", .user = "usr");
  REFUSE_AS(path, FOPO_ERR_ARGUMENT, "item = \"4\"", .item = "4");
  REFUSE_AS(path, FOPO_ERR_ARGUMENT, "value = \"stars\"", .value = "stars");
  REFUSE_AS(path, FOPO_ERR_ARGUMENT, "where = \"rating\"", .where = "rating");
  REFUSE_AS(path, FOPO_ERR_ARGUMENT, "order is defined between numbers", .where = "rating>x");
  REFUSE_AS(path, FOPO_ERR_ARGUMENT, "no such column", .where = "stars>=4");
  REFUSE_AS(path, FOPO_ERR_FORMAT, "every row was left out", .where = "rating>7");
  REFUSE_AS(path, FOPO_ERR_FORMAT, "form of GoodReads", .format = "goodreads");
}

TEST(where_and_columns) {
  static const struct {
    const char *where;
    size_t rows;
  } cases[] = {{"rating=3", 1},  {"rating==3", 1},  {"rating!=3", 3},   {"rating<3", 1},
               {"rating<=3", 2}, {"rating>3", 2},   {"rating >= 3", 3}, {"3>=3", 3},
               {"kind=view", 2}, {"kind!=view", 2}, {"user=1", 2}};
  static const char text[] = "user,item,rating,kind\n1,2,3,view\n1,4,2.5,buy\n5,2,4,view\n6,7,9,\n";
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    FREED(fopo_dataset_free) fopo_dataset *d = READ_AS(write_text(text), .where = cases[i].where);
    assert_int_equal(d->rows_read, cases[i].rows);
    assert_int_equal(d->skipped, 4 - cases[i].rows);
  }
  REFUSE_AS(write_text(text), FOPO_ERR_FORMAT, "line 2, column 4 (kind): 'view' is not a number",
            .where = "kind>2");
  FREED(fopo_dataset_free)
  fopo_dataset *d =
      READ_AS(write_text(text), .user = "Kind", .item = "1", .value = "", .where = "kind!=");
  fopo_dataset_free(d), d = READ_AS(write_text(text), .user = "2", .item = "1");
  assert_true(shaped(d, "pairs", 3, 3, 4) && at(d, "7", "6") == 9);
  fopo_dataset_free(d);
  d = READ_AS(write_text("1,2,3\n4,5, 6 \n"), .header = 1, .user = "1", .item = "2", .value = "3");
  assert_true(shaped(d, "pairs", 1, 1, 1) && at(d, "4", "5") == 6);
  fopo_dataset_free(d), d = READ_AS(write_text("user,item\nann,bob\n"), .header = -1);
  assert_true(shaped(d, "pairs", 2, 2, 2) && at(d, "user", "item") == 1);
  fopo_dataset_free(d), d = READ_AS(write_text("a;b,1\nc;d,2\n"), .separator = ',');
  assert_true(shaped(d, "pairs", 2, 2, 2) && at(d, "c;d", "2") == 1);
}

TEST(skipped_errors) {
  const char *path = write_text("user,item,rating\n1,2,3\n1,x\n1,3,y\n,4,5\n2,2,\"5\n2,2,5\n");
  for (size_t chunk = 0; chunk <= 16; chunk += 16) { /* 16: threads try the rows before */
    fopo_chunks_size(chunk);
    fopo_dataset *d = READ_AS(path, .skip_errors = 1, .max_errors = 4);
    assert_true(shaped(d, "pairs", 2, 1, 2) && d->skipped == 4 && d->rows_read == 2);
    assert_true(fopo_names_find(&d->items, "3") < 0); /* a rejected row adds no name */
    assert_true(d->malformed == 4 && strstr(d->examples[0], "line 3: '1,x' has 2 fields") != NULL &&
                strstr(d->examples[2], "line 5") != NULL); /* the first three */
    fopo_dataset_free(d);
  }
  fopo_chunks_size(0);
  REFUSE_AS(path, FOPO_ERR_FORMAT, "line 6: '2,2,\"5' has a quote", .skip_errors = 1,
            .max_errors = 3);
  says("there are 4 malformed rows, max_errors is 3");
  REFUSE_AS(path, FOPO_ERR_FORMAT, "line 3", .skip_errors = 1);
}

TEST(repeats_are_summed) {
  fopo_dataset *d = READ(write_text("user,item\n1,2\n1,2\n3,2\n1,2\n"));
  assert_true(shaped(d, "pairs", 2, 1, 2) && d->repeats == 2 && d->rows_read == 4);
  assert_true(at(d, "1", "2") == 3 && at(d, "3", "2") == 1);
  fopo_dataset_free(d), d = READ(write_text("user,item,weight\n1,2,0.5\n1,2,-2\n"));
  assert_true(at(d, "1", "2") == -1.5);
  fopo_dataset_free(d);
  REFUSE(write_text("user,item,weight\n1,2,3e38\n1,2,3e38\n"), FOPO_ERR_NUMERIC, "is inf");
}

/* ---- gzip ---- */

static size_t gzip(unsigned char *out, size_t size, const char *text) {
  z_stream z = {0};
  assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = (unsigned char *)text;
  z.avail_in = (unsigned)strlen(text);
  z.next_out = out;
  z.avail_out = (unsigned)size;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  size_t n = size - z.avail_out;
  deflateEnd(&z);
  return n;
}

TEST(gzipped) {
  unsigned char bytes[4096];
  size_t first = gzip(bytes, sizeof bytes, "user,item,rating\n1,5,4\n2,");
  size_t n = first + gzip(bytes + first, sizeof bytes - first, "5,3.5\n"); /* two members */
  memset(bytes + n, 0, 100);
  for (size_t padding = 0; padding <= 100; padding += 50) {
    FREED(fopo_dataset_free) fopo_dataset *d = READ(write_bytes("case.csv.gz", bytes, n + padding));
    assert_true(shaped(d, "pairs", 2, 1, 2) && at(d, "2", "5") == 3.5);
  }
  for (size_t cut = 2; cut < n;
       cut++) { /* a cut at `first` leaves one whole member with a short last row */
    REFUSE(write_bytes("case.csv.gz", bytes, cut), FOPO_ERR_FORMAT,
           cut == first ? "has 2 fields" : "case.csv.gz: the gzip data is damaged");
  }
  for (size_t i = 12; i < n; i++) {
    fopo_dataset *d;
    bytes[i] ^= 0x10;
    int status = fopo_dataset_read(&d, write_bytes("case.csv.gz", bytes, n), NULL);
    if (status ==
        FOPO_OK) { /* only bytes without meaning differ: date and system of the second member */
      assert_true(at(d, "1", "5") == 4 && at(d, "2", "5") == 3.5);
      fopo_dataset_free(d);
    }
    bytes[i] ^= 0x10;
  }
}

/* Quotes that begin in the second block, line ends inside them, also across the border of blocks.
 */
TEST(quotes_far_down) {
  enum { ROWS = 90000, QUOTED = 40000 };
  FREED(free) char *text = malloc(64 * ROWS);
  size_t n = (size_t)sprintf(text, "user,item,note\n");
  for (size_t i = 0; i < ROWS; i++) {
    n += (size_t)sprintf(text + n,
                         i < QUOTED ? "%zu,%zu,some words or so\n"
                                    : "%zu,\"%zu\",\"two\nlines, \"\"%zu\"\"\"\n",
                         i % 1000, i / 1000, i);
  }
  FREED(free) unsigned char *packed = malloc(n);
  size_t n_packed = gzip(packed, n, text);
  for (int pass = 0; pass < 2; pass++) {
    FREED(fopo_dataset_free)
    fopo_dataset *d = READ(pass == 0 ? write_bytes("case.csv", text, n)
                                     : write_bytes("case.csv.gz", packed, n_packed));
    assert_true(shaped(d, "pairs", 1000, 90, ROWS) && at(d, "999", "89") == 1);
  }
  char place[32];
  snprintf(place, sizeof place, "line %d: '1,2'", 1 + 2 * ROWS - QUOTED + 1);
  memcpy(text + n, "1,2\n", 5);
  REFUSE(write_bytes("case.csv", text, n + 4), FOPO_ERR_FORMAT, place);
}

/* ---- MatrixMarket ---- */

/* A type has both of its ends and nothing beyond. */
TEST(graphblas_types) {
  static const struct {
    const char *name;
    double least, most;
  } types[] = {{"bool", 0, 1},        {"int8_t", -128, 127},    {"int16_t", -32768, 32767},
               {"uint8_t", 0, 255},   {"uint16_t", 0, 65535},   {"int32_t", -0x1p31, 0x1p31 - 1},
               {"uint64_t", 0, 9e18}, {"int64_t", -9e18, 9e18}, {"uint32_t", 0, 0x1p32 - 1}};
  for (size_t i = 0; i < 4 * sizeof types / sizeof *types; i++) {
    char text[160];
    double end = i % 2 == 0 ? types[i / 4].least : types[i / 4].most;
    int beyond = i / 2 % 2 == 1;
    if (beyond) end += i % 2 == 0 ? -fmax(1, -end * 0.1) : fmax(1, end * 1.1);
    snprintf(text, sizeof text,
             "%%%%MatrixMarket matrix coordinate real general\n%%%%GraphBLAS type %s\n"
             "1 2 2\n1 1 %.0f\n1 2 1\n",
             types[i / 4].name, end);
    if (beyond) {
      REFUSE(write_text(text), FOPO_ERR_FORMAT, "is outside the GraphBLAS type");
    } else {
      fopo_dataset_free(READ(write_text(text)));
    }
  }
}

TEST(matrix_market) {
  fopo_dataset *d = READ(write_text("%%MatrixMarket MATRIX Coordinate Real General\n% words\n"
                                    "%%GraphBLAS type bool behind a comment is one\n\n"
                                    "2 3 3\n1 1 0.5\n\n2 3 -2e0\n2 1 1\n"));
  assert_true(shaped(d, "mtx", 2, 3, 3) && at(d, "1", "2") == -2 && at(d, "0", "0") == 0.5);
  fopo_dataset_free(d);
  d = READ(write_text("%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n"
                      "1 1 4\n2 1 5\n3 2 6"));
  assert_true(shaped(d, "mtx", 3, 3, 5) && at(d, "0", "1") == 5 && at(d, "1", "2") == 6);
  fopo_dataset_free(d);
  d = READ(write_text("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 1\n3 1 2.5\n"));
  assert_true(shaped(d, "mtx", 3, 3, 2) && at(d, "2", "0") == 2.5 && at(d, "0", "2") == -2.5);
  fopo_dataset_free(d);
  d = READ(write_text("%%MatrixMarket matrix array real general\n2 2\n1\n0\n3\n4\n"));
  assert_true(shaped(d, "mtx", 2, 2, 3) && at(d, "0", "1") == 3);
  fopo_dataset_free(d);
  d = READ(write_text("%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n"));
  assert_true(shaped(d, "mtx", 2, 2, 4) && at(d, "0", "1") == 2 && at(d, "1", "1") == 3);
  fopo_dataset_free(d);
  d = READ(write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n1 2\n"));
  assert_true(shaped(d, "mtx", 2, 2, 1) && d->repeats == 1 && at(d, "0", "1") == 2);
  fopo_dataset_free(d);
  d = READ_AS(write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 nan\n"),
              .value = "");
  assert_true(at(d, "0", "0") == 1);
  fopo_dataset_free(d);

  static const struct {
    const char *text, *part;
  } cases[] = {
      {"matrix coordinate pattern skew-symmetric\n1 1 1\n1 1\n", "a pattern cannot be"},
      {"matrix coordinate real general\n2 99999999999 1\n1 1 1\n", "rows or columns"},
      {"matrix coordinate double general\n2 2 1\n1 1 1e39\n", "'1e39' is not a finite"},
      {"matrix array real skew-symmetric\n0 0\n", "case.txt"},
      {"matrix array real general\n", "the size line needs rows and columns"},
      {"matrix coordinate real general\n2 2\n", "rows, columns and entries"},
      {"matrix coordinate complex general\n1 1 1\n1 1 1 0\n", "complex"},
      {"matrix coordinate real hermitian\n1 1 1\n1 1 1\n", "complex"},
      {"vector coordinate real general\n1 1 1\n1 1 1\n", "coordinate or array"},
      {"matrix array pattern general\n1 1\n", "array cannot be a pattern"},
      {"matrix coordinate real round\n1 1 1\n1 1 1\n", "storage"},
      {"matrix coordinate text general\n1 1 1\n1 1 1\n", "values"},
      {"matrix coordinate real general\n2 2 2\n1 1 1\n", "ends before all"},
      {"matrix coordinate real general\n2 2 1\n1 1 1\n2 2 2\n", "line 4: there are more entries"},
      {"matrix coordinate real general\n2 2 1\n3 1 1\n", "line 3, column 1: '3' is not a row"},
      {"matrix coordinate real general\n2 2 1\n1 0 1\n", "column 2: '0' is not a column"},
      {"matrix coordinate real general\n2 2 1\n1 1\n", "a row, a column and a value"},
      {"matrix coordinate pattern general\n2 2 1\n1 1 1\n", "a row and a column"},
      {"matrix coordinate integer general\n2 2 1\n1 1 1.5\n", "'1.5' is not an integer"},
      {"matrix coordinate real general\n2 2 1\n1 1 inf\n",
       "line 3, column 3: 'inf' is not a finite"},
      {"matrix coordinate real symmetric\n2 3 1\n1 1 1\n", "as many rows as columns"},
      {"matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n", "no diagonal"},
      {"matrix coordinate real general\n99999999999 2 1\n1 1 1\n", "rows or columns"},
      {"matrix coordinate real general\n2 -2 1\n1 1 1\n", "'-2' is not a number of"},
      {"matrix coordinate real general\n2 2\n1 1 1\n", "size line"},
      {"matrix coordinate real general\n%%GraphBLAS type uint8_t\n2 2 1\n1 1 256\n", "GraphBLAS"},
      {"matrix coordinate real general\n2 2 0\n", "no interaction"},
      {"matrix coordinate real general\n", "size line"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    snprintf(text, sizeof text, "%%%%MatrixMarket %s", cases[i].text);
    REFUSE(write_text(text), FOPO_ERR_FORMAT, cases[i].part);
  }
}

/* ---- .npz ---- */

/* [[1 0 2 0 0], [0 0 0 0 0], [0 0.5 0 0 4]], which oracle_npz.py knows too. */
static int is_the_matrix(const fopo_dataset *d) {
  return shaped(d, "npz", 3, 5, 4) && at(d, "0", "0") == 1 && at(d, "0", "2") == 2 &&
         at(d, "2", "1") == 0.5 && at(d, "2", "4") == 4;
}

TEST(scipy_by_hand) {
  static const char *const files[] = {FIXTURE("scipy_plain.npz"), FIXTURE("scipy_zip64.npz"),
                                      FIXTURE("scipy_zip64_sizes.npz")};
  for (size_t i = 0; i < 3; i++) {
    FREED(fopo_dataset_free) fopo_dataset *d = READ(files[i]);
    assert_true(is_the_matrix(d) && d->rows_read == 4);
  }
  fopo_dataset *d = READ_AS(files[0], .value = "");
  assert_true(d->matrix.values == NULL && fopo_csr_nnz(&d->matrix) == 4);
  fopo_dataset_free(d);
  REFUSE_AS(files[0], FOPO_ERR_ARGUMENT, "value = \"\"", .where = "data>1");
}

static fopo_dataset *the_matrix(void) {
  return READ(write_text("%%MatrixMarket matrix coordinate real general\n3 5 4\n"
                         "1 1 1\n1 3 2\n3 2 0.5\n3 5 4\n"));
}

TEST(scipy_agrees) {
  if (!have_numpy()) return;
  fopo_dataset *d = the_matrix();
  ok(fopo_dataset_save(d, in_folder("cache.npz")));
  fopo_free(d->matrix.values);
  d->matrix.values = NULL;
  ok(fopo_dataset_save(d, in_folder("cache_ones.npz")));
  fopo_dataset_free(d);
  assert_int_equal(oracle("sparse"), 0);

  static const char *const files[] = {
      "sparse_csr_0.npz",   "sparse_csr_1.npz",  "sparse_csc_0.npz",    "sparse_csc_1.npz",
      "sparse_coo_0.npz",   "sparse_coo_1.npz",  "sparse_unsorted.npz", "sparse_zip64_0.npz",
      "sparse_zip64_1.npz", "sparse_zip64_2.npz"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    d = READ(in_folder(files[i]));
    if (!is_the_matrix(d)) fail_msg("%s", files[i]);
    fopo_dataset_free(d);
  }
  d = READ(in_folder("sparse_bool.npz"));
  assert_true(d->matrix.values == NULL && at(d, "2", "4") == 1);
  fopo_dataset_free(d), d = READ(in_folder("sparse_int8.npz"));
  assert_true(shaped(d, "npz", 3, 5, 3) && at(d, "2", "4") == 4);
  fopo_dataset_free(d), d = READ(in_folder("sparse_repeats.npz"));
  assert_true(at(d, "0", "1") == 3 && d->repeats == 1 && d->rows_read == 3);
  fopo_dataset_free(d);
  REFUSE(in_folder("sparse_dia.npz"), FOPO_ERR_FORMAT, "tocsr()");
  REFUSE(in_folder("sparse_nan.npz"), FOPO_ERR_NUMERIC, "user 3, item 2 is nan");
}

TEST(cache_keeps_everything) {
  static const char *const files[] = {FIXTURE("mixed_ids.csv"), FIXTURE("bookcrossing.csv"),
                                      FIXTURE("goodreads.csv"), FIXTURE("kgat.txt")};
  for (size_t i = 0; i < 4; i++) {
    FREED(fopo_dataset_free) fopo_dataset *d = READ(files[i]);
    ok(fopo_dataset_save(d, in_folder("cache.npz")));
    FREED(fopo_dataset_free) fopo_dataset *again = READ(in_folder("cache.npz"));
    assert_true(same_dataset(d, again));
  }
}

/* A CSR file of the given members, to be refused. */
static const char *write_csr(const int64_t *shape, const int64_t *indptr, size_t n_indptr,
                             const int32_t *indices, size_t n, const char *form) {
  static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  fopo_array a[5] = {fopo_array_of("shape", FOPO_I64, shape, 1, 2, 1),
                     fopo_array_of("indptr", FOPO_I64, indptr, 1, n_indptr, 1),
                     fopo_array_of("indices", FOPO_I32, indices, 1, n, 1),
                     fopo_array_of("data", FOPO_F32, ones, 1, n, 1),
                     fopo_array_text("format", form)};
  const char *path = in_folder("bad.npz");
  ok(fopo_npz_save(path, a, 5, 0));
  return path;
}

TEST(bad_sparse_files) {
  int64_t shape[2] = {2, 3}, start[3] = {0, 1, 3}, far[3] = {0, 5, 3}, late[3] = {1, 1, 3};
  int32_t ids[3] = {1, 0, 2}, outside[3] = {1, 0, 3}, negative[3] = {1, 0, -1};
  fopo_dataset *d = READ(write_csr(shape, start, 3, ids, 3, "csr"));
  assert_true(fopo_csr_nnz(&d->matrix) == 3 && d->matrix.values == NULL);
  fopo_dataset_free(d);
  int32_t twice[3] = {1, 2, 2}; /* an entry that is there twice is summed, as SciPy does */
  d = READ(write_csr(shape, start, 3, twice, 3, "csr"));
  assert_true(fopo_csr_nnz(&d->matrix) == 2 && at(d, "1", "2") == 2.0);
  fopo_dataset_free(d);
  REFUSE(write_csr(shape, start, 2, ids, 3, "csr"), FOPO_ERR_FORMAT, "indptr does not fit");
  REFUSE(write_csr(shape, start, 3, ids, 2, "csr"), FOPO_ERR_FORMAT, "indptr does not fit");
  REFUSE(write_csr(shape, far, 3, ids, 3, "csr"), FOPO_ERR_FORMAT, "indptr does not fit");
  REFUSE(write_csr(shape, late, 3, ids, 3, "csr"), FOPO_ERR_FORMAT, "indptr does not fit");
  REFUSE(write_csr(shape, start, 3, outside, 3, "csr"), FOPO_ERR_FORMAT, "an index is 3");
  REFUSE(write_csr(shape, start, 3, negative, 3, "csr"), FOPO_ERR_FORMAT, "-1 at element 3");
  REFUSE(write_csr(shape, start, 3, ids, 3, "lil"), FOPO_ERR_FORMAT, "form 'lil'");
  shape[0] = -2;
  REFUSE(write_csr(shape, start, 3, ids, 3, "csr"), FOPO_ERR_FORMAT, "'shape' holds -2");
  shape[0] = (int64_t)1 << 40;
  REFUSE(write_csr(shape, start, 3, ids, 3, "csr"), FOPO_ERR_FORMAT, "shape is not that of");
  float x = 1;
  fopo_array one = fopo_array_of("x", FOPO_F32, &x, 1, 1, 1);
  ok(fopo_npz_save(in_folder("bad.npz"), &one, 1, 0));
  REFUSE(in_folder("bad.npz"), FOPO_ERR_FORMAT, "not a sparse matrix");
  ok(fopo_npy_save(in_folder("bad.npy"), &one));
  REFUSE(in_folder("bad.npy"), FOPO_ERR_FORMAT, "one .npy array");
}

/* A COO file of 2 x 3: rows and columns of n and m entries, as far as they are not NULL. */
static const char *write_coo(const int32_t *row, size_t n, const int32_t *col, size_t m,
                             const char *form) {
  static const int64_t shape[2] = {2, 3};
  static const float values[4] = {1, 2, 3, 4};
  fopo_array a[5] = {fopo_array_of("shape", FOPO_I64, shape, 1, 2, 1),
                     fopo_array_of("data", FOPO_F32, values, 1, n, 1),
                     fopo_array_text("format", form)};
  size_t members = 3;
  if (row != NULL) a[members++] = fopo_array_of("row", FOPO_I32, row, 1, n, 1);
  if (col != NULL) a[members++] = fopo_array_of("col", FOPO_I32, col, 1, m, 1);
  const char *path = in_folder("coo.npz");
  ok(fopo_npz_save(path, a, members, 0));
  return path;
}

TEST(bad_coordinates) {
  const int32_t row[] = {1, 0, 1}, col[] = {2, 0, 2}, low[] = {2, 0, 0}, wide[] = {0, 3, 0};
  fopo_dataset *d = READ(write_coo(row, 3, col, 3, "coo"));
  assert_true(fopo_csr_nnz(&d->matrix) == 2 && d->repeats == 1 && at(d, "1", "2") == 4);
  fopo_dataset_free(d);
  REFUSE(write_coo(NULL, 3, col, 3, "coo"), FOPO_ERR_FORMAT, "'row'");
  REFUSE(write_coo(row, 3, NULL, 3, "coo"), FOPO_ERR_FORMAT, "'col'");
  REFUSE(write_coo(row, 3, col, 2, "coo"), FOPO_ERR_FORMAT, "3 rows and 2 columns of entries");
  REFUSE(write_coo(low, 3, col, 3, "coo"), FOPO_ERR_FORMAT, "an index is 2");
  REFUSE(write_coo(row, 3, wide, 3, "coo"), FOPO_ERR_FORMAT, "an index is 3");
  REFUSE(write_coo(row, 0, col, 0, "coo"), FOPO_ERR_FORMAT, "coo.npz");
  /* whatever allocation fails */
  const char *path = write_coo(row, 3, col, 3, "coo");
  int64_t shape[2] = {2, 3}, start[3] = {0, 1, 3};
  int32_t twice[3] = {1, 2, 2};
  for (int compressed = 0; compressed < 2; compressed++) {
    if (compressed) path = write_csr(shape, start, 3, twice, 3, "csr");
    for (long fault = 0, failed = 1; failed; fault++) {
      fopo_memory_fail_after(fault, 0);
      failed = fopo_dataset_read(&d, path, NULL) != FOPO_OK;
      fopo_memory_fail_after(-1, 0);
      assert_true(fault < 200);
      fopo_dataset_free(d);
    }
  }
}

/* What is no text is named, with what to do, also by a reader that is told another format. */
TEST(foreign_files) {
  static const struct {
    const char *bytes;
    size_t n;
    const char *part;
  } cases[] = {{"\x93NUMPY\x01", 7, "fopo.array.load('%s')"},
               {"\x89HDF\r\n\x1a\n", 8, "pandas.read_hdf('%s')"},
               {"SQLite format 3", 16, "sqlite3 -header -csv %s"},
               {"PK\x03\x04\x14", 6, "unzip %s"},
               {"\xfd\x37zXZ", 6, "xz -dk %s"},
               {"BZh91AY", 8, "bzip2 -dk %s"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char part[400];
    const char *path = write_bytes("foreign", cases[i].bytes, cases[i].n);
    snprintf(part, sizeof part, "%.*s%s", (int)(strstr(cases[i].part, "%s") - cases[i].part),
             cases[i].part, path);
    REFUSE_AS(path, FOPO_ERR_FORMAT, part, .format = "pairs");
  }
  REFUSE(write_bytes("x.zst", "\x28\xb5\x2f\xfd", 4), FOPO_ERR_FORMAT,
         "the zstd data is damaged: it is cut short");
  REFUSE(write_bytes("short", "P", 1), FOPO_ERR_FORMAT, "holds one field");
}

/* A text far down makes texts of all the integers before it, whatever their number. */
TEST(late_text) {
  enum { IDS = 5000 };
  FREED(free) char *text = malloc(16 * IDS);
  size_t n = 0;
  for (int i = 0; i < IDS; i++) n += (size_t)sprintf(text + n, "%d,%d\n", i, i % 7);
  n += (size_t)sprintf(text + n, "late,3\n");
  FREED(fopo_dataset_free) fopo_dataset *d = READ(write_bytes("case.txt", text, n));
  assert_true(shaped(d, "pairs", IDS + 1, 7, IDS + 1) && at(d, "late", "3") > 0);
  assert_true(at(d, "4999", "1") > 0 && at(d, "0", "0") > 0);
}

TEST(columns_as_they_stand) {
  REFUSE(write_text("UserKey,\"Item Key\",StarsGiven\n1,a,3\n"), FOPO_ERR_FORMAT,
         "it has 3 columns: UserKey, Item Key, StarsGiven");
}

/* A return before the first row is no blank line; a table of JSON without keys has no names. */
TEST(odd_first_lines) {
  fopo_read_options json = {.format = "json"};
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  refused(
      fopo_dataset_read(&d, write_text("\r{{\"user\":\"b\",\r\"item\":3,\"\ntime\":1}\n"), &json),
      FOPO_ERR_FORMAT, "is not valid JSON");
  refused(fopo_dataset_read(&d, write_text("\n\r\n%1,2\n{\"user\":1\n"), &json), FOPO_ERR_FORMAT,
          "does not hold JSON lines");
  d = READ(write_text("\r\n\n# a comment\nuser,item\n1,2\n"));
  assert_true(shaped(d, "pairs", 1, 1, 1));
}

/* Numbers in columns that are more than one blank apart are pairs, however uneven the lines. */
TEST(aligned_columns) {
  FREED(fopo_dataset_free) fopo_dataset *d = READ(write_text("1  1  3\n1  2  4\n2  1  5\n"));
  assert_true(shaped(d, "pairs", 2, 2, 3) && at(d, "2", "1") > 4.5);
  fopo_dataset_free(d), d = READ(write_text("  1  12  3  4  5  6\n 22   1  4  5  6  7\n"));
  assert_true(shaped(d, "pairs", 2, 2, 2) && at(d, "22", "1") > 3.5);
  fopo_dataset_free(d);
  REFUSE(write_text("1  1  3\n1  2\n2  1  5\n"), FOPO_ERR_FORMAT, "has 2 fields where the first");
  d = READ(write_text("1 1 3\n2 2 \n3 1 5 7\n4\n")); /* blanks at the end say nothing */
  assert_true(shaped(d, "lists", 5, 8, 6));
}

/* ---- the real files ---- */

typedef struct {
  const char *file, *format;
  size_t rows, users, items, catalogue; /* as README.md there counts them; users and items seen */
} published;

static const published real_files[] = {
    {"movielens-latest-small/ratings.csv", "pairs", 100836, 610, 9724, 9724},
    {"movielens-latest-small/ratings_crlf_renamed_header.csv", "pairs", 100836, 610, 9724, 9724},
    /* Its third row has the time 964982224a, and times are not used. */
    {"movielens-latest-small/ratings_one_bad_timestamp.csv", "pairs", 100836, 610, 9724, 9724},
    {"movietweetings-100k/ratings.dat", "pairs", 100000, 16554, 10506, 10506},
    {"twitch-format/100k_a.head5.csv", "twitch", 5, 1, 4, 4},
    {"goodbooks-10k-sample/ratings.csv", "pairs", 99, 5, 96, 96},
    {"goodbooks-10k-sample/to_read.csv", "pairs", 99, 30, 95, 95},
    {"github-contest-2009/watches_partial.txt.gz", "pairs", 190752, 56519, 120867, 120867},
    {"github-contest-2009/minidata_50000.txt", "pairs", 50000, 19339, 24585, 24585},
    {"gowalla-ngcf/test.txt", "lists", 217242, 29858, 38546, 40981},
    {"amazon-book-ngcf/test.txt.gz", "lists", 603378, 52639, 82629, 91599}};

/* Conformant ones; those with nan and inf among their values; and others, with their faults. */
static const struct {
  const char *name, *fault;
  int bounded;
} real_matrix[] = {{"LFAT5", NULL, 1},
                   {"LFAT5_hypersparse", NULL, 1},
                   {"cover_structure", NULL, 1},
                   {"jagmesh7", NULL, 1},
                   {"karate", NULL, 1},
                   {"lp_afiro", NULL, 1},
                   {"lp_afiro_structure", NULL, 1},
                   {"matrix_bool", NULL, 1},
                   {"matrix_int32", NULL, 1},
                   {"structure", NULL, 1},
                   {"west0067", NULL, 1},
                   {"west0067_jumbled", NULL, 1},
                   {"west0067_noheader", NULL, 1},
                   {"comments_west0067", "is not a finite number", 0},
                   {"matrix_fp64", "is not a finite number", 0},
                   {"skew_fp64", "is not a finite number", 0},
                   {"mangled_bool", "line 10, column 3: '2' is outside the GraphBLAS type", 1},
                   {"mangled_int8", "line 8, column 3: '-129' is outside the GraphBLAS type", 1},
                   {"mangled_format", "line 1: an array cannot be a pattern", 1}};

TEST(real_interactions) {
  for (size_t i = 0; i < sizeof real_files / sizeof *real_files; i++) {
    const published *p = &real_files[i];
    const char *path = real_file(p->file);
    if (path == NULL) continue;
    FREED(fopo_dataset_free) fopo_dataset *d = READ(path);
    if (d->rows_read != p->rows || d->users_seen != p->users || d->items_seen != p->items ||
        d->matrix.cols != p->catalogue || strcmp(d->format, p->format) != 0) {
      fail_msg("%s: %s, %zu rows, %zu users, %zu of %zu items", path, d->format, d->rows_read,
               d->users_seen, d->items_seen, d->matrix.cols);
    }
  }
  const char *path = real_file("movielens-latest-small/ratings_one_bad_timestamp.csv");
  if (path != NULL) {
    REFUSE_AS(path, FOPO_ERR_FORMAT, "line 4, column 4 (timestamp): '964982224a' is not a number",
              .where = "timestamp>0");
  }
  path = real_file("open-bandit/random_men.csv.gz");
  if (path != NULL) REFUSE(path, FOPO_ERR_FORMAT, "fopo.data.logs");
  path = real_file("vw-cb/rcv1_raw_cb_small.vw");
  if (path != NULL) REFUSE(path, FOPO_ERR_FORMAT, "fopo.data.logs");
}

TEST(real_matrices) {
  fopo_dataset *west[3] = {0}; /* the same matrix in order, in disorder, and without its banner */
  size_t wests = 0;
  for (size_t i = 0; i < sizeof real_matrix / sizeof *real_matrix; i++) {
    char name[128];
    snprintf(name, sizeof name, "matrixmarket-lagraph/%s.mtx", real_matrix[i].name);
    const char *path = real_file(name);
    if (path == NULL) continue;
    if (real_matrix[i].fault != NULL) REFUSE(path, FOPO_ERR_FORMAT, real_matrix[i].fault);
    if (!real_matrix[i].bounded) fopo_dataset_free(READ_AS(path, .value = ""));
    if (real_matrix[i].fault != NULL) continue;
    fopo_dataset *d = READ(path);
    if (strncmp(real_matrix[i].name, "west", 4) == 0) {
      west[wests++] = d;
    } else {
      fopo_dataset_free(d);
    }
  }
  for (size_t i = 1; i < wests; i++) assert_true(same_dataset(west[0], west[i]));
  for (size_t i = 0; i < wests; i++) fopo_dataset_free(west[i]);
}

static double seconds_to_read(const char *path) {
  double start = fopo_clock();
  fopo_dataset_free(READ(path));
  return fopo_clock() - start;
}

/* The ratio of times of text and cache on this machine, the best of each in turn. It is about 11;
 * the floor is lower because the machine may be busy. */
TEST(cache_is_fast) {
#ifdef NDEBUG
  const double wanted = 5;
#else
  const double wanted = 2; /* without optimisation or with sanitizers */
#endif
  const char *path = real_file("amazon-book-ngcf/test.txt.gz");
  if (path == NULL) return;
  fopo_dataset *d = READ(path);
  ok(fopo_dataset_save(d, in_folder("cache.npz")));
  fopo_dataset *again = READ(in_folder("cache.npz"));
  assert_true(same_dataset(d, again));
  fopo_dataset_free(again);
  fopo_dataset_free(d);
  double text = 1e9, cache = 1e9;
  for (int i = 0; i < 5 || (i < 20 && text < wanted * cache); i++) {
    double t = seconds_to_read(path), c = seconds_to_read(in_folder("cache.npz"));
    if (t < text) text = t;
    if (c < cache) cache = c;
  }
  printf("amazon-book: text %.1f ms, cache %.1f ms, %.1f times\n", 1e3 * text, 1e3 * cache,
         text / cache);
  assert_true(text > wanted * cache);
}

int main(void) { return run_all(make_folder, remove_folder); }
