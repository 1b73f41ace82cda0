/* The blocks that columnar.py sends, as text: the lines of a CSV file. So a Parquet file is read by
 * those who read tables, with their rules, and row i is line i + 1, below the header. */
#ifndef FOPO_DATA_COLUMNAR_H
#define FOPO_DATA_COLUMNAR_H

#include "data/source.h"

typedef struct fopo_columnar fopo_columnar;

/* 1 if the first FOPO_SOURCE_FIRST bytes are those of such blocks. */
int fopo_columnar_is(const unsigned char *first);

int fopo_columnar_open(fopo_columnar **c);
void fopo_columnar_close(fopo_columnar *c); /* accepts NULL */

/* The next lines, as many as have room in bytes [n]; *got = 0 at the end. *taken grows by the bytes
 * read from the source. A line that has no room alone is refused. */
int fopo_columnar_next(fopo_columnar *c, fopo_source *s, char *bytes, size_t n, size_t *got,
                       uint64_t *taken);

#endif
