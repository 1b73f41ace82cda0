/* Limiting, as an example of an operation: each number of x moves into [-most, most]. */
#include <math.h>

#include "core/status.h"
#include "device/cpu/cpu.h"

int fopo_cpu_limit(fopo_device *d, float *x, float most, size_t n) {
  (void)d;
  for (size_t i = 0; i < n; i++) x[i] = fmaxf(-most, fminf(most, x[i]));
  return FOPO_OK;
}
