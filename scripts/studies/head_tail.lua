-- Head and tail against SNIS: bias and spread of the gradient at as many rows read.
--
--   ./fopo scripts/studies/head_tail.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: some minutes.
--
-- Worlds: two synthetic ones (narrow: 20,000 items, wide: 60,000) and each FILE that fopo.data.read
-- knows. A policy is trained with SNIS; at its start, in the middle and at the end the exact
-- gradient of 64 contexts is compared with `repeats` estimates of each method, each with other
-- draws:
--
--   bias      |mean - exact| / |exact|, less the part that chance adds: spread^2 / repeats is
--             subtracted from the square, which may leave 0; a bias below about half of
--             spread / sqrt(repeats) cannot be told from chance
--   spread    sqrt(E |G - mean|^2) / |exact|
--   error     sqrt(E |G - exact|^2) / |exact|: both together
--
-- "Rows" counts the rows that the estimate gathers: S, or K + U, without the search of the K
-- candidates, which is the same for both (uniform draws need none). Milliseconds depend on this
-- machine and its load: only their order is meaningful.
--
-- Options (defaults):
--   repeats=100 contexts=64 k=256 samples=1000    of the estimates
--   steps=3000 lr=0.01 dim=32                     of the training
--   scale=1 (of the synthetic worlds) seeds=1,2 (of training and draws) worlds=narrow,wide
-- The table has means over the seeds; all rows are kept in runs/head_tail.csv (quick:
-- runs/head_tail_quick.csv).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {repeats = 100, steps = 3000, lr = 0.01, dim = 32, k = 256, samples = 1000, contexts = 64,
   scale = 1, seeds = {1, 2}, worlds = {"narrow", "wide"}},
  {repeats = 5, steps = 40, dim = 8, k = 20, samples = 60, contexts = 8, scale = 0.03, seeds = {1},
   worlds = {"narrow"}})

local function methods(index)
  local snis, head = fopo.gradient.snis, fopo.gradient.head_tail
  local function mixture(epsilon)
    return snis{samples = o.samples,
                proposal = fopo.proposal.mixture{index = index, k = o.k, epsilon = epsilon}}
  end
  local S, k = o.samples, o.k
  return {{"snis, uniform", snis{samples = S}, S},
          {"snis, eps 0.8", mixture(0.8), S},
          {"snis, eps 0.2", mixture(0.2), S},
          {"head and tail", head{index = index, k = k, tail = S - k}, S},
          {"head and tail, half", head{index = index, k = k, tail = S // 2 - k}, S // 2}}
end

-- Figures of one method at one policy.
local function measure(g, exact, pi, x, rows, reward, seed)
  local sum, squares, mass, start = nil, 0, 0, fopo.clock()
  for step = 1, o.repeats do
    local G, stats = g:compute(pi, x, rows, reward, {seed = seed, step = step})
    local D = G:add(exact, -1)
    squares, mass = squares + D:norm() ^ 2, mass + stats.head_mass
    sum = sum and sum:add(D) or D
  end
  local n, size = o.repeats, exact:norm()
  local off = (sum:norm() / n) ^ 2 -- |mean - exact|^2
  local variance = (squares / n - off) * n / (n - 1)
  return {ms = (fopo.clock() - start) / n * 1e3, head_mass = mass / n,
          bias = math.sqrt(math.max(0, off - variance / n)) / size,
          spread = math.sqrt(variance) / size, error = math.sqrt(squares / n) / size}
end

local columns = {"world", "items", "seed", "at", "step", "method", "rows", "bias", "spread",
                 "error", "head_mass", "ms", "reward"}
local results = {}

local function at(world, t, name, seed)
  local x = world.split.train:contexts(world.items)
  local reward, rows = fopo.reward.hits(world.split.train), {}
  for i = 1, o.contexts do rows[i] = i end
  local exact, stats = fopo.gradient.exact{}:compute(t.policy, x, rows, reward)
  for _, method in ipairs(methods(world.index)) do
    local row = measure(method[2], exact, t.policy, x, rows, reward, seed)
    row.world, row.items, row.seed = world.name, world.items.rows, seed
    row.at, row.step = name, t.step
    row.method, row.rows, row.reward = method[1], method[3], stats.reward
    results[#results + 1] = row
  end
end

local function run(world, seed)
  local proposal = fopo.proposal.mixture{index = world.index, k = o.k, epsilon = 0.8}
  local gradient = fopo.gradient.snis{proposal = proposal, samples = o.samples}
  local t = study.trainer(world, gradient, {seed = seed, lr = o.lr})
  at(world, t, "start", seed)
  t:run{steps = o.steps // 2, view = false}
  at(world, t, "middle", seed)
  t:run{steps = o.steps - o.steps // 2, view = false}
  at(world, t, "end", seed)
end

-- Means over the seeds, in the order of the first one.
local function show(world)
  local shown = {{"at", "method", "rows", "bias", "spread", "error", "ms", "head mass", "reward"}}
  local groups, order = {}, {}
  for _, row in ipairs(results) do
    if row.world == world.name then
      local key = row.at .. row.method
      if not groups[key] then
        groups[key] = {}
        order[#order + 1] = key
      end
      table.insert(groups[key], row)
    end
  end
  for _, key in ipairs(order) do
    local group, first = groups[key], groups[key][1]
    local function mean(format, name) return format:format((study.mean_of(group, name))) end
    shown[#shown + 1] = {first.at, first.method, tostring(first.rows), mean("%.4f", "bias"),
      mean("%.4f", "spread"), mean("%.4f", "error"), mean("%.2f", "ms"),
      mean("%.4f", "head_mass"), mean("%.4f", "reward")}
  end
  study.print(("%s: %d items, %d estimates a seed, seeds %s"):format(world.name, world.items.rows,
    o.repeats, table.concat(o.seeds, ", ")), shown)
end

for _, name in ipairs(o.worlds) do
  local world = study.world(name, o)
  for _, seed in ipairs(o.seeds) do run(world, seed) end
  show(world)
end
print("kept in " .. study.csv("head_tail", columns, results))
