-- fopo.evaluate: the reward of a policy on sessions that it was not trained on.
local native = require "fopo.native"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"

return define.fn{
  name = "fopo.evaluate", returns = "table",
  args = {{"pi", "policy", nil, "the policy"}, {"sessions", "sessions", nil, "as s.test"}},
  options = {
    {"index", "index", nil, "also recommend through it, as a server would"},
    {"contexts", "array", nil, "[N, D], one row a session; those of training if left out"},
  },
  text = [[The mean of 1[recommended item in Y] (the paper's R_test). e.reward is by true argmax
over the whole catalogue, with its 95 % Wilson interval e.low, e.high; with an index there are
e.reward_index and e.index.low, e.index.high too. e.seconds is the time of the search; e.distinct
counts the different items that were recommended.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
e = fopo.evaluate(fopo.policy.linear{items = items}, s.test)
assert(e.reward >= e.low and e.reward <= e.high)]],
  call = function(pi, sessions, o)
    local x = o.contexts or cache.contexts(sessions, pi)
    local e = native.evaluate(pi, x, sessions, cache.exact_of(pi))
    if o.index then
      e.index = native.evaluate(pi, x, sessions, o.index)
      e.reward_index = e.index.reward
    end
    return e
  end,
}
