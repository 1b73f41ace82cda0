/* A block is read behind the unread rest of the last one, so a line is always contiguous; the
 * buffer doubles for a line that is longer than it.
 *
 * Plain files are read by several threads with pread, a piece each. They are not mapped: reading a
 * mapped file that another process truncates would raise SIGBUS, here it ends early.
 *
 * Packed text is unpacked as a stream: members of gzip, and frames of zstd, may follow each other,
 * and zlib and libzstd check length and sum of each. A NUL byte is refused wherever it stands: the
 * file is binary, or text in UTF-16. */
#include "data/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/input.h"
#include "core/memory.h"
#include "core/platform.h"
#include "core/progress.h"
#include "core/replace.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/columnar.h"

/* ---- files that hold no text ---- */

/* As a user may give them to a reader of text: known by their first bytes, and refused with what to
 * do instead. gzip and zstd are not among them: they are read. */

#define PANDAS "python3 -c \"import pandas; pandas."
#define TO_CSV "').to_csv('data.csv', index=False)\""

/* The sentence is: path, `what`, path, `rest`. */
static const struct {
  const char *magic;
  size_t n;
  const char *what, *rest;
} kinds[] = {
    {"PAR1", 4,
     "is Parquet; write it as CSV, as Python does with pandas and pyarrow: " PANDAS
     "read_parquet('",
     TO_CSV},
    {"\x93NUMPY", 6, "is one .npy array and no text; fopo.array.load reads it: fopo.array.load('",
     "')"},
    {"\x89HDF", 4,
     "is HDF5; write its table as CSV, as Python does with pandas and tables: " PANDAS "read_hdf('",
     TO_CSV},
    {"SQLite format 3", 15,
     "is a database of SQLite; write a table of it as CSV: sqlite3 -header -csv ",
     " 'select * from TABLE' > data.csv"},
    {"PK\x03\x04", 4, "is a zip archive; unpack it and read its files: unzip ", ""},
    {"\xfd\x37zXZ", 5, "is packed by xz; unpack it: xz -dk ", ""},
    {"BZh", 3, "is packed by bzip2; unpack it: bzip2 -dk ", ""},
};

/* FOPO_ERR_FORMAT if the first n bytes of the file are those of a known kind, else FOPO_OK. */
static int refuse_foreign(const char *path, const void *first, size_t n) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (n < kinds[i].n || memcmp(first, kinds[i].magic, kinds[i].n) != 0) continue;
    return fopo_fail(FOPO_ERR_FORMAT, "%s %s%s%s", path, kinds[i].what, path, kinds[i].rest);
  }
  return FOPO_OK;
}

enum {
  BLOCK = 1 << 20,       /* bytes of one read: 2 to 5 ms of parsing, within one L2 cache */
  PIECE = 1 << 19,       /* bytes that one thread reads at a time */
  PIECES_MOST = 64,      /* pieces of one read */
  LINE_MOST = 256 << 20, /* bytes of one line; real files stay far below it */
  SLACK = 16,            /* bytes behind the text that may be read */
  SHOWN = 80             /* characters of a malformed field in a sentence */
};

/* ---- sentences ---- */

/* At most SHOWN characters, the unprintable ones as \xNN. */
static void escape(char *out, size_t size, const char *text, size_t n) {
  size_t used = 0;
  for (size_t i = 0; i < n && used + 8 < size; i++) {
    unsigned char c = (unsigned char)text[i];
    if (used >= SHOWN) {
      used += (size_t)snprintf(out + used, size - used, "...");
      break;
    }
    used += (size_t)snprintf(out + used, size - used, c < 32 || c == 127 ? "\\x%02x" : "%c", c);
  }
  out[used] = '\0';
}

/* Lines that end before t->begin; as many as can be read. */
static size_t lines_before(const fopo_text *t) {
  char block[1 << 14];
  size_t lines = 0, got = 1;
  for (uint64_t from = 0; from < t->begin && got > 0; from += got) {
    size_t n = t->begin - from < sizeof block ? (size_t)(t->begin - from) : sizeof block;
    if (fopo_read_at(t->source.fd, block, n, from, &got) != 0) break;
    for (size_t i = 0; i < got; i++) lines += block[i] == (t->lone_cr ? '\r' : '\n');
  }
  return lines;
}

size_t fopo_text_line(const fopo_text *t) { return lines_before(t) + t->line + 1; }

int fopo_text_refuse(const fopo_text *t, size_t line, size_t column, const char *text, size_t n,
                     const char *why) {
  return fopo_text_refuse_in(t, line, column, NULL, text, n, why);
}

int fopo_text_refuse_in(const fopo_text *t, size_t line, size_t column, const char *name,
                        const char *text, size_t n, const char *why) {
  char shown[SHOWN + 16] = "", title[SHOWN + 16] = "", place[SHOWN + 64] = "";
  if (text != NULL) escape(shown, sizeof shown, text, n);
  if (name != NULL) escape(title, sizeof title, name, strlen(name));
  if (column > 0) {
    snprintf(place, sizeof place, name != NULL ? ", column %zu (%s)" : ", column %zu", column,
             title);
  } else if (name != NULL) {
    snprintf(place, sizeof place, ", %s", title);
  }
  return fopo_fail(FOPO_ERR_FORMAT, "%s, line %zu%s: %s%s%s%s", t->path, lines_before(t) + line,
                   place, text != NULL ? "'" : "", shown, text != NULL ? "' " : "", why);
}

int fopo_text_leave_out(char more[FOPO_MALFORMED], size_t *errors, int skip_errors,
                        size_t max_errors, const char *noun, const char *why) {
  if (skip_errors && *errors < max_errors) {
    ++*errors;
    return 1;
  }
  if (!skip_errors) {
    snprintf(more, FOPO_MALFORMED, "%s; skip_errors = true leaves such a %s out", why, noun);
    return 0;
  }
  int one = *errors == 0;
  snprintf(more, FOPO_MALFORMED, "%s; with it there %s %zu malformed %s%s, max_errors is %zu", why,
           one ? "is" : "are", *errors + 1, noun, one ? "" : "s", max_errors);
  return 0;
}

/* ---- bytes ---- */

/* What reading one piece gave. */
typedef struct {
  size_t got;      /* bytes; fewer than asked for: the file ended */
  int error;       /* errno, or 0 */
  const char *nul; /* the first NUL byte, or NULL */
} piece;

static piece read_piece(int fd, char *bytes, size_t n, uint64_t from) {
  piece p = {0};
  p.error = fopo_read_at(fd, bytes, n, from, &p.got);
  p.nul = memchr(bytes, '\0', p.got);
  return p;
}

/* Reads the next n bytes of a stream. */
static int read_stream(fopo_text *t, void *bytes, size_t n, size_t *got, const char **nul) {
  int status = fopo_source_next(&t->source, bytes, n, got);
  if (nul != NULL) *nul = memchr(bytes, '\0', *got);
  t->taken += *got;
  return status;
}

/* Reads the next n bytes of the source, of a file at most PIECES_MOST pieces. *got < n only at its
 * end. *nul is the first NUL byte or NULL; nul itself may be NULL. */
static int read_bytes(fopo_text *t, void *bytes, size_t n, size_t *got, const char **nul) {
  if (t->source.is_stream) return read_stream(t, bytes, n, got, nul);
  piece parts[PIECES_MOST];
  char *to = bytes;
  size_t pieces = n / PIECE > 1 ? (n < (size_t)PIECE * PIECES_MOST ? n / PIECE : PIECES_MOST) : 1;
  size_t size = pieces > 1 ? PIECE : n;
#pragma omp parallel for num_threads(fopo_threads()) if (pieces > 2)
  for (size_t i = 0; i < pieces; i++) {
    parts[i] = read_piece(t->source.fd, to + i * size, size, t->taken + i * size);
  }
  /* A short piece ends the read: the bytes behind it would leave a gap. */
  *got = 0;
  if (nul != NULL) *nul = NULL;
  for (size_t i = 0; i < pieces && *got == i * size; i++) {
    if (parts[i].error != 0) {
      return fopo_fail(FOPO_ERR_FILE, "cannot read %s: %s", t->path, strerror(parts[i].error));
    }
    if (nul != NULL && *nul == NULL) *nul = parts[i].nul;
    *got += parts[i].got;
  }
  t->taken += *got;
  return FOPO_OK;
}

/* ---- packed text ---- */

struct fopo_unpacker {
  unsigned char packed[BLOCK];
  size_t at, n; /* packed [at, n) is to be unpacked */
  z_stream gzip;
  ZSTD_DCtx *zstd;         /* NULL: it is not zstd */
  fopo_columnar *columnar; /* NULL: it is not columnar */
  size_t zstd_left;        /* 0: between two frames */
};

/* The next packed block; it is empty at the end of the source. */
static int feed(fopo_text *t, struct fopo_unpacker *u) {
  u->at = 0;
  return read_bytes(t, u->packed, BLOCK, &u->n, NULL);
}

static int damaged(const fopo_text *t, const char *why) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s: the %s data is damaged: %s", t->path,
                   t->unpacker->zstd != NULL ? "zstd" : "gzip", why);
}

#define CUT_SHORT "it is cut short"

/* After the end of a gzip member: starts the next one; *ended = 1 if only zero padding follows. */
static int next_member(fopo_text *t, struct fopo_unpacker *u, int *ended) {
  do {
    while (u->at < u->n && u->packed[u->at] == 0) u->at++;
    if (u->at < u->n) {
      *ended = 0;
      return inflateReset(&u->gzip) == Z_OK ? FOPO_OK : damaged(t, "the rest cannot be read");
    }
    int status = feed(t, u);
    if (status != FOPO_OK) return status;
  } while (u->n > 0);
  *ended = 1;
  return FOPO_OK;
}

/* Unpacks some of the block at hand to bytes [n]; *got may be 0. *ended = 1 at the end. */
static int inflate_block(fopo_text *t, void *bytes, size_t n, size_t *got, int *ended) {
  struct fopo_unpacker *u = t->unpacker;
  z_stream *z = &u->gzip;
  z->next_in = u->packed + u->at;
  z->avail_in = (uInt)(u->n - u->at);
  z->next_out = bytes;
  z->avail_out = (uInt)n;
  int code = inflate(z, Z_NO_FLUSH); /* even without input: output may be pending */
  u->at = u->n - z->avail_in;
  *got = n - z->avail_out;
  if (code == Z_STREAM_END) return next_member(t, u, ended);
  if (code == Z_OK) return FOPO_OK;
  if (code == Z_MEM_ERROR) return fopo_fail(FOPO_ERR_MEMORY, "no memory to unpack %s", t->path);
  return damaged(t, code == Z_BUF_ERROR ? CUT_SHORT
                    : z->msg != NULL    ? z->msg
                                        : "the rest cannot be read");
}

static int unzstd_block(fopo_text *t, void *bytes, size_t n, size_t *got, int *ended) {
  struct fopo_unpacker *u = t->unpacker;
  ZSTD_inBuffer in = {u->packed, u->n, u->at};
  ZSTD_outBuffer out = {bytes, n, 0};
  int is_end = u->n == 0;
  if (is_end && u->zstd_left == 0) {
    *ended = 1;
    return FOPO_OK;
  }
  u->zstd_left = ZSTD_decompressStream(u->zstd, &out, &in);
  u->at = in.pos;
  *got = out.pos;
  if (ZSTD_isError(u->zstd_left)) return damaged(t, ZSTD_getErrorName(u->zstd_left));
  return is_end && out.pos == 0 ? damaged(t, CUT_SHORT) : FOPO_OK;
}

/* Unpacks up to n bytes; *got = 0 at the end. */
static int unpack_some(fopo_text *t, void *bytes, size_t n, size_t *got) {
  struct fopo_unpacker *u = t->unpacker;
  int status = FOPO_OK, ended = 0;
  if (u->columnar != NULL) {
    return fopo_columnar_next(u->columnar, &t->source, bytes, n, got, &t->taken);
  }
  for (*got = 0; *got == 0 && !ended && status == FOPO_OK;) {
    if (u->at == u->n) status = feed(t, u);
    if (status != FOPO_OK) break;
    status = u->zstd != NULL ? unzstd_block(t, bytes, n, got, &ended)
                             : inflate_block(t, bytes, n, got, &ended);
  }
  return status;
}

static void close_unpacker(struct fopo_unpacker *u) {
  if (u == NULL) return;
  if (u->zstd != NULL) ZSTD_freeDCtx(u->zstd);
  fopo_columnar_close(u->columnar);
  inflateEnd(&u->gzip); /* of a z_stream that is not open it only says so */
  fopo_free(u);
}

/* An unpacker if the source begins as gzip, zstd or columnar blocks do. */
static int open_unpacker(fopo_text *t) {
  const unsigned char *first = t->source.first;
  int is_gzip = memcmp(first, "\x1f\x8b", 2) == 0, is_open = 0;
  int is_zstd = memcmp(first, "\x28\xb5\x2f\xfd", 4) == 0;
  if (!is_gzip && !is_zstd && !fopo_columnar_is(first)) return FOPO_OK;
  struct fopo_unpacker *u = t->unpacker = fopo_alloc(1, sizeof *u);
  if (u != NULL && is_gzip) {
    is_open = inflateInit2(&u->gzip, 15 + 16) == Z_OK;
  } else if (u != NULL && is_zstd) {
    is_open = (u->zstd = ZSTD_createDCtx()) != NULL;
  } else if (u != NULL) {
    is_open = fopo_columnar_open(&u->columnar) == FOPO_OK;
  }
  return is_open ? FOPO_OK : fopo_fail(FOPO_ERR_MEMORY, "no memory to unpack %s", t->path);
}

/* ---- lines ---- */

static int refuse_nul(const fopo_text *t, const char *nul) {
  size_t line = t->line + 1;
  for (const char *p = t->at; (p = memchr(p, '\n', (size_t)(nul - p))) != NULL; p++) line++;
  return fopo_text_refuse(t, line, 0, NULL, 0,
                          "there is a NUL byte: this is not a text file, or it is in UTF-16 "
                          "(save it as UTF-8)");
}

/* Moves the unread text to the start of the buffer and makes sure that one read fits behind it. */
static int reserve(fopo_text *t) {
  size_t kept = t->filled - (size_t)(t->at - t->buffer);
  if (kept > 0) memmove(t->buffer, t->at, kept);
  t->origin += (uint64_t)(t->at - t->buffer);
  t->filled = kept;
  if (t->capacity - kept < t->step) {
    if (kept > LINE_MOST) {
      return fopo_text_refuse(t, t->line + 1, 0, NULL, 0, "the line is longer than 256 MiB");
    }
    size_t capacity = 2 * (t->capacity > t->step ? t->capacity : t->step);
    if (fopo_resize(&t->buffer, capacity + SLACK, 1) != FOPO_OK) return FOPO_ERR_MEMORY;
    t->capacity = capacity;
  }
  t->at = t->buffer;
  return FOPO_OK;
}

/* Lines end in a lone CR if the first block has CR and no LF; CR then becomes LF. */
static void convert_line_ends(fopo_text *t, char *fresh, size_t n, int first) {
  if (first) t->lone_cr = memchr(fresh, '\n', n) == NULL && memchr(fresh, '\r', n) != NULL;
  if (!t->lone_cr) return;
  for (char *p = fresh; (p = memchr(p, '\r', n - (size_t)(p - fresh))) != NULL;) *p++ = '\n';
}

/* Nothing is left of a file that is not packed. It is read up to the length that it had. */
static int is_taken(const fopo_text *t) { return fopo_text_can_seek(t) && t->taken >= t->size; }

static int end_text(fopo_text *t) {
  t->ended = 1;
  if (t->filled > 0 && t->buffer[t->filled - 1] != '\n') t->buffer[t->filled++] = '\n';
  return FOPO_OK;
}

/* Reads one more block behind the text; *got = 0 at the end of the file. */
static int read_block(fopo_text *t, size_t *got) {
  int first = t->origin + t->filled == 0;
  *got = 0;
  if (is_taken(t)) return end_text(t);
  int status = t->capacity - t->filled < t->step ? reserve(t) : FOPO_OK;
  if (status != FOPO_OK) return status;
  char *fresh = t->buffer + t->filled;
  const char *nul = NULL;
  if (t->unpacker != NULL) {
    status = unpack_some(t, fresh, t->step, got);
    if (status == FOPO_OK) nul = memchr(fresh, '\0', *got);
  } else {
    status = read_bytes(t, fresh, t->step, got, &nul);
  }
  if (status != FOPO_OK) return status;
  if (nul != NULL) return refuse_nul(t, nul);
  convert_line_ends(t, fresh, *got, first);
  t->filled += *got;
  return *got == 0 ? end_text(t) : FOPO_OK;
}

static const char *last_line_end(const char *from, size_t n) {
  while (n > 0 && from[n - 1] != '\n') n--;
  return n > 0 ? from + n - 1 : NULL;
}

int fopo_text_more(fopo_text *t) {
  size_t whole = (size_t)(t->stop - t->at);
  int status = is_taken(t) ? FOPO_OK : reserve(t), was_ended = t->ended;
  const char *last = NULL;
  while (status == FOPO_OK && last == NULL && !t->ended) {
    size_t before = t->filled, got = 0;
    status = read_block(t, &got);
    last = last_line_end(t->buffer + before, t->filled - before);
  }
  if (status != FOPO_OK) return status;
  t->stop = last != NULL ? last + 1 : t->at + whole;
  if (was_ended) return FOPO_OK;
  if (t->source.is_stream) return fopo_progress(t->source.what, (double)t->taken, 0);
  /* Progress reaches 100 % once, here: before the end, buffered input may already be all read. */
  uint64_t end = t->limit < t->size ? t->limit : t->size;
  double total = end > t->begin ? (double)(end - t->begin) : 1.0;
  double done = (double)t->taken - (double)t->begin;
  return fopo_progress(t->source.what,
                       t->ended       ? total
                       : done < total ? done
                                      : total * 0.999,
                       total);
}

int fopo_text_seek(fopo_text *t, uint64_t from) {
  t->at = t->stop = t->buffer;
  t->filled = t->line = 0;
  t->ended = 0;
  t->origin = t->taken = t->begin = from - 1;
  int status = fopo_text_more(t);
  if (status != FOPO_OK) return status;
  /* The rest of the line that holds the byte before; a lone line end if `from` begins a line. */
  if (t->at < t->stop) t->at = (const char *)memchr(t->at, '\n', (size_t)(t->stop - t->at)) + 1;
  t->begin = fopo_text_place(t);
  return FOPO_OK;
}

uint64_t fopo_text_place(const fopo_text *t) {
  uint64_t place = t->origin + (uint64_t)(t->at - t->buffer);
  if (place == t->mark) return 0;
  return place < t->size ? place : t->size; /* a line end may have been added to the last line */
}

const char *fopo_text_limit(const fopo_text *t) {
  uint64_t text = (uint64_t)(t->stop - t->buffer);
  if (t->limit >= t->origin + text) return t->stop;
  size_t n = t->limit > t->origin ? (size_t)(t->limit - t->origin) : 0;
  if (n == 0) return t->buffer;
  return (const char *)memchr(t->buffer + n - 1, '\n', (size_t)text - n + 1) + 1;
}

int fopo_text_each_line(fopo_text *t, fopo_take_line *take, void *data) {
  int status = FOPO_OK;
  do {
    while (status >= FOPO_OK && t->at < t->stop) {
      const char *end = memchr(t->at, '\n', (size_t)(t->stop - t->at));
      t->line++;
      status = take(data, t->at, end);
      t->at = end + 1;
    }
    if (status >= FOPO_OK) status = fopo_text_more(t);
  } while (status >= FOPO_OK && t->at < t->stop);
  return status < FOPO_OK ? status : FOPO_OK;
}

int fopo_text_peek(const char **p, const char *stop, const char **at, const char **end) {
  if (*p >= stop) return 0;
  const char *newline = memchr(*p, '\n', (size_t)(stop - *p));
  *at = *p;
  *end = newline;
  while (*end > *at && strchr(" \t\r", (*end)[-1]) != NULL) (*end)--;
  *p = newline + 1;
  return 1;
}

static int is_small(const fopo_text *t) { return fopo_text_can_seek(t) && t->size < BLOCK; }

static void skip_byte_order_mark(fopo_text *t) {
  if (t->stop - t->at < 3 || memcmp(t->at, "\xef\xbb\xbf", 3) != 0) return;
  t->mark = 3;
  t->at += t->mark;
}

/* Room for two blocks, or for all of a small file. */
static int make_buffer(fopo_text *t) {
  t->step = is_small(t) ? (size_t)t->size + 1 : BLOCK;
  t->capacity = 2 * t->step;
  t->buffer = fopo_alloc(t->capacity + SLACK, 1);
  t->at = t->stop = t->buffer;
  return t->buffer != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* What the first bytes tell. */
static int check_first(const fopo_text *t) {
  const unsigned char *first = t->source.first;
  if (memcmp(first, "\xff\xfe", 2) == 0 || memcmp(first, "\xfe\xff", 2) == 0) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s is text in UTF-16; save it as UTF-8", t->path);
  }
  return refuse_foreign(t->path, first, t->source.n_first);
}

int fopo_text_open(fopo_text *t, const char *path) {
  *t = (fopo_text){.limit = UINT64_MAX};
  int status = fopo_source_open(&t->source, path);
  if (status != FOPO_OK) return status;
  t->path = t->source.is_stream || *path == FOPO_SOURCE_KEPT ? t->source.name : path;
  t->size = t->source.size;
  status = check_first(t);
  if (status == FOPO_OK) status = open_unpacker(t);
  if (status == FOPO_OK) status = make_buffer(t);
  if (status == FOPO_OK) status = fopo_text_more(t);
  if (status == FOPO_OK) skip_byte_order_mark(t);
  if (status == FOPO_OK && t->at == t->stop) {
    status = fopo_fail(FOPO_ERR_FORMAT, "%s is empty", t->path);
  }
  if (status != FOPO_OK) fopo_text_close(t);
  return status;
}

int fopo_text_keep(char *path, int *file, fopo_text *t) {
  int status = FOPO_OK, error = (*file = fopo_platform_file()) < 0 ? errno : 0;
  while (status == FOPO_OK && error == 0 && t->at < t->stop) {
    size_t n = (size_t)(t->stop - t->at);
    status = fopo_memory_suffices(n, t->path, "write it to a file");
    if (status == FOPO_OK) error = fopo_write_all(*file, t->at, n);
    t->at = t->stop;
    if (status == FOPO_OK) status = fopo_text_more(t);
  }
  if (status == FOPO_OK && error != 0) {
    status = fopo_fail(FOPO_ERR_FILE, "cannot keep %s: %s", t->path, strerror(error));
  }
  snprintf(path, FOPO_KEPT, "%c%d\n%s", FOPO_SOURCE_KEPT, *file, t->path);
  if (status == FOPO_OK || *file < 0) return status;
  close(*file);
  *file = -1;
  return status;
}

void fopo_text_close(fopo_text *t) {
  close_unpacker(t->unpacker);
  fopo_free(t->buffer);
  if (t->path != NULL) fopo_source_close(&t->source);
  *t = (fopo_text){0};
}
