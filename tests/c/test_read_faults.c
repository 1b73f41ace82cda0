/* Readers of text and of sparse archives, where something fails on the way: each allocation, each
 * poll for Ctrl-C, zlib's calls; and files of odd shapes. A result is the one without the fault. */
#include <dlfcn.h>
#include <zlib.h>

#include "core/npz.h"
#include "core/progress.h"
#include "core/threads.h"
#include "data/dataset.h"
#include "data/read/table.h"
#include "datasets.h"
#include "folder.h"
#include "tables.h"

FREED_BY(fopo_dataset_free, fopo_dataset)

/* ---- zlib's calls: these stand before the library's ---- */

static struct {
  const char *call; /* NULL: none fails */
  int after, code;
} refusal;

static int refuses(const char *call) {
  return refusal.call != NULL && strcmp(call, refusal.call) == 0 && refusal.after-- == 0;
}

/* The function of the library; POSIX gives it as a pointer to an object. */
#define NEXT(name)                                                                                 \
  __typeof__(&(name)) next;                                                                        \
  *(void **)&next = dlsym(RTLD_NEXT, #name)

int inflate(z_streamp strm, int flush) {
  NEXT(inflate);
  if (!refuses("inflate")) return next(strm, flush);
  strm->msg = NULL;
  return refusal.code;
}

int inflateReset(z_streamp strm) {
  NEXT(inflateReset);
  return refuses("inflateReset") ? refusal.code : next(strm);
}

/* ---- files ---- */

/* Members of gzip, each of one text, then so many zeros. */
static const char *write_gzip(const char *const *texts, int n, size_t zeros) {
  const char *path = in_folder("case.csv.gz");
  remove(path);
  for (int i = 0; i < n; i++) {
    gzFile f = gzopen(path, "ab");
    assert_int_equal(gzputs(f, texts[i]), strlen(texts[i]));
    gzclose(f);
  }
  FILE *f = fopen(path, "ab");
  for (; zeros > 0; zeros--) putc(0, f);
  fclose(f);
  return path;
}

#define REFUSE(path, code, part) must_refuse(path, code, part, NULL)
#define REFUSE_AS(path, part, ...)                                                                 \
  must_refuse(path, FOPO_ERR_FORMAT, part, &(fopo_read_options){__VA_ARGS__})

static fopo_dataset *read_as(const char *path, const fopo_read_options *o) {
  fopo_dataset *d;
  if (fopo_dataset_read(&d, path, o) != FOPO_OK) fail_msg("%s", fopo_error_sentence());
  return d;
}
#define READ_AS(path, ...) read_as(path, &(fopo_read_options){__VA_ARGS__})

/* ---- whatever fails ---- */

/* Texts that take all ways through the reader: ids that turn from numbers to texts, on both sides;
 * quotes that are doubled; values and times; JSON with escapes; rows that are left out. */
static const struct {
  const char *name, *text;
  fopo_read_options options;
} cases[] = {
    {"numbers", "user,item\n1,2\n3,4\n1,4\n", {0}},
    {"apart", "user,item\n4294967295,4000000000\n1,7\n4294967295,7\n", {0}},
    {"late", "user,item,rating,time\n1,7,2,30\n2,8,3,20\n3,apple,4,10\nann,7,5,40\n", {0}},
    {"quoted", "user,item\n\"a\"\"bcd\",\"x, y\"\n\"e\"\"f\",\"x, y\"\nann,\"z\"\"\"\n", {0}},
    {"malformed",
     "user,item,rating\n1,2,x\n1,3,4\n\"a\"\"b\",3,5\n7,,1\n",
     {.skip_errors = 1, .max_errors = 9}},
    {"where", "user,item,rating\n1,2,3\n1,3,4\nb,3,5\n", {.where = "rating>3"}},
    {"parts", "user,item,rating,time\n3,7,2,30\n1,8,3,20\n3,7,4,10\nann,7,5,40\n", {.parts = 2}},
    {"json.json",
     "{\"user\":\"\\u00e9\",\"item\":\"a\",\"x\":[{}]}\n{\"user\":\"b\",\"item\":7}\n"
     "{broken\n{\"user\":3,\"item\":\"long enough for more than a small block of it\"}\n",
     {.skip_errors = 1, .max_errors = 9}},
    {"lists", "0 3 5 8 11 2\n1 5 9\n2\n3 1 2 3 4 5 6 7\n", {.format = "lists"}},
    {"matrix.mtx", "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n1 1 4\n3 1 .5\n", {0}},
    {"array.mtx", "%%MatrixMarket matrix array real general\n2 2\n1\n0\n2.5\n3\n", {0}},
    {"tests/fixtures/scipy_plain.npz", NULL, {0}}};
enum { CASES = sizeof cases / sizeof *cases };

static const char *write_case(size_t i) {
  if (cases[i].text == NULL) return cases[i].name;
  return write_bytes(cases[i].name, cases[i].text, strlen(cases[i].text));
}

/* Reads a case again and again, with `arm` before each and `disarm` after it, until nothing fails;
 * each time it is `code` or the same dataset, and nothing is left over. */
static void sweep(size_t i, const char *path, int code, void (*arm)(long after),
                  void (*disarm)(void)) {
  fopo_read_options plain = cases[i].options;
  plain.parts = 0;
  fopo_dataset *whole = read_as(path, &plain), *d;
  size_t blocks = fopo_memory_in_use().blocks;
  int status = code;
  long after = 0;
  for (; status != FOPO_OK && after < 2000; after++) {
    arm(after);
    status = fopo_dataset_read_all(&d, &path, 1, &cases[i].options);
    disarm();
    if (status == FOPO_OK) {
      if (!same_dataset(d, whole)) fail_msg("%s: %ld gives another result", cases[i].name, after);
      fopo_dataset_free(d);
    } else if (status != code) {
      fail_msg("%s: %ld gives %d, %s", cases[i].name, after, status, fopo_error_sentence());
    } else {
      says(code == FOPO_ERR_MEMORY ? "memory" : "interrupted while");
    }
    assert_int_equal(fopo_memory_in_use().blocks, blocks);
  }
  assert_true(after > 1 && after < 2000);
  fopo_dataset_free(whole);
}

static void no_memory(long after) { fopo_memory_fail_after(after, 0); }
static void none_from_then(long after) { fopo_memory_fail_after(after, 1); }
static void enough_memory(void) { fopo_memory_fail_after(-1, 0); }

TEST(memory) {
  int threads = fopo_threads();
  for (int many = 0; many < 2; many++) {
    fopo_threads_set(many ? 3 : 1);
    fopo_chunks_size(many ? 16 : 0);
    for (size_t i = 0; i < CASES; i++) {
      sweep(i, write_case(i), FOPO_ERR_MEMORY, no_memory, enough_memory);
      sweep(i, write_case(i), FOPO_ERR_MEMORY, none_from_then, enough_memory);
    }
  }
  fopo_chunks_size(0);
  fopo_threads_set(threads);
}

static long polls_left;
static int wanted(void *payload) {
  (void)payload;
  return polls_left-- <= 0;
}
static void interrupt_at(long after) {
  polls_left = after;
  fopo_interrupt_by(wanted, NULL);
}
static void uninterrupted(void) { fopo_interrupt_by(NULL, NULL); }

/* Ctrl-C at each place that looks for it. */
TEST(interrupts) {
  int threads = fopo_threads();
  fopo_threads_set(1);
  for (int small = 0; small < 2; small++) {
    fopo_chunks_size(small ? 16 : 0);
    for (size_t i = 0; i < CASES; i++) {
      sweep(i, write_case(i), FOPO_ERR_INTERRUPTED, interrupt_at, uninterrupted);
    }
  }
  fopo_chunks_size(0);
  fopo_threads_set(threads);
}

/* ---- gzip ---- */

TEST(packed) {
  static const char *const texts[] = {"user,item\n1,2\n", "3,4\n5,6\n", "7,8\n"};
  static const struct {
    const char *call;
    int after, code;
    int status;
    const char *part;
  } bad[] = {{"inflate", 0, Z_MEM_ERROR, FOPO_ERR_MEMORY, "no memory to unpack"},
             {"inflate", 1, Z_MEM_ERROR, FOPO_ERR_MEMORY, "no memory to unpack"},
             {"inflate", 0, Z_DATA_ERROR, FOPO_ERR_FORMAT, "the rest cannot be read"},
             {"inflate", 0, Z_NEED_DICT, FOPO_ERR_FORMAT, "the gzip data is damaged"},
             /* the first is inflateInit2's own */
             {"inflateReset", 2, Z_STREAM_ERROR, FOPO_ERR_FORMAT, "the rest cannot be read"},
             {"inflateReset", 1, Z_STREAM_ERROR, FOPO_ERR_FORMAT, "the rest cannot be read"}};
  const char *path = write_gzip(texts, 3, 0);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    refusal.call = bad[i].call;
    refusal.after = bad[i].after;
    refusal.code = bad[i].code;
    REFUSE(path, bad[i].status, bad[i].part);
    says(path);
    refusal.call = NULL;
  }
  /* zeros behind the members are padding, also more of them than one read takes */
  static const size_t zeros[] = {0, 1, 1000, 3 << 20};
  for (size_t i = 0; i < 4; i++) {
    FREED(fopo_dataset_free) fopo_dataset *d = READ_AS(write_gzip(texts, 3, zeros[i]), .header = 1);
    assert_true(fopo_csr_nnz(&d->matrix) == 4 && d->users.n == 4);
  }
}

/* ---- odd texts ---- */

/* The first of two NUL bytes is named, also where two threads read them. */
TEST(two_nuls) {
  enum { LINES = 150000, WIDTH = 14 };
  FREED(free) char *text = malloc(LINES * WIDTH);
  for (size_t i = 0; i < LINES; i++) memcpy(text + i * WIDTH, "1234567,12345\n", WIDTH);
  text[700000L / WIDTH * WIDTH + 3] = '\0';
  text[90000L / WIDTH * WIDTH + 3] = '\0';
  REFUSE(write_bytes("nul.csv", text, LINES * WIDTH), FOPO_ERR_FORMAT, "line 6429: there is a NUL");
  text[90000L / WIDTH * WIDTH + 3] = '1';
  REFUSE(write_bytes("nul.csv", text, LINES * WIDTH), FOPO_ERR_FORMAT,
         "line 50001: there is a NUL");
}

/* One column may have two roles, and a table more columns than are cut at once. */
TEST(columns) {
  static const char text[] = "user,item,rating,time\n1,1,3,30\n2,2,5,50\n2,1,4,40\n";
  static const struct {
    fopo_read_options options;
    size_t n;
    double value;
    int timed;
  } shared[] = {{{.user = "1", .item = "1"}, 2, 8, 1},
                {{.user = "1", .item = "2", .value = "1"}, 3, 2, 1},
                {{.user = "1", .item = "2", .value = "2"}, 3, 1, 1},
                {{.user = "1", .item = "2", .time = "1"}, 3, 4, 1},
                {{.user = "1", .item = "2", .time = "2"}, 3, 4, 1},
                {{.user = "1", .item = "2", .value = "3", .time = "3"}, 3, 4, 1}};
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    FREED(fopo_dataset_free) fopo_dataset *d = read_as(write_text(text), &shared[i].options);
    size_t n = fopo_csr_nnz(&d->matrix);
    assert_int_equal(n, shared[i].n);
    /* user 2, the entry of item 1 if it is there: with both ids of one column, 2 and 2 */
    size_t e = d->matrix.indptr[1];
    if (i > 0) assert_true((double)d->matrix.values[e] == shared[i].value);
    assert_true((d->times.first != NULL) == shared[i].timed);
    if (i == 3) assert_true(d->times.first[e] == 2);
    if (i == 5) assert_true(d->times.first[e] == 4);
  }
  char wide[2000], *p = wide;
  for (int line = 0; line < 3; line++) {
    for (int c = 0; c < 70; c++) p += sprintf(p, "%d%c", line * 70 + c, c < 69 ? ',' : '\n');
  }
  FREED(fopo_dataset_free)
  fopo_dataset *d =
      READ_AS(write_text(wide), .user = "2", .item = "70", .value = "", .time = "", .header = -1);
  assert_true(fopo_csr_nnz(&d->matrix) == 3 && d->users.numbers[0] == 1);
  assert_true(d->items.numbers[2] == 209);
}

TEST(odd_rows) {
  /* a return inside the last field is no line end */
  REFUSE_AS(write_text("user,item\n1,2\n3,4\rq\n5,6\n"), "holds a control character", .value = "");
  REFUSE_AS(write_text("user,item,rating\n1,2,3\n3,4,5\r6\n"), "is not a number", .time = "");
  /* without titles only the column's number is said */
  REFUSE_AS(write_text("1,2,3\n3,4,x\n"), "line 2, column 3 (3): 'x' is not a number", .value = "3",
            .header = -1);
  REFUSE_AS(write_text("1,2,3\n3,4,5,6\n"), "has 4 fields where the first row has 3", .header = -1);
  REFUSE_AS(write_text("1 2 3\n3 4 5 6\n"), "format = \"lists\"", .header = -1, .format = "pairs");
  /* a quote that is open at the end of the file */
  REFUSE_AS(write_text("user,item\n1,2\n3,\"4\n5,6\n"), "has a quote that is not closed",
            .value = "");
  REFUSE_AS(write_text("user,item\n1,2\n\"3\"x,4\n"), "has text behind a closing quote",
            .value = "");
  /* times that were recognised, of a table without titles and of one of JSON, are given up */
  FREED(fopo_dataset_free)
  fopo_dataset *d = READ_AS(write_text("1,2,964982703\n3,4,964982704\n5,6,none\n"), .header = -1);
  assert_true(fopo_csr_nnz(&d->matrix) == 3 && d->times.first == NULL);
}

/* A quote that is open beyond what a field may have, in a file that goes on. */
TEST(long_quote) {
  size_t n = 0, size = 12 << 20;
  FREED(free) char *text = malloc(size);
  n += (size_t)sprintf(text, "user,item\n1,2\n3,\"4\n");
  while (n + 16 < size) n += (size_t)sprintf(text + n, "7,8\n");
  REFUSE(write_bytes("quote.csv", text, n), FOPO_ERR_FORMAT,
         "line 3: '3,\"4' has a quote that is not closed");
}

/* A file that would not fit into memory is refused when its first block is known. (It has a hole,
 * so that it takes no room on the disk.) */
TEST(too_large) {
  enum { LINES = 200000 };
  static char text[LINES * 10];
  for (size_t i = 0; i < LINES; i++) memcpy(text + i * 10, "1234,5678\n", 10);
  const char *path = write_bytes("large.csv", text, sizeof text);
  if (truncate(path, (off_t)1 << 43) != 0) {
    print_message("skip  the file system has no files of 8 TiB\n");
    skip();
  }
  REFUSE(path, FOPO_ERR_MEMORY, "read a part of the file");
  says(path);
}

/* ---- sparse archives ---- */

/* "csr", "csc" or "coo" of rows x cols with n entries, the last of which is `last`. */
static const char *write_sparse(const char *form, int64_t rows, int64_t cols, size_t n,
                                uint32_t last) {
  int by_columns = strcmp(form, "csc") == 0;
  size_t major = (size_t)(by_columns ? cols : rows), minor = (size_t)(by_columns ? rows : cols);
  int64_t shape[2] = {rows, cols};
  int coo = strcmp(form, "coo") == 0;
  if (coo) major = 0; /* it has no starts */
  int64_t *start = fopo_alloc(n + major + 1, sizeof *start);
  uint32_t *major_id = fopo_alloc(n, sizeof *major_id), *id = fopo_alloc(n, sizeof *id);
  float *value = fopo_alloc(n, sizeof *value);
  for (size_t e = 0, r = 0; e < n; e++) {
    r = e / minor;
    major_id[e] = (uint32_t)r;
    id[e] = (uint32_t)(e % minor);
    value[e] = (float)(e + 1);
    start[r + 1] = (int64_t)e + 1;
  }
  for (size_t r = 0; r < major; r++) {
    if (start[r + 1] < start[r]) start[r + 1] = start[r];
  }
  if (n > 0) id[n - 1] = last;
  fopo_array a[5] = {fopo_array_text("format", form),
                     fopo_array_of("shape", FOPO_I64, shape, 1, 2, 1),
                     fopo_array_of("data", FOPO_F32, value, 1, n, 1),
                     fopo_array_of(coo ? "col" : "indices", FOPO_U32, id, 1, n, 1),
                     coo ? fopo_array_of("row", FOPO_U32, major_id, 1, n, 1)
                         : fopo_array_of("indptr", FOPO_I64, start, 1, major + 1, 1)};
  const char *path = in_folder("sparse.npz");
  ok(fopo_npz_save(path, a, 5, 0));
  fopo_free(start);
  fopo_free(major_id);
  fopo_free(id);
  fopo_free(value);
  return path;
}

TEST(sparse) {
  static const char *const forms[] = {"csr", "csc", "coo"};
  for (int i = 0; i < 3; i++) {
    fopo_dataset *d = READ_AS(write_sparse(forms[i], 3, 3, 8, 1), 0);
    assert_true(fopo_csr_nnz(&d->matrix) == 8 && d->matrix.values != NULL);
    fopo_dataset_free(d), d = READ_AS(write_sparse(forms[i], 3, 3, 8, 1), .value = "");
    assert_true(fopo_csr_nnz(&d->matrix) == 8 && d->matrix.values == NULL);
    fopo_dataset_free(d);
    REFUSE(write_sparse(forms[i], 3, 3, 8, 3), FOPO_ERR_FORMAT, "an index is 3");
    if (i == 0) continue; /* CSR has an indptr of that many rows */
    REFUSE(write_sparse(forms[i], 1 << 25, 2, 4, 1), FOPO_ERR_FORMAT, "the ids are far apart");
  }
  REFUSE(write_sparse("csr", 2, 1 << 25, 4, 3), FOPO_ERR_FORMAT, "the ids are far apart");
  REFUSE(write_sparse("coo", UINT32_MAX, 1, 1, 0), FOPO_ERR_FORMAT, "shape is not that of");
  REFUSE(write_sparse("coo", 1, UINT32_MAX, 1, 0), FOPO_ERR_FORMAT, "shape is not that of");
  REFUSE(write_sparse("csr", 2, 3, 0, 0), FOPO_ERR_FORMAT, "sparse.npz");
}

/* More entries than one thread checks: the one that is wrong is the last of them. */
TEST(many_entries) {
  enum { N = (1 << 20) + 1000, COLS = 1000 };
  int64_t rows = N / COLS + 1;
  fopo_dataset *d = READ_AS(write_sparse("csr", rows, COLS, N, (N - 1) % COLS), .value = "");
  assert_int_equal(fopo_csr_nnz(&d->matrix), N);
  fopo_dataset_free(d);
  REFUSE(write_sparse("csr", rows, COLS, N, COLS), FOPO_ERR_FORMAT, "an index is 1000");
}

/* Counts that are no counts are left alone: the file is one of scipy's with a member more. Counts
 * of another matrix are refused. */
TEST(other_counts) {
  static const uint64_t six[][6] = {{9, 9, 9, 9, 9, 9}, /* the first two have another form */
                                    {9, 9, 9, 9, 9, 9},
                                    {2, 0, 0, 3, 2, 0},  /* more items than columns */
                                    {2, 0, 0, 2, 3, 0},  /* more users than rows */
                                    {1, 0, 0, 2, 2, 0},  /* fewer interactions than entries */
                                    {3, 0, 0, 2, 2, 0},  /* more, without a repeat */
                                    {1, 3, 0, 2, 2, 0}}; /* more repeats than interactions */
  static const float numbers[6];
  const int64_t shape[2] = {2, 2}, start[3] = {0, 1, 2};
  const int32_t ids[2] = {1, 0};
  const float values[2] = {1, 2};
  for (int i = 0; i < 7; i++) {
    fopo_array a[6] = {fopo_array_text("format", "csr"),
                       fopo_array_of("shape", FOPO_I64, shape, 1, 2, 1),
                       fopo_array_of("data", FOPO_F32, values, 1, 2, 1),
                       fopo_array_of("indices", FOPO_I32, ids, 1, 2, 1),
                       fopo_array_of("indptr", FOPO_I64, start, 1, 3, 1),
                       i == 0 ? fopo_array_of("counts", FOPO_F32, numbers, 1, 6, 1)
                              : fopo_array_of("counts", FOPO_U64, six[i], 1, i == 1 ? 5 : 6, 1)};
    ok(fopo_npz_save(in_folder("counts.npz"), a, 6, 0));
    if (i >= 2) {
      REFUSE(in_folder("counts.npz"), FOPO_ERR_FORMAT, "its counts do not fit its matrix");
      continue;
    }
    FREED(fopo_dataset_free) fopo_dataset *d = READ_AS(in_folder("counts.npz"), 0);
    assert_true(d->rows_read == 2 && d->skipped == 0);
  }
}

int main(void) { return run_all(make_folder, remove_folder); }
