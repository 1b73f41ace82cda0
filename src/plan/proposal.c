/* The proposal's options against a catalogue, and its draws on the host. Training draws through
 * estimators/snis.c on whatever device holds the items; the draws here are the same ones, because a
 * draw is a function of (seed, step, row, sample) alone. */
#include "plan/proposal.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"

int fopo_proposal_check(const fopo_proposal *q, size_t P) {
  if (q->kind != FOPO_PROPOSAL_MIXTURE) return FOPO_OK;
  if (!(q->epsilon >= 0.0 && q->epsilon <= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "epsilon is %g; it is the share of uniform draws, use 0 to 1", q->epsilon);
  }
  if (q->adaptive && !(q->floor >= 0.0 && q->floor <= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "floor is %g; it is the least epsilon, use 0 to 1",
                     q->floor);
  }
  if (q->adaptive && !(q->smoothing >= 0.0 && q->smoothing < 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "smoothing is %g; it is the share that a probe leaves of the past, use 0 to "
                     "less than 1",
                     q->smoothing);
  }
  if (q->k == 0 || q->k > P) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but there are %zu items; use k from 1 to %zu",
                     q->k, P, P);
  }
  return FOPO_OK;
}

int fopo_proposal_check_for(const fopo_proposal *q, const fopo_policy *pi) {
  int asked = q->kind == FOPO_PROPOSAL_MIXTURE && (fopo_proposal_uses_index(q) || q->adaptive);
  int status = fopo_proposal_check(q, fopo_policy_n_items(pi));
  if (status != FOPO_OK || q->index == NULL || !asked) return status;
  return fopo_policy_check_index(q->index, pi->items.rows, pi->items.cols);
}

int fopo_proposal_check_draws(const uint32_t *ids, const float *logq, const uint32_t *rows,
                              size_t B, size_t S, size_t P) {
  for (size_t i = 0; i < B * S; i++) {
    if (ids[i] < P && isfinite(logq[i])) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "draw %zu of %zu for context %zu is item %lld with the log density %g; draws "
                     "are of the items 1 to %zu, with the finite log q that each was drawn with",
                     i % S + 1, S, (size_t)rows[i / S] + 1,
                     ids[i] == FOPO_NO_ITEM ? 0LL : (long long)ids[i] + 1, (double)logq[i], P);
  }
  return FOPO_OK;
}

double fopo_proposal_share(const fopo_proposal *q, size_t S) {
  return q->stratified ? round(q->epsilon * (double)S) / (double)S : q->epsilon;
}

float fopo_proposal_floor(const fopo_proposal *q, size_t P, size_t S) {
  if (!fopo_proposal_uses_index(q)) return INFINITY;
  return (float)log(fopo_proposal_share(q, S) / (double)P);
}

/* Candidates of the queries Q, on the host. */
static int sets_init(fopo_candidate_sets *c, size_t B, size_t K) {
  c->k = K;
  c->ids = fopo_alloc(B * K, sizeof *c->ids);
  c->scores = fopo_alloc(B * K, sizeof *c->scores);
  c->counts = fopo_alloc(B, sizeof *c->counts);
  return c->ids && c->scores && c->counts ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void sets_done(fopo_candidate_sets *c) {
  fopo_free(c->ids);
  fopo_free(c->scores);
  fopo_free(c->counts);
}

/* The candidates of Q, in q's index or in one made for the call. */
static int search(fopo_candidate_sets *c, const fopo_proposal *q, const fopo_policy *pi,
                  fopo_matrix Q) {
  fopo_index *own = NULL;
  int status = q->index == NULL ? fopo_index_norm(&own, pi->items, 0) : FOPO_OK;
  if (status == FOPO_OK) {
    fopo_index *ix = q->index != NULL ? q->index : own;
    status = fopo_shard_search(c->ids, c->scores, c->counts, pi->shard, ix, Q, q->k, 0, 0);
  }
  fopo_index_free(own);
  return status;
}

static void add_sparse(const fopo_candidate_sets *c, const fopo_sparse_scores *sparse, size_t B) {
  for (size_t b = 0; b < B && sparse != NULL; b++) {
    fopo_score_row row = fopo_score_row_of(sparse, b);
    for (size_t i = b * c->k; i < b * c->k + c->counts[b]; i++) {
      c->scores[i] = fopo_score_sum(c->scores[i], fopo_score_of(&row, c->ids[i]));
    }
  }
}

int fopo_proposal_sample(uint32_t *ids, float *logq, const fopo_proposal *q, const fopo_policy *pi,
                         fopo_matrix Q, const fopo_sparse_scores *sparse, const uint32_t *rows,
                         size_t S, fopo_draw_key key) {
  size_t P = fopo_policy_n_items(pi);
  fopo_candidate_sets c = {0};
  fopo_samples samples = {.ids = ids, .logq = logq};
  fopo_device_batch batch = {
      .B = Q.rows, .S = S, .P = P, .L = Q.cols, .rows = rows, .Q = Q.x, .key = key};
  fopo_device *cpu = NULL;
  int status = fopo_proposal_check_for(q, pi);
  if (status == FOPO_OK && q->kind == FOPO_PROPOSAL_CUSTOM) {
    status = fopo_fail(FOPO_ERR_ARGUMENT, "a custom proposal draws for gradients alone; use "
                                          "proposal.uniform or proposal.mixture");
  }
  if (status == FOPO_OK) status = fopo_device_cpu_open(&cpu);
  if (status != FOPO_OK) return status;

  if (fopo_proposal_uses_index(q)) {
    status = sets_init(&c, Q.rows, q->k);
    if (status == FOPO_OK) status = search(&c, q, pi, Q);
    if (status == FOPO_OK && pi->learns[FOPO_BLOCK_ITEMS]) {
      /* the index may be older than the items */
      fopo_rows items = fopo_rows_float32(pi->items.x, pi->items.ld);
      status = cpu->ops->scores(cpu, &c, &items, &batch);
    }
    if (status == FOPO_OK) add_sparse(&c, sparse, Q.rows);
    fopo_mixture m = {.sets = c, .epsilon = fopo_proposal_share(q, S), .stratified = q->stratified};
    if (status == FOPO_OK) status = cpu->ops->draw_mixture(cpu, &samples, &m, &batch);
  } else {
    status = cpu->ops->draw_uniform(cpu, &samples, &batch);
  }
  sets_done(&c);
  fopo_device_close(cpu);
  return status;
}
