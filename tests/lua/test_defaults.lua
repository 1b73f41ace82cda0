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

-- Items from elsewhere train to nothing, which is said with the line that helps: then they train to
-- the bits of the embeddings themselves.
function TestDefaults:test_items_from_elsewhere()
  local path = os.tmpname() .. ".npy"
  items:save(path)
  local loaded = fopo.array.load(path)
  os.remove(path)
  local function trained(o)
    local t = fopo.trainer{policy = fopo.policy.linear(o), data = s.train, valid = s.valid}
    local page, before = require "fopo.view.page"
    local out = page.out
    page.out = function(said) before = said:gsub("%s+", " ") end
    fopo.explain(t)
    page.out = out
    t:run{steps = 100, view = false}
    return fopo.evaluate(t.policy, s.test).expected, before, table.concat(t.notes, ". ")
  end
  local right = trained{items = items}
  local nothing, before, noted = trained{items = loaded}
  lu.assertTrue(nothing < 0.1 * right, nothing)
  for _, said in ipairs{before, noted} do
    lu.assertStrContains(said, "fopo.policy.linear{items = items, data = s.train}")
  end
  for _, o in ipairs{{items = loaded, data = s.train}, {items = items:copy()}} do
    local expected, said, ends = trained(o)
    lu.assertEquals(expected, right)
    lu.assertNotStrContains(said .. ends, "nearly uniform")
  end
  -- who says what the start is, or starts as the paper does, is not told at once
  for _, o in ipairs{{items = loaded, temperature = 0.5}, {items = loaded, preset = "paper"}} do
    lu.assertNotStrContains(select(2, trained(o)), "nearly uniform")
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

os.exit(lu.LuaUnit.run())
