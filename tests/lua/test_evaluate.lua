-- fopo.evaluate: its options, what it refuses, how it prints. Its numbers: tests/judged.py.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"

local split = fopo.data.synthetic{users = 600, items = 500, clusters = 12, seed = 5}
              :sessions{min_items = 10, seed = 2}
local test = split.test
local items = fopo.embed.svd(split.train, {dim = 8})
local pi = fopo.policy.linear{items = items, theta = "identity", temperature = 0.5, seen = "keep"}
local x = test:contexts(items, {scale = pi.contexts})

local function says(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

TestEvaluate = {}

function TestEvaluate:test_measures()
  local e = fopo.evaluate(pi, test, {exclude = "none"})
  lu.assertEquals({e.k, e.exclude}, {{1, 5, 20}, "none"})
  local exact = fopo.index.exact(items)
  local old = native.evaluate_lost(pi, x, test, exact, exact).exact
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
end

function TestEvaluate:test_expected_contexts()
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
                        "\nexpected reward 0.", "\nreward via the index 0.", " effect one of"} do
    lu.assertStrContains(shown, part)
  end
  local widths = {}
  for line in shown:gmatch("[^\n]+") do widths[#widths + 1] = #line end
  lu.assertEquals(widths[4], widths[3]) -- the columns are aligned
  require("fopo.base.sealed").behind(e).effective = 1234.5
  lu.assertStrContains(tostring(e), "effect one of 1,235")
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
