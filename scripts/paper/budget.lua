-- Reward for a fixed time: the paper's third figure. The uniform proposal, which is the fastest,
-- trains for `epochs`; its mean time over the seeds is what the mixtures and REINFORCE get. The
-- paper finds REINFORCE the worst and a well-chosen mixture slightly above uniform.
--
--   ./fopo scripts/paper/budget.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: 5 times the time of uniform, for each seed: half a minute at scale=small on two cores.
--
-- How far a method comes in the time depends on the machine; its reward after a step does not.
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   epsilons=0.2,0.5,0.8 dim=1000 epochs=50     epochs of uniform
--   parts=20                                    measurements in that time
--   clock=wall                                  or cpu: seconds of the processor, of one thread
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local function plan(own)
  local list = {}
  for _, seed in ipairs(own.seeds) do
    list[#list + 1] = paper.configuration(own, "uniform", {seed = seed})
  end
  for _, seed in ipairs(own.seeds) do
    for _, epsilon in ipairs(own.epsilons) do
      list[#list + 1] = paper.configuration(own, "mixture", {epsilon = epsilon, seed = seed})
    end
    list[#list + 1] = paper.configuration(own, "REINFORCE", {seed = seed})
  end
  return list
end

-- The seconds that uniform took, in the mean over its runs.
local function allowed(rows)
  return (paper.over_seeds(paper.last(paper.where(rows, {method = "uniform"})), "seconds"))
end

local function train(world, c, own, keep, said, rows)
  local limits = {epochs = own.epochs, every = own.epochs / own.parts}
  if c.method ~= "uniform" then
    local seconds = allowed(rows)
    limits = {seconds = seconds, every_seconds = seconds / own.parts}
  end
  return paper.methods.train(world, c, setmetatable(limits, {__index = own}), keep, said)
end

-- The rows are of any time; each is moved to the nearest of the measurements' times.
local function show(rows, own)
  local part = allowed(rows) / own.parts
  for _, row in ipairs(rows) do
    row.time = math.max(1, math.floor(row.seconds / part + 0.5)) * part
  end
  local curves = paper.curves(rows, paper.by_epsilon, "time")
  curves.xlabel = "seconds of training"
  return curves, ("Each method trains for %.1f seconds."):format(allowed(rows))
end

local values = table.move(paper.tables.by_epoch, 1, #paper.tables.by_epoch, 1, {})
values[#values + 1] = paper.tables.ms

return paper.experiment{
  name = "budget", title = "Reward for a fixed time",
  full = {epsilons = {0.2, 0.5, 0.8}, dim = 1000, epochs = 50, parts = 20, clock = "wall"},
  small = {dim = 50, epochs = 40, clock = "cpu"},
  tiny = {epsilons = {0.5}, dim = 8, epochs = 4, parts = 4},
  settings = {"clock", "epochs", "parts"},
  keys = {paper.tables.method}, values = values,
  plan = plan, train = train, show = show,
}
