/* What an estimator of estimators.c sees of a computation; private to learn/.
 *
 * A batch of B contexts is worked off in parts of at most `part` contexts, so that the draws of one
 * part stay bounded whatever B, S and P are. All arrays of a part are row-major with one row a
 * context. Device memory is made at the first batch of a size and kept.
 *
 * The queries of a part are made at once, and its statistics and its share of G come at once. Where
 * the host searches for a device that goes on by itself meanwhile, a part is drawn and combined in
 * pieces: while the device works on one, the host searches for the next. Otherwise a part is one
 * piece. Of a piece are the candidates and the draws, [piece, ...] at the front of their arrays; of
 * the part X, Q, V, stats and counts, where a piece has its own rows. */
#ifndef FOPO_LEARN_GRADIENT_INTERNAL_H
#define FOPO_LEARN_GRADIENT_INTERNAL_H

#include "learn/gradient.h"

typedef struct {
  const char *name;
  /* Fills ids [n, S], and logq [n, S] or mean [n, L], for the queries Q of n contexts. */
  int (*draw)(fopo_gradient *g, size_t n);
  /* V [n, L] and stats [n, FOPO_STATS] from ids and r; c [n, S] too where dev.c is not NULL. */
  int (*combine)(fopo_gradient *g, size_t n);
} fopo_estimator;

extern const fopo_estimator fopo_estimators[]; /* in the order of fopo_gradient_kind */

/* Device memory, owned. */
typedef struct {
  float *items;     /* [P, its ld on the host] */
  void *half;       /* [P, beta.ld] the policy's copy in half the bytes; NULL: none */
  float *contexts;  /* [N, its ld on the host] */
  fopo_csr Y;       /* hits: [N, P] */
  uint32_t *logged; /* [N] credit: actions, weights, gains */
  float *weight, *gain;
  float *model_users, *model_items; /* [N, rank], [P, rank] */
  float *theta;                     /* [n_theta] for callers whose theta is on the host */
  float *G;                         /* [n_theta] */

  uint32_t *rows;                /* [B] */
  float *X;                      /* [part, D] */
  float *hidden, *delta;         /* [part, units] of a network */
  float *Q, *V, *mean, *stats;   /* [part, L], stats [part, FOPO_STATS] */
  fopo_statistics *sums;         /* of the contexts absorbed */
  uint32_t *ids;                 /* [part, S] */
  float *logq, *r;               /* [part, S] */
  uint32_t *candidates, *counts; /* [part, K], [part] */
  float *candidate_scores;       /* [part, K] */
  uint32_t *due;                 /* [2, part] contexts that are searched: places, then rows */

  /* The order of a norm index; NULL until one is searched on the device. */
  uint32_t *order;       /* [P] */
  float *norms, *packed; /* [P], [packed_rows, L] */

  /* Items that are learnt; NULL where they are fixed. */
  float *c;                   /* [part, S] */
  float *log_z, *mean_weight; /* [part] */
  float *item_rows;           /* [P, L], or a row for each distinct draw */
  uint32_t *touched;          /* [distinct draws] */
} fopo_gradient_on_device;

/* The rows of a piece in the arrays of its part. */
typedef struct {
  float *Q, *V, *stats; /* device [n, L], stats [n, FOPO_STATS] */
  uint32_t *counts;     /* device [n] */
  float *host_Q;        /* [n, L] */
} fopo_gradient_piece;

/* The device arrays' counterpart on the host, owned: here the index searches, and callers reward.
 */
typedef struct {
  float *G, *Q;
  uint32_t *candidates, *counts;
  float *candidate_scores;
  uint32_t *due; /* [2, part] */
  uint32_t *ids;
  float *reward;
  float *stats, *mean_weight; /* [part, FOPO_STATS], [part] for items that are learnt */
} fopo_gradient_on_host;

typedef enum { FOPO_STAGE_IDLE, FOPO_STAGE_READY, FOPO_STAGE_DRAWN } fopo_stage;

struct fopo_gradient {
  fopo_gradient_options options;
  const fopo_estimator *estimator;
  fopo_fault fault;
  int checked; /* options fit the data that is bound */

  /* What is bound; not owned. */
  fopo_device *device;
  const fopo_policy *pi;
  fopo_matrix items;    /* [P, L] */
  fopo_rows rows_given; /* the policy's, on the host */
  fopo_rows beta;       /* as draws read the items: dev.items or dev.half */
  fopo_matrix contexts; /* [N, D] */
  const fopo_reward *reward;
  fopo_csr Y;          /* the views that dev.Y, */
  fopo_credit credit;  /* dev.logged, weight, gain, */
  fopo_low_rank model; /* and dev.model_users, model_items were made of */
  size_t P, D, L;
  size_t n_theta, units; /* parameters of theta, hidden units of a network */

  /* The batch. */
  fopo_stage stage;
  const float *theta;   /* device [n_theta]; not owned */
  const uint32_t *rows; /* [B] context ids on the host; not owned */
  size_t B, S, part;
  size_t piece;            /* contexts drawn at once, <= part */
  size_t done;             /* contexts absorbed */
  size_t first, length;    /* of the part at hand: its place in the batch, and its contexts */
  size_t n;                /* contexts of the piece that is drawn, */
  fopo_gradient_piece now; /* and its rows */
  fopo_draw_key key;
  fopo_proposal q;          /* the options' with the epsilon of this batch's draws */
  size_t n_with_candidates; /* the first contexts of the batch that get candidates */
  size_t with_candidates;   /* and of the piece that is drawn */
  int fetched;              /* host.Q has the queries of the part */
  int by_graph;             /* the host searches, in a graph: each query for itself */
  int on_device;            /* the device searches for candidates, in */
  fopo_catalogue catalogue;
  uint64_t order_version; /* of the index that dev.order is of; 0: of none */
  size_t packed_rows;     /* of dev.packed */
  int train_items;        /* as the policy's when it was bound */
  int dense_items;        /* item_rows is [P, L] */
  size_t n_touched;
  int from_host;  /* the rewards of this part come from host.reward */
  double waiting; /* clock when the draws were handed out */
  double seconds[FOPO_PHASES];

  fopo_candidate_cache own;    /* what is remembered where nobody lends another memory */
  fopo_candidate_cache *cache; /* &own, or lent */

  fopo_gradient_on_device dev;
  fopo_gradient_on_host host;
  size_t room_rows, room_part, room_draws, room_candidates; /* elements there is room for */
  size_t room_handed;                                       /* in host.ids and host.reward */
  size_t room_c, room_weights, room_items;                  /* room_items: rows */
  size_t enumerated; /* rows of dev.ids that list the whole catalogue */
};

/* Whether options.proposal is of any meaning. */
static inline int fopo_gradient_has_proposal(const fopo_gradient_options *o) {
  return o->kind == FOPO_GRADIENT_SNIS || o->kind == FOPO_GRADIENT_HEAD_TAIL;
}

/* The piece that is drawn, n contexts, as the device's operations take it. */
static inline fopo_device_batch fopo_gradient_batch(const fopo_gradient *g, size_t n) {
  return (fopo_device_batch){.B = n,
                             .S = g->S,
                             .P = g->P,
                             .L = g->L,
                             .rows = g->dev.rows + g->done,
                             .Q = g->now.Q,
                             .key = g->key};
}

static inline fopo_samples fopo_gradient_samples(const fopo_gradient *g) {
  return (fopo_samples){g->dev.ids, g->dev.logq, g->dev.r};
}

static inline fopo_candidate_sets fopo_gradient_sets(const fopo_gradient *g) {
  return (fopo_candidate_sets){g->q.k, g->dev.candidates, g->dev.candidate_scores, g->now.counts};
}

static inline fopo_estimate fopo_gradient_estimate(const fopo_gradient *g) {
  return (fopo_estimate){g->now.V, g->dev.c, g->now.stats};
}

/* The items on the device, in float32. */
static inline fopo_matrix fopo_gradient_device_matrix(const fopo_gradient *g) {
  return (fopo_matrix){g->dev.items, g->P, g->L, g->items.ld};
}

/* How many of the n contexts from place `first` of the batch on get candidates. */
static inline size_t fopo_gradient_with_candidates(const fopo_gradient *g, size_t first, size_t n) {
  return g->n_with_candidates <= first      ? 0
         : g->n_with_candidates - first < n ? g->n_with_candidates - first
                                            : n;
}

/* gradient_bind.c. n elements in the place of `old` on the device; NULL with the sentence set on
 * failure. */
void *fopo_gradient_reserve(fopo_gradient *g, void *old, size_t n, size_t size);
void *fopo_gradient_reserve_host(void *old, size_t n, size_t size); /* the same on the host */
/* Gives back all that lies on the device, and forgets what it was made of. */
void fopo_gradient_unbind(fopo_gradient *g);
/* Between begin and finish a batch stays as it was begun, whatever a reward's function does. */
int fopo_gradient_idle(const fopo_gradient *g);

/* Spoils the draws of n contexts as g->fault says. */
int fopo_gradient_inject_fault(fopo_gradient *g, size_t n);

/* gradient_search.c: whether the device finds the batch's candidates itself, and what it needs for
 * that; gives back what it has of an order. */
int fopo_gradient_choose_search(fopo_gradient *g);
void fopo_gradient_forget_order(fopo_gradient *g);

/* gradient_items.c: room for the items' gradient; a part's contribution, after its statistics. */
int fopo_gradient_items_prepare(fopo_gradient *g);
int fopo_gradient_items_add(fopo_gradient *g);

#endif
