/* The search of one group of queries, private to mips/: its scratch and its state. */
#ifndef FOPO_MIPS_SCAN_GROUP_H
#define FOPO_MIPS_SCAN_GROUP_H

#include "kernels/kernels.h"
#include "kernels/prefilter.h"
#include "mips/scan.h"
#include "mips/topk.h"

enum {
  FOPO_SCAN_HALF = FOPO_PANEL / 2,
  FOPO_SCAN_TILE = 128,         /* items of one call of `scores`: they and what comes of them stay
                                 * in L1 and L2 */
  FOPO_SCAN_TILE_SCREENED = 256 /* the same of the prefilter */
};

struct fopo_scan_worker {
  size_t group, room, slice, dim; /* what the arrays below have room for */
  fopo_topk *top;                 /* [group] */
  uint64_t *keys;                 /* [group, room] */
  float *panels;                  /* [whole(group), dim] the active queries, panel after panel */
  float *norm;                    /* [group] their norms, rounded up, */
  float *rest;                    /* [group] and what screening loses of them */
  uint32_t *active;               /* [group] their places in top */
  uint8_t *stop;                  /* [group] 1: nothing better can follow */
  uint8_t *failed;                /* [group] 1: the guess was too high */
  float *guess;                   /* [group] by place in top */
  float *scores;                  /* [whole(group), slice] */

  /* For screening. */
  uint16_t *packed_panels; /* [whole(group), row] */
  uint16_t *packed;        /* [team, TILE_SCREENED, row] items beyond the packed head */
  uint32_t *list;          /* [whole(group), slice] what passed, with its scores beside it */
  size_t *found;           /* [whole(group) / FOPO_PANEL, tiles, 2] how many */
  size_t team;             /* threads that packed has room for */

  /* The state of one group's search. */
  const fopo_kernels *kernels;
  const fopo_prefilter *prefilter; /* NULL: none, or not worth it */
  size_t unscreened; /* items scored in full: the errors of the largest are too large */
  size_t first;      /* end of the first round */
  enum { NOT_GUESSING, TO_GUESS, GUESSED, GUESSED_WRONG } guessing; /* the first round's floors */
  int screened;                                                     /* the block is */
  size_t n_active;
  size_t waiting;   /* queries behind the active ones, while a round is repeated */
  size_t at, step;  /* the block is at .. at + step - 1 of the order */
  size_t round_end; /* where stopping is tested next */
  size_t scored;
  double until; /* clock at which to come up for air */
  int pause;
};

/* Queries rounded up to whole panels. */
static inline size_t fopo_scan_whole(size_t n) {
  return (n + FOPO_PANEL - 1) / FOPO_PANEL * FOPO_PANEL;
}

/* Makes Q [<= w->group, L] the group's queries; the answers will be in w->top. */
void fopo_scan_group_start(const fopo_scan *scan, fopo_scan_worker *w, fopo_matrix Q, size_t k);

/* Goes on with a team of `threads` until all queries are done (0), or it is time to look up from
 * the work (1): to be called again. */
int fopo_scan_group_run(const fopo_scan *scan, fopo_scan_worker *w, int threads);

#endif
