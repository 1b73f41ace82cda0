/* Reading archives of arrays, through libzip; npz_write.c writes them.
 *
 * The central directory is checked as a whole first (count, names, methods, sizes against the
 * length of the file, memory). Then each member is read once, a stored one directly into the
 * array's block; libzip compares size and CRC-32 at its end. Large stored members are read by
 * several threads, each with a handle of its own, and their CRC-32 is combined here. Sizes are
 * those of the central directory, because some versions of Python write 0xffffffff into local
 * headers. */
#include "core/npz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zip.h>
#include <zlib.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/npy.h"
#include "core/status.h"
#include "core/threads.h"

enum {
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

int fopo_npz_unique_names(const fopo_array *items, size_t n, const char *path, int code) {
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
  if (n < 1 || n > FOPO_NPZ_MEMBERS_MOST) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s holds %lld members; 1 to %d are read", path, (long long)n,
                     FOPO_NPZ_MEMBERS_MOST);
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
  int status = fopo_npz_unique_names(archive->items, archive->n, path, FOPO_ERR_FORMAT);
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
  if (code == ZIP_ER_NOZIP && fopo_file_begins(path, "\x93NUMPY")) {
    return fopo_fail(
        FOPO_ERR_FORMAT,
        "%s is one .npy array, which fopo.array.load reads, and an .npz is needed here", path);
  }
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
