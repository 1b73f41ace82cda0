/* Estimators of the gradient of the expected reward. With f = x^T theta beta_a / T all of them are
 *
 *     v = sum_s c_s beta_{a_s},      G = X^T V / (B T)        (V stacks one v per context)
 *
 * and differ in what they draw and in c:
 *
 *   exact      all P items, c_a = pi_a (r_a - E_pi r): SNIS over an enumeration. No bias, no
 *              variance; P rows a context. The oracle.
 *   reinforce  S items of pi itself (Williams 1992): P rows a context.
 *              baseline mean: c_s = (r_s - rbar) / (S - 1); none: c_s = r_s / S minus
 *              rbar E_pi[beta]. Both unbiased.
 *   snis       S items of q, c_s = wbar_s (r_s - rbar) (the paper, Algorithm 1, the covariance
 *              gradient). Bias of order 1 / S; S + K rows a context.
 *
 *   head_tail  the K candidates in full, U draws of the other P - K items, each for (P - K) / U of
 *              them, and c as in snis: q is 1 in the head and U / (P - K) in the tail. Ours. Bias
 *              of order 1 / U, of the tail alone; K + U rows a context and the search. K + U <= P;
 *              U = P - K is the exact gradient.
 *
 * Where the policy learns its items too, the same c give their gradient: with Q_b = h(x_b) / T,
 *
 *     dR/d beta_a = sum over the draws (b, s) of item a of c_bs Q_b / B.
 *
 * exact, snis, head_tail and reinforce with a baseline touch the items drawn and no other, because
 * their c sum to 0. Without a baseline every item has the further term - rbar pi(a | x_b) Q_b / B.
 *
 * An estimator is one row of the table in estimators.c. A computation goes through these steps, so
 * that rewards may come from outside (the core never calls Lua):
 *
 *     fopo_gradient_begin(g, ...);
 *     while ((status = fopo_gradient_draw(g, &drawn)) == FOPO_DRAWN) {
 *       fill drawn.reward;               or fopo_gradient_reward(g, reward)
 *       fopo_gradient_absorb(g);
 *     }
 *     fopo_gradient_finish(g, G, &stats);
 */
#ifndef FOPO_LEARN_GRADIENT_H
#define FOPO_LEARN_GRADIENT_H

#include "learn/candidate_cache.h"
#include "learn/reward.h"

typedef enum {
  FOPO_GRADIENT_EXACT,
  FOPO_GRADIENT_REINFORCE,
  FOPO_GRADIENT_SNIS,
  FOPO_GRADIENT_HEAD_TAIL
} fopo_gradient_kind;

typedef struct {
  fopo_gradient_kind kind;
  size_t samples;         /* S >= 2; reinforce and snis. head_tail: U >= 1 */
  int baseline;           /* reinforce: 0 none, 1 mean */
  fopo_proposal proposal; /* snis; head_tail: its index and k, epsilon 0 */
} fopo_gradient_options;

/* What a batch came to. Between finish and the next begin, steps is 1. */
typedef struct {
  fopo_statistics sum, mean;
  double seconds[FOPO_PHASES];
} fopo_gradient_stats;

typedef struct fopo_gradient fopo_gradient;

/* A batch is worked off in parts of bounded memory, and nothing is allocated once a batch of the
 * same size has been seen. Between begin and finish (or a failure, or abandon) a gradient refuses
 * to be set, bound or begun. An interruption is seen before each part. */
int fopo_gradient_new(fopo_gradient **g, const fopo_gradient_options *options);
void fopo_gradient_free(fopo_gradient *g); /* accepts NULL */

/* Takes the options' place: a steering hand may change epsilon, k or samples between steps. */
int fopo_gradient_set(fopo_gradient *g, const fopo_gradient_options *options);
const fopo_gradient_options *fopo_gradient_get(const fopo_gradient *g);

/* Mistakes to plant on purpose, for lessons and for tests of the checks; snis alone takes them. */
typedef enum {
  FOPO_FAULT_NONE,
  FOPO_FAULT_NO_Q,       /* w = exp(f): q dropped from the weight */
  FOPO_FAULT_ADDED_Q,    /* w = exp(f) q: log q added instead of subtracted */
  FOPO_FAULT_OFF_BY_ONE, /* the item after the one that was drawn */
  FOPO_FAULTS
} fopo_fault;
extern const char *const fopo_fault_names[FOPO_FAULTS];

/* The gradient is wrong in this way from its next batch on, whatever options it is given. */
int fopo_gradient_plant(fopo_gradient *g, fopo_fault fault);
fopo_fault fopo_gradient_planted(const fopo_gradient *g);

/* Makes items, contexts and Y resident on the device and checks all shapes. Again for other data;
 * unchanged arguments cost nothing. pi, contexts, reward and device are not owned: they must stay,
 * and items, contexts and Y stay as they are, until the next bind or free. */
int fopo_gradient_bind(fopo_gradient *g, fopo_device *device, const fopo_policy *pi,
                       fopo_matrix contexts, const fopo_reward *reward);

/* theta: device, of the shape of pi->theta; NULL takes pi->theta from the host. rows [B]: context
 * ids < N. */
int fopo_gradient_begin(fopo_gradient *g, const float *theta, const uint32_t *rows, size_t B,
                        fopo_draw_key key);

/* What a draw waits for: rewards of ids [B, S] for the contexts rows [B] of this part of the
 * batch, on the host, valid until absorb. */
typedef struct {
  const uint32_t *ids;
  const uint32_t *rows;
  float *reward; /* to be filled */
  size_t B, S;
} fopo_drawn;

enum { FOPO_DRAWN = 1 };

/* FOPO_DRAWN: rewards of this part are wanted, FOPO_OK: the whole batch is done, < 0: failure,
 * which ends the batch. Hits are rewarded on the device without the host seeing the draws, where
 * drawn is NULL; rewards handed out to be filled start as NaN, which absorb refuses. */
int fopo_gradient_draw(fopo_gradient *g, fopo_drawn *drawn);
int fopo_gradient_reward(fopo_gradient *g);   /* the bound reward, C kinds only */
int fopo_gradient_absorb(fopo_gradient *g);   /* after drawn.reward was filled; refuses NaN */
void fopo_gradient_abandon(fopo_gradient *g); /* forgets a batch that was begun */

/* The gradient, of the shape of theta, stays on the device (fopo_gradient_result) and is copied to
 * G where G.x is not NULL. */
int fopo_gradient_finish(fopo_gradient *g, fopo_matrix G, fopo_gradient_stats *stats);
float *fopo_gradient_result(fopo_gradient *g); /* device, of the shape of theta */

/* Instead of finish, if the device has totals and items are fixed: the step is added to *totals on
 * the device and the host waits for nothing; seconds are added to `seconds`. */
int fopo_gradient_finish_async(fopo_gradient *g, fopo_totals *totals, double seconds[FOPO_PHASES]);

/* Whether a batch of `rows` changes what is remembered so that it cannot be taken back: what came
 * of it and of those before is to be known before it is counted. Then means waits for its
 * statistics, all but the norm. Any other may be counted at once, and taken back, the latest first.
 */
int fopo_gradient_must_sync(const fopo_gradient *g, const uint32_t *rows, size_t B);
int fopo_gradient_means(fopo_gradient *g, fopo_gradient_stats *stats);
void fopo_gradient_rollback(fopo_gradient *g, const uint32_t *rows, size_t B);

/* The batch of `rows` was made, with these statistics: only now do kept candidates grow older and
 * an adaptive epsilon move. After finish, for a batch that counts; compute does it itself. */
void fopo_gradient_commit(fopo_gradient *g, const uint32_t *rows, size_t B,
                          const fopo_gradient_stats *stats);

/* What is remembered from visit to visit lies in `visits` from now on, where candidates are kept
 * with room for the bound contexts; NULL: in the gradient's own memory again, which is forgotten
 * when other data is bound. Not owned; a trainer lends its memory for each slice. */
int fopo_gradient_attach_cache(fopo_gradient *g, fopo_candidate_cache *cache);

/* Bytes that keeping candidates of the bound contexts takes; 0 where none are kept. */
uint64_t fopo_gradient_kept_bytes(const fopo_gradient *g);

/* The items' gradient of the batch just finished, on the device until the next one begins; {0}
 * where items are fixed. */
fopo_item_gradient fopo_gradient_items(const fopo_gradient *g);
float *fopo_gradient_device_items(fopo_gradient *g); /* the device's items [P, L], to be moved */

/* All of it in one call, for C rewards. */
int fopo_gradient_compute(fopo_gradient *g, fopo_matrix G, fopo_gradient_stats *stats,
                          const float *theta, const uint32_t *rows, size_t B, fopo_draw_key key);

#endif
