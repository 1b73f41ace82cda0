/* The measurement that H by mass is decided by (plan/mass.h has the formulas): which step of the
 * ladder keeps enough of the mass of a few contexts, and what share of all of it that is. */
#ifndef FOPO_PLAN_MASS_PROBE_H
#define FOPO_PLAN_MASS_PROBE_H

#include "policy/score.h"
#include "ranks/shard.h"

enum { FOPO_MASS_CONTEXTS = 16 }; /* of a probe, at most */

/* The step of the ladder after h (0: the first one); P from P / 2 on. */
static inline uint64_t fopo_mass_next(uint64_t h, uint64_t P) {
  uint64_t next = h < 1024 ? h + 256 : (h & (h - 1)) == 0 ? h + h / 2 : h / 3 * 4;
  return next > P / 2 ? P : next;
}

/* What a probe has found. */
typedef struct {
  uint64_t wanted;           /* the smallest step that keeps enough */
  double kept;               /* by that step */
  double held, held_at_head; /* of the whole mass, by that step; by the H in use */
  uint64_t rows;
  int complete; /* 1: T_b is that of the whole catalogue */
} fopo_mass_found;

/* The items in descending order of norm. Not owned. */
typedef struct {
  fopo_matrix items;     /* [P, L] */
  const uint32_t *order; /* [P] ids */
  const float *norms;    /* [P] in that order, rounded up */
  fopo_shard *shard;     /* these are the items of a part of the catalogue, and a measurement is
                          * collective; NULL: they are all */
  const fopo_sparse_scores *sparse; /* context b of them belongs to query b; NULL: none */
} fopo_mass_order;

/* Its memory: 2 MB or so, kept from probe to probe. */
typedef struct fopo_mass_probe fopo_mass_probe;

/* Makes *p large enough for queries of L numbers and their top k; *p NULL: there is none yet. */
int fopo_mass_probe_reserve(fopo_mass_probe **p, size_t L, size_t k);
void fopo_mass_probe_free(fopo_mass_probe *p); /* accepts NULL */

/* Measures n <= FOPO_MASS_CONTEXTS queries Q [n, L] of top k <= P against the first `horizon` norms
 * and decides for `keep`; head: the H in use, 0: none. FOPO_ERR_INTERRUPTED after Ctrl-C. Nothing
 * is found, rows = 0, if a score may not be finite; a context whose items are all masked is not
 * counted. Of parts of a catalogue all is scored up to the horizon, for whether a top K is settled
 * is known when the parts have been joined. */
int fopo_mass_measure(fopo_mass_found *found, fopo_mass_probe *p, const fopo_mass_order *order,
                      fopo_matrix Q, size_t k, double keep, uint64_t head, uint64_t horizon);

#endif
