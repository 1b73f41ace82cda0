/* The course of one batch: contexts to queries, queries to draws, draws to rewards, rewards to one
 * vector v a context, and G = X^T V / (B T) over the batch. This is what an estimator sees; private
 * to learn/.
 *
 * A batch of B contexts is cut into parts of at most `part` contexts, so that the draws of one part
 * stay bounded whatever B, S and P are. How it is cut follows from B, S and P alone, so the order
 * of all sums does too: the same bits for any number of threads, and with rewards from the host or
 * from the device. The queries of a part are made by one operation, and its statistics and its
 * share of G are added by one each; it is drawn and combined in pieces (learn/candidates.h), mostly
 * a single one.
 *
 * Nothing is allocated once a batch of the same size has been seen. */
#ifndef FOPO_LEARN_BATCH_H
#define FOPO_LEARN_BATCH_H

#include "core/status.h"
#include "learn/candidates.h"
#include "learn/estimator.h"
#include "learn/fault.h"
#include "learn/reward.h"
#include "learn/weight_rows.h"
#include "policy/lists.h"

/* The draws of a piece, at the front of arrays that hold a part's. Device memory, owned. */
typedef struct {
  fopo_samples samples; /* ids, their log densities, their rewards [part, S] */
  float *mean;          /* [part, L] E_pi beta */
  float *log_z;         /* [part] log Z, where the estimator's draw fills it (draw_policy can) */
  float *c;             /* [part, S] the coefficient of each draw; NULL if items are fixed and the
                         * caller gives none */
  float *f;             /* [part, S] their scores, for a caller who gives coefficients; else NULL */
  float *value;         /* [part] what he raises in each context, if he says it; else NULL */
  float *weight;        /* [part] scratch of add_items; NULL if items are fixed */
  uint32_t *host_ids;   /* [part, S] on the host, if rewards are not looked up on the device */
  float *host_r;
  size_t enumerated; /* rows of ids that list the whole catalogue (estimators/exact.c) */

  /* Of estimators that search for themselves. */
  float *near;               /* [part, near, L] their queries */
  fopo_candidate_sets found; /* ids, scores and counts of a search */
  fopo_left_out *masked;     /* [part] what it leaves out, on the host */
} fopo_draws;

/* The arrays of a part, and the sums over the batch. Device memory, owned. */
typedef struct {
  uint32_t *rows;        /* [B] */
  float *X;              /* [part, D] */
  float *hidden, *delta; /* [part, n_hidden] of the policy's passes */
  float *Q, *V;          /* [part, L] */
  float *stats;          /* [part, FOPO_STATS] */
  float *G;              /* [n_theta] */
  fopo_statistics *sums; /* of the contexts absorbed */
  float *host_G;         /* [n_theta] on the host */
  float *host_stats;     /* [part, FOPO_STATS] on the host, scratch of add_items and joined */
  float *host_weight;    /* [part] */
  double *host_rule;     /* [3, part] R, value and slope of an objective of the caller's */
} fopo_batch_arrays;

/* The gradient of items that are learnt, from the coefficients c that the estimators give out: with
 * Q_b = h(x_b) / T,
 *
 *     dR/d beta_a = sum over the draws (b, s) of item a of c_bs Q_b / B.
 *
 * If the c of every context sum to 0, only the items drawn have a gradient: their rows are kept
 * packed, in ascending order of the items. Other estimators move all P, and a batch in several
 * parts may: their rows are [P, L], which is called dense. */
typedef struct {
  fopo_item_gradient
      sum; /* of rows and ids; ids NULL and n = P if it is dense; {0}: items are fixed */
  int dense;
  float *rows;   /* device [P or draws of a part, L]; owned */
  uint32_t *ids; /* device, those of the rows; owned */
} fopo_item_rows;

enum { FOPO_BATCH_ARRAYS = 40 }; /* rows of the table in batch_memory.c */

typedef enum {
  FOPO_STAGE_IDLE,
  FOPO_STAGE_READY,
  FOPO_STAGE_PROPOSED, /* the caller makes the piece's draws */
  FOPO_STAGE_DRAWN     /* he fills their rewards and coefficients */
} fopo_stage;

struct fopo_batch {
  const fopo_gradient_options *options; /* not owned, as is the data */
  const fopo_binding *data;
  const fopo_reward *reward;
  const fopo_plan *plan;
  fopo_candidates candidates;
  fopo_fault fault;

  fopo_stage stage;
  const float *theta;   /* device [n_theta]; not owned */
  const uint32_t *rows; /* [B] context ids on the host; not owned */
  fopo_row_order order; /* not owned */
  int fused;            /* 1: draws are rewarded and combined where they are made */
  int outer_due;        /* 1: G is still to be made of X and V */
  fopo_draw_key key;
  size_t B, S;
  size_t near;                  /* queries that a context has besides its own */
  size_t part_size, piece_size; /* contexts, at most */
  float shift;                  /* of the gains of a log, where the objective is a ratio */
  size_t done;                  /* contexts absorbed */
  fopo_span part, piece;        /* at hand */
  fopo_draws draws;
  fopo_batch_arrays arrays;
  fopo_item_rows items;
  size_t room[FOPO_BATCH_ARRAYS]; /* bytes of each array */
  fopo_weight_rows weights;       /* filled by an estimator that scores lists */
  fopo_list_row *lists; /* [n_lists] the candidates of a context, one for each thread; owned */
  size_t n_lists;
  double by_log_sigma; /* the derivative of the batch's reward by log sigma, if slates have it */
  double handed_out;   /* clock when the draws of the piece were there */
  double seconds[FOPO_PHASES];
};

/* Whether the gradient is of target items, the items of Y, whose part is added after the draws'. */
static inline int fopo_batch_has_targets(const fopo_batch *b) {
  return fopo_objective_rows[b->options->objective].targets;
}

/* Whether the caller makes the draws. */
static inline int fopo_batch_proposes(const fopo_batch *b) {
  const fopo_proposal *q = fopo_options_proposal(b->options);
  return q != NULL && q->kind == FOPO_PROPOSAL_CUSTOM;
}

/* Whether all contexts share a tail, besides a head: its draws are made where they are used. */
static inline int fopo_batch_shares_tail(const fopo_batch *b) {
  return b->plan->H > 0 && b->plan->listed == 0 && b->data->device->ops->snis_shared != NULL &&
         b->options->estimator->needs & FOPO_SHARES_HEAD;
}

enum { FOPO_PLACES = 1 << 20 }; /* answers that a search on a device has room for, at least */

/* Whether the objective is the ratio of learn/ratio.h. */
static inline int fopo_batch_is_ratio(const fopo_batch *b) {
  return b->options->objective == FOPO_OBJECTIVE_SNIPS;
}

/* Whether the piece is all of the batch: then a fused operation adds up its statistics, too. */
static inline int fopo_batch_is_whole(const fopo_batch *b) {
  return b->fused && b->piece.n == b->B && !fopo_batch_has_targets(b) &&
         !fopo_batch_shares_tail(b) && !fopo_batch_is_ratio(b);
}

/* Where the device's operations leave v of the piece. */
static inline fopo_estimate fopo_batch_estimate(const fopo_batch *b) {
  return (fopo_estimate){.V = b->piece.V.x,
                         .c = b->draws.c,
                         .stats = b->piece.stats,
                         .batch = fopo_batch_is_whole(b) ? b->arrays.sums : NULL,
                         .sums = b->data->parts->sums,
                         .objective = b->options->objective};
}

/* What is taken from the gains of a log; the reward's own may change between two steps. */
static inline float fopo_batch_shift(const fopo_batch *b) {
  return fopo_batch_is_ratio(b) ? b->shift : b->reward->credit.shift;
}

/* The reward, for an estimator that looks at few items of a context. */
static inline fopo_sparse_reward fopo_batch_sparse(const fopo_batch *b) {
  const fopo_binding *data = b->data;
  fopo_sparse_reward reward = {
      .Y = data->credited.Y, .value = data->credited.value, .credit = data->credited.credit};
  reward.credit.shift = fopo_batch_shift(b);
  return reward;
}

/* Adds the sums over the piece's draws to the gradient of items that are learnt. */
static inline int fopo_batch_add_draws(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_item_gradient *sum = &b->items.sum;
  int clear = b->piece.first == 0 && sum->ids == NULL;
  int status = clear ? d->ops->clear(d, sum->rows, b->data->P * b->data->L) : FOPO_OK;
  if (status != FOPO_OK) return status;
  return d->ops->items_gradient(d, sum, b->draws.c, &b->draws.samples, 1.0f / (float)b->B,
                                &b->piece.device);
}

/* Of the piece's draws those that are held here. */
static inline int fopo_batch_keep_draws(fopo_batch *b) {
  fopo_parts *p = b->data->parts;
  return p->ops->keep_draws(p, b->data->device, &b->draws.samples, &b->piece.device);
}

/* Contexts that are fetched batch by batch come with their hits: *Y, those of the part at hand, and
 * *rows, where in them those of the piece are. Else both stay as they are. */
static inline void fopo_batch_fetched(const fopo_batch *b, fopo_csr *Y, const uint32_t **rows) {
  const fopo_parts *p = b->data->parts;
  if (p->shared == NULL) return;
  *Y = p->fetched.Y;
  *rows = p->fetched.places + (b->piece.first - b->part.first);
}

/* Options, data and planner outlive the batch. */
void fopo_batch_init(fopo_batch *b, const fopo_gradient_options *options,
                     const fopo_planner *planner);
void fopo_batch_unbind(fopo_batch *b); /* gives back all memory */

/* Decides how batches of the plan are cut, and makes room for their parts and draws. */
int fopo_batch_prepare(fopo_batch *b);
int fopo_batch_reserve(fopo_batch *b);       /* the room alone */
int fopo_batch_reserve_lists(fopo_batch *b); /* of estimators that score lists, for each thread */

/* Starts a batch of at most as many contexts as the plan allows. theta: device, or NULL for the
 * policy's. */
int fopo_batch_begin(fopo_batch *b, const float *theta, const uint32_t *rows, size_t B,
                     fopo_draw_key key);

/* Draws, rewards and absorbs piece by piece. FOPO_OK: the batch is whole; FOPO_DRAWN: the caller
 * fills drawn->reward and calls again; a failure ends the batch. */
int fopo_batch_run(fopo_batch *b, fopo_drawn *drawn);

/* The statistics of a whole batch, all but norm and seconds. */
int fopo_batch_means(fopo_batch *b, fopo_gradient_stats *stats);
int fopo_batch_finish(fopo_batch *b, fopo_matrix G, fopo_gradient_stats *stats);
int fopo_batch_finish_async(fopo_batch *b, fopo_totals *totals, double seconds[FOPO_PHASES]);

#endif
