-- RQ2: what does the mixture's eps change? Reward by epoch of eps in {0.2, 0.5, 0.8, 1} and of
-- REINFORCE: the paper's second figure.
--
--   ./fopo scripts/paper/rq2.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: about a minute at scale=small on two cores; at full size days, most of them REINFORCE's.
--
-- eps = 1 is the uniform proposal, which needs no index. The paper finds that a mixture with eps
-- below 1 is best (0.8 on Twitch, 0.5 on GoodReads), that uniform is far from it, and that
-- REINFORCE is no better than either. alignment.lua says why.
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   epsilons=0.2,0.5,0.8,1 reinforce=yes dim=1000 epochs=50 every=1 (epochs from row to row)
--   lrs=                    of each method; that of lr= if none is given
--   reinforce_epochs=0      of REINFORCE, where its steps take too long for as many; 0: as many
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local function plan(own)
  local list = {}
  local function add(method, given) list[#list + 1] = paper.configuration(own, method, given) end
  for _, seed in ipairs(own.seeds) do
    for _, lr in ipairs(#own.lrs > 0 and own.lrs or {own.lr}) do
      for _, epsilon in ipairs(own.epsilons) do
        add(epsilon == 1 and "uniform" or "mixture", {epsilon = epsilon, seed = seed, lr = lr})
      end
      if own.reinforce then add("REINFORCE", {seed = seed, lr = lr}) end
    end
  end
  return list
end

local function train(world, c, own, ...)
  local epochs = c.method == "REINFORCE" and own.reinforce_epochs > 0 and own.reinforce_epochs
  return paper.methods.train(world, c, setmetatable({epochs = epochs or own.epochs},
                                                    {__index = own}), ...)
end

return paper.experiment{
  name = "rq2", title = "RQ2, eps",
  full = {epsilons = {0.2, 0.5, 0.8, 1}, reinforce = true, dim = 1000, epochs = 50, every = 1,
          reinforce_epochs = 0, lrs = {}},
  small = {dim = 50, epochs = 20, every = 1},
  tiny = {epsilons = {0.5, 1}, dim = 8, epochs = 4},
  whole = true, settings = {"epochs", "every"},
  keys = {paper.tables.method, paper.tables.key("lr", "lr", "%g")},
  plan = plan, train = train, show = paper.by_epoch(paper.by_epsilon),
}
