#include "core/foreign.h"

#include <string.h>
#include <unistd.h>

#include "core/input.h"
#include "core/status.h"

enum { FIRST = 24 };

static const struct {
  const char *magic, *what;
} known[] = {{"\x93NUMPY", "is one .npy array, which fopo.array.load reads"},
             {"\x1f\x8b", "is packed by gzip; gunzip unpacks it"},
             {"\x89HDF", "is HDF5"},
             {"PAR1", "is Parquet"},
             {"\x80", "looks like a pickle of Python"},
             {"<", "looks like XML, or like a page that says why a download failed"}};

/* Whether the bytes up to the end of the first line are printable; *n becomes how many they are. */
static int is_text(const char *first, size_t *n) {
  size_t line = 0;
  while (line < *n && first[line] >= ' ' && first[line] < 0x7f) line++;
  int text = line == *n || first[line] == '\n' || first[line] == '\r';
  *n = line;
  return text && line > 0;
}

int fopo_foreign_refuse(const char *path) {
  static const char needed[] =
      "an .npz is needed here, a zip archive as numpy.savez and fopo write";
  char first[FIRST];
  uint64_t length;
  size_t got = 0;
  int fd;
  int status = fopo_open_regular(&fd, &length, path);
  if (status != FOPO_OK) return status;
  int unread = fopo_read_at(fd, first, sizeof first, 0, &got) != 0;
  close(fd);
  if (!unread && got == 0) {
    return fopo_fail(FOPO_ERR_FORMAT, "cannot open %s: it is empty; %s", path, needed);
  }
  if (got >= 4 && memcmp(first, "PK\3\4", 4) == 0) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "cannot open %s: it begins as an .npz and was cut off after %llu bytes, or is "
                     "damaged at its end; copy or download it again",
                     path, (unsigned long long)length);
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t n = strlen(known[i].magic);
    if (got < n || memcmp(first, known[i].magic, n) != 0) continue;
    return fopo_fail(FOPO_ERR_FORMAT, "cannot open %s: it %s; %s", path, known[i].what, needed);
  }
  if (!is_text(first, &got)) {
    return fopo_fail(FOPO_ERR_FORMAT, "cannot open %s: it is of no known format; %s", path, needed);
  }
  return fopo_fail(FOPO_ERR_FORMAT, "cannot open %s: it is text, \"%.*s\" ...; %s", path, (int)got,
                   first, needed);
}
