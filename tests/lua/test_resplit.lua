-- X and Y drawn anew each epoch: where it is on and where it is refused, and the same bits in one
-- run or several, resumed, in a job, and for any number of threads.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"

local d = fopo.data.synthetic{users = 300, items = 200, clusters = 8, seed = 3}
local s = d:sessions{min_items = 10, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 6})

local function new(o)
  local p = {policy = fopo.policy.linear{items = items, contexts = "unit"}, data = s.train,
             valid = false, batch = 32, gradient = fopo.gradient.snis{samples = 20}}
  for name, value in pairs(o or {}) do p[name] = value end
  return fopo.trainer(p)
end

local function theta(t) return t.policy:theta():totable() end
local function steps(t, n) return t:run{steps = n, view = false} end

TestResplit = {}

function TestResplit:test_same_bits()
  local t = new()
  local all = 3 * t.steps_per_epoch + 2
  local whole, fixed = theta(steps(t, all)), theta(steps(new{resplit = false}, all))
  lu.assertNotEquals(whole, fixed)
  local slices = new()
  while slices.step < all do steps(slices, math.min(3, all - slices.step)) end
  lu.assertEquals(theta(slices), whole)
  local job = new():start{steps = all}
  job:pause()
  lu.assertEquals(theta(job:resume():wait()), whole)
  local threads = native.threads()
  native.threads(threads == 1 and 2 or 1)
  lu.assertEquals(theta(steps(new(), all)), whole)
  native.threads(threads)
end

-- Stopped within an epoch, at its end, and in the first one; by a trainer that has gone on since.
function TestResplit:test_resumed()
  local path, all = os.tmpname(), 2 * new().steps_per_epoch + 3
  local whole = theta(steps(new(), all))
  for _, at in ipairs{2, new().steps_per_epoch, all - 1} do
    local t = steps(new(), at)
    t:save(path)
    local u = new():resume(path)
    lu.assertEquals(theta(steps(u, all - at)), whole)
    lu.assertEquals(theta(steps(u:resume(path), all - at)), whole)
  end
  lu.assertErrorMsgContains("its X and Y were drawn anew each epoch", function()
    new{resplit = false}:resume(path)
  end)
  steps(new{resplit = false}, 2):save(path)
  lu.assertErrorMsgContains("use resplit = false", function() new():resume(path) end)
  os.remove(path)
end

-- Two trainers that share a gradient bind it in turn; one of them may be gone.
function TestResplit:test_shared_gradient()
  local g, all = fopo.gradient.snis{samples = 20}, 2 * new().steps_per_epoch
  local whole = theta(steps(new(), all))
  local t, u = new{gradient = g}, new{gradient = g}
  steps(t, 5)
  steps(u, all)
  steps(t, all - 5)
  lu.assertEquals(theta(t), whole)
  lu.assertEquals(theta(u), whole)
  do
    local gone = new{gradient = g}
    steps(gone, 1)
  end
  collectgarbage()
  lu.assertEquals(theta(steps(new{gradient = g}, all)), whole)
end

function TestResplit:test_default()
  lu.assertTrue(new().resplit)
  lu.assertStrContains(new():describe(), "X and Y drawn anew each pass")
  lu.assertTrue(new{reward = fopo.reward.hits(s.train)}.resplit)
  lu.assertTrue(new{data = s.train:gather(100)}.resplit)
  lu.assertFalse(new{preset = "paper"}.resplit)
  lu.assertFalse(new{resplit = false}.resplit)
  lu.assertFalse(new{contexts = s.train:contexts(items)}.resplit)
  local function refused(part, o)
    o.resplit = true
    lu.assertErrorMsgContains("fopo.trainer: resplit = true, but " .. part, new, o)
  end
  refused("contexts are given", {contexts = s.train:contexts(items)})
  refused("the reward is not", {reward = fopo.reward.hits(s.valid)})
  refused("the reward is not", {reward = fopo.reward.custom(function(ids) return ids end)})
  local lg = fopo.data.synthetic_logs{n = 100, actions = 20, dim = 6}
  refused("data is a bandit log", {data = lg, policy = fopo.policy.linear{items = lg:items()}})
end

-- A split by time has an order; of a split by files or of the last items at random, train has none.
function TestResplit:test_kinds()
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write("user,item,time\n")
  for user = 1, 40 do
    for k = 1, 8 do f:write(("%d,%d,%d\n"):format(user, (user * k) % 37, k * 10 + user)) end
  end
  f:close()
  local timed = fopo.data.read(path)
  os.remove(path)
  local function made(o)
    o.min_items = 4
    local split = timed:sessions(o)
    return {split.train.at_random, split.test.at_random}
  end
  lu.assertEquals(made{}, {true, true})
  lu.assertEquals(made{order = "time"}, {false, false})
  lu.assertEquals(made{split = "time"}, {false, false})
  lu.assertEquals(made{split = "time", order = "random"}, {true, false})
  lu.assertEquals(made{split = "last"}, {false, false})
  local last = d:sessions{split = "last", min_items = 10}
  lu.assertEquals({last.train.at_random, last.test.at_random}, {true, false})
  local ordered = timed:sessions{order = "time", min_items = 4}
  local e = fopo.embed.svd(ordered.train, {dim = 4})
  local o = {policy = fopo.policy.linear{items = e}, data = ordered.train, batch = 8}
  lu.assertFalse(fopo.trainer(o).resplit)
  o.resplit = true
  lu.assertErrorMsgContains("X and Y of data were not divided at random", fopo.trainer, o)
end

os.exit(lu.LuaUnit.run())
