-- What the dense part of a hybrid earns: as it starts, trained, and for all items.
--
--   ./fopo scripts/studies/dense.lua FILE ... [quick] [name=value ...]
--
-- Cost: some minutes for a file of 50,000 interactions.
--
-- policy.neighbours with a dense part over items by svd, normalised by degree, in these versions:
--
--   items              t x . beta_a
--   all                the same of all items (scored = "all")
--   items learnt       items, with the scalars learnt from there
--   linear, mlp        a policy that was trained before (in turn), scalars as they start
--   .. together        the same, learnt with the scalars, by a rate of its own, from there
--
-- Each is judged on the valid part with seen items left out, at the t of `shares` where its NDCG@20
-- is largest there, which is as kind to each; differences are from items, paired over all contexts
-- of the seeds, with 95 % intervals.
--
-- Options (defaults): start=ease dim=100 min_items=10 epochs=20 (of policies; together: 5)
--   shares=0,1,4,15,50 seeds=11,12,13 n=0 (weights of an item, as of policy.neighbours)
--   only= (the first so many versions; 0: all)
local fopo = require "fopo"
local native = require "fopo.native"
local neighbours = require "fopo.neighbours"
package.path = (arg[0]:match("^(.*/)") or "./") .. "../tools/?.lua;" .. package.path
local script = require "script"

local o, files = script.options(
  {start = "ease", dim = 100, min_items = 10, epochs = 20, shares = {0, 1, 4, 15, 50},
   seeds = {11, 12, 13}, n = 0, only = 0},
  {epochs = 1, dim = 8, shares = {4}, seeds = {11}})
if #files == 0 then script.misuse("which files?") end

local LIST_EPOCHS = 5
local RATE = 1e-3 -- of the parameters of a dense policy that are learnt with the scalars

local function embed(s)
  return fopo.embed.svd(s.train, {dim = o.dim, normalise = "degree", power = 0})
end

local function hybrid(s, options)
  options.data, options.start, options.n = s.train, o.start, o.n
  return fopo.policy.neighbours(options)
end

-- A linear policy or a network, trained.
local function dense(s, kind)
  local items = embed(s)
  local pi = fopo.policy.linear{items = items, contexts = "degree", data = s.train}
  if kind == "mlp" then
    pi = fopo.policy.mlp{items = items, hidden = {2 * o.dim}, contexts = "degree", data = s.train,
                         temperature = pi.temperature}
  end
  fopo.trainer{policy = pi, data = s.train, valid = false}:run{epochs = o.epochs, view = false}
  return pi
end

local function at(pi, t)
  local theta = pi:parameters()
  theta.dense:set(1, 1, t)
  pi:set_parameters(theta)
  return pi
end

-- The policy, and what trains it.
local function learnt(s, pi, rates)
  return pi, function()
    fopo.trainer{policy = pi, data = s.train, valid = false,
                 optim = fopo.optim.adagrad{lr = 0.05, lr_of = rates}}
      :run{epochs = LIST_EPOCHS, view = false}
  end
end

local function together(s, pi)
  local learn, rates = {"c0", "c1", "log_tau", "dense"}, {}
  for name in pairs(pi:parameters()) do
    learn[#learn + 1], rates[name] = name, RATE
  end
  return learnt(s, hybrid(s, {dense = pi, learn = learn}), rates)
end

-- {name, make(split)}, which returns the policy and what trains it from each t, or nil.
local versions = {
  {"items", function(s) return hybrid(s, {items = embed(s), contexts = "degree"}) end},
  {"all", function(s)
    return hybrid(s, {items = embed(s), contexts = "degree", scored = "all"})
  end},
  {"items learnt", function(s)
    return learnt(s, hybrid(s, {items = embed(s), contexts = "degree"}))
  end},
  {"linear", function(s) return hybrid(s, {dense = dense(s, "linear")}) end},
  {"mlp", function(s) return hybrid(s, {dense = dense(s, "mlp")}) end},
  {"linear together", function(s) return together(s, dense(s, "linear")) end},
  {"mlp together", function(s) return together(s, dense(s, "mlp")) end},
}

-- By place among the shares {reward = list, ndcg = list}, one number a context.
local function judge(found, s, make)
  local pi, train = make(s)
  local theta = pi:theta()
  for i, t in ipairs(o.shares) do
    at(pi:set_theta(theta) or pi, t)
    if train then train() end
    found[i] = found[i] or {reward = {}, ndcg = {}}
    neighbours.measure(found[i], pi, {s.valid}, native.reward_hits(s.valid))
  end
end

for _, path in ipairs(files) do
  local d, base = fopo.data.read(path), nil
  print(path)
  for i, version in ipairs(versions) do
    local found, best = {}, nil
    if o.only > 0 and i > o.only then break end
    for _, seed in ipairs(o.seeds) do
      local s = d:sessions{min_items = o.min_items, test = 0.2, valid = 0.1, seed = seed}
      judge(found, s, version[2])
    end
    for place, one in ipairs(found) do
      one.t, one.reward = o.shares[place], fopo.array.from{one.reward}
      one.ndcg = fopo.array.from{one.ndcg}
      if not best or one.ndcg:mean() > best.ndcg:mean() then best = one end
    end
    base = base or best
    local line = {("%-16s t %-4g"):format(version[1], best.t)}
    for _, name in ipairs{"reward", "ndcg"} do
      line[#line + 1] = ("%s %.4f, %s"):format(name, best[name]:mean(),
                                               script.difference(best[name], base[name]))
    end
    print(table.concat(line, "  "))
  end
end
