-- A training drawn by a seed, for tests/kills.py to end at any moment:
--
--   fopo kept.lua FOLDER SEED alone        goes on from the checkpoint of the folder if it has one
--   fopo kept.lua FOLDER SEED alone hold   says "begun" at its first record, and waits for a line
--   fopo kept.lua FOLDER SEED alone second tries to run on the log, then on the checkpoint, of
--                                          one that waits
--   mpirun ... fopo kept.lua FOLDER SEED ranks ...   of what several processes can share
--
-- It prints "ready", and at the end all that must not depend on interruptions: the bits of what is
-- learnt, the history, the notes, whose parameters are held, and what is in the log.
local fopo = require "fopo"
local sealed = require "fopo.base.sealed"
local folder, seed, ranks, how = arg[1], math.tointeger(arg[2]), arg[3] == "ranks", arg[4]
local checkpoint, log = folder .. "/checkpoint.npz", folder .. "/log"

-- A generator of its own, so that a configuration is a function of the seed
-- (splitmix64; Steele, Lea and Flood 2014).
local state = seed
local function pick(...)
  state = state + 0x9E3779B97F4A7C15
  local z = state
  z = (z ~ z >> 30) * 0xBF58476D1CE4E5B9
  z = (z ~ z >> 27) * 0x94D049BB133111EB
  return (select(1 + ((z ~ z >> 31) >> 33) % select("#", ...), ...))
end

-- What is drawn, by name, and the names in their order.
local c, names = {}, {}
local function draw(name, ...)
  c[name] = pick(...)
  names[#names + 1] = name
end

-- ---- the draw: the same numbers for the same seed, whatever is used of them ----

draw("world", "users", "users", "users", "users", "last", "logs", "logs", "time", "prefixes")
draw("kind", "linear", "linear", "linear", "paper", "mlp", "deep", "blocks", "learnt", "neighbours",
     "hybrid", "weights", "own")
draw("seen", "keep", "mask")
draw("rows", "float32", "float32", "float16", "bfloat16")
draw("estimator", "standard", "head", "head and tail", "by mass", "snis", "snis", "reinforce",
     "exact", "sparse", "slate", "plackett_luce", "custom")
draw("objective", "reward", "reward", "likelihood", "log_reward", "smoothed", "snips", "custom")
draw("proposal", "mixture", "mixture", "automatic", "adaptive", "uniform", "custom")
draw("index", "norm", "budget", "exact", "clusters", "hnsw", "hybrid")
draw("refresh", 1, 2, 3, "once")
draw("value", false, false, true)
draw("optim", "adam", "adam", "sgd", "adagrad")
draw("lr", 0.003, 0.05, 0.3)
draw("schedule", false, false, "cosine", "linear", "step")
draw("batch", 8, 16)
draw("resplit", true, true, false)
draw("valid", true, true, true, false)
draw("exclude", false, false, "none")
draw("best_by", "standard", "greedy", "expected", "ndcg@10", "recall@5", "hit@3", "precision@2")
draw("patience", false, false, 3, 6)
draw("keep_best", true, true, true, false)
draw("every", 5, 7, 10)
draw("steps", 60, 90)
draw("replay", false, false, true)
draw("job", true, false, false)
draw("shared", "whole", "whole", "sessions", "items")
draw("contexts", false, false, "mean", "unit", "degree", "sqrt_degree", "idf")
draw("by_index", false, false, true)
draw("shown", "a reward", "a reward", "hits", "custom")

-- ---- what of it goes together ----

if ranks then
  c.job, c.replay = false, false
  local alone = {blocks = "mlp", learnt = "linear", weights = "neighbours", own = "deep"}
  c.kind = alone[c.kind] or c.kind -- the others are of one process
  if c.world == "logs" then c.world = "users" end
  if c.estimator == "custom" then c.estimator = "snis" end
  if c.proposal == "custom" then c.proposal = "mixture" end
  if c.objective == "custom" then c.objective = "log_reward" end
  if c.shown == "custom" then c.shown = "hits" end
  if c.shared ~= "whole" then
    c.resplit, c.kind = false, "linear"
  end
  if c.shared == "items" then -- sums depend on the number of ranks: no choice may
    c.valid, c.optim, c.lr, c.value = false, "sgd", 0.001, false
    c.estimator = (c.estimator == "snis" or c.estimator == "exact") and c.estimator or "head"
    if c.proposal == "automatic" or c.proposal == "adaptive" then c.proposal = "mixture" end
    c.objective, c.rows, c.index, c.by_index = "reward", "float32", "norm", false
    c.shown, c.contexts = "a reward", false
  end
else
  c.shared = "whole"
end
local logs = c.world == "logs"
local lists = c.kind == "neighbours" or c.kind == "hybrid" or c.kind == "weights"
if logs then
  c.kind, c.seen, c.contexts, lists = c.kind == "mlp" and "mlp" or "linear", "keep", false, false
end
local learns_items = c.kind == "blocks" or c.kind == "learnt"
if learns_items then c.rows, c.job, c.by_index = "float32", false, false end
local slates = c.estimator == "slate" or c.estimator == "plackett_luce"
if lists then
  c.seen, c.rows, c.contexts, c.by_index = "mask", "float32", false, false
  c.estimator = "sparse"
  if c.shown == "custom" then c.shown = "hits" end
elseif c.estimator == "sparse" or slates and learns_items then
  c.estimator = "standard"
end
slates = c.estimator == "slate" or c.estimator == "plackett_luce"
if c.kind == "own" then c.rows, c.job, c.contexts = "float32", false, "mean" end
if c.kind == "paper" then c.seen, c.contexts = "keep", false end
if logs or c.world == "last" or c.shown == "custom" then c.resplit = false end
if not c.valid or logs then c.best_by, c.exclude, c.by_index = false, false, false end
if not c.valid then c.patience = false end
if c.seen == "mask" then c.exclude = false end
if c.shown == "custom" then c.job = false end
local of_hits = not logs and c.shown ~= "custom"
local with_rule = {exact = true, snis = true, head = true, ["head and tail"] = true,
                   ["by mass"] = true, standard = true}
if c.objective == "snips" and not (logs and c.shown ~= "custom") or slates or
   c.objective == "likelihood" and (not of_hits or learns_items) or
   c.objective == "custom" and (learns_items or not with_rule[c.estimator]) or
   c.estimator == "reinforce" or c.estimator == "custom" then
  c.objective = "reward"
end
if c.estimator == "custom" or c.proposal == "custom" and c.estimator == "snis" or
   c.objective == "custom" then
  c.job = false
end
if c.job then c.replay = false end
if logs and c.valid then c.job = false end

-- ---- the world ----

-- The same interactions with times, by way of a file.
local function with_times(d)
  local path = ("%s/world.%d.csv"):format(folder, fopo.ranks().rank)
  local f = io.open(path, "w")
  f:write("user,item,time\n")
  for u = 1, d.n_users do
    local ids = d:row(u)
    for j = 1, ids.cols do f:write(u, ",", ids:get(1, j), ",", pick(1, 5, 9, 14, 22, 40), "\n") end
  end
  f:close()
  local read = fopo.data.read(path)
  os.remove(path)
  return read
end

local d, s, train, valid, items
if logs then
  local all = fopo.data.synthetic_logs{n = 400, actions = pick(40, 80), dim = 4,
                                       seed = pick(1, 2, 3)}
  train, valid = all:split{train = 0.6, seed = 1}
  items = train:items()
else
  d = fopo.data.synthetic{users = pick(150, 250), items = pick(120, 200), clusters = 6,
                          seed = pick(1, 2, 3)}
  local o = {split = c.world, min_items = pick(6, 8), seed = pick(1, 2), test = 0.1,
             valid = c.world ~= "last" and 0.3 or nil}
  if c.world == "time" or c.world == "prefixes" then
    d = with_times(d)
    if c.world == "prefixes" then o.split, o.order = "users", "time" end
  end
  s = d:sessions(o)
  train, valid, items = s.train, s.valid, fopo.embed.svd(s.train, {dim = pick(4, 6)})
  if c.shared == "items" then items = fopo.shard(items) end
end
local worth = {}
for a = 1, items.rows do worth[a] = a % 6 / 2 end

-- ---- the trainer ----

-- tanh(W x + b)
local function own(o)
  local D, L = o.items.cols, o.items.cols
  o.parameters = {W = fopo.array.randn(D, L, 1), b = fopo.array.zeros(1, L)}
  local function h(x, p) return 1 - 2 / ((2 * (x:matmul(p.W) + p.b)):exp() + 1) end
  function o.queries(x, p) return h(x, p) end
  function o.backward(x, V, p)
    local y = h(x, p)
    local dy = V * (1 - y * y)
    return {W = x:matmul(dy, true), b = dy:sum("columns")}
  end
  return fopo.policy.custom(o)
end

local policies = {
  own = own,
  linear = function(o) return fopo.policy.linear(o) end,
  paper = function(o)
    o.preset = "paper"
    return fopo.policy.linear(o)
  end,
  mlp = function(o)
    o.hidden = {5}
    return fopo.policy.mlp(o)
  end,
  deep = function(o)
    o.hidden, o.activation = {5, 3}, "relu"
    return fopo.policy.mlp(o)
  end,
  blocks = function(o)
    o.hidden, o.learn = {5}, {"W2", "items"}
    return fopo.policy.mlp(o)
  end,
  learnt = function(o)
    o.train_items = true
    return fopo.policy.linear(o)
  end,
  neighbours = function()
    local learn = pick(nil, {"theta", "bias", "importance"})
    return fopo.policy.neighbours{data = train, start = "cosine", n = 10,
                                  learn = not ranks and learn or nil}
  end,
  hybrid = function()
    local o = {data = train, start = "jaccard", n = 10, scored = "all", dense_start = 1}
    if ranks then
      o.items = items
    else
      o.dense, o.learn = fopo.policy.mlp{items = items, hidden = {3}}, {"theta"}
    end
    return fopo.policy.neighbours(o)
  end,
  weights = function()
    return fopo.policy.neighbours{data = train, start = "cosine", n = 10,
                                  learn = {"theta", "weights"}}
  end,
}
local pi = policies[c.kind]{items = items, rows = c.rows, seen = not logs and c.seen or nil,
                            contexts = c.contexts or nil, data = c.contexts and train or nil}

local indexes = {
  norm = fopo.index.norm, exact = fopo.index.exact, clusters = fopo.index.clusters,
  budget = function(over) return fopo.index.norm(over, {budget = "auto"}) end,
  hnsw = function(over) return fopo.index.hnsw(over, {M = 6, deterministic = true}) end,
  hybrid = function(over) return fopo.index.hybrid(over, {M = 6, deterministic = true}) end,
}
local function index() return indexes[c.index](pi:items()) end
local proposals = {
  mixture = function()
    return fopo.proposal.mixture{index = index(), k = 10, refresh = c.refresh,
                                 draws = pick("iid", "stratified")}
  end,
  automatic = function() return fopo.proposal.mixture{k = 10, refresh = c.refresh} end,
  adaptive = function() return fopo.proposal.adaptive{k = 10, refresh = c.refresh} end,
  uniform = fopo.proposal.uniform,
  custom = function()
    return fopo.proposal.custom{draws = function(Q, _, S, of, step)
      local p = (Q:matmul(pi:items(), false, true) / 2):softmax("rows")
      local ids = p:draw(S, of, step)
      return ids, p:gather(ids):log()
    end}
  end,
}
local function snis(_, F, log_q, rewards)
  local w = (F - log_q):softmax("rows")
  return w * (rewards - (w * rewards):sum("rows"))
end
local function slate(o) -- what both have
  local measures = {"hit", "sum", "dcg", "ndcg"}
  o.k, o.measure = 4, pick(table.unpack(measures, 1, of_hits and not c.value and 4 or 3))
  o.samples, o.discount = 6, pick("auto", 0.8)
  return o
end
local gradients = {
  standard = function() return nil end,
  sparse = fopo.gradient.sparse,
  ["by mass"] = function(o)
    o.head, o.k, o.tail = "auto", 10, 12
    return fopo.gradient.head_tail(o)
  end,
  slate = function(o)
    o.index, o.draws = pick(nil, index()), pick("antithetic", "iid")
    o.sigma_lr = pick(0, 0.1, 0.1)
    return fopo.gradient.slate(slate(o))
  end,
  plackett_luce = function(o)
    o = slate(o)
    o.credit = of_hits and o.measure ~= "hit" and pick("slate", "place") or "slate"
    return fopo.gradient.plackett_luce(o)
  end,
  custom = function()
    return fopo.gradient.custom{coefficients = snis, samples = 20, draw = proposals[c.proposal]()}
  end,
  head = function(o)
    o.head, o.tail = 24, 12
    return fopo.gradient.head_tail(o)
  end,
  ["head and tail"] = function(o)
    o.index, o.k, o.tail, o.refresh = index(), 10, 12, c.refresh
    return fopo.gradient.head_tail(o)
  end,
  snis = function(o)
    o.samples, o.proposal = 20, proposals[c.proposal]()
    return fopo.gradient.snis(o)
  end,
  reinforce = function(o)
    o.samples, o.baseline = 10, pick("none", "mean")
    return fopo.gradient.reinforce(o)
  end,
  exact = fopo.gradient.exact,
}
if c.objective == "custom" then
  c.objective = fopo.objective.custom{value = function(R)
    return R:maximum(1e-6):sqrt(), R:maximum(1e-6) ^ -0.5 / 2
  end}
end
local gradient = gradients[c.estimator]{objective = c.objective}

local optims = {
  adam = function(o) return fopo.optim.adam(o) end,
  sgd = function(o)
    o.momentum, o.clip = pick(0, 0.9), pick(nil, 5)
    return fopo.optim.sgd(o)
  end,
  adagrad = function(o) return fopo.optim.adagrad(o) end,
}
local schedule = c.schedule and fopo.schedule[c.schedule]{
  steps = c.schedule ~= "step" and c.steps or nil, every = c.schedule == "step" and 20 or nil,
  warmup = 5} or nil
local optim = optims[c.optim]{lr = c.lr, schedule = schedule, weight_decay = pick(0, 0, 1e-3)}

local reward
if c.shown == "custom" then
  reward = fopo.reward.custom(function(ids, rows)
    local r = fopo.array.zeros(ids.rows, ids.cols)
    for b = 1, ids.rows do
      for i = 1, ids.cols do
        if (3 * rows:get(1, b) + 7 * ids:get(b, i)) % 11 == 0 then r:set(b, i, 0.5) end
      end
    end
    return r
  end)
elseif c.objective == "snips" then
  reward = fopo.reward.ips{logs = train, clip = pick(nil, 0.05)}
elseif logs then
  reward = pick(fopo.reward.ips, fopo.reward.direct, fopo.reward.doubly_robust, fopo.reward.switch){
    logs = train}
elseif c.value then
  reward = fopo.reward.hits(train, {value = worth})
end

local data = train
if c.shared ~= "whole" then data = train:share(pi) end
if c.shared ~= "whole" and reward then reward = fopo.reward.hits(data, {value = worth}) end
local t = fopo.trainer{policy = pi, data = data, gradient = gradient, batch = c.batch, seed = seed,
                       objective = not gradient and c.objective or nil,
                       optim = pick(true, not lists) and optim or nil, reward = reward,
                       valid = c.valid and valid or false, exclude = c.exclude or nil,
                       index = c.by_index and index() or nil, resplit = c.resplit}

-- ---- the run ----

local options = {every = c.every, checkpoint = checkpoint, every_seconds = 0.002, log = log,
                 best_by = c.best_by ~= "standard" and c.best_by or nil,
                 patience = c.patience or nil, keep_best = c.keep_best}
if how == "second" then
  for _, taken in ipairs{"log", "checkpoint"} do
    print(select(2, pcall(t.run, t, {steps = 1, view = false, [taken] = options[taken]})))
  end
  os.exit(0)
elseif how == "hold" then
  function options.on_record()
    if how then print("begun") io.flush() io.read() end
    how = nil
  end
end
local f = io.open(checkpoint)
if f then
  f:close()
  t:resume(checkpoint)
elseif fopo.ranks().rank == 0 then
  os.execute("rm -rf '" .. log .. "'") -- killed before there was a state to go on from
end
if c.replay then
  options.replay = {}
  for _, step in ipairs{10, 25, 26, 40} do
    local a = {step = step, what = "lr", value = c.lr * (1 + step % 3) / 2}
    if step >= t.step then
      table.insert(options.replay, a)
    else
      t.lr = a.value -- t:resume leaves the rate to the script
    end
  end
end
print("ready", t.step)
io.flush()
if t.unfinished or t.step == 0 then
  if not t.unfinished then options.steps = c.steps end
  local ok, why = pcall(function()
    if c.job then return t:start(options):wait() end
    options.view = false
    t:run(options)
  end)
  if not ok and not why:find("is not finite", 1, true) then error(why, 0) end
  -- a rate that is too large ends the run, at the same step each time
  if not ok then print("ends", why) end
end

-- ---- what must be equal ----

local shown = {}
for i, name in ipairs(names) do shown[i] = name .. " " .. tostring(c[name]) end
print(table.concat(shown, "  "))
local function number(value)
  return value ~= value and "nan" or value and ("%.17g"):format(value) or "none"
end
local timed = {seconds = true, steps_per_second = true}
for _, phase in ipairs(require("fopo.native").phases()) do timed[phase.column] = true end
local columns = {}
for name in pairs(t.history) do columns[#columns + 1] = not timed[name] and name or nil end
table.sort(columns)
for _, name in ipairs(columns) do
  local list = {}
  for n, value in ipairs(t.history[name]) do list[n] = number(value) end
  print(name, table.concat(list, " "))
end
local held, began = t.held or {}, sealed.behind(t).began or {}
print("held", number(held.step), number(held.valid), number(held.expected), number(held.measure),
      "best", number(t.best_step), "step", t.step)
print("began", number(began.step), number(began.valid), number(began.expected))
local function digits(name, a)
  local list = {}
  for i = 1, a.rows do
    for j = 1, a.cols do list[#list + 1] = ("%a"):format(a:get(i, j)) end
  end
  print(name, table.concat(list, " "))
end
digits("theta", t.policy:theta())
print("sigma", number(t.gradient.sigma))
if c.shared ~= "items" then
  digits("items", t.policy:items())
  t.policy:save(folder .. "/policy.npz")
end
if c.kind == "weights" then
  local list = {}
  for i = 1, 5 do
    for _, one in ipairs(t.policy:recommend({items = {i, i + 7}}, 5)) do
      list[#list + 1] = ("%d %a"):format(one.item, one.score)
    end
  end
  print("weights", table.concat(list, " "))
end
print("notes", table.concat(t.notes, " | "))
if fopo.ranks().rank > 0 then return end
local written = require("fopo.run.log").read(log).history
print("log", table.concat(written.step, " "), #written.step == #t.history.step)
for n, value in ipairs(written.reward) do
  local here = t.history.reward[n] or 0 / 0
  if math.abs(value - here) > 1e-9 or here ~= here then
    error(("record %d of %d, of %d in the log, has %.9g there, not %.9g"):format(n,
      #t.history.step, #written.step, value, here))
  end
end
local notes = io.open(log .. "/notes.txt")
print("notes in the log", notes and notes:read("a"):gsub("\n", " | ") or "none")
