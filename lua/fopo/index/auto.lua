-- fopo.index.auto: measures indexes on the user's own queries and returns the fastest that reaches
-- the target recall. C measures (native.index_measure); this file decides what to try and what to
-- skip.
--
-- Candidates: exact; norm, without and with budgets; graphs, unless the order by norm is so good
-- that a graph cannot be faster, or its build would take too long. A graph is built once and
-- measured with several breadths. Everything that was measured or skipped is an entry of
-- `candidates`.
local native = require "fopo.native"
local define = require "fopo.base.define"
local text = require "fopo.base.text"

-- The smallest breadth tried: below, the first steps of a search score more items than its pool
-- holds.
local NARROWEST = 64
-- A graph scores items one by one at random places in memory; the order by norm scores them in
-- blocks, at about a quarter of the cost of each.
local RANDOM_ACCESS = 4
-- Norms "help" if norm scores less than this share of the items. The items of norm 0, which no
-- session has, are a fifth of some catalogues: to skip those alone is no help.
local NORMS_FAIL = 0.75
-- Items of the small graph whose build is timed to estimate that of the whole.
local PILOT = 2000
-- A timing is the minimum of so many repeats, or of those that fit into so many seconds:
-- disturbances only add time.
local REPEATS, REPEAT_SECONDS = 7, 1
-- Times within this factor are a tie: the better recall wins, then the simpler kind, which comes
-- first.
local TIE = 1.1

-- At most n of the rows, evenly spread.
local function sample(queries, n)
  if queries.rows <= n then return queries end
  local rows = {}
  for i = 1, n do rows[i] = (i - 1) * queries.rows // n + 1 end
  return queries:rows_of(rows)
end

-- Measures an index with its present options and adds it to the candidates.
local function measure(run, ix, kind, options)
  local best
  local begun = native.clock()
  for _ = 1, REPEATS do
    local r = native.index_measure(ix, run.Q, run.truth, run.batch)
    if not best or r.ms_per_query < best.ms_per_query then best = r end
    if native.clock() - begun > REPEAT_SECONDS then break end
  end
  local c = {kind = kind, options = options, index = ix, recall = best.recall,
             recall_at_1 = best.recall_at_1, short_rows = best.short_rows, ms = best.ms_per_query,
             scored = best.scored, reachable = best.reachable,
             build_seconds = ix:about().build_seconds}
  run.candidates[#run.candidates + 1] = c
  return c
end

local function skip(run, kind, options, reason)
  run.candidates[#run.candidates + 1] = {kind = kind, options = options, skipped = reason}
end

-- The candidate with the smallest value of a field ("ms", "scored") among those that reach the
-- target; exact always does.
local function least(run, field)
  local best
  for _, c in ipairs(run.candidates) do
    if not c.skipped and c.recall >= run.target and (not best or c[field] < best[field]) then
      best = c
    end
  end
  return best
end

local function choose(run)
  local fastest, best = least(run, "ms"), nil
  for _, c in ipairs(run.candidates) do
    if not c.skipped and c.recall >= run.target and c.ms <= TIE * fastest.ms
       and (not best or c.recall > best.recall) then
      best = c
    end
  end
  return best
end

-- Halves the budget while the recall reaches the target, then bisects between the last two.
local function try_budgets(run, norm, full)
  local function try(budget)
    norm.budget = budget
    return measure(run, norm, "norm", {budget = budget}).recall >= run.target
  end
  -- A budget of more items than are scored without one would save little.
  local holds, fails = nil, nil
  local budget = math.min(run.P // 2, math.ceil(2 * full.scored * run.P))
  while budget >= run.k and not fails do
    if try(budget) then holds, budget = budget, budget // 2 else fails = budget end
  end
  for _ = 1, holds and fails and 2 or 0 do
    local middle = math.floor(math.sqrt(holds * fails))
    if try(middle) then holds = middle else fails = middle end
  end
end

-- Estimated seconds of building a graph over all P items: a small one of n items is timed, and the
-- time grows like P log P.
local function build_estimate(run)
  local n = math.min(PILOT, run.P)
  local pilot <close> = native.index_hnsw(sample(run.items, n), run.graph)
  local grown = run.P / n * math.log(run.P) / math.log(n)
  return pilot:about().build_seconds * grown
end

-- Builds one kind of graph and measures it with doubled breadth until it reaches the target.
local function try_graph(run, kind, estimate)
  local options = {}
  for name, value in pairs(run.graph) do options[name] = value end
  if kind == "hybrid" then options.head = run.head end
  local ok, ix = pcall(native["index_" .. kind], run.items, options)
  if not ok then
    if not tostring(ix):find("memory", 1, true) then error(ix, 0) end
    return skip(run, kind, {}, tostring(ix))
  end
  local ef = math.max(run.k, NARROWEST)
  for _ = 1, 4 do
    ix.ef = math.min(ef, run.P)
    local c = measure(run, ix, kind, {ef = ix.ef, head = options.head})
    c.build_estimate = estimate
    if c.recall >= run.target or ef >= run.P then break end
    ef = 2 * ef
  end
end

-- Builds and measures the graphs that could be faster; run.graphs is a sentence if one was skipped.
local function try_graphs(run, norms_help)
  local kinds = norms_help and {"hybrid", "hnsw"} or {"hnsw"}
  local best = least(run, "scored")
  local breadth = math.max(run.k, NARROWEST)
  local scored, steps = best.scored * run.P, run.graph.M * breadth
  if scored <= RANDOM_ACCESS * steps then
    run.graphs = ("no graph was built: %s scores %s items a query in blocks, and a graph about %s "
      .. "one by one, each some %d times dearer"):format(best.kind, text.count(scored),
      text.count(steps), RANDOM_ACCESS)
    for _, kind in ipairs(kinds) do skip(run, kind, {}, "it cannot be faster") end
    return
  end
  local estimate, left = build_estimate(run), run.build_limit
  for _, kind in ipairs(kinds) do
    if estimate > left then
      skip(run, kind, {}, ("its build would take about %s; build_limit leaves %s"):format(
        text.seconds(estimate), text.seconds(left)))
      run.graphs = ("a graph was left out, as building it would take about %s (build_limit = %d "
        .. "allows more)"):format(text.seconds(estimate), math.ceil(2 * estimate))
    else
      local begun = native.clock()
      try_graph(run, kind, estimate)
      left = left - (native.clock() - begun)
    end
  end
end

local function named(c)
  local parts = {}
  for _, name in ipairs{"budget", "head", "ef"} do
    local value = c.options[name]
    if value then
      parts[#parts + 1] = name .. " " .. (name == "head" and ("%g"):format(value)
                                          or text.count(value))
    end
  end
  return c.kind .. (#parts > 0 and " (" .. table.concat(parts, ", ") .. ")" or "")
end

local function is_graph(c) return c.kind == "hnsw" or c.kind == "hybrid" end

-- A sentence on why none of the graphs that were built was chosen, or nil.
local function graphs_lost(run, best)
  local reached, nearest
  for _, c in ipairs(run.candidates) do
    if is_graph(c) and not c.skipped then
      if c.recall >= run.target and (not reached or c.ms < reached.ms) then reached = c end
      if not nearest or c.recall > nearest.recall then nearest = c end
    end
  end
  if is_graph(best) or not nearest then return nil end
  if reached then
    return ("of the graphs %s reaches the recall at %.1f times the time"):format(
      named(reached), reached.ms / best.ms)
  end
  return ("no graph reached the recall; the nearest, %s, has %.4f"):format(named(nearest),
                                                                           nearest.recall)
end

-- The sentence on the choice.
local function reason(run, best, exact, full)
  local parts = {}
  if run.norms_help then
    parts[1] = ("norms help: the exact scan in their order scores %.3g %% of the items")
      :format(100 * full.scored)
  else
    parts[1] = ("norms cannot help: the exact scan in their order scores %.3g %% of the items, "
      .. "because the norms differ too little"):format(100 * full.scored)
  end
  parts[2] = ("%s is the fastest with recall@%d of at least %g on %s%d of the queries, %d at a "
    .. "time: %.3g ms a query at recall %.4f, %.1f times as fast as exact"):format(named(best),
    run.k, run.target, run.Q.rows < run.given and "a sample of " or "all ", run.Q.rows, run.batch,
    best.ms, best.recall, exact.ms / best.ms)
  if is_graph(best) and exact.ms > best.ms then
    local without
    for _, c in ipairs(run.candidates) do
      if not is_graph(c) and not c.skipped and c.recall >= run.target
         and (not without or c.ms < without.ms) then
        without = c
      end
    end
    parts[#parts + 1] = ("its build of %s is paid back after %s queries"):format(
      text.seconds(best.build_seconds),
      text.count(math.ceil(1e3 * best.build_seconds / (without.ms - best.ms))))
  end
  parts[#parts + 1] = graphs_lost(run, best)
  parts[#parts + 1] = run.graphs
  parts[#parts + 1] = "recalls are exact for these queries, times are of this machine at this load"
  return table.concat(parts, "; ") .. "."
end

-- Closes every index but the chosen one; the candidates keep their facts.
local function close_others(run, best)
  local chosen = best.index
  for _, c in ipairs(run.candidates) do
    if c.index and c.index ~= chosen then c.index:close() end
    c.index, c.chosen, c.name = nil, c == best or nil, named(c)
  end
  return chosen
end

local auto = {}

-- Returns the chosen index, the sentence, and the candidates.
function auto.choose(items, o)
  local P = items.rows
  local k = o.k or math.min(256, P)
  local run = {items = items, P = P, k = k, batch = o.batch, target = o.target, head = o.head,
               build_limit = o.build_limit, given = o.queries.rows, candidates = {},
               Q = sample(o.queries, o.sample),
               graph = {M = o.M, ef_construction = math.max(o.ef_construction, o.M), ef = 0,
                        seed = o.seed, deterministic = o.deterministic}}
  if run.given == 0 then
    define.fail("fopo.index.auto needs queries, but there are none; give some rows of "
                .. "pi:queries(x)")
  end
  local exact = native.index_exact(items)
  local ids
  ids, run.truth = exact:search(run.Q, k)
  ids:close()
  exact = measure(run, exact, "exact", {})
  local norm = native.index_norm(items, {})
  local full = measure(run, norm, "norm", {})
  run.norms_help = full.scored < NORMS_FAIL
  if run.norms_help or run.target < 1 then try_budgets(run, norm, full) end
  try_graphs(run, run.norms_help)
  local best = choose(run)
  if best.kind == "norm" then norm.budget = best.options.budget end
  if best.options.ef then best.index.ef = best.options.ef end
  local why = reason(run, best, exact, full)
  return close_others(run, best), why, run.candidates
end

-- The candidates as a text table.
function auto.table(candidates)
  local rows = {{"", "index", "recall", "at 1", "ms/query", "scored", "build", "reachable"}}
  for _, c in ipairs(candidates) do
    rows[#rows + 1] = c.skipped and {"", c.name, "-", "-", "-", "-", "-", c.skipped} or {
      c.chosen and "*" or "", c.name, ("%.4f"):format(c.recall), ("%.4f"):format(c.recall_at_1),
      ("%.4g"):format(c.ms), ("%.3g %%"):format(100 * c.scored), text.seconds(c.build_seconds),
      text.count(c.reachable)}
  end
  return text.table(rows)
end

return auto
