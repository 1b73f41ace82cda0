-- What slates earn: policies trained for lists of k items as a whole, by perturbed queries and by
-- Plackett and Luce, beside the k best items of a policy that is trained for single items.
--
--   ./fopo scripts/studies/slates.lua [quick] [name=value ...]
--
-- Cost: `seconds` of CPU time for each of three methods, k, seed and world: a minute or two.
--
-- Worlds: sample, README's datasets/sample.csv; a twin of the paper's sets, as twitch, of which
-- `fraction` is made; those of scripts/studies/common.lua; or a file that fopo.data.read knows. The
-- items are singular vectors, seen items are left out.
--
--   item_knn, start   as they are
--   single            the default gradient, of the chance that an item drawn is in Y
--   slate             perturbed queries, sigma / sqrt(dim) each number
--   plackett_luce     slates of the softmax without replacement
--
--   test      the measure of the k best items on test, of the parameters that were best on valid at
--             one of eight points of time; "first": those of the first point
--   steps     that were made in `seconds`
--
-- Options (defaults): worlds=sample,twitch k=2,5,10 measure=ndcg seconds=1 (of CPU time) seeds=1,2
--   samples=20 sigma=1 lr=0.001 (of single) slate_lr=0.003 dim=64 fraction=0.005 scale=0.15
-- It is a sweep, which goes on where it was stopped; its rows and tables are in runs/slates/WORLD
-- (quick: runs/slates_quick/WORLD).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local POINTS = 8
local o = study.options(
  {worlds = {"sample", "twitch"}, k = {2, 5, 10}, measure = "ndcg", seconds = 1, seeds = {1, 2},
   samples = 20, sigma = 1, lr = 0.001, slate_lr = 0.003, dim = 64, fraction = 0.005, scale = 0.15},
  {worlds = {"sample"}, k = {3}, seconds = 0.16, seeds = {1}, dim = 8})

local function dataset(name)
  if name == "sample" then return fopo.data.read("datasets/sample.csv") end
  if name == "twitch" or name == "goodreads" then
    return (fopo.data.synthetic{like = name, fraction = o.fraction})
  end
  return study.dataset(name, o).dataset
end

local function gradient(method, k)
  local options = {k = k, samples = o.samples, measure = o.measure}
  if method == "single" then return fopo.gradient.head_tail{} end
  if method == "plackett_luce" then return fopo.gradient.plackett_luce(options) end
  options.sigma = o.sigma / math.sqrt(o.dim)
  return fopo.gradient.slate(options)
end

-- The measure of the k best items.
local function judge(who, sessions, k)
  local e = fopo.evaluate(who, sessions, {k = k, expected = false})
  if o.measure == "sum" then return k * e.precision[k] end
  return e[o.measure == "dcg" and "ndcg" or o.measure][k]
end

local function world_of(name)
  local s = dataset(name):sessions{min_items = 10, valid = 0.1, test = 0.3, seed = 5}
  return {name = name:match("[^/]+$"), split = s,
          items = fopo.embed.svd(s.train, {dim = o.dim})}
end

-- Trains for o.seconds of CPU time. The row of a run has all points.
local function train(world, c)
  local s, lr = world.split, c.method == "single" and o.lr or o.slate_lr
  local t = fopo.trainer{policy = fopo.policy.linear{items = world.items, seen = "mask"},
                         data = s.train, gradient = gradient(c.method, c.k), valid = false,
                         optim = fopo.optim.adam{lr = lr}, seed = c.seed}
  local used, best, row = 0, -1, {step = {}, valid = {}, each = {}}
  for point = 1, POINTS do
    while used < o.seconds * point / POINTS do
      local start = os.clock()
      t:run{steps = 8, every = 8, view = false, keep_best = false}
      used = used + os.clock() - start
    end
    local valid, test = judge(t.policy, s.valid, c.k), judge(t.policy, s.test, c.k)
    if valid > best then best, row.test = valid, test end
    row.step[point], row.valid[point], row.each[point] = t.step, valid, test
  end
  row.first, row.steps = row.each[1], t.step
  return row
end

local function run(world, c)
  local s = world.split
  if c.method == "start" then
    return {test = judge(fopo.policy.linear{items = world.items, seen = "mask"}, s.test, c.k)}
  elseif c.method == "item_knn" then
    return {test = judge(fopo.baseline.item_knn{data = s.train}, s.test, c.k)}
  end
  return train(world, c)
end

study.sweep("slates", o, {
  over = {{k = o.k, method = {"item_knn", "start"}, seed = o.seeds[1]},
          {k = o.k, method = {"single", "slate", "plackett_luce"}}},
  measures = {"test", "first", "steps"}, run = run, world = world_of,
  title = function(world)
    local s = world.split
    return ("%s: %d items, %d train, %d test users; %s of the k best items, %g s of CPU time"):
      format(world.name, s.train.n_items, s.train.n, s.test.n, o.measure, o.seconds)
  end})
