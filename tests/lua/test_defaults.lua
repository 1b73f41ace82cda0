-- What a policy is made of if nothing is said: the defaults where the sessions are known, those
-- where they are not, and the paper's.
local lu = require "luaunit"
local fopo = require "fopo"

local s = fopo.data.synthetic{users = 600, items = 1000, clusters = 20, seed = 5}
          :sessions{min_items = 10, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 12})

-- The same numbers without the sessions that they come from.
local function elsewhere(x) return fopo.array.from(x:totable()) end

local function fails(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

TestDefaults = {}

function TestDefaults:test_known_sessions()
  local pi = fopo.policy.linear{items = items}
  local identity = fopo.policy.linear{items = items, theta = "identity", preset = "paper"}
  lu.assertEquals(pi.contexts, "unit")
  lu.assertEquals(pi:theta():totable(), identity:theta():totable())
  lu.assertNotEquals(pi.temperature, 1)
  -- 1 % of 1000 items in effect, in the median context
  local e = fopo.evaluate(pi, s.train, {expected_contexts = 16})
  lu.assertTrue(math.abs(e.effective - 10) < 0.1, e.effective)
  -- The same, whatever theta starts as.
  local net = fopo.policy.mlp{items = items, hidden = {5}}
  lu.assertEquals({net.contexts, net.temperature}, {"unit", pi.temperature})
  lu.assertEquals(fopo.policy.linear{items = items, theta = "random"}.temperature, pi.temperature)
  -- As a warmer start was asked for, or other sessions were named.
  local warm = fopo.policy.linear{items = items, effective = 0.5}
  local e_warm = fopo.evaluate(warm, s.train, {expected_contexts = 16})
  lu.assertTrue(math.abs(e_warm.effective - 500) < 5, e_warm.effective)
  lu.assertNotEquals(fopo.policy.linear{items = items, data = s.test}.temperature, pi.temperature)
  lu.assertEquals(fopo.policy.linear{items = elsewhere(items), data = s.train}.temperature,
                  pi.temperature)
end

function TestDefaults:test_unknown_sessions()
  local pi = fopo.policy.linear{items = elsewhere(items), seed = 7}
  local random = fopo.policy.linear{items = items, preset = "paper", seed = 7}
  lu.assertEquals({pi.contexts, pi.temperature}, {"mean", 1})
  lu.assertEquals(pi:theta():totable(), random:theta():totable())
  local wide = fopo.policy.linear{items = items, context_dim = 5}
  lu.assertEquals({wide.contexts, wide.temperature, wide:theta().rows}, {"mean", 1, 5})
  fails("not known of these items; give data = s.train", fopo.policy.linear,
        {items = elsewhere(items), temperature = "auto"})
  fails("which have the items' columns", fopo.policy.linear,
        {items = items, context_dim = 5, temperature = "auto"})
  fails('must be "auto", or a number above 0, not "hot"',
        fopo.policy.linear, {items = items, temperature = "hot"})
end

-- What is said of a policy before its run and at its end, and what it then earns.
local function trained(pi, options)
  local o = {policy = pi, data = s.train, valid = s.valid}
  for name, value in pairs(options or {}) do o[name] = value end
  local t = fopo.trainer(o)
  local page, before = require "fopo.view.page"
  local out = page.out
  page.out = function(said) before = said:gsub("%s+", " ") end
  fopo.explain(t)
  page.out = out
  t:run{steps = 40, view = false}
  return fopo.evaluate(pi, s.test).expected, before, table.concat(t.notes, ". ")
end

local function loaded(x)
  local path = os.tmpname() .. ".npy"
  x:save(path)
  local a = fopo.array.load(path)
  os.remove(path)
  return a
end

local BEGAN = "the items do not say of which sessions they were made"

-- Whatever way the items have come, a trainer has sessions: what the user has not said of a policy
-- is then as of the embeddings themselves, to the bit.
function TestDefaults:test_items_from_elsewhere()
  for kind, all in pairs{linear = {{}, {train_items = true}, {temperature = 0.5}},
                         mlp = {{hidden = {6}, seed = 3, effective = 0.1}}} do
    for _, options in ipairs(all) do
      local function made(x)
        options.items = x
        return fopo.policy[kind](options)
      end
      local right, _, ends = trained(made(items))
      lu.assertNotStrContains(ends, BEGAN)
      lu.assertEquals(trained(made(items:copy())), right)
      for _, x in ipairs{loaded(items), elsewhere(items)} do
        local pi = made(x)
        local before = fopo.evaluate(pi, s.test)
        local expected, _, said = trained(pi)
        lu.assertEquals(expected, right)
        lu.assertTrue(before.expected < expected, before.expected)
        lu.assertEquals(before.note ~= nil, options.temperature == nil)
        local printed = tostring(before):gsub("%s+", " ")
        lu.assertEquals(printed:find("{items = items, data = s.train}", 1, true) ~= nil,
                        options.temperature == nil)
        lu.assertNil(fopo.evaluate(pi, s.test).note)
        lu.assertStrContains(said, BEGAN)
        lu.assertEquals(said:find("temperature", 1, true) ~= nil, options.temperature == nil)
        lu.assertEquals(said:find("theta", 1, true) ~= nil, kind == "linear")
      end
    end
  end
  local pi = fopo.policy.linear{items = loaded(items)}
  local t = fopo.trainer{policy = pi, data = s.train}
  local ordinary = fopo.policy.linear{items = items}
  lu.assertEquals(pi:recommend(3, 2)[1].name, ordinary:recommend(3, 2)[1].name)
  t:run{steps = 2, view = false}
  t:run{steps = 2, view = false}
  lu.assertNotStrContains(table.concat(t.notes), BEGAN) -- which the first run has said
end

-- What was said of a policy, or learnt by it, stays.
function TestDefaults:test_starts_that_stay()
  local x = elsewhere(items)
  local function stays(pi, options)
    local before = {pi.temperature, pi.contexts, pi.seen, pi:theta():totable()}
    local t = fopo.trainer{policy = pi, data = options and options.data or s.train,
                           contexts = options and options.contexts, valid = s.valid}
    lu.assertEquals({pi.temperature, pi.contexts, pi.seen, pi:theta():totable()}, before)
    return t
  end
  stays(fopo.policy.linear{items = x, preset = "paper"})
  stays(fopo.policy.mlp{items = x, preset = "paper", hidden = {4}})
  stays(fopo.policy.linear{items = x, context_dim = 12, preset = "paper"})
  local set = fopo.policy.linear{items = x}
  set:set_theta(set:theta():scale(3))
  stays(set)
  -- contexts that are given say nothing of a temperature: a policy that trains to nothing is told
  local given = fopo.policy.linear{items = x}
  stays(given, {contexts = s.train:contexts(x)})
  stays(given) -- nor may a second trainer change what a first one has begun
  given = fopo.policy.linear{items = x}
  local _, before, noted = trained(given, {contexts = s.train:contexts(x)})
  for _, said in ipairs{before, noted} do
    lu.assertStrContains(said, "fopo.policy.linear{items = items, data = s.train}")
  end
end

function TestDefaults:test_a_start_that_is_scaled()
  local pi = fopo.policy.linear{items = items, theta_scale = 6}
  local plain = fopo.policy.linear{items = items}
  lu.assertEquals(pi:theta():totable(), plain:theta():scale(6):totable())
  lu.assertEquals(pi.temperature, plain.temperature)
  fails("theta_scale must be more than 0", fopo.policy.linear, {items = items, theta_scale = 0})
end

function TestDefaults:test_preset()
  local pi = fopo.policy.linear{items = items, preset = "paper"}
  lu.assertEquals({pi.contexts, pi.temperature}, {"mean", 1})
  lu.assertTrue(pi:theta():norm() < 0.1)
  -- What is given goes before the preset.
  pi = fopo.policy.linear{items = items, preset = "paper", contexts = "unit", temperature = 2}
  lu.assertEquals({pi.contexts, pi.temperature}, {"unit", 2})
  local adam = fopo.optim.adam{preset = "paper"}
  lu.assertEquals({adam.lr, adam.weight_decay}, {1e-4, 1e-10})
  lu.assertEquals(fopo.optim.adam{preset = "paper", lr = 0.5}.lr, 0.5)
  local raw = fopo.embed.svd(s.train, {dim = 12, preset = "paper"})
  lu.assertEquals(raw:totable(), fopo.embed.svd(s.train, {dim = 12, scale = "none"}):totable())
  fails('preset must be one of paper, not "papre"; did you mean "paper"?', fopo.optim.adam,
        {preset = "papre"})
  fails("no option 'preset'", function()
    local ok, why = pcall(fopo.optim.sgd, {lr = 1, preset = "paper"})
    error(ok and "accepted" or why:gsub('"', "'"))
  end)
end

function TestDefaults:test_contexts_of_unit_length()
  local x = s.test:contexts(items, {scale = "unit"})
  local mean = s.test:contexts(items)
  for n = 1, 5 do
    lu.assertAlmostEquals(x:rows_of{n}:norm(), 1, 1e-6)
    local length = mean:rows_of{n}:norm()
    for j = 1, 12 do lu.assertAlmostEquals(x:get(n, j) * length, mean:get(n, j), 1e-6) end
  end
end

-- ------------------------------------------------------------------------------------------------
TestLost = {}

-- A policy that is sure of items that nobody takes, or of any, earns no more than items drawn at
-- random, and a run that ends so says it; a uniform one is said to be uniform.
function TestLost:test_note()
  local split = fopo.data.synthetic{users = 600, items = 400, clusters = 8, seed = 3}:sessions{
    min_items = 10, valid = 0.3}
  local beta, chance, n = fopo.embed.svd(split.train, {dim = 8}), 0, split.valid.n
  for i = 1, n do chance = chance + #split.valid:y(i):totable()[1] / n / 400 end
  local function ends(options)
    options.items, options.data = beta, split.train
    local t = fopo.trainer{policy = fopo.policy.linear(options), data = split.train,
                           valid = split.valid, optim = fopo.optim.sgd{lr = 1e-12}}
    t:run{steps = 1, view = false}
    return t.history.valid_expected[1] / chance, table.concat(t.notes, "\n")
  end
  local away, seen = -1 * fopo.array.eye(8), {}
  for T = 1, 12 do
    local share, said = ends{theta = away, temperature = 0.02 * 1.6 ^ T}
    if share > 0.25 and share < 0.65 then
      seen.below = true
      lu.assertStrContains(said, "is below the")
    end
    if share > 0.95 then lu.assertNotStrContains(said, "drawn at random") end
  end
  for seed = 1, 30 do
    local share, said = ends{theta = fopo.array.randn(8, 8, seed), temperature = 0.1}
    if share > 0.75 and share < 1.15 then
      seen.chance = true
      lu.assertStrContains(said, "is no more than the")
    end
    if share > 1.25 then lu.assertNotStrContains(said, "drawn at random") end
  end
  lu.assertEquals(seen, {below = true, chance = true})
end

os.exit(lu.LuaUnit.run())
