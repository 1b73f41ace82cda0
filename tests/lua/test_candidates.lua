-- What uses an index's candidates: head and tail, candidates that are kept, an epsilon that adapts.
local lu = require "luaunit"
local fopo = require "fopo"

local d = fopo.data.synthetic{users = 400, items = 600, clusters = 12, seed = 5}
local s = d:sessions{min_items = 10, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 8})
local index = fopo.index.norm(items)
local reward = fopo.reward.hits(s.train)
local x = s.train:contexts(items)

local function policy(seed)
  local pi = fopo.policy.linear{items = items, theta = "identity", seed = seed}
  return pi
end

local function fails(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

-- ------------------------------------------------------------------------------------------------
TestHeadTail = {}

function TestHeadTail:test_fields()
  local g = fopo.gradient.head_tail{index = index, k = 20, tail = 30}
  lu.assertEquals({g.kind, g.k, g.tail}, {"head_tail", 20, 30})
  lu.assertNil(g.samples)
  lu.assertNil(g.epsilon)
  lu.assertStrContains(g:describe(), "K 20, U 30")
  g:set{k = 10, tail = 5}
  lu.assertEquals({g.k, g.tail}, {10, 5})
  fails("its tail and k may be set", g.set, g, {samples = 50})
  fails("only a gradient with a mixture", g.set, g, {epsilon = 0.5})
  fails("only a head and tail has a tail", function()
    fopo.gradient.exact{}:set{tail = 5}
  end)
  fails("k is 601", fopo.gradient.head_tail, {index = index, k = 601})
  fails("tail must be at least 1", fopo.gradient.head_tail, {index = index, tail = 0})
end

function TestHeadTail:test_whole_tail_is_exact()
  local pi = policy()
  local exact = fopo.gradient.exact{}:compute(pi, x, nil, reward)
  local g = fopo.gradient.head_tail{index = index, k = 100, tail = 500}
  lu.assertTrue(g:compute(pi, x, nil, reward):add(exact, -1):norm() < 1e-4 * exact:norm())
  fails("a tail of 501 draws is more than the 500 of 600 items", function()
    g:set{tail = 501}
    g:compute(pi, x, nil, reward)
  end)
end

function TestHeadTail:test_learns()
  local pi = policy()
  local before = fopo.evaluate(pi, s.train).reward
  local t = fopo.trainer{policy = pi, data = s.train, seed = 3, optim = fopo.optim.adam{lr = 0.03},
                         gradient = fopo.gradient.head_tail{index = index, k = 50, tail = 50}}
  t:run{steps = 300, view = false}
  lu.assertTrue(fopo.evaluate(pi, s.train).reward > before + 0.02)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
