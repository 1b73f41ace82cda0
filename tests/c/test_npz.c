/* .npy and .npz: round trips, both directions checked by NumPy, damaged files, full disks. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <zip.h>

#include "core/npy.h"
#include "core/npz.h"
#include "core/progress.h"
#include "core/threads.h"
#include "folder.h"

static size_t files_in_folder(void) {
  DIR *d = opendir(folder);
  size_t n = 0;
  for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static unsigned char *slurp(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  unsigned char *bytes = malloc(1 << 20);
  *n = fread(bytes, 1, 1 << 20, f);
  fclose(f);
  return bytes;
}

/* ---- writing, checked by our reader and by NumPy ---- */

static float f4[6];
static double f8[6];
static int32_t i4[6];
static int64_t i8[6];
static uint8_t u1[6], b1[3] = {1, 0, 1};
static uint32_t u4[6];
static uint64_t u8[6];

static size_t samples(fopo_array *a) {
  for (int i = 0; i < 6; i++) {
    f4[i] = 1.5f + (float)i;
    f8[i] = 0.25 + i;
    i4[i] = -3 + i;
    i8[i] = -((int64_t)1 << 40) + i;
    u1[i] = (uint8_t)(2 + i);
    u4[i] = 3000000000u + (uint32_t)i;
    u8[i] = ((uint64_t)1 << 63) + (uint64_t)i;
  }
  a[0] = fopo_array_of("f4", FOPO_F32, f4, 2, 2, 3);
  a[1] = fopo_array_of("f8", FOPO_F64, f8, 2, 2, 3);
  a[2] = fopo_array_of("i4", FOPO_I32, i4, 2, 2, 3);
  a[3] = fopo_array_of("i8", FOPO_I64, i8, 2, 2, 3);
  a[4] = fopo_array_of("u1", FOPO_U8, u1, 2, 2, 3);
  a[5] = fopo_array_of("u4", FOPO_U32, u4, 2, 2, 3);
  a[6] = fopo_array_of("u8", FOPO_U64, u8, 2, 2, 3);
  a[7] = fopo_array_of("b1", FOPO_BOOL, b1, 1, 3, 1);
  a[8] = fopo_array_text("text", "csr");
  a[9] = fopo_array_of("empty", FOPO_F32, f4, 1, 0, 1);
  return 10;
}

static void same_array(const fopo_array *a, const fopo_array *b) {
  assert_string_equal(a->name, b->name);
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->itemsize, b->itemsize);
  assert_int_equal(a->ndim, b->ndim);
  assert_int_equal(a->shape[0], b->shape[0]);
  assert_int_equal(a->shape[1], b->shape[1]);
  assert_memory_equal(a->data, b->data, fopo_array_count(a) * a->itemsize);
}

TEST(round_trip) {
  fopo_array arrays[10];
  size_t n = samples(arrays);
  for (int compress = 0; compress < 2; compress++) {
    const char *path = in_folder(compress ? "c_deflated.npz" : "c_stored.npz");
    DONE(fopo_archive_done) fopo_archive archive;
    ok(fopo_npz_save(path, arrays, n, compress));
    ok(fopo_npz_load(&archive, path));
    assert_int_equal(archive.n, n);
    for (size_t i = 0; i < n; i++) same_array(&archive.items[i], &arrays[i]);
  }
  fopo_array bare;
  for (size_t i = 0; i < n; i++) {
    ok(fopo_npy_save(in_folder("bare.npy"), &arrays[i]));
    ok(fopo_npy_load(&bare, in_folder("bare.npy")));
    assert_string_equal(bare.name, "");
    strcpy(bare.name, arrays[i].name);
    same_array(&bare, &arrays[i]);
    fopo_free(bare.data);
  }
}

TEST(same_bytes_twice) {
  fopo_array arrays[10];
  size_t n = samples(arrays), n1, n2;
  ok(fopo_npz_save(in_folder("one.npz"), arrays, n, 1));
  ok(fopo_npz_save(in_folder("two.npz"), arrays, n, 1));
  FREED(free) unsigned char *one = slurp(in_folder("one.npz"), &n1);
  FREED(free) unsigned char *two = slurp(in_folder("two.npz"), &n2);
  assert_int_equal(n1, n2);
  assert_memory_equal(one, two, n1);
}

/* Element i as a double, for any type. */
static double element(const fopo_array *a, size_t i) {
  switch (a->type) {
  case FOPO_F32: return (double)((float *)a->data)[i];
  case FOPO_F64: return ((double *)a->data)[i];
  case FOPO_I32: return ((int32_t *)a->data)[i];
  case FOPO_I64: return (double)((int64_t *)a->data)[i];
  case FOPO_U32: return ((uint32_t *)a->data)[i];
  case FOPO_U64: return (double)((uint64_t *)a->data)[i];
  default: return ((uint8_t *)a->data)[i];
  }
}

static void read_numpy_archive(const char *path) {
  static const char *const kinds[] = {"f2", "f4", "f8", "i1", "i2", "i4",
                                      "i8", "u1", "u2", "u4", "u8"};
  static const char *const orders[] = {"little", "big", "columns"};
  DONE(fopo_archive_done) fopo_archive archive;
  if (fopo_npz_load(&archive, path) != FOPO_OK) fail_msg("%s", fopo_error_sentence());
  for (size_t k = 0; k < 11; k++) {
    for (size_t o = 0; o < 3; o++) {
      char name[32];
      snprintf(name, sizeof name, "%s_%s", orders[o], kinds[k]);
      fopo_array *a = fopo_archive_find(&archive, name);
      assert_non_null(a);
      assert_int_equal(a->shape[0], 3);
      assert_int_equal(a->shape[1], 4);
      for (size_t i = 0; i < 12; i++) assert_true(element(a, i) == (double)i);
    }
  }
  fopo_array *a = fopo_archive_find(&archive, "zero_d");
  assert_true(a->ndim == 0 && element(a, 0) == 2.5);
  a = fopo_archive_find(&archive, "empty");
  assert_true(a->ndim == 2 && a->shape[0] == 0 && a->shape[1] == 7);
  a = fopo_archive_find(&archive, "words");
  assert_true(a->type == FOPO_BYTES && a->itemsize == 5);
  assert_memory_equal(a->data, "one\0\0\0\0\0\0\0three", 15);
  a = fopo_archive_find(&archive, "unicode");
  assert_int_equal(a->itemsize, 16);
  assert_string_equal((char *)a->data, "z\xc3\xa4hl");
  assert_string_equal((char *)a->data + 16, "\xce\xb8\xe2\x82\xac\xf0\x9f\x98\x80");
  assert_string_equal((char *)a->data + 32, "");
  assert_string_equal((char *)fopo_archive_find(&archive, "big_unicode")->data, "\xc3\xa4"
                                                                                "b");
  a = fopo_archive_find(&archive, "negative_f2");
  assert_true(element(a, 0) == 0.0 && signbit(element(a, 0)) && element(a, 1) == -1.5 &&
              element(a, 2) == 65504.0 && element(a, 3) == 0x1p-24);
  a = fopo_archive_find(&archive, "negative_i1");
  assert_true(element(a, 0) == -128 && element(a, 1) == -1 && element(a, 2) == 127);
}

TEST(numpy_agrees) {
  if (!have_numpy()) return;
  fopo_array arrays[10];
  size_t n = samples(arrays);
  float ramp[20];
  for (int i = 0; i < 20; i++) ramp[i] = (float)i;
  fopo_array bare = fopo_array_of("", FOPO_F32, ramp, 2, 4, 5);
  ok(fopo_npz_save(in_folder("c_stored.npz"), arrays, n, 0));
  ok(fopo_npz_save(in_folder("c_deflated.npz"), arrays, n, 1));
  ok(fopo_npy_save(in_folder("c_bare.npy"), &bare));
  assert_int_equal(oracle("arrays"), 0);

  read_numpy_archive(in_folder("py_stored.npz"));
  read_numpy_archive(in_folder("py_deflated.npz"));
  for (int version = 1; version <= 3; version++) {
    char name[32];
    snprintf(name, sizeof name, "py_v%d.npy", version);
    fopo_array a;
    ok(fopo_npy_load(&a, in_folder(name)));
    assert_memory_equal(a.data, ramp, sizeof ramp);
    fopo_free(a.data);
  }
  fopo_archive ones; /* deflate at its limit, about 1,030 to 1, must be accepted */
  ok(fopo_npz_load(&ones, in_folder("py_ones.npz")));
  assert_true(((float *)ones.items[0].data)[2999999] == 1.0f);
  fopo_archive_done(&ones);
}

/* ---- what must be refused ---- */

/* Writes a .npy with this header and data (NULL: zeros), and returns where the data begins. */
static size_t write_npy(const char *path, int major, const char *dict, const void *data,
                        size_t size) {
  static char bytes[20000];
  size_t n = strlen(dict);
  memcpy(bytes, "\x93NUMPY", 6);
  bytes[6] = (char)major;
  bytes[7] = 0;
  bytes[8] = (char)(n & 255);
  bytes[9] = (char)(n >> 8);
  memcpy(bytes + 10, dict, n);
  memset(bytes + 10 + n, 0, size);
  if (data != NULL) memcpy(bytes + 10 + n, data, size);
  spit(path, bytes, 10 + n + size);
  return 10 + n;
}

static void refuse_npy(const char *dict, size_t data, int major, const char *part) {
  write_npy(in_folder("bad.npy"), major, dict, NULL, data);
  fopo_array a;
  refused(fopo_npy_load(&a, in_folder("bad.npy")), FOPO_ERR_FORMAT, "bad.npy");
  says(part);
  assert_null(a.data);
}

#define DICT(type, shape) "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }\n"

TEST(bad_headers) {
  refuse_npy(DICT("|O", "(3,)"), 24, 1, "pickle");
  refuse_npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12, 1, "fields");
  refuse_npy(DICT("<c8", "(3,)"), 24, 1, "<c8");
  refuse_npy(DICT("<f3", "(3,)"), 9, 1, "<f3");
  refuse_npy(DICT("<M8", "(3,)"), 24, 1, "<M8");
  refuse_npy(DICT("f4", "(3,)"), 12, 1, "type");
  refuse_npy(DICT("<f4", "(1, 1, 3)"), 12, 1, "two dimensions");
  refuse_npy(DICT("<f4", "(-3,)"), 12, 1, "dimension");
  refuse_npy(DICT("<f4", "(3"), 12, 1, "dimension");
  refuse_npy(DICT("<f4", "(3 4)"), 12, 1, "shape is not closed");
  refuse_npy(DICT("<f4", "(3,)"), 11, 1, "claims");
  refuse_npy(DICT("<f4", "(3,)"), 13, 1, "claims");
  refuse_npy(DICT("<f4", "(4611686018427387904, 4)"), 0, 1, "claims");
  refuse_npy(DICT("<f4", "(99999999999999999999,)"), 0, 1, "too large");
  refuse_npy(DICT("<f4", "(3,)"), 12, 4, "version 4");
  refuse_npy("{'descr': '<f4', 'shape': (3,), }", 12, 1, "missing");
  refuse_npy("{'descr': '<f4', 'descr': '<f4', 'shape': (3,), }", 12, 1, "twice");
  refuse_npy("{'descr': '<f4', 'fortran_order': 1, 'shape': (3,), }", 12, 1, "fortran_order");
  refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x", 12, 1, "follows");
  refuse_npy("os.system('true')", 12, 1, "dict");
  refuse_npy("", 0, 1, "dict");
  char wide[10100];
  memset(wide, ' ', sizeof wide);
  memcpy(wide, DICT("<f4", "(3,)"), strlen(DICT("<f4", "(3,)")));
  wide[sizeof wide - 1] = '\0';
  refuse_npy(wide, 12, 1, "10000");
  fopo_array a;
  spit(in_folder("old.npy"),
       "\x93NUMPY\x01\x00\x3c\x00"
       "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n\n\0\0\0\0\0\0\0\0",
       78);
  ok(fopo_npy_load(&a, in_folder("old.npy"))); /* Python 2's 2L */
  assert_int_equal(a.shape[0], 2);
  fopo_free(a.data);
}

/* More of the grammar of headers, and of sizes that no file has. */
TEST(worse_headers) {
  refuse_npy(DICT("<f4", "(9223372036854775808,)"), 0, 1, "too large");
  refuse_npy(DICT("<f4", "(18446744073709551619,)"), 0, 1, "too large");
  refuse_npy(DICT("<f4", "(1152921504606846976, 15)"), 0, 1, "claims");
  refuse_npy(DICT("|b2", "(3,)"), 6, 1, "|b2");
  refuse_npy(DICT("<U4611686018427387904", "(3,)"), 0, 1, "the type is too large");
  refuse_npy(DICT("<f4444444444444444444444444444444", "(3,)"), 0, 1, "a word is too long");
  refuse_npy(DICT("", "(3,)"), 0, 1, "the type is not understood");
  refuse_npy(DICT("<f4x", "(3,)"), 12, 1, "the type is not understood");
  refuse_npy(DICT("?f4", "(3,)"), 12, 1, "the type is not understood");
  refuse_npy(DICT("<f4", "3"), 12, 1, "the shape is not a tuple");
  refuse_npy(DICT("<f4", "(3;)"), 12, 1, "the shape is not closed");
  refuse_npy("{'descr': '<f4'", 0, 1, "a comma is missing");
  refuse_npy("{'descr': '<f4' 'shape'", 0, 1, "a comma is missing");
  refuse_npy("{'descr' '<f4'", 0, 1, "a colon is missing");
  refuse_npy("{descr: '<f4'", 0, 1, "a quote is missing");
  refuse_npy("{", 0, 1, "a quote is missing");
  refuse_npy("{'descr", 0, 1, "a quote is not closed");
  refuse_npy("{'color': 1", 0, 1, "a key is unknown");
  refuse_npy("{'shape': (", 0, 1, "a dimension is not a number");
  refuse_npy("{'shape': (3", 0, 1, "the shape is not closed");
  refuse_npy("{'fortran_order': Fals", 0, 1, "neither True nor False");
  refuse_npy("{'descr': ", 0, 1, "a quote is missing");
  /* files that end inside magic, version or length */
  for (size_t n = 0; n < 13; n++) {
    fopo_array a;
    spit(in_folder("bad.npy"), "\x93NUMPY\x02\x00\x01\x00\x00\x00", n < 12 ? n : 12);
    refused(fopo_npy_load(&a, in_folder("bad.npy")), FOPO_ERR_FORMAT,
            n < 10 ? "is not a .npy array" : "is cut short inside its .npy header");
  }
}

/* Loads an array with this header and data. */
static fopo_array array_of_bytes(const char *dict, const void *data, size_t size) {
  write_npy(in_folder("odd.npy"), 1, dict, data, size);
  fopo_array a;
  ok(fopo_npy_load(&a, in_folder("odd.npy")));
  return a;
}

TEST(odd_arrays) {
  /* float16: infinities, NaN, the least subnormal and -0 */
  const uint16_t halves[] = {0x7c00, 0xfc00, 0x7e00, 0x0001, 0x8000};
  fopo_array a = array_of_bytes(DICT("<f2", "(5,)"), halves, sizeof halves);
  const float *x = a.data;
  assert_true(a.type == FOPO_F32 && isinf(x[0]) && x[0] > 0 && isinf(x[1]) && x[1] < 0);
  assert_true(isnan(x[2]) && x[3] == 0x1p-24f && x[4] == 0.0f && signbit(x[4]) != 0);
  fopo_free(a.data);
  /* bytes have no order; by columns means nothing for a list */
  a = array_of_bytes(DICT(">S2", "(2,)"), "abcd", 4);
  assert_true(a.type == FOPO_BYTES && a.itemsize == 2 && memcmp(a.data, "abcd", 4) == 0);
  fopo_free(a.data);
  const char *list = "{'descr': '|u1', 'fortran_order': True, 'shape': (4,), }";
  a = array_of_bytes(list, "abcd", 4);
  assert_memory_equal(a.data, "abcd", 4);
  fopo_free(a.data);
  const char *turned = "{\"descr\":\t'|u1','fortran_order' : True,'shape':(2,3)}";
  a = array_of_bytes(turned, "adbecf", 6);
  assert_memory_equal(a.data, "abcdef", 6);
  fopo_free(a.data);
  for (long fault = 0, failed = 1; failed; fault++) { /* with no memory to turn it */
    fopo_memory_fail_after(fault, 0);
    failed = fopo_npy_load(&a, in_folder("odd.npy")) != FOPO_OK;
    fopo_memory_fail_after(-1, 0);
    assert_true(failed ? a.data == NULL : fault == 2);
    fopo_free(a.data);
  }
}

/* A file of that many bytes behind this header, of holes alone; 0 if there is no such file system.
 */
static int file_of_holes(const char *path, const char *dict, uint64_t data) {
  return truncate(path, (off_t)(write_npy(path, 1, dict, NULL, 0) + data)) == 0;
}

TEST(huge_files) {
  char path[64];
  fopo_array a;
  snprintf(path, sizeof path, "/dev/shm/fopo_test_npz_%ld.npy", (long)getpid());
  if (access("/dev/shm", W_OK) != 0) {
    printf("skip  files of holes (no /dev/shm)\n");
    return;
  }
  if (file_of_holes(path, DICT("<f4", "(1099511627776,)"), (uint64_t)1 << 42)) {
    refused(fopo_npy_load(&a, path), FOPO_ERR_MEMORY, "load it on a machine with more memory");
  }
  if (file_of_holes(path, DICT("|i1", "(4611686018427387904,)"), (uint64_t)1 << 62)) {
    refused(fopo_npy_load(&a, path), FOPO_ERR_FORMAT, "is too large to be widened");
  } else {
    printf("skip  a file of 2^62 bytes (%s)\n", strerror(errno));
  }
  unlink(path);
}

static const char *cut_file; /* what loses its end while it is read */

static void cut_it(void *payload, const char *what, double done, double total, int closed) {
  (void)payload, (void)what, (void)done, (void)total, (void)closed;
  if (truncate(cut_file, 70) != 0) fail();
}

/* Rows of a matrix in a file, one by one. */
TEST(rows_of_a_file) {
  size_t shape[2];
  float x[6], six[6] = {1, 2, 3, 4, 5, 6};
  fopo_array a = fopo_array_of("", FOPO_F32, six, 2, 3, 2);
  char path[128];
  snprintf(path, sizeof path, "%s", in_folder("rows.npy"));
  ok(fopo_npy_save(path, &a));
  ok(fopo_npy_rows(x, shape, path, 1, 2));
  assert_true(shape[0] == 3 && shape[1] == 2);
  assert_memory_equal(x, six + 2, 4 * sizeof *x);
  ok(fopo_npy_rows(NULL, shape, path, 0, 0));
  refused(fopo_npy_rows(x, shape, path, 2, 2), FOPO_ERR_FORMAT, "has 3 rows, not 4");
  refused(fopo_npy_rows(x, shape, path, 4, 0), FOPO_ERR_FORMAT, "has 3 rows, not 4");
  refused(fopo_npy_rows(x, shape, in_folder("absent.npy"), 0, 1), FOPO_ERR_FILE, "absent.npy");
  static const char *const wrong[] = {DICT("<f8", "(3, 1)"), DICT(">f4", "(3, 2)"),
                                      DICT("<i4", "(3, 2)"), DICT("<f4", "(6,)"),
                                      "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_true(file_of_holes(path, wrong[i], 24));
    refused(fopo_npy_rows(x, shape, path, 0, 1), FOPO_ERR_FORMAT,
            "is no matrix of float32 by rows");
  }
  static const char *const claims[] = {DICT("<f4", "(3, 3)"),
                                       DICT("<f4", "(4611686018427387904, 4)"),
                                       DICT("<f4", "(4611686018427387904, 2)")};
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    assert_true(file_of_holes(path, claims[i], 24));
    refused(fopo_npy_rows(x, shape, path, 0, 1), FOPO_ERR_FORMAT, "bytes follow its header");
  }
  spit(path, "no", 2);
  refused(fopo_npy_rows(x, shape, path, 0, 1), FOPO_ERR_FORMAT, "is not a .npy array");
  /* another program cuts the file while it is read */
  ok(fopo_npy_save(path, &a));
  cut_file = path;
  fopo_progress_to(cut_it, NULL);
  int status = fopo_npy_load(&a, path);
  fopo_progress_to(NULL, NULL);
  refused(status, FOPO_ERR_FILE, "became shorter while it was read");
}

/* Cut at every length, and every byte set to three other values: refused, or what was saved. */
TEST(damaged_archives) {
  fopo_array arrays[2] = {fopo_array_of("numbers", FOPO_U32, (uint32_t[]){7, 8, 9}, 1, 3, 1),
                          fopo_array_text("format", "csr")};
  size_t n;
  fopo_archive archive;
  ok(fopo_npz_save(in_folder("whole.npz"), arrays, 2, 0));
  FREED(free) unsigned char *bytes = slurp(in_folder("whole.npz"), &n);
  size_t blocks = fopo_memory_in_use().blocks, refused = 0;
  for (size_t cut = 0; cut < n; cut++) {
    spit(in_folder("cut.npz"), bytes, cut);
    assert_int_not_equal(fopo_npz_load(&archive, in_folder("cut.npz")), FOPO_OK);
    says("cut.npz");
  }
  for (size_t at = 0; at < n; at++) {
    for (int change = 1; change < 256; change += 97) {
      unsigned char old = bytes[at];
      bytes[at] = (unsigned char)(old ^ change);
      spit(in_folder("changed.npz"), bytes, n);
      if (fopo_npz_load(&archive, in_folder("changed.npz")) != FOPO_OK) {
        refused++;
      } else { /* dates, versions, the name of a member: the arrays themselves cannot differ */
        assert_int_equal(archive.n, 2);
        assert_memory_equal(archive.items[0].data, arrays[0].data, 12);
        assert_memory_equal(archive.items[1].data, "csr", 4);
        fopo_archive_done(&archive);
      }
      bytes[at] = old;
    }
  }
  assert_true(refused > 3 * n * 3 / 4);
  assert_int_equal(fopo_memory_in_use().blocks, blocks);
}

/* A member that several threads read, each a part: whole, and with one bit changed anywhere. */
TEST(large_members) {
  enum { N = 2500000 };
  FREED(free) uint32_t *numbers = malloc(N * sizeof *numbers);
  for (uint32_t i = 0; i < N; i++) numbers[i] = i * 2654435761u;
  fopo_array a[2] = {fopo_array_of("numbers", FOPO_U32, numbers, 1, N, 1),
                     fopo_array_of("bytes", FOPO_U8, numbers, 1, 4 * N - 1, 1)};
  const char *path = in_folder("large.npz");
  ok(fopo_npz_save(path, a, 2, 0));
  int before = fopo_threads();
  for (int threads = 1; threads <= 7; threads += 2) {
    fopo_archive archive;
    fopo_threads_set(threads);
    ok(fopo_npz_load(&archive, path));
    same_array(&archive.items[0], &a[0]);
    same_array(&archive.items[1], &a[1]);
    fopo_archive_done(&archive);
    for (size_t at = 1000; at < 8 * N - 1000; at += 3 * N + (size_t)threads) {
      FILE *f = fopen(path, "r+b");
      fseek(f, (long)at, SEEK_SET);
      int byte = fgetc(f);
      fseek(f, (long)at, SEEK_SET);
      fputc(byte ^ 16, f);
      fflush(f);
      refused(fopo_npz_load(&archive, path), FOPO_ERR_FORMAT, "is damaged: CRC error");
      fseek(f, (long)at, SEEK_SET);
      fputc(byte, f);
      fclose(f);
    }
  }
  fopo_threads_set(before);
  assert_int_equal(truncate(path, 4 * N), 0);
  fopo_archive archive;
  assert_true(fopo_npz_load(&archive, path) != FOPO_OK);
  assert_int_equal(unlink(path), 0);
}

/* Replaces every `from` in the file by `to`, of the same length. */
static void patch(const char *path, const char *from, const char *to, size_t length) {
  size_t n;
  FREED(free) unsigned char *bytes = slurp(path, &n);
  for (size_t i = 0; i + length <= n; i++) {
    if (memcmp(bytes + i, from, length) == 0) memcpy(bytes + i, to, length);
  }
  spit(path, bytes, n);
}

TEST(bad_archives) {
  fopo_archive archive;
  uint32_t seven = 7;
  fopo_array two[2] = {fopo_array_of("aa", FOPO_U32, &seven, 1, 1, 1),
                       fopo_array_of("bb", FOPO_U32, &seven, 1, 1, 1)};
  const char *path = in_folder("two.npz");
  ok(fopo_npz_save(path, two, 2, 0));
  patch(path, "bb.npy", "aa.npy", 6);
  assert_int_not_equal(fopo_npz_load(&archive, path), FOPO_OK);
  says("two.npz");

  ok(fopo_npz_save(path, two, 2, 0));
  patch(path, "bb.npy", "bb.pkl", 6);
  refused(fopo_npz_load(&archive, path), FOPO_ERR_FORMAT, "'bb.pkl' is not a .npy");

  ok(fopo_npz_save(path, two, 2, 0));
  patch(path, "(1,)", "(2,)", 4); /* caught by the sizes, before the CRC */
  refused(fopo_npz_load(&archive, path), FOPO_ERR_FORMAT, "member 'aa'");
  says("claims");

  ok(fopo_npz_save(path, two, 2, 0));
  patch(path, "\n\x07\0\0\0", "\n\x08\0\0\0", 5);
  refused(fopo_npz_load(&archive, path), FOPO_ERR_FORMAT, "CRC");

  refused(fopo_npz_load(&archive, in_folder("absent.npz")), FOPO_ERR_FILE, "absent.npz");
  says("No such file");
  assert_int_equal(fopo_npz_load(&archive, folder), FOPO_ERR_FILE);
  spit(in_folder("text.npz"), "not a zip\n", 10);
  assert_int_equal(fopo_npz_load(&archive, in_folder("text.npz")), FOPO_ERR_FORMAT);

  assert_int_equal(fopo_npz_save(path, two, 0, 0), FOPO_ERR_ARGUMENT);
  two[1] = two[0];
  refused(fopo_npz_save(path, two, 2, 0), FOPO_ERR_ARGUMENT, "two members named 'aa'");
}

/* An archive by libzip: names and contents as they are. */
static const char *zip_of(const char *const *names, size_t n, const char *contents, size_t size,
                          int method) {
  static char path[128];
  int code;
  snprintf(path, sizeof path, "%s", in_folder("foreign.npz"));
  zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
  assert_non_null(zip);
  for (size_t i = 0; i < n; i++) {
    zip_source_t *source = zip_source_buffer(zip, contents, size, 0);
    zip_int64_t at = zip_file_add(zip, names[i], source, ZIP_FL_ENC_UTF_8);
    assert_true(at >= 0);
    assert_int_equal(zip_set_file_compression(zip, (zip_uint64_t)at, method, 0), 0);
  }
  assert_int_equal(zip_close(zip), 0);
  return path;
}

TEST(odd_archives) {
  fopo_archive archive;
  char long_name[90];
  memset(long_name, 'n', sizeof long_name);
  strcpy(long_name + 80, ".npy");
  const char *const one[] = {"a.npy"}, *const too_long[] = {long_name}, *const no_npy[] = {".npy"};
  refused(fopo_npz_load(&archive, zip_of(too_long, 1, "x", 1, ZIP_CM_STORE)), FOPO_ERR_FORMAT,
          "is longer than");
  refused(fopo_npz_load(&archive, zip_of(no_npy, 1, "x", 1, ZIP_CM_STORE)), FOPO_ERR_FORMAT,
          "is not a .npy array");
  refused(fopo_npz_load(&archive, zip_of(one, 1, "x", 1, ZIP_CM_STORE)), FOPO_ERR_FORMAT,
          "member 'a' is not a .npy array");
  if (zip_compression_method_supported(ZIP_CM_BZIP2, 1)) {
    char zeros[300] = {0};
    refused(fopo_npz_load(&archive, zip_of(one, 1, zeros, sizeof zeros, ZIP_CM_BZIP2)),
            FOPO_ERR_FORMAT, "uses compression method 12");
  }
  /* without members, and with more than are read */
  static const char empty[22] = "PK\5\6";
  spit(in_folder("empty.npz"), empty, sizeof empty);
  refused(fopo_npz_load(&archive, in_folder("empty.npz")), FOPO_ERR_FORMAT, "holds 0 members");
  enum { MANY = 10001 };
  static char names[MANY][16];
  static const char *all[MANY];
  for (int i = 0; i < MANY; i++) {
    snprintf(names[i], sizeof names[i], "%d.npy", i);
    all[i] = names[i];
  }
  refused(fopo_npz_load(&archive, zip_of(all, MANY, "", 0, ZIP_CM_STORE)), FOPO_ERR_FORMAT,
          "holds 10001 members");

  uint32_t seven = 7;
  fopo_array three[3], bare = fopo_array_of("", FOPO_U32, &seven, 1, 1, 1);
  for (int i = 0; i < 3; i++) {
    three[i] = fopo_array_of(i < 2 ? "a" : "b", FOPO_U32, &seven, 1, 1, 1);
  }
  const char *path = in_folder("three.npz");
  refused(fopo_npz_save(path, three, 3, 0), FOPO_ERR_ARGUMENT, "two members named 'a'");
  refused(fopo_npz_save(path, &bare, 1, 0), FOPO_ERR_ARGUMENT, "has no name");
  three[1].ndim = 7;
  assert_int_equal(fopo_npz_save(path, three, 3, 0), FOPO_ERR_ARGUMENT);
  /* one .npy array is told from an archive */
  ok(fopo_npy_save(in_folder("one.npy"), &bare));
  refused(fopo_npz_load(&archive, in_folder("one.npy")), FOPO_ERR_FORMAT, "is one .npy array");
  /* and so are files that were cut, and others, by how they begin */
  static const struct {
    const char *bytes, *words;
  } others[] = {{"", "it is empty; an .npz is needed here"},
                {"PK\3\4 and so on", "begins as an .npz and was cut off after 14 bytes"},
                {"user,item\n1,2\n", "it is text, \"user,item\" ...; an .npz is needed"},
                {"<html>", "a page that says why a download failed"},
                {"\x1f\x8b\x08", "is packed by gzip"},
                {"\x89HDF\r\n", "is HDF5"},
                {"PAR1", "is Parquet"},
                {"\x80\x04\x95", "a pickle of Python"},
                {"\1\2\3", "is of no known format"}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    spit(in_folder("other.npz"), others[i].bytes, strlen(others[i].bytes));
    refused(fopo_npz_load(&archive, in_folder("other.npz")), FOPO_ERR_FORMAT, others[i].words);
  }
  /* text of no length is one zero byte */
  fopo_array text = fopo_array_text("t", "");
  assert_true(text.itemsize == 1);
}

/* ---- conversion ---- */

static fopo_archive one_array(fopo_dtype type, const void *data, size_t n) {
  fopo_archive archive = {fopo_alloc(1, sizeof(fopo_array)), 1};
  archive.items[0] = fopo_array_of("x", type, NULL, 1, n, 1);
  archive.items[0].data = fopo_alloc(n, fopo_dtype_size(type));
  memcpy(archive.items[0].data, data, n * fopo_dtype_size(type));
  return archive;
}

static int converts(fopo_dtype from, double value, fopo_dtype to) {
  union {
    float f;
    double d;
    int32_t i;
    int64_t l;
    uint8_t b;
    uint32_t u;
    uint64_t w;
  } x = {0};
  switch (from) {
  case FOPO_F32: x.f = (float)value; break;
  case FOPO_F64: x.d = value; break;
  case FOPO_I32: x.i = (int32_t)value; break;
  case FOPO_I64: x.l = (int64_t)value; break;
  case FOPO_U32: x.u = (uint32_t)value; break;
  case FOPO_U64: x.w = (uint64_t)value; break;
  default: x.b = (uint8_t)value; break;
  }
  fopo_archive archive = one_array(from, &x, 1);
  fopo_array *a;
  int status = fopo_archive_need(&a, &archive, "x.npz", "x", to, 1);
  assert_int_equal(status, a != NULL ? FOPO_OK : FOPO_ERR_FORMAT);
  int equal =
      a != NULL && a->type == to && a->itemsize == fopo_dtype_size(to) && element(a, 0) == value;
  if (a == NULL) says("x.npz: 'x' holds");
  fopo_archive_done(&archive);
  return equal;
}

TEST(conversions) {
  /* Powers of two: a type holds one exactly or not at all. */
  static const double least[] = {-0x1p127, -0x1p1000, -0x1p31, -0x1p63, 0, 0, 0, 0};
  static const double most[] = {0x1p127, 0x1p1000, 0x1p30, 0x1p62, 128, 0x1p31, 0x1p63, 1};
  for (int from = FOPO_F32; from <= FOPO_BOOL; from++) {
    for (int to = FOPO_F32; to <= FOPO_BOOL; to++) {
      double values[] = {0, 1, 128, -8, most[from], least[from]};
      for (size_t i = 0; i < 6; i++) {
        double v = values[i];
        if (v < least[from] || v > most[from]) continue;
        if (converts((fopo_dtype)from, v, (fopo_dtype)to) != (v >= least[to] && v <= most[to])) {
          fail_msg("type %d to %d: %g", from, to, v);
        }
      }
    }
  }
  assert_false(converts(FOPO_F64, 1e40, FOPO_F32));
  assert_false(converts(FOPO_F64, 1.5, FOPO_I64));
  assert_false(converts(FOPO_I32, -1, FOPO_U32));
  assert_false(converts(FOPO_F64, (double)NAN, FOPO_I32));
  double inf = HUGE_VAL;
  DONE(fopo_archive_done) fopo_archive archive = one_array(FOPO_F64, &inf, 1);
  fopo_array *a;
  fopo_memory_fail_after(0, 0);
  assert_int_equal(fopo_archive_need(&a, &archive, "x.npz", "x", FOPO_F32, 1), FOPO_ERR_MEMORY);
  fopo_memory_fail_after(-1, 0);
  assert_null(a);
  ok(fopo_archive_need(&a, &archive, "x.npz", "x", FOPO_F32, 1));
  assert_int_equal(fopo_archive_need(&a, &archive, "x.npz", "x", FOPO_F32, 2), FOPO_ERR_FORMAT);
  says("1 dimensions instead of 2");
  assert_int_equal(fopo_archive_need(&a, &archive, "x.npz", "y", FOPO_F32, -1), FOPO_ERR_FORMAT);
  says("no member 'y'");
  assert_int_equal(fopo_archive_need(&a, &archive, "x.npz", "x", FOPO_BYTES, -1), FOPO_ERR_FORMAT);
}

/* ---- failures of the system ---- */

TEST(old_file_survives) {
  static float large[20000];
  fopo_array small = fopo_array_of("x", FOPO_F32, f4, 1, 6, 1);
  fopo_array big = fopo_array_of("x", FOPO_F32, large, 1, 20000, 1);
  const char *npz = in_folder("old.npz"), *npy = in_folder("bare.npy");
  size_t n, again;
  ok(fopo_npz_save(npz, &small, 1, 0));
  ok(fopo_npy_save(npy, &small));
  unsigned char *before = slurp(npz, &n);
  size_t files = files_in_folder(), blocks = fopo_memory_in_use().blocks;

  struct rlimit limit, tight;
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &limit);
  for (rlim_t room = 0; room < 80000; room += 4096) {
    tight = (struct rlimit){room, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    int one = fopo_npz_save(npz, &big, 1, 0), two = fopo_npy_save(npy, &big);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(one, FOPO_ERR_FILE);
    assert_int_equal(two, FOPO_ERR_FILE);
    says("cannot write");
    says("File too large");
  }
  unsigned char *after = slurp(npz, &again);
  assert_int_equal(n, again);
  assert_memory_equal(before, after, n);
  free(before);
  free(after);
  assert_int_equal(files_in_folder(), files);
  assert_int_equal(fopo_memory_in_use().blocks, blocks);

  assert_int_equal(fopo_npz_save("/dev/full", &small, 1, 0), FOPO_ERR_FILE);
  assert_int_equal(fopo_npy_save(folder, &small), FOPO_ERR_FILE);
  refused(fopo_npz_save(in_folder("no/such.npz"), &small, 1, 0), FOPO_ERR_FILE, "no such folder");
}

TEST(interrupted) {
  fopo_array small = fopo_array_of("x", FOPO_F32, f4, 1, 6, 1);
  const char *path = in_folder("whole.npz");
  DONE(fopo_archive_done) fopo_archive archive;
  fopo_array array;
  ok(fopo_npz_save(path, &small, 1, 0));
  ok(fopo_npy_save(in_folder("bare.npy"), &small));
  size_t files = files_in_folder(), blocks = fopo_memory_in_use().blocks;
  fopo_interrupt_request();
  assert_int_equal(fopo_npz_load(&archive, path), FOPO_ERR_INTERRUPTED);
  assert_int_equal(fopo_npz_save(path, &small, 1, 0), FOPO_ERR_INTERRUPTED);
  assert_int_equal(fopo_npy_load(&array, in_folder("bare.npy")), FOPO_ERR_INTERRUPTED);
  assert_int_equal(fopo_npy_save(in_folder("bare.npy"), &small), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
  assert_int_equal(files_in_folder(), files);
  assert_int_equal(fopo_memory_in_use().blocks, blocks);
  ok(fopo_npz_load(&archive, path));
}

/* Who lacks memory is told so, also where numbers become others: then it may be tried again. */
TEST(array_without_memory) {
  const uint32_t numbers[] = {7, 8, 9};
  fopo_array array = fopo_array_of("x", FOPO_U32, numbers, 1, 3, 1);
  fopo_archive archive;
  ok(fopo_npy_save(in_folder("numbers.npy"), &array));
  int status = FOPO_ERR_MEMORY;
  for (long fault = 0; status != FOPO_OK; fault++) {
    fopo_memory_fail_after(fault, 0);
    status = fopo_array_load(&archive, in_folder("numbers.npy"), FOPO_F32);
    fopo_memory_fail_after(-1, 0);
    if (status != FOPO_OK) assert_int_equal(status, FOPO_ERR_MEMORY);
  }
  assert_true(((const float *)archive.items->data)[2] == 9);
  fopo_archive_done(&archive);
}

int main(void) { return run_all(make_folder, remove_folder); }
