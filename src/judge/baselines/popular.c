/* The items that most training users took, the same for everybody. */
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/status.h"
#include "judge/baselines/baselines.h"

/* The model: how many users took each item [P]. Above 2^24 users neighbours may tie. */
static int fit(void **model, const fopo_csr *M, const fopo_baseline_options *o) {
  (void)o;
  float *users = *model = fopo_alloc(M->cols, sizeof *users);
  uint32_t *counts = fopo_alloc(M->cols, sizeof *counts);
  int status = users != NULL && counts != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  for (size_t i = 0; status == FOPO_OK && i < fopo_csr_nnz(M); i++) counts[M->ids[i]]++;
  for (size_t a = 0; status == FOPO_OK && a < M->cols; a++) users[a] = (float)counts[a];
  fopo_free(counts);
  return status;
}

/* Exact, as counts of up to 2^24 users are. */
static int join(void *model, size_t P) { return fopo_comm_sum(model, P); }

static const float *weights(const void *model) { return model; }

static int score(float *scores, const void *model, const fopo_baseline_options *o,
                 const fopo_csr *X, size_t first, size_t n, void *scratch) {
  (void)o;
  (void)first;
  (void)scratch;
  for (size_t i = 0; i < n; i++) memcpy(scores + i * X->cols, model, X->cols * sizeof *scores);
  return 1;
}

static const fopo_option options[] = {{0}};

const fopo_baseline_kind fopo_baseline_popular = {
    .name = "popular",
    .fit = fit,
    .free = fopo_free,
    .shares = 1,
    .join = join,
    .score = score,
    .weights = weights,
    .options = options,
    // clang-format off
    .text = "The items that most training users took, the same for everybody: the score is the number of those\n"
          "users. Its expected reward is that of drawing items in proportion to it.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "popular = fopo.baseline.popular{data = s.train}\n"
             "e = fopo.evaluate(popular, s.test)\n"
             "assert(e.reward > 0 and e.items[1] < 20)",
    // clang-format on
};
