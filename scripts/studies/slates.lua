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
--             one of eight points of time; "at 1/8": those of the first point
--   steps     that were made in `seconds`
--
-- Options (defaults): worlds=sample,twitch k=2,5,10 measure=ndcg seconds=1 (of CPU time) seeds=1,2
--   samples=20 sigma=1 lr=0.001 (of single) slate_lr=0.003 dim=64 fraction=0.005 scale=0.15
-- All points are kept in runs/slates.csv (quick: runs/slates_quick.csv).
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

local points = {}

-- Trains for o.seconds of CPU time; {test, first, steps}.
local function train(world, s, items, method, k, seed)
  local lr = method == "single" and o.lr or o.slate_lr
  local t = fopo.trainer{policy = fopo.policy.linear{items = items, seen = "mask"}, data = s.train,
                         gradient = gradient(method, k), optim = fopo.optim.adam{lr = lr},
                         valid = false, seed = seed}
  local used, best, row = 0, -1, {}
  for point = 1, POINTS do
    while used < o.seconds * point / POINTS do
      local start = os.clock()
      t:run{steps = 8, every = 8, view = false, keep_best = false}
      used = used + os.clock() - start
    end
    local valid, test = judge(t.policy, s.valid, k), judge(t.policy, s.test, k)
    if valid > best then best, row.test = valid, test end
    row.first = row.first or test
    points[#points + 1] = {world = world, method = method, k = k, seed = seed, seconds = used,
                           steps = t.step, valid = valid, test = test}
  end
  row.steps = t.step
  return row
end

local function number(rows, column)
  local mean, error = study.mean_of(rows, column)
  return #rows > 1 and ("%.4f +- %.4f"):format(mean, error) or ("%.4f"):format(mean)
end

for _, name in ipairs(o.worlds) do
  local s = dataset(name):sessions{min_items = 10, valid = 0.1, test = 0.3, seed = 5}
  local items = fopo.embed.svd(s.train, {dim = o.dim})
  local shown = {{"k", "method", "test", "at 1/8", "steps"}}
  local start = fopo.policy.linear{items = items, seen = "mask"}
  for _, k in ipairs(o.k) do
    local fixed = {item_knn = fopo.baseline.item_knn{data = s.train}, start = start}
    for _, method in ipairs{"item_knn", "start"} do
      shown[#shown + 1] = {tostring(k), method, ("%.4f"):format(judge(fixed[method], s.test, k)),
                           "", ""}
    end
    for _, method in ipairs{"single", "slate", "plackett_luce"} do
      local rows = {}
      for i, seed in ipairs(o.seeds) do rows[i] = train(name, s, items, method, k, seed) end
      shown[#shown + 1] = {tostring(k), method, number(rows, "test"), number(rows, "first"),
                           ("%.0f"):format((study.mean_of(rows, "steps")))}
    end
  end
  local what = "%s: %d items, %d train, %d test users; %s of the k best items, %g s of CPU time"
  study.print(what:format(name, s.train.n_items, s.train.n, s.test.n, o.measure, o.seconds), shown)
end
print("all points: " .. study.keep("slates", {"world", "method", "k", "seed", "seconds", "steps",
                                              "valid", "test"}, points))
