/* Head and tail: some items in full, U draws of the others, each for so many of them as there are
 * for every draw, and c as in snis: q is 1 in the head and U / M in the tail of M items. Ours. The
 * head is the K candidates of each context, or the H items of largest norm for all contexts; which,
 * and H, may follow from the mass (plan/mass.h). Bias of order 1 / U, of the tail alone; K +
 * U rows a context and the search, or H + U rows and none. K + U and H + U are at most P; U = M is
 * the exact gradient.
 *
 * A head that contexts share goes with a tail that they share, on the CPU: 4 U draws a batch, whose
 * rows are read once, and the items that earn something in a context in full, for most of the
 * variance is in whether they are drawn. */
#include "core/clock.h"
#include "core/status.h"
#include "learn/estimators/covariance.h"

/* A tail that is drawn once for all contexts has so many times U draws. */
enum { SHARED = 4 };

static size_t draws(const fopo_batch *b) {
  const fopo_gradient_options *o = b->options;
  return (b->plan->H > 0 ? b->plan->listed : o->proposal.k) + o->samples;
}

/* With head = "auto" H is at most P - U, so that U distinct items remain for the tail. Where that
 * is more than a shared head may have, the head is K candidates of each context. */
static int check_by_mass(const fopo_gradient_options *o, size_t P) {
  size_t K = o->proposal.k, U = o->samples;
  if (U < P && (P - U <= FOPO_MASS_SHARED || K + U <= P)) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "a tail of %zu draws and %zu candidates are more than the %zu items; use a "
                   "smaller tail or k",
                   U, K, P);
}

static int check(const fopo_gradient_options *o, const fopo_estimator_use *use) {
  size_t P = use->P;
  if (o->head == 0 && fopo_proposal_is_automatic(&o->proposal)) return check_by_mass(o, P);
  size_t head = o->head > 0 ? o->head : o->proposal.k;
  if (head < P && o->samples <= P - head) return FOPO_OK;
  if (o->head > 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a head of %zu items and a tail of %zu draws are more than the %zu items; use "
                     "a smaller head or tail",
                     head, o->samples, P);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "a tail of %zu draws is more than the %zu of %zu items that are no candidates; "
                   "use a smaller tail or k",
                   o->samples, P - head, P);
}

static int draw_with_candidates(fopo_batch *b) {
  fopo_candidates *c = &b->candidates;
  fopo_device *d = b->data->device;
  double start = fopo_clock();
  int status = fopo_candidates_find(c, &b->part, &b->piece, 0, 1);
  double found = fopo_clock();
  b->seconds[FOPO_PHASE_SEARCH] += found - start;
  if (status != FOPO_OK || b->fused) return status;
  fopo_candidate_sets head = fopo_candidates_sets(c, &b->part, &b->piece);
  status = d->ops->draw_tail(d, &b->draws.samples, &head, &b->piece.device);
  if (status == FOPO_OK) status = fopo_batch_keep_draws(b);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - found;
  return status;
}

static int draw(fopo_batch *b) {
  const fopo_plan *plan = b->plan;
  fopo_device *d = b->data->device;
  if (plan->H == 0) return draw_with_candidates(b);
  if (b->fused) return FOPO_OK;
  double start = fopo_clock();
  int status =
      d->ops->draw_others(d, &b->draws.samples, &plan->head, plan->listed, &b->piece.device);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

/* Draws, rewards, sums and, of a whole batch, its statistics in one operation. */
static int combine_fused(fopo_batch *b) {
  const fopo_candidates *c = &b->candidates;
  fopo_device *d = b->data->device;
  fopo_estimate estimate = fopo_batch_estimate(b);
  fopo_sparse_reward reward = fopo_batch_sparse(b);
  fopo_device_batch batch = b->piece.device;
  fopo_drawing draws = fopo_candidates_drawing(c, &b->part, &b->piece, FOPO_DRAW_TAIL);
  batch.with_candidates = fopo_candidates_of(c, &b->piece);
  return d->ops->snis_drawn(d, &estimate, &draws, &reward, &b->data->beta, FOPO_TAIL_LEAST, &batch);
}

static int combine_shared(fopo_batch *b, const fopo_sparse_reward *reward,
                          const fopo_device_batch *batch) {
  const fopo_binding *data = b->data;
  fopo_device *d = data->device;
  fopo_estimate estimate = fopo_batch_estimate(b);
  fopo_shared_tail tail = {b->plan->H, data->parts->part};
  fopo_device_batch x = *batch;
  size_t M = data->P - b->plan->H;
  x.S = b->S < M / SHARED ? SHARED * b->S : M;
  return d->ops->snis_shared(d, &estimate, &b->plan->head, &tail, reward, &data->beta, &x);
}

/* w = exp(f) in the head and M / U exp(f) in the tail. A shared head whose items are not listed is
 * summed by dense products. */
static int combine(fopo_batch *b) {
  const fopo_binding *data = b->data;
  fopo_device *d = data->device;
  if (b->plan->H == 0 && b->fused) return combine_fused(b);
  if (b->plan->H == 0 || b->plan->listed > 0) {
    return fopo_combine_covariance(b, &data->beta, FOPO_TAIL_LEAST);
  }
  fopo_estimate estimate = fopo_batch_estimate(b);
  fopo_sparse_reward reward = fopo_batch_sparse(b);
  fopo_device_batch x = b->piece.device;
  fopo_batch_fetched(b, &reward.Y, &x.rows);
  if (fopo_batch_shares_tail(b)) return combine_shared(b, &reward, &x);
  return d->ops->snis_head(d, &estimate, &b->plan->head, &reward,
                           b->fused ? NULL : &b->draws.samples, &data->beta, &x);
}

static const char *const by_mass[] = {"auto", NULL};
static const char *const products[] = {"auto", "float32", "bfloat16", NULL}; /* fopo_products */

static const fopo_option options[] = {
    FOPO_OPTION_CANDIDATE_INDEX(
        "finds the head of each context; with head = \"auto\" the last resort"),
    FOPO_OPTION_CANDIDATE_K("K, candidates of a context, all of them taken"),
    {.name = "head",
     .type = FOPO_OPTION_HEAD,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, head),
     .least = 1,
     .symbol = "H",
     .choices = by_mass,
     .text = "H, the items of largest norm, taken in every context; \"auto\": by mass, the default "
             "without an index"},
    {.name = "tail",
     .type = FOPO_OPTION_COUNT,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, samples),
     .standard = 64,
     .least = 1,
     .symbol = "U",
     .text = "U, draws of the other items; 4 U for all contexts where they share them"},
    {.name = "products",
     .type = FOPO_OPTION_CHOICE,
     .member = offsetof(fopo_gradient_options, products),
     .symbol = "products",
     .choices = products,
     .text = "what a shared head is multiplied in; \"auto\": bfloat16 on a GPU that has it"},
    FOPO_OPTION_CANDIDATE_REFRESH,
    {0}};

const fopo_estimator fopo_estimator_head_tail = {
    .name = "head_tail",
    .title = "head and tail",
    .needs = FOPO_TAKES_OBJECTIVES | FOPO_WEIGHTS_ARE_Z | FOPO_NEEDS_CANDIDATES | FOPO_IS_BIASED |
             FOPO_SHARES_HEAD | FOPO_TAKES_PARTS | FOPO_CAN_FUSE,
    .least = 1,
    .draws = draws,
    .check = check,
    .draw = draw,
    .combine = combine,
    .options = options,
    // clang-format off
    .text = "The covariance gradient with the head in full: its items stand for themselves, and U uniform draws\n"
          "of the M others for M / U of them each, so w = exp(f) in the head, w = M / U exp(f) in the tail,\n"
          "c_s = wbar_s (r_s - rbar) as in snis, and no draw is spent twice on the head.\n"
          "The head is, with index, the K candidates of each context (M = P - K); with head = H, the H items\n"
          "of largest norm for every context (M = P - H): their rows lie together, so that scores and gradient\n"
          "are two dense products without a search. What matters is the share of the policy's mass that\n"
          "the head holds (head_mass), not how many of the true top K are in it.\n"
          "With head = \"auto\", the default without an index, H follows from the mass, as fopo.proposal.mixture\n"
          "describes: up to 8,192 items are shared by all contexts; if H is more, the head is K candidates found\n"
          "among the H largest norms, and if it is more than half of the items, K candidates found by the index, if\n"
          "one is given, or in clusters of the items. With P - U <= 8,192, a head of that many is the exact gradient.\n"
          "One draw in each of U equal strips of the other items (by id; with head = H by norm): all are drawn\n"
          "equally often, and U = M is the exact gradient.\n"
          "Beside a shared head the contexts of a batch share the draws too, on the CPU: 4 U of them (at most M),\n"
          "drawn once. The items of Y are then not left to the draws: each is taken in full in its own context,\n"
          "where draws of it weigh 0, as do draws of seen items. So sum w r and sum w r beta are exact, and the\n"
          "expectation of sum w and sum w beta is that of all items, in each context as if it were alone; only\n"
          "the errors of contexts go together. On a GPU, and where items are learnt or rewards not sparse, every\n"
          "context has U draws of its own, and Y is among them.\n"
          "Bias: that of a ratio whose tail is estimated, of order 1 / U, and less the more of the policy's\n"
          "mass the head holds; none from the head. Variance: of the tail alone.\n"
          "Cost: K + U rows a context and the search; or H + 4 U rows a batch and those of Y, which all contexts\n"
          "multiply. Where the index finds fewer than K, the tail has more draws. K + U, or H + U, is at most P.\n"
          "With rewards that are not sparse (a model's, a function's) or items that are learnt, the H items\n"
          "are read one by one for each context, which is the same estimate and slower.\n"
          "With products = \"bfloat16\" the rows of a head for all contexts are rounded to 8 bits, and the\n"
          "estimate is that of a policy with these rows: scores are off by up to 2^-8 of their size, with\n"
          "either sign. Tensor cores of a GPU multiply such rows; \"auto\" takes them there, but for a policy\n"
          "with rows = \"float16\". On the CPU they save no time.\n"
          "Source: ours.",
    .example = "items = fopo.array.randn(100, 4, 1)\n"
             "g = fopo.gradient.head_tail{index = fopo.index.norm(items), k = 10, tail = 20}\n"
             "assert(g.k == 10 and g.tail == 20)\n"
             "assert(fopo.gradient.head_tail{head = 30, tail = 20}.head == 30)\n"
             "assert(fopo.gradient.head_tail{}.head == \"auto\")\n"
             "assert(fopo.gradient.head_tail{head = 30, products = \"float32\"}.products == \"float32\")",
    // clang-format on
};
