-- Training as a user meets it: schedules, validation, what a run says at its end, the search for
-- good settings.
local lu = require "luaunit"
local fopo = require "fopo"

local world = {}
do
  world.s = fopo.data.synthetic{users = 300, items = 500, clusters = 10, seed = 5}
            :sessions{min_items = 10, seed = 2}
  world.items = fopo.embed.svd(world.s.train, {dim = 8})
end

local function trainer(options)
  local o = {policy = fopo.policy.linear{items = world.items, seed = 1}, data = world.s.train,
             gradient = fopo.gradient.snis{samples = 50}, seed = 4}
  for name, value in pairs(options or {}) do o[name] = value end
  return fopo.trainer(o)
end

local function same(a, b)
  lu.assertEquals(a.policy:theta():totable(), b.policy:theta():totable())
end

-- ---- schedules ----

TestSchedule = {}

local function scheduled(kind)
  return fopo.optim[kind]{lr = 0.05, clip = 0.1, weight_decay = 0.1, decoupled = true,
                          schedule = fopo.schedule.cosine{steps = 24, warmup = 4, final = 0.1}}
end

-- In one run, in slices, in a job, and interrupted and resumed: the same rates and the same bits.
function TestSchedule:test_the_same_in_every_way()
  local path = os.tmpname()
  for _, kind in ipairs{"adam", "sgd"} do
    local whole = trainer{optim = scheduled(kind)}:run{steps = 30, every = 10, view = false}
    local cut = trainer{optim = scheduled(kind)}
    for _, n in ipairs{1, 12, 17} do cut:run{steps = n, every = 10, view = false} end
    local job = trainer{optim = scheduled(kind)}:start{steps = 30, every = 10}:wait()
    local first = trainer{optim = scheduled(kind)}:run{steps = 13, every = 10, view = false}
    first:save(path)
    local resumed = trainer{optim = scheduled(kind)}:resume(path)
    resumed:run{steps = 17, every = 10, view = false}
    same(cut, whole)
    same(job, whole)
    same(resumed, whole)
    lu.assertEquals(job.history.lr, whole.history.lr)
  end
  os.remove(path)
end

function TestSchedule:test_history_has_the_rate_that_was_used()
  local t = trainer{optim = scheduled("adam")}:run{steps = 30, every = 2, view = false}
  for n, step in ipairs(t.history.step) do
    lu.assertAlmostEquals(t.history.lr[n], 0.05 * t.optim.schedule:at(step - 1), 1e-15)
  end
  lu.assertAlmostEquals(t.history.lr[1], 0.025, 1e-15)
  lu.assertAlmostEquals(t.history.lr[15], 0.005, 1e-15)
  lu.assertEquals(t.optim.lr, 0.05)
  t.optim.lr = 1
  lu.assertAlmostEquals(t.optim.rate, 0.1, 1e-15)
end

function TestSchedule:test_as_text()
  local o = scheduled("adam")
  lu.assertEquals(tostring(o), "optimiser adam: lr 0.05, now 0.0125 by schedule cosine, from lr to "
    .. "0.1 lr at update 24, a warm-up of 4 updates, clipped at 0.1, weight decay 0.1 (decoupled), "
    .. "0 updates so far")
  lu.assertEquals(tostring(fopo.optim.adam{}), "optimiser adam: lr 0.001, 0 updates so far")
  lu.assertEquals(tostring(fopo.schedule.step{every = 1500}),
                  "schedule step, times 0.1 every 1,500 updates")
  o.schedule = fopo.schedule.constant{}
  o.clip, o.decoupled = 0, false
  lu.assertEquals(tostring(o), "optimiser adam: lr 0.05, weight decay 0.1, 0 updates so far")
end

function TestSchedule:test_refused()
  lu.assertErrorMsgContains("of 5 steps and its warm-up of 5", fopo.schedule.cosine,
                            {steps = 5, warmup = 5})
  lu.assertErrorMsgContains("needs the option every", fopo.schedule.step, {})
  lu.assertErrorMsgContains("schedule must be schedule, not", fopo.optim.adam, {schedule = {}})
  lu.assertErrorMsgContains("a schedule is needed here", function()
    fopo.optim.adam{}.schedule = "cosine"
  end)
  lu.assertErrorMsgContains("clip is -1", function() fopo.optim.adam{}.clip = -1 end)
end

-- By hand, through o:step: the gradient is clipped with that of the items.
function TestSchedule:test_step_clips()
  local items = fopo.array.randn(3, 2, 1)
  local pi = fopo.policy.linear{items = items, train_items = true}
  local theta, beta = pi:theta():copy(), pi:items():copy()
  local o = fopo.optim.sgd{lr = 0.5, clip = 1}
  o:step(pi, fopo.array.from{{3, 0}, {0, 0}}, fopo.array.ids{2}, fopo.array.from{{0, 4}})
  lu.assertAlmostEquals(pi:theta():get(1, 1) - theta:get(1, 1), 0.3, 1e-6)
  lu.assertAlmostEquals(pi:items():get(2, 2) - beta:get(2, 2), 0.4, 1e-6)
end

os.exit(lu.LuaUnit.run())
