-- X and Y drawn anew each epoch: where it is on and where it is refused, and the same bits in one
-- run or several, resumed, in a job, and for any number of threads.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"

local d = fopo.data.synthetic{users = 300, items = 200, clusters = 8, seed = 3}
local s = d:sessions{min_items = 10, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 6})

-- A dataset in which two items of a user have each time, and times[user][item], by name.
local function timed(users)
  local path, times = os.tmpname(), {}
  local f = io.open(path, "w")
  f:write("user,item,time\n")
  for user = 1, users do
    times[user] = {}
    for k = 1, 14 do
      local item, time = (user * k * 7 + k) % 61, (k * 5 % 14) // 2
      f:write(("%d,%d,%d\n"):format(user, item, time))
      times[user][item] = math.min(time, times[user][item] or time)
    end
  end
  f:close()
  local read = fopo.data.read(path)
  os.remove(path)
  return read, times
end

local ordered, times = timed(200)
local in_order = ordered:sessions{split = "last", min_items = 4}
local ordered_items = fopo.embed.svd(in_order.train, {dim = 6})

local function new(o)
  local p = {policy = fopo.policy.linear{items = items, contexts = "unit"}, data = s.train,
             valid = false, batch = 32, gradient = fopo.gradient.snis{samples = 20}}
  for name, value in pairs(o or {}) do p[name] = value end
  return fopo.trainer(p)
end

local function new_in_order(o)
  local p = {policy = fopo.policy.linear{items = ordered_items, contexts = "unit"},
             data = in_order.train}
  for name, value in pairs(o or {}) do p[name] = value end
  return new(p)
end

local function theta(t) return t.policy:theta():totable() end
local function steps(t, n) return t:run{steps = n, view = false} end

TestResplit = {}

local function same_bits(made)
  local t = made()
  local all = 3 * t.steps_per_epoch + 2
  local whole, fixed = theta(steps(t, all)), theta(steps(made{resplit = false}, all))
  lu.assertNotEquals(whole, fixed)
  local slices = made()
  while slices.step < all do steps(slices, math.min(3, all - slices.step)) end
  lu.assertEquals(theta(slices), whole)
  local job = made():start{steps = all}
  job:pause()
  lu.assertEquals(theta(job:resume():wait()), whole)
  local threads = native.threads()
  native.threads(threads == 1 and 2 or 1)
  lu.assertEquals(theta(steps(made(), all)), whole)
  native.threads(threads)
end

function TestResplit:test_same_bits()
  same_bits(new)
  same_bits(new_in_order)
end

-- Stopped within an epoch, at its end, and in the first one; by a trainer that has gone on since.
local function resumed(made)
  local path, all = os.tmpname(), 2 * made().steps_per_epoch + 3
  local whole = theta(steps(made(), all))
  for _, at in ipairs{2, made().steps_per_epoch, all - 1} do
    local t = steps(made(), at)
    t:save(path)
    local u = made():resume(path)
    lu.assertEquals(theta(steps(u, all - at)), whole)
    lu.assertEquals(theta(steps(u:resume(path), all - at)), whole)
  end
  lu.assertErrorMsgContains("its X and Y were drawn anew each epoch", function()
    made{resplit = false}:resume(path)
  end)
  steps(made{resplit = false}, 2):save(path)
  lu.assertErrorMsgContains("use resplit = false", function() made():resume(path) end)
  os.remove(path)
end

function TestResplit:test_resumed()
  resumed(new)
  resumed(new_in_order)
end

-- No item of X is later than one of Y, by the times of the file, and X grows and shrinks behind its
-- given part.
function TestResplit:test_prefixes()
  local lengths = {}
  for epoch = 1, 6 do
    local drawn = native.sessions_redraw(in_order.train, 5, epoch)
    lu.assertEquals(drawn.n, in_order.train.n)
    for n = 1, drawn.n do
      local of = times[tonumber(ordered:user_name(drawn:user(n)))]
      local x, y = drawn:x(n):totable()[1], drawn:y(n):totable()[1]
      local last, first, seen = -1, math.huge, {}
      local function time(id) return of[tonumber(ordered:item_name(id))] end
      for _, id in ipairs(x) do last, seen[id] = math.max(last, time(id)), true end
      for _, id in ipairs(y) do first = math.min(first, time(id)) end
      lu.assertTrue(last <= first)
      for _, id in ipairs(in_order.train:x(n):totable()[1]) do lu.assertTrue(seen[id]) end
      lu.assertEquals(#x + #y, in_order.train:x(n).cols + in_order.train:y(n).cols)
      lengths[#x] = true
    end
  end
  local several = 0
  for _ in pairs(lengths) do several = several + 1 end
  lu.assertTrue(several > 3)
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

-- Train has the order of a split by time, but if items may be taken again.
function TestResplit:test_kinds()
  local function made(o)
    o.min_items = 4
    local split = ordered:sessions(o)
    lu.assertFalse(split.valid.in_order or split.test.in_order)
    return {split.train.at_random, split.test.at_random, split.train.in_order}
  end
  lu.assertEquals(made{}, {true, true, false})
  lu.assertEquals(made{order = "time"}, {false, false, true})
  lu.assertEquals(made{split = "time"}, {false, false, true})
  lu.assertEquals(made{split = "time", seen = "keep"}, {false, false, false})
  lu.assertEquals(made{split = "time", order = "random"}, {true, false, false})
  lu.assertEquals(made{split = "last"}, {false, false, true})
  local last = d:sessions{split = "last", min_items = 10}
  lu.assertEquals({last.train.at_random, last.test.at_random}, {true, false})
  lu.assertTrue(new_in_order().resplit)
  lu.assertStrContains(new_in_order():describe(), "X another prefix of each session each pass")
  lu.assertFalse(new_in_order{resplit = false}.resplit)
  lu.assertTrue(new_in_order{data = in_order.train:gather(100)}.resplit)
  local lists = fopo.policy.neighbours{data = in_order.train, start = "cosine"}
  local o = {policy = lists, gradient = fopo.gradient.sparse{}}
  lu.assertFalse(new_in_order(o).resplit)
  o.resplit = true
  lu.assertTrue(new_in_order(o).resplit)
  local kept = ordered:sessions{split = "time", seen = "keep", min_items = 4}.train
  o = {policy = fopo.policy.linear{items = fopo.embed.svd(kept, {dim = 4})}, data = kept, batch = 8}
  lu.assertFalse(fopo.trainer(o).resplit)
  o.resplit = true
  lu.assertErrorMsgContains("X and Y of data were not divided at random and have no order",
                            fopo.trainer, o)
end

os.exit(lu.LuaUnit.run())
