/* Reward estimators rhat(a, x): every objective of the paper is one of these over the same loop. */
#ifndef FOPO_LEARN_REWARD_H
#define FOPO_LEARN_REWARD_H

#include "data/sessions.h"
#include "device/device.h"

typedef enum {
  FOPO_REWARD_HITS,   /* 1[a in Y] (the paper, "Experimental Results") */
  FOPO_REWARD_CUSTOM  /* filled by the caller, e.g. by a Lua function, between draw and absorb */
} fopo_reward_kind;

typedef struct {
  fopo_reward_kind kind;
  const fopo_csr *Y;  /* hits: [N, P]; not owned */
  size_t contexts;    /* N it covers; custom: 0 = any */
} fopo_reward;

/* Checks that it covers N contexts and P items. */
int fopo_reward_check(const fopo_reward *reward, size_t N, size_t P);

/* r [B, S] on the host for ids [B, S] of contexts rows [B]; FOPO_ERR_ARGUMENT for a custom one. */
int fopo_reward_fill(float *r, const fopo_reward *reward, const uint32_t *ids,
                     const uint32_t *rows, size_t B, size_t S);

#endif
