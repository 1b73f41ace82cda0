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
#include "mips/topk.h"

enum { WAVE = 64 }; /* items of a thread between two reports */

typedef struct {
  const fopo_csr *M, *users;
  const uint8_t *wanted;
  uint32_t *counts; /* [threads, P], zero between rows */
  uint32_t *with;   /* [threads, P] */
} job;

static size_t count_row(uint32_t *counts, uint32_t *with, const job *j, size_t item) {
  const uint32_t *users = fopo_csr_row(j->users, item);
  size_t n = 0;
  for (size_t u = 0; u < fopo_csr_count(j->users, item); u++) {
    const uint32_t *ids = fopo_csr_row(j->M, users[u]);
    size_t count = fopo_csr_count(j->M, users[u]);
    for (size_t i = 0; i < count; i++) {
      if (counts[ids[i]]++ == 0) with[n++] = ids[i];
    }
  }
  return n;
}

static void one_row(job *j, size_t item, fopo_together_row *row, void *payload) {
  size_t t = (size_t)omp_get_thread_num(), P = j->M->cols;
  uint32_t *counts = j->counts + t * P, *with = j->with + t * P;
  size_t n = count_row(counts, with, j, item);
  row(payload, item, counts, with, n, t);
  for (size_t i = 0; i < n; i++) counts[with[i]] = 0;
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
           .with = fopo_alloc(threads * M->cols, sizeof *j.with)};
  int status = j.counts != NULL && j.with != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
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
                             const uint32_t *counts, const uint32_t *with, size_t n,
                             const fopo_csr *users, size_t most) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t b = with[i];
    if (b == a) continue;
    float s = similarity(how, counts[a], fopo_csr_count(users, b), counts[b]);
    keys[found++] = fopo_topk_key(s, b);
  }
  return fopo_weights_choose(keys, found, most);
}
