/* Neighbours among items: with n_a users who took item a and c_ab who took both,
 *
 *   cosine   s_ab = c_ab / (sqrt(n_a n_b) + shrink)
 *   jaccard  s_ab = c_ab / (n_a + n_b - c_ab + shrink)
 *
 * where shrink lowers what rests on few users (Bell and Koren: "Improved neighborhood-based
 * collaborative filtering", KDD Cup 2007).
 *
 * Item a keeps its most similar items N(a), and a session is given the items of largest sum over
 * a in X of s_ab [b in N(a)]   (Deshpande and Karypis: "Item-based top-N recommendation
 * algorithms", TOIS 2004; its normalisation of the rows is left out). */
#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/baselines/baselines.h"
#include "judge/baselines/together.h"
#include "kernels/kernels.h"
#include "mips/topk.h"

typedef struct {
  size_t P, most; /* items, neighbours of an item */
  uint32_t *n;    /* [P] neighbours that it has */
  uint32_t *ids;  /* [P, most] the most similar first */
  float *s;       /* [P, most] their similarity */
} model;

typedef struct {
  model *m;
  const uint32_t *users; /* [P] who took the item */
  int jaccard;
  double shrink;
  uint64_t *keys; /* [threads, P] */
} job;

static void free_model(void *of) {
  model *m = of;
  if (m == NULL) return;
  fopo_free(m->n);
  fopo_free(m->ids);
  fopo_free(m->s);
  fopo_free(m);
}

static float similarity(const job *j, size_t a, size_t b, uint32_t together) {
  double na = (double)j->users[a], nb = (double)j->users[b], c = (double)together;
  return (float)(c / ((j->jaccard ? na + nb - c : sqrt(na * nb)) + j->shrink));
}

static void keep_nearest(void *payload, size_t a, const uint32_t *counts, uint32_t *with, size_t n,
                         size_t thread) {
  job *j = payload;
  model *m = j->m;
  const fopo_kernels *kernels = fopo_kernels_get();
  uint64_t *keys = j->keys + thread * m->P;
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    if (with[i] == a) continue;
    keys[found++] = fopo_topk_key(similarity(j, a, with[i], counts[with[i]]), with[i]);
  }
  if (found > m->most) {
    found = kernels->partition_at_least(keys, found, kernels->kth(keys, found, m->most));
  }
  kernels->sort(keys, found);
  m->n[a] = (uint32_t)found;
  for (size_t i = 0; i < found; i++) {
    m->ids[a * m->most + i] = fopo_topk_id(keys[i]);
    m->s[a * m->most + i] = fopo_topk_score(keys[i]);
  }
}

/* An empty model; refuses one that would not fit. */
static int begin(model **of, size_t P, const fopo_baseline_options *o) {
  size_t most = o->neighbours < P ? o->neighbours : P;
  int status = fopo_memory_suffices((uint64_t)P * most * (sizeof(uint32_t) + sizeof(float)),
                                    "the neighbours of all items", "use fewer neighbours");
  if (status != FOPO_OK) return status;
  model *m = *of = fopo_alloc(1, sizeof *m);
  if (m == NULL) return FOPO_ERR_MEMORY;
  m->P = P;
  m->most = most;
  m->n = fopo_alloc(P, sizeof *m->n);
  m->ids = fopo_alloc(P * most, sizeof *m->ids);
  m->s = fopo_alloc(P * most, sizeof *m->s);
  return m->n && m->ids && m->s ? FOPO_OK : FOPO_ERR_MEMORY;
}

static int fit(void **of, const fopo_csr *M, const fopo_baseline_options *o) {
  model *m = NULL;
  int status = begin(&m, M->cols, o);
  *of = m;
  if (status != FOPO_OK) return status;
  uint32_t *users = fopo_alloc(M->cols, sizeof *users);
  job j = {.m = m, .users = users, .jaccard = o->similarity, .shrink = o->shrink};
  j.keys = fopo_alloc((size_t)fopo_threads() * M->cols, sizeof *j.keys);
  status = users != NULL && j.keys != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  for (size_t i = 0; status == FOPO_OK && i < fopo_csr_nnz(M); i++) users[M->ids[i]]++;
  if (status == FOPO_OK) status = fopo_together(M, "comparing items", keep_nearest, &j);
  fopo_free(users);
  fopo_free(j.keys);
  return status;
}

static int score(float *scores, const void *of, const fopo_baseline_options *o, const fopo_csr *X,
                 size_t first, size_t n, void *scratch) {
  const model *m = of;
  (void)o;
  (void)scratch;
  for (size_t i = 0; i < n; i++, scores += m->P) {
    const uint32_t *taken = fopo_csr_row(X, first + i);
    for (size_t b = 0; b < m->P; b++) scores[b] = -INFINITY;
    for (size_t x = 0; x < fopo_csr_count(X, first + i); x++) {
      const uint32_t *ids = m->ids + taken[x] * m->most;
      const float *s = m->s + taken[x] * m->most;
      for (size_t k = 0; k < m->n[taken[x]]; k++) {
        scores[ids[k]] = scores[ids[k]] > 0.0f ? scores[ids[k]] + s[k] : s[k];
      }
    }
  }
  return 1;
}

static const char *const similarities[] = {"cosine", "jaccard", NULL};

static const fopo_option options[] = {{.name = "neighbours",
                                       .type = FOPO_OPTION_COUNT,
                                       .member = offsetof(fopo_baseline_options, neighbours),
                                       .standard = 100,
                                       .least = 1,
                                       .text = "similar items that each item keeps"},
                                      {.name = "similarity",
                                       .type = FOPO_OPTION_CHOICE,
                                       .member = offsetof(fopo_baseline_options, similarity),
                                       .choices = similarities,
                                       .text = "of the sets of users who took two items"},
                                      {.name = "shrink",
                                       .type = FOPO_OPTION_NUMBER,
                                       .member = offsetof(fopo_baseline_options, shrink),
                                       .standard = 10,
                                       .least = 0,
                                       .text = "lowers similarities that rest on few users"},
                                      {0}};

const fopo_baseline_kind fopo_baseline_item_knn = {
    .name = "item_knn",
    .fit = fit,
    .free = free_model,
    .score = score,
    .options = options,
    // clang-format off
    .text = "Items that are similar to those of the session. The similarity of two items, taken by n_a and n_b\n"
          "users and by c users together, is c / (sqrt(n_a n_b) + shrink) (cosine) or c / (n_a + n_b - c + shrink)\n"
          "(jaccard). Each item keeps its `neighbours` most similar ones, and the score of an item is the sum of its\n"
          "similarities to the items of X that keep it. An item kept by none of them is not recommended.\n"
          "Source: Deshpande and Karypis 2004; the shrinkage of Bell and Koren 2007. Memory: 8 bytes for each neighbour of each item.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "knn = fopo.baseline.item_knn{data = s.train, neighbours = 20}\n"
             "assert(fopo.evaluate(knn, s.test, {exclude = \"seen\"}).reward > 0.05)",
    // clang-format on
};
