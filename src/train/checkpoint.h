/* What the writer of checkpoints (checkpoint_save.c) and their reader (checkpoint_resume.c) have in
 * common; private to train/. */
#ifndef FOPO_TRAIN_CHECKPOINT_H
#define FOPO_TRAIN_CHECKPOINT_H

#include "train/state.h"

enum {
  FOPO_FIXED = 6,                                      /* numbers of a fopo_fixed */
  FOPO_RECORD = sizeof(fopo_stretch) / sizeof(double), /* numbers of the record in hand */
  FOPO_RECORD_NAMES = 512                              /* bytes of their names */
};

extern const char fopo_checkpoint_format[]; /* the member "format" */

/* The members of a block of parameters: its values and its optimiser's state. */
typedef struct {
  const char *values, *m, *v, *updates; /* updates NULL: the block does not move by rows */
} fopo_block_members;

extern const fopo_block_members fopo_checkpoint_blocks[FOPO_BLOCKS];

/* The numbers that must be the same in the trainer that resumes, with the names of their members.
 */
typedef struct {
  const char *name[FOPO_FIXED];
  uint64_t value[FOPO_FIXED];
} fopo_fixed;

fopo_fixed fopo_checkpoint_fixed(fopo_trainer *t);

/* The member of t->ordered. */
static const char fopo_checkpoint_ordered[] = "ordered_items";

/* That of a sigma of slates that is learnt, and the sum of the squares of its gradients. */
static const char fopo_checkpoint_sigma[] = "gradient_sigma";

/* A CRC-32 that goes on with the lists. */
uint64_t fopo_checkpoint_lists(uint64_t crc, const fopo_csr *X);

/* The names of what is learnt, "W2, b2, items", in the member "learn" of a policy that fixes a part
 * of theta; empty: it fixes none, and its file has no such member. */
static inline void fopo_checkpoint_learn(char text[FOPO_POLICY_NAMES], const fopo_policy *pi) {
  text[0] = '\0';
  if (pi->fixed != 0) fopo_policy_block_names(text, pi, 1);
}

/* The record in hand is saved as FOPO_RECORD doubles, and their names, so that a program whose
 * statistics are others knows it: "reward ess .. seconds search .. update". */
void fopo_checkpoint_record_names(char names[FOPO_RECORD_NAMES]);

/* Whether the draws are those of a custom proposal, which a file names. */
static inline int fopo_checkpoint_own_draws(const fopo_trainer *t) {
  const fopo_proposal *q = fopo_gradient_proposal(t->o.gradient);
  return q != NULL && q->kind == FOPO_PROPOSAL_CUSTOM;
}

#endif
