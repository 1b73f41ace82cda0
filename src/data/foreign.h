/* Files that hold no text, as a user may give them to a reader of text: known by their first bytes,
 * and refused with what to do instead. */
#ifndef FOPO_DATA_FOREIGN_H
#define FOPO_DATA_FOREIGN_H

#include <stddef.h>

enum { FOPO_FOREIGN_BYTES = 16 }; /* of a file, to judge it by */

/* FOPO_ERR_FORMAT if the first n bytes of the file are those of a known kind, else FOPO_OK. */
int fopo_foreign_refuse(const char *path, const void *first, size_t n);

#endif
