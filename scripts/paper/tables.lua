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

return tables
