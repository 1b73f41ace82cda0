-- Time to quality: CPU seconds of training until a policy has the quality that the exact gradient
-- reaches, by two fixed targets on users who were not trained on: expected reward, and reward (best
-- item), both without the items of X.
--
--   ./fopo scripts/studies/quality.lua [world or file ...] [name=value ...]
--
-- A target is `share` of the way from the start to what the exact gradient has after `steps` steps,
-- at the best of its learning rates, seed 1. The default has its own learning rate; the rivals have
-- the best of three, for each target: that of the smallest median over all seeds. A target is
-- reached at the first of two measurements in turn that are not below it. A run that does not reach
-- it within `limit` CPU seconds has "never", which counts as longer than any other. The interval is
-- the second smallest to the second largest of ten seeds, which holds the median in 97.9 of 100
-- cases. One thread. The CSV, runs/quality.csv, has a line a run. PYTHON= may name an interpreter
-- that has torch: then its mixture and REINFORCE are rivals, too, written as the paper has them,
-- over contexts that are made once; an item of X is to them an item that earns nothing.
--
-- Options (defaults): twin=0.01 of Twitch as the world, 0: none; min_items=20; dim=64; steps=2000
-- of the exact gradient; share=0.9; limit=5; seeds=1,2,3,4,5,6,7,8,9,10; lr=3e-4,1e-3,3e-3;
-- judged=1000 users; scale=1 of worlds.
-- Cost: at most 90 x limit, with torch 150 x limit, CPU seconds a world, 3 x steps of the exact
-- gradient, and what is judged.
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../bench/?.lua;" .. package.path
local study = require "common"
local bench = require "bench"
local world = require "world"
local o = study.options({worlds = {}, twin = 0.01, min_items = 20, dim = 64, steps = 2000,
                         share = 0.9, limit = 5, seeds = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                         lr = {3e-4, 1e-3, 3e-3}, judged = 1000, scale = 1})
local NEVER, GROWTH = math.huge, 1.3
local DEFAULT, OWN = "the default", 1e-3

local METHODS = {
  {DEFAULT, function() return fopo.gradient.head_tail{} end},
  {"the paper's mixture, no index named", function() return study.mixture() end},
  {"uniform draws", function() return fopo.gradient.snis{samples = 1000} end},
  {"REINFORCE", function() return fopo.gradient.reinforce{samples = 1000, baseline = "mean"} end},
  {"the mixture in PyTorch", torch = "mixture"},
  {"REINFORCE in PyTorch", torch = "reinforce"},
}
local TARGETS = {"expected", "reward"}

local function policy(w)
  return fopo.policy.linear{items = w.items, data = w.split.train, temperature = w.temperature}
end

local function trainer(w, gradient, lr, seed)
  return fopo.trainer{policy = policy(w), data = w.split.train, gradient = gradient,
                      optim = fopo.optim.adam{lr = lr}, seed = seed, valid = false}
end

local function judge(w, pi) return fopo.evaluate(pi, w.test, {exclude = "seen", k = 1}) end

-- What a trainer comes to after n more steps, and their CPU seconds.
local function steps(w, t, n)
  local start = os.clock()
  t:run{steps = n, every = n, view = false}
  local seconds = os.clock() - start
  return judge(w, t.policy), seconds
end

-- The worker of torch for a world, or nil; items are those of the policy over its temperature.
local function torch_worker(w)
  local pi, folder, train = policy(w), bench.folder .. "/quality", w.split.train
  bench.run("mkdir -p " .. folder)
  local items = w.items / w.temperature
  items:save(folder .. "/items.npy")
  train:contexts(pi):save(folder .. "/contexts.npy")
  world.export_lists(folder .. "/y", train, "y", train.n)
  pi:theta():save(folder .. "/start.npy")
  return bench.python("PyTorch", "torch_baseline.py", folder .. " 1 -")
end

-- The same as steps() of a run of torch.
local function steps_of_torch(w, method, lr, seed)
  local pi, folder = policy(w), bench.folder .. "/quality"
  w.torch:ask(("start %d %s/start.npy - %g"):format(seed, folder, lr))
  w.torch:ask("continue " .. seed)
  return function(n)
    local seconds = w.torch:ask(method.torch .. " " .. n)[3] * n
    w.torch:ask(("save %d %s/theta.npy"):format(seed, folder))
    pi:set_theta(fopo.array.load(folder .. "/theta.npy"))
    return judge(w, pi), seconds
  end
end

-- The targets of a world; of what the exact gradient does not raise there is none.
local function targets(w)
  local start, best = nil, {}
  for _, lr in ipairs(o.lr) do
    local t = trainer(w, fopo.gradient.exact{}, lr, 1)
    start = start or judge(w, t.policy)
    local e = steps(w, t, o.steps)
    for _, what in ipairs(TARGETS) do best[what] = math.max(best[what] or 0, e[what]) end
  end
  local wanted = {}
  for _, what in ipairs(TARGETS) do
    local gain = best[what] - start[what]
    wanted[what] = gain > 0 and start[what] + o.share * gain or nil
    print(("%s, %s: %.4f at the start, %.4f by the exact gradient, %s"):format(w.name, what,
      start[what], best[what], gain > 0 and ("wanted %.4f"):format(wanted[what]) or "no target"))
  end
  return wanted
end

-- CPU seconds until each target, NEVER if it is not within the limit.
local function run(w, method, lr, seed, wanted)
  local t = not method.torch and trainer(w, method[2](), lr, seed)
  local go = t and function(n) return steps(w, t, n) end or steps_of_torch(w, method, lr, seed)
  local spent, n, made, since, reached = 0, 5, 0, {}, {}
  local function lacks(what) return wanted[what] and not reached[what] end
  while spent < o.limit and (lacks("expected") or lacks("reward")) do
    local e, seconds = go(n)
    made, spent, n = made + n, spent + seconds, math.max(n + 1, math.floor(n * GROWTH))
    for _, what in ipairs(TARGETS) do
      if not lacks(what) or e[what] < wanted[what] then since[what] = nil
      elseif since[what] then reached[what] = since[what]
      else since[what] = spent end
    end
  end
  return {world = w.name, method = method[1], lr = lr, seed = seed, steps = made,
          expected = reached.expected or NEVER, reward = reached.reward or NEVER}
end

-- Second smallest, median and second largest of a list; of less than four the ends.
local function spread(list)
  table.sort(list)
  local n = #list
  local from = n > 3 and 2 or 1
  return {list[from], study.median(list), list[n + 1 - from]}
end

local function shown(x) return x == NEVER and "never" or ("%.3f"):format(x) end

local function row(name, lr, list)
  local s, never = spread(list), 0
  for _, x in ipairs(list) do never = never + (x == NEVER and 1 or 0) end
  return s[2], {name, ("%g"):format(lr), shown(s[2]), shown(s[1]) .. " to " .. shown(s[3]),
                ("%d of %d"):format(never, #list)}
end

local rows = {}
local function measure(w)
  w.test = w.split.test:gather(o.judged)
  w.temperature = fopo.policy.linear{items = w.items, data = w.split.train}.temperature
  local wanted, tables = targets(w), {}
  for _, what in ipairs(TARGETS) do
    tables[what] = {{"method", "lr", "median s", "interval", "never"}}
  end
  w.torch = torch_worker(w)
  for _, method in ipairs(METHODS) do
    local best = {}
    if method.torch and not w.torch then goto absent end
    for _, lr in ipairs(method[1] == DEFAULT and {OWN} or o.lr) do
      local lists = {expected = {}, reward = {}}
      for i, seed in ipairs(o.seeds) do
        local r = run(w, method, lr, seed, wanted)
        rows[#rows + 1] = r
        for _, what in ipairs(TARGETS) do lists[what][i] = r[what] end
      end
      for _, what in ipairs(TARGETS) do
        local median, cells = row(method[1], lr, lists[what])
        if not best[what] or median < best[what][1] then best[what] = {median, cells} end
      end
      study.keep("quality", {"world", "method", "lr", "seed", "steps", "expected", "reward"}, rows)
    end
    for _, what in ipairs(TARGETS) do table.insert(tables[what], best[what][2]) end
    ::absent::
  end
  if w.torch then w.torch:stop() end
  for _, what in ipairs(TARGETS) do
    if not wanted[what] then goto next end
    print(("\n%s: CPU seconds to %.4f of %s\n"):format(w.name, wanted[what],
      what == "expected" and "expected reward" or "reward"))
    print(require("fopo.base.text").table(tables[what]))
    ::next::
  end
  io.stdout:flush()
end

fopo.threads(1)
bench.section, bench.options = "quality", {threads = 1}
if o.twin > 0 then
  local split = fopo.data.synthetic{like = "twitch", fraction = o.twin, seed = 3}:sessions{
    min_items = o.min_items, valid = 0, test = 0.2, seed = 5}
  measure{name = ("twin of Twitch, %g"):format(o.twin), split = split,
          items = fopo.embed.svd(split.train, {dim = o.dim})}
end
for _, name in ipairs(o.worlds) do measure(study.world(name, o)) end
for _, note in ipairs(bench.notes) do print(note) end
