-- Common mistakes, and what is said to do instead: a value of another kind, a dot for a colon, a
-- field that is not there or cannot be set, a file of another kind, braces left out.
local lu = require "luaunit"
local fopo = require "fopo"
local define = require "fopo.base.define"
local native = require "fopo.native"

local d = fopo.data.synthetic{users = 300, items = 400, clusters = 8, seed = 1}
local s = d:sessions{min_items = 10, seed = 2}
local items = fopo.embed.svd(s.train, {dim = 8})
local pi = fopo.policy.linear{items = items}
local ix = fopo.index.norm(items)
local q = fopo.proposal.mixture{index = ix, k = 10}
local g = fopo.gradient.snis{samples = 20, proposal = q}
local o = fopo.optim.adam{lr = 1e-2}
local rw = fopo.reward.hits(s.train)
local lg, log_world = fopo.data.synthetic_logs{n = 300, actions = 20, dim = 4}
local _, world = fopo.data.synthetic{users = 100, items = 50, clusters = 4}
local function trainer() return fopo.trainer{policy = pi, data = s.train, gradient = g} end

local function fails(part, f, ...)
  local ok, why = pcall(f, ...)
  lu.assertFalse(ok, "an error was expected: " .. part)
  lu.assertStrContains(why, part)
  lu.assertStrContains(why, "test_remedies.lua:")
  lu.assertNil(why:find("\n", 1, true), why)
end

local function with(options)
  local all = {policy = pi, data = s.train, gradient = g}
  for name, value in pairs(options) do all[name] = value end
  return function() fopo.trainer(all) end
end

TestKinds = {}

function TestKinds:test_one_for_another()
  fails("not a split; give one part of it: s.train, s.valid or s.test", fopo.evaluate, pi, s)
  fails("gradient must be a gradient, not a proposal; a proposal goes inside: "
        .. "fopo.gradient.snis{proposal = q}", with{gradient = q})
  fails("call it: fopo.gradient.exact{...}", with{gradient = fopo.gradient.exact})
  fails("write fopo.gradient.exact{...}", with{gradient = "exact"})
  fails("an index goes inside", with{gradient = ix})
  fails("fopo.optim.adam{lr = 0.01}", with{optim = 0.1})
  fails("fopo.optim.adam{lr = 0.01}", with{optim = 1})
  fails("fopo.reward.custom(f)", with{reward = function() end})
  fails("give one part of it", with{data = s})
  fails("make sessions of it", with{data = d})
  fails("t.policy is its policy", with{policy = trainer()})
  fails("fopo.policy.linear{items = items}", with{policy = items})
  fails("fopo.index.norm(items)", fopo.proposal.mixture, {index = items})
  fails("q.index is its index", fopo.proposal.mixture, {index = q})
  fails("fopo.data.read(path):sessions{}", fopo.embed.svd, "ratings.csv", {dim = 4})
  fails("not sessions; s.train:contexts(items)", fopo.policy.linear, {items = s.train})
  fails("fopo.array.load(path) reads one", fopo.policy.linear, {items = "items.npy"})
  fails("call it: fopo.schedule.cosine{...}", fopo.optim.adam, {schedule = fopo.schedule.cosine})
  fails("write it without quotes: 0.1", fopo.optim.adam, {lr = "0.1"})
  fails("an array is needed here, not fopo.sessions; s.train:contexts(items)", ix.search, ix,
        s.test, 3)
end

function TestKinds:test_dots_and_colons()
  fails("write d:item_name(...), with a colon", function() d.item_name(1) end)
  fails("write a:get(...), with a colon", function() items.get(1, 1) end)
  fails("write t:run{...}, with a colon", function() trainer().run{steps = 1} end)
  fails("write d:sessions{...}, with a colon", function() d.sessions{} end)
  fails("write pi:recommend(...), with a colon", function() pi.recommend(1, 3) end)
  fails("write fopo.array.zeros(...), with a dot", function() fopo.array:zeros(2, 3) end)
  fails("write fopo.optim.adam{...}, with a dot", function() fopo.optim:adam{lr = 1} end)
end

TestFields = {}

function TestFields:test_that_are_not_there()
  fails("array has no field 'shape'; it has rows and cols", function() return items.shape end)
  fails("d:sessions{} divides it", function() return d.train end)
  fails("s:x(i)", function() return s.train.X end)
  fails("pi:recommend(user, n)", function() return pi.predict end)
end

-- Each public field of each object of C: to set it takes effect, or says what to do instead.
function TestFields:test_set()
  local objects = {array = items, dataset = d, world = world, sessions = s.train, index = ix,
                   policy = pi, proposal = q, gradient = g, reward = rw, optim = o, logs = lg,
                   log_world = log_world, schedule = o.schedule,
                   baseline = fopo.baseline.popular{data = s.train}}
  local can_be_set = {
    index = {budget = 1}, reward = {translate = 1},
    gradient = {samples = 1, tail = 1, head = 1, epsilon = 1, k = 1, sigma = 1,
                sigma_lr = 1},
    optim = {lr = 1, items_lr = 1, weight_decay = 1, clip = 1, schedule = 1, decoupled = 1,
             beta1 = 1, beta2 = 1, eps = 1, momentum = 1}}
  for kind, object in pairs(objects) do
    for field in pairs(native.fields[kind]) do
      if not (can_be_set[kind] or {})[field] and field ~= "ef" then
        fails(("%s.%s cannot be set; "):format(kind, field), function() object[field] = 1 end)
      end
    end
    fails(" cannot be set; it is a method", function() object.close = 1 end)
    fails(kind .. " has no field 'xyzzyq'", function() object.xyzzyq = 1 end)
  end
  fails("did you mean 'temperature'?", function() pi.temprature = 1 end)
end

function TestFields:test_what_can_be_set()
  g.samples, g.epsilon, g.k = 30, 0.25, 12
  lu.assertEquals({g.samples, g.epsilon, g.k, q.epsilon}, {30, 0.25, 12, 0.8})
  fails("samples is 1", function() g.samples = 1 end)
  fails("has no tail to set; it takes samples", function() g.tail = 5 end)
  o.lr, o.beta1, o.decoupled = 0.5, 0.75, true
  lu.assertEquals({o.lr, o.beta1, o.decoupled}, {0.5, 0.75, true})
  fails("no field 'momentum' that can be set", function() o.momentum = 0.5 end)
  local ips = fopo.reward.ips{logs = lg}
  ips.translate = 0.5
  lu.assertEquals(ips.translate, 0.5)
end

TestFiles = {}

function TestFiles:test_of_another_kind()
  local folder = os.tmpname()
  os.remove(folder)
  assert(native.make_folder(folder))
  local t, paths = trainer(), {}
  for _, kind in ipairs{"policy", "index", "trainer", "dataset", "logs"} do
    paths[kind] = ("%s/%s.npz"):format(folder, kind)
  end
  pi:save(paths.policy)
  ix:save(paths.index)
  t:save(paths.trainer)
  d:save(paths.dataset)
  lg:save(paths.logs)
  local readers = {policy = fopo.policy.load, dataset = fopo.data.read, logs = fopo.data.logs,
                   index = function(path) return fopo.index.load(path, items) end,
                   trainer = function(path) return t:resume(path) end,
                   array = fopo.array.load}
  local calls = {policy = "fopo.policy.load(path)", dataset = "fopo.data.read(path)",
                 logs = "fopo.data.logs(path)", index = "fopo.index.load(path, items)",
                 trainer = "t:resume(path)"}
  for wanted, read in pairs(readers) do
    for kind, path in pairs(paths) do
      if kind == wanted then
        read(path)
      else
        fails(calls[kind], read, path)
      end
    end
  end
  local npy = folder .. "/items.npy"
  items:save(npy)
  for wanted, read in pairs(readers) do
    if wanted ~= "array" then fails("one .npy array", read, npy) end
  end
  os.execute("rm -r " .. folder)
end

function TestFields:test_of_another_part()
  local t = trainer()
  fails("it is an option of fopo.optim.adam: fopo.trainer{optim = fopo.optim.adam{beta1 = 0.5}",
        function() t.beta1 = 0.5 end)
  fails("it is an option of fopo.policy.linear", function() t.temperature = 2 end)
  fails("it is an option of trainer:run: t:run{patience = 3}", function() t.patience = 3 end)
  fails("trainer has no field 'lrr'; did you mean 'lr'?", function() t.lrr = 1 end)
end

function TestFields:test_of_a_module()
  fails("fopo.index is a module of fopo's, and 'foo' cannot be added", function()
    fopo.index.foo = 1
  end)
  fails("did you mean 'norm'?", function() fopo.index.nrm = 1 end)
  fails("fopo is a module of fopo's, and 'seed' cannot be added", function() fopo.seed = 1 end)
end

TestWords = {}

-- Words of other libraries for options: the function, its options, and the word that is right here.
function TestWords:test_of_other_libraries()
  local b = fopo.baseline
  for _, case in ipairs{
    {b.als, "factors", "dim"}, {b.als, "n_components", "dim"}, {b.als, "n_iter", "iterations"},
    {b.als, "regularization", "l2"}, {b.als, "random_state", "seed"}, {b.ease, "lambda", "l2"},
    {b.item_knn, "n_neighbors", "neighbours"}, {b.item_knn, "k", "neighbours"},
    {b.item_knn, "metric", "similarity"}, {b.item_knn, "shrinkage", "shrink"},
    {fopo.optim.adam, "learning_rate", "lr"}, {fopo.optim.adam, "lambda", "weight_decay"},
    {fopo.optim.adam, "grad_clip", "clip"}, {fopo.optim.adam, "lr_scheduler", "schedule"},
    {fopo.gradient.snis, "n_samples", "samples"}, {fopo.gradient.head_tail, "n_samples", "tail"},
    {fopo.policy.mlp, "hidden_sizes", "hidden"}, {fopo.policy.linear, "temp", "temperature"},
    {fopo.policy.neighbours, "topk", "n"}, {fopo.policy.neighbours, "temp", "tau"},
    {b.als, "components", "dim"}, {b.als, "rank", "dim"}, {b.als, "embedding_dim", "dim"},
    {b.als, "reg", "l2"}, {fopo.gradient.snis, "n_negatives", "samples"},
    {fopo.proposal.mixture, "top_k", "k"}, {fopo.policy.mlp, "act", "activation"},
    {fopo.trainer, "model", "policy"}, {fopo.trainer, "loss", "objective"},
    {fopo.trainer, "criterion", "objective"}, {fopo.trainer, "batch_size", "batch"},
    {fopo.trainer, "val_data", "valid"}, {fopo.trainer, "random_state", "seed"},
    {fopo.tune.baseline, "n_trials", "trials"}, {fopo.experiment.sweep, "n_jobs", "jobs"},
  } do
    fails(("did you mean '%s'?"):format(case[3]), case[1], {[case[2]] = 1})
  end
  fails("did you mean 'k'?", fopo.evaluate, pi, s.test, {topk = 10})
  for word, right in pairs{ann = "index", filter_seen = "exclude", cutoffs = "k"} do
    fails(("did you mean '%s'?"):format(right), fopo.evaluate, pi, s.test, {[word] = 1})
  end
  for word, right in pairs{test_size = "test", val_size = "valid", k_core = "min_items",
                           min_interactions = "min_items", random_state = "seed"} do
    fails(("did you mean '%s'?"):format(right), d.sessions, d, {[word] = 1})
  end
  for word, right in pairs{sep = "separator", user_col = "user", item_id = "item",
                           timestamp_col = "time"} do
    fails(("did you mean '%s'?"):format(right), fopo.data.read, "x.csv", {[word] = "a"})
  end
  fails("did you mean 'optim'?", with{optimizer = o})
  local t = trainer()
  for word, right in pairs{n_epochs = "epochs", max_iter = "epochs", early_stopping = "patience",
                           metric = "best_by", monitor = "best_by", verbose = "view"} do
    fails(("did you mean '%s'?"):format(right), t.run, t, {[word] = 2})
  end
  for _, word in ipairs{"fit", "train", "partial_fit"} do
    fails(("trainer has no field '%s'; did you mean 'run'?"):format(word), function()
      return t[word]
    end)
  end
  fails("pi:recommend(user, n) and pi:best(x, {k = n}) do that", function() pi:predict(1) end)
  fails("did you mean 'best'?", function() pi:topk(1) end)
  for word, right in pairs{pop = "popular", mf = "als", itemknn = "item_knn"} do
    fails(("did you mean '%s'?"):format(right), function() return b[word] end)
  end
  fails("did you mean 'read'?", function() return fopo.data.load_csv end)
  fails("did you mean 'trainer'?", function() return fopo.fit end)
  fails("did you mean 'item_knn'?", function() return b.knn end)
end

function TestWords:test_of_another_part()
  fails('no option "learning_rate"; it is an option of fopo.optim.adam: fopo.trainer{optim = '
        .. "fopo.optim.adam{lr = 0.01}, ...}", with{learning_rate = 0.01})
  fails("it is an option of trainer:run: t:run{epochs = 3}", with{epochs = 3})
  local t = trainer()
  fails("it is an option of fopo.optim.adam: fopo.trainer{optim = fopo.optim.adam{lr = 0.1}, ...}",
        t.run, t, {lr = 0.1})
  fails("it is an option of fopo.trainer: fopo.trainer{batch = 16, ...}", t.run, t,
        {batch_size = 16})
end

function TestWords:test_what_is_needed()
  fails("policy:explain needs item: the item that was recommended, by number or by name; write "
        .. "pi:explain(user, item", pi.explain, pi, "user")
  fails("write fopo.data.read(files, {...})", fopo.data.read)
end

TestChoices = {}

function TestChoices:test_words_and_numbers()
  fails('head must be "auto", or an integer of at least 1, not "many"', fopo.gradient.head_tail,
        {head = "many"})
  fails('head must be "auto", or an integer of at least 1, not a table', fopo.gradient.head_tail,
        {head = {}})
  fails("view must be one of lines, curses, or true or false, not", trainer().run, trainer(),
        {view = "cursed"})
  fails("device must be one of auto, cpu, cuda, not", with{device = "gpu"})
end

function TestChoices:test_more_than_there_are()
  local head = fopo.gradient.head_tail{head = 1000, tail = 5}
  fails("a head of 1000 items and a tail of 5 draws are more than the 400 items",
        with{gradient = head})
end

TestScripts = {}

-- What the program says of a script.
local function said(text)
  local path = os.tmpname() .. ".lua"
  local f = io.open(path, "w")
  f:write(text, "\n")
  f:close()
  f = io.popen(("%s %s 2>&1"):format(os.getenv("FOPO"), path))
  local all = f:read("a")
  f:close()
  os.remove(path)
  return all
end

function TestScripts:test_first_line()
  lu.assertStrContains(said('d = data.read("x.csv")'),
    '\n        ^^^^ begin with: local fopo = require "fopo", and write fopo.data\n')
  lu.assertStrContains(said("print(fopo.threads())"), 'begin with: local fopo = require "fopo"\n')
end

-- A script without the ending .lua, and standard input, whose lines are not known.
function TestScripts:test_first_line_elsewhere()
  local path = os.tmpname()
  local f = io.open(path, "w")
  f:write('d = data.read("x.csv")\n')
  f:close()
  f = io.popen(('"$FOPO" %s 2>&1; "$FOPO" - <%s 2>&1'):format(path, path))
  local all = f:read("a")
  f:close()
  os.remove(path)
  lu.assertStrContains(all, '\n        ^^^^ begin with: local fopo = require "fopo"')
  lu.assertStrContains(all, "stdin:1: attempt to index a nil value (global 'data')\n"
                       .. '    begin with: local fopo = require "fopo", and write fopo.data\n')
end

function TestScripts:test_braces()
  lu.assertStrContains(said("items = fopo.embed.svd(s.train, dim = 16)"),
    "options go in braces: fopo.embed.svd(s.train, {dim = ...})\n")
  lu.assertStrContains(said("g = fopo.gradient.snis(samples = 5)"),
    "\n" .. (" "):rep(27) .. "^^^^^^^ options go in braces: fopo.gradient.snis{samples = ...}\n")
end

-- The kinds that the remedies speak of exist, and so do the functions that they name.
function TestScripts:test_names()
  local f <close> = assert(io.open("lua/fopo/base/remedy.lua"))
  local n = 0
  for name in f:read("a"):gmatch('fopo%.[%w_.]+[({]') do
    name = name:sub(1, -2)
    lu.assertNotNil(define.entries[name], name)
    n = n + 1
  end
  lu.assertTrue(n > 30)
end

os.exit(lu.LuaUnit.run())
