-- Indexes from Lua: hybrid, options set between searches, the reward lost to an index, and the
-- choice of index.auto: its recalls and the clear cases are asserted, its times are not.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"
local proportion = require "fopo.base.proportion"
local index, array = fopo.index, fopo.array
local function fails(text, f, ...) lu.assertErrorMsgContains(text, f, ...) end

local d = fopo.data.synthetic{users = 600, items = 3000, clusters = 20, seed = 3}
local s = d:sessions{min_items = 10, test = 0.3}
local items = fopo.embed.svd(s.train, {dim = 16})
local pi = fopo.policy.linear{items = items, theta = "identity", seen = "keep"}
local x = s.test:contexts(items)
local Q = pi:queries(x)
local small = {M = 8, ef_construction = 40, deterministic = true}
local function with(o, more)
  local all = {}
  for name, value in pairs(o) do all[name] = value end
  for name, value in pairs(more) do all[name] = value end
  return all
end

-- Rows of norm 1 in a subspace of 4 of 48 dimensions: useless for a bound by norms, easy for a
-- graph.
local function unit_norm(P, seed)
  local m = array.randn(P, 4, seed):matmul(array.randn(4, 48, 77))
  for i = 1, P do
    local sum = 0
    for j = 1, 48 do sum = sum + m:get(i, j) ^ 2 end
    for j = 1, 48 do m:set(i, j, m:get(i, j) / math.sqrt(sum)) end
  end
  return m
end

TestClusters = {}

-- An index that looks at all items is exact; with few of them it is nearly, at a small share of
-- the rows, on items that a norm index has to score all. Threads change nothing.
function TestClusters:test_search()
  local units = unit_norm(3000, 5)
  local queries = unit_norm(50, 6)
  local before, ix = fopo.threads(), index.clusters(units)
  lu.assertEquals({ix.kind, ix:about().clusters, ix.ef}, {"clusters", 219, nil})
  lu.assertStrContains(ix:describe(), "219 clusters, ef 4 k")
  local r = ix:recall(queries, 20)
  lu.assertTrue(r.recall > 0.9 and r.scored < 0.06, r.recall .. " " .. r.scored)
  local ids, scores, short = ix:search(queries, 20)
  fopo.threads(before == 1 and 2 or 1)
  local other = index.clusters(units):search(queries, 20)
  fopo.threads(before)
  lu.assertEquals(other:totable(), ids:totable())
  lu.assertEquals(short, 0)
  for i = 1, 50 do
    local q = array.from{queries:rows_of{i}:totable()[1]}
    local found = units:rows_of{ids:get(i, 1)}
    lu.assertAlmostEquals(scores:get(i, 1), q:matmul(found, false, true):get(1, 1), 1e-5)
  end
  ix.ef = 3000
  local exact_ids, exact_scores = index.exact(units):search(queries, 20)
  ids, scores = ix:search(queries, 20)
  lu.assertEquals({ids:totable(), scores:totable()}, {exact_ids:totable(), exact_scores:totable()})
  local all, wanted = ix:search(queries, 3000), index.exact(units):search(queries, 3000)
  lu.assertEquals(all:totable(), wanted:totable())
end

function TestClusters:test_file_and_update()
  local units, path = unit_norm(500, 5), os.tmpname() .. ".npz"
  local ix = index.clusters(units, {clusters = 1000, ef = 60})
  lu.assertEquals(ix:about().clusters, 500) -- one an item
  ix = index.clusters(units, {clusters = 30, ef = 60})
  ix:save(path)
  local again = index.load(path, units)
  lu.assertEquals({again.kind, again.ef, again:about().clusters}, {"clusters", 60, 30})
  lu.assertEquals(again:search(units, 5):totable(), ix:search(units, 5):totable())
  ix:update()
  lu.assertEquals(again:search(units, 5):totable(), ix:search(units, 5):totable())
  os.remove(path)
end

-- Items without a norm are the last cluster, whatever it was asked for; they take no part in the
-- others, which are those of the other items alone.
function TestClusters:test_zeros()
  local units, path = unit_norm(900, 5), os.tmpname() .. ".npz"
  local rows, at = {}, {}
  for i = 1, 900 do
    at[i] = #rows + 1
    rows[at[i]] = units:rows_of{i}:totable()[1]
    for _ = 1, i % 3 do rows[#rows + 1] = array.zeros(1, 48):totable()[1] end
  end
  local all, queries = array.from(rows), unit_norm(20, 6)
  local ix, alone = index.clusters(all), index.clusters(units)
  lu.assertEquals({ix:about().clusters, alone:about().clusters}, {121, 120})
  local groups, wanted = ix:groups(), alone:groups()
  for i = 1, 900 do
    lu.assertEquals(groups:get(1, at[i]), wanted:get(1, i))
    for a = at[i] + 1, (at[i + 1] or #rows + 1) - 1 do lu.assertEquals(groups:get(1, a), 121) end
  end
  local ids, scores = ix:search(queries, 10)
  local few, same = alone:search(queries, 10)
  lu.assertEquals(scores:totable(), same:totable())
  for b = 1, 20 do lu.assertEquals(ids:get(b, 1), at[few:get(b, 1)]) end
  for _, k in ipairs{1500, #rows} do -- more than have a norm
    local found, best = index.exact(all):search(queries, k), ix:search(queries, k)
    lu.assertEquals(best.cols, found.cols)
    for b = 1, 20 do
      local seen = {}
      for j = 1, k do seen[best:get(b, j)] = true end
      for j = 1, 300 do lu.assertTrue(seen[found:get(b, j)]) end -- the largest scores
    end
  end
  for _, clusters in ipairs{1, 2, 30} do
    ix = index.clusters(all, {clusters = clusters})
    lu.assertEquals(ix:about().clusters, math.max(2, clusters))
    ix:save(path)
    lu.assertEquals(index.load(path, all):groups():totable(), ix:groups():totable())
  end
  os.remove(path)
  lu.assertEquals(index.clusters(array.zeros(30, 4)):search(array.randn(2, 4, 1), 5):totable(),
                  {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}})
end

-- A gradient's candidates are items of the best clusters, unscored: any set is valid, so the
-- estimate agrees with the exact gradient within its error.
function TestClusters:test_gradient()
  local units = unit_norm(3000, 5)
  local of = fopo.policy.linear{items = units, theta = "identity", temperature = 0.1}
  local rows = fopo.reward.custom(function(ids)
    local r = {}
    for i = 1, ids.rows do
      r[i] = {}
      for j = 1, ids.cols do r[i][j] = ids:get(i, j) % 7 == 0 and 1 or 0 end
    end
    return array.from(r)
  end)
  local g = fopo.gradient.head_tail{index = index.clusters(units), k = 200, tail = 200}
  local X = unit_norm(8, 9)
  local exact = fopo.gradient.exact():compute(of, X, {1, 2, 3, 4, 5, 6, 7, 8}, rows)
  local sum, n = array.zeros(exact.rows, exact.cols), 60
  for seed = 1, n do
    local G = g:compute(of, X, {1, 2, 3, 4, 5, 6, 7, 8}, rows, {seed = seed})
    for i = 1, sum.rows do
      for j = 1, sum.cols do sum:set(i, j, sum:get(i, j) + G:get(i, j) / n) end
    end
  end
  local off = 0
  for i = 1, sum.rows do
    for j = 1, sum.cols do off = off + (sum:get(i, j) - exact:get(i, j)) ^ 2 end
  end
  lu.assertTrue(math.sqrt(off) < 0.15 * exact:norm(), math.sqrt(off) / exact:norm())
end

TestHybrid = {}

function TestHybrid:test_it_is_nearly_exact_and_says_what_it_is()
  local ix = index.hybrid(items, with(small, {ef = 128}))
  local a = ix:about()
  lu.assertEquals({ix.kind, a.head, a.M, a.ef, ix.ef}, {"hybrid", 150, 8, 128, 128})
  lu.assertFalse(a.exact)
  local r = ix:recall(Q, 20)
  lu.assertTrue(r.recall >= 0.99, r.recall)
  lu.assertEquals(r.short_rows, 0)
  lu.assertTrue(r.scored > 0 and r.scored < 1)
  lu.assertStrContains(ix:describe(), "the 150 largest norms exactly")
end

function TestHybrid:test_a_file_gives_the_same_answers()
  local path = os.tmpname()
  local ix = index.hybrid(items, with(small, {head = 0.02, ef = 50}))
  ix:save(path)
  local again = index.load(path, items)
  os.remove(path)
  lu.assertEquals(again.kind, "hybrid")
  lu.assertEquals(again:about().head, 60)
  lu.assertEquals(again:search(Q, 30):totable(), ix:search(Q, 30):totable())
end

function TestHybrid:test_options_out_of_range_are_refused()
  fails("head must be less than 1", index.hybrid, items, {head = 1.0})
  fails("head must be more than 0", index.hybrid, items, {head = 0})
  fails("at least 2 items", index.hybrid, array.randn(1, 4, 1))
  fails("ef_construction is 4; use 16", index.hybrid, items, {ef_construction = 4})
end

TestChange = {}

function TestChange:test_ef_and_budget()
  local graph, norm = index.hnsw(items, with(small, {ef = 5})), index.norm(items)
  local narrow = graph:recall(Q, 5)
  graph.ef = 200
  lu.assertEquals(graph.ef, 200)
  local wide = graph:recall(Q, 5)
  lu.assertTrue(wide.recall >= narrow.recall and wide.scored > narrow.scored)
  lu.assertNil(norm.budget)
  norm.budget = 300
  lu.assertEquals(norm:search(Q, 9):totable(),
                  index.norm(items, {budget = 300}):search(Q, 9):totable())
  norm.budget = nil
  lu.assertEquals(norm:recall(Q, 9).recall, 1.0)
  fails("of kind norm has no ef", function() norm.ef = 9 end)
  fails("of kind hnsw has no budget", function() graph.budget = 9 end)
  fails("ef", function() graph.ef = 0 end)
end

-- A larger budget has at least the recall of a smaller one; the whole order is exact.
function TestChange:test_budgets_are_ordered_by_recall()
  local before = 0
  for _, budget in ipairs{20, 100, 400, 1500, 3000} do
    local r = index.norm(items, {budget = budget}):recall(Q, 20)
    lu.assertTrue(r.recall >= before)
    lu.assertEquals(r.reachable, budget)
    lu.assertEquals(index.norm(items, {budget = budget}):about().exact, budget == items.rows)
    before = r.recall
  end
  lu.assertEquals(before, 1.0)
end

TestLost = {}

-- The same numbers computed here, from the answers and the sessions.
function TestLost:test_it_is_the_difference_of_two_rewards()
  local ix = index.norm(items, {budget = 12})
  local r = ix:recall(Q, 5, {policy = pi, sessions = s.test})
  local truly, found = pi:best(x), pi:best(x, {index = ix})
  local b, c, hits = 0, 0, 0
  for n = 1, s.test.n do
    local t, f = s.test:hits(n, truly:get(n, 1)), s.test:hits(n, found:get(n, 1))
    hits = hits + (t and 1 or 0)
    b, c = b + (t and not f and 1 or 0), c + (f and not t and 1 or 0)
  end
  local N = s.test.n
  lu.assertTrue(b > 0)
  lu.assertAlmostEquals(r.reward_exact, hits / N, 1e-12)
  lu.assertAlmostEquals(r.reward_lost, (b - c) / N, 1e-12)
  lu.assertEquals(r.reward_lost, r.reward_exact - r.reward_index)
  local m, z = N + 2, 1.959963984540054
  local half = z * math.sqrt(b + c + 1 - (b - c) ^ 2 / m) / m
  lu.assertAlmostEquals(r.lost_low, (b - c) / m - half, 1e-12)
  lu.assertAlmostEquals(r.lost_high, (b - c) / m + half, 1e-12)
  lu.assertEquals(r.exact.contexts, N)
  lu.assertTrue(r.index.low <= r.reward_index and r.reward_index <= r.index.high)
  local low, high = proportion.wilson(hits / N, N)
  lu.assertAlmostEquals(r.exact.low, low, 1e-12)
  lu.assertAlmostEquals(r.exact.high, high, 1e-12)
end

function TestLost:test_an_exact_index_loses_nothing()
  local r = index.norm(items):recall(Q, 1, {policy = pi, sessions = s.test})
  lu.assertEquals({r.recall, r.mass, r.reward_lost}, {1.0, 1.0, 0.0})
  lu.assertTrue(r.lost_low < 0 and r.lost_high > 0 and r.lost_high < 0.05)
  lu.assertNil(index.exact(items):recall(Q, 1).reward_lost)
end

function TestLost:test_half_a_request_is_refused()
  local ix = index.norm(items)
  fails("policy and sessions together", ix.recall, ix, Q, 1, {policy = pi})
  fails("policy and sessions together", ix.recall, ix, Q, 1, {sessions = s.test})
  fails("did you mean 'policy'", ix.recall, ix, Q, 1, {polcy = pi})
  fails("dimension", ix.recall, index.norm(array.randn(3000, 4, 1)), array.randn(9, 4, 1), 1,
        {policy = pi, sessions = s.test})
end

TestAuto = {}

local function check(ix, o)
  local a = ix:about()
  local chosen
  for _, c in ipairs(a.candidates) do
    lu.assertNil(c.index)
    if c.chosen then lu.assertNil(chosen); chosen = c end
    if c.skipped then lu.assertNil(c.recall) else lu.assertTrue(c.recall <= 1 and c.ms > 0) end
  end
  lu.assertEquals(chosen.kind, ix.kind)
  lu.assertEquals(chosen.options.budget, ix.budget)
  lu.assertEquals(chosen.options.ef, ix.ef)
  local mass = o.mass or not o.target and o.k >= 32 and 0.995 or 2
  local target = o.target or not o.mass and 0.99 or 2
  local function good(c) return not c.skipped and (c.recall >= target or c.mass >= mass) end
  lu.assertTrue(good(chosen))
  local least = math.huge
  for _, c in ipairs(a.candidates) do -- none that is good enough is much faster
    if good(c) then
      lu.assertTrue(c.ms * 1.1 >= chosen.ms)
      least = math.min(least, c.ms)
    end
  end
  lu.assertEquals(a.why:find("ties with the fastest", 1, true) ~= nil, chosen.ms > least)
  lu.assertTrue(a.choice_seconds > 0)
  lu.assertStrContains(a.why, "the choice took ")
  lu.assertStrContains(a.why, chosen.name)
  if target <= 1 then lu.assertStrContains(a.why, ("recall@%d"):format(o.k)) end
  lu.assertStrContains(ix:describe(), a.why)
  lu.assertStrContains(ix:describe(), "ms/query")
  return chosen, a
end

local function candidate(a, kind)
  for _, c in ipairs(a.candidates) do
    if c.kind == kind then return c end
  end
end

-- Few items: a graph cannot be faster, so none is built, and the sentence says so.
function TestAuto:test_heavy_tails_need_no_graph()
  for _, k in ipairs{1, 10, 100} do
    local o = {k = k, queries = Q, target = 0.99}
    local ix = index.auto(items, o)
    local chosen, a = check(ix, o)
    lu.assertTrue(chosen.kind == "norm" or chosen.kind == "exact")
    lu.assertStrContains(a.why, "norms help")
    lu.assertStrContains(a.why, "no graph was built")
    lu.assertEquals(candidate(a, "hybrid").skipped, "it cannot be faster")
    lu.assertEquals({candidate(a, "norm").recall, candidate(a, "norm").mass}, {1.0, 1.0})
    lu.assertTrue(ix:recall(Q, k).recall >= 0.98)
  end
end

-- Recalls are reproducible.
function TestAuto:test_recalls_are_reproducible()
  local o = {k = 20, queries = Q, sample = 64, seconds = 60}
  local a, b = index.auto(items, o):about(), index.auto(items, o):about()
  lu.assertEquals(#a.candidates, #b.candidates)
  for i, c in ipairs(a.candidates) do
    lu.assertEquals({c.name, c.recall, c.mass, c.scored, c.skipped},
                    {b.candidates[i].name, b.candidates[i].recall, b.candidates[i].mass,
                     b.candidates[i].scored,
                     b.candidates[i].skipped})
  end
  lu.assertStrContains(a.why, "a sample of 64 of the queries")
end

-- With a target of 1 the chosen index is exact on these queries.
function TestAuto:test_a_target_of_one_is_exact()
  local o = {k = 30, queries = Q, target = 1, sample = 1000}
  local ix = index.auto(items, o)
  check(ix, o)
  lu.assertEquals(ix:recall(Q, 30).recall, 1.0)
end

-- By mass a smaller budget is good enough, the more so the flatter the policy is; by recall alone,
-- and for short answers, it must find the true ones. Of what times decide nothing is asserted.
function TestAuto:test_mass_allows_smaller_budgets()
  local o = {k = 50, queries = Q}
  local function least_good(more, field, value)
    local all = with(o, more)
    local _, a = check(index.auto(items, all), all)
    local least = items.rows
    for _, c in ipairs(a.candidates) do
      if c.options.budget and not c.skipped and c[field] >= value then
        least = math.min(least, c.options.budget)
      end
    end
    return least
  end
  local by_recall = least_good({target = 0.99}, "recall", 0.99)
  local by_mass = least_good({mass = 0.9}, "mass", 0.9)
  lu.assertTrue(by_mass < by_recall / 2)
  lu.assertEquals(least_good({target = 0.99, mass = 0.9}, "mass", 0.9), by_mass)
  lu.assertTrue(least_good({}, "mass", 0.995) < by_recall)
  local r = index.norm(items, {budget = by_mass}):recall(Q, 50)
  lu.assertTrue(r.mass >= 0.9 and r.mass <= 1 and r.recall < 0.9)

  local flat = fopo.policy.linear{items = items, theta = "identity", temperature = 1e4}
  o.queries = flat:queries(x)
  lu.assertEquals(least_good({}, "mass", 0.995), 64)
  lu.assertTrue(least_good({k = 20}, "recall", 0.99) > 64)
  local ix = index.auto(items, o)
  lu.assertEquals(ix:about().why:find("score nearly alike", 1, true) ~= nil, ix.budget == 64)
end

-- Without time, only the exact search that the truth is found by is measured, and the others are
-- skipped by name.
function TestAuto:test_no_time_leaves_the_exact_order()
  local o = {k = 50, queries = Q, seconds = 1e-9, batch = 8}
  local ix = index.auto(items, o)
  local chosen, a = check(ix, o)
  lu.assertEquals({chosen.name, chosen.recall, chosen.mass, ix:about().exact},
                  {"norm", 1.0, 1.0, true})
  for _, c in ipairs(a.candidates) do
    if c ~= chosen then lu.assertTrue(c.skipped:find("left", 1, true) ~= nil
                                      or c.skipped:find("leaves", 1, true) ~= nil) end
  end
  lu.assertNotNil(candidate(a, "exact"))
  lu.assertNotNil(candidate(a, "hnsw"))
  lu.assertStrContains(a.why, "a sample of 8 of the queries")
  lu.assertStrContains(a.why, "did not allow all candidates")
end

-- Equal norms: auto says that they cannot help, and builds the graph. The times of the candidates
-- are given, since measured ones may let exact search win on a machine with fast products.
function TestAuto:test_unit_norms_need_a_graph()
  local measure, ms = native.index_measure, {exact = 50, norm = 50, hnsw = 1}
  local function auto(...)
    native.index_measure = function(ix, ...)
      local r = measure(ix, ...)
      r.ms_per_query = ms[ix.kind]
      return r
    end
    local ok, ix = pcall(index.auto, ...)
    native.index_measure = measure
    assert(ok, ix)
    return ix
  end
  local world = unit_norm(12000, 5)
  local o = {k = 5, queries = unit_norm(200, 6), M = 6, ef_construction = 30, target = 0.95,
             seconds = 600} -- enough for every candidate, under gcov and beside other work too
  local ix = auto(world, o)
  local chosen, a = check(ix, o)
  lu.assertStrContains(a.why, "norms cannot help")
  lu.assertNil(candidate(a, "hybrid"))
  lu.assertEquals(ix.kind, "hnsw")
  lu.assertTrue(chosen.recall >= 0.95 and chosen.build_estimate > 0 and chosen.build_seconds > 0)
  lu.assertStrContains(a.why, "is paid back after")

  -- No time for a build: the sentence says so, and which build_limit would allow it.
  o.build_limit = 0
  ix = auto(world, o)
  a = select(2, check(ix, o))
  lu.assertStrContains(candidate(a, "hnsw").skipped, "build_limit")
  lu.assertStrContains(a.why, "build_limit = ")
  lu.assertTrue(ix.kind == "exact" or ix.kind == "norm")

  -- A graph that cannot be faster is not built, and the reason names the other.
  o.build_limit, ms.exact, ms.norm = nil, 1e-9, 1e-9
  ix = auto(world, o)
  a = select(2, check(ix, o))
  lu.assertEquals(candidate(a, "hnsw").skipped, "it cannot be faster")
  lu.assertStrContains(a.why, "no graph was built: a graph over 2,000 of the items already takes")
end

-- Queries of 0, as those of a policy whose theta is 0, are answered without scoring any item; that
-- says nothing of the norms.
function TestAuto:test_queries_of_0_tell_nothing()
  local o = {k = 5, queries = array.zeros(20, 16)}
  local _, a = check(index.auto(items, o), o)
  lu.assertNil(candidate(a, "exact").skipped)
  lu.assertStrContains(a.why, "all of these queries are 0")
  lu.assertNil(a.why:find("norms help", 1, true) or a.why:find("did not allow", 1, true))
end

function TestAuto:test_wrong_requests_are_named()
  fails("needs the option queries", index.auto, items, {k = 5})
  fails("there are none", index.auto, items, {k = 5, queries = array.zeros(0, 16)})
  fails("dimension 16", index.auto, items, {k = 5, queries = array.randn(3, 4, 1)})
  fails("k is 3001", index.auto, items, {k = 3001, queries = Q})
  fails("target must be at most 1", index.auto, items, {queries = Q, target = 1.5})
  fails("mass must be at most 1", index.auto, items, {queries = Q, mass = 1.5})
  fails("seconds must be more than 0", index.auto, items, {queries = Q, seconds = 0})
end

-- Catalogues of one to four items.
function TestAuto:test_tiny_catalogues()
  for P = 1, 4 do
    local o = {k = 1, queries = array.randn(5, 3, 2)}
    check(index.auto(array.randn(P, 3, P), o), o)
  end
end

os.exit(lu.LuaUnit.run())
