-- Successive halving (Jamieson and Talwalkar 2016, with a growth eta instead of 2). On each rung
-- all trials that are left are trained for the same number of steps; the best of every eta climb to
-- the next, with eta times the steps.
local term = require "fopo.term"
local text = require "fopo.base.text"

local rungs = {}
rungs.__index = rungs

-- {{trials, steps}, ...} for n trials, the last with all steps.
function rungs.plan(n, steps, eta)
  local list, last = {}, 0
  while n // eta ^ (last + 1) >= 1 do last = last + 1 end
  for rung = 0, last do
    list[#list + 1] = {trials = math.tointeger(n // eta ^ rung),
                       steps = math.ceil(steps / eta ^ (last - rung))}
  end
  return list
end

-- settings: a list of {name = value}. maker:start(settings, steps) begins a run and returns it;
-- maker:finish(run) waits for its end and fills run.valid, valid_expected, best_step and seconds,
-- or run.failed; maker.abandon(run) ends it.
function rungs.new(o, settings, maker)
  local r = setmetatable({by = o.by, jobs = o.jobs, maker = maker, trials = {}, waiting = {},
                          made = 0, planned = 0, steps_made = 0, steps_planned = 0}, rungs)
  r.list = rungs.plan(#settings, maker.steps, o.eta)
  for i, c in ipairs(settings) do r.trials[i] = {number = i, options = c} end
  for _, rung in ipairs(r.list) do
    r.planned = r.planned + rung.trials
    r.steps_planned = r.steps_planned + rung.trials * rung.steps
  end
  return r
end

-- What decides between two runs, the first thing first.
local function values(self, run)
  local function number(v) return text.finite(v) and v or -math.huge end
  local greedy, expected = number(run.valid), number(run.valid_expected)
  if self.by == "expected" then greedy, expected = expected, greedy end
  local measure = self.by:find("@", 1, true) and number(run.valid_measure) or greedy
  return {run.failed and 0 or 1, measure, self.by:find("@", 1, true) and expected or greedy,
          expected, run.steps, -run.number}
end

local function before(self, a, b)
  local x, y = values(self, a), values(self, b)
  for i = 1, #x do
    if x[i] ~= y[i] then return x[i] > y[i] end
  end
  return false
end

function rungs:value(run)
  if self.by:find("@", 1, true) then return run.valid_measure end
  return self.by == "expected" and run.valid_expected or run.valid
end

-- The best run of each trial that has ended one, the best first.
function rungs:ranking()
  local list = {}
  for _, t in ipairs(self.trials) do list[#list + 1] = t.best end
  table.sort(list, function(a, b) return before(self, a, b) end)
  return list
end

-- A run has ended: what it was trained with is kept of the best alone. Atomic, so that Ctrl-C finds
-- the best whole.
local note = term.atomic(function(self, t, run)
  self.made, self.steps_made = self.made + 1, self.steps_made + run.steps
  t.latest = run
  if run.failed then self.first_failure = self.first_failure or run.failed end
  if not t.best or before(self, run, t.best) then t.best = run end
  local forgotten = run
  if not run.failed and (not self.best or before(self, run, self.best)) then
    forgotten, self.best = self.best, run
  end
  if forgotten then self.maker.forget(forgotten) end
  if self.say then self.say(run) end
end)

-- Runs the trials of a rung, at most self.jobs at once; results are noted in their order.
local function climb(self, list, steps)
  local waiting = self.waiting
  for i = 1, #list + self.jobs - 1 do
    if list[i] then
      local run = self.maker:start(list[i].options, steps)
      run.number = list[i].number
      waiting[#waiting + 1] = run
    end
    local ended = list[i - self.jobs + 1]
    if ended then
      self.maker:finish(waiting[1])
      note(self, ended, table.remove(waiting, 1))
    end
  end
end

function rungs:run()
  local list = self.trials
  for _, rung in ipairs(self.list) do
    list = table.move(list, 1, rung.trials, 1, {})
    climb(self, list, rung.steps)
    table.sort(list, function(a, b) return before(self, a.latest, b.latest) end)
  end
end

-- Ends the runs that nobody will wait for.
function rungs:abandon()
  for _, run in ipairs(self.waiting) do self.maker.abandon(run) end
  self.waiting = {}
end

return rungs
