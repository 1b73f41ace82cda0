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
  local G = fopo.gradient.exact{}:compute(pi, wide(s.train), {1, 2, 3}, fopo.reward.hits(s.train),
                                          {})
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
  fails("layer 1 of the network has 0 units", fopo.policy.mlp, {items = items, hidden = {0}})
  fails("did you mean \"tanh\"", fopo.policy.mlp, {items = items, activation = "tang"})
  fails("contexts need 6 columns", function()
    fopo.policy.mlp{items = items}:queries(wide(s.train))
  end)
end

-- The gradient is the one of the sum that the layers make by hand.
function TestNetwork:test_gradient_shape_and_own_loop()
  local pi = fopo.policy.mlp{items = items, hidden = {8}, preset = "paper"}
  local twin = fopo.policy.mlp{items = items, hidden = {8}, preset = "paper"}
  local g, o = fopo.gradient.snis{samples = 50}, fopo.optim.adam{lr = 0.02}
  local rw = fopo.reward.hits(s.train)
  local t = fopo.trainer{policy = pi, data = s.train, gradient = g, batch = 16, seed = 3,
                         optim = fopo.optim.adam{lr = 0.02}, valid = false}
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

TestItems = {}

local function learner(o)
  o = o or {}
  return fopo.policy.linear{items = items, train_items = true, seed = o.seed, preset = "paper"}
end

function TestItems:test_a_copy_is_learnt()
  local before = items:totable()
  local pi = learner()
  lu.assertEquals({pi.train_items, pi.version}, {true, 0})
  lu.assertEquals(pi:items():totable(), before)
  lu.assertTrue(rawequal(pi:items(), pi:items()))
  lu.assertTrue(rawequal(pi:initial_items(), items))
  local t = fopo.trainer{policy = pi, data = s.train, valid = s.valid,
                         gradient = fopo.gradient.snis{samples = 100},
                         optim = fopo.optim.adam{lr = 0.02, items_lr = 0.005}}
  t:run{steps = 80, view = false}
  lu.assertEquals(items:totable(), before)
  lu.assertNotEquals(pi:items():totable(), before)
  lu.assertTrue(pi.version >= 80)
  local h = t.history
  lu.assertTrue(h.reward[#h.reward] > 1.5 * h.reward[1])
  -- true argmax is over the items as they are
  local scored = fopo.index.exact(pi:items():copy())
  local ids = scored:search(pi:queries(x:rows_of{1, 2, 3}), 2)
  lu.assertEquals(pi:best(x:rows_of{1, 2, 3}, {k = 2}):totable(), ids:totable())
  lu.assertTrue(fopo.evaluate(pi, s.test).reward > 0.05)
  lu.assertStrContains(pi:describe(), "learnt")
  local fixed = fopo.policy.linear{items = items}
  lu.assertEquals({fixed.train_items, rawequal(fixed:items(), items)}, {false, true})
  fails("items of this policy are fixed", fixed.set_items, fixed, items)
  fails("these items are 2 x 2", pi.set_items, pi, fopo.array.zeros(2, 2))
  pi:set_items(items)
  lu.assertEquals(pi:items():totable(), before)
end

-- The four values of compute, and a step by hand, are the trainer's.
function TestItems:test_own_loop()
  for _, network in ipairs{false, true} do
    local function make()
      if network then
        return fopo.policy.mlp{items = items, hidden = {8}, train_items = true, preset = "paper"}
      end
      return learner()
    end
    for _, g in ipairs{fopo.gradient.snis{samples = 50}, fopo.gradient.reinforce{samples = 50},
                       fopo.gradient.exact{}} do
      local pi, twin = make(), make()
      local rw, o = fopo.reward.hits(s.train), fopo.optim.adam{lr = 0.02}
      fopo.trainer{policy = pi, data = s.train, gradient = g, batch = 16, seed = 3,
                   optim = fopo.optim.adam{lr = 0.02}, valid = false}:run{steps = 4, view = false}
      for step = 0, 3 do
        local rows = s.train:batch{size = 16, seed = 3, step = step}
        local G, stats, ids, beta = g:compute(twin, x, rows, rw, {seed = 3, step = step})
        lu.assertEquals(type(stats.norm), "number")
        lu.assertEquals({ids.cols, beta.cols}, {beta.rows, 6})
        lu.assertTrue(ids.cols == 300 or g.kind == "snis")
        o:step(twin, G, ids, beta)
      end
      lu.assertEquals(twin:theta():totable(), pi:theta():totable())
      lu.assertEquals(twin:items():totable(), pi:items():totable())
    end
  end
end

function TestItems:test_steps_refused()
  local pi, fixed = learner(), fopo.policy.linear{items = items}
  local g, o = fopo.gradient.snis{samples = 20}, fopo.optim.sgd{lr = 0.1}
  local rw = fopo.reward.hits(s.train)
  local G, _, ids, rows = g:compute(pi, x, {1, 2}, rw, {})
  fails("items of this policy are fixed", o.step, o, fixed, G, ids, rows)
  fails("for 2 ids", o.step, o, pi, G, fopo.array.ids{1, 2}, rows)
  fails("is not above", o.step, o, pi, G, fopo.array.ids{2, 1}, fopo.array.zeros(2, 6))
  lu.assertEquals(o.t, 0)
  lu.assertEquals(select("#", g:compute(fixed, x, {1, 2}, rw, {})), 2)
  local t = {policy = fixed, data = s.train, gradient = g, index_refresh = 5}
  fails("the gradient uses no index", fopo.trainer, t)
  t.gradient = fopo.gradient.snis{proposal = fopo.proposal.mixture{index = fopo.index.norm(items)}}
  fails("items are fixed", fopo.trainer, t)
  t.policy = pi
  fails("over other items", fopo.trainer, t)
end

function TestItems:test_index_refresh_and_checkpoint()
  local function make(seed)
    local pi = learner{seed = seed}
    local mixture = fopo.proposal.mixture{index = fopo.index.norm(pi:items()), k = 20,
                                          epsilon = 0.4}
    return pi, fopo.trainer{policy = pi, data = s.train, index_refresh = 7,
                            gradient = fopo.gradient.snis{proposal = mixture, samples = 80},
                            optim = fopo.optim.adam{lr = 0.02}}
  end
  local pi, t = make(1)
  t:run{steps = 20, view = false}
  local path = os.tmpname() .. ".npz"
  t:save(path)
  t:run{steps = 10, view = false}
  local twin, u = make(9)
  u:resume(path)
  u:run{steps = 10, view = false}
  lu.assertEquals(twin:theta():totable(), pi:theta():totable())
  lu.assertEquals(twin:items():totable(), pi:items():totable())
  local fixed = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train,
                             gradient = fopo.gradient.snis{samples = 80}}
  fails("its items are trained, here they are fixed", fixed.resume, fixed, path)
  os.remove(path)
end

function TestItems:test_update()
  local own = fopo.array.randn(400, 6, 1)
  local pi = fopo.policy.linear{items = own, train_items = true}
  for _, ix in ipairs{fopo.index.exact(pi:items()), fopo.index.norm(pi:items()),
                      fopo.index.hnsw(pi:items()), fopo.index.hybrid(pi:items())} do
    pi:set_items(own)
    ix:update()
    pi:set_items(fopo.array.randn(400, 6, 2))
    ix:update()
    local Q = fopo.array.randn(20, 6, 3)
    local r = ix:recall(Q, 5)
    lu.assertTrue(r.recall > 0.9, ix.kind)
  end
end

TestBest = {}

-- keep_best ends with theta and the items of the best validation, where items are learnt too and
-- the last ones are worse by more than chance: it takes more contexts than the split above has.
function TestBest:test_items()
  local half = d:sessions{min_items = 10, seed = 1, valid = 0.5}
  local function new()
    return fopo.trainer{policy = fopo.policy.linear{items = items, train_items = true,
                                                    preset = "paper"},
                        data = half.train, valid = half.valid, seed = 2,
                        optim = fopo.optim.adam{lr = 0.3},
                        gradient = fopo.gradient.snis{samples = 30}}
  end
  local t, u = new(), new()
  t:run{steps = 200, every = 10, view = false}
  lu.assertTrue(t.best_step ~= nil and t.best_step < 200)
  local best = 0
  for _, valid in ipairs(t.history.valid) do best = math.max(best, valid) end
  lu.assertEquals(fopo.evaluate(t.policy, half.valid, {}).reward, best)
  u:run{steps = t.best_step, every = 10, view = false, keep_best = false}
  lu.assertEquals(t.policy:theta():totable(), u.policy:theta():totable())
  lu.assertEquals(t.policy:items():totable(), u.policy:items():totable())
end

TestBlocks = {}

local function trainer_of(pi, optim)
  return fopo.trainer{policy = pi, data = s.train, optim = fopo.optim.adam(optim), seed = 2,
                      gradient = fopo.gradient.snis{samples = 30}}
end

local function network(learn)
  return fopo.policy.mlp{items = items, hidden = {8}, learn = learn}
end

local function same(a, b) return pcall(lu.assertEquals, a:totable(), b:totable()) end

local function steps(t) t:run{steps = 12, view = false, keep_best = false} end

-- Trains some steps; names of the blocks that have changed.
local function changed(pi, optim)
  local before, names = pi:parameters(), {}
  local t = trainer_of(pi, optim)
  steps(t)
  for name, a in pairs(pi:parameters()) do
    if not same(a, before[name]) then names[#names + 1] = name end
  end
  if not same(pi:items(), items) then names[#names + 1] = "items" end
  table.sort(names)
  return names, t
end

-- What is fixed keeps its bits, with weight decay too.
function TestBlocks:test_learn_alone()
  local all = {"W1", "W2", "b1", "b2"}
  for _, learn in ipairs{all, {"W2"}, {"W1", "b2"}, {"b1", "items"}, {"items"}} do
    for _, decoupled in ipairs{false, true} do
      local pi = network(learn)
      lu.assertEquals(changed(pi, {lr = 0.1, weight_decay = 0.1, decoupled = decoupled}), learn)
      lu.assertEquals(#pi.fixed, learn[#learn] == "items" and 5 - #learn or 4 - #learn)
      lu.assertEquals(pi.train_items, learn[#learn] == "items")
    end
  end
  lu.assertEquals(fopo.policy.linear{items = items}.learn, {"theta"})
  lu.assertEquals(fopo.policy.linear{items = items, train_items = true}.learn, {"theta", "items"})
  lu.assertEquals(fopo.policy.mlp{items = items, learn = {"theta"}}.fixed, {})
  lu.assertStrContains(tostring(fopo.policy.mlp{items = items, learn = {"W2"}}), "W1, b1, b2 fixed")
end

function TestBlocks:test_refusals()
  local mlp = fopo.policy.mlp
  fails('no block "W9" to learn; use some of W1, b1, W2, b2, items', mlp,
        {items = items, learn = {"W9"}})
  fails("learn names no block", mlp, {items = items, learn = {}})
  fails("a list of names", mlp, {items = items, learn = {1}})
  fails("rows", mlp, {items = items, learn = {"items"}, rows = "float16"})
  fails('"W9", which this policy does not have; use some of theta, items', trainer_of,
        fopo.policy.linear{items = items}, {lr_of = {W9 = 1}})
  fails("learning rate of W1 is -1", fopo.optim.adam, {lr_of = {W1 = -1}})
  fails("give one of them", fopo.optim.sgd, {lr = 1, items_lr = 1, lr_of = {items = 1}})
  fails("no name", fopo.optim.sgd, {lr = 1, lr_of = {1}})
end

-- Equal rates by name give the bits of one rate; another rate moves its block alone otherwise.
function TestBlocks:test_rates()
  local function after(optim, learn)
    local pi = network(learn)
    trainer_of(pi, optim):run{steps = 1, view = false, keep_best = false}
    return pi:parameters()
  end
  local start = fopo.policy.mlp{items = items, hidden = {8}}:parameters()
  local one = after{lr = 0.1}
  local named = after{lr = 7, lr_of = {W1 = 0.1, b1 = 0.1, W2 = 0.1, b2 = 0.1}}
  for name, a in pairs(one) do lu.assertEquals(a:totable(), named[name]:totable()) end
  local slow = after{lr = 0.1, lr_of = {W1 = 0.001}}
  lu.assertEquals(slow.W2:totable(), one.W2:totable())
  local far, near = one.W1:add(start.W1, -1):norm(), slow.W1:add(start.W1, -1):norm()
  lu.assertAlmostEquals(near / far, 0.01, 1e-3)
  local o = fopo.optim.adam{lr = 0.1, lr_of = {W1 = 0.25, items = 0.5}}
  lu.assertEquals(o.lr_of, {W1 = 0.25, items = 0.5})
  lu.assertEquals(o.items_lr, 0.5)
end

-- The norm, by which a gradient is clipped, is that of what is learnt; o:step knows the same.
function TestBlocks:test_norm()
  local g, r, rows = fopo.gradient.exact{}, fopo.reward.hits(s.train), {1, 2, 3}
  local function norm_of(learn)
    local G, stats = g:compute(network(learn), x, rows, r, {})
    return stats.norm, G:norm()
  end
  local all, G = norm_of()
  local part, G_too = norm_of{"W2", "b2"}
  local rest = norm_of{"W1", "b1"}
  lu.assertAlmostEquals(all, G, 1e-6 * G)
  lu.assertAlmostEquals(G_too, G, 1e-6 * G)
  lu.assertAlmostEquals(math.sqrt(part ^ 2 + rest ^ 2), all, 1e-6 * all)
  local pi = network{"b2"}
  local before = pi:theta()
  fopo.optim.sgd{lr = 1, clip = 1}:step(pi, fopo.array.randn(1, pi.n_params, 1))
  lu.assertAlmostEquals(pi:theta():add(before, -1):norm(), 1, 1e-5)
end

function TestBlocks:test_files()
  local path = os.tmpname() .. ".npz"
  for _, learn in ipairs{{"W2"}, {"items"}, {"b1", "items"}} do
    local optim = {lr = 0.1, lr_of = {b1 = 0.01}}
    local a, b = network(learn), network(learn)
    local _, t = changed(a, optim)
    t:save(path)
    local u = trainer_of(b, optim)
    u:resume(path)
    steps(t)
    steps(u)
    lu.assertEquals(a:theta():totable(), b:theta():totable())
    lu.assertEquals(a:items():totable(), b:items():totable())
    for _, other in ipairs{{"W1"}, {"theta"}} do
      local v = trainer_of(network(other))
      fails("use the same learn", v.resume, v, path)
    end
    a:save(path)
    local loaded = fopo.policy.load(path)
    lu.assertEquals(loaded.learn, a.learn)
    lu.assertEquals(loaded:theta():totable(), a:theta():totable())
  end
  trainer_of(network()):save(path)
  local v = trainer_of(network{"W1"})
  fails("it learns all of theta, here W1 is learnt", v.resume, v, path)
  os.remove(path)
end

-- Hidden weights start as Glorot and Bengio (tanh) and He et al. (relu) say, the last ones near 0.
function TestBlocks:test_start_of_mlp()
  for activation, variance in pairs{tanh = 2 / (4 + 9), relu = 2 / 4} do
    local pi = fopo.policy.mlp{items = fopo.array.randn(20, 4, 1), hidden = {9}, seed = 3,
                               activation = activation}
    local normal, p = fopo.array.randn(1, pi.n_params, 3, 1), pi:parameters()
    for i = 1, 4 * 9 do
      lu.assertAlmostEquals(p.W1:get((i - 1) // 9 + 1, (i - 1) % 9 + 1),
                            normal:get(1, i) * math.sqrt(variance), 1e-6)
    end
    lu.assertAlmostEquals(p.W2:get(1, 1), normal:get(1, 4 * 9 + 9 + 1) * 0.005, 1e-8)
    lu.assertEquals(p.b1:norm() + p.b2:norm(), 0.0)
  end
end

os.exit(lu.LuaUnit.run())
