-- The main job on a world made here: embed, index, and learn a policy with the paper's three
-- gradient estimators, for the same number of steps from the same start.
--
--   ./fopo scripts/demo.lua [items [steps]]          (make demo; about a minute on two cores)
local fopo = require "fopo"

local P = tonumber(arg[1]) or 100000
local steps = tonumber(arg[2]) or 300
local began = fopo.clock()
local function say(...) print(("%6.1f s  "):format(fopo.clock() - began) .. string.format(...)) end

local d, world = fopo.data.synthetic{users = 20000, items = P, seed = 1}
say("%s", d:describe())
local s = d:sessions{min_items = 20, seed = 1}
say("%s", s:describe())
local items, singular = fopo.embed.svd(s.train, {dim = 32})
say("embeddings [%d, %d], singular values %.3g to %.3g", items.rows, items.cols, singular[1],
    singular[#singular])
local ix = fopo.index.hnsw(items)
say("%s", ix:describe())

local proposal = fopo.proposal.mixture{index = fopo.index.norm(items), k = 256, epsilon = 0.8}
local methods = {
  {"REINFORCE", fopo.gradient.reinforce{samples = 1000, baseline = "mean"}},
  {"SNIS, uniform", fopo.gradient.snis{proposal = fopo.proposal.uniform(), samples = 1000}},
  {"SNIS, mixture", fopo.gradient.snis{proposal = proposal, samples = 1000}},
}

local start = fopo.policy.linear{items = items, seed = 1}
local expected = world:best(s.test)
local runs = {{name = "start", evaluation = fopo.evaluate(start, s.test, {index = ix})}}
local curves = {}
for _, method in ipairs(methods) do
  local pi = fopo.policy.linear{items = items, seed = 1}
  local t = fopo.trainer{policy = pi, data = s.train, gradient = method[2],
                         optim = fopo.optim.adam{lr = 1e-2}, batch = 32, seed = 1}
  t:run{steps = steps, view = false}
  local e = fopo.evaluate(pi, s.test, {index = ix})
  say("%-14s %d steps in %.1f s, reward on the test split %.4f", method[1], t.step, t.seconds, e.reward)
  runs[#runs + 1] = {name = method[1], trainer = t, evaluation = e}
  curves[#curves + 1] = {name = method[1], x = t.history.seconds, y = t.history.reward}
end
runs[#runs + 1] = {name = "best possible", evaluation = {reward = expected}}

print()
print(fopo.report.runs(runs))
print()
curves.title, curves.xlabel, curves.ylabel = "expected reward while learning", "seconds", "reward"
curves.logx = true
fopo.plot(curves)
