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
  fails("a gradient head and tail has no samples to set; it takes k, tail", g.set, g,
        {samples = 50})
  fails("only a gradient with a mixture", g.set, g, {epsilon = 0.5})
  fails("a gradient exact has no tail to set; it takes nothing", function()
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

-- ------------------------------------------------------------------------------------------------
TestSharedHead = {}

function TestSharedHead:test_fields()
  local g = fopo.gradient.head_tail{head = 200, tail = 30}
  lu.assertEquals({g.kind, g.head, g.tail}, {"head_tail", 200, 30})
  lu.assertNil(g.k)
  lu.assertNil(g.proposal)
  lu.assertStrContains(g:describe(), "H 200, U 30")
  g:set{head = 100, tail = 5}
  lu.assertEquals({g.head, g.tail}, {100, 5})
  fails("has a head for all contexts, so it has no k to set", g.set, g, {k = 5})
  fails("takes candidates of each context, so it has no head to set", function()
    fopo.gradient.head_tail{index = index, k = 20}:set{head = 5}
  end)
  fails("has both index and head", fopo.gradient.head_tail, {index = index, head = 10})
end

function TestSharedHead:test_products()
  local G = fopo.gradient.head_tail
  local plain, half = G{head = 200, tail = 30}, G{head = 200, tail = 30, products = "bfloat16"}
  lu.assertEquals({plain.products, half.products, half:copy().products},
                  {"auto", "bfloat16", "bfloat16"})
  lu.assertNotStrContains(plain:describe(), "products")
  lu.assertStrContains(half:describe(), "products bfloat16")
  fails("must be one of auto, float32, bfloat16", G, {head = 10, products = "int8"})
  fails("has both index and products", G, {index = index, products = "bfloat16"})
  lu.assertEquals(G{index = index, head = "auto", products = "bfloat16"}.products, "bfloat16")
  fails("has no products to set", half.set, half, {products = "float32"})
  local function moved(g, options)
    local pi = fopo.policy.linear{items = items, theta = "identity",
                                  rows = options and options.rows}
    return g:compute(pi, x, nil, reward, {seed = 3})
  end
  local G32, G16 = moved(plain), moved(half)
  local off = G16:copy():add(G32, -1):norm() / G32:norm()
  lu.assertTrue(off > 0 and off < 6 * 2 ^ -8, tostring(off))
  lu.assertEquals(moved(G{head = 200, tail = 30, products = "float32"}):add(G32, -1):norm(), 0)
  local rows = {rows = "bfloat16"} -- nothing is left to round
  lu.assertEquals(moved(half, rows):add(moved(plain, rows), -1):norm(), 0)
end

function TestSharedHead:test_whole_tail_is_exact()
  local pi = policy()
  local exact = fopo.gradient.exact{}:compute(pi, x, nil, reward)
  local g = fopo.gradient.head_tail{head = 100, tail = 500}
  lu.assertTrue(g:compute(pi, x, nil, reward):add(exact, -1):norm() < 1e-4 * exact:norm())
  fails("a head of 100 items and a tail of 501 draws are more than the 600 items", function()
    g:set{tail = 501}
    g:compute(pi, x, nil, reward)
  end)
end

-- A function of the user's sees all items of the head, and gives the same estimate.
function TestSharedHead:test_custom_reward()
  local pi = policy()
  local hits = {}
  for b = 1, s.train.n do
    hits[b] = {}
    local y = s.train:y(b)
    for i = 1, y.cols do hits[b][y:get(1, i)] = true end
  end
  local custom = fopo.reward.custom(function(ids, rows)
    local values = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do
      local hit = hits[rows:get(1, b)]
      for k = 1, ids.cols do values:set(b, k, hit[ids:get(b, k)] and 1 or 0) end
    end
    return values
  end)
  local g = fopo.gradient.head_tail{head = 150, tail = 450} -- in full: other tails differ
  local looked_up, a = g:compute(pi, x, nil, reward)
  local filled, b = g:compute(pi, x, nil, custom)
  lu.assertTrue(filled:add(looked_up, -1):norm() < 1e-5 * looked_up:norm())
  lu.assertAlmostEquals(a.head_mass, b.head_mass, 1e-5)
  lu.assertAlmostEquals(a.ess, b.ess, 1e-3)
end

local function shared_run(options)
  local pi = fopo.policy.linear{items = items, theta = "identity",
                                train_items = options.train_items}
  local t = fopo.trainer{policy = pi, data = s.train, seed = 3, valid = false, batch = 32,
                         optim = fopo.optim.adam{lr = 0.03}, index_refresh = options.index_refresh,
                         gradient = fopo.gradient.head_tail{head = 80, tail = 40}}
  return t, pi
end

function TestSharedHead:test_learns_and_resumes()
  local t, pi = shared_run{}
  local before = fopo.evaluate(pi, s.train).reward
  t:run{steps = 150, view = false}
  local path = os.tmpname()
  t:save(path)
  t:run{steps = 150, view = false}
  lu.assertTrue(fopo.evaluate(pi, s.train).reward > before + 0.02)
  lu.assertTrue(t.history.head_mass[#t.history.head_mass] > 0.3)
  local again, copy = shared_run{}
  again:resume(path)
  os.remove(path)
  again:run{steps = 150, view = false}
  lu.assertEquals(copy:theta():add(pi:theta(), -1):norm(), 0)
end

function TestSharedHead:test_items_learnt()
  local t, pi = shared_run{train_items = true, index_refresh = 20}
  local before = fopo.evaluate(pi, s.train).reward
  t:run{steps = 60, view = false}
  lu.assertTrue(fopo.evaluate(pi, s.train).reward > before)
end

-- The items of largest norm change: the run that goes on and the resumed one order them anew.
function TestSharedHead:test_items_learnt_resume()
  local path = os.tmpname() .. ".npz"
  for _, refresh in ipairs{0, 20} do
    local options = {train_items = true, index_refresh = refresh}
    local a, pi = shared_run(options)
    a:run{steps = 50, view = false}
    a:save(path)
    local b, copy = shared_run(options)
    b:resume(path)
    a:run{steps = 50, view = false}
    b:run{steps = 50, view = false}
    lu.assertEquals(copy:theta():totable(), pi:theta():totable())
    lu.assertEquals(copy:items():totable(), pi:items():totable())
  end
  os.remove(path)
end

function TestHeadTail:test_learns()
  local pi = policy()
  local before = fopo.evaluate(pi, s.train).reward
  local t = fopo.trainer{policy = pi, data = s.train, seed = 3, optim = fopo.optim.adam{lr = 0.03},
                         gradient = fopo.gradient.head_tail{index = index, k = 50, tail = 50},
                         valid = false}
  t:run{steps = 300, view = false}
  lu.assertTrue(fopo.evaluate(pi, s.train).reward > before + 0.02)
end

-- A step that would make theta overflow is refused, with a remedy.
function TestHeadTail:test_overflow()
  local t = fopo.trainer{policy = policy(), data = s.train, optim = fopo.optim.adam{lr = 1e38},
                         gradient = fopo.gradient.head_tail{index = index, k = 50, tail = 50},
                         valid = false}
  local ok, why = pcall(t.run, t, {steps = 50, view = false})
  lu.assertFalse(ok)
  lu.assertStrContains(why, "step 1 could move theta beyond 1e+12")
  lu.assertStrContains(why, "it stays as after step 0; lower lr")
  t.optim.lr = 1e-3
  t:run{steps = 2, view = false} -- theta is usable
  local u = fopo.trainer{policy = fopo.policy.linear{items = items, train_items = true, seed = 1},
                         data = s.train, optim = fopo.optim.adam{lr = 1e-3, items_lr = 1e38},
                         gradient = fopo.gradient.snis{samples = 50}, valid = false}
  ok, why = pcall(u.run, u, {steps = 5, view = false})
  lu.assertFalse(ok)
  lu.assertStrContains(why, "step 1 could move an item beyond 1e+12")
  lu.assertEquals(u.step, 0)
end

-- ------------------------------------------------------------------------------------------------
TestRefresh = {}

-- The same contexts in every epoch, so that candidates which are kept serve.
local function trainer(gradient, pi)
  return fopo.trainer{policy = pi or policy(), data = s.train, gradient = gradient, seed = 3,
                      optim = fopo.optim.adam{lr = 0.03}, valid = false, resplit = false}
end

local function mixture(refresh)
  return fopo.proposal.mixture{index = index, k = 20, epsilon = 0.3, refresh = refresh}
end

local function queries_of(f)
  local before = index:about().queries
  f()
  return index:about().queries - before
end

function TestRefresh:test_fields()
  lu.assertEquals({mixture().refresh, mixture(4).refresh, mixture("once").refresh}, {1, 4, "once"})
  lu.assertStrContains(mixture("once"):describe(), "refresh once")
  local g = fopo.gradient.snis{proposal = mixture(4), samples = 50}
  lu.assertEquals({g.refresh, g.kept_bytes}, {4, 0})
  local t = trainer(g)
  lu.assertEquals(g.kept_bytes, 4 * s.train.n * 22)
  lu.assertStrContains(t:describe(), "candidates kept in")
  lu.assertEquals(fopo.gradient.head_tail{index = index, refresh = "once"}.refresh, "once")
  lu.assertNil(fopo.proposal.uniform().refresh)
  fails("refresh must be at least 1", mixture, 0)
  fails("refresh must be \"once\", or an integer of at least 1", mixture, "twice")
end

function TestRefresh:test_searches()
  local one = trainer(fopo.gradient.snis{proposal = mixture(), samples = 50})
  lu.assertEquals(queries_of(function() one:run{epochs = 3, view = false} end), 3 * s.train.n)
  for _, gradient in ipairs{fopo.gradient.snis{proposal = mixture(2), samples = 50},
                            fopo.gradient.head_tail{index = index, k = 20, tail = 20,
                                                    refresh = 2}} do
    local t = trainer(gradient)
    lu.assertEquals(queries_of(function() t:run{epochs = 4, view = false} end), 2 * s.train.n)
  end
end

-- Stopped at a step, saved, and gone on with by another trainer: the same bits.
local function resumes(make)
  local path = os.tmpname()
  local whole, first = trainer(make()), trainer(make())
  whole:run{steps = 60, every = 5, view = false}
  first:run{steps = 25, every = 5, view = false}
  first:save(path)
  local second = trainer(make())
  second:resume(path)
  second:run{steps = 35, every = 5, view = false}
  os.remove(path)
  lu.assertEquals(second.policy:theta():totable(), whole.policy:theta():totable())
  lu.assertEquals(tostring(table.concat(second.history.epsilon, " ")),
                  tostring(table.concat(whole.history.epsilon, " ")))
  return whole
end

function TestRefresh:test_resume()
  resumes(function() return fopo.gradient.snis{proposal = mixture(3), samples = 50} end)
  resumes(function()
    return fopo.gradient.head_tail{index = index, k = 20, tail = 20, refresh = "once"}
  end)
end

-- One gradient serves two trainers, each with a memory of its own.
function TestRefresh:test_shared_gradient()
  local g = fopo.gradient.snis{proposal = mixture(3), samples = 50}
  local alone = trainer(fopo.gradient.snis{proposal = mixture(3), samples = 50})
  local a, b = trainer(g), trainer(g)
  alone:run{steps = 40, view = false}
  for _ = 1, 4 do
    a:run{steps = 10, view = false}
    b:run{steps = 10, view = false}
  end
  lu.assertEquals(a.policy:theta():totable(), alone.policy:theta():totable())
  lu.assertEquals(b.policy:theta():totable(), alone.policy:theta():totable())
end

-- ------------------------------------------------------------------------------------------------
TestAdaptive = {}

local function adaptive(o)
  o = o or {}
  o.index, o.k, o.refresh = index, o.k or 100, o.refresh or 1
  return fopo.gradient.snis{proposal = fopo.proposal.adaptive(o), samples = 200}
end

function TestAdaptive:test_fields()
  local q = fopo.proposal.adaptive{index = index, k = 10, floor = 0.1, smoothing = 0.5}
  lu.assertEquals({q.kind, q.k, q.epsilon, q.floor, q.smoothing}, {"adaptive", 10, 1.0, 0.1, 0.5})
  lu.assertEquals(q.refresh, 20)
  local g = fopo.gradient.snis{proposal = q}
  lu.assertEquals(g.epsilon, 1.0)
  fails("an adaptive proposal sets its epsilon itself", g.set, g, {epsilon = 0.5})
  fails("floor must be at most 1", fopo.proposal.adaptive, {index = index, floor = 2})
  fails("smoothing must be less than 1", fopo.proposal.adaptive, {index = index, smoothing = 1})
end

-- A near uniform policy: probes alone ask the index. Then it learns, and candidates pay.
function TestAdaptive:test_course()
  local pi = fopo.policy.linear{items = items, theta = "random", seed = 1}
  local g = adaptive{k = 20}
  local t = trainer(g, pi)
  local asked = queries_of(function() t:run{steps = 1, view = false} end)
  lu.assertEquals({asked, g.epsilon}, {8, 1.0})
  lu.assertEquals(queries_of(function() t:run{steps = 40, view = false} end), 0)
  t:run{steps = 1500, every = 1, view = false}
  lu.assertEquals(g.epsilon, 0.0001)
  lu.assertEquals(g.epsilon, g.proposal.epsilon)
  lu.assertEquals(g.epsilon, t.history.epsilon[#t.history.epsilon])
  for _, e in ipairs(t.history.epsilon) do lu.assertTrue(e >= 0.0001 and e <= 1) end
end

function TestAdaptive:test_floor()
  local pi = policy()
  pi:set_theta(fopo.array.from((function()
    local rows = {}
    for i = 1, 8 do
      rows[i] = {}
      for j = 1, 8 do rows[i][j] = i == j and 60 or 0 end
    end
    return rows
  end)()))
  local g = adaptive{floor = 0.3}
  local t = trainer(g, pi)
  t:run{steps = 100, every = 1, view = false}
  for _, e in ipairs(t.history.epsilon) do lu.assertTrue(e >= 0.3) end
  lu.assertEquals(g.epsilon, 0.3)
end

function TestAdaptive:test_resume()
  local whole = resumes(function() return adaptive() end)
  lu.assertTrue(whole.history.epsilon[1] < 1) -- or nothing was tried
  resumes(function() return adaptive{refresh = 3} end)
end

-- ------------------------------------------------------------------------------------------------
TestStudies = {}

-- The program that runs this test.
local function program()
  local first = 0
  while arg[first - 1] do first = first - 1 end
  return arg[first]
end

-- A study runs in its quick form and keeps as many rows as it says.
local function studies(name, rows, options)
  local said = os.tmpname()
  local command = ("%s scripts/studies/%s.lua quick %s >%s 2>&1"):format(program(), name,
                                                                       options or "", said)
  local done = os.execute(command)
  local f <close> = assert(io.open(said))
  local output = f:read("a")
  os.remove(said)
  lu.assertTrue(done, output)
  local csv, n = assert(io.open(("runs/%s_quick/narrow/results.csv"):format(name))), 0
  for line in csv:lines() do
    n = n + 1
    lu.assertNil(line:find("nan", 1, true), line)
  end
  csv:close()
  lu.assertEquals(n, rows + 1)
  return output
end

function TestStudies:test_fast()
  lu.assertStrContains(studies("fast", 5 * 2), "against method mixture")
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
