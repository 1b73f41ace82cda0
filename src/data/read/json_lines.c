/* JSON lines: an object a line, as GoodReads, Amazon and Yelp publish their reviews. Every reader
 * of tables reads them; this row has those that no other row recognises by their keys. */
#include "core/status.h"
#include "data/read/table.h"

static int sniff(fopo_text *t, const fopo_read_options *o) {
  return o->separator == 0 && fopo_table_is_json(t);
}

static int roles(fopo_table *r) { return fopo_table_roles_by_name(r); }

static int read_json(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  if (sniff(t, o)) return fopo_table_read(d, t, o, roles);
  return fopo_fail(FOPO_ERR_FORMAT, "%s does not hold JSON lines: its first line is no object",
                   t->path);
}

const fopo_reader fopo_reader_json = {.name = "json",
                                      .what =
                                          "JSON lines, an object a line; its keys are the columns",
                                      .has_columns = 1,
                                      .sniff = sniff,
                                      .read = read_json,
                                      .roles = roles};
