-- RQ0: what does it cost to fix the item embeddings? The paper's question, for REINFORCE and SNIS.
--
--   ./fopo scripts/studies/rq0.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: some minutes.
--
-- Worlds: the synthetic one called narrow (20,000 items at scale=1) and each FILE that
-- fopo.data.read knows. From the same start and on the same contexts, a policy is trained with its
-- items fixed and with its items learnt (train_items = true), both by Adam; the contexts are made
-- of the SVD's items in both.
--
--   rP   reward after training, learnt / fixed, of the best item on the test sessions (above 1:
--        learning the items helps)
--   rS   seconds of training, learnt / fixed (above 1: it costs time); a rough ratio, which depends
--        on the machine's load
--
-- REINFORCE without a baseline is the paper's. Its gradient touches every item, so each of its
-- steps updates P x L numbers; with a baseline, and for SNIS, only the rows drawn are updated
-- (lazily).
--
-- Options (defaults):
--   steps=600 lr=0.01 items_lr=0 (0: lr) dims=10,100 index_refresh=100    of the training
--   k=256 samples=1000 epsilon=0.8                                        of the estimators
--   embedding=sqrt       or none (raw singular vectors, as the paper's), sigma
--   scale=0.25 (of the synthetic world's size) seeds=1,2,3 worlds=narrow
-- Means over the seeds with their standard errors are printed; all rows are kept in runs/rq0.csv
-- (quick: runs/rq0_quick.csv).
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o = study.options(
  {steps = 600, lr = 0.01, items_lr = 0, dims = {10, 100}, k = 256, samples = 1000, epsilon = 0.8,
   index_refresh = 100, embedding = "sqrt", scale = 0.25, seeds = {1, 2, 3}, worlds = {"narrow"}},
  {steps = 20, dims = {6}, k = 20, samples = 50, scale = 0.03, seeds = {1}})

local methods = {
  {name = "REINFORCE", gradient = function()
    return fopo.gradient.reinforce{samples = o.samples}
  end},
  {name = "REINFORCE, baseline", gradient = function()
    return fopo.gradient.reinforce{samples = o.samples, baseline = "mean"}
  end},
  {name = "SNIS", index = true, gradient = function(items)
    local k = math.min(o.k, items.rows)
    local q = fopo.proposal.mixture{index = fopo.index.norm(items), k = k, epsilon = o.epsilon}
    return fopo.gradient.snis{samples = o.samples, proposal = q}
  end},
}

-- Reward and seconds of one run.
local function train(world, method, learnt, seed)
  local pi = fopo.policy.linear{items = world.items, preset = "paper", seed = seed,
                                train_items = learnt}
  local items_lr = o.items_lr > 0 and o.items_lr or nil
  local t = fopo.trainer{policy = pi, data = world.split.train, valid = false,
                         batch = 32, seed = seed,
                         gradient = method.gradient(pi:items()),
                         optim = fopo.optim.adam{lr = o.lr, items_lr = items_lr},
                         index_refresh = learnt and method.index and o.index_refresh or 0}
  t:run{steps = o.steps, view = false}
  return fopo.evaluate(pi, world.split.test).reward, t.seconds
end

local columns = {"world", "items", "dim", "method", "seed", "reward_fixed", "reward_learnt", "rP",
                 "seconds_fixed", "seconds_learnt", "rS"}
local results = {}

-- The cell of a column over the seeds: the mean, and its standard error.
local function cell(rows, column, form)
  local mean, error = study.mean_of(rows, column)
  return (form .. " +- " .. form):format(mean, error)
end

local function look_at(name)
  local shown = {{"L", "method", "reward, fixed", "reward, learnt", "rP", "rS"}}
  local world
  for _, dim in ipairs(o.dims) do
    world = study.world(name, {dim = dim, scale = o.scale})
    world.items = fopo.embed.svd(world.split.train, {dim = dim, scale = o.embedding})
    for _, method in ipairs(methods) do
      local rows = {}
      for _, seed in ipairs(o.seeds) do
        local r0, t0 = train(world, method, false, seed)
        local r1, t1 = train(world, method, true, seed)
        local row = {world = world.name, items = world.items.rows, dim = dim, method = method.name,
                     seed = seed, reward_fixed = r0, reward_learnt = r1, rP = r1 / r0,
                     seconds_fixed = t0, seconds_learnt = t1, rS = t1 / t0}
        rows[#rows + 1], results[#results + 1] = row, row
      end
      shown[#shown + 1] = {tostring(dim), method.name, cell(rows, "reward_fixed", "%.4f"),
                           cell(rows, "reward_learnt", "%.4f"), cell(rows, "rP", "%.2f"),
                           cell(rows, "rS", "%.1f")}
    end
  end
  study.print(("%s: %d items (%s), %d steps, lr %g, seeds %s"):format(world.name,
    world.items.rows, o.embedding, o.steps, o.lr, table.concat(o.seeds, ", ")), shown)
end

for _, name in ipairs(o.worlds) do look_at(name) end
print("kept in " .. study.csv("rq0", columns, results))
