/* Slates by latent Gaussian perturbation (Sakhi, Rohde and Chopin 2023): the slate is the k items
 * of largest (h(x) + sigma e) . beta, e normal in L dimensions, so the policy is a Gaussian about
 * h, and with R the reward of a slate, whatever it is,
 *
 *     d/dh E R = E R e / sigma,      V = T / sigma sum_s c_s e_s   over S draws
 *
 * as the queries of a batch are q = h / T; T changes no slate
 *
 * (estimators/slates.h has c). No item's probability is needed: no sum over items, none over
 * places.
 *
 * The S queries of all contexts of a piece are searched at once. A search does not know masked
 * items, so it asks for more than k; contexts of which a slate is still short are searched for four
 * times as many, up to k and all that they mask. */
#include <math.h>

#include "core/clock.h"
#include "core/norm.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "learn/estimators/slates.h"

enum { SIGMA = FOPO_SLATE_OPTIONS, DRAWS };

enum { MORE = 5, FACTOR = 4 }; /* items beyond k where some are masked, and what follows */

#define ROUNDING 1e-5 /* of the scores that a bound is compared with */

static void prepare(fopo_batch *b) {
  size_t take = b->options->proposal.k + (b->data->masks_seen ? MORE : 0);
  b->near = b->options->samples;
  b->take = take < b->data->P ? take : b->data->P;
}

/* ---- queries ---- */

/* The standard deviation of queries, which are h / T. */
static double deviation(const fopo_batch *b) {
  return b->options->own[SIGMA].number / (double)b->data->policy->temperature;
}

/* As fopo_normal_pair in float32, as queries are, in half the time. */
static void normal_pair(float *a, float *b, uint32_t w0, uint32_t w1) {
  float radius = sqrtf(-2.0f * logf((float)fopo_unit(w0)));
  float angle = 6.2831853f * (float)fopo_unit(w1);
  *a = radius * cosf(angle);
  *b = radius * sinf(angle);
}

/* near [S, L] = q + sigma / T e; e is a function of (seed, step, context, s) alone, and with
 * `paired` that of draw 2 j + 1 is minus that of 2 j. */
static void perturb(float *near, const float *q, const fopo_batch *b, uint32_t row, int paired) {
  size_t L = b->data->L, blocks = (L + 3) / 4, S = b->near;
  float sigma = (float)deviation(b);
  for (size_t s = 0; s < S; s += paired ? 2 : 1) {
    float *x = near + s * L, *y = x + L;
    for (size_t at = 0; at < L; at += 4) {
      float z[4];
      fopo_words w = fopo_random(b->key.seed, FOPO_STREAM_SLATE, b->key.step, row,
                                 (uint32_t)(s * blocks + at / 4));
      normal_pair(&z[0], &z[1], w.v[0], w.v[1]);
      normal_pair(&z[2], &z[3], w.v[2], w.v[3]);
      for (size_t l = at; l < at + 4 && l < L; l++) {
        x[l] = q[l] + sigma * z[l - at];
        if (paired) y[l] = q[l] - sigma * z[l - at];
      }
    }
  }
}

static int is_paired(const fopo_batch *b) { return b->options->own[DRAWS].choice == 0; }

static void perturb_all(fopo_batch *b) {
  size_t L = b->data->L;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < b->piece.n; i++) {
    perturb(b->draws.near + i * b->near * L, fopo_matrix_row(b->piece.Q, i), b, b->piece.rows[i],
            is_paired(b));
  }
}

/* ---- slates ---- */

/* The first k items of n that are not masked, as slate s of context i; returns how many there are.
 * A slate that is short repeats its first item in places that earn nothing. Adds 1 to *proven if no
 * item beyond the limit can be in it (Cauchy-Schwarz). */
static uint32_t pick(fopo_batch *b, size_t i, size_t s, const uint32_t *found, const float *scores,
                     size_t n, const fopo_score_row *mask, double *proven) {
  size_t k = b->options->proposal.k, L = b->data->L, at = i * b->S + s * k;
  uint32_t *ids = b->draws.samples.ids + at, count = 0;
  float *logq = b->draws.samples.logq + at, kth = -INFINITY;
  for (size_t j = 0; j < n && count < k; j++) {
    if (mask->n > 0 && fopo_score_of(mask, found[j]) == -INFINITY) continue;
    ids[count++] = found[j];
    kth = scores[j];
  }
  for (size_t j = 0; j < k; j++) logq[j] = j < count ? 0.0f : -INFINITY;
  for (size_t j = count; j < k; j++) ids[j] = count > 0 ? ids[0] : 0;
  double beyond = (double)b->plan->beyond;
  double most = fopo_norm(b->draws.near + (i * b->near + s) * L, L) * beyond * (1.0 + ROUNDING);
  *proven += beyond == 0.0 || (count == k && (double)kth > most);
  return count;
}

/* Searches the queries of slates s .. s + n - 1 of context i for `take` items each. */
static int search(fopo_batch *b, size_t i, size_t s, size_t n, size_t take) {
  size_t L = b->data->L;
  const fopo_candidate_sets *f = &b->draws.found;
  fopo_matrix Q = {b->draws.near + (i * b->near + s) * L, n, L, L};
  return fopo_index_search_within(f->ids, f->scores, f->counts, b->plan->q.index, Q, take,
                                  b->plan->limit, 0);
}

/* What the last search has found for slates s .. s + n - 1 of context i: the least number of items
 * of one of them. */
static uint32_t pick_all(fopo_batch *b, size_t i, size_t s, size_t n, size_t first, size_t take,
                         double *proven) {
  fopo_sparse_scores scores = fopo_batch_scores(&b->piece.device);
  fopo_score_row mask = fopo_score_row_of(&scores, i);
  const fopo_candidate_sets *f = &b->draws.found;
  uint32_t least = UINT32_MAX;
  for (size_t j = 0; j < n; j++) {
    size_t at = (first + j) * take;
    uint32_t count =
        pick(b, i, s + j, f->ids + at, f->scores + at, f->counts[first + j], &mask, proven);
    least = count < least ? count : least;
  }
  return least;
}

/* The slates of context i anew, of which one was short among the first b->take items. */
static int search_again(fopo_batch *b, size_t i, uint32_t *least, double *proven) {
  size_t k = b->options->proposal.k, P = b->data->P, S = b->near, take = b->take;
  fopo_sparse_scores scores = fopo_batch_scores(&b->piece.device);
  size_t most = k + fopo_score_row_of(&scores, i).n;
  if (most > P) most = P;
  while (*least < k && take < most) {
    take = FACTOR * take < most ? FACTOR * take : most;
    size_t room = b->draws.room / take, each = room < S ? room : S;
    *least = UINT32_MAX;
    *proven = 0.0;
    for (size_t s = 0; s < S; s += each) {
      size_t n = S - s < each ? S - s : each;
      int status = search(b, i, s, n, take);
      if (status != FOPO_OK) return status;
      uint32_t count = pick_all(b, i, s, n, 0, take, proven);
      *least = count < *least ? count : *least;
    }
  }
  return FOPO_OK;
}

/* The slates of the piece, what is proven of them, and of each context the length of its shortest
 * slate. */
static int find(fopo_batch *b) {
  size_t n = b->piece.n, S = b->near;
  uint32_t *counts = fopo_candidates_sets(&b->candidates, &b->part, &b->piece).counts;
  int status = search(b, 0, 0, n * S, b->take);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < n; i++) {
    double proven = 0.0;
    counts[i] = pick_all(b, i, 0, S, i * S, b->take, &proven);
    b->piece.stats[i * FOPO_STATS + FOPO_STAT_HEAD_MASS] = (float)(proven / (double)S);
  }
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    double proven = -1.0;
    status = search_again(b, i, &counts[i], &proven);
    if (proven < 0.0) continue;
    b->piece.stats[i * FOPO_STATS + FOPO_STAT_HEAD_MASS] = (float)(proven / (double)S);
  }
  return status;
}

static int draw(fopo_batch *b) {
  double start = fopo_clock();
  perturb_all(b);
  double perturbed = fopo_clock();
  b->seconds[FOPO_PHASE_PROPOSE] += perturbed - start;
  int status = find(b);
  b->seconds[FOPO_PHASE_SEARCH] += fopo_clock() - perturbed;
  return status;
}

/* V = sum_s c_s (near_s - q) T^2 / sigma^2, near_s - q = sigma / T e_s as it was rounded. */
static int combine(fopo_batch *b) {
  size_t L = b->data->L, S = b->near;
  double sigma = deviation(b);
  float scale = (float)(1.0 / (sigma * sigma));
  fopo_slate_weigh(b, is_paired(b));
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t i = 0; i < b->piece.n; i++) {
    const float *near = b->draws.near + i * S * L, *c = b->draws.samples.r + i * b->S;
    const float *q = fopo_matrix_row(b->piece.Q, i);
    float *v = fopo_matrix_row(b->piece.V, i);
    for (size_t l = 0; l < L; l++) v[l] = 0.0f;
    for (size_t s = 0; s < S; s++, near += L) {
      if (c[s] == 0.0f) continue;
      for (size_t l = 0; l < L; l++) v[l] += c[s] * (near[l] - q[l]);
    }
    for (size_t l = 0; l < L; l++) v[l] *= scale;
  }
  return FOPO_OK;
}

static int check(const fopo_gradient_options *o, const fopo_estimator_use *use) {
  const fopo_index *ix = o->proposal.index;
  if (o->own[DRAWS].choice == 0 && o->samples % 2 != 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu slates a context do not come in pairs; use an even number of samples, or "
                     "draws = \"iid\"",
                     o->samples);
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
     .member = offsetof(fopo_gradient_options, own[SIGMA].number),
     .standard = 0.1,
     .symbol = "sigma",
     .text = "sigma, the standard deviation of what is added to each number of h(x)"},
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
          "Seen items that a policy masks are in no slate. A slate is short where the index finds fewer than k\n"
          "items (short_rows); its other places, of its first item again, earn nothing. On the CPU; items that are\n"
          "learnt, and items that are dealt out to ranks, are refused.",
    .example = "items = fopo.array.randn(100, 4, 1)\n"
             "g = fopo.gradient.slate{k = 5, samples = 40, sigma = 0.2, measure = \"ndcg\"}\n"
             "assert(g.k == 5 and g.samples == 40 and g.measure == \"ndcg\")",
    // clang-format on
};
