/* The rows of baselines.def. */
#ifndef FOPO_JUDGE_BASELINES_H
#define FOPO_JUDGE_BASELINES_H

#include "judge/baseline.h"

#define X(name) extern const fopo_baseline_kind fopo_baseline_##name;
#include "judge/baselines/baselines.def"
#undef X

#endif
