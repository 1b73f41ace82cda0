/* Writing archives of arrays: libzip writes to our descriptor through a zip_source of ours, so that
 * replace.c flushes and renames path.tmp.PID. Dates are fixed: the same arrays give the same bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "core/memory.h"
#include "core/npy.h"
#include "core/npz.h"
#include "core/progress.h"
#include "core/replace.h"
#include "core/status.h"

/* ---- what is written ---- */

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
  if (n == 0 || n > FOPO_NPZ_MEMBERS_MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu arrays cannot be saved in %s; 1 to %d can", n, path,
                     FOPO_NPZ_MEMBERS_MOST);
  }
  for (size_t i = 0; i < n; i++) {
    int status = fopo_npy_check(&arrays[i], path);
    if (status != FOPO_OK) return status;
    if (arrays[i].name[0] == '\0') {
      return fopo_fail(FOPO_ERR_ARGUMENT, "array %zu for %s has no name", i + 1, path);
    }
  }
  return fopo_npz_unique_names(arrays, n, path, FOPO_ERR_ARGUMENT);
}

/* ---- the file ---- */

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
    status = fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", path, zip_error_strerror(&error));
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
    status = s->stopped != FOPO_OK
                 ? s->stopped
                 : fopo_fail(FOPO_ERR_FILE, "cannot write %s: %s", path, zip_strerror(zip));
    zip_discard(zip);
  }
out:
  zip_error_fini(&error);
  fopo_free(headers);
  return status;
}

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
  return fopo_replace_end(&r, status, s.error, s.total);
}
