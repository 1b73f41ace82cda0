-- Candidates without an index that a user names: defaults that work everywhere, heads and budgets
-- by mass, what the history and the log say of them, and runs that are the same to the bit.
local lu = require "luaunit"
local fopo = require "fopo"

local d = fopo.data.synthetic{users = 1500, items = 6000, clusters = 60, seed = 5}
local s = d:sessions{min_items = 10, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 8})
local x = s.train:contexts(items)
local reward = fopo.reward.hits(s.train)

local function policy(o)
  o = o or {}
  o.items, o.seed = items, 1
  return fopo.policy.linear(o)
end

-- An estimator of each kind that takes candidates, without an index.
local makers = {
  function() return fopo.gradient.head_tail{k = 40, tail = 40} end,
  function()
    return fopo.gradient.snis{samples = 60, proposal = fopo.proposal.mixture{k = 40}}
  end,
  function()
    return fopo.gradient.snis{samples = 60, proposal = fopo.proposal.mixture{k = 40, refresh = 3}}
  end,
  function()
    return fopo.gradient.snis{samples = 60, proposal = fopo.proposal.adaptive{k = 40}}
  end,
}

local function trainer(make, o)
  o = o or {}
  return fopo.trainer{policy = o.policy or policy(), data = s.train, gradient = make and make(),
                      optim = fopo.optim.adam{lr = 0.03}, seed = 4, valid = false,
                      device = "cpu", index_refresh = o.index_refresh}
end

local function theta(t) return t.policy:theta():totable() end

-- NaN is not equal to itself.
local function as_text(history, names)
  local copy = {}
  for _, name in ipairs(names) do
    copy[name] = {}
    for n, value in ipairs(history[name]) do copy[name][n] = ("%.17g"):format(value) end
  end
  return copy
end

local facts = {"step", "reward", "ess", "head_mass", "head", "held"}

-- ------------------------------------------------------------------------------------------------
TestRuns = {}

-- A run resumed half way, and one by 2 threads, have the numbers of the whole one.
function TestRuns:test_same_bits()
  local path, before = os.tmpname() .. ".npz", fopo.threads()
  for i, make in ipairs(makers) do
    fopo.threads(1)
    local whole = trainer(make)
    whole:run{steps = 120, every = 20, view = false}
    local head, held = whole.history.head, whole.history.held
    for n = 1, 6 do
      lu.assertTrue(head[n] >= 256 and head[n] <= 6000)
      lu.assertTrue(held[n] > 0 and held[n] <= 1)
    end
    local first = trainer(make)
    first:run{steps = 60, every = 20, view = false}
    first:save(path)
    local second = trainer(make)
    second:resume(path)
    lu.assertEquals(as_text(second.history, facts), as_text(first.history, facts))
    second:run{steps = 60, every = 20, view = false}
    lu.assertEquals(theta(second), theta(whole))
    lu.assertEquals(as_text(second.history, facts), as_text(whole.history, facts))
    fopo.threads(2)
    local threads = trainer(make)
    threads:run{steps = 120, every = 20, view = false}
    lu.assertEquals(theta(threads), theta(whole))
    lu.assertEquals(as_text(threads.history, facts), as_text(whole.history, facts))
    if i == 1 then
      local job = trainer(make)
      job:start{steps = 120, every = 20}:wait()
      lu.assertEquals(as_text(job.history, facts), as_text(whole.history, facts))
      lu.assertStrContains(tostring(job), "norms hold")
    end
  end
  fopo.threads(before)
  os.remove(path)
end

function TestRuns:test_descriptions()
  lu.assertStrContains(makers[1]():describe(), "K 40, H auto, U 40")
  lu.assertEquals(makers[1]().head, "auto")
  lu.assertStrContains(makers[2]():describe(), "index automatic")
  lu.assertStrContains(fopo.proposal.adaptive{}:describe(), "index automatic")
  lu.assertNil(makers[1]().norms)
  local t = trainer(makers[1])
  lu.assertNotStrContains(tostring(t), "norms")
  t:run{steps = 5, view = false}
  lu.assertStrContains(tostring(t), " norms hold ")
  -- without a number that follows from the mass there is none in the history
  local fixed = trainer(function() return fopo.gradient.head_tail{head = 300, tail = 40} end)
  fixed:run{steps = 5, view = false}
  lu.assertIsNaN(fixed.history.head[1])
  lu.assertIsNaN(fixed.history.held[1])
  lu.assertErrorMsgContains("sets its head by mass", t.gradient.set, t.gradient, {head = 300})
end

-- The trainer's own gradient, also of a catalogue with fewer items than its usual K.
function TestRuns:test_no_gradient()
  local t = trainer()
  lu.assertStrContains(t.gradient:describe(), "head and tail: K 256, H auto, U 64")
  t:run{steps = 5, view = false}
  lu.assertTrue(t.history.head[1] >= 256)
  local few = fopo.data.synthetic{users = 200, items = 90, clusters = 5}:sessions{min_items = 5}
  local small = fopo.embed.svd(few.train, {dim = 5})
  local u = fopo.trainer{policy = fopo.policy.linear{items = small}, data = few.train,
                         valid = false}
  u:run{steps = 5, view = false}
  lu.assertEquals(u.history.head[1], 90)
  lu.assertStrContains(u.gradient:describe(), "K 90, H auto, U 64")
end

-- A run that was not saved, one that was saved in its middle, and one that goes on from the file
-- are the same, also if the gradient has served other items meanwhile.
function TestRuns:test_items_that_are_learnt()
  local path = os.tmpname() .. ".npz"
  local function head() return fopo.gradient.head_tail{head = 120, tail = 20} end
  for _, refresh in ipairs{0, 20} do
    for i, maker in ipairs{makers[1], makers[2], head} do
      local function new()
        return trainer(maker, {policy = policy{train_items = true}, index_refresh = refresh})
      end
      local whole, saved, resumed = new(), new(), new()
      whole:run{steps = 60, view = false}
      saved:run{steps = 30, view = false}
      saved:save(path)
      resumed:resume(path)
      saved:run{steps = 30, view = false}
      resumed:run{steps = 20, view = false}
      resumed.gradient:compute(policy(), s.train:contexts(items), {1, 2}, fopo.reward.hits(s.train),
                               {})
      resumed:run{steps = 10, view = false}
      for name, t in pairs{saved = saved, resumed = resumed} do
        lu.assertEquals(theta(t), theta(whole), ("%s, %d, %d"):format(name, i, refresh))
        lu.assertEquals(t.policy:items():totable(), whole.policy:items():totable())
      end
    end
  end
  os.remove(path)
end

-- The log and TensorBoard's names have the columns; what changed is said at the end.
function TestRuns:test_log_and_notes()
  local folder = os.tmpname() .. "-log"
  local t = trainer(makers[1])
  t:run{steps = 40, every = 10, view = false, log = folder}
  local config = io.open(folder .. "/history.csv"):read("l")
  lu.assertStrContains(config, ",epsilon,head,held,")
  os.execute("rm -r '" .. folder .. "'")
  local norms = require "fopo.run.norms"
  local said = norms.sentence(t, {step = 10, head = 512.0, held = 1},
                              {step = 40, head = 2048.0, held = 0.9971})
  lu.assertStrContains(said, "2,048 of the largest norms are used, 512 at step 10; they hold 0.997")
  lu.assertStrContains(said, "the head of all contexts")
  lu.assertNil(norms.sentence(t, {step = 10, head = 512.0, held = 1},
                              {step = 40, head = 512.0, held = 1}))
  local few = {d = d, items = items}
  local many = {d = fopo.data.synthetic{users = 60, items = 90000, clusters = 60, seed = 5},
                items = fopo.array.randn(90000, 2, 1)}
  local function says(what, of, make, head)
    local like = fopo.trainer{policy = fopo.policy.linear{items = of.items},
                              data = of.d:sessions{min_items = 5}.train, gradient = make(of.items),
                              valid = false, device = "cpu"}
    lu.assertStrContains(norms.sentence(like, {step = 10, head = 512.0, held = 1},
                                        {step = 40, head = head, held = 1}), what)
  end
  local function indexed(over)
    return fopo.gradient.head_tail{index = fopo.index.exact(over), head = "auto", k = 40, tail = 40}
  end
  for _, make in ipairs{makers[1], indexed} do
    says("all items are used, because few norms", few, make, 6000.0)
    says("5,960 are the head of all contexts, the others the tail", few, make, 6000.0)
  end
  says("cannot share", many, makers[1], 10240.0)
  says("12,288 of the largest norms would be needed", many, makers[1], 12288.0)
  says("found in clusters of the items", many, makers[1], 12288.0) -- of nearly equal norms
  says("found in clusters of the items", many, makers[1], 90000.0)
  says("candidates are found by the index", many, indexed, 90000.0)
  says("candidates are found among all items", few, makers[2], 6000.0)
end

-- ------------------------------------------------------------------------------------------------
TestOthers = {}

-- A budget of "auto" is what a gradient limits; the index alone searches all.
function TestOthers:test_index()
  local ix, exact = fopo.index.norm(items, {budget = "auto"}), fopo.index.norm(items)
  lu.assertEquals({ix.budget, ix:about().budget}, {"auto", "auto"})
  lu.assertStrContains(ix:describe(), "budget auto")
  local Q = policy():queries(x:rows_of{1, 2})
  lu.assertEquals(ix:search(Q, 30):totable(), exact:search(Q, 30):totable())
  local path = os.tmpname() .. ".npz"
  ix:save(path)
  lu.assertEquals(fopo.index.load(path, items).budget, "auto")
  os.remove(path)
  ix.budget = 500
  lu.assertEquals(ix.budget, 500)
  ix.budget = nil
  lu.assertNil(ix.budget)
  ix.budget = "auto"
  lu.assertEquals(ix.budget, "auto")
  lu.assertErrorMsgContains(
    'budget must be "auto", or an integer', fopo.index.norm, items, {budget = "x"})
  local t = trainer(function()
    return fopo.gradient.snis{samples = 60, proposal = fopo.proposal.mixture{index = ix, k = 40}}
  end)
  local u = trainer(makers[2])
  t:run{steps = 30, view = false}
  u:run{steps = 30, view = false}
  lu.assertEquals(theta(t), theta(u))
  lu.assertEquals(as_text(t.history, facts), as_text(u.history, facts))
end

function TestOthers:test_last_resort()
  local g = fopo.gradient.head_tail{index = fopo.index.exact(items), head = "auto", k = 40,
                                    tail = 40}
  lu.assertEquals({g.head, g.proposal.index.kind}, {"auto", "exact"})
  lu.assertStrContains(g:describe(), "H auto")
  local t, u = trainer(function() return g end), trainer(makers[1])
  t:run{steps = 30, view = false}
  u:run{steps = 30, view = false}
  lu.assertEquals(theta(t), theta(u))
end

function TestOthers:test_no_room_for_a_tail()
  local large = fopo.data.synthetic{users = 200, items = 10000, clusters = 5, seed = 1}
    :sessions{min_items = 5}.train
  local pi = fopo.policy.linear{items = fopo.array.randn(10000, 2, 1)}
  local function compute(k)
    local g = fopo.gradient.head_tail{k = k, tail = 1000}
    return g:compute(pi, fopo.array.randn(large.n, 2, 2), {1}, fopo.reward.hits(large))
  end
  lu.assertErrorMsgContains("1000 draws and 9001 candidates are more than the 10000 items", compute,
                            9001)
  lu.assertTrue(compute(9000):norm() > 0)
end

-- Draws, estimates, checks and OPE need no trainer.
function TestOthers:test_without_a_trainer()
  local pi = policy()
  local exact = fopo.proposal.mixture{index = fopo.index.norm(items), k = 40}
  local ids, logq = fopo.proposal.mixture{k = 40}:sample(pi, x:rows_of{1, 2}, 50, {seed = 3})
  local same, same_logq = exact:sample(pi, x:rows_of{1, 2}, 50, {seed = 3})
  lu.assertEquals(ids:totable(), same:totable())
  lu.assertEquals(logq:totable(), same_logq:totable())
  for i, make in ipairs(makers) do
    local g = make()
    local G, stats = g:compute(pi, x, {1, 2, 3}, reward, {seed = 2})
    lu.assertTrue(G:norm() > 0 and stats.reward > 0)
    lu.assertTrue(i == 4 or g.norms >= 256)
  end
  local list = {}
  for i, make in ipairs(makers) do list[i] = make() end
  local r = fopo.check{policy = pi, data = s.train, gradient = list, contexts = 2,
                       repetitions = 30, print = false}
  lu.assertTrue(r.ok, r.first)
end

function TestOthers:test_ope()
  local lg = fopo.data.synthetic_logs{n = 400, actions = 40, dim = 6, epsilon = 0.4, seed = 3}
  local actions = fopo.array.randn(40, 6, 1)
  local pi = fopo.policy.linear{items = actions, theta = "identity"}
  local function value(index)
    local q = fopo.proposal.mixture{index = index, k = 8, epsilon = 0.5}
    return fopo.ope(pi, lg, {samples = 50, proposal = q, bootstrap = 0}).snips.value
  end
  lu.assertEquals(value(), value(fopo.index.norm(actions)))
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
