/* A catalogue dealt out to the ranks: each holds a part of the items (fopo_part of device/ops.h),
 * and no rank holds all. Items are dealt by norm, largest first, one to each rank in turn, so that
 * every part has its share of the head; a part's rows are in the norm order too. Which rank holds
 * place p of that order, and in which row, is then arithmetic. Alone, the part is the whole
 * catalogue in the norm order.
 *
 * All functions but done are collective (comm/comm.h), and fail on all ranks if one fails. */
#ifndef FOPO_RANKS_SHARD_H
#define FOPO_RANKS_SHARD_H

#include "contexts/contexts.h"
#include "data/embed.h"
#include "device/ops.h"
#include "mips/index.h"

typedef struct {
  fopo_part part;    /* its arrays are those below */
  fopo_matrix items; /* [rows, L]; owned, as all that follows */
  float top_norm;    /* the largest of all parts */
  uint32_t *id, *sorted, *guide;
  char *scratch; /* of merges; grown as needed */
  size_t scratch_bytes;
} fopo_shard;

/* The row of an item here (s NULL: all items are), UINT32_MAX: another rank holds it. */
static inline uint32_t fopo_shard_row(const fopo_shard *s, uint32_t item) {
  return s == NULL ? item : fopo_part_row(&s->part, item);
}

/* The rows of one rank's range, which are read twice: `read` fills to [n, cols]. */
typedef struct {
  int (*read)(void *payload, float *to, size_t first, size_t n);
  void *payload;
  size_t rows, cols;
} fopo_shard_source;

/* Deals out a catalogue whose rows the ranks have one range after another: rank 0 the first ones,
 * `mine` [n, L], and so on. Takes 24 bytes an item of the range while it works, beside the part. */
int fopo_shard_deal(fopo_shard *s, fopo_matrix mine);
int fopo_shard_deal_from(fopo_shard *s, const fopo_shard_source *from);
void fopo_shard_done(fopo_shard *s); /* accepts {0} */

/* Deals out the embeddings of fopo_embed_svd, of which no rank ever has all; singular [dim]. The
 * sessions are the same on every rank, or shared out. Beside them a rank takes, with N users, P
 * items and l = dim + oversample, 4 l (2 N + P) / R bytes, and for each of its interactions 8, or
 * 16 by degree. */
int fopo_shard_svd(fopo_shard *s, float *singular, const fopo_sessions *sessions,
                   const fopo_embed_options *options);

/* For tests: the work of a rank between two looks at whether all go on; 0: the default. */
void fopo_shard_svd_slab(size_t multiply_adds);

/* The way back: *range (owned by the caller) becomes this rank's range of the items by id, as equal
 * as can be. */
int fopo_shard_range(fopo_matrix *range, const fopo_shard *s);

/* Writes all items as one .npy, in the order of their ids; *crc is that of its numbers. All ranks
 * write into it, and hold their ranges while they do. */
int fopo_shard_save(uint32_t *crc, const fopo_shard *s, const char *path);

/* rows: those of the items ids [n] that this part holds, ascending; returns how many. Not
 * collective. */
size_t fopo_shard_ids(uint32_t *rows, const fopo_shard *s, const uint32_t *ids, size_t n);

/* *own [Y.rows, part.rows]: the entries of Y whose items this part holds, as its rows. Not
 * collective. */
int fopo_shard_csr(fopo_csr *own, const fopo_shard *s, const fopo_csr *Y);

/* The k best of each of n contexts, of the lists that every rank has found in its own part: ids
 * [n, found] (rows of the part), scores [n, found], counts [n], with found = fopo_shard_found(s,
 * k). They become ids (items), scores [n, k] and counts [n] on every rank: best first, equal scores
 * by the smaller id. status: that of the search which made the lists. */
int fopo_shard_merge(uint32_t *ids, float *scores, uint32_t *counts, fopo_shard *s, size_t n,
                     size_t k, int status);

/* How many items each rank looks for, so that the k best are among them; and of which at most
 * `rows` can be found in this part. */
size_t fopo_shard_found(const fopo_shard *s, size_t k);

/* The k best items of each query Q [B, L] in an index over all items (s NULL) or over this rank's
 * part, of all parts: ids [B, k] of items, scores [B, k], counts [B]. limit and set are those of
 * fopo_index_search_within. */
int fopo_shard_search(uint32_t *ids, float *scores, uint32_t *counts, fopo_shard *s, fopo_index *ix,
                      fopo_matrix Q, size_t k, size_t limit, int set);

/* The same, best first, without the items that each query leaves out; 1 <= k <= all items. */
int fopo_shard_search_without(uint32_t *ids, float *scores, uint32_t *counts, fopo_shard *s,
                              fopo_index *ix, fopo_matrix Q, size_t k, fopo_without without);

/* log_z [n], the logs of this rank's sums, become those of the sums of all ranks; squares [n]
 * (NULL: none), the sums of squared shares of them too. A sum of 0 has the log -INFINITY and the
 * squares 0. status: that of the work which made them. */
int fopo_shard_log_sums(double *log_z, double *squares, size_t n, int status);

/* x [N, L] as fopo_encode makes them, on every rank, from items that are dealt out. Sums are
 * rounded in another order. */
int fopo_shard_contexts(fopo_matrix x, const fopo_sessions *sessions, fopo_shard *s,
                        fopo_encoding how);

#endif
