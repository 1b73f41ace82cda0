/* Reading and writing archives of arrays, through libzip.
 *
 * The central directory is checked as a whole first (count, names, methods, sizes against the
 * length of the file, memory). Then each member is read once, a stored one directly into the
 * array's block; libzip compares size and CRC-32 at its end. Large stored members are read by
 * several threads, each with a handle of its own, and their CRC-32 is combined here. Sizes are
 * those of the central directory, because some versions of Python write 0xffffffff into local
 * headers. */
#include "core/npz.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include "core/foreign.h"
#include "core/memory.h"
#include "core/npy.h"
#include "core/progress.h"
#include "core/replace.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  MEMBERS_MOST = 10000, /* of an archive */
  /* Deflate gives at most 258 bytes for 2 bits: 1 to 1,032. More is a lie in the directory. */
  RATIO_MOST = 1040,
  RATIO_GRACE = 65536,
  READERS = 4,             /* threads that read one member; more would wait for memory */
  PARALLEL_FROM = 4 << 20, /* bytes; smaller members are read by one thread */
  PIECE_LEAST = 1 << 20    /* bytes that a thread reads at a time, at least */
};

fopo_array *fopo_archive_find(const fopo_archive *archive, const char *name) {
  for (size_t i = 0; i < archive->n; i++) {
    if (strcmp(archive->items[i].name, name) == 0) return &archive->items[i];
  }
  return NULL;
}

void fopo_archive_done(fopo_archive *archive) {
  for (size_t i = 0; i < archive->n; i++) fopo_free(archive->items[i].data);
  fopo_free(archive->items);
  *archive = (fopo_archive){0};
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `code` with a sentence if two of the items have the same name. */
static int unique_names(const fopo_array *items, size_t n, const char *path, int code) {
  const char **names = fopo_alloc(n, sizeof *names);
  if (names == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) names[i] = items[i].name;
  qsort(names, n, sizeof *names, by_name);
  int status = FOPO_OK;
  for (size_t i = 1; i < n && status == FOPO_OK; i++) {
    if (strcmp(names[i - 1], names[i]) == 0) {
      status = fopo_fail(code, "%s holds two members named '%s'", path, names[i]);
    }
  }
  fopo_free(names);
  return status;
}

/* The member's name without .npy into array->name. */
static int member_name(fopo_array *array, const char *name, const char *path) {
  size_t n = strlen(name);
  if (n < 5 || strcmp(name + n - 4, ".npy") != 0) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: member '%.60s' is not a .npy array; if this is a zip archive of other "
                     "files, unpack it and read those: unzip %s",
                     path, name, path);
  }
  if (n - 4 >= sizeof array->name) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: the name of member '%.60s...' is longer than %zu bytes",
                     path, name, sizeof array->name - 1);
  }
  memcpy(array->name, name, n - 4);
  return FOPO_OK;
}

/* Checks one entry of the directory of a file of `length` bytes. */
static int check_entry(const zip_stat_t *s, uint64_t length, const char *path) {
  const zip_uint64_t all = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                           ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((s->valid & all) != all) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its directory is incomplete", path);
  }
  if (s->encryption_method != ZIP_EM_NONE) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: member '%.60s' is encrypted", path, s->name);
  }
  if (s->comp_method != ZIP_CM_STORE && s->comp_method != ZIP_CM_DEFLATE) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: member '%.60s' uses compression method %d; stored and deflated are read",
                     path, s->name, s->comp_method);
  }
  int lies = s->comp_size > length || (s->comp_method == ZIP_CM_STORE && s->size != s->comp_size) ||
             (s->size > RATIO_GRACE && s->size / RATIO_MOST > s->comp_size);
  if (lies) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: member '%.60s' claims %llu bytes in %llu, which cannot be in a file of "
                     "%llu; the file is damaged",
                     path, s->name, (unsigned long long)s->size, (unsigned long long)s->comp_size,
                     (unsigned long long)length);
  }
  return FOPO_OK;
}

/* names NULL: all members are wanted. */
static int wanted(const char *name, const char *const *names) {
  for (; names != NULL && *names != NULL; names++) {
    if (strcmp(name, *names) == 0) return 1;
  }
  return names == NULL;
}

/* Checks the whole directory: archive->items gets the names, *total the bytes of the wanted
 * members. */
static int read_directory(fopo_archive *archive, uint64_t *total, zip_t *zip,
                          const char *const *names, uint64_t length, const char *path) {
  zip_int64_t n = zip_get_num_entries(zip, 0);
  if (n < 1 || n > MEMBERS_MOST) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s holds %lld members; 1 to %d are read", path, (long long)n,
                     MEMBERS_MOST);
  }
  archive->items = fopo_alloc((size_t)n, sizeof *archive->items);
  if (archive->items == NULL) return FOPO_ERR_MEMORY;
  archive->n = (size_t)n;
  uint64_t packed = 0;
  for (size_t i = 0; i < archive->n; i++) {
    zip_stat_t s;
    if (zip_stat_index(zip, i, 0, &s) != 0) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s: %s", path, zip_strerror(zip));
    }
    int status = check_entry(&s, length, path);
    if (status == FOPO_OK) status = member_name(&archive->items[i], s.name, path);
    if (status != FOPO_OK) return status;
    packed += s.comp_size; /* at most 10,000 times the file's length: no overflow */
    if (wanted(archive->items[i].name, names) && __builtin_add_overflow(*total, s.size, total)) {
      *total = UINT64_MAX;
    }
  }
  if (packed > length) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its members overlap; the file is damaged", path);
  }
  int status = unique_names(archive->items, archive->n, path, FOPO_ERR_FORMAT);
  if (status != FOPO_OK) return status;
  return fopo_memory_suffices(*total, path, "load it on a machine with more memory");
}

/* A member that is being read. */
typedef struct {
  zip_file_t *file[READERS];
  zip_t *zip[READERS]; /* [0] is the archive's, not owned */
  size_t readers;
  uint64_t at; /* bytes read */
  uLong crc;   /* of these bytes, if there are several readers */
} member;

static int cannot_read(const char *label, const char *why) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s cannot be read: %s; the file is damaged", label, why);
}

static int read_all(zip_file_t *file, const char *label, char *bytes, size_t n) {
  for (size_t done = 0; done < n;) {
    zip_int64_t got = zip_fread(file, bytes + done, n - done);
    if (got <= 0) return cannot_read(label, got < 0 ? zip_file_strerror(file) : "it ends early");
    done += (size_t)got;
  }
  return FOPO_OK;
}

/* Reads the next n bytes, a piece per reader. */
static int read_pieces(member *m, const char *label, char *bytes, size_t n) {
  size_t pieces = n / PIECE_LEAST < 1 ? 1 : n / PIECE_LEAST;
  if (pieces > m->readers) pieces = m->readers;
  int failed[READERS] = {0};
  uLong crc[READERS];
  size_t size = n / pieces;
#pragma omp parallel for num_threads((int)pieces)
  for (size_t i = 0; i < pieces; i++) {
    size_t here = i + 1 < pieces ? size : n - i * size;
    char *to = bytes + i * size;
    failed[i] = zip_fseek(m->file[i], (zip_int64_t)(m->at + i * size), SEEK_SET) != 0 ||
                read_all(m->file[i], label, to, here) != FOPO_OK;
    if (!failed[i]) crc[i] = crc32_z(0, (unsigned char *)to, here);
  }
  for (size_t i = 0; i < pieces; i++) {
    if (failed[i]) return cannot_read(label, zip_file_strerror(m->file[i]));
    size_t here = i + 1 < pieces ? size : n - i * size;
    m->crc = crc32_combine(m->crc, crc[i], (z_off_t)here);
  }
  return FOPO_OK;
}

static int read_member(void *handle, const char *label, void *bytes, size_t n) {
  member *m = handle;
  int status =
      m->readers > 1 ? read_pieces(m, label, bytes, n) : read_all(m->file[0], label, bytes, n);
  m->at += n;
  return status;
}

/* Reads one byte beyond the end, which makes libzip compare size and CRC-32. */
static int verified(member *m, const zip_stat_t *s, const char *label) {
  if (m->readers > 1) {
    if (m->crc == s->crc) return FOPO_OK;
    return fopo_fail(FOPO_ERR_FORMAT, "%s is damaged: CRC error", label);
  }
  char beyond;
  zip_int64_t got = zip_fread(m->file[0], &beyond, 1);
  if (got == 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s is damaged: %s", label,
                   got < 0 ? zip_file_strerror(m->file[0])
                           : "it is longer than its directory says");
}

/* Opens the archive of an open file, which it closes at its end. libzip would lose the file that it
 * opens itself if memory ran out then. NULL: *code says why. */
static zip_t *open_archive(const char *path, int flags, int *code) {
  zip_error_t error;
  zip_error_init(&error);
  FILE *file = fopen(path, "rbe");
  zip_source_t *source = file != NULL ? zip_source_filep_create(file, 0, -1, &error) : NULL;
  zip_t *zip = source != NULL ? zip_open_from_source(source, flags, &error) : NULL;
  *code = file != NULL ? zip_error_code_zip(&error) : ZIP_ER_OPEN;
  if (zip == NULL && source != NULL) zip_source_free(source);
  if (source == NULL && file != NULL) fclose(file);
  zip_error_fini(&error);
  return zip;
}

/* Opens more readers for a large stored member; a failure only means fewer of them. */
static void add_readers(member *m, size_t i, const zip_stat_t *s, const char *path) {
  int fits = s->comp_method == ZIP_CM_STORE && s->size >= PARALLEL_FROM && s->valid & ZIP_STAT_CRC;
  for (; fits && m->readers < READERS && m->readers < (size_t)fopo_threads(); m->readers++) {
    int why;
    zip_t *zip = open_archive(path, ZIP_RDONLY, &why);
    zip_file_t *file = zip != NULL ? zip_fopen_index(zip, i, 0) : NULL;
    m->zip[m->readers] = zip;
    m->file[m->readers] = file;
    if (file != NULL) continue;
    if (zip != NULL) zip_discard(zip);
    return;
  }
}

static int load_member(fopo_array *array, zip_t *zip, size_t i, const char *path,
                       fopo_npy_source source) {
  char label[400];
  zip_stat_t s;
  snprintf(label, sizeof label, "%.300s, member '%s'", path, array->name);
  member m = {.zip = {zip}, .readers = 1, .crc = crc32_z(0, NULL, 0)};
  if (zip_stat_index(zip, i, 0, &s) != 0 || (m.file[0] = zip_fopen_index(zip, i, 0)) == NULL) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: %s", label, zip_strerror(zip));
  }
  add_readers(&m, i, &s, path);
  source.handle = &m;
  source.label = label;
  source.size = s.size;
  int status = fopo_npy_read(array, &source);
  if (status == FOPO_OK) status = verified(&m, &s, label);
  for (size_t r = 0; r < m.readers; r++) {
    zip_fclose(m.file[r]);
    if (r > 0) zip_discard(m.zip[r]);
  }
  return status;
}

enum { TRUNCATED_ZIP = 35 }; /* ZIP_ER_TRUNCATED_ZIP of libzip 1.11, which 1.7 calls no zip */

static int open_for_reading(zip_t **zip, uint64_t *length, const char *path) {
  struct stat file;
  if (stat(path, &file) != 0) {
    return fopo_fail(FOPO_ERR_FILE, "cannot open %s: %s", path, strerror(errno));
  }
  if (!S_ISREG(file.st_mode)) {
    return fopo_fail(FOPO_ERR_FILE, "cannot open %s: it is not a regular file", path);
  }
  *length = (uint64_t)file.st_size;
  int code = 0;
  *zip = open_archive(path, ZIP_RDONLY | ZIP_CHECKCONS, &code);
  if (*zip != NULL) return FOPO_OK;
  if (code == ZIP_ER_NOZIP || code == TRUNCATED_ZIP) return fopo_foreign_refuse(path);
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  int world = code == ZIP_ER_OPEN || code == ZIP_ER_READ || code == ZIP_ER_MEMORY;
  int status = fopo_fail(world ? FOPO_ERR_FILE : FOPO_ERR_FORMAT, "cannot open %s as .npz: %s",
                         path, zip_error_strerror(&error));
  zip_error_fini(&error);
  return status;
}

int fopo_npz_load_some(fopo_archive *archive, const char *path, const char *const *names) {
  *archive = (fopo_archive){0};
  uint64_t length = 0, total = 0, done = 0;
  char what[256];
  zip_t *zip;
  int status = open_for_reading(&zip, &length, path);
  if (status != FOPO_OK) return status;
  snprintf(what, sizeof what, "reading %s", path);
  status = read_directory(archive, &total, zip, names, length, path);
  size_t kept = 0;
  for (size_t i = 0, n = archive->n; i < n && status == FOPO_OK; i++) {
    if (!wanted(archive->items[i].name, names)) continue;
    fopo_npy_source source = {read_member, NULL, NULL, what, 0, &done, total};
    status = load_member(&archive->items[i], zip, i, path, source);
    if (status == FOPO_OK && kept != i) {
      archive->items[kept] = archive->items[i];
      archive->items[i] = (fopo_array){0};
    }
    kept++;
  }
  zip_discard(zip);
  if (status == FOPO_OK) {
    archive->n = kept;
  } else {
    fopo_archive_done(archive);
  }
  return status;
}

int fopo_npz_load(fopo_archive *archive, const char *path) {
  return fopo_npz_load_some(archive, path, NULL);
}

/* ---- writing: what is written ---- */

/* libzip writes to our descriptor through a zip_source of ours, so that replace.c flushes and
 * renames path.tmp.PID. Dates are fixed: the same arrays give the same bytes. */

fopo_array fopo_array_of(const char *name, fopo_dtype type, const void *data, int ndim, size_t rows,
                         size_t cols) {
  fopo_array a = {.type = type,
                  .itemsize = fopo_dtype_size(type),
                  .ndim = ndim,
                  .shape = {ndim >= 1 ? rows : 1, ndim >= 2 ? cols : 1},
                  .data = (void *)data};
  snprintf(a.name, sizeof a.name, "%s", name);
  return a;
}

fopo_array fopo_array_text(const char *name, const char *text) {
  fopo_array a = fopo_array_of(name, FOPO_BYTES, text, 0, 1, 1);
  a.itemsize = text[0] != '\0' ? strlen(text) : 1; /* "" is one zero byte */
  return a;
}

static int check_arrays(const fopo_array *arrays, size_t n, const char *path) {
  if (n == 0 || n > MEMBERS_MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu arrays cannot be saved in %s; 1 to %d can", n, path,
                     MEMBERS_MOST);
  }
  for (size_t i = 0; i < n; i++) {
    int status = fopo_npy_check(&arrays[i], path);
    if (status != FOPO_OK) return status;
    if (arrays[i].name[0] == '\0') {
      return fopo_fail(FOPO_ERR_ARGUMENT, "array %zu for %s has no name", i + 1, path);
    }
  }
  return unique_names(arrays, n, path, FOPO_ERR_ARGUMENT);
}

/* ---- writing: the file ---- */

/* The file that libzip writes to, and the first failure. */
typedef struct {
  int fd;
  uint64_t at, end; /* position and length */
  int error;        /* errno of the first failed write */
  int stopped;      /* status of fopo_progress; not FOPO_OK: interrupted */
  const char *what;
  uint64_t total;
  zip_error_t zip_error;
} sink;

static zip_int64_t sink_write(sink *s, const void *data, zip_uint64_t n) {
  int error = fopo_write_all(s->fd, data, (size_t)n);
  if (error != 0) {
    s->error = error;
    zip_error_set(&s->zip_error, ZIP_ER_WRITE, error);
    return -1;
  }
  s->at += n;
  if (s->at > s->end) s->end = s->at;
  return (zip_int64_t)n;
}

static zip_int64_t sink_seek(sink *s, void *data, zip_uint64_t n) {
  zip_int64_t to = zip_source_seek_compute_offset(s->at, s->end, data, n, &s->zip_error);
  if (to < 0) return -1;
  if (lseek(s->fd, to, SEEK_SET) != to) {
    s->error = errno;
    zip_error_set(&s->zip_error, ZIP_ER_SEEK, s->error);
    return -1;
  }
  s->at = (uint64_t)to;
  return 0;
}

/* The zip_source of the sink: for libzip, an empty file that it may write. */
static zip_int64_t sink_call(void *payload, void *data, zip_uint64_t n, zip_source_cmd_t command) {
  sink *s = payload;
  switch (command) {
  case ZIP_SOURCE_SUPPORTS:
    return zip_source_make_command_bitmap(
        ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
        ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_BEGIN_WRITE,
        ZIP_SOURCE_COMMIT_WRITE, ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_WRITE, ZIP_SOURCE_SEEK_WRITE,
        ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_REMOVE, -1);
  case ZIP_SOURCE_STAT: {
    zip_stat_t *stat = data;
    zip_stat_init(stat);
    stat->valid = ZIP_STAT_SIZE;
    stat->size = s->end;
    return (zip_int64_t)sizeof *stat;
  }
  case ZIP_SOURCE_ERROR: return zip_error_to_data(&s->zip_error, data, n);
  case ZIP_SOURCE_WRITE: return sink_write(s, data, n);
  case ZIP_SOURCE_SEEK_WRITE: return sink_seek(s, data, n);
  case ZIP_SOURCE_TELL_WRITE: return (zip_int64_t)s->at;
  case ZIP_SOURCE_OPEN:
  case ZIP_SOURCE_READ:
  case ZIP_SOURCE_CLOSE:
  case ZIP_SOURCE_FREE:
  case ZIP_SOURCE_SEEK:
  case ZIP_SOURCE_TELL:
  case ZIP_SOURCE_BEGIN_WRITE:
  case ZIP_SOURCE_COMMIT_WRITE:
  case ZIP_SOURCE_ROLLBACK_WRITE:
  case ZIP_SOURCE_REMOVE: return 0;
  default: zip_error_set(&s->zip_error, ZIP_ER_OPNOTSUPP, 0); return -1;
  }
}

static void report(zip_t *zip, double share, void *payload) {
  (void)zip;
  sink *s = payload;
  if (s->stopped == FOPO_OK) {
    s->stopped = fopo_progress(s->what, share * (double)s->total, (double)s->total);
  }
}

static int cancelled(zip_t *zip, void *payload) {
  (void)zip;
  return ((sink *)payload)->stopped != FOPO_OK;
}

/* Header and data of one array become a member; both stay borrowed until the archive is closed. */
static int add_member(zip_t *zip, char header[FOPO_NPY_HEADER_MOST], const fopo_array *a,
                      int compress) {
  char name[sizeof a->name + 4];
  snprintf(name, sizeof name, "%s.npy", a->name);
  zip_buffer_fragment_t parts[2] = {{(zip_uint8_t *)header, fopo_npy_header(header, a)},
                                    {a->data, fopo_npy_bytes(a)}};
  zip_source_t *source = zip_source_buffer_fragment(zip, parts, parts[1].length > 0 ? 2 : 1, 0);
  if (source == NULL) return -1;
  zip_int64_t i = zip_file_add(zip, name, source, ZIP_FL_ENC_UTF_8);
  if (i < 0) {
    zip_source_free(source);
    return -1;
  }
  /* 1980-01-01 00:00, the first date that zip knows. */
  if (zip_file_set_dostime(zip, (zip_uint64_t)i, 0, 1 << 5 | 1, 0) != 0) return -1;
  return zip_set_file_compression(zip, (zip_uint64_t)i, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE,
                                  0);
}

/* What libzip says. It does not say everywhere that it has no memory. */
static const char *reason(zip_error_t *error) {
  return zip_error_code_zip(error) == ZIP_ER_OK ? "no memory" : zip_error_strerror(error);
}

/* Fills the sink; on failure the sink's error or the sentence says why. */
static int write_archive(sink *s, const char *path, const fopo_array *arrays, size_t n,
                         int compress) {
  char *headers = fopo_alloc(n, FOPO_NPY_HEADER_MOST);
  if (headers == NULL) return FOPO_ERR_MEMORY;
  int status = FOPO_OK;
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *target = zip_source_function_create(sink_call, s, &error);
  zip_t *zip =
      target != NULL ? zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, &error) : NULL;
  if (zip == NULL) {
    status = fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", path, reason(&error));
    zip_source_free(target);
    goto out;
  }
  int wrong = zip_register_progress_callback_with_state(zip, 0.002, report, NULL, s) |
              zip_register_cancel_callback_with_state(zip, cancelled, NULL, s);
  for (size_t i = 0; i < n && wrong == 0; i++) {
    wrong = add_member(zip, headers + i * FOPO_NPY_HEADER_MOST, &arrays[i], compress);
  }
  if (wrong == 0) wrong = zip_close(zip);
  if (wrong != 0) { /* closing failed or was not reached, so the archive must be discarded */
    status = s->stopped != FOPO_OK ? s->stopped
                                   : fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", path,
                                               reason(zip_get_error(zip)));
    zip_discard(zip);
  }
out:
  zip_error_fini(&error);
  fopo_free(headers);
  return status;
}

/* Bytes of a member at most, without its data: zip's two heads of it and the array's own. */
enum { A_MEMBER = FOPO_NPY_HEADER_MOST + 256 };

int fopo_npz_save(const char *path, const fopo_array *arrays, size_t n, int compress) {
  int status = check_arrays(arrays, n, path);
  if (status != FOPO_OK) return status;
  fopo_replacement r;
  status = fopo_replace_begin(&r, path);
  if (status != FOPO_OK) return status;
  char what[256];
  snprintf(what, sizeof what, "writing %s", path);
  sink s = {.fd = r.fd, .what = what};
  for (size_t i = 0; i < n; i++) s.total += fopo_npy_bytes(&arrays[i]);
  zip_error_init(&s.zip_error);
  status = write_archive(&s, path, arrays, n, compress);
  zip_error_fini(&s.zip_error);
  return fopo_replace_end(&r, status, s.error, s.total + n * A_MEMBER);
}

/* ---- what the program's own files are told by ---- */

typedef struct {
  const char *own;        /* as the reader of such files calls them */
  const char *what;       /* in a sentence */
  const char *call;       /* what reads them */
  const char *format;     /* how the member `format` begins; NULL: not told by it */
  const char *members[3]; /* that all are in such a file, ended by NULL */
} artefact;

static const artefact artefacts[] = {
    {"checkpoint", "the checkpoint of a trainer", "t:resume(path)", "fopo trainer", {NULL}},
    {"policy", "a policy", "fopo.policy.load(path)", "fopo policy", {NULL}},
    {"index", "an index", "fopo.index.load(path, items)", NULL, {"kind", "fingerprint", NULL}},
    {"log", "a log of events", "fopo.data.logs(path)", NULL, {"actions", "propensities", NULL}},
    {"dataset", "a dataset", "fopo.data.read(path)", NULL, {"indptr", "indices", NULL}}};

static int begins(const fopo_array *a, const char *text) {
  size_t n = strlen(text);
  return a != NULL && a->type == FOPO_BYTES && a->itemsize >= n && memcmp(a->data, text, n) == 0;
}

static int is(const artefact *one, const fopo_archive *archive) {
  if (one->format != NULL) return begins(fopo_archive_find(archive, "format"), one->format);
  for (int i = 0; one->members[i] != NULL; i++) {
    if (fopo_archive_find(archive, one->members[i]) == NULL) return 0;
  }
  return 1;
}

int fopo_archive_check(const fopo_archive *archive, const char *path, const char *wanted) {
  const char *instead = "";
  for (size_t i = 0; i < sizeof artefacts / sizeof *artefacts; i++) {
    if (strcmp(artefacts[i].own, wanted) == 0) instead = artefacts[i].what;
  }
  for (size_t i = 0; i < sizeof artefacts / sizeof *artefacts; i++) {
    const artefact *one = &artefacts[i];
    if (!is(one, archive)) continue;
    if (strcmp(one->own, wanted) == 0) return FOPO_OK;
    return fopo_fail(FOPO_ERR_FORMAT, "%s is %s, not %s; %s reads it", path, one->what,
                     *instead != '\0' ? instead : wanted, one->call);
  }
  return FOPO_OK;
}

/* ---- conversion between number types ---- */

/* Only rounding to float32 may lose information. */

enum { THREADS_FROM = 1 << 20 }; /* numbers; fewer are checked by one thread */

/* Any element: a real, or an integer as its sign and two's complement bits. */
typedef struct {
  int is_real, negative;
  double real;
  uint64_t bits;
} number;

static const char *type_name(fopo_dtype type) {
  static const char *const names[] = {
      [FOPO_F32] = "float32", [FOPO_F64] = "float64", [FOPO_I32] = "int32",
      [FOPO_I64] = "int64",   [FOPO_U8] = "uint8",    [FOPO_U32] = "uint32",
      [FOPO_U64] = "uint64",  [FOPO_BOOL] = "bool",   [FOPO_BYTES] = "text"};
  return names[type];
}

static number number_at(const void *data, fopo_dtype type, size_t i) {
  number x = {0};
  int64_t s = 0;
  switch (type) {
  case FOPO_F32:
    x.is_real = 1;
    x.real = (double)((const float *)data)[i];
    break;
  case FOPO_F64:
    x.is_real = 1;
    x.real = ((const double *)data)[i];
    break;
  case FOPO_I32:
    s = ((const int32_t *)data)[i];
    x.bits = (uint64_t)s;
    break;
  case FOPO_I64:
    s = ((const int64_t *)data)[i];
    x.bits = (uint64_t)s;
    break;
  case FOPO_U32: x.bits = ((const uint32_t *)data)[i]; break;
  case FOPO_U64: x.bits = ((const uint64_t *)data)[i]; break;
  case FOPO_U8:
  case FOPO_BOOL:
  case FOPO_BYTES: x.bits = ((const uint8_t *)data)[i]; break;
  }
  x.negative = s < 0;
  return x;
}

/* Sets the integer of a real; 0 if it has a fraction or does not fit. */
static int integral(number *x) {
  if (!x->is_real) return 1;
  if (!(x->real >= -0x1p63 && x->real < 0x1p64) || x->real != trunc(x->real)) return 0;
  x->negative = x->real < 0;
  x->bits = x->negative ? (uint64_t)(int64_t)x->real : (uint64_t)x->real;
  return 1;
}

static double as_real(number x) {
  return x.is_real ? x.real : x.negative ? (double)(int64_t)x.bits : (double)x.bits;
}

/* Stores x as element i; 0 if it does not fit the type. */
static int store_number(void *data, fopo_dtype type, size_t i, number x) {
  if (type == FOPO_F64) {
    ((double *)data)[i] = as_real(x);
    return 1;
  }
  if (type == FOPO_F32) {
    double real = as_real(x);
    float single = (float)real;
    ((float *)data)[i] = single;
    return isfinite(single) || !isfinite(real);
  }
  if (!integral(&x)) return 0;
  int64_t s = (int64_t)x.bits;
  switch (type) {
  case FOPO_I32:
    ((int32_t *)data)[i] = (int32_t)s;
    return x.negative ? s >= INT32_MIN : x.bits <= INT32_MAX;
  case FOPO_I64: ((int64_t *)data)[i] = s; return x.negative || x.bits <= INT64_MAX;
  case FOPO_U32: ((uint32_t *)data)[i] = (uint32_t)x.bits; return x.bits <= UINT32_MAX;
  case FOPO_U64: ((uint64_t *)data)[i] = x.bits; return !x.negative;
  case FOPO_U8: ((uint8_t *)data)[i] = (uint8_t)x.bits; return x.bits <= UINT8_MAX;
  case FOPO_BOOL: ((uint8_t *)data)[i] = (uint8_t)x.bits; return x.bits <= 1;
  default: return 0;
  }
}

/* Changes the type without a copy if only the sign differs and no top bit is set, as usual for
 * index arrays. 1 if that was enough. */
static int relabel(fopo_array *a, fopo_dtype type) {
  size_t n = fopo_array_count(a);
  if ((a->type == FOPO_I32 && type == FOPO_U32) || (a->type == FOPO_U32 && type == FOPO_I32)) {
    const uint32_t *x = a->data;
    uint32_t any = 0;
#pragma omp parallel for simd num_threads(n > THREADS_FROM ? fopo_threads() : 1) reduction(| : any)
    for (size_t i = 0; i < n; i++) any |= x[i];
    if (any >> 31) return 0;
  } else if ((a->type == FOPO_I64 && type == FOPO_U64) ||
             (a->type == FOPO_U64 && type == FOPO_I64)) {
    const uint64_t *x = a->data;
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++) any |= x[i];
    if (any >> 63) return 0;
  } else if (a->type != type) {
    return 0;
  }
  a->type = type;
  return 1;
}

static int convert(fopo_array *a, fopo_dtype type, const char *path) {
  if (relabel(a, type)) return FOPO_OK;
  if (a->type == FOPO_BYTES || type == FOPO_BYTES) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: '%s' holds %s instead of %s", path, a->name,
                     type_name(a->type), type_name(type));
  }
  size_t n = fopo_array_count(a);
  void *fresh = fopo_alloc(n, fopo_dtype_size(type));
  if (fresh == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    number x = number_at(a->data, a->type, i);
    if (store_number(fresh, type, i, x)) continue;
    fopo_free(fresh);
    return fopo_fail(FOPO_ERR_FORMAT, "%s: '%s' holds %.17g at element %zu, which is no %s", path,
                     a->name, as_real(x), i + 1, type_name(type));
  }
  fopo_free(a->data);
  a->data = fresh;
  a->type = type;
  a->itemsize = fopo_dtype_size(type);
  return FOPO_OK;
}

int fopo_archive_need(fopo_array **a, fopo_archive *archive, const char *path, const char *name,
                      fopo_dtype type, int ndim) {
  fopo_array *found = fopo_archive_find(archive, name);
  *a = NULL;
  if (found == NULL) return fopo_fail(FOPO_ERR_FORMAT, "%s has no member '%s'", path, name);
  if (ndim >= 0 && found->ndim != ndim) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: '%s' has %d dimensions instead of %d", path, name,
                     found->ndim, ndim);
  }
  int status = convert(found, type, path);
  if (status == FOPO_OK) *a = found;
  return status;
}

int fopo_archive_number(void *value, fopo_archive *archive, const char *path, const char *name,
                        fopo_dtype type) {
  fopo_array *a;
  int status = fopo_archive_need(&a, archive, path, name, type, 0);
  if (status != FOPO_OK) return status;
  memcpy(value, a->data, fopo_dtype_size(type));
  return FOPO_OK;
}

int fopo_archive_text(char *out, size_t size, fopo_archive *archive, const char *path,
                      const char *name) {
  fopo_array *a;
  int status = fopo_archive_need(&a, archive, path, name, FOPO_BYTES, 0);
  if (status != FOPO_OK) return status;
  snprintf(out, size, "%.*s", (int)strnlen(a->data, a->itemsize), (const char *)a->data);
  return FOPO_OK;
}

/* ---- one array in a file of its own ---- */

static int is_npz(const char *path) {
  size_t n = strlen(path);
  return n >= 4 && strcmp(path + n - 4, ".npz") == 0;
}

static int read_npy(fopo_archive *archive, const char *path) {
  archive->items = fopo_alloc(1, sizeof *archive->items);
  if (archive->items == NULL) return FOPO_ERR_MEMORY;
  int status = fopo_npy_load(archive->items, path);
  archive->n = status == FOPO_OK ? 1 : 0;
  return status;
}

static int read_one(fopo_archive *archive, const char *path, fopo_dtype type) {
  int status = is_npz(path) ? fopo_npz_load(archive, path) : read_npy(archive, path);
  if (status != FOPO_OK) return status;
  if (archive->n != 1) {
    status = fopo_archive_check(archive, path, "an array");
    if (status != FOPO_OK) return status;
    return fopo_fail(
        FOPO_ERR_FORMAT,
        "%s has %zu members; an array is read from a .npy, or from an .npz with one member", path,
        archive->n);
  }
  return convert(archive->items, type, path);
}

int fopo_array_load(fopo_archive *archive, const char *path, fopo_dtype type) {
  *archive = (fopo_archive){0};
  int status = read_one(archive, path, type);
  if (status != FOPO_OK) fopo_archive_done(archive);
  return status;
}

int fopo_array_save(const char *path, const fopo_array *array) {
  return is_npz(path) ? fopo_npz_save(path, array, 1, 0) : fopo_npy_save(path, array);
}
