-- Section reward: seconds of training until 95 % of the reward that the paper's mixture (SNIS, K =
-- 256, eps = 0.8, S = 1000, exact candidates, float32) has after its last step.
--
-- Rewards are means over the seeds. All rows of a seed start from the same theta and visit the same
-- contexts in the same order, with the same Adam; PyTorch with FAISS too, which is told both. The
-- reward, by true argmax over the catalogue, is measured at fixed steps, on the same test contexts
-- for all. It is reached where two measurements in turn are not below it, as one alone may be
-- chance; between measurements the step is interpolated, and the times are those of each seed until
-- that step. They are of the steps alone, searches included. Indexes and FAISS's graph, which are
-- built before, and every evaluation are not in them; the order by norm of a head is, as its first
-- step finds it. A row that is cut by `limit`, or ends below the 95 %, gives a lower bound.
--
-- Worlds: the files below `folder`, split as the studies split theirs, their large world, and a
-- twin of Twitch. With device=cuda ours and PyTorch's are on the card, where PyTorch draws its
-- contexts.
local fopo = require "fopo"
local bench = require "bench"
local world = require "world"
local study = require "common" -- scripts/studies
local S, K, LR, DIM, SHARE = 1000, 256, 0.01, 100, 0.95
-- Steps between two measurements grow by this factor, from that share of the steps.
local GROWTH, FIRST = 1.25, 1 / 50

-- ---- rows of the table ----

local REFERENCE, TORCH = "mixture", "torch mixture"

-- {name, gradient(items, an exact index over them), rows, until_reached: it ends there, because
-- all steps would take too long, target against PyTorch on files}. The first is the reference.
local METHODS = {
  {REFERENCE, function(_, index) return study.mixture(index) end},
  {"REINFORCE", function() return fopo.gradient.reinforce{samples = S, baseline = "mean"} end,
   until_reached = true},
  {"uniform", function() return fopo.gradient.snis{samples = S} end},
  {"mixture, kept 20 visits", function(_, index) return study.mixture(index, {refresh = 20}) end},
  {"head and tail 256 + 64 of 8,192", function(items)
    return fopo.gradient.head_tail{index = fopo.index.norm(items, {budget = 8192}), k = K,
                                   tail = 64}
  end, rows = "float16"},
  {"shared head 512 + 64", function() return fopo.gradient.head_tail{head = 512, tail = 64} end,
   target = 50},
  {"shared head 2,048 + 64", function() return fopo.gradient.head_tail{head = 2048, tail = 64} end,
   target = 50},
  {"mixture, no index named", function() return study.mixture() end},
  {"head by mass + 64, bfloat16", function()
    return fopo.gradient.head_tail{head = "auto", tail = 64}
  end, rows = "bfloat16", target = 50},
  {"head and tail, default", function() return fopo.gradient.head_tail{} end, target = 50},
}

-- ---- a run ----

-- The steps after which the reward is measured.
local function checkpoints(steps)
  local list, at = {}, math.max(1, math.ceil(steps * FIRST))
  while at < steps do
    list[#list + 1] = at
    at = math.max(math.floor(at * GROWTH), at + 1)
  end
  list[#list + 1] = steps
  return list
end

-- Measures the greedy reward of theta on at most options.test of the test contexts.
local function judge(w)
  local rows = {}
  local n = math.min(bench.options.test, w.split.test.n)
  for i = 1, n do rows[i] = (i - 1) * w.split.test.n // n + 1 end
  local x = w.split.test:contexts(w.items):rows_of(fopo.array.ids(rows))
  return function(policy)
    local best, hits = policy:best(x, {index = w.index}), 0
    for i = 1, n do
      if w.split.test:hits(rows[i], best:get(i, 1)) then hits = hits + 1 end
    end
    return hits / n
  end
end

-- Is the reward of place i of the curve, and that of the next if there is one, at least `wanted`?
local function holds(curve, i, wanted)
  return curve[i].reward >= wanted and (not curve[i + 1] or curve[i + 1].reward >= wanted)
end

-- Runs each of `runs` = {{run(steps) -> seconds, reward()}, ...} and returns their curve: {step,
-- seconds = of each, reward = the mean}, ... wanted: the reward at which it may end.
local function curve_of(runs, steps, wanted)
  local curve = {{step = 0, seconds = {}, reward = 0}}
  for i, r in ipairs(runs) do
    curve[1].seconds[i] = 0
    curve[1].reward = curve[1].reward + r.reward() / #runs
  end
  for _, step in ipairs(checkpoints(steps)) do
    local before, now = curve[#curve], {step = step, seconds = {}, reward = 0}
    for i, r in ipairs(runs) do
      now.seconds[i] = before.seconds[i] + r.run(step - before.step)
      now.reward = now.reward + r.reward() / #runs
    end
    curve[#curve + 1] = now
    if study.mean(now.seconds) > bench.options.limit then break end
    if wanted and holds(curve, #curve - 1, wanted) then break end
  end
  return curve
end

-- Seconds of each run until the curve reaches `wanted`; if it does not, all of them, and true.
local function reaches(curve, wanted)
  for i, c in ipairs(curve) do
    if holds(curve, i, wanted) then
      local b, list = curve[i - 1] or c, {}
      local part = b.reward < wanted and (wanted - b.reward) / (c.reward - b.reward) or 0
      for seed, seconds in ipairs(b.seconds) do
        list[seed] = seconds + part * (c.seconds[seed] - seconds)
      end
      return list, false
    end
  end
  return curve[#curve].seconds, true
end

local function policy_of(w, seed, rows)
  return fopo.policy.linear{items = w.items, preset = "paper", seed = seed, rows = rows}
end

-- One of ours.
local function ours(w, method, seed)
  local gradient = method[2](w.items, w.index)
  local t = study.trainer(w, gradient, {seed = seed, lr = LR, rows = method.rows,
                                        device = bench.options.device})
  return {reward = function() return w.reward(t.policy) end,
          head = function() return world.head(t) end,
          run = function(steps)
            return (bench.time(function() t:run{steps = steps, every = steps, view = false} end))
          end}
end

-- PyTorch's mixture: it reads theta and the contexts of each step from files, and writes theta.
local function theirs(w, worker, seed)
  local policy, steps = policy_of(w, seed), w.steps
  local theta, order = bench.folder .. "/torch/theta.npy", bench.folder .. "/torch/order.npy"
  policy:theta():save(theta)
  local rows = {}
  for step = 0, steps - 1 do
    local batch = w.split.train:batch{size = 32, seed = seed, step = step}
    for j = 1, 32 do rows[#rows + 1] = j <= batch.cols and batch:get(1, j) or 0 end
  end
  fopo.array.from(rows):save(order)
  if bench.options.device == "cuda" then order = "-" end
  worker:ask(("start %d %s %s %g"):format(seed, theta, order, LR))
  return {reward = function()
            worker:ask(("save %d %s"):format(seed, theta))
            policy:set_theta(fopo.array.load(theta))
            return w.reward(policy)
          end,
          run = function(n)
            worker:ask("continue " .. seed)
            local answer = worker:ask("mixture " .. n)
            if answer[2] == "absent" then error(answer[3], 0) end
            return answer[3] * n
          end}
end

-- ---- a world ----

-- The worker of PyTorch with the world's data, or nil.
local function torch(w)
  local graph = ("%s-%d-%d-%d"):format(w.name:gsub("[^%w]", "_"), w.items.rows, DIM,
                                       w.split.train.n)
  if bench.options.device == "cuda" then graph = nil end
  local worker = world.torch(w.name .. ": ", w.items, w.split.train, w.split.train.n, graph)
  local answer = worker and worker:ask("mixture 1")
  if not answer or answer[2] ~= "absent" then return worker end
  bench.note("%s: PyTorch's mixture skipped: %s", w.name, answer[3])
  worker:stop()
  return nil
end

-- Keeps what the curve of a method tells, under its name.
local function keep(results, name, curve, wanted, head)
  local seconds, cut = reaches(curve, wanted)
  local last = curve[#curve]
  results[name] = {seconds = seconds, cut = cut, last = last, head = head}
  bench.say("%s: %s%.3f s; %.4f after %d steps, %.3f ms each", name, cut and "> " or "",
            bench.median(seconds), last.reward, last.step,
            1e3 * bench.median(last.seconds) / last.step)
end

-- The runs of a method, one for each seed.
local function runs_of(make)
  local list = {}
  for i, seed in ipairs(bench.options.seeds) do list[i] = make(seed) end
  return list
end

local function all_methods(w, worker)
  local results, wanted = {}, nil
  for _, method in ipairs(METHODS) do
    local runs = runs_of(function(seed) return ours(w, method, seed) end)
    local curve = curve_of(runs, w.steps, method.until_reached and wanted)
    wanted = wanted or SHARE * curve[#curve].reward
    keep(results, method[1], curve, wanted, runs[1].head())
    collectgarbage()
  end
  if worker then
    local runs = runs_of(function(seed) return theirs(w, worker, seed) end)
    keep(results, TORCH, curve_of(runs, w.steps, wanted), wanted, "")
  end
  return results
end

local function row(w, results, name, against, target)
  local mine, other = results[name], results[against]
  if not mine or not other or name == against then return end
  bench.row{what = ("%s: %s"):format(w.name, name), unit = "s", mine = mine.seconds,
            mine_cut = mine.cut, against = against, other = other.seconds, other_cut = other.cut,
            faster = true, target = target}
end

local function show(w, results)
  for _, method in ipairs(METHODS) do
    row(w, results, method[1], REFERENCE)
    row(w, results, method[1], TORCH, w.is_file and method.target or nil)
  end
  for _, method in ipairs{{TORCH}, table.unpack(METHODS)} do
    local r = results[method[1]]
    if r then
      bench.note("%s: %s: reward %.4f after %d steps in %.3f s%s", w.name, method[1], r.last.reward,
                 r.last.step, bench.median(r.last.seconds), r.head)
    end
  end
end

local function measure(w)
  w.reward = judge(w)
  bench.note("%s: %d items, %d contexts, %d steps of 32, %d of %d test contexts", w.name,
             w.items.rows, w.split.train.n, w.steps, math.min(bench.options.test, w.split.test.n),
             w.split.test.n)
  local worker = torch(w)
  local results = all_methods(w, worker)
  if worker then worker:stop() end
  show(w, results)
end

-- The paths of the files that are there; the others are skipped by name.
local function files()
  local found = {}
  for _, name in ipairs(bench.options.files) do
    local path = name:match("^/") and name or bench.options.folder .. "/" .. name
    local f <close> = io.open(path, "r")
    if f then found[#found + 1] = path else bench.note("%s skipped: it is not in %s", name,
      bench.options.folder == "" and "a folder that folder= names" or bench.options.folder) end
  end
  return found
end

local reward = {}

function reward.reward()
  local o = bench.options
  local ok, why = pcall(require("fopo.native").device, o.device)
  if not ok then return bench.note("skipped: %s", (tostring(why):gsub("^.-:%d+: ", ""))) end
  for _, path in ipairs(files()) do
    bench.say("%s", path)
    local w = study.world(path, {dim = DIM, min_items = 10})
    w.name, w.steps, w.is_file = path:match("([^/]+)/[^/]+$") or path, o.steps, true
    measure(w)
    collectgarbage()
    collectgarbage()
  end
  if o.large then
    local w = study.world("large", {dim = DIM, scale = o.scale})
    w.steps = 4 * o.steps
    measure(w)
  end
  if o.twin > 0 then
    local split = fopo.data.synthetic{like = "twitch", fraction = o.twin, seed = 3}:sessions{
      min_items = 10, valid = 0, test = 0.1, seed = 5}
    local items = fopo.embed.svd(split.train, {dim = DIM})
    measure{name = "twin of Twitch", split = split, items = items, index = fopo.index.norm(items),
            steps = 4 * o.steps}
  end
end

return reward
