-- Ranges of arguments. Users type through the declarations of lua/fopo, which must refuse what they
-- say they refuse. The C core must be safe for any caller: native functions are called with bad
-- values in place of each option, and may refuse or accept them, but must not crash.
local lu = require "luaunit"
local fopo = require "fopo"
local native = require "fopo.native"
local define = require "fopo.base.define"

fopo.threads(1)
local s = fopo.data.synthetic{users = 60, items = 50, clusters = 4, mean_items = 12, seed = 1}
          :sessions{min_items = 5, seed = 1}
local items = fopo.embed.svd(s.train, {dim = 4})
local x = s.train:contexts(items)
local index = native.index_exact(items)
local logs = fopo.data.synthetic_logs{n = 50, actions = 10, dim = 3, seed = 1}

local bad = {-1, 0, 1.5, -0.5, 0 / 0, 1 / 0, -1 / 0, 2.0 ^ 63, 1e300, math.mininteger, "x", "",
             {}, {{}}, true, print, items}

-- Each option of a good call replaced by each bad value, and left out. Objects that were made are
-- used and dropped.
local function abuse(name, good, make, use)
  local ok, why = pcall(make, good)
  lu.assertTrue(ok, name .. ": " .. tostring(why))
  if use then use(why) end
  for option in pairs(good) do
    for i = 0, #bad do
      local options = {}
      for key, value in pairs(good) do options[key] = value end
      options[option] = bad[i] -- nil at 0
      local made, object = pcall(make, options)
      if made and use then pcall(use, object) end
      if not made then lu.assertTrue(#tostring(object) > 8, name .. ", " .. option) end
    end
  end
end

TestNative = {}

function TestNative:test_data()
  abuse("data_synthetic", {users = 60, items = 50, clusters = 4, tastes = 2, mean_items = 12,
                           zipf = 1.0, noise = 0.1, seed = 1}, native.data_synthetic)
  local d = native.data_synthetic{users = 60, items = 50, clusters = 4, tastes = 2,
                                  mean_items = 12, zipf = 1.0, noise = 0.1, seed = 1}
  abuse("data_split", {min_items = 5, valid = 0.1, test = 0.1, seed = 1, max_users = 40},
        function(o) return native.data_split(d, o) end)
  local path = os.tmpname()
  do
    local f <close> = io.open(path, "w")
    f:write("user,item,time\n")
    for i = 0, 400 do f:write(("%d,%d,%d\n"):format(i * 7 % 20, i * i % 53, i * 31 % 300)) end
  end
  local timed = native.data_read(path, {})
  os.remove(path)
  for _, kind in ipairs{"users", "time", "last"} do
    abuse("data_split", {min_items = 5, valid = 0.1, test = 0.1, seed = 1, kind = kind,
                         by_time = true, keep_seen = true, observed = 0.4, valid_from = 200,
                         test_from = 250},
          function(o) return native.data_split(timed, o) end)
  end
  abuse("data_split_files", {min_items = 2, valid = 0, test = 1, seed = 1, observed = 0.4},
        function(o) return native.data_split_files(d, nil, timed, o) end)
  for _, value in ipairs(bad) do
    pcall(native.data_split_files, d, value, timed, {min_items = 2, valid = 1, test = 1, seed = 1})
  end
  abuse("embed_svd", {dim = 4, scale = "sqrt", seed = 1, power_iterations = 2, oversample = 4},
        function(o) return native.embed_svd(s.train, o) end)
end

function TestNative:test_policies()
  local function use(pi)
    pi:queries(x)
    native.gradient_exact():compute(pi, x, {1, 2}, native.reward_hits(s.train),
                                    {seed = 1, step = 0})
  end
  abuse("policy_linear", {items = items, theta = "random", context_dim = 4, temperature = 1.0,
                          train_items = false, rows = "float32", seed = 1}, native.policy_linear,
        use)
  abuse("policy_mlp", {items = items, hidden = {3}, activation = "relu", context_dim = 4,
                       temperature = 1.0, train_items = false, rows = "float32", seed = 1},
        native.policy_mlp, use)
end

function TestNative:test_serve()
  local pi = native.policy_linear{items = items, theta = "identity", temperature = 1.0, seed = 1}
  local training = {}
  for n = 1, x.rows do training[n] = n end
  abuse("recommend", {x = x, index = index, k = 3, seen = s.train, never = {1, 2},
                      normalised = true, may_be_short = true, training = training}, function(o)
    return native.recommend(pi, o.x, o.index, o.k, o)
  end)
  abuse("histories_from", {histories = {{1, 2}, {3}}, P = 50}, function(o)
    return native.histories_from(o.histories, o.P)
  end, function(made) made:contexts(items) end)
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write("a,1\nb,2\nb,99\n")
  f:close()
  abuse("stream_open", {path = path, P = 50, format = "pairs", user = "1", item = "2",
                        where = "1!=c", separator = ",", header = "no", skip_errors = true,
                        max_errors = 3, most = 1}, function(o)
    local stream = native.stream_open(o.path, o, o.P)
    while stream and native.stream_next(stream, o.most) do end
  end)
  os.remove(path)
end

function TestNative:test_indexes()
  local function search(ix) ix:search(items, 3) end
  abuse("index_norm", {budget = 20}, function(o) return native.index_norm(items, o) end, search)
  local graph = {M = 4, ef_construction = 10, ef = 10, seed = 1, deterministic = true}
  abuse("index_hnsw", graph, function(o) return native.index_hnsw(items, o) end, search)
  graph.head = 0.1
  abuse("index_hybrid", graph, function(o) return native.index_hybrid(items, o) end, search)
  for _, value in ipairs(bad) do
    pcall(index.search, index, items, value)
    pcall(index.search, index, value, 3)
    pcall(function() native.index_hnsw(items, graph).ef = value end)
    pcall(function() native.index_norm(items, {}).budget = value end)
  end
end

local pi = fopo.policy.linear{items = items, theta = "random"}

local function compute(g)
  for step = 1, 2 do
    g:compute(pi, x, {1, 2, 3}, native.reward_hits(s.train), {seed = 1, step = step})
  end
end

function TestNative:test_estimators()
  abuse("proposal_mixture", {index = index, k = 5, epsilon = 0.5, draws = "iid", refresh = 1},
        native.proposal_mixture, function(q)
    q:sample(pi, x, 6, {seed = 1, step = 0})
    compute(native.gradient_snis{proposal = q, samples = 6})
  end)
  abuse("proposal_adaptive", {index = index, k = 5, floor = 0.01, smoothing = 0.5, refresh = 2},
        native.proposal_adaptive,
        function(q) compute(native.gradient_snis{proposal = q, samples = 6}) end)
  local q = fopo.proposal.mixture{index = index, k = 5}
  abuse("sample", {seed = 1, step = 0}, function(o) return q:sample(pi, x, 6, o) end)
  abuse("gradient_snis", {proposal = q, samples = 6, fault = "none"}, native.gradient_snis, compute)
  abuse("gradient_reinforce", {samples = 6, baseline = "mean"}, native.gradient_reinforce, compute)
  abuse("gradient_head_tail", {proposal = q, tail = 6}, native.gradient_head_tail, compute)
  abuse("set", {samples = 6, k = 5, epsilon = 0.5}, function(o)
    local g = native.gradient_snis{proposal = q, samples = 6}
    g:set(o)
    return g
  end, compute)
  abuse("compute", {seed = 1, step = 0}, function(o)
    return native.gradient_exact():compute(pi, x, {1}, native.reward_hits(s.train), o)
  end)
  for _, value in ipairs(bad) do pcall(q.sample, q, pi, x, value, {seed = 1, step = 0}) end
end

function TestNative:test_rewards_and_evaluation()
  for _, value in ipairs(bad) do
    pcall(native.reward_ips, logs, value, 0)
    pcall(native.reward_ips, logs, 0, value)
    local all = s.train:contexts(items)
    pcall(native.recommend, pi, all, index, value, {seen = s.train})
    pcall(native.recommend, pi, value, index, 3, {seen = s.train})
    pcall(native.measure_lists, value, s.train, {1})
    pcall(native.measure_lists, pi:best(all, {k = 3}), s.train, value)
    pcall(native.measure_lists, pi:best(all, {k = 3}), s.train, {1, value})
    pcall(native.evaluate_expected, pi, all, s.train, value, true)
    pcall(native.trainer_batch, value, 4, 1, 0)
    pcall(native.trainer_batch, 10, value, 1, 0)
    pcall(native.trainer_batch, 10, 4, 1, value)
  end
  local over = fopo.policy.linear{items = logs:items(), theta = "identity"}
  abuse("ope", {level = 0.95, bootstrap = 10, seed = 1, clip = 0.1, reward_low = 0.0,
                reward_high = 1.0, least_propensity = 0.01},
        function(o) return native.ope(over, logs, o) end)
  abuse("ope by draws", {seed = 1, samples = 10, proposal = native.proposal_uniform()},
        function(o) return native.ope(over, logs, o) end)
end

function TestNative:test_training()
  abuse("optim_adam", {lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, weight_decay = 0.0,
                       items_lr = 0.1}, native.optim_adam)
  abuse("optim_sgd", {lr = 0.1, momentum = 0.5, weight_decay = 0.0, items_lr = 0.1},
        native.optim_sgd)
  abuse("optim_adagrad", {lr = 0.1, eps = 1e-10, weight_decay = 0.0}, native.optim_adagrad)
  abuse("trainer", {policy = pi, contexts = x, reward = native.reward_hits(s.train),
                    gradient = fopo.gradient.snis{samples = 5}, optim = fopo.optim.sgd{lr = 0.1},
                    batch = 4, seed = 1, device = "cpu"}, native.trainer, function(t)
    t:advance(2)
    for _, value in ipairs(bad) do
      if math.type(value) ~= "integer" or value < 1 then pcall(t.advance, t, value) end
    end
  end)
end

-- ------------------------------------------------------------------------------------------------
TestDeclared = {}

-- The values just outside of a declared range.
local function outside(spec)
  local list = {}
  local whole = spec[2]:find("integer", 1, true)
  if spec.min then list[#list + 1] = whole and spec.min - 1 or spec.min - 0.001 end
  if spec.max then list[#list + 1] = whole and spec.max + 1 or spec.max + 0.001 end
  if spec.above then list[#list + 1] = spec.above end
  if spec.below then list[#list + 1] = spec.below end
  if spec.one_of then list[#list + 1] = "no such word" end
  return list
end

function TestDeclared:test_ranges_are_checked()
  local checked = 0
  for _, name in ipairs(define.order) do
    local entry = define.entries[name]
    for _, spec in ipairs(entry.options or {}) do
      for _, value in ipairs(outside(spec)) do
        local only = {name = name, options = {spec}}
        local ok, why = pcall(define.options, only, {[spec[1]] = value})
        lu.assertFalse(ok, name .. ", " .. spec[1])
        lu.assertStrContains(tostring(why), spec[1])
        checked = checked + 1
      end
      local default = spec[3]
      if default ~= nil then -- a default lies in its own range
        lu.assertTrue(pcall(define.options, {name = name, options = {spec}}, {[spec[1]] = default}),
                      name .. ", " .. spec[1])
      end
    end
  end
  lu.assertTrue(checked > 100)
end

os.exit(lu.LuaUnit.run())
