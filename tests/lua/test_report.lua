-- fopo.report and fopo.experiment.race: the rows of those that nobody trained, and the verdict.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"
local paired = require "fopo.base.paired"
local proportion = require "fopo.base.proportion"

local split = fopo.data.synthetic{users = 500, items = 400, clusters = 8, seed = 5}
              :sessions{min_items = 10, seed = 2}
local items = fopo.embed.svd(split.train, {dim = 8})
local report = fopo.report

-- A run with a reward of its own making, of n contexts.
local function run(name, reward, more)
  local pi = fopo.policy.linear{items = items, theta = "random", contexts = "unit",
                                temperature = 1}
  local one = {name = name, evaluation = {reward = reward, contexts = 1000}}
  one.trainer = {policy = pi, seconds = 1, step = 10}
  for key, value in pairs(more or {}) do one.evaluation[key] = value end
  return one
end

local function base(name, reward, policy)
  return {name = name, policy = policy, evaluation = {reward = reward, contexts = 1000}}
end

local function race(o)
  o.split, o.items, o.steps, o.methods = split, items, 5, {{"a, b", fopo.gradient.exact{}}}
  return fopo.experiment.race(o)
end

TestVerdict = {}

function TestVerdict:test_nothing_to_say()
  lu.assertNil(report.verdict{run("a", 0.2)}) -- nothing to compare with
  lu.assertNil(report.verdict{base("popular", 0.3)}) -- nothing trained
  lu.assertNil(report.verdict{base("popular", 0.2), run("a", 0.3)})
  -- an upper bound has no contexts, and nobody must beat it
  lu.assertNil(report.verdict{run("a", 0.3), {name = "best", evaluation = {reward = 0.9}}})
end

function TestVerdict:test_by_more_than_chance()
  -- 1,000 contexts: the 95 % interval of a difference is about 0.04 wide to each side
  lu.assertStrContains(report.verdict{base("popular", 0.30), run("a", 0.32)},
                       "a does not beat popular, which nobody trained, by more than chance: "
                       .. "reward 0.3200 against 0.3000; 1,000 contexts are few to tell")
  lu.assertNil(report.verdict{base("popular", 0.30), run("a", 0.36)})
end

-- On the same sessions a small difference counts if it is nearly always the same way.
function TestVerdict:test_pairs()
  local function hits(n, of)
    local a = fopo.array.zeros(1, of)
    for i = 1, n do a:set(1, i, 1) end
    return a
  end
  local low, high = native.paired(hits(16, 50), hits(10, 50))
  lu.assertTrue(0 < low and low < 6 / 50 and 6 / 50 < high)
  low, high = native.paired(fopo.array.from{0, 1, 1, 0}, fopo.array.from{1, 0, 1, 0})
  lu.assertTrue(low < 0)
  lu.assertAlmostEquals(low, -high, 1e-12)
  -- two samples of so few contexts that are not paired tell nothing
  low = paired.difference({reward = 16 / 50, contexts = 50}, {reward = 10 / 50, contexts = 50})
  lu.assertTrue(low < 0)
  lu.assertErrorMsgContains("are no pairs", native.paired, hits(1, 2), hits(0, 1))
  lu.assertErrorMsgContains("do not fit", native.first_values, fopo.array.ids{1}, split.test)
end

function TestVerdict:test_evaluations_are_paired()
  local test, all, hits = split.test, {}, {}
  for i, seed in ipairs{1, 2} do
    local pi = fopo.policy.linear{items = items, theta = "random", seed = seed}
    local ids = pi:best(test, {k = 1})
    all[i] = fopo.evaluate(pi, test, {k = {3}})
    hits[i] = fopo.array.zeros(1, test.n)
    for n = 1, test.n do hits[i]:set(1, n, test:hits(n, ids:get(n, 1)) and 1 or 0) end
  end
  lu.assertEquals({paired.difference(all[1], all[2])}, {native.paired(hits[1], hits[2])})
  lu.assertNotEquals(hits[1]:totable(), hits[2]:totable())
  local train = fopo.evaluate(fopo.baseline.popular{data = split.train}, split.train)
  lu.assertEquals({paired.difference(all[1], train)},
                  {proportion.difference(all[1].reward, test.n, train.reward, split.train.n)})
end

function TestVerdict:test_who_is_named()
  local all = {base("popular", 0.2), base("start", 0.3), run("a, b", 0.25), run("c", 0.1),
               run("d", 0.5)}
  lu.assertStrContains(report.verdict(all), "a, b; c do not beat start, which nobody trained")
  lu.assertStrContains(report.verdict(all), "reward 0.2500 against 0.3000")
  all[5] = nil
  lu.assertStrContains(report.verdict(all), "None of the 2 trained policies beats start")
end

function TestVerdict:test_what_to_try()
  local function said(b, r) return report.verdict{b, r} end
  local popular, start = base("popular", 0.3), base("start", 0.3, "a policy")
  lu.assertStrContains(said(popular, run("a", 0.1, {exclude = "none"})), '; try exclude = "seen"')
  lu.assertNil(said(popular, run("a", 0.1, {exclude = "seen"})):find("exclude"))
  lu.assertStrContains(said(popular, run("a", 0.1, {effective = 390})), "nearly uniform")
  lu.assertNil(said(popular, run("a", 0.1, {effective = 10})):find("uniform"))
  lu.assertNil(said(popular, run("a", 0.1)):find('contexts = "unit"'))
  lu.assertStrContains(said(start, run("a", 0.1)), "a smaller lr")
  lu.assertStrContains(said(popular, run("a", 0.1)), "more steps")
  local mean = run("a", 0.1)
  mean.trainer.policy = fopo.policy.linear{items = items, contexts = "mean"}
  lu.assertStrContains(said(popular, mean), 'contexts = "unit"')
end

-- NDCG@20 of each test session, by its definition.
local function ndcg_of(who)
  local ids, list = who:best(split.test, {k = 20}), {}
  for i = 1, split.test.n do
    local gain, best = 0, 0
    for k = 1, 20 do
      local weight = 1 / math.log(1 + k, 2)
      if split.test:hits(i, ids:get(i, k)) then gain = gain + weight end
      if k <= split.test:y(i).cols then best = best + weight end
    end
    list[i] = gain / best
  end
  return list
end

-- Lists are served: NDCG is compared over the pairs of contexts.
function TestVerdict:test_lists()
  local knn = fopo.baseline.item_knn{data = split.train}
  local pi = fopo.policy.linear{items = items, theta = "random", contexts = "unit"}
  local one = run("a", 0)
  one.policy, one.evaluation = pi, fopo.evaluate(pi, split.test)
  local other = {name = "knn", baseline = knn, evaluation = fopo.evaluate(knn, split.test)}
  local a, b = one.evaluation, other.evaluation
  local said = report.verdict{other, one}
  lu.assertStrContains(said, ("a does not beat knn in NDCG@20 by more than chance: %.4f against "
    .. "%.4f, with lists that show %.3g %% of the items against %.3g %%."):format(a.ndcg[20],
    b.ndcg[20], 100 * a.coverage[20], 100 * b.coverage[20]))
  lu.assertStrContains(said, "fopo.policy.neighbours, which trains")
  local x, y, n, sum, squares = ndcg_of(pi), ndcg_of(knn), split.test.n, 0, 0
  for i = 1, n do sum, squares = sum + x[i] - y[i], squares + (x[i] - y[i]) ^ 2 end
  local mean = sum / n
  local half = 1.959964 * math.sqrt((squares / n - mean ^ 2) / (n - 1))
  local low, high = paired.of_lists(a, b, 20)
  lu.assertAlmostEquals(low, mean - half, 1e-6)
  lu.assertAlmostEquals(high, mean + half, 1e-6)
  other.trainer = one.trainer -- trained, it is no baseline
  lu.assertNil(report.verdict{{name = "a", policy = pi, evaluation = a}, other})
end

TestRuns = {}

local function names(runs)
  local list = {}
  for i, one in ipairs(runs) do list[i] = one.name end
  return list
end

function TestRuns:test_race_has_the_baselines()
  local runs = race{theta = "random", exclude = "seen"}
  lu.assertEquals(names(runs), {"start", "popular", "identity", "a, b"})
  local popular = fopo.baseline.popular{data = split.train}
  lu.assertEquals(runs[2].evaluation.reward,
                  fopo.evaluate(popular, split.test, {exclude = "seen"}).reward)
  for _, one in ipairs(runs) do lu.assertEquals(one.evaluation.exclude, "seen") end
  lu.assertEquals(names(race{theta = "identity"}), {"start", "popular", "a, b"})
end

function TestRuns:test_the_table()
  local runs = race{theta = "random"}
  local shown = report.runs(runs)
  for _, part in ipairs{"\nstart ", "\npopular ", "\nidentity ", "\na, b ", "expected  NDCG@20",
                        "nobody trained", "reward: the best item is one that the user took next"} do
    lu.assertStrContains(shown, part)
  end
  lu.assertNil(shown:find("via index")) -- a column that nobody fills
  lu.assertStrContains(report.runs(race{theta = "random", index = fopo.index.exact(items)}),
                       "via index")
  lu.assertNil(report.runs(runs, {verdict = false}):find("nobody trained"))
  lu.assertStrContains(shown, "are left out.")
  shown = report.runs(race{theta = "random", exclude = "none", seen = "keep"})
  lu.assertStrContains(shown, "R_test")
  for line in shown:gmatch("[^\n]+") do lu.assertTrue(#line <= 100, line) end
end

function TestRuns:test_rows_from_the_split()
  local mine = {race{theta = "random"}[4]}
  local shown = report.runs(mine, {split = split})
  lu.assertStrContains(shown, "\npopular ")
  lu.assertStrContains(shown, "\nidentity ")
  lu.assertEquals(#mine, 1) -- the list that was given stays as it is
  local _, count = report.runs(race{theta = "random"}, {split = split}):gsub("\npopular ", "")
  lu.assertEquals(count, 1)
  -- a policy with other features than the items' columns has no identity
  local pi = fopo.policy.linear{items = items, context_dim = 3, theta = "random"}
  local one = {name = "x", policy = pi, evaluation = mine[1].evaluation}
  lu.assertNil(report.runs({one}, {split = split}):find("identity"))
end

TestGains = {}

local knn = fopo.baseline.item_knn{data = split.train}
local svd = fopo.policy.linear{items = items, contexts = "unit"}
local both = {{"knn", knn}, {"svd", svd}}

-- Groups of users cover all of them, and their mean is the reward.
function TestGains:test_by_activity()
  local r = report.groups(both, split.test, {parts = 3})
  local n, sums, last = 0, {0, 0}, 0
  for _, g in ipairs(r) do
    lu.assertTrue(g.low > last and g.high >= g.low)
    last = g.high
    n = n + g.n
    local hits, contexts = 0, 0
    local ids = svd:best(split.test, {k = 1})
    for i = 1, split.test.n do
      local taken = split.test:x(i).cols
      if taken >= g.low and taken <= g.high then
        contexts = contexts + 1
        hits = hits + (split.test:hits(i, ids:get(i, 1)) and 1 or 0)
      end
    end
    lu.assertEquals({g.n, g[2]}, {contexts, hits / contexts})
    lu.assertEquals(g.interval[2], {proportion.wilson(g[2], g.n)})
    for k = 1, 2 do sums[k] = sums[k] + g[k] * g.n end
  end
  lu.assertEquals(n, split.test.n)
  for k = 1, 2 do
    lu.assertAlmostEquals(sums[k] / n, fopo.evaluate(both[k][2], split.test).reward, 1e-12)
  end
  lu.assertStrContains(tostring(r), "reward by activity")
end

-- The items of Y, by how many training users took them: found or not, counted by hand.
function TestGains:test_by_popularity()
  local r = report.groups(both, split.test, {by = "popularity", data = split.train, k = 10})
  local users, ids = {}, knn:best(split.test, {k = 10})
  for a = 1, split.train.n_items do users[a] = 0 end
  for i = 1, split.train.n do
    for _, part in ipairs{split.train:x(i), split.train:y(i)} do
      for _, a in ipairs(part:totable()[1] or {}) do users[a] = users[a] + 1 end
    end
  end
  local total = 0
  for _, g in ipairs(r) do
    local found, all = 0, 0
    for i = 1, split.test.n do
      local is = {}
      for k = 1, 10 do is[ids:get(i, k)] = true end
      for _, a in ipairs(split.test:y(i):totable()[1]) do
        local u = math.max(1, users[a])
        if u >= g.low and u <= g.high then all, found = all + 1, found + (is[a] and 1 or 0) end
      end
    end
    lu.assertEquals({g.n, g[1]}, {all, found / all})
    total = total + all
  end
  lu.assertTrue(#r >= 3 and total > split.test.n)
  lu.assertErrorMsgContains("needs data = s.train", report.groups, both, split.test,
                            {by = "popularity"})
  lu.assertErrorMsgContains("entry 1 is", report.groups, {{"a", 3}}, split.test)
end

function TestGains:test_coverage()
  local r = report.coverage(both, split.test, {k = 20})
  for i, one in ipairs(both) do
    local e = fopo.evaluate(one[2], split.test, {k = {5, 20}})
    lu.assertEquals({r[i].y[5], r[i].y[20], r[i].name}, {e.coverage[5], e.coverage[20], one[1]})
  end
  lu.assertStrContains(tostring(r), "share of the catalogue")
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
