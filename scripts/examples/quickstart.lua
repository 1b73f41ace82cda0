-- From a file of interactions to a trained policy: estimators in a race, then policies.
--
--   ./fopo scripts/examples/quickstart.lua FILE [dim [steps]]
--
-- Cost: fifteen seconds for datasets/sample.csv. Quick: datasets/sample.csv 8 5
-- Options (defaults): dim (64) of the embeddings, steps (2000).
-- FILE is in any format that fopo.data.read knows: user,item pairs with or without a header, lists
-- "user item item ...", scipy's .npz, MatrixMarket; also compressed as .gz.
local fopo = require "fopo"
local path = arg[1]
if not path then
  io.stderr:write("usage: ./fopo scripts/examples/quickstart.lua FILE [dim [steps]]\n")
  os.exit(2)
end
local dim, steps = tonumber(arg[2]) or 64, tonumber(arg[3]) or 2000

local d = fopo.data.read(path)
print(d:describe())
local s = d:sessions{min_items = 10, test = 0.2, seed = 1}
print(s:describe())
local items = fopo.embed.svd(s.train, {dim = dim})
local index = fopo.index.norm(items)
print(index:describe())

local mixture = fopo.proposal.mixture{index = index, k = 256, epsilon = 0.8}
local runs = fopo.experiment.race{
  split = s, items = items, index = index, steps = steps, batch = 32,
  methods = {
    {"REINFORCE", fopo.gradient.reinforce{samples = 1000, baseline = "mean"}},
    {"SNIS, uniform", fopo.gradient.snis{samples = 1000}},
    {"SNIS, mixture", fopo.gradient.snis{samples = 1000, proposal = mixture}},
    {"head and tail", fopo.gradient.head_tail{index = index, k = 256, tail = 64}},
  },
  on_run = function(run)
    print(("%s: %d steps in %.1f s"):format(run.name, run.trainer.step, run.trainer.seconds))
  end,
}
for i, baseline in ipairs{fopo.baseline.item_knn{data = s.train},
                          fopo.baseline.ease{data = s.train}} do
  table.insert(runs, 2 + i, {name = baseline.kind, baseline = baseline,
                             evaluation = fopo.evaluate(baseline, s.test)})
end
print("\n" .. fopo.report.runs(runs) .. "\n")
local curves = fopo.experiment.curves(runs)
curves.logx = true
fopo.plot(curves)

-- What one would try first, measured, and the best of it: what it earns on the test users, and
-- recommends to the first of them, without what they took.
local best, rows = fopo.policy.auto{data = s.train}
local earned = fopo.evaluate(best, s.test)
print(("\n%s, on the test users\n%s\n"):format(rows.chosen.name, earned))
for n = 1, math.min(3, s.test.n) do print(best:recommend(s.test:user(n), 5)) end
