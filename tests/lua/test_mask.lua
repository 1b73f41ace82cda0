-- seen = "mask": the items of X have no probability, in all that a policy does.
local lu = require "luaunit"
local fopo = require "fopo"

local s = fopo.data.synthetic{users = 500, items = 600, clusters = 12, seed = 4}
          :sessions{min_items = 10}
local items = fopo.embed.svd(s.train, {dim = 6})
local index = fopo.index.norm(items)
local hits = fopo.reward.hits(s.train)

local function policy(o)
  o = o or {}
  o.items, o.seen = items, o.seen or "mask"
  return fopo.policy.linear(o)
end

local function mixture(o)
  o.index, o.k = index, 40
  return fopo.gradient.snis{samples = 300, proposal = fopo.proposal.mixture(o)}
end

-- pi(. | x_n) of all items, by plain sums.
local function softmax(pi, sessions, n)
  local x = sessions:contexts(items, {scale = pi.contexts}):rows_of{n}
  local f = pi:queries(x):matmul(pi:items(), false, true):totable()[1]
  for _, id in ipairs(sessions:x(n):totable()[1]) do f[id] = -math.huge end
  local top, Z = math.max(table.unpack(f)), 0
  for a = 1, #f do Z = Z + math.exp(f[a] - top) end
  local p = {}
  for a = 1, #f do p[a] = math.exp(f[a] - top) / Z end
  return p, f
end

local function expected(pi, sessions)
  local sum = 0
  for n = 1, sessions.n do
    local p = softmax(pi, sessions, n)
    for _, id in ipairs(sessions:y(n):totable()[1]) do sum = sum + p[id] end
  end
  return sum / sessions.n
end

TestMask = {}

function TestMask:test_option()
  local pi = policy()
  lu.assertEquals(pi.seen, "mask")
  lu.assertEquals(policy{seen = "keep"}.seen, "keep")
  lu.assertEquals(fopo.policy.linear{items = items}.seen, "mask")
  lu.assertEquals(fopo.policy.linear{items = fopo.array.from(items:totable())}.seen, "keep")
  lu.assertEquals(fopo.policy.linear{items = items, preset = "paper"}.seen, "keep")
  lu.assertStrContains(tostring(pi), "seen items masked")
  lu.assertNotStrContains(tostring(policy{seen = "keep"}), "masked")
  local path = os.tmpname()
  pi:save(path)
  lu.assertEquals(fopo.policy.load(path).seen, "mask")
  policy{seen = "keep"}:save(path)
  lu.assertEquals(fopo.policy.load(path).seen, "keep")
  os.remove(path)
end

-- Everything that fopo.check compares, and with all kinds of estimators.
function TestMask:test_check()
  local r = fopo.check{policy = policy(), data = s.train, contexts = 3, repetitions = 40,
                       print = false}
  lu.assertTrue(r.ok, r.first)
  r = fopo.check{policy = policy(), data = s.train, contexts = 2, repetitions = 40,
                 gradient = mixture{epsilon = 0.3}, print = false}
  lu.assertTrue(r.ok, r.first)
  r = fopo.check{policy = policy(), data = s.train, contexts = 2, repetitions = 40, print = false,
                 gradient = fopo.gradient.exact{objective = "likelihood"}}
  lu.assertTrue(r.ok, r.first)
  local pi = fopo.policy.mlp{items = items, hidden = {8}, seen = "mask", train_items = true}
  r = fopo.check{policy = pi, data = s.train, contexts = 2, repetitions = 40, print = false}
  lu.assertTrue(r.ok, r.first)
end

-- Those that fopo.check does not make: a head by mass, and an adaptive proposal.
function TestMask:test_means()
  local pi, rows = policy(), {3, 5, 8}
  local exact, truth = fopo.gradient.exact{}:compute(pi, s.train, rows, hits)
  local adaptive = fopo.gradient.snis{samples = 2000,
    proposal = fopo.proposal.adaptive{index = index, k = 40, floor = 0.3}}
  for _, g in ipairs{fopo.gradient.head_tail{tail = 100},
                     fopo.gradient.head_tail{head = 50, tail = 200},
                     fopo.gradient.head_tail{index = index, k = 40, tail = 200, refresh = 3},
                     mixture{epsilon = 0.5, refresh = 2}, adaptive} do
    local sum, reward, n = fopo.array.zeros(exact.rows, exact.cols), 0, 150
    for step = 1, n do
      local G, stats = g:compute(pi, s.train, rows, hits, {step = step})
      sum:add(G, 1 / n)
      reward = reward + stats.reward / n
    end
    local off = sum:add(exact, -1):norm() / exact:norm()
    lu.assertTrue(off < 0.1, g:describe() .. " is off by " .. off)
    lu.assertAlmostEquals(reward, truth.reward, 0.05 * truth.reward)
  end
end

function TestMask:test_evaluate_and_recommend()
  local pi = policy{temperature = 0.4}
  local e = fopo.evaluate(pi, s.test)
  lu.assertAlmostEquals(e.expected, expected(pi, s.test), 1e-5)
  local kept = fopo.evaluate(policy{seen = "keep", temperature = 0.4}, s.test, {exclude = "seen"})
  lu.assertEquals(e.expected, kept.expected)
  lu.assertEquals(e.hit, kept.hit)
  lu.assertEquals(e.seen[1], 0)
  local list = pi:recommend(s.test, 3, {exclude = "none"})
  local ids = pi:best(s.test, {k = 3})
  for n = 1, s.test.n do
    local p, f = softmax(pi, s.test, n)
    local best = 1
    for a = 2, #f do if f[a] > f[best] then best = a end end
    lu.assertEquals(list[n][1].item, best)
    lu.assertEquals(ids:get(n, 1), best)
    lu.assertAlmostEquals(list[n][1].probability, p[best], 1e-5)
  end
  local one = pi:recommend({items = {3, 14}}, 5, {exclude = {7}})
  for _, r in ipairs(one) do lu.assertTrue(r.item ~= 3 and r.item ~= 14 and r.item ~= 7) end
end

function TestMask:test_training()
  local function trainer(g)
    return fopo.trainer{policy = policy(), data = s.train, gradient = g, valid = s.valid, seed = 3}
  end
  local path = os.tmpname()
  for _, g in ipairs{fopo.gradient.head_tail{k = 40}, mixture{epsilon = 0.5, refresh = 3}} do
    local t = trainer(g)
    local before = fopo.evaluate(t.policy, s.train).expected
    t:run{steps = 100, view = false, keep_best = false}
    t:save(path)
    t:run{steps = 50, view = false, keep_best = false}
    local again = trainer(g:copy(g.proposal))
    again:resume(path)
    again:run{steps = 50, view = false, keep_best = false}
    lu.assertEquals(again.policy:theta():totable(), t.policy:theta():totable())
    lu.assertTrue(fopo.evaluate(t.policy, s.train).expected > before)
    lu.assertAlmostEquals(t.history.valid_expected[#t.history.step],
                          fopo.evaluate(t.policy, s.valid).expected, 1e-9)
    local other = fopo.trainer{policy = policy{seen = "keep"}, data = s.train, seed = 3,
                               gradient = g:copy(g.proposal), valid = s.valid}
    lu.assertErrorMsgContains("data", other.resume, other, path)
  end
  os.remove(path)
end

-- A probe of an adaptive proposal: the first 8 contexts of a batch have candidates, which are
-- masked, however many others come after them.
function TestMask:test_probe()
  local masses = {}
  for i, batch in ipairs{8, 11, 16} do
    local q = fopo.proposal.adaptive{index = index, k = 40}
    local t = fopo.trainer{policy = policy(), data = s.train, batch = batch, seed = 3,
                           gradient = fopo.gradient.snis{samples = 60, proposal = q},
                           valid = false}
    masses[i] = t:run{steps = 1, view = false}.history.head_mass[1]
  end
  lu.assertAlmostEquals(masses[2], masses[1], 1e-6)
  lu.assertAlmostEquals(masses[3], masses[1], 1e-6)
end

-- Sessions shared out, with X of each; of one process here.
function TestMask:test_shared()
  local function theta(data)
    local t = fopo.trainer{policy = policy(), data = data, gradient = mixture{epsilon = 0.5},
                           valid = false, seed = 3, resplit = false}
    t:run{steps = 20, view = false}
    return t.policy:theta():totable()
  end
  lu.assertEquals(theta(s.train:share(policy())), theta(s.train))
  lu.assertErrorMsgContains("share them for this policy", theta,
                            s.train:share(policy{seen = "keep"}))
end

-- A density over all items: masked candidates have the uniform share alone.
function TestMask:test_sample()
  local pi, q = policy(), fopo.proposal.mixture{index = index, k = 40, epsilon = 0.2}
  local x = s.train:contexts(items, {scale = pi.contexts})
  local ids, logq = q:sample(pi, x, 400, {sessions = s.train})
  local uniform = math.log(0.2 / 600)
  for n = 1, 20 do
    local seen = {}
    for _, id in ipairs(s.train:x(n):totable()[1]) do seen[id] = true end
    for i = 1, ids.cols do
      if seen[ids:get(n, i)] then lu.assertAlmostEquals(logq:get(n, i), uniform, 1e-5) end
    end
  end
end

function TestMask:test_refused()
  local pi = policy()
  local x = s.train:contexts(items, {scale = pi.contexts})
  local g = fopo.gradient.exact{}
  local array = "give the sessions, or make the policy with seen = \"keep\""
  lu.assertErrorMsgContains(array, g.compute, g, pi, x, nil, hits)
  lu.assertErrorMsgContains(array, pi.best, pi, x)
  lu.assertErrorMsgContains(array, pi.recommend, pi, x)
  local q = fopo.proposal.mixture{index = index, k = 40}
  lu.assertErrorMsgContains(array, q.sample, q, pi, x, 5)
  lu.assertErrorMsgContains("what is seen is", g.compute, g, pi, s.test:contexts(items), nil, hits,
                            {sessions = s.train})
  local world = fopo.data.synthetic_logs{n = 100, actions = 600, dim = 6}
  lu.assertErrorMsgContains(array, fopo.ope, pi, world)
  -- the same contexts, as sessions or as an array with them
  local a = g:compute(pi, s.train, nil, hits)
  local b = g:compute(pi, x, nil, hits, {sessions = s.train})
  lu.assertEquals(a:totable(), b:totable())
  local keep = policy{seen = "keep"}
  lu.assertEquals(g:compute(keep, s.train, nil, hits):totable(),
                  g:compute(keep, x, nil, hits):totable())
end

os.exit(lu.LuaUnit.run())
