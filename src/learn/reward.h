/* Reward estimators rhat(a, x): every objective of the paper is one of these over the same loop.
 *
 * With the event (x_i, a_i, p_i, r_i) of a log, w_i = 1 / max(tau, p_i) and a model r_M:
 *
 *   hits           1[a in Y]                                    (the paper, Experimental Results)
 *   ips            1[a = a_i] w_i (r_i - lambda)                (the paper, Introduction; lambda 0)
 *   direct         r_M(a, x_i)
 *   doubly robust  r_M(a, x_i) + 1[a = a_i] w_i (r_i - r_M(a_i, x_i))
 *   switch         doubly robust where 1 / p_i <= threshold, direct elsewhere
 *   custom         filled by the caller, e.g. by a Lua function, between draw and absorb
 *
 * The logged ones are a credit of one action a context, and a model of low rank (device/device.h);
 * both are evaluated on the device. */
#ifndef FOPO_LEARN_REWARD_H
#define FOPO_LEARN_REWARD_H

#include "data/logs/logs.h"
#include "data/sessions.h"
#include "device/device.h"

typedef enum {
  FOPO_REWARD_HITS,
  FOPO_REWARD_CUSTOM,
  FOPO_REWARD_IPS,
  FOPO_REWARD_DIRECT,
  FOPO_REWARD_DOUBLY_ROBUST,
  FOPO_REWARD_SWITCH,
  FOPO_REWARD_KINDS
} fopo_reward_kind;

extern const char *const fopo_reward_names[FOPO_REWARD_KINDS];

typedef struct {
  fopo_reward_kind kind;
  const fopo_csr *Y;   /* hits: [N, P]; not owned */
  size_t contexts;     /* N it covers; custom: 0 = any */
  size_t actions;      /* P it covers; hits and custom: 0 */
  fopo_credit credit;  /* on the host; action NULL: none. action is the log's, not owned */
  fopo_low_rank model; /* on the host; users NULL: none. Not owned */
  float *owned;        /* [2 N] credit.weight, then credit.gain */
} fopo_reward;

/* Each makes *reward anew; the log, and the model, must outlive it. clip is tau, 0 .. 1 (0: IPS and
 * doubly robust as they are). A model covers the log's events and actions. */
int fopo_reward_ips(fopo_reward *reward, const fopo_logs *logs, double clip);
int fopo_reward_direct(fopo_reward *reward, const fopo_logs *logs, const fopo_low_rank *model);
int fopo_reward_doubly_robust(fopo_reward *reward, const fopo_logs *logs,
                              const fopo_low_rank *model, double clip);

/* threshold >= 1: the largest weight 1 / p_i that is used. SWITCH (Wang, Agarwal, Dudik, ICML 2017)
 * compares pi / p, which a reward cannot know; 1 / p is its bound over all pi. */
int fopo_reward_switch(fopo_reward *reward, const fopo_logs *logs, const fopo_low_rank *model,
                       double threshold);
void fopo_reward_done(fopo_reward *reward); /* accepts {0} */

/* Checks that it covers N contexts and P items. */
int fopo_reward_check(const fopo_reward *reward, size_t N, size_t P);

/* r [B, S] on the host for ids [B, S] of contexts rows [B]; FOPO_ERR_ARGUMENT for a custom one. */
int fopo_reward_fill(float *r, const fopo_reward *reward, const uint32_t *ids, const uint32_t *rows,
                     size_t B, size_t S);

#endif
