#include "judge/ope_join.h"

#include <float.h>
#include <math.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/status.h"

/* all [ranks, n]: *to = the sums of context b over the ranks. */
static void join(fopo_ope_sums *to, const fopo_ope_sums *all, size_t n, size_t b) {
  size_t ranks = fopo_comm_ranks();
  fopo_ope_sums s = {.m = -INFINITY, .logged = -INFINITY};
  for (size_t r = 0; r < ranks; r++) {
    s.m = fmax(s.m, all[r * n + b].m);
    s.logged = fmax(s.logged, all[r * n + b].logged);
  }
  for (size_t r = 0; r < ranks; r++) {
    const fopo_ope_sums *one = &all[r * n + b];
    if (one->m < -DBL_MAX) continue; /* nothing was added; a NaN goes on */
    double factor = exp(one->m - s.m);
    s.z += one->z * factor;
    s.zz += one->zz * factor * factor;
    s.zr += one->zr * factor;
    s.shown += one->shown * factor;
    s.group += one->group * factor;
  }
  *to = s;
}

int fopo_ope_join(fopo_ope_sums *sums, size_t n, int status) {
  fopo_ope_sums *all = fopo_alloc(n * fopo_comm_ranks(), sizeof *all);
  if (status == FOPO_OK && all == NULL) status = FOPO_ERR_MEMORY;
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(all, sums, n * sizeof *all);
  for (size_t b = 0; b < n && status == FOPO_OK; b++) join(&sums[b], all, n, b);
  fopo_free(all);
  return status;
}
