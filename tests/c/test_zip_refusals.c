/* libzip's calls fail one at a time, and its directory lies: a sentence that names the file,
 * nothing is lost, and the old file is whole. What is optional (further readers of a large member)
 * changes nothing. */
#include <dirent.h>
#include <dlfcn.h>
#include <zip.h>

#include "core/npz.h"
#include "core/threads.h"
#include "folder.h"

/* ---- the calls: these stand before the library's ---- */

static struct {
  const char *call; /* NULL: none fails */
  int after;        /* that many calls succeed before */
  int early;        /* zip_fread gives 0 bytes and not -1 */
} refusal;

typedef void liar(zip_stat_t *s);
static liar *lies; /* changes what the directory says of each member */

static int refuses(const char *call) {
  return refusal.call != NULL && strcmp(call, refusal.call) == 0 &&
         __atomic_fetch_sub(&refusal.after, 1, __ATOMIC_RELAXED) == 0;
}

/* The function of the library; POSIX gives it as a pointer to an object. */
#define NEXT(name)                                                                                 \
  __typeof__(&(name)) next;                                                                        \
  *(void **)&next = dlsym(RTLD_NEXT, #name)

#define REFUSED(type, name, parameters, arguments, failed)                                         \
  type name parameters {                                                                           \
    NEXT(name);                                                                                    \
    return refuses(#name) ? (failed) : next arguments;                                             \
  }

/* The names of the parameters are those of the library, which clang-tidy compares. */
REFUSED(zip_file_t *, zip_fopen_index, (zip_t * archive, zip_uint64_t index, zip_flags_t flags),
        (archive, index, flags), NULL)
REFUSED(zip_int64_t, zip_fread, (zip_file_t * file, void *to, zip_uint64_t n), (file, to, n),
        refusal.early ? 0 : -1)
REFUSED(zip_int8_t, zip_fseek, (zip_file_t * file, zip_int64_t offset, int whence),
        (file, offset, whence), -1)
REFUSED(zip_source_t *, zip_source_filep_create,
        (FILE * file, zip_uint64_t start, zip_int64_t n, zip_error_t *error),
        (file, start, n, error), NULL)
REFUSED(zip_source_t *, zip_source_buffer_fragment,
        (zip_t * archive, const zip_buffer_fragment_t *parts, zip_uint64_t n, int freep),
        (archive, parts, n, freep), NULL)
REFUSED(zip_int64_t, zip_file_add,
        (zip_t * archive, const char *name, zip_source_t *source, zip_flags_t flags),
        (archive, name, source, flags), -1)
REFUSED(int, zip_file_set_dostime,
        (zip_t * archive, zip_uint64_t index, zip_uint16_t time, zip_uint16_t date,
         zip_flags_t flags),
        (archive, index, time, date, flags), -1)
REFUSED(int, zip_set_file_compression,
        (zip_t * archive, zip_uint64_t index, zip_int32_t method, zip_uint32_t flags),
        (archive, index, method, flags), -1)
REFUSED(zip_source_t *, zip_source_function_create,
        (zip_source_callback call, void *payload, zip_error_t *error), (call, payload, error), NULL)

int zip_stat_index(zip_t *archive, zip_uint64_t index, zip_flags_t flags, zip_stat_t *s) {
  NEXT(zip_stat_index);
  int status = refuses("zip_stat_index") ? -1 : next(archive, index, flags, s);
  if (status == 0 && lies != NULL) lies(s);
  return status;
}

/* ---- small archives ---- */

static float numbers[300];

static int save(const char *path, float first, int compress) {
  for (int i = 0; i < 300; i++) numbers[i] = first + (float)i;
  fopo_array arrays[3] = {fopo_array_text("a", "text"),
                          fopo_array_of("b", FOPO_F32, numbers, 2, 10, 10),
                          fopo_array_of("c", FOPO_F32, numbers, 1, 300, 1)};
  return fopo_npz_save(path, arrays, 3, compress);
}

/* The file's last array begins with this number. */
static void holds(const char *path, float first) {
  DONE(fopo_archive_done) fopo_archive archive;
  ok(fopo_npz_load(&archive, path));
  assert_int_equal(archive.n, 3);
  const float *c = fopo_archive_find(&archive, "c")->data;
  assert_true(c[0] == first && c[299] == first + 299);
}

static int entries(void) {
  int n = 0;
  DIR *d = opendir(folder);
  while (readdir(d) != NULL) n++;
  closedir(d);
  return n;
}

TEST(writing) {
  static const char *const names[] = {"zip_source_buffer_fragment", "zip_file_add",
                                      "zip_file_set_dostime", "zip_set_file_compression",
                                      "zip_source_function_create"};
  const char *path = in_folder("w.npz");
  ok(save(path, 1, 0));
  int files = entries();
  size_t blocks = fopo_memory_in_use().blocks;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int status = FOPO_ERR_FILE, after = 0;
    for (; status != FOPO_OK; after++) {
      refusal.call = names[i];
      refusal.after = after;
      status = save(path, 2, after % 2);
      refusal.call = NULL;
      if (status == FOPO_OK) break;
      check_refused(status, FOPO_ERR_FILE, "cannot write", names[i]);
      says(path);
      assert_int_equal(entries(), files);
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
      holds(path, 1);
    }
    assert_true(after >= (i < 4 ? 3 : 1)); /* each of them, for each of the arrays */
    holds(path, 2);
    ok(save(path, 1, 0));
  }
}

TEST(too_many) {
  fopo_array one = fopo_array_text("a", "text");
  refused(fopo_npz_save(in_folder("m.npz"), &one, 0, 0), FOPO_ERR_ARGUMENT, "0 arrays");
  refused(fopo_npz_save(in_folder("m.npz"), &one, 10001, 0), FOPO_ERR_ARGUMENT, "1 to 10000");
}

TEST(reading) {
  static const struct {
    const char *call;
    int early, least; /* zip_fread gives nothing; so many refusals are met at least */
    const char *part;
  } cases[] = {{"zip_stat_index", 0, 6, ""},
               {"zip_fopen_index", 0, 3, "member '"},
               {"zip_source_filep_create", 0, 1, "cannot open"},
               {"zip_fread", 0, 12, "member '"},
               {"zip_fread", 1, 9, "it ends early"}};
  const char *path = in_folder("r.npz");
  size_t blocks = fopo_memory_in_use().blocks;
  ok(save(path, 1, 1));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int met = 0, fired = 1;
    for (int after = 0; fired; after++) {
      fopo_archive archive;
      refusal.call = cases[i].call;
      refusal.after = after;
      refusal.early = cases[i].early;
      int status = fopo_npz_load(&archive, path);
      fired = refusal.after < 0;
      refusal.call = NULL;
      if (!fired || (cases[i].early && status == FOPO_OK)) { /* a member ends with no bytes */
        ok(status);
        fopo_archive_done(&archive);
        continue;
      }
      check_refused(status, FOPO_ERR_FORMAT, cases[i].part, cases[i].call);
      says(path);
      assert_true(archive.items == NULL && archive.n == 0);
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
      met++;
    }
    if (met < cases[i].least) fail_msg("%s: %d refusals", cases[i].call, met);
  }
}

/* ---- the directory ---- */

static void say_nothing(zip_stat_t *s) { s->valid &= ~(zip_uint64_t)ZIP_STAT_COMP_SIZE; }
static void say_more(zip_stat_t *s) { s->comp_method = ZIP_CM_DEFLATE, s->comp_size = 1 << 20; }
static void say_all(zip_stat_t *s) { s->comp_method = ZIP_CM_DEFLATE, s->comp_size = 2000; }
static void say_unlike(zip_stat_t *s) { s->size++; }
static void say_huge(zip_stat_t *s) { s->comp_method = ZIP_CM_DEFLATE, s->size = 100 << 20; }
static void say_locked(zip_stat_t *s) { s->encryption_method = ZIP_EM_AES_128; }
static void say_packed(zip_stat_t *s) { s->comp_method = ZIP_CM_BZIP2; }
static void say_shorter(zip_stat_t *s) {
  if (s->size == 1328) s->size = s->comp_size = 1324; /* of c, which is 128 + 300 * 4 bytes */
}

TEST(lying) {
  static const struct {
    liar *lies;
    const char *part;
  } cases[] = {{say_nothing, "its directory is incomplete"},
               {say_more, "which cannot be in a file"},
               {say_unlike, "which cannot be in a file"},
               {say_huge, "which cannot be in a file"},
               {say_all, "its members overlap"},
               {say_locked, "is encrypted"},
               {say_packed, "uses compression method"},
               {say_shorter, "member 'c'"}};
  const char *path = in_folder("l.npz");
  size_t blocks = fopo_memory_in_use().blocks;
  fopo_archive archive;
  ok(save(path, 1, 0));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t peak = fopo_memory_in_use().peak;
    lies = cases[i].lies;
    int status = fopo_npz_load(&archive, path);
    lies = NULL;
    check_refused(status, FOPO_ERR_FORMAT, cases[i].part, "load");
    assert_true(fopo_memory_in_use().peak - peak < 1 << 20); /* none is taken for what is said */
    says(path);
    assert_int_equal(fopo_memory_in_use().blocks, blocks);
  }
  holds(path, 1);
}

/* ---- large members ---- */

enum { LARGE = 6 << 18 }; /* numbers: 6 MiB, which several threads read */

static void forget_crc(zip_stat_t *s) { s->valid &= ~(zip_uint64_t)ZIP_STAT_CRC; }

/* The status of loading the large member; if it is loaded, all of its numbers are right. */
static int load_large(const char *path) {
  fopo_archive archive;
  int status = fopo_npz_load(&archive, path);
  if (status != FOPO_OK) return status;
  const uint32_t *x = archive.items[0].data;
  uint64_t wrong = 0;
  for (uint32_t i = 0; i < LARGE; i++) wrong |= x[i] ^ (i * 2654435761u);
  assert_int_equal(wrong, 0);
  fopo_archive_done(&archive);
  return FOPO_OK;
}

TEST(large_members) {
  int threads = fopo_threads();
  const char *path = in_folder("large.npz");
  uint32_t *x = fopo_alloc(LARGE, sizeof *x);
  for (uint32_t i = 0; i < LARGE; i++) x[i] = i * 2654435761u;
  fopo_array one = fopo_array_of("x", FOPO_U32, x, 1, LARGE, 1);
  ok(fopo_npz_save(path, &one, 1, 0));
  fopo_free(x);
  size_t blocks = fopo_memory_in_use().blocks;
  fopo_threads_set(4);
  lies = forget_crc; /* without it one thread reads */
  ok(load_large(path));
  lies = NULL;
  /* fewer readers, the same numbers */
  static const char *const more[] = {"zip_fopen_index", "zip_source_filep_create"};
  for (int i = 0; i < 2; i++) {
    for (int after = 1; after < 5; after++) {
      refusal.call = more[i];
      refusal.after = after;
      ok(load_large(path));
      assert_int_equal(refusal.after < 0, after < 4);
    }
  }
  /* a piece that cannot be read */
  static const char *const pieces[] = {"zip_fread", "zip_fseek"};
  for (int i = 0; i < 2; i++) {
    for (int after = i == 0; after < 4; after++) {
      refusal.call = pieces[i];
      refusal.after = after;
      refusal.early = after % 2;
      refused(load_large(path), FOPO_ERR_FORMAT, "cannot be read");
      says("member 'x'");
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
    }
  }
  refusal.call = NULL;
  ok(load_large(path));
  fopo_threads_set(threads);
}

int main(void) { return run_all(make_folder, remove_folder); }
