-- Embeds, indexes and learns a policy with each of the paper's gradient estimators, for the same
-- number of steps from the same start, on synthetic data.
--
--   ./fopo scripts/examples/demo.lua [items [steps]]        (make demo)
--
-- Cost: about 30 seconds on two cores. Quick: 3000 5
-- Options (defaults): items (100000), steps (600).
local fopo = require "fopo"
local P = tonumber(arg[1]) or 100000
local steps = tonumber(arg[2]) or 600

local began = fopo.clock()
local function say(...) print(("%5.1f s  "):format(fopo.clock() - began) .. string.format(...)) end

local d, world = fopo.data.synthetic{users = 20000, items = P, seed = 1}
say("%s", d:describe())
local s = d:sessions{min_items = 20, seed = 1}
say("%s", s:describe())
local items = fopo.embed.svd(s.train, {dim = 64})
say("embeddings [%d, %d]", items.rows, items.cols)
local graph, norm = fopo.index.hnsw(items), fopo.index.norm(items)
say("%s", graph:describe())

local mixture = fopo.proposal.mixture{index = norm, k = 256, epsilon = 0.8}
local runs = fopo.experiment.race{
  split = s, items = items, index = graph, steps = steps, batch = 32, lr = 1e-2,
  methods = {
    {"REINFORCE", fopo.gradient.reinforce{samples = 1000, baseline = "mean"}},
    {"SNIS, uniform", fopo.gradient.snis{samples = 1000}},
    {"SNIS, mixture", fopo.gradient.snis{samples = 1000, proposal = mixture}},
    {"head and tail", fopo.gradient.head_tail{}}, -- the default: one head for all contexts
  },
  on_run = function(run)
    say("%s: %d steps in %.1f s of training", run.name, run.trainer.step, run.trainer.seconds)
  end,
}

-- What one would try first of weights between items, as it is and trained.
local auto, rows = fopo.policy.auto{data = s.train, starts = {"cosine"}, print = false}
say("policy.auto: %s", rows.chosen.name)

-- Item-kNN needs no training; EASE, whose cost grows with the cube of the users, takes minutes.
local knn = fopo.baseline.item_knn{data = s.train}
table.insert(runs, 3, {name = "item_knn", baseline = knn, evaluation = fopo.evaluate(knn, s.test)})

local curves = fopo.experiment.curves(runs)
local expected = world:best(s.test)
local earned = fopo.evaluate(auto, s.test)
runs[#runs + 1] = {name = "policy.auto", -- without contexts: not one that the others must beat
                   evaluation = {reward = earned.reward, low = earned.low, high = earned.high,
                                 expected = earned.expected, ndcg = earned.ndcg}}
runs[#runs + 1] = {name = "best possible", evaluation = {reward = expected}}
print("\n" .. fopo.report.runs(runs) .. "\n")
curves.logx = true
fopo.plot(curves)
