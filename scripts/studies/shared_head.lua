-- A head that all contexts share, and one that is set by mass, against the paper's mixture: the
-- reward after the same number of steps, the share of the policy's mass in the head, and the cost.
--
--   ./fopo scripts/studies/shared_head.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: minutes for a file; hours at the full size of the large world.
--
-- The mixture is the paper's: SNIS with K = 256, eps = 0.8, S = 1000, candidates searched exactly
-- at every visit. Against it: head and tail with a head of each size in `heads` and each number of
-- draws in `tails`, and gradient.head_tail{}, whose head is set by mass. All runs of a seed start
-- from the same theta and visit the same contexts in the same order. After `steps` steps the reward
-- is measured on the test sessions by true argmax over the whole catalogue, and the expected reward
-- with it.
--
--   held              the exact share of the policy's mass in the head, for 64 contexts at the end
--   own               the same of each context's own 256 candidates of largest score
--   against mixture   the mean difference of reward, seed by seed, and its standard error: the test
--                     sessions are the same
--   faster            the mixture's time of a step divided by this one's, in this run
-- With mixture=no it is the first head that the others are compared with.
--
-- Options (defaults):
--   preset=none       or paper: theta, temperature and contexts of the policies
--   singular=sqrt     or none, the paper's: the scale of the embeddings, as of fopo.embed.svd
--   heads=512,2048,8192 tails=64 auto=yes           the methods; mixture=yes
--   products=float32  or bfloat16: what the heads are multiplied in, whose rows are rounded so
--   steps=2000 lr=0.001 dim=100 k=256 samples=1000 epsilon=0.8 min_items=10
--   worlds=large      100,000 users, 790,000 items; users=, items=, clusters= change it
--   threads=2 scale=1 seeds=1,2,3,4,5,6
-- The table has means over the seeds; all rows are kept in runs/shared_head.csv (quick:
-- runs/shared_head_quick.csv).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {preset = "none", singular = "sqrt", heads = {512, 2048, 8192}, tails = {64}, auto = true,
   mixture = true,
   products = {"float32"}, steps = 2000, lr = 0.001, dim = 100, k = 256, samples = 1000,
   epsilon = 0.8, threads = 2, scale = 1,
   seeds = {1, 2, 3, 4, 5, 6}, worlds = {"large"}, users = 0, items = 0, clusters = 0,
   min_items = 10},
  {steps = 40, dim = 8, k = 20, samples = 60, heads = {50, 200}, tails = {10}, scale = 0.03,
   seeds = {1, 2}, worlds = {"narrow"}, min_items = 20})

-- {name, gradient} of each method that fits the catalogue, the mixture first.
local function methods(world)
  local P = world.items.rows
  local list = {o.mixture and {name = "mixture", gradient = function()
    return study.mixture(world.index, o)
  end} or nil}
  local function add(head, tail, products)
    local name = ("head %d + %d"):format(head, tail)
    if products ~= "float32" then name = name .. ", " .. products end
    list[#list + 1] = {name = name, gradient = function()
      return fopo.gradient.head_tail{head = head, tail = tail, products = products}
    end}
  end
  for _, head in ipairs(o.heads) do
    for _, tail in ipairs(o.tails) do
      for _, products in ipairs(o.products) do
        if head + tail <= P then add(head, tail, products) end
      end
    end
  end
  if o.auto then
    list[#list + 1] = {name = "by mass", gradient = function()
      return fopo.gradient.head_tail{}
    end}
  end
  return list
end

-- The exact share of the policy's mass in a head, over 64 contexts: a tail of all other items.
local function mass(world, pi, options)
  local rows, n = {}, world.split.train.n
  for i = 1, math.min(64, n) do rows[i] = (i - 1) * n // 64 + 1 end
  options.tail = world.items.rows - (options.head or options.k)
  if options.tail < 1 then return 1 end
  local x = world.split.train:contexts(world.items, {scale = pi.contexts})
  local _, stats = fopo.gradient.head_tail(options):compute(pi, x, rows,
                                                            fopo.reward.hits(world.split.train))
  return stats.head_mass
end

local columns = {"world", "items", "contexts", "method", "seed", "step", "head", "held", "own",
                 "ms_step", "reward", "low", "high", "expected"}
local results = {}

local function run(world, method, seed)
  local preset = o.preset ~= "none" and o.preset or nil
  local pi = fopo.policy.linear{items = world.items, preset = preset, seed = seed,
                                seen = "keep"}
  local gradient = method.gradient()
  local t = fopo.trainer{policy = pi, data = world.split.train, preset = "paper", batch = 32,
                         gradient = gradient,
                         optim = fopo.optim.adam{lr = o.lr}, seed = seed, valid = false}
  t:run{steps = o.steps, every = o.steps, view = false}
  local e = fopo.evaluate(pi, world.split.test, {expected = true, exclude = "none"})
  local head = t.history.head[#t.history.head] -- NaN unless it follows from the mass
  if head ~= head then head = gradient.head or 0 end
  local r = {world = world.name, items = world.items.rows, contexts = world.split.train.n,
             method = method.name, seed = seed, step = t.step, head = head,
             held = head > 0 and mass(world, pi, {head = head}) or 0,
             own = mass(world, pi, {index = world.index, k = math.min(256, world.items.rows)}),
             ms_step = 1e3 * t.seconds / t.step, reward = e.reward, low = e.low, high = e.high,
             expected = e.expected}
  results[#results + 1] = r
  io.stderr:write(("  %s, seed %d: %s: %.4f, expected %.4f, head %d holds %.4f, %.3f ms/step\n")
    :format(world.name, seed, method.name, r.reward, r.expected, r.head, r.held, r.ms_step))
end

local function of(world, method)
  return study.where(results, {world = world.name, method = method.name})
end

-- "+0.0012 +- 0.0004": the mean difference of a column from the mixture's, seed by seed.
local function against(rows, base, column)
  return ("%+.4f +- %.4f"):format(study.difference(rows, base, column))
end

local function show(world, list)
  local against_first = "against " .. list[1].name
  local shown = {{"method", "head", "held", "own", "reward", against_first, "expected",
                  against_first, "ms/step", "faster"}}
  local base = of(world, list[1])
  for _, method in ipairs(list) do
    local rows = of(world, method)
    local function mean(format, name) return format:format((study.mean_of(rows, name))) end
    shown[#shown + 1] = {method.name, mean("%.0f", "head"), mean("%.4f", "held"),
      mean("%.4f", "own"), mean("%.4f", "reward"), against(rows, base, "reward"),
      mean("%.4f", "expected"), against(rows, base, "expected"), mean("%.3f", "ms_step"),
      ("%.1f x"):format(study.mean_of(base, "ms_step") / study.mean_of(rows, "ms_step"))}
  end
  study.print(("%s: %d items, %d contexts, %d steps of 32, %d test sessions, seeds %s"):format(
    world.name, world.items.rows, world.split.train.n, o.steps, world.split.test.n,
    table.concat(o.seeds, ", ")), shown)
end

fopo.threads(o.threads)
study.each(o, methods, run, show)
print("kept in " .. study.keep("shared_head", columns, results))
