-- RQ1: how much faster than REINFORCE? Time of a step of REINFORCE, of the uniform proposal and of
-- the mixture, for L in {10, 100, 1000}: the paper's first figure, on this machine's processor. The
-- paper finds 5 to 25 times, most at small L and without a GPU.
--
--   ./fopo scripts/paper/rq1.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value ...]
--
-- Cost: a minute at scale=small. At full size REINFORCE takes about a quarter of an hour an epoch
-- (L = 100, two cores); seconds=60 measures for a minute instead of five epochs.
--
-- The methods of a seed are timed one after the other, from theta's random start; a speed-up is
-- that within the seed. The construction of the index is not counted, as in the paper. REINFORCE's
-- step computes the scores of all items once, and its draws come from them.
--
-- Options (at full, the paper's; scripts/paper/common.lua has those of all experiments):
--   dims=10,100,1000 methods=REINFORCE,uniform,mixture      also "norms by mass", "shared head" ...
--   epochs=5 seconds=0      0: epochs; otherwise so many seconds of each run
--   clock=wall              or cpu: the time of the processor, of one thread, which other work on
--                           the machine hardly changes; needs seconds
--   epsilon=0.8 k=256 samples=1000
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")

local function plan(own)
  return paper.grid(own, {"dim", own.dims}, {"seed", own.seeds}, {"method", own.methods})
end

local function train(world, c, own) return {(paper.methods.timed(world, c, own))} end

-- REINFORCE's time divided by the method's, seed by seed.
local function speedups(rows)
  for _, row in ipairs(rows) do
    local base = paper.where(rows, {method = "REINFORCE", dim = row.dim, seed = row.seed})[1]
    row.speedup = base and base.ms_step and row.ms_step and base.ms_step / row.ms_step
  end
end

local function show(rows)
  local curves = {xlabel = "L", ylabel = "speed-up over REINFORCE", logx = true}
  for _, method in ipairs(paper.values(rows, "method")) do
    local those = paper.where(rows, {method = method})
    if method ~= "REINFORCE" and those[1].speedup then
      curves[#curves + 1] = paper.curve(method, those, "dim", "speedup")
    end
  end
  return curves
end

return paper.experiment{
  name = "rq1", title = "RQ1, speed",
  full = {dims = {10, 100, 1000}, methods = {"REINFORCE", "uniform", "mixture"}, epochs = 5,
          seconds = 0, clock = "wall"},
  small = {dims = {10, 50, 300}, seconds = 1, clock = "cpu", jobs = 1},
  tiny = {dims = {4, 8}, seconds = 0.01},
  settings = {"epochs", "seconds", "clock"},
  keys = {paper.tables.L, paper.tables.method}, prepare = speedups,
  values = {paper.tables.ms, paper.tables.value("times REINFORCE", "speedup", "%.1f")},
  plan = plan, train = train, show = show, measure = "ms_step",
}
