-- What fopo.policy.auto takes in planted worlds, where it is known which start is the best of them,
-- and what that earns among users who had no part in the choice.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"

-- The sessions of users who take the items of the list items_of(u) in this order.
local function sessions_of(users, test, items_of)
  local path = os.tmpname() .. ".csv"
  local f = assert(io.open(path, "w"))
  f:write("user,item,time\n")
  for u = 1, users do
    for t, item in ipairs(items_of(u)) do f:write(u, ",", item, ",", t, "\n") end
  end
  f:close()
  local s = fopo.data.read(path):sessions{order = "time", min_items = 3, test = test,
                                              seed = 1}
  os.remove(path)
  return s
end

-- n of the places 1 .. of, in any order.
local function some(n, of)
  local list, left = {}, {}
  for i = 1, of do left[i] = i end
  for i = 1, n do list[i] = table.remove(left, math.random(#left)) end
  return list
end

-- A user takes the 6 items of one of the groups.
local function groups(users, n)
  return sessions_of(users, 0.3, function(u)
    local list = some(6, 6)
    for i, place in ipairs(list) do list[i] = ("g%d-%d"):format(u % n, place) end
    return list
  end)
end

-- All take A. Most take N, then of B; some M, then of C. The three of A say B louder than M says C,
-- which similarities do not correct, and EASE does. With a fifth item, first, that all take after A
-- the best item tells nothing.
local function marked(users, test, first)
  return sessions_of(users, test, function(u)
    local world, rare, list = u % 5, math.random() < 0.2, {}
    local function add(group, place) list[#list + 1] = ("%s%d-%d"):format(group, world, place) end
    for i = 1, 3 do add("A", i) end
    add(rare and "M" or "N", 1)
    if first then add("S", 1) end
    for _, place in ipairs(some(first and 3 or 4, 6)) do add(rare and "C" or "B", place) end
    return list
  end)
end

-- The rows by name, the chosen one too, with reward and NDCG of the test sessions.
local function auto(s, ...)
  local pi, rows = fopo.policy.auto{data = s.train, starts = {...}, print = false}
  local by_name = {chosen = rows.chosen}
  for _, row in ipairs(rows) do
    row.policy:set_theta(row.theta)
    local e = fopo.evaluate(row.policy, s.test, {k = 20, expected = false})
    row.test_reward, row.test_ndcg, by_name[row.name] = e.reward, e.ndcg[20], row
  end
  pi:set_theta(rows.chosen.theta)
  return by_name
end

TestAuto = {}

function TestAuto:setUp() math.randomseed(7, 7) end

function TestAuto:test_costly_is_best()
  local rows = auto(marked(900, 0.3), "cosine", "ease")
  lu.assertStrContains(rows.chosen.name, "ease")
  lu.assertTrue(rows.chosen.test_reward > rows.cosine.test_reward + 0.05)
  lu.assertTrue(rows.chosen.test_ndcg > rows.cosine.test_ndcg + 0.02)
end

local function synthetic(users, items, seed)
  local d = fopo.data.synthetic{users = users, items = items, clusters = 8, seed = seed}
  return d:sessions{min_items = 8, valid = 0.2, seed = 2}
end

-- Few users, whose rewards chance can make: the larger NDCG is the better guess.
function TestAuto:test_few_users()
  local unsure, gained = 0, 0.0
  for seed = 2, 9 do
    local rows = auto(synthetic(300, 150, seed), "cosine", "ease")
    local cheap = rows["cosine, trained"]
    local low, high = native.paired_values(rows.chosen.each.reward, cheap.each.reward)
    unsure = unsure + (rows.chosen ~= cheap and low < 0 and 0 < high and 1 or 0)
    gained = gained + rows.chosen.test_ndcg - cheap.test_ndcg
  end
  lu.assertTrue(unsure >= 2, unsure)
  lu.assertTrue(gained > 0.01, gained)
end

-- Fewer users than a dense part has dimensions: it, too, judges a user by items learnt without her.
-- Of users that it has learnt it would find nearly all that they took.
function TestAuto:test_fewer_users_than_dimensions()
  local s = synthetic(130, 150, 3)
  lu.assertTrue(s.train.n < 90)
  local rows = auto(s, "cosine", "svd", "hybrid")
  local function held(row)
    return row.each.reward:columns(1, row.each.reward.cols - s.valid.n):mean()
  end
  local best = math.max(held(rows.cosine), held(rows.svd))
  lu.assertTrue(held(rows["hybrid (cosine, svd)"]) < best + 0.04)
  lu.assertErrorMsgContains("without a tenth of the users; give it a dim", function()
    fopo.policy.neighbours{data = s.train, items = function(sessions)
      return fopo.embed.svd(sessions, {dim = math.min(100, sessions.n, sessions.n_items)})
    end}
  end)
end

-- Where every best item is a hit NDCG decides.
function TestAuto:test_reward_is_silent()
  local rows = auto(marked(900, 0.3, true), "cosine", "ease")
  lu.assertEquals({rows["cosine, trained"].reward, rows.chosen.reward}, {1, 1})
  lu.assertStrContains(rows.chosen.name, "ease")
  lu.assertTrue(rows.chosen.test_ndcg > rows["cosine, trained"].test_ndcg + 0.01)
end

-- Jaccard similarities know more of the whole list here, and less of its first item.
function TestAuto:test_reward_goes_first()
  local gained = 0.0
  for seed = 4, 5 do
    local rows = auto(synthetic(200, 100, seed), "cosine", "jaccard")
    local other = rows["jaccard, trained"]
    lu.assertTrue(other.ndcg > rows.chosen.ndcg)
    lu.assertStrContains(rows.chosen.name, "cosine")
    gained = gained + rows.chosen.test_reward - other.test_reward
  end
  lu.assertTrue(gained > 0, gained)
end

function TestAuto:test_all_are_the_same()
  local rows = auto(groups(600, 20), "ease", "svd", "cosine")
  for _, name in ipairs{"cosine, trained", "svd", "ease"} do
    lu.assertEquals(rows[name].reward, 1)
  end
  lu.assertEquals(rows.chosen.name, "cosine") -- costs least
end

-- A hundred dimensions cannot tell 300 groups apart.
function TestAuto:test_cheapest_is_best()
  local rows = auto(groups(1500, 300), "svd", "cosine")
  lu.assertEquals(rows.chosen.name, "cosine")
  lu.assertTrue(rows.cosine.test_ndcg > rows.svd.test_ndcg + 0.3)
end

os.exit(lu.LuaUnit.run())
