/* Which kernels run: the one place that asks the CPU. The choice is made once, at the first
 * question, and can be forced by FOPO_ISA or by fopo_kernels_force. */
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/status.h"
#include "kernels/kernels_tables.h"
#include "kernels/prefilter.h"

#if defined(__x86_64__)
static int has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

static int has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
/* The kernel gives a process the tiles' registers only when it asks for them. */
static int has_amx(void) {
  enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
  return has_avx512() && __builtin_cpu_supports("avx512bf16") &&
         __builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#else
static int has_avx2(void) { return 0; }
static int has_avx512(void) { return 0; }
static int has_amx(void) { return 0; }
#endif

static pthread_once_t amx_once = PTHREAD_ONCE_INIT;
static fopo_kernels amx;

/* The table of avx512 and the prefilter. */
static void make_amx(void) {
  if (!has_amx() || fopo_prefilter_amx() == NULL) return;
  amx = *fopo_kernels_avx512();
  amx.name = "amx";
  amx.prefilter = fopo_prefilter_amx();
}

static const fopo_kernels *kernels_amx(void) {
  pthread_once(&amx_once, make_amx);
  return amx.name != NULL ? &amx : NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(const fopo_kernels *) chosen;
static char note[128];

const fopo_kernels *fopo_kernels_named(const char *name) {
  if (strcmp(name, "amx") == 0) return kernels_amx();
  if (strcmp(name, "avx512") == 0) return has_avx512() ? fopo_kernels_avx512() : NULL;
  if (strcmp(name, "avx2") == 0) return has_avx2() ? fopo_kernels_avx2() : NULL;
  if (strcmp(name, "portable") == 0) return fopo_kernels_portable();
  return NULL;
}

static const fopo_kernels *best(void) {
  const fopo_kernels *table = fopo_kernels_named("amx");
  if (table == NULL) table = fopo_kernels_named("avx512");
  if (table == NULL) table = fopo_kernels_named("avx2");
  return table != NULL ? table : fopo_kernels_portable();
}

static void choose(void) {
  const char *wanted = getenv("FOPO_ISA");
  const fopo_kernels *table = NULL;
  if (wanted != NULL && wanted[0] != '\0') {
    table = fopo_kernels_named(wanted);
    if (table == NULL) {
      snprintf(note, sizeof note, "FOPO_ISA=%.32s is not to be had on this CPU; %s is in use",
               wanted, best()->name);
    }
  }
  atomic_store(&chosen, table != NULL ? table : best());
}

const fopo_kernels *fopo_kernels_get(void) {
  const fopo_kernels *table = atomic_load_explicit(&chosen, memory_order_acquire);
  if (table != NULL) return table;
  pthread_once(&once, choose);
  return atomic_load(&chosen);
}

const char *fopo_kernels_note(void) {
  fopo_kernels_get();
  return note;
}

int fopo_kernels_force(const char *name) {
  const fopo_kernels *table = fopo_kernels_named(name);
  if (table == NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "kernels \"%s\" are not to be had on this CPU; "
                     "use \"portable\", \"avx2\", \"avx512\" or \"amx\" where the CPU has it",
                     name);
  }
  fopo_kernels_get(); /* the note of FOPO_ISA is settled first */
  atomic_store(&chosen, table);
  return FOPO_OK;
}
