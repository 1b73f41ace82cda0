-- Policies of neighbours: cross-fitting, training, files, resuming, what is refused.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"

local d = fopo.data.synthetic{users = 900, items = 300, clusters = 12, mean_items = 20, seed = 3}
local s = d:sessions{min_items = 6, seed = 1}

local function made(o)
  o = o or {}
  o.data, o.start = s.train, o.start or "cosine"
  return fopo.policy.neighbours(o)
end

local function trainer(pi, o)
  o = o or {}
  o.policy, o.data = pi, s.train
  return fopo.trainer(o)
end

local function refused(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

TestNeighbours = {}

-- Untrained it ranks as its start does: tau and |X| change no order.
function TestNeighbours:test_start()
  for name, start in pairs{cosine = fopo.baseline.item_knn{data = s.train},
                           slim = fopo.baseline.slim{data = s.train, l2 = 100}} do
    local pi = made{start = name == "slim" and start or name, held = 0}
    local own = fopo.evaluate(pi, s.test, {exclude = "seen", k = {1, 10}, expected = false})
    local theirs = fopo.evaluate(start, s.test, {exclude = "seen", k = {1, 10}, expected = false})
    lu.assertEquals(own.reward, theirs.reward)
    lu.assertAlmostEquals(own.ndcg[10], theirs.ndcg[10], 2e-3)
    local given = fopo.policy.neighbours{data = s.train, start = start}
    lu.assertEquals(given:best(s.test):totable(), pi:best(s.test):totable())
    lu.assertEquals(given:training().n, s.train.n)
  end
end

-- On a small catalogue all weights of EASE, also the negative ones: the same lists.
function TestNeighbours:test_ease()
  local pi = made{start = "ease", held = 0}
  local ease = fopo.baseline.ease{data = s.train}
  local own, theirs = pi:best(s.test, {k = 5}), ease:best(s.test, {k = 5, exclude = "seen"})
  local same = 0
  for n, list in ipairs(own:totable()) do
    for i, id in ipairs(list) do same = same + (theirs:get(n, i) == id and 1 or 0) end
  end
  lu.assertTrue(same >= 0.98 * own.rows * 5, same) -- ties of rounded sums may change places
end

-- l2 and c0 are those that serve new users better; where users take items at random nothing does.
function TestNeighbours:test_chosen()
  local function ndcg(pi) return fopo.evaluate(pi, s.test, {k = 20, expected = false}).ndcg[20] end
  for _, start in ipairs{"slim", "ease", "cosine"} do
    local pi = made{start = start}
    local chosen, theta = ndcg(pi), pi:parameters()
    lu.assertTrue(theta.c0:get(1, 1) < 0)
    theta.c0:set(1, 1, 0)
    pi:set_parameters(theta)
    lu.assertTrue(chosen > ndcg(pi), start)
    lu.assertTrue(start ~= "slim" or chosen > ndcg(made{start = start, held = 0}) + 0.01)
    lu.assertAlmostEquals(made{start = start, tau = 50}:parameters().log_tau:get(1, 1),
                          math.log(50), 1e-6)
  end
  local rows, state = {}, 7
  for i = 1, 6000 do
    state = (state * 16807) % 2147483647
    rows[i] = ("%d,%d"):format(i % 300, state % 100)
  end
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write("user,item\n", table.concat(rows, "\n"), "\n")
  f:close()
  local random = fopo.data.read(path):sessions{min_items = 6, seed = 1}
  os.remove(path)
  local pi = fopo.policy.neighbours{data = random.train, start = "slim"}
  lu.assertEquals(pi:parameters().c0:get(1, 1), 0)
  lu.assertEquals(pi:best(random.test):totable(),
                  fopo.policy.neighbours{data = random.train, start = "slim", held = 0}
                    :best(random.test):totable())
end

-- Of all weights of EASE all sessions are trained on, by those without their users; the lists of
-- the start are those of the baseline that leaves them out.
function TestNeighbours:test_ease_left_out()
  local pi, ease = made{start = "ease"}, fopo.baseline.ease{data = s.train}
  lu.assertEquals(pi:training().n, s.train.n)
  local theta, rows, same = pi:parameters(), {}, 0
  theta.c0:set(1, 1, 0)
  pi:set_parameters(theta)
  for n = 1, s.train.n do rows[n] = n end
  local cache = require "fopo.base.cache"
  local own = native.recommend(pi, cache.contexts(s.train, pi), cache.exact_of(pi), 5,
                               {seen = s.train, training = rows, may_be_short = true})
  local theirs = ease:best(s.train, {k = 5, exclude = "seen", left_out = true})
  for n, list in ipairs(own:totable()) do
    for i, id in ipairs(list) do same = same + (theirs:get(n, i) == id and 1 or 0) end
  end
  lu.assertTrue(same >= 0.98 * own.rows * 5, same) -- ties of rounded sums may change places
  for _, n in ipairs{0, 20} do
    local r = fopo.check{policy = made{start = "ease", n = n, tau = 4}, print = false}
    lu.assertTrue(r.ok, r.first)
  end
end

-- Which weights of EASE are the largest depends on the user: with items that few have taken, rows
-- that were cut would have those of the user, and training contexts would earn more than others.
function TestNeighbours:test_ease_cut()
  local rare = fopo.data.synthetic{users = 500, items = 1500, clusters = 40, mean_items = 30,
                                   seed = 3}:sessions{min_items = 6, test = 0.4, seed = 1}
  local function of(n)
    local pi = fopo.policy.neighbours{data = rare.train, start = "ease", n = n, tau = 2000}
    local theta = pi:parameters()
    theta.c0:set(1, 1, 0)
    pi:set_parameters(theta)
    local _, stats = fopo.gradient.sparse{}:compute(pi, pi:training(), nil,
                                                    fopo.reward.hits(pi:training()))
    return stats.reward, fopo.evaluate(pi, rare.test).expected
  end
  local all, new = of(0)
  local cut, new_cut = of(20)
  lu.assertAlmostEquals(all, new, 0.03)
  lu.assertAlmostEquals(new_cut, new, 0.02)
  lu.assertTrue(cut < all + 0.02, cut)
end

-- Training that helps by less than chance is taken back.
function TestNeighbours:test_sure()
  local pi = made{start = "ease"}
  local before = pi:theta():totable()
  local t = fopo.trainer{policy = pi, data = s.train, valid = s.valid,
                         optim = fopo.optim.adagrad{lr = 1e-4}}
  t:run{epochs = 1, view = false}
  lu.assertEquals(pi:theta():totable(), before)
  lu.assertStrContains(table.concat(t.notes, " "), "by more than chance")
  lu.assertTrue(t.step > 0)
end

-- A tenth at a time is held out, and scored by weights that do not know it: less sure of Y than the
-- weights that were learnt from all.
function TestNeighbours:test_cross_fitting()
  local function slim(data) return fopo.baseline.slim{data = data, l2 = 30} end
  local pi = made{held = 120, start = slim}
  local tenth = s.train.n // 10
  lu.assertEquals(pi:training().n, math.ceil(120 / tenth) * tenth)
  local seen = {}
  for i = 1, pi:training().n do
    local user = pi:training():user(i)
    lu.assertNil(seen[user])
    seen[user] = true
  end
  local g = fopo.gradient.sparse{}
  local function value(policy, data)
    local _, stats = g:compute(policy, data, nil, fopo.reward.hits(data))
    return stats.reward
  end
  local known = fopo.policy.neighbours{data = s.train, start = slim(s.train)}
  lu.assertTrue(value(known, pi:training()) > value(pi, pi:training()) + 0.02)
  refused("cross-fitted", value, pi, s.train)
  -- weights that are learnt start at those of each tenth, and all tenths are held out
  local all = made{held = s.train.n, start = slim}
  local learnt = made{held = 50, start = slim, learn = {"weights"}}
  lu.assertTrue(learnt:training().n > 0.98 * s.train.n)
  lu.assertAlmostEquals(value(learnt, learnt:training()), value(all, all:training()), 0.005)
  -- what is learnt is added to the weight of the same two items in each tenth
  trainer(learnt):run{steps = 3, view = false, keep_best = false}
  lu.assertTrue(fopo.check{policy = learnt, print = false}.ok)
end

-- The likelihood of items that are worth nothing is 0, and moves nothing.
function TestNeighbours:test_worth_nothing()
  local none = fopo.reward.hits(s.train, {value = fopo.array.zeros(1, d.n_items)})
  local pi = made{held = 0}
  local G, stats = fopo.gradient.sparse{objective = "likelihood"}:compute(pi, s.train, {1, 5}, none)
  lu.assertEquals({G:norm(), stats.reward}, {0, 0})
end

-- Similarities are those of all other users, for all training contexts, by a formula: less sure of
-- Y than those of all users (test_neighbours.py counts anew).
function TestNeighbours:test_leave_one_out()
  local g = fopo.gradient.sparse{}
  local function value(policy, data)
    local _, stats = g:compute(policy, data, nil, fopo.reward.hits(data))
    return stats.reward
  end
  for _, start in ipairs{"cosine", "jaccard",
                         function(data)
                           return fopo.baseline.item_knn{data = data, shrink = 0}
                         end} do
    local pi = made{start = start, tau = 20}
    lu.assertEquals(pi:training().n, s.train.n)
    local known = made{start = start, tau = 20, held = 0}
    lu.assertTrue(value(pi, s.train) < value(known, s.train) - 0.02)
    refused("of all other users", value, pi, s.valid)
    local r = fopo.check{policy = made{start = start, tau = 4}, print = false}
    lu.assertTrue(r.ok, r.first)
  end
end

-- The seed decides who is held out.
function TestNeighbours:test_seed()
  local function first(seed)
    return made{start = "slim", held = 50, seed = seed}:training():user(1)
  end
  lu.assertEquals(first(1), first(1))
  lu.assertFalse(first(1) == first(2) and first(2) == first(3))
end

-- From a bad start the exact gradient finds its way: the expected reward rises.
function TestNeighbours:test_training()
  local pi = made()
  pi:set_parameters{c0 = fopo.array.from{{1.5}}, c1 = fopo.array.from{{-1}},
                    log_tau = fopo.array.from{{5}}}
  local before = fopo.evaluate(pi, s.valid).expected
  local t = trainer(pi, {optim = fopo.optim.adam{lr = 0.05}})
  t:run{epochs = 10, view = false}
  lu.assertTrue(fopo.evaluate(pi, s.valid).expected > before + 0.05)
  lu.assertStrContains(tostring(pi), "c0")
end

-- What is fixed stays, and the others move.
function TestNeighbours:test_learn()
  local pi = made{learn = {"c0", "log_tau"}}
  trainer(pi):run{steps = 3, view = false, keep_best = false}
  local theta = pi:parameters()
  lu.assertEquals(theta.c1:get(1, 1), 0)
  lu.assertNotEquals(theta.c0:get(1, 1), 0)
  refused("no block", made, {learn = {"c7"}})
  refused("importance", made, {learn = {"c7"}})
end

local ALL = {"theta", "bias", "importance", "weights"}

-- What tells two policies apart: theta, and by the weights what they expect.
local function state(pi)
  return {pi:theta():totable(), fopo.evaluate(pi, s.valid).expected}
end

-- Bias and importance are there only if they are learnt; the file of a policy keeps them.
function TestNeighbours:test_parts()
  lu.assertEquals(made().n_params, 5)
  local pi = made{learn = {"importance", "c0"}}
  lu.assertEquals(pi.n_params, 5 + d.n_items)
  lu.assertEquals(pi.learn, {"c0", "importance"})
  lu.assertNil(pi:parameters().bias)
  trainer(pi):run{steps = 3, view = false, keep_best = false}
  lu.assertTrue(pi:parameters().importance:norm() > 0)
  lu.assertEquals(pi:parameters().c1:get(1, 1), 0)
  lu.assertStrContains(tostring(pi), "importance")
end

function TestNeighbours:test_resume()
  local path = os.tmpname()
  local function run(learn, stops)
    local pi = made{learn = learn}
    local t = trainer(pi)
    if stops then
      t:run{steps = 2, view = false, keep_best = false}
      t:save(path)
      pi = made{learn = learn}
      t = trainer(pi)
      t:resume(path)
    end
    t:run{steps = stops and 3 or 5, view = false, keep_best = false}
    return state(pi)
  end
  for _, learn in ipairs{{"theta"}, ALL, {"weights"}} do
    lu.assertEquals(run(learn, true), run(learn, false))
  end
  trainer(made()):save(path)
  refused("here", function() trainer(made{learn = {"theta", "weights"}}):resume(path) end)
  os.remove(path)
end

function TestNeighbours:test_threads()
  local kept = fopo.threads()
  for _, learn in ipairs{{"theta"}, ALL} do
    local list = {}
    for n = 1, 3 do
      fopo.threads(n)
      local pi = made{learn = learn}
      trainer(pi):run{steps = 4, view = false, keep_best = false}
      list[n] = state(pi)
    end
    lu.assertEquals(list[1], list[2])
    lu.assertEquals(list[1], list[3])
  end
  fopo.threads(kept)
end

-- Weights that are learnt fit the training contexts, at a rate of their own; the best ones are
-- kept.
function TestNeighbours:test_weights()
  local function trained(learn, rate, epochs)
    local pi = made{learn = learn}
    local t = trainer(pi, {optim = fopo.optim.adagrad{lr = 0.02, lr_of = {weights = rate}},
                           resplit = false})
    t:run{epochs = epochs, view = false, best_by = "expected"}
    return pi, t
  end
  local _, scalars = trained({"theta"}, nil, 6)
  local pi, t = trained({"theta", "weights"}, 0.01, 6)
  lu.assertEquals(pi.learn, {"c0", "c1", "log_tau", "weights"})
  lu.assertEquals(t.optim.lr_of, {weights = 0.01})
  local n = #t.history.reward
  lu.assertTrue(t.history.reward[n] > scalars.history.reward[n] + 0.02)
  local kept = trained({"weights"}, 50, 1) -- far too fast
  lu.assertEquals(fopo.evaluate(kept, s.test).expected, fopo.evaluate(made(), s.test).expected)
  refused("no block", made, {learn = {"items"}})
end

-- A job trains copies, and brings them back with the optimiser's state.
function TestNeighbours:test_job()
  local function run(in_job)
    local pi = made{learn = ALL}
    local t = trainer(pi, {optim = fopo.optim.adagrad{lr = 0.01}})
    for _ = 1, 2 do
      if in_job then
        t:start{steps = 3, keep_best = false}:wait()
      else
        t:run{steps = 3, view = false, keep_best = false}
      end
    end
    return state(pi)
  end
  lu.assertEquals(run(true), run(false))
end

function TestNeighbours:test_file()
  local items, path = fopo.embed.svd(s.train, {dim = 4}), os.tmpname()
  for _, o in ipairs{{held = 0}, {held = 0, items = items}, {held = 0, learn = ALL}} do
    local pi = made(o)
    trainer(pi):run{steps = 3, view = false, keep_best = false}
    pi:save(path)
    local loaded = fopo.policy.load(path)
    lu.assertEquals(state(loaded), state(pi)) -- with what was added to the weights
    lu.assertEquals(loaded.learn, pi.learn)
    local a, b = pi:recommend(s.test, 5), loaded:recommend(s.test, 5)
    for n = 1, #a do
      for i = 1, #a[n] do lu.assertEquals(b[n][i].item, a[n][i].item) end
    end
    refused("make it again", trainer, loaded)
  end
  os.remove(path)
end

-- A policy that was saved is made again with its sessions: training contexts are scored without
-- their users, and training goes on from there as that of the one that was not saved.
function TestNeighbours:test_from()
  local path, g = os.tmpname(), fopo.gradient.sparse{}
  local items = fopo.embed.svd(s.train, {dim = 4})
  local function value(pi)
    local _, stats = g:compute(pi, pi:training(), nil, fopo.reward.hits(pi:training()))
    return stats.reward
  end
  local function on(pi)
    trainer(pi):run{steps = 5, view = false, keep_best = false}
    return state(pi)
  end
  for _, o in ipairs{{}, {start = "ease"}, {start = "slim", held = 100, items = items},
                     {start = "jaccard", learn = ALL}} do
    local function again(from)
      return made{start = o.start, held = o.held, items = o.items, from = from}
    end
    local pi = made(o)
    on(pi)
    pi:save(path)
    local same = again(path)
    lu.assertEquals(same.learn, pi.learn)
    lu.assertEquals(same:training().n, pi:training().n)
    lu.assertAlmostEquals(value(same), value(pi), 1e-6)
    local mine, theirs = on(same), on(pi)
    lu.assertAlmostEquals(mine[2], theirs[2], 1e-5)
    if not o.learn then lu.assertEquals(mine, theirs) end
    lu.assertTrue(fopo.check{policy = same, print = false}.ok)
  end
  refused("on these sessions", made, {start = "cosine", from = path})
  refused("on these sessions", fopo.policy.neighbours, {data = s.valid, start = "jaccard",
                                                        from = path})
  fopo.policy.linear{items = items}:save(path)
  refused("of the kind linear", made, {from = path})
  os.remove(path)
end

-- The votes of the items of X sum to the score of a recommendation.
function TestNeighbours:test_explain()
  local pi = made{tau = 4, learn = {"theta", "weights"}}
  trainer(pi):run{steps = 3, view = false, keep_best = false}
  local best = pi:recommend({items = {3, 14, 15, 90}}, 1)[1]
  local e, sum = pi:explain({items = {3, 14, 15, 90}}, best.item), 0
  for _, part in ipairs(e) do sum = sum + part.contribution end
  lu.assertAlmostEquals(sum, best.score, 1e-4 * best.score)
end

-- With scored = "all" lists are full, and of the formula for all items; the mean over the draws of
-- a tail is the gradient of all (fopo.check), by the items that do not know the user, too.
function TestNeighbours:test_all_items()
  local function embed(data) return fopo.embed.svd(data, {dim = 8}) end
  local function of(scored, items)
    return made{n = 3, items = items or embed, tau = 4, dense_start = 3, scored = scored}
  end
  local pi, few = of("all"), of("candidates")
  local user = {items = {7}}
  lu.assertTrue(#few:recommend(user, 200) <= 3)
  local list, x, all = pi:recommend(user, d.n_items - 1), embed(s.train):rows_of{7}, 0
  lu.assertEquals(#list, d.n_items - 1)
  for _, one in ipairs(list) do all = all + one.probability end
  lu.assertAlmostEquals(all, 1, 1e-5)
  local dense, votes = embed(s.train):copy(), {}
  for _, one in ipairs(few:recommend(user, 3)) do votes[one.item] = true end
  for _, one in ipairs(list) do
    local sum = 0
    for j = 1, x.cols do sum = sum + x:get(1, j) * dense:get(one.item, j) end
    if not votes[one.item] then lu.assertAlmostEquals(one.score, 3 * sum / x:norm(), 1e-4) end
  end
  for _, objective in ipairs{"reward", "likelihood"} do
    local r = fopo.check{policy = pi, samples = 30, print = false,
                         gradient = fopo.gradient.sparse{objective = objective}}
    lu.assertTrue(r.ok, r.first)
    local means = 0
    for _, row in ipairs(r.rows) do means = means + (row.name == "mean of sparse" and 1 or 0) end
    lu.assertEquals(means, 1)
  end
  -- strips of less than two items draw some of them twice
  local hits = fopo.reward.hits(s.train)
  local full = fopo.gradient.sparse{tail = 300}:compute(pi, s.train, nil, hits)
  local near = fopo.gradient.sparse{tail = 256}:compute(pi, s.train, nil, hits)
  lu.assertTrue(near:add(full, -1):norm() < 0.01 * full:norm())
  -- a draw stands for P / U items: 1 / reward is linear in what the draws add to Z
  local _, whole = fopo.gradient.sparse{tail = 300}:compute(pi, s.train, {11}, hits)
  local by_one, n = 0, 400
  for step = 1, n do
    local _, one = fopo.gradient.sparse{tail = 1}:compute(pi, s.train, {11}, hits, {step = step})
    by_one = by_one + 1 / one.reward / n
  end
  lu.assertAlmostEquals(by_one * whole.reward, 1, 0.1)
  refused("give items", made, {scored = "all"})
end

-- A policy of dense scores as the dense part: its scores are added, as they are; what is learnt of
-- it moves by the exact gradient (fopo.check), with the scalars, and is saved and resumed.
function TestNeighbours:test_dense_policy()
  local items, path = fopo.embed.svd(s.train, {dim = 6}), os.tmpname()
  local start = fopo.array.randn(6, 6, 3, 0.5)
  local denses = {theta = fopo.policy.linear{items = items, theta = start},
                  W2 = fopo.policy.mlp{items = items, hidden = {5}, contexts = "degree",
                                       temperature = 0.5}}
  local user = {items = {3, 14, 15}}
  for block, dense in pairs(denses) do
    trainer(dense):run{steps = 20, view = false, keep_best = false}
    local function hybrid(learn, scored)
      return made{tau = 4, n = 5, dense = dense, learn = learn, scored = scored}
    end
    local scores, votes = {}, {}
    for _, one in ipairs(dense:recommend(user, 250)) do scores[one.item] = one.score end
    for _, one in ipairs(made{tau = 4, n = 5}:recommend(user, 99)) do
      votes[one.item] = one.score
    end
    local list = hybrid(nil, "all"):recommend(user, 250)
    lu.assertEquals(#list, 250)
    for _, one in ipairs(list) do
      local score = scores[one.item]
      if score then lu.assertAlmostEquals(one.score, (votes[one.item] or 0) + score, 1e-3) end
    end
    lu.assertEquals(hybrid().fixed[#hybrid().fixed], block == "W2" and "b2" or "theta")
    for _, learn in ipairs{{"c0", block}, {"c1", "dense", block, "bias", "weights"}} do
      local r = fopo.check{policy = hybrid(learn), contexts = 2, print = false}
      lu.assertTrue(r.ok, r.first)
    end
    local function run(stop)
      local pi = hybrid({"c0", block}, "all")
      local t = trainer(pi, {optim = fopo.optim.adagrad{lr = 0.05, lr_of = {[block] = 0.01}}})
      t:run{steps = stop and 2 or 5, view = false, keep_best = false}
      if stop then
        t:save(path)
        pi = hybrid({"c0", block}, "all")
        t = trainer(pi, {optim = fopo.optim.adagrad{lr = 0.05, lr_of = {[block] = 0.01}}})
        t:resume(path)
        t:run{steps = 3, view = false, keep_best = false}
      end
      return pi
    end
    local pi = run(false)
    lu.assertEquals(state(run(true)), state(pi))
    lu.assertNotEquals(pi:parameters()[block]:totable(), dense:parameters()[block]:totable())
    pi:save(path)
    local loaded = fopo.policy.load(path)
    lu.assertEquals(state(loaded), state(pi))
    lu.assertEquals(loaded.dense_kind, dense.kind)
  end
  os.remove(path)
  refused("dense has items", made, {dense = denses.W2, items = items})
  refused("of kind neighbours", made, {dense = made()})
  refused("learns its items", made,
          {dense = fopo.policy.linear{items = items, train_items = true}})
end

function TestNeighbours:test_check()
  local r = fopo.check{policy = made{tau = 4}, print = false}
  lu.assertTrue(r.ok, r.first)
  local pi = made{tau = 4, learn = ALL}
  local moved = pi:parameters()
  for _, name in ipairs{"bias", "importance"} do
    moved[name] = fopo.array.randn(1, d.n_items, 3, 0.3)
  end
  pi:set_parameters(moved)
  r = fopo.check{policy = pi, print = false}
  lu.assertTrue(r.ok, r.first)
  r = fopo.check{policy = made{tau = 4}, gradient = fopo.gradient.sparse{objective = "likelihood"},
                 print = false}
  lu.assertTrue(r.ok, r.first)
end

function TestNeighbours:test_refused()
  local pi = made()
  for _, kind in ipairs{"exact", "snis", "reinforce", "head_tail"} do
    refused("fopo.gradient.sparse", trainer, pi, {gradient = fopo.gradient[kind]{}})
  end
  local linear = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 4})}
  refused("fopo.policy.neighbours", fopo.trainer,
          {policy = linear, data = s.train, gradient = fopo.gradient.sparse{}})
  refused("there are no items", made, {dense_start = 2})
  refused("data are not the sessions", fopo.trainer, {policy = pi, data = s.valid})
  local ok, why = pcall(pi.best, pi, fopo.array.zeros(3, pi.context_dim))
  lu.assertFalse(ok)
  lu.assertStrMatches(why, ".*; give the sessions")
  refused("top", made, {start = function(data) return fopo.baseline.ease{data = data} end})
  refused("makes a baseline", made, {start = function() return 3 end})
end

-- The best by validation, the same again, and what the rows say is what the policy earns.
function TestNeighbours:test_auto()
  local o = {data = s.train, print = false, held = 100,
             starts = {"hybrid", "svd", "degree", "jaccard", "cosine"}}
  local pi, rows = fopo.policy.auto(o)
  lu.assertEquals(#rows, 8) -- of lists untrained and trained
  lu.assertTrue(rawequal(rows.chosen.policy, pi))
  lu.assertTrue(rows[1].estimated <= rows[5].estimated) -- the cheapest first
  lu.assertStrContains(rows[7].name, "hybrid")
  -- the reward of none is larger by more than chance
  local function difference(a, b, name)
    return native.paired_values(a.each[name], b.each[name])
  end
  for _, row in ipairs(rows) do
    lu.assertTrue(difference(row, rows.chosen, "reward") <= 0)
    lu.assertTrue(row.low < row.reward and row.reward < row.high)
    lu.assertEquals(row.each.reward.cols, rows.judged.contexts)
  end
  local again, same = fopo.policy.auto(o)
  lu.assertEquals(again:theta():totable(), pi:theta():totable())
  lu.assertEquals(same.chosen.name, rows.chosen.name)
  refused("there is no start", fopo.policy.auto, {data = s.train, starts = {"cosin"}})
  refused("some of svd", fopo.policy.auto, {data = s.train, starts = {}})
  refused("learn from s.train", fopo.policy.auto, {data = s.valid})
  refused("no validation sessions", fopo.policy.auto,
          {data = d:sessions{min_items = 6, valid = 0}.train})
end

os.exit(lu.LuaUnit.run())
