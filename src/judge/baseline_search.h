/* An option of a baseline by validation inside its training sessions: a tenth of the users, 100 (or
 * a quarter of all, if that is less) to 2,000, are held out, the baseline is learnt from the others
 * with several values of the option, and the value of the largest NDCG@20 is taken, without the
 * items of X, for a fit to all sessions. */
#ifndef FOPO_JUDGE_BASELINE_SEARCH_H
#define FOPO_JUDGE_BASELINE_SEARCH_H

#include "judge/baseline.h"

enum { FOPO_SEARCH_MOST = 16 };

typedef struct {
  const fopo_option *option; /* NULL: every option was given, and nothing searched */
  size_t users, items;       /* learnt from, and ranked; fewer than all where that suffices */
  size_t held;               /* held out; 0: there were too few users, the value is a guess */
  size_t n;                  /* values that were tried, in ascending order */
  double value[FOPO_SEARCH_MOST], ndcg[FOPO_SEARCH_MOST]; /* ndcg -1: no solution */
  double best;
  double seconds;
} fopo_baseline_search;

/* As fopo_baseline_new; a number that is 0 and FOPO_OPTION_AUTO, one at most, is chosen: its row's
 * `low` and `high` bound the values, which are a factor of the root of 10 apart, and the search
 * climbs from the one in the middle, so that some three to five of them are tried. */
int fopo_baseline_learn(fopo_baseline **b, fopo_baseline_search *search,
                        const fopo_sessions *sessions, const fopo_baseline_options *options);

#endif
