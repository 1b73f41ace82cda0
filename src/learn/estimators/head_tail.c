/* Head and tail: the K candidates in full, U draws of the other P - K items, each for (P - K) / U
 * of them, and c as in snis: q is 1 in the head and U / (P - K) in the tail. Ours. Bias of order 1
 * / U, of the tail alone; K + U rows a context and the search. K + U <= P; U = P - K is the exact
 * gradient. */
#include "core/clock.h"
#include "core/status.h"
#include "learn/estimators/covariance.h"

static size_t draws(const fopo_gradient_options *o, size_t P) {
  (void)P;
  return o->proposal.k + o->samples;
}

static int check(const fopo_gradient_options *o, size_t P) {
  size_t K = o->proposal.k;
  if (o->samples <= P - K) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "a tail of %zu draws is more than the %zu of %zu items that are no candidates; "
                   "use a smaller tail or k",
                   o->samples, P - K, P);
}

static int draw(fopo_batch *b) {
  fopo_candidates *c = b->candidates;
  fopo_device *d = b->data->device;
  double start = fopo_clock();
  int status = fopo_candidates_find(c, &b->part, &b->piece, 0, 1);
  double found = fopo_clock();
  b->seconds[FOPO_PHASE_SEARCH] += found - start;
  if (status != FOPO_OK) return status;
  fopo_candidate_sets head = fopo_candidates_sets(c, &b->part, &b->piece);
  status = d->ops->draw_tail(d, &b->draws.samples, &head, &b->piece.device);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - found;
  return status;
}

/* w = exp(f) in the head and (P - K) / U exp(f) in the tail */
static int combine(fopo_batch *b) {
  return fopo_combine_covariance(b, &b->data->beta, FOPO_TAIL_LEAST);
}

static const fopo_option options[] = {
    FOPO_OPTION_CANDIDATE_INDEX("finds the head"),
    FOPO_OPTION_CANDIDATE_K("K, candidates of a context, all of them taken"),
    {.name = "tail",
     .type = FOPO_OPTION_COUNT,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, samples),
     .standard = 256,
     .least = 1,
     .symbol = "U",
     .text = "U, draws of the other P - K items"},
    FOPO_OPTION_CANDIDATE_REFRESH,
    {0}};

const fopo_estimator fopo_estimator_head_tail = {
    .name = "head_tail",
    .title = "head and tail",
    .needs = FOPO_NEEDS_CANDIDATES | FOPO_IS_BIASED,
    .least = 1,
    .draws = draws,
    .check = check,
    .draw = draw,
    .combine = combine,
    .options = options,
    // clang-format off
    .text = "The covariance gradient with the head in full: the K candidates of the index stand for\n"
          "themselves and U uniform draws of the other P - K items for (P - K) / U of them each, so\n"
          "w = exp(f) in the head, w = (P - K) / U exp(f) in the tail, c_s = wbar_s (r_s - rbar) as in snis,\n"
          "and no draw is spent twice on the head. One draw in each of U equal strips of the other items: all\n"
          "are drawn equally often, and U = P - K is the exact gradient.\n"
          "Bias: that of a ratio whose tail is estimated, of order 1 / U, and less the more of the policy's\n"
          "mass the head holds; none from the head. Variance: of the tail alone. Cost: K + U rows a context and the\n"
          "search. Where the index finds fewer than K, the tail has more draws. K + U is at most P.\n"
          "Source: ours.",
    .example = "items = fopo.array.randn(100, 4, 1)\n"
             "g = fopo.gradient.head_tail{index = fopo.index.norm(items), k = 10, tail = 20}\n"
             "assert(g.k == 10 and g.tail == 20)",
    // clang-format on
};
