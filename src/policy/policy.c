/* What all kinds of policies share. Everything that scores a whole catalogue goes through an index;
 * what is here turns contexts into queries and queries into recommendations, in blocks that bound
 * memory and let an interruption through. */
#include "policy/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "policy/score.h"
#include "ranks/shared.h"

/* Contexts answered between two reports of progress: wide enough for the indexes to share a pass
 * over the items, short enough for a large catalogue to be interrupted soon. */
enum { BLOCK = 256 };

const char *const fopo_theta_starts[] = {"identity", "random", NULL};

#define X(name) &fopo_policy_##name,
const fopo_policy_kind *const fopo_policy_kinds[] = {
#include "policy/policies.def"
    NULL};
#undef X

const char *const fopo_block_names[FOPO_BLOCKS + 1] = {"theta", "items", "weights", NULL};
const char *const fopo_seen_names[] = {"keep", "mask", "known", NULL};

int fopo_policy_init(fopo_policy *pi, const fopo_policy_kind *kind, fopo_matrix items,
                     const fopo_policy_options *o) {
  *pi = (fopo_policy){.kind = kind,
                      .options = *o,
                      .items = items,
                      .temperature = o->temperature,
                      .rows = fopo_rows_float32(items.x, items.ld),
                      .learns = {[FOPO_BLOCK_THETA] = 1}};
  if (items.rows == 0 || items.cols == 0 || items.rows >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the items are %zu x %zu; a policy needs 1 to %u items of 1 dimension or more",
                     items.rows, items.cols, UINT32_MAX - 1);
  }
  if (!(o->temperature > 0.0f) || !isfinite(o->temperature)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the temperature is %g; it divides scores, use > 0",
                     (double)o->temperature);
  }
  if (o->context_dim == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "contexts have 0 features; a policy needs 1 or more");
  }
  int status = fopo_matrix_finite(items, "items");
  if (status == FOPO_OK) status = kind->init(pi);
  pi->options.given = (fopo_matrix){0};
  pi->options.learn = NULL;
  return status;
}

int fopo_policy_set_theta(fopo_policy *pi, fopo_matrix theta) {
  fopo_matrix own = pi->theta;
  if (theta.rows != own.rows || theta.cols != own.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "theta is %zu x %zu but contexts have %zu features and the items have %zu "
                     "columns; all parameters are %zu x %zu, and pi:set_parameters takes them by "
                     "name",
                     theta.rows, theta.cols, fopo_policy_context_dim(pi), pi->items.cols, own.rows,
                     own.cols);
  }
  int status = fopo_matrix_finite(theta, "theta");
  if (status == FOPO_OK) pi->set++;
  for (size_t i = 0; i < own.rows && status == FOPO_OK; i++) {
    memcpy(fopo_matrix_row(own, i), fopo_matrix_row(theta, i), own.cols * sizeof *own.x);
  }
  return status;
}

/* ---- what is learnt ---- */

int fopo_policy_options_learn(const fopo_policy_options *o, const char *name) {
  for (size_t i = 0; i < o->n_learn; i++) {
    if (strcmp(o->learn[i], name) == 0) return 1;
  }
  return 0;
}

int fopo_policy_parameter(const fopo_policy *pi, const char *name) {
  fopo_parameter p;
  for (size_t i = 0; pi->kind->parameter(&p, pi, i); i++) {
    if (strcmp(p.name, name) == 0) return (int)i;
  }
  return -1;
}

/* All parameters, as bits. */
static uint32_t all_of(const fopo_policy *pi) {
  fopo_parameter p;
  size_t n = 0;
  while (pi->kind->parameter(&p, pi, n)) n++;
  return ((uint32_t)1 << n) - 1;
}

/* The block that moves by rows. */
static int block_of_rows(const fopo_policy *pi) {
  return pi->kind->score_list != NULL ? FOPO_BLOCK_WEIGHTS : FOPO_BLOCK_ITEMS;
}

void fopo_policy_block_names(char text[FOPO_POLICY_NAMES], const fopo_policy *pi, int learnt) {
  fopo_parameter p;
  size_t n = 0;
  text[0] = '\0';
  for (size_t i = 0; pi->kind->parameter(&p, pi, i); i++) {
    if (learnt && pi->fixed >> i & 1) continue;
    n += (size_t)snprintf(text + n, FOPO_POLICY_NAMES - n, "%s%s", n > 0 ? ", " : "", p.name);
  }
  for (int i = FOPO_BLOCK_ITEMS; i < FOPO_BLOCKS; i++) {
    if (learnt ? !pi->learns[i] : i != block_of_rows(pi)) continue;
    n += (size_t)snprintf(text + n, FOPO_POLICY_NAMES - n, "%s%s", n > 0 ? ", " : "",
                          fopo_block_names[i]);
  }
}

int fopo_policy_learn(fopo_policy *pi, const char *const *names, size_t n) {
  char known[FOPO_POLICY_NAMES];
  uint32_t all = all_of(pi), learnt = 0;
  int by_rows = block_of_rows(pi), rows = 0;
  fopo_policy_block_names(known, pi, 0);
  for (size_t i = 0; i < n; i++) {
    int at = fopo_policy_parameter(pi, names[i]);
    if (at >= 0) {
      learnt |= (uint32_t)1 << at;
    } else if (strcmp(names[i], fopo_block_names[FOPO_BLOCK_THETA]) == 0) {
      learnt = all;
    } else if (strcmp(names[i], fopo_block_names[by_rows]) == 0) {
      rows = 1;
    } else {
      const char *more = pi->kind->optional;
      return fopo_fail(FOPO_ERR_ARGUMENT, "there is no block \"%s\" to learn; use some of %s%s%s",
                       names[i], known, more != NULL ? ", " : "", more != NULL ? more : "");
    }
  }
  if (learnt == 0 && !rows) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "learn names no block; use some of %s", known);
  }
  pi->fixed = all & ~learnt;
  pi->learns[FOPO_BLOCK_THETA] = learnt != 0;
  pi->learns[by_rows] = rows;
  return FOPO_OK;
}

size_t fopo_policy_segments(fopo_segment segments[FOPO_POLICY_PARAMETERS], const fopo_policy *pi,
                            const int *group) {
  fopo_parameter p;
  size_t count = 0;
  for (size_t i = 0; pi->kind->parameter(&p, pi, i); i++) {
    fopo_segment *before = count > 0 ? &segments[count - 1] : NULL;
    size_t first = (size_t)(p.view.x - pi->theta.x), n = p.view.rows * p.view.cols;
    if (pi->fixed >> i & 1) continue;
    if (before != NULL && before->first + before->n == first &&
        (group == NULL || group[before->parameter] == group[i])) {
      before->n += n;
    } else {
      segments[count++] = (fopo_segment){first, n, i};
    }
  }
  return count;
}

int fopo_policy_halve(fopo_policy *pi, fopo_float type) {
  if (type == FOPO_FLOAT32) return FOPO_OK;
  if (pi->learns[FOPO_BLOCK_ITEMS]) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "rows = \"%s\" reads a copy of the items, which would become stale while "
                     "they are learnt; use rows = \"float32\", or do not learn the items",
                     fopo_float_names[type]);
  }
  size_t P = pi->items.rows, ld = fopo_rows_ld(pi->items.cols);
  int status = fopo_memory_suffices((uint64_t)P * ld * sizeof *pi->half,
                                    "a copy of the items in half "
                                    "their bytes",
                                    "use rows = \"float32\"");
  if (status != FOPO_OK) return status;
  uint16_t *half = fopo_alloc(P * ld, sizeof *half);
  status = half == NULL ? FOPO_ERR_MEMORY : fopo_rows_halve(half, pi->items, type);
  if (status != FOPO_OK) {
    fopo_free(half);
    return status;
  }
  pi->half = half;
  pi->rows = (fopo_rows){half, ld, type};
  return FOPO_OK;
}

int fopo_policy_copy(fopo_policy *to, const fopo_policy *from) {
  fopo_matrix theta = from->theta, own = {0}, delta = {0};
  size_t n = from->delta.rows;
  int status = fopo_matrix_init(&own, theta.rows, theta.cols);
  if (status == FOPO_OK && n > 0) status = fopo_matrix_init(&delta, n, 1);
  if (status != FOPO_OK) {
    fopo_matrix_done(&own);
    return status;
  }
  memcpy(own.x, theta.x, theta.rows * theta.cols * sizeof *own.x);
  if (n > 0) memcpy(delta.x, from->delta.x, n * sizeof *delta.x);
  *to = *from;
  to->theta = own;
  to->delta = delta;
  to->half = NULL; /* borrowed through `rows` */
  return FOPO_OK;
}

void fopo_policy_done(fopo_policy *pi) {
  fopo_matrix_done(&pi->theta);
  fopo_matrix_done(&pi->delta);
  fopo_free(pi->half);
  *pi = (fopo_policy){0};
}

void fopo_affine_in_double(double *y, const double *x, const double *W, const double *b, size_t in,
                           size_t out) {
  for (size_t j = 0; j < out; j++) y[j] = b != NULL ? b[j] : 0.0;
  for (size_t i = 0; i < in; i++) {
    for (size_t j = 0; j < out; j++) y[j] += x[i] * W[i * out + j];
  }
}

int fopo_policy_queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x) {
  size_t D = fopo_policy_context_dim(pi);
  if (x.cols != D || Q.rows != x.rows || Q.cols != pi->items.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "contexts are %zu x %zu and queries %zu x %zu; contexts need %zu columns, "
                     "queries as many rows and %zu columns",
                     x.rows, x.cols, Q.rows, Q.cols, D, pi->items.cols);
  }
  return pi->kind->queries(Q, pi, x);
}

int fopo_policy_check_contexts(const fopo_policy *pi, fopo_matrix x) {
  size_t D = fopo_policy_context_dim(pi);
  if (x.rows > 0 && x.rows < UINT32_MAX && x.cols == D) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "contexts are %zu x %zu but the policy takes %zu features (items %zu x %zu); "
                   "contexts need 1 row or more, and %zu columns",
                   x.rows, x.cols, D, pi->items.rows, pi->items.cols, D);
}

int fopo_policy_check_lists(const fopo_policy *pi, const fopo_contexts *contexts) {
  const fopo_shared *shared = contexts->shared;
  const fopo_csr *X = shared != NULL ? &shared->seen : &contexts->X;
  if (!pi->masks_seen) return FOPO_OK;
  if (X->indptr == NULL && shared == NULL && pi->masks_seen == FOPO_SEEN_KNOWN) return FOPO_OK;
  if (X->indptr == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "this policy masks the items that are seen (seen = \"mask\"), and %s; %s",
                     shared != NULL ? "these sessions were shared out for one that does not"
                                    : "an array of contexts does not say which they are",
                     shared != NULL ? "share them for this policy"
                     : pi->kind->score_list != NULL
                         ? "give the sessions"
                         : "give the sessions, or make the policy with seen = \"keep\"");
  }
  return fopo_mask_check(X, shared != NULL ? shared->x.rows : contexts->n, fopo_policy_n_items(pi));
}

int fopo_policy_check_index(const fopo_index *ix, size_t P, size_t L) {
  fopo_index_facts facts = fopo_index_about(ix);
  if (facts.n_items == P && facts.dim == L) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the index holds %zu items of dimension %zu but the policy's are %zu of "
                   "dimension %zu; build it from the policy's items",
                   facts.n_items, facts.dim, P, L);
}

int fopo_policy_check_whole(const fopo_policy *pi, const char *what) {
  if (pi->shard == NULL) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "%s reads all items, and this policy's are dealt out to %d ranks; use a policy "
                   "over the whole array",
                   what, (int)pi->shard->part.size);
}

int fopo_policy_best(uint32_t *ids, float *scores, uint32_t *counts, const fopo_policy *pi,
                     fopo_matrix x, fopo_index *ix, size_t k) {
  fopo_matrix Q = {0};
  int status = fopo_matrix_init(&Q, x.rows < BLOCK ? x.rows : BLOCK, pi->items.cols);
  if (status != FOPO_OK) return status;

  for (size_t first = 0; first < x.rows && status == FOPO_OK; first += BLOCK) {
    size_t n = x.rows - first < BLOCK ? x.rows - first : BLOCK;
    fopo_matrix block = fopo_matrix_rows(Q, 0, n);
    status = fopo_policy_queries(block, pi, fopo_matrix_rows(x, first, n));
    if (status == FOPO_OK) {
      status = fopo_shard_search(ids + first * k, scores + first * k, counts + first, pi->shard, ix,
                                 block, k, 0, 0);
    }
    if (status == FOPO_OK) {
      status = fopo_progress("recommending", (double)(first + n), (double)x.rows);
    }
  }
  fopo_matrix_done(&Q);
  return status;
}
