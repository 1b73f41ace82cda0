#include "kernels/alike.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "core/matrix.h"
#include "core/memory.h"
#include "core/notice.h"
#include "core/status.h"
#include "kernels/kernels.h"

typedef struct {
  char blas[32];
  uint32_t usable; /* bit i: the CPU has set i (fopo_kernels_name) */
  uint32_t chosen; /* its i */
} kind;

static kind own_kind(void) {
  kind k = {0};
  const char *name;
  snprintf(k.blas, sizeof k.blas, "%s", fopo_matrix_processor());
  for (uint32_t i = 0; (name = fopo_kernels_name(i)) != NULL; i++) {
    if (fopo_kernels_named(name) != NULL) k.usable |= 1u << i;
    if (strcmp(name, fopo_kernels_get()->name) == 0) k.chosen = i;
  }
  return k;
}

static int check_blas(const kind *all, size_t ranks) {
  for (size_t r = 1; r < ranks; r++) {
    if (strcmp(all[r].blas, all[0].blas) == 0) continue;
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "OpenBLAS computes as on %s on rank 0 (%s) and as on %s on rank %zu (%s), and "
                     "the two round differently; start all ranks with the kind that every machine "
                     "has: mpirun -x OPENBLAS_CORETYPE=Haswell (or Nehalem)",
                     all[0].blas, fopo_comm_host(0), all[r].blas, r, fopo_comm_host(r));
  }
  return FOPO_OK;
}

/* The best set that all have, and none above the least that one has chosen. */
static uint32_t best_of_all(const kind *all, size_t ranks) {
  uint32_t usable = all[0].usable, least = all[0].chosen, best = 0;
  for (size_t r = 1; r < ranks; r++) {
    usable &= all[r].usable;
    if (all[r].chosen < least) least = all[r].chosen;
  }
  for (uint32_t i = 0; i <= least; i++) best = (usable >> i & 1) != 0 ? i : best;
  return best;
}

static int choose(const kind *all, size_t ranks) {
  uint32_t best = best_of_all(all, ranks);
  for (size_t r = 0; r < ranks && fopo_comm_own_rank() == 0; r++) {
    if (all[r].chosen == best) continue;
    size_t first = all[0].chosen == best ? r : 0;
    fopo_notice("rank %zu (%s) would compute with %s, but not every rank has or wants it: all use "
                "%s",
                first, fopo_comm_host(first), fopo_kernels_name(all[first].chosen),
                fopo_kernels_name(best));
    break;
  }
  return fopo_kernels_force(fopo_kernels_name(best));
}

int fopo_kernels_make_alike(void) {
  size_t ranks = fopo_comm_ranks();
  if (ranks == 1) return FOPO_OK;
  kind mine = own_kind(), *all = fopo_alloc(ranks, sizeof *all);
  int status = fopo_comm_agree(all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) status = fopo_comm_gather(all, &mine, sizeof mine);
  if (status == FOPO_OK) status = check_blas(all, ranks);
  if (status == FOPO_OK) status = choose(all, ranks);
  fopo_free(all);
  return status;
}

const char *fopo_kernels_blas_wanted(void) {
  static const char *const without_avx2[] = {
      "Katmai",  "Coppermine",   "Northwood",  "Prescott", "Banias",      "Atom",
      "Core2",   "Penryn",       "Dunnington", "Nehalem",  "Sandybridge", "Athlon",
      "Opteron", "Opteron_SSE3", "Barcelona",  "Bobcat",   "Bulldozer",   "Piledriver"};
  const char *has = fopo_matrix_processor();
  for (size_t i = 0; i < sizeof without_avx2 / sizeof *without_avx2; i++) {
    if (strcmp(has, without_avx2[i]) != 0) continue;
    if (fopo_kernels_named("avx512") != NULL) return "SkylakeX";
    return fopo_kernels_named("avx2") != NULL ? "Haswell" : NULL;
  }
  return NULL;
}
