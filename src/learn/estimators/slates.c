#include "learn/estimators/slates.h"

#include <math.h>
#include <string.h>

#include "core/threads.h"

const char *const fopo_slate_measures[] = {"hit", "sum", "dcg", "ndcg", NULL};
const char *const fopo_slate_baselines[] = {"leave-one-out", "none", NULL};

size_t fopo_slate_draws(const fopo_batch *b) {
  return b->options->samples * b->options->proposal.k;
}

int fopo_slate_has_baseline(const fopo_gradient_options *o) {
  return o->own[FOPO_SLATE_BASELINE].choice == 0;
}

int fopo_slate_check(const fopo_gradient_options *o, const fopo_estimator_use *use) {
  const char *name = o->estimator->name;
  const fopo_reward *r = use->reward;
  if (use->policy->learns[FOPO_BLOCK_ITEMS]) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "gradient %s cannot move items; make the policy without train_items", name);
  }
  if (strcmp(use->device->ops->kind, "cpu") != 0) {
    return fopo_fail(
        FOPO_ERR_UNAVAILABLE,
        "gradient %s draws items without repeats, on the CPU alone; use device = \"cpu\"", name);
  }
  if (o->proposal.k > use->P) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a slate of %zu items is asked for but there are %zu",
                     o->proposal.k, use->P);
  }
  if (o->own[FOPO_SLATE_MEASURE].choice == FOPO_SLATE_NDCG && (r->Y == NULL || r->value != NULL)) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "ndcg is of hits that are worth 1 each; use fopo.reward.hits without value, or "
        "measure = \"dcg\"");
  }
  return FOPO_OK;
}

double fopo_slate_discount(const fopo_gradient_options *o, size_t j) {
  double g = o->own[FOPO_SLATE_DISCOUNT].number;
  if (o->own[FOPO_SLATE_MEASURE].choice == FOPO_SLATE_SUM) return 1.0;
  return g > 0.0 ? pow(g, (double)j) : 1.0 / log2((double)j + 2.0);
}

/* The R of a slate, ndcg apart, from the rewards of its places. */
static double reward_of(const fopo_gradient_options *o, const float *r, const float *logq) {
  size_t k = o->proposal.k;
  int by_hit = o->own[FOPO_SLATE_MEASURE].choice == FOPO_SLATE_HIT;
  double best = (double)-INFINITY, sum = 0.0;
  for (size_t j = 0; j < k && logq[j] > -INFINITY; j++) {
    double earned = (double)r[j];
    best = fmax(best, earned);
    if (earned != 0.0) sum += fopo_slate_discount(o, j) * earned;
  }
  return by_hit && best > (double)-INFINITY ? best : sum;
}

fopo_slate_hits fopo_slate_hits_of(const fopo_batch *b) {
  fopo_slate_hits h = {b->data->credited.Y, b->piece.device.rows};
  fopo_batch_fetched(b, &h.Y, &h.rows);
  return h;
}

double fopo_slate_ideal(const fopo_batch *b, const fopo_slate_hits *h, size_t i) {
  const fopo_gradient_options *o = b->options;
  if (o->own[FOPO_SLATE_MEASURE].choice != FOPO_SLATE_NDCG) return 1.0;
  fopo_sparse_scores scores = fopo_batch_scores(&b->piece.device);
  fopo_score_row mask = fopo_score_row_of(&scores, i);
  double best = 0.0;
  for (size_t e = 0, j = 0; e < fopo_csr_count(&h->Y, h->rows[i]) && j < o->proposal.k; e++) {
    uint32_t id = fopo_csr_row(&h->Y, h->rows[i])[e];
    if (fopo_score_of(&mask, id) > -INFINITY) best += fopo_slate_discount(o, j++);
  }
  return best > 0.0 ? best : 1.0;
}

void fopo_slate_tell(fopo_batch *b, size_t i, double mean) {
  float *stats = b->piece.stats + i * FOPO_STATS, S = (float)b->options->samples;
  stats[FOPO_STAT_REWARD] = (float)mean;
  stats[FOPO_STAT_ESS] = S;
  stats[FOPO_STAT_MAX_WEIGHT] = 1.0f / S;
}

void fopo_slate_weigh(fopo_batch *b, int paired) {
  const fopo_gradient_options *o = b->options;
  size_t S = o->samples, k = o->proposal.k;
  int baseline = fopo_slate_has_baseline(o);
  fopo_slate_hits hits = fopo_slate_hits_of(b);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t i = 0; i < b->piece.n; i++) {
    float *r = b->draws.samples.r + i * S * k;
    const float *logq = b->draws.samples.logq + i * S * k;
    double best = fopo_slate_ideal(b, &hits, i), sum = 0.0;
    for (size_t s = 0; s < S; s++) { /* R_s takes the place of r that was read already */
      double R = reward_of(o, r + s * k, logq + s * k) / best;
      r[s] = (float)R;
      sum += R;
    }
    double mean = sum / (double)S, taken = baseline ? mean : 0.0;
    double share = 1.0 / (double)(baseline && !paired ? S - 1 : S);
    for (size_t s = 0; s < S; s++) r[s] = (float)(((double)r[s] - taken) * share);
    fopo_slate_tell(b, i, mean);
  }
}
