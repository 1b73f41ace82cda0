-- Trainings by every estimator, in a world and with options that follow from a seed, for
-- tests/bits.py, which compares what this prints: a line "NAME DIGEST" for each.
--
--   fopo bits.lua SEED STEPS [NAME FILE]     with a name: that one alone, which goes on from FILE
--                                            to step STEPS, and then is kept there
local fopo = require "fopo"
local seed, steps, only, file = tonumber(arg[1]), tonumber(arg[2]), arg[3], arg[4]

-- A number of lo .. hi that is the same for the same seed and name.
local function pick(name, lo, hi)
  local h = seed * 2654435761
  for i = 1, #name do h = (h ~ name:byte(i)) * 16777619 & 0xffffffff end
  return lo + (h >> 7) % (hi - lo + 1)
end

local s = fopo.data.synthetic{users = pick("users", 300, 900), items = pick("items", 500, 4000),
                              clusters = 8, mean_items = 25, seed = seed}
  :sessions{min_items = 6, seed = seed}
local dim = pick("dim", 5, 140)

-- The embeddings are LAPACK's. BITS_ITEMS names a file that keeps them for a run with another one.
local function embeddings()
  return (fopo.embed.svd(s.train, {dim = dim, seed = 2, scale = "sqrt"}))
end
local path = os.getenv("BITS_ITEMS")
local kept = path and io.open(path)
if kept then
  kept:close()
elseif path then
  embeddings():save(path)
end
local items = path and fopo.array.load(path) or embeddings()
local index = fopo.index.norm(items)
local batch, k = pick("batch", 3, 70), pick("k", 8, 60)
local G, P, linear = fopo.gradient, fopo.proposal, fopo.policy.linear
local refresh, samples = pick("refresh", 2, 5), pick("samples", 50, 300)

local function theta(rows) return linear{items = items, theta = "random", seed = 4, rows = rows} end
local function mixture(o)
  o.index, o.k = index, k
  return G.snis{proposal = P.mixture(o), samples = samples}
end

local trainings = {
  exact = function() return G.exact{} end,
  reinforce = function() return G.reinforce{samples = samples} end,
  reinforce_mean = function() return G.reinforce{samples = samples, baseline = "mean"} end,
  uniform = function() return G.snis{samples = samples} end,
  mixture = function() return mixture{} end,
  stratified = function()
    return mixture{draws = "stratified", refresh = refresh, epsilon = 0.3}
  end,
  adaptive = function()
    return G.snis{proposal = P.adaptive{index = index, k = k}, samples = samples}
  end,
  head_tail = function() return G.head_tail{index = index, k = k, tail = pick("tail", 1, 90)} end,
  automatic = function() return G.head_tail{} end,
  shared_head = function() return G.head_tail{head = pick("head", 50, 300), tail = 40} end,
  bfloat16 = function() return G.head_tail{}, theta "bfloat16" end,
  mlp = function() return mixture{}, fopo.policy.mlp{items = items, hidden = {24}, seed = 4} end,
  items = function()
    return G.snis{samples = samples},
      linear{items = items:copy(), theta = "random", seed = 4, train_items = true}
  end,
}

local function digest(array)
  local h = 0xcbf29ce484222325
  for i = 1, array.rows do
    for j = 1, array.cols do
      h = (h ~ ("<I4"):unpack(("<f"):pack(array:get(i, j)))) * 0x100000001b3
    end
  end
  return ("%016x"):format(h)
end

print("dim", dim)
local names = {}
for name in pairs(trainings) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  if not only or only == name then
    local gradient, policy = trainings[name]()
    policy = policy or theta()
    local t = fopo.trainer{policy = policy, data = s.train, gradient = gradient, seed = 5,
                           optim = fopo.optim.adam{lr = 0.01}, batch = batch, device = "cpu",
                           valid = false}
    local known = file and io.open(file)
    if known then
      known:close()
      t:resume(file)
    end
    t:run{steps = steps - t.step, view = false}
    if file then t:save(file) end
    local learnt = name == "mlp" and policy:queries(s.test:contexts(items)) or policy:theta()
    print(name, digest(learnt), name == "items" and digest(policy:items()) or "")
  end
end
