-- How near is each estimate to the gradient? The cosine between what a method estimates from one
-- batch and the exact gradient of that batch, along the training of a policy. It says why the
-- methods rank as they do in rq2.lua.
--
--   ./fopo scripts/paper/alignment.lua [FILE ...] [scale=small|full|tiny] [data=DIR] [name=value]
--
-- Cost: half a minute at scale=small on two cores; the exact gradient sums over all items.
--
-- The policy is trained by the mixture, the same for all methods of a seed; at each record the
-- methods estimate the gradients of `batches` batches of 32 contexts. 1: the gradient itself; 0: an
-- estimate without any of it.
--
-- Options (scripts/paper/common.lua has those of all experiments):
--   methods=REINFORCE,uniform,mixture,head and tail batches=4
--   dim=100 epochs=50 every=10                                   at full; lr is 1e-3 unless given
local paper = dofile((arg[0]:match("^(.*/)") or "./") .. "common.lua")
local fopo = require "fopo"

local function plan(own)
  return paper.grid(own, {"seed", own.seeds}, {"method", own.methods})
end

local function dot(a, b)
  local sum = 0
  for i = 1, a.rows do
    for j = 1, a.cols do sum = sum + a:get(i, j) * b:get(i, j) end
  end
  return sum
end

-- The mean cosine over the batches; an estimate of length 0 counts 0.
local function cosine(world, t, gradient, own, seed)
  local exact, x, sum = fopo.gradient.exact{}, t.contexts, 0
  for step = 0, own.batches - 1 do
    local rows = world.train:batch{size = 32, seed = seed, step = step}
    local G = gradient:compute(t.policy, x, rows, t.reward, {seed = seed, step = step})
    local E = exact:compute(t.policy, x, rows, t.reward)
    local lengths = G:norm() * E:norm()
    sum = sum + (lengths > 0 and dot(G, E) / lengths or 0)
  end
  return sum / own.batches
end

-- The training of the configuration by the mixture.
local function trainer(world, c, own)
  return paper.methods.trainer(world, paper.configuration(own, "mixture", {seed = c.seed}), own)
end

local function train(world, c, own)
  local t = trainer(world, c, own)
  local gradient = paper.methods.trainer(world, c, own).gradient
  local rows, chunk = {}, math.max(1, math.floor(own.every * t.steps_per_epoch + 0.5))
  for step = 0, math.floor(own.epochs * t.steps_per_epoch + 0.5), chunk do
    if step > 0 then t:run{steps = chunk, every = chunk, view = false} end
    rows[#rows + 1] = paper.methods.row(world, t, t.seconds, true)
    rows[#rows].cosine = cosine(world, t, gradient, own, c.seed)
  end
  return rows
end

local function show(rows)
  local curves = {xlabel = "epoch", ylabel = "cosine with the exact gradient"}
  local first, notes = paper.where(rows, {step = 0}), {}
  for _, method in ipairs(paper.values(rows, "method")) do
    notes[#notes + 1] = method .. " "
      .. paper.cell(paper.where(first, {method = method}), "cosine", "%.3f")
    curves[#curves + 1] = paper.curve(method, paper.where(rows, {method = method}), "epoch",
                                      "cosine")
  end
  return curves, "cosine at the start: " .. table.concat(notes, "; ")
end

return paper.experiment{
  name = "alignment", title = "Estimates and the gradient",
  full = {batches = 4, dim = 100, epochs = 50, every = 10, lr = 1e-3,
          methods = {"REINFORCE", "uniform", "mixture", "head and tail"}},
  small = {dim = 50, epochs = 20, every = 2, lr = 2.5e-2, seeds = {1, 2, 3}},
  tiny = {dim = 8, epochs = 2, every = 1},
  settings = {"epochs", "every", "batches"},
  keys = {paper.tables.method},
  values = {paper.tables.value("cosine with the exact gradient", "cosine", "%.3f"),
            paper.tables.effective},
  plan = plan, train = train, show = show,
}
