-- Tables and figures of the rows of an experiment.
local kept = require "kept"
local native = require "fopo.native"
local script = require "script"

local shown = {where = script.where}

-- The different values of a column, in the order of the rows.
function shown.values(rows, column)
  local list, known = {}, {}
  for _, row in ipairs(rows) do
    local v = row[column]
    if v ~= nil and not known[v] then list[#list + 1], known[v] = v, true end
  end
  return list
end

-- The last record of each run among the rows.
function shown.last(rows)
  local last, list = {}, {}
  for _, row in ipairs(rows) do
    local key = kept.key(row)
    if not last[key] then list[#list + 1] = key end
    if not last[key] or row.step > last[key].step then last[key] = row end
  end
  for i, key in ipairs(list) do list[i] = last[key] end
  return list
end

-- Of rows that differ in lr those of the lr with which a method, at each eps, ends best on the
-- validation sessions, by the column valid or valid_expected.
function shown.tuned(rows, by)
  if #shown.values(rows, "lr") < 2 then return rows end
  local best, most, list = {}, {}, {}
  local function name(row) return ("%s %s"):format(row.method, row.epsilon) end
  local last = shown.last(rows)
  for _, row in ipairs(last) do
    local of = {method = row.method, epsilon = row.epsilon, lr = row.lr}
    local mean = shown.mean(shown.where(last, of), by)
    if mean > (most[name(row)] or -1) then best[name(row)], most[name(row)] = row.lr, mean end
  end
  for _, row in ipairs(rows) do
    if row.lr == best[name(row)] then list[#list + 1] = row end
  end
  return list
end

-- Mean and half width of the 95 % interval over the rows (seeds) of a column, of those that have
-- it, and their number.
function shown.over_seeds(rows, column)
  local list = {}
  for _, row in ipairs(rows) do list[#list + 1] = row[column] end
  local mean, half = script.interval(list)
  return mean, half, #list
end

-- The mean of a column over the rows; nil without rows.
function shown.mean(rows, column)
  return #rows > 0 and (shown.over_seeds(rows, column)) or nil
end

-- Names in a sentence.
function shown.listed(list) return table.concat(list, ", ") end

-- "0.1234 ± 0.0012", the mean of a column over the seeds and half its 95 % interval, which has two
-- digits if the form counts digits (%.4g); of one seed the value, with the interval over the test
-- sessions where the row has it.
function shown.cell(rows, column, form)
  local mean, half, n = shown.over_seeds(rows, column)
  if n == 0 then return "" end
  local value = form:format(mean)
  if n > 1 then return value .. (" ± " .. form:gsub("+", ""):gsub("%d+g$", "2g")):format(half) end
  local row = rows[1]
  local low = row[column .. "_low"] or column == "reward" and row.low
  local high = row[column .. "_high"] or column == "reward" and row.high
  return low and ("%s (%s to %s)"):format(value, form, form):format(low, high) or value
end

-- The mean alone.
function shown.plain(rows, column, form)
  local mean, _, n = shown.over_seeds(rows, column)
  return n > 0 and form:format(mean) or ""
end

-- A curve over the values of column x, with the interval over the seeds of column y.
function shown.curve(name, rows, x, y)
  local curve = {name = name, x = {}, y = {}, low = {}, high = {}}
  local at = shown.values(rows, x)
  table.sort(at)
  for i, value in ipairs(at) do
    local mean, half = shown.over_seeds(shown.where(rows, {[x] = value}), y)
    curve.x[i], curve.y[i], curve.low[i], curve.high[i] = value, mean, mean - half, mean + half
  end
  return curve
end

-- The expected reward, or what column y says, against epochs or x, one curve a label; label(row)
-- names the curve of a row.
function shown.curves(rows, label, x, y)
  y = y or "expected"
  local groups, names = {}, {}
  for _, row in ipairs(rows) do
    local name = label(row)
    if not groups[name] then groups[name], names[#names + 1] = {}, name end
    table.insert(groups[name], row)
  end
  local curves = {xlabel = x or "epoch", ylabel = y == "reward" and "R_test" or "expected reward"}
  for i, name in ipairs(names) do
    local curve = shown.curve(name, groups[name], x or "epoch", y)
    for n = 1, #curve.y do -- a reward is a share
      curve.low[n], curve.high[n] = math.max(0, curve.low[n]), math.min(1, curve.high[n])
    end
    curves[i] = curve
  end
  return curves
end

-- "eps 0.8", or the method's name: a label for methods that differ in epsilon.
function shown.by_epsilon(row)
  if row.method == "mixture" then return ("eps %g"):format(row.epsilon) end
  return row.method == "uniform" and "eps 1 (uniform)" or row.method
end

-- The show of a plan whose runs differ in what label(row) says.
function shown.by_epoch(label)
  return function(rows) return shown.curves(rows, label) end
end

-- The most frequent value of a column.
function shown.usual(rows, column)
  local best, most
  for _, v in ipairs(shown.values(rows, column)) do
    local n = #shown.where(rows, {[column] = v})
    if not most or n > most then best, most = v, n end
  end
  return best
end

-- By which a white page turns dark where its reader's is.
local DARK = "<style>@media (prefers-color-scheme: dark) "
             .. "{svg {filter: invert(0.88) hue-rotate(180deg)}}</style>"

-- Draws the curves of an experiment in a world, if there are any; whether it did.
function shown.figure(path, e, world, curves)
  if not curves or #curves == 0 then return false end
  curves.title = curves.title or ("%s, %s"):format(e.title, world)
  if not script.figure(path, curves) then return false end
  local f <close> = assert(io.open(path))
  assert(native.write_file(path, (f:read("a"):gsub("<title>", DARK .. "%0", 1))))
  return true
end

return shown
