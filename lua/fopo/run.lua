-- One call of t:run as an object: how many steps it makes, in which slices, what is recorded, when
-- it looks at the validation sessions, what is changed on the way and when it stops. Who drives it
-- (the plain loop of t:run, the live view) asks for slices; the numbers come out the same.
local define = require "fopo.define"
local evaluate = require "fopo.evaluate"
local log = require "fopo.log"
local native = require "fopo.native"

local run = {}
run.__index = run

-- What a record averages over its steps.
local means = {"reward", "ess", "max_weight", "head_mass", "norm"}
local phases = {{"search", "search"}, {"propose", "propose"}, {"reward_time", "reward"},
                {"gradient", "gradient"}, {"update", "update"}} -- column, name in a slice
run.phases = {"search", "propose", "reward", "gradient", "update"}

-- How many steps the run makes and how many of them a record covers.
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

-- ---- what may be changed while it runs ----

local setters = {
  lr = function(t, v) t.optim.lr = v end,
  epsilon = function(t, v) t.gradient:set{epsilon = v} end,
  k = function(t, v) t.gradient:set{k = v} end,
  samples = function(t, v) t.gradient:set{samples = v} end,
}
run.knobs = {"lr", "epsilon", "k", "samples"}

local function knob(t, what)
  if what == "lr" then return t.optim.lr end
  return t.gradient[what]
end

function run:get(what) return knob(self.t, what) end

-- Sets a knob and keeps a note of it. Raises where the value cannot be.
function run:set(what, value)
  local before = knob(self.t, what)
  if before == nil then
    define.fail("this run has no %s to change: its estimator is %s", what,
                self.t.gradient:describe())
  end
  setters[what](self.t, value)
  self:note{what = what, value = knob(self.t, what), before = before}
end

-- Keeps in t.actions, and in the log, what was done by hand.
function run:note(action)
  local t = self.t
  action.step, action.seconds = t.step, t.seconds
  t.actions[#t.actions + 1] = action
  if self.log then self.log:action(action) end
end

-- Runs f, and notes the knobs that differ afterwards.
function run:watching(f)
  local before = {}
  for _, what in ipairs(run.knobs) do before[what] = knob(self.t, what) end
  f()
  for _, what in ipairs(run.knobs) do
    local now = knob(self.t, what)
    if now ~= before[what] and now ~= nil then
      self:note{what = what, value = now, before = before[what]}
    end
  end
end

-- The actions to make again: those of a list, of a trainer, or of the folder of a log, by step.
local function planned(t, given)
  if type(given) == "string" then given = log.read_actions(given) end
  local list = {}
  for i, a in ipairs(given) do
    if type(a) ~= "table" or math.type(a.step) ~= "integer" or type(a.what) ~= "string" then
      define.fail("trainer:run: replay[%d] is no action {step =, what =, value =}", i)
    end
    if setters[a.what] then
      if a.step < t.step then
        define.fail("trainer:run: replay[%d] belongs to step %d, but this trainer is at step %d; "
                    .. "begin where the run began that it comes from", i, a.step, t.step)
      end
      list[#list + 1] = a
    elseif a.what == "lua" then
      io.stderr:write(("fopo: the replay leaves out a line of Lua entered at step %d: %s\n"):format(
        a.step, tostring(a.value)))
    end
  end
  table.sort(list, function(a, b) return a.step < b.step end)
  return list
end

function run:replay_due()
  local list = self.replay
  while list[1] and list[1].step <= self.t.step do
    local a = table.remove(list, 1)
    self:set(a.what, a.value)
  end
end

-- ---- life ----

local function clear(self)
  self.sum = {steps = 0, seconds = 0, time = {}}
end

-- t: the trainer; o: the checked options of t:run; columns: those of t.history.
function run.new(t, o, columns)
  local steps, every = plan(t, o)
  local r = setmetatable({t = t, o = o, columns = columns, every = every, first = t.step,
                          begun = t.seconds, steps = steps, best = {reward = -1, waited = 0},
                          replay = o.replay and planned(t, o.replay) or {}}, run)
  clear(r)
  if o.log then r.log = log.open(t, o.log, columns, o) end
  return r
end

function run:close()
  if self.log then self.log:close() end
end

run.__close = run.close

-- ---- records ----

-- One row of the history from what was summed; NaN where a column has no value.
local function row_of(self)
  local t, sum = self.t, self.sum
  local row = {step = t.step, seconds = t.seconds, lr = t.optim.lr, epsilon = t.gradient.epsilon,
               steps_per_second = sum.steps / sum.seconds}
  for _, name in ipairs(means) do row[name] = sum[name] / sum.steps end
  for _, phase in ipairs(phases) do row[phase[1]] = sum.time[phase[2]] end
  return row
end

local function validate(self, n)
  local t, h = self.t, self.t.history
  local e = evaluate(t.policy, t.valid, {index = t.index, contexts = t.valid_contexts})
  h.valid[n], h.valid_index[n] = e.reward, e.reward_index or 0 / 0
  local best = self.best
  if e.reward > best.reward then
    best.reward, best.theta, best.step, best.waited = e.reward, t.policy:theta(), t.step, 0
    best.items = t.policy.train_items and t.policy:items():copy() or nil
  else
    best.waited = best.waited + 1
  end
  if self.o.patience and best.waited >= self.o.patience then
    self.stopped = ("no better validation in %d records"):format(best.waited)
  end
end

-- Ends the record in hand; validates where there are sessions for it, unless it was cut short.
function run:record(cut)
  local t = self.t
  if self.sum.steps == 0 then return end
  local h, n = t.history, #t.history.step + 1
  local row = row_of(self)
  clear(self)
  for _, name in ipairs(self.columns) do h[name][n] = row[name] or 0 / 0 end
  if t.valid and not cut then validate(self, n) end
  self.last = n
  if self.log then
    for _, name in ipairs(self.columns) do row[name] = h[name][n] end
    self.log:record(row)
  end
  if self.say then self.say(n) end
  if self.o.on_record and self.o.on_record(t, n) then self.stopped = "on_record said so" end
end

-- Ends the record in hand, so that it is validated; false where there is nothing to record.
function run:record_now()
  if self.sum.steps == 0 then return false end
  self:record()
  return true
end

-- ---- slices ----

local function add(self, slice)
  local sum = self.sum
  for _, name in ipairs(means) do
    sum[name] = (sum[name] or 0) + slice[name] * slice.steps
  end
  for name, seconds in pairs(slice.time) do sum.time[name] = (sum.time[name] or 0) + seconds end
  sum.steps, sum.seconds = sum.steps + slice.steps, sum.seconds + slice.seconds
end

-- Steps that fill `seconds`, by what the last ones took.
local function that_fill(self, seconds)
  return math.max(1, math.floor((self.rate or 0) * math.max(seconds, 0) + 0.5))
end

-- How many steps the next slice has: it ends with the record, the run, or before the next action.
local function slice_steps(self, seconds)
  local t, o = self.t, self.o
  local n = self.steps - (t.step - self.first)
  if self.every then n = math.min(n, self.every - self.sum.steps)
  else n = math.min(n, that_fill(self, 1 - self.sum.seconds)) end
  if o.seconds then n = math.min(n, that_fill(self, o.seconds - (t.seconds - self.begun))) end
  if self.replay[1] then n = math.min(n, self.replay[1].step - t.step) end
  if seconds then n = math.min(n, that_fill(self, seconds)) end
  return math.tointeger(math.max(1, n))
end

function run:done()
  local t, o = self.t, self.o
  return self.stopped ~= nil or t.step - self.first >= self.steps or
    o.seconds ~= nil and t.seconds - self.begun >= o.seconds
end

-- Makes steps, for about `seconds` where given (or just `count` of them), and records where a
-- record ends. Returns the slice. Ctrl-C raises, when what was done is recorded.
function run:advance(seconds, count)
  local t = self.t
  self:replay_due()
  local n = slice_steps(self, seconds)
  local began = native.clock()
  local slice = t.native:advance(count and math.min(n, count) or n)
  slice.overhead = native.clock() - began - slice.seconds -- of cutting the run into slices
  t.seconds = t.seconds + slice.seconds
  if slice.steps > 0 then
    self.rate = slice.steps / slice.seconds
    add(self, slice)
  end
  if slice.interrupted then
    self:record(true)
    define.fail("interrupted after step %d; t:run goes on from there", t.step)
  end
  local full = self.every and self.sum.steps >= self.every or
    not self.every and self.sum.seconds >= 1
  if full or self:done() then self:record() end
  return slice
end

-- The end: the best theta seen, where that is wanted. A run left by hand keeps the last one.
function run:finish()
  local t, best = self.t, self.best
  self:record(true) -- what a run that was left has made since its last record
  if self.o.keep_best and not self.left and best.theta and best.step < t.step then
    t.policy:set_theta(best.theta)
    if best.items then t.policy:set_items(best.items) end
    t.best_step = best.step
  end
end

return run
