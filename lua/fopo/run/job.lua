-- Jobs: t:start trains in a thread of its own while the prompt stays usable. The thread is C's and
-- never calls Lua: its records wait until the prompt is idle or the job is touched, and come into
-- t.history, the log and on_record then (drain). What is set on a job is set while it rests.
local native = require "fopo.native"
local checkpoint = require "fopo.run.checkpoint"
local define = require "fopo.base.define"
local knobs = require "fopo.run.knobs"
local run = require "fopo.run.run"
local sealed = require "fopo.base.sealed"
local term = require "fopo.term"
local text = require "fopo.base.text"
local validation = require "fopo.run.validation"

local job = {__name = "fopo.job"}
local jobs = {}     -- that have not ended: a job needs nobody to hold it
local started = setmetatable({}, {__mode = "v"}) -- all that there are, by their number
local count = 0
-- Of trainers: columns of the history; record n as text and as JSON; a sentence for the terminal.
local columns, line, object, wrapped

-- ---- records ----

-- Moves the thread's oldest record into the history, the log and what is to be said. Returns its
-- place.
local function take_record(j)
  local n = j.run:take(j.native:take())
  if j.say then j.say(n) end
  return n
end

-- The end of a job: the trainer is the user's again.
local function settle(j, seen)
  local t = j.trainer
  sealed.behind(j).ended = seen
  jobs[j], sealed.behind(t).job = nil, nil
  if not seen.failed then j.run:conclude(seen.best) end
  j.run:close()
end

-- What there is to see, and the place of a record that was taken, where there was one; without one,
-- a job that has ended is settled. Ctrl-C is often pressed while a job is looked at, and must not
-- cut this in two.
local take_one = term.atomic(function(j)
  local seen = j.native:look()
  sealed.behind(j.trainer).seconds = seen.seconds
  if seen.records > 0 then return seen, take_record(j) end
  if seen.state == "ended" then
    j.native:rest()
    settle(j, seen)
  end
  return seen
end)

-- Takes what the thread has made up to now, or as much as `seconds` allow; it may go on to make
-- records faster than that. Returns what there is to see.
local function drain(j, seconds)
  if j.ended then return j.ended end
  local on_record, last = j.on_record, seconds and native.clock() + seconds or math.huge
  local seen, n = take_one(j)
  local left = seen.records
  while n do
    left = left - 1
    if on_record and on_record(j.trainer, n) and seen.state ~= "ended" then
      j.native:stop()
      left = math.huge
    end
    if left == 0 and seen.state ~= "ended" or native.clock() > last then break end
    seen, n = take_one(j)
  end
  return seen
end

local rest_and = term.atomic(function(j, f, rested)
  j.native:rest()
  drain(j)
  local ok, why = pcall(f)
  if not rested then j.native:go() end
  if not ok then error(why, 0) end
end)

-- Runs f while the job of t rests, if it has one; it goes on afterwards if it did before.
function job.at_rest(t, f)
  local j = t.job
  if not j then return f() end
  rest_and(j, f, drain(j).state ~= "trains")
end

-- ---- what is said unasked: the lines of view = "lines", and failures ----

local pending = {}
local told = setmetatable({}, {__mode = "k"}) -- job -> the last error of its on_record

local function say(sentence) pending[#pending + 1] = sentence and wrapped(sentence) end

-- Writes the checkpoint of a job, if it keeps one and `when` says so.
local function save(j, when)
  local point = j.run.checkpoint
  if not j.ended and point and when(point) then
    job.at_rest(j.trainer, function() point:save() end)
  end
end

-- Takes what a job has made, and writes its checkpoint if that is due.
local function tick(j)
  drain(j, 0.05)
  save(j, checkpoint.due)
end

-- That a job came to its end, why, and what the policy holds; nil of one whose lines are JSON.
local function farewell(j, e)
  if e.failed then return "the job has failed: " .. e.sentence end
  if j.say and not j.run.say_note then return nil end
  local why = e.sentence ~= "" and "; " .. e.sentence or ""
  return ("the job has ended at step %s after %s%s%s"):format(text.count(e.step),
    text.seconds(e.seconds), validation.state(j.trainer), why)
end

-- For the prompt, while it waits: drains the jobs, not so long that a key would wait, and gives the
-- lines to print or nil.
function job.idle()
  local list = {}
  for j in pairs(jobs) do list[#list + 1] = j end
  for _, j in ipairs(list) do
    local ok, why = pcall(tick, j)
    why = not ok and tostring(why) or nil
    if why ~= told[j] then say(why) end -- it may come with each record
    told[j] = why or told[j]
    if j.ended then say(farewell(j, j.ended)) end
  end
  if #pending == 0 then return nil end
  local lines = table.concat(pending, "\n")
  pending = {}
  return lines
end

-- What a drain outside the prompt's waiting has to say is printed at once.
local function print_pending()
  for _, said in ipairs(pending) do print(said) end
  pending = {}
end

-- For the end of the program by a signal.
function job.save_all()
  for j in pairs(jobs) do
    if j.run.checkpoint then
      j.native:rest()
      drain(j)
      j.run.checkpoint:close()
    end
  end
end

local function touch(j)
  local seen = drain(j)
  save(j, checkpoint.due)
  print_pending()
  return seen
end

-- The job of t, nil if it has none or the job has ended.
function job.settled(t)
  if t.job then touch(t.job) end
  return t.job
end

-- For the live view: waits for about so many seconds. Returns the last slice where steps were made.
function job.watch(j, seconds)
  local seen = drain(j)
  local step = seen.step
  if seen.state ~= "ended" then j.native:wait(seconds) end
  seen = drain(j)
  if seen.step == step or not seen.steps then return nil end
  return setmetatable({seconds = seen.slice_seconds}, {__index = seen})
end

-- ---- the job as an object ----

local methods = {"pause", "resume", "stop", "wait"}
local fields = {}
function fields.step(j) return touch(j).step end
function fields.seconds(j) return touch(j).seconds end
function fields.reward(j) return touch(j).reward end
function fields.state(j)
  local seen = touch(j)
  if seen.state ~= "ended" then return seen.state == "rests" and "paused" or "training" end
  return seen.failed and "failed" or j.by_hand and "stopped" or "done"
end
function fields.last(j) return touch(j).last end
function fields.sentence(j) return touch(j).sentence end
-- Columns of what has been recorded since the start; a copy, which nothing changes.
function fields.history(j)
  touch(j)
  local copy = {}
  for name, list in pairs(j.trainer.history) do
    copy[name] = table.move(list, j.before + 1, #list, 1, {})
  end
  return copy
end

local settable = {}
for _, what in ipairs(knobs.names) do
  fields[what] = function(j) return j.run:get(what) end
  settable[what] = function(j, value)
    if touch(j).state == "ended" then define.fail("this job has ended; t:start starts another") end
    job.at_rest(j.trainer, function() j.run:set(what, value) end)
  end
end

local function remedy(_, key)
  if define.of[job[key]] then return "it is a method, as in job:" .. key .. "()" end
  return "it says how the job stands; what can be set is " .. table.concat(knobs.names, ", ")
end

sealed.kind(job, {
  what = "job", letter = "job", remedy = remedy, computed = fields, settable = settable,
  hidden = {"native", "run", "before", "ended", "say", "on_record", "by_hand"},
})

-- "training: step 1,200 of 5,000", ...
local function standing(j, seen)
  local state = j.state
  if state == "training" and seen.validates then state = "validating" end
  return ("job, %s: step %s%s, %s of training"):format(state, text.count(seen.step),
    seen.last and " of " .. text.count(seen.last) or "", text.seconds(seen.seconds))
end

-- "240 steps/s", "12 s left".
local function speed(seen, parts)
  local rate = seen.steps / seen.slice_seconds
  parts[#parts + 1] = ("%.0f steps/s"):format(rate)
  if seen.last then parts[#parts + 1] = text.seconds((seen.last - seen.step) / rate) .. " left" end
end

function job.describe(j)
  local seen = touch(j)
  local parts = {standing(j, seen)}
  if seen.steps then
    parts[2] = ("%s %.4f, ess %.1f"):format(validation.measure(j.trainer), seen.reward, seen.ess)
    if seen.state == "trains" then speed(seen, parts) end
  end
  local valid = j.trainer.history.valid
  for n = #valid, j.before + 1, -1 do
    if valid[n] == valid[n] then -- the last one may have been cut short
      parts[#parts + 1] = ("valid %.4f"):format(valid[n])
      break
    end
  end
  if seen.sentence ~= "" then parts[#parts + 1] = seen.sentence end
  return table.concat(parts, "; ")
end

job.pause = define.fn{
  name = "job:pause", returns = "job", args = {{"j", "job", nil, "the job"}},
  text = [[Lets it rest after the slice in hand, about a twentieth of a second or one step. Until
job:resume its trainer, policy, estimator and optimiser may be looked at, changed and saved.]],
  call = function(j)
    if touch(j).state ~= "ended" then
      j.native:rest()
      touch(j)
    end
    return j
  end,
}

job.resume = define.fn{
  name = "job:resume", returns = "job", args = {{"j", "job", nil, "the job"}},
  text = "Goes on after job:pause, from what its trainer, policy and optimiser are now.",
  call = function(j)
    if touch(j).state ~= "ended" then j.native:go() end
    return j
  end,
}

job.stop = define.fn{
  name = "job:stop", returns = "trainer", args = {{"j", "job", nil, "the job"}},
  text = [[Ends it after the step in hand; theta stays as it is then. Returns the trainer, which
t:run or t:start go on with.]],
  call = function(j)
    if touch(j).state ~= "ended" then
      sealed.behind(j).by_hand = true
      j.native:stop()
      touch(j)
    end
    return j.trainer
  end,
}

job.wait = define.fn{
  name = "job:wait", returns = "trainer", args = {{"j", "job", nil, "the job"}},
  text = [[Waits for its end. Ctrl-C ends the waiting, not the job. Raises where the job has failed.
Returns the trainer.]],
  call = function(j)
    local seen = touch(j)
    while seen.state ~= "ended" do
      if seen.state == "rests" then
        define.fail("the job is paused and would never end; job:resume() first")
      end
      j.native:wait(0.1)
      seen = touch(j)
    end
    if seen.failed then define.fail("the job has failed: %s", seen.sentence) end
    return j.trainer
  end,
}

job.sealed = {trainer = true} -- for completion
for name in pairs(fields) do job.sealed[name] = true end
for _, name in ipairs(methods) do job.sealed[name] = job[name] end

-- ---- starting ----

-- The options of t:run, without those of its view and its replay.
local function options_of_run()
  local left_out, list = {view = 1, overlay = 1, replay = 1}, {}
  for _, spec in ipairs(define.entries["trainer:run"].options) do
    if not left_out[spec[1]] then list[#list + 1] = spec end
  end
  table.insert(list, {"view", "boolean", false, "print a line at the prompt for each record"})
  return list
end

-- How the job speaks of record n: a line for the prompt.
local function voice(t, o)
  if o.json or term.json() then
    return function(n) pending[#pending + 1] = object(t, n) end
  end
  return o.view and function(n) pending[#pending + 1] = line(t, n) end or nil
end

local start = term.atomic(function(t, o)
  if define.kind(t.valid) == "logs" then
    define.fail("a job cannot validate on a log; use t:run, or a trainer without valid")
  end
  if t.job then define.fail("this trainer has a job already; job:wait() or job:stop() first") end
  local r = run.new(t, o, columns)
  local ok, made = pcall(function()
    r:open()
    return native.job(t.native, r:plan())
  end)
  if not ok then
    r:close()
    error(made, 0)
  end
  r.withdrawn = nil
  local j = sealed.new(job, {native = made, trainer = t, run = r, before = #t.history.step,
                             say = voice(t, o),
                             on_record = o.on_record and term.divisible(o.on_record)})
  if j.say and not (o.json or term.json()) then
    r.say_note = say
  end
  jobs[j], sealed.behind(t).job = true, j
  count = count + 1
  started[count] = j
  return j
end)

-- Gives trainers their t:start.
function job.open(trainer, parts)
  columns, line, object, wrapped = parts.columns, parts.line, parts.object, parts.wrapped
  trainer.start = define.fn{
    name = "trainer:start", returns = "job",
    args = {{"t", "trainer", nil, "the trainer"}},
    options = options_of_run(),
    text = [[As t:run, but in a thread of its own: the prompt stays usable. The numbers are those of
t:run, to the bit. job prints how it stands; job:pause(), job:resume(), job:stop(), job:wait();
job.lr = 1e-4, job.epsilon = 0.5 and so on, as of fopo.trainer, change it; job.history has its
records so far.
While it works pi shows theta as it is, and may be used; what the job trains with is kept alive and
refuses changes. t.history, the log and on_record get the records when the prompt is idle or the job
is touched; its end is said there, with why and what the policy holds. Ctrl-C is not for the job;
leaving the program stops it. A custom reward needs t:run.]],
    example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train,
                 gradient = fopo.gradient.snis{samples = 50}}
job = t:start{steps = 200}
job.lr = 1e-4
print(job)
job:wait()
assert(t.step == 200)]],
    call = start,
  }
end

function job.__tostring(j) return job.describe(j) end

local function describe_all(list)
  local lines = {}
  for n, j in ipairs(list) do lines[n] = ("%d  %s"):format(n, job.describe(j)) end
  return #lines > 0 and table.concat(lines, "\n") or "no jobs"
end

local all = {__name = "fopo.jobs", describe = describe_all, __tostring = describe_all}

job.list = define.fn{
  name = "fopo.jobs", returns = "table",
  text = [[The jobs that have not ended, also those that no variable holds any more, and the ended
ones that one still holds, in the order of their start: fopo.jobs()[1].trainer goes on with the
first. It prints how each stands.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train}:start{steps = 20}
list = fopo.jobs()
assert(list[#list]:wait().step == 20)]],
  call = function()
    local list = {}
    for n = 1, count do list[#list + 1] = started[n] end
    return setmetatable(list, all)
  end,
}

return job
