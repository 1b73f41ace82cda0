/* The user's own baseline: the caller gives the scores of a block of sessions, e.g. with a Lua
 * function (fopo_baseline_choose), so there is nothing to fit and nothing to score here. */
#include "judge/baselines/baselines.h"

static void free_nothing(void *model) { (void)model; }

static const fopo_option options[] = {
    {.name = "scores",
     .type = FOPO_OPTION_FUNCTION,
     .text = "scores(block) -> an array [n, P], or a table of n rows: the scores of all items for "
             "n sessions, block:x(i) being the items of X of the i-th; -inf: never recommended"},
    {0}};

const fopo_baseline_kind fopo_baseline_custom = {
    .name = "custom",
    .free = free_nothing,
    .options = options,
    // clang-format off
    .text = "Your own baseline: a Lua function gives the scores of all items for a block of sessions. C chooses the\n"
          "best ones, leaves out the items of X, and measures as it does of all others: in fopo.evaluate,\n"
          "fopo.report and b:best. The block has X alone: it is sessions without Y, n of them, 1,024 at most and\n"
          "fewer of large catalogues. An error in the function says what it was given. It gives no\n"
          "probabilities, so there is no expected reward; and no weights between items, so a policy of neighbours\n"
          "cannot start from it. Cost: P scores a session.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "items = fopo.embed.svd(s.train, {dim = 8})\n"
             "b = fopo.baseline.custom{scores = function(block)\n"
             "  return block:contexts(items):matmul(items, false, true)\n"
             "end}\n"
             "assert(fopo.evaluate(b, s.test).reward > 0.05)",
    // clang-format on
};
