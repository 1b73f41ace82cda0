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
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/norm.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "learn/estimators/slates.h"

enum { DRAWS = FOPO_SLATE_OPTIONS };

#define ROUNDING 1e-5 /* of the scores that a bound is compared with */

static void prepare(fopo_batch *b) { b->near = b->options->samples; }

/* ---- queries ---- */

/* The standard deviation of queries, which are h / T. */
static double deviation(const fopo_batch *b) {
  return b->options->sigma / (double)b->data->policy->temperature;
}

/* fopo_unit in float32. */
static inline float unit(uint32_t w) {
  return ((float)(int32_t)(w >> 16) * 0x1p16f + ((float)(int32_t)(w & 65535u) + 0.5f)) * 0x1p-32f;
}

/* -log u, 0 < u <= 1: u = 2^e m with m in [2/3, 4/3), log m = 2 artanh s, s = (m - 1) / (m + 1). */
static inline float minus_log(float u) {
  uint32_t bits;
  memcpy(&bits, &u, sizeof bits);
  int32_t e = (int32_t)(bits - 0x3f2aaaab) >> 23; /* 2/3 is 0x3f2aaaab */
  bits -= (uint32_t)e << 23;
  float m;
  memcpy(&m, &bits, sizeof m);
  float s = (m - 1.0f) / (m + 1.0f), t = s * s;
  float log_m = 2.0f * s * (1.0f + t * (1.0f / 3 + t * (1.0f / 5 + t * (1.0f / 7 + t / 9))));
  return -(float)e * 0.69314718f - log_m;
}

/* z [n] of w [n], n even, by Box and Muller's pairs: fopo_normal_pair in float32 but for rounding,
 * with series that compilers make vectors of. They have the same bits in all of these. */
static void normal_pairs(float *z, const uint32_t *w, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; i += 2) {
    float radius = sqrtf(2.0f * minus_log(unit(w[i])));
    float turn = 4.0f * unit(w[i + 1]); /* in quarters, of which the nearest whole is q */
    int32_t q = (int32_t)(turn + 0.5f);
    float x = (turn - (float)q) * 1.5707963f, t = x * x;
    float sine = x * (1.0f + t * (-1.0f / 6 + t * (1.0f / 120 - t * (1.0f / 5040))));
    float cosine = 1.0f + t * (-0.5f + t * (1.0f / 24 + t * (-1.0f / 720 + t * (1.0f / 40320))));
    float odd = (float)(q & 1), even = 1.0f - odd; /* sine and cosine change places */
    float negative = 1.0f - (float)((q + 1) & 2), below = 1.0f - (float)(q & 2);
    z[i] = radius * negative * (odd * sine + even * cosine);
    z[i + 1] = radius * below * (even * sine + odd * cosine);
  }
}

enum { NUMBERS = 256 }; /* of e at a time */

/* near [S, L] = q + sigma / T e; e is a function of (seed, step, context, s) alone, and with
 * `paired` that of draw 2 j + 1 is minus that of 2 j. */
static void perturb(float *near, const float *q, const fopo_batch *b, uint32_t row, int paired) {
  size_t L = b->data->L, blocks = (L + 3) / 4, S = b->near;
  float sigma = (float)deviation(b), z[NUMBERS];
  uint32_t w[NUMBERS];
  for (size_t s = 0; s < S; s += paired ? 2 : 1) {
    float *x = near + s * L, *y = x + L;
    for (size_t first = 0; first < L; first += NUMBERS) {
      size_t n = L - first < NUMBERS ? L - first : NUMBERS, last = (n + 3) / 4;
      for (size_t at = 0; at < last; at++) {
        fopo_words four = fopo_random(b->key.seed, FOPO_STREAM_SLATE, b->key.step, row,
                                      (uint32_t)(s * blocks + first / 4 + at));
        memcpy(w + 4 * at, four.v, sizeof four.v);
      }
      normal_pairs(z, w, 4 * last);
      for (size_t l = 0; l < n; l++) x[first + l] = q[first + l] + sigma * z[l];
      for (size_t l = 0; paired && l < n; l++) y[first + l] = q[first + l] - sigma * z[l];
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

/* The n items that were found for slate s of context i; a slate that is short repeats its first
 * item in places that earn nothing. Returns 1 if no item beyond the limit can be in it
 * (Cauchy-Schwarz).
 */
static int take(fopo_batch *b, size_t i, size_t s, size_t n) {
  size_t k = b->options->proposal.k, L = b->data->L, q = i * b->near + s;
  uint32_t *ids = b->draws.samples.ids + q * k;
  float *logq = b->draws.samples.logq + q * k;
  memcpy(ids, b->draws.found.ids + q * k, n * sizeof *ids);
  for (size_t j = 0; j < k; j++) logq[j] = j < n ? 0.0f : -INFINITY;
  for (size_t j = n; j < k; j++) ids[j] = n > 0 ? ids[0] : 0;
  double beyond = (double)b->plan->beyond;
  if (beyond == 0.0) return 1;
  double most = fopo_norm(b->draws.near + q * L, L) * beyond * (1.0 + ROUNDING);
  return n == k && (double)b->draws.found.scores[q * k + k - 1] > most;
}

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

/* The slates of the piece, what is proven of them, and of each context the length of its shortest
 * slate. */
static int find(fopo_batch *b) {
  size_t n = b->piece.n, S = b->near, L = b->data->L;
  const fopo_candidate_sets *f = &b->draws.found;
  uint32_t *counts = fopo_candidates_sets(&b->candidates, &b->part, &b->piece).counts;
  int status = fopo_index_search_without(f->ids, f->scores, f->counts, b->plan->q.index,
                                         fopo_matrix_view(b->draws.near, n * S, L),
                                         b->options->proposal.k, b->plan->limit, left_out(b));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < n; i++) {
    double proven = 0.0;
    counts[i] = UINT32_MAX;
    for (size_t s = 0; s < S; s++) {
      uint32_t count = f->counts[i * S + s];
      proven += take(b, i, s, count);
      counts[i] = count < counts[i] ? count : counts[i];
    }
    b->piece.stats[i * FOPO_STATS + FOPO_STAT_HEAD_MASS] = (float)(proven / (double)S);
  }
  return FOPO_OK;
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
    double spread = 0.0;
    for (size_t s = 0; s < S; s++, near += L) {
      if (c[s] == 0.0f) continue;
      float square = 0.0f;
      for (size_t l = 0; l < L; l++) {
        float moved = near[l] - q[l];
        v[l] += c[s] * moved;
        square += moved * moved;
      }
      spread += (double)c[s] * ((double)square / (sigma * sigma) - (double)L);
    }
    for (size_t l = 0; l < L; l++) v[l] *= scale;
    b->piece.stats[i * FOPO_STATS + FOPO_STAT_MAX_WEIGHT] = (float)(spread_share(b) * spread);
  }
  return FOPO_OK;
}

static void joined(fopo_batch *b) {
  for (size_t i = 0; i < b->part.n; i++) {
    float *stat = &b->part.stats[i * FOPO_STATS + FOPO_STAT_MAX_WEIGHT];
    b->by_log_sigma += (double)*stat / (double)b->B;
    *stat = 1.0f / (float)b->near;
  }
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
          "items (short_rows); its other places, of its first item again, earn nothing. On the CPU; items that are\n"
          "learnt, and items that are dealt out to ranks, are refused.",
    .example = "items = fopo.array.randn(100, 4, 1)\n"
             "g = fopo.gradient.slate{k = 5, samples = 40, sigma = 0.2, measure = \"ndcg\"}\n"
             "assert(g.k == 5 and g.samples == 40 and g.measure == \"ndcg\")",
    // clang-format on
};
