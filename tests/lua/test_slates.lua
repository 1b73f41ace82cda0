-- Slates: what trains by them, is saved, resumed and refused. test_slates.py compares gradients.
local fopo = require "fopo"
local lu = require "luaunit"

local function world(seed)
  local d = fopo.data.synthetic{users = 300, items = 250, clusters = 8, seed = seed}
  local s = d:sessions{min_items = 10, valid = 0.2, test = 0.1, seed = seed}
  return s, fopo.embed.svd(s.train, {dim = 6})
end

local function trainer(s, items, g, o)
  local pi = (o or {}).policy or fopo.policy.linear{items = items}
  return fopo.trainer{policy = pi, data = s.train, gradient = g, valid = s.valid, batch = 16,
                      seed = 5, optim = fopo.optim.adam{lr = 0.02}}
end

local function run(t, steps) t:run{steps = steps, every = 10, view = false, keep_best = false} end

local function same(a, b) return a:copy():add(b, -1):norm() == 0 end

TestSlates = {}

function TestSlates:test_learns_and_resumes_to_the_same_bits()
  local s, items = world(3)
  local function g(o)
    o = o or {sigma_lr = 0.1}
    o.k, o.samples, o.sigma, o.measure = 4, 20, 0.2, "sum"
    return fopo.gradient.slate(o)
  end
  local whole, first = trainer(s, items, g()), trainer(s, items, g())
  run(whole, 60)
  run(first, 20)
  local path = os.tmpname() .. ".npz"
  first:save(path)
  local second = trainer(s, items, g())
  second:resume(path)
  lu.assertErrorMsgContains("its sigma is learnt, here it is fixed", function()
    trainer(s, items, g{}):resume(path)
  end)
  os.remove(path)
  run(second, 40)
  lu.assertTrue(same(whole.policy:theta(), second.policy:theta()))
  local job = trainer(s, items, g())
  job:start{steps = 60, every = 10, keep_best = false}:wait()
  lu.assertTrue(same(whole.policy:theta(), job.policy:theta()))
  local sigma = whole.gradient.sigma
  lu.assertNotEquals(sigma, 0.2)
  lu.assertEquals({second.gradient.sigma, job.gradient.sigma}, {sigma, sigma})
  run(whole, 10)
  lu.assertEquals(#whole.actions, 0) -- nobody has set it
  local h = whole.history.reward
  lu.assertTrue(h[#h] > h[1] + 0.05)
  lu.assertStrContains(tostring(whole), "slate")
  -- what the phases took is part of what all of it took
  local n, took = #h, 0
  for _, phase in ipairs(require("fopo.native").phases()) do
    took = took + whole.history[phase.column][n]
  end
  lu.assertTrue(took > 0 and took <= whole.seconds)
end

-- Of a first item that has all but 2e-9 of the mass float32 says that it has all; what is left
-- counts as 1e-7.
function TestSlates:test_places_without_mass()
  local pi = fopo.policy.linear{items = fopo.array.from{{20.7}, {0}, {0}}, context_dim = 1,
                                theta = fopo.array.from{{1}}, seen = "keep"}
  local second = fopo.reward.custom(function(ids)
    local r = fopo.array.zeros(ids.rows, ids.cols)
    for i = 1, ids.cols do r:set(1, i, ids:get(1, i) == 2 and 1 or 0) end
    return r
  end)
  local g = fopo.gradient.plackett_luce{k = 2, samples = 50, measure = "sum", baseline = "none"}
  local G, stats = g:compute(pi, fopo.array.from{{1}}, nil, second)
  lu.assertTrue(stats.reward > 0.2 and stats.reward < 0.8)
  lu.assertTrue(math.abs(G:get(1, 1)) < 1e7 * 2 ^ -23 * 20.7)
end

-- A sigma that is far too large falls, one that is far too small rises, and a policy whose sigma is
-- learnt earns more than that of the first sigma.
function TestSlates:test_learns_sigma()
  local s, items = world(9)
  local function trained(sigma, sigma_lr)
    local t = trainer(s, items, fopo.gradient.slate{k = 4, samples = 20, sigma = sigma,
                                                    measure = "ndcg", sigma_lr = sigma_lr})
    run(t, 60)
    return t.gradient.sigma, fopo.evaluate(t.policy, s.train, {k = 4, expected = false}).ndcg[4]
  end
  local sigma, earned = trained(3, 0.3)
  local same_sigma, by_first = trained(3, 0)
  lu.assertEquals(same_sigma, 3)
  lu.assertTrue(sigma < 1 and earned > by_first + 0.005)
  lu.assertTrue(trained(1e-3, 0.3) > 1e-3)
end

-- A function sees the slates of a context one behind another: k items that differ, none of them
-- masked. All of a slate's reward may stand in its first place.
function TestSlates:test_a_function_rewards_slates()
  local s, items = world(4)
  local pi, k, S = fopo.policy.linear{items = items}, 3, 6
  local function slate_of(ids, b, at)
    local seen = {}
    for j = 0, k - 1 do seen[ids:get(b, at + j)] = true end
    return seen
  end
  local checked = 0
  local function whole(ids, rows)
    local values = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do
      local X, Y = s.train:x(rows:get(1, b)):totable()[1], s.train:y(rows:get(1, b)):totable()[1]
      for at = 1, ids.cols, k do
        local shown, n, hits = slate_of(ids, b, at), 0, 0
        for _ in pairs(shown) do n = n + 1 end
        assert(n == k)
        for _, id in ipairs(X) do assert(not shown[id]) end
        for _, id in ipairs(Y) do hits = hits + (shown[id] and 1 or 0) end
        values:set(b, at, hits > 0 and 1 or 0)
        checked = checked + 1
      end
    end
    return values
  end
  local rows = {1, 2, 3, 50}
  local function compute(measure, reward)
    local g = fopo.gradient.slate{k = k, samples = S, sigma = 0.3, measure = measure}
    return g:compute(pi, s.train, rows, reward, {seed = 2})
  end
  local G, stats = compute("hit", fopo.reward.hits(s.train))
  local H, by_hand = compute("sum", fopo.reward.custom(whole))
  lu.assertEquals(checked, #rows * S)
  lu.assertTrue(same(G, H) and G:norm() > 0)
  lu.assertEquals(stats.reward, by_hand.reward)
end

-- sigma may fall while a run goes on: each record is made with the sigma that it was given.
function TestSlates:test_a_schedule_of_sigma()
  local s, items = world(4)
  local function g(sigma) return fopo.gradient.slate{k = 4, samples = 20, sigma = sigma} end
  local falling, hand = trainer(s, items, g(0.4)), trainer(s, items, g(0.4))
  local used = {}
  falling:run{steps = 30, every = 10, view = false, keep_best = false, on_record = function()
    used[#used + 1] = falling.gradient.sigma
    falling.gradient.sigma = falling.gradient.sigma / 2
  end}
  lu.assertEquals(used, {0.4, 0.2, 0.1})
  for _, sigma in ipairs{0.4, 0.2, 0.1} do
    hand.gradient.sigma = sigma
    run(hand, 10)
  end
  local fixed = trainer(s, items, g(0.4))
  run(fixed, 30)
  lu.assertTrue(same(falling.policy:theta(), hand.policy:theta()))
  lu.assertFalse(same(falling.policy:theta(), fixed.policy:theta()))
end

-- Clicks by the chance that a place is looked at, any chances: a function of ids that knows places.
function TestSlates:test_a_position_based_model_by_a_function()
  local s, items = world(5)
  local pi, k, S, looks = fopo.policy.linear{items = items}, 4, 8, {1, 0.6, 0.36, 0.216}
  local function clicks(ids, rows)
    local r = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do
      local Y = s.train:y(rows:get(1, b))
      for j = 1, ids.cols do
        for i = 1, Y.cols do
          if Y:get(1, i) == ids:get(b, j) then r:set(b, j, looks[(j - 1) % k + 1]) end
        end
      end
    end
    return r
  end
  for _, make in ipairs{fopo.gradient.slate, fopo.gradient.plackett_luce} do
    local function compute(measure, discount, reward)
      local g = make{k = k, samples = S, measure = measure, discount = discount}
      return (g:compute(pi, s.train, {1, 2, 3, 9}, reward, {seed = 2}))
    end
    local G = compute("dcg", 0.6, fopo.reward.hits(s.train))
    local H = compute("sum", "auto", fopo.reward.custom(clicks))
    lu.assertTrue(G:norm() > 0)
    lu.assertTrue(H:add(G, -1):norm() < 1e-5 * G:norm())
  end
end

-- Users who have taken so many items that k are not left: their slates are all that is left, and
-- the places behind earn nothing.
function TestSlates:test_short_slates()
  local s = fopo.data.synthetic{users = 60, items = 14, clusters = 2, mean_items = 10, seed = 1}
            :sessions{min_items = 4, seed = 1}
  local items = fopo.embed.svd(s.train, {dim = 3})
  local k, short, total, counted = 9, 0, 0, {}
  local function ones(ids, rows)
    for b = 1, ids.rows do
      local X, shown, n = s.train:x(rows:get(1, b)).cols, {}, 0
      for j = 1, k do
        n, shown[ids:get(b, j)] = n + (shown[ids:get(b, j)] and 0 or 1), true
      end
      lu.assertEquals(n, math.min(k, s.train.n_items - X))
      counted[#counted + 1] = n
    end
    return fopo.array.zeros(ids.rows, ids.cols) + 1
  end
  local g = fopo.gradient.slate{k = k, samples = 4, measure = "sum"}
  local pi = fopo.policy.linear{items = items, seen = "mask"}
  local G, stats = g:compute(pi, s.train, nil, fopo.reward.custom(ones))
  for _, n in ipairs(counted) do total, short = total + n, short + (n < k and 1 or 0) end
  lu.assertTrue(short > 0 and short < #counted)
  lu.assertEquals(stats.short_rows, short)
  lu.assertAlmostEquals(stats.reward, total / #counted, 1e-5)
  lu.assertEquals(G:norm(), 0) -- all slates of a context earn the same
end

-- Slates over a head and a tail have the law of those over all items: how often each item is at
-- each place, by chi-square of two samples, with masks; those of all items that are left are whole.
function TestSlates:test_a_head_and_a_tail_of_plackett_and_luce()
  local s = fopo.data.synthetic{users = 60, items = 30, clusters = 3, mean_items = 8, seed = 2}
            :sessions{min_items = 4, seed = 1}
  local pi = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 3}), seen = "mask"}
  local function counts(o)
    local list = {}
    local rw = fopo.reward.custom(function(ids)
      for j = 1, ids.cols do
        local key = (j - 1) % o.k * 30 + ids:get(1, j)
        list[key] = (list[key] or 0) + 1
      end
      return fopo.array.zeros(ids.rows, ids.cols)
    end)
    for step = 1, 20 do
      fopo.gradient.plackett_luce(o):compute(pi, s.train, {3}, rw, {step = step})
    end
    return list
  end
  local over_all = counts{k = 4, samples = 500, measure = "sum"}
  for _, head in ipairs{2, 10, 25} do
    local list = counts{k = 4, samples = 500, measure = "sum", head = head, tail = 5}
    local chi2, freedom = 0, -4
    for key, n in pairs(over_all) do
      local m = list[key] or 0
      chi2, freedom = chi2 + (n - m) ^ 2 / (n + m), freedom + 1
    end
    lu.assertTrue(chi2 < freedom + 4 * math.sqrt(2 * freedom), ("%g of %d"):format(chi2, freedom))
    for _, id in ipairs(s.train:x(3):totable()[1]) do lu.assertNil(list[id]) end
  end
  local left = 30 - s.train:x(3).cols
  local whole = counts{k = left + 2, samples = 4, measure = "sum", head = 10, tail = 20}
  for id = 1, 30 do
    local n = 0
    for j = 0, left - 1 do n = n + (whole[j * 30 + id] or 0) end
    local seen = false
    for _, x in ipairs(s.train:x(3):totable()[1]) do seen = seen or x == id end
    lu.assertEquals(n, seen and 0 or 80)
  end
  lu.assertErrorMsgContains("are more than the 30 items", function()
    counts{k = 4, head = 20, tail = 20}
  end)
end

function TestSlates:test_check_of_every_kind_of_policy()
  local s, items = world(6)
  for _, pi in ipairs{fopo.policy.linear{items = items},
                      fopo.policy.linear{items = items, seen = "keep", temperature = 0.3},
                      fopo.policy.mlp{items = items, hidden = {5}}} do
    local r = fopo.check{policy = pi, data = s.train, print = false, repetitions = 50,
                         gradient = {fopo.gradient.slate{k = 5, samples = 40, sigma = 0.2,
                                                         measure = "dcg"},
                                     fopo.gradient.plackett_luce{k = 5, samples = 20}}}
    lu.assertTrue(r.ok, r.first)
    local found = {}
    for _, row in ipairs(r.rows) do found[row.name] = row.status end
    lu.assertEquals({found["mean of slate"], found["mean of plackett_luce"]}, {"okay", "okay"})
  end
  local all = fopo.gradient.slate{k = 250, samples = 10} -- each slate has every item
  local r = fopo.check{policy = fopo.policy.linear{items = items, seen = "keep"}, data = s.train,
                       print = false, gradient = all}
  for _, row in ipairs(r.rows) do
    if row.name == "mean of slate" then lu.assertEquals(row.status, "skipped") end
  end
end

-- The k best items as evaluate's lists have them; what is drawn, as a mean of many draws has it.
function TestSlates:test_evaluation_and_validation()
  local s, items = world(7)
  local pi, rw = fopo.policy.linear{items = items}, fopo.reward.hits(s.test)
  for _, measure in ipairs{"hit", "ndcg"} do
    for _, g in ipairs{fopo.gradient.slate{k = 5, samples = 50, sigma = 0.3, measure = measure},
                       fopo.gradient.plackett_luce{k = 5, samples = 50, measure = measure}} do
      local e = fopo.evaluate(pi, s.test, {k = 5, slate = g})
      lu.assertAlmostEquals(e.slate.reward, e[measure][5], 1e-6)
      local sum = 0
      for step = 1, 20 do
        local _, stats = g:compute(pi, s.test, nil, rw, {seed = 2, step = step})
        sum = sum + stats.reward / 20
      end
      lu.assertAlmostEquals(e.slate.expected, sum, 0.03)
      lu.assertTrue(e.slate.expected < e.slate.reward)
      lu.assertStrContains(tostring(e), "slates of 5 by " .. measure)
    end
  end
  for _, seen in ipairs{"mask", "keep"} do -- what is perturbed by nothing is what is served
    pi = fopo.policy.linear{items = items, seen = seen}
    for _, measure in ipairs{"hit", "sum", "dcg", "ndcg"} do
      for _, discount in ipairs{"auto", 0.7} do
        local g = fopo.gradient.slate{k = 5, samples = 2, sigma = 1e-30, measure = measure,
                                      discount = discount}
        local e = fopo.evaluate(pi, s.test, {k = 5, expected = false, slate = g})
        lu.assertAlmostEquals(e.slate.reward, e.slate.expected, 1e-6)
      end
    end
  end
  local t = trainer(s, items, fopo.gradient.slate{k = 4, samples = 20, measure = "sum"})
  t:run{steps = 20, every = 10, view = false, keep_best = false}
  local e = fopo.evaluate(t.policy, s.valid, {k = 4})
  lu.assertAlmostEquals(t.history.valid_measure[2], 4 * e.precision[4], 1e-6)
  lu.assertErrorMsgContains("a gradient exact", function()
    fopo.evaluate(pi, s.test, {slate = fopo.gradient.exact{}})
  end)
end

function TestSlates:test_refusals()
  local s, items = world(8)
  local function refused(sentence, o, policy, reward)
    local g = fopo.gradient.slate(o)
    lu.assertErrorMsgContains(sentence, function()
      g:compute(policy or fopo.policy.linear{items = items}, s.train, {1, 2},
                reward or fopo.reward.hits(s.train))
    end)
  end
  refused("cannot move items", {}, fopo.policy.linear{items = items, train_items = true})
  refused("in pairs", {samples = 5})
  refused("says nothing of sigma", {samples = 2, sigma_lr = 0.1})
  refused("less than a slate", {k = 9, head = 5})
  refused("an index hnsw does not search", {head = 50, index = fopo.index.hnsw(items)})
  local value = fopo.array.zeros(1, 250) + 2
  refused("worth 1 each", {measure = "ndcg"}, nil, fopo.reward.hits(s.train, {value = value}))
  refused("251", {k = 251})
  refused("expected reward alone", {objective = "likelihood"})
  local ix = fopo.index.hnsw(items)
  local _, stats = fopo.gradient.slate{k = 5, samples = 10, index = ix}
    :compute(fopo.policy.linear{items = items}, s.train, nil, fopo.reward.hits(s.train))
  lu.assertTrue(stats.reward > 0)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
