-- What to serve: policies and tuned baselines on one's own files, by what a server earns.
--
--   ./fopo scripts/served.lua FILE ... [quick] [name=value ...]
--
-- Cost: of a file of 50,000 interactions some minutes for three seeds on two cores. Most of it is
-- the search for options of als, which trials=4 shortens.
--
-- Of each FILE that fopo.data.read knows, or twin of a set of the paper (twitch:1, goodreads:0.01:
-- a fraction of its size), the users with `min_items` items are split into train, valid and test,
-- anew for each seed. Every method learns from the train part. The options of baselines are chosen
-- inside it, and training ends by the valid part, so nothing is chosen on the test part, which is
-- asked once: for the 20 best items of each context without those of X, as one serves them.
--
--   reward     the share of contexts whose best item is in Y
--   recall@20, NDCG@20    as of fopo.evaluate
--   against    difference from the reference, ease, or where that is not there slim or cosine, on
--              the same contexts, with its 95 % interval; a star: it excludes 0
--   s          seconds until it could be served: starts, search for options and training included
--   GB         the most memory that C held while it learnt and ranked, data included
--
-- Numbers are means over the seeds. The interval is that of a mean over users: a user who is in the
-- test part of several seeds counts as one, because what is hard for a user is so in each of them.
--
-- Options (defaults):
--   seeds=1,2,3 min_items=10 test=0.2 valid=0.1    of the splits
--   epochs=10                                      of training; neighbours: 5
--   trials=12                                      of fopo.tune.baseline, for item-kNN and als
--   dim=0                                          of embed.svd; 0: its own
--   only= (names of methods, as "ease,neighbours"; all of them if empty)
--   out=  (PATH: the tables are written to PATH.md too, all seeds to PATH.csv)
local fopo = require "fopo"
local define = require "fopo.base.define"
local lists = require "fopo.base.lists"
local native = require "fopo.native"
local text = require "fopo.base.text"
package.path = (arg[0]:match("^(.*/)") or "./") .. "tools/?.lua;" .. package.path
local script = require "script"

local o, files = script.options(
  {seeds = {1, 2, 3}, min_items = 10, test = 0.2, valid = 0.1, epochs = 10, trials = 12, dim = 0,
   only = {}, out = ""},
  {seeds = {1, 2}, epochs = 1, trials = 2, dim = 8})
if #files == 0 then script.misuse("which files?") end

local K = 20
local LIST_EPOCHS = 5 -- of neighbours, for which the default schedule is made
local measures = {"reward", "recall", "ndcg"}

-- ---- the methods ----

local function tuned(kind, fixed)
  return function(s, seed)
    return fopo.tune.baseline{kind = kind, data = s.train, fixed = fixed, trials = o.trials,
                              seed = seed, view = false}.baseline
  end
end

local function svd(s) return fopo.embed.svd(s.train, {dim = o.dim > 0 and o.dim or nil}) end

local function neighbours(start, dense)
  return function(s)
    return fopo.policy.neighbours{data = s.train, start = start, items = dense and svd(s) or nil}
  end
end

local FAR = 62.5 -- steps x lr, by which the paper's Adam moves a parameter at most

-- The paper's policy as its authors train it, as far as they do; it is served like the others.
local function paper(s, seed)
  local items = fopo.embed.svd(s.train, {dim = o.dim > 0 and o.dim or 100, scale = "none"})
  local pi = fopo.policy.linear{items = items, preset = "paper", seed = seed}
  local lr = 0.01
  local t = fopo.trainer{policy = pi, data = s.train, preset = "paper", valid = false, seed = seed,
                         gradient = script.mixture(fopo.index.norm(items),
                                                   {k = math.min(256, items.rows)}),
                         optim = fopo.optim.adam{lr = lr}}
  t:run{steps = math.floor(FAR / lr * o.epochs / 10), view = false}
  return pi, ("mixture, %d steps, lr %g"):format(t.step, lr)
end

-- {name, make}: make(split, seed) returns a baseline or a policy. A policy is judged as it starts,
-- "NAME, start", and after training with the defaults; not if make says what it has chosen and
-- trained, as its second value.
local methods = {
  {"ease", function(s) return fopo.baseline.ease{data = s.train} end},
  {"slim", function(s) return fopo.baseline.slim{data = s.train} end},
  {"popular", function(s) return fopo.baseline.popular{data = s.train} end},
  {"cosine", tuned("item_knn", {similarity = "cosine"})},
  {"jaccard", tuned("item_knn", {similarity = "jaccard"})},
  {"als", tuned("als")},
  {"paper", paper},
  {"linear", function(s) return fopo.policy.linear{items = svd(s)} end},
  {"neighbours", neighbours("slim")},
  {"neighbours-cosine", neighbours("cosine")},
  {"hybrid", neighbours("slim", true)},
  {"auto", function(s, seed)
    local pi, rows = fopo.policy.auto{data = s.train, valid = s.valid, seed = seed, print = false}
    return pi, rows.chosen.name
  end},
}

local function chosen()
  if #o.only == 0 then return methods end
  local list, wanted = {}, {}
  for _, name in ipairs(o.only) do wanted[name] = true end
  for _, method in ipairs(methods) do
    if wanted[method[1]] then list[#list + 1] = method end
    wanted[method[1]] = nil
  end
  local unknown = next(wanted)
  if unknown then script.misuse("there is no method %s", unknown) end
  return list
end

-- ---- measuring ----

-- The measures of one context: ids, the best items, 0 behind the last one; y, the set of Y, size.
local function measured(ids, y, size)
  local hits, gained, best = 0, 0.0, 0.0
  for rank, id in ipairs(ids) do
    if rank <= size then best = best + 1 / math.log(1 + rank, 2) end
    if y[id] then hits, gained = hits + 1, gained + 1 / math.log(1 + rank, 2) end
  end
  return y[ids[1]] and 1 or 0, size > 0 and hits / size or 0, best > 0 and gained / best or 0
end

-- By measure the value of each context of the sessions.
local function values_of(who, sessions)
  local ids = lists.of(who, sessions, {k = math.min(K, sessions.n_items), exclude = "seen"})
  local values = {reward = {}, recall = {}, ndcg = {}}
  for n, list in ipairs(ids:totable()) do
    local y, row = {}, sessions:y(n):totable()[1] or {}
    for _, id in ipairs(row) do y[id] = true end
    values.reward[n], values.recall[n], values.ndcg[n] = measured(list, y, #row)
  end
  for name, list in pairs(values) do values[name] = fopo.array.from{list} end -- 4 bytes each
  return values
end

-- Learns and judges one method on the split. found(name, row) gets a row for the start, if there is
-- one, and one for the result, {values, seconds, bytes, said}: said is what was chosen.
local function judge(method, s, seed, found)
  collectgarbage()
  collectgarbage() -- what finalisers of the first have let go
  native.memory_mark()
  local began = fopo.clock()
  local who, said = method[2](s, seed)
  local is_baseline = define.kind(who) == "baseline"
  if is_baseline then
    said = who:describe():gsub(" %b()", ""):match("items, (.+), learnt in")
  end
  local function add(name, seconds)
    found(name, {values = values_of(who, s.test), seconds = seconds, bytes = fopo.memory().peak,
                 said = said})
  end
  local seconds = fopo.clock() - began
  if is_baseline or said then return add(method[1], seconds) end
  add(method[1] .. ", start", seconds)
  began = fopo.clock()
  local t = fopo.trainer{policy = who, data = s.train, valid = s.valid, seed = seed}
  t:run{epochs = who.scores_lists and LIST_EPOCHS or o.epochs, view = false}
  add(method[1], seconds + fopo.clock() - began)
end

-- ---- differences ----

-- The mean over the seeds of row.values[measure] - base.values[measure], and half of its 95 %
-- interval. A mean over users: m = sum over u of D_u, where D_u sums (d - mean of its seed) / (N S)
-- over the contexts of u in the S seeds, N each; its variance is the sum of D_u^2.
local function difference(rows, bases, measure, users)
  local S, mean, of_user = #rows, 0.0, {}
  for i, row in ipairs(rows) do
    local a, b = row.values[measure], bases[i].values[measure]
    local N, shift = a.cols, a:mean() - b:mean()
    mean = mean + shift / S
    for n = 1, N do
      local u = users[i][n]
      of_user[u] = (of_user[u] or 0.0) + (a:get(1, n) - b:get(1, n) - shift) / (N * S)
    end
  end
  local variance = 0.0
  for _, D in pairs(of_user) do variance = variance + D * D end
  return mean, 1.96 * math.sqrt(variance)
end

-- ---- a file ----

local function mean_of(rows, value)
  local sum = 0.0
  for _, row in ipairs(rows) do sum = sum + value(row) end
  return sum / #rows
end

local function against(rows, bases, measure, users)
  if not bases or rows == bases then return "" end
  local mean, half = difference(rows, bases, measure, users)
  return ("%+.4f ± %.4f%s"):format(mean, half, math.abs(mean) > half and " *" or "")
end

-- What was chosen, for one seed after the other.
local function said_of(results, order)
  local lines = {}
  for _, name in ipairs(order) do
    local parts = {}
    for i, row in ipairs(results[name]) do parts[i] = row.said end
    if #parts > 0 then lines[#lines + 1] = name .. ": " .. table.concat(parts, "; ") end
  end
  return lines
end

local function table_of(results, order, users)
  local reference = results.ease and "ease" or results.slim and "slim" or "cosine"
  local bases, against_whom = results[reference], "against " .. reference
  local shown = {{"", "reward", against_whom, "recall@20", against_whom, "NDCG@20", against_whom,
                  "s", "GB"}}
  for _, name in ipairs(order) do
    local rows, line = results[name], {name}
    for _, measure in ipairs(measures) do
      line[#line + 1] = ("%.4f"):format(mean_of(rows, function(r)
        return r.values[measure]:mean()
      end))
      line[#line + 1] = against(rows, bases, measure, users)
    end
    line[#line + 1] = ("%.3g"):format(mean_of(rows, function(r) return r.seconds end))
    line[#line + 1] = ("%.2f"):format(mean_of(rows, function(r) return r.bytes end) / 1e9)
    shown[#shown + 1] = line
  end
  return shown
end

local kept = {} -- rows of the CSV
local columns = {"file", "seed", "method", "contexts", "reward", "recall", "ndcg", "seconds",
                 "bytes", "options"}
local command = ("./fopo %s %s\n# fopo %s, kernels %s, %d threads"):format(arg[0],
  table.concat(arg, " "), fopo.version, (fopo.isa()), fopo.threads())

local function keep()
  if o.out ~= "" then script.csv(o.out .. ".csv", columns, kept, "# " .. command .. "\n") end
end

-- The results of a file by name, lists over the seeds; the order of the names; the users of the
-- test contexts, by seed; and sentences on the methods that failed.
local function of_file(path)
  local like, fraction = path:match("^(%l+):([%d.]+)$")
  local d = like and fopo.data.synthetic{like = like, fraction = tonumber(fraction)}
            or fopo.data.read(path)
  local results, order, users, failed = {}, {}, {}, {}
  print(d:describe())
  for i, seed in ipairs(o.seeds) do
    local s = d:sessions{min_items = o.min_items, test = o.test, valid = o.valid, seed = seed}
    print(("seed %d: %s"):format(seed, s:describe()))
    users[i] = {}
    for n = 1, s.test.n do users[i][n] = s.test:user(n) end
    local function found(name, row)
      if not results[name] then results[name], order[#order + 1] = {}, name end
      results[name][i] = row
      local line = {file = path, seed = seed, method = name, contexts = s.test.n,
                    seconds = row.seconds, bytes = row.bytes, options = row.said}
      for _, measure in ipairs(measures) do line[measure] = row.values[measure]:mean() end
      kept[#kept + 1] = line
      print(("  %-28s reward %.4f  recall@20 %.4f  NDCG@20 %.4f  %6.1f s"):format(name, line.reward,
        line.recall, line.ndcg, row.seconds))
      io.stdout:flush()
    end
    for _, method in ipairs(chosen()) do
      local ok, why = pcall(judge, method, s, seed, found)
      if not ok then
        if tostring(why):find("interrupted", 1, true) then error(why, 0) end
        failed[#failed + 1] = ("%s, seed %d: %s"):format(method[1], seed, why)
        print("  " .. failed[#failed])
      end
    end
    keep()
  end
  return results, order, users, failed
end

-- ---- what is written ----

local pages = {}
for _, path in ipairs(files) do
  local results, order, users, failed = of_file(path)
  for i = #order, 1, -1 do -- means are over all the seeds or not at all
    local rows, whole = results[order[i]], true
    for seed = 1, #o.seeds do whole = whole and rows[seed] ~= nil end
    if not whole then results[table.remove(order, i)] = nil end
  end
  local title = ("%s, %d test contexts, seeds %s"):format(path:match("[^/]+$"), #users[1],
                                                         table.concat(o.seeds, ", "))
  local shown, below = table_of(results, order, users), said_of(results, order)
  table.move(failed, 1, #failed, #below + 1, below)
  print(("\n%s\n%s\n%s"):format(title, fopo.report.table(shown), table.concat(below, "\n")))
  pages[#pages + 1] = ("%s\n\n%s\n%s\n"):format(title, text.markdown(shown),
                                                 table.concat(below, "  \n"))
end
if o.out ~= "" then
  local f <close> = assert(io.open(o.out .. ".md", "w"))
  f:write("`", (command:gsub("\n#", "`,")), "\n\n", table.concat(pages, "\n"))
  print(("kept in %s.csv and %s.md"):format(o.out, o.out))
end
