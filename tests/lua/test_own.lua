-- Methods that are written in Lua beside those of C.
local fopo = require "fopo"
local lu = require "luaunit"

local function world()
  local d = fopo.data.synthetic{users = 300, items = 250, clusters = 8, seed = 4}
  local s = d:sessions{min_items = 10, valid = 0.2, test = 0.1, seed = 4}
  return s, fopo.embed.svd(s.train, {dim = 6})
end

-- Coefficients of snis, number by number; an item that is masked weighs 0.
local function snis(ids, F, log_q, rewards)
  local c = fopo.array.zeros(ids.rows, ids.cols)
  for b = 1, ids.rows do
    local w, W, mean = {}, 0, 0
    for s = 1, ids.cols do
      w[s] = math.exp(F:get(b, s) - log_q:get(b, s))
      W, mean = W + w[s], mean + w[s] * rewards:get(b, s)
    end
    for s = 1, ids.cols do c:set(b, s, w[s] / W * (rewards:get(b, s) - mean / W)) end
  end
  return c
end

-- A method of scripts/examples/methods.
local function example(name) return dofile("scripts/examples/methods/" .. name .. ".lua") end

local function trainer(s, items, g)
  return fopo.trainer{policy = fopo.policy.linear{items = items, seed = 2}, data = s.train,
                      gradient = g, valid = false}
end

local function custom(o)
  o.coefficients = o.coefficients or snis
  o.samples = o.samples or 60
  return fopo.gradient.custom(o)
end

local function fails(what, f, ...)
  local ok, why = pcall(f, ...)
  lu.assertFalse(ok)
  lu.assertStrContains(tostring(why), what)
  lu.assertNil(tostring(why):find("\n"))
end

local function differ(a, b) return a:copy():add(b, -1):norm() / math.max(a:norm(), 1e-30) end

TestGradient = {}

function TestGradient:test_example_of_snis()
  local s, items = world()
  local pi, rw = fopo.policy.linear{items = items}, fopo.reward.hits(s.train)
  local q = fopo.proposal.mixture{k = 9, epsilon = 0.3}
  local G = fopo.gradient.snis{proposal = q, samples = 60}:compute(pi, s.train, {3, 1}, rw)
  lu.assertTrue(differ(G, example("snis")(q, 60):compute(pi, s.train, {3, 1}, rw)) < 1e-6)
end

-- The same draws, so the same gradient and statistics as in C: of theta, of a network, of items,
-- with masks and with candidates.
function TestGradient:test_snis_is_that_of_c()
  local s, items = world()
  local rw = fopo.reward.hits(s.train)
  for _, pi in ipairs{fopo.policy.linear{items = items, seen = "keep"},
                      fopo.policy.linear{items = items, seen = "mask"},
                      fopo.policy.linear{items = items, rows = "bfloat16"},
                      fopo.policy.mlp{items = items, hidden = {7}},
                      fopo.policy.linear{items = items, train_items = true}} do
    for _, q in ipairs{fopo.proposal.uniform(),
                       fopo.proposal.mixture{k = 9, epsilon = 0.3, draws = "stratified"}} do
      local G, of_c, ids, rows = fopo.gradient.snis{proposal = q, samples = 60}:compute(
        pi, s.train, {3, 1, 44}, rw, {seed = 5})
      local H, own, own_ids, own_rows = custom{draw = q}:compute(pi, s.train, {3, 1, 44}, rw,
                                                                 {seed = 5})
      lu.assertTrue(differ(G, H) < 1e-6)
      for _, name in ipairs{"reward", "ess", "max_weight", "head_mass"} do
        lu.assertAlmostEquals(own[name], of_c[name], 1e-5 * math.max(1, of_c[name]))
      end
      if rows then
        lu.assertEquals(own_ids:totable(), ids:totable())
        lu.assertTrue(differ(rows, own_rows) < 1e-6)
      end
    end
  end
end

-- The two others by their formulas, number by number, over one batch.
function TestGradient:test_other_examples_by_formula()
  local s, items = world()
  local pi, rw = fopo.policy.linear{items = items, seen = "keep"}, fopo.reward.hits(s.train)
  local function rows_of(ids, F, log_q, rewards, weight, worth)
    local c = {}
    for b = 1, ids.rows do
      local w, W, Z, mean = {}, 0, 0, 0
      for i = 1, ids.cols do Z = Z + math.exp(F:get(b, i) - log_q:get(b, i)) end
      for i = 1, ids.cols do
        w[i] = weight(math.exp(F:get(b, i) - log_q:get(b, i)) / Z, ids.cols)
        W = W + w[i]
      end
      local function r(i)
        return rewards:get(b, i) * worth(math.exp(F:get(b, i)) / (Z / ids.cols))
      end
      for i = 1, ids.cols do mean = mean + w[i] / W * r(i) end
      c[b] = {}
      for i = 1, ids.cols do c[b][i] = w[i] / W * (r(i) - mean) end
    end
    return c
  end
  local function plain(x) return x end
  for name, f in pairs{
    clipped_snis = {function(w, S) return math.min(w, S ^ -0.5) end, function() return 1 end},
    top_k = {plain, function(p) return 5 * (1 - math.min(p, 1)) ^ 4 end}} do
    local G = custom{samples = 80, coefficients = function(ids, F, log_q, rewards)
      return rows_of(ids, F, log_q, rewards, f[1], f[2])
    end}:compute(pi, s.train, nil, rw)
    local q = fopo.proposal.uniform()
    lu.assertTrue(differ(G, example(name)(q, 80):compute(pi, s.train, nil, rw)) < 1e-5)
    local of_snis = fopo.gradient.snis{samples = 80}:compute(pi, s.train, nil, rw)
    lu.assertTrue(differ(of_snis, G) > 0.01) -- it is another one
  end
end

-- The table of examples/methods: snis in Lua learns what snis in C does.
function TestGradient:test_comparison_of_the_examples()
  local first = 0
  while arg[first - 1] do first = first - 1 end
  local command = arg[first] .. " scripts/examples/methods/compare.lua steps=5 users=300 items=400"
  local f <close> = assert(io.popen(command))
  local table = f:read("a")
  local expected = {}
  for name, where, value in table:gmatch("([%w_]+) +(%u%w*) +([%d.]+)") do
    expected[name .. where] = tonumber(value)
  end
  lu.assertAlmostEquals(expected.snisLua, expected.snisC, 0.002)
  lu.assertTrue(expected.top_kLua > 0 and expected.clipped_snisLua > 0)
  lu.assertTrue(expected.two_stageLua > 0)
end

-- Any coefficients: the gradient is that of the sum over the draws of c F, by differences.
function TestGradient:test_scatter_against_differences()
  local s, items = world()
  local rw, rows = fopo.reward.hits(s.train), {2, 7}
  local pi = fopo.policy.linear{items = items, seen = "keep", temperature = 0.7}
  local function c_of(b, i) return math.sin(3 * b + i) end
  local drawn, scores
  local g = custom{samples = 20, coefficients = function(ids, F)
    local c = {}
    drawn, scores = ids:copy(), F:copy()
    for b = 1, ids.rows do
      c[b] = {}
      for i = 1, ids.cols do c[b][i] = c_of(b, i) end
    end
    return c
  end}
  local function value(theta) -- mean over contexts of sum_s c_s F_s
    pi:set_theta(theta)
    g:compute(pi, s.train, rows, rw)
    local sum = 0
    for b = 1, #rows do
      for i = 1, 20 do sum = sum + c_of(b, i) * scores:get(b, i) end
    end
    return sum / #rows, drawn:totable()
  end
  local theta = pi:theta()
  local _, ids = value(theta)
  local G = g:compute(pi, s.train, rows, rw)
  for _, at in ipairs{{1, 1}, {2, 5}, {6, 3}} do
    local up, down = theta:copy(), theta:copy()
    up:set(at[1], at[2], theta:get(at[1], at[2]) + 0.5)   -- F is linear in theta
    down:set(at[1], at[2], theta:get(at[1], at[2]) - 0.5)
    local high, same = value(up)
    lu.assertEquals(same, ids)
    lu.assertAlmostEquals(G:get(at[1], at[2]), high - value(down), 1e-4)
  end
end

-- An item of X scores -inf, and whatever its coefficient is, it moves nothing.
function TestGradient:test_masked_items_have_no_coefficient()
  local s, items = world()
  local pi, masked = fopo.policy.linear{items = items, seen = "mask"}, 0
  local function with(value)
    return custom{samples = 200, coefficients = function(_, F)
      local c = fopo.array.zeros(F.rows, F.cols)
      for b = 1, F.rows do
        for i = 1, F.cols do
          local hidden = F:get(b, i) == -math.huge
          masked = masked + (hidden and 1 or 0)
          c:set(b, i, hidden and value or 1 / F.cols)
        end
      end
      return c
    end}:compute(pi, s.train, {1, 2, 3}, fopo.reward.hits(s.train))
  end
  lu.assertEquals(differ(with(0 / 0), with(5)), 0)
  lu.assertTrue(masked > 0)
end

-- What fopo.check says of it: snis is right; without q it is not.
function TestGradient:test_check_finds_what_is_wrong()
  local function report(f)
    local q = fopo.proposal.mixture{k = 20, epsilon = 0.5}
    return fopo.check{gradient = custom{draw = q, coefficients = f}, contexts = 2, samples = 100,
                      repetitions = 30, print = false}
  end
  lu.assertTrue(report(snis).ok)
  local r = report(function(ids, F, log_q, rewards)
    return snis(ids, F, log_q:scale(0), rewards)
  end)
  lu.assertStrContains(r.first, "mean of custom, iid, K 20")
end

-- Another objective: the gradient is compared with differences of the value that it says.
function TestGradient:test_check_of_a_value_of_its_own()
  local s, items = world()
  local pi = fopo.policy.linear{items = items}
  local theta = pi:theta()
  local q = fopo.proposal.mixture{k = 20, epsilon = 0.5}
  local function report(g)
    return fopo.check{data = s.train, policy = pi, gradient = g, contexts = 2, samples = 100,
                      repetitions = 30, print = false}
  end
  local function log_reward(baseline)
    return custom{draw = q, value = "own", coefficients = function(_, F, log_q, rewards)
      local w = (F - log_q):softmax("rows")
      local mean = (w * rewards):sum("rows") + 0.01
      return w * (rewards + 0.01 - mean * baseline) / mean, mean:log()
    end}
  end
  lu.assertTrue(report(log_reward(1)).ok)
  lu.assertEquals(report(log_reward(0)).first, "value of custom")
  lu.assertTrue(report(example("top_k")(q, 100)).ok)
  lu.assertEquals(differ(theta, pi:theta()), 0) -- it was moved, and put back
  local _, stats = log_reward(1):compute(pi, s.train, {1}, fopo.reward.hits(s.train))
  lu.assertTrue(stats.reward < 0)
  local t = trainer(s, items, custom{value = "own"})
  fails("second, the value gave nil; an array [32, 1]", t.run, t, {steps = 1, view = false})
end

function TestGradient:test_trains_races_and_is_described()
  local s, items = world()
  local runs = fopo.experiment.race{split = s, items = items, steps = 6, methods = {
    {"own", custom{}}, {"snis", fopo.gradient.snis{samples = 60}}}}
  local own, of_c = runs[#runs - 1], runs[#runs]
  lu.assertTrue(differ(of_c.policy:theta(), own.policy:theta()) < 1e-4)
  lu.assertStrContains(tostring(own.trainer), "gradient custom: S 60, proposal uniform")
  lu.assertStrContains(fopo.view.text(own.trainer), "reward")
  own.trainer.samples = 30
  own.trainer:run{steps = 1, view = false}
  lu.assertEquals(own.trainer.step, 7)
  local found = fopo.tune{data = s.train, valid = s.valid, items = items, trials = 2, steps = 8,
                          view = false, gradient = function() return custom{} end}
  lu.assertNil(found.trials[1].failed)
  local folder = os.tmpname()
  os.remove(folder)
  trainer(s, items, custom{}):run{steps = 2, view = false, log = folder}
  local f <close> = assert(io.open(folder .. "/config.json"))
  lu.assertStrContains(f:read("a"), "gradient custom")
  os.execute("rm -r " .. folder)
end

-- Both functions of one batch are called, the reward's first.
function TestGradient:test_with_a_reward_in_lua()
  local s, items = world()
  local pi, order = fopo.policy.linear{items = items}, {}
  local rw = fopo.reward.custom(function(ids)
    order[#order + 1] = "reward"
    local r = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do for i = 1, ids.cols do r:set(b, i, ids:get(b, i) % 3) end end
    return r
  end)
  local G = custom{coefficients = function(...)
    order[#order + 1] = "coefficients"
    return snis(...)
  end}:compute(pi, s.train, {1, 2}, rw)
  lu.assertEquals(order, {"reward", "coefficients"})
  local of_c = fopo.gradient.snis{samples = 60}:compute(pi, s.train, {1, 2}, rw)
  lu.assertTrue(differ(of_c, G) < 1e-4) -- F - log q is rounded to float32 in C
end

function TestGradient:test_errors_say_the_function_and_shapes()
  local s, items = world()
  local bad, calls = nil, 0
  local t = trainer(s, items, custom{coefficients = function(...)
    calls = calls + 1
    return (calls > 2 and bad or snis)(...)
  end})
  local function run() t:run{steps = 5, view = false} end
  bad = function(ids) return ids.nothing.at_all end
  fails("; in coefficients of gradient.custom, given ids [32, 60], F [32, 60], log_q [32, 60], "
        .. "rewards [32, 60]", run)
  lu.assertEquals(t.step, 2)
  bad = function(_, F) return F:matmul(F, true, false) end
  fails("coefficients of gradient.custom gave an array [60, 60]; an array [32, 60] or a table of "
        .. "32 rows with 60 numbers is needed", run)
  bad = function() end
  fails("coefficients of gradient.custom gave nil", run)
  bad = function(_, F) return F:scale(1e30):scale(1e30) end
  fails("coefficients must be finite", run)
  bad = snis -- nothing is lost: the same as a run that never failed
  t:run{steps = 3, view = false}
  local whole = trainer(s, items, custom{})
  whole:run{steps = 5, view = false}
  lu.assertEquals(t.step, 5)
  lu.assertEquals(differ(t.policy:theta(), whole.policy:theta()), 0)
end

function TestGradient:test_refused_before_the_first_step()
  local s, items = world()
  fails("needs the option coefficients", fopo.gradient.custom, {})
  fails("coefficients", fopo.gradient.custom, {coefficients = 3})
  local t = trainer(s, items, custom{})
  fails("a job cannot call the Lua function of a custom gradient or proposal; use t:run", t.start,
        t, {steps = 1})
  fails("gradient custom draws by dense scores, which policy neighbours has not",
        fopo.trainer, {policy = fopo.policy.neighbours{data = s.train, start = "cosine"},
                       data = s.train, gradient = custom{}})
  fails("custom estimates the gradient of the expected reward alone", fopo.trainer,
        {policy = fopo.policy.linear{items = items}, data = s.train,
         gradient = custom{objective = "likelihood"}})
end

-- A checkpoint names the method, and goes on with the function that is given again.
function TestGradient:test_resume()
  local s, items = world()
  local path = os.tmpname() .. ".npz"
  local t = trainer(s, items, custom{})
  t:run{steps = 4, view = false}
  t:save(path)
  t:run{steps = 3, view = false}
  local again = trainer(s, items, custom{}):resume(path)
  again:run{steps = 3, view = false}
  lu.assertEquals(differ(t.policy:theta(), again.policy:theta()), 0)
  local other = trainer(s, items, fopo.gradient.snis{samples = 60})
  fails("its gradient is \"custom\", here it is \"snis\"; the method is the user's own, which no "
        .. "file holds: give its function again", other.resume, other, path)
  os.remove(path)
end

TestProposal = {}

-- Draws that C made, made again by a function: the gradient has the same bits.
function TestProposal:test_same_draws_same_bits()
  local s, items = world()
  local pi, drawn = fopo.policy.linear{items = items}, nil
  local rw = fopo.reward.custom(function(ids)
    drawn = ids:copy()
    return fopo.array.zeros(ids.rows, ids.cols) + fopo.array.from(drawn:totable()) / 100
  end)
  local rows = {9, 2, 31}
  local at = {seed = 8, step = 3}
  local of_c = fopo.gradient.snis{samples = 40}:compute(pi, s.train, rows, rw, at)
  local first = drawn
  local q = fopo.proposal.custom{draws = function(Q, contexts, S, seed, step)
    lu.assertEquals({Q.rows, Q.cols, S, seed, step}, {3, 6, 40, 8, 3})
    lu.assertEquals(contexts:totable(), {rows})
    lu.assertTrue(Q:near(pi:queries(s.train:contexts(pi):rows_of(rows)), 1e-5))
    return first:totable(), fopo.array.zeros(3, 40) - math.log(items.rows)
  end}
  for _, g in ipairs{fopo.gradient.snis{proposal = q, samples = 40}, custom{draw = q, samples = 40},
                     fopo.gradient.snis{proposal = q, samples = 40}:copy(q)} do
    local G = g:compute(pi, s.train, rows, rw, at)
    lu.assertEquals(drawn:totable(), first:totable())
    lu.assertTrue(differ(of_c, G) < (g.kind == "snis" and 1e-9 or 1e-4))
  end
end

-- The example is a density: it says rightly how often it draws.
function TestProposal:test_two_stages()
  local s, items = world()
  local q, pi = example("two_stage")(items), fopo.policy.linear{items = items}
  local S, counts, chance = 40000, {}, {}
  local ids, log_q = q:sample(pi, s.train:contexts(pi):rows_of{1}, S, {seed = 3})
  for i = 1, S do
    local a = ids:get(1, i)
    counts[a], chance[a] = (counts[a] or 0) + 1, math.exp(log_q:get(1, i))
  end
  local sum, chi2, n = 0, 0, 0
  for a, count in pairs(counts) do
    sum, n = sum + chance[a], n + 1
    chi2 = chi2 + (count - S * chance[a]) ^ 2 / (S * chance[a])
  end
  lu.assertAlmostEquals(sum, 1, 0.02) -- of the items that were drawn, nearly all
  lu.assertTrue((chi2 - n) / math.sqrt(2 * n) < 5)
  lu.assertTrue(fopo.check{data = s.train, policy = pi, print = false, contexts = 2, samples = 100,
                           gradient = fopo.gradient.snis{proposal = q}, repetitions = 30}.ok)
end

function TestProposal:test_refusals_and_resume()
  local s, items = world()
  local function of(f)
    return fopo.gradient.snis{proposal = fopo.proposal.custom{draws = f}, samples = 20}
  end
  local function good(Q, _, S, seed, step)
    local ids = (fopo.array.zeros(Q.rows, items.rows) + 1):draw(S, seed, step)
    return ids, fopo.array.zeros(Q.rows, S) - math.log(items.rows)
  end
  local function run(f) return trainer(s, items, of(f)):run{steps = 1, view = false} end
  fails("in draws of proposal.custom, given Q [32, 6], rows [1, 32], S 20, seed 1, step 0", run,
        function(Q) return Q.x.y end)
  fails("the ids of proposal.custom are [2, 1]; [32, 20] are needed", run, function(Q)
    return {{1}, {2}}, fopo.array.zeros(Q.rows, 20)
  end)
  fails("the log q of proposal.custom gave nil", run, function() return {{1}} end)
  fails("is item 251 with the log density 0; draws are of the items 1 to 250", run, function(Q)
    local row = {}
    for i = 1, 20 do row[i] = 251 end
    local ids = {}
    for b = 1, Q.rows do ids[b] = row end
    return ids, fopo.array.zeros(Q.rows, 20)
  end)
  fails("nan; draws are of the items 1 to 250", run, function(...)
    local ids, log_q = good(...)
    return ids, log_q * (0 / 0)
  end)
  local t = trainer(s, items, of(good))
  fails("a job cannot call the Lua function of a custom gradient or proposal", t.start, t,
        {steps = 1})
  local lg = fopo.data.synthetic_logs{n = 30, actions = 20, dim = 4}
  fails("a custom proposal draws for gradients alone", fopo.ope,
        fopo.policy.linear{items = lg:items()}, lg, {samples = 5, proposal = t.gradient.proposal})
  local path = os.tmpname() .. ".npz"
  t:run{steps = 2, view = false}
  t:save(path)
  t:run{steps = 2, view = false}
  local again = trainer(s, items, of(good)):resume(path)
  again:run{steps = 2, view = false}
  lu.assertEquals(differ(t.policy:theta(), again.policy:theta()), 0)
  local other = trainer(s, items, fopo.gradient.snis{samples = 20})
  fails("no file holds its function: give it again, as fopo.proposal.custom", other.resume, other,
        path)
  os.remove(path)
end

TestPolicy = {}

-- The linear policy as functions; o: other options.
local function linear(items, o)
  local given = {
    items = items, parameters = {theta = fopo.array.eye(items.cols)},
    queries = function(x, p) return x:matmul(p.theta) end,
    backward = function(x, V) return {theta = x:matmul(V, true)} end,
  }
  for name, value in pairs(o or {}) do given[name] = value end
  return fopo.policy.custom(given)
end

function TestPolicy:test_races_beside_those_of_c()
  local s, items = world()
  local methods = {{"own", fopo.gradient.exact{}, policy = function()
    return linear(items, {data = s.train})
  end}, {"c", fopo.gradient.exact{}}}
  local runs = fopo.experiment.race{split = s, items = items, steps = 5, methods = methods}
  local own, of_c = runs[#runs - 1], runs[#runs]
  lu.assertEquals(own.policy.kind, "custom")
  lu.assertEquals(differ(of_c.policy:theta(), own.policy:theta():reshape(6, 6)), 0)
  methods[1].policy = 3
  fails("policy of method own is 3, not a function", fopo.experiment.race,
        {split = s, items = items, steps = 5, methods = methods})
end

-- The same bits as in C: gradients, a run with validation and a log, measures, recommendations.
function TestPolicy:test_linear_is_that_of_c()
  local s, items = world()
  local rw, options = fopo.reward.hits(s.train), {{}, {seen = "keep", rows = "bfloat16"},
                                                  {train_items = true}, {temperature = 0.5}}
  for _, o in ipairs(options) do
    local own = linear(items, o)
    o.items, o.theta = items, "identity"
    local of_c = fopo.policy.linear(o)
    for _, g in ipairs{fopo.gradient.exact{}, fopo.gradient.snis{samples = 60},
                       fopo.gradient.snis{proposal = fopo.proposal.mixture{k = 9}},
                       fopo.gradient.head_tail{head = 30, tail = 50}} do
      local G, stats, _, rows = g:compute(own, s.train, {3, 1, 44}, rw)
      local H, of_stats, _, of_rows = g:compute(of_c, s.train, {3, 1, 44}, rw)
      lu.assertEquals(differ(H, G:reshape(6, 6)), 0)
      lu.assertEquals(stats.reward, of_stats.reward)
      lu.assertEquals(rows and rows:totable(), of_rows and of_rows:totable())
    end
    local runs = {}
    for i, pi in ipairs{own, of_c} do
      runs[i] = fopo.trainer{policy = pi, data = s.train, valid = s.valid,
                             gradient = fopo.gradient.snis{samples = 60}}
      runs[i]:run{steps = 12, every = 4, view = false}
    end
    lu.assertEquals(runs[1].history.valid, runs[2].history.valid)
    lu.assertEquals(differ(of_c:theta(), own:theta():reshape(6, 6)), 0)
    local a, b = fopo.evaluate(own, s.test), fopo.evaluate(of_c, s.test)
    lu.assertEquals({a.reward, a.expected}, {b.reward, b.expected})
    lu.assertEquals(own:best(s.test, {k = 4}):totable(), of_c:best(s.test, {k = 4}):totable())
    lu.assertEquals(own:recommend({items = {3, 9}}, 5)[5].item,
                    of_c:recommend({items = {3, 9}}, 5)[5].item)
  end
end

-- The policy with item biases of examples/methods: its scores by the formula, and the proof of its
-- gradient, that of its items too.
function TestPolicy:test_item_biases()
  local s, items = world()
  local pi = example("biases")(items, s.train)
  local x, b = s.train:contexts(items, {scale = "unit"}), pi:items():columns(7)
  local count = fopo.baseline.popular{data = s.train}
  pi:set_parameters{theta = fopo.array.randn(6, 6, 3), c = fopo.array.zeros(1, 1) + 0.4}
  local f = (x:matmul(pi:parameters().theta):matmul(items, false, true) + (b * 0.4):transpose())
            / pi.temperature
  local scores = pi:queries(s.train:contexts(pi:items())):matmul(pi:items(), false, true)
  lu.assertTrue(differ(f, scores) < 1e-5)
  local most, best = count:best(s.train, {k = 1, exclude = "none"}), b:argmax()
  lu.assertEquals(b:get(most:get(1, 1), 1), b:get(best, 1))
  local o = {data = s.train, contexts = 2, samples = 100, repetitions = 30, print = false}
  for _, learn in ipairs{{"theta", "c"}, {"theta", "c", "items"}} do
    o.policy = example("biases")(items, s.train, {learn = learn})
    o.gradient = fopo.gradient.snis{}
    local r = fopo.check(o)
    lu.assertTrue(r.ok, r.first)
  end
end

-- A network as functions, with the parameters of one in C.
function TestPolicy:test_network_is_that_of_c()
  local s, items = world()
  local of_c, rw = fopo.policy.mlp{items = items, hidden = {7}, seen = "keep"},
                   fopo.reward.hits(s.train)
  local parameters = of_c:parameters()
  for name, value in pairs(parameters) do
    parameters[name] = fopo.array.randn(value.rows, value.cols, #name)
  end
  of_c:set_parameters(parameters)
  local function hidden(x, p)
    local e = ((x:matmul(p.W1) + p.b1) * 2):exp()
    return (e - 1) / (e + 1) -- tanh
  end
  local function own(slope)
    return fopo.policy.custom{
      items = items, parameters = parameters, seen = "keep", learn = {"W1", "b1", "W2"},
      queries = function(x, p) return hidden(x, p):matmul(p.W2) + p.b2 end,
      backward = function(x, V, p)
        local y = hidden(x, p)
        local back = V:matmul(p.W2, false, true) * (1 - y * y) * slope
        return {W1 = x:matmul(back, true), b1 = back:sum("columns"), W2 = y:matmul(V, true),
                b2 = V:sum("columns")}
      end}
  end
  local pi, g = own(1), fopo.gradient.exact{}
  local G, H = g:compute(pi, s.train, {3, 1, 44}, rw), g:compute(of_c, s.train, {3, 1, 44}, rw)
  local at, size = {W1 = 1, b1 = 43, W2 = 50, b2 = 92}, {W1 = 42, b1 = 7, W2 = 42, b2 = 6}
  local first = 1
  for _, name in ipairs{"W1", "W2", "b1", "b2"} do -- theta is in the order of the names
    local a = G:columns(first, first + size[name] - 1)
    lu.assertTrue(differ(H:columns(at[name], at[name] + size[name] - 1), a) < 1e-4)
    first = first + size[name]
  end
  lu.assertEquals(pi.fixed, {"b2"})
  local function report(slope)
    return fopo.check{policy = own(slope), data = s.train, gradient = g, contexts = 2,
                      repetitions = 30, print = false}
  end
  local r = report(1)
  lu.assertTrue(r.ok, r.first)
  lu.assertEquals(report(1.1).first, "exact gradient")
  local t = fopo.trainer{policy = pi, data = s.train, valid = false, gradient = g}
  t:run{steps = 2, view = false}
  lu.assertEquals(differ(pi:parameters().b2, parameters.b2), 0)
  lu.assertTrue(differ(pi:parameters().W1, parameters.W1) > 0)
  lu.assertStrContains(tostring(pi),
                       "policy custom: 250 items, W1 [6, 7], W2 [7, 6], b1 [1, 7], b2 [1, 6], "
                       .. "97 parameters, b2 fixed, temperature")
end

-- Files and checkpoints hold the parameters; the functions are given again.
function TestPolicy:test_saved_loaded_resumed()
  local s, items = world()
  local path, pi = os.tmpname() .. ".npz", linear(items, {learn = {"theta"}})
  local functions = {queries = function(x, p) return x:matmul(p.theta) end,
                     backward = function() end}
  pi:set_theta(fopo.array.randn(1, 36, 4))
  pi:save(path)
  local again = fopo.policy.load(path, functions)
  lu.assertEquals(differ(pi:theta(), again:theta()), 0)
  lu.assertEquals(tostring(again):match("^[^\n]*"), tostring(pi))
  lu.assertEquals(fopo.evaluate(again, s.test).expected, fopo.evaluate(pi, s.test).expected)
  fails("its policy is the user's own, whose functions no file holds; give queries and backward",
        fopo.policy.load, path)
  fopo.policy.linear{items = items}:save(path)
  fails("its policy is linear, which takes no functions", fopo.policy.load, path, functions)
  local function run(policy)
    return fopo.trainer{policy = policy, data = s.train, valid = false,
                        gradient = fopo.gradient.snis{samples = 60}}
  end
  local t = run(linear(items))
  t:run{steps = 3, view = false}
  t:save(path)
  t:run{steps = 3, view = false}
  local other = run(linear(items)):resume(path)
  other:run{steps = 3, view = false}
  lu.assertEquals(differ(t.policy:theta(), other.policy:theta()), 0)
  local of_c = run(fopo.policy.linear{items = items})
  fails("policy", of_c.resume, of_c, path)
  os.remove(path)
end

function TestPolicy:test_tunes_judges_logs_and_is_described()
  local s, items = world()
  local found = fopo.tune{data = s.train, valid = s.valid, items = items, trials = 2, steps = 8,
                          view = false, over = {lr = {1e-3, 1e-2}},
                          policy = function() return linear(items) end}
  lu.assertNil(found.trials[1].failed)
  local lg = fopo.data.synthetic_logs{n = 200, actions = 20, dim = 4}
  local own = linear(lg:items(), {parameters = {theta = fopo.array.eye(4)}})
  local e, of_c = fopo.ope(own, lg), fopo.ope(fopo.policy.linear{items = lg:items(),
                                                                theta = "identity"}, lg)
  lu.assertEquals(e.ips.value, of_c.ips.value)
  local t = fopo.trainer{policy = linear(items), data = s.train, valid = false,
                         gradient = fopo.gradient.custom{coefficients = snis, samples = 60}}
  t:run{steps = 2, view = false}
  lu.assertStrContains(fopo.view.text(t), "reward")
end

-- What a function of it does is its own: errors say it, objects that C uses are safe.
function TestPolicy:test_errors()
  local s, items = world()
  local calls, bad = 0, nil
  local pi = linear(items, {queries = function(x, p)
    calls = calls + 1
    return (calls > 2 and bad or function() return x:matmul(p.theta) end)(x, p)
  end})
  local t = fopo.trainer{policy = pi, data = s.train, valid = false,
                         gradient = fopo.gradient.snis{samples = 60}}
  local function run() t:run{steps = 5, view = false} end
  bad = function(x) return x.nothing.at_all end
  fails("in queries of policy.custom, given x [32, 6], p table", run)
  lu.assertEquals(t.step, 2)
  bad = function(x) return x:columns(2) end
  fails("queries of policy.custom gave an array [32, 5]; an array [32, 6] or a table of 32 rows "
        .. "with 6 numbers is needed", run)
  for _, object in ipairs{pi, s.train, t} do
    bad = function() return object.step end
    fails("a function of a custom policy or objective computes with arrays alone", run)
  end
  bad = function() coroutine.yield() end
  fails("attempt to yield", coroutine.wrap(run))
  local kept = items:copy()
  bad = function(x, p) -- what C works on is not freed
    local y <close> = x:matmul(p.theta)
    items:close()
    collectgarbage()
    return y
  end
  run()
  lu.assertEquals(t.step, 7)
  local whole = fopo.trainer{policy = linear(kept, {data = s.train}), data = s.train, valid = false,
                             gradient = fopo.gradient.snis{samples = 60}}
  whole:run{steps = 7, view = false}
  lu.assertEquals(differ(whole.policy:theta(), t.policy:theta()), 0)
  local function backward(f)
    return fopo.gradient.exact{}:compute(linear(kept, {backward = f, data = s.train}), s.train,
                                         {1}, fopo.reward.hits(s.train))
  end
  fails("backward of policy.custom gave 3; a table of arrays, one for each of theta", backward,
        function() return 3 end)
  fails("backward of policy.custom, for theta, gave nil; an array [6, 6]", backward,
        function() return {} end)
end

function TestPolicy:test_refusals()
  local s, items = world()
  local pi = linear(items)
  local t = fopo.trainer{policy = pi, data = s.train, valid = false}
  fails("a job cannot call the Lua function of a custom policy; use t:run", t.start, t,
        {steps = 1})
  fails("dense is a policy of kind custom; use linear or mlp", fopo.policy.neighbours,
        {data = s.train, start = "cosine", dense = pi})
  fails("needs the option queries", fopo.policy.custom, {items = items, parameters = {},
                                                         backward = print})
  for what, parameters in pairs{
    ["a custom policy has no parameters"] = {}, ["a parameter cannot be called \"items\""] =
      {items = items}, ["parameters are arrays by name"] = {W = 3},
    ["cannot be called \"a b\""] = {["a b"] = items}} do
    fails(what, linear, items, {parameters = parameters})
  end
  fails("the parameters has", linear, items, {parameters = {W = items * (0 / 0)}})
  fails("there is no block \"W\" to learn; use some of theta, items", linear, items,
        {learn = {"W"}})
end

TestObjective = {}

local function smoothed(slope)
  return fopo.objective.custom{title = "own", value = function(R)
    return (R + 1):log(), (R + 1) ^ -1 * (slope or 1)
  end}
end

-- log(1 + R) as a function is that of C: gradients, values, a run and what it is validated by.
function TestObjective:test_smoothed_is_that_of_c()
  local s, items = world()
  local rw, pi = fopo.reward.hits(s.train), fopo.policy.linear{items = items}
  for kind, all in pairs{exact = {{}}, snis = {{samples = 60}},
                         head_tail = {{head = 40, tail = 50}, {k = 40, tail = 50}}} do
    for _, o in ipairs(all) do
      o.objective = "smoothed"
      local G, of_c = fopo.gradient[kind](o):compute(pi, s.train, {3, 1, 44}, rw)
      o.objective = smoothed()
      local g = fopo.gradient[kind](o)
      for _, same in ipairs{g, g:copy(g.proposal)} do
        local H, own = same:compute(pi, s.train, {3, 1, 44}, rw)
        lu.assertTrue(differ(G, H) < 1e-6)
        lu.assertAlmostEquals(own.reward, of_c.reward, 1e-6)
      end
    end
  end
  local runs = {}
  for i, objective in ipairs{smoothed(), "smoothed"} do
    runs[i] = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train,
                           valid = s.valid, objective = objective}
    runs[i]:run{steps = 20, every = 5, view = false, best_by = "expected"}
  end
  local own, of_c = runs[1].history, runs[2].history
  for i = 1, 4 do
    lu.assertAlmostEquals(own.reward[i], of_c.reward[i], 1e-5)
    lu.assertAlmostEquals(own.valid_expected[i], of_c.valid_expected[i], 1e-5)
  end
  lu.assertTrue(differ(runs[2].policy:theta(), runs[1].policy:theta()) < 1e-4)
  lu.assertStrContains(tostring(runs[1]), "gradient head and tail of the own: K 250")
  lu.assertStrContains(tostring(runs[1]), (" own %.4f"):format(own.valid_expected[4]))
end

function TestObjective:test_check_proves_the_slope()
  local s, items = world()
  local function report(objective)
    return fopo.check{data = s.train, policy = fopo.policy.linear{items = items}, contexts = 2,
                      gradient = fopo.gradient.snis{objective = objective}, samples = 100,
                      repetitions = 30, print = false}
  end
  local right = report(smoothed())
  lu.assertTrue(right.ok, right.first)
  lu.assertEquals(right.rows[2].name, "own")
  lu.assertEquals(report(smoothed(1.01)).first, "exact gradient")
  local value, slope = smoothed():values(fopo.array.from{{0.5}, {2}})
  lu.assertTrue(value:near(fopo.array.from{{math.log(1.5)}, {math.log(3)}}, 1e-6))
  lu.assertTrue(slope:near(fopo.array.from{{1 / 1.5}, {1 / 3}}, 1e-6))
end

function TestObjective:test_errors_and_refusals()
  local s, items = world()
  local calls, bad = 0, nil
  local own = fopo.objective.custom{value = function(R)
    calls = calls + 1
    return (calls > 2 and bad or function() return R, R * 0 + 1 end)(R)
  end}
  local g = fopo.gradient.snis{objective = own, samples = 60}
  local t = trainer(s, items, g)
  local function run() t:run{steps = 5, view = false} end
  bad = function(R) return R.x.y end
  fails("in objective.custom, given R [32, 1]", run)
  lu.assertEquals(t.step, 2)
  bad = function(R) return R end
  fails("objective.custom, second, the slope gave nil; an array [32, 1]", run)
  bad = function(R) return R, R * (0 / 0) end
  fails("with the slope", run)
  bad = function() return t.step end
  fails("a function of a custom policy or objective computes with arrays alone", run)
  bad = function(R) return R, R * 0 + 1 end -- the expected reward itself: nothing was lost
  t:run{steps = 2, view = false}
  local of_c = trainer(s, items, fopo.gradient.snis{samples = 60})
  of_c:run{steps = 4, view = false}
  lu.assertTrue(differ(of_c.policy:theta(), t.policy:theta()) < 1e-6)
  fails("a job cannot call the Lua function of a custom objective; use t:run", t.start, t,
        {steps = 1})
  local function with(policy, gradient)
    return function()
      fopo.trainer{policy = policy, data = s.train, gradient = gradient, valid = false}
    end
  end
  fails("the value of your own cannot move items", with(
    fopo.policy.linear{items = items, train_items = true}, g))
  fails("sparse cannot raise an objective of fopo.objective.custom", with(
    fopo.policy.neighbours{data = s.train, start = "cosine"},
    fopo.gradient.sparse{objective = own}))
  fails("custom estimates the gradient of the expected reward alone", with(
    fopo.policy.linear{items = items}, custom{objective = own}))
  fails("objective", fopo.gradient.snis, {objective = "custom"})
  fails("give it to the gradient", fopo.trainer,
        {policy = fopo.policy.linear{items = items}, data = s.train, gradient = g,
         objective = own})
end

TestBaseline = {}

-- The scores of an untrained policy as a function: the lists and measures are those of the policy.
function TestBaseline:test_is_evaluated_as_others_are()
  local s, items = world()
  local own = fopo.baseline.custom{scores = function(block)
    lu.assertEquals(block:y(1).cols, 0) -- what is to be found is not shown
    return block:contexts(items):matmul(items, false, true)
  end}
  local identity = fopo.baseline.identity{items = items, contexts = "mean", temperature = 1,
                                           seen = "keep"}
  for _, exclude in ipairs{"seen", "none"} do
    local o = {k = {1, 5}, exclude = exclude}
    local a, b = fopo.evaluate(own, s.test, o), fopo.evaluate(identity, s.test, o)
    for _, name in ipairs{"recall", "ndcg", "seen", "gini"} do
      lu.assertEquals(a[name], b[name])
    end
    lu.assertNil(a.expected)
  end
  lu.assertEquals(own.kind, "custom")
  local runs = {{name = "own", baseline = own, evaluation = fopo.evaluate(own, s.test)}}
  lu.assertStrContains(tostring(fopo.report.runs(runs)), "own")
end

-- Blocks follow one another over all sessions; a score of -inf is never recommended.
function TestBaseline:test_lists_block_by_block()
  local s = fopo.data.synthetic{users = 1800, items = 60, clusters = 4, seed = 1}:sessions{
    min_items = 10}
  local sizes = {}
  local own = fopo.baseline.custom{scores = function(block)
    sizes[#sizes + 1] = block.n
    local scores = {}
    for i = 1, block.n do -- first the item behind the first of X, which is in no block twice
      local x = block:x(i):get(1, 1)
      scores[i] = {}
      for a = 1, block.n_items do
        scores[i][a] = a % 7 == 0 and -math.huge or -((a - x) % block.n_items)
      end
    end
    return scores
  end}
  local ids = own:best(s.train, {k = 2, exclude = "none"})
  lu.assertEquals(sizes, {1024, s.train.n - 1024})
  for i = 1, s.train.n do
    local wanted, a = {}, s.train:x(i):get(1, 1)
    while #wanted < 2 do
      if a % 7 ~= 0 then wanted[#wanted + 1] = a end
      a = a % 60 + 1
    end
    lu.assertEquals({ids:get(i, 1), ids:get(i, 2)}, wanted)
  end
end

function TestBaseline:test_refusals()
  local s = world()
  local function of(f) return fopo.baseline.custom{scores = f} end
  local n, P = s.test.n, s.test.n_items
  fails("needs the option scores", fopo.baseline.custom, {})
  fails(("in scores of baseline.custom, given block of %d sessions"):format(n), fopo.evaluate,
        of(function(block) return block.x.y.z end), s.test)
  fails(("scores of baseline.custom gave an array [3, 4]; an array [%d, %d]"):format(n, P),
        fopo.evaluate, of(function() return fopo.array.zeros(3, 4) end), s.test)
  fails("the score of item 1 for session 1 is nan", fopo.evaluate, of(function(block)
    return fopo.array.zeros(block.n, P):scale(0 / 0)
  end), s.test)
  local ones = of(function(block) return fopo.array.zeros(block.n, P) end)
  fails("has learnt from no sessions", ones.best, ones, s.test, {left_out = true})
  fails("has no weights from item to item", fopo.policy.neighbours, {data = s.train, start = ones})
end

os.exit(lu.LuaUnit.run("-o", "text"), true)
