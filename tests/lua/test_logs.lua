-- Bandit logs from Lua: reading, parts, worlds, rewards, training on a log, and what is refused.
local lu = require "luaunit"
local fopo = require "fopo"

local function fails(part, f, ...) lu.assertErrorMsgContains(part, f, ...) end
local function clicks(text, o)
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write(text)
  f:close()
  local result = table.pack(pcall(fopo.data.logs, path, o))
  os.remove(path)
  if not result[1] then error(result[2], 0) end
  return result[2]
end

local lg, world = fopo.data.synthetic_logs{n = 6000, actions = 100, dim = 6, bias = -2, slope = 2,
                                           sharpness = 2, skill = 0.3, seed = 4}
local fresh = world:contexts(400, 9)

-- ------------------------------------------------------------------------------------------------
TestLogs = {}

-- A second file with the columns and the actions of the first, however few of them it has.
function TestLogs:test_like()
  local first = clicks("age,country,item,reward,p\n1,be,7,1,0.5\n2,fr,9,0,0.25\n3,nl,11,1,1\n")
  local second = clicks("country,item,p,age,reward\nnl,9,0.5,30,1\nbe,9,0.5,31,0\n", {like = first})
  lu.assertEquals({second.n, second.dim, second.n_actions}, {2, 4, 3})
  for i = 1, 4 do lu.assertEquals(second:feature_name(i), first:feature_name(i)) end
  lu.assertEquals(second:contexts():totable(), {{30, 0, 0, 1}, {31, 1, 0, 0}})
  lu.assertEquals({second:actions():get(1, 1), second:action_name(3)}, {2, "11"})
  lu.assertEquals(second:propensities():totable(), {{0.5, 0.5}})
  fails("has country=de, which", clicks, "age,country,item,reward,p\n1,de,7,1,0.5\n",
        {like = first})
  fails("has the action 8, which", clicks, "age,country,item,reward,p\n1,be,8,1,0.5\n",
        {like = first})
  fails("lacks the column age", clicks, "country,item,reward,p\nbe,7,1,0.5\n", {like = first})
  fails("has size, which", clicks, "age,size,country,item,reward,p\n1,1,be,7,1,0.5\n",
        {like = first})
  fails("lacks the column country=be", clicks, "age,item,reward,p\n1,7,1,0.5\n", {like = first})
  fails("hashed", clicks, "1:-1:0.5 | a b\n", {format = "vw", like = first})
  fails("like must be logs", clicks, "age,item,reward,p\n1,7,1,0.5\n", {like = 3})
  local one = clicks("1:-1:0.5 | a b\n2:0:0.5 | c\n", {format = "vw"})
  local two = clicks("2:-1:0.5 | z\n", {format = "vw", like = one})
  lu.assertEquals({two.n_actions, two.dim}, {one.n_actions, one.dim})
  -- the items are the first one's, and stay when it is collected
  local path, items = os.tmpname(), os.tmpname()
  local function write(name, text) local f = io.open(name, "w") f:write(text) f:close() end
  write(items, ",item_id,item_feature_0,item_feature_1\n0,0,-0.5,red\n1,1,1.5,blue\n")
  local head = ",timestamp,item_id,position,click,propensity_score,user_feature_0,"
               .. "user-item_affinity_0,user-item_affinity_1\n"
  write(path, head .. "0,t,1,1,0,0.5,b,0.0,2.0\n1,t,0,3,1,0.25,a,1e-06,0.0\n")
  local read = {train = fopo.data.logs(path, {items = items, position = 1}),
                all = fopo.data.logs(path, {items = items})}
  write(path, head .. "0,t,0,2,0,0.5,b,0.0,2.0\n")
  local test = fopo.data.logs(path, {like = read.all})
  lu.assertEquals({test.dim, test:items():totable()}, {read.all.dim, read.all:items():totable()})
  lu.assertEquals(test:contexts():totable(), {{0, 1, 0, 2}})
  local was = read.all:items():totable()
  read.train, read.all = nil, nil
  collectgarbage()
  collectgarbage()
  lu.assertEquals(test:items():totable(), was)
  os.remove(path)
  os.remove(items)
end

function TestLogs:test_read()
  local l = clicks("a,b,item,reward,p\n1,x,7,1,0.5\n2,y,9,0,0.25\n3,x,9,1,1\n")
  lu.assertEquals({l.n, l.n_actions, l.dim, l.format, l.skipped}, {3, 2, 3, "csv", 0})
  lu.assertAlmostEquals(l.mean_reward, 2 / 3, 1e-9)
  lu.assertEquals(l.least_propensity, 0.25)
  lu.assertEquals({l:actions():get(1, 1), l:actions():get(1, 2)}, {1, 2})
  lu.assertEquals({l:action_name(2), l:feature_name(2)}, {"9", "b=x"})
  lu.assertEquals(l:rewards():get(1, 3), 1)
  lu.assertEquals(l:propensities():get(1, 2), 0.25)
  lu.assertNil(l:items()) -- a policy of it has a vector for each action
  local pi = fopo.policy.linear{items = l}
  lu.assertEquals({pi:items():totable(), pi:theta().rows}, {{{1, 0}, {0, 1}}, 3})
  lu.assertEquals(fopo.policy.linear{items = lg}:items():totable(), lg:items():totable())
  lu.assertTrue(rawequal(l:contexts(), l:contexts()))
  fails("is not a propensity", clicks, "x,action,reward,p\n1,1,1,0\n")
  fails("did you mean 'format'", clicks, "", {formt = "vw"})
end

function TestLogs:test_parts()
  local a, b = lg:split{train = 0.25, seed = 2}
  lu.assertEquals({a.n, b.n}, {1500, 4500})
  lu.assertEquals(a:items().rows, 100)
  local part = lg:part(11, 5)
  lu.assertEquals(part:actions():get(1, 1), lg:actions():get(1, 11))
  local some = lg:take(fopo.array.ids{3, 3, 1})
  lu.assertEquals(some:rewards():get(1, 3), lg:rewards():get(1, 1))
  local path = os.tmpname()
  part:save(path)
  local again = fopo.data.logs(path)
  os.remove(path)
  lu.assertEquals({again.n, again.n_actions, again.format}, {5, 100, "synthetic"})
  lu.assertEquals(again:contexts():get(5, 6), lg:contexts():get(15, 6))
  fails("count", lg.part, lg, 5999, 5)
  -- a part lives on when its log is gone
  local l = fopo.data.synthetic_logs{n = 50, actions = 10, dim = 2}
  local p = l:part(1, 10)
  l:close()
  collectgarbage()
  collectgarbage()
  lu.assertEquals(p:items().rows, 10)
  lu.assertEquals(p:items():get(10, 1), p:items():get(10, 1))
  fails("has been closed", function() return l:contexts() end)
end

function TestLogs:test_arrays_are_the_logs_own()
  local l = fopo.data.synthetic_logs{n = 20, actions = 10, dim = 2}
  local x = l:contexts()
  local was = x:get(1, 1)
  x:set(1, 1, was + 1) -- a copy from here on
  lu.assertEquals(l:contexts():get(1, 1), was)
end

-- A column of ages: standardised with the numbers of the log that is learnt from, kept in a file,
-- and what a policy then learns is worth more.
function TestLogs:test_standardise()
  local rows, other = {"age,country,action,reward,p"}, {"age,country,action,reward,p"}
  local rng, ages = 1, {}
  for i = 1, 600 do
    rng = rng * 16807 % 2147483647
    local age, a = 15 + rng % 66, rng // 66 % 4 + 1
    ages[i] = age
    rows[#rows + 1] = ("%d,%s,%d,%d,0.25"):format(age, i % 2 == 0 and "be" or "fr", a,
                                                 (age > 45) == (a > 2) and 1 or 0)
  end
  for i = 1, 3 do other[i + 1] = ("%d,be,%d,1,0.25"):format(10 * i, i) end
  rows, other = table.concat(rows, "\n") .. "\n", table.concat(other, "\n") .. "\n"
  local raw = clicks(rows, {standardise = "none"})
  local log = clicks(rows)
  local scales, mean, squares = log:scales(), 0, 0
  lu.assertNil(raw:scales())
  lu.assertEquals(raw:contexts():get(1, 1), ages[1])
  for _, age in ipairs(ages) do mean = mean + age / 600 end
  for _, age in ipairs(ages) do squares = squares + (age - mean) ^ 2 / 600 end
  lu.assertAlmostEquals(scales:get(1, 1), mean, 1e-4)
  lu.assertAlmostEquals(scales:get(2, 1), math.sqrt(squares), 1e-4)
  lu.assertEquals({scales:get(1, 2), scales:get(2, 2), scales:get(1, 3)}, {0, 1, 0})
  lu.assertAlmostEquals(log:contexts():get(7, 1), (ages[7] - mean) / math.sqrt(squares), 1e-5)
  lu.assertEquals(log:contexts():get(7, 2), raw:contexts():get(7, 2))
  for largest, is_large in pairs{[10] = false, [11] = true} do
    local small = clicks("age,country,action,reward,p\n2,be,1,1,0.5\n" .. largest
                         .. ",fr,2,0,0.5\n")
    lu.assertEquals(small:scales() ~= nil, is_large)
  end
  -- by the same numbers: another file, parts, and what was saved
  local path = os.tmpname() .. ".npz"
  log:part(1, 3):save(path)
  local again = fopo.data.logs(path)
  lu.assertEquals(again:scales():totable(), scales:totable())
  lu.assertEquals(again:contexts():get(3, 1), log:contexts():get(3, 1))
  local young = clicks(other, {like = log})
  lu.assertAlmostEquals(young:contexts():get(1, 1), (10 - mean) / math.sqrt(squares), 1e-5)
  lu.assertAlmostEquals(fopo.data.logs(path, {like = raw}):contexts():get(2, 1), ages[2], 1e-4)
  os.remove(path)
  -- of ages as they are, a linear policy learns less
  local function learnt(on)
    local pi = fopo.policy.linear{items = fopo.array.eye(4), theta = fopo.array.zeros(3, 4),
                                  context_dim = 3}
    local t = fopo.trainer{policy = pi, data = on, optim = fopo.optim.adam{lr = 0.1},
                           gradient = fopo.gradient.exact{}}
    t:run{steps = 100, view = false}
    return fopo.ope(pi, on, {bootstrap = 0}).snips.value
  end
  lu.assertTrue(learnt(log) > learnt(raw) + 0.1)
end

-- One action for everybody: the lucky one, and the one that a pessimist shows.
function TestLogs:test_constant()
  local rows = {"x,action,reward,propensity"}
  for i = 1, 90 do
    local a = i % 3 + 1
    rows[#rows + 1] = ("%d,%d,%d,%g"):format(i % 2, a, a == 2 and i % 2 or 0, 0.3)
  end
  rows[#rows + 1] = "1,4,1,0.1"
  local log = clicks(table.concat(rows, "\n") .. "\n")
  local pi, action = log:constant()
  local lucky, other = log:constant{by = "mean"}
  lu.assertEquals({action, other}, {2, 4})
  lu.assertAlmostEquals(fopo.ope(pi, log, {bootstrap = 0}).ips.value, 15 / 0.3 / 91, 1e-6)
  lu.assertAlmostEquals(fopo.ope(lucky, log, {bootstrap = 0}).ips.value, 1 / 0.1 / 91, 1e-6)
  lu.assertEquals(fopo.ope(lucky, log, {bootstrap = 0}).overlap, 1)
end

-- ------------------------------------------------------------------------------------------------
TestRewards = {}

function TestRewards:test_values()
  local l = clicks("x,action,reward,p\n1,1,1,0.5\n2,3,-2,0.02\n", {n_actions = 3})
  local all = fopo.array.ids{1, 2, 3}
  local function of(rw, row)
    local v = rw:value(all, fopo.array.ids{row})
    return {v:get(1, 1), v:get(1, 2), v:get(1, 3)}
  end
  lu.assertAlmostEquals(of(fopo.reward.ips{logs = l}, 1), {2, 0, 0}, 1e-5)
  lu.assertAlmostEquals(of(fopo.reward.ips{logs = l, clip = 0.1}, 2), {0, 0, -20}, 1e-4)
  local rw = fopo.reward.ips{logs = l, translate = 0.5}
  lu.assertAlmostEquals(of(rw, 1), {1, 0, 0}, 1e-5)
  rw.translate = 1
  lu.assertAlmostEquals(of(rw, 1), {0, 0, 0}, 1e-5)
  local model = {queries = fopo.array.from{{1, 0}, {0, 2}},
                 items = fopo.array.from{{1, 1}, {2, 0}, {0, -1}}}
  local d = fopo.reward.direct{logs = l, model = model}
  lu.assertAlmostEquals(of(d, 2), {2, 0, -2}, 1e-5)
  lu.assertAlmostEquals(of(fopo.reward.doubly_robust{logs = l, model = d}, 1), {1, 2, 0}, 1e-5)
  lu.assertAlmostEquals(of(fopo.reward.doubly_robust{logs = l, model = model, clip = 0.1}, 2),
                        {2, 0, -2}, 1e-5)
  lu.assertAlmostEquals(of(fopo.reward.switch{logs = l, model = d, threshold = 10}, 2),
                        {2, 0, -2}, 1e-5)
  lu.assertEquals({rw.kind, d.kind, d.n}, {"ips", "direct", 2})
end

function TestRewards:test_refused()
  local l = clicks("x,action,reward,p\n1,1,1,0.5\n2,2,7,0.02\n")
  fails("needs the option logs", fopo.reward.ips, {})
  fails("rewards in 0 .. 1", fopo.reward.direct, {logs = l, model = "logistic"})
  fails("did you mean \"ridge\"", fopo.reward.direct, {logs = l, model = "rigde"})
  fails("model has no field 'itms'", fopo.reward.direct, {logs = l, model = {itms = 1}})
  fails("the log has 2 events", fopo.reward.direct,
        {logs = l, model = {queries = fopo.array.zeros(3, 1), items = fopo.array.zeros(2, 1)}})
  fails("has no model", fopo.reward.doubly_robust, {logs = l, model = fopo.reward.ips{logs = l}})
  local pi = fopo.policy.linear{items = lg:items()}
  fails("covers", fopo.trainer, {policy = pi, data = lg, reward = fopo.reward.ips{logs = l},
                                 gradient = fopo.gradient.exact{}})
end

function TestRewards:test_model_on_another_log()
  local a, b = lg:split{train = 0.5}
  local fitted = fopo.reward.direct{logs = a, model = "logistic"}
  local there = fopo.reward.direct{logs = b, model = fitted}
  lu.assertTrue(fitted.loss < fitted.constant_loss)
  lu.assertEquals(there.n, b.n)
  local ids, rows = fopo.array.ids{5}, fopo.array.ids{17}
  local p = there:value(ids, rows):get(1, 1)
  local truth = world:reward(ids, rows, b:contexts()):get(1, 1)
  lu.assertAlmostEquals(p, truth, 0.15)
end

-- ------------------------------------------------------------------------------------------------
TestTraining = {}

local function trained(rw, gradient)
  local pi = fopo.policy.linear{items = lg:items()}
  local t = fopo.trainer{policy = pi, data = lg, reward = rw, gradient = gradient, batch = 64,
                         optim = fopo.optim.adam{lr = 0.02}}
  t:run{steps = 300, view = false}
  return world:value(pi, {contexts = fresh}), t
end

-- The gradients of logarithmic smoothing and of self-normalised IPS along a direction of theta, as
-- differences of what fopo.ope says; and fopo.check's own.
function TestTraining:test_pessimistic_gradients()
  local log = lg:part(1, 400)
  local lambda, h, rows = 0.3, 0.01, {}
  for i = 1, log.n do rows[i] = i end
  local start, U = fopo.array.randn(6, 6, 3), fopo.array.randn(6, 6, 4)
  local function judged(step)
    local theta = start:copy()
    theta:add(U, step)
    local pi = fopo.policy.linear{items = log:items(), theta = theta}
    return fopo.ope(pi, log, {smoothing = lambda, bootstrap = 0}), pi
  end
  local e, pi = judged(0)
  local function along(rw, objective)
    local g = fopo.gradient.exact{objective = objective}
    local G, stats = g:compute(pi, log:contexts(), rows, rw)
    local sum = 0
    for i = 1, 6 do for j = 1, 6 do sum = sum + G:get(i, j) * U:get(i, j) end end
    return sum, stats
  end
  local up, down = judged(h), judged(-h)
  local smoothed = fopo.reward.ips{logs = log, smoothing = lambda}
  local slope, stats = along(smoothed, "smoothed")
  lu.assertAlmostEquals(stats.reward, lambda * e.ls.value, 1e-5 * stats.reward)
  local wanted = (up.ls.value - down.ls.value) / (2 * h)
  lu.assertAlmostEquals(slope / lambda, wanted, 2e-3 * math.abs(wanted))
  wanted = (up.snips.value - down.snips.value) / (2 * h)
  slope = along(fopo.reward.ips{logs = log, translate = e.snips.value})
  lu.assertAlmostEquals(slope / e.mean_weight, wanted, 2e-3 * math.abs(wanted))
  for _, translate in ipairs{0, -3} do
    slope, stats = along(fopo.reward.ips{logs = log, translate = translate}, "snips")
    lu.assertAlmostEquals(slope, wanted, 2e-3 * math.abs(wanted))
    lu.assertAlmostEquals(stats.reward, e.snips.value, 1e-5 * stats.reward)
  end
  local moving = fopo.policy.linear{items = log:items(), train_items = true, context_dim = 6}
  lu.assertErrorMsgContains("is a ratio over the batch, in one process", function()
    fopo.gradient.exact{objective = "snips"}:compute(moving, log:contexts(), rows,
                                                     fopo.reward.ips{logs = log})
  end)
  local r = fopo.check{policy = pi, data = log, reward = smoothed, print = false, repetitions = 60,
                       gradient = {fopo.gradient.head_tail{head = 50, tail = 30,
                                                           objective = "smoothed"},
                                   fopo.gradient.snis{samples = 300, objective = "smoothed"}}}
  lu.assertTrue(r.ok, tostring(r))
  r = fopo.check{policy = pi, data = log, print = false, repetitions = 60, contexts = 12,
                 gradient = {fopo.gradient.head_tail{head = 50, tail = 30, objective = "snips"},
                             fopo.gradient.snis{samples = 300, objective = "snips"}}}
  lu.assertTrue(r.ok, tostring(r))
end

-- The ratio is that of each batch; it is of logs, and of items that stay.
function TestTraining:test_snips_raises_the_ratio()
  local log = lg:part(1, 400)
  local pi = fopo.policy.linear{items = log:items()}
  local function judged(part) return fopo.ope(pi, part, {bootstrap = 0}).snips.value end
  local rw, half = fopo.reward.ips{logs = log}, log:part(1, 200)
  local rows, g = {}, fopo.gradient.exact{objective = "snips"}
  for i = 1, half.n do rows[i] = i end
  local _, stats = g:compute(pi, log:contexts(), rows, rw)
  lu.assertAlmostEquals(stats.reward, judged(half), 1e-5 * stats.reward)
  local before = judged(log)
  local t = fopo.trainer{policy = pi, data = log, reward = rw, objective = "snips",
                         batch = log.n, optim = fopo.optim.adam{lr = 0.02}}
  t:run{steps = 60, view = false}
  lu.assertTrue(judged(log) > before + 0.05)
  lu.assertTrue(t.history.reward[#t.history.reward] > before + 0.05)
  local model = fopo.reward.doubly_robust{logs = log, model = fopo.reward.direct{logs = log}}
  lu.assertErrorMsgContains("use fopo.reward.ips", g.compute, g, pi, log:contexts(), rows, model)
  local learns = fopo.policy.linear{items = log:items(), train_items = true}
  lu.assertErrorMsgContains("items that are not learnt", g.compute, g, learns, log:contexts(), rows,
                            rw)
end

-- What of the policy lies where the log shows nothing is said, of a log that shows few actions.
function TestTraining:test_explain_names_what_is_never_shown()
  local page = require "fopo.view.page"
  local few, said, out = lg:part(1, 40), "", page.out
  local function explained(log)
    local t = fopo.trainer{policy = fopo.policy.linear{items = log:items()}, data = log}
    t:run{steps = 3, view = false}
    page.out = function(text) said = text:gsub("%s+", " ") end
    fopo.explain(t)
    page.out = out
    return t.policy, table.concat(t.notes, " ")
  end
  local pi, noted = explained(few)
  local share = fopo.ope(pi, few, {bootstrap = 0}).unshown
  lu.assertTrue(share > 0.1)
  lu.assertStrContains(said, ("WARNING: %.3g %% of the policy is on actions that no"):format(
    100 * share))
  lu.assertStrContains(noted, "on actions that no event")
  explained(lg) -- 256 of its 6,000 events stand for all
  lu.assertStrContains(said, "100 % of the policy is on actions that the log shows.")
end

-- The loop of help(fopo.reward.ips): each pass raises self-normalised IPS; a run by IPS ends below.
function TestTraining:test_self_normalised()
  local log = lg:part(1, 1000)
  local function learnt(passes)
    local pi = fopo.policy.linear{items = log:items(), theta = fopo.array.zeros(6, 6)}
    local rw, last = fopo.reward.ips{logs = log}, -math.huge
    local t = fopo.trainer{policy = pi, data = log, reward = rw, batch = 1000,
                           optim = fopo.optim.adam{lr = 0.02}, gradient = fopo.gradient.exact{}}
    local function snips()
      return fopo.ope(pi, log, {estimators = {"snips"}, bootstrap = 0}).snips.value
    end
    for _ = 1, passes do
      if passes > 1 then rw.translate = snips() end
      t:run{epochs = 200 // passes, view = false}
      lu.assertTrue(passes == 1 or snips() > last)
      last = snips()
    end
    return last
  end
  lu.assertTrue(learnt(10) > learnt(1) + 0.01)
end

function TestTraining:test_true_value_rises()
  local start = world:value(fopo.policy.linear{items = lg:items()}, {contexts = fresh})
  local best, logging = world:best(fresh), world:logging(fresh)
  local exact, snis = fopo.gradient.exact{}, fopo.gradient.snis{samples = 50}
  local direct = fopo.reward.direct{logs = lg, model = "logistic", folds = 2}
  local value = {
    ips = trained(nil, exact),
    translated = trained(fopo.reward.ips{logs = lg, translate = lg.mean_reward}, exact),
    clipped = trained(fopo.reward.ips{logs = lg, clip = 0.01}, snis),
    direct = trained(direct, snis),
    dr = trained(fopo.reward.doubly_robust{logs = lg, model = direct, clip = 0.005}, snis),
    switch = trained(fopo.reward.switch{logs = lg, model = direct, threshold = 50}, snis),
  }
  for name, v in pairs(value) do
    lu.assertTrue(v > logging and v > start + 0.2 and v < best, name .. " " .. v)
  end
  lu.assertTrue(value.dr > value.ips)
end

-- The device's rewards and the plain ones give the same run.
function TestTraining:test_like_a_custom_reward()
  local direct = fopo.reward.direct{logs = lg, model = "ridge"}
  local dr = fopo.reward.doubly_robust{logs = lg, model = direct, clip = 0.01}
  local custom = fopo.reward.custom(function(ids, rows) return dr:value(ids, rows) end)
  local g = fopo.gradient.snis{samples = 20}
  local pi = fopo.policy.linear{items = lg:items()}
  local rows = fopo.array.ids{1, 7, 4000}
  local a = g:compute(pi, lg:contexts(), rows, dr, {seed = 1, step = 3})
  local b = g:compute(pi, lg:contexts(), rows, custom, {seed = 1, step = 3})
  for i = 1, 6 do
    for j = 1, 6 do lu.assertAlmostEquals(a:get(i, j), b:get(i, j), 1e-5) end
  end
end

function TestTraining:test_resume()
  local path = os.tmpname() .. ".npz"
  local rw = fopo.reward.ips{logs = lg, clip = 0.01}
  local function make()
    return fopo.trainer{policy = fopo.policy.linear{items = lg:items()}, data = lg, reward = rw,
                        gradient = fopo.gradient.snis{samples = 20}}
  end
  local whole, half, rest = make(), make(), make()
  whole:run{steps = 40, view = false}
  half:run{steps = 20, view = false}
  half:save(path)
  rest:resume(path)
  rest:run{steps = 20, view = false}
  local a, b = whole.policy:theta(), rest.policy:theta()
  for i = 1, 6 do lu.assertEquals(a:get(i, i), b:get(i, i)) end
  local other = fopo.trainer{policy = fopo.policy.linear{items = lg:items()}, data = lg,
                             reward = fopo.reward.ips{logs = lg, clip = 0.5},
                             gradient = fopo.gradient.snis{samples = 20}}
  lu.assertFalse((pcall(other.resume, other, path)))
  os.remove(path)
end

function TestTraining:test_a_million_actions()
  local l, w = fopo.data.synthetic_logs{n = 500, actions = 1000000, dim = 8}
  local rw = fopo.reward.doubly_robust{logs = l, model = "logistic", clip = 1e-4, dim = 8}
  local pi = fopo.policy.linear{items = l:items()}
  local t = fopo.trainer{policy = pi, data = l, reward = rw,
                         gradient = fopo.gradient.snis{samples = 100}}
  t:run{steps = 20, view = false}
  local x = w:contexts(16, 3)
  lu.assertTrue(w:value(pi, {contexts = x}) < w:best(x))
end

TestValid = {}

-- Early stopping by what the policy is worth on another log.
function TestValid:test_snips()
  local train, test = lg:split{train = 0.7}
  local function new(valid)
    return fopo.trainer{policy = fopo.policy.linear{items = lg:items(), theta = "identity"},
                        data = train, valid = valid, optim = fopo.optim.adam{lr = 0.05},
                        gradient = fopo.gradient.exact{}}
  end
  local t = new(test)
  t:run{steps = 100, every = 10, view = false, patience = 4}
  local best = -math.huge
  for _, valid in ipairs(t.history.valid) do best = math.max(best, valid) end
  local e = fopo.ope(t.policy, test, {estimators = {"snips"}, bootstrap = 0})
  lu.assertEquals(e.snips.value, best)
  lu.assertTrue(t.history.valid_index[1] ~= t.history.valid_index[1])
  local before = print
  print = function() end
  local figures = fopo.compare{t}[1]
  print = before
  lu.assertEquals({figures.best, figures.contexts, figures.low}, {best}) -- no share, no interval
  fails("cannot validate on a log", t.start, t, {steps = 1})
  fails("leave out index", fopo.trainer, {policy = t.policy, data = train, valid = test,
        gradient = fopo.gradient.exact{}, index = fopo.index.norm(lg:items())})
  fails("50", function()
    new((fopo.data.synthetic_logs{n = 100, actions = 50, dim = 6})):run{steps = 5, view = false}
  end)
end

os.exit(lu.LuaUnit.run(), true)
