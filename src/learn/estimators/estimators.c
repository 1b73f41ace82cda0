/* The list of estimators. */
#include "learn/estimator.h"

#define X(name) &fopo_estimator_##name,
const fopo_estimator *const fopo_estimators[] = {
#include "learn/estimators/estimators.def"
    NULL};
#undef X
