/* The files that a path stands for: itself, those of a folder, or those that match a pattern. */
#ifndef FOPO_DATA_PATHS_H
#define FOPO_DATA_PATHS_H

#include <stddef.h>

/* *paths: fresh, *n paths one after the other, each ended by '\0'. A pattern has *, ? or [, and no
 * file has it as its name; its files come in the order of their names, byte by byte. So do those of
 * a folder and of the folders in it, but for names that begin with . or _, as the marks of other
 * programs do. FOPO_ERR_FILE if there is none. */
int fopo_paths_find(char **paths, size_t *n, const char *path);

#endif
