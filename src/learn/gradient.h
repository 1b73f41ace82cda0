/* The gradient of the expected reward, by one of the estimators of learn/estimator.h. A gradient is
 * bound to data, then computes batch after batch:
 *
 *     if (fopo_gradient_plan_is_due(g, B)) fopo_gradient_plan(g, ...);
 *     fopo_gradient_begin(g, ...);
 *     while ((status = fopo_gradient_estimate(g, &drawn)) == FOPO_DRAWN) fill drawn;
 *     fopo_gradient_finish(g, G, &stats);
 *     fopo_gradient_commit(g, rows, B, &stats);
 *
 * Estimate waits only for rewards and coefficients that the caller fills (the core never calls
 * Lua); without these the host does not see the draws. */
#ifndef FOPO_LEARN_GRADIENT_H
#define FOPO_LEARN_GRADIENT_H

#include "learn/estimator.h"
#include "learn/fault.h"
#include "learn/reward.h"
#include "plan/plan.h"

typedef struct fopo_gradient fopo_gradient;

/* A batch is worked off in parts of bounded memory, and nothing is allocated once a batch of the
 * same size has been seen. Between begin and finish (or a failure, or abandon) a gradient refuses
 * to be set, bound or begun. An interruption is seen before each part. */
int fopo_gradient_new(fopo_gradient **g, const fopo_gradient_options *options);
void fopo_gradient_free(fopo_gradient *g); /* accepts NULL */

/* Replaces the options: a steering hand may change epsilon, k or samples between steps. */
int fopo_gradient_set(fopo_gradient *g, const fopo_gradient_options *options);
const fopo_gradient_options *fopo_gradient_get(const fopo_gradient *g);

/* Whether these options ask the caller for draws or coefficients (fopo_drawn). */
int fopo_options_ask(const fopo_gradient_options *o);

/* The proposal in the options; NULL if the estimator needs none. */
const fopo_proposal *fopo_gradient_proposal(const fopo_gradient *g);

/* The index that candidates come from; NULL if there is none, or if it is the automatic one and was
 * not needed yet. */
fopo_index *fopo_gradient_index(const fopo_gradient *g);

/* An index that the gradient may share instead of making one (plan/plan.h). */
void fopo_gradient_lend(fopo_gradient *g, fopo_index *ix);

/* Whether it holds an order of the items or a structure over them, which must be made anew after
 * items were moved; and to do so, from the items on the host. */
int fopo_gradient_orders_items(const fopo_gradient *g);
int fopo_gradient_refresh(fopo_gradient *g);

/* True if it makes such an order by itself, when a batch needs one: that of a shared head, or the
 * automatic index (plan/mass.h). */
int fopo_gradient_owns_order(const fopo_gradient *g);

/* Another number after each refresh, and after what it was bound to was given back: then it has
 * another order. Never 0. */
uint64_t fopo_gradient_ordering(const fopo_gradient *g);

/* How many norms hold the mass, as the attached cache knows it; head 0: not measured. */
const fopo_mass *fopo_gradient_norms(const fopo_gradient *g);

/* What batches over pi's items make of `head` norms (plan/mass.h). */
typedef struct {
  size_t shared; /* items that all contexts share as their head; 0: candidates are searched */
  int by_index;  /* 1: in the index that the user chose, where all items are searched; 0: else */
  int clusters;  /* 1: then in clusters of the items */
} fopo_norms_use;

fopo_norms_use fopo_gradient_use(const fopo_gradient *g, const fopo_policy *pi,
                                 const fopo_device *device, uint64_t head);

/* The share of uniform draws of a proposal that the user gave; NAN if there is none. */
double fopo_gradient_epsilon(const fopo_gradient *g);

/* The gradient is wrong in this way from its next batch on, whatever options it is given. Refused
 * for estimators that take no faults. */
int fopo_gradient_plant(fopo_gradient *g, fopo_fault fault);
fopo_fault fopo_gradient_planted(const fopo_gradient *g);

/* Makes items, contexts and rewards resident on the device and checks all shapes. Again for other
 * data; unchanged arguments cost nothing. pi, contexts, reward and device are not owned: they must
 * stay, and items, contexts and the reward's arrays stay as they are, until the next bind or
 * free. */
int fopo_gradient_bind(fopo_gradient *g, fopo_device *device, const fopo_policy *pi,
                       fopo_contexts contexts, const fopo_reward *reward);
/* Whether it is bound to just that. */
int fopo_gradient_is_bound(const fopo_gradient *g, fopo_device *device, const fopo_policy *pi,
                           fopo_contexts contexts, const fopo_reward *reward);
const fopo_binding *fopo_gradient_binding(const fopo_gradient *g); /* to be read */

/* The arrays that it is bound to hold other contexts from now on, of the same shapes
 * (fopo_binding_renew_contexts); cached candidates of the former ones are expired. */
int fopo_gradient_renew_contexts(fopo_gradient *g);

/* Bound to nothing: before the arrays that it is bound to are freed. Accepts one that is not. */
void fopo_gradient_unbind(fopo_gradient *g);

/* FOPO_ERR_ARGUMENT if the options do not fit the data that the gradient is bound to, such as a
 * head of more items than there are. Each plan checks it too. */
int fopo_gradient_check_fit(fopo_gradient *g);

/* ---- a batch ---- */

/* The plan of the batches that follow (plan/plan.h): due at the first batch after bind, set,
 * open or refresh, and when a probe is, or a batch has more contexts than the plan
 * allows. It is for batches of up to B contexts; rows [n] are those of the next one. theta as for
 * begin. */
int fopo_gradient_plan_is_due(const fopo_gradient *g, size_t B);
int fopo_gradient_plan(fopo_gradient *g, const float *theta, const uint32_t *rows, size_t n,
                       size_t B);

/* Starts a batch, for which there must be a plan. theta: device, of the shape of pi->theta; NULL
 * takes pi->theta from the host. rows [B]: context ids < N, which stay until the end of the batch.
 */
int fopo_gradient_begin(fopo_gradient *g, const float *theta, const uint32_t *rows, size_t B,
                        fopo_draw_key key);

/* From now on the rows of batches are taken from the order, as far as they lie in it; {0}: none. */
void fopo_gradient_order(fopo_gradient *g, fopo_row_order order);

/* Draws, rewards and absorbs until the batch is done (FOPO_OK), or until the caller must fill
 * *drawn and call again (FOPO_DRAWN). What is handed out is valid until then, starts as NaN,
 * and is refused if it stays so. drawn NULL: a reward that the caller fills is refused. A failure
 * ends the batch. */
int fopo_gradient_estimate(fopo_gradient *g, fopo_drawn *drawn);
void fopo_gradient_abandon(fopo_gradient *g); /* forgets a batch that was begun */

/* The gradient, of the shape of theta, stays on the device (fopo_gradient_of) and is copied to
 * G if G.x is not NULL. */
int fopo_gradient_finish(fopo_gradient *g, fopo_matrix G, fopo_gradient_stats *stats);

/* Instead of finish, if the device has totals and items are fixed: statistics and norm go to
 * *totals on the device, and the host waits for nothing; seconds are added to `seconds`. */
int fopo_gradient_finish_async(fopo_gradient *g, fopo_totals *totals, double seconds[FOPO_PHASES]);

/* What the device's work for a batch depends on, besides the options and the data: two batches of
 * equal work may be replayed by one CUDA graph. */
typedef struct {
  size_t B, n_with_candidates, refresh;
  size_t limit; /* norms that searches look at; 0: all */
  size_t head;  /* items of a head that all contexts share; 0: none */
  double epsilon;
} fopo_work;

fopo_work fopo_gradient_work(const fopo_gradient *g); /* of the batch that was begun */
int fopo_work_equal(const fopo_work *a, const fopo_work *b);

/* ---- what is remembered from batch to batch ---- */

/* The batch of `rows` counts, with these statistics: only now do cached candidates grow older and
 * an adaptive epsilon move. After finish, or after means. */
void fopo_gradient_commit(fopo_gradient *g, const uint32_t *rows, size_t B,
                          const fopo_gradient_stats *stats);

/* The derivative of the reward by log sigma, of the batch just finished; sigma moves by it, if it
 * is learnt. */
double fopo_gradient_by_log_sigma(const fopo_gradient *g);
void fopo_gradient_move_sigma(fopo_gradient *g);
void fopo_gradient_set_sigma(fopo_gradient *g, double sigma, double squares);

/* True if the batch of `rows` updates the candidate cache or the adaptive epsilon, which cannot be
 * rolled back: synchronise, and read its statistics with means (all but norm and seconds), before
 * committing it. Any other batch may be committed before it has run, and rolled back, the latest
 * first. */
int fopo_gradient_must_sync(fopo_gradient *g, const uint32_t *rows, size_t B);
int fopo_gradient_means(fopo_gradient *g, fopo_gradient_stats *stats);
void fopo_gradient_rollback(fopo_gradient *g, const uint32_t *rows, size_t B);

/* For a slice of a run. From open on `cache`, which is not owned, remembers; and batches are made
 * by all ranks together, with the same arguments: each estimates its share of the contexts, and all
 * get the same gradient (ranks/parts.h). After close the gradient's own cache remembers again,
 * which is emptied when other data is bound, and each rank makes its own batches; of a part of the
 * catalogue all ranks always make them together. */
void fopo_gradient_open(fopo_gradient *g, fopo_candidate_cache *cache);
void fopo_gradient_close(fopo_gradient *g);

/* Bytes that the cached candidates of the bound contexts take; 0 if none are kept. */
uint64_t fopo_gradient_kept_bytes(const fopo_gradient *g);

/* ---- blocks of parameters (policy/blocks.h) ---- */

/* The gradient of a block by the batch just finished, on the device until the next one begins; that
 * of items that are fixed is {0}. */
fopo_item_gradient fopo_gradient_of(const fopo_gradient *g, fopo_block block);

/* The values of a block on the device, to be moved: the items, or the theta of the last batch. */
float *fopo_gradient_values(fopo_gradient *g, fopo_block block);

#endif
