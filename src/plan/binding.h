/* The data that batches read, resident on a device for as long as it stays the same: items,
 * contexts, and what the rewards are looked up in. */
#ifndef FOPO_PLAN_BINDING_H
#define FOPO_PLAN_BINDING_H

#include "policy/policy.h"
#include "ranks/parts.h"

/* What is to be bound; nothing is owned. */
typedef struct {
  fopo_device *device;
  const fopo_policy *policy;
  fopo_contexts contexts;      /* with dense rows */
  fopo_reward_arrays rewarded; /* on the host */
} fopo_binding_source;

/* To be read; changed by the functions below alone. {0}: bound to nothing. */
typedef struct {
  fopo_device *device; /* not owned, as the policy */
  const fopo_policy *policy;
  size_t N, P, D, L; /* contexts, items, features of a context, dimension of an item */
  size_t room;       /* as of fopo_contexts */
  size_t n_theta;    /* parameters of theta */
  size_t n_hidden;   /* the policy's */
  int learns_items;  /* 1: items are learnt, by the policy that was bound */
  int masks_seen;    /* 1: it masks the items of X */
  fopo_parts *parts; /* how ranks share the work; its arrays grow while batches are made. Owned */

  /* The views on the host that the device's copies were made of. */
  fopo_matrix items, contexts; /* [P, L], [N, D]; of shared contexts the rows of this rank */
  fopo_csr X;                  /* [N, P] the lists that are masked; indptr NULL: none are, or they
                                * come with the contexts of a batch */
  fopo_rows rows;              /* the policy's */
  fopo_reward_arrays rewarded;

  /* On the device, owned. */
  fopo_matrix device_items;    /* [P, L], as items */
  void *device_half;           /* [P, rows.ld] the policy's copy in half the bytes; NULL: none */
  fopo_rows beta;              /* the items as draws read them: device_items or device_half */
  fopo_matrix device_contexts; /* [N, D], as contexts */
  fopo_reward_arrays credited; /* the rewards' arrays */
  fopo_csr device_X;           /* X, or own_X */

  /* If items are a part of the catalogue, what a reward earns there, on the host. Owned. */
  fopo_csr own_hits, own_X; /* and what is masked there */
  float *own_value;         /* [rows of the part] what hits earn; NULL: 1 */
  uint32_t *own_actions;    /* [N] rows of the part; UINT32_MAX: another has the item */
  float *theta;             /* [n_theta] for callers whose theta is on the host */
} fopo_binding;

/* Whether the binding holds just this data; then nothing is to be copied but items that are
 * learnt. */
int fopo_binding_holds(const fopo_binding *b, const fopo_binding_source *s);

/* The same arrays under another policy object; items that are learnt may have been moved on the
 * host since, and go to the device again. */
int fopo_binding_renew(fopo_binding *b, const fopo_policy *pi);

/* The bound arrays of contexts, of X and of the hits in Y have other values on the host now, X and
 * Y as many in each row unless they have room: brings the device's copies up to date, which stay
 * where they are unless items are a part of the catalogue. No step may be under way. */
int fopo_binding_renew_contexts(fopo_binding *b);

/* Copies the data to the device into *b, which is {0} and after a failure again. Shapes have been
 * checked; contexts must be finite. */
int fopo_binding_init(fopo_binding *b, const fopo_binding_source *s);
void fopo_binding_done(fopo_binding *b); /* accepts {0}, and leaves it */

/* Bytes that fopo_binding_init takes of a device with memory of its own. */
uint64_t fopo_binding_bytes(const fopo_binding_source *s);

/* The sparse scores of the contexts of a batch, from place `at` of the part whose queries were made
 * last: on the device, for the batch's rows, with ids as draws have them; and on the host, for the
 * contexts rows, with the ids of items. */
fopo_sparse_scores fopo_binding_sparse(const fopo_binding *b, size_t at);
fopo_sparse_scores fopo_binding_sparse_host(const fopo_binding *b, const uint32_t *rows, size_t at);

/* X [n, D] = the contexts that `from` names by its rows or its order, and Q [n, L] = h(X) / T at
 * theta; hidden [n, n_hidden] is what the policy leaves for its way back. All on the device.
 * Collective if the contexts are shared out; then `from` names rows. */
int fopo_binding_queries(const fopo_binding *b, fopo_matrix Q, fopo_matrix X, float *hidden,
                         const float *theta, const fopo_batch_start *from);

#endif
