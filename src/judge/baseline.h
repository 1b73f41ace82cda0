/* Recommenders to compare a policy with. A baseline learns from the interactions of the training
 * users, X + Y, and recommends to any session from its X. Each is one file in judge/baselines/ and
 * one line in baselines.def; no other file names it. */
#ifndef FOPO_JUDGE_BASELINE_H
#define FOPO_JUDGE_BASELINE_H

#include "core/option.h"
#include "data/sessions.h"
#include "judge/expected.h"

enum { FOPO_BASELINE_BLOCK = 8 }; /* contexts that a thread scores at a time */

typedef struct fopo_baseline fopo_baseline;
typedef struct fopo_baseline_kind fopo_baseline_kind;

/* The numbers of all kinds; each reads those of its own options. */
typedef struct {
  const fopo_baseline_kind *kind;
  size_t neighbours, dim, iterations;
  size_t m;       /* slim: items that predict an item */
  size_t top;     /* ease: weights that an item keeps; 0 all */
  int similarity; /* item_knn: 0 cosine, 1 jaccard */
  double l2, alpha, shrink, nu;
  uint64_t seed;
  const float *value; /* of every kind: [n_values] what each item is worth, by which its scores are
                       * multiplied; NULL: 1. Copied */
  size_t n_values;
  const uint8_t *wanted; /* [P] 0: nobody will ask for the scores of this item, and a kind may leave
                          * them out of its work; NULL: all are wanted. Not owned */
  size_t users; /* of all ranks, of which M has this rank's share (comm/comm.h); 0: M has all */
} fopo_baseline_options;

struct fopo_baseline_kind {
  const char *name; /* of the function in Lua: fopo.baseline.NAME */

  /* Refuses what would not fit in memory, before options are searched for; NULL: `fit` says it. */
  int (*fits)(const fopo_csr *M, const fopo_baseline_options *o);

  /* *model from M [users, P], without values. Refuses what would not fit in memory before it
   * allocates, reports progress, can be interrupted. NULL, as `score` is then: the caller gives the
   * scores (fopo_baseline_choose). */
  int (*fit)(void **model, const fopo_csr *M, const fopo_baseline_options *o);
  void (*free)(void *model); /* accepts NULL and half of a model */

  /* models [n], NULL before: those of the same options but with l2 [n], for less than n times
   * `fit`; NULL where there is no solution. NULL: no such way. */
  int (*fit_each)(void **models, const fopo_csr *M, const fopo_baseline_options *o,
                  const double *l2, size_t n);

  /* 1: of sessions that are shared out `fit` takes those of this rank, and o->users; all ranks
   * call it together. 0: it needs all sessions in one place, and `whole` says why. */
  int shares;
  const char *whole;

  /* Of one that shares: the models [.., P] of all ranks become that of all sessions; collective.
   * NULL: they are. */
  int (*join)(void *model, size_t P);

  /* scores [n, P] of the contexts first .. first + n - 1 with the items of X taken, on the calling
   * thread, n <= FOPO_BASELINE_BLOCK; -INFINITY: never recommended. scratch has scratch_bytes.
   * Returns 0 if a number was not finite. */
  int (*score)(float *scores, const void *model, const fopo_baseline_options *o, const fopo_csr *X,
               size_t first, size_t n, void *scratch);
  size_t (*scratch_bytes)(const void *model); /* NULL: no scratch */

  /* For policies to start from, or NULL. factors: those of the items [P, dim], not owned. theta
   * [dim, dim]: with it the score of item a is nearly (sum of factors in X)^T theta factors_a. */
  fopo_matrix (*factors)(const void *model);
  int (*theta)(fopo_matrix theta, const void *model);

  /* W [P, P] with values if the score of item a is the sum over b in X of W_ba; columns ascend in a
   * row. NULL: scores are made otherwise, or this model has not cut its weights to a few a row. */
  const fopo_csr *(*item_weights)(const void *model);

  /* scores [P] of one context, row `row` of X, as if the user of row `user` of M had not been in M
   * [users, P], which the model was fitted to; exact, on the calling thread. scratch has
   * scratch_bytes, and P floats more. Returns 0 if this model cannot; NULL: no model of this kind
   * can. */
  int (*left_out)(float *scores, const void *model, const fopo_csr *M, size_t user,
                  const fopo_csr *X, size_t row, void *scratch);

  /* Of a model with left_out. W becomes the `top` largest positive weights of each item, all of
   * them if top is P. And what the weights are without the user of row `user` of M: with g [P] and
   * d that of_row gives, and over [P],
   *
   *   w_ba becomes (w_ba - g_b t_a) / (1 + g_a t_a),  t_a = g_a over_a / d */
  int (*largest)(fopo_csr *W, const void *model, size_t top);
  double (*of_row)(float *g, const void *model, const fopo_csr *M, size_t user);
  const float *(*over_diagonal)(const void *model);

  /* weights [P] if the baseline is also a distribution over the items, the same in each context;
   * NULL: it is none. */
  const float *(*weights)(const void *model);

  /* How many users, and wanted items, suffice to choose an option by validation: what fits for that
   * are cut to (judge/baseline_search.h). NULL: all of them. */
  void (*enough)(size_t *users, size_t *items);

  /* For Lua: the options, whether there is a seed too, help and an example that a test runs. */
  const fopo_option *options; /* ended by a name of NULL */
  int has_seed;
  const char *text, *example;

  /* 1: item_weights are the similarities by options.similarity and shrink, so that one user can be
   * left out of them (policy/neighbours.h) */
  int is_similarity;
};

/* Every kind, ended by NULL. */
extern const fopo_baseline_kind *const fopo_baseline_kinds[];

/* Learns from the sessions: options->kind says how. They may be shared out if the kind has `join`;
 * then this is collective. */
int fopo_baseline_new(fopo_baseline **b, const fopo_sessions *sessions,
                      const fopo_baseline_options *options);
void fopo_baseline_free(fopo_baseline *b); /* accepts NULL */

/* b [n]: the same with these l2 [n], of a kind that has fit_each, for sessions that are not shared
 * out and without `value`; NULL where one has no solution. On failure all are NULL. */
int fopo_baseline_new_each(fopo_baseline **b, const fopo_sessions *sessions,
                           const fopo_baseline_options *options, const double *l2, size_t n);

const fopo_baseline_options *fopo_baseline_get(const fopo_baseline *b);
size_t fopo_baseline_items(const fopo_baseline *b); /* P; 0: any */

/* Of a kind that has factors, for others FOPO_ERR_UNAVAILABLE: *rows [P, dim], not owned; theta
 * [dim, dim], at which a linear policy over these items starts. */
int fopo_baseline_factors(fopo_matrix *rows, const fopo_baseline *b);
int fopo_baseline_theta(fopo_matrix theta, const fopo_baseline *b);
double fopo_baseline_seconds(const fopo_baseline *b); /* of learning */

/* *W, the baseline's own: item_weights of its kind, which a policy may start from.
 * FOPO_ERR_UNAVAILABLE if it has none. */
int fopo_baseline_item_weights(const fopo_csr **W, const fopo_baseline *b);

/* 1: fopo_baseline_largest and fopo_baseline_rows are there for this one. */
int fopo_baseline_is_linear(const fopo_baseline *b);
int fopo_baseline_largest(fopo_csr *W, const fopo_baseline *b, size_t top);

/* Of each user of M, which b was learnt from: G [users, P] and d [users]; *over, not owned. */
int fopo_baseline_rows(fopo_matrix G, float *d, const float **over, const fopo_baseline *b,
                       const fopo_csr *M);

/* ids, scores [N, k], counts [N]: the k items of largest score for each session, best first, ties
 * to the smaller id; behind the last item FOPO_NO_ITEM and -inf. unseen: without the items of X.
 * left_out: the sessions are those that the baseline was learnt from, and each has the list as if
 * it had not been among them; FOPO_ERR_UNAVAILABLE if the baseline cannot. */
int fopo_baseline_best(uint32_t *ids, float *scores, uint32_t *counts, const fopo_baseline *b,
                       const fopo_sessions *sessions, size_t k, int unseen, int left_out);

/* A baseline of a kind without `fit`, over the items of any sessions; and its lists of the sessions
 * first .. first + n - 1 from their scores `given` [n, P], which the caller has made. */
int fopo_baseline_new_given(fopo_baseline **b, const fopo_baseline_kind *kind);
int fopo_baseline_choose(uint32_t *ids, float *scores, uint32_t *counts, const fopo_baseline *b,
                         const fopo_sessions *sessions, size_t k, int unseen, const float *given,
                         size_t first, size_t n);

/* The scores [P] behind a list with left_out, of row `row` of X, and `user` and M as in
 * fopo_baseline_kind: M is fopo_interactions of the sessions. scratch has
 * fopo_baseline_left_out_bytes. */
int fopo_baseline_left_out(float *scores, const fopo_baseline *b, const fopo_csr *M, size_t user,
                           const fopo_csr *X, size_t row, void *scratch);
size_t fopo_baseline_left_out_bytes(const fopo_baseline *b);

/* The expected reward of a baseline that is a distribution over the items, by the values of the
 * sessions; chances are weights times the values that scores are multiplied by; unseen: its chances
 * are those of the items that are not in X. FOPO_ERR_UNAVAILABLE if the baseline is none. */
int fopo_baseline_expected(fopo_expected *e, const fopo_baseline *b, const fopo_sessions *sessions,
                           int unseen);

#endif
