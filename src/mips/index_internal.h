/* What an index kind implements; private to mips/. */
#ifndef FOPO_MIPS_INDEX_INTERNAL_H
#define FOPO_MIPS_INDEX_INTERNAL_H

#include <pthread.h>
#include "core/npz.h"
#include "mips/index.h"

typedef struct {
  const char *kind;
  /* As fopo_index_search, arguments checked and the lock held. */
  int (*search)(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                size_t k);
  void (*free)(fopo_index *ix);                 /* the kind's own part; accepts half-built ones */
  void (*about)(fopo_index_facts *facts, const fopo_index *ix);
  int (*save)(const fopo_index *ix, const char *path);
} fopo_index_kind;

struct fopo_index {
  const fopo_index_kind *kind;
  fopo_matrix items;     /* not owned */
  double build_seconds;
  size_t scored, queries;
  pthread_mutex_t lock;  /* held by a search */
  void *own;             /* the kind's structure */
};

/* Checks the items and makes the common part. */
int fopo_index_begin(fopo_index **ix, const fopo_index_kind *kind, fopo_matrix items);

/* CRC-32 of the items' bytes and sizes, kept in saved indexes. */
uint32_t fopo_index_fingerprint(fopo_matrix items);

/* Loaders of the kinds that can be saved, tried by fopo_index_load on the archive's "kind". */
int fopo_index_norm_load(fopo_index **ix, fopo_archive *archive, const char *path,
                         fopo_matrix items);
int fopo_index_hnsw_load(fopo_index **ix, fopo_archive *archive, const char *path,
                         fopo_matrix items);

#endif
