-- What slates earn while they are learnt: policies for lists of k items as a whole, by perturbed
-- queries (LGP: Sakhi, Rohde and Chopin, TMLR 2023), by Plackett and Luce, and by PL-Rank, beside
-- the k best items of a policy for single items. The experiment of the slate paper on twins of its
-- sets, at 1 % and at full size, with what it claims.
--
--   ./fopo scripts/studies/slates.lua [FILE ...] [quick] [name=value ...]
--
-- Cost: `seconds` of CPU time of one thread for each run, and some of that for judging it. The
-- worlds of 1 % take six minutes, those of full size eight each, and 8 GiB.
--
-- Worlds: twitch, goodreads, movielens: twins of the paper's sets, of which each `fraction` is
-- made; sample, README's datasets/sample.csv; those of scripts/studies/common.lua; files that
-- fopo.data.read knows. Items are singular vectors, seen items are left out.
--
--   item_knn, ease, start   as they are (ease of 30,000 items at most)
--   single            the default gradient, of the chance that an item drawn is in Y
--   lgp               perturbed queries, sigma / sqrt(dim) each number, exact search
--   lgp_search        among the `head` items of largest norm
--   lgp_sigma         exact search, and sigma is learnt, at the rate `sigma_lr`
--   plackett_luce     slates of the softmax without replacement
--   pl_rank           the same, credited by place
--   pl_head, pl_rank_head   both with a head of `head` items and a tail of 1,000 draws,
--                     half of the items at most
--
--   test      the measure of the k best items on test, of the parameters that were best on valid at
--             one of eight points of time or at the start, and half its 95 % interval over seeds
--             (Student's t); of the learning rates `lr` the best on valid, a mean over the seeds
--   first     that of the first point of time
--   steps     that were made in `seconds`
--   ms        CPU time of a step
--
-- The claims are judged as those of the report of scripts/paper are (claims.lua).
--
-- Options (defaults): worlds=twitch,goodreads,movielens fraction=0.01,1 seconds=0.4,5 (of CPU time,
--   for each fraction) k=2,5,10 samples=20,100 (the last one alone at full size) measure=ndcg
--   seeds=1,2,3 sigma=1 sigma_lr=0.05 lr=0.003,0.01 (the last one alone at full size) dim=64
--   head=1024 test=0.1 valid=0.1 (1,000 and 500 users at most) scale=0.15
--   methods=single,lgp,lgp_search,lgp_sigma,plackett_luce,pl_rank,pl_head,pl_rank_head
--   out=runs/slates (quick: runs/slates_quick)
-- The runs are a sweep in out/WORLD: a study that was stopped goes on. out/WORLD-FRACTION-k.svg are
-- rewards over time.
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../paper/?.lua;" .. package.path
local study = require "common"
local claims = require "claims"

local POINTS = 8
local o = study.options(
  {worlds = {"twitch", "goodreads", "movielens"}, fraction = {0.01, 1}, seconds = {0.4, 5},
   k = {2, 5, 10}, samples = {20, 100}, measure = "ndcg", seeds = {1, 2, 3}, sigma = 1,
   sigma_lr = 0.05, lr = {0.003, 0.01}, dim = 64, head = 1024, test = 0.1, valid = 0.1,
   scale = 0.15, out = "runs/slates",
   methods = {"single", "lgp", "lgp_search", "lgp_sigma", "plackett_luce", "pl_rank",
              "pl_head", "pl_rank_head"}},
  {worlds = {"sample"}, fraction = {0.01}, k = {2, 3}, samples = {10}, seconds = {0.08},
   seeds = {1, 2}, dim = 8, lr = {0.001, 0.003}, head = 200, test = 0.3, out = "runs/slates_quick"})
fopo.threads(1)

local twins = {
  twitch = function(f) return fopo.data.synthetic{like = "twitch", fraction = f} end,
  goodreads = function(f) return fopo.data.synthetic{like = "goodreads", fraction = f} end,
  movielens = function(f) -- MovieLens-25M: 162,541 users and 59,047 items, 154 of them a user
    local items = math.floor(59047 * f)
    return fopo.data.synthetic{users = math.floor(162541 * f), items = items,
                               clusters = math.max(8, items // 60), tastes = 4,
                               mean_items = math.min(154, items // 8)}
  end,
  sample = function() return fopo.data.read("datasets/sample.csv") end,
}

local function dataset(name, fraction)
  return twins[name] and (twins[name](fraction)) or study.dataset(name, o).dataset
end

-- ---- a run

local function gradient(c, n_items)
  if c.method == "single" then return fopo.gradient.head_tail{} end
  local options = {k = c.k, samples = c.samples, measure = c.measure}
  if c.method:find("^pl") then
    options.credit = c.method:find("^pl_rank") and "place" or "slate"
    options.head = math.min(c.head, n_items // 2)
    options.tail = math.min(1000, n_items // 2)
    return fopo.gradient.plackett_luce(options)
  end
  options.sigma, options.head = c.sigma / math.sqrt(c.dim), c.head
  options.sigma_lr = c.sigma_lr
  return fopo.gradient.slate(options)
end

-- The measure of the k best items.
local function judge(who, sessions, c)
  local e = fopo.evaluate(who, sessions, {k = c.k, expected = false})
  if c.measure == "sum" then return c.k * e.precision[c.k] end
  return e[c.measure == "dcg" and "ndcg" or c.measure][c.k]
end

local function rounded(x) return tonumber(("%.5f"):format(x)) end

-- Trains for c.budget seconds of CPU time and judges at POINTS of it.
local function train(world, c)
  local s, steps, used, row = world.split, 8, 0, {seconds = {}, on_test = {}}
  local g = gradient(c, s.train.n_items)
  local t = fopo.trainer{policy = fopo.policy.linear{items = world.items, seen = "mask"},
                         data = s.train, gradient = g, valid = false, seed = c.seed,
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
    row.seconds[point], row.on_test[point] = rounded(used), rounded(row.best)
  end
  row.first, row.steps, row.ms = row.on_test[1], t.step, 1000 * used / t.step
  row.sigma_end = t.gradient.sigma
  return row
end

local searches = {lgp_search = true, pl_head = true, pl_rank_head = true}

local function configurations(fraction, seconds, test)
  local list = {}
  local full = fraction == 1
  for _, method in ipairs(o.methods) do
    local single, lgp = method == "single", method:find("^lgp")
    for _, k in ipairs(o.k) do
      for i, samples in ipairs(single and {0} or o.samples) do
        if single or not full or i == #o.samples then
          list[#list + 1] = {method = method, k = k, samples = samples, measure = o.measure,
                             budget = seconds, dim = o.dim, fraction = fraction,
                             lr = full and {o.lr[#o.lr]} or o.lr,
                             sigma = lgp and o.sigma or 0,
                             sigma_lr = method == "lgp_sigma" and o.sigma_lr or 0,
                             head = searches[method] and o.head or 0, test = test}
        end
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

-- f(a, b) of each seed that both lists of rows have.
local function by_seed(a, b, f)
  local list = {}
  for _, x in ipairs(a) do
    local y = study.where(b, {seed = x.seed})[1]
    if y then list[#list + 1] = f(x, y) end
  end
  return list
end

-- What the paper claims, as rules over the rows of one world: {says=, measure=}.
local rules = {}

local function better(ours, other)
  local says = ("%s is better than %s at equal time"):format(ours, other)
  rules[#rules + 1] = {says = says, experiment = "slates", measure = function(rows)
    local list = {}
    for _, samples in ipairs(o.samples) do
      for _, k in ipairs(o.k) do
        local function of(method)
          return best_of(rows, {method = method, k = k, samples = samples})
        end
        local v = by_seed(of(ours), of(other), function(x, y) return x.best - y.best end)
        if #v > 0 then
          list[#list + 1] = {what = ("k = %d, S = %d"):format(k, samples), values = v, side = ">",
                             bound = 0, form = "%+.4f"}
        end
      end
    end
    return list
  end}
end

local function no_dearer(method)
  local few, many = o.k[1], o.k[#o.k]
  local says = "a step of %s for k = %d takes 1.5 x that for k = %d at most"
  says = says:format(method, many, few)
  rules[#rules + 1] = {says = says, experiment = "slates", measure = function(rows)
    local list = {}
    for _, samples in ipairs(o.samples) do
      local function of(k) return best_of(rows, {method = method, k = k, samples = samples}) end
      local v = by_seed(of(many), of(few), function(x, y) return x.ms / y.ms end)
      if #v > 0 then
        list[#list + 1] = {what = ("S = %d"):format(samples), values = v, side = "<=", bound = 1.5,
                           form = "%.2f"}
      end
    end
    return list
  end}
end

for _, other in ipairs{"plackett_luce", "pl_rank", "pl_head", "pl_rank_head"} do
  for _, ours in ipairs{"lgp", "lgp_search"} do better(ours, other) end
end
better("lgp_sigma", "lgp")
for _, method in ipairs{"lgp", "lgp_search", "plackett_luce"} do no_dearer(method) end

local function judged(rows)
  local list = {{"claim", "verdict", "measured, with its 95 % interval over the seeds"}}
  for _, rule in ipairs(rules) do
    local j = claims.judge(rule, {slates = {rows = rows}})
    local sure = j.certain and "" or " (open)"
    if #j.figures > 0 then
      list[#list + 1] = {rule.says, j.verdict .. sure, table.concat(j.figures, "; ")}
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

-- The baselines by name, and the start.
local function fixed(data, items)
  local list = {{"item_knn", fopo.baseline.item_knn{data = data}}}
  if data.n_items <= 30000 then list[2] = {"ease", fopo.baseline.ease{data = data}} end
  list[#list + 1] = {"start", fopo.policy.linear{items = items, seen = "mask"}}
  return list
end

local function study_of(name, fraction, seconds)
  local world, short = {}, name:match("[^/]+$")
  local d = dataset(name, fraction)
  local function share(part, most) return math.min(part, most / d.n_users) end
  local test = share(o.test, 1000)
  world.split = d:sessions{min_items = 10, valid = share(o.valid, 500), test = test, seed = 5}
  world.items = fopo.embed.svd(world.split.train, {dim = o.dim})
  local s, over = world.split, configurations(fraction, seconds, test)
  local found = fopo.experiment.sweep{
    over = over, seeds = o.seeds, out = o.out .. "/" .. short, report = false,
    measures = {"best", "first", "steps", "ms"}, view = false,
    run = function(c) return train(world, c) end}
  if found.interrupted then os.exit(1) end
  if found.failed[1] then error(found.failed[1].error, 0) end
  local shown = {{"k", "method", "S", "lr", "test", "first", "steps", "ms"}}
  local known, labelled = fixed(s.train, world.items), ("%s-%g"):format(short, fraction)
  for _, k in ipairs(o.k) do
    for _, one in ipairs(known) do
      local value = judge(one[2], s.test, {k = k, measure = o.measure})
      shown[#shown + 1] = {tostring(k), one[1], "", "", ("%.4f"):format(value), "", "", ""}
    end
    for _, c in ipairs(over) do
      local rows = best_of(found.rows, c)
      if c.k == k and #rows > 0 then
        shown[#shown + 1] = {tostring(k), c.method, tostring(c.samples), tostring(rows[1].lr),
                             cell(rows, "best", "%.4f"), cell(rows, "first", "%.4f"),
                             ("%.0f"):format(study.mean_of(rows, "steps")),
                             ("%.2f"):format(study.mean_of(rows, "ms"))}
      end
    end
    draw(labelled, k, found.rows)
  end
  local what = "%s: %d items, %d train, %d test users; %s of the k best items, %g s of CPU time"
  study.print(what:format(labelled, s.train.n_items, s.train.n, s.test.n, o.measure, seconds),
              shown)
  study.print(labelled .. ": what the paper claims", judged(found.rows))
end

for i, fraction in ipairs(o.fraction) do
  for _, name in ipairs(o.worlds) do
    if i == 1 or twins[name] and name ~= "sample" then
      study_of(name, fraction, o.seconds[i] or o.seconds[#o.seconds])
    end
  end
end
