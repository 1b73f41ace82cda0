-- The scenarios of the sweep: {name, make, options}. make(folder) prepares a state, once, and
-- returns the function that runs with faults, whose results must be the same each time; the file
-- that it replaces; and what reads that file, if it has other bytes each time. Options:
-- quiet: what it prints is not shown; gnuplot: it needs that; files: every fault is made.
local fopo = require "fopo"

local scenarios = {}

local function add(name, make, options)
  local s = {name = name, make = make}
  for k, v in pairs(options or {}) do s[k] = v end
  scenarios[#scenarios + 1] = s
end

-- ---- a small world, made once ----

local world
local function small()
  if world then return world end
  local d, truth = fopo.data.synthetic{users = 60, items = 40, clusters = 4, mean_items = 12,
                                       seed = 3}
  local s = d:sessions{min_items = 4, seed = 1}
  local items = fopo.embed.svd(s.train, {dim = 4})
  local lg, log_world = fopo.data.synthetic_logs{n = 60, actions = 12, dim = 3, seed = 2}
  world = {d = d, truth = truth, s = s, items = items, x = s.test:contexts(items), lg = lg,
           log_world = log_world}
  return world
end

-- More items than the candidates of an automatic head.
local large
local function bigger()
  if large then return large end
  local s = fopo.data.synthetic{users = 60, items = 300, clusters = 4, seed = 3}:sessions{
    min_items = 4}
  large = {s = s, items = fopo.embed.svd(s.train, {dim = 4})}
  return large
end

local function write(path, text)
  local f <close> = assert(io.open(path, "wb"))
  assert(f:write(text))
  return path
end

local function bytes(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read("a") or error(path .. " cannot be read", 0)
end

-- What a dataset holds, as text.
local function rows(d)
  local out = {tostring(d)}
  for u = 1, d.n_users do
    local items, values, times = d:row(u)
    out[#out + 1] = fopo.show{items and items:totable(), values, times, d:user_name(u)}
  end
  return table.concat(out, "\n")
end

local function trained(t)
  return t.policy:theta():totable(), t.history.reward, t.step
end

local function linear(w) return fopo.policy.linear{items = w.items, seed = 1} end

-- ---- readers ----

local function reads(name, file, options)
  add("read " .. name, function()
    local path = "tests/fixtures/" .. file
    return function() return rows(fopo.data.read(path, options)) end
  end, {files = true})
end

reads("pairs", "u.data")
reads("movielens", "ratings_ml1m.dat")
reads("baskets", "fimi.dat", {format = "baskets"})
reads("counted lists", "citeulike.dat")
reads("users' lists", "kgat.txt")
reads("quoted", "bookcrossing.csv")
reads("goodreads", "goodreads.csv")
reads("json lines", "goodreads.json")
reads("events", "retailrocket.csv")
reads("sparse npz", "scipy_plain.npz")
reads("sparse npz, large", "scipy_zip64.npz")

local function reads_text(name, text, options)
  add("read " .. name, function(folder)
    local path = write(folder .. "/" .. name:gsub("%W", "_"), text)
    return function() return rows(fopo.data.read(path, options)) end
  end, {files = true})
end

reads_text("mtx", "%%MatrixMarket matrix coordinate real general\n3 4 3\n1 1 4\n3 2 .5\n2 4 1\n")
reads_text("csv with options", "u,i,n\nann,3,1\nann,14,2\nbob,7,x\n",
           {user = "u", item = "i", value = "n", skip_errors = true})
-- A row that could not be read for want of memory must not be counted as a malformed one.
reads_text("json lines with escapes", '{"user":"\\u00e9","item":"a","x":[{}]}\n{"user":"b"'
           .. ',"item":"' .. ("\\n."):rep(40) .. 'c"}\n{broken\n', {skip_errors = true})
reads_text("twitch", "1,a,sue,10,12\n2,b,tim,9,13\n1,a,tim,11,12\n", {format = "twitch"})

add("read gzip", function(folder)
  local path = folder .. "/u.csv.gz"
  assert(os.execute("gzip -c tests/fixtures/mixed_ids.csv > " .. path))
  return function() return rows(fopo.data.read(path)) end
end, {files = true})

add("read several files", function(folder)
  local day = write(folder .. "/day.csv", "user,item,rating,time\nann,3,.1,50\nbob,x,2,40\n")
  local night = folder .. "/night.csv.gz"
  assert(os.execute("gzip -c " .. day .. " > " .. night))
  local files = {day, "tests/fixtures/mixed_ids.csv", night, "tests/fixtures/scipy_plain.npz"}
  return function()
    return rows(fopo.data.read(files)), rows(fopo.data.read(files, {shard = true})),
      rows(fopo.data.read(files, {parts = 2}))
  end
end)

add("sessions of two files", function(folder)
  local train = write(folder .. "/train.csv", "user,item\n7,apple\n7,pear\n9,apple\n9,fig\n")
  local test = write(folder .. "/test.csv", "user,item\n9,pear\n")
  return function()
    local s = fopo.data.sessions{train = train, test = test}
    return s.train.n, s.test.n, s.dataset:item_name(s.test:y(1):get(1, 1))
  end
end)

local function reads_logs(name, text, options)
  add("logs of " .. name, function(folder)
    local path = write(folder .. "/" .. name:gsub("%W", "_"), text)
    return function()
      local lg = fopo.data.logs(path, options)
      return tostring(lg), lg:contexts():totable(), lg:actions():totable(),
             lg:propensities():totable(), lg:rewards():totable()
    end
  end, {files = true})
end

reads_logs("csv", "age,country,action,reward,propensity\n31,fr,7,1,0.5\n25,be,9,0,0.25\n")
reads_logs("open bandit", ",timestamp,item_id,position,click,propensity_score,user_feature_0\n"
  .. "0,2019-11-24 00:00:01,1,1,0,0.5,b\n1,2019-11-24 00:00:02,0,3,1,0.25,a\n")
reads_logs("vw", "shared | s_1\n| a b\n0:1.0:0.5 | c d:2 \n\n", {format = "vw"})
reads_logs("dsjson", '{"_label_cost":-1,"_label_probability":0.5,"_label_Action":1,"c":'
  .. '{"User":{"age":31},"_multi":[{"A":{"id":"x"}},{"A":{"id":"y"}}]}}\n')

-- ---- files ----

-- Saves to one path over and over: `save` writes it, `load` gives what is in it. With dated = true
-- the file holds the time of the save, so it is whole if that is in it.
local function saves(name, ending, made, save, load, options)
  add("save " .. name, function(folder)
    local what, path = made(small()), folder .. "/kept" .. ending
    save(what, path)
    return function()
      save(what, path)
      return load(path, what)
    end, path, options and options.dated and function() return load(path, what) end
  end, options)
end

saves("array", ".npy", function(w) return w.items end,
      function(a, path) a:save(path) end,
      function(path) return fopo.array.load(path):totable() end, {files = true})
saves("array npz", ".npz", function(w) return w.items end,
      function(a, path) a:save(path) end,
      function(path) return fopo.array.load(path):totable() end, {files = true})
saves("dataset", ".npz", function(w) return w.d end,
      function(d, path) d:save(path) end, function(path) return rows(fopo.data.read(path)) end)
saves("logs", ".npz", function(w) return w.lg end,
      function(lg, path) lg:save(path) end,
      function(path) return fopo.data.logs(path):contexts():totable() end)
saves("policy", ".npz", linear, function(pi, path) pi:save(path) end,
      function(path) return fopo.policy.load(path):theta():totable() end, {dated = true})
saves("policy with names", ".npz", linear,
      function(pi, path) pi:save(path, {data = small().d}) end,
      function(path) return fopo.policy.load(path):recommend({items = {3, 14}}, 3) end,
      {dated = true})

for _, kind in ipairs{"exact", "norm", "hnsw", "hybrid", "clusters"} do
  local options = kind == "hnsw" and {M = 4, ef_construction = 10}
    or kind == "hybrid" and {head = 0.2, M = 4, ef_construction = 10} or nil
  local function make(items)
    if options then return fopo.index[kind](items, options) end
    return fopo.index[kind](items)
  end
  add("index " .. kind, function()
    local w = small()
    return function()
      local ids, scores = make(w.items):search(w.x, 5)
      if options and fopo.threads() > 1 then return ids.rows end -- each graph is another one
      return ids:totable(), scores:totable()
    end
  end, {files = kind == "hnsw"}) -- hnswlib's memory is not the program's
  saves("index " .. kind, ".npz", function(w) return make(w.items) end,
        function(ix, path) ix:save(path) end,
        function(path)
          local w = small()
          return (fopo.index.load(path, w.items):search(w.x, 5)):totable()
        end)
end

add("index auto", function()
  local items, Q = fopo.array.randn(300, 4, 1), fopo.array.randn(8, 4, 2)
  return function()
    local ids = fopo.index.auto(items, {k = 5, queries = Q}):search(Q, 5)
    return ids.rows, ids.cols
  end
end)

-- ---- making data ----

add("synthetic", function()
  return function()
    local d, truth = fopo.data.synthetic{users = 30, items = 20, clusters = 3, seed = 4}
    local s = d:sessions{min_items = 3}
    return rows(d), {truth:best(s.train)}
  end
end)

add("synthetic logs", function()
  return function()
    local lg, w = fopo.data.synthetic_logs{n = 40, actions = 8, dim = 3, seed = 2}
    local train, test = lg:split{train = 0.5, seed = 1}
    return lg:rewards():totable(), w:best(), train.n, test:actions():totable()
  end
end)

add("svd", function()
  local w = small()
  return function()
    local items, singular = fopo.embed.svd(w.s.train, {dim = 3, scale = "sigma"})
    return items:totable(), singular, w.s.test:contexts(items, {scale = "unit"}):totable()
  end
end)

add("arrays", function()
  return function()
    local a = fopo.array.randn(6, 4, 1)
    local b = a:matmul(a, false, true):add(fopo.array.zeros(6, 6), 2):scale(0.5)
    local w = (b / b:max("rows") - 1):softmax("columns"):where(b, 2)
    local sorted, ids = w:sort("columns")
    return b:totable(), b:rows_of{2, 3}:totable(), b:histogram(4), tostring(b), b:norm(),
           fopo.array.concat({w[2], sorted:gather(ids)}):totable(), (b ^ 2):draw(5, 1):totable()
  end
end)

-- ---- policies ----

add("policy linear", function()
  local w = small()
  local ix = fopo.index.norm(w.items)
  return function()
    local pi = fopo.policy.linear{items = w.items, theta = "random", seed = 2}
    local ids, scores = pi:best(w.x, {index = ix, k = 3})
    return ids:totable(), scores:totable(), pi:queries(w.x):totable()
  end
end)

add("policy mlp", function()
  local w = small()
  return function()
    local pi = fopo.policy.mlp{items = w.items, hidden = {5, 3}, activation = "relu", seed = 2}
    return pi:best(w.x, {k = 2}):totable(), pi:parameters()
  end
end)

add("recommend", function()
  local w = small()
  local pi = linear(w)
  return function()
    local r = pi:recommend(7, 4, {data = w.d})
    local e = pi:explain(7, r[1].item, {data = w.d})
    return r, e.score, tostring(r), tostring(e)
  end
end)

add("recommend file", function(folder)
  local w = small()
  local pi, users, out = linear(w), folder .. "/users.csv", folder .. "/out.csv"
  write(users, "user,item\nann,3\nann,14\nbob,7\n")
  pi:recommend_file(users, out, {n = 2, quiet = true})
  return function()
    local r = pi:recommend_file(users, out, {n = 2, quiet = true})
    return r.users, r.rows, bytes(out)
  end, out
end)

-- ---- learning ----

local function trains(name, parts, run)
  add("train " .. name, function(folder)
    local w = small()
    return function()
      local o = parts(w)
      o.policy = o.policy or fopo.policy.linear{items = w.items, seed = 1, theta = "random"}
      o.data, o.batch, o.seed = o.data or w.s.train, 6, 1
      if o.valid == nil then o.valid = false end
      local t = fopo.trainer(o)
      if run then return run(t, folder) end
      t:run{steps = 3, view = false}
      return trained(t)
    end
  end)
end

local gradient, proposal, reward = fopo.gradient, fopo.proposal, fopo.reward
trains("exact", function() return {gradient = gradient.exact{}} end)
trains("reinforce", function()
  return {gradient = gradient.reinforce{samples = 8, baseline = "mean"},
          optim = fopo.optim.sgd{lr = 0.1, momentum = 0.9, clip = 5}}
end)
trains("snis uniform", function()
  return {gradient = gradient.snis{proposal = proposal.uniform(), samples = 8}}
end)
trains("snis mixture", function(w)
  local q = proposal.mixture{index = fopo.index.norm(w.items), k = 5, refresh = 2}
  return {gradient = gradient.snis{proposal = q, samples = 8}}
end)
trains("snis adaptive", function(w)
  local q = proposal.adaptive{index = fopo.index.hnsw(w.items, {M = 4}), k = 5}
  return {gradient = gradient.snis{proposal = q, samples = 8}, valid = w.s.valid}
end)
trains("head and tail", function(w)
  return {gradient = gradient.head_tail{index = fopo.index.norm(w.items), k = 5, tail = 8}}
end)
trains("shared head", function() return {gradient = gradient.head_tail{head = 10, tail = 8}} end)
trains("automatic head", function()
  local w = bigger()
  return {policy = fopo.policy.linear{items = w.items}, data = w.s.train,
          gradient = gradient.head_tail{tail = 8}}
end)
trains("mlp", function(w)
  return {policy = fopo.policy.mlp{items = w.items, hidden = {4}, seed = 1},
          gradient = gradient.snis{samples = 8}}
end)
trains("items", function(w)
  return {gradient = gradient.snis{samples = 8},
          policy = fopo.policy.linear{items = w.items, train_items = true}}
end)
trains("custom reward", function()
  return {gradient = gradient.snis{samples = 8}, reward = reward.custom(function(ids)
    local values = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do values:set(b, 1, ids:get(b, 1) % 2) end
    return values
  end)}
end)

trains("custom policy and objective", function(w)
  return {
    policy = fopo.policy.custom{
      items = w.items, parameters = {theta = fopo.array.eye(4)},
      queries = function(x, p) return x:matmul(p.theta) end,
      backward = function(x, V) return {theta = x:matmul(V, true)} end},
    gradient = gradient.snis{samples = 8, objective = fopo.objective.custom{value = function(R)
      return (R + 1):log(), (R + 1) ^ -1
    end}}, valid = w.s.valid}
end)

local function trains_logs(name, make)
  trains(name, function(w)
    return {policy = fopo.policy.linear{items = w.lg:items()}, data = w.lg,
            reward = make(w.lg), gradient = gradient.exact{}}
  end)
end
trains_logs("ips", function(lg) return reward.ips{logs = lg, clip = 0.01} end)
trains_logs("direct", function(lg) return reward.direct{logs = lg, model = "logistic"} end)
trains_logs("doubly robust", function(lg)
  return reward.doubly_robust{logs = lg, model = "logistic", folds = 2, clip = 0.01}
end)
trains_logs("switch", function(lg) return reward.switch{logs = lg, threshold = 50} end)

trains("and resume", function(w)
  return {gradient = gradient.snis{samples = 8}, valid = w.s.valid}
end, function(t, folder)
  local path = folder .. "/checkpoint.npz"
  t:run{steps = 2, view = false}
  t:save(path)
  t:run{steps = 1, view = false}
  t:resume(path)
  t:run{steps = 2, view = false}
  return trained(t)
end)

trains("with a checkpoint", function() return {gradient = gradient.snis{samples = 8}} end,
       function(t, folder)
  t:run{steps = 3, view = false, checkpoint = folder .. "/running.npz", every_seconds = 1e-9}
  return trained(t)
end)

trains("with a log", function(w)
  return {gradient = gradient.snis{samples = 8}, valid = w.s.valid}
end, function(t, folder)
  t:run{steps = 2, every = 1, view = false, log = os.tmpname():gsub(".*/", folder .. "/log") .. ""}
  return trained(t)
end)

trains("in a job", function() return {gradient = gradient.snis{samples = 8}} end, function(t)
  local job = t:start{steps = 4, every = 2}
  local text = tostring(job):match("^job")
  job:wait()
  return text, trained(t)
end)

add("compute a gradient", function()
  local w = small()
  local pi, rw = linear(w), reward.hits(w.s.test)
  local q = proposal.mixture{index = fopo.index.norm(w.items), k = 5}
  return function()
    local G = gradient.snis{proposal = q, samples = 6}:compute(pi, w.x, {1, 2}, rw, {seed = 1})
    local ids, logq = q:sample(pi, w.x, 4, {seed = 1})
    fopo.optim.adam{lr = 0.1}:step(linear(w), G)
    return G:totable(), ids:totable(), logq:totable()
  end
end)

add("tune", function()
  local w = small()
  return function()
    local found = fopo.tune{data = w.s.train, valid = w.s.valid, dim = 3, steps = 4, trials = 2,
                            view = false, over = {lr = {1e-3, 1e-1}}}
    for _, trial in ipairs(found.trials) do -- the search goes on after one that fails
      if trial.failed then error(trial.failed, 0) end
    end
    return #found.trials, found.best.policy:theta():totable()
  end
end)

-- ---- judging ----

add("evaluate", function()
  local w = small()
  local pi, ix = linear(w), fopo.index.norm(w.items, {budget = 20})
  return function()
    local e = fopo.evaluate(pi, w.s.test, {index = ix})
    local r = ix:recall(pi:queries(w.x), 5, {policy = pi, sessions = w.s.test})
    return e.reward, e.low, e.high, e.hit, e.recall, r.recall, r.reward_lost
  end
end)

add("ope", function()
  local w = small()
  local pi = fopo.policy.linear{items = w.lg:items(), theta = "identity"}
  return function()
    local groups = fopo.index.clusters(w.lg:items(), {clusters = 3}):groups()
    local e = fopo.ope(pi, w.lg, {clip = 0.01, bootstrap = 20, groups = groups,
                                  logging = w.log_world:groups(groups, w.lg)})
    return e.ips.value, e.ips.bernstein, e.snips.value, (w.log_world:value(pi))
  end
end)

add("neighbours with a network", function()
  local w = small()
  return function()
    local items = fopo.embed.svd(w.s.train, {dim = 3})
    local pi = fopo.policy.neighbours{data = w.s.train, start = "jaccard", scored = "all",
                                      dense = fopo.policy.mlp{items = items, hidden = {2}},
                                      learn = {"theta"}}
    local t = fopo.trainer{policy = pi, data = w.s.train, optim = fopo.optim.adagrad{lr = 0.01}}
    t:run{steps = 2, view = false, keep_best = false}
    return pi:theta():totable(), fopo.evaluate(pi, w.s.test).expected
  end
end)

for _, start in ipairs{"cosine", "slim"} do
  add("neighbours by " .. start, function()
    local w = small()
    local function embed(sessions) return (fopo.embed.svd(sessions, {dim = 3})) end
    return function()
      local pi = fopo.policy.neighbours{data = w.s.train, start = start, contexts = "idf",
                                        items = start == "cosine" and embed or nil,
                                        learn = {"theta", "bias", "importance", "weights"}}
      local t = fopo.trainer{policy = pi, data = w.s.train, optim = fopo.optim.adagrad{lr = 0.01}}
      t:run{steps = 2, view = false, keep_best = false}
      return pi:theta():totable(), fopo.evaluate(pi, w.s.test).expected
    end
  end)
end

for _, b in ipairs{{"random"}, {"popular"}, {"item_knn", {neighbours = 4}}, {"ease", {l2 = 10}},
                   {"slim", {m = 5}}, {"als", {dim = 3, iterations = 2}}} do
  add("baseline " .. b[1], function()
    local w = small()
    return function()
      local o = {data = w.s.train}
      for k, v in pairs(b[2] or {}) do o[k] = v end
      local ids = fopo.baseline[b[1]](o):best(w.s.test, {k = 3})
      return ids:totable(), fopo.evaluate(fopo.baseline[b[1]](o), w.s.test, {exclude = "seen"}).hit
    end
  end)
end

-- ---- reports and pictures ----

local function two_runs(w)
  local runs = {}
  for i, samples in ipairs{4, 8} do
    local t = fopo.trainer{policy = linear(w), data = w.s.train, valid = w.s.valid, batch = 6,
                           gradient = gradient.snis{samples = samples}}
    runs[i] = t:run{steps = 3, every = 1, view = false}
  end
  return runs
end

add("race and report", function()
  local w = small()
  return function()
    local runs = fopo.experiment.race{split = w.s, items = w.items, steps = 2,
      methods = {{"exact", gradient.exact{}}, {"snis", gradient.snis{samples = 5}}}}
    return #fopo.report.runs(runs) > 0, #runs, fopo.report.table{{"a", "b"}, {"c", "1"}}
  end
end, {quiet = true})

add("compare", function()
  local runs = two_runs(small())
  return function() return fopo.compare(runs) ~= nil end
end, {quiet = true})

add("compare logs", function(folder)
  local w = small()
  for i = 1, 2 do
    local t = fopo.trainer{policy = linear(w), data = w.s.train, batch = 6,
                           gradient = gradient.snis{samples = 4 * i}, valid = w.s.valid}
    t:run{steps = 3, every = 1, view = false, log = folder .. "/run" .. i}
  end
  return function()
    local text = fopo.view.text(folder .. "/run1")
    return #text > 0, fopo.compare{folder .. "/run1", folder .. "/run2"} ~= nil
  end
end, {quiet = true})

add("plot", function()
  return function()
    return fopo.plot.text{{x = {1, 2, 3}, y = {1, 4, 9}, name = "squares"}, title = "n^2"}
  end
end)

add("plot save", function(folder)
  local path = folder .. "/plot.svg"
  fopo.plot.save(path, {{y = {1, 4, 9}, name = "squares"}, xlabel = "n"})
  return function()
    fopo.plot.save(path, {{y = {1, 4, 9}, name = "squares"}, xlabel = "n"})
    return bytes(path)
  end, path
end, {gnuplot = true})

add("view", function(folder)
  local runs, path = two_runs(small()), folder .. "/view.svg"
  fopo.view.save(path, runs[1])
  return function()
    fopo.view.save(path, runs[1])
    return #fopo.view.text(runs[1]) > 0, #bytes(path) > 0
  end, path
end)

-- The remedy in the error of a call; another error is raised.
local function remedy(f, ...)
  local _, why = pcall(f, ...)
  return why:match("did you mean.*") or error(why, 0)
end

add("show, help, words", function()
  return function()
    return fopo.show{1, {2, "a"}, x = fopo.array.randn(2, 2, 1)}, fopo.help.text("index.norm"),
           remedy(fopo.index.norm, small().items, {bugdet = 3})
  end
end)

add("load a chunk", function(folder)
  local path = write(folder .. "/chunk.lua", "local t = {...} return #t, ('x'):rep(100)")
  return function() return assert(loadfile(path))(1, 2) end
end)

return scenarios
