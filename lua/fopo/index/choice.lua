-- The choice among measured candidates: which of them are good enough, which is the best, the
-- sentence on why, and the table.
--
-- An index is good enough by its recall (the share of the true top k that it returns) or by its
-- mass (the share of the sum of exp(score) over the true top k that its answers hold).
local text = require "fopo.base.text"

-- What is asked for where the user names neither.
local TARGET, MASS = 0.99, 0.995
-- The shortest answers that may be chosen by mass without the user's word: shorter ones are
-- recommendations, and all of them hold the mass of a policy that is nearly flat.
local FEWEST_BY_MASS = 32
-- Answers of less recall, chosen by mass, are worth a word.
local FEW_OF_THE_BEST = 0.5
-- Times within this factor are a tie: the better recall wins, then the simpler kind, which comes
-- first.
local TIE = 1.1

local choice = {}

-- The aims: what the user gave, else both, but for short answers recall alone.
function choice.aims(o, k)
  if o.target or o.mass then return o.target, o.mass end
  return TARGET, k >= FEWEST_BY_MASS and MASS or nil
end

local function by_recall(run, c) return run.target and c.recall >= run.target end

-- Is the candidate good enough?
function choice.good(run, c)
  return not c.skipped and (by_recall(run, c) or run.mass ~= nil and c.mass >= run.mass)
end

-- "recall@256 of at least 0.99 or a mass of at least 0.995".
local function wanted(run)
  local parts = {}
  if run.target then parts[1] = ("recall@%d of at least %g"):format(run.k, run.target) end
  if run.mass then parts[#parts + 1] = ("mass of at least %g"):format(run.mass) end
  return table.concat(parts, " or ")
end

local function is_graph(c) return c.kind == "hnsw" or c.kind == "hybrid" end

-- The good candidate with the smallest value of a field ("ms", "scored"); norm without a budget
-- always is one. `without`: leave out the graphs.
function choice.least(run, field, without)
  local best
  for _, c in ipairs(run.candidates) do
    local counts = choice.good(run, c) and not (without and is_graph(c))
    if counts and (not best or c[field] < best[field]) then best = c end
  end
  return best
end

-- The candidate to return, and the quickest: the same unless there is a tie.
function choice.best(run)
  local quickest, best = choice.least(run, "ms"), nil
  for _, c in ipairs(run.candidates) do
    local ties = choice.good(run, c) and c.ms <= TIE * quickest.ms
    if ties and (not best or c.recall > best.recall) then best = c end
  end
  return best, quickest
end

-- ---- the sentence ----

-- "norm (budget 1,024)".
function choice.named(c)
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

-- A sentence on why none of the graphs that were built was chosen, or nil.
local function graphs_lost(run, best)
  local reached, nearest
  for _, c in ipairs(run.candidates) do
    if is_graph(c) and not c.skipped then
      if choice.good(run, c) and (not reached or c.ms < reached.ms) then reached = c end
      if not nearest or c.recall > nearest.recall then nearest = c end
    end
  end
  if is_graph(best) or not nearest then return nil end
  if reached then
    return ("of the graphs %s reaches that in %.1f times the time"):format(
      choice.named(reached), reached.ms / best.ms)
  end
  return ("no graph reached that; the nearest, %s, has recall %.4f and mass %.4f"):format(
    choice.named(nearest), nearest.recall, nearest.mass)
end

-- Of the choice, and of the tie if it was one.
local function chosen_for(run, best, quickest, exact)
  local facts = ("%.3g ms a query, recall %.4f, mass %.4f"):format(best.ms, best.recall, best.mass)
  if not exact.skipped and exact ~= best then
    facts = facts .. (", %.1f times as fast as exact"):format(exact.ms / best.ms)
  end
  if best == quickest then
    return ("%s is the fastest with %s"):format(choice.named(best), wanted(run)), facts
  end
  return ("%s ties with the fastest with %s, %s at %.3g ms (times within %d %% are a tie, which "
    .. "the better recall decides)"):format(choice.named(best), wanted(run), choice.named(quickest),
    quickest.ms, math.floor(100 * (TIE - 1) + 0.5)), facts
end

-- After how many queries the build of a graph is paid back, or nil.
local function paid_back(run, best)
  local without = choice.least(run, "ms", true)
  if not is_graph(best) or without.ms <= best.ms then return nil end
  return ("its build of %s is paid back after %s queries"):format(text.seconds(best.build_seconds),
    text.count(math.ceil(1e3 * best.build_seconds / (without.ms - best.ms))))
end

-- How long the choice took, and what it took for it.
local function cost(run)
  return ("the choice took %s%s"):format(text.seconds(run.took), run.cut
    and (" (seconds = %g did not allow all candidates)"):format(run.seconds) or "")
end

-- The whole sentence.
function choice.why(run, best, quickest, exact, full)
  local parts = {}
  if full.scored == 0 then
    parts[1] = "all of these queries are 0, which any items answer: choose again by others"
  elseif run.norms_help then
    parts[1] = ("norms help: the exact scan in their order scores %.3g %% of the items")
      :format(100 * full.scored)
  else
    parts[1] = ("norms cannot help: the exact scan in their order scores %.3g %% of the items, "
      .. "because the norms differ too little"):format(100 * full.scored)
  end
  local chosen, facts = chosen_for(run, best, quickest, exact)
  parts[2] = ("%s on %s%d of the queries, %d at a time: %s"):format(chosen,
    run.all.Q.rows < run.given and "a sample of " or "all ", run.all.Q.rows, run.batch, facts)
  if not by_recall(run, best) and best.recall < FEW_OF_THE_BEST then
    parts[#parts + 1] = "its answers hold the mass without most of the true ones, as many items "
                        .. "score nearly alike: choose again if the policy is trained further"
  end
  parts[#parts + 1] = paid_back(run, best)
  parts[#parts + 1] = graphs_lost(run, best)
  parts[#parts + 1] = run.graphs
  parts[#parts + 1] = cost(run)
  parts[#parts + 1] = "recall and mass are exact for these queries, times are of this machine at "
                      .. "this load"
  return table.concat(parts, "; ") .. "."
end

-- The simplest first, and each kind by its options, what was skipped last.
function choice.sort(candidates)
  local place = {exact = 1, norm = 2, hybrid = 3, hnsw = 4}
  local function key(c)
    return (c.skipped and 10 or 0) + place[c.kind], c.options.budget or c.options.ef or 0
  end
  table.sort(candidates, function(a, b)
    local i, n = key(a)
    local j, m = key(b)
    if i ~= j then return i < j end
    return n < m
  end)
end

-- The candidates as a text table.
function choice.table(candidates)
  local rows = {{"", "index", "recall", "mass", "at 1", "ms/query", "scored", "build",
                 "reachable"}}
  for _, c in ipairs(candidates) do
    rows[#rows + 1] = c.skipped and {"", c.name, "-", "-", "-", "-", "-", "-", c.skipped} or {
      c.chosen and "*" or "", c.name, ("%.4f"):format(c.recall), ("%.4f"):format(c.mass),
      ("%.4f"):format(c.recall_at_1), ("%.4g"):format(c.ms), ("%.3g %%"):format(100 * c.scored),
      text.seconds(c.build_seconds), text.count(c.reachable)}
  end
  return text.table(rows)
end

return choice
