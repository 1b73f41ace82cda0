/* Neighbours among items by the users whom they share (judge/baselines/together.h): item a keeps
 * its most similar items N(a), and a session is given the items of largest sum over a in X of s_ab
 * [b in N(a)]   (Deshpande and Karypis: "Item-based top-N recommendation algorithms", TOIS 2004;
 * its normalisation of the rows is left out). */
#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/baselines/baselines.h"
#include "judge/baselines/together.h"
#include "judge/baselines/weights.h"

typedef struct {
  fopo_csr *W; /* the model: row a holds N(a) with its similarities */
  size_t most;
  fopo_csr users; /* [P, N] of each item */
  fopo_similarity how;
  uint64_t *keys; /* [threads, room] */
  size_t room;
} job;

static void keep_nearest(void *payload, size_t a, const fopo_together_count *counts, uint32_t *with,
                         size_t n, size_t thread) {
  job *j = payload;
  uint64_t *keys = j->keys + thread * j->room;
  n = fopo_together_nearest(keys, &j->how, a, counts, with, n, j->most);
  fopo_weights_put(j->W, a * j->most, a, keys, n);
}

static int fit(void **of, const fopo_csr *M, const fopo_baseline_options *o) {
  size_t P = M->cols, most = o->neighbours < P ? o->neighbours : P;
  int status = fopo_memory_suffices((uint64_t)P * most * (sizeof(uint32_t) + sizeof(float)),
                                    "the neighbours of all items", "use fewer neighbours");
  if (status != FOPO_OK) return status;
  job j = {.W = *of = fopo_alloc(1, sizeof *j.W), .most = most, .room = fopo_together_room(most)};
  if (j.W == NULL) return FOPO_ERR_MEMORY;
  j.how = (fopo_similarity){o->similarity, o->shrink};
  j.keys = fopo_alloc((size_t)fopo_threads() * j.room, sizeof *j.keys);
  status = j.keys != NULL ? fopo_csr_transpose(&j.users, M) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_weights_init(j.W, P, most);
  if (status == FOPO_OK) {
    status = fopo_together(M, &j.users, NULL, "comparing items", keep_nearest, &j);
  }
  if (status == FOPO_OK) status = fopo_weights_pack(j.W, NULL, most);
  fopo_csr_done(&j.users);
  fopo_free(j.keys);
  return status;
}

/* Similarities are above 0, so a sum of 0 is no sum at all. */
static int score(float *scores, const void *of, const fopo_baseline_options *o, const fopo_csr *X,
                 size_t first, size_t n, void *scratch) {
  (void)o;
  (void)scratch;
  fopo_weights_score(scores, of, X, first, n);
  for (size_t i = 0; i < n * X->cols; i++) {
    if (scores[i] <= 0.0f) scores[i] = -INFINITY;
  }
  return 1;
}

static const char *const similarities[] = {"cosine", "jaccard", NULL};

static const fopo_option options[] = {{.name = "neighbours",
                                       .type = FOPO_OPTION_COUNT,
                                       .member = offsetof(fopo_baseline_options, neighbours),
                                       .standard = 100,
                                       .least = 1,
                                       .low = 10,
                                       .high = 1000,
                                       .text = "similar items that each item keeps"},
                                      {.name = "similarity",
                                       .type = FOPO_OPTION_CHOICE,
                                       .member = offsetof(fopo_baseline_options, similarity),
                                       .choices = similarities,
                                       .high = 1,
                                       .text = "of the sets of users who took two items"},
                                      {.name = "shrink",
                                       .type = FOPO_OPTION_NUMBER,
                                       .member = offsetof(fopo_baseline_options, shrink),
                                       .standard = 10,
                                       .least = 0,
                                       .low = 1,
                                       .high = 1000,
                                       .text = "lowers similarities that rest on few users"},
                                      {0}};

const fopo_baseline_kind fopo_baseline_item_knn = {
    .name = "item_knn",
    .fit = fit,
    .whole = "counts the users that two items share",
    .free = fopo_weights_free,
    .score = score,
    .item_weights = fopo_weights_get,
    .is_similarity = 1,
    .options = options,
    // clang-format off
    .text = "Items that are similar to those of the session. The similarity of two items, taken by n_a and n_b\n"
          "users and by c users together, is c / (sqrt(n_a n_b) + shrink) (cosine) or c / (n_a + n_b - c + shrink)\n"
          "(jaccard). Each item keeps its `neighbours` most similar ones, and the score of an item is the sum of its\n"
          "similarities to the items of X that keep it. An item kept by none of them is not recommended.\n"
          "Source: Deshpande and Karypis 2004; the shrinkage of Bell and Koren 2007. Memory: 8 bytes for each neighbour of each item.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "knn = fopo.baseline.item_knn{data = s.train, neighbours = 20}\n"
             "assert(fopo.evaluate(knn, s.test).reward > 0.05)",
    // clang-format on
};
