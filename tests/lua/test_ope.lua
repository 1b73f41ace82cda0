-- Off-policy evaluation through the surface: a real log, worlds whose truth is known, refusals.
local lu = require "luaunit"
local fopo = require "fopo"

local function fails(text, f, ...) lu.assertErrorMsgContains(text, f, ...) end
local function near(a, b, tolerance) lu.assertAlmostEquals(a, b, tolerance) end

-- pi = 1 / P for every context.
local function uniform(items, dim)
  return fopo.policy.linear{items = items, theta = fopo.array.zeros(dim, items.cols),
                            context_dim = dim}
end

TestOpenBandit = {}

-- The log's own policy shows every item with the same probability.
function TestOpenBandit:test_uniform_earns_the_click_rate()
  local name = "open-bandit/random_men.csv.gz"
  local obd = (os.getenv "FOPO_TEST_DATA" or "") .. "/" .. name
  local f = io.open(obd)
  if not f then return print("absent: " .. name) end -- tests/run.sh counts such lines
  f:close()
  for position = 0, 3 do
    local lg = fopo.data.logs(obd, {position = position})
    local e = fopo.ope(uniform(fopo.array.randn(lg.n_actions, 5, 1), lg.dim), lg, {clip = 0.001})
    near(e.ips.value, lg.mean_reward, 1e-8)
    near(e.snips.value, lg.mean_reward, 1e-8)
    near(e.clipped_ips.value, lg.mean_reward, 1e-8)
    near(e.reward, lg.mean_reward, 1e-8)
    near(e.ess, lg.n, 1e-3)
    lu.assertEquals(e.warnings, {})
    if position == 0 then
      near(e.ips.value, 0.0046, 5e-5)
      near(e.ips.se, math.sqrt(0.0046 * 0.9954 / 10000), 1e-6)
    end
  end
end

TestWorld = {}

-- A log cut into `parts` logs of n events; what `policy` is worth in the whole population.
local function cut(parts, n, temperature)
  local lg, world = fopo.data.synthetic_logs{n = parts * n, actions = 40, dim = 6, epsilon = 0.4,
                                             k = 20, bias = -1, seed = 5}
  local pi = fopo.policy.linear{items = lg:items(), theta = "identity", temperature = temperature}
  return lg, pi, world:value(pi, {contexts = world:contexts(40000, 9)}), world
end

function TestWorld:test_coverage()
  local parts, n = 200, 300
  local lg, pi, truth, world = cut(parts, n, 2)
  local x = lg:contexts()
  local covered = {}
  for i = 0, parts - 1 do
    local part = lg:part(i * n + 1, n)
    -- a model that is wrong: half the true reward, and a quarter
    local function model(ids, rows)
      local shifted = {}
      for b = 1, rows.cols do shifted[b] = rows:get(1, b) + i * n end
      local r = world:reward(ids, shifted, x)
      r:scale(0.5)
      for b = 1, r.rows do
        for s = 1, r.cols do r:set(b, s, r:get(b, s) + 0.25) end
      end
      return r
    end
    local e = fopo.ope(pi, part, {bootstrap = 200, seed = i,
                                  estimators = {"ips", "snips", "dr"}, model = model})
    for _, estimator in ipairs(e.estimators) do
      for _, kind in ipairs{"normal", "bootstrap", "bernstein"} do
        local interval = e[estimator][kind]
        local key = estimator .. " " .. kind
        if interval then
          local hit = interval.low <= truth and truth <= interval.high
          covered[key] = (covered[key] or 0) + (hit and 1 or 0)
        end
      end
    end
  end
  for key, hits in pairs(covered) do
    if os.getenv "FOPO_TALK" then print(key, hits / parts) end
    lu.assertTrue(hits / parts >= 0.90, key .. " covers " .. hits / parts)
  end
  lu.assertEquals(covered["ips bernstein"], parts)
  lu.assertNil(covered["snips bernstein"])
end

-- With the true rewards as the model, dm and dr are the truth up to the choice of contexts.
function TestWorld:test_perfect_model()
  local lg, pi, _, world = cut(1, 3000, 0.5)
  local function model(ids, rows) return world:reward(ids, rows) end
  for _, how in ipairs{"softmax", "argmax"} do
    local e = fopo.ope(pi, lg, {policy = how, model = model, bootstrap = 0})
    local truth = world:value(pi, {how = how})
    near(e.dm.value, truth, 1e-5)
    lu.assertTrue(math.abs(e.dr.value - truth) < 4 * e.dr.se)
    lu.assertTrue(math.abs(e.ips.value - truth) < 4 * e.ips.se)
    lu.assertTrue(e.dr.se < e.ips.se)
    lu.assertEquals(e.policy, how)
    lu.assertNil(e.ips.bootstrap)
  end
end

-- Models of every origin; a fit to other events helps dr, and none of them moves ips.
function TestWorld:test_models()
  local lg, pi, truth = cut(1, 4000, 0.7)
  local train, test = lg:split{train = 0.5, seed = 1}
  local rw = fopo.reward.direct{logs = train, model = "logistic"}
  local applied = fopo.ope(pi, test, {model = rw})
  local own = fopo.ope(pi, test, {model = fopo.reward.direct{logs = test, model = rw}})
  lu.assertEquals(applied.dr, own.dr)
  for _, e in ipairs{applied, fopo.ope(pi, test, {model = "ridge"}),
                     fopo.ope(pi, test, {model = "logistic", clip = 0.02})} do
    lu.assertTrue(math.abs(e.dr.value - truth) < 4 * e.dr.se)
    lu.assertTrue(math.abs(e.dm.value - truth) < 0.05)
    lu.assertTrue(e.dr.se < e.ips.se)
    lu.assertEquals(e.ips, applied.ips)
  end
  fails("no model of other actions", fopo.ope, pi, test, {model = fopo.reward.ips{logs = test}})
  fails("model must be one of ridge, logistic", fopo.ope, pi, test, {model = "rigde"})
end

function TestWorld:test_sampled()
  local lg, pi = cut(1, 1000, 1)
  local exact = fopo.ope(pi, lg, {bootstrap = 0})
  local ix = fopo.index.norm(lg:items())
  local mixture = fopo.proposal.mixture
  for _, one in ipairs{{fopo.proposal.uniform(), 0.03}, {mixture{index = ix, k = 10}, 0.02},
                       {mixture{k = 40, epsilon = 0.01}, 0.006}} do -- nearly the policy itself
    local e = fopo.ope(pi, lg, {bootstrap = 0, samples = 3000, proposal = one[1]})
    near(e.ips.value, exact.ips.value, 0.02 * exact.ips.value)
    lu.assertTrue(e.z_error > 0 and e.z_error < one[2], e.z_error)
    lu.assertTrue(e.z_worst >= e.z_error)
    lu.assertStrContains(tostring(e), "normaliser: 3,000 draws")
  end
  lu.assertEquals(exact.z_error, 0)
  local again = fopo.ope(pi, lg, {bootstrap = 0, samples = 50})
  lu.assertEquals(fopo.ope(pi, lg, {bootstrap = 0, samples = 50}).ips.value, again.ips.value)
  lu.assertNotEquals(fopo.ope(pi, lg, {bootstrap = 0, samples = 50, seed = 2}).ips.value,
                     again.ips.value)
end

function TestWorld:test_seeds_and_levels()
  local lg, pi = cut(1, 500, 1)
  local a, b = fopo.ope(pi, lg, {seed = 1}), fopo.ope(pi, lg, {seed = 1})
  lu.assertEquals(a.ips, b.ips)
  lu.assertNotEquals(a.ips.bootstrap, fopo.ope(pi, lg, {seed = 2}).ips.bootstrap)
  local wide = fopo.ope(pi, lg, {level = 0.99})
  for _, kind in ipairs{"normal", "bootstrap", "bernstein"} do
    lu.assertTrue(wide.ips[kind].low < a.ips[kind].low)
    lu.assertTrue(wide.ips[kind].high > a.ips[kind].high)
  end
  -- promises about the ranges narrow and widen what holds for every n
  local narrow = fopo.ope(pi, lg, {reward_range = {0, 1}, least_propensity = 0.4 / 40})
  near(narrow.weight_bound, 100, 1e-4)
  near(narrow.ips.range.high, 100, 1e-4)
end

function TestWorld:test_warnings()
  local lg = cut(1, 2000, 1)
  local sharp = fopo.policy.linear{items = lg:items(), theta = "identity", temperature = 0.001}
  local theta = sharp:theta()
  theta:scale(-1)
  sharp:set_theta(theta) -- prefers what the log hardly shows
  local e = fopo.ope(sharp, lg, {})
  lu.assertStrContains(table.concat(e.warnings, "\n"), "the effective sample size is")
  lu.assertStrContains(tostring(e), "warning: ")
  -- a propensity that is ten times too small makes the weights' mean ten
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write("x,action,reward,propensity\n")
  for i = 1, 200 do f:write(("1,%d,%d,0.05\n"):format(i % 2 + 1, i % 3 == 0 and 1 or 0)) end
  f:close()
  local wrong = fopo.data.logs(path)
  os.remove(path)
  e = fopo.ope(uniform(fopo.array.randn(2, 3, 1), wrong.dim), wrong, {})
  lu.assertStrContains(table.concat(e.warnings, "\n"), "the mean weight is 10")
end

TestRefused = {}

function TestRefused:test_options()
  local lg, pi = cut(1, 50, 1)
  local ix = fopo.index.norm(lg:items())
  local ope = fopo.ope
  fails('did you mean "snips"?', ope, pi, lg, {estimators = {"snip"}})
  fails("needs the option model", ope, pi, lg, {estimators = {"dr"}})
  fails("needs the option clip", ope, pi, lg, {estimators = {"clipped_ips"}})
  fails('policy = "argmax"', ope, pi, lg, {index = ix})
  fails("a proposal needs samples", ope, pi, lg, {proposal = fopo.proposal.uniform()})
  fails("has no normaliser to sample", ope, pi, lg, {policy = "argmax", samples = 10})
  fails("reward_range is {low, high}", ope, pi, lg, {reward_range = {1}})
  fails("beyond the given range", ope, pi, lg, {reward_range = {0.5, 1}})
  fails("less than the 0.5", ope, pi, lg, {least_propensity = 0.5})
  fails("did you mean 'clip'", ope, pi, lg, {clipp = 0.1})
  fails("clip must be at most 1", ope, pi, lg, {clip = 2})
  fails("the log has 40 actions but the policy chooses from 10 items", ope,
        fopo.policy.linear{items = fopo.array.randn(10, 6, 1)}, lg)
  fails("contexts are 50 x 6", ope, fopo.policy.linear{items = lg:items(), context_dim = 7}, lg)
  fails("boom", ope, pi, lg, {model = function() error("boom", 0) end})
  fails("an array [50, 1]", ope, pi, lg, {model = function() return fopo.array.zeros(2, 2) end})
  fails("of item", ope, pi, lg, {model = function(ids)
    local r = fopo.array.zeros(ids.rows, ids.cols)
    r:set(1, 1, 0 / 0)
    return r
  end})
  fails("events", ope, pi, lg:part(1, 1))
end

-- What is closed while a model's function runs is still there until the call is over.
function TestRefused:test_closing_inside()
  local lg, pi = cut(1, 50, 1)
  local once = false
  local e = fopo.ope(pi, lg, {bootstrap = 0, model = function(ids)
    if not once then pi:close(); lg:close() end
    once = true
    collectgarbage()
    return fopo.array.zeros(ids.rows, ids.cols)
  end})
  lu.assertEquals(e.dm.value, 0)
end

os.exit(lu.LuaUnit.run())
