-- One call of t:run as an object: its options, its log, what is changed on the way, and the
-- history. Which slices it makes, when a record ends, validation and the end are C's (train/run.h),
-- for jobs too. The plain loop of t:run or the live view drives it; the numbers are the same.
--
-- If several processes train together, the first one decides, because clocks differ and it alone
-- has a view: it tells every slice, record and change to the others before it does so itself.
local checkpoint = require "fopo.run.checkpoint"
local define = require "fopo.base.define"
local knobs = require "fopo.run.knobs"
local log = require "fopo.run.log"
local native = require "fopo.native"
local norms = require "fopo.run.norms"
local provenance = require "fopo.base.provenance"
local notes = require "fopo.run.notes"
local sealed = require "fopo.base.sealed"
local term = require "fopo.term"
local validation = require "fopo.run.validation"

local run = {}
run.__index = run

-- How many steps the run makes and how many of them a record covers. left: of the run that was
-- left before its end, or nil.
local function extent(t, o, left)
  local given = (o.epochs and 1 or 0) + (o.steps and 1 or 0) + (o.seconds and 1 or 0)
  if given > 1 or given == 0 and not left then
    define.fail("trainer:run needs one of epochs, steps and seconds; %s given",
                given == 0 and "none is" or given .. " are")
  end
  local steps = o.steps or o.epochs and math.ceil(o.epochs * t.steps_per_epoch) or math.huge
  if given == 0 then
    o.seconds, steps = left.seconds, left.last and left.last - t.step or math.huge
  end
  local every = o.every or left and left.every
                or (steps < math.huge and math.max(1, steps // 20)) or nil
  return steps, every
end

-- ---- what may be changed while it runs ----

function run:get(what) return knobs.get(self.t, what) end

-- Keeps in t.actions what was done by hand. Returns it.
local function keep_action(t, action)
  action.step, action.seconds = t.step, t.seconds
  t.actions[#t.actions + 1] = action
  return action
end

-- Sets a knob and keeps a note of it. Raises if the value cannot be.
function run:set(what, value)
  local before = knobs.set(self.t, what, value)
  self:tell("set", type(value) == "string" and "%s %s" or "%s %.17g", what, value)
  self:note{what = what, value = self:get(what), before = before}
end

-- Keeps in t.actions, and in the log, what was done by hand.
function run:note(action)
  keep_action(self.t, action)
  if self.log then self.log:action(action) end
end

-- Runs f, which a line of Lua made, and notes the knobs that differ afterwards.
function run:watching(f, line)
  local before = knobs.all(self.t)
  self:tell("lua", "%s", line or "")
  self.watched = true
  f()
  self.watched = nil
  knobs.changed(self.t, before, function(what, now, earlier)
    self:note{what = what, value = now, before = earlier}
  end)
end

-- ---- what may be changed between two runs ----

-- Keeps a change that was made between two runs: in t.actions, and for the log of the next run if
-- that continues one.
function run.between(t, action)
  local unlogged = sealed.behind(t).unlogged
  unlogged[#unlogged + 1] = keep_action(t, action)
end

-- Sets a knob of a trainer without a job: of the run that it is in, or between two runs.
function run.set_knob(t, what, value)
  local mine = sealed.behind(t)
  if mine.current and not (mine.current.watched or mine.current.follows) then
    mine.current:set(what, value)
  else
    local before = knobs.set(t, what, value)
    if mine.current then return end -- who watches, or leads, keeps a note of it
    run.between(t, {what = what, value = knobs.get(t, what), before = before})
    mine.knobs[what] = knobs.get(t, what)
  end
end

-- Keeps what was set on the trainer's parts since its last run, as t.optim.lr = 1e-4. An adaptive
-- epsilon and a sigma that is learnt change by themselves.
local function keep_changes(t)
  local mine = sealed.behind(t)
  local q = native.gradient_common(t.gradient, "proposal")
  knobs.changed(t, mine.knobs, function(what, now, before)
    if what == "epsilon" and q and q.kind == "adaptive" then return end
    if what == "sigma" and t.gradient.sigma_lr > 0 then return end
    run.between(t, {what = what, value = now, before = before})
  end)
  mine.knobs = knobs.all(t)
end

-- The actions to make again: those of a list, of a trainer, or of the folder of a log, by step.
local function planned(t, given)
  if type(given) == "string" then given = log.read_actions(given) end
  local list, place = {}, {}
  for i, a in ipairs(given) do
    if type(a) ~= "table" or math.type(a.step) ~= "integer" or type(a.what) ~= "string" then
      define.fail("trainer:run: replay[%d] is no action {step =, what =, value =}", i)
    end
    if knobs.is(a.what) then
      if a.step < t.step then
        define.fail("trainer:run: replay[%d] belongs to step %d, but this trainer is at step %d; "
                    .. "begin where the run began that it comes from", i, a.step, t.step)
      end
      list[#list + 1] = a
      place[a] = i
    elseif a.what ~= "save" then
      io.stderr:write(("fopo: the replay leaves out what was done at step %d: %s %s\n"):format(
        a.step, a.what == "lua" and "the line of Lua" or a.what, tostring(a.value)))
    end
  end
  table.sort(list, function(a, b)
    return a.step < b.step or a.step == b.step and place[a] < place[b]
  end)
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

-- Takes the record that was cut short from the history: the run goes on, and so does the record.
-- Returns it as a row, or nil.
local function withdraw_cut(t, columns)
  local mine, row = sealed.behind(t), nil
  if mine.cut and mine.cut == #t.history.step then
    row = {}
    for _, name in ipairs(columns) do row[name] = table.remove(t.history[name], mine.cut) end
  end
  mine.cut = nil
  return row
end

-- Where the run did not go on the record stays.
local function put_back_cut(self)
  if not self.withdrawn then return end
  sealed.behind(self.t).cut = run.add_row(self.t.history, self.columns, self.withdrawn)
  if self.log then self.log:record(self.withdrawn) end
end

-- t: the trainer; o: the checked options of t:run; columns: those of t.history. Who closes it opens
-- it.
function run.new(t, o, columns)
  local left, mine = t.native.unfinished, sealed.behind(t)
  local had = left and mine.seen and mine.seen.options
  if had and not (o.epochs or o.steps or o.seconds) then -- the rest of a run
    o.best_by, o.patience = o.best_by or had.best_by, o.patience or math.tointeger(had.patience)
    o.keep_best = o.keep_best and had.keep_best
  end
  local steps, every = extent(t, o, left)
  o.best_by = o.best_by or validation.standard(t)
  local r = setmetatable({t = t, o = o, columns = columns, every = every, first = t.step,
                          begun = t.seconds, steps = steps,
                          replay = o.replay and planned(t, o.replay) or {},
                          left_before = left, seen = notes.new(t, o, left and mine.seen)}, run)
  mine.held, mine.notes = nil, {}
  keep_changes(t)
  return r
end

-- Takes back the record that was cut short, also from the log. Atomic, as Ctrl-C may come again.
local open = term.atomic(function(self)
  local t, o, mine = self.t, self.o, sealed.behind(self.t)
  self.withdrawn = withdraw_cut(t, self.columns)
  if o.log and native.ranks() == 0 then
    self.log = log.open(t, o.log, self.columns, o, mine.unlogged)
    mine.unlogged = {}
  end
  self.checkpoint = checkpoint.open(t, o)
  mine.current = self
end)

-- Opens the log and the checkpoint.
function run:open()
  open(self)
  local t = self.t
  local flat = t.step == 0 and native.ranks() == 0 and norms.unknown(t) and norms.uniform(t)
  if flat then io.stderr:write("note: ", flat, "\n") end
end

-- What native.run and native.job are told. A process that follows is told by the first one when a
-- record ends and when the run does.
function run:plan()
  local t, o = self.t, self.o
  local p = {trained = t.seconds, keep_best = o.keep_best, sure = t.policy.scores_lists}
  validation.plan(p, t, o, self.every)
  if self.follows then
    p.every = math.maxinteger
  else
    p.steps = self.steps < math.huge and math.tointeger(self.steps) or nil
    p.seconds, p.every, p.patience = o.seconds, self.every, o.patience
  end
  return p
end

-- The run in C, made when it is first needed: a job has its own.
local function core_of(self)
  if self.core then return self.core end
  local plan = self:plan()
  self.core = native.run(self.t.native, plan)
  if plan.ask and not self.core.goes_on then self.core:judged(validation.by_log(self.t)) end
  return self.core
end

-- From here on the first of several processes leads, and the others are to follow. What the run in
-- C is made of may take all of them.
function run:together()
  local rank, ranks = native.ranks()
  self.follows = rank > 0
  if ranks > 1 then core_of(self) end
  self.leads = rank == 0 and ranks > 1
end

-- ---- several processes ----

function run:tell(what, format, ...)
  if self.leads then native.share(what .. " " .. format:format(...)) end
end

local orders = {}
function orders.record(r, how) r:record(how == "cut") end
function orders.set(r, rest)
  local what, value = rest:match("^(%S+) (.*)$")
  r:set(what, tonumber(value) or value)
end
function orders.save(r, path) r.t:save(path) end
function orders.lua(r, line)
  local env = setmetatable({t = r.t, print = function() end}, {__index = _G, __newindex = _G})
  local chunk = load("return " .. line, "=view", "t", env) or load(line, "=view", "t", env)
  if chunk then pcall(chunk) end
end
function orders.advance(r, n)
  sealed.behind(r.t).seconds = core_of(r):advance(nil, math.tointeger(tonumber(n))).trained
end

-- Does what the first process does, to the end of its run. Raises where that one does. Atomic, for
-- an interruption that leaves here early would be waited for: the next step tells the first one.
run.follow = term.atomic(function(self)
  local failed
  while true do
    local what, rest = native.share():match("^(%S+) (.*)$")
    if what == "stop" then error(failed or rest, 0) end
    if what == "finish" then
      self.left = rest == "left" or nil
      return
    end
    if not failed or what == "save" then -- whose failure it was, the state is that of the last step
      local ok, why = pcall(orders[what], self, rest)
      if not ok and what == "advance" then failed = why end
    end
  end
end)

-- ---- records ----

-- The record in hand as a row of the history. A log to validate on is judged here.
local function end_record(self, cut)
  local core, t = core_of(self), self.t
  if cut then return core:cut_record() end
  local event = core:advance()
  if event.kind ~= "validate" then return event end
  core:judged(validation.by_log(t))
  return core:advance()
end

-- Appends a row to the history, NaN if a column has no value. Returns its place.
function run.add_row(history, columns, row)
  local n = #history.step + 1
  for _, name in ipairs(columns) do history[name][n] = row[name] or 0 / 0 end
  return n
end

-- Takes a record into the history, the log and what the notes are made of. Returns its place.
function run:take(row)
  local n = run.add_row(self.t.history, self.columns, row)
  local mine = sealed.behind(self.t)
  if row.cut then
    self.cut, mine.cut = true, n
    if self.log then self.log:record(row) end
    return n
  end
  if row.start and not mine.began then
    mine.began = {step = self.seen.first, valid = row.start.reward, expected = row.start.expected}
  end
  self.seen:record(row)
  if self.log then self.log:record(row) end
  return n
end

-- The end of a run that was not given up. best: what it ended with, from C; nil if nothing is kept.
function run:conclude(best)
  local t = self.t
  local mine = sealed.behind(t)
  mine.best_step = best and best.step or t.best_step
  mine.held = self.seen:held(t.step, best)
  mine.notes = self.seen:sentences(t.step, best)
  if self.left_before and self.core and not self.core.goes_on then
    table.insert(mine.notes, 1, "the run that was left before is not gone on with: the policy was "
                 .. "changed by hand, or validation is by other means")
  end
  if self.log then
    self.log:notes(t.notes)
    self.log:held(t)
  end
  for _, note in ipairs(t.notes) do
    if self.say_note then self.say_note("note: " .. note) end
  end
end

-- Writes the record in hand to the history, the log and the screen, without validation if Ctrl-C
-- ends that. Returns its place, or nil if no step was made.
local write_record = term.atomic(function(self, cut)
  local t = self.t
  if self.cut or not core_of(self):record_now() then return nil end
  self:tell("record", cut and "cut" or "whole")
  local ok, row = pcall(end_record, self, cut)
  local why = row
  if not ok then row = self.core:cut_record() end
  if not row then error(why, 0) end -- it had ended, and there was no memory to show it
  sealed.behind(t).seconds = row.seconds
  local n = self:take(row)
  if self.say then
    self.say(n)
    io.stdout:flush() -- of a job under mpirun or in a pipe the lines would come by the page
  end
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
  if not self.core then put_back_cut(self) end
  if self.core and not self.follows then write_record(self, true) end
  if self.checkpoint and self.leads then self:save(self.checkpoint) end
  self:tell("stop", "%s", tostring(why or "the run was given up"))
  self.leads = false
  local mine = sealed.behind(self.t)
  mine.seen = self.t.native.unfinished and self.seen:state() or nil
  if self.log then self.log:close() end
  if self.checkpoint then self.checkpoint:close() end
  if mine.current == self then mine.current = nil end
  mine.knobs = knobs.all(self.t)
  provenance.trained(self.t)
end)

run.__close = run.close -- Lua gives the error where there is one

-- Ends the record in hand, so that it is validated; false where there is nothing to record.
function run:record_now()
  if not core_of(self):record_now() then return false end
  self:record()
  return true
end

-- Writes the checkpoint, on all of several processes.
function run:save(point)
  if point.step == self.t.step then return end
  self:tell("save", "%s", point.path)
  point:save()
end

-- ---- slices ----

function run:done() return self.stopped ~= nil or core_of(self).done end

-- Makes a slice: it ends with the record, the run, or before the next action. Returns it, and the
-- place of the record that ended with it.
local make_slice = term.atomic(function(self, seconds, count)
  local t, core = self.t, core_of(self)
  if core:steps() == 0 then -- at the end, or before a record that was cut short with all its steps
    return nil, not self:done() and write_record(self) or nil
  end
  self:replay_due() -- behind that record, as in a run that was not stopped
  local most = self.replay[1] and self.replay[1].step - t.step
  if count then most = math.min(most or count, count) end
  if self.checkpoint then seconds = math.min(seconds or math.huge, self.checkpoint:left()) end
  local n = core:steps(seconds, most)
  self:tell("advance", "%d", n)
  local slice = core:advance(nil, n)
  sealed.behind(t).seconds = slice.trained
  if slice.interrupted then
    define.fail("interrupted after step %d; t:run goes on from there", t.step)
  end
  return slice, slice.record_due and write_record(self)
end)

-- Makes steps, for about `seconds` where given (or just `count` of them), and records where a
-- record ends. Returns the slice. Ctrl-C raises, and run.close records what was done.
function run:advance(seconds, count)
  local slice, n = make_slice(self, seconds, count)
  if self.checkpoint and self.checkpoint:due() and not self:done() then
    self:save(self.checkpoint)
  end
  show_record(self, n)
  return slice
end

-- A run that was left by hand keeps the last parameters, any other the best if it is to. Atomic,
-- because what is said of the parameters must be true of those that were put back.
local end_run = term.atomic(function(self)
  self:tell("finish", self.left and "left" or "whole")
  self.leads = false
  self:conclude(not self.left and core_of(self):finish().best or nil)
end)

-- The end.
function run:finish()
  self:record() -- what a run that was left has made since its last record
  end_run(self)
  if self.checkpoint then self.checkpoint:save(true) end -- of all processes, with what was kept
end

return run
