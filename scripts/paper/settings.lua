-- What decides which method wins: how far the softmax leaves uniform. The paper's text does not say
-- the scale of the embeddings or the temperature; the authors' code takes the raw singular vectors,
-- no temperature, and a theta of 0.005 times standard normal. The ranking of the methods hangs on
-- them.
--
--   ./fopo scripts/paper/settings.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value]
--
-- Cost: two minutes at scale=small on two cores.
--
-- Raw singular vectors have norms of about sqrt(L / P), so the scores stay near 0 however long
-- Adam trains at the paper's rate: the softmax stays uniform over the whole catalogue ("items in
-- effect" is P), and the expected reward stays that of chance. The reward of the best item
-- rises all the same. REINFORCE then draws uniformly, as eps = 1 does; a mixture draws the likely
-- items too, and its estimate is the nearest to the gradient (alignment.lua).
--
-- With scale = "sqrt" the same steps sharpen the softmax. REINFORCE and the mixture are then near
-- to the gradient, and the uniform proposal is not: its draws hold little of the mass. But the
-- gradient raises the expected reward, not that of the best item, and less of it is left where the
-- softmax is sharp. The temperature turns one regime into the other: Adam's steps do not depend on
-- it, the sharpness does.
--
-- Options (scripts/paper/common.lua has those of all experiments):
--   cases=none:1,sqrt:1,sqrt:100          embedding:temperature
--   methods=uniform,mixture,adaptive,REINFORCE
--   dim=100 epochs=50 every=5             at full; lr is 1e-3 unless given
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local function plan(own)
  local list = {}
  for _, case in ipairs(own.cases) do
    local embedding, temperature = case:match("^(%a+):(.+)$")
    for _, seed in ipairs(own.seeds) do
      for _, method in ipairs(own.methods) do
        list[#list + 1] = paper.configuration(own, method, {embedding = embedding, seed = seed,
          temperature = tonumber(temperature)})
      end
    end
  end
  return list
end

local function label(row)
  local at = row.temperature ~= 1 and (" / %g"):format(row.temperature) or ""
  return ("%s%s, %s"):format(row.embedding, at, row.method)
end

return paper.experiment{
  name = "settings", title = "Scale and temperature",
  full = {cases = {"none:1", "sqrt:1", "sqrt:100"}, dim = 100, epochs = 50, every = 5, lr = 1e-3,
          methods = {"uniform", "mixture", "adaptive", "REINFORCE"}},
  small = {dim = 50, epochs = 10, every = 2},
  tiny = {dim = 8, epochs = 2, every = 1},
  settings = {"epochs", "every"},
  whole = true, -- all records have the expected reward and the items in effect
  keys = {paper.tables.key("scale", "embedding", "%s"),
          paper.tables.key("temperature", "temperature", "%g"), paper.tables.method},
  plan = plan, show = paper.by_epoch(label),
}
