-- What slates earn while they are learnt: policies for lists of k items as a whole, by perturbed
-- queries (LGP: Sakhi, Rohde and Chopin, TMLR 2023), by Plackett and Luce, and by PL-Rank, beside
-- the k best items of a policy for single items. The experiment of the slate paper on twins of its
-- sets, with what it claims.
--
--   ./fopo scripts/studies/slates.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: `seconds` of CPU time for each run, and half of that for judging it; an hour.
--
-- Worlds: twitch, goodreads, movielens: twins of the paper's sets, of which `fraction` is made;
-- sample, README's datasets/sample.csv; those of scripts/studies/common.lua; files that
-- fopo.data.read knows. Items are singular vectors, seen items are left out.
--
--   item_knn, start   as they are
--   single            the default gradient, of the chance that an item drawn is in Y
--   lgp               perturbed queries, sigma / sqrt(dim) each number, exact search
--   lgp_search        among the `head` items of largest norm
--   plackett_luce     slates of the softmax without replacement
--   pl_rank           the same, credited by place
--
--   test      the measure of the k best items on test, of the parameters that were best on valid at
--             one of eight points of time or at the start, and half its 95 % interval over seeds
--             (Student's t); of the learning rates `lr` the best on valid, a mean over the seeds
--   first     that of the first point of time
--   steps     that were made in `seconds`
--   ms        CPU time of a step
--
-- A claim holds if its figure is on the right side of its bound, certain if its whole interval is.
--
-- At full size, a world that takes hours: worlds=twitch fraction=1 test=0.02 valid=0.01 seconds=600
--
-- Options (defaults): worlds=twitch,goodreads,movielens fraction=0.01 k=2,5,10 samples=20,100
--   measure=ndcg seconds=1 (of CPU time) seeds=1,2,3 sigma=1 lr=0.0003,0.001,0.003 dim=64 head=1024
--   test=0.1 valid=0.1 scale=0.15
--   methods=single,lgp,lgp_search,plackett_luce,pl_rank out=runs/slates (quick: runs/slates_quick)
-- The runs are a sweep in out/WORLD: a study that was stopped goes on. out/WORLD-k.svg are rewards
-- over time.
local fopo = require "fopo"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local POINTS = 8
local o = study.options(
  {worlds = {"twitch", "goodreads", "movielens"}, fraction = 0.01, k = {2, 5, 10},
   samples = {20, 100}, measure = "ndcg", seconds = 1, seeds = {1, 2, 3}, sigma = 1,
   lr = {0.0003, 0.001, 0.003}, dim = 64, head = 1024, test = 0.1, valid = 0.1, scale = 0.15,
   methods = {"single", "lgp", "lgp_search", "plackett_luce", "pl_rank"}, out = "runs/slates"},
  {worlds = {"sample"}, k = {2, 3}, samples = {10}, seconds = 0.08, seeds = {1, 2}, dim = 8,
   lr = {0.001, 0.003},
   head = 200, test = 0.3, out = "runs/slates_quick"})

local twins = {
  twitch = function() return fopo.data.synthetic{like = "twitch", fraction = o.fraction} end,
  goodreads = function() return fopo.data.synthetic{like = "goodreads", fraction = o.fraction} end,
  movielens = function() -- MovieLens-25M: 162,541 users and 59,047 items, 154 of them a user
    local items = math.floor(59047 * o.fraction)
    return fopo.data.synthetic{users = math.floor(162541 * o.fraction), items = items,
                               clusters = math.max(8, items // 60), tastes = 4,
                               mean_items = math.min(154, items // 8)}
  end,
  sample = function() return fopo.data.read("datasets/sample.csv") end,
}

local function dataset(name)
  return twins[name] and (twins[name]()) or study.dataset(name, o).dataset
end

-- ---- a run

local function gradient(c)
  if c.method == "single" then return fopo.gradient.head_tail{} end
  local options = {k = c.k, samples = c.samples, measure = c.measure}
  if c.method == "plackett_luce" or c.method == "pl_rank" then
    options.credit = c.method == "pl_rank" and "place" or "slate"
    return fopo.gradient.plackett_luce(options)
  end
  options.sigma, options.head = c.sigma / math.sqrt(c.dim), c.head
  return fopo.gradient.slate(options)
end

-- The measure of the k best items.
local function judge(who, sessions, c)
  local e = fopo.evaluate(who, sessions, {k = c.k, expected = false})
  if c.measure == "sum" then return c.k * e.precision[c.k] end
  return e[c.measure == "dcg" and "ndcg" or c.measure][c.k]
end

-- Trains for c.budget seconds of CPU time and judges at POINTS of it.
local function train(world, c)
  local s, steps, used, row = world.split, 8, 0, {seconds = {}, on_test = {}}
  local t = fopo.trainer{policy = fopo.policy.linear{items = world.items, seen = "mask"},
                         data = s.train, gradient = gradient(c), valid = false, seed = c.seed,
                         optim = fopo.optim.adam{lr = c.lr}}
  row.valid, row.best = judge(t.policy, s.valid, c), judge(t.policy, s.test, c)
  for point = 1, POINTS do
    while used < c.budget * point / POINTS do
      local start = os.clock()
      t:run{steps = steps, every = steps, view = false, keep_best = false}
      local now = os.clock() - start
      used = used + now
      steps = math.max(1, math.min(8, math.floor(steps * c.budget / POINTS / 2 / now)))
    end
    local valid = judge(t.policy, s.valid, c)
    if valid > row.valid then row.valid, row.best = valid, judge(t.policy, s.test, c) end
    row.seconds[point], row.on_test[point] = used, row.best
  end
  row.first, row.steps, row.ms = row.on_test[1], t.step, 1000 * used / t.step
  return row
end

local function configurations()
  local list = {}
  for _, method in ipairs(o.methods) do
    local single = method == "single"
    for _, k in ipairs(o.k) do
      for _, samples in ipairs(single and {0} or o.samples) do
        local lgp = method == "lgp" or method == "lgp_search"
        list[#list + 1] = {method = method, k = k, samples = samples, measure = o.measure,
                           budget = o.seconds, dim = o.dim, fraction = o.fraction, lr = o.lr,
                           sigma = lgp and o.sigma or 0,
                           head = method == "lgp_search" and o.head or 0, test = o.test}
      end
    end
  end
  return list
end

-- ---- what comes of it

-- The rows of a configuration by the learning rate that is best on valid.
local function best_of(rows, c)
  local best, most = {}, -math.huge
  for _, lr in ipairs(o.lr) do
    local some = study.where(rows, {method = c.method, k = c.k, samples = c.samples, lr = lr})
    local valid = #some > 0 and study.mean_of(some, "valid") or -math.huge
    if valid > most then best, most = some, valid end
  end
  return best
end

local function cell(rows, name, format)
  local list = {}
  for i, row in ipairs(rows) do list[i] = row[name] end
  local mean, half = study.interval(list)
  return (half > 0 and format .. " +- " .. format or format):format(mean, half)
end

-- {mean, half} of f(a, b) over the seeds that both lists of rows have.
local function by_seed(a, b, f)
  local list = {}
  for _, x in ipairs(a) do
    local y = study.where(b, {seed = x.seed})[1]
    if y then list[#list + 1] = f(x, y) end
  end
  if #list == 0 then return nil end
  return {study.interval(list)}
end

local function verdict(figure, bound, above)
  local mean, half = figure[1], figure[2]
  local holds, edge = mean > bound, math.abs(mean - bound)
  if not above then holds = not holds end
  return (holds and "holds" or "does not hold") .. (half > 0 and edge > half and ", certain" or "")
end

-- Rows of the table of claims about one world.
local function claims(rows)
  local list = {}
  local function claim(says, figure, bound, above, format)
    if not figure then return end
    list[#list + 1] = {says, (format .. " +- " .. format):format(figure[1], figure[2]),
                       verdict(figure, bound, above)}
  end
  local function gain(x, y) return x.best - y.best end
  for _, samples in ipairs(o.samples) do
    for _, k in ipairs(o.k) do
      local function of(method)
        return best_of(rows, {method = method, k = k, samples = samples})
      end
      for _, other in ipairs{"plackett_luce", "pl_rank"} do
        for _, ours in ipairs{"lgp", "lgp_search"} do
          local says = "k = %d, S = %d: %s is better than %s at equal time"
          claim(says:format(k, samples, ours, other), by_seed(of(ours), of(other), gain), 0, true,
                "%.4f")
        end
      end
    end
    for _, method in ipairs{"lgp", "lgp_search", "plackett_luce"} do
      local function of(k)
        return best_of(rows, {method = method, k = k, samples = samples})
      end
      local few, many = o.k[1], o.k[#o.k]
      claim(("S = %d: a step of %s for k = %d takes 1.5 x that for k = %d at most"):format(samples,
            method, many, few),
            by_seed(of(many), of(few), function(x, y) return x.ms / y.ms end), 1.5, false, "%.2f")
    end
  end
  return list
end

-- Means over the seeds at each point of time.
local function curve(name, rows)
  local c = {name = name, x = {}, y = {}, low = {}, high = {}}
  for point = 1, POINTS do
    local x, y = {}, {}
    for i, row in ipairs(rows) do x[i], y[i] = row.seconds[point], row.on_test[point] end
    local mean, half = study.interval(y)
    c.x[point] = study.mean(x)
    c.y[point], c.low[point], c.high[point] = mean, mean - half, mean + half
  end
  return c
end

local function draw(name, k, rows)
  local curves = {title = ("%s, k = %d"):format(name, k), xlabel = "seconds of CPU time",
                  ylabel = o.measure .. " on test"}
  local most = o.samples[#o.samples]
  for _, method in ipairs(o.methods) do
    local some = best_of(rows, {method = method, k = k, samples = method == "single" and 0 or most})
    if #some > 0 then curves[#curves + 1] = curve(method, some) end
  end
  study.figure(("%s/%s-%d.svg"):format(o.out, name, k), curves)
end

for _, name in ipairs(o.worlds) do
  local world, short = {}, name:match("[^/]+$")
  world.split = dataset(name):sessions{min_items = 10, valid = o.valid, test = o.test, seed = 5}
  world.items = fopo.embed.svd(world.split.train, {dim = o.dim})
  local s = world.split
  local found = fopo.experiment.sweep{
    over = configurations(), seeds = o.seeds, out = o.out .. "/" .. short, report = false,
    measures = {"best", "first", "steps", "ms"}, view = false,
    run = function(c) return train(world, c) end}
  if found.interrupted then os.exit(1) end
  if found.failed[1] then error(found.failed[1].error, 0) end
  local shown = {{"k", "method", "S", "lr", "test", "first", "steps", "ms"}}
  local start = fopo.policy.linear{items = world.items, seen = "mask"}
  local fixed = {item_knn = fopo.baseline.item_knn{data = s.train}, start = start}
  for _, k in ipairs(o.k) do
    for _, method in ipairs{"item_knn", "start"} do
      local test = judge(fixed[method], s.test, {k = k, measure = o.measure})
      shown[#shown + 1] = {tostring(k), method, "", "", ("%.4f"):format(test), "", "", ""}
    end
    for _, c in ipairs(configurations()) do
      local rows = best_of(found.rows, c)
      if c.k == k and #rows > 0 then
        shown[#shown + 1] = {tostring(k), c.method, tostring(c.samples), tostring(rows[1].lr),
                             cell(rows, "best", "%.4f"), cell(rows, "first", "%.4f"),
                             ("%.0f"):format(study.mean_of(rows, "steps")),
                             ("%.2f"):format(study.mean_of(rows, "ms"))}
      end
    end
    draw(short, k, found.rows)
  end
  local what = "%s: %d items, %d train, %d test users; %s of the k best items, %g s of CPU time"
  study.print(what:format(name, s.train.n_items, s.train.n, s.test.n, o.measure, o.seconds), shown)
  local rows = claims(found.rows)
  table.insert(rows, 1, {"the paper claims", "measured", "verdict"})
  study.print(name .. ": claims", rows)
end
