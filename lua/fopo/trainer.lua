-- fopo.trainer: the loop. C makes the steps, in slices; here is decided how many, what is recorded,
-- when to look at the validation sessions and when to stop.
local native = require "fopo.native"
local define = require "fopo.define"
local cache = require "fopo.cache"
local evaluate = require "fopo.evaluate"
local text = require "fopo.text"

local trainer = {__name = "fopo.trainer"}
local columns = {"step", "seconds", "reward", "valid", "valid_index", "ess", "max_weight",
                 "head_mass", "norm", "lr", "epsilon", "steps_per_second", "search", "propose",
                 "reward_time", "gradient", "update"}

local fields = {}
function fields.step(t) return t.native.step end
function fields.steps_per_epoch(t) return t.native.steps_per_epoch end
function fields.device(t) return t.native.device_name end

function trainer.__index(t, key)
  if fields[key] then return fields[key](t) end
  return rawget(trainer, key)
end

local make = define.fn{
  name = "fopo.trainer", returns = "trainer",
  options = {
    {"policy", "policy", nil, "what learns", required = true},
    {"data", "sessions", nil, "training sessions", required = true},
    {"contexts", "array", nil, "[N, D], one row a session of data; the mean embedding of the items "
     .. "in X where left out"},
    {"reward", "reward", nil, "what is maximised; hits on the data where left out"},
    {"gradient", "gradient", nil, "the estimator", required = true},
    {"optim", "optim", nil, "the optimiser; adam where left out"},
    {"batch", "integer", 32, "contexts a step", min = 1},
    {"seed", "integer", 1, "order of contexts and all draws"},
    {"device", "string", "auto", "where the steps run", one_of = {"auto", "cpu", "cuda"}},
    {"valid", "sessions", nil, "sessions to validate on, for early stopping"},
    {"valid_contexts", "array", nil, "[N, D] of the valid sessions, where contexts are given"},
    {"index", "index", nil, "also validate through it"},
  },
  text = [[A training run: t:run makes steps, t.history records them, t:save and t:resume keep them.
Everything is a function of the seed: the same bits for any number of threads, in one run or several,
interrupted and resumed or not.]],
  example = [[s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
pi = fopo.policy.linear{items = items}
t = fopo.trainer{policy = pi, data = s.train, gradient = fopo.gradient.snis{samples = 50}}
t:run{steps = 20, view = false}
assert(t.step == 20 and #t.history.step > 0)]],
  call = function(o)
    o.reward = o.reward or native.reward_hits(o.data)
    o.optim = o.optim or require("fopo.optim").adam{}
    local contexts = o.contexts or cache.contexts(o.data, o.policy:items())
    local t = {policy = o.policy, data = o.data, reward = o.reward, gradient = o.gradient,
               optim = o.optim, batch = o.batch, seed = o.seed, valid = o.valid, index = o.index,
               valid_contexts = o.valid_contexts,
               history = {}, seconds = 0}
    t.native = native.trainer{policy = o.policy, contexts = contexts, reward = o.reward,
                              gradient = o.gradient, optim = o.optim, batch = o.batch,
                              seed = o.seed, device = o.device}
    for _, name in ipairs(columns) do t.history[name] = {} end
    return setmetatable(t, trainer)
  end,
}

-- One row of the history from a slice; NaN where a column has no value.
local function record(t, slice)
  local h, n = t.history, #t.history.step + 1
  local time = slice.time
  local row = {step = slice.step, seconds = t.seconds, reward = slice.reward, ess = slice.ess,
               max_weight = slice.max_weight, head_mass = slice.head_mass, norm = slice.norm,
               lr = t.optim.lr, epsilon = t.gradient.epsilon,
               steps_per_second = slice.steps / slice.seconds, search = time.search,
               propose = time.propose, reward_time = time.reward, gradient = time.gradient,
               update = time.update}
  for _, name in ipairs(columns) do h[name][n] = row[name] or 0 / 0 end
  return n
end

local function validate(t, n)
  local e = evaluate(t.policy, t.valid, {index = t.index, contexts = t.valid_contexts})
  t.history.valid[n] = e.reward
  t.history.valid_index[n] = e.reward_index or 0 / 0
  return e.reward
end

-- The plain line of a record.
local function line(t, n)
  local h = t.history
  local parts = {("step %6s  %8s  reward %.4f  ess %7.1f  %6.0f steps/s"):format(
    text.count(h.step[n]), text.seconds(h.seconds[n]), h.reward[n], h.ess[n],
    h.steps_per_second[n])}
  if h.valid[n] == h.valid[n] then parts[#parts + 1] = ("valid %.4f"):format(h.valid[n]) end
  return table.concat(parts, "  ")
end

-- How many steps a run makes and how many of them a record covers.
local function plan(t, o)
  local given = (o.epochs and 1 or 0) + (o.steps and 1 or 0) + (o.seconds and 1 or 0)
  if given ~= 1 then
    define.fail("trainer:run needs one of epochs, steps and seconds; %s given",
                given == 0 and "none is" or given .. " are")
  end
  local steps = o.steps or o.epochs and math.ceil(o.epochs * t.steps_per_epoch) or math.huge
  local every = o.every or (steps < math.huge and math.max(1, steps // 20)) or nil
  return steps, every
end

-- Keeps the best theta by validation; says when patience has run out.
local function watch(t, best, reward)
  if reward > best.reward then
    best.reward, best.theta, best.step, best.waited = reward, t.policy:theta(), t.step, 0
  else
    best.waited = best.waited + 1
  end
end

trainer.run = define.fn{
  name = "trainer:run", returns = "trainer",
  args = {{"t", "trainer", nil, "the trainer"}},
  options = {
    {"epochs", "number", nil, "passes over the data", above = 0},
    {"steps", "integer", nil, "or steps", min = 1},
    {"seconds", "number", nil, "or seconds of training, validation not counted", above = 0},
    {"every", "integer", nil, "steps of a record; a twentieth of the run, or about a second's",
     min = 1},
    {"view", "boolean", true, "print a line per record"},
    {"patience", "integer", nil, "stop after so many validations without a better one", min = 1},
    {"keep_best", "boolean", true, "with valid sessions: end with the best theta seen"},
    {"on_record", "function", nil, "called with (t, n) after record n of the history; true stops"},
  },
  text = [[Makes steps and records t.history (lists by name: step, seconds, reward, valid, valid_index,
ess, max_weight, head_mass, norm, lr, epsilon, steps_per_second and the seconds of each phase).
Ctrl-C stops after the step in hand; t:run again goes on from there. Returns t.]],
  call = function(t, o)
    local steps, every = plan(t, o)
    local first, begun = t.step, t.seconds
    local best = {reward = -1, waited = 0}
    if t.valid and #t.history.step == 0 then best.theta, best.step = nil, 0 end
    local slice_steps = every or 1
    local stopped
    while not stopped and t.step - first < steps do
      local n = math.min(slice_steps, steps - (t.step - first))
      local slice = t.native:advance(math.tointeger(n))
      t.seconds = t.seconds + slice.seconds
      if slice.steps > 0 then
        local row = record(t, slice)
        if t.valid and not slice.interrupted then
          watch(t, best, validate(t, row))
          stopped = o.patience and best.waited >= o.patience
        end
        if o.view then print(line(t, row)) end
        if o.on_record and o.on_record(t, row) then stopped = true end
      end
      if slice.interrupted then
        define.fail("interrupted after step %d; t:run goes on from there", t.step)
      end
      if o.seconds then
        local left = o.seconds - (t.seconds - begun)
        stopped = stopped or left <= 0
        if not every then
          local rate = slice.steps / slice.seconds
          slice_steps = math.max(1, math.floor(rate * math.min(1, math.max(left, 0)) + 0.5))
        end
      end
    end
    if o.keep_best and best.theta and best.step < t.step then
      t.policy:set_theta(best.theta)
      t.best_step = best.step
    end
    return t
  end,
}

trainer.save = define.fn{
  name = "trainer:save",
  args = {{"t", "trainer", nil, "the trainer"}, {"path", "string", nil, "an .npz"}},
  text = [[Writes theta, the optimiser's state, the step and the history; the old file stays until the
new one is whole on disk.]],
  call = function(t, path) t.native:save(path, t.history, t.seconds) end,
}

trainer.resume = define.fn{
  name = "trainer:resume", returns = "trainer",
  args = {{"t", "trainer", nil, "a trainer over the same data and shapes"},
          {"path", "string", nil, "an .npz written by t:save"}},
  text = [[Takes up where the file left off, with the same bits as if it had never stopped. Options
such as lr come from this trainer, not from the file. A file that does not fit changes nothing.]],
  call = function(t, path)
    local history = t.native:resume(path)
    t.seconds = history.seconds and history.seconds[#history.seconds] or 0
    for _, name in ipairs(columns) do t.history[name] = history[name] or {} end
    return t
  end,
}

function trainer.describe(t)
  return ("trainer at step %s (%s a pass), batch %d, %s, on %s"):format(text.count(t.step),
    text.count(t.steps_per_epoch), t.batch, t.gradient:describe(), t.device)
end

return make
