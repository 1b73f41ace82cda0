-- What training on prefixes of sessions is worth where they have an order.
--
--   ./fopo scripts/studies/prefixes.lua FILE ... [quick] [name=value ...]
--
-- Cost: a minute for a file of 100,000 interactions.
--
-- Each FILE that fopo.data.read knows is split by time. A policy is trained twice: with resplit =
-- false, X the earlier half of each session, and with resplit = true, X a longer prefix, drawn anew
-- each epoch. Both are judged on valid and test with seen items left out. Differences are paired
-- over the contexts, whose values are means over the seeds, with 95 % intervals.
--
-- Options (defaults): epochs=5 dim=100 min_items=5
--   kinds=linear,cosine (linear, or a start of policy.neighbours)
--   seeds=1,2,3 (of the order of training and of the prefixes)
--   split=time (or last)
local fopo = require "fopo"
local native = require "fopo.native"
local neighbours = require "fopo.neighbours"
package.path = (arg[0]:match("^(.*/)") or "./") .. "../tools/?.lua;" .. package.path
local script = require "script"

local o, files = script.options(
  {kinds = {"linear", "cosine"}, epochs = 5, dim = 100, min_items = 5, seeds = {1, 2, 3},
   split = "time"},
  {epochs = 1, dim = 8, seeds = {1}})
if #files == 0 then script.misuse("which files?") end

-- The reward and NDCG of each context of valid and of test, after training, are added to `sums`.
local function add(sums, pi, start, s, seed, resplit)
  pi:set_theta(start)
  if resplit ~= nil then
    fopo.trainer{policy = pi, data = s.train, valid = false, seed = seed,
                 resplit = resplit}:run{epochs = o.epochs, view = false}
  end
  for _, part in ipairs{"valid", "test"} do
    local each = {reward = {}, ndcg = {}}
    neighbours.measure(each, pi, {s[part]}, native.reward_hits(s[part]))
    for _, name in ipairs{"reward", "ndcg"} do
      local values, key = fopo.array.from{each[name]}, part .. " " .. name
      sums[key] = sums[key] and sums[key]:add(values) or values
    end
  end
end

for _, path in ipairs(files) do
  local s = fopo.data.read(path):sessions{split = o.split, min_items = o.min_items}
  print(("%s: %s"):format(path, s:describe()))
  for _, kind in ipairs(o.kinds) do
    local items = kind == "linear" and fopo.embed.svd(s.train, {dim = math.min(o.dim, s.train.n)})
    local pi = items and fopo.policy.linear{items = items}
               or fopo.policy.neighbours{data = s.train, start = kind}
    local start, untrained, halves, prefixes = pi:theta(), {}, {}, {}
    add(untrained, pi, start, s)
    for _, seed in ipairs(o.seeds) do
      add(halves, pi, start, s, seed, false)
      add(prefixes, pi, start, s, seed, true)
    end
    for _, key in ipairs{"valid reward", "valid ndcg", "test reward", "test ndcg"} do
      local a, b = halves[key]:scale(1 / #o.seeds), prefixes[key]:scale(1 / #o.seeds)
      print(("%-8s %-12s  untrained %.4f, halves %.4f, prefixes %s"):format(kind, key,
        untrained[key]:mean(), a:mean(), script.difference(b, a)))
    end
  end
end
