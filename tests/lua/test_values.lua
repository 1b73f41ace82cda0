-- Rewards that differ by item: reward.hits{value}. Gradients and judgements are compared with NumPy
-- in tests/test_values.py.
local fopo = require "fopo"
local lu = require "luaunit"

local function world(seed)
  local d = fopo.data.synthetic{users = 300, items = 250, clusters = 8, seed = seed}
  local s = d:sessions{min_items = 10, valid = 0.2, test = 0.2, seed = seed}
  return s, fopo.embed.svd(s.train, {dim = 6})
end

-- Values of P items, some of them 0.
local function made(P)
  local value = {}
  for a = 1, P do value[a] = a % 5 == 0 and 0 or a * a % 17 / 4 end
  return value
end

local function refused(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

local function bytes(a)
  local path = os.tmpname()
  a:save(path)
  local f <close> = io.open(path, "rb")
  local text = f:read("a")
  os.remove(path)
  return text
end

TestValues = {}

-- The values of a dataset's items, from a file.
function TestValues:test_item_values()
  local function file(text)
    local path = os.tmpname()
    local f <close> = io.open(path, "w")
    f:write(text)
    return path
  end
  local d = fopo.data.read(file "user,item\n1,apple\n1,pear\n2,007\n")
  local prices = file "sku;colour;price\npear;red;1.5\nplum;red;9\n007;blue;0\n"
  refused("1 of the 3 items have no value in the file, the first is apple", d.item_values, d,
          prices, {item = "sku", value = "price"})
  local value = d:item_values(prices, {item = "sku", value = "price", missing = 7})
  lu.assertEquals({value.rows, value.cols}, {1, 3})
  for name, worth in pairs{apple = 7, pear = 1.5, ["007"] = 0} do
    lu.assertEquals(value:get(1, d:find_item(name)), worth)
  end
  value = d:item_values(file "apple 3\npear 4\n007 5\n") -- columns 1 and 2
  lu.assertEquals(value:get(1, d:find_item("pear")), 4)
  refused("some items stand in several rows", d.item_values, d, file "apple,1\napple,2\n")
end

function TestValues:test_refusals()
  local s = world(1)
  local P, hits = s.train.n_items, fopo.reward.hits
  local function with(i, x)
    local value = made(P)
    value[i] = x
    return {value = value}
  end
  refused("the value of item 7 is -1; values must be finite and 0 or more", hits, s.train,
          with(7, -1))
  refused("the value of item 2 is", hits, s.train, with(2, 0 / 0))
  refused("the value of item 250 is inf", hits, s.train, with(250, math.huge))
  refused("value has 249 numbers but the sessions have 250 items", hits, s.train,
          {value = fopo.array.zeros(1, P - 1)})
  refused('value 3 of the list is "x"; give one number', hits, s.train, with(3, "x"))
  refused("empty list", hits, s.train, {value = {}})
  refused("value must be an array or table", hits, s.train, {value = 1})
  lu.assertTrue(hits(s.train, {value = fopo.array.zeros(P, 1)}).valued)
  lu.assertFalse(hits(s.train).valued)
end

function TestValues:test_what_draws_earn()
  local s = world(2)
  local value = made(s.train.n_items)
  local rw = fopo.reward.hits(s.train, {value = value})
  local ids, rows = fopo.array.ids(s.train:y(3):totable()[1]), {3}
  local r = rw:value(ids, rows)
  for i = 1, ids.cols do lu.assertEquals(r:get(1, i), value[ids:get(1, i)]) end
end

-- A copy of the values is used: what becomes of the array later changes nothing.
function TestValues:test_values_are_kept()
  local s = world(2)
  local value = fopo.array.from(made(s.train.n_items))
  local rw, y = fopo.reward.hits(s.train, {value = value}), s.train:y(1)
  local before = rw:value(y, {1}):totable()
  for a = 1, value.cols do value:set(1, a, 99) end
  lu.assertEquals(rw:value(y, {1}):totable(), before)
end

local gradients = {
  {fopo.gradient.snis, {samples = 40}}, {fopo.gradient.head_tail, {head = 60, tail = 20}},
  {fopo.gradient.head_tail, {k = 20, tail = 20}}, {fopo.gradient.exact, {}},
  {fopo.gradient.reinforce, {samples = 20, baseline = "mean"}},
}

local function trained(s, items, reward, kind, o, more)
  local pi = fopo.policy.linear{items = items, seed = 1}
  local t = fopo.trainer{policy = pi, data = s.train, reward = reward, batch = 16,
                         gradient = kind(o), valid = false, seed = 3}
  t:run{steps = more or 15, view = false}
  return pi, t
end

-- Values of 1 are the hits without values, to the bit, by every estimator and objective.
function TestValues:test_values_of_one()
  local s, items = world(3)
  local ones = {}
  for a = 1, s.train.n_items do ones[a] = 1 end
  for _, g in ipairs(gradients) do
    for _, objective in ipairs{"reward", "likelihood", "log_reward"} do
      if objective == "reward" or g[1] ~= fopo.gradient.reinforce then
        g[2].objective = objective
        local plain = trained(s, items, nil, g[1], g[2])
        local by_value = trained(s, items, fopo.reward.hits(s.train, {value = ones}), g[1], g[2])
        lu.assertTrue(bytes(plain:theta()) == bytes(by_value:theta()))
      end
    end
  end
end

-- The estimators and objectives with values against differences in double.
function TestValues:test_check()
  local s, items = world(4)
  local reward = fopo.reward.hits(s.train, {value = made(s.train.n_items)})
  for _, objective in ipairs{"reward", "likelihood", "log_reward"} do
    local with = {objective = objective}
    local list = {fopo.gradient.exact(with), fopo.gradient.snis(with),
                  fopo.gradient.head_tail{head = 60, tail = 60, objective = objective}}
    if objective == "reward" then list[#list + 1] = fopo.gradient.reinforce{} end
    local r = fopo.check{policy = fopo.policy.linear{items = items}, data = s.train, contexts = 2,
                         reward = reward, gradient = list, repetitions = 40, print = false}
    lu.assertTrue(r.ok, ("%s: %s"):format(objective, r.first))
  end
end

-- The same of a policy of neighbours, whose evaluation is compared with its exact gradient, and of
-- a trainer that learns on other sessions than those it was given.
function TestValues:test_neighbours()
  local s = world(4)
  local value = made(s.train.n_items)
  for a in ipairs(value) do value[a] = value[a] / 100 end -- what a context is worth is small
  local reward = fopo.reward.hits(s.train, {value = value})
  local pi = fopo.policy.neighbours{data = s.train, start = "cosine", tau = 4, held = 0}
  for _, objective in ipairs{"reward", "likelihood", "log_reward"} do
    local g = fopo.gradient.sparse{objective = objective}
    local r = fopo.check{policy = pi, data = s.train, contexts = 2, reward = reward, gradient = g,
                         print = false}
    lu.assertTrue(r.ok, ("%s: %s"):format(objective, r.first))
    local _, stats = g:compute(pi, s.train, nil, reward)
    local e = fopo.evaluate(pi, s.train, {reward = reward})
    if objective == "reward" then lu.assertAlmostEquals(e.expected, stats.reward, 1e-5) end
  end
  pi = fopo.policy.neighbours{data = s.train, start = "slim", held = 60}
  local t = fopo.trainer{policy = pi, data = s.train, reward = reward}
  lu.assertTrue(t.reward.valued and t.reward.n == pi:training().n and t.data.n < s.train.n)
  t:run{steps = 5, view = false}
end

-- A checkpoint knows the values that it was trained with.
function TestValues:test_checkpoints()
  local s, items = world(5)
  local value, path = made(s.train.n_items), os.tmpname()
  local function with(list) return fopo.reward.hits(s.train, {value = list}) end
  local _, t = trained(s, items, with(value), table.unpack(gradients[1]))
  t:save(path)
  local pi, again = trained(s, items, with(value), gradients[1][1], gradients[1][2], 1)
  again:resume(path)
  again:run{steps = 5, view = false}
  t:run{steps = 5, view = false}
  lu.assertTrue(bytes(pi:theta()) == bytes(t.policy:theta()))
  local other = made(s.train.n_items)
  other[9] = other[9] + 1
  for _, reward in ipairs{with(other), fopo.reward.hits(s.train)} do
    local _, different = trained(s, items, reward, gradients[1][1], gradients[1][2], 1)
    refused("data", different.resume, different, path)
  end
  os.remove(path)
end

-- ---- judges

function TestValues:test_titles()
  local s, items = world(6)
  local reward = fopo.reward.hits(s.train, {value = made(s.train.n_items)})
  local pi = fopo.policy.linear{items = items}
  local t = fopo.trainer{policy = pi, data = s.train, reward = reward}
  t:run{steps = 40, every = 10, view = false}
  lu.assertStrContains(tostring(t), ", value ")
  for _, note in ipairs(t.notes) do lu.assertNotStrContains(tostring(note), "reward 0") end
  local e = fopo.evaluate(pi, s.test, {reward = reward})
  lu.assertStrContains(tostring(e), "evaluation: value ")
  lu.assertEquals(e.reward, e.value[1])
  lu.assertTrue(e.valued and e.expected_high > e.expected)
  local runs = {{name = "trained", trainer = t, evaluation = e}}
  local shown = fopo.report.runs(runs, {split = s})
  lu.assertStrContains(shown:gsub("\n", " "), "expected: of an item drawn")
  lu.assertStrContains(shown, "popular by value")
  runs[2] = {name = "by hits", evaluation = fopo.evaluate(pi, s.test)}
  refused("run 2 (by hits) is evaluated by hits and run 1 is not", fopo.report.runs, runs)
  lu.assertEquals(reward:describe(), "reward hits by value")
  lu.assertStrContains(fopo.baseline.popular{data = s.train, value = reward}:describe(),
                       "popular by value")
end

-- Validation is by the values that are trained for: what keep_best keeps is the best by value.
function TestValues:test_validation()
  local s, items = world(7)
  local reward = fopo.reward.hits(s.train, {value = made(s.train.n_items)})
  local pi = fopo.policy.linear{items = items}
  local t = fopo.trainer{policy = pi, data = s.train, reward = reward, valid = s.valid}
  t:run{steps = 30, every = 5, view = false}
  local e = fopo.evaluate(pi, s.valid, {reward = reward})
  lu.assertAlmostEquals(t.held.valid, e.reward, 1e-12)
  lu.assertAlmostEquals(t.held.expected, e.expected, 1e-6)
  lu.assertTrue(e.reward ~= fopo.evaluate(pi, s.valid).reward)
  local j = t:start{steps = 10, every = 5}
  j:wait()
  lu.assertAlmostEquals(t.held.valid, fopo.evaluate(pi, s.valid, {reward = reward}).reward, 1e-12)
  local path = os.tmpname()
  t:run{steps = 2, every = 1, view = false, log = path .. ".runs"}
  lu.assertNil(fopo.compare{t.log_folder}[1].low) -- a mean of values is no share
  lu.assertNil(fopo.compare{t}[1].low)
  lu.assertNil(require("fopo.run.validation").contexts(t)) -- what explain takes intervals of
  os.execute("rm -r " .. path .. " " .. path .. ".runs")
end

-- What searches and races raise, decide by and show are values, as fopo.evaluate measures them.
function TestValues:test_searches()
  local s, items = world(5)
  local reward = fopo.reward.hits(s.train, {value = made(s.train.n_items)})
  local function value_of(who, sessions)
    return fopo.evaluate(who, sessions, {reward = reward, expected = false}).reward
  end
  local found = fopo.tune{data = s.train, reward = reward, items = items, steps = 8, trials = 2,
                          over = {lr = {values = {1e-3, 1e-1}}}, view = false}
  lu.assertAlmostEquals(found.best.valid, value_of(found.best.policy, s.valid), 1e-9)
  lu.assertTrue(found.best.valid >= found.trials[2].valid)
  lu.assertStrContains(tostring(found), "tuned by the value")
  local tuned = fopo.tune.baseline{kind = "item_knn", data = s.train, reward = reward, trials = 2,
                                   view = false}
  lu.assertTrue(tuned.best.evaluation.valued)
  local held, rest = require("fopo.native").sessions_hold(s.train, 0, tuned.held, 1)
  local again = fopo.baseline.item_knn{data = rest, value = reward,
    neighbours = tuned.best.options.neighbours, similarity = tuned.best.options.similarity,
    shrink = tuned.best.options.shrink}
  lu.assertAlmostEquals(tuned.best.reward, value_of(again, held), 1e-9)
  lu.assertStrContains(tuned.baseline:describe(), "by value")
  lu.assertStrContains(tostring(tuned), "value")
  local runs = fopo.experiment.race{split = s, items = items, steps = 4, reward = reward,
                                    methods = {{"exact", fopo.gradient.exact{}}}}
  lu.assertEquals(runs[2].name, "popular by value")
  for _, run in ipairs(runs) do
    local who = run.policy or run.baseline
    lu.assertAlmostEquals(run.evaluation.reward, value_of(who, s.test), 1e-9)
  end
  lu.assertStrContains(fopo.report.runs(runs), "value")
  -- a mean of values has no interval of a share
  local list = fopo.compare{runs[3], runs[3].trainer}
  lu.assertNil(list[1].low)
  lu.assertAlmostEquals(list[1].best, math.max(table.unpack(runs[3].trainer.history.valid)), 1e-12)
end

function TestValues:test_judges_refuse()
  local s, items = world(8)
  local pi, other = fopo.policy.linear{items = items}, world(9)
  local custom = fopo.reward.custom(function(ids) return ids end)
  refused("which says nothing of other sessions", fopo.evaluate, pi, s.test, {reward = custom})
  local few = fopo.data.synthetic{users = 300, items = 200, clusters = 8}:sessions{min_items = 10}
  local reward = fopo.reward.hits(few.train, {value = made(200)})
  refused("over 200 items but the sessions are over 250", fopo.evaluate, pi, s.test,
          {reward = reward})
  refused("value has 200 numbers but the sessions have 250 items", fopo.baseline.popular,
          {data = s.train, value = reward})
  local negative = made(250)
  negative[1] = -1
  refused("the value of item 1 is -1", fopo.baseline.ease, {data = s.train, value = negative})
  local hits = fopo.reward.hits(other.train)
  local e = fopo.evaluate(pi, s.test, {reward = hits}) -- without values: as without a reward
  lu.assertFalse(e.valued)
  lu.assertEquals(e.reward, fopo.evaluate(pi, s.test).reward)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
