/* The list of estimators. */
#include <string.h>

#include "learn/estimator.h"

#define X(name) &fopo_estimator_##name,
const fopo_estimator *const fopo_estimators[] = {
#include "learn/estimators/estimators.def"
    NULL};
#undef X

const fopo_estimator *fopo_estimator_named(const char *name) {
  for (size_t i = 0; fopo_estimators[i] != NULL; i++) {
    if (strcmp(fopo_estimators[i]->name, name) == 0) return fopo_estimators[i];
  }
  return NULL;
}
