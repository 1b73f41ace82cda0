-- fopo.index.auto: measures indexes on the user's own queries and returns the fastest that is good
-- enough. C measures (native.index_measure); this file decides what to try and what to skip,
-- fopo.index.choice what is good enough, and says why.
--
-- Candidates: exact; norm, without and with budgets; graphs, unless something cheaper shows that a
-- graph cannot be faster, or its build would take too long. A graph is built once and measured with
-- several breadths. Everything that was measured or skipped is an entry of `candidates`.
--
-- The time: the first batch of queries tells what a search costs, and with it how many queries are
-- used. Every later measurement is estimated first and skipped where it does not fit into what is
-- left.
local native = require "fopo.native"
local define = require "fopo.base.define"
local text = require "fopo.base.text"
local choice = require "fopo.index.choice"

-- The smallest breadth tried: below, the first steps of a search score more items than its pool
-- holds. Also the smallest budget.
local NARROWEST = 64
-- Budgets grow by this factor until one is good enough; the last step is bisected so often.
local RUNG, BISECTIONS = 4, 2
-- A graph scores items one by one at random places in memory; the order by norm scores them in
-- blocks, at about a quarter of the cost of each.
local RANDOM_ACCESS = 4
-- Norms "help" if norm scores less than this share of the items. The items of norm 0, which no
-- session has, are a fifth of some catalogues: to skip those alone is no help.
local NORMS_FAIL = 0.75
-- Items of the small graph that is built and searched to estimate the whole.
local PILOT = 2000
-- The whole graph is slower to build than the pilot's growth foretells: it leaves the caches.
local CACHE_MISSES = 2
-- A timing is the minimum of so many repeats, or of those that fit into this share of the time:
-- disturbances only add time.
local REPEATS, EACH = 7, 1 / 40
-- ---- measuring ----

-- At most n of the rows, evenly spread.
local function sample(queries, n)
  if queries.rows <= n then return queries end
  local rows = {}
  for i = 1, n do rows[i] = (i - 1) * queries.rows // n + 1 end
  return queries:rows_of(rows)
end

local function spent(run) return native.clock() - run.begun end
local function left(run) return run.seconds + run.building - spent(run) end

-- Seconds of f, of the fastest of the repeats that fit.
local function fastest(run, f)
  local least, begun = math.huge, native.clock()
  for _ = 1, REPEATS do
    local start = native.clock()
    f()
    least = math.min(least, native.clock() - start)
    if native.clock() - begun > EACH * run.seconds then break end
  end
  return least
end

local function skip(run, kind, options, reason, ...)
  local c = {kind = kind, options = options, skipped = reason:format(...)}
  run.candidates[#run.candidates + 1] = c
  return c
end

-- Measures an index with its present options, of which a query takes about `each` seconds (0: it is
-- measured in any case), or skips it by name if that does not fit. The answers of an exact one are
-- known beforehand: a batch will do for its time if all queries take long. Adds the candidate and
-- returns it.
local function measure(run, ix, kind, options, each)
  local long = each * run.all.Q.rows > EACH * run.seconds
  local set = ix:about().exact and long and run.few or run.all
  if each > 0 and each * set.Q.rows > left(run) then
    run.cut = true
    return skip(run, kind, options, "it would take about %s; seconds = %g leaves %s",
                text.seconds(each * set.Q.rows), run.seconds,
                text.seconds(math.max(0, left(run))))
  end
  local best
  fastest(run, function()
    local r = native.index_measure(ix, set.Q, set.truth, run.batch)
    if not best or r.ms_per_query < best.ms_per_query then best = r end
  end)
  local c = {kind = kind, options = options, index = ix, recall = best.recall, mass = best.mass,
             recall_at_1 = best.recall_at_1, short_rows = best.short_rows, ms = best.ms_per_query,
             scored = best.scored, reachable = best.reachable,
             build_seconds = ix:about().build_seconds}
  run.candidates[#run.candidates + 1] = c
  return c
end

-- ---- what is tried ----

-- The exact answers that candidates are compared with: those of a norm index, which is exact and
-- the cheapest exact search where norms help. Only as many queries are searched as a tenth of the
-- time allows.
local function find_truth(run, queries)
  local norm = native.index_norm(run.items, {})
  local function set_of(Q)
    local ids, truth = norm:search(Q, run.k)
    ids:close()
    return {Q = Q, truth = truth}
  end
  run.few = set_of(sample(queries, math.min(run.batch, run.sample)))
  local start = native.clock()
  norm:search(run.few.Q, run.k)
  local n = run.few.Q.rows
  local most = math.floor(run.seconds / 10 * n / (native.clock() - start))
  run.all = most > n and set_of(sample(queries, math.min(run.sample, most))) or run.few
  return norm
end

-- Multiplies the budget while it is not good enough, then bisects between the last two.
local function try_budgets(run, norm, full)
  -- Without a budget, norm scores so many items; a budget of more would save little.
  local scored = full.scored * run.P
  local top = math.min(run.P // 2, math.ceil(2 * scored))
  local budget, holds, fails = math.max(run.k, NARROWEST), nil, nil
  local function try()
    norm.budget = budget
    local c = measure(run, norm, "norm", {budget = budget},
                      1e-3 * full.ms * math.min(1, budget / scored))
    if choice.good(run, c) then holds = budget else fails = budget end
    return not c.skipped
  end
  while budget <= top and not holds do
    if not try() then return end
    budget = budget < top and math.min(top, RUNG * budget) or top + 1
  end
  for _ = 1, holds and fails and BISECTIONS or 0 do
    budget = math.floor(math.sqrt(holds * fails))
    if not try() then return end
  end
end

-- A graph over a sample of the items: the estimated seconds of building one over all of them, as
-- the time grows like P log P, and the ms of a query, which in the whole are not less.
local function try_pilot(run)
  local n = math.min(PILOT, run.P)
  local pilot <close> = native.index_hnsw(sample(run.items, n), run.graph)
  pilot.ef = math.min(n, math.max(run.k, NARROWEST))
  local seconds = fastest(run, function() pilot:search(run.few.Q, math.min(run.k, n)) end)
  local grown = run.P / n * math.log(run.P) / math.log(n)
  if run.P > n then grown = CACHE_MISSES * grown end
  return pilot:about().build_seconds * grown, 1e3 * seconds / run.few.Q.rows
end

-- Builds one kind of graph and measures it with doubled breadth until it is good enough.
local function try_graph(run, kind, estimate, pilot_ms)
  local options = {}
  for name, value in pairs(run.graph) do options[name] = value end
  if kind == "hybrid" then options.head = run.head end
  local ok, ix = pcall(native["index_" .. kind], run.items, options)
  if not ok then
    if not tostring(ix):find("memory", 1, true) then error(ix, 0) end
    return skip(run, kind, {}, "%s", tostring(ix))
  end
  local ef, ms = math.max(run.k, NARROWEST), pilot_ms
  for _ = 1, 4 do
    ix.ef = math.min(ef, run.P)
    local these = {ef = ix.ef, head = options.head}
    local c = measure(run, ix, kind, these, 1e-3 * ms)
    c.build_estimate = estimate
    if c.skipped or choice.good(run, c) or ef >= run.P then break end
    ef, ms = 2 * ef, 2 * c.ms
  end
end

-- Is a graph ruled out by what norm and exact score, or by the time of the pilot's searches?
-- Returns the reason or nil, and the estimates.
local function ruled_out(run)
  local best = choice.least(run, "scored")
  local scored, steps = best.scored * run.P, run.graph.M * math.max(run.k, NARROWEST)
  if scored <= RANDOM_ACCESS * steps then
    return ("%s scores %s items a query in blocks, and a graph about %s one by one, each some %d "
      .. "times dearer"):format(choice.named(best), text.count(scored), text.count(steps),
      RANDOM_ACCESS)
  end
  local build, ms = try_pilot(run)
  best = choice.least(run, "ms")
  if ms >= best.ms then
    return ("a graph over %s of the items already takes %.3g ms a query, and %s %.3g"):format(
      text.count(math.min(PILOT, run.P)), ms, choice.named(best), best.ms)
  end
  return nil, build, ms
end

-- Builds and measures the graphs that could be faster; run.graphs is a sentence if one was skipped.
local function try_graphs(run)
  local kinds = run.norms_help and {"hybrid", "hnsw"} or {"hnsw"}
  if left(run) <= 0 then
    run.cut = true
    for _, kind in ipairs(kinds) do skip(run, kind, {}, "no time is left to look at it") end
    return
  end
  local reason, estimate, pilot_ms = ruled_out(run)
  if reason then
    run.graphs = "no graph was built: " .. reason
    for _, kind in ipairs(kinds) do skip(run, kind, {}, "it cannot be faster") end
    return
  end
  local limit = run.build_limit
  for _, kind in ipairs(kinds) do
    local rest = limit or left(run)
    if estimate > rest then
      skip(run, kind, {}, "its build would take about %s; %s leaves %s", text.seconds(estimate),
           limit and "build_limit" or "seconds", text.seconds(math.max(0, rest)))
      run.graphs = ("a graph was left out, as building it would take about %s (build_limit = %d "
        .. "allows more)"):format(text.seconds(estimate), math.ceil(2 * estimate))
    else
      local begun = native.clock()
      try_graph(run, kind, estimate, pilot_ms)
      local took = native.clock() - begun
      if limit then limit, run.building = limit - took, run.building + took end
    end
  end
end

-- Closes every index but the chosen one; the candidates keep their facts.
local function close_others(run, best)
  local chosen = best.index
  for _, c in ipairs(run.candidates) do
    if c.index and c.index ~= chosen then c.index:close() end
    c.index, c.chosen, c.name = nil, c == best or nil, choice.named(c)
  end
  return chosen
end

local auto = {}

-- Returns the chosen index, the sentence, the candidates, and the seconds that it took.
function auto.choose(items, o)
  local P = items.rows
  local k = o.k or math.min(256, P)
  local run = {items = items, P = P, k = k, batch = o.batch, head = o.head, sample = o.sample,
               seconds = o.seconds, building = 0, build_limit = o.build_limit,
               given = o.queries.rows, candidates = {}, begun = native.clock(),
               graph = {M = o.M, ef_construction = math.max(o.ef_construction, o.M), ef = 0,
                        seed = o.seed, deterministic = o.deterministic}}
  run.target, run.mass = choice.aims(o, k)
  if run.given == 0 then
    define.fail("fopo.index.auto needs queries, but there are none; give some rows of "
                .. "pi:queries(x)")
  end
  local norm = find_truth(run, o.queries)
  local full = measure(run, norm, "norm", {}, 0)
  -- Queries of 0 alone are answered at once, and no item is scored.
  local each = full.scored > 0 and 1e-3 * full.ms / full.scored or 0
  local exact = measure(run, native.index_exact(items), "exact", {}, each)
  run.norms_help = full.scored < NORMS_FAIL
  if run.norms_help or run.mass or run.target < 1 then try_budgets(run, norm, full) end
  try_graphs(run)
  choice.sort(run.candidates)
  local best, quickest = choice.best(run)
  if best.kind == "norm" then norm.budget = best.options.budget end
  if best.options.ef then best.index.ef = best.options.ef end
  run.took = spent(run)
  local why = choice.why(run, best, quickest, exact, full)
  return close_others(run, best), why, run.candidates, run.took
end

return auto
