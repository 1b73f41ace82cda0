-- Baselines: what they promise besides their numbers, which judged.py compares with NumPy.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"
local baseline = fopo.baseline

local split = fopo.data.synthetic{users = 500, items = 700, clusters = 12, seed = 5}
              :sessions{min_items = 10, seed = 2}
local train, test = split.train, split.test
local tall = fopo.data.synthetic{users = 900, items = 300, clusters = 12, seed = 5}
             :sessions{min_items = 10, seed = 2}.train
local small = {random = {}, popular = {}, item_knn = {neighbours = 20}, ease = {l2 = 50},
               slim = {m = 20}, als = {dim = 6, iterations = 2}}

local function make(name, more)
  local o = {data = train}
  for key, value in pairs(small[name]) do o[key] = value end
  for key, value in pairs(more or {}) do o[key] = value end
  return baseline[name](o)
end

local function says(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

local function same(a, b)
  lu.assertEquals(a:totable(), b:totable())
end

TestBaselines = {}

-- The order of baselines that is known of this world.
function TestBaselines:test_they_learn()
  local reward = {}
  for name in pairs(small) do reward[name] = fopo.evaluate(make(name), test, {exclude = "seen"}) end
  local identity = baseline.identity{items = fopo.embed.svd(train, {dim = 12})}
  lu.assertEquals(identity.kind, "linear")
  reward.identity = fopo.evaluate(identity, test, {exclude = "seen"})
  lu.assertTrue(reward.random.recall[20] < 0.1)
  lu.assertTrue(reward.popular.recall[20] > reward.random.recall[20])
  for _, name in ipairs{"item_knn", "ease", "slim", "als", "identity"} do
    lu.assertTrue(reward[name].recall[20] > 2 * reward.popular.recall[20], name)
  end
end

function TestBaselines:test_the_same_for_any_number_of_threads()
  local threads = fopo.threads()
  local function compare(name, more, sessions)
    local lists = {}
    for _, n in ipairs{1, 3} do
      fopo.threads(n)
      local ids, scores = make(name, more):best(sessions, {k = 9})
      lists[#lists + 1] = {ids, scores}
    end
    fopo.threads(threads)
    same(lists[1][1], lists[2][1])
    same(lists[1][2], lists[2][2])
  end
  for name in pairs(small) do compare(name, nil, test) end
  compare("ease", {top = 12}, test)
  for _, name in ipairs{"ease", "slim"} do compare(name, {data = tall}, tall) end
end

-- Several l2 of slim share the work of one, whose systems alone are solved to the last digit.
function TestBaselines:test_each_l2()
  for _, list in ipairs{{100, 10, 30, 300, 1000}, {3, 1}, {7}} do
    for _, m in ipairs{1, 2, 200} do
      local each = native.baseline_each("slim", train, {m = m, l2 = 1}, list)
      for i, l2 in ipairs(list) do
        local ids, scores = make("slim", {m = m, l2 = l2}):best(test, {k = 9})
        local theirs, near = each[i]:best(test, {k = 9})
        local agree = 0
        for n = 1, ids.rows do
          for k = 1, 9 do
            agree = agree + (ids:get(n, k) == theirs:get(n, k) and 1 or 0)
            local most = 3e-3 * math.abs(scores:get(n, 1))
            lu.assertAlmostEquals(near:get(n, k), scores:get(n, k), most)
          end
        end
        lu.assertTrue(agree > 0.95 * ids.rows * 9, agree)
      end
    end
  end
end

function TestBaselines:test_seeds()
  for _, name in ipairs{"random", "als"} do
    local one = make(name, {seed = 8})
    same(one:best(test, {k = 5}), make(name, {seed = 8}):best(test, {k = 5}))
    lu.assertNotEquals(one:best(test, {k = 5}):totable(),
                       make(name, {seed = 9}):best(test, {k = 5}):totable())
    lu.assertEquals(one.seed, 8)
  end
end

function TestBaselines:test_fields_and_print()
  local knn = make("item_knn")
  lu.assertEquals({knn.kind, knn.n_items, knn.neighbours, knn.similarity},
                  {"item_knn", 700, 20, "cosine"})
  lu.assertStrContains(fopo.show(knn), "baseline item_knn: 700 items, neighbours 20, similarity")
  lu.assertStrContains(fopo.show(fopo.evaluate(knn, test)), "evaluation: reward 0.")
  lu.assertNil(fopo.evaluate(knn, test).expected)
  lu.assertNotNil(fopo.evaluate(make("popular"), test).expected)
end

function TestBaselines:test_l2_by_validation()
  for _, name in ipairs{"ease", "slim"} do
    local b = make(name, {l2 = "auto"})
    lu.assertEquals(b.tried.option, "l2")
    local held = math.min(100, (train.n + 3) // 4)
    lu.assertEquals({b.tried.held, b.tried.users}, {held, train.n - held})
    lu.assertTrue(#b.tried >= 3)
    lu.assertEquals(b.l2, baseline[name]{data = train, m = name == "slim" and 20 or nil}.l2)
    lu.assertStrContains(fopo.show(b), (" by NDCG@20 of %d users ("):format(held))
    same(b:best(test, {k = 5}), make(name, {l2 = b.l2}):best(test, {k = 5}))
    lu.assertNil(make(name, {l2 = 5}).tried)
  end
end

-- The trials hold what a fit without the held-out users earns on them, and the best is learnt anew.
function TestBaselines:test_tune()
  local o = {kind = "als", data = train, trials = 5, view = false,
             fixed = {dim = 4, iterations = 2}}
  local found, again = fopo.tune.baseline(o), fopo.tune.baseline(o)
  local held, rest = native.sessions_hold(train, 0, found.held, 1)
  lu.assertEquals({#found.trials, held.n + rest.n}, {5, train.n})
  local names, standard = {l2 = true, nu = true, alpha = true}, 0
  for i, t in ipairs(found.trials) do
    lu.assertEquals(t.options, again.trials[i].options)
    for name in pairs(t.options) do lu.assertTrue(names[name]) end
    lu.assertTrue(i == 1 or t.ndcg <= found.trials[i - 1].ndcg)
    if t.options.l2 == 10 and t.options.alpha == 10 then standard = standard + 1 end
    local e = fopo.evaluate(make("als", {data = rest, dim = 4, l2 = t.options.l2,
                            nu = t.options.nu, alpha = t.options.alpha}), held, {exclude = "seen"})
    lu.assertEquals({e.ndcg[20], e.reward}, {t.ndcg, t.reward})
  end
  lu.assertEquals(standard, 1)
  local best = found.best.options
  lu.assertEquals(found.best.ndcg, found.trials[1].ndcg)
  same(found.baseline:best(test, {k = 3}), make("als", {dim = 4, l2 = best.l2, nu = best.nu,
                                                        alpha = best.alpha}):best(test, {k = 3}))
  lu.assertStrContains(fopo.show(found), "als tuned by NDCG@20 of " .. found.held .. " users")
end

function TestBaselines:test_tune_within_ranges()
  local found = fopo.tune.baseline{kind = "item_knn", data = train, trials = 9, view = false}
  for _, t in ipairs(found.trials) do
    local c = t.options
    lu.assertTrue(c.shrink >= 1 and c.shrink <= 1000 and math.type(c.neighbours) == "integer")
    lu.assertTrue(c.similarity == "cosine" or c.similarity == "jaccard")
  end
  found = fopo.tune.baseline{kind = "ease", data = train, trials = 3, view = false}
  lu.assertEquals(#found.trials, 3)
  lu.assertEquals(found.baseline.l2, found.best.options.l2)
  says("kind must be one of item_knn", fopo.tune.baseline, {kind = "popular", data = train})
  says("every trial failed; the first one said:", fopo.tune.baseline,
       {kind = "ease", data = train, trials = 2, view = false, fixed = {top = -1}})
end

-- What is searched is what the help says.
function TestBaselines:test_ranges_of_the_help()
  local said, rows = {}, {ease = {}, slim = {}, als = {}}
  local function number(text) return tonumber((text:gsub(",", ""))) end
  local text = fopo.help.text("fopo.tune.baseline"):gsub("%s+", " ")
  for name, low, high in text:gmatch("(%w+) %(([%d.,]+) to ([%d.,]+)%)") do
    said[#said + 1] = {name, number(low), number(high)}
  end
  for _, row in ipairs(native.baselines()) do
    for _, o in ipairs(rows[row.name] and row.options or {}) do
      if o.high then table.insert(rows[row.name], {o.name, o.low, o.high}) end
    end
  end
  local l2 = table.remove(said)
  lu.assertEquals({rows.ease, rows.slim}, {{l2}, {l2}})
  table.insert(rows.als, 1, {"users", 100, 2000}) -- that are held out
  lu.assertEquals(said, rows.als)
end

function TestBaselines:test_refusals()
  says("needs the option data", baseline.popular, {})
  says("l2 must be at least", baseline.ease, {data = train, l2 = 0})
  says('"auto", or a number of at least 0.001', baseline.slim, {data = train, l2 = true})
  says("top must be at least 0", baseline.ease, {data = train, top = -1})
  says("k must be at least 1", baseline.popular{data = train}.best, make("popular"), test, {k = 0})
  says("k is 701", function() make("popular"):best(test, {k = 701}) end)
  says("without an index", fopo.evaluate, make("popular"), test,
       {index = fopo.index.norm(fopo.array.randn(700, 3, 1))})
  says("without contexts", fopo.evaluate, make("popular"), test,
       {contexts = fopo.array.randn(test.n, 3, 1)})
  local other = fopo.data.synthetic{users = 100, items = 50, clusters = 4}:sessions{min_items = 5}
  says("learnt over 700 items but the sessions have", fopo.evaluate, make("popular"), other.test)
  for _, value in ipairs{-1, 0, 0 / 0, 1 / 0, 1e300, "x", {}, train, -1e-9} do
    for name in pairs(small) do
      for option in pairs(small[name]) do
        pcall(native.baseline, name, train, {[option] = value})
      end
    end
    pcall(native.baseline, value, train, {})
    pcall(native.baseline_best, make("popular"), test, value, true)
    pcall(native.baseline_expected, value, test)
  end
end

-- Few users over a catalogue whose items x items would be 16 TB: users x users are 4 kB.
function TestBaselines:test_ease_of_few_users()
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write("%%MatrixMarket matrix coordinate pattern general\n40 200000 400\n")
  for i = 1, 400 do f:write(i % 40 + 1, " ", i * 499, "\n") end
  f:close()
  local s = fopo.data.read(path):sessions{min_items = 5, test = 0.2}
  os.remove(path)
  local ids = baseline.ease{data = s.train}:best(s.test, {k = 2})
  lu.assertEquals({ids.rows, ids.cols}, {s.test.n, 2})
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
