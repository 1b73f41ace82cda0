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
                                  estimators = {"ips", "snips", "dr", "ix", "ls"}, model = model})
    for _, estimator in ipairs(e.estimators) do
      if e[estimator].bound then
        local hit = e[estimator].bound <= truth
        covered[estimator] = (covered[estimator] or 0) + (hit and 1 or 0)
      end
      for _, kind in ipairs{"normal", "bootstrap", "bernstein"} do
        local interval = not e[estimator].bound and e[estimator][kind]
        local key = estimator .. " " .. kind
        if interval then
          local hit = interval.low <= truth and truth <= interval.high
          covered[key] = (covered[key] or 0) + (hit and 1 or 0)
        end
      end
    end
    lu.assertTrue(e.ls.bound >= e.ix.bound) -- of gamma = lambda
  end
  -- at least 95 % of the bounds hold, and logarithmic smoothing's is the larger one
  for _, key in ipairs{"ls", "ix"} do
    lu.assertTrue(covered[key] >= 0.95 * parts, key)
    covered[key] = nil
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

-- Groups of one action are ips and dr, one group of all has the weight 1, and the logging policy's
-- own groups weigh 1 in the mean; drawn normalisers agree.
function TestWorld:test_groups()
  local lg, pi, truth, world = cut(1, 3000, 0.5)
  local own, one, some = {}, {}, {}
  for a = 1, 40 do own[a], one[a], some[a] = a, 1, a % 4 + 1 end
  own, one, some = fopo.array.ids(own), fopo.array.ids(one), fopo.array.ids(some)
  local function ope(groups, more)
    local o = {model = "ridge", groups = groups, logging = world:groups(groups, lg), bootstrap = 0}
    for key, value in pairs(more or {}) do o[key] = value end
    return fopo.ope(pi, lg, o)
  end
  local e = ope(own)
  lu.assertEquals(world:groups(own, lg):totable(), lg:propensities():totable())
  near(e.mips.value, e.ips.value, 1e-6)
  near(e.offcem.value, e.dr.value, 1e-6)
  e = ope(one)
  near(e.mips.value, lg.mean_reward, 1e-6)
  near(e.mips.se, math.sqrt(lg.mean_reward * (1 - lg.mean_reward) / (lg.n - 1)), 1e-6)
  local inverse, mu = 0, world:groups(some, lg)
  for i = 1, lg.n do inverse = inverse + 1 / mu:get(1, i) / lg.n end
  near(inverse, 4, 0.1) -- E 1 / mu(c) = the number of groups
  e = ope(some)
  lu.assertTrue(e.mips.se < 0.6 * e.ips.se)
  lu.assertTrue(math.abs(e.offcem.value - truth) < 4 * e.offcem.se)
  local drawn = ope(some, {samples = 4000})
  near(drawn.mips.value, e.mips.value, 0.003)
  near(drawn.offcem.value, e.offcem.value, 0.003)
  near(drawn.unshown, e.unshown, 1e-3)
  -- a policy that logs itself, and one that shows the best item alone
  near(fopo.ope(pi, lg, {groups = some, logging = pi, bootstrap = 0}).mips.value, lg.mean_reward,
       1e-6)
  lu.assertTrue(ope(own, {policy = "argmax"}).mips.value == ope(own, {policy = "argmax"}).ips.value)
end

-- A million actions: what is summed over all of them, by tiles and from draws.
function TestWorld:test_a_million_actions()
  local lg, world = fopo.data.synthetic_logs{n = 200, actions = 1000000, dim = 4, k = 500,
                                             epsilon = 0.5, seed = 3}
  local pi = fopo.policy.linear{items = lg:items(), theta = "identity", temperature = 2}
  local groups = {}
  for a = 1, lg.n_actions do groups[a] = a % 10 + 1 end
  groups = fopo.array.ids(groups)
  local o = {groups = groups, logging = world:groups(groups, lg), bootstrap = 0, model = "ridge"}
  local e = fopo.ope(pi, lg, o)
  o.samples = 3000
  local drawn = fopo.ope(pi, lg, o)
  near(drawn.mips.value, e.mips.value, 0.01)
  lu.assertTrue(math.abs(e.offcem.value - world:value(pi)) < 4 * e.offcem.se)
  lu.assertTrue(e.unshown > 0.9 and e.unshown < 1) -- 200 of a million
  near(drawn.unshown, e.unshown, 0.01)
  lu.assertStrContains(table.concat(e.warnings, "\n"), "on actions that no event shows")
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

TestGiven = {}

-- Probabilities that a policy of fopo.policy has, as an array and by a function of blocks, are
-- worth what it is worth.
function TestGiven:test_is_the_policy()
  local lg, pi = cut(1, 700, 2)
  local sizes = {}
  local function softmax(x)
    return pi:queries(x):matmul(pi:items(), false, true):softmax("rows")
  end
  local function blocks(x, rows)
    sizes[#sizes + 1] = rows.cols
    lu.assertTrue(x:near(lg:contexts():rows_of(rows)))
    return softmax(x)
  end
  local function model(ids) return ids:totable() end
  local groups = {}
  for a = 1, lg.n_actions do groups[a] = 1000 * (a % 7) + 1 end
  groups = fopo.array.ids(groups)
  for _, o in ipairs{{clip = 0.02}, {clip = 0.02, model = "ridge", groups = groups, logging = pi},
                     {model = model}} do
    local wanted = fopo.ope(pi, lg, o)
    for _, given in ipairs{softmax(lg:contexts()), blocks} do
      local e = fopo.ope(given, lg, o)
      lu.assertEquals(e.policy, "given")
      for _, name in ipairs(wanted.estimators) do
        near(e[name].value, wanted[name].value, 1e-5 * math.abs(wanted[name].value))
        near(e[name].se, wanted[name].se, 1e-4 * wanted[name].se)
      end
      near(e.ess, wanted.ess, 1e-3 * wanted.ess)
      near(e.unshown, wanted.unshown, 1e-5)
    end
  end
  lu.assertEquals(sizes, {256, 256, 188, 256, 256, 188, 256, 256, 188})
end

function TestGiven:test_refused()
  local lg = cut(1, 50, 1)
  local even = fopo.array.zeros(50, 40) + 1 / 40
  local function of(f) return fopo.ope, f, lg end
  fails("the probabilities are an array [10, 40] but the log has 50 events", of(even:slice(1, 10)))
  fails("the policy gave an array [50, 6]; probabilities [50, 40]", of(function(x) return x end))
  fails("the policy gave a nil; probabilities [50, 40]", of(function() end))
  fails("the probabilities of event 1 begin at 0.05 and add up to 2", of(even * 2))
  even:set(7, 1, -1)
  fails("the probabilities of event 7 begin at -1", of(even))
  even:set(7, 1, 1 / 40)
  fails("in the policy of fopo.ope, given x [50, 6], rows [1, 50]", of(function() error("no") end))
  fails("no model of other actions", fopo.ope, even, lg, {model = fopo.reward.ips{logs = lg}})
  fails("samples is for a policy", fopo.ope, even, lg, {samples = 10})
  fails('policy = "argmax" is for a policy', fopo.ope, even, lg, {policy = "argmax"})
end

TestRefused = {}

function TestRefused:test_options()
  local lg, pi = cut(1, 50, 1)
  local ix = fopo.index.norm(lg:items())
  local ope = fopo.ope
  fails('did you mean "snips"?', ope, pi, lg, {estimators = {"snip"}})
  fails("needs the option model", ope, pi, lg, {estimators = {"dr"}})
  fails("needs the option groups", ope, pi, lg, {estimators = {"mips"}})
  local groups = fopo.array.ids{1, 2}
  fails("give one number for each action of the log, 40", ope, pi, lg, {groups = groups})
  fails("which need groups", ope, pi, lg, {logging = pi})
  fails("must be one of slope, bound", ope, pi, lg, {smoothing = "slop"})
  fails("has no groups; use clusters", ix.groups, ix)
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
