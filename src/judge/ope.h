/* Off-policy evaluation: the value V = E_x E_{a ~ pi(. | x)} r of a policy, from a log of what
 * another policy showed. With w_i = pi(a_i | x_i) / p_i, a model r_M of the reward, and c(a) the
 * group of an action:
 *
 *   ips          (1/n) sum w_i r_i                                  (Horvitz and Thompson 1952)
 *   clipped_ips  the same with w_i = pi(a_i | x_i) / max(tau, p_i)  (the paper; Strehl et al. 2010)
 *   snips        sum w_i r_i / sum w_i                              (Swaminathan and Joachims 2015)
 *   ix           ips with w_i = pi(a_i | x_i) / (p_i + gamma / 2)   (Gabbianelli et al. 2023)
 *   ls           (1/n) sum log(1 + lambda w_i r_i) / lambda         (Sakhi et al. 2024)
 *   dm           (1/n) sum E_pi r_M(., x_i)
 *   dr           (1/n) sum E_pi r_M(., x_i) + w_i (r_i - r_M(a_i, x_i))   (Dudik et al. 2011)
 *   clipped_dr   the same with clipped weights
 *   dros         the same with lambda w_i / (w_i^2 + lambda)        (Su et al. 2020)
 *   mips         ips with w_i = pi(c(a_i) | x_i) / mu(c(a_i) | x_i) (Saito and Joachims 2022)
 *   offcem       dr with these weights                              (Saito et al. 2023)
 *
 * ix and ls need r >= 0: where the range of the rewards begins below 0 they are of r less its least
 * value, which is added again. Then, and for any policy, with probability 1 - delta
 *
 *   V >= (exp(lambda LS - log(1 / delta) / n) - 1) / lambda,   V >= IX - R log(1 / delta) / (gamma
 * n)
 *
 * for r in [0, R]: (1 + lambda w r) has the mean 1 + lambda V or less, so Markov's inequality
 * bounds the product of all; and gamma IX <= log(1 + gamma w r) term by term, for R = 1.
 *
 * The items may be dealt out (ranks/shard.h): new and run are then collective, every rank has the
 * whole log and model, sums over its own items, and comes to the terms of all events.
 *
 * There is no n x P matrix. What depends on the whole catalogue, Z(x_i) and E_pi r_M(., x_i), is
 * summed over tiles of contexts and items: memory is O(n) plus a few tiles for any P. That pass is
 * one object; the statistics over its n terms are one function. */
#ifndef FOPO_JUDGE_OPE_H
#define FOPO_JUDGE_OPE_H

#include "data/logs/logs.h"
#include "learn/gradient.h"
#include "learn/reward.h"

/* ---- the pass over the catalogue ---- */

typedef struct {
  const fopo_policy *pi; /* not owned, as are all below */
  const fopo_logs *logs; /* as many actions as pi has items */
  fopo_index *index;     /* NULL: pi is the softmax. Else the policy is deterministic: it shows
                          * the first item of this index, and pi(a_i | x_i) = 1[a_i = first] */
  const fopo_sparse_scores
      *sparse;              /* row i is that of event i; NULL: none. With an index, a mask */
  const fopo_reward *model; /* r_M over the events of the log: direct, hits, or custom, which is
                             * filled by the caller of run; NULL: none */
  size_t samples;         /* softmax: 0 sums over all items; S >= 2 estimates from S draws of .. */
  fopo_proposal proposal; /* .. this one */
  uint64_t seed;          /* of those draws */
  const uint32_t *groups; /* [P] c(a) of the whole catalogue; NULL: none */
  const fopo_logs *shown; /* whose actions count as shown; NULL: logs */
} fopo_ope_options;

/* What each event contributes. Arrays [n]; NULL if not wanted. */
typedef struct {
  size_t n;
  const double *chance;   /* pi(a_i | x_i) */
  const double *logged;   /* model: r_M(a_i, x_i) */
  const double *expected; /* model: E_pi r_M(., x_i) */
  const double *z_error;  /* samples: relative standard error of Z(x_i) */
  const double *shown;    /* share of pi(. | x_i) on actions that the log shows in some event */
  const double *group;    /* groups: pi(c(a_i) | x_i) */
  size_t unanswered;      /* contexts without an item to show: the index found nothing, or all items
                           * (samples: all that were drawn) are masked. Their chance is 0 */
} fopo_ope_terms;

typedef struct fopo_ope fopo_ope;

/* FOPO_OK if every event of the log can be evaluated, and the model (NULL: none) is one of the
 * log's actions; else a refusal with the event's number, or the model's kind. */
int fopo_ope_check_log(const fopo_logs *logs, const fopo_reward *model);

/* Checks that policy, log and index fit, and every event: an action out of range, a propensity that
 * is not in (0, 1] or a reward that is not finite is refused with its number. */
int fopo_ope_new(fopo_ope **o, const fopo_ope_options *options);
void fopo_ope_free(fopo_ope *o); /* accepts NULL */

/* FOPO_DRAWN, with a custom model: fill drawn->reward with r_M for drawn->ids [B, S] in the events
 * drawn->rows [B], then call again. FOPO_OK: all events are done. Any failure ends the pass; a
 * reward that is not finite is FOPO_ERR_NUMERIC with its place. Scores take n P L multiply-adds, a
 * direct model of rank d takes n P d more.
 * Sampled: with e_a = exp f(a, x), the logged action is known and the others are estimated,
 *
 *   Z = e_{a_i} + (1/S) sum_s 1[a_s != a_i] e_{a_s} / q_{a_s},     pi(a_i | x_i) = e_{a_i} / Z
 *
 * unbiased for Z; its inverse is too large by about z_error^2, and so is a weight. */
int fopo_ope_run(fopo_ope *o, fopo_drawn *drawn);

/* After FOPO_DRAWN, if the rewards cannot be filled: the pass has ended, and other ranks learn it.
 */
void fopo_ope_abandon(fopo_ope *o);
fopo_ope_terms fopo_ope_result(const fopo_ope *o); /* owned by o; after FOPO_OK */

/* ---- estimators and intervals ---- */

typedef enum {
  FOPO_OPE_IPS,
  FOPO_OPE_CLIPPED_IPS,
  FOPO_OPE_SNIPS,
  FOPO_OPE_IX,
  FOPO_OPE_LS,
  FOPO_OPE_DM,
  FOPO_OPE_DR,
  FOPO_OPE_CLIPPED_DR,
  FOPO_OPE_DROS,
  FOPO_OPE_MIPS,
  FOPO_OPE_OFFCEM,
  FOPO_OPE_KINDS
} fopo_ope_kind;

/* Where an estimator's parameter comes from: chosen among 16 values by SLOPE, the one of least bias
 * that agrees with all of more variance (Su, Srinath and Krishnamurthy 2020; the form of Tucker and
 * Lee 2021), or by the largest lower bound, for ix and ls alone. */
typedef enum { FOPO_OPE_GIVEN, FOPO_OPE_SLOPE, FOPO_OPE_BOUND } fopo_ope_choice;

typedef struct {
  const char *name;
  int model, groups;     /* 1: it needs terms of a model, of groups */
  const char *parameter; /* what its parameter is called: "tau", "gamma", "lambda"; NULL: none */
} fopo_ope_about;
fopo_ope_about fopo_ope_about_kind(fopo_ope_kind kind);

typedef struct {
  unsigned wanted;                  /* bits 1 << kind; 0: all that the terms allow */
  double parameter[FOPO_OPE_KINDS]; /* tau: 0 .. 1, 0 equals the unclipped; gamma, lambda of ls: 0
                                     * stands for 1 / sqrt n (lambda: over R) */
  fopo_ope_choice choice[FOPO_OPE_KINDS];
  const float *logging;           /* [n] mu(c(a_i) | x_i); NULL: none, then no mips and offcem */
  double level;                   /* of the intervals and bounds, 0 < level < 1 */
  size_t bootstrap;               /* replicates; 0: none */
  uint64_t seed;                  /* of FOPO_STREAM_BOOTSTRAP */
  double reward_low, reward_high; /* range of r; low >= high: what the log holds */
  double least_propensity;        /* of the logging policy; 0: the least of the log */
} fopo_ope_settings;

/* Intervals are {low, high}; NaN if there is none. */
typedef struct {
  double value;        /* NaN for snips if all weights are 0 */
  double se;           /* standard error; snips: by the delta method */
  double normal[2];    /* value -+ z se */
  double bootstrap[2]; /* percentiles over resampled events (Efron 1979) */
  double bernstein[2]; /* Maurer and Pontil 2009, theorem 4, both sides; holds for every n if the
                        * ranges are right. snips has none: a ratio is no mean */
  double range[2];     /* of one event's term, that bernstein is computed with */
  double parameter;    /* that was used; NaN: it has none */
  double bound;        /* V is at least that with probability `level`, whatever was chosen; NaN: it
                        * is no estimator with such a bound */
} fopo_ope_estimate;

typedef struct {
  size_t n;
  size_t overlap; /* events with w > 0 */
  double reward;  /* mean of r: the value of the logging policy */
  double ess;     /* (sum w)^2 / sum w^2; 0 if all weights are 0 */
  double max_weight;
  double max_share;                   /* max_weight / sum w */
  double mean_weight, mean_weight_se; /* 1 in the mean, if the log covers all that pi does */
  double weight_bound;                /* 1 / least propensity */
  double z_error, z_worst; /* mean and largest relative standard error of Z; 0: Z is exact */
  double z_bias;           /* what sampling Z adds to ips in the mean, to the first order */
  double unshown;          /* share of the policy on actions that the log never shows */
  size_t degenerate;       /* replicates in which all weights are 0; snips leaves them out */
  int has[FOPO_OPE_KINDS]; /* wanted, and its terms are there */
  int chosen;              /* kind that SLOPE takes of those; -1: none has a value */
  fopo_ope_estimate by[FOPO_OPE_KINDS];
} fopo_ope_report;

/* The standard errors take events as independent of each other. Deterministic for any number of
 * threads. At least 2 events. */
int fopo_ope_estimate_all(fopo_ope_report *report, const fopo_ope_terms *terms,
                          const fopo_logs *logs, const fopo_ope_settings *settings);

/* z with P(-z < N(0, 1) < z) = level. */
double fopo_ope_normal_point(double level);

#endif
