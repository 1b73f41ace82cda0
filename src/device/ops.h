/* The arguments of a device's operations, and the table of them. The operations are described at
 * their rows in device/ops.def.
 *
 * The structs only name arrays, they own none. A pointer marked "device" may be dereferenced by
 * operations alone; so may the pointer of a fopo_matrix or fopo_rows that is given to one. A const
 * struct may name arrays that the operation writes. */
#ifndef FOPO_DEVICE_OPS_H
#define FOPO_DEVICE_OPS_H

#include <float.h>

#include "core/csr.h"
#include "core/matrix.h"
#include "device/network.h"
#include "device/objective.h"
#include "device/score.h"
#include "device/slate.h"
#include "device/statistics.h"
#include "kernels/rows.h"

typedef struct fopo_device fopo_device;

/* ---- the batch ---- */

/* The coordinates of a batch's random numbers, core/rng.h. */
typedef struct {
  uint64_t seed;
  uint32_t step;
} fopo_draw_key;

/* The contexts that an operation works on: a batch, or a part of one. An operation reads the fields
 * that it needs. */
typedef struct {
  size_t B;               /* contexts */
  size_t S;               /* samples of each */
  size_t P;               /* items */
  size_t L;               /* numbers of a query and of an item */
  size_t with_candidates; /* add_stats alone: the first contexts, which were given candidates */
  const uint32_t *rows;   /* device [B] their ids */
  const uint32_t *counts; /* device [B] the samples that each has, its first ones; NULL: S of all */
  const float *Q;         /* device [B, L] their queries */
  fopo_sparse_scores sparse; /* added to the scores of a few items; zeros: nothing. Its ids are
                              * those of the samples: of a part of a catalogue, rows of the part */
  fopo_draw_key key;
} fopo_device_batch;

/* The sparse part of a batch's scores, with the row of each context. */
static inline fopo_sparse_scores fopo_batch_scores(const fopo_device_batch *batch) {
  fopo_sparse_scores s = batch->sparse;
  if (s.rows == NULL) s.rows = batch->rows;
  return s;
}

typedef struct {
  uint32_t *ids; /* device [B, S] the items drawn */
  float *logq;   /* device [B, S] the log of the density that each was drawn with */
  float *r;      /* device [B, S] rewards */
} fopo_samples;

/* ---- candidates ---- */

typedef struct {
  size_t k;         /* K: the stride of ids and scores */
  uint32_t *ids;    /* device [B, k], best first */
  float *scores;    /* device [B, k] f of each; NULL if not needed */
  uint32_t *counts; /* device [B] how many were found, <= k */
} fopo_candidate_sets;

/* The mixture proposal (the paper's q_{K,eps}). */
typedef struct {
  fopo_candidate_sets sets;
  double epsilon; /* share of the uniform part, 0 .. 1; stratified: a multiple of 1 / S */
  int stratified; /* 1: exactly eps S uniform draws, the rest from kappa; 0: iid */
} fopo_mixture;

/* The longest rows, and the most draws of a context, that snis_drawn and snis_head can draw by
 * themselves. */
enum { FOPO_FUSED_DIM = 1024, FOPO_FUSED_DRAWS = 1 << 18 };

typedef enum { FOPO_DRAW_UNIFORM, FOPO_DRAW_MIXTURE, FOPO_DRAW_TAIL } fopo_draw_kind;

/* Draws that snis_drawn makes and uses in one kernel, without storing them. */
typedef struct {
  fopo_draw_kind kind;
  fopo_mixture mixture; /* of a tail its sets alone, which are the heads */
  const uint32_t *kept; /* device [B]: context b has row kept[b] of the sets' ids and counts, which
                         * are those of all contexts; NULL: row b. Scores are [B, k] always */
} fopo_drawing;

/* The items in the order in which a search goes through them: places 0 .. limit - 1. If norms are
 * given, the search ends as soon as no remaining place can hold one of the k best of any query. */
typedef struct {
  const float *items; /* device [P, ld] */
  size_t P, ld;
  const uint32_t *order; /* device [P] the item at each place; NULL: 0, 1, 2, .. */
  const float *norms;    /* device [P] by place, rounded up, descending; or NULL */
  const float *packed;   /* device [packed_rows, L] copies of the items at the first places; */
  size_t packed_rows;    /* only with an order, and may be 0 */
  fopo_rows half;        /* device [P, ld]: round_items of them, for a first pass; x NULL: none */
  size_t limit;          /* 1 .. P */
} fopo_catalogue;

/* The most candidates that a device searches for itself. */
enum { FOPO_TOPK_MOST = 2048 };

/* A head that all contexts share: the H items of largest norm, with their rows packed. */
typedef struct {
  size_t H;
  const uint32_t *order; /* device [P] the items of the head, then the others, by falling norm */
  const uint32_t *place; /* device [P] where each item stands in `order` */
  fopo_rows rows;        /* device [H, ld] the rows of the head, in that order */
} fopo_shared_head;

/* What the scores and sums of a shared head are multiplied in. */
typedef enum {
  FOPO_PRODUCTS_AUTO, /* the device's choice: bfloat16 where it multiplies that faster, unless the
                       * items are float16, which are chosen for their precision; else float32 */
  FOPO_PRODUCTS_FLOAT32,
  FOPO_PRODUCTS_BFLOAT16 /* the rows are rounded, whatever the device multiplies them in */
} fopo_products;

/* The logq of a tail that is drawn in full: so close to 0 that it changes no weight, and as the
 * floor of snis it tells the head, whose logq is 0, from the tail. */
#define FOPO_TAIL_LEAST (-FLT_MIN)

/* The part of a catalogue of P items that this process holds, one of `size` that hold the others
 * (ranks/shard.h). Place p of the norm order is row p / size of part p mod size, so the rows of a
 * part are in the norm order too. */
typedef struct {
  size_t P, rows;
  uint32_t rank, size;
  const uint32_t *id;     /* [rows] the item of each row */
  const uint32_t *sorted; /* [rows] the rows by ascending item */
  const uint32_t *guide;  /* [(P >> shift) + 2]: in sorted, items from a << shift on begin there */
  unsigned shift;
} fopo_part;

/* The others, of which all contexts share draws too. */
typedef struct {
  size_t H;              /* items of the head, of all parts of the catalogue */
  const fopo_part *part; /* the one that this process holds; NULL: the catalogue is whole */
} fopo_shared_tail;

/* The row of an item in the part; UINT32_MAX: another part holds it. */
static inline uint32_t fopo_part_row(const fopo_part *part, uint32_t id) {
  uint32_t end = part->guide[(id >> part->shift) + 1];
  for (uint32_t i = part->guide[id >> part->shift]; i < end; i++) {
    if (part->id[part->sorted[i]] == id) return part->sorted[i];
  }
  return UINT32_MAX;
}

/* How many of the first `places` of the norm order the part holds. */
static inline size_t fopo_part_places(const fopo_part *part, size_t places) {
  return (places + part->size - 1 - part->rank) / part->size;
}

/* ---- the policy and the rewards ---- */

/* Further results of draw_policy, each if not NULL; and k, if draws are slates of k items. With a
 * head mean and log_z are estimates from the head and `tail` draws of the others, and slates are
 * drawn of all items nevertheless. */
typedef struct {
  float *mean;                  /* device [B, L] E_pi beta */
  float *log_z;                 /* device [B] the log of the softmax's denominator */
  size_t distinct;              /* k: the items of a slate differ; 0: draws are independent */
  const fopo_shared_head *head; /* of slates, on the CPU alone; NULL: all items are read */
  size_t tail;                  /* 1 .. P - H, which all contexts share */
} fopo_policy_sums;

/* One way through a network and back. */
typedef struct {
  const fopo_network *net;
  const float *theta; /* device [params] */
  float *hidden;      /* device [B, units] written forward, read backward */
  float *delta;       /* device [B, units] scratch of the way back; forward: may be NULL */
  float scale;
} fopo_network_pass;

/* The log of a reward: for each of N contexts one action and its credit, weight (gain - shift). */
typedef struct {
  const uint32_t *action; /* device [N] */
  const float *weight;    /* device [N] */
  const float *gain;      /* device [N] */
  float shift;            /* subtracted from every gain */
} fopo_credit;

/* A model of the reward, of low rank: link(users[n] . items[a]). */
typedef struct {
  const float *users; /* device [N, rank] */
  const float *items; /* device [P, rank] */
  size_t rank;
  int logistic; /* link: 0 identity, 1 t -> 1 / (1 + exp(-t)) */
} fopo_low_rank;

/* What a hit on an item earns, by `value` [P] (of a part of a catalogue [rows]), in which no number
 * is below 0; NULL: 1. */
FOPO_ON_BOTH static inline float fopo_hit_value(const float *value, uint32_t id) {
  return value != NULL ? value[id] : 1.0f;
}

/* A reward that is 0 but for a few items of each context: the items of its row of Y, each of which
 * earns its value, or the action of a log with its credit. A part that is absent is all zeros. */
typedef struct {
  fopo_csr Y;         /* its arrays are device pointers */
  const float *value; /* device [P], as fopo_hit_value takes it */
  fopo_credit credit;
} fopo_sparse_reward;

/* The arrays that rewards are read from: on the host, or a device's copies. Zeros stand for none.
 */
typedef struct {
  fopo_csr Y;          /* [N, P] the items that are hits */
  const float *value;  /* [P] what a hit on each earns; NULL: 1 */
  fopo_credit credit;  /* [N] the logged action of each context and what it earned */
  fopo_low_rank model; /* r_M, a model of the reward of rank r: [N, r], [P, r] */
} fopo_reward_arrays;

/* ---- estimates and their statistics ---- */

typedef struct {
  fopo_objective_kind objective; /* 0: the expected reward */
  float *V;                      /* device [B, L] one vector a context; the gradient is X^T V */
  float *c;     /* device [B, S] the coefficients of the samples; NULL: not wanted */
  float *stats; /* device [B, FOPO_STATS] */
  float *sums;  /* device [B, fopo_sums_width(L)]; not NULL: the sums are wanted, not V and stats */
  fopo_statistics *batch; /* device; not NULL: *batch becomes what add_stats would make of stats;
                           * snis_drawn and snis_head alone */
} fopo_estimate;

/* The sums of self-normalised importance sampling over some of a context's samples, so that those
 * of several processes can be joined: shift, sum w, sum w^2, sum w r, sum w over the head (doubles,
 * all relative to exp(shift)), then sum w beta [L] and sum w r beta [L] (floats). */
enum { FOPO_SUMS_DOUBLES = 5 };

static inline size_t fopo_sums_width(size_t L) { return 2 * L + 2 * FOPO_SUMS_DOUBLES; }

/* The beginning of a batch, or of a part of it. */
typedef struct {
  const uint32_t *order; /* device: the contexts of many steps; NULL: `rows` stand already */
  size_t first;          /* the batch begins at this place of order */
  size_t skipped;        /* and rows [0] at this place of the batch */
  uint32_t *rows;        /* device [X.rows] */
  fopo_matrix contexts;  /* device [N, D] */
  fopo_matrix X, Q;      /* device; Q.x NULL: not wanted */
  const float *theta;
  float scale;
} fopo_batch_start;

/* What the steps of a slice come to, for a host that does not wait for each of them. A step is
 * added to both sums when it is whole. */
typedef struct {
  fopo_statistics slice;  /* since the slice began */
  fopo_statistics record; /* since the last record ended: runs on from slice to slice */
  double norm;            /* of the last step's gradient */
  uint64_t broken; /* 1: the gradient after these steps was not finite; nothing moves any more */
} fopo_totals;

/* ---- optimisers ---- */

typedef struct {
  float *theta;      /* device [n] */
  float *m, *v;      /* device [n] adam's moments; sgd: its velocity m; adagrad: its sums v */
  uint32_t *updates; /* device [n / L] adam_rows alone: updates of each row */
  size_t n;
} fopo_parameters;

/* The gradient of the items that were drawn, or of all. */
typedef struct {
  float *rows;   /* device [n, L] */
  uint32_t *ids; /* device [n] ascending; NULL: all P items, n = P */
  size_t n;
} fopo_item_gradient;

/* What all updates have in common. */
typedef struct {
  double lr;                 /* of this update, > 0 */
  double weight_decay;       /* >= 0; L2: G <- G - weight_decay theta */
  int decoupled;             /* 1: theta <- (1 - lr weight_decay) theta instead */
  double clip;               /* > 0: a gradient of a larger norm is scaled to it; 0: none is */
  double norm;               /* of the gradient; not read if there are totals, which know it */
  const fopo_totals *totals; /* device: nothing moves if it is broken; NULL: there is none */
} fopo_update;

typedef struct {
  fopo_update u;
  double beta1, beta2, eps;
  uint64_t t; /* 1 at the first update */
} fopo_adam;

typedef struct {
  fopo_update u;
  double momentum;
} fopo_sgd;

typedef struct {
  fopo_update u;
  double eps;
} fopo_adagrad;

/* A step that is replayed. */
typedef struct {
  uint32_t step;  /* of its draws */
  size_t first;   /* place in the order of contexts where its batch begins */
  fopo_adam adam; /* lr and t; of other optimisers lr alone, the betas being 0 */
} fopo_replayed;

enum { FOPO_REPLAYS = 32 }; /* the most that one call launches */

/* G is multiplied by the scale, 1 if nothing is clipped; norm: that of the gradient. */
FOPO_ON_BOTH static inline float fopo_update_scale(const fopo_update *u, double norm) {
  return u->clip > 0.0 && norm > u->clip ? (float)(u->clip / norm) : 1.0f;
}

/* G - decay theta is the gradient with weight decay by L2. */
static inline float fopo_update_decay(const fopo_update *u) {
  return u->decoupled ? 0.0f : (float)u->weight_decay;
}

/* theta is multiplied by it: 1 unless weight decay is decoupled. */
static inline float fopo_update_keep(const fopo_update *u) {
  return u->decoupled ? (float)(1.0 - u->lr * u->weight_decay) : 1.0f;
}

/* ---- the table ---- */

/* A row FOPO_OP(snis, ...) of device/ops.def becomes the type fopo_snis_op, the field `snis` of
 * fopo_device_ops, and the functions fopo_cpu_snis (cpu/) and gpu::snis (cuda/). */

#define FOPO_OP(name, who, ...) typedef int fopo_##name##_op(__VA_ARGS__);
#include "device/ops.def"
#undef FOPO_OP

typedef struct {
  const char *kind; /* "cpu", "cuda" */
  int asynchronous; /* 1: it works while the host goes on, and get waits for it */
#define FOPO_OP(name, who, ...) fopo_##name##_op *name;
#include "device/ops.def"
#undef FOPO_OP
} fopo_device_ops;

struct fopo_device {
  const fopo_device_ops *ops;
  char name[128]; /* "CPU, 2 threads, avx512" */
  char note[256]; /* why this one, for device = "auto" */
  void *state;    /* private to the device, owned */
};

#endif
