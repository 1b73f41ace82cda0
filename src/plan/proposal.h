/* The proposal q that SNIS draws from: uniform, or the paper's mixture q_{K,eps} of uniform and the
 * softmax kappa over the top-K candidates of an index; or custom, whose draws the caller makes. */
#ifndef FOPO_PLAN_PROPOSAL_H
#define FOPO_PLAN_PROPOSAL_H

#include "device/device.h"
#include "policy/policy.h"

typedef enum {
  FOPO_PROPOSAL_UNIFORM,
  FOPO_PROPOSAL_MIXTURE,
  FOPO_PROPOSAL_CUSTOM
} fopo_proposal_kind;

typedef struct {
  fopo_proposal_kind kind;
  fopo_index *index; /* mixture; not owned; NULL: the automatic one (plan/mass.h) */
  int by_mass;       /* 1: the automatic one even so, and `index` where that would search it all */
  size_t k;          /* K candidates, 1 .. P */
  double epsilon;    /* share of uniform draws, 0 .. 1; 1 never asks the index */
  int stratified;    /* 0: iid draws (Algorithm 1); 1: exactly round(eps S) uniform ones */
  size_t refresh;   /* visits that a context's candidates serve; 0 and 1: searched at every visit */
  int adaptive;     /* 1: a gradient sets epsilon itself (plan/candidate_cache.h); it starts at 1 */
  double floor;     /* adaptive: epsilon is never less, 0 .. 1 */
  double smoothing; /* adaptive: weight of the past in the smoothed mass, 0 .. below 1 */
} fopo_proposal;

#define FOPO_REFRESH_ONCE SIZE_MAX /* candidates of the first visit serve always */

/* Checks the options, the index apart, against a catalogue of P items; the sentence names what does
 * not fit (K > P, eps outside [0, 1]). */
int fopo_proposal_check(const fopo_proposal *q, size_t P);

/* The same, and the index, against a policy's items. If they are dealt out, k counts the items of
 * all parts, and an index holds those of this one. */
int fopo_proposal_check_for(const fopo_proposal *q, const fopo_policy *pi);

/* Draws that a caller has made, ids and logq [B, S] in the contexts rows [B], are of P items, with
 * densities that are numbers; or a refusal that names the first that is not. */
int fopo_proposal_check_draws(const uint32_t *ids, const float *logq, const uint32_t *rows,
                              size_t B, size_t S, size_t P);

/* Whether a draw needs candidates. */
static inline int fopo_proposal_uses_index(const fopo_proposal *q) {
  return q->kind == FOPO_PROPOSAL_MIXTURE && q->epsilon < 1.0;
}

/* Whether the automatic index serves. */
static inline int fopo_proposal_is_automatic(const fopo_proposal *q) {
  return q->kind == FOPO_PROPOSAL_MIXTURE && (q->index == NULL || q->by_mass);
}

/* Whether candidates are kept for later visits. */
static inline int fopo_proposal_keeps(const fopo_proposal *q) {
  return q->kind == FOPO_PROPOSAL_MIXTURE && q->refresh > 1;
}

/* The share of uniform draws among S: eps, but for stratified draws round(eps S) / S, which is what
 * their density has to hold. */
double fopo_proposal_share(const fopo_proposal *q, size_t S);

/* log(share / P), the log density of S draws outside the candidates; INFINITY if there are no
 * candidates. */
float fopo_proposal_floor(const fopo_proposal *q, size_t P, size_t S);

/* One batch of draws on the host, for users' own loops and for tests: ids, logq [B, S] for the
 * queries Q [B, L] of the contexts rows [B]; row b of the sparse scores (NULL: none) is that of
 * query b. Candidates are searched, whatever `refresh` is, and
 * epsilon is the one in q. Without an index one is made for the call, and searched in full. If the
 * items are dealt out it is collective, and every rank gets the draws of one process. */
int fopo_proposal_sample(uint32_t *ids, float *logq, const fopo_proposal *q, const fopo_policy *pi,
                         fopo_matrix Q, const fopo_sparse_scores *sparse, const uint32_t *rows,
                         size_t S, fopo_draw_key key);

#endif
