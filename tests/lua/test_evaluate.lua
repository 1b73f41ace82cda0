-- fopo.evaluate: its fields against loops over the lists, what is left out, how it prints.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"

local split = fopo.data.synthetic{users = 600, items = 500, clusters = 12, seed = 5}
              :sessions{min_items = 10, seed = 2}
local test = split.test
local items = fopo.embed.svd(split.train, {dim = 8})
local pi = fopo.policy.linear{items = items, theta = "identity", temperature = 0.5, seen = "keep"}
local x = test:contexts(items, {scale = pi.contexts})

local function near(a, b) lu.assertAlmostEquals(a, b, 1e-9) end
local function says(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

local function set_of(ids)
  local set, n = {}, ids.cols
  for j = 1, n do set[ids:get(1, j)] = true end
  return set, n
end

local function median(list)
  table.sort(list)
  local n = #list
  return (list[(n + 1) // 2] + list[n // 2 + 1]) / 2
end

-- The measures at k of lists ids [N, >= k], in Lua.
local function by_loops(ids, k)
  local m = {hit = 0, precision = 0, recall = 0, ndcg = 0, seen = 0}
  local times, items_of = {}, 0
  for n = 1, test.n do
    local y, in_y = set_of(test:y(n))
    local taken = set_of(test:x(n))
    local hits, gain, best, seen = 0, 0, 0, 0
    for j = 1, k do
      local id = ids:get(n, j)
      if not times[id] then items_of = items_of + 1 end
      times[id] = (times[id] or 0) + 1
      if y[id] then hits, gain = hits + 1, gain + math.log(2) / math.log(1 + j) end
      if taken[id] then seen = seen + 1 end
      if j <= in_y then best = best + math.log(2) / math.log(1 + j) end
    end
    m.hit = m.hit + (hits > 0 and 1 or 0) / test.n
    m.precision = m.precision + hits / k / test.n
    m.recall = m.recall + hits / in_y / test.n
    m.ndcg = m.ndcg + gain / best / test.n
    m.seen = m.seen + seen / k / test.n
  end
  local apart = 0 -- Gini: the mean difference of two items, over twice the mean
  for a = 1, 500 do
    for b = 1, 500 do apart = apart + math.abs((times[a] or 0) - (times[b] or 0)) end
  end
  return m, items_of, apart / (2 * 500 * k * test.n)
end

local function check_fields(e, ids)
  for _, k in ipairs(e.k) do
    local m, different, gini = by_loops(ids, k)
    for name, value in pairs(m) do
      near(e[name][k], value)
      lu.assertTrue(e.interval[name][k][1] <= value and value <= e.interval[name][k][2] + 1e-9)
    end
    lu.assertEquals(e.items[k], different)
    near(e.coverage[k], different / 500)
    near(e.gini[k], gini)
  end
end

TestEvaluate = {}

function TestEvaluate:test_measures()
  local e = fopo.evaluate(pi, test, {exclude = "none"})
  lu.assertEquals({e.k, e.exclude}, {{1, 5, 20}, "none"})
  check_fields(e, (pi:best(x, {k = 20})))
  local old = native.evaluate(pi, x, test, fopo.index.exact(items))
  for _, name in ipairs{"contexts", "hits", "unanswered", "reward", "low", "high", "distinct"} do
    lu.assertEquals(e[name], old[name])
  end
  lu.assertEquals(e.reward, e.hit[1])
  lu.assertTrue(e.seen[1] > 0.1)
end

function TestEvaluate:test_k()
  local e = fopo.evaluate(pi, test, {k = 7, expected = false, exclude = "none"})
  lu.assertEquals(e.k, {7})
  lu.assertEquals(e.reward, fopo.evaluate(pi, test, {k = 1, exclude = "none"}).reward)
  lu.assertNil(e.hit[1])
  lu.assertNil(e.expected)
  e = fopo.evaluate(pi, test, {k = {30, 2, 30}, exclude = "none"})
  lu.assertEquals(e.k, {2, 30})
  check_fields(e, (pi:best(x, {k = 30})))
end

-- The lists without items of X, the default, are the others in their order; the best of them is the
-- reward's.
function TestEvaluate:test_unseen()
  local e = fopo.evaluate(pi, test, {k = {1, 4}})
  local all, kept = pi:best(x, {k = 400}), {}
  for n = 1, test.n do
    local taken = set_of(test:x(n))
    kept[n] = {}
    for j = 1, 400 do
      if #kept[n] < 4 and not taken[all:get(n, j)] then table.insert(kept[n], all:get(n, j)) end
    end
  end
  check_fields(e, {get = function(_, n, j) return kept[n][j] end})
  lu.assertEquals(e.reward, e.hit[1])
  lu.assertEquals(e.seen, {[1] = 0, [4] = 0})
  lu.assertEquals(e.exclude, "seen")
  lu.assertTrue(e.reward > fopo.evaluate(pi, test, {exclude = "none"}).reward)
end

-- The expected reward and that of the softmax without X, from the scores of all items, and the
-- log-likelihoods.
function TestEvaluate:test_expected()
  local scores = pi:queries(x):matmul(items, false, true)
  local sums, unseen, squares, squares_unseen = 0, 0, {}, {}
  local logs, logs_unseen = 0, 0
  for n = 1, test.n do
    local taken, y = set_of(test:x(n)), set_of(test:y(n))
    local z, rest, hit, f, count = 0, 0, 0, 0, 0
    local zz, rest_zz = 0, 0
    for a = 1, items.rows do
      local w = math.exp(scores:get(n, a))
      z = z + w
      zz = zz + w * w
      if not taken[a] then rest, rest_zz = rest + w, rest_zz + w * w end
      if y[a] then hit, f, count = hit + w, f + scores:get(n, a), count + 1 end
    end
    sums, unseen = sums + hit / z / test.n, unseen + hit / rest / test.n
    squares[n], squares_unseen[n] = zz / z ^ 2, rest_zz / rest ^ 2
    logs = logs + (f / count - math.log(z)) / test.n
    logs_unseen = logs_unseen + (f / count - math.log(rest)) / test.n
  end
  local e = fopo.evaluate(pi, test, {k = 1, exclude = "none"})
  lu.assertAlmostEquals(e.expected, sums, 1e-6)
  lu.assertEquals(e.expected_contexts, test.n)
  lu.assertAlmostEquals(e.expected_high - e.expected, 1.959963984540054 * e.expected_se, 1e-12)
  lu.assertAlmostEquals(e.effective * median(squares), 1, 1e-5)
  lu.assertAlmostEquals(e.likelihood, logs, 1e-5)
  lu.assertTrue(e.likelihood_se > 0)
  local without = fopo.evaluate(pi, test)
  lu.assertAlmostEquals(without.expected, unseen, 1e-6)
  lu.assertAlmostEquals(without.likelihood, logs_unseen, 1e-5)
  lu.assertAlmostEquals(without.effective * median(squares_unseen), 1, 1e-5)
  lu.assertEquals(fopo.evaluate(pi, test, {expected_contexts = 10}).expected_contexts, 10)
  lu.assertEquals(fopo.evaluate(pi, test, {expected_contexts = 999}).expected_contexts, test.n)
end

-- A copy of embeddings knows what they were made of: a policy over it has the same defaults.
function TestEvaluate:test_copied_items()
  local a = fopo.policy.linear{items = items}
  local b = fopo.policy.linear{items = items:copy()}
  lu.assertEquals({b.temperature, b.contexts, b.seen}, {a.temperature, a.contexts, a.seen})
  lu.assertEquals(b:theta():totable(), a:theta():totable())
end

-- One context says nothing about the spread.
function TestEvaluate:test_one_context()
  local e = fopo.evaluate(pi, test, {expected_contexts = 1})
  lu.assertEquals({e.expected_low, e.expected_high}, {0.0, 1.0})
  lu.assertEquals(e.expected_se, math.huge)
  lu.assertStrContains(tostring(e), "(0.0000 - 1.0000): an item drawn from pi")
  local popular = fopo.baseline.popular{data = split.train}
  lu.assertNil(fopo.evaluate(popular, test).likelihood)
end

function TestEvaluate:test_index()
  local poor = fopo.index.norm(items, {budget = 20})
  local e = fopo.evaluate(pi, test, {index = poor, exclude = "seen"})
  lu.assertEquals(e.reward_index, e.index.reward)
  lu.assertTrue(e.index.items[20] <= 20 and e.items[20] > 20)
  lu.assertEquals(e.index.seen[20], 0)
end

function TestEvaluate:test_it_prints()
  local e = fopo.evaluate(pi, test, {index = fopo.index.exact(items), exclude = "none"})
  local shown = tostring(e)
  lu.assertEquals(shown, fopo.show(e))
  for _, part in ipairs{"k = 1 ", "k = 20", "hit ", "precision ", "recall ", "NDCG ",
                        "seen before ", "distinct items ", "Gini ", " contexts, X kept in\n",
                        "\nR_test, reward 0.",
                        "\nexpected reward 0.", "\nreward via the index 0.", "in effect one of"} do
    lu.assertStrContains(shown, part)
  end
  local widths = {}
  for line in shown:gmatch("[^\n]+") do widths[#widths + 1] = #line end
  lu.assertEquals(widths[4], widths[3]) -- the columns are aligned
  require("fopo.base.sealed").behind(e).effective = 1234.5
  lu.assertStrContains(tostring(e), "in effect one of 1,235")
  lu.assertNil(fopo.show({e}):find("\n"))
  lu.assertNil(tostring(fopo.evaluate(pi, test)):find("seen before  "))
  local plain = {}
  for name in pairs(e) do plain[name] = true end
  lu.assertTrue(plain.reward and plain.hit and not plain.describe)
end

function TestEvaluate:test_refusals()
  says("k is 501 but there are 500 items", fopo.evaluate, pi, test, {k = {1, 501}})
  says("list of integers from 1 on", fopo.evaluate, pi, test, {k = {0}})
  says("list of integers from 1 on", fopo.evaluate, pi, test, {k = {1.5}})
  says("empty list", fopo.evaluate, pi, test, {k = {}})
  says("exclude must be one of seen", fopo.evaluate, pi, test, {exclude = "sen"})
  says("one list a session", native.measure_lists, fopo.array.ids{1}, test, {1})
end

-- Fewer items than the standard k: those that there are.
function TestEvaluate:test_small_catalogue()
  local s = fopo.data.synthetic{users = 60, items = 12, clusters = 2, mean_items = 8}
            :sessions{min_items = 4}
  local small = fopo.embed.svd(s.train, {dim = 3})
  local e = fopo.evaluate(fopo.policy.linear{items = small}, s.test)
  lu.assertEquals(e.k, {1, 5})
  e = fopo.evaluate(fopo.policy.linear{items = small}, s.test, {k = 12, exclude = "seen"})
  lu.assertEquals(e.recall[12], 1.0)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
