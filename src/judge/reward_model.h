/* Models of the reward, fitted to a log: r_M(a, x) for every context and action.
 *
 * With item features beta_a (those of the log, or given), compressed to their first principal
 * directions and with a 1 appended to them, x~ = [V_x^T x; 1], b~_a = [V_b^T beta_a; 1],
 *
 *     t(a, x) = x~^T W b~_a        (interactions, and the biases of both sides)
 *
 * has (dim + 1)^2 parameters whatever the catalogue's size. Without item features
 *
 *     t(a, x) = u . x~ + v_a       (one number an action)
 *
 * which is for small catalogues. r_M = t fitted by ridge regression, or sigmoid(t) by logistic
 * regression with Newton's steps; both penalise lambda |W|^2 / 2, without the constant.
 *
 * Either way r_M = link(U_n . F_a) with a low rank, which is what the device evaluates. Cross-
 * fitting (folds > 1) gives an event the parameters fitted without its own fold: doubly robust
 * estimates are then not biased by the model having seen the rewards they correct
 * (Chernozhukov et al. 2018). */
#ifndef FOPO_JUDGE_REWARD_MODEL_H
#define FOPO_JUDGE_REWARD_MODEL_H

#include "data/logs/logs.h"
#include "device/device.h"

typedef struct {
  int logistic;  /* rewards must then lie in 0 .. 1 */
  double lambda; /* > 0 */
  size_t dim;    /* most principal directions of a side, >= 1 */
  size_t folds;  /* 1: none */
  uint64_t seed; /* of the folds */
} fopo_model_options;

typedef struct {
  fopo_model_options options;
  size_t D, P;    /* columns of contexts, actions */
  int with_items; /* 0: one number an action instead of item features */
  size_t dx, db;  /* directions kept of each side */
  size_t parameters;
  float *basis_x;       /* [dx, D] directions over their scale */
  double *w;            /* [folds, parameters] */
  fopo_matrix users;    /* [n, rank] of the log it was fitted to */
  fopo_matrix items;    /* [P, rank] */
  double loss;          /* mean over the events of the squared error (logistic: of -log likelihood)
                         * under the parameters that each event is given */
  double constant_loss; /* of the mean reward alone */
} fopo_model;

/* items [P, L], or {0} for none. */
int fopo_model_fit(fopo_model **model, const fopo_logs *logs, fopo_matrix items,
                   const fopo_model_options *options);
void fopo_model_free(fopo_model *model); /* accepts NULL */

/* users [m, rank], fresh, for other contexts [m, D]: the mean of the folds' parameters. */
int fopo_model_users(fopo_matrix *users, const fopo_model *model, fopo_matrix contexts);

/* The model as the device evaluates it, for the log it was fitted to. */
fopo_low_rank fopo_model_low_rank(const fopo_model *model);

#endif
