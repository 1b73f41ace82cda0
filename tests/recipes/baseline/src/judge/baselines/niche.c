/* The items that fewest users took: what a policy without regard for popularity would show. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "judge/baselines/baselines.h"

/* The model: the score of each item [P]. */
static int fit(void **model, const fopo_csr *M, const fopo_baseline_options *o) {
  float *scores = *model = fopo_alloc(M->cols, sizeof *scores);
  (void)o;
  if (scores == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < fopo_csr_nnz(M); i++) scores[M->ids[i]] -= 1.0f;
  for (size_t a = 0; a < M->cols; a++) {
    if (scores[a] > -0.5f) scores[a] = -INFINITY; /* nobody took it */
  }
  return FOPO_OK;
}

static void free_model(void *model) { fopo_free(model); }

static int score(float *scores, const void *model, const fopo_baseline_options *o,
                 const fopo_csr *X, size_t first, size_t n, void *scratch) {
  (void)o;
  (void)first;
  (void)scratch;
  for (size_t i = 0; i < n; i++) memcpy(scores + i * X->cols, model, X->cols * sizeof *scores);
  return 1;
}

static const fopo_option options[] = {{0}};

const fopo_baseline_kind fopo_baseline_niche = {
    .name = "niche",
    .fit = fit,
    .free = free_model,
    .score = score,
    .options = options,
    .text = "The items that fewest training users took, but at least one.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{}\n"
               "assert(fopo.evaluate(fopo.baseline.niche{data = s.train}, s.test).reward < 0.2)",
};
