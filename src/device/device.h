/* A device: about a dozen coarse operations on resident data. A whole batch stays on the device;
 * only the gradient's statistics come back. The CPU and CUDA implement the same table in the same
 * order, with the same samples (core/rng.h), so results differ by summation order alone.
 *
 * Pointers marked "device" may be dereferenced by operations only. Shapes are checked by the
 * callers in learn/; an operation fails only for want of memory or by a fault of the device. */
#ifndef FOPO_DEVICE_DEVICE_H
#define FOPO_DEVICE_DEVICE_H

#include <float.h>

#include "core/csr.h"
#include "device/network.h"
#include "kernels/rows.h"

typedef struct fopo_device fopo_device;

/* Statistics of one context's estimate, in this order in stats [B, FOPO_STATS]. */
enum {
  FOPO_STAT_REWARD,     /* estimate of E_pi r: rbar = sum_s wbar_s r_s */
  FOPO_STAT_ESS,        /* effective sample size 1 / sum_s wbar_s^2, in 1 .. S */
  FOPO_STAT_MAX_WEIGHT, /* max_s wbar_s */
  FOPO_STAT_HEAD_MASS,  /* estimated share of pi inside the candidates; 0 without candidates */
  FOPO_STATS
};

/* What a mixture draw needs (the paper's q_{K,eps}). */
typedef struct {
  size_t k;               /* K: stride of ids and scores */
  const uint32_t *ids;    /* device [B, K] candidates, best first */
  const float *scores;    /* device [B, K] their scores f */
  const uint32_t *counts; /* device [B] how many were found, <= K; 0: this context draws uniform */
  double epsilon;         /* share of the uniform part, 0 .. 1; stratified: a multiple of 1 / S */
  int stratified;         /* 1: exactly eps S uniform draws, the rest from kappa; 0: iid */
} fopo_mixture;

/* The logq of a tail that is drawn in full: it changes no weight, and a floor of as much tells the
 * head's 0 from any tail. */
#define FOPO_TAIL_LEAST (-FLT_MIN)

/* The most candidates that a device searches for itself. */
enum { FOPO_TOPK_MOST = 2048 };

/* The statistics of a batch, added up over its contexts. */
typedef struct {
  double reward, ess;       /* sums */
  double max_weight;        /* the largest */
  double head_mass;         /* sum over the contexts that have candidates */
  double n_with_candidates; /* how many contexts were given candidates, */
  double short_rows;        /* and how many got fewer than were asked for */
} fopo_sums;

/* The steps of a run whose host does not wait for each of them: sums over the whole ones of their
 * batches' means, but sums of head_mass, n_with_candidates and short_rows. Zeros at first. */
typedef struct {
  fopo_sums sums;
  double norm;     /* of the gradient, Frobenius */
  uint64_t steps;  /* whole ones */
  uint64_t broken; /* 1: the gradient after those was not finite, and since then nothing moves */
} fopo_totals;

/* The coordinates of a batch's random numbers, core/rng.h. */
typedef struct {
  uint64_t seed;
  uint32_t step;
} fopo_draw_key;

/* What a log says of each of N contexts: one action, and what it is credited with. */
typedef struct {
  const uint32_t *action; /* device [N] */
  const float *weight;    /* device [N] */
  const float *gain;      /* device [N] */
  float shift;            /* taken from every gain */
} fopo_credit;

/* A model of the reward, of low rank: link(users[n] . items[a]). */
typedef struct {
  const float *users; /* device [N, rank] */
  const float *items; /* device [P, rank] */
  size_t rank;
  int logistic; /* link: 0 identity, 1 t -> 1 / (1 + exp(-t)) */
} fopo_low_rank;

/* The items as a search goes through them: places 0 .. limit - 1 of the order. Where norms are
 * given it ends as soon as no place left can hold one of the k best of any query. */
typedef struct {
  const float *items; /* device [P, ld] */
  size_t P, ld;
  const uint32_t *order; /* device [P] the items' ids place by place; NULL: 0, 1, 2, .. */
  const float *norms;    /* device [P] their norms in that order, rounded up, descending; or NULL */
  const float *packed;   /* device [packed_rows, L] the items of the first places side by side; */
  size_t packed_rows;    /* of an order alone, and may be 0 */
  fopo_rows half; /* device: the items once more, in bfloat16, for a first look; x NULL: none */
  size_t limit;   /* 1 .. P */
} fopo_catalogue;

typedef struct {
  double lr, beta1, beta2, eps, weight_decay; /* decay: theta <- theta, G <- G - decay theta */
  uint64_t t;                                 /* 1 at the first update */
  const fopo_totals *totals; /* device: where it is broken nothing moves; NULL: there is none */
} fopo_adam;

typedef struct {
  double lr, momentum, weight_decay;
  const fopo_totals *totals;
} fopo_sgd;

typedef struct {
  const char *kind; /* "cpu", "cuda" */
  int queued;       /* 1: it works while the host goes on, and get waits for it */

  /* Memory. alloc gives zeroed bytes. share: the device's copy of host data, on the CPU the host
   * pointer itself, so that the items exist once; it must outlive its use. release takes what share
   * or alloc gave. put and get do nothing where both are the same memory. */
  int (*alloc)(fopo_device *d, void **device, size_t bytes);
  int (*share)(fopo_device *d, void **device, const void *host, size_t bytes);
  void (*release)(fopo_device *d, void *device);
  int (*put)(fopo_device *d, void *device, const void *host, size_t bytes);
  int (*get)(fopo_device *d, void *host, const void *device, size_t bytes);

  /* X [B, D] = contexts[rows[b]], contexts [N, ld]. */
  int (*gather_rows)(fopo_device *d, float *X, const float *contexts, size_t ld,
                     const uint32_t *rows, size_t B, size_t D);

  /* Q [B, L] = scale X theta, X [B, D], theta [D, L]. */
  int (*queries)(fopo_device *d, float *Q, const float *X, const float *theta, float scale,
                 size_t B, size_t D, size_t L);

  /* f [B, S] = items[ids[b, s]] . Q[b]; ids beyond counts[b] (NULL: all count) get -inf. */
  int (*scores)(fopo_device *d, float *f, const float *Q, const fopo_rows *items,
                const uint32_t *ids, const uint32_t *counts, size_t B, size_t S, size_t L);

  /* ids [B, S] uniform over P items; logq [B, S] = -log P. */
  int (*draw_uniform)(fopo_device *d, uint32_t *ids, float *logq, const uint32_t *rows,
                      fopo_draw_key key, size_t B, size_t S, size_t P);

  /* ids [B, S] from q_{K,eps}; logq the log of the mixture's density at each id, also for a uniform
   * draw that happens to be a candidate. kappa is the softmax of m->scores over counts[b]. */
  int (*draw_mixture)(fopo_device *d, uint32_t *ids, float *logq, const fopo_mixture *m,
                      const uint32_t *rows, fopo_draw_key key, size_t B, size_t S, size_t P);

  /* Head and tail: ids [B, S] are first the counts[b] (<= k) items of head [B, k] by rising id,
   * each for itself (logq = 0), then U = S - counts[b] draws from the M = P - counts[b] others,
   * each for M / U of them: logq = log(U / M), but never above FOPO_TAIL_LEAST. Draw u takes, among
   * the others by rising id, the one of rank (u M + x) / U with x uniform in 0 .. M - 1: one draw
   * in each of U equal strips, so that all are drawn equally often, and once each where U = M. The
   * ids of head differ; counts[b] < S <= P. */
  int (*draw_tail)(fopo_device *d, uint32_t *ids, float *logq, const uint32_t *head,
                   const uint32_t *counts, size_t k, const uint32_t *rows, fopo_draw_key key,
                   size_t B, size_t S, size_t P);

  /* ids [B, S] from pi(. | x) over all P items, by blocks of contexts: scores by GEMM, softmax and
   * S inversions of its cumulative sum. mean [B, L] = E_pi beta and log_z [B] = log Z where not
   * NULL. No B x P buffer beyond one block. */
  int (*draw_policy)(fopo_device *d, uint32_t *ids, float *mean, float *log_z, const float *Q,
                     const float *items, size_t ld, const uint32_t *rows, fopo_draw_key key,
                     size_t B, size_t S, size_t P, size_t L);

  /* Candidates that are kept by context: sets [N, K], set_counts [N]. store: those of the contexts
   * rows [B] become ids [B, K] and counts [B]; load is the way back. A context that stands in rows
   * twice is stored with the same set both times. */
  int (*store_sets)(fopo_device *d, uint32_t *sets, uint32_t *set_counts, const uint32_t *ids,
                    const uint32_t *counts, const uint32_t *rows, size_t B, size_t K);
  int (*load_sets)(fopo_device *d, uint32_t *ids, uint32_t *counts, const uint32_t *sets,
                   const uint32_t *set_counts, const uint32_t *rows, size_t B, size_t K);

  /* r [B, S] = 1[ids[b, s] in Y[rows[b]]]; Y's arrays are device pointers. */
  int (*reward_hits)(fopo_device *d, float *r, const uint32_t *ids, const uint32_t *rows,
                     const fopo_csr *Y, size_t B, size_t S);

  /* r [B, S] = link(users[rows[b]] . items[ids[b, s]]). */
  int (*reward_model)(fopo_device *d, float *r, const uint32_t *ids, const uint32_t *rows,
                      const fopo_low_rank *m, size_t B, size_t S);

  /* r [B, S] = 1[ids[b, s] = action[n]] weight[n] (gain[n] - shift), n = rows[b]; or += where add.
   */
  int (*reward_credit)(fopo_device *d, float *r, const uint32_t *ids, const uint32_t *rows,
                       const fopo_credit *c, int add, size_t B, size_t S);

  /* The self-normalised estimate (Algorithm 1), scores and weights included:
   *   w_s = exp(f_s - logq_s), wbar_s = w_s / sum w, rbar = sum wbar_s r_s,
   *   c_s = wbar_s (r_s - rbar), V[b] = sum_s c_s beta_{a_s}.
   * stats [B, FOPO_STATS]. A draw counts as one of the head (HEAD_MASS) where its logq is above
   * floor = log(eps / P), the density outside the candidates; INFINITY: there is no head.
   * c [B, S] is given out where not NULL. */
  int (*snis)(fopo_device *d, float *V, float *c, float *stats, const float *Q,
              const fopo_rows *items, const uint32_t *ids, const float *logq, const float *r,
              float floor, size_t B, size_t S, size_t L);

  /* Adds stats [B, FOPO_STATS] to *sums (device), or starts it with them, context by context. The
   * first `with_candidates` contexts were given candidates and have counts[b] of the k asked for;
   * of one without any, nothing is inside the candidates. */
  int (*add_stats)(fopo_device *d, fopo_sums *sums, const float *stats, const uint32_t *counts,
                   size_t with_candidates, size_t k, int start, size_t B);

  /* REINFORCE's V from draws of pi. baseline 1: c_s = (r_s - rbar) / (S - 1).
   * baseline 0: c_s = r_s / S and V[b] -= rbar mean[b]. c [B, S] is given out where not NULL. */
  int (*reinforce)(fopo_device *d, float *V, float *c, float *stats, const float *mean,
                   const float *items, size_t ld, const uint32_t *ids, const float *r, int baseline,
                   size_t B, size_t S, size_t L);

  /* G [D, L] = scale X^T V, or += where accumulate. X [B, D], V [B, L]. */
  int (*outer)(fopo_device *d, float *G, const float *X, const float *V, float scale,
               int accumulate, size_t B, size_t D, size_t L);

  /* The same two through a network (device/network.h): hidden [B, units] is kept from forward to
   * backward, delta [B, units] is scratch; theta and G [params]. */
  int (*network_forward)(fopo_device *d, float *Q, float *hidden, const float *X,
                         const float *theta, const fopo_network *net, float scale, size_t B);
  int (*network_backward)(fopo_device *d, float *G, float *delta, const float *X,
                          const float *hidden, const float *V, const float *theta,
                          const fopo_network *net, float scale, int accumulate, size_t B);

  /* theta [n] moves up the gradient: the objective is a reward. m, v, velocity [n]. */
  int (*adam)(fopo_device *d, float *theta, float *m, float *v, const float *G, const fopo_adam *o,
              size_t n);
  int (*sgd)(fopo_device *d, float *theta, float *velocity, const float *G, const fopo_sgd *o,
             size_t n);

  /* Learning the items. f = Q_b . beta_a, so a draw s of item a in context b with coefficient c
   * adds c Q_b to the gradient of beta_a.
   *
   * touched not NULL: the distinct items drawn, ascending, go to touched [*n], and to row i of
   * rows the sum over the draws of item touched[i] of scale c[b, s] Q[b] (room for min(B S, P)).
   * NULL: each item's sum is added to its own row of rows [P, L]. */
  int (*items_gradient)(fopo_device *d, float *rows, uint32_t *touched, size_t *n, const float *c,
                        const float *Q, const uint32_t *ids, float scale, size_t B, size_t S,
                        size_t P, size_t L);

  /* rows [P, L] += sum_b weight[b] pi(a | x_b) Q[b] for every item a; log_z [B] of draw_policy. */
  int (*items_expectation)(fopo_device *d, float *rows, const float *Q, const float *items,
                           size_t ld, const float *log_z, const float *weight, size_t B, size_t P,
                           size_t L);

  /* adam and sgd for rows of items [P, L]: row i of rows moves item touched[i] (NULL: item i) and
   * touches no other. updates [P] counts each item's own updates and stands for t; o->t is not
   * read. Decay too acts on touched items alone. */
  int (*adam_rows)(fopo_device *d, float *items, float *m, float *v, uint32_t *updates,
                   const float *rows, const uint32_t *touched, size_t n, const fopo_adam *o,
                   size_t L);
  int (*sgd_rows)(fopo_device *d, float *items, float *velocity, const float *rows,
                  const uint32_t *touched, size_t n, const fopo_sgd *o, size_t L);

  int (*clear)(fopo_device *d, float *x, size_t n);                      /* x [n] = 0 */
  int (*norm2)(fopo_device *d, double *norm2, const float *x, size_t n); /* on the host: sum x^2 */

  /* Optional, NULL where a host loses nothing by waiting for each step: the batch of B contexts
   * that left *sums and the gradient G [n] becomes a step of *t; all are device pointers. Before
   * adam or sgd, which then look at *t. */
  int (*totals)(fopo_device *d, fopo_totals *t, const fopo_sums *sums, const float *G, size_t n,
                size_t B);

  /* Optional, both or none: seconds by the device's own clock from when it comes to `start` in its
   * work to when it comes to `stop`, which waits for that. */
  int (*start_clock)(fopo_device *d);
  int (*stop_clock)(fopo_device *d, double *seconds);

  /* Optional, all or none: the work of a step, recorded once and made again at the cost of a call.
   * Between record and recorded the operations that are called are noted and not made; those that
   * wait, copy or take memory are refused, so a step of the same kind is best made before. The
   * record is kept where `keep`. replay makes it again, draws at the key's step `step`, adam with
   * lr and t of *o, else as they were; without a record, as after memory that it may use was
   * released, it does nothing and *made is 0. */
  int (*record)(fopo_device *d);
  int (*recorded)(fopo_device *d, int keep);
  int (*replay)(fopo_device *d, uint32_t step, const fopo_adam *o, int *made);

  /* Optional, NULL on the CPU, where mips/ searches: the k items of the catalogue of largest score
   * items[a] . Q[b], best first, equal scores by the smaller id. ids, scores [B, k]; counts [B]
   * become n = min(k, limit), and the places beyond hold UINT32_MAX and -inf. k <= P and
   * <= FOPO_TOPK_MOST. Of items within rounding of the n-th score any may be taken. */
  int (*topk)(fopo_device *d, uint32_t *ids, float *scores, uint32_t *counts, const float *Q,
              const fopo_catalogue *c, size_t B, size_t L, size_t k);
} fopo_device_ops;

struct fopo_device {
  const fopo_device_ops *ops;
  char name[128]; /* "CPU, 2 threads, avx512" */
  char note[256]; /* why this one, for device = "auto" */
  void *state;    /* the device's own */
};

/* name: "cpu", "cuda" or "auto" (CUDA where it works, else the CPU with the reason in note).
 * "cuda" on a machine or build without it is FOPO_ERR_UNAVAILABLE with reason and remedy. */
int fopo_device_open(fopo_device **d, const char *name);
void fopo_device_close(fopo_device *d); /* accepts NULL */

/* The cards that "cuda" could use, a line each ("NVIDIA H100, 80 GB, compute 9.0"), or the reason
 * why there is none as a failure. text is cut at `size`. */
int fopo_device_cards(char *text, size_t size);

/* Every device of a build implements one of these; opened by fopo_device_open alone. */
int fopo_device_cpu_open(fopo_device **d);

#endif
