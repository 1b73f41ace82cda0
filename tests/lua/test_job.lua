-- Jobs through the surface: the numbers of t:run, what may be done meanwhile and what is refused,
-- records and logs, failures, and that a job keeps alive what it trains with.
local lu = require "luaunit"
local fopo = require "fopo"
local job = require "fopo.run.job"

local function fails(text, f, ...) lu.assertErrorMsgContains(text, f, ...) end

local s = fopo.data.synthetic{users = 400, items = 300, clusters = 8, seed = 3}:sessions{
  min_items = 10, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 6})
local ix = fopo.index.norm(items)

local function new(o)
  o = o or {}
  local p = {policy = o.policy or fopo.policy.linear{items = items, seed = 1}, data = s.train,
             batch = 8, seed = 5, valid = o.valid or false, reward = o.reward, index = o.index,
             optim = fopo.optim.adam{lr = o.lr or 1e-3},
             gradient = fopo.gradient.snis{samples = 30, proposal = fopo.proposal.mixture{
               index = ix, k = 20, refresh = 2}}}
  return fopo.trainer(p)
end

local function theta(t) return t.policy:theta():totable() end

-- A history that can be compared: NaN is not equal to itself.
local function as_text(history)
  local copy = {}
  for name, list in pairs(history) do
    copy[name] = {}
    for n, value in ipairs(list) do copy[name][n] = ("%.17g"):format(value) end
  end
  return copy
end

local function ran(o, options)
  local t = new(o)
  options.view = false
  return t:run(options)
end

TestJob = {}

-- Nothing is left behind for the next test.
function TestJob:tearDown()
  job.idle()
  collectgarbage()
end

function TestJob:test_list()
  new():start{steps = 100000000} -- which nobody holds
  local j = new():start{steps = 20}
  collectgarbage()
  local list = fopo.jobs()
  lu.assertIs(list[#list], j)
  lu.assertEquals(list[#list - 1].state, "training")
  j:wait()
  lu.assertStrContains(tostring(fopo.jobs()), ("%d  job, done: step 20"):format(#list))
  list[#list - 1]:stop()
  lu.assertIs(fopo.jobs()[#fopo.jobs()], j)
  for _, one in ipairs(fopo.jobs()) do lu.assertNotEquals(one.state, "training") end
end

function TestJob:test_same_as_run()
  local o = {valid = s.valid, index = ix}
  local t, u = ran(o, {steps = 300, every = 50}), new(o)
  local j = u:start{steps = 300, every = 50}
  lu.assertIs(j:wait(), u)
  lu.assertEquals({u.step, j.state, j.step}, {300, "done", 300})
  lu.assertEquals(as_text(j.history), as_text(u.history))
  lu.assertStrContains(tostring(j), "job, done: step 300 of 300")
  -- and on, in either way
  t:run{steps = 20, view = false}
  u:start{steps = 20}:wait()
  lu.assertEquals(theta(u), theta(t))
end

function TestJob:test_while_it_works()
  local t = new()
  local pi = t.policy
  local j = t:start{steps = 10000000}
  lu.assertEquals(j.state, "training")
  local before, first = t.step, theta(t)
  while t.step == before do j.native:wait(0.01) end
  while theta(t)[1][1] == first[1][1] do tostring(j) end -- pi shows what is learnt
  -- what only looks is fine
  lu.assertTrue(fopo.evaluate(pi, s.test, {index = ix}).reward >= 0)
  lu.assertEquals(pi:best(s.test:contexts(items), {index = ix}).rows, s.test.n)
  lu.assertEquals(ix:search(s.test:contexts(items), 3).cols, 3)
  t.gradient:compute(pi, s.train:contexts(items), {1, 2, 3}, fopo.reward.hits(s.train), {})
  lu.assertStrContains(tostring(t), "a job trains it")
  -- what changes what it trains with is not
  local busy = "in use by a job; job:pause() first"
  fails(busy, t.run, t, {steps = 1, view = false})
  fails(busy, t.resume, t, "nothing.npz")
  fails(busy, pi.set_theta, pi, pi:theta())
  fails(busy, ix.update, ix)
  fails(busy, function() t.optim.lr = 1 end)
  fails(busy, t.gradient.set, t.gradient, {epsilon = 0.1})
  fails("has a job already", t.start, t, {steps = 1})
  fails("in use by a job", function() new{policy = pi}:start{steps = 1} end)
  fails("a job is training", fopo.threads, 1)
  fails("no field 'stopp'", function() return j.stopp end)
  fails("cannot be set", function() j.step = 1 end)
  fails("must be a number", function() j.lr = "x" end)
  fails("learning rate is -1", function() j.lr = -1 end)
  lu.assertEquals(j.state, "training")
  -- arrays that it reads are copied by whoever changes them
  local x = items:get(1, 1)
  local mine = items:copy()
  mine:set(1, 1, x + 1)
  lu.assertEquals(items:get(1, 1), x)
  -- a checkpoint in between
  local path = os.tmpname() .. ".npz"
  t:save(path)
  lu.assertEquals(j.state, "training")
  lu.assertIs(j:stop(), t)
  lu.assertEquals(j.state, "stopped")
  local twin = new()
  twin:resume(path)
  lu.assertTrue(twin.step > 0 and twin.step <= t.step)
  twin:run{steps = t.step - twin.step + 1, view = false}
  t:run{steps = 1, view = false}
  lu.assertEquals(theta(t), theta(twin))
  os.remove(path)
end

function TestJob:test_knobs_and_replay()
  local t = new()
  local j = t:start{steps = 4000, log = os.tmpname() .. ".d"}
  j.lr = 5e-4
  j.epsilon = 0.4
  j:pause()
  lu.assertEquals(j.state, "paused")
  fails("job:resume() first", j.wait, j)
  local at = t.step
  j.k, j.samples = 10, 25
  lu.assertEquals({j.lr, j.epsilon, j.k, j.samples}, {5e-4, 0.4, 10, 25})
  lu.assertEquals({t.optim.lr, t.gradient.epsilon}, {5e-4, 0.4})
  lu.assertEquals(t.step, at)
  j:resume()
  j:resume()
  j:wait()
  fails("has ended", function() j.lr = 1 end)
  lu.assertEquals(j:pause().state, "done")
  lu.assertEquals(#t.actions, 4)
  local u = new()
  u:run{steps = 4000, view = false, replay = t.log_folder}
  lu.assertEquals(theta(u), theta(t))
  -- the log is the history
  local h = require("fopo.run.log").read(t.log_folder).history
  lu.assertEquals(h.step, t.history.step)
  lu.assertEquals(h.step[#h.step], 4000)
  os.execute("rm -r " .. t.log_folder)
end

function TestJob:test_two_at_once()
  local a, b, c = new(), new(), new()
  local one, two = a:start{steps = 400}, b:start{steps = 400}
  c:run{steps = 400, view = false}
  one:wait()
  two:wait()
  lu.assertEquals(theta(a), theta(c))
  lu.assertEquals(theta(b), theta(c))
end

-- The log and the checkpoint of a run are its own, and say whose; what a killed process has left
-- does not block.
function TestJob:test_locks()
  local folder, pid = os.tmpname(), io.open("/proc/self/stat"):read("a"):match("^%d+")
  os.remove(folder)
  local log, point = folder .. "/log", folder .. "/a.npz"
  lu.assertTrue(os.execute("mkdir -p " .. log))
  for _, name in ipairs{log .. "/lock", point .. ".lock"} do
    local f <close> = assert(io.open(name, "w"))
    f:write("process 1 on nowhere\n")
  end
  local j = new():start{steps = 1000000000, log = log, checkpoint = point}
  fails("the log " .. log .. " is in use by another run, of process " .. pid, ran, {},
        {steps = 1, log = log})
  fails("the checkpoint " .. point .. " is in use by another run, of process " .. pid, ran, {},
        {steps = 1, checkpoint = point})
  j:stop()
  for _, name in ipairs{log .. "/lock", point .. ".lock"} do lu.assertNil(io.open(name)) end
  ran({}, {steps = 1, checkpoint = point})
  lu.assertTrue(os.execute("rm -r " .. folder))
end

-- Nobody holds the trainer, its policy or the job: it goes on, and is done.
function TestJob:test_collected()
  local n = 0
  do
    local own = fopo.array.randn(200, 6, 4)
    local d = fopo.data.synthetic{users = 200, items = 200, clusters = 4, seed = 8}
    local t = fopo.trainer{policy = fopo.policy.linear{items = own, seed = 1}, batch = 4,
      data = d:sessions{min_items = 5}.train,
      gradient = fopo.gradient.snis{samples = 10, proposal = fopo.proposal.mixture{
        index = fopo.index.norm(own), k = 5}}}
    t:start{steps = 600, every = 100, on_record = function() n = n + 1 end}
  end
  local until_then = fopo.clock() + 60
  while n < 6 and fopo.clock() < until_then do
    collectgarbage()
    job.idle()
  end
  lu.assertEquals(n, 6)
end

function TestJob:test_refusals()
  fails("use t:run", function()
    new{reward = fopo.reward.custom(function(ids) return ids end)}:start{steps = 1}
  end)
  fails("a policy that does not learn items", function()
    new{policy = fopo.policy.linear{items = items, train_items = true}}:start{steps = 1}
  end)
  fails("one of epochs, steps and seconds", function() new():start{} end)
  fails("did you mean", function() new():start{step = 1} end)
  fails("replay", function() new():start{steps = 1, replay = {}} end)
end

-- A failure is a sentence at the prompt, and the trainer is as after its last whole step.
function TestJob:test_failure()
  local t = new{lr = 1e38}
  local j = t:start{steps = 100000}
  local said
  local until_then = fopo.clock() + 60
  while not said and fopo.clock() < until_then do said = job.idle() end
  lu.assertStrContains(said, "the job has failed: ")
  lu.assertStrContains(said, "could move theta beyond")
  lu.assertStrContains(said, "lower lr")
  lu.assertEquals(j.state, "failed")
  fails("the job has failed", j.wait, j)
  lu.assertStrContains(tostring(j), "job, failed")
  lu.assertEquals(t.step, j.step)
  t.policy:set_theta(fopo.array.zeros(6, 6))
  t.optim.lr = 1e-3
  lu.assertNil(t.job)
end

-- on_record: true stops; an error is said, and the job goes on.
function TestJob:test_on_record()
  local t = new()
  t:start{steps = 1000000, every = 20, on_record = function(_, n) return n == 3 end}:wait()
  lu.assertTrue(#t.history.step >= 3)
  lu.assertTrue(t.step < 1000000)

  local u, n = new(), 0
  local j = u:start{steps = 300, every = 100, on_record = function(_, k)
    n = k
    error("no luck")
  end}
  local said, until_then = "", fopo.clock() + 60
  while not said:find("has ended") and fopo.clock() < until_then do
    said = said .. (job.idle() or "")
  end
  lu.assertEquals({n, select(2, said:gsub("no luck", ""))}, {3, 1}) -- told once
  lu.assertEquals(#u.history.step, 3)
  j:wait()
end

function TestJob:test_patience_and_best()
  local o = {valid = s.valid, lr = 0.3}
  local t, u = ran(o, {steps = 2000, every = 10, patience = 4}), new(o)
  local j = u:start{steps = 2000, every = 10, patience = 4}
  j:wait()
  lu.assertEquals({u.step, u.best_step}, {t.step, t.best_step})
  lu.assertEquals(theta(u), theta(t))
  lu.assertStrContains(tostring(j), "no better validation in 4 records")
end

-- A job that nobody looks at says at the prompt that it has ended, why, and what is held.
function TestJob:test_end_is_said()
  for reason, o in pairs{["no better validation in 4 records"] = {steps = 2000, patience = 4},
                         ["at step 40 after "] = {steps = 40}} do
    local t, said, until_then = new{valid = s.valid, lr = 0.3}, nil, fopo.clock() + 60
    o.every = 10
    t:start(o)
    while not said and fopo.clock() < until_then do said = job.idle() end
    lu.assertStrContains(said, "the job has ended at step " .. t.step)
    lu.assertStrContains(said, reason)
    lu.assertStrContains(said, ("valid %.4f"):format(t.held.valid))
    lu.assertNil(job.idle())
  end
end

-- On a terminal what a job says unasked is wrapped at words; the short end fits a line.
function TestJob:test_sentences_of_a_terminal()
  local term = require "fopo.term"
  local is_tty, width = term.is_tty, term.width
  term.is_tty, term.width = function() return true end, function() return 80 end
  local t, said, until_then = new{valid = s.valid, lr = 3}, "", fopo.clock() + 60
  t:start{steps = 60, every = 20, view = true}
  while not said:find("has ended") and fopo.clock() < until_then do
    said = said .. "\n" .. (job.idle() or "")
  end
  term.is_tty, term.width = is_tty, width
  lu.assertTrue(#t.notes > 0)
  for line in said:gmatch("[^\n]+") do lu.assertTrue(#line < 80, line) end
  for _, note in ipairs(t.notes) do
    lu.assertStrContains(said:gsub("%s+", " "), (note:gsub("%s+", " ")))
  end
end

function TestJob:test_lines()
  local t = new()
  t:start{steps = 200, every = 100, view = true}
  local said, until_then = "", fopo.clock() + 60
  while not said:find("step    200") and fopo.clock() < until_then do
    said = said .. (job.idle() or "")
  end
  lu.assertStrContains(said, "step    100")
  local v = new():start{steps = 100, seconds = nil, every = 50, json = true}
  local object = ""
  while not object:find('"step": *100') and fopo.clock() < until_then do
    object = object .. (job.idle() or "")
  end
  lu.assertStrContains(object, '"reward"')
  v:wait()
end

function TestJob:test_completion()
  local complete = require "fopo.prompt.complete"
  _G.some_job, _G.some_trainer = new():start{steps = 1}, new()
  local names = complete("some_job.", "some_job.")
  lu.assertItemsEquals(names, {
    "some_job.clip", "some_job.epsilon", "some_job.head", "some_job.history", "some_job.items_lr",
    "some_job.k", "some_job.last", "some_job.lr", "some_job.momentum", "some_job.pause",
    "some_job.resume", "some_job.reward", "some_job.samples", "some_job.seconds",
    "some_job.sentence", "some_job.sigma", "some_job.sigma_lr", "some_job.state",
    "some_job.step", "some_job.stop", "some_job.tail", "some_job.trainer", "some_job.translate",
    "some_job.wait", "some_job.weight_decay"})
  lu.assertEquals(complete("some_job:pa", "some_job:pa"), {"some_job:pause"})
  local methods = complete("some_trainer:", "some_trainer:")
  lu.assertItemsEquals(methods, {"some_trainer:describe", "some_trainer:resume", "some_trainer:run",
                                 "some_trainer:save", "some_trainer:start"})
  lu.assertItemsEquals(complete("some_job.trainer.st", ""), {"some_job.trainer.start",
    "some_job.trainer.step", "some_job.trainer.steps_per_epoch"})
  _G.some_job:wait()
  _G.some_job, _G.some_trainer = nil, nil
end

-- In the view: a rest is shown as one, and a checkpoint does not end it.
function TestJob:test_view_of_a_rest()
  local source = require("fopo.view.sources").of_job(new():start{steps = 1000000})
  lu.assertFalse(source:resting())
  source:pause(true)
  lu.assertTrue(source:resting())
  local folder = os.tmpname() .. ".d"
  source.t.log_folder = folder
  lu.assertStrContains(source:save(), folder)
  lu.assertTrue(source:resting())
  source:pause(false)
  lu.assertStrContains(source:save(), folder)
  lu.assertFalse(source:resting())
  source.j:stop()
  os.execute("rm -r " .. folder)
end

os.exit(lu.LuaUnit.run())
