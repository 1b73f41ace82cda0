/* What off-policy evaluation sums over the items of a context, for one process or for the parts of
 * a catalogue (ranks/shard.h). */
#ifndef FOPO_JUDGE_OPE_JOIN_H
#define FOPO_JUDGE_OPE_JOIN_H

#include <stddef.h>

/* Sums over items or draws of a weight w, all relative to exp(m): w is exp(f) of an item, or
 * exp(f) / q of a draw. */
typedef struct {
  double m;      /* -INFINITY: nothing has been added */
  double z;      /* sum w */
  double zz;     /* sum w^2, of draws alone */
  double zr;     /* sum w r_M; 0 without a model */
  double shown;  /* sum w of actions that the log shows */
  double group;  /* sum w of the logged action's group; 0 without groups */
  double logged; /* f of the logged action; -INFINITY if another rank holds that item */
} fopo_ope_sums;

/* sums [n] of this rank's items become those of all ranks, added in the order of the ranks. status:
 * that of the work which made them. Collective; fails on all ranks if one has failed. */
int fopo_ope_join(fopo_ope_sums *sums, size_t n, int status);

#endif
