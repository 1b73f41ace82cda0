/* The prefilter of avxvnni for CPUs that have AVX-512 instead: the same source, whose instructions
 * the compiler writes in the coding of AVX-512. */
#ifndef FOPO_TESTS_RECODED_H
#define FOPO_TESTS_RECODED_H

#include "kernels/prefilter.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")
#include "kernels/prefilter_256.h"
FOPO_UNIT_FUNCTIONS(recoded, FOPO_PACKED_INT8, unit_select_256)
#pragma GCC pop_options

/* NULL: this CPU cannot run it. */
static const fopo_prefilter *recoded_avxvnni(void) {
  static const fopo_prefilter prefilter = FOPO_UNIT_MEMBERS(recoded, FOPO_PACKED_INT8, SIZE_MAX);
  int able = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vnni");
  return able ? &prefilter : NULL;
}
#else
static const fopo_prefilter *recoded_avxvnni(void) { return NULL; }
#endif

#endif
