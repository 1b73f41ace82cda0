-- Why a claim on the number of candidates K or of draws S does not hold in a world: a part of
-- reasons.lua. Each function takes the worlds and the titles of those where a claim does not hold,
-- and returns {title =, text =, rows =}.
local native = require "fopo.native"
local shown = require "shown"

local numbers = {}
local where, values, mean, listed = shown.where, shown.values, shown.mean, shown.listed

-- ---- the cost of candidates and of draws

-- Of the rows of the smallest and of the largest value of a column, where others are fixed, a line
-- for each part of a step's time, and the sentence of the part that grows most.
local function parts_of(w, last, column, fixed, rows)
  local list = values(last, column)
  table.sort(list)
  local few = where(last, {[column] = list[1], [fixed[1]] = fixed[2]})
  local many = where(last, {[column] = list[#list], [fixed[1]] = fixed[2]})
  local most, part = 0, ""
  local line = {w.title, ("%s = %d, then %d"):format(column == "k" and "K" or "S", list[1],
                                                     list[#list])}
  for _, phase in ipairs(native.phases()) do
    local before, after = mean(few, phase.name .. "_ms"), mean(many, phase.name .. "_ms")
    if after - before > most then most, part = after - before, phase.name end
    line[#line + 1] = ("%.3g, %.3g"):format(before, after)
  end
  rows[#rows + 1] = line
  local share = most / (mean(many, "ms_step") - mean(few, "ms_step"))
  return ("on %s %.0f %% of what %s adds is %s"):format(w.title, 100 * share,
    column == "k" and "K" or "S", part)
end

-- The parts of a step's time that grow; of_k and of_s are the titles for K and for S.
function numbers.costs(worlds, of_k, of_s)
  local rows, said = {{"world", ""}}, {}
  for _, phase in ipairs(native.phases()) do rows[1][#rows[1] + 1] = phase.name .. ", ms" end
  for _, w in ipairs(worlds) do
    local last = w.experiments.cost and w.experiments.cost.rows or {}
    local k, samples = shown.usual(last, "k"), shown.usual(last, "samples")
    if #of_k > 0 and #last > 0 then
      said[#said + 1] = parts_of(w, last, "k", {"samples", samples}, rows)
    end
    if #of_s > 0 and #last > 0 then
      said[#said + 1] = parts_of(w, last, "samples", {"k", k}, rows)
    end
  end
  local text = {}
  if #of_k > 0 then
    text[1] = ("A step costs more with more candidates on %s."):format(listed(of_k))
  end
  if #of_s > 0 then
    text[#text + 1] = ("A step costs more with more draws on %s."):format(listed(of_s))
  end
  text[#text + 1] = ([[The table has the parts of a step at the smallest and at the largest
value, in milliseconds of one thread: %s. The paper measured on a GPU, which finds candidates and
reads the rows of draws side by side. A processor takes them one after the other: it reads K + S
rows of L numbers for a context, and keeps the K best sorted.]]):format(table.concat(said, "; "))
  return {title = "The cost of K and S", text = table.concat(text, " "), rows = rows}
end

-- ---- more draws, or more candidates, and the exact gradient

-- A sentence on a world where the reward does not rise with the number of draws: whether the exact
-- gradient ends below the smallest number too, and the expected reward of each.
local function against_exact(w, rows)
  local last = shown.last(w.experiments.rq4.rows)
  local exact, list = where(last, {method = "exact"}), values(last, "samples")
  if #exact == 0 then return nil end
  table.sort(list)
  local few, many = where(last, {samples = list[1]}), where(last, {samples = list[#list]})
  for _, S in ipairs(list) do
    local those = where(last, {samples = S})
    rows[#rows + 1] = {w.title, tostring(S), shown.cell(those, "reward", "%.4f"),
                       shown.cell(those, "expected", "%.4g")}
  end
  rows[#rows + 1] = {w.title, "exact", shown.cell(exact, "reward", "%.4f"),
                     shown.cell(exact, "expected", "%.4g")}
  local aim = mean(many, "expected") > mean(few, "expected")
  local same = mean(exact, "reward") < mean(few, "reward")
  if aim and same then
    return ([[On %s more draws do what they are for: the expected reward, which the gradient
raises, is higher with %d draws than with %d. R_test is the reward of the best item alone, and by it
the exact gradient ends below %d draws as well. So it is not the estimate that fails: as long as the
softmax is uniform over the catalogue, the two rewards do not rise together.]]):format(w.title,
      list[#list], list[1], list[1])
  end
  return ([[On %s the exact gradient ends at %.4f, and its expected reward does not explain the
order.]]):format(w.title, mean(exact, "reward"))
end

-- Why more draws do not earn more.
function numbers.more_draws(worlds, where_not)
  local rows, text = {{"world", "S", "R_test", "expected reward"}}, {}
  for _, w in ipairs(worlds) do
    if w.verdicts["better with S"].verdict == "does not hold" then
      text[#text + 1] = against_exact(w, rows)
    end
  end
  if #text == 0 then
    text[1] = ([[It does not hold on %s. The report has no training by the exact gradient beside
it (rq4 with exact=yes), so it does not say why.]]):format(listed(where_not))
  end
  return {title = "More draws", text = table.concat(text, " "), rows = #rows > 1 and rows or nil}
end

-- Why the reward varies with K.
function numbers.robust(worlds, where_not)
  local rows = {{"world", "K", "seeds", "R_test", "expected reward"}}
  for _, w in ipairs(worlds) do
    local last = w.experiments.rq3 and shown.last(w.experiments.rq3.rows) or {}
    for _, k in ipairs(values(last, "k")) do
      local those = where(last, {k = k})
      rows[#rows + 1] = {w.title, tostring(k), tostring(#those),
                         shown.cell(those, "reward", "%.4f"), shown.cell(those, "expected", "%.4g")}
    end
    local exact = where(last, {method = "exact"})
    if #exact > 0 then
      rows[#rows + 1] = {w.title, "exact", tostring(#exact), shown.cell(exact, "reward", "%.4f"),
                         shown.cell(exact, "expected", "%.4g")}
    end
  end
  return {title = "K and the reward", rows = rows, text = ([[It does not hold on %s. The rule
compares each K with the best of them, which noise alone sets above the others, and the further the
fewer test sessions and seeds there are. A trend with K would show in the rewards and in the
expected rewards.]]):format(listed(where_not))}
end

return numbers
