-- What training on prefixes of sessions is worth where they have an order.
--
--   ./fopo scripts/studies/prefixes.lua FILE ... [quick] [name=value ...]
--
-- Cost: a minute for a file of 100,000 interactions.
--
-- Each FILE that fopo.data.read knows is split by time, 60 : 20 : 20. A policy is trained twice, an
-- epoch at a time, each with an optimiser of its own: with X the earlier half of each session, and
-- with X the first 0.1, 0.2, .. or 0.9 of it, drawn anew each epoch. Both are judged on the valid
-- part with seen items left out, and differences are paired over its contexts, with 95 % intervals.
--
-- Options (defaults): epochs=5 dim=100 min_items=5
--   kinds=cosine,linear (linear, or a start of policy.neighbours)
--   seeds=1,2,3 (of the order of training and of the prefixes)
local fopo = require "fopo"
local native = require "fopo.native"
local neighbours = require "fopo.neighbours"
package.path = (arg[0]:match("^(.*/)") or "./") .. "../tools/?.lua;" .. package.path
local script = require "script"

local o, files = script.options(
  {kinds = {"cosine", "linear"}, epochs = 5, dim = 100, min_items = 5, seeds = {1, 2, 3}},
  {epochs = 1, dim = 8, seeds = {1}})
if #files == 0 then script.misuse("which files?") end

local HALF, SHARES = 5, 9 -- X is n tenths of a session, n of 1 .. SHARES

-- A policy for each share, of the same weights or items.
local function policies(kind, splits)
  local half, list = splits[HALF].train, {}
  local items = kind == "linear" and fopo.embed.svd(half, {dim = math.min(o.dim, half.n)})
  for n, split in ipairs(splits) do
    list[n] = items and fopo.policy.linear{items = items}
              or fopo.policy.neighbours{data = split.train, start = kind}
  end
  return list
end

-- theta after an epoch with each of the shares in turn.
local function trained(list, splits, shares, theta, seed)
  for epoch, n in ipairs(shares) do
    list[n]:set_theta(theta)
    fopo.trainer{policy = list[n], data = splits[n].train, valid = false,
                 seed = 1000 * seed + epoch}:run{epochs = 1, view = false}
    theta = list[n]:theta()
  end
  return theta
end

-- Arrays of the reward and of NDCG of each context of valid.
local function measured(pi, valid, theta)
  local each = {reward = {}, ndcg = {}}
  neighbours.measure(each, pi:set_theta(theta) or pi, {valid}, native.reward_hits(valid))
  return {fopo.array.from{each.reward}, fopo.array.from{each.ndcg}}
end

for _, path in ipairs(files) do
  local d, splits = fopo.data.read(path), {}
  for n = 1, SHARES do
    splits[n] = d:sessions{split = "time", min_items = o.min_items, observed = n / 10}
  end
  local valid = splits[HALF].valid
  print(("%s, %d validation contexts"):format(path, valid.n))
  for _, kind in ipairs(o.kinds) do
    local list = policies(kind, splits)
    local start = list[HALF]:theta()
    for _, seed in ipairs(o.seeds) do
      local halves, prefixes = {}, {}
      math.randomseed(seed, seed)
      for epoch = 1, o.epochs do halves[epoch], prefixes[epoch] = HALF, math.random(SHARES) end
      local a = measured(list[HALF], valid, trained(list, splits, halves, start, seed))
      local b = measured(list[HALF], valid, trained(list, splits, prefixes, start, seed))
      local line = {("%-8s seed %d"):format(kind, seed)}
      for i, name in ipairs{"reward", "NDCG@20"} do
        line[#line + 1] = ("%s %.4f, prefixes %s"):format(name, a[i]:mean(),
                                                          script.difference(b[i], a[i]))
      end
      print(table.concat(line, "  "))
    end
  end
end
