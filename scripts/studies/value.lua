-- What learning by value is worth where items differ in price.
--
--   ./fopo scripts/studies/value.lua FILE ... [quick] [name=value ...]
--
-- Cost: some minutes for the six sets of docs/data.md.
--
-- Worlds: each FILE that fopo.data.read knows, and those of scripts/studies/common.lua that worlds=
-- names. The users with `min_items` items are split 60 : 20 : 20 into train, valid and test, once
-- for each seed.
-- Prices are made: exp(sigma z), z normal and a function of the item's id and price_seed alone
-- (Philox), so that they say nothing of what users take. Items of X are left out everywhere, and
-- all are judged by value: the price of the best item, where it is in Y.
--
--   popular, item_knn, ease, slim   baselines; "x value": ranked by scores times prices
--   linear, neighbours              policies, trained for hits and for value
--   START learnt                    neighbours of these weights with scores times a power of the
--                                   price, c2 = 1 at the start: there they rank as "START x value".
--                                   c2 and the other scalars are learnt for value
--   priced                          neighbours with t log price added to each candidate's score; t
--                                   is learnt, from 1, 4 and 16 on: the best on valid
--
-- Every policy keeps the parameters of its best validation, by hits or by value. Differences are
-- paired over the users of a test part, and then means over the seeds, taken as independent.
--
-- Options (defaults): sigma=1 price_seed=1 epochs=20
--   lr=0.1 (of neighbours; linear has its defaults) start=slim (of neighbours)
--   starts=cosine,ease,slim (that are learnt; a baseline of each is beside them)
--   l2=auto (of ease and slim, or a number) dim=100 min_items=10
--   seeds=1,2,3 scale=0.15 worlds= (none)
-- All rows are kept in runs/value.csv (quick: runs/value_quick.csv).
local fopo = require "fopo"
local paired = require "fopo.base.paired"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {sigma = 1, price_seed = 1, epochs = 20, lr = 0.1, start = "slim", l2 = "auto", dim = 100,
   starts = {"cosine", "ease", "slim"}, min_items = 10, seeds = {1, 2, 3}, scale = 0.15,
   worlds = {}},
  {epochs = 1, dim = 8, start = "cosine", starts = {"cosine"},
   seeds = {1}, scale = 0.02, worlds = {"narrow"}})

-- ---- prices ----

-- The log-prices and the prices of P items, arrays [1, P].
local function prices_of(P)
  local logs = fopo.array.randn(1, P, o.price_seed, o.sigma)
  local list = logs:totable()[1]
  for a = 1, P do list[a] = math.exp(list[a]) end
  return logs, fopo.array.from(list)
end

-- One number for each item, all above 0, so that contexts of unit length are 1: [P, 1].
local function column_of(logs)
  local rows, least = logs:totable()[1], logs:min()
  for a = 1, #rows do rows[a] = {rows[a] - least + 1} end
  return fopo.array.from(rows)
end

-- ---- what is compared ----

-- Trains and returns pi; and its reward on valid.
local function trained(pi, split, reward, lr)
  local t = fopo.trainer{policy = pi, data = split.train, reward = reward, valid = split.valid,
                         exclude = "seen", optim = fopo.optim.adam{lr = lr}}
  t:run{epochs = o.epochs, view = false}
  return pi, t.held.valid
end

-- A policy of neighbours; trained from each of the given t on, the best on valid is kept.
local function neighbours(split, reward, pi, first)
  local start, best, most = pi:parameters(), nil, -1
  for _, t in ipairs(first or {0}) do
    if first then start.dense:set(1, 1, t) end
    pi:set_parameters(start)
    local _, valid = trained(pi, split, reward, o.lr)
    if valid > most then best, most = pi:theta(), valid end
  end
  pi:set_parameters(start)
  pi:set_theta(best)
  return pi
end

-- Calls judge(name, seconds, who) of each in turn; what does not fit is left out, and said.
local function each_method(split, logs, rewards, judge)
  local function try(name, make, ...)
    local start = fopo.clock()
    local made, who = pcall(make, ...)
    if made then
      judge(name, fopo.clock() - start, who)
    else
      print(("%s is left out: %s"):format(name, who))
    end
  end
  for _, kind in ipairs{"popular", "item_knn", "ease", "slim"} do
    local l2 = (kind == "ease" or kind == "slim") and (tonumber(o.l2) or o.l2) or nil
    local by_value = rewards.value
    try(kind, fopo.baseline[kind], {data = split.train, l2 = l2})
    try(kind .. " x value", fopo.baseline[kind], {data = split.train, l2 = l2, value = by_value})
  end
  local items = fopo.embed.svd(split.train, {dim = o.dim})
  local plain = fopo.policy.neighbours{data = split.train, start = o.start}
  local priced = fopo.policy.neighbours{data = split.train, start = o.start, dense_start = 1,
                                        items = column_of(logs)}
  local start, priced_start = plain:theta(), priced:theta()
  for _, name in ipairs{"hits", "value"} do
    local reward = rewards[name]
    try("linear by " .. name, function()
      return (trained(fopo.policy.linear{items = items, seen = "mask"}, split, reward))
    end)
    plain:set_theta(start)
    try("neighbours by " .. name, neighbours, split, reward, plain)
    priced:set_theta(priced_start)
    try("priced by " .. name, neighbours, split, reward, priced, {1, 4, 16})
  end
  for _, from in ipairs(o.starts) do
    try(from .. " learnt", function()
      local pi = fopo.policy.neighbours{data = split.train, start = from, value = rewards.value}
      return neighbours(split, rewards.value, pi)
    end)
  end
end

-- ---- one split ----

local columns = {"world", "seed", "method", "value", "low", "high", "hit", "contexts", "seconds"}
local results, evaluations = {}, {}

local function run(world, seed)
  local split = world.dataset:sessions{min_items = o.min_items, valid = 0.2, test = 0.2,
                                       seed = seed}
  local logs, value = prices_of(split.train.n_items)
  local rewards = {hits = fopo.reward.hits(split.train),
                   value = fopo.reward.hits(split.train, {value = value})}
  local found = {}
  each_method(split, logs, rewards, function(name, seconds, who)
    local e = fopo.evaluate(who, split.test, {reward = rewards.value, exclude = "seen", k = 1,
                                              expected = false})
    found[name] = e
    results[#results + 1] = {world = world.name, seed = seed, method = name, value = e.reward,
                             low = e.low, high = e.high, hit = e.hit[1], contexts = e.contexts,
                             seconds = seconds}
  end)
  evaluations[world.name] = evaluations[world.name] or {}
  table.insert(evaluations[world.name], found)
end

-- ---- the tables ----

-- "+0.0123 +- 0.0045": the mean over the seeds of the paired difference and half its interval.
local function difference(world, a, b)
  local sum, squares, n = 0, 0, 0
  for _, found in ipairs(evaluations[world]) do
    if found[a] and found[b] then
      local low, high = paired.difference(found[a], found[b])
      sum, squares, n = sum + (low + high) / 2, squares + ((high - low) / 2) ^ 2, n + 1
    end
  end
  if n == 0 then return "" end
  local mean, half = sum / n, math.sqrt(squares) / n
  return ("%+.4f +- %.4f%s"):format(mean, half, math.abs(mean) > half and " *" or "")
end

local names = {"popular", "popular x value", "item_knn", "item_knn x value", "ease",
               "ease x value", "slim", "slim x value", "linear by hits", "linear by value",
               "neighbours by hits", "neighbours by value", "priced by hits", "priced by value",
               "cosine learnt", "ease learnt", "slim learnt"}
local compared = {
  {"linear by value", "linear by hits"}, {"neighbours by value", "neighbours by hits"},
  {"priced by value", "priced by hits"}, {"priced by value", "popular x value"},
  {"priced by value", "item_knn x value"}, {"priced by value", "ease x value"},
  {"priced by value", "slim x value"}, {"linear by value", "item_knn x value"},
  {"linear by value", "ease x value"}, {"linear by value", "slim x value"},
  {"cosine learnt", "item_knn x value"}, {"cosine learnt", "ease x value"},
  {"ease learnt", "ease x value"}, {"slim learnt", "ease x value"},
  {"slim learnt", "slim x value"}, {"item_knn x value", "item_knn"}, {"ease x value", "ease"},
  {"slim x value", "slim"}}

local worlds = {}
for _, name in ipairs(o.worlds) do
  local world = study.dataset(name, o)
  worlds[#worlds + 1] = world.name
  for _, seed in ipairs(o.seeds) do run(world, seed) end
  study.keep("value", columns, results)
end

for _, what in ipairs{"value", "hit"} do
  local shown = {{what, table.unpack(worlds)}}
  for _, name in ipairs(names) do
    local row = {name}
    for i, world in ipairs(worlds) do
      local mean = study.mean_of(study.where(results, {world = world, method = name}), what)
      row[i + 1] = mean == mean and ("%.4f"):format(mean) or ""
    end
    shown[#shown + 1] = row
  end
  study.print(("%s of the best item, seen items left out, seeds %s"):format(what,
    table.concat(o.seeds, ", ")), shown)
end
local shown = {{"paired difference of value, 95 %", table.unpack(worlds)}}
for _, pair in ipairs(compared) do
  local row = {("%s - %s"):format(pair[1], pair[2])}
  for i, world in ipairs(worlds) do row[i + 1] = difference(world, pair[1], pair[2]) end
  shown[#shown + 1] = row
end
study.print("paired differences; a star: the interval excludes 0", shown)
print("kept in " .. study.keep("value", columns, results))
