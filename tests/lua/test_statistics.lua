-- The history of a run is the same to the bit however the run is made: by t:run, by a job, by the
-- live view, in slices of any length, with a replayed action that changes nothing, and saved and
-- resumed between two records or within one. Seconds alone differ.
local lu = require "luaunit"
local fopo = require "fopo"
local define = require "fopo.base.define"
local live = require "fopo.view.live"
local native = require "fopo.native"
local run = require "fopo.run.run"
local sources = require "fopo.view.sources"

local s = fopo.data.synthetic{users = 400, items = 300, clusters = 8, seed = 3}:sessions{
  min_items = 10, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 6})
local ix = fopo.index.norm(items)

-- 37 contexts a step: the last batch of a pass is smaller, so the mean of means is another number.
local STEPS, EVERY, BATCH = 220, 50, 37

local estimators = {
  uniform = function() return fopo.gradient.snis{samples = 30} end,
  adaptive = function()
    return fopo.gradient.snis{samples = 30, proposal = fopo.proposal.adaptive{index = ix, k = 20}}
  end,
  kept = function()
    return fopo.gradient.head_tail{index = ix, k = 20, tail = 10, refresh = 3}
  end,
  reinforce = function() return fopo.gradient.reinforce{samples = 10} end,
}

local function new(estimator)
  return fopo.trainer{policy = fopo.policy.linear{items = items, seed = 1}, data = s.train,
                      batch = BATCH, seed = 5, valid = s.valid, index = ix,
                      optim = fopo.optim.adam{lr = 3e-3}, gradient = estimator()}
end

-- The columns that are functions of the seed.
local timed = {seconds = true, steps_per_second = true}
for _, phase in ipairs(native.phases()) do timed[phase.column] = true end

local function deterministic(history)
  local h = {}
  for name, list in pairs(history) do
    if not timed[name] then
      h[name] = {}
      for i, v in ipairs(list) do h[name][i] = ("%q"):format(v) end -- all bits
    end
  end
  return h
end

-- A run of all the steps, to be advanced here.
local function run_of(t)
  local columns = {}
  for name in pairs(t.history) do columns[#columns + 1] = name end
  return run.new(t, {steps = STEPS, every = EVERY, keep_best = true}, columns)
end

local function in_slices(t, count)
  local r <close> = run_of(t)
  while not r:done() do r:advance(nil, count) end
  r:finish()
  return t
end

local ways = {}
function ways.job(e) return new(e):start{steps = STEPS, every = EVERY}:wait() end
function ways.slices_of_1(e) return in_slices(new(e), 1) end
function ways.slices_of_7(e) return in_slices(new(e), 7) end
function ways.slices_of_100(e) return in_slices(new(e), 100) end
function ways.view(e)
  local t = new(e)
  local r <close> = run_of(t)
  live.headless(sources.of_run(r), {rows = 24, cols = 80})
  r:finish()
  return t
end
function ways.replay(e)
  return new(e):run{steps = STEPS, every = EVERY, view = false,
                    replay = {{step = 33, what = "lr", value = 3e-3},
                              {step = 120, what = "lr", value = 3e-3}}}
end

-- Saved after `at` steps, and gone on with by another trainer.
local function resumed(e, at)
  local path = os.tmpname() .. ".npz"
  local t, u = new(e), new(e)
  do
    local r = run_of(t)
    while t.step < at do r:advance(nil, math.min(30, at - t.step)) end
    t:save(path)
  end
  u:resume(path)
  os.remove(path)
  lu.assertEquals(u.step, at)
  return u:run{steps = STEPS - at, every = EVERY, view = false, keep_best = false}
end
function ways.resumed_between_records(e) return resumed(e, 2 * EVERY) end
function ways.resumed_within_a_record(e) return resumed(e, 2 * EVERY + 13) end

TestStatistics = {}

for name, estimator in pairs(estimators) do
  TestStatistics["test_" .. name] = function()
    local wanted = new(estimator):run{steps = STEPS, every = EVERY, view = false}
    local h = deterministic(wanted.history)
    lu.assertEquals(#h.step, math.ceil(STEPS / EVERY))
    lu.assertEquals(h.norm[1] == h.norm[2], false)
    for way, make in pairs(ways) do
      local t = make(estimator)
      lu.assertEquals(deterministic(t.history), h, ("%s by %s"):format(name, way))
    end
  end
end

-- A row of the table is a column, a tag of TensorBoard and a line of the help.
function TestStatistics:test_table()
  local t = new(estimators.uniform)
  local text = define.entries["trainer:run"].text
  for _, one in ipairs(native.statistics()) do
    lu.assertEquals(t.history[one.name] ~= nil, one.tag ~= "")
    if one.tag ~= "" then lu.assertStrContains(text, one.text) end
  end
end
os.exit(lu.LuaUnit.run())
