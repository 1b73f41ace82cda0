-- One call of t:run as an object: how many steps it makes, in which slices, what is recorded, when
-- it looks at the validation sessions, what is changed on the way and when it stops. Who drives it
-- (the plain loop of t:run, the live view) asks for slices; the numbers come out the same.
--
-- Where several processes train together, the first one decides (clocks differ, and it alone has a
-- view): it tells every step, record and change before it does so itself, and the others follow.
local define = require "fopo.base.define"
local evaluate = require "fopo.evaluate"
local log = require "fopo.run.log"
local native = require "fopo.native"
local ope = require "fopo.ope"
local term = require "fopo.term"

local run = {}
run.__index = run

local phases = native.phases()

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
  self:tell("set", "%s %.17g", what, value)
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

-- Runs f, which a line of Lua made, and notes the knobs that differ afterwards.
function run:watching(f, line)
  local before = {}
  self:tell("lua", "%s", line or "")
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

-- t: the trainer; o: the checked options of t:run; columns: those of t.history.
function run.new(t, o, columns)
  local steps, every = plan(t, o)
  local r = setmetatable({t = t, o = o, columns = columns, every = every, first = t.step,
                          begun = t.seconds, steps = steps, best = {reward = -math.huge, waited = 0},
                          replay = o.replay and planned(t, o.replay) or {}}, run)
  if o.log and native.ranks() == 0 then r.log = log.open(t, o.log, columns, o) end
  return r
end

-- From here on the first of several processes leads, and the others are to follow.
function run:together()
  local rank, ranks = native.ranks()
  self.follows, self.leads = rank > 0, rank == 0 and ranks > 1
end

-- ---- several processes ----

function run:tell(what, format, ...)
  if self.leads then native.share(what .. " " .. format:format(...)) end
end

local orders = {}
function orders.record(r, how) r:record(how == "cut") end
function orders.set(r, rest)
  local what, value = rest:match("^(%S+) (.*)$")
  r:set(what, tonumber(value))
end
function orders.save(r, path) r.t:save(path) end
function orders.lua(r, line)
  local env = setmetatable({t = r.t, print = function() end}, {__index = _G, __newindex = _G})
  local chunk = load("return " .. line, "=view", "t", env) or load(line, "=view", "t", env)
  if chunk then pcall(chunk) end
end
function orders.advance(r, n)
  local slice = r.t.native:advance(math.tointeger(tonumber(n)))
  r.t.seconds = r.t.seconds + slice.seconds
end

-- Does what the first process does, to the end of its run. Raises where that one does.
function run:follow()
  local failed
  while true do
    local what, rest = native.share():match("^(%S+) (.*)$")
    if what == "stop" then error(failed or rest, 0) end
    if what == "finish" then
      self.left = rest == "left" or nil
      return
    end
    if not failed then
      local ok, why = pcall(orders[what], self, rest)
      if not ok and what == "advance" then failed = why end
    end
  end
end

-- ---- records ----

-- The record in hand as a row of the history.
local function row_of(t, row)
  row.steps_per_second = row.steps / row.seconds
  row.step, row.seconds = t.step, t.seconds
  row.lr, row.epsilon = t.optim.lr, t.gradient.epsilon
  for _, phase in ipairs(phases) do row[phase.column] = row.time[phase.name] end
  return row
end

-- What the policy is worth: on sessions, truly and through the index; on a log, by SNIPS.
local function judge(t)
  if define.kind(t.valid) == "logs" then
    return ope(t.policy, t.valid, {estimators = {"snips"}, bootstrap = 0}).snips.value
  end
  local e = evaluate(t.policy, t.valid, {index = t.index, contexts = t.valid_contexts})
  return e.reward, e.reward_index
end

local function validate(self, n)
  local t, h = self.t, self.t.history
  local reward, through = judge(t)
  h.valid[n], h.valid_index[n] = reward, through or 0 / 0
  local best = self.best
  if reward > best.reward then
    best.reward, best.theta, best.step, best.waited = reward, t.policy:theta(), t.step, 0
    best.items = t.policy.train_items and t.policy:items():copy() or nil
  else
    best.waited = best.waited + 1
  end
  if self.o.patience and best.waited >= self.o.patience then
    self.stopped = ("no better validation in %d records"):format(best.waited)
  end
end

-- Writes the record in hand to the history, the log and the screen, whole also where Ctrl-C ends its
-- validation. Returns its place, or nil where no step was made.
local write_record = term.atomic(function(self, cut)
  local t = self.t
  local row = t.native:record()
  if row.steps == 0 then return nil end
  self:tell("record", cut and "cut" or "whole")
  local h, n = t.history, #t.history.step + 1
  row_of(t, row)
  t.native:end_record()
  for _, name in ipairs(self.columns) do h[name][n] = row[name] or 0 / 0 end
  local ok, why = true, nil
  if t.valid and not cut then ok, why = pcall(validate, self, n) end
  self.last = n
  if self.log then
    for _, name in ipairs(self.columns) do row[name] = h[name][n] end
    self.log:record(row)
  end
  if self.say then self.say(n) end
  if not ok then error(why, 0) end
  return n
end)

-- Lets the user see record n, if there is one.
local function show_record(self, n)
  local on_record = self.o.on_record
  if n and on_record and on_record(self.t, n) then self.stopped = "on_record said so" end
end

-- Ends the record in hand; validates where there are sessions for it, unless it was cut short.
function run:record(cut) show_record(self, write_record(self, cut)) end

-- With why: what went wrong, told to those that follow. Steps that were given up, by an error or
-- Ctrl-C, have been made: they are recorded.
run.close = term.atomic(function(self, why)
  if not self.follows then write_record(self, true) end
  self:tell("stop", "%s", tostring(why or "the run was given up"))
  self.leads = false
  if self.log then self.log:close() end
end)

run.__close = run.close -- Lua gives the error where there is one

-- Ends the record in hand, so that it is validated; false where there is nothing to record.
function run:record_now()
  if self.t.native:record().steps == 0 then return false end
  self:record()
  return true
end

-- ---- slices ----

-- Steps that fill `seconds`, by what the last ones took.
local function that_fill(self, seconds)
  return math.max(1, math.floor((self.rate or 0) * math.max(seconds, 0) + 0.5))
end

-- How many steps the next slice has: it ends with the record, the run, or before the next action.
local function slice_steps(self, seconds)
  local t, o = self.t, self.o
  local n, record = self.steps - (t.step - self.first), t.native:record()
  if self.every then n = math.min(n, self.every - record.steps)
  else n = math.min(n, that_fill(self, 1 - record.seconds)) end
  if o.seconds then -- in small slices: the last ones' speed may not last
    n = math.min(n, that_fill(self, math.min(0.1, o.seconds - (t.seconds - self.begun))))
  end
  if self.replay[1] then n = math.min(n, self.replay[1].step - t.step) end
  if seconds then n = math.min(n, that_fill(self, seconds)) end
  return math.tointeger(math.max(1, n))
end

function run:done()
  local t, o = self.t, self.o
  return self.stopped ~= nil or t.step - self.first >= self.steps or
    o.seconds ~= nil and t.seconds - self.begun >= o.seconds
end

-- Makes the steps of a slice. Returns it, and the record that ended with it.
local make_slice = term.atomic(function(self, seconds, count)
  local t = self.t
  self:replay_due()
  local n = slice_steps(self, seconds)
  if count then n = math.min(n, count) end
  self:tell("advance", "%d", n)
  local began = native.clock()
  local slice = t.native:advance(n)
  slice.overhead = native.clock() - began - slice.seconds -- of cutting the run into slices
  t.seconds = t.seconds + slice.seconds
  if slice.steps > 0 then self.rate = slice.steps / slice.seconds end
  if slice.interrupted then
    define.fail("interrupted after step %d; t:run goes on from there", t.step)
  end
  local record = t.native:record()
  local full = self.every and record.steps >= self.every or
    not self.every and record.seconds >= 1
  return slice, (full or self:done()) and write_record(self)
end)

-- Makes steps, for about `seconds` where given (or just `count` of them), and records where a
-- record ends. Returns the slice. Ctrl-C raises, and run.close records what was done.
function run:advance(seconds, count)
  local slice, n = make_slice(self, seconds, count)
  show_record(self, n)
  return slice
end

-- The end: the best theta seen, where that is wanted. A run left by hand keeps the last one.
function run:finish()
  local t, best = self.t, self.best
  self:record(true) -- what a run that was left has made since its last record
  self:tell("finish", self.left and "left" or "whole")
  self.leads = false
  if self.o.keep_best and not self.left and best.theta and best.step < t.step then
    t.policy:set_theta(best.theta)
    if best.items then t.policy:set_items(best.items) end
    t.best_step = best.step
  end
end

return run
