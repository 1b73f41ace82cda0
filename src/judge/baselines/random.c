/* Every item is as good as any other: the floor of all comparisons. */
#include "core/memory.h"
#include "core/rng.h"
#include "core/status.h"
#include "judge/baselines/baselines.h"

static int fit(void **model, const fopo_csr *M, const fopo_baseline_options *o) {
  (void)o;
  float *weights = *model = fopo_alloc(M->cols, sizeof *weights);
  if (weights == NULL) return FOPO_ERR_MEMORY;
  for (size_t a = 0; a < M->cols; a++) weights[a] = 1.0f;
  return FOPO_OK;
}

static int join(void *model, size_t P) {
  (void)model;
  (void)P;
  return FOPO_OK;
}

static const float *weights(const void *model) { return model; }

/* Item a of context n has word a mod 4 of block a / 4 of (seed, n). */
static int score(float *scores, const void *model, const fopo_baseline_options *o,
                 const fopo_csr *X, size_t first, size_t n, void *scratch) {
  (void)model;
  (void)scratch;
  for (size_t i = 0; i < n; i++, scores += X->cols) {
    for (size_t a = 0; a < X->cols; a += 4) {
      fopo_words words =
          fopo_random(o->seed, FOPO_STREAM_RANKING, 0, (uint32_t)(first + i), (uint32_t)(a / 4));
      for (size_t j = a; j < X->cols && j < a + 4; j++) {
        scores[j] = (float)fopo_unit(words.v[j - a]);
      }
    }
  }
  return 1;
}

static const fopo_option options[] = {{0}};

const fopo_baseline_kind fopo_baseline_random = {
    .name = "random",
    .fit = fit,
    .free = fopo_free,
    .shares = 1,
    .join = join,
    .score = score,
    .weights = weights,
    .options = options,
    .has_seed = 1,
    // clang-format off
    .text = "Items in random order, another one for each context: what no method may fall below. Its expected\n"
          "reward is the mean of |Y| / P.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "e = fopo.evaluate(fopo.baseline.random{data = s.train, seed = 3}, s.test)\n"
             "assert(e.reward < 0.2)",
    // clang-format on
};
