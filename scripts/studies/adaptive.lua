-- An adaptive epsilon against fixed ones, for the same seconds of training.
--
--   ./fopo scripts/studies/adaptive.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: `seconds` for each of 6 methods, 3 seeds and each world, and the evaluations: some minutes.
--
-- Worlds: two synthetic ones and each FILE. Every run has the same seconds of training (without
-- evaluation) from the same start; the reward is on the test sessions by true argmax. The runs of
-- one seed follow each other. The verdict compares adaptive with the best fixed epsilon, seed by
-- seed: "ahead" or "behind" if the mean difference is more than twice its standard error, "level"
-- otherwise. The best of several is chosen after the fact, which favours it.
--
-- Candidates of all runs serve `refresh` visits; with refresh=1 the time of the searches would
-- dominate the comparison.
--
-- Options (defaults):
--   epsilons=0,0.2,0.5,0.8,1    the fixed ones
--   refresh=20 k=256 samples=1000 floor=0.0001 smoothing=0.5    of the proposals
--   seconds=6 clock=wall        of a run; clock=cpu: CPU time of one thread, for a busy machine
--   lr=0.01 dim=32 min_items=20 (of a user) scale=1 seeds=1,2,3
--   worlds=narrow,wide          "worlds=," for none
-- All rows are kept in runs/adaptive.csv (quick: runs/adaptive_quick.csv).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {epsilons = {0, 0.2, 0.5, 0.8, 1}, refresh = 20, seconds = 6, clock = "wall", lr = 0.01, dim = 32,
   k = 256, samples = 1000, floor = 0.0001, smoothing = 0.5, min_items = 20, scale = 1,
   seeds = {1, 2, 3}, worlds = {"narrow", "wide"}},
  {epsilons = {0, 1}, seconds = 0.3, dim = 8, k = 20, samples = 60, scale = 0.03, seeds = {1, 2},
   worlds = {"narrow"}})

local function proposal(index, epsilon)
  if epsilon ~= "adaptive" then
    return fopo.proposal.mixture{index = index, k = o.k, epsilon = epsilon, refresh = o.refresh}
  end
  return fopo.proposal.adaptive{index = index, k = o.k, floor = o.floor, smoothing = o.smoothing,
                                refresh = o.refresh}
end

local columns = {"world", "items", "epsilon", "seed", "seconds", "step", "queries", "half_reward",
                 "reward", "low", "high", "last_epsilon", "head_mass"}
local results = {}

local function run(world, epsilon, seed)
  local g = fopo.gradient.snis{samples = o.samples, proposal = proposal(world.index, epsilon)}
  local t = study.trainer(world, g, {seed = seed, lr = o.lr})
  local before = world.index:about().queries
  local seconds = study.train(t, o.seconds / 2, o)
  local queries = world.index:about().queries - before
  local half = fopo.evaluate(t.policy, world.split.test, {exclude = "none"}).reward
  before = world.index:about().queries
  seconds = seconds + study.train(t, o.seconds / 2, o)
  queries = queries + world.index:about().queries - before
  local e = fopo.evaluate(t.policy, world.split.test, {exclude = "none"})
  results[#results + 1] = {world = world.name, items = world.items.rows, epsilon = epsilon,
    seed = seed, seconds = seconds, step = t.step, queries = queries, half_reward = half,
    reward = e.reward, low = e.low, high = e.high, last_epsilon = g.epsilon,
    head_mass = t.history.head_mass[#t.history.head_mass]}
end

local function of(world, epsilon)
  return study.where(results, {world = world.name, epsilon = epsilon})
end

local function all_epsilons()
  local list = table.move(o.epsilons, 1, #o.epsilons, 1, {})
  list[#list + 1] = "adaptive"
  return list
end

-- The sentence on adaptive against the best fixed epsilon, by the reward of that name.
local function verdict(world, name)
  local best, most = nil, -1
  for _, epsilon in ipairs(o.epsilons) do
    local mean = study.mean_of(of(world, epsilon), name)
    if mean > most then best, most = epsilon, mean end
  end
  local mean, error = study.difference(of(world, "adaptive"), of(world, best), name)
  local word = mean > 2 * error and "ahead of" or mean < -2 * error and "behind" or "level with"
  return ("adaptive is %s the best fixed epsilon, %g: %+.4f +- %.4f"):format(word, best, mean,
                                                                             error)
end

local function show(world)
  local shown = {{"epsilon", "reward at half", "reward", "+-", "steps/s", "searches/step",
                  "epsilon at the end", "head mass"}}
  for _, epsilon in ipairs(all_epsilons()) do
    local rows = of(world, epsilon)
    local function mean(name) return (study.mean_of(rows, name)) end
    local reward, error = study.mean_of(rows, "reward")
    shown[#shown + 1] = {tostring(epsilon), ("%.4f"):format(mean("half_reward")),
      ("%.4f"):format(reward), ("%.4f"):format(error),
      ("%.0f"):format(mean("step") / mean("seconds")),
      ("%.2f"):format(mean("queries") / mean("step")), ("%.3f"):format(mean("last_epsilon")),
      ("%.3f"):format(mean("head_mass"))}
  end
  study.print(("%s: %d items, %g s (%s), reward on %d test sessions, seeds %s"):format(world.name,
    world.items.rows, o.seconds, o.clock, world.split.test.n, table.concat(o.seeds, ", ")), shown)
  print("at half the seconds " .. verdict(world, "half_reward"))
  print("at the end          " .. verdict(world, "reward"))
  io.stdout:flush()
end

study.each(o, all_epsilons, run, show)
print("kept in " .. study.keep("adaptive", columns, results))
