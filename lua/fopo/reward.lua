-- fopo.reward: estimators rhat(a, x) of the reward of showing item a in context x.
local native = require "fopo.native"
local define = require "fopo.define"
local reward, methods = {}, native.types.reward

reward.hits = define.fn{
  name = "fopo.reward.hits", returns = "reward",
  args = {{"sessions", "sessions", nil, "whose Y decides"}},
  text = "1 where the item stands in Y of the context, else 0: session completion.",
  example = [[s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
rw = fopo.reward.hits(s.train)]],
  call = native.reward_hits,
}

reward.custom = define.fn{
  name = "fopo.reward.custom", returns = "reward",
  args = {{"f", "function", nil, "f(ids, rows) -> values: ids an array [B, S] of items, rows the "
           .. "ids [1, B] of their contexts; values an array [B, S] or a table of B rows"}},
  text = [[Any reward, computed by a Lua function for a whole batch of draws at once. A value that is
not finite stops the step with its place.]],
  example = [[rw = fopo.reward.custom(function(ids, rows)
  local values = fopo.array.zeros(ids.rows, ids.cols)
  for b = 1, ids.rows do
    for s = 1, ids.cols do values:set(b, s, ids:get(b, s) % 2) end
  end
  return values
end)]],
  call = native.reward_custom,
}

function methods.describe(r) return "reward " .. r.kind end

define.doc{name = "reward:value", signature = "rw:value(ids, rows)", returns = "array",
  text = "The rewards [B, S] of items ids [B, S] in the contexts rows."}

return reward
