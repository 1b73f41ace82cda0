-- RQ0: what does it cost to fix the item embeddings? REINFORCE with its items fixed and with its
-- items learnt from the same start, for L in {10, 100}: the paper's second table.
--
--   ./fopo scripts/paper/rq0.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: a minute at scale=small on two cores; days at full size.
--
--   rP   reward after training, learnt / fixed (above 1: learning the items helps). The paper has
--        0.54 and 0.40 on Twitch, 0.83 and 0.71 on GoodReads, for L = 10 and 100.
--   rS   time of training, learnt / fixed (above 1: it costs time). The paper has 1.00 and 1.01.
--
-- Contexts are made of the SVD's items in both. REINFORCE without a baseline is the paper's: its
-- gradient touches every item, so each of its steps updates P x L numbers. With a baseline, and for
-- the mixture, only the rows drawn are updated.
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   dims=10,100 methods=REINFORCE      also "REINFORCE, baseline", mixture, uniform
--   epochs=50                          of training
--   clock=wall                         or cpu: the time of the processor, of one thread
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local function plan(own)
  return paper.grid(own, {"dim", own.dims}, {"seed", own.seeds}, {"method", own.methods},
                    {"learnt", {"no", "yes"}})
end

-- {rP =, rS =, seed =} of each seed of a method and dim.
local function ratios(rows)
  local list = {}
  for _, learnt in ipairs(paper.where(rows, {learnt = "yes"})) do
    local fixed = paper.where(rows, {learnt = "no", seed = learnt.seed})[1]
    list[#list + 1] = {seed = learnt.seed, rP = learnt.reward / fixed.reward,
                       rS = learnt.seconds / fixed.seconds}
  end
  return list
end

local APART = 1.03 -- the factor between the points of two methods

local function show(rows)
  local notes = {}
  local curves = {xlabel = "L", ylabel = "rP, reward learnt / fixed", style = "points",
                  logx = true}
  for _, method in ipairs(paper.values(rows, "method")) do
    local all = {}
    for _, dim in ipairs(paper.values(rows, "dim")) do
      local r = ratios(paper.where(rows, {dim = dim, method = method}))
      notes[#notes + 1] = ("L = %d, %s: rP %s, rS %s"):format(dim, method,
        paper.cell(r, "rP", "%.2f"), paper.cell(r, "rS", "%.2f"))
      for _, one in ipairs(r) do
        one.dim = dim * APART ^ (#curves - 1)
        all[#all + 1] = one
      end
    end
    curves[#curves + 1] = paper.curve(method, all, "dim", "rP")
  end
  return curves, table.concat(notes, "\n")
end

return paper.experiment{
  name = "rq0", title = "RQ0, fixed items",
  full = {dims = {10, 100}, methods = {"REINFORCE"}, epochs = 50,
          clock = "wall"},
  small = {dims = {10, 50}, epochs = 20, clock = "cpu", seeds = {1, 2, 3}},
  tiny = {dims = {6}, methods = {"REINFORCE", "REINFORCE, baseline", "mixture"}, epochs = 2},
  settings = {"clock", "epochs"},
  keys = {paper.tables.L, paper.tables.method, paper.tables.key("items learnt", "learnt", "%s")},
  plan = plan, show = show,
}
