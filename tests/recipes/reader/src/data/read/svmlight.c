/* Lines of SVMlight and LIBSVM, as an example of a reader: "label index:value index:value # note".
 * Line i is user i, an index is an item as it stands, and the label is not looked at. */
#include <string.h>

#include "core/status.h"
#include "data/number.h"
#include "data/pairs.h"
#include "data/read/readers.h"

static const int64_t id_most = UINT32_MAX - 1;

/* The next word of a line: *at moves behind it. Returns its bytes, 0 at the end of the line. */
static size_t next_word(const char **at, const char *end) {
  while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r')) (*at)++;
  const char *start = *at;
  while (*at < end && **at != ' ' && **at != '\t' && **at != '\r') (*at)++;
  return (size_t)(*at - start);
}

/* "12:0.5" as item 12 of the user, with value 0.5. */
static int add_word(fopo_pairs *pairs, fopo_text *t, size_t user, size_t column, const char *word,
                    size_t n, size_t *items) {
  const char *colon = memchr(word, ':', n);
  int64_t item = -1;
  double value = 0;
  if (colon == NULL || !fopo_parse_plain(&item, word, (size_t)(colon - word)) || item < 0 ||
      item > id_most ||
      fopo_parse_real(&value, colon + 1, (size_t)(word + n - colon - 1)) != FOPO_IS_NUMBER) {
    return fopo_text_refuse(t, t->line + 1, column, word, n, "is not index:value");
  }
  if ((size_t)item >= *items) *items = (size_t)item + 1;
  return fopo_pairs_add(pairs, (uint32_t)user, (uint32_t)item, (float)value);
}

static int read_line(fopo_pairs *pairs, fopo_text *t, size_t user, const char *end, size_t *items) {
  const char *at = t->at, *note = memchr(at, '#', (size_t)(end - at));
  if (note != NULL) end = note;
  int status = FOPO_OK;
  size_t column = 1, n = next_word(&at, end); /* the label */
  while (status == FOPO_OK && n > 0 && (n = next_word(&at, end)) > 0) {
    status = add_word(pairs, t, user, ++column, at - n, n, items);
  }
  return status;
}

static int read_svmlight(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  (void)o;
  fopo_pairs pairs = {.with_values = 1};
  size_t users = 0, items = 0;
  /* "12:0.5 " takes about 8 bytes; gzipped text is about 3 times as long as its file. */
  int status =
      fopo_pairs_check_memory(t->path, (double)t->size * (t->unpacker != NULL ? 3 : 1) / 8, 1);
  while (status == FOPO_OK && t->at < t->stop) {
    while (status == FOPO_OK && t->at < t->stop) {
      const char *end = memchr(t->at, '\n', (size_t)(t->stop - t->at));
      status = read_line(&pairs, t, users++, end, &items);
      t->at = end + 1;
      t->line++;
    }
    if (status == FOPO_OK) status = fopo_text_more(t);
  }
  if (status == FOPO_OK) {
    d->users.n = users;
    d->items.n = items;
    status = fopo_pairs_build(d, &pairs, users, items, t->path);
  }
  fopo_pairs_done(&pairs);
  return status;
}

const fopo_reader fopo_reader_svmlight = {
    .name = "svmlight",
    .what = "\"label index:value ...\" a line, as LIBSVM: line i is user i; only by name",
    .read = read_svmlight};
