/* What a run remembers from visit to visit of its contexts: the candidates of each context, for as
 * many visits as they serve (refresh = n), and the smoothed share of the policy's mass inside the
 * candidates, by which an adaptive epsilon is chosen.
 *
 * The sets lie where the steps run, so that a step whose candidates are kept uploads none; how
 * often each has served is known on the host, which decides what is searched. Both are functions of
 * the seed and of the visits alone. Nothing counts before fopo_candidate_cache_commit
 * says that a batch was made, so one that was interrupted or refused may be made again with the
 * same bits. A trainer has its own, saves it with its checkpoint, and lends it to its gradient. */
#ifndef FOPO_LEARN_CANDIDATE_CACHE_H
#define FOPO_LEARN_CANDIDATE_CACHE_H

#include "core/npz.h"
#include "learn/proposal.h"

/* To be read; changed by the functions below alone. {0} is empty. */
typedef struct {
  size_t N, K;          /* room for the candidates of N contexts, K each; 0: none is kept */
  uint32_t *ids;        /* [N, K] as fetched; owned */
  uint32_t *counts;     /* [N] how many of K were found, as fetched; owned */
  uint32_t *served;     /* [N] visits that the set has served, 0: there is none; owned */
  fopo_device *device;  /* not owned; */
  uint32_t *sets;       /* there [N, K], */
  uint32_t *set_counts; /* and [N]: what steps use; on the CPU ids and counts themselves */
  uint64_t batches;     /* counted with an adaptive epsilon */
  double head; /* smoothed share of pi inside the candidates; of no meaning before a batch */
} fopo_candidate_cache;

void fopo_candidate_cache_done(fopo_candidate_cache *v); /* accepts {0}, and leaves it */

/* ---- candidates that are kept ---- */

/* Bytes for N contexts of K candidates: 4 N (K + 2). */
uint64_t fopo_candidate_cache_bytes(size_t N, size_t K);

/* Makes room on the device and the host, and forgets all sets unless the room was the same before.
 * Refused with a sentence where memory does not suffice. */
int fopo_candidate_cache_reserve(fopo_candidate_cache *v, fopo_device *device, size_t N, size_t K);

/* Whether a set has served its visits, or was never searched. */
int fopo_candidate_cache_expired(const fopo_candidate_cache *v, uint32_t row, size_t refresh);

/* Copies ids and counts of the sets of the contexts rows [B]; all are device pointers. */
int fopo_candidate_cache_store(fopo_candidate_cache *v, const fopo_candidate_sets *sets,
                               const uint32_t *rows, size_t B);
int fopo_candidate_cache_load(const fopo_candidate_sets *sets, const fopo_candidate_cache *v,
                              const uint32_t *rows, size_t B);

/* ids and counts become what the device has. */
int fopo_candidate_cache_fetch(fopo_candidate_cache *v);

/* *to, which is {0}, becomes v with its sets on another device; v's own memory on the host is lent
 * to it. On failure *to is {0}. Then either `fopo_candidate_cache_detach` ends one of the two, and
 * the other owns what was lent. */
int fopo_candidate_cache_attach(fopo_candidate_cache *to, fopo_candidate_cache *v,
                                fopo_device *device);
void fopo_candidate_cache_detach(fopo_candidate_cache *v);

/* ---- an adaptive epsilon ---- */

/* eps = 1, which asks no index, while 1 - head, the share of pi outside the candidates, is near 1
 * or nothing is known yet; from then on eps = floor. Nothing between: there a step pays for its
 * candidates and also for uniform draws, whose weights are the larger the fewer they are.
 * (Measured, not proved: scripts/studies/adaptive.lua. Where much of pi stays outside, a fixed one
 * can be better.)
 */
double fopo_candidate_cache_epsilon(const fopo_candidate_cache *v, const fopo_proposal *q);

/* How many contexts of the next batch of B get candidates: all, none, or, while epsilon is 1, a few
 * every so many batches, which are a probe. They are searched anew, and that is no visit. */
size_t fopo_candidate_cache_n_with_candidates(const fopo_candidate_cache *v, const fopo_proposal *q,
                                              size_t B);

/* The epsilon of the next batch's draws for the contexts that are asked: that above, or, where the
 * batch is a probe, one at which draws of both kinds are enough to measure the share. */
double fopo_candidate_cache_draw_epsilon(const fopo_candidate_cache *v, const fopo_proposal *q);

/* ---- both ---- */

/* The batch `rows` [B] was made with q, whose epsilon is that of the batch; head_mass is the mean
 * over the contexts that had candidates, n_with_candidates of them (0: none had). Of an adaptive
 * epsilon it counts where the batch is a probe: head <- s head + (1 - s) head_mass, s the
 * smoothing. */
void fopo_candidate_cache_commit(fopo_candidate_cache *v, const fopo_proposal *q,
                                 const uint32_t *rows, size_t B, double head_mass,
                                 size_t n_with_candidates);

/* Whether what a batch came to is to be known before it is counted: it is a probe, or some of its
 * sets are due. Any other may be counted at once, and be taken back, the latest first. */
int fopo_candidate_cache_must_sync(const fopo_candidate_cache *v, const fopo_proposal *q,
                                   const uint32_t *rows, size_t B);
void fopo_candidate_cache_rollback(fopo_candidate_cache *v, const fopo_proposal *q,
                                   const uint32_t *rows, size_t B);

/* ---- files ---- */

enum { FOPO_CANDIDATE_CACHE_ARRAYS = 5 }; /* the most that describe gives */

/* Borrowed descriptions of the state, as fetched, for a checkpoint; how many. */
size_t fopo_candidate_cache_describe(fopo_array *a, const fopo_candidate_cache *v);

/* Checks the state in a file against N contexts and P items and makes room for it in v, which keeps
 * its own state until `take`. A file without a set, or without a share, is right: none is known. */
int fopo_candidate_cache_check(fopo_candidate_cache *v, fopo_device *device, fopo_archive *archive,
                               const char *path, const fopo_proposal *q, size_t N, size_t P);

/* Takes over what was checked. Fails only where the device does, and then no set is known. */
int fopo_candidate_cache_restore(fopo_candidate_cache *v, const fopo_archive *archive,
                                 const fopo_proposal *q);

#endif
