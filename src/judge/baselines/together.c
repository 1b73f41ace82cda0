/* Row a of M^T M: the items of each user of item a, counted in a dense array that is cleared
 * through the list of what was counted. */
#include "judge/baselines/together.h"

#include <math.h>
#include <omp.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/baselines/weights.h"
#include "kernels/kernels.h"
#include "mips/topk.h"

enum {
  WAVE = 64, /* items of a thread between two reports */
  AHEAD = 4  /* users whose items are fetched ahead */
};

typedef struct {
  const fopo_csr *M, *users;
  const uint8_t *wanted;
  fopo_together_count *counts; /* [threads, P], both is 0 between rows */
  uint32_t *with;              /* [threads, P + 1] */
} job;

/* Without a branch for an item's first user, so that many counts wait for memory at a time. */
static size_t count_row(fopo_together_count *counts, uint32_t *with, const job *j, size_t item) {
  const uint32_t *users = fopo_csr_row(j->users, item);
  size_t n = 0, all = fopo_csr_count(j->users, item);
  for (size_t u = 0; u < all; u++) {
    if (u + AHEAD < all) __builtin_prefetch(fopo_csr_row(j->M, users[u + AHEAD]));
    const uint32_t *ids = fopo_csr_row(j->M, users[u]);
    size_t count = fopo_csr_count(j->M, users[u]);
    for (size_t i = 0; i < count; i++) {
      with[n] = ids[i];
      n += counts[ids[i]].both++ == 0;
    }
  }
  return n;
}

static void one_row(job *j, size_t item, fopo_together_row *row, void *payload) {
  size_t t = (size_t)omp_get_thread_num(), P = j->M->cols;
  fopo_together_count *counts = j->counts + t * P;
  uint32_t *with = j->with + t * (P + 1);
  size_t n = count_row(counts, with, j, item);
  row(payload, item, counts, with, n, t);
  for (size_t i = 0; i < n; i++) counts[with[i]].both = 0;
}

static int all_rows(job *j, const char *what, fopo_together_row *row, void *payload) {
  size_t P = j->M->cols, wave = WAVE * (size_t)fopo_threads();
  for (size_t first = 0; first < P; first += wave) {
    size_t last = P - first < wave ? P : first + wave;
    int stopped = 0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
    for (size_t item = first; item < last; item++) {
      stopped |= fopo_interrupted();
      if (j->wanted != NULL && !j->wanted[item]) continue;
      if (!stopped) one_row(j, item, row, payload);
    }
    int status = fopo_progress(what, (double)last, (double)P);
    if (status != FOPO_OK) return status;
    if (stopped) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while %s", what);
  }
  return FOPO_OK;
}

int fopo_together(const fopo_csr *M, const fopo_csr *users, const uint8_t *wanted, const char *what,
                  fopo_together_row *row, void *payload) {
  size_t threads = (size_t)fopo_threads();
  job j = {.M = M,
           .users = users,
           .wanted = wanted,
           .counts = fopo_alloc(threads * M->cols, sizeof *j.counts),
           .with = fopo_alloc(threads * (M->cols + 1), sizeof *j.with)};
  int status = j.counts != NULL && j.with != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  for (size_t i = 0; status == FOPO_OK && i < threads * M->cols; i++) {
    j.counts[i].users = (uint32_t)fopo_csr_count(users, i % M->cols);
  }
  if (status == FOPO_OK) status = all_rows(&j, what, row, payload);
  fopo_free(j.counts);
  fopo_free(j.with);
  return status;
}

static float similarity(const fopo_similarity *how, size_t na, size_t nb, uint32_t both) {
  double a = (double)na, b = (double)nb, c = (double)both;
  return (float)(c / ((how->jaccard ? a + b - c : sqrt(a * b)) + how->shrink));
}

size_t fopo_together_nearest(uint64_t *keys, const fopo_similarity *how, size_t a,
                             const fopo_together_count *counts, const uint32_t *with, size_t n,
                             size_t most) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t found = 0, na = counts[a].users;
  float floor = 0.0f;
  for (size_t i = 0; i < n; i++) {
    uint32_t b = with[i];
    float s = similarity(how, na, counts[b].users, counts[b].both);
    if (s < floor || b == a) continue;
    keys[found++] = fopo_topk_key(s, b);
    if (found < fopo_together_room(most)) continue;
    uint64_t least = kernels->kth(keys, found, most);
    found = kernels->partition_at_least(keys, found, least);
    floor = fopo_topk_score(least);
  }
  return fopo_weights_choose(keys, found, most);
}
