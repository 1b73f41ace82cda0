-- Beyond the paper: what this program adds, on the axes of RQ2. Reward by epoch, and the time of a
-- step, of
--
--   mixture          the paper's, eps = 0.8, its candidates searched exactly at every visit
--   HNSW             the same; the search of the paper, approximate, in a graph with M = 32
--   norms by mass    the same; candidates among so few of the largest norms as hold the mass
--   kept             the same; candidates kept for 5 visits of a context
--   stratified       the same; exactly eps S of the draws are uniform
--   adaptive         eps follows the share of the policy's mass outside the candidates
--   head and tail    the candidates enumerated, and K uniform draws of the others
--   shared head      one head for all contexts, its size set by mass, and 64 draws of the others
--   learnt items     the mixture; the items are learnt with theta
--   mlp              the mixture; a hidden layer of 64 tanh units between context and query
--   exact            no draws: the gradient summed over all items
--
--   ./fopo scripts/paper/beyond.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: two minutes at scale=small on two cores.
--
-- "against mixture" is the mean difference of the last reward, seed by seed, and its 95 % interval.
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   methods=...      the list above, without exact at full; at small those that a claim is of
--   dim=1000 epochs=50 every=1
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local all = {"mixture", "HNSW", "norms by mass", "kept", "stratified", "adaptive", "head and tail",
             "shared head", "learnt items", "mlp"}
local with_exact = table.move(all, 1, #all, 1, {})
with_exact[#with_exact + 1] = "exact"

local judged = {"mixture", "HNSW", "adaptive", "learnt items"} -- what claims.lua has a rule for

local function plan(own)
  return paper.grid(own, {"seed", own.seeds}, {"method", own.methods})
end

local function label(row) return row.method end

-- The last rewards less the mixture's, seed by seed.
local function differences(last, method)
  local list = {}
  for _, row in ipairs(paper.where(last, {method = method})) do
    local base = paper.where(last, {method = "mixture", seed = row.seed})[1]
    if base then list[#list + 1] = {difference = row.reward - base.reward} end
  end
  return list
end

local function show(rows)
  local last, notes = paper.last(rows), {}
  for _, method in ipairs(paper.values(last, "method")) do
    local list = method ~= "mixture" and differences(last, method) or {}
    if #list > 0 then
      notes[#notes + 1] = ("%s %s"):format(method, paper.cell(list, "difference", "%+.4f"))
    end
  end
  return paper.curves(rows, label), "against mixture: " .. table.concat(notes, "; ")
end

return paper.experiment{
  name = "beyond", title = "Beyond the paper",
  full = {methods = all, dim = 1000, epochs = 50, every = 1},
  small = {methods = judged, dim = 50, epochs = 20, every = 2},
  tiny = {methods = with_exact, dim = 8, epochs = 2},
  whole = true, settings = {"epochs", "every"},
  keys = {{"method", label}},
  plan = plan, show = show,
}
