-- The worlds to teach with, by what each is to show: counted from the data and the embeddings.
local fopo = require "fopo"
local lu = require "luaunit"

TestPresets = {}

local function world(preset, more)
  local o = {preset = preset}
  for name, value in pairs(more or {}) do o[name] = value end
  return fopo.data.synthetic(o)
end

local function users_of(d)
  local count, all = {}, 0
  for u = 1, d.n_users do
    for _, a in ipairs(d:row(u):totable()[1]) do count[a], all = (count[a] or 0) + 1, all + 1 end
  end
  return count, all
end

local function embed(d, dim)
  return fopo.embed.svd(d:sessions{min_items = 2, valid = 0, test = 0.1}.train, {dim = dim})
end

-- The standard deviation of the norms as a share of their mean.
local function variation(items)
  local n = items:norm("rows")
  return (n - n:mean()):norm() / math.sqrt(n.rows) / n:mean()
end

-- Ten arms, and one choice is best for everybody: no policy gains by its contexts.
function TestPresets:test_bandit()
  local d, w = world("bandit")
  lu.assertEquals({d.n_items, w.clusters}, {10, 1})
  local s = d:sessions{min_items = 2}
  local count = users_of(d)
  local share, best = {}, 1
  for a = 1, 10 do
    share[a] = count[a] / d.n_users
    if share[a] > share[best] then best = a end
  end
  lu.assertEquals(w:picture()[1].y, share)
  lu.assertTrue(share[best] > 2 * math.min(table.unpack(share)))
  -- the users that took an arm besides took the other arms as often as all users did
  local taken, with = 0, 0
  for u = 1, d.n_users do
    local has = {}
    for _, a in ipairs(d:row(u):totable()[1]) do has[a] = true end
    if has[best % 10 + 1] then taken, with = taken + 1, with + (has[best] and 1 or 0) end
  end
  lu.assertAlmostEquals(with / taken, share[best], 0.1)
  lu.assertEquals(s.train:contexts(fopo.array.eye(10)).cols, 10)
end

-- Every item that many took points the way of its taste; a norm grows with popularity.
function TestPresets:test_geometry()
  local d, w = world("geometry")
  local items, count = embed(d, 2), users_of(d)
  local norms = items:norm("rows")
  local units, ways, popular = items / norms, fopo.array.zeros(3, 2), {}
  for a = 1, d.n_items do
    if count[a] > 30 then
      popular[#popular + 1] = a
      ways:scatter_add(fopo.array.ids{w:cluster(a)}, units[a])
    end
  end
  lu.assertTrue(#popular > 40)
  ways = ways / ways:norm("rows")
  local cosines = units:matmul(ways, false, true)
  local nearest, agree, asked = cosines:argmax("rows"), 0, 0
  for _, a in ipairs(popular) do
    lu.assertEquals(nearest:get(a, 1), w:cluster(a))
    lu.assertTrue(cosines:get(a, w:cluster(a)) > 0.97)
    for _, b in ipairs(popular) do
      if w:cluster(a) == w:cluster(b) and count[a] > 1.5 * count[b] then
        asked, agree = asked + 1, agree + (norms:get(a, 1) > norms:get(b, 1) and 1 or 0)
      end
    end
  end
  lu.assertTrue(asked > 500 and agree > 0.99 * asked)
  local series = w:picture()
  lu.assertEquals(#series, 3)
  lu.assertEquals(#series[1].x + #series[2].x + #series[3].x, 120)
end

function TestPresets:test_popularity()
  local function share_of_the_first(d)
    local count, all = users_of(d)
    local list, first = {}, 0
    for a = 1, d.n_items do list[a] = count[a] or 0 end
    table.sort(list, function(x, y) return x > y end)
    for a = 1, d.n_items // 20 do first = first + list[a] end
    return first / all, list
  end
  local d, w = world("popularity")
  local share, list = share_of_the_first(d)
  lu.assertTrue(share > 0.45) -- 5 % of the items have half of the interactions
  lu.assertTrue(share > 3 * share_of_the_first(world("popularity", {appeal = 0, zipf = 0.5})))
  local y = w:picture()[1].y
  lu.assertEquals({y[1], y[2], y[100]}, {list[1], list[2], list[100]})
end

function TestPresets:test_unit_norms()
  local even, zipf = world("unit_norms"), world("unit_norms", {zipf = 1})
  lu.assertTrue(variation(embed(even, 5)) < 0.1)
  lu.assertTrue(variation(embed(zipf, 5)) > 0.3)
end

-- The picture at the terminal and in a file; a world without a preset has the popularity's.
function TestPresets:test_pictures()
  local d, w = fopo.data.synthetic{users = 200, items = 60}
  lu.assertEquals(w:picture().title, "popularity")
  lu.assertEquals(d.n_items, 60)
  local _, with = world("unit_norms", {users = 300})
  lu.assertEquals(with:picture().title, "norms of the items")
  if os.execute("command -v gnuplot >/dev/null 2>&1") then
    for _, preset in ipairs{"bandit", "geometry", "popularity", "unit_norms"} do
      local path = os.tmpname() .. ".svg"
      select(2, world(preset, {users = 300})):picture(path)
      local f <close> = assert(io.open(path))
      lu.assertStrContains(f:read("a"), "<svg")
      os.remove(path)
    end
  end
  lu.assertErrorMsgContains("one of bandit, geometry, popularity, unit_norms", fopo.data.synthetic,
                            {preset = "gaussian"})
  lu.assertErrorMsgContains("give one", fopo.data.synthetic, {preset = "bandit", like = "twitch"})
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
