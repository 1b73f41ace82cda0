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
-- true argmax over the whole catalogue. "ms/step" is of training alone, with all searches, those of
-- the first visits and of the later ones; "searches/step" is their number, of 32 contexts a step.
-- "+-" is the standard error over the seeds, and "against mixture" the mean difference of reward,
-- seed by seed, with its standard error: the test sessions are the same.
--
-- Cached candidates pay if contexts are visited often. With few visits each (more users= in the
-- large world) they are those of an early policy, and the table shows the loss.
--
-- Options (defaults):
--   tails=64 refresh=1,20 rows=float16 budgets=0,8192,12288    the combinations
--   steps=12000 parts=2 lr=0.01 dim=100 k=256 samples=1000 epsilon=0.8 min_items=20
--   worlds=large      100,000 users, 790,000 items; users=, items=, clusters= change it
--   threads=2 scale=1 seeds=1,2,3
-- The table has means over the seeds; all rows are kept in runs/fast.csv (quick:
-- runs/fast_quick.csv).
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

-- The methods in the order of the table: {name, gradient(world), rows, and what is in the CSV}.
local function methods()
  local list = {{name = "mixture", rows = "float32", refresh = 1, budget = 0, draws = o.samples,
    gradient = function(world) return study.mixture(world.index, {k = o.k,
      epsilon = o.epsilon, samples = o.samples}) end}}
  for _, tail in ipairs(o.tails) do
    for _, budget in ipairs(o.budgets) do
      for _, rows in ipairs(o.rows) do
        for _, refresh in ipairs(o.refresh) do
          list[#list + 1] = {name = ("head %d + tail %d"):format(o.k, tail), rows = rows,
            refresh = refresh, budget = budget, draws = tail,
            gradient = function(world)
              local index = budget == 0 and world.index
                or fopo.index.norm(world.items, {budget = budget})
              return fopo.gradient.head_tail{index = index, k = o.k, tail = tail,
                                             refresh = refresh}, index
            end}
        end
      end
    end
  end
  return list
end

local columns = {"world", "items", "contexts", "method", "draws", "refresh", "rows", "budget",
                 "seed", "step", "epochs", "searched", "seconds", "ms_step", "reward", "low",
                 "high"}
local results = {}

local function run(world, method, seed)
  local gradient, index = method.gradient(world)
  index = index or world.index
  local t = study.trainer(world, gradient, {seed = seed, lr = o.lr, rows = method.rows})
  local before = index:about().queries
  for part = 1, o.parts do
    t:run{steps = o.steps * part // o.parts - t.step, every = o.steps, view = false}
    local e = fopo.evaluate(t.policy, world.split.test, {exclude = "none"})
    results[#results + 1] = {world = world.name, items = world.items.rows,
      contexts = world.split.train.n, method = method.name, draws = method.draws,
      refresh = method.refresh, rows = method.rows, budget = method.budget, seed = seed,
      step = t.step, epochs = t.step / t.steps_per_epoch, searched = index:about().queries - before,
      seconds = t.seconds, ms_step = 1e3 * t.seconds / t.step, reward = e.reward, low = e.low,
      high = e.high}
  end
  local last = results[#results]
  io.stderr:write(("  %s, seed %d: %s, refresh %s, %s: %.4f, %.3f ms/step\n"):format(world.name,
    seed, method.name, method.refresh, method.rows, last.reward, last.ms_step))
end

-- Rows of one method in the order of seeds, those at `step`.
local function chosen(world, m, step)
  return study.where(results, {world = world.name, method = m.name, refresh = m.refresh,
                               rows = m.rows, budget = m.budget, step = step})
end

local function show(world, list)
  local shown = {{"method", "refresh", "rows", "budget", "half way", "reward", "+-",
                  "against mixture", "+-", "searches/step", "ms/step", "faster"}}
  local base = chosen(world, list[1], o.steps)
  local base_ms = study.mean_of(base, "ms_step")
  for _, method in ipairs(list) do
    local last = chosen(world, method, o.steps)
    local reward, error = study.mean_of(last, "reward")
    local difference, its_error = study.difference(last, base, "reward")
    local early = study.mean_of(chosen(world, method, o.steps // o.parts), "reward")
    local ms = study.mean_of(last, "ms_step")
    shown[#shown + 1] = {method.name, tostring(method.refresh), method.rows,
      method.budget == 0 and "exact" or tostring(method.budget), ("%.4f"):format(early),
      ("%.4f"):format(reward), ("%.4f"):format(error), ("%+.4f"):format(difference),
      ("%.4f"):format(its_error), ("%.2f"):format(study.mean_of(last, "searched") / o.steps),
      ("%.3f"):format(ms), ("%.1f x"):format(base_ms / ms)}
  end
  local title = "%s: %d items, %d contexts, %d steps of 32 (%.1f visits), %d test sessions, "
                .. "seeds %s"
  study.print(title:format(world.name, world.items.rows, world.split.train.n, o.steps,
    o.steps * 32 / world.split.train.n, world.split.test.n, table.concat(o.seeds, ", ")), shown)
end

fopo.threads(o.threads)
study.each(o, methods, run, show)
print("kept in " .. study.keep("fast", columns, results))
