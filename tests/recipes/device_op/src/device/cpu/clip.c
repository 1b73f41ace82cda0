/* Clipping, as an example of an operation: x shrinks so that its norm is at most `most`. */
#include <math.h>

#include "core/status.h"
#include "device/cpu/cpu.h"

int fopo_cpu_clip(fopo_device *d, float *x, float most, size_t n) {
  double norm2 = 0;
  int status = fopo_cpu_norm2(d, &norm2, x, n);
  if (status != FOPO_OK || sqrt(norm2) <= (double)most) return status;
  float scale = (float)((double)most / sqrt(norm2));
  for (size_t i = 0; i < n; i++) x[i] *= scale;
  return FOPO_OK;
}
