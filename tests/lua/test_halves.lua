-- Policies whose steps read the items in half the bytes.
local lu = require "luaunit"
local fopo = require "fopo"

local d = fopo.data.synthetic{users = 400, items = 600, clusters = 12, seed = 5}
local s = d:sessions{min_items = 10, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 13}) -- rows with a rest for every width of vector
local index = fopo.index.norm(items)
local reward = fopo.reward.hits(s.train)
local x = s.train:contexts(items)

local function policy(rows, more)
  local o = {items = items, theta = "identity", rows = rows, seen = "keep"}
  for name, value in pairs(more or {}) do o[name] = value end
  return fopo.policy.linear(o)
end

local function fails(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end

local function gradients()
  return {fopo.gradient.snis{samples = 200},
          fopo.gradient.snis{samples = 200, proposal = fopo.proposal.mixture{
            index = index, k = 40, epsilon = 0.5, refresh = 3}},
          fopo.gradient.head_tail{index = index, k = 40, tail = 60}}
end

-- Relative rounding of one number. A gradient is made of differences of means: a few times that.
local loss = {float16 = 2 ^ -11, bfloat16 = 2 ^ -8}

TestRows = {}

function TestRows:test_fields()
  lu.assertEquals(policy().rows, "float32")
  lu.assertEquals(policy("bfloat16").rows, "bfloat16")
  lu.assertStrContains(tostring(policy("float16")), "read as float16")
  local mlp = fopo.policy.mlp{items = items, hidden = {5}, rows = "float16"}
  lu.assertEquals(mlp.rows, "float16")
  lu.assertStrContains(tostring(mlp), "read as float16")
end

function TestRows:test_refusals()
  fails("must be one of float32, float16, bfloat16", policy, "int8")
  fails("would become stale while they are learnt", policy, "float16", {train_items = true})
  local large = items:copy()
  large:set(600, 3, -7e4)
  local function make(rows) return fopo.policy.linear{items = large, rows = rows} end
  fails("item 600 has an entry of size 70000, beyond float16; use bfloat16", make, "float16")
  lu.assertEquals(make("bfloat16").rows, "bfloat16")
end

-- The same draws, off by no more than the rounding of the rows.
function TestRows:test_gradient()
  for rows, lost in pairs(loss) do
    for _, theta in ipairs{"identity", "random"} do
      for i, g in ipairs(gradients()) do
        local G = g:compute(policy("float32", {theta = theta}), x, nil, reward, {seed = 3})
        local H = gradients()[i]:compute(policy(rows, {theta = theta}), x, nil, reward, {seed = 3})
        local off = H:add(G, -1):norm() / G:norm()
        lu.assertTrue(off > 0 and off < 6 * lost, ("%s, %s: %g"):format(rows, g.kind, off))
      end
    end
  end
end

function TestRows:test_truth_has_no_rounding()
  local half, whole = policy("bfloat16"), policy()
  for _, g in ipairs{fopo.gradient.exact{}, fopo.gradient.reinforce{samples = 50}} do
    local G, H = g:compute(whole, x, nil, reward), g:compute(half, x, nil, reward)
    lu.assertEquals(H:add(G, -1):norm(), 0)
  end
  lu.assertEquals(fopo.evaluate(half, s.test).reward, fopo.evaluate(whole, s.test).reward)
end

local function trained(rows, threads, pause)
  fopo.threads(threads)
  local pi = fopo.policy.linear{items = items, seed = 4, rows = rows}
  local function trainer(learner)
    return fopo.trainer{policy = learner, data = s.train, gradient = gradients()[3], seed = 4,
                        valid = false, optim = fopo.optim.adam{lr = 0.01}}
  end
  local t = trainer(pi)
  t:run{steps = pause or 60, view = false}
  if pause then
    local path = os.tmpname()
    t:save(path)
    pi = fopo.policy.linear{items = items, seed = 9, rows = rows}
    t = trainer(pi)
    t:resume(path)
    os.remove(path)
    t:run{steps = 60 - pause, view = false}
  end
  return pi
end

function TestRows:test_same_bits()
  local before = fopo.threads()
  local once = trained("float16", 1):theta()
  lu.assertEquals(trained("float16", 3):theta():add(once, -1):norm(), 0)
  lu.assertEquals(trained("float16", 2, 25):theta():add(once, -1):norm(), 0)
  fopo.threads(before)
end

function TestRows:test_resume_needs_the_same()
  local function trainer(rows)
    local pi = fopo.policy.linear{items = items, seed = 4, rows = rows}
    return fopo.trainer{policy = pi, data = s.train, gradient = gradients()[3], seed = 4,
                        valid = false}
  end
  local path, t = os.tmpname(), trainer("float16"):run{steps = 3, view = false}
  t:save(path)
  for _, rows in ipairs{"float32", "bfloat16"} do
    lu.assertErrorMsgContains(('its rows is "float16", here it is "%s"'):format(rows), function()
      trainer(rows):resume(path)
    end)
  end
  lu.assertEquals(trainer("float16"):resume(path).step, 3)
  os.remove(path)
end

function TestRows:test_job()
  local function trainer()
    local pi = fopo.policy.linear{items = items, seed = 4, rows = "float16"}
    return pi, fopo.trainer{policy = pi, data = s.train, gradient = gradients()[3], seed = 4,
                        valid = false}
  end
  local here, t = trainer()
  t:run{steps = 20, view = false}
  local there, other = trainer()
  other:start{steps = 20}:wait()
  lu.assertEquals(there:theta():add(here:theta(), -1):norm(), 0)
end

function TestRows:test_learns()
  local function reward_of(rows) return fopo.evaluate(trained(rows, 2), s.test).reward end
  local whole = reward_of("float32")
  for rows in pairs(loss) do lu.assertAlmostEquals(reward_of(rows), whole, 0.05 * whole) end
end

-- The same items under two policies: a gradient goes from one to the other.
function TestRows:test_rebinds()
  local g, half, whole = fopo.gradient.snis{samples = 50}, policy("float16"), policy()
  local first = g:compute(half, x, nil, reward, {seed = 1})
  local other = g:compute(whole, x, nil, reward, {seed = 1})
  lu.assertTrue(other:add(first, -1):norm() > 0)
  lu.assertEquals(g:compute(half, x, nil, reward, {seed = 1}):add(first, -1):norm(), 0)
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
