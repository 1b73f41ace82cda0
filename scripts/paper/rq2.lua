-- RQ2: what does the mixture's eps change? Reward per epoch of eps in {0.2, 0.5, 0.8, 1} and of
-- REINFORCE: the paper's second figure.
--
--   ./fopo scripts/paper/rq2.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: about a minute at scale=small on two cores; at full size days, most of them REINFORCE's.
--
-- eps = 1 is the uniform proposal, which needs no index. The paper finds that a mixture with eps
-- below 1 is best (0.8 on Twitch, 0.5 on GoodReads), that uniform is far from it, and that
-- REINFORCE is no better than either.
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   epsilons=0.2,0.5,0.8,1 reinforce=yes dim=1000 epochs=50 every=1 (epochs from row to row)
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local o = paper.options(
  {epsilons = {0.2, 0.5, 0.8, 1}, reinforce = true, dim = 1000, epochs = 50, every = 1},
  {dim = 50, epochs = 40, every = 2},
  {epsilons = {0.5, 1}, dim = 8, epochs = 4})

local function plan(own)
  local list = {}
  local function add(method, epsilon, seed)
    list[#list + 1] = {method = method, dim = own.dim, embedding = own.embedding, lr = own.lr,
      temperature = own.temperature, samples = own.samples, epsilon = epsilon, seed = seed,
      k = method == "mixture" and own.k or nil, index = method == "mixture" and own.index or nil}
  end
  for _, seed in ipairs(own.seeds) do
    for _, epsilon in ipairs(own.epsilons) do
      add(epsilon == 1 and "uniform" or "mixture", epsilon, seed)
    end
    if own.reinforce then add("REINFORCE", nil, seed) end
  end
  return list
end

local function label(row)
  if row.method == "mixture" then return ("eps %g"):format(row.epsilon) end
  return row.method == "uniform" and "eps 1 (uniform)" or row.method
end

local function show(rows)
  local shown = {{"method", "reward", "expected reward", "items in effect", "ms/step"}}
  local last = paper.last(rows)
  local curves = paper.curves(rows, label)
  for _, curve in ipairs(curves) do
    local ends = {}
    for _, row in ipairs(last) do
      if label(row) == curve.name then ends[#ends + 1] = row end
    end
    shown[#shown + 1] = {curve.name, paper.cell(ends, "reward", "%.4f"),
      paper.cell(ends, "expected", "%.4f"), ("%.0f"):format((paper.over_seeds(ends, "effective"))),
      ("%.3f"):format((paper.over_seeds(ends, "ms_step")))}
  end
  return shown, curves
end

paper.run({name = "rq2", title = "RQ2, eps", settings = {"epochs", "every"}, plan = plan,
           show = show}, o)
