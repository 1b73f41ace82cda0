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

TestNetwork = {}

function TestNetwork:test_parameters()
  local pi = fopo.policy.mlp{items = items, hidden = {5, 4}, activation = "relu"}
  lu.assertEquals({pi.kind, pi.dim, pi.context_dim, pi.activation}, {"mlp", 6, 6, "relu"})
  lu.assertEquals(pi.hidden, {5, 4})
  lu.assertEquals(pi.n_params, 6 * 5 + 5 + 5 * 4 + 4 + 4 * 6 + 6)
  local p = pi:parameters()
  local shapes = {W1 = {6, 5}, b1 = {1, 5}, W2 = {5, 4}, b2 = {1, 4}, W3 = {4, 6}, b3 = {1, 6}}
  for name, shape in pairs(shapes) do lu.assertEquals({p[name].rows, p[name].cols}, shape, name) end
  lu.assertEquals(p.b2:totable(), fopo.array.zeros(1, 4):totable())
  p.b3:set(1, 2, 0.5)
  pi:set_parameters(p)
  lu.assertEquals(pi:parameters().b3:get(1, 2), 0.5)
  lu.assertEquals(pi:theta():get(1, pi.n_params - 4), 0.5)
  -- what does not fit changes nothing
  p.b3:set(1, 2, 0 / 0)
  p.W1:set(1, 1, 7)
  fails("b3", pi.set_parameters, pi, p)
  lu.assertNotEquals(pi:parameters().W1:get(1, 1), 7.0)
  p.b3 = nil
  fails("array is needed here, not nil", pi.set_parameters, pi, p)
  p.b3 = fopo.array.zeros(6, 1)
  fails("b3 is 6 x 1 but must be 1 x 6", pi.set_parameters, pi, p)
  fails("parameters are 1 x 89", pi.set_theta, pi, fopo.array.zeros(6, 6))
  lu.assertStrContains(pi:describe(), "6 -> 5 -> 4 -> 6, relu")
  local linear = fopo.policy.linear{items = items}
  lu.assertEquals(linear:parameters().theta:totable(), linear:theta():totable())
  lu.assertEquals({linear.kind, linear.hidden, linear.activation}, {"linear"})
end

function TestNetwork:test_refused()
  fails("1 or 2 hidden layers", fopo.policy.mlp, {items = items, hidden = {}})
  fails("1 or 2 hidden layers", fopo.policy.mlp, {items = items, hidden = {4, 4, 4}})
  fails("units of a hidden layer", fopo.policy.mlp, {items = items, hidden = {0}})
  fails("did you mean \"tanh\"", fopo.policy.mlp, {items = items, activation = "tang"})
  fails("contexts need 6 columns", function()
    fopo.policy.mlp{items = items}:queries(wide(s.train))
  end)
end

-- The gradient is the one of the sum that the layers make by hand.
function TestNetwork:test_gradient_shape_and_own_loop()
  local pi = fopo.policy.mlp{items = items, hidden = {8}}
  local twin = fopo.policy.mlp{items = items, hidden = {8}}
  local g, o, rw = fopo.gradient.snis{samples = 50}, fopo.optim.adam{lr = 0.02}, fopo.reward.hits(s.train)
  local t = fopo.trainer{policy = pi, data = s.train, gradient = g, batch = 16, seed = 3,
                         optim = fopo.optim.adam{lr = 0.02}}
  t:run{steps = 5, view = false}
  for step = 0, 4 do
    local rows = s.train:batch{size = 16, seed = 3, step = step}
    local G = g:compute(twin, x, rows, rw, {seed = 3, step = step})
    lu.assertEquals({G.rows, G.cols}, {1, twin.n_params})
    o:step(twin, G)
  end
  lu.assertEquals(twin:theta():totable(), pi:theta():totable())
end

function TestNetwork:test_trains_validates_and_resumes()
  local function make(seed)
    local pi = fopo.policy.mlp{items = items, hidden = {16}, seed = seed}
    return pi, fopo.trainer{policy = pi, data = s.train, valid = s.valid, batch = 32,
                            optim = fopo.optim.adam{lr = 0.02},
                            gradient = fopo.gradient.snis{samples = 100,
                              proposal = fopo.proposal.mixture{index = fopo.index.norm(items),
                                                               k = 20, epsilon = 0.5}}}
  end
  local pi, t = make(1)
  t:run{steps = 120, view = false, keep_best = false}
  local h = t.history
  lu.assertTrue(h.reward[#h.reward] > 1.5 * h.reward[1])
  lu.assertTrue(fopo.evaluate(pi, s.test).reward > 0.05)
  lu.assertEquals(pi:best(x:rows_of{1, 2}, {k = 3}).cols, 3)
  local path = os.tmpname() .. ".npz"
  t:save(path)
  local twin, u = make(9)
  u:resume(path)
  lu.assertEquals(twin:theta():totable(), pi:theta():totable())
  u:run{steps = 5, view = false, keep_best = false}
  t:run{steps = 5, view = false, keep_best = false}
  lu.assertEquals(twin:theta():totable(), pi:theta():totable())
  local other = fopo.trainer{policy = fopo.policy.mlp{items = items, hidden = {16},
                                                      activation = "relu"},
                             data = s.train, gradient = fopo.gradient.snis{samples = 100}}
  fails("another activation", other.resume, other, path)
  local linear = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train,
                              gradient = fopo.gradient.snis{samples = 100}}
  fails("its policy is a network", linear.resume, linear, path)
  os.remove(path)
end

os.exit(lu.LuaUnit.run())
