/* What a run remembers from batch to batch: the candidates of each context, which serve several of
 * its visits (refresh = n), the smoothed share of the policy's mass inside the candidates, from
 * which an adaptive epsilon follows, and how many norms hold the mass (plan/mass.h).
 *
 * The candidates lie on the device, so that a step that finds them here uploads none; how many
 * visits each set has served is known on the host, which decides what is searched. Both are
 * functions of the seed and of the visits alone. A batch changes them when it is committed and not
 * before, so a batch that was interrupted or refused can be repeated with the same bits. A trainer
 * owns a cache, saves it in its checkpoint, and attaches it to its gradient for each slice. */
#ifndef FOPO_PLAN_CANDIDATE_CACHE_H
#define FOPO_PLAN_CANDIDATE_CACHE_H

#include "core/npz.h"
#include "plan/mass.h"
#include "plan/proposal.h"

/* To be read; changed by the functions below alone. {0} is empty. */
typedef struct {
  size_t N, K;          /* capacity: N contexts of K candidates; 0: none are kept */
  uint32_t *ids;        /* [N, K] on the host, as of the last fetch; owned */
  uint32_t *counts;     /* [N] how many of K were found, as of the last fetch; owned */
  uint32_t *served;     /* [N] visits that the candidates have served; 0: there are none; owned */
  fopo_device *device;  /* not owned */
  uint32_t *sets;       /* device [N, K] and */
  uint32_t *set_counts; /* device [N]: what steps use; on the CPU these are ids and counts */
  uint64_t batches;     /* committed with an adaptive epsilon */
  double mass;          /* smoothed share of pi inside the candidates; meaningless at 0 batches */
  uint64_t doubts;      /* probes in a row that must say that the policy, which was lost among its
                         * candidates, is not; 0: none */
  fopo_mass norms;      /* how many of the largest norms are searched, if that follows from mass */
} fopo_candidate_cache;

void fopo_candidate_cache_done(fopo_candidate_cache *cache); /* accepts {0}, and leaves it */

/* ---- candidates ---- */

/* Bytes for N contexts of K candidates: 4 N (K + 2). */
uint64_t fopo_candidate_cache_bytes(size_t N, size_t K);

/* Reserves memory on the device and the host. Forgets all candidates unless the capacity was the
 * same before. Refused with a sentence if memory does not suffice. */
int fopo_candidate_cache_reserve(fopo_candidate_cache *cache, fopo_device *device, size_t N,
                                 size_t K);

/* True if the context has no candidates, or they have served their visits. */
int fopo_candidate_cache_expired(const fopo_candidate_cache *cache, uint32_t row, size_t refresh);

/* The contexts are others now: none has candidates. */
void fopo_candidate_cache_expire(fopo_candidate_cache *cache);

/* Copy ids and counts of the contexts rows [B] into the cache, or from it; device pointers. */
int fopo_candidate_cache_store(fopo_candidate_cache *cache, const fopo_candidate_sets *sets,
                               const uint32_t *rows, size_t B);
int fopo_candidate_cache_load(const fopo_candidate_sets *sets, const fopo_candidate_cache *cache,
                              const uint32_t *rows, size_t B);

/* The sets of all contexts, ids and counts, where they lie on the device. */
fopo_candidate_sets fopo_candidate_cache_sets(const fopo_candidate_cache *cache);

/* Copies the device's candidates to ids and counts. */
int fopo_candidate_cache_fetch(fopo_candidate_cache *cache);

/* *to, which is {0}, becomes the cache with its candidates on another device; both then use the
 * same memory on the host. On failure *to is {0}. Otherwise fopo_candidate_cache_detach must end
 * one of the two, and the other owns the memory. */
int fopo_candidate_cache_attach(fopo_candidate_cache *to, fopo_candidate_cache *cache,
                                fopo_device *device);
void fopo_candidate_cache_detach(fopo_candidate_cache *cache);

/* ---- an adaptive epsilon ---- */

/* eps = 1, which needs no index, while the share of pi outside the candidates, 1 - mass, is near 1
 * or unknown; after that eps = floor. No value between helps: a step would then pay both for its
 * candidates and for uniform draws, whose weights are the larger the fewer they are. But a policy
 * that is lost, and looks at the wrong items, needs both, 0.5: what is to rise is found by uniform
 * draws, and the items that it looks at, which are to fall, are hardly ever among these.
 * (Measured, not proved: scripts/studies/adaptive.lua. If much of pi stays outside, a fixed eps can
 * be better.) */
double fopo_candidate_cache_epsilon(const fopo_candidate_cache *cache, const fopo_proposal *q);

/* How many contexts of the next batch of B get candidates: all, none, or, in every so many batches
 * while epsilon is 1, a few. That is a probe, which measures the mass; its candidates are searched
 * anew, and it counts as no visit. */
size_t fopo_candidate_cache_n_with_candidates(const fopo_candidate_cache *cache,
                                              const fopo_proposal *q, size_t B);

/* The epsilon of the next batch's draws for contexts with candidates: the one above, or for a probe
 * one at which there are enough draws of both kinds to measure the mass. */
double fopo_candidate_cache_draw_epsilon(const fopo_candidate_cache *cache, const fopo_proposal *q);

/* ---- batches ---- */

/* The batch rows [B] counts: candidates grow older by a visit. q has the epsilon of the batch; mass
 * is the mean over its n_with_candidates contexts with candidates. If the epsilon is adaptive and
 * the batch was a probe, mass <- s mass + (1 - s) the batch's, s the smoothing. lost: it earned
 * less than chance, which counts if all its contexts had candidates. */
void fopo_candidate_cache_commit(fopo_candidate_cache *cache, const fopo_proposal *q,
                                 const uint32_t *rows, size_t B, double mass, int lost,
                                 size_t n_with_candidates);

/* True if the batch is a probe or renews candidates, which cannot be rolled back: synchronise
 * before committing it. Any other batch may be committed at once, and rolled back, the latest
 * first. */
int fopo_candidate_cache_must_sync(const fopo_candidate_cache *cache, const fopo_proposal *q,
                                   const uint32_t *rows, size_t B);
void fopo_candidate_cache_rollback(fopo_candidate_cache *cache, const fopo_proposal *q,
                                   const uint32_t *rows, size_t B);

/* ---- files: candidate_cache_file.c ---- */

enum { FOPO_CANDIDATE_CACHE_ARRAYS = 8 }; /* the most that describe gives */

/* Borrowed descriptions of the state, as of the last fetch, for a checkpoint; returns how many. */
size_t fopo_candidate_cache_describe(fopo_array *a, const fopo_candidate_cache *cache);

/* Checks the state in a file against N contexts and P items, and reserves memory for it; the cache
 * keeps its own state until restore. A file without candidates, or without a mass, is valid: none
 * is known. */
int fopo_candidate_cache_check(fopo_candidate_cache *cache, fopo_device *device,
                               fopo_archive *archive, const char *path, const fopo_proposal *q,
                               size_t N, size_t P);

/* Restores what was checked. Fails only if the device does, and then no candidates are known. */
int fopo_candidate_cache_restore(fopo_candidate_cache *cache, const fopo_archive *archive,
                                 const fopo_proposal *q);

#endif
