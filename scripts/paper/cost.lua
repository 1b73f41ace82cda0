-- What do candidates and draws cost? Time of a step of the mixture by the number K of candidates
-- and by the number S of draws, and the parts of the step that it goes to. The paper finds that
-- neither changes the time much, on a GPU, where candidates and draws run side by side.
--
--   ./fopo scripts/paper/cost.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: half a minute at scale=small.
--
-- Timed as in rq1.lua, from theta's random start. The parts are shares of the wall time, by the
-- median over the records of a run, applied to the time of a step: search (of the candidates),
-- propose (the draws and their probabilities), reward, gradient, update (of theta).
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   ks=32,64,128,256,512    at S = samples
--   draws=50,200,500,1000   at K = k
--   dim=1000 epsilon=0.8 seconds=20
--   clock=cpu               the time of the processor, of one thread; or wall
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")
local native = require "fopo.native"
local script = require "script"

local function column(phase) return phase.name .. "_ms" end

local values = {paper.tables.ms}
for i, phase in ipairs(native.phases()) do
  values[i + 1] = paper.tables.mean(phase.name, column(phase), "%.3g")
end

-- K with the usual S, then S with the usual K, where that is not the same once more.
local function plan(own)
  local list = paper.mixtures(own, {"k", own.ks})
  for _, c in ipairs(paper.mixtures(own, {"samples", own.draws})) do
    local known = false
    for _, k in ipairs(own.ks) do known = known or c.samples == own.samples and k == c.k end
    if not known then list[#list + 1] = c end
  end
  return list
end

local function train(world, c, own)
  local row, t = paper.methods.timed(world, c, own)
  local all = 0
  for _, phase in ipairs(native.phases()) do
    local name = column(phase)
    row[name] = script.median(t.history[phase.column])
    all = all + row[name]
  end
  for _, phase in ipairs(native.phases()) do
    row[column(phase)] = row[column(phase)] / all * row.ms_step
  end
  return {row}
end

local function show(rows)
  local curves = {xlabel = "K, or S", ylabel = "ms/step", logx = true}
  local k, samples = paper.usual(rows, "k"), paper.usual(rows, "samples")
  curves[1] = paper.curve(("K, at S = %d"):format(samples),
                          paper.where(rows, {samples = samples}), "k", "ms_step")
  curves[2] = paper.curve(("S, at K = %d"):format(k), paper.where(rows, {k = k}), "samples",
                          "ms_step")
  return curves
end

return paper.experiment{
  name = "cost", title = "The cost of K and S",
  full = {ks = {32, 64, 128, 256, 512}, draws = {50, 200, 500, 1000}, dim = 1000, seconds = 20,
          clock = "cpu"},
  small = {dim = 50, seconds = 1, jobs = 1},
  tiny = {ks = {5, 20}, draws = {20, 50}, dim = 8, seconds = 0.01},
  settings = {"seconds", "clock"},
  keys = {paper.tables.key("K", "k", "%d"), paper.tables.key("S", "samples", "%d")},
  values = values, plan = plan, train = train, show = show, measure = "ms_step",
}
