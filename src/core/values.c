#include "core/values.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

int fopo_values_copy(float **copy, const float *value, size_t n, size_t P) {
  *copy = NULL;
  if (n != P) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "value has %zu numbers but the sessions have %zu items; give one for each item", n, P);
  }
  for (size_t a = 0; a < P; a++) {
    if (isfinite(value[a]) && value[a] >= 0.0f) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the value of item %zu is %g; values must be finite and 0 or more", a + 1,
                     (double)value[a]);
  }
  *copy = fopo_alloc(P, sizeof **copy);
  if (*copy == NULL) return FOPO_ERR_MEMORY;
  memcpy(*copy, value, P * sizeof *value);
  return FOPO_OK;
}
