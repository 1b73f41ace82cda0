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
--   size              of the head
--   held              the exact share of the policy's mass in the head, for 64 contexts at the end
--   own               the same of each context's own 256 candidates of largest score
--   against method mixture    the mean difference of reward, seed by seed, and half its 95 %
--                     interval: the test sessions are the same
-- With mixture=no it is the best that the others are compared with.
--
-- Options (defaults):
--   preset=none       or paper: theta, temperature and contexts of the policies
--   singular=sqrt     or none, the paper's: the scale of the embeddings, as of fopo.embed.svd
--   heads=512,2048,8192 tails=64 auto=yes           the methods; mixture=yes
--   products=float32  or bfloat16: what the heads are multiplied in, whose rows are rounded so
--   steps=2000 lr=0.001 dim=100 k=256 samples=1000 epsilon=0.8 min_items=10
--   worlds=large      100,000 users, 790,000 items; users=, items=, clusters= change it
--   threads=2 scale=1 seeds=1,2,3,4,5,6
-- It is a sweep, which goes on where it was stopped; its rows and tables are in
-- runs/shared_head/WORLD (quick: runs/shared_head_quick/WORLD).
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

local function gradient_of(world, c)
  if c.method == "mixture" then return study.mixture(world.index, o) end
  return fopo.gradient.head_tail{head = c.head, tail = c.tail, products = c.products}
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

local function run(world, c)
  local pi = fopo.policy.linear{items = world.items, seed = c.seed, seen = "keep",
                                preset = o.preset ~= "none" and o.preset or nil}
  local gradient = gradient_of(world, c)
  local t = fopo.trainer{policy = pi, data = world.split.train, preset = "paper", batch = 32,
                         gradient = gradient, optim = fopo.optim.adam{lr = o.lr}, seed = c.seed,
                         valid = false}
  t:run{steps = o.steps, every = o.steps, view = false}
  local e = fopo.evaluate(pi, world.split.test, {expected = true, exclude = "none"})
  local size = t.history.head[#t.history.head] -- NaN unless it follows from the mass
  if size ~= size then size = gradient.head or 0 end
  return {reward = e.reward, low = e.low, high = e.high, expected = e.expected, size = size,
          held = size > 0 and mass(world, pi, {head = size}) or 0,
          own = mass(world, pi, {index = world.index, k = math.min(256, world.items.rows)}),
          ms_step = 1e3 * t.seconds / t.step, seconds = t.seconds}
end

local over = {{method = "head", head = o.heads, tail = o.tails, products = o.products}}
if #o.heads == 0 then over[1] = nil end
if o.mixture then table.insert(over, 1, {method = "mixture"}) end
if o.auto then over[#over + 1] = {method = "by mass"} end

fopo.threads(o.threads)
study.sweep("shared_head", o, {
  over = over, run = run, measures = {"reward", "expected", "size", "held", "own", "ms_step"},
  against = o.mixture and {method = "mixture"} or nil,
  title = function(world)
    return ("%s: %d items, %d contexts, %d steps of 32, %d test sessions"):format(world.name,
      world.items.rows, world.split.train.n, o.steps, world.split.test.n)
  end})
