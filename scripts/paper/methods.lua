-- The methods of the experiments, and one training run. A configuration is a table of settings:
-- method, dim, embedding, lr, temperature, k, samples, epsilon, index, learnt, seed.
local fopo = require "fopo"

local methods = {}

local function mixture(c, index, options)
  return fopo.proposal.mixture{index = index, k = c.k, epsilon = c.epsilon,
                               refresh = options and options.refresh,
                               draws = options and options.draws}
end

local function snis(c, proposal)
  return fopo.gradient.snis{samples = c.samples, proposal = proposal}
end

-- The gradient of each method; index is called for the index that the configuration names.
local gradient = {
  ["REINFORCE"] = function(c) return fopo.gradient.reinforce{samples = c.samples} end,
  ["REINFORCE, baseline"] = function(c)
    return fopo.gradient.reinforce{samples = c.samples, baseline = "mean"}
  end,
  uniform = function(c) return snis(c, fopo.proposal.uniform()) end,
  mixture = function(c, index) return snis(c, mixture(c, index())) end,
  stratified = function(c, index)
    return snis(c, mixture(c, index(), {draws = "stratified"}))
  end,
  kept = function(c, index) return snis(c, mixture(c, index(), {refresh = 5})) end,
  ["norms by mass"] = function(c) return snis(c, mixture(c)) end,
  adaptive = function(c, index)
    return snis(c, fopo.proposal.adaptive{index = index(), k = c.k})
  end,
  ["head and tail"] = function(c, index)
    return fopo.gradient.head_tail{index = index(), k = c.k, tail = c.k}
  end,
  ["shared head"] = function() return fopo.gradient.head_tail{} end,
  exact = function() return fopo.gradient.exact{} end,
}
methods.gradient = gradient
gradient["learnt items"] = gradient.mixture
gradient.mlp = gradient.mixture

-- Which methods use which settings; others have none of them in their rows.
local searching = {mixture = true, stratified = true, kept = true, adaptive = true, mlp = true,
                   ["head and tail"] = true, ["learnt items"] = true}
function methods.searches(name) return searching[name] or false end

-- A trainer of the configuration: theta, contexts and optimiser as the paper's authors have them.
function methods.trainer(world, c, o)
  local items = world:items(c.dim, c.embedding)
  local make = c.method == "mlp" and fopo.policy.mlp or fopo.policy.linear
  local pi = make{items = items, preset = "paper", temperature = c.temperature, seed = c.seed,
                  train_items = c.learnt == "yes"}
  local with = setmetatable({k = math.min(c.k or 1, items.rows)}, {__index = c})
  local index = function() return (world:index(c.index)) end
  if c.learnt == "yes" then -- its index follows the items, so it is this policy's own
    index = function() return fopo.index.norm(pi:items()) end
  end
  return fopo.trainer{policy = pi, data = world.train, valid = false, seed = c.seed,
                      gradient = gradient[c.method](with, index), batch = o.batch,
                      optim = fopo.optim.adam{lr = c.lr, weight_decay = 1e-10},
                      index_refresh = c.learnt == "yes" and searching[c.method] and 100 or 0}
end

-- A row of the CSV: the reward on the test sessions by true argmax, with Wilson's interval, and if
-- `whole` the expected reward.
function methods.row(world, t, whole)
  local e = fopo.evaluate(t.policy, world.test, {k = 1, expected = whole, expected_contexts = 500})
  return {epoch = t.step / t.steps_per_epoch, step = t.step, seconds = t.seconds,
          ms_step = t.step > 0 and 1e3 * t.seconds / t.step or nil, reward = e.reward, low = e.low,
          high = e.high, expected = e.expected, effective = e.effective}
end

-- Trains until `epochs`, or until the seconds of training reach `seconds`, with a row at each
-- `every` epochs. `keep` says where an unfinished run is kept; `said` is called with each row.
function methods.train(world, c, o, keep, said)
  local t = methods.trainer(world, c, o)
  local chunk = math.max(1, math.floor(o.every * t.steps_per_epoch + 0.5))
  local last = c.seconds and math.huge
               or math.max(1, math.floor(o.epochs * t.steps_per_epoch + 0.5))
  local rows = keep:resume(t) or {}
  local function done() return t.step >= last or c.seconds and t.seconds >= c.seconds end
  while not done() do
    local n = math.min(chunk, last - t.step)
    t:run{steps = n, every = n, view = false}
    rows[#rows + 1] = methods.row(world, t, done())
    if said then said(rows[#rows], last) end
    keep:save(t, rows)
  end
  return rows
end

return methods
