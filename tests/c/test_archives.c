/* Files as bytes and as calls of the system: the order of flush and rename, the mode of a file that
 * is replaced, what NumPy and unzip rely on, archives that lie, text that is none. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "core/matrix.h"
#include "core/npy.h"
#include "core/npz.h"
#include "core/replace.h"
#include "folder.h"

/* ---- the order of calls: these stand before the C library's ---- */

static char calls[64];

static void note(const char *call) { strncat(calls, call, sizeof calls - strlen(calls) - 1); }

/* errno of the calls that must fail, or 0; `links`: 1: the next new file loses its name at once. */
static struct { int flush_folder, flush_file, mode, close, disk, status, remove, links; } refusal;

static int refuses(int code) {
  errno = code;
  return code != 0;
}

int fsync(int fd) {
  struct stat s;
  int of_folder = fstat(fd, &s) == 0 && S_ISDIR(s.st_mode);
  note(of_folder ? "folder " : "file ");
  if (refuses(of_folder ? refusal.flush_folder : refusal.flush_file)) return -1;
  return (int)syscall(SYS_fsync, fd);
}

int fchmod(int __fd, mode_t __mode) {
  return refuses(refusal.mode) ? -1 : (int)syscall(SYS_fchmod, __fd, __mode);
}

int close(int __fd) {
  int closed = (int)syscall(SYS_close, __fd);
  return refuses(refusal.close) ? -1 : closed;
}

int fstatvfs(int __fildes, struct statvfs *__buf) {
  (void)__fildes;
  *__buf = (struct statvfs){.f_bavail = 1000, .f_frsize = 1000};
  return refuses(refusal.disk) ? -1 : 0;
}

int fstat(int __fd, struct stat *__buf) {
  return refuses(refusal.status) ? -1 : fstatat(__fd, "", __buf, AT_EMPTY_PATH);
}

int unlink(const char *__name) {
  return refuses(refusal.remove) ? -1 : unlinkat(AT_FDCWD, __name, 0);
}

int flock(int __fd, int __operation) {
  char name[64], path[300] = "";
  snprintf(name, sizeof name, "/proc/self/fd/%d", __fd);
  if (refusal.links > 0 && readlink(name, path, sizeof path - 1) > 0) {
    refusal.links--;
    unlink(path);
  }
  return (int)syscall(SYS_flock, __fd, __operation);
}

/* The names of the parameters are those of the C library, which clang-tidy compares. */
int rename(const char *__old, const char *__new) {
  note("rename ");
  return renameat(AT_FDCWD, __old, AT_FDCWD, __new);
}

/* The data is on disk before it has the name, and the name before the save has succeeded. */
TEST(flushed_before_renamed) {
  fopo_array one = fopo_array_text("x", "some text");
  calls[0] = 0;
  ok(fopo_replace_whole(in_folder("a"), "abc", 3));
  assert_string_equal(calls, "file rename folder ");
  calls[0] = 0;
  ok(fopo_npz_save(in_folder("a.npz"), &one, 1, 0));
  assert_string_equal(calls, "file rename folder ");
  calls[0] = 0;
  ok(fopo_npy_save(in_folder("a.npy"), &one));
  assert_string_equal(calls, "file rename folder ");
}

/* A file that others must not read does not become readable, nor does a link become a file. */
TEST(modes_are_kept) {
  static const mode_t modes[] = {0600, 0640, 0444, 0755};
  struct stat s;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    const char *path = in_folder("kept");
    ok(fopo_replace_whole(path, "a", 1));
    assert_int_equal(chmod(path, modes[i]), 0);
    ok(fopo_replace_whole(path, "bc", 2));
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, modes[i]);
    assert_int_equal(s.st_size, 2);
  }
  mode_t mask = umask(027);
  ok(fopo_replace_whole(in_folder("fresh"), "a", 1));
  umask(mask);
  assert_int_equal(stat(in_folder("fresh"), &s), 0);
  assert_int_equal(s.st_mode & 0777, 0640);
}

/* Links lead from link to link, with paths from their own folders; a circle is refused. */
TEST(links_are_followed) {
  char target[64] = "";
  struct stat s;
  assert_int_equal(mkdir(in_folder("inner"), 0755), 0);
  assert_int_equal(symlink("inner/second", in_folder("first")), 0);
  assert_int_equal(symlink("../third", in_folder("inner/second")), 0);
  ok(fopo_replace_whole(in_folder("first"), "abc", 3)); /* a link to nothing makes the file */
  ok(fopo_replace_whole(in_folder("first"), "abcd", 4));
  assert_int_equal(lstat(in_folder("third"), &s), 0);
  assert_true(S_ISREG(s.st_mode) && s.st_size == 4);
  assert_true(readlink(in_folder("inner/second"), target, sizeof target - 1) > 0);
  assert_string_equal(target, "../third");
  assert_int_equal(symlink(in_folder("third"), in_folder("whole")), 0);
  ok(fopo_replace_whole(in_folder("whole"), "a", 1));
  assert_int_equal(lstat(in_folder("third"), &s), 0);
  assert_int_equal(s.st_size, 1);
  assert_int_equal(symlink("circle", in_folder("circle")), 0);
  refused(fopo_replace_whole(in_folder("circle"), "a", 1), FOPO_ERR_FILE, "symbolic links");
}

/* Paths that are too long, folders, folders that are not there. */
TEST(names_that_cannot_be) {
  char path[2 * FOPO_PATH_MOST];
  memset(path, 'a', sizeof path);
  path[sizeof path - 1] = 0;
  refused(fopo_replace_whole(path, "a", 1), FOPO_ERR_FILE, "too long");
  snprintf(path, sizeof path, "%s/%0300d", folder, 0);
  refused(fopo_replace_whole(path, "a", 1), FOPO_ERR_FILE, "too long");
  refused(fopo_replace_whole(folder, "a", 1), FOPO_ERR_FILE, "not a regular file");
  refused(fopo_replace_whole(in_folder("none/x"), "a", 1), FOPO_ERR_FILE, "no such folder");
  spit(in_folder("plain"), "x", 1);
  refused(fopo_replace_whole(in_folder("plain/x"), "a", 1), FOPO_ERR_FILE, "Not a directory");
  /* a path without a folder is one in the folder at hand */
  FREED(free) char *before = getcwd(NULL, 0);
  assert_int_equal(chdir(folder), 0);
  spit("bare.tmp.999999.0", "x", 1);
  spit("bare.tmp.999999.0x", "x", 1);
  spit("bare.tmp.", "x", 1);
  ok(fopo_replace_whole("bare", "ab", 2));
  assert_int_equal(access("bare.tmp.999999.0", F_OK), -1);
  assert_int_equal(access("bare.tmp.999999.0x", F_OK), 0);
  assert_int_equal(access("bare.tmp.", F_OK), 0);
  assert_int_equal(chdir(before), 0);
}

/* Leftovers that are none: folders of such names stay, and after a thousand of them there is no
 * name for a temporary. */
TEST(no_name_is_left) {
  char name[128];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "%s/full.tmp.%ld.%d", folder, (long)getpid(), i);
    assert_int_equal(mkdir(name, 0755), 0);
  }
  refused(fopo_replace_whole(in_folder("full"), "a", 1), FOPO_ERR_FILE, "File exists");
  assert_int_equal(rmdir(name), 0); /* the last of them */
  ok(fopo_replace_whole(in_folder("full"), "a", 1));
  /* a link that leads to a name that is too long */
  char folder_name[256], target[4000], path[2000];
  memset(folder_name, 'd', 200);
  folder_name[200] = '\0';
  size_t n = (size_t)snprintf(path, sizeof path, "%s", folder);
  for (int i = 0; i < 5; i++) {
    n += (size_t)snprintf(path + n, sizeof path - n, "/%s", folder_name);
    assert_int_equal(mkdir(path, 0755), 0);
  }
  memset(target, 't', sizeof target);
  target[sizeof target - 1] = '\0';
  strcat(path, "/l");
  assert_int_equal(symlink(target, path), 0);
  refused(fopo_replace_whole(path, "a", 1), FOPO_ERR_FILE, "too long");
}

/* What the system refuses, at each call: the old file is whole, and no temporary is left. */
TEST(refusals_of_the_system) {
  const char *path = in_folder("kept");
  ok(fopo_replace_whole(path, "old", 3));
  refusal.flush_file = EIO;
  refused(fopo_replace_whole(path, "new", 3), FOPO_ERR_FILE, "the old file is untouched");
  refusal.close = ENOSPC; /* the first reason is said */
  refused(fopo_replace_whole(path, "new", 3), FOPO_ERR_FILE, "Input/output error");
  refusal.flush_file = 0;
  refused(fopo_replace_whole(path, "new", 3), FOPO_ERR_FILE, "No space left");
  refusal.close = 0;
  refusal.mode = EIO;
  refused(fopo_replace_whole(path, "new", 3), FOPO_ERR_FILE, "Input/output error");
  refusal.mode = EPERM; /* a file system without modes */
  ok(fopo_replace_whole(path, "old", 3));
  refusal.mode = 0;
  refusal.flush_folder = EIO;
  refused(fopo_replace_whole(path, "old", 3), FOPO_ERR_FILE, "its folder could not be flushed");
  refusal.flush_folder = EINVAL; /* a file system without it */
  ok(fopo_replace_whole(path, "old", 3));
  refusal.flush_folder = ENOTSUP;
  ok(fopo_replace_whole(path, "old", 3));
  refusal.flush_folder = 0;
  refusal.links = 2; /* another process takes the new file for left over, twice */
  ok(fopo_replace_whole(path, "old", 3));
  assert_int_equal(refusal.links, 0);
  char bytes[4] = "";
  FILE *f = fopen(path, "rb");
  assert_int_equal(fread(bytes, 1, 3, f), 3);
  fclose(f);
  assert_string_equal(bytes, "old");

  /* a disk that is full, by the unit that fits, and one that does not say how full */
  static const uint64_t sizes[] = {5000, 5000000, 0};
  static const char *const words[] = {"it needs 5.0 kB, 1000.0 kB are free",
                                      "it needs 5.0 MB, 1.0 MB are free",
                                      "it needs more than the 1.0 MB that are free"};
  fopo_replacement r;
  for (int i = 0; i < 3; i++) {
    ok(fopo_replace_begin(&r, path));
    refused(fopo_replace_end(&r, FOPO_OK, ENOSPC, sizes[i]), FOPO_ERR_FILE, words[i]);
  }
  refusal.disk = EIO;
  ok(fopo_replace_begin(&r, path));
  refused(fopo_replace_end(&r, FOPO_OK, ENOSPC, 10), FOPO_ERR_FILE, "No space left");
  refusal.disk = 0;
  ok(fopo_replace_begin(&r, path));
  refusal.status = EIO; /* nor how much was written */
  refused(fopo_replace_end(&r, FOPO_OK, ENOSPC, 10), FOPO_ERR_FILE, "No space left");
  ok(fopo_replace_whole(path, "old", 3)); /* whether the new file has a name yet is not known */
  refusal.status = 0;
  ok(fopo_replace_begin(&r, path));
  assert_int_equal(fopo_replace_end(&r, FOPO_ERR_MEMORY, 0, 10), FOPO_ERR_MEMORY);
  assert_int_equal(access(r.temporary, F_OK), -1);

  /* what a dead process left cannot be removed: the save goes on, and the next one tries again */
  const char *left = in_folder("kept.tmp.999999.0");
  spit(left, "x", 1);
  refusal.remove = EPERM;
  ok(fopo_replace_whole(path, "new", 3));
  assert_int_equal(access(left, F_OK), 0);
  refusal.remove = 0;
  ok(fopo_replace_whole(path, "new", 3));
  assert_int_equal(access(left, F_OK), -1);
}

/* Last, as the program stays confined: paths in and out of the folder, and above its name. */
TEST(confined) {
  static char path[FOPO_PATH_MOST + 10];
  ok(fopo_replace_allowed("/anywhere"));
  refused(fopo_replace_within("/absent/folder"), FOPO_ERR_FILE, "cannot be found");
  ok(fopo_replace_within(folder));
  ok(fopo_replace_allowed(in_folder("a")));
  ok(fopo_replace_allowed(in_folder("new/folder/a")));
  refused(fopo_replace_allowed(folder), FOPO_ERR_FILE, "below"); /* it lies in another */
  snprintf(path, sizeof path, "%s-not", folder);
  assert_int_equal(mkdir(path, 0755), 0);
  strcat(path, "/a");
  refused(fopo_replace_allowed(path), FOPO_ERR_FILE, "below");
  path[strlen(path) - 2] = '\0';
  assert_int_equal(rmdir(path), 0);
  refused(fopo_replace_allowed("/etc/a"), FOPO_ERR_FILE, "below");
  refused(fopo_replace_allowed("relative"), FOPO_ERR_FILE, "below");
  refused(fopo_replace_allowed("absent/x"), FOPO_ERR_FILE, "below");
  refused(fopo_replace_whole("/etc/a", "a", 1), FOPO_ERR_FILE, "below");
  refused(fopo_replace_allowed("absent/../x"), FOPO_ERR_FILE, "below");
  refused(fopo_replace_allowed(in_folder("absent/../../x")), FOPO_ERR_FILE, "below");
  refused(fopo_replace_allowed(in_folder("kept/x/y")), FOPO_ERR_FILE, "below"); /* a file */
  memset(path, 'a', sizeof path);
  path[sizeof path - 1] = '\0';
  refused(fopo_replace_allowed(path), FOPO_ERR_FILE, "below");
  ok(fopo_replace_within("/"));
  ok(fopo_replace_allowed("/etc/a"));
  refused(fopo_replace_allowed(path), FOPO_ERR_FILE, "below / alone");
}

/* ---- bytes ---- */

static size_t load(unsigned char *bytes, size_t most, const char *path) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t n = fread(bytes, 1, most, f);
  fclose(f);
  return n;
}

/* The header of a .npy ends in a newline at a multiple of 64, so that a mapped file is aligned. */
TEST(headers_are_aligned) {
  float x[3] = {1, 2, 3};
  unsigned char bytes[512];
  for (size_t rows = 0; rows <= 3; rows++) {
    for (int ndim = 0; ndim <= 2; ndim++) {
      fopo_array a = fopo_array_of("x", FOPO_F32, x, ndim, rows, 1);
      ok(fopo_npy_save(in_folder("x.npy"), &a));
      size_t n = load(bytes, sizeof bytes, in_folder("x.npy"));
      size_t header = 10 + bytes[8] + 256u * bytes[9];
      assert_int_equal(header % 64, 0);
      assert_int_equal(bytes[header - 1], '\n');
      assert_int_equal(n - header, fopo_npy_bytes(&a));
    }
  }
}

/* Members have the first date that zip knows, so that equal arrays give equal bytes on any day. */
TEST(archives_have_no_date) {
  static unsigned char bytes[4096];
  fopo_array two[] = {fopo_array_text("a", "text"), fopo_array_text("b", "text")};
  ok(fopo_npz_save(in_folder("d.npz"), two, 2, 0));
  size_t n = load(bytes, sizeof bytes, in_folder("d.npz")), found = 0;
  for (size_t i = 0; i + 16 < n; i++) { /* of members, and of the directory's entries */
    if (memcmp(bytes + i, "PK\3\4", 4) != 0 && memcmp(bytes + i, "PK\1\2", 4) != 0) continue;
    const unsigned char *date = bytes + i + (bytes[i + 2] == 3 ? 10 : 12);
    assert_memory_equal(date, "\0\0\x21\0", 4);
    found++;
  }
  assert_int_equal(found, 4);
}

/* A .npy of one text of 32-bit characters, which become UTF-8. */
static int read_text(uint32_t c, char order, fopo_array *a) {
  char head[64], file[256];
  int text = snprintf(head, sizeof head, "{'descr': '%cU1', 'fortran_order': False, 'shape': (), }",
                      order);
  memcpy(file, "\x93NUMPY\1\0", 8);
  file[8] = (char)text;
  file[9] = 0;
  memcpy(file + 10, head, (size_t)text);
  if (order == '>') c = __builtin_bswap32(c);
  memcpy(file + 10 + text, &c, 4);
  spit(in_folder("u.npy"), file, 14 + (size_t)text);
  return fopo_npy_load(a, in_folder("u.npy"));
}

TEST(characters) {
  static const struct {
    uint32_t c;
    const char *bytes; /* NULL: refused */
  } cases[] = {{'x', "x"},
               {0x7f, "\x7f"},
               {0x80, "\xc2\x80"},
               {0x7ff, "\xdf\xbf"},
               {0x800, "\xe0\xa0\x80"},
               {0xd7ff, "\xed\x9f\xbf"},
               {0xd800, NULL},
               {0xdfff, NULL},
               {0xe000, "\xee\x80\x80"},
               {0xffff, "\xef\xbf\xbf"},
               {0x10000, "\xf0\x90\x80\x80"},
               {0x10ffff, "\xf4\x8f\xbf\xbf"},
               {0x110000, NULL},
               {UINT32_MAX, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int big = 0; big < 2; big++) {
      fopo_array a;
      int status = read_text(cases[i].c, "<>"[big], &a);
      if (cases[i].bytes == NULL) {
        refused(status, FOPO_ERR_FORMAT, "not Unicode");
        continue;
      }
      ok(status);
      assert_string_equal((char *)a.data, cases[i].bytes);
      fopo_free(a.data);
    }
  }
}

/* ---- numbers that are none, and memory that is not there ---- */

TEST(infinities_are_found) {
  static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
  float x[6 * 37];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    for (size_t at = 0; at < 6 * 37; at += 5) {
      for (size_t j = 0; j < 6 * 37; j++) x[j] = 3.4e38f;
      x[at] = bad[i];
      refused(fopo_matrix_finite(fopo_matrix_view(x, 6, 37), "x"), FOPO_ERR_NUMERIC, "x has");
      x[at] = 1e-45f;
      ok(fopo_matrix_finite(fopo_matrix_view(x, 6, 37), "x"));
    }
  }
}

int main(void) { return run_all(make_folder, remove_folder); }
