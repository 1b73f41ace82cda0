/* A file that should be an .npz and is none: what it looks like, by its first bytes. */
#ifndef FOPO_CORE_FOREIGN_H
#define FOPO_CORE_FOREIGN_H

/* Fails with FOPO_ERR_FORMAT and the sentence. */
int fopo_foreign_refuse(const char *path);

#endif
