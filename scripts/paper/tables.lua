-- Tables of the experiments' rows, for the terminal and for the report.
local shown = require "shown"

local tables = {count = require("fopo.base.text").count}

function tables.seeds(rows)
  local list = shown.values(rows, "seed")
  table.sort(list)
  return list
end

-- ---- cells

-- The method of a row; a mixture by its eps.
local function method(row)
  if row.method == "mixture" and row.epsilon then return ("mixture, eps %g"):format(row.epsilon) end
  return row.method
end

-- ---- columns

-- {title, text of a row} of the columns that say the configuration; `none` is the text of a row
-- that lacks it.
function tables.key(title, name, form, none)
  return {title, function(row) return row[name] ~= nil and form:format(row[name]) or none or "" end}
end
tables.method = {"method", method}
tables.L = tables.key("L", "dim", "%d")

-- {title, text of the rows of a configuration}: with their interval, or the mean alone.
function tables.value(title, name, form)
  return {title, function(rows) return shown.cell(rows, name, form) end}
end
function tables.mean(title, name, form)
  return {title, function(rows) return shown.plain(rows, name, form) end}
end
tables.reward = tables.value("R_test", "reward", "%.4f")
tables.ms = tables.value("ms/step", "ms_step", "%.3g")
tables.effective = tables.mean("items in effect", "effective", "%.0f")
tables.by_epoch = {tables.reward, tables.value("expected reward", "expected", "%.4g"),
                   tables.effective, tables.mean("epochs", "epoch", "%.3g"),
                   tables.mean("steps x lr", "steps_lr", "%.3g")}

-- The table of an experiment, as lists of strings: a line for each configuration that its columns
-- `keys` tell apart, with its columns `values` over the seeds.
function tables.of(e, rows)
  local last, key, value = shown.last(rows), e.keys, e.values or tables.by_epoch
  local groups, names, head = {}, {}, {}
  for _, row in ipairs(last) do
    local parts = {}
    for i, k in ipairs(key) do parts[i] = k[2](row) end
    local id = table.concat(parts, "|")
    if not groups[id] then groups[id], names[#names + 1] = {parts = parts}, id end
    table.insert(groups[id], row)
  end
  for _, k in ipairs(key) do head[#head + 1] = k[1] end
  for _, v in ipairs(value) do head[#head + 1] = v[1] end
  local list = {head}
  for _, id in ipairs(names) do
    local line = groups[id].parts
    for _, v in ipairs(value) do line[#line + 1] = v[2](groups[id]) end
    list[#list + 1] = line
  end
  return list
end

-- ---- what the policies are worth

local learnt = {REINFORCE = true, uniform = true, mixture = true, defaults = true,
                ["exact best"] = true, ["exact converged"] = true}

-- The method of the highest mean of a column, among the learnt ones or the others.
local function best_of(last, name_of_column, among)
  local best, most
  for _, name in ipairs(shown.values(last, "method")) do
    local mean = (learnt[name] or false) == among
                 and (shown.over_seeds(shown.where(last, {method = name}), name_of_column))
    if mean and (not most or mean > most) then best, most = name, mean end
  end
  return best, most
end

-- The best baseline and the best learnt policy of each world by three measures, as a table; nil if
-- no world has the experiment. worlds: {title =, experiments =}.
function tables.worth(worlds)
  local list = {{"world", "measure", "best baseline", "best learnt policy", "the start"}}
  for _, w in ipairs(worlds) do
    local last = w.experiments.baselines and shown.last(w.experiments.baselines.rows) or {}
    for _, m in ipairs{{"reward", "R_test"}, {"recall20", "recall@20"},
                       {"unseen_reward", "reward, items of X left out"},
                       {"unseen_recall20", "recall@20, items of X left out"}} do
      local other, own = best_of(last, m[1], false), best_of(last, m[1], true)
      if other and own then
        local line = {w.title, m[2]}
        for i, method_name in ipairs{other, own, "start"} do
          local those = shown.where(last, {method = method_name})
          line[i + 2] = #those > 0 and (i < 3 and method_name .. " " or "")
                        .. shown.cell(those, m[1], "%.4f") or ""
        end
        list[#list + 1] = line
      end
    end
  end
  return #list > 1 and list or nil
end

return tables
