-- What stands behind the verdicts: for each question of the paper what the experiments of the
-- report show, as sections {title =, text =, figures = {{world, experiment}, ...}}. Nothing is said
-- that the results do not have.
local claims = require "claims"
local native = require "fopo.native"
local shown = require "shown"
local tables = require "tables"

local reasons = {}
local where, values, mean = shown.where, shown.values, shown.mean

local function rows_of(w, name) return w.experiments[name] and w.experiments[name].rows or {} end

-- The worlds that have an experiment.
local function having(worlds, name)
  local list = {}
  for _, w in ipairs(worlds) do
    if w.experiments[name] then list[#list + 1] = w end
  end
  return list
end

local function figures_of(worlds, name)
  local list = {}
  for _, w in ipairs(having(worlds, name)) do list[#list + 1] = {w, name} end
  return list
end

-- ---- speed

-- The times of a step by method at each L of a world, of those that have all three.
local function times_of(w)
  local list = {}
  for _, dim in ipairs(values(rows_of(w, "rq1"), "dim")) do
    local t = {dim = dim, P = w.items}
    for _, method in ipairs{"REINFORCE", "uniform", "mixture"} do
      t[method] = mean(where(rows_of(w, "rq1"), {method = method, dim = dim}), "ms_step")
    end
    if t.REINFORCE and t.uniform and t.mixture then list[#list + 1] = t end
  end
  table.sort(list, function(a, b) return a.dim < b.dim end)
  return list
end

-- The times of the smallest and of the largest P at L = 10.
local function extremes(worlds)
  local few, many
  for _, w in ipairs(worlds) do
    for _, t in ipairs(times_of(w)) do
      if t.dim == 10 then
        few, many = few and few.P < t.P and few or t, many and many.P > t.P and many or t
      end
    end
  end
  return few, many
end

local function speed(worlds)
  local few, many = extremes(worlds)
  local text = {[[A step of REINFORCE computes the scores of all P items, one of the others those of
S + K: the speed-up grows with P.]]}
  if few and few.P < many.P then
    text[2] = ([[From %s to %s items, that of uniform goes from %.1f to %.1f, that of the mixture
from %.1f to %.1f (L = 10), so it is judged at the paper's P alone.]]):format(tables.count(few.P),
      tables.count(many.P), few.REINFORCE / few.uniform, many.REINFORCE / many.uniform,
      few.REINFORCE / few.mixture, many.REINFORCE / many.mixture)
  end
  for _, w in ipairs(worlds) do
    local t = times_of(w)
    local a, b = t[1], t[#t]
    if #t > 1 and w.verdicts["small L"].verdict == "does not hold" then
      text[#text + 1] = ([[On %s, from L = %d to %d the time of a step grows %.0f times for
REINFORCE, %.0f for uniform, %.0f for the mixture: a speed-up is larger at small L only where the
method's time grows by more than that of REINFORCE, whose scores cost L multiply-adds each as
well.]]):format(w.title, a.dim, b.dim, b.REINFORCE / a.REINFORCE, b.uniform / a.uniform,
        b.mixture / a.mixture)
    end
  end
  return {title = "How fast (RQ1)", text = table.concat(text, " "),
          figures = figures_of(worlds, "rq1")}
end

-- ---- which method is best

-- "uniform 0.20 (51 items in effect)" of the methods at their ends, eps 0.8 for the mixture; not of
-- REINFORCE where it has had fewer steps.
local function ends_of(w)
  local last, parts = shown.last(shown.tuned(rows_of(w, "rq2"), "valid_expected")), {}
  local steps = mean(where(last, {method = "uniform"}), "step") or 0
  for _, method in ipairs{"uniform", "mixture", "REINFORCE"} do
    local those = where(last, {method = method, epsilon = method == "mixture" and 0.8 or nil})
    if mean(those, "expected") and mean(those, "step") >= steps then
      parts[#parts + 1] = ("%s %.4g (%.0f)"):format(method, mean(those, "expected"),
                                                    mean(those, "effective"))
    end
  end
  return table.concat(parts, ", ")
end

local function cosines(w)
  local rows, parts = rows_of(w, "alignment"), {}
  for _, method in ipairs(values(rows, "method")) do
    local of = where(rows, {method = method})
    parts[#parts + 1] = ("%s %s, then %s"):format(method,
      shown.cell(where(of, {step = 0}), "cosine", "%.2f"),
      shown.cell(shown.last(of), "cosine", "%.2f"))
  end
  return table.concat(parts, "; ")
end

local function ranking(worlds)
  local text = {[[At the start the softmax is uniform over the catalogue, and uniform draws are as
good as any. As it sharpens, few uniform draws fall on what it chooses, and their estimate loses the
gradient; a mixture's candidates and REINFORCE's draws are there. Expected reward at the end, and in
brackets the items that the softmax chooses from in effect, in the median context; where these are
all, it is still uniform in most of them:]]}
  for _, w in ipairs(having(worlds, "rq2")) do
    text[#text + 1] = ("- %s: %s"):format(w.title, ends_of(w))
  end
  for _, w in ipairs(having(worlds, "alignment")) do
    text[#text + 1] = ([[

The cosine of an estimate with the exact gradient of its batch on %s, before and after a training by
the mixture: %s.]]):format(w.title, cosines(w))
  end
  return {title = "Which method is best (RQ2)", text = table.concat(text, "\n"),
          figures = table.move(figures_of(worlds, "alignment"), 1, #having(worlds, "alignment"),
                               #having(worlds, "rq2") + 1, figures_of(worlds, "rq2"))}
end

-- What R_test does while the expected reward rises: of the mixture at its best and at its end.
local function two_rewards(worlds)
  local text = {[[The gradient raises the expected reward, that of an item drawn from the softmax;
the paper reports R_test, that of the best item. While the softmax is uniform R_test is what the
direction of the scores earns; as it sharpens, the expected reward comes up to R_test. The mixture
with eps 0.8, R_test at its highest record and at the end, and its expected reward at the end:]]}
  for _, w in ipairs(having(worlds, "rq2")) do
    local all = where(rows_of(w, "rq2"), {method = "mixture", epsilon = 0.8})
    for _, lr in ipairs(values(all, "lr")) do
      local rows, best, at = where(all, {lr = lr}), 0, 0
      for _, step in ipairs(values(rows, "step")) do
        local those = where(rows, {step = step})
        if mean(those, "reward") > best then best, at = mean(those, "reward"), those[1].epoch end
      end
      local last = shown.last(rows)
      text[#text + 1] = ("- %s, lr %g: %.4f after %.2g epochs, %.4f, %.4g"):format(w.title, lr,
        best, at, mean(last, "reward"), mean(last, "expected") or 0 / 0)
    end
  end
  local figures = {}
  for i, w in ipairs(having(worlds, "rq2")) do figures[i] = {w, "rq2-test"} end
  return {title = "Two rewards", text = table.concat(text, "\n"), figures = figures}
end

-- ---- a fixed time

local function fixed_time(worlds)
  local figures, text = {}, {[[The time of a method is its steps times the time of a step in rq1,
measured once for one thread and kept in results.csv, so a verdict does not depend on the machine's
other work. All get the time that uniform takes to its end.]]}
  for _, w in ipairs(worlds) do
    local rows = claims.fixed_time(w.experiments, "valid_expected")
    if #rows > 0 then
      figures[#figures + 1] = {w, "fixed-time"}
      local parts = {}
      for _, method in ipairs{"uniform", "mixture", "REINFORCE"} do
        local last = shown.last(where(rows, {method = method}))
        parts[#parts + 1] = ("%s %.3g epochs in %.0f s"):format(method, mean(last, "epoch") or 0,
                                                               mean(last, "time") or 0)
      end
      text[#text + 1] = ("- %s: %s"):format(w.title, table.concat(parts, ", "))
    end
  end
  return {title = "For a fixed time", text = table.concat(text, "\n"), figures = figures}
end

-- ---- candidates and draws

-- Of the rows of the smallest and of the largest value of a column, where others are fixed, the
-- part of a step's time that grows most, in a sentence.
local function growth(w, column, fixed)
  local last = rows_of(w, "cost")
  last = where(last, {[fixed] = shown.usual(last, fixed)})
  local list = values(last, column)
  table.sort(list)
  local few, many = where(last, {[column] = list[1]}), where(last, {[column] = list[#list]})
  local most, part = 0, ""
  for _, phase in ipairs(native.phases()) do
    local more = mean(many, phase.name .. "_ms") - mean(few, phase.name .. "_ms")
    if more > most then most, part = more, phase.name end
  end
  local a, b = mean(few, "ms_step"), mean(many, "ms_step")
  return ("from %s = %d to %d a step goes from %.3g to %.3g ms, %.0f %% of it %s"):format(
    column == "k" and "K" or "S", list[1], list[#list], a, b, 100 * most / (b - a), part)
end

-- Both rewards at each value of a column.
local function by_value(w, name, column, letter)
  local last, parts = shown.last(rows_of(w, name)), {}
  local list = values(last, column)
  table.sort(list)
  for _, v in ipairs(list) do
    local those = where(last, {[column] = v})
    parts[#parts + 1] = ("%s %d %.4f, %.4g"):format(letter, v, mean(those, "reward"),
                                                    mean(those, "expected"))
  end
  local exact = where(last, {method = "exact"})
  if #exact > 0 then
    parts[#parts + 1] = ("exact %.4f, %.4g"):format(mean(exact, "reward"), mean(exact, "expected"))
  end
  return ("- %s: %s"):format(w.title, table.concat(parts, "; "))
end

local function candidates(worlds)
  local text = {"R_test and expected reward at the end, by K and by S:"}
  for _, w in ipairs(having(worlds, "rq3")) do
    text[#text + 1] = by_value(w, "rq3", "k", "K")
  end
  for _, w in ipairs(having(worlds, "rq4")) do
    text[#text + 1] = by_value(w, "rq4", "samples", "S")
  end
  text[#text + 1] = [[

The time of a step, of one thread. The paper measured on a GPU, which finds candidates and reads the
rows of draws side by side; a processor takes them one after the other.]]
  for _, w in ipairs(having(worlds, "cost")) do
    text[#text + 1] = ("- %s: %s; %s"):format(w.title, growth(w, "k", "samples"),
                                                 growth(w, "samples", "k"))
  end
  local figures = {}
  for _, name in ipairs{"rq3", "rq4", "cost"} do
    local some = figures_of(worlds, name)
    table.move(some, 1, #some, #figures + 1, figures)
  end
  return {title = "Candidates and draws (RQ3, RQ4)", text = table.concat(text, "\n"),
          figures = figures}
end

-- ---- learnt items, and the search

local function items(worlds)
  local text = {[[REINFORCE with items fixed, then learnt from the same start: R_test, and expected
reward.]]}
  for _, w in ipairs(having(worlds, "rq0")) do
    local last, parts = where(shown.last(rows_of(w, "rq0")), {method = "REINFORCE"}), {}
    for _, dim in ipairs(values(last, "dim")) do
      local cells = {}
      for i, learnt in ipairs{"no", "yes"} do
        local those = where(last, {dim = dim, learnt = learnt})
        cells[i] = ("%.4f, %.4g"):format(mean(those, "reward"), mean(those, "expected"))
      end
      parts[#parts + 1] = ("L = %d: %s"):format(dim, table.concat(cells, "; then "))
    end
    text[#text + 1] = ("- %s: %s"):format(w.title, table.concat(parts, ". "))
  end
  return {title = "Fixed items (RQ0)", text = table.concat(text, "\n"),
          figures = figures_of(worlds, "rq0")}
end

local function search(worlds)
  local text = {[[What this program adds, on the axes of RQ2, and the paper's HNSW in the place of
exact candidates. R_test and expected reward at the end:]]}
  for _, w in ipairs(having(worlds, "beyond")) do
    local last, parts = shown.last(rows_of(w, "beyond")), {}
    for i, method in ipairs(values(last, "method")) do
      local those = where(last, {method = method})
      parts[i] = ("%s %.4f, %.4g"):format(method, mean(those, "reward"), mean(those, "expected"))
    end
    text[#text + 1] = ("- %s: %s"):format(w.title, table.concat(parts, "; "))
  end
  return {title = "Beyond the paper's estimators", text = table.concat(text, "\n"),
          figures = figures_of(worlds, "beyond")}
end

-- The sections of what the worlds have.
function reasons.of(worlds)
  local list = {}
  for _, part in ipairs{{"rq1", speed}, {"rq2", ranking}, {"rq2", two_rewards}, {"rq2", fixed_time},
                        {"rq3", candidates}, {"rq0", items}, {"beyond", search}} do
    if #having(worlds, part[1]) > 0 then list[#list + 1] = part[2](worlds) end
  end
  return list
end

return reasons
