/* A reward that the caller fills, draw by draw, e.g. with a Lua function. */
#include "learn/reward.h"

static int make(fopo_reward *r, const fopo_reward_source *source) {
  r->contexts = source->contexts;
  return 0;
}

const fopo_reward_kind fopo_reward_custom = {
    .name = "custom",
    .title = "custom",
    .needs = FOPO_REWARD_FROM_CALLER | FOPO_REWARD_OF_ANY_ITEM,
    .make = make,
    // clang-format off
    .text = "Any reward, computed by a Lua function for a whole batch of draws at once. A value that is\n"
          "not finite stops the step with its place.",
    .example = "rw = fopo.reward.custom(function(ids, rows)\n"
             "  local values = fopo.array.zeros(ids.rows, ids.cols)\n"
             "  for b = 1, ids.rows do\n"
             "    for s = 1, ids.cols do values:set(b, s, ids:get(b, s) % 2) end\n"
             "  end\n"
             "  return values\n"
             "end)",
    // clang-format on
};
