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

-- settings: a list of {name = value}. maker:start(settings, steps, i) begins a run with the i-th
-- seed and returns it; maker:finish(run) waits for its end and fills run.valid, valid_expected,
-- best_step and seconds, or run.failed; maker.abandon(run) ends it.
function rungs.new(o, settings, maker)
  local r = setmetatable({by = o.by, jobs = o.jobs, seeds = o.seeds or 1, maker = maker,
                          trials = {}, waiting = {}, ended = {}, made = 0, planned = 0,
                          steps_made = 0, steps_planned = 0}, rungs)
  r.list = rungs.plan(#settings, maker.steps, o.eta)
  for i, c in ipairs(settings) do r.trials[i] = {number = i, options = c} end
  for _, rung in ipairs(r.list) do
    r.planned = r.planned + rung.trials
    r.steps_planned = r.steps_planned + rung.trials * rung.steps * r.seeds
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

-- The runs of a trial with all seeds as one: of the first, with the means of what they are worth.
local function as_one(runs)
  local one = runs[1]
  one.policies = {}
  for i, run in ipairs(runs) do
    one.policies[i], one.failed = run.policy, one.failed or run.failed
    if i > 1 then one.seconds = (one.seconds or 0) + (run.seconds or 0) end
  end
  for _, name in ipairs{"valid", "valid_expected", "valid_measure"} do
    local sum = 0
    for _, run in ipairs(runs) do sum = sum + (run[name] or 0 / 0) end
    if one[name] then one[name] = sum / #runs end
  end
  return one
end

-- A run has ended: what it was trained with is kept of the best, and of the latest with the
-- defaults. Atomic, so that Ctrl-C finds the best whole.
local note = term.atomic(function(self, t)
  local ended = self.ended
  ended[#ended + 1] = table.remove(self.waiting, 1)
  self.steps_made = self.steps_made + ended[1].steps
  if #ended < self.seeds then return end
  local run, former = as_one(ended), t.latest
  self.made, self.ended, t.latest = self.made + 1, {}, run
  if run.failed then self.first_failure = self.first_failure or run.failed end
  if not t.best or before(self, run, t.best) then t.best = run end
  local beaten = run
  if not run.failed and (not self.best or before(self, run, self.best)) then
    beaten, self.best = self.best, run
  end
  local first = self.trials[1]
  for _, old in pairs{beaten, former} do
    local stays = old == self.best or first.options.default and old == first.latest
    if not stays then self.maker.forget(old) end
  end
  if self.say then self.say(run) end
end)

-- Runs the trials of a rung, at most self.jobs at once; results are noted in their order.
local function climb(self, list, steps)
  local n = #list * self.seeds
  for i = 1, n + self.jobs - 1 do
    local begun, ended = list[(i - 1) // self.seeds + 1], i - self.jobs
    if i <= n then
      local run = self.maker:start(begun.options, steps, (i - 1) % self.seeds + 1)
      run.number = begun.number
      table.insert(self.waiting, run)
    end
    if ended >= 0 then
      self.maker:finish(self.waiting[1])
      note(self, list[ended // self.seeds + 1])
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
  local first, steps = self.trials[1], self.maker.steps
  if first.options.default and first.latest.steps < steps then
    self.planned, self.steps_planned = self.planned + 1, self.steps_planned + steps * self.seeds
    climb(self, {first}, steps)
  end
end

-- The run with the defaults for all steps, if they are a trial.
function rungs:defaults()
  local first = self.trials[1]
  return first.options.default and not first.latest.failed and first.latest or nil
end

-- Ends the runs that nobody will wait for.
function rungs:abandon()
  for _, run in ipairs(self.waiting) do self.maker.abandon(run) end
  self.waiting = {}
end

return rungs
