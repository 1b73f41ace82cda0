-- A training drawn by a seed, for tests/kills.py to end at any moment:
--
--   fopo kept.lua FOLDER SEED        goes on from the checkpoint of the folder, if there is one
--   fopo kept.lua FOLDER SEED second tries to share the folder: prints who has it
--
-- It prints "ready", and at the end all that must not depend on interruptions: theta's bits, the
-- history, the notes, whose parameters are held, and what is in the log.
local fopo = require "fopo"
local sealed = require "fopo.base.sealed"
local folder, seed = arg[1], math.tointeger(arg[2])
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

-- ---- the configuration ----

local d = fopo.data.synthetic{users = pick(150, 250), items = pick(120, 200), clusters = 6,
                              seed = pick(1, 2, 3)}
local s = d:sessions{min_items = pick(6, 8), valid = 0.3, test = 0.1, seed = pick(1, 2)}
local dim = pick(4, 6)
local items = fopo.embed.svd(s.train, {dim = dim})
local mask = pick("keep", "mask")

local policies = {
  linear = function() return fopo.policy.linear{items = items, seen = mask} end,
  paper = function() return fopo.policy.linear{items = items, preset = "paper"} end,
  mlp = function() return fopo.policy.mlp{items = items, hidden = {5}, seen = mask} end,
  blocks = function()
    return fopo.policy.mlp{items = items, hidden = {5}, seen = mask, learn = {"W2", "items"}}
  end,
  learnt = function()
    return fopo.policy.linear{items = items, seen = mask, train_items = true}
  end,
  neighbours = function()
    return fopo.policy.neighbours{data = s.train, start = "cosine", n = 10}
  end,
  hybrid = function()
    return fopo.policy.neighbours{data = s.train, start = "jaccard", n = 10, items = items}
  end,
}
local kind = pick("linear", "linear", "paper", "mlp", "blocks", "learnt", "neighbours", "hybrid")
local learns_items = kind == "blocks" or kind == "learnt"

local proposals = {
  mixture = function()
    return fopo.proposal.mixture{index = fopo.index.norm(items), k = 10, refresh = 1 + seed % 3}
  end,
  automatic = function() return fopo.proposal.mixture{k = 10} end,
  adaptive = function() return fopo.proposal.adaptive{k = 10} end,
}
local gradients = {
  snis = function(q)
    return fopo.gradient.snis{samples = 20, proposal = q and proposals[q]()}
  end,
  reinforce = function() return fopo.gradient.reinforce{samples = 10} end,
  exact = function() return fopo.gradient.exact{} end,
  standard = function() return nil end,
}
local proposal = pick("mixture", "automatic", "adaptive")
local estimator = pick("standard", "snis", "snis", "reinforce", "exact")
-- A save brings the order of learnt items up to date that a shared head makes by itself, so that
-- its bits depend on when the clock lets a run save.
if learns_items and estimator == "standard" then estimator = "snis" end
local optims = {adam = {lr = pick(0.003, 0.05, 0.3)}, sgd = {lr = 0.3}, adagrad = {lr = 0.1}}
local optim = pick("adam", "adam", "sgd", "adagrad")
local validates = pick(true, true, true, false)
local batch, resplit = pick(8, 16), pick(true, true, false)
local steps, every, as_job = pick(60, 90), pick(5, 7, 10), pick(true, false, false)
local best_by = validates and pick("greedy", "expected", "ndcg@10", "recall@5") or nil
local patience = validates and pick(nil, nil, 3, 6) or nil
local keep_best, exclude = pick(true, true, true, false), pick("seen", "none")
as_job = as_job and not learns_items

local function make()
  local lists = kind == "neighbours" or kind == "hybrid"
  local g
  if not lists then g = gradients[estimator](not learns_items and proposal or nil) end
  local pi = policies[kind]()
  if lists or validates == false or mask == "mask" then exclude = nil end
  return fopo.trainer{policy = pi, data = s.train, gradient = g, batch = batch, seed = seed,
                      optim = not lists and fopo.optim[optim](optims[optim]) or nil,
                      valid = validates and s.valid or false, exclude = exclude,
                      resplit = resplit or false}
end

-- ---- the run ----

local t = make()
local options = {every = every, checkpoint = checkpoint, every_seconds = 0.002, log = log,
                 best_by = best_by, patience = patience, keep_best = keep_best}
if arg[3] == "second" then
  for _, path in ipairs{log .. "/lock", checkpoint .. ".lock"} do -- what t:run asks first
    local ok, held = pcall(require("fopo.run.lock").take, path, path, "wait")
    print(ok and "it is free" or held)
    if ok then held:release() end
  end
  os.exit(0)
end
local f = io.open(checkpoint)
if f then
  f:close()
  t:resume(checkpoint)
else
  os.execute("rm -rf '" .. log .. "'") -- killed before there was a state to go on from
end
print("ready", t.step)
io.flush()
if t.unfinished or t.step == 0 then
  if not t.unfinished then options.steps = steps end
  if as_job then
    t:start(options):wait()
  else
    options.view = false
    t:run(options)
  end
end

-- ---- what must be equal ----

print(kind, estimator, proposal, mask, optim, "valid", validates, best_by, "patience", patience,
      "keep_best", keep_best, "job", as_job, "exclude", exclude, "resplit", resplit)
local timed = {seconds = true, steps_per_second = true}
for _, phase in ipairs(require("fopo.native").phases()) do timed[phase.column] = true end
local names = {}
for name in pairs(t.history) do names[#names + 1] = not timed[name] and name or nil end
table.sort(names)
for _, name in ipairs(names) do
  local list = {}
  for n, value in ipairs(t.history[name]) do list[n] = ("%.17g"):format(value) end
  print(name, table.concat(list, " "))
end
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
print("notes", table.concat(t.notes, " | "))
local held = t.held or {}
print("held", held.step, held.valid, held.expected, "best", t.best_step, "step", t.step)
local began = sealed.behind(t).began or {}
print("began", began.step, began.valid, began.expected)
for _, name in ipairs{"theta", "items"} do
  local a = t.policy[name](t.policy)
  local digits = {}
  for i = 1, a.rows do
    for j = 1, a.cols do digits[#digits + 1] = ("%a"):format(a:get(i, j)) end
  end
  print(name, table.concat(digits, " "))
end
