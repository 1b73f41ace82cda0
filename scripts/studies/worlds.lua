-- Worlds that are hard for a head of large norms: what each estimator earns there, beside the exact
-- gradient, in the same seconds of CPU time.
--
--   ./fopo scripts/studies/worlds.lua [quick] [name=value ...]
--
-- Cost: `seconds` for each method in each world, and making the worlds: ten minutes.
--
--   flat    the paper's start on raw singular vectors: the softmax is uniform, so no few items hold
--           the policy
--   unit    embeddings scaled to length 1: norms tell nothing
--   rotate  `decoys` items of large norm where the start looks, and users who take others
--   niche   half of the users take items of a third of the others' norm
--
--   held    the share of the policy in the norms in use by the last probe
--
-- Options (defaults):
--   worlds=flat,unit,rotate,niche methods=exact,reinforce,head_tail,mixture,adaptive
--   items=50000 users=20000 decoys=400 dim=32 lr=0.001
--   seconds=10                 of CPU time, one thread; 0: `steps` steps instead
--   steps=1000 seed=1
-- It is a sweep, which goes on where it was stopped; its rows and tables are in runs/worlds/WORLD
-- (quick: runs/worlds_quick/WORLD).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {worlds = {"flat", "unit", "rotate", "niche"},
   methods = {"exact", "reinforce", "head_tail", "mixture", "adaptive"},
   items = 50000, users = 20000, decoys = 400, dim = 32, lr = 0.001, seconds = 10, steps = 1000,
   seed = 1},
  {items = 12000, users = 1500, decoys = 400, dim = 24, lr = 0.003, seconds = 0, steps = 1200})

-- ---- the worlds: {split, items, options of the policy} ----

local function drawn()
  return fopo.data.synthetic{users = o.users, items = o.items, clusters = o.items // 100,
                             tastes = 4, mean_items = 30, seed = 11}
end

local function split(d)
  return d:sessions{min_items = 10, valid = 0, test = 0.3, seed = 5}
end

-- The rows of a, scaled to length 1; rows of zeros stay.
local function unit_norm(a)
  local rows = a:totable()
  for _, row in ipairs(rows) do
    local sum = 0
    for _, x in ipairs(row) do sum = sum + x * x end
    for l, x in ipairs(row) do row[l] = sum > 0 and x / math.sqrt(sum) or 0 end
  end
  return fopo.array.from(rows)
end

local make = {}

function make.flat()
  local s = split(drawn())
  return s, fopo.embed.svd(s.train, {dim = o.dim, scale = "none"}), {preset = "paper"}
end

function make.unit()
  local s = split(drawn())
  return s, unit_norm(fopo.embed.svd(s.train, {dim = o.dim})), {}
end

-- Sessions of 20 items of one of n_clusters clusters, each taken from the cluster's first `most`
-- items; every item is in the catalogue. Item i of the names is in cluster i mod n_clusters.
local function by_cluster(n_clusters, most)
  local path = os.tmpname() .. ".csv"
  local file = assert(io.open(path, "w"))
  file:write("user,item\n")
  for i = 0, o.items - 1 do file:write(("all%d,i%d\n"):format(i % 50, i)) end
  local random = fopo.array.randn(o.users, 20, 7)
  for u = 1, o.users do
    for k = 1, 20 do
      local at = math.floor(math.abs(random:get(u, k)) * 1e4) % most
      file:write(("u%d,i%d\n"):format(u, u % n_clusters + n_clusters * at))
    end
  end
  file:close()
  local d = fopo.data.read(path, {user = "user", item = "item"})
  os.remove(path)
  return d
end

-- An embedding of each item of d by row_of(i, row), i its number and row noise.
local function embed(d, row_of)
  local rows = fopo.array.randn(d.n_items, o.dim, 3):totable()
  for a, row in ipairs(rows) do row_of(tonumber(d:item_name(a):sub(2)), row) end
  return fopo.array.from(rows)
end

local CLUSTERS = 20
local SHARP = {temperature = 0.15} -- the start is sure of itself

-- The decoys of a cluster lie where its users look, three times as long, and in one direction of
-- their own, which is what can be learnt.
function make.rotate()
  local d = by_cluster(CLUSTERS, 60)
  return split(d), embed(d, function(i, row)
    local decoy = i >= o.items - o.decoys
    for l, x in ipairs(row) do row[l] = 0.08 * x * (decoy and 3 or 1) end
    row[i % CLUSTERS + 1] = row[i % CLUSTERS + 1] + (decoy and 2.4 or 1)
    if decoy then row[o.dim] = row[o.dim] + 1.8 end
  end), SHARP
end

function make.niche()
  local d = by_cluster(CLUSTERS, 60)
  return split(d), embed(d, function(i, row)
    local c = i % CLUSTERS
    for l, x in ipairs(row) do row[l] = 0.08 * x end
    row[c + 1] = row[c + 1] + 1
    for l, x in ipairs(row) do row[l] = x * (c % 2 == 0 and 1 / 3 or 1) end
  end), {}
end

-- ---- the methods ----

local g = fopo.gradient
local methods = {
  exact = g.exact,
  reinforce = function() return g.reinforce{baseline = "mean"} end,
  head_tail = function() return g.head_tail{} end,
  mixture = function() return g.snis{proposal = fopo.proposal.mixture{}} end,
  adaptive = function() return g.snis{proposal = fopo.proposal.adaptive{}} end,
}

local function run(world, c)
  local policy = {items = world.items, data = world.split.train, seed = o.seed}
  for key, value in pairs(world.options) do policy[key] = value end
  local pi = fopo.policy.linear(policy)
  local t = fopo.trainer{policy = pi, data = world.split.train, gradient = methods[c.method](),
                         valid = false, optim = fopo.optim.adam{lr = o.lr}, seed = o.seed,
                         device = "cpu"}
  local spent, slice = 0, o.seconds > 0 and 20 or o.steps
  repeat
    local start = os.clock()
    t:run{steps = slice, every = slice, view = false}
    spent = spent + os.clock() - start
  until spent >= o.seconds
  local e = fopo.evaluate(pi, world.split.test, {expected = true, expected_contexts = 1000})
  local h, n = t.history, #t.history.step
  local row = {steps = t.step, ms_step = 1e3 * spent / t.step, expected = e.expected,
               reward = e.reward, low = e.low, high = e.high, said = #t.notes}
  for _, name in ipairs{"head", "held", "head_mass"} do -- NaN where a method has none
    if h[name][n] == h[name][n] then row[name] = h[name][n] end
  end
  return row
end

fopo.threads(1)
study.sweep("worlds", o, {
  over = {method = o.methods, seed = o.seed},
  measures = {"expected", "reward", "steps", "ms_step", "head", "held", "head_mass", "said"},
  run = run, world = function(name)
    local s, items, options = make[name]()
    return {name = name, split = s, items = items, options = options}
  end})
