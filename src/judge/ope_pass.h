/* The pass of off-policy evaluation over the catalogue, as a loop turned inside out: the caller
 * fills the rewards of a custom model, so the pass stops when it needs some, and the next call goes
 * on. Private to ope.c, which makes passes and drives them, and ope_pass.c, which has the stages.
 */
#ifndef FOPO_JUDGE_OPE_PASS_H
#define FOPO_JUDGE_OPE_PASS_H

#include "judge/ope.h"
#include "judge/ope_join.h"

enum {
  FOPO_OPE_CONTEXTS = 256, /* of a block: one pass over the items serves them all */
  FOPO_OPE_ITEMS = 4096,   /* of a tile; its scores take 4 MB */
  FOPO_OPE_DRAWS = FOPO_OPE_CONTEXTS * FOPO_OPE_ITEMS /* most rewards handed out at once */
};

/* What the next call continues with. */
typedef enum {
  NEXT_BLOCK,
  KEEP_LOGGED, /* r_M of the logged actions is there */
  CATALOGUE,   /* the actions of the policy */
  SUM_TILE,
  WEIGH_DRAWS,
  KEEP_BEST, /* r_M of the best actions is there, if there is a model */
  ALL_DONE
} fopo_ope_stage;

struct fopo_ope {
  fopo_ope_options o;
  const fopo_shard *shard; /* whose part the items are; NULL: they are all of the catalogue */
  size_t n, P;             /* P: items here */
  size_t block, wide;      /* contexts of a block, rewards of a context handed out at once */

  fopo_ope_stage stage;
  size_t first, count; /* this block's contexts */
  size_t item, width;  /* this tile's items */

  fopo_matrix Q;        /* [block, L] */
  float *scores;        /* [block, wide] */
  float *logq;          /* [block, S] sampled */
  uint32_t *ids, *rows; /* [block, wide], [block] what rewards are wanted for */
  float *reward;        /* [block, wide] */
  float *features;      /* [wide, rank] of the model's items in a tile of a part; NULL: none */
  uint32_t *found;      /* [block] how many the index found */
  fopo_ope_sums *sums;  /* [block] */
  size_t n_rewards;     /* rewards of a context that wait to be checked */

  fopo_index *own_index;                        /* of a proposal without one; NULL: none */
  double *chance, *logged, *expected, *z_error; /* [n] */
  size_t unanswered;
};

/* Every reward that the model gave for the stage at hand must be finite. */
int fopo_ope_check_rewards(fopo_ope *o);

/* One stage: FOPO_OK, FOPO_DRAWN, or a failure. Where the items are dealt out, stages that end a
 * block are collective. */
int fopo_ope_step(fopo_ope *o, fopo_drawn *drawn);

#endif
