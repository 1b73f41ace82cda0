-- Objectives: gradients of the log-likelihood and of the log of the expected reward.
local fopo = require "fopo"
local lu = require "luaunit"

local function world(seed)
  local d = fopo.data.synthetic{users = 300, items = 250, clusters = 8, seed = seed}
  local s = d:sessions{min_items = 10, valid = 0.2, test = 0.1, seed = seed}
  return s, fopo.embed.svd(s.train, {dim = 6})
end

-- log pi over all items in one context, in double.
local function log_softmax(Q, items, b)
  local f, top = {}, -math.huge
  for a = 1, items.rows do
    local sum = 0
    for j = 1, items.cols do sum = sum + Q:get(b, j) * items:get(a, j) end
    f[a], top = sum, math.max(top, sum)
  end
  local z = 0
  for a = 1, #f do z = z + math.exp(f[a] - top) end
  for a = 1, #f do f[a] = f[a] - top - math.log(z) end
  return f
end

-- The values of the objectives of some contexts, from log pi item by item.
local function by_hand(pi, s, x, items, rows)
  local Q = pi:queries(x)
  local values = {reward = 0, likelihood = 0, log_reward = 0, smoothed = 0}
  for _, n in ipairs(rows) do
    local log_pi, Y = log_softmax(Q, items, n), s.train:y(n)
    local reward, likelihood = 0, 0
    for i = 1, Y.cols do
      local l = log_pi[Y:get(1, i)]
      reward, likelihood = reward + math.exp(l), likelihood + l / Y.cols
    end
    values.reward = values.reward + reward / #rows
    values.likelihood = values.likelihood + likelihood / #rows
    values.smoothed = values.smoothed + math.log(1 + reward) / #rows
    values.log_reward = values.log_reward + math.log(math.max(reward, 1e-6)) / #rows
  end
  return values
end

TestObjectives = {}

function TestObjectives:test_values_by_hand()
  local s, items = world(3)
  local pi = fopo.policy.linear{items = items}
  local x, rows = s.train:contexts(items, {scale = "unit"}), {1, 5, 9, 40}
  local hand, rw = by_hand(pi, s, x, items, rows), fopo.reward.hits(s.train)
  for name, value in pairs(hand) do
    local _, stats = fopo.gradient.exact{objective = name}:compute(pi, x, rows, rw)
    lu.assertAlmostEquals(stats.reward, value, 1e-4 * math.abs(value))
    local all = math.min(250, pi.n_items) -- head and tail that enumerate everything are exact
    local g = fopo.gradient.head_tail{head = all - 50, tail = 50, objective = name}
    _, stats = g:compute(pi, x, rows, rw)
    lu.assertAlmostEquals(stats.reward, value, 1e-4 * math.abs(value))
  end
end

-- Where nothing is earned, or all lose what they may, the logarithm is of one in a million and
-- nothing moves.
function TestObjectives:test_where_nothing_is_earned()
  local s, items = world(3)
  local pi = fopo.policy.linear{items = items}
  local x = s.train:contexts(items, {scale = "unit"})
  for _, of in ipairs{{"log_reward", 0, 0}, {"log_reward", -2, 1}, {"smoothed", -1, 0},
                      {"smoothed", -3, 1}} do
    local name = of[1]
    local rw = fopo.reward.custom(function(ids) -- of[2], and up to of[3] more
      return fopo.array.randn(ids.rows, ids.cols, 1):clip(0, 1) * of[3] + of[2]
    end)
    for _, g in ipairs{fopo.gradient.exact{objective = name},
                       fopo.gradient.snis{samples = 20, objective = name}} do
      local G, stats = g:compute(pi, x, {1, 5}, rw)
      lu.assertEquals(G:norm(), 0)
      lu.assertAlmostEquals(stats.reward, math.log(1e-6), 1e-5)
    end
  end
end

-- fopo.check compares exact gradients with differences in double, and estimators with exact ones.
function TestObjectives:test_checks()
  local s, items = world(4)
  local pi = fopo.policy.linear{items = items}
  for _, name in ipairs{"likelihood", "log_reward", "smoothed"} do
    local ix = fopo.index.norm(items)
    local r = fopo.check{policy = pi, data = s.train, print = false, repetitions = 60, gradient = {
      fopo.gradient.snis{samples = 200, objective = name},
      fopo.gradient.snis{samples = 200, objective = name,
                         proposal = fopo.proposal.mixture{index = ix, k = 40}},
      fopo.gradient.head_tail{index = ix, k = 40, tail = 60, objective = name},
      fopo.gradient.head_tail{head = 60, tail = 60, objective = name}}}
    lu.assertTrue(r.ok, name .. ": " .. tostring(r))
    local titled = false
    for _, row in ipairs(r.rows) do
      titled = titled or row.name == fopo.gradient.exact{objective = name}.objective_title
    end
    lu.assertTrue(titled)
  end
end

function TestObjectives:test_training_raises_it()
  local s, items = world(5)
  local pi = fopo.policy.linear{items = items}
  local t = fopo.trainer{policy = pi, data = s.train, objective = "likelihood"}
  local before = fopo.evaluate(pi, s.valid).likelihood
  t:run{epochs = 20, view = false, best_by = "expected"}
  local after = fopo.evaluate(pi, s.valid).likelihood
  lu.assertTrue(after > before + 0.05)
  lu.assertTrue(t.history.reward[#t.history.step] < 0) -- a mean of log pi
  local best = -math.huge
  for _, value in ipairs(t.history.valid_expected) do best = math.max(best, value) end
  lu.assertAlmostEquals(best, after, 1e-6) -- keep_best goes by the objective
  lu.assertStrContains(tostring(t.gradient), "log-likelihood")
  lu.assertStrContains(tostring(t), "likelihood")
end

local function refused(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

function TestObjectives:test_refusals_before_the_first_step()
  local s, items = world(6)
  local function with(o)
    o.policy = o.policy or fopo.policy.linear{items = items}
    o.data = s.train
    return o
  end
  refused("reinforce estimates the gradient of the expected reward alone", fopo.trainer,
          with{gradient = fopo.gradient.reinforce{objective = "likelihood"}})
  refused("cannot move items", fopo.trainer, with{
    objective = "likelihood", policy = fopo.policy.linear{items = items, train_items = true}})
  refused("use fopo.reward.hits", fopo.trainer, with{
    objective = "likelihood", reward = fopo.reward.custom(function(ids) return ids end)})
  refused("give it to the gradient", fopo.trainer, with{
    objective = "likelihood", gradient = fopo.gradient.exact{}})
  refused('did you mean "likelihood"', fopo.gradient.exact, {objective = "likelyhood"})
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
