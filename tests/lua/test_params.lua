-- What a policy learns beside a square theta, through the surface.
local lu = require "luaunit"
local fopo = require "fopo"

local function fails(text, f, ...) lu.assertErrorMsgContains(text, f, ...) end

local d = fopo.data.synthetic{users = 400, items = 300, clusters = 8, seed = 3}
local s = d:sessions{min_items = 10, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 6})
local x = s.train:contexts(items)

-- n columns of features: the contexts' own and a constant.
local function wide(sessions)
  local y = fopo.array.zeros(sessions.n, items.cols + 1)
  local own = sessions:contexts(items)
  for i = 1, sessions.n do
    for j = 1, items.cols do y:set(i, j, own:get(i, j)) end
    y:set(i, items.cols + 1, 1)
  end
  return y
end

TestRectangular = {}

function TestRectangular:test_shapes()
  local pi = fopo.policy.linear{items = items, context_dim = 7}
  lu.assertEquals({pi.dim, pi.context_dim, pi.n_params, pi.n_items}, {6, 7, 42, 300})
  lu.assertEquals({pi:theta().rows, pi:theta().cols}, {7, 6})
  lu.assertEquals(pi:queries(wide(s.train)).cols, 6)
  local G = fopo.gradient.exact{}:compute(pi, wide(s.train), {1, 2, 3}, fopo.reward.hits(s.train), {})
  lu.assertEquals({G.rows, G.cols}, {7, 6})
  fails("theta is 7 x 6", fopo.policy.linear, {items = items, context_dim = 7, theta = "identity"})
  fails("contexts need 7 columns", pi.queries, pi, x)
  fails("must be at least 1", fopo.policy.linear, {items = items, context_dim = 0})
end

function TestRectangular:test_a_theta_of_that_shape()
  local theta = fopo.array.randn(7, 6, 1)
  local pi = fopo.policy.linear{items = items, context_dim = 7, theta = theta}
  lu.assertEquals(pi:theta():totable(), theta:totable())
  fails("theta is 6 x 6", pi.set_theta, pi, fopo.array.zeros(6, 6))
end

-- A column of zeros changes nothing; one of ones learns what all users like.
function TestRectangular:test_trains()
  local pi = fopo.policy.linear{items = items, context_dim = 7}
  local t = fopo.trainer{policy = pi, data = s.train, contexts = wide(s.train), valid = s.valid,
                         valid_contexts = wide(s.valid), optim = fopo.optim.adam{lr = 0.05},
                         gradient = fopo.gradient.snis{samples = 100}}
  t:run{steps = 60, view = false}
  local h = t.history
  lu.assertTrue(h.reward[#h.reward] > 1.5 * h.reward[1])
  local e = fopo.evaluate(pi, s.test, {contexts = wide(s.test)})
  lu.assertTrue(e.reward > 0.05)
  fails("contexts need", fopo.trainer, {policy = pi, data = s.train,
                                        gradient = fopo.gradient.exact{}})
  -- a checkpoint of that shape
  local path = os.tmpname() .. ".npz"
  t:save(path)
  local twin = fopo.policy.linear{items = items, context_dim = 7, seed = 9}
  local u = fopo.trainer{policy = twin, data = s.train, contexts = wide(s.train),
                         optim = fopo.optim.adam{lr = 0.05},
                         gradient = fopo.gradient.snis{samples = 100}}
  u:resume(path)
  os.remove(path)
  lu.assertEquals(twin:theta():totable(), pi:theta():totable())
end

os.exit(lu.LuaUnit.run())
