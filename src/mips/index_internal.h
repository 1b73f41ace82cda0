/* What an index kind implements; private to mips/. */
#ifndef FOPO_MIPS_INDEX_INTERNAL_H
#define FOPO_MIPS_INDEX_INTERNAL_H

#include <pthread.h>

#include "core/npz.h"
#include "mips/index.h"
#include "mips/scan.h"

typedef struct {
  const char *kind;
  /* As fopo_index_search, arguments checked and the lock held. Adds to ix->scored. */
  int (*search)(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                size_t k);
  int finds_sets; /* 1: search also takes scores = NULL, and then gives ids by rising id */
  void (*free)(fopo_index *ix); /* the kind's own part; accepts half-built ones */
  void (*about)(fopo_index_facts *facts, const fopo_index *ix);
  int (*save)(const fopo_index *ix, const char *path);
  /* A fresh index over the same items, as they are now, with the same options. */
  int (*rebuild)(fopo_index **fresh, const fopo_index *ix);
  /* What may be changed between searches; the lock is held. NULL: the kind has no such thing. */
  int (*set_ef)(fopo_index *ix, size_t ef);
  int (*set_budget)(fopo_index *ix, size_t budget);
} fopo_index_kind;

struct fopo_index {
  const fopo_index_kind *kind;
  fopo_matrix items; /* not owned */
  float max_norm;    /* the largest |beta|, rounded up */
  double build_seconds;
  uint64_t version; /* of `own`, from a count of all structures */
  size_t scored, queries;
  pthread_mutex_t lock; /* held by a search */
  void *own;            /* the kind's structure */
};

/* Checks the items and makes the common part. Where norms is not NULL, *norms [items.rows] becomes
 * their norms, rounded up: the caller's to free, NULL on failure. */
int fopo_index_begin(fopo_index **ix, const fopo_index_kind *kind, fopo_matrix items,
                     float **norms);

/* What every saved index begins with. The values lie in `head`, which must outlive `arrays`. */
enum { FOPO_INDEX_MEMBERS = 4 };
typedef struct {
  uint64_t version, fingerprint;
  uint64_t items[2]; /* rows, cols */
} fopo_index_head;
void fopo_index_members(fopo_array arrays[FOPO_INDEX_MEMBERS], fopo_index_head *head,
                        const fopo_index *ix);

/* A member that is one number, at most `most`. */
int fopo_index_number(uint64_t *value, fopo_archive *archive, const char *path, const char *name,
                      uint64_t most);

/* The order, the norms and the limit of a norm index, whose property it is. */
const fopo_scan *fopo_index_norm_scan(const fopo_index *ix);

/* Loaders of the kinds, chosen by fopo_index_load after it has checked the members above. They may
 * take arrays out of the archive. */
int fopo_index_norm_load(fopo_index **ix, fopo_archive *archive, const char *path,
                         fopo_matrix items);
int fopo_index_hnsw_load(fopo_index **ix, fopo_archive *archive, const char *path,
                         fopo_matrix items);
int fopo_index_hybrid_load(fopo_index **ix, fopo_archive *archive, const char *path,
                           fopo_matrix items);

#endif
