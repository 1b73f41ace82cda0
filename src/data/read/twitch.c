/* JRappaz's Twitch files: user, stream, streamer, start, stop, without a header. Users watch
 * streamers: columns 1 and 3, from the time in column 4 on. */
#include "data/read/table.h"

enum { SAMPLE = 100 }; /* rows that must have this form */

static int is_plain(fopo_field f, int64_t *value) {
  f = fopo_field_trim(f);
  return fopo_parse_plain(value, f.at, f.n);
}

/* 1 if there are five columns of which all but the streamer are integers, and start <= stop. */
static int is_twitch(fopo_table *r) {
  const char *p = r->t->at;
  size_t count, rows = 0, named = 0;
  int64_t user, stream, streamer, start, stop;
  if (r->names != NULL || r->separator != ',' || r->columns != 5) return 0;
  for (; rows < SAMPLE && fopo_table_peek(r, &p, &count); rows++) {
    fopo_field *f = r->fields;
    if (count != 5 || !is_plain(f[0], &user) || !is_plain(f[1], &stream) ||
        !is_plain(f[3], &start) || !is_plain(f[4], &stop) || start > stop) {
      return 0;
    }
    named += !is_plain(f[2], &streamer);
  }
  return rows > 0 && named > 0;
}

static int sniff(fopo_text *t, const fopo_read_options *o) {
  return fopo_table_sniff(t, o, is_twitch);
}

static int roles(fopo_table *r) {
  if (r->columns < 3) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s has %zu columns; Twitch's files have user, stream, "
                     "streamer, start, stop",
                     r->t->path, r->columns);
  }
  if (r->user == FOPO_NO_COLUMN) r->user = 0;
  if (r->item == FOPO_NO_COLUMN) r->item = 2;
  if (r->options->time == NULL && r->columns > 3) r->time = 3;
  return FOPO_OK;
}

static int read_twitch(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  return fopo_table_read(d, t, o, roles);
}

const fopo_reader fopo_reader_twitch = {
    .name = "twitch",
    .what = "user,stream,streamer,start,stop no header: columns 1 and 3, time in 4",
    .has_columns = 1,
    .sniff = sniff,
    .read = read_twitch,
    .roles = roles};
