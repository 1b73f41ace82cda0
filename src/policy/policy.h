/* The softmax policy over a catalogue: pi(a | x) = exp f(a, x) / Z(x), with
 * f(a, x) = h(x)^T beta_a / temperature (the paper, "Parametrizing the Policy"). What h is, is the
 * policy's kind, a row that says everything about it. A new kind is one file beside policy/linear.c
 * and one line in policy/policies.def; no other file names a kind. */
#ifndef FOPO_POLICY_POLICY_H
#define FOPO_POLICY_POLICY_H

#include "contexts/contexts.h"
#include "core/array.h"
#include "core/matrix.h"
#include "core/option.h"
#include "device/ops.h"
#include "kernels/rows.h"
#include "mips/index.h"
#include "policy/blocks.h"
#include "ranks/shard.h"

typedef struct fopo_policy fopo_policy;
typedef struct fopo_policy_kind fopo_policy_kind;
typedef struct fopo_custom fopo_custom;

/* What a policy does with the items of X. KNOWN masks them wherever X is known, and is the default
 * of policies that are made for sessions; MASK refuses contexts whose X is not known. */
typedef enum { FOPO_SEEN_KEEP, FOPO_SEEN_MASK, FOPO_SEEN_KNOWN } fopo_seen;
extern const char *const fopo_seen_names[]; /* "keep", "mask", "known"; ended by NULL */

/* Which items a policy that scores lists can recommend: the others have the score 0. */
typedef enum { FOPO_SCORED_CANDIDATES, FOPO_SCORED_ALL } fopo_scored;

typedef enum { FOPO_THETA_IDENTITY, FOPO_THETA_RANDOM } fopo_theta_start;
extern const char *const fopo_theta_starts[]; /* "identity", "random"; ended by NULL */

enum {
  FOPO_POLICY_OWN = 7,           /* numbers that only one kind reads */
  FOPO_POLICY_PARAMETERS = 13,   /* named parameters of a policy, at most */
  FOPO_POLICY_SHAPE = 8,         /* numbers of a shape in a checkpoint, at most */
  FOPO_POLICY_MEMBERS = 5,       /* of its file beside them, at most */
  FOPO_POLICY_DESCRIPTION = 128, /* bytes of the text of `describe` */
  FOPO_POLICY_NAMES = (FOPO_POLICY_PARAMETERS + 1) * (FOPO_PARAMETER_NAME + 2) /* of all blocks */
};

/* How a policy is made. The second half are the options of kinds; each reads those of its rows. */
typedef struct {
  size_t context_dim; /* D, features of a context */
  float temperature;  /* > 0; divides every score */
  uint64_t seed;      /* of the first parameters */
  fopo_matrix given; /* first parameters of theta's shape in place of `start`; x NULL: none. Read by
                      * `init` alone, not owned */
  const char *const *learn; /* [n_learn] what will be learnt, for kinds that have some parts of
                             * theta only then. Read by `init` alone, not owned */
  size_t n_learn;           /* 0: all of theta */

  int start;          /* linear: a fopo_theta_start */
  double theta_scale; /* linear: the first theta is multiplied by it; 0: it is not */
  fopo_counts hidden; /* mlp: units of the hidden layers */
  int activation;     /* mlp: a fopo_activation */
  int scored;         /* neighbours: a fopo_scored */
  int dense_kind;     /* neighbours: of the dense part, 1 + its place among all kinds; 0: none */
  const fopo_custom *custom; /* custom: its functions (policy/custom.h); NULL: another kind's.
                              * Not owned */
  double own[FOPO_POLICY_OWN];
} fopo_policy_options;

struct fopo_policy {
  const fopo_policy_kind *kind;
  fopo_policy_options options;
  fopo_matrix items; /* beta [P, L]; not owned */
  fopo_shard *shard; /* items are this rank's part of the catalogue, and calls that look for items
                      * are collective; NULL: they are all of it. Not owned */
  fopo_rows rows;    /* beta as draws and scores read it: the items themselves, or `half`; the
                      * exact gradient and reinforce read the items */
  uint16_t *half;    /* [P, rows.ld] a copy in half the bytes; owned; NULL: none */
  int masks_seen;    /* a fopo_seen; not 0: the items of a context's X have s = -infinity, in all
                      * that the policy does; 0: they are like all others */
  int learns[FOPO_BLOCKS]; /* 1: trainers write to the block, whose rows lie one behind another */
  uint32_t fixed;          /* bit i: parameter i of the kind is fixed; 0: all of theta is learnt */
  uint64_t
      version;  /* incremented whenever items change: what was derived from them is then stale */
  uint64_t set; /* incremented whenever parameters are set by hand, not by training */
  fopo_matrix theta; /* all parameters: [D, L], or [1, n] if they are no matrix. Owned */
  size_t n_hidden;   /* numbers of a context that `forward` leaves for `backward`; 0: none */
  float temperature; /* > 0; divides every score */
  const struct fopo_neighbours *neighbours; /* of policy/neighbours.c; NULL: another kind's. Not
                                             * owned */
  fopo_matrix delta; /* [weights, 1] what is added to its weights; x NULL: nothing. Owned */
};

/* One of the parameters, which together are theta. */
typedef struct {
  char name[FOPO_PARAMETER_NAME]; /* "theta", "W1": in pi:parameters() and in files */
  int ndim;                       /* 1: a vector, whose view has one row; 2: a matrix */
  fopo_matrix view;               /* into theta */
} fopo_parameter;

/* A stretch of theta that is learnt at one rate. */
typedef struct {
  size_t first, n;  /* of theta's numbers */
  size_t parameter; /* the kind's parameter that it begins with */
} fopo_segment;

/* What `forward` and `backward` need beside the batch of B contexts. */
typedef struct {
  const fopo_policy *policy;
  const float *theta;    /* device */
  float *hidden, *delta; /* device, [B, n_hidden]: what forward leaves; scratch of backward */
  float scale;           /* of forward 1 / T, of backward 1 / (B T) */
} fopo_policy_pass;

typedef struct fopo_policy_file fopo_policy_file; /* policy/policy_file.h */

typedef struct fopo_list_row fopo_list_row; /* policy/lists.h */

/* The items outside the candidates that are scored, if not all of them are. */
typedef struct {
  const uint32_t *own;   /* [n_own] for themselves */
  const uint32_t *drawn; /* [n_drawn] ascending, each for exp(log_share) of all items */
  size_t n_own, n_drawn;
  float log_share; /* is added to their scores */
} fopo_list_tail;

/* The context of a kind that scores lists. */
typedef struct {
  const uint32_t *X; /* [n] ascending */
  size_t n;
  const float *q;             /* [L] its query */
  size_t row;                 /* which of the training contexts it is; SIZE_MAX: none of them */
  const fopo_list_tail *tail; /* with FOPO_SCORED_ALL; NULL: all items are scored */
} fopo_list_context;

/* The gradient of what is no scalar of a kind that scores lists. */
typedef struct {
  float *theta;          /* [n_theta] behind the scalars */
  float *weights;        /* packed rows of the items of X; NULL: weights are fixed */
  const uint32_t *first; /* [P] where in `weights` the row of an item begins */
} fopo_list_gradient;

struct fopo_policy_kind {
  const char *name; /* of the function in Lua: fopo.policy.NAME, and in files */

  /* The kind scores items of its own: the columns of the given ones, and so many more. fill_items
   * makes own [P, L + more_columns] of given [P, L]. NULL and 0: it scores those that are given. */
  size_t more_columns;
  void (*fill_items)(fopo_matrix own, fopo_matrix given, const fopo_policy_options *o);

  /* Makes theta with its first values, and sets n_hidden. The items and the options of every kind
   * have been checked, and the rest of *pi is set. On failure nothing is left to free but theta. */
  int (*init)(fopo_policy *pi);

  /* Blocks that are there only if options.learn names them, for error messages; NULL: none. */
  const char *optional;

  /* *p = parameter i, and returns 1; 0 after the last one. */
  int (*parameter)(fopo_parameter *p, const fopo_policy *pi, size_t i);

  /* Q [N, L] = h(x) / T of x [N, D], on the host, in blocks if memory is needed. */
  int (*queries)(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x);

  /* q [L] = h(x) in double at theta, in theta's layout; scratch [n_hidden]. NULL: the kind knows h
   * in float32 alone. */
  void (*reference)(double *q, double *scratch, const fopo_policy *pi, const double *theta,
                    const double *x);

  /* The most that parameters may move between central differences; 0: any distance, since h is
   * linear in them. */
  double difference_step;

  /* On a device: Q [B, L] = scale h(X), X [B, D]; and G = the gradient of scale sum_b V_b . h(X_b)
   * with respect to theta, in its layout, or += if accumulate. */
  int (*forward)(fopo_device *d, fopo_matrix Q, fopo_matrix X, const fopo_policy_pass *pass);
  int (*backward)(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                  const fopo_policy_pass *pass, int accumulate);

  /* A kind that scores the list of a context (policy/lists.h): fills row with the candidates, their
   * scores at theta [n_theta] on the host, and slopes if the row has them; place must be 0 before,
   * fopo_list_clear makes it so again. reference_list: f [P] in double, where X is not masked,
   * of the query x, with D + 2 L + n_hidden more behind it for scratch.
   * NULL: the kind scores dense queries alone. */
  void (*score_list)(fopo_list_row *row, const fopo_policy *pi, const float *theta,
                     const fopo_list_context *context);
  void (*reference_list)(double *f, const fopo_policy *pi, const double *theta,
                         const fopo_list_context *context);

  /* After score_list: *to += the gradient of sum_a c_a f_a, c [row->n] of the candidates, without
   * that of the scalars. NULL: nothing but the scalars can be learnt. */
  void (*add_list_gradient)(const fopo_list_gradient *to, fopo_list_row *row, const fopo_policy *pi,
                            const float *theta, const fopo_list_context *context);

  /* After score_list: V [L] += the gradient of sum_a c_a f_a by q, if `backward` takes it. NULL: q
   * depends on nothing that is learnt. */
  void (*add_query_gradient)(float *V, const fopo_list_row *row, const fopo_policy *pi,
                             const float *theta);

  /* The kind of a part of the policy, whose options are also those of the policy; NULL: it has no
   * such part. */
  const fopo_policy_kind *(*part)(const fopo_policy_options *o);

  /* Members of its file beside the parameters, FOPO_POLICY_MEMBERS at most; returns how many. NULL:
   * there are none. */
  size_t (*members)(fopo_array *a, const fopo_policy *pi);

  /* 1: Q = scale X theta and G = scale X^T V with theta [D, L], so that the operations start_batch
   * and outer_totals, where a device has them, may take the place of forward and backward. */
  int is_product;

  /* Reads the parameters' shapes from a file, by fopo_policy_file_matrix for each of them, and sets
   * facts->options.context_dim, facts->L (the columns of the given items) and options that are
   * counts. Other options with FOPO_OPTION_SAVED have been read. */
  int (*load)(fopo_policy_file *f);

  /* The numbers that a checkpoint keeps beside theta, in its member "network": returns how many,
   * FOPO_POLICY_SHAPE at most. NULL: the shape of theta says everything; unless is_product, a
   * checkpoint has the kind's name then, in its member "policy". */
  size_t (*shape)(uint64_t *shape, const fopo_policy *pi);

  /* The shape in words; the number of parameters follows. NULL: "theta [D, L]". */
  void (*describe)(char text[FOPO_POLICY_DESCRIPTION], const fopo_policy *pi);

  /* For Lua: the options, what the seed is of, help, and an example that a test runs. */
  const fopo_option *options; /* ended by a name of NULL */
  const char *seed, *text, *example;
};

/* Every kind, ended by NULL. */
extern const fopo_policy_kind *const fopo_policy_kinds[];

#define X(name) extern const fopo_policy_kind fopo_policy_##name;
#include "policy/policies.def"
#undef X

/* Standard deviation of normal numbers as which parameters start, as in the authors' code: scores
 * start near 0. */
#define FOPO_RANDOM_START 0.005

/* The kind whose options are read, saved and shown with those of `kind`; NULL: none. */
static inline const fopo_policy_kind *fopo_policy_part(const fopo_policy_kind *kind,
                                                       const fopo_policy_options *o) {
  return kind->part != NULL ? kind->part(o) : NULL;
}

/* A policy over the items that it scores, [P, L] with the kind's own columns. */
int fopo_policy_init(fopo_policy *pi, const fopo_policy_kind *kind, fopo_matrix items,
                     const fopo_policy_options *o);

/* y [out] = W^T x + b in double, for `reference`: W [in, out], b [out]; b NULL: 0. */
void fopo_affine_in_double(double *y, const double *x, const double *W, const double *b, size_t in,
                           size_t out);

/* Copies a matrix of theta's shape, and finite numbers, into theta. */
int fopo_policy_set_theta(fopo_policy *pi, fopo_matrix theta);

/* Fixes all of theta and then lets the blocks of these names [n] learn: parameters of the kind,
 * "theta" for all of them where none is called so, and "items". Refuses unknown names, and none. */
int fopo_policy_learn(fopo_policy *pi, const char *const *names, size_t n);

/* Whether the policy was made to learn the block of that name; for `init`. */
int fopo_policy_options_learn(const fopo_policy_options *o, const char *name);

/* The number of the parameter of that name; -1: there is none. */
int fopo_policy_parameter(const fopo_policy *pi, const char *name);

/* The names of all blocks, "W1, b1, items", or of those that are learnt. */
void fopo_policy_block_names(char text[FOPO_POLICY_NAMES], const fopo_policy *pi, int learnt);

/* The segments of theta that are learnt, in order; returns how many. Neighbours of one group are
 * one segment, so that a theta that is learnt at one rate is exactly one. group [parameters]; NULL:
 * one group. */
size_t fopo_policy_segments(fopo_segment segments[FOPO_POLICY_PARAMETERS], const fopo_policy *pi,
                            const int *group);

/* From now on steps read a copy of the items in float16 or bfloat16, which takes half their bytes
 * in addition. Refused for items that are learnt, and for items out of the type's range
 * (kernels/rows.h); then, and for FOPO_FLOAT32, steps read the items themselves. */
int fopo_policy_halve(fopo_policy *pi, fopo_float type);

/* A policy over the same items with a theta of its own. A copy in half the bytes is borrowed from
 * `from`, which must outlive it. */
int fopo_policy_copy(fopo_policy *to, const fopo_policy *from);
void fopo_policy_done(fopo_policy *pi); /* accepts {0} */

/* P, the items of the catalogue. */
static inline size_t fopo_policy_n_items(const fopo_policy *pi) {
  return pi->shard != NULL ? pi->shard->part.P : pi->items.rows;
}

/* The values of a block, on the host. */
static inline fopo_matrix fopo_policy_values(const fopo_policy *pi, fopo_block block) {
  if (block == FOPO_BLOCK_WEIGHTS) return pi->delta;
  return block == FOPO_BLOCK_ITEMS ? pi->items : pi->theta;
}

/* The shape of a block; zeros if it is not learnt. */
static inline fopo_block_shape fopo_policy_shape(const fopo_policy *pi, fopo_block block) {
  fopo_matrix x = fopo_policy_values(pi, block);
  if (!pi->learns[block]) return (fopo_block_shape){0};
  return (fopo_block_shape){x.rows, x.cols, block != FOPO_BLOCK_THETA};
}

/* FOPO_ERR_UNAVAILABLE if the catalogue is dealt out: for `what`, which needs all items here. */
int fopo_policy_check_whole(const fopo_policy *pi, const char *what);

/* D: the features of a context. */
static inline size_t fopo_policy_context_dim(const fopo_policy *pi) {
  return pi->options.context_dim;
}

/* Q [N, L] = h(x) / temperature, so that f(a, x_n) = Q_n . beta_a. x is [N, D]. */
int fopo_policy_queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x);

/* ids, scores [N, k], counts [N]: the k best items of each context through ix, which holds the
 * policy's items. Works in blocks. */
int fopo_policy_best(uint32_t *ids, float *scores, uint32_t *counts, const fopo_policy *pi,
                     fopo_matrix x, fopo_index *ix, size_t k);

/* Whether x can be this policy's contexts: 1 row or more, D columns. */
int fopo_policy_check_contexts(const fopo_policy *pi, fopo_matrix x);

/* Whether the lists of the contexts are known, if the policy masks what is seen. */
int fopo_policy_check_lists(const fopo_policy *pi, const fopo_contexts *contexts);

/* Whether the index holds as many items, of the same dimension, as a policy over items [P, L]. */
int fopo_policy_check_index(const fopo_index *ix, size_t P, size_t L);

#endif
