-- The methods of the experiments, and one training run. A configuration is a table of settings:
-- method, dim, embedding, lr, temperature, k, samples, epsilon, index, learnt, seed.
local fopo = require "fopo"
local json = require "fopo.base.json"
local native = require "fopo.native"
local script = require "script"
local worlds = require "worlds"

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
gradient.HNSW = gradient.mixture
gradient.mlp = gradient.mixture

-- The settings that each method has; the fields of others are empty.
local drawing = {"samples"}
local searching = {"samples", "k", "epsilon", "index"}
local settings = {
  ["REINFORCE"] = drawing, ["REINFORCE, baseline"] = drawing, uniform = {"samples", "epsilon"},
  mixture = searching, HNSW = searching, stratified = searching, kept = searching, mlp = searching,
  ["learnt items"] = searching, ["norms by mass"] = {"samples", "k", "epsilon"},
  adaptive = {"samples", "k", "index"}, ["head and tail"] = {"k", "index"}, ["shared head"] = {},
  exact = {},
}

-- The configuration of a method with the options' settings, and those given.
function methods.configuration(o, method, given)
  local c = {method = method, dim = o.dim, embedding = o.embedding, lr = o.lr,
             temperature = o.temperature, learnt = method == "learnt items" and "yes" or nil}
  for _, name in ipairs(settings[method]) do c[name] = o[name] end
  if method == "uniform" then c.epsilon = 1 end
  if method == "HNSW" then c.index = "hnsw" end
  for name, value in pairs(given) do c[name] = value end
  return c
end

-- The configurations of all combinations of the axes, {name of an option, its values}, among them
-- {"method", ...}. The first axis changes slowest.
function methods.grid(o, ...)
  local list = {{}}
  for _, axis in ipairs{...} do
    local longer = {}
    for _, given in ipairs(list) do
      for _, value in ipairs(axis[2]) do
        local one = {[axis[1]] = value}
        for name, before in pairs(given) do one[name] = before end
        longer[#longer + 1] = one
      end
    end
    list = longer
  end
  for i, given in ipairs(list) do
    local method = given.method
    given.method = nil
    list[i] = methods.configuration(o, method, given)
  end
  return list
end

-- The mixture of each seed along an axis, and with o.exact the exact gradient of each seed.
function methods.mixtures(o, axis)
  local list = methods.grid(o, {"seed", o.seeds}, axis, {"method", {"mixture"}})
  local exact = o.exact and methods.grid(o, {"seed", o.seeds}, {"method", {"exact"}}) or {}
  return table.move(exact, 1, #exact, #list + 1, list)
end

-- A trainer of the configuration: theta, contexts and optimiser as the paper's authors have them.
function methods.trainer(world, c, o)
  local items = world:items(c.dim, c.embedding)
  local make = c.method == "mlp" and fopo.policy.mlp or fopo.policy.linear
  local pi = make{items = items, preset = "paper", temperature = c.temperature, seed = c.seed,
                  train_items = c.learnt == "yes"}
  local with = setmetatable({k = math.min(c.k or 1, items.rows)}, {__index = c})
  local index = function() return world:index(c.index) end
  if c.learnt == "yes" then -- its index is brought up to date, so it is this policy's own
    index = function() return worlds.indexes[c.index](pi:items()) end
  end
  return fopo.trainer{policy = pi, data = world.train, preset = "paper", valid = false,
                      seed = c.seed, gradient = gradient[c.method](with, index), batch = o.batch,
                      optim = fopo.optim.adam{lr = c.lr, weight_decay = 1e-10},
                      index_refresh = c.learnt == "yes" and c.index and 100 or 0}
end

local EXPECTED = 500 -- sessions of the expected reward, a sum over all items in each

-- A row of the table after so many seconds of training: the reward on the test sessions by true
-- argmax, with Wilson's interval, if `whole` the expected reward, and if `last` both on the
-- validation sessions.
function methods.row(world, t, seconds, whole, last)
  local function measured(sessions)
    return fopo.evaluate(t.policy, sessions, {k = 1, expected = whole, expected_contexts = EXPECTED,
                                              exclude = "none"})
  end
  local e, valid = measured(world.test), last and measured(world.split.valid) or {}
  return {epoch = t.step / t.steps_per_epoch, step = t.step, seconds = seconds,
          ms_step = t.step > 0 and 1e3 * seconds / t.step or nil, reward = e.reward, low = e.low,
          high = e.high, expected = e.expected, effective = e.effective, valid = valid.reward,
          valid_expected = valid.expected}
end

-- Steps that are not counted: the first touch of the items, and the threads' start.
local WARM = 5

-- The time of a step from theta's start: of o.seconds of training by o.clock, or of o.epochs if
-- o.seconds is 0. Returns {step =, seconds =, ms_step =, epoch =} and the trainer.
function methods.timed(world, c, o)
  local t = methods.trainer(world, c, o)
  t:run{steps = WARM, every = WARM, view = false}
  local step, seconds = t.step, t.seconds
  if o.seconds > 0 then
    seconds = script.train(t, o.seconds, o)
  else
    t:run{epochs = o.epochs, every = t.steps_per_epoch, view = false}
    seconds = t.seconds - seconds
  end
  step = t.step - step
  return {step = step, seconds = seconds, ms_step = 1e3 * seconds / step,
          epoch = step / t.steps_per_epoch}, t
end

-- ---- an unfinished run

local unfinished = {}
unfinished.__index = unfinished

-- Keeps an unfinished run in the place that a sweep has for it, at most once in so many seconds: a
-- checkpoint, and beside it the records.
function methods.keep(my, seconds)
  return setmetatable({path = my.path, seconds = seconds, last = fopo.clock()}, unfinished)
end

-- Takes up the run where there is one: its records up to then, else nil.
function unfinished:resume(t)
  local f <close> = io.open(self.path .. ".json")
  local rows = f and json.decode(f:read("a"))
  if not rows then return nil end
  local resumed, why = pcall(t.resume, t, self.path)
  if not resumed then
    io.stderr:write(("starts this run again: %s\n"):format(why))
    return nil
  end
  while #rows > 0 and rows[#rows].step > t.step do table.remove(rows) end
  io.stderr:write(("goes on at step %d, kept in %s\n"):format(t.step, self.path))
  return rows
end

-- Steps of the trainer in the time between two writes.
function unfinished:steps(t)
  if t.step == 0 then return 20 end
  return math.max(1, math.floor(self.seconds * t.step / math.max(t.seconds, 1e-6)))
end

function unfinished:save(t, rows)
  if fopo.clock() - self.last < self.seconds then return end
  assert(native.write_file(self.path .. ".json", json.encode(rows)))
  t:save(self.path)
  self.last = fopo.clock()
end

-- ---- training

-- Makes the steps up to a step, in pieces between which the run is kept.
local function steps_to(t, target, keep, rows)
  while t.step < target do
    local n = math.min(target - t.step, keep:steps(t))
    t:run{steps = n, every = n, view = false}
    if t.step < target then keep:save(t, rows) end
  end
end

-- The time of a training so far: its own wall time, or with o.clock = "cpu" that of the processor
-- since the last row.
local function spent(t, o, rows)
  if o.clock ~= "cpu" then return function() return t.seconds end end
  fopo.threads(1)
  local before = os.clock() - (#rows > 0 and rows[#rows].seconds or 0)
  return function() return os.clock() - before end
end

-- Trains until o.epochs, or until the seconds of training reach o.seconds, with a row at each
-- o.every epochs (without it at the end) or o.every_seconds. `keep` keeps the unfinished run;
-- said(row, last step) is called with each row.
function methods.train(world, c, o, keep, said)
  local t = methods.trainer(world, c, o)
  local by_time = o.every_seconds ~= nil
  local every = not by_time and (o.every or o.epochs)
  local chunk = every and math.max(1, math.floor(every * t.steps_per_epoch + 0.5))
  local last = by_time and math.huge
               or math.max(1, math.floor(o.epochs * t.steps_per_epoch + 0.5))
  local rows = keep:resume(t) or {}
  local seconds = #rows > 0 and rows[#rows].seconds or 0
  local function done() return t.step >= last or by_time and seconds >= o.seconds end
  while not done() do
    local clock = spent(t, o, rows)
    if by_time then
      script.train(t, o.every_seconds, o)
    else
      steps_to(t, math.min(last, (t.step // chunk + 1) * chunk), keep, rows)
    end
    seconds = clock()
    rows[#rows + 1] = methods.row(world, t, seconds, o.whole or done(), done())
    if said then said(rows[#rows], last) end
    keep:save(t, rows)
  end
  os.remove(keep.path .. ".json")
  return rows
end

return methods
