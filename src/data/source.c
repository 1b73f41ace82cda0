#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/status.h"

int fopo_source_is_stream(const char *path) {
  struct stat file;
  return strcmp(path, "-") == 0 || *path == FOPO_SOURCE_COMMAND || *path == FOPO_SOURCE_COLUMNAR ||
         (stat(path, &file) == 0 && S_ISFIFO(file.st_mode));
}

/* "a.parquet and 3 more files": the paths are the lines from the fifth on. Where the third is not
 * 0, rows are counted from the first of that row group on. */
static void name_columnar(char *name, size_t size, const char *path) {
  const char *first = path, *from = NULL;
  size_t more = 0;
  for (int line = 1; line < 5; line++) {
    first = strchr(first, '\n') + 1;
    if (line == 2) from = first;
  }
  for (const char *p = first; (p = strchr(p, '\n')) != NULL; p++) more++;
  int n = snprintf(name, size, "%.*s", (int)strcspn(first, "\n"), first);
  if (more > 0 && n < (int)size) {
    snprintf(name + n, size - (size_t)n, " and %zu more file%s", more, more == 1 ? "" : "s");
  } else if (strncmp(from, "0\n", 2) != 0 && n < (int)size) {
    snprintf(name + n, size - (size_t)n, " (row groups from byte %.*s on)",
             (int)strcspn(from, "\n"), from);
  }
}

const char *fopo_source_name(char *name, size_t size, const char *path) {
  int is_command = *path == FOPO_SOURCE_COMMAND;
  if (*path == FOPO_SOURCE_COLUMNAR) {
    name_columnar(name, size, path);
    return name;
  }
  if (*path == FOPO_SOURCE_KEPT) path = strchr(path, '\n') + 1;
  if (strcmp(path, "-") == 0) path = "standard input";
  snprintf(name, size, is_command ? "the command '%.200s'" : "%s", path + is_command);
  return name;
}

/* ---- columnar files ---- */

extern const char fopo_columnar_py[]; /* columnar.py; made by the build */

/* The kinds of pyarrow.dataset, and how their files begin. */
static const char *const kinds[][2] = {{"parquet", "PAR1"}, {"ipc", "ARROW1"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *fopo_columnar_kind(const char *path) {
  for (size_t i = 0; i < KINDS && !fopo_source_is_stream(path); i++) {
    if (fopo_file_begins(path, kinds[i][1])) return kinds[i][0];
  }
  return NULL;
}

int fopo_columnar_are(const char *const *paths, size_t n) {
  const char *kind = fopo_columnar_kind(paths[0]);
  size_t i = 1;
  while (kind != NULL && i < n && fopo_columnar_kind(paths[i]) == kind) i++;
  return kind != NULL && i == n;
}

/* A source is FOPO_SOURCE_COLUMNAR and lines: the words of columnar.py. */
int fopo_columnar_source(char **source, const char *const *paths, size_t n, const char *wanted,
                         uint64_t from, uint64_t to) {
  const char *kind = fopo_columnar_kind(paths[0]);
  size_t size = strlen(kind) + strlen(wanted) + 48, at;
  *source = NULL;
  for (size_t i = 0; i < n; i++) {
    if (strchr(paths[i], '\n') != NULL) {
      return fopo_fail(FOPO_ERR_FORMAT, "a line ends in the name of %s; rename it", paths[i]);
    }
    size += strlen(paths[i]) + 1;
  }
  *source = fopo_alloc(size, 1);
  if (*source == NULL) return FOPO_ERR_MEMORY;
  at = (size_t)snprintf(*source, size, "%c%s\n%s\n%" PRIu64 "\n%" PRIu64, FOPO_SOURCE_COLUMNAR,
                        kind, wanted, from, to);
  for (size_t i = 0; i < n; i++) {
    at += (size_t)snprintf(*source + at, size - at, "\n%s", paths[i]);
  }
  return FOPO_OK;
}

/* The words of the program, ended by NULL, to be freed; they point into the source, which is cut.
 */
static char **columnar_program(char *source) {
  size_t n = 0, lines = 1;
  for (const char *p = source; (p = strchr(p, '\n')) != NULL; p++) lines++;
  char **argv = fopo_alloc(lines + 4, sizeof *argv);
  if (argv == NULL) return NULL;
  const char *python = getenv("PYTHON");
  argv[n++] = (char *)(python != NULL && *python != 0 ? python : "python3");
  argv[n++] = (char *)"-c";
  argv[n++] = (char *)fopo_columnar_py;
  for (char *p = source + 1; p != NULL;) { /* an empty line is a word, too */
    argv[n++] = p;
    p = strchr(p, '\n');
    if (p != NULL) *p++ = 0;
  }
  return argv;
}

/* ---- opening ---- */

static int open_standard_input(fopo_source *s) {
  if (isatty(STDIN_FILENO)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "standard input is the terminal; \"-\" reads what is sent "
                                        "to it, as in: zcat data.csv.gz | fopo script.lua");
  }
  s->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  return s->fd >= 0 ? FOPO_OK : fopo_fail(FOPO_ERR_FILE, "cannot read standard input");
}

/* A pipe without a writer is waited for where it is read. */
static int open_pipe(fopo_source *s, const char *path) {
  s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return s->fd >= 0 ? FOPO_OK : fopo_fail(FOPO_ERR_FILE, "cannot open %s", path);
}

static int open_program(fopo_source *s, char *const argv[]) {
  int status = fopo_pipe_open(&s->program, argv[0], argv);
  s->fd = s->program.out;
  return status;
}

static int open_command(fopo_source *s, const char *command) {
  char *const argv[] = {"sh", "-c", (char *)command, NULL};
  return open_program(s, argv);
}

static int open_columnar(fopo_source *s, const char *path) {
  size_t n = strlen(path) + 1;
  char *own = fopo_alloc(n, 1), **argv = NULL;
  if (own != NULL) argv = columnar_program(memcpy(own, path, n));
  int status = argv != NULL ? open_program(s, argv) : FOPO_ERR_MEMORY;
  if (status == FOPO_ERR_UNAVAILABLE) {
    char why[200];
    snprintf(why, sizeof why, "%s", fopo_error_sentence());
    status = fopo_fail(status, "%s is Parquet or Arrow, which Python reads, and %s", s->name, why);
  }
  fopo_free(argv);
  fopo_free(own);
  return status;
}

static int open_stream(fopo_source *s, const char *path) {
  if (*path == FOPO_SOURCE_COMMAND) return open_command(s, path + 1);
  if (*path == FOPO_SOURCE_COLUMNAR) return open_columnar(s, path);
  return strcmp(path, "-") == 0 ? open_standard_input(s) : open_pipe(s, path);
}

/* The path is the number of an open file, and its name. */
static int open_kept(fopo_source *s, const char *path) {
  struct stat file;
  s->fd = fcntl(atoi(path + 1), F_DUPFD_CLOEXEC, 3);
  if (s->fd < 0 || fstat(s->fd, &file) != 0) {
    return fopo_fail(FOPO_ERR_FILE, "cannot read %s again: %s", s->name, strerror(errno));
  }
  s->size = (uint64_t)file.st_size;
  return FOPO_OK;
}

static int read_first(fopo_source *s) {
  if (s->is_stream) return fopo_source_next(s, s->first, sizeof s->first, &s->n_first);
  int error = fopo_read_at(s->fd, s->first, sizeof s->first, 0, &s->n_first);
  return error == 0 ? FOPO_OK
                    : fopo_fail(FOPO_ERR_FILE, "cannot read %s: %s", s->name, strerror(error));
}

int fopo_source_open(fopo_source *s, const char *path) {
  *s = (fopo_source){.fd = -1, .program = {.out = -1, .errors = -1}};
  fopo_source_name(s->name, sizeof s->name, path);
  snprintf(s->what, sizeof s->what, "reading %s", s->name);
  s->is_stream = fopo_source_is_stream(path);
  int status = s->is_stream                ? open_stream(s, path)
               : *path == FOPO_SOURCE_KEPT ? open_kept(s, path)
                                           : fopo_open_regular(&s->fd, &s->size, path);
  if (status == FOPO_OK) status = read_first(s);
  s->n_given = 0;
  if (status != FOPO_OK) fopo_source_close(s);
  return status;
}

/* At its end, a program must have ended well: what it wrote may lack a part. */
static int end_program(fopo_source *s) {
  char said[400];
  int code = 0, status = fopo_pipe_wait(&s->program, &code, said, sizeof said, s->what);
  s->fd = -1;
  if (status != FOPO_OK || code == 0) return status;
  if (code == 1 && *said != 0) return fopo_fail(FOPO_ERR_FILE, "%s: %s", s->name, said);
  return fopo_fail(FOPO_ERR_FILE, "%s ended with %d%s%s", s->name, code, *said != 0 ? ": " : "",
                   said);
}

int fopo_source_next(fopo_source *s, void *bytes, size_t n, size_t *got) {
  size_t given = s->n_first - s->n_given < n ? s->n_first - s->n_given : n, more = 0;
  memcpy(bytes, s->first + s->n_given, given);
  s->n_given += given;
  int status = FOPO_OK;
  if (given < n && s->fd >= 0) {
    status = fopo_read_stream(s->fd, (char *)bytes + given, n - given, &more, s->what);
    if (status == FOPO_OK && more < n - given && s->program.child > 0) status = end_program(s);
  }
  *got = given + more;
  return status;
}

void fopo_source_close(fopo_source *s) {
  int is_open = *s->name != 0 && s->fd >= 0;
  if (is_open && s->program.out < 0) close(s->fd);
  if (is_open && s->program.out >= 0) fopo_pipe_close(&s->program);
  *s = (fopo_source){.fd = -1};
}
