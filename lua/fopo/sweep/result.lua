-- What a sweep found: its runs in groups, those of the same settings with other seeds, with means
-- and 95 % intervals, as tables.
local csv = require "fopo.base.csv"
local define = require "fopo.base.define"
local means = require "fopo.base.means"
local plan = require "fopo.sweep.plan"
local text = require "fopo.base.text"

local result = {}

-- ---- groups ----

-- The runs of each settings, in the order of the plan: {row =, runs = {{row =, found = or nil}}}.
local function groups_of(p, rows)
  local groups, by_key = {}, {}
  for _, run in ipairs(p.runs) do
    if not by_key[run.group] then
      by_key[run.group] = {row = run.row, runs = {}}
      groups[#groups + 1] = by_key[run.group]
    end
    table.insert(by_key[run.group].runs, {row = run.row, found = rows[run.key]})
  end
  return groups
end

-- The last number of a list, or the number itself.
local function last(v)
  if type(v) == "table" then v = v[#v] end
  return type(v) == "number" and v or nil
end

-- The values of a measure in a group by what is drawn anew: the split, if there are several, with
-- the mean over its seeds, because the seeds of a split share it; else the seed. Their order, too.
local function values_of(group, name, several)
  local sums, order = {}, {}
  for _, run in ipairs(group.runs) do
    local v = run.found and not run.found.error and last(run.found[name])
    local unit = several and run.row.split or run.row.seed
    if v then
      if not sums[unit] then sums[unit], order[#order + 1] = {0, 0}, unit end
      sums[unit][1], sums[unit][2] = sums[unit][1] + v, sums[unit][2] + 1
    end
  end
  local values = {}
  for unit, s in pairs(sums) do values[unit] = s[1] / s[2] end
  return values, order
end

local function listed(values, order)
  local list = {}
  for i, unit in ipairs(order) do list[i] = values[unit] end
  return list
end

-- The interval of a single value as its row has it: over the test sessions.
local function own_interval(group, name)
  for _, run in ipairs(group.runs) do
    local row = run.found
    local low = row and (last(row[name .. "_low"]) or name == "reward" and last(row.low))
    local high = row and (last(row[name .. "_high"]) or name == "reward" and last(row.high))
    if low and high then return low, high end
  end
end

-- {mean, half, n, low, high} of a measure in a group; nil if no run has it. half: of the 95 %
-- interval; of a single value there is none, and low and high are those of its row.
local function cell_of(group, name, several)
  local list = listed(values_of(group, name, several))
  if #list == 0 then return nil end
  local mean, half = means.interval(list)
  local cell = {mean = mean, half = #list > 1 and half or nil, n = #list}
  if #list == 1 then cell.low, cell.high = own_interval(group, name) end
  return cell
end

-- The mean of the differences of a measure from those of another group with the same seeds, or
-- splits.
local function difference(group, base, name, several)
  local a, order = values_of(group, name, several)
  local b, list = values_of(base, name, several), {}
  for _, unit in ipairs(order) do
    if b[unit] then list[#list + 1] = a[unit] - b[unit] end
  end
  if #list == 0 then return nil end
  local mean, half = means.interval(list)
  return {mean = mean, half = #list > 1 and half or nil, n = #list}
end

-- ---- measures ----

local hidden = {low = true, high = true, error = true, machine = true}

local order_of = {reward = 1, ms_step = 3, seconds = 4} -- in the order of measures; of others 2

-- The measures of the rows of a plan: numbers alone by name, reward first, or lists if there are
-- none. Also all lists.
function result.measures(p, rows)
  local single, lists, known = {}, {}, {}
  for _, name in ipairs(p.names) do known[name] = true end
  for _, run in ipairs(p.runs) do
    for name, v in pairs(rows[run.key] or {}) do
      local kind = type(v)
      if not known[name] and not hidden[name] and not name:find("_low$") and not name:find("_high$")
         and (kind == "number" or kind == "table") then
        known[name] = true
        table.insert(kind == "number" and single or lists, name)
      end
    end
  end
  local list = #single > 0 and single or lists
  table.sort(list, function(a, b)
    local i, j = order_of[a] or 2, order_of[b] or 2
    return i < j or i == j and a < b
  end)
  return list, lists
end

-- The first group with these settings.
local function named(groups, settings)
  for _, group in ipairs(groups) do
    local fits = true
    for name, v in pairs(settings) do fits = fits and group.row[name] == v end
    if fits then return group end
  end
  define.fail("fopo.experiment.sweep: no runs have the settings of against, %s",
              plan.words(settings, define.names_in(settings)))
end

-- {groups =, names = of settings that differ, measures =, best =, lists =} of the runs of a plan.
-- Each group has cells by measure, and `against`, its difference from the best.
-- given: o.measures and o.against of the sweep.
function result.of(p, rows, given)
  local measures, lists = result.measures(p, rows)
  local r = {groups = groups_of(p, rows), measures = given.measures or measures, lists = lists,
             names = plan.varied(p.runs, p.names), failed = {}, missing = 0, several = false,
             title = "against the best"}
  local splits = {}
  for _, run in ipairs(p.runs) do
    local row = rows[run.key]
    if run.row.split then splits[run.row.split] = true end
    if not row then r.missing = r.missing + 1 end
    if row and row.error then r.failed[#r.failed + 1] = row end
  end
  r.several = next(splits, next(splits)) ~= nil
  local first = r.measures[1]
  for _, group in ipairs(r.groups) do
    group.cells = {}
    for _, name in ipairs(r.measures) do group.cells[name] = cell_of(group, name, r.several) end
    local one = group.cells[first]
    if one and one.mean == one.mean
       and (not r.best or one.mean > r.best.cells[first].mean) then r.best = group end
  end
  local base = r.best
  if given.against then
    base = named(r.groups, given.against)
    r.title = "against " .. plan.words(given.against, define.names_in(given.against))
  end
  for _, group in ipairs(r.groups) do
    if base and group ~= base then
      group.against = difference(group, base, first, r.several)
    end
  end
  return r
end

-- ---- tables ----

-- The form of a column's numbers: as many decimals as two digits of its intervals need.
local function form_of(cells)
  local decimals, most = 0, 0
  for _, c in ipairs(cells) do
    local half = c.half or c.low and (c.high - c.low) / 2 or 0
    local v = half > 0 and half or math.abs(c.mean) / 100
    if text.finite(v) and v > 0 then
      decimals = math.max(decimals, 1 - math.floor(math.log(v, 10)))
    end
    if text.finite(c.mean) then most = math.max(most, math.abs(c.mean)) end
  end
  if decimals > 6 or most >= 1e7 then return "%.4g" end
  return ("%%.%df"):format(math.max(0, decimals))
end

-- A cell by a style, which says how +- is written. sign: "+" for a difference.
local function shown(c, form, style, sign)
  if not c then return "" end
  local mean = form:gsub("%%", "%%" .. (sign or ""), 1)
  if c.half then return (mean .. style.pm .. form):format(c.mean, c.half) end
  if c.low then
    return ("%s (%s to %s)"):format(mean, form, form):format(c.mean, c.low, c.high)
  end
  return mean:format(c.mean)
end

local styles = {
  text = {pm = " +- "}, markdown = {pm = " ± ", strong = "**%s**"},
  latex = {pm = " \\pm ", strong = "\\mathbf{%s}", number = "$%s$"},
}

-- The table as lists of strings; the first is the head. most: as many measures; nil: all.
local function rows_of(r, style, most)
  local head, columns = {}, {}
  local function column(title, cell) head[#head + 1], columns[#columns + 1] = title, cell end
  local function number(s) return s ~= "" and style.number and style.number:format(s) or s end
  for _, name in ipairs(r.names) do
    column(name, function(g) return csv.field(g.row[name]) end)
  end
  for i, name in ipairs(table.move(r.measures, 1, most or #r.measures, 1, {})) do
    local cells, against = {}, {}
    for _, g in ipairs(r.groups) do
      cells[#cells + 1] = g.cells[name]
      against[#against + 1] = g.against
    end
    local form = form_of(cells)
    column(name, function(g)
      local s = shown(g.cells[name], form, style)
      return number(i == 1 and g == r.best and style.strong and style.strong:format(s) or s)
    end)
    if i == 1 and #against > 0 then
      local its = form_of(against)
      column(r.title, function(g) return number(shown(g.against, its, style, "+")) end)
    end
  end
  local whole = r.missing == 0 and #r.failed == 0
  if not whole then
    column("runs", function(g)
      local n = 0
      for _, run in ipairs(g.runs) do n = n + (run.found and not run.found.error and 1 or 0) end
      return ("%d of %d"):format(n, #g.runs)
    end)
  end
  local list = {head}
  for _, g in ipairs(r.groups) do
    local line = {}
    for i, cell in ipairs(columns) do line[i] = cell(g) end
    list[#list + 1] = line
  end
  return list
end

-- With as many measures as the terminal has room for.
function result.text(r)
  local n = #r.measures
  local made = text.table(rows_of(r, styles.text))
  while n > 1 and not text.fits(made) do
    n = n - 1
    made = text.table(rows_of(r, styles.text, n))
  end
  if n >= #r.measures then return made end
  return made .. "\n" .. text.page(("too wide here, in results.csv: %s"):format(
    table.concat(r.measures, ", ", n + 1)), "  ")
end

function result.markdown(r) return text.markdown(rows_of(r, styles.markdown)) end

local function escaped(s)
  if s:find("^%$") then return s end
  return (s:gsub("[\\&%%$#_{}~^]", function(c)
    if c == "\\" then return "\\textbackslash{}" end
    return c:find("[~^]") and "\\" .. c .. "{}" or "\\" .. c
  end))
end

function result.latex(r)
  local rows = rows_of(r, styles.latex)
  local align = ("l"):rep(#r.names) .. ("r"):rep(#rows[1] - #r.names)
  local lines = {"\\begin{tabular}{" .. align .. "}", "\\hline"}
  for i, row in ipairs(rows) do
    local cells = {}
    for j, cell in ipairs(row) do cells[j] = escaped(cell) end
    lines[#lines + 1] = table.concat(cells, " & ") .. " \\\\"
    if i == 1 then lines[#lines + 1] = "\\hline" end
  end
  lines[#lines + 1] = "\\hline\n\\end{tabular}\n"
  return table.concat(lines, "\n")
end

-- The means as CSV: of each measure its mean, half the interval, and of how many.
function result.csv(r)
  local columns = table.move(r.names, 1, #r.names, 1, {})
  for i, name in ipairs(r.measures) do
    for _, ending in ipairs{"", "_half", "_n"} do columns[#columns + 1] = name .. ending end
    if i == 1 then
      columns[#columns + 1], columns[#columns + 2] = "against_best", "against_best_half"
    end
  end
  local lines = {csv.head(columns)}
  for _, g in ipairs(r.groups) do
    local line = {}
    for _, name in ipairs(r.names) do line[name] = g.row[name] end
    for name, c in pairs(g.cells) do
      line[name], line[name .. "_half"], line[name .. "_n"] = c.mean, c.half, c.n
    end
    if g.against then
      line.against_best, line.against_best_half = g.against.mean, g.against.half
    end
    lines[#lines + 1] = csv.line(columns, line)
  end
  return table.concat(lines)
end

-- What stands below the table.
function result.notes(r)
  local notes = {}
  if r.missing > 0 then notes[1] = ("%d runs are not made yet"):format(r.missing) end
  for i, row in ipairs(r.failed) do
    if i > 3 then
      notes[#notes + 1] = ("and %d more failed"):format(#r.failed - 3)
      break
    end
    notes[#notes + 1] = ("failed: %s, seed %s: %s"):format(plan.words(row, r.names), row.seed,
                                                          row.error)
  end
  return notes
end

-- ---- series for pictures ----

-- The name of a group in a legend.
function result.label(r, group)
  local parts = {}
  for _, name in ipairs(r.names) do
    local v = group.row[name]
    if v ~= nil then
      parts[#parts + 1] = type(v) == "string" and v or name .. " " .. csv.field(v)
    end
  end
  return #parts > 0 and table.concat(parts, ", ") or "all"
end

local abscissae = {"epoch", "step", "seconds"}

-- The list that others are drawn over, or nil.
function result.abscissa(r)
  for _, x in ipairs(abscissae) do
    for _, name in ipairs(r.lists) do if name == x then return x end end
  end
end

-- The curves of a list: the mean over the runs of a group at each x that all of them have, and its
-- interval.
function result.curves(r, name, x)
  local curves = {title = name, xlabel = x, ylabel = name}
  for _, group in ipairs(r.groups) do
    local at, order, runs = {}, {}, 0
    for _, run in ipairs(group.runs) do
      local xs, ys = run.found and run.found[x], run.found and run.found[name]
      if type(xs) == "table" and type(ys) == "table" then
        runs = runs + 1
        for i = 1, #ys do -- the first records may lack a value
          local place = xs[i + #xs - #ys]
          if place and not at[place] then at[place], order[#order + 1] = {}, place end
          if place then table.insert(at[place], ys[i]) end
        end
      end
    end
    table.sort(order)
    local curve = {name = result.label(r, group), x = {}, y = {}, low = {}, high = {}}
    for _, place in ipairs(order) do
      if #at[place] == runs and text.finite(means.of(at[place])) then
        local mean, half = means.interval(at[place])
        local n = #curve.x + 1
        curve.x[n], curve.y[n], curve.low[n], curve.high[n] = place, mean, mean - half, mean + half
      end
    end
    if #curve.x > 0 then curves[#curves + 1] = curve end
  end
  return curves
end

-- Bars of a measure: the values of one setting stand beside each other, those of the others below.
function result.bars(r, name)
  local inner = r.names[#r.names > 1 and #r.names or 2]
  local outer = {}
  for _, one in ipairs(r.names) do if one ~= inner then outer[#outer + 1] = one end end
  local bars, labels, series = {title = name, ylabel = name, style = "bars", labels = {}}, {}, {}
  for _, group in ipairs(r.groups) do
    local c = group.cells[name]
    local label = result.label({names = outer}, group)
    local of = inner and result.label({names = {inner}}, group) or ""
    if not labels[label] then
      bars.labels[#bars.labels + 1] = label
      labels[label] = #bars.labels
    end
    if c and text.finite(c.mean) then
      if not series[of] then
        series[of] = {name = of ~= "" and of or nil, x = {}, y = {}, low = {}, high = {}}
        bars[#bars + 1] = series[of]
      end
      local s, n = series[of], #series[of].x + 1
      s.x[n], s.y[n] = labels[label], c.mean
      s.low[n] = c.half and c.mean - c.half or c.low or c.mean
      s.high[n] = c.half and c.mean + c.half or c.high or c.mean
    end
  end
  return bars
end

return result
