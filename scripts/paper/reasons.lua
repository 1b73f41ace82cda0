-- Why a claim of the paper does not hold in a world: what other experiments of the report show. No
-- reason is given that the results do not have.
local native = require "fopo.native"
local shown = require "shown"
local tables = require "tables"

local reasons = {}
local where, values, mean, listed = shown.where, shown.values, shown.mean, shown.listed

-- The titles of the worlds where a claim of that id does not hold.
local function failing(worlds, ids)
  local list = {}
  for _, w in ipairs(worlds) do
    for _, id in ipairs(ids) do
      if w.verdicts[id].verdict == "does not hold" then
        list[#list + 1] = w.title
        break
      end
    end
  end
  return list
end

-- ---- speed: what REINFORCE's step costs by P

-- Of the smallest and of the largest P that have an L in common, the rows of the smallest such L.
local function extremes(seen)
  local few, many
  for _, a in ipairs(seen) do
    for _, b in ipairs(seen) do
      local wider = not few or b.P - a.P > many.P - few.P
                    or b.P - a.P == many.P - few.P and a.dim < few.dim
      if a.dim == b.dim and a.P < b.P and wider then few, many = a, b end
    end
  end
  return few, many
end

local function speed(worlds, where_not)
  local rows = {{"world", "items P", "L", "REINFORCE, ms/step", "uniform", "mixture",
                 "uniform, times REINFORCE", "mixture, times REINFORCE"}}
  local seen = {}
  for _, w in ipairs(worlds) do
    local e = w.experiments.rq1
    for _, dim in ipairs(e and values(e.rows, "dim") or {}) do
      local t = {}
      for _, method in ipairs{"REINFORCE", "uniform", "mixture"} do
        t[method] = mean(where(e.rows, {method = method, dim = dim}), "ms_step")
      end
      if t.REINFORCE and t.uniform and t.mixture then
        seen[#seen + 1] = {P = e.rows[1].items, dim = dim, uniform = t.REINFORCE / t.uniform,
                           mixture = t.REINFORCE / t.mixture}
        rows[#rows + 1] = {w.title, tables.count(e.rows[1].items), tostring(dim),
          ("%.3g"):format(t.REINFORCE), ("%.3g"):format(t.uniform), ("%.3g"):format(t.mixture),
          ("%.1f"):format(seen[#seen].uniform), ("%.1f"):format(seen[#seen].mixture)}
      end
    end
  end
  local few, many = extremes(seen)
  local text = ("It does not hold on %s. "):format(listed(where_not))
  if few then
    text = text .. ([[A step of REINFORCE computes the scores of all P items, one of the others
those of S + K: the speed-up grows with P. From %s to %s items, that of uniform goes from %.1f to
%.1f, that of the mixture from %.1f to %.1f (L = %d).]]):format(tables.count(few.P),
      tables.count(many.P), few.uniform, many.uniform, few.mixture, many.mixture, few.dim)
  else
    text = text .. "The report has one catalogue only, so it does not show whether P decides."
  end
  return {title = "Speed", text = text, rows = rows}
end

-- ---- how the times grow with L

local function growth(worlds)
  local parts = {}
  for _, w in ipairs(worlds) do
    local rows = w.verdicts["small L"].verdict == "does not hold" and w.experiments.rq1.rows or {}
    local dims, times = values(rows, "dim"), {}
    table.sort(dims)
    for _, method in ipairs{"REINFORCE", "uniform", "mixture"} do
      local few = mean(where(rows, {method = method, dim = dims[1]}), "ms_step")
      local many = mean(where(rows, {method = method, dim = dims[#dims]}), "ms_step")
      if few and many then times[#times + 1] = ("%s %.0f times"):format(method, many / few) end
    end
    if #times > 0 then
      parts[#parts + 1] = ("On %s, from L = %d to %d the time of a step grows: %s."):format(w.title,
        dims[1], dims[#dims], listed(times))
    end
  end
  return {title = "Gains at small L", text = table.concat(parts, " ") .. [[ A speed-up is larger at
small L only where the method's time grows by more than that of REINFORCE, whose scores of all items
cost L multiply-adds each as well.]]}
end

-- ---- which method is best: scale and temperature

local function case_name(row)
  local T = row.temperature or 1
  return row.embedding .. (T ~= 1 and (" / T = %g"):format(T) or "")
end

-- {case =, rewards by method, effective =, P =} of each case of a settings experiment.
local function cases_of(rows)
  local list, by_name = {}, {}
  for _, row in ipairs(shown.last(rows)) do
    local name = case_name(row)
    if not by_name[name] then
      by_name[name] = {case = name, methods = {}, P = row.items}
      list[#list + 1] = by_name[name]
    end
    local c = by_name[name]
    c.methods[row.method] = c.methods[row.method] or {}
    table.insert(c.methods[row.method], row)
  end
  return list
end

local function best_of(c)
  local best, most
  for method, rows in pairs(c.methods) do
    local r = mean(rows, "reward")
    if not most or r > most or r == most and method < best then best, most = method, r end
  end
  return best, most
end

-- A sentence: whether the best method of a world changes with the scale, by the means alone.
local function scale_decides(w)
  local cases = w.experiments.settings and cases_of(w.experiments.settings.rows) or {}
  if #cases < 2 then return nil end
  local parts, different = {}, false
  local first = best_of(cases[1])
  for i, c in ipairs(cases) do
    local best, reward = best_of(c)
    different = different or best ~= first
    parts[i] = ("%s: %s, %.4f"):format(c.case, best, reward)
  end
  return ("On %s the method of the highest mean %s (%s)."):format(w.title, different
    and "changes with them, all else being equal" or "is the same at every scale that was tried",
    table.concat(parts, "; "))
end

-- The titles of the worlds where one of these claims fails for certain, and of those where it fails
-- within the interval.
local function certain_and_open(worlds, ids)
  local certain, open = {}, {}
  for _, w in ipairs(worlds) do
    local failed, sure = false, false
    for _, id in ipairs(ids) do
      local v = w.verdicts[id]
      failed = failed or v.verdict == "does not hold"
      sure = sure or v.verdict == "does not hold" and v.certain
    end
    if failed then table.insert(sure and certain or open, w.title) end
  end
  return certain, open
end

local RANKING = {"uniform not best", "as good"}

local function ranking(worlds)
  local certain, open = certain_and_open(worlds, RANKING)
  local rows, text = {{"world", "scale", "best", "R_test by method", "items in effect"}}, {}
  for _, w in ipairs(worlds) do
    for _, c in ipairs(w.experiments.settings and cases_of(w.experiments.settings.rows) or {}) do
      local parts, names, effective = {}, {}, {}
      for method in pairs(c.methods) do names[#names + 1] = method end
      table.sort(names)
      for i, method in ipairs(names) do
        parts[i] = ("%s %s"):format(method, shown.cell(c.methods[method], "reward", "%.4f"))
        effective[i] = ("%s %.0f"):format(method, mean(c.methods[method], "effective") or 0)
      end
      rows[#rows + 1] = {w.title, c.case, (best_of(c)), table.concat(parts, "; "),
                         table.concat(effective, "; ")}
    end
  end
  if #certain > 0 then
    text[1] = ("Which method is best is not as in the paper on %s."):format(listed(certain))
  end
  if #open > 0 then
    text[#text + 1] = ([[On %s the means are the other way round, within their intervals: more seeds
or test sessions would have to settle it.]]):format(listed(open))
  end
  if #rows == 1 then
    text[#text + 1] = [[The report has no experiment on scale and temperature, so it does not say
why.]]
    return {title = "Which method is best", text = table.concat(text, " ")}
  end
  text[#text + 1] = [[The paper's text does not say the scale of the embeddings or the temperature;
the authors' code takes the raw singular vectors and no temperature.]]
  for _, w in ipairs(worlds) do text[#text + 1] = scale_decides(w) end
  text[#text + 1] = [["Items in effect" says how sharp the softmax is at the end: at P it is still
uniform, and the estimators estimate the same gradient and differ in noise alone.]]
  return {title = "Which method is best", text = table.concat(text, " "), rows = rows}
end

-- How near the estimates come to the gradient, where the ranking fails and it was measured.
local function nearness(worlds)
  local rows = {{"world", "scale", "method", "cosine at the start", "at the end"}}
  for _, w in ipairs(worlds) do
    local all = w.experiments.alignment and w.experiments.alignment.rows or {}
    for _, embedding in ipairs(values(all, "embedding")) do
      for _, method in ipairs(values(all, "method")) do
        local of = {embedding = embedding, method = method}
        local first = where(where(all, of), {step = 0})
        rows[#rows + 1] = {w.title, embedding, method, shown.cell(first, "cosine", "%.3f"),
                           shown.cell(where(shown.last(all), of), "cosine", "%.3f")}
      end
    end
  end
  if #rows == 1 then return nil end
  return {title = "How near the estimates are", rows = rows, text = [[The cosine between what a
method estimates from a batch and the exact gradient of that batch, before and after a training by
the mixture: 1 is the gradient itself, 0 has nothing of it. Where the order by cosine at a scale
is the order by reward, the estimates' noise decides; where it is not, it does not.]]}
end

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

-- The parts of a step's time that grow.
local function costs(worlds)
  local of_k, of_s = failing(worlds, {"time of K"}), failing(worlds, {"cost of S"})
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

-- Adds a line: its first cells, and both rewards of the rows; none without rows.
local function add_rewards(lines, line, rows)
  if #rows == 0 then return end
  table.move({shown.cell(rows, "reward", "%.4f"), shown.cell(rows, "expected", "%.4g")}, 1, 2,
             #line + 1, line)
  lines[#lines + 1] = line
end

-- A sentence on a world where the reward does not rise with the number of draws: whether the exact
-- gradient ends below the smallest number too, and the expected reward of each.
local function against_exact(w, rows)
  local last = shown.last(w.experiments.rq4.rows)
  local exact, list = where(last, {method = "exact"}), values(last, "samples")
  if #exact == 0 then return nil end
  table.sort(list)
  local few, many = where(last, {samples = list[1]}), where(last, {samples = list[#list]})
  for _, S in ipairs(list) do
    add_rewards(rows, {w.title, tostring(S)}, where(last, {samples = S}))
  end
  add_rewards(rows, {w.title, "exact"}, exact)
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
local function more_draws(worlds, where_not)
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

-- The claims that each tells of, and the function: of the worlds, and the titles of those where one
-- of them does not hold. It may have nothing to say.
local tellers = {
  {{"speed"}, speed}, {{"small L"}, growth}, {RANKING, ranking}, {RANKING, nearness},
  {{"better with S"}, more_draws}, {{"time of K", "cost of S"}, costs},
}

-- What fails without an experiment that would say why.
local function open_ones(worlds, list, explained)
  local lines = {}
  for _, claim in ipairs(list) do
    local where_not = not explained[claim.id] and failing(worlds, {claim.id}) or {}
    if #where_not > 0 then
      lines[#lines + 1] = ("- %s: not on %s."):format(claim.says, listed(where_not))
    end
  end
  if #lines == 0 then return nil end
  return {title = "Not explained here", text = "No experiment of this report says why:\n\n"
          .. table.concat(lines, "\n")}
end

-- {title =, text =, rows = of a table} for all that does not hold in one of the worlds.
function reasons.of(worlds, list)
  local all, explained = {}, {}
  for _, teller in ipairs(tellers) do
    for _, id in ipairs(teller[1]) do explained[id] = true end
    local where_not = failing(worlds, teller[1])
    all[#all + 1] = #where_not > 0 and teller[2](worlds, where_not) or nil
  end
  all[#all + 1] = open_ones(worlds, list, explained)
  return all
end

return reasons
