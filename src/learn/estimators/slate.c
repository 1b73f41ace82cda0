/* Slates by latent Gaussian perturbation (Sakhi, Rohde and Chopin 2023): the slate is the k items
 * of largest (h(x) + sigma e) . beta, e normal in L dimensions, so the policy is a Gaussian about
 * h, and with R the reward of a slate, whatever it is,
 *
 *     d/dh E R = E R e / sigma,      V = T / sigma sum_s c_s e_s   over S draws
 *
 * as the queries of a batch are q = h / T; T changes no slate
 *
 * (estimators/slates.h has c). No item's probability is needed: no sum over items, none over
 * places. By log sigma, the only other parameter of the Gaussian, the derivative is that of
 * E[R (|e|^2 - L)].
 *
 * The S queries of all contexts of a piece are searched at once. */
#include "core/clock.h"
#include "core/status.h"
#include "learn/estimators/slates.h"

enum { DRAWS = FOPO_SLATE_OPTIONS };

static void prepare(fopo_batch *b) { b->near = b->options->samples; }

/* ---- queries ---- */

/* The standard deviation of queries, which are h / T. */
static double deviation(const fopo_batch *b) {
  return b->options->sigma / (double)b->data->policy->temperature;
}

static int is_paired(const fopo_batch *b) { return b->options->own[DRAWS].choice == 0; }

static fopo_slates slates_of(const fopo_batch *b) {
  fopo_slates x = fopo_slates_of(b);
  x.near = b->draws.near;
  x.sigma = deviation(b);
  x.paired = is_paired(b);
  x.beyond = b->plan->beyond;
  return x;
}

/* ---- slates ---- */

/* What each context masks. */
static fopo_without left_out(fopo_batch *b) {
  fopo_sparse_scores scores = fopo_batch_scores(&b->piece.device);
  if (!b->data->masks_seen) return (fopo_without){0};
  for (size_t i = 0; i < b->piece.n; i++) {
    fopo_score_row mask = fopo_score_row_of(&scores, i);
    b->draws.masked[i] = fopo_left_out_of(mask.ids, mask.n);
  }
  return (fopo_without){b->draws.masked, b->near};
}

/* The slates of n contexts of the piece from `first` on, of `each` items found for each query, less
 * what `sparse` masks. */
static int take(fopo_batch *b, const fopo_slates *of, size_t first, size_t n, size_t each,
                fopo_sparse_scores sparse) {
  fopo_device *d = b->data->device;
  fopo_device_batch batch = b->piece.device;
  fopo_samples s = b->draws.samples;
  fopo_slates x = *of;
  fopo_candidate_sets found = b->draws.found;
  uint32_t *counts = fopo_candidates_sets(&b->candidates, &b->part, &b->piece).counts;
  s.ids += first * b->S;
  s.logq += first * b->S;
  x.near += first * b->near * b->data->L;
  found.k = each;
  batch.B = n;
  batch.rows += first;
  batch.sparse = sparse;
  return d->ops->take_slates(d, &s, counts + first, b->piece.stats + first * FOPO_STATS, &found, &x,
                             &batch);
}

static int find_on_host(fopo_batch *b, const fopo_slates *x) {
  size_t n = b->piece.n;
  const fopo_candidate_sets *f = &b->draws.found;
  int status = fopo_index_search_without(f->ids, f->scores, f->counts, b->plan->q.index,
                                         fopo_matrix_view(x->near, n * x->S, b->data->L), x->k,
                                         b->plan->limit, left_out(b));
  return status == FOPO_OK ? take(b, x, 0, n, x->k, (fopo_sparse_scores){0}) : status;
}

enum { MOST_QUERIES = 4096 }; /* of one search, which takes memory for each */

/* A card finds what is masked, too: as many items more as any context of the piece masks. */
static int find_on_device(fopo_batch *b, const fopo_slates *x) {
  const fopo_binding *data = b->data;
  fopo_device *d = data->device;
  fopo_sparse_scores masks = fopo_binding_sparse_host(data, b->piece.rows, 0);
  size_t n = b->piece.n, each = x->k, most = 0;
  for (size_t i = 0; i < n; i++) {
    size_t masked = fopo_score_row_of(&masks, i).n;
    most = masked > most ? masked : most;
  }
  each = each + most < data->P ? each + most : data->P;
  if (!b->plan->device_searches || each > FOPO_TOPK_MOST) {
    return fopo_fail(
        FOPO_ERR_UNAVAILABLE,
        "a GPU finds slates by an exact or norm index, %d items at most with those that "
        "a context masks, not %zu by an index %s; use device = \"cpu\"",
        FOPO_TOPK_MOST, each, fopo_index_about(b->plan->q.index).kind);
  }
  size_t room = FOPO_PLACES / each < MOST_QUERIES ? FOPO_PLACES / each : MOST_QUERIES;
  size_t at_once = room / x->S > 0 ? room / x->S : 1;
  int status = FOPO_OK;
  for (size_t first = 0; first < n && status == FOPO_OK; first += at_once) {
    size_t some = n - first < at_once ? n - first : at_once;
    fopo_candidate_sets found = b->draws.found;
    fopo_device_batch queries = {
        .B = some * x->S, .P = data->P, .L = data->L, .Q = x->near + first * x->S * data->L};
    found.k = each;
    status = d->ops->topk(d, &found, &b->plan->catalogue, &queries);
    if (status == FOPO_OK) status = take(b, x, first, some, each, b->piece.device.sparse);
  }
  return status;
}

static int draw(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_slates x = slates_of(b);
  double start = fopo_clock();
  int status = d->ops->perturb(d, &x, &b->piece.device);
  double perturbed = fopo_clock();
  b->seconds[FOPO_PHASE_PROPOSE] += perturbed - start;
  if (status == FOPO_OK) {
    status = d->ops->topk != NULL ? find_on_device(b, &x) : find_on_host(b, &x);
  }
  b->seconds[FOPO_PHASE_SEARCH] += fopo_clock() - perturbed;
  return status;
}

/* By how much sum_s c_s |e_s|^2 falls short of its mean: two draws of a pair have the same |e|, and
 * are no others for each other's baseline. */
static double spread_share(const fopo_batch *b) {
  double S = (double)b->near;
  if (!is_paired(b) || !fopo_slate_has_baseline(b->options)) return 1.0;
  return S > 2.0 ? S / (S - 2.0) : 0.0;
}

/* V = sum_s c_s (near_s - q) T^2 / sigma^2, near_s - q = sigma / T e_s as it was rounded. The
 * derivative by log sigma goes to all ranks in the place of a statistic that slates do not have. */
static int combine(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_slates x = slates_of(b);
  fopo_estimate e = fopo_batch_estimate(b);
  const fopo_samples *s = &b->draws.samples;
  int status = d->ops->weigh_slates(d, s, b->piece.stats, &x, &b->piece.device);
  return status == FOPO_OK ? d->ops->add_perturbed(d, &e, s, &x, &b->piece.device) : status;
}

static int joined(fopo_batch *b) {
  fopo_device *d = b->data->device;
  float *stats = b->arrays.host_stats;
  size_t bytes = b->part.n * FOPO_STATS * sizeof *stats;
  double share = spread_share(b) / (double)b->B;
  int status = d->ops->get(d, stats, b->part.stats, bytes);
  for (size_t i = 0; i < b->part.n && status == FOPO_OK; i++) {
    float *stat = &stats[i * FOPO_STATS + FOPO_STAT_MAX_WEIGHT];
    b->by_log_sigma += share * (double)*stat;
    *stat = 1.0f / (float)b->near;
  }
  return status == FOPO_OK ? d->ops->put(d, b->part.stats, stats, bytes) : status;
}

static int check(const fopo_gradient_options *o, const fopo_estimator_use *use) {
  const fopo_index *ix = o->proposal.index;
  if (o->own[DRAWS].choice == 0 && o->samples % 2 != 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu slates a context do not come in pairs; use an even number of samples, or "
                     "draws = \"iid\"",
                     o->samples);
  }
  if (o->sigma_lr > 0.0 && o->own[DRAWS].choice == 0 && o->samples == 2) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "two slates a context are one pair, which says nothing of sigma; use 4 samples "
        "or more, draws = \"iid\", or sigma_lr = 0");
  }
  if (o->limit > 0 && ix != NULL && !fopo_index_about(ix).by_norm) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "head = %zu is the items of largest norm, among which an index %s does not "
                     "search; leave out index, or head",
                     o->limit, fopo_index_about(ix).kind);
  }
  if (o->limit > 0 && o->limit < o->proposal.k) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a head of %zu items is less than a slate of %zu; use more",
                     o->limit, o->proposal.k);
  }
  return fopo_slate_check(o, use);
}

static const char *const pairs[] = {"antithetic", "iid", NULL};

static const fopo_option options[] = {
    FOPO_OPTION_CANDIDATE_INDEX("finds the slates; if left out, exact, by descending norm"),
    FOPO_OPTION_SLATE_K(FOPO_OPTION_OF_CANDIDATES),
    FOPO_OPTION_SLATE_SAMPLES,
    {.name = "sigma",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_SETTABLE | FOPO_OPTION_ABOVE,
     .member = offsetof(fopo_gradient_options, sigma),
     .standard = 0.1,
     .symbol = "sigma",
     .text = "sigma, the standard deviation of what is added to each number of h(x)"},
    {.name = "sigma_lr",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, sigma_lr),
     .text = "the rate by which log sigma is learnt, by Adagrad; 0: sigma stays as it is"},
    FOPO_OPTION_SLATE_MEASURE,
    FOPO_OPTION_SLATE_DISCOUNT,
    FOPO_OPTION_SLATE_BASELINE,
    {.name = "draws",
     .type = FOPO_OPTION_CHOICE,
     .member = offsetof(fopo_gradient_options, own[DRAWS].choice),
     .choices = pairs,
     .text = "antithetic: in pairs, e and -e; iid: each by itself"},
    {.name = "head",
     .type = FOPO_OPTION_COUNT,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, limit),
     .symbol = "head",
     .text = "H, the items of largest norm, which alone are searched; 0: as the index allows"},
    {0}};

const fopo_estimator fopo_estimator_slate = {
    .name = "slate",
    .title = "slate",
    .needs = FOPO_NEEDS_CANDIDATES | FOPO_SEARCHES_ITSELF | FOPO_DRAWS_SLATES,
    .least = 2,
    .draws = fopo_slate_draws,
    .prepare = prepare,
    .check = check,
    .draw = draw,
    .combine = combine,
    .joined = joined,
    .options = options,
    // clang-format off
    .text = "Slates of k items by latent Gaussian perturbation (Sakhi, Rohde and Chopin, TMLR 2023): the slate is\n"
          "the k items of largest (h(x) + sigma e) . beta, best first, e normal in L dimensions; served is the\n"
          "one of e = 0, the k best items. The gradient of the expected reward R of a slate is that of a Gaussian,\n"
          "v = 1 / sigma sum_s c_s e_s with c_s = (R_s - mean R) / (S - 1), or with antithetic pairs, e and -e,\n"
          "(R_s - mean R) / S. So R may be anything: it is not differentiated, and no probability of an item or\n"
          "sum over items is needed. The rewards of the items are those of the reward, by `measure` that of the\n"
          "slate; the function of fopo.reward.custom is given the slates of a context one behind another, ids\n"
          "[B, S k], and may put all of a slate's reward into its first place (measure = \"sum\").\n"
          "Bias: none, of the policy that is perturbed by sigma. Variance: of order L / (S sigma^2), whatever k is.\n"
          "Cost: S searches a context. Exact ones look at as many norms as it takes; with head = H those of all\n"
          "contexts are one product with the H items of largest norm, and head_mass is the share of slates of\n"
          "which the norms prove that no other item is in them. head_mass is 1 where nothing is left out.\n"
          "sigma may be changed between steps: t:run{on_record = function() g.sigma = 0.9 * g.sigma end} lets it fall.\n"
          "With sigma_lr > 0 it is learnt: log sigma moves by Adagrad along stats.by_log_sigma of g:compute, the mean\n"
          "of sum_s c_s (|e_s|^2 - L), where a pair counts as one draw; bias: none. One number for all dimensions, as\n"
          "its derivative has sqrt(L) times the signal to noise of that of one. Checkpoints keep it.\n"
          "Seen items that a policy masks are in no slate. A slate is short where the index finds fewer than k\n"
          "items (short_rows); its other places, of its first item again, earn nothing. On a GPU by an\n"
          "exact or norm index, which finds at most 2,048 items with the masked ones of a context. Items that are\n"
          "learnt, and items that are dealt out to ranks, are refused.",
    .example = "items = fopo.array.randn(100, 4, 1)\n"
             "g = fopo.gradient.slate{k = 5, samples = 40, sigma = 0.2, measure = \"ndcg\"}\n"
             "assert(g.k == 5 and g.samples == 40 and g.measure == \"ndcg\")",
    // clang-format on
};
