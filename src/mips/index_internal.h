/* What a kind of index implements; private to mips/.
 *
 * A new kind is a file index_NAME.c that defines fopo_index_kind_NAME and a constructor declared in
 * mips/index.h, and one row of FOPO_INDEX_KINDS. Searching, loading, refreshing and the
 * facts then go through its functions. */
#ifndef FOPO_MIPS_INDEX_INTERNAL_H
#define FOPO_MIPS_INDEX_INTERNAL_H

#include <pthread.h>

#include "core/npz.h"
#include "mips/index.h"
#include "mips/scan.h"

typedef struct {
  const char *name;
  int exhaustive; /* 1: see fopo_index_facts */
  int finds_sets; /* 1: search also takes scores = NULL, and then returns ids in ascending order */
  int leaves_out; /* 1: search finds nothing that ix->without leaves out; 0: it knows nothing of it
                   */

  /* As fopo_index_search, with checked arguments and the lock held. Adds to ix->scored. */
  int (*search)(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                size_t k);
  void (*free)(fopo_index *ix); /* ix->impl, which may be NULL or half-built */
  void (*about)(fopo_index_facts *facts, const fopo_index *ix);

  /* save writes the members of fopo_index_members and the kind's own. load reads the latter, after
   * fopo_index_load has checked the former; it may move arrays out of the archive. */
  int (*save)(const fopo_index *ix, const char *path);
  int (*load)(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items);

  /* A fresh index over the same items, as they are now, with the same options. */
  int (*rebuild)(fopo_index **fresh, const fopo_index *ix);

  /* Optional, NULL if the kind has no such thing. Called with the lock held. */
  int (*set_ef)(fopo_index *ix, size_t ef);
  int (*set_budget)(fopo_index *ix, size_t budget);
  void (*order)(uint32_t *order, float *norms, const fopo_index *ix); /* as fopo_index_order */
} fopo_index_kind;

#define FOPO_INDEX_KINDS(X) X(exact) X(norm) X(hnsw) X(hybrid) X(clusters)

#define FOPO_INDEX_KIND_DECLARE(name) extern const fopo_index_kind fopo_index_kind_##name;
FOPO_INDEX_KINDS(FOPO_INDEX_KIND_DECLARE)

struct fopo_index {
  const fopo_index_kind *kind;
  fopo_matrix items; /* not owned */
  float max_norm;    /* the largest |beta|, rounded up */
  double build_seconds;
  uint64_t version; /* of impl: unique among all structures of the process */
  size_t scored, queries;
  fopo_without without; /* of the search that is made */
  pthread_mutex_t lock; /* held during a search */
  size_t shared;        /* owners beside the one who made it */
  void *impl;           /* the kind's structure */
};

/* Checks the items and makes an index without impl. Unless norms is NULL, *norms [items.rows]
 * becomes their norms, rounded up: the caller frees it; NULL on failure. */
int fopo_index_begin(fopo_index **ix, const fopo_index_kind *kind, fopo_matrix items,
                     float **norms);

/* Ends a constructor or a loader: passes the status on, and frees the index unless it is FOPO_OK.
 */
int fopo_index_end(fopo_index **ix, int status);

/* The members that every saved index begins with. Their values are in `header`, which must outlive
 * `arrays`. */
enum { FOPO_INDEX_MEMBERS = 4 };
typedef struct {
  uint64_t version, fingerprint;
  uint64_t items[2]; /* rows, cols */
} fopo_index_header;
void fopo_index_members(fopo_array arrays[FOPO_INDEX_MEMBERS], fopo_index_header *header,
                        const fopo_index *ix);

/* Reads a member that is one number, at most `max`. */
int fopo_index_number(uint64_t *value, fopo_archive *archive, const char *path, const char *name,
                      uint64_t max);

/* The scan of a norm index: its order, norms and limit. Owned by the index. */
const fopo_scan *fopo_index_norm_scan(const fopo_index *ix);

#endif
