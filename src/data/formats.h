/* What the two tables of readers share (data/read/readers.h and data/logs/readers.h). */
#ifndef FOPO_DATA_FORMATS_H
#define FOPO_DATA_FORMATS_H

#include <stddef.h>
#include <stdint.h>

/* The row that format = "..." names. name(i) is the name of row i, NULL behind the last. *row is
 * SIZE_MAX if format is NULL or "auto". FOPO_ERR_ARGUMENT lists the names there are. */
int fopo_format_find(size_t *row, const char *format, const char *(*name)(size_t i));

#endif
