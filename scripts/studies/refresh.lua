-- Old candidates: reward against seconds if candidates serve n visits of their context.
--
--   ./fopo scripts/studies/refresh.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: `seconds` for each of 10 methods, 2 seeds and each world, and the evaluations: some
-- minutes.
--
-- Worlds: two synthetic ones and each FILE. Every run has the same seconds of training (without
-- evaluation) from the same start; after each quarter of them the reward on the test sessions is
-- measured by true argmax. The runs of one seed follow each other, so that other load on the
-- machine affects them alike; "searched" is the number of queries of the index.
--
-- Options (defaults):
--   refresh=1,2,5,20,once estimators=snis,head_tail    the combinations
--   seconds=8 clock=wall     of a run; clock=cpu: CPU time of one thread, for a busy machine
--   lr=0.01 dim=32 k=256 samples=1000 tail=256 epsilon=0.5 (of snis)
--   scale=1 seeds=1,2 worlds=narrow,wide
-- The table has means over the seeds; all rows are kept in runs/refresh.csv (quick:
-- runs/refresh_quick.csv).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {refresh = {1, 2, 5, 20, "once"}, estimators = {"snis", "head_tail"}, seconds = 8, clock = "wall",
   lr = 0.01, dim = 32, k = 256, samples = 1000, tail = 256, epsilon = 0.5, scale = 1,
   seeds = {1, 2}, worlds = {"narrow", "wide"}},
  {refresh = {1, 2, "once"}, seconds = 0.2, dim = 8, k = 20, samples = 60, tail = 20, scale = 0.03,
   seeds = {1}, worlds = {"narrow"}})
local QUARTERS = 4

local function gradient(kind, index, refresh)
  if kind == "head_tail" then
    return fopo.gradient.head_tail{index = index, k = o.k, tail = o.tail, refresh = refresh}
  end
  return fopo.gradient.snis{samples = o.samples, proposal = fopo.proposal.mixture{
    index = index, k = o.k, epsilon = o.epsilon, refresh = refresh}}
end

local columns = {"world", "items", "estimator", "refresh", "seed", "seconds", "step", "epochs",
                 "searched", "kept_bytes", "reward", "low", "high"}
local results = {}

local function run(world, kind, refresh, seed)
  local g = gradient(kind, world.index, refresh)
  local t = study.trainer(world, g, {seed = seed, lr = o.lr})
  local before = world.index:about().queries
  local seconds = 0
  for _ = 1, QUARTERS do
    seconds = seconds + study.train(t, o.seconds / QUARTERS, o)
    local searched = world.index:about().queries - before
    local e = fopo.evaluate(t.policy, world.split.test)
    results[#results + 1] = {world = world.name, items = world.items.rows, estimator = kind,
      refresh = refresh, seed = seed, seconds = seconds, step = t.step,
      epochs = t.step / t.steps_per_epoch, searched = searched, kept_bytes = g.kept_bytes,
      reward = e.reward, low = e.low, high = e.high}
  end
end

-- One line a (estimator, refresh): the reward at each quarter, as means over the seeds.
local function show(world)
  local head = {"estimator", "refresh"}
  for i = 1, QUARTERS do head[#head + 1] = ("at %.3g s"):format(o.seconds * i / QUARTERS) end
  table.move({"+-", "steps/s", "epochs", "searches/step"}, 1, 4, #head + 1, head)
  local shown = {head}
  for _, kind in ipairs(o.estimators) do
    for _, refresh in ipairs(o.refresh) do
      local at, rate, epochs, searches = {}, {}, {}, {}
      for i = 1, QUARTERS do at[i] = {} end
      local place = 0
      for _, r in ipairs(results) do
        if r.world == world.name and r.estimator == kind and r.refresh == refresh then
          place = place % QUARTERS + 1
          table.insert(at[place], r.reward)
          if place == QUARTERS then
            rate[#rate + 1], epochs[#epochs + 1] = r.step / r.seconds, r.epochs
            searches[#searches + 1] = r.searched / r.step
          end
        end
      end
      local line = {kind, tostring(refresh)}
      local error
      for i = 1, QUARTERS do
        local mean
        mean, error = study.mean(at[i])
        line[#line + 1] = ("%.4f"):format(mean)
      end
      table.move({("%.4f"):format(error), ("%.0f"):format(study.mean(rate)),
                  ("%.1f"):format(study.mean(epochs)), ("%.2f"):format(study.mean(searches))}, 1, 4,
                 #line + 1, line)
      shown[#shown + 1] = line
    end
  end
  local title = "%s: %d items, %d contexts, reward on %d test sessions, %s clock, seeds %s"
  study.print(title:format(world.name, world.items.rows, world.split.train.n, world.split.test.n,
                           o.clock, table.concat(o.seeds, ", ")), shown)
end

for _, name in ipairs(o.worlds) do
  local world = study.world(name, o)
  for _, seed in ipairs(o.seeds) do
    for _, kind in ipairs(o.estimators) do
      for _, refresh in ipairs(o.refresh) do run(world, kind, refresh, seed) end
    end
  end
  show(world)
end
print("kept in " .. study.csv("refresh", columns, results))
