-- The report's tables of an experiment's rows: one line for each configuration, over its seeds.
local native = require "fopo.native"
local script = require "script"
local shown = require "shown"

local tables = {last = shown.last}

tables.titles = {
  rq0 = "RQ0, fixed items", rq1 = "RQ1, speed", rq2 = "RQ2, eps", rq3 = "RQ3, K", rq4 = "RQ4, S",
  cost = "the cost of K and S", budget = "reward for a fixed time", beyond = "beyond the paper",
  settings = "scale and temperature", alignment = "estimates and the gradient",
  baselines = "beside baselines",
}

-- 790000 as "790,000".
function tables.count(n)
  local text = ("%d"):format(n)
  local head = #text % 3
  local groups = {head > 0 and text:sub(1, head) or nil}
  for i = head + 1, #text, 3 do groups[#groups + 1] = text:sub(i, i + 2) end
  return table.concat(groups, ",")
end

function tables.seeds(rows)
  local list = shown.values(rows, "seed")
  table.sort(list)
  return list
end

-- Rows of strings as Markdown; the first is the head.
function tables.markdown(rows)
  local list = {}
  for i, row in ipairs(rows) do
    list[#list + 1] = "| " .. table.concat(row, " | ") .. " |"
    if i == 1 then list[#list + 1] = "|" .. ("---|"):rep(#row) end
  end
  return table.concat(list, "\n")
end

-- ---- cells

-- Mean and half width over the seeds; of one seed the value, with the interval over the test
-- sessions where the table has it.
local function cell(rows, name, form)
  local list = {}
  for _, row in ipairs(rows) do list[#list + 1] = row[name] end
  if #list == 0 then return "" end
  if #list > 1 then
    local mean, half = script.interval(list)
    return (form .. " ± " .. form:gsub("%d+g$", "2g")):format(mean, half)
  end
  local row = rows[1]
  local low = row[name .. "_low"] or name == "reward" and row.low
  local high = row[name .. "_high"] or name == "reward" and row.high
  if not low then return form:format(list[1]) end
  return (form .. " (" .. form .. " to " .. form .. ")"):format(list[1], low, high)
end

local function plain(rows, name, form)
  local list = {}
  for _, row in ipairs(rows) do list[#list + 1] = row[name] end
  return #list > 0 and form:format((script.mean(list))) or ""
end

-- The method of a row; a mixture by its eps.
local function method(row)
  if row.method == "mixture" and row.epsilon then return ("mixture, eps %g"):format(row.epsilon) end
  return row.method
end

-- ---- what each experiment shows

-- {title, text of a row} of the columns that say the configuration; `none` is the text of a row
-- that lacks it.
local function column(title, name, form, none)
  return {title, function(row) return row[name] ~= nil and form:format(row[name]) or none or "" end}
end
local method_column = {"method", method}
local L = column("L", "dim", "%d")
local keys = {
  rq0 = {L, method_column, column("items learnt", "learnt", "%s")},
  rq1 = {L, method_column}, rq2 = {method_column}, budget = {method_column},
  rq3 = {column("K", "k", "%d", "exact")}, rq4 = {column("S", "samples", "%d", "exact")},
  cost = {column("K", "k", "%d"), column("S", "samples", "%d")},
  beyond = {{"method", function(row) return row.method end}},
  settings = {column("scale", "embedding", "%s"), column("temperature", "temperature", "%g"),
              method_column},
  alignment = {column("scale", "embedding", "%s"), method_column},
  baselines = {method_column, L},
}

-- {title, text of the rows of a configuration}.
local reward = {"R_test", function(rows) return cell(rows, "reward", "%.4f") end}
local ms = {"ms/step", function(rows) return cell(rows, "ms_step", "%.3g") end}
local by_epoch = {reward,
  {"expected reward", function(rows) return cell(rows, "expected", "%.4g") end},
  {"items in effect", function(rows) return plain(rows, "effective", "%.0f") end},
  {"epochs", function(rows) return plain(rows, "epoch", "%.3g") end}}
local values = {
  rq1 = {ms, {"times REINFORCE", function(rows) return cell(rows, "speedup", "%.1f") end}},
  cost = {ms}, budget = table.move(by_epoch, 1, #by_epoch, 1, {}),
  alignment = {
    {"cosine with the exact gradient", function(rows) return cell(rows, "cosine", "%.3f") end},
    {"items in effect", function(rows) return plain(rows, "effective", "%.0f") end}},
  baselines = {reward},
}
for _, name in ipairs{"recall20", "ndcg20", "unseen_reward", "unseen_recall20"} do
  local title = name:gsub("unseen_reward", "R, unseen"):gsub("unseen_", "unseen ")
                    :gsub("recall20", "recall@20"):gsub("ndcg20", "NDCG@20")
  table.insert(values.baselines, {title, function(rows) return cell(rows, name, "%.4f") end})
end
for _, phase in ipairs(native.phases()) do
  table.insert(values.cost, {phase.name, function(rows)
    return plain(rows, phase.name .. "_ms", "%.3g")
  end})
end
table.insert(values.budget, ms)
local function seconds(rows) return plain(rows, "seconds", "%.1f") end
table.insert(values.baselines, {"seconds", seconds})

-- REINFORCE's time divided by the row's, seed by seed.
local function speedups(rows)
  for _, row in ipairs(rows) do
    local base = shown.where(rows, {method = "REINFORCE", dim = row.dim, seed = row.seed})[1]
    row.speedup = base and base.ms_step and row.ms_step and base.ms_step / row.ms_step
  end
end

-- The table of an experiment, as lists of strings.
function tables.of(name, rows)
  local last, key, value = shown.last(rows), keys[name] or {method_column}, values[name] or by_epoch
  if name == "rq1" then speedups(last) end
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
                        .. cell(those, m[1], "%.4f") or ""
        end
        list[#list + 1] = line
      end
    end
  end
  return #list > 1 and list or nil
end

return tables
