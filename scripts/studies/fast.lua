-- Faster training than the paper's: the reward after the same number of steps, and the cost of
-- both.
--
--   ./fopo scripts/studies/fast.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: hours at the full size of the large world, on a machine without other work.
--
-- The paper's estimator is SNIS with the mixture (K = 256, eps = 0.8, S = 1000, candidates searched
-- at every visit, float32). Against it: head and tail with K candidates and `tails` draws. The
-- candidates serve `refresh` visits of their context and are searched among the `budgets` items of
-- the largest norms (0: all), and items are read as `rows`. All combinations of these lists are
-- run.
--
-- Every run of a seed starts from the same theta and visits the same contexts in the same order.
-- After each of `parts` equal parts of the steps, the reward on the test sessions is measured by
-- true argmax over the whole catalogue, "early" after the first of them. "ms_step" is of training
-- alone, with all searches, those of the first visits and of the later ones; "searches" is their
-- number a step of 32 contexts. "+-" is half the 95 % interval over the seeds, and "against method
-- mixture" the mean difference of reward, seed by seed: the test sessions are the same.
--
-- Cached candidates pay if contexts are visited often. With few visits each (more users= in the
-- large world) they are those of an early policy, and the table shows the loss.
--
-- Options (defaults):
--   tails=64 refresh=1,20 rows=float16 budgets=0,8192,12288    the combinations
--   steps=12000 parts=2 lr=0.01 dim=100 k=256 samples=1000 epsilon=0.8 min_items=20
--   worlds=large      100,000 users, 790,000 items; users=, items=, clusters= change it
--   threads=2 scale=1 seeds=1,2,3
-- It is a sweep, which goes on where it was stopped; its rows and tables are in runs/fast/WORLD
-- (quick: runs/fast_quick/WORLD).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {steps = 12000, parts = 2, lr = 0.01, dim = 100, k = 256, samples = 1000, epsilon = 0.8,
   tails = {64}, refresh = {1, 20}, rows = {"float16"}, budgets = {0, 8192, 12288}, threads = 2,
   scale = 1, seeds = {1, 2, 3}, worlds = {"large"}, users = 0, items = 0, clusters = 0,
   min_items = 20},
  {steps = 40, dim = 8, k = 20, samples = 60, tails = {10}, refresh = {1, 5},
   rows = {"float32", "float16"}, budgets = {0}, scale = 0.03, seeds = {1, 2}, worlds = {"narrow"}})

-- What c names: the gradient, and the index that it searches.
local function gradient_of(world, c)
  if c.method == "mixture" then
    return study.mixture(world.index, {k = o.k, epsilon = o.epsilon, samples = o.samples}),
           world.index
  end
  local index = c.budget == 0 and world.index
                or fopo.index.norm(world.items, {budget = c.budget})
  return fopo.gradient.head_tail{index = index, k = o.k, tail = c.tail, refresh = c.refresh}, index
end

local function run(world, c)
  local gradient, index = gradient_of(world, c)
  local t = study.trainer(world, gradient, {seed = c.seed, lr = o.lr, rows = c.rows or "float32"})
  local before, row = index:about().queries, {reward = {}, low = {}, high = {}, step = {}}
  for part = 1, o.parts do
    t:run{steps = o.steps * part // o.parts - t.step, every = o.steps, view = false}
    local e = fopo.evaluate(t.policy, world.split.test, {exclude = "none"})
    row.reward[part], row.low[part], row.high[part] = e.reward, e.low, e.high
    row.step[part] = t.step
  end
  row.early, row.ms_step, row.seconds = row.reward[1], 1e3 * t.seconds / t.step, t.seconds
  row.searches = (index:about().queries - before) / t.step
  return row
end

fopo.threads(o.threads)
study.sweep("fast", o, {
  over = {{method = "mixture"}, {method = "head and tail", tail = o.tails, refresh = o.refresh,
                                 rows = o.rows, budget = o.budgets}},
  against = {method = "mixture"}, measures = {"reward", "early", "searches", "ms_step"}, run = run,
  title = function(world)
    return ("%s: %d items, %d contexts, %d steps of 32 (%.1f visits), %d test sessions"):format(
      world.name, world.items.rows, world.split.train.n, o.steps,
      o.steps * 32 / world.split.train.n, world.split.test.n)
  end})
