/* Self-normalised importance sampling: S items of the proposal q, c_s = wbar_s (r_s - rbar) (the
 * paper, Algorithm 1, the covariance gradient). Bias of order 1 / S; S + K rows a context. */
#include "core/clock.h"
#include "core/status.h"
#include "learn/estimators/covariance.h"
#include "learn/estimators/drawn.h"

/* S draws of the mixture for contexts with candidates; uniform ones if no context has any. */
static int draw_proposal(fopo_batch *b) {
  const fopo_candidates *c = &b->candidates;
  fopo_device *d = b->data->device;
  if (fopo_batch_proposes(b)) return FOPO_OK; /* the caller has made them */
  if (fopo_candidates_of(c, &b->piece) == 0) {
    return d->ops->draw_uniform(d, &b->draws.samples, &b->piece.device);
  }
  fopo_mixture mixture = {.sets = fopo_candidates_sets(c, &b->part, &b->piece),
                          .epsilon = fopo_proposal_share(&c->plan->q, b->S),
                          .stratified = c->plan->q.stratified};
  return d->ops->draw_mixture(d, &b->draws.samples, &mixture, &b->piece.device);
}

/* Draws, rewards, sums and, of a whole batch, its statistics in one operation. */
static int combine_fused(fopo_batch *b, float floor) {
  const fopo_candidates *c = &b->candidates;
  fopo_device *d = b->data->device;
  fopo_estimate estimate = fopo_batch_estimate(b);
  fopo_sparse_reward reward = fopo_batch_sparse(b);
  fopo_device_batch batch = b->piece.device;
  fopo_drawing draws = {.kind = FOPO_DRAW_UNIFORM};
  batch.with_candidates = fopo_candidates_of(c, &b->piece);
  if (batch.with_candidates > 0) {
    draws = fopo_candidates_drawing(c, &b->part, &b->piece, FOPO_DRAW_MIXTURE);
    draws.mixture.epsilon = fopo_proposal_share(&c->plan->q, b->S);
    draws.mixture.stratified = c->plan->q.stratified;
  }
  return d->ops->snis_drawn(d, &estimate, &draws, &reward, &b->data->beta, floor, &batch);
}

int fopo_draw_from_proposal(fopo_batch *b) {
  const fopo_samples *s = &b->draws.samples;
  int status = FOPO_OK;
  double start = fopo_clock();
  if (fopo_candidates_due(&b->candidates, &b->part, &b->piece)) {
    status = fopo_candidates_find(&b->candidates, &b->part, &b->piece, 1, 0);
  }
  double found = fopo_clock();
  b->seconds[FOPO_PHASE_SEARCH] += found - start;
  if (status != FOPO_OK || b->fused) return status;
  status = draw_proposal(b);
  if (status == FOPO_OK) {
    status = fopo_fault_inject(b->fault, b->data->device, s->ids, s->logq, b->piece.n * b->S,
                               b->data->P);
  }
  if (status == FOPO_OK) status = fopo_batch_keep_draws(b);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - found;
  return status;
}

/* w_s = exp(f_s) / q_s; a draw of a density above the floor eps / P is one of the candidates. */
static int combine(fopo_batch *b) {
  float floor = fopo_proposal_floor(&b->plan->q, b->data->P, b->S);
  if (b->fused) return combine_fused(b, floor);
  return fopo_combine_covariance(b, &b->data->beta, floor);
}

static const fopo_option options[] = {{.name = "proposal",
                                       .type = FOPO_OPTION_PROPOSAL,
                                       .symbol = "proposal",
                                       .text = "what to draw from; uniform if left out"},
                                      FOPO_OPTION_SAMPLES("S, draws a context"),
                                      {.name = "fault",
                                       .type = FOPO_OPTION_FAULT,
                                       .choices = fopo_fault_names,
                                       .symbol = "fault",
                                       .text = "for teaching: a mistake to plant"},
                                      {0}};

const fopo_estimator fopo_estimator_snis = {
    .name = "snis",
    .title = "snis",
    .needs = FOPO_TAKES_OBJECTIVES | FOPO_NEEDS_PROPOSAL | FOPO_TAKES_FAULTS | FOPO_IS_BIASED |
             FOPO_TAKES_PARTS | FOPO_CAN_FUSE,
    .least = 2,
    .draw = fopo_draw_from_proposal,
    .combine = combine,
    .options = options,
    // clang-format off
    .text = "The covariance gradient by self-normalised importance sampling (the paper, Algorithm 1):\n"
          "w_s = exp(f_s) / q_s, wbar = w / sum w, c_s = wbar_s (r_s - rbar). Bias of order 1 / S, less the\n"
          "closer q is to the policy. Cost: S + K rows a context, whatever P is.\n"
          "fault makes the estimator wrong on purpose, to see what a mistake does to learning and whether\n"
          "fopo.check finds it: no_q drops q from the weight (w = exp(f)), added_q adds log q instead of\n"
          "subtracting it (w = exp(f) q), off_by_one takes the item after the one that was drawn. Under the\n"
          "uniform proposal all three change nothing: a constant q cancels, and a shifted uniform draw is\n"
          "uniform. The name of the gradient and every line of a run say that a fault is planted.",
    .example = "g = fopo.gradient.snis{proposal = fopo.proposal.uniform(), samples = 200}",
    // clang-format on
};
