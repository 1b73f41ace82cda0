-- Recommendations and their explanations, compared with the scores of all items by plain loops.
local lu = require "luaunit"
local fopo = require "fopo"

local d = fopo.data.synthetic{users = 300, items = 200, clusters = 8, mean_items = 25, seed = 3}
local s = d:sessions{min_items = 5, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 6})
local P = d.n_items

local function linear(o)
  o = o or {}
  o.items, o.temperature, o.seen = items, o.temperature or 0.5, o.seen or "keep"
  return fopo.policy.linear(o)
end

local function refused(part, f, ...)
  local ok, why = pcall(f, ...)
  lu.assertFalse(ok, "an error was expected: " .. part)
  lu.assertStrContains(why, part)
  lu.assertStrContains(why, "test_serve.lua:")
  lu.assertNil(why:find("\n", 1, true), why)
end

local function row_of(user) return (d:row(user)):totable()[1] end

-- The context of a list of items, as a table.
local function context(pi, ids)
  local x, beta = {}, items:rows_of(ids):totable()
  for j = 1, items.cols do
    x[j] = 0
    for _, row in ipairs(beta) do x[j] = x[j] + row[j] / #ids end
  end
  if pi.contexts == "mean" then return x end
  local squares = 0
  for j = 1, #x do squares = squares + x[j] ^ 2 end
  for j = 1, #x do x[j] = x[j] / math.sqrt(squares) end
  return x
end

-- All scores in the context of these items, and log Z.
local function all_scores(pi, ids)
  local x = fopo.array.from{context(pi, ids)}
  local f = pi:queries(x):matmul(pi:items(), false, true):totable()[1]
  local z = 0
  for a = 1, P do z = z + math.exp(f[a]) end
  return f, math.log(z)
end

-- r must be the n best of the items that are not in `out`.
local function check(pi, r, ids, out, n)
  local f, log_z = all_scores(pi, ids)
  local left = {}
  for _, a in ipairs(out) do left[a] = true end
  local order = {}
  for a = 1, P do
    if not left[a] then order[#order + 1] = a end
  end
  table.sort(order, function(a, b) return f[a] > f[b] end)
  lu.assertEquals(#r, n)
  for i = 1, n do
    lu.assertEquals(r[i].rank, i)
    lu.assertFalse(left[r[i].item] == true, "an item that is left out")
    lu.assertAlmostEquals(r[i].score, f[order[i]], 1e-4 * math.max(1, math.abs(f[order[i]])))
    lu.assertAlmostEquals(r[i].score, f[r[i].item], 1e-4 * math.max(1, math.abs(r[i].score)))
    local p = math.exp(f[r[i].item] - log_z)
    lu.assertAlmostEquals(r[i].probability / p, 1, 1e-3)
    lu.assertEquals(r[i].name, d:item_name(r[i].item))
  end
end

TestRecommend = {}

function TestRecommend:test_a_user()
  for _, scale in ipairs{"mean", "unit"} do
    local pi = linear{theta = fopo.array.randn(6, 6, 2), contexts = scale}
    for user = 1, 20 do
      local ids = row_of(user)
      check(pi, pi:recommend(user, 7), ids, ids, 7)
      check(pi, pi:recommend(user, 7, {exclude = "none"}), ids, {}, 7)
      local never = {ids[1], 5, 9, 200}
      check(pi, pi:recommend(user, 7, {exclude = never}), ids, never, 7)
      check(pi, pi:recommend(user, 7, {exclude = fopo.array.ids(never)}), ids, never, 7)
      local both = {"seen", 5, d:item_name(9), 5}
      table.move(ids, 1, #ids, 5, never)
      check(pi, pi:recommend(user, 7, {exclude = both}), ids, {5, 9, table.unpack(ids)}, 7)
    end
  end
end

-- Whoever took most of the catalogue, even all but three of it, gets the rest in order.
function TestRecommend:test_long_histories()
  local pi = linear{theta = "identity"}
  for _, n in ipairs{1, 50, 120, P - 3} do
    local f = all_scores(pi, {7})
    local order = {}
    for a = 1, P do order[a] = a end
    table.sort(order, function(a, b) return f[a] > f[b] end)
    local out = {table.unpack(order, 1, n)} -- the very best
    local r = pi:recommend({items = {7}}, 3, {exclude = out})
    check(pi, r, {7}, out, 3)
    lu.assertEquals(r.left_out, n)
  end
  local ids = {}
  for a = 1, P - 3 do ids[a] = a end
  local r = pi:recommend({items = ids}, 3)
  check(pi, r, ids, ids, 3)
  refused("n is 4, but 3 of the 200 items are left for this user after 197 are left out",
          pi.recommend, pi, {items = ids}, 4)
end

function TestRecommend:test_probabilities_sum_to_one()
  local pi, sum = linear{theta = "identity"}, 0
  for _, one in ipairs(pi:recommend(3, P, {exclude = "none"})) do sum = sum + one.probability end
  lu.assertAlmostEquals(sum, 1, 1e-5)
  sum = 0 -- a policy that masks gives what the user took no probability
  for _, one in ipairs(linear{seen = "mask"}:recommend(3, P - #row_of(3))) do
    sum = sum + one.probability
  end
  lu.assertAlmostEquals(sum, 1, 1e-5)
end

function TestRecommend:test_several()
  local pi = linear{theta = "identity", contexts = "unit"}
  local r = pi:recommend({4, d:user_name(9), {items = {3, d:item_name(8), 3}}}, 5)
  lu.assertEquals(#r, 3)
  lu.assertEquals({r[1].user, r[2].user, r[3].user}, {4, 9})
  lu.assertEquals(r[2].name, d:user_name(9))
  check(pi, r[1], row_of(4), row_of(4), 5)
  check(pi, r[2], row_of(9), row_of(9), 5)
  check(pi, r[3], {3, 8}, {3, 8}, 5)
  r = pi:recommend(fopo.array.ids{4, 9}, 5)
  check(pi, r[2], row_of(9), row_of(9), 5)
  r = pi:recommend(s.test, 4) -- X is known, Y is not
  lu.assertEquals(#r, s.test.n)
  local seen = s.test:x(2):totable()[1]
  check(pi, r[2], seen, seen, 4)
  lu.assertEquals(r[2].user, s.test:user(2))
  lu.assertEquals(r[2].name, d:user_name(s.test:user(2)))
end

function TestRecommend:test_contexts()
  local pi = linear{theta = "identity", contexts = "unit"}
  local ids = row_of(11)
  local x = fopo.array.from{context(pi, ids)}
  check(pi, pi:recommend(x, 6), ids, {}, 6)
  check(pi, pi:recommend(x, 6, {exclude = {1, 2}}), ids, {1, 2}, 6)
  lu.assertEquals(#pi:recommend(x:rows_of{1, 1}, 6), 2)
end

function TestRecommend:test_network_and_learnt_items()
  local network = fopo.policy.mlp{items = items, hidden = {5}, temperature = 0.01, seen = "keep"}
  check(network, network:recommend(5, 6), row_of(5), row_of(5), 6)
  local pi = linear{theta = "identity", train_items = true}
  pi:recommend(5, 2)
  pi:set_items(fopo.array.randn(P, 6, 9)) -- contexts stay those of the first items
  check(pi, pi:recommend(5, 6), row_of(5), row_of(5), 6)
end

function TestRecommend:test_index()
  local pi = linear{theta = "identity"}
  local graph = fopo.index.hnsw(items, {M = 16, ef = 200, deterministic = true})
  check(pi, pi:recommend(5, 6, {index = graph}), row_of(5), row_of(5), 6)
  local poor = fopo.index.norm(items, {budget = 20})
  local r = pi:recommend(5, 30, {index = poor}) -- it knows 20 items
  lu.assertTrue(#r > 0 and #r <= 20)
  refused("build it from the policy's items", pi.recommend, pi, 5, 3,
          {index = fopo.index.norm(fopo.array.randn(7, 6))})
end

local function file(rows)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write("user,item\n", table.concat(rows, "\n"), "\n")
  f:close()
  local read = fopo.data.read(path)
  os.remove(path)
  return read
end

-- Items that are integers are matched by number, also if there are as many.
function TestRecommend:test_other_numbers()
  local first = file{"1,10", "1,20", "2,20", "2,30", "3,30", "3,10"}
  local beta = fopo.embed.svd(first:sessions{min_items = 2, valid = 0, test = 0}.train, {dim = 2})
  local pi = fopo.policy.linear{items = beta, theta = "identity"}
  local other = file{"7,5", "7,20", "7,30"}
  lu.assertEquals(pi:recommend("7", 1, {data = other})[1].name, "10")
  lu.assertEquals(pi:recommend("2", 1, {data = file{"2,20", "2,30", "1,10"}})[1].name, "10")
end

function TestRecommend:test_near_names()
  local films = file{"u,My alien", "u,Alien 3", "v,Brazil", "v,Aliens of the deep"}
  local pi = fopo.policy.linear{items = fopo.array.randn(4, 2, 1), theta = "identity"}
  local o = {data = films}
  refused('no item is called "alien"; did you mean "Alien 3", "Aliens of the deep" or "My alien"?',
          pi.recommend, pi, {items = {"alien"}}, 1, o)
  refused('no item is called "Brasil"; did you mean "Brazil"?', pi.recommend, pi,
          {items = {"Brasil"}}, 1, o)
  -- two letters may differ, or a third of the name
  refused('no item is called "Bresil"; did you mean "Brazil"?', pi.recommend, pi,
          {items = {"Bresil"}}, 1, o)
  local _, why = pcall(pi.recommend, pi, {items = {"Bresyl"}}, 1, o)
  lu.assertStrMatches(why, '.*no item is called "Bresyl"')
  refused('no item is called "Mie elien"; did you mean "My alien"?', pi.recommend, pi,
          {items = {"Mie elien"}}, 1, o)
end

-- The same interactions in another order of items, with one that the policy does not know.
function TestRecommend:test_other_data()
  local first = file{"u,a", "u,b", "u,c", "v,c", "v,d", "v,e", "w,a", "w,e"}
  local beta = fopo.embed.svd(first:sessions{min_items = 2, valid = 0, test = 0}.train, {dim = 2})
  local pi = fopo.policy.linear{items = beta, theta = "identity"}
  local other = file{"x,e", "x,zz", "x,a", "y,zz"}
  local r = pi:recommend("x", 3, {data = other})
  local w = pi:recommend("w", 3)
  lu.assertEquals(r.left_out, 2)
  for i = 1, 3 do
    lu.assertEquals({r[i].name, r[i].score}, {w[i].name, w[i].score})
    lu.assertEquals(r[i].name, first:item_name(r[i].item))
  end
  refused("user y took no item that the policy knows", pi.recommend, pi, "y", 1, {data = other})
  refused('no item is called "D "; did you mean "d"', pi.recommend, pi, {items = {"D "}}, 1)
  refused('no user is called "W"; did you mean "w"', pi.recommend, pi, "W", 1)
  local bare = fopo.policy.linear{items = fopo.array.randn(5, 2)}
  local b = bare:recommend({items = {2}}, 2)
  lu.assertNil(b[1].name)
  refused("have no names", bare.recommend, bare, {items = {"a"}}, 2)
  refused("knows no users", bare.recommend, bare, 1, 2)
  lu.assertEquals(bare:recommend("u", 1, {data = first}).name, "u")
  refused("the data have 3 items but the policy has 5", bare.recommend, bare, "x", 1,
          {data = other})
end

function TestRecommend:test_print()
  local pi = linear{theta = "identity"}
  local shown = fopo.show(pi:recommend(7, 12))
  lu.assertStrContains(shown, "12 of 200 items for user")
  lu.assertStrContains(shown, "rank  item  name")
  for line in shown:gmatch("[^\n]+") do lu.assertTrue(#line <= 80, line) end
  lu.assertNil(fopo.show(pi:recommend(7, 2, {names = false})):find("name", 1, true))
  lu.assertStrContains(fopo.show(pi:recommend(s.train, 1)), "more users: r[6] .. r[")
end

function TestRecommend:test_sentences()
  local pi = linear()
  refused("no user is called", pi.recommend, pi, "nobody here")
  refused("user 301 does not exist; the data have users 1 to 300", pi.recommend, pi, 301)
  refused("item 201 does not exist; the policy has items 1 to 200", pi.recommend, pi,
          {items = {201}})
  refused("the list of items is empty", pi.recommend, pi, {items = {}})
  refused("the list of users is empty", pi.recommend, pi, {})
  refused("which has no itms", pi.recommend, pi, {itms = {1}})
  refused("not a boolean", pi.recommend, pi, {items = {true}})
  refused("an item is a name or a number, not 1.5", pi.recommend, pi, {items = {1.5}})
  refused("a user is a name, a number or {items = {...}}, not 1.5", pi.recommend, pi, {1, 1.5})
  refused("a user is a name, a number or", pi.recommend, pi, {1, true})
  refused("n is 201, but the policy has 200 items", pi.recommend, pi, 1, 201)
  local many = {}
  for i = 1, 10001 do many[i] = 1 end
  refused("10,001 users times 200 items are too many", pi.recommend, pi, many, 200,
          {exclude = "none"})
  refused("n must be at least 1", pi.recommend, pi, 1, 0)
  refused("for one item write exclude", pi.recommend, pi, 1, 1, {exclude = "7"})
  refused("not an array of numbers", pi.recommend, pi, 1, 1, {exclude = items})
  refused("explains one user", pi.explain, pi, {1, 2}, 1)
  local features = fopo.policy.linear{items = items, context_dim = 3}
  refused("have 3 features and cannot be made of items of 6", features.recommend, features, 1, 1)
  refused("contexts need 1 row or more, and 3 columns", features.recommend, features, items, 1)
end

TestExplain = {}

local function sum_of(e)
  local sum, shares = 0, 0
  for _, part in ipairs(e) do
    sum, shares = sum + part.contribution, shares + math.abs(part.share)
  end
  return sum, shares
end

function TestExplain:test_linear()
  for _, scale in ipairs{"mean", "unit"} do
    local pi = linear{theta = fopo.array.randn(6, 6, 5), contexts = scale, temperature = 0.3}
    for user = 1, 10 do
      local best = pi:recommend(user, 1)[1]
      local e = pi:explain(user, best.item)
      local sum, shares = sum_of(e)
      lu.assertEquals(#e, #row_of(user))
      lu.assertAlmostEquals(e.score, best.score, 1e-4 * math.abs(best.score))
      lu.assertAlmostEquals(sum, e.score, 1e-4 * math.max(1, math.abs(e.score)))
      lu.assertAlmostEquals(shares, 1, 1e-6)
      for i = 2, #e do lu.assertTrue(e[i - 1].contribution >= e[i].contribution) end
      lu.assertStrContains(fopo.show(e), "that the user took")
    end
  end
end

function TestExplain:test_network()
  local pi = fopo.policy.mlp{items = items, hidden = {5}, temperature = 0.01, contexts = "unit"}
  local e = pi:explain({items = {3, 8, d:item_name(40)}}, 12)
  lu.assertEquals(#e, 3)
  local f = all_scores(pi, {3, 8, 40})[12]
  for _, part in ipairs(e) do
    local rest = {}
    for _, id in ipairs{3, 8, 40} do
      if id ~= part.item then rest[#rest + 1] = id end
    end
    local lost = f - all_scores(pi, rest)[12]
    lu.assertAlmostEquals(part.contribution, lost, 1e-4 * math.abs(f) + 1e-5)
  end
end

TestSimilar = {}

function TestSimilar:test_cosines()
  local pi, beta, list = linear(), items:totable(), {}
  local function dot(a, b)
    local sum = 0
    for j = 1, #beta[a] do sum = sum + beta[a][j] * beta[b][j] end
    return sum
  end
  for b = 1, P do
    local length = math.sqrt(dot(7, 7) * dot(b, b))
    if b ~= 7 and length > 0 then list[#list + 1] = {b, dot(7, b) / length} end
  end
  table.sort(list, function(a, b) return a[2] > b[2] end)
  local r = pi:similar(d:item_name(7), 5)
  for i = 1, 5 do
    lu.assertEquals({r[i].item, r[i].name, r[i].rank}, {list[i][1], d:item_name(list[i][1]), i})
    lu.assertAlmostEquals(r[i].similarity, list[i][2], 1e-4)
  end
  lu.assertStrContains(tostring(r), "by the cosine")
  lu.assertEquals(#pi:similar(7), 10)
  refused("no item is called", pi.similar, pi, "nosuch")
end

-- Of neighbours, what who took the item alone is recommended.
function TestSimilar:test_weights()
  local pi = fopo.policy.neighbours{data = s.train, start = "cosine", held = 0}
  local r, best = pi:similar(7, 4), pi:recommend({items = {7}}, 4)
  for i = 1, 4 do
    lu.assertEquals({r[i].item, r[i].similarity}, {best[i].item, best[i].score})
  end
end

TestMap = {}

-- Vectors that differ by 3, 2 and 0.1 along three directions: the first two are the map's.
function TestMap:test_components()
  local n, rows, first, second = 400, {}, {}, {}
  local z = fopo.array.randn(n, 3, 5):totable()
  local u, v, w = {0.6, 0.8, 0}, {-0.8, 0.6, 0}, {0, 0, 1}
  for i = 1, n do
    rows[i] = {}
    local a, b, c = 3 * z[i][1], 2 * z[i][2], 0.1 * z[i][3]
    for j = 1, 3 do rows[i][j] = a * u[j] + b * v[j] + c * w[j] + j end
    first[i], second[i] = 3 * z[i][1], 2 * z[i][2]
  end
  local pi = fopo.policy.linear{items = fopo.array.from(rows), theta = "identity"}
  local m = pi:map{}
  local function correlation(a, b)
    local x, y = fopo.array.from(a), b:transpose()
    x, y = x - x:mean(), y - y:mean()
    return math.abs((x * y):sum()) / x:norm() / y:norm()
  end
  lu.assertTrue(correlation(first, m[1].x) > 0.98)
  lu.assertTrue(correlation(second, m[1].y) > 0.98)
  lu.assertTrue(m.share > 0.99 and m.share <= 1)
  lu.assertEquals(#m, 1)
end

function TestMap:test_a_user_is_marked()
  local pi = linear()
  local m = pi:map{sessions = s.test, row = 2, n = 4, items = 50}
  lu.assertEquals({#m, #m[1].x, #m[2].x, #m[3].x, #m[4].x},
                  {4, 50, s.test:x(2).cols, s.test:y(2).cols, 4})
  local best = pi:recommend({items = s.test:x(2)}, 1)[1].item
  local all = pi:map{}[1]
  lu.assertAlmostEquals(m[4].x:get(1, 1), all.x:get(best, 1), 1e-4)
  lu.assertStrContains(tostring(pi:map{user = 7}), "recommended")
  refused("give user or sessions, not both", pi.map, pi, {user = 7, sessions = s.test})
  refused("row is 9999 but there are", pi.map, pi, {sessions = s.test, row = 9999})
end

TestUnknown = {}

function TestUnknown:test_names_are_passed_over()
  local pi, name = linear(), d:item_name(7)
  local function ask(who, o) return pi:recommend(who, 3, o) end
  refused("no item is called", ask, {items = {name, "nosuch"}})
  local r = ask({{items = {name, "nosuch", "no"}}, {items = {"no"}}, "nobody", d:user_name(5)},
                {unknown = "skip"})
  lu.assertEquals({#r[1], #r[2], #r[3], #r[4]}, {3, 0, 0, 3})
  lu.assertEquals({r[1].unknown, r[2].unknown, r[3].name, r[4].user}, {2, 1, "nobody", 5})
  lu.assertStrContains(tostring(r[1]), "1 left out, 2 unknown")
  local one = ask{items = {name}}
  for i = 1, 3 do lu.assertEquals(r[1][i], one[i]) end
  for i = 1, 3 do lu.assertEquals(r[4][i], ask(5)[i]) end
  lu.assertEquals(#ask("nobody", {unknown = "skip"}), 0)
  refused("item 0 does not exist", ask, {items = {0}}, {unknown = "skip"}) -- no name
end

TestRefit = {}

-- d without every tenth item, whose interactions come later, and with all but the users of `out`.
local function write(path, later, out)
  local f = io.open(path, "w")
  f:write("user,item\n")
  for u = 1, d.n_users do
    for _, a in ipairs(out[u] and {} or row_of(u)) do
      if a % 10 == 0 == later then f:write(("u%d,a%d\n"):format(u, a)) end
    end
  end
  f:close()
end

-- How often a new item that a user of the first 60 took is above a new one that the user did not.
local function pairs_in_order(pi)
  local right, all = 0, 0
  for u = 1, 60 do
    local took, history = {}, {}
    for _, a in ipairs(row_of(u)) do
      if a % 10 == 0 then took["a" .. a] = true else history[#history + 1] = "a" .. a end
    end
    local below = 0 -- new ones that were not taken
    for _, x in ipairs(pi:recommend({items = history}, pi.n_items - #history)) do
      if tonumber(x.name:sub(2)) % 10 == 0 then
        if took[x.name] then right = right - below else below = below + 1 end
      end
    end
    local n = 0
    for _ in pairs(took) do n = n + 1 end
    right, all = right + n * below, all + n * below
  end
  return right / all
end

-- The new items are folded in without the first 60 users.
function TestRefit:test_new_items()
  local old, new, tested = os.tmpname(), os.tmpname(), {}
  for u = 1, 60 do tested[u] = true end
  write(old, false, {})
  write(new, true, tested)
  local before, all = fopo.data.read(old), fopo.data.read{old, new}
  for _, contexts in ipairs{"unit", "degree"} do
    local train = before:sessions{min_items = 3, seed = 2}.train
    local pi = fopo.policy.linear{items = fopo.embed.svd(train, {dim = 6}), contexts = contexts}
    local made, note = pi:refit(all)
    local n = all.n_items - before.n_items
    lu.assertStrContains(note, ("of %d items %d are new"):format(all.n_items, n))
    local scores = {} -- what was known scores as before
    for _, x in ipairs(made:recommend("u7", 100)) do scores[x.name] = x.score end
    for _, x in ipairs(pi:recommend("u7", 5)) do
      lu.assertAlmostEquals(scores[x.name], x.score, 1e-4)
    end
    lu.assertTrue(pairs_in_order(made) > 0.75, pairs_in_order(made))
  end
  os.remove(old)
  os.remove(new)
end

-- A known item that is taken for a new one gets about the vector that it had.
function TestRefit:test_vectors_are_those_of_the_embedding()
  local path = os.tmpname()
  write(path, false, {})
  local all = fopo.data.read(path)
  local train = all:sessions{min_items = 3, valid = 0, test = 0}.train
  local beta = fopo.embed.svd(train, {dim = 6})
  local pi = fopo.policy.linear{items = beta, contexts = "unit"}
  local a = pi:recommend(7, 1, {data = all})[1].item
  local f, g = io.open(path, "w"), io.open(path .. "2", "w")
  for u = 1, all.n_users do
    for _, b in ipairs((all:row(u)):totable()[1]) do
      f:write(("%s,%s\n"):format(all:user_name(u), all:item_name(b)))
      g:write(("%s,%s\n"):format(all:user_name(u), b == a and "fresh" or all:item_name(b)))
    end
  end
  f:close()
  g:close()
  local renamed = fopo.data.read(path .. "2")
  local made, note = pi:refit(renamed)
  lu.assertStrContains(note, "1 of the policy's")
  local new = made:items():rows_of{renamed:find_item("fresh")}
  local was = beta:rows_of{a}
  local cosine = (new * was):sum() / new:norm() / was:norm()
  lu.assertTrue(cosine > 0.9, cosine)
  lu.assertTrue(math.abs(math.log(new:norm() / was:norm())) < 0.5)
  os.remove(path)
  os.remove(path .. "2")
end

function TestRefit:test_refused()
  local pi = fopo.policy.neighbours{data = s.train, start = "cosine", held = 0}
  refused("a policy of neighbours has no vectors of items", pi.refit, pi, d)
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write("user,item\nann,Alien\n")
  f:close()
  refused("no item of the data is one of the policy's", linear().refit, linear(),
          fopo.data.read(path))
  os.remove(path)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
