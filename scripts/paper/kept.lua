-- The rows of the experiments on disk (common.lua has their columns): a sweep keeps a run as a row
-- with lists of its records, and the experiments show records, {column = value} each.
local csv = require "fopo.base.csv"
local plan = require "fopo.sweep.plan"
local script = require "script"

local kept = {}

local group = {"world", "source", "experiment", "settings"}
local configuration = {"method", "dim", "embedding", "temperature", "lr", "k", "samples", "epsilon",
                       "index", "learnt", "seed"}
local constant = {"items", "contexts", "test", "machine"}
local records = {"epoch", "step", "seconds", "ms_step", "reward", "low", "high", "expected",
                 "effective", "valid", "valid_expected"}

local of_run = {} -- the columns that have one value a run; the others have one a record
for _, names in ipairs{group, configuration, constant} do
  for _, name in ipairs(names) do of_run[name] = true end
end

-- The text that tells a configuration from others.
function kept.key(c) return plan.key(c, configuration) end

-- The records of a row; of one that failed, or was left out, none. The first records may lack what
-- is measured at the end only. steps_lr is step x lr, which bounds how far Adam moves a parameter.
function kept.records(row)
  local lists, n, list = {}, 0, {}
  for name, v in pairs(row) do
    v = csv.list(v)
    if not of_run[name] and type(v) ~= "string" then
      lists[name] = type(v) == "table" and v or {v}
      n = math.max(n, #lists[name])
    end
  end
  for i = 1, row.reward and n or row.ms_step and n or 0 do
    list[i] = {}
    for name in pairs(of_run) do list[i][name] = row[name] end
    for name, v in pairs(lists) do list[i][name] = v[i - n + #v] end
    list[i].steps_lr = list[i].step and row.lr and list[i].step * row.lr
  end
  return list
end

-- The row of a run from its records.
function kept.row(list)
  local row = {}
  for _, record in ipairs(list) do
    for name, v in pairs(record) do
      row[name] = row[name] or {}
      table.insert(row[name], v)
    end
  end
  return row
end

local function name_of(g)
  local parts = {}
  for i, name in ipairs(group) do parts[i] = g[name] end
  return table.concat(parts, "|")
end

-- Rows in the order of their configurations: those of a sweep in several processes are in the order
-- of their ends.
local function in_order(rows)
  local order = {"dim", "method", "epsilon", "k", "samples", "lr", "learnt", "seed"}
  table.sort(rows, function(a, b)
    for _, name in ipairs(order) do
      local x, y = a[name], b[name]
      if x ~= y then return x == nil or y ~= nil and x < y end
    end
    return false
  end)
  return rows
end

-- What the table at a path has of each experiment in each world, {world =, source =, experiment =,
-- settings =, machine =, rows = of records}; nothing if there is no such file.
function kept.groups(path)
  local groups, by_name = {}, {}
  for _, row in ipairs(in_order((csv.read(path)) or {})) do
    local name, list = name_of(row), kept.records(row)
    if not by_name[name] and #list > 0 then
      local g = {rows = {}, machine = row.machine}
      for _, column in ipairs(group) do g[column] = row[column] end
      by_name[name], groups[#groups + 1] = g, g
    end
    if #list > 0 then table.move(list, 1, #list, #by_name[name].rows + 1, by_name[name].rows) end
  end
  return groups
end

-- The runs of a group, a row each.
local function runs_of(g)
  local runs, list = {}, {}
  for _, record in ipairs(g.rows) do
    local key = kept.key(record)
    if not runs[key] then runs[key], list[#list + 1] = {}, key end
    table.insert(runs[key], record)
  end
  for i, key in ipairs(list) do
    local row = kept.row(runs[key])
    row.steps_lr = nil
    for name, values in pairs(row) do
      if of_run[name] then
        row[name] = values[1]
      else
        for n, v in ipairs(values) do values[n] = ("%.9g"):format(v) end
        row[name] = table.concat(values, " ")
      end
    end
    for _, name in ipairs(group) do row[name] = g[name] end
    row.machine = row.machine or g.machine
    list[i] = row
  end
  return list
end

-- Writes groups as one table.
function kept.write(path, groups)
  local columns, known, own, rows = {}, {}, {}, {}
  local first = {"world", "source", "experiment"}
  for _, names in ipairs{first, constant, {"settings"}, configuration, records} do
    for _, name in ipairs(names) do columns[#columns + 1], known[name] = name, true end
  end
  for _, g in ipairs(groups) do
    for _, row in ipairs(runs_of(g)) do
      rows[#rows + 1] = row
      for name in pairs(row) do
        if not known[name] then own[#own + 1], known[name] = name, true end
      end
    end
  end
  table.sort(own)
  script.csv(path, table.move(own, 1, #own, #columns + 1, columns), rows)
end

return kept
