-- fopo.plot: curves in the terminal, drawn by src/term/plot.c, and in files, drawn by gnuplot
-- (fopo/view/picture.lua). This file reads the forms in which series can be given.
local define = require "fopo.base.define"
local picture = require "fopo.view.picture"
local term = require "fopo.term"
local text = require "fopo.base.text"

local entry = define.doc{
  name = "fopo.plot",
  signature = "fopo.plot(x, y, {...})  or  fopo.plot{{x=, y=, name=}, ..., title=, ...}",
  options = {
    {"title", "string", nil, "above the plot"},
    {"xlabel", "string", nil, "below it"},
    {"ylabel", "string", nil, "at the top of its left axis"},
    {"style", "string", "lines", "points: what is not joined, of series that do not say their own",
     one_of = {"lines", "points"}},
    {"logx", "boolean", nil, "logarithmic; values <= 0 are left out and counted"},
    {"logy", "boolean", nil, "the same for y"},
    {"width", "integer", nil, "columns; those of the terminal, at most 100", min = 24, max = 2000},
    {"height", "integer", nil, "lines of the canvas; 16", min = 3, max = 2000},
    {"utf8", "boolean", nil, "braille and box lines; as the terminal has them"},
    {"colour", "boolean", nil, "one for each series; as the terminal has them (NO_COLOR: none)"},
  },
  text = [[Prints one or more series as curves. A series is {x = ..., y = ..., name = ...}: lists of
numbers or arrays of one row or column; without x the points are counted from 1. One series needs no
list around it, and y alone is enough: fopo.plot(t.history.reward). fopo.plot(x, y) draws y over x,
and a table of options may follow. NaN makes a gap; a series with style = "points" is not joined.
fopo.plot.text(...) returns the text instead, fopo.plot.save writes a picture, fopo.plot.bars and
fopo.plot.histogram draw shares and counts.]],
  example = [[text = fopo.plot.text{{x = {1, 2, 3}, y = {1, 4, 9}, name = "squares"}, title = "n^2"}
assert(text:find("squares"))]],
}

local function list_of(v, what)
  if define.kind(v) == "array" then
    if v.rows ~= 1 and v.cols ~= 1 then
      define.fail("fopo.plot: %s is an array [%d, %d]; it takes one row or one column", what,
                  v.rows, v.cols)
    end
    local list = {}
    for i = 1, v.rows do
      for j = 1, v.cols do list[#list + 1] = v:get(i, j) end
    end
    return list
  end
  if type(v) ~= "table" then
    define.fail("fopo.plot: %s must be a list of numbers or an array, not %s", what, define.a(v))
  end
  for i = 1, #v do
    if type(v[i]) ~= "number" then
      define.fail("fopo.plot: %s[%d] is %s, not a number", what, i, define.a(v[i]))
    end
  end
  return v
end

-- One series in the form that C takes.
local function series_of(given, n)
  if define.kind(given) == "array" or type(given[1]) == "number" then given = {y = given} end
  if given.y == nil then define.fail("fopo.plot: series %d has no y", n) end
  local y = list_of(given.y, ("series %d, y"):format(n))
  local x = given.x and list_of(given.x, ("series %d, x"):format(n))
  if not x then
    x = {}
    for i = 1, #y do x[i] = i end
  end
  if #x ~= #y then
    define.fail("fopo.plot: series %d has %d values of x and %d of y", n, #x, #y)
  end
  return {x = x, y = y, name = given.name and tostring(given.name) or nil}
end

-- The list of series in a call's argument, and its options.
local function parts_of(given)
  local kind = define.kind(given)
  if kind ~= "table" and kind ~= "array" then
    define.fail("fopo.plot takes a table of series, or the values of one, not %s", define.a(given))
  end
  local list, options, sources = {}, {}, {}
  if kind == "array" or type(given[1]) == "number" then
    list[1], sources[1] = series_of(given, 1), kind == "table" and given or {}
  else
    for i, one in ipairs(given) do
      if type(one) ~= "table" and define.kind(one) ~= "array" then
        define.fail("fopo.plot: series %d is %s, not a table", i, define.a(one))
      end
      list[i], sources[i] = series_of(one, i), one
    end
    if given.y ~= nil then
      list[#list + 1], sources[#sources + 1] = series_of(given, #list + 1), given
    end
    if #list == 0 then define.fail("fopo.plot: there is no series; see help(fopo.plot)") end
  end
  if kind == "table" then
    local own = {x = true, y = true, name = true, low = true, high = true}
    for key, value in pairs(given) do
      if math.type(key) ~= "integer" and not own[key] then options[key] = value end
    end
  end
  return list, options, sources
end

local plot = {}

local styles = {lines = true, points = true, bars = true}

-- The style given with series n, or nil.
local function style_of(source, n)
  local style = define.kind(source) == "table" and source.style or nil
  if style and not styles[style] then
    define.fail("fopo.plot: series %d: style must be one of lines, points, bars, not %s", n,
                tostring(style))
  end
  return style
end

-- The table of series in a call's arguments: plot(x, y) and plot(x, y, options) draw y over x.
local function given_by(x, y, more)
  if y == nil then return x end
  local given = {}
  for key, value in pairs(more or {}) do given[key] = value end
  given[1] = {x = x, y = y, name = given.name}
  return given
end

local function is_values(v)
  return define.kind(v) == "array" or type(v) == "table" and type(v[1]) == "number"
end

-- plot(y, {title = ...}), plot(x, y, {...}), or a table with all of it.
local function arguments(x, y, more)
  if y ~= nil and not is_values(y) and type(y) == "table" and is_values(x) then
    return given_by(nil, x, y)
  end
  return given_by(x, y, more)
end

function plot.text(...)
  local given = arguments(...)
  local list, options, sources = parts_of(given)
  local o = define.options(entry, options)
  for n, s in ipairs(list) do
    local own = sources[n] ~= given and style_of(sources[n], n)
    s.points = (own or o.style) == "points"
  end
  return term.plot(list, o)
end

-- ---- bars and histograms ----

local bar_options = {
  {"width", "integer", nil, "columns; those of the terminal, at most 100", min = 24, max = 2000},
  {"title", "string", nil, "above"},
  {"utf8", "boolean", nil, "blocks; as the terminal has them"},
}

local eighths = {[0] = "", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

-- A bar of `size` columns, a real number.
local function bar(size, blocks)
  if not blocks then return ("#"):rep(math.floor(size + 0.5)) end
  local whole = math.floor(size)
  return ("█"):rep(whole) .. eighths[math.floor((size - whole) * 8)]
end

-- The least and the largest of the finite values, and 0.
local function range_of(values)
  local least, most = 0, 0
  for _, v in ipairs(values) do
    if text.finite(v) then least, most = math.min(least, v), math.max(most, v) end
  end
  return least, most
end

local function widest(texts)
  local width = 0
  for _, s in ipairs(texts) do width = math.max(width, text.width(s)) end
  return width
end

-- The columns of a unit, and the columns left of zero, if `columns` columns are for the bars.
local function scale_of(least, most, columns)
  local unit = math.max(4, columns) / math.max(most - least, 1e-300)
  return unit, math.floor(-least * unit + 0.5)
end

-- Lines: label, bar, value; negative bars to the left of the zero.
local function bar_lines(labels, values, shown, label_width, unit, zero, blocks)
  local lines = {}
  for i, v in ipairs(values) do
    local drawn = (" "):rep(zero) -- also for a value that is not finite
    if v < 0 and v > -math.huge then
      local size = math.floor(-v * unit + 0.5)
      drawn = (" "):rep(zero - size) .. bar(size, blocks)
    elseif v >= 0 and v < math.huge then
      drawn = drawn .. bar(v * unit, blocks)
    end
    local label = labels[i]
    if text.width(label) > label_width then
      label = label:sub(1, (utf8.offset(label, label_width + 1) or #label + 1) - 1)
    end
    lines[i] = (("%s %s %s %s"):format(text.pad(label, label_width), blocks and "│" or "|", drawn,
      shown[i]):gsub("  +$", ""))
  end
  return lines
end

-- The width of the bars in columns, and whether they are of blocks.
local function bar_style(o)
  local blocks = o.utf8
  if blocks == nil then blocks = term.utf8() end
  return o.width or math.min(100, term.width()), blocks
end

local function bars_text(labels, values, shown, o)
  local width, blocks = bar_style(o)
  local least, most = range_of(values)
  local label_width = math.min(widest(labels), width // 3)
  local unit, zero = scale_of(least, most, width - label_width - widest(shown) - 4)
  local lines = bar_lines(labels, values, shown, label_width, unit, zero, blocks)
  return (o.title and o.title .. "\n" or "") .. table.concat(lines, "\n") .. "\n"
end

local panel_format = "%.3g"

local function numbers_shown(values, format)
  local shown = {}
  for i, v in ipairs(values) do
    local whole = math.abs(v) >= 100 and math.abs(v) < 1e7 -- never 1e+03
    shown[i] = v == v and (whole and format == panel_format and "%.0f" or format):format(v) or "nan"
  end
  return shown
end

local narrowest = 22 -- columns of a panel: a bar of a few cells and its number

-- The least and the largest value of all series, which must have n values each, and the columns of
-- the widest number.
local function common_range(series, n)
  local least, most, numbers = 0, 0, 0
  for i, s in ipairs(series) do
    if #s.y ~= n then
      define.fail("fopo.plot.bars: series %d has %d values, the first one %d", i, #s.y, n)
    end
    local low, high = range_of(s.y)
    least, most = math.min(least, low), math.max(most, high)
    numbers = math.max(numbers, widest(numbers_shown(s.y, panel_format)))
  end
  return least, most, numbers
end

-- Draws several series on one scale, each with its name above: beside each other if they fit, with
-- the labels at the first, else below each other.
local function panels_text(labels, series, o)
  local width, blocks = bar_style(o)
  local least, most, numbers = common_range(series, #labels)
  local label_width, blank, lines = math.min(widest(labels), width // 3), {}, {o.title}
  for i in ipairs(labels) do blank[i] = "" end
  local panel = (width - label_width) // #series
  local beside = panel >= narrowest
  local columns = (beside and panel or width - label_width) - numbers - 5
  local unit, zero = scale_of(least, most, columns)
  local top = #lines
  for k, s in ipairs(series) do
    local first = k == 1 or not beside
    local left = first and 0 or label_width + (k - 1) * panel -- columns before this panel
    local drawn = bar_lines(first and labels or blank, s.y, numbers_shown(s.y, panel_format),
                            first and label_width or 0, unit, zero, blocks)
    local name = s.name or ("series %d"):format(k)
    if beside then name = (" "):rep(first and label_width + 1 or 1) .. name:sub(1, panel - 2) end
    table.insert(drawn, 1, name)
    local below = beside and top or #lines
    for i, line in ipairs(drawn) do
      lines[below + i] = text.pad(not first and lines[below + i] or "", left) .. line
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

plot.bars = define.fn{
  name = "fopo.plot.bars",
  args = {{"values", "table|array", nil, "a list, a table of numbers by name, or a list of series"},
          {"labels", "table", nil, "one for each value; 1, 2, ... if left out", optional = true}},
  options = bar_options,
  text = [[Prints one bar for each value, from zero. A table by name is drawn in the order of its
names. Several series, {{y = ..., name = ...}, ...} as fopo.plot takes them, stand beside each other
on one scale, or below each other if the terminal is narrow.]],
  example = [[fopo.plot.bars({uniform = 0.21, mixture = 0.25})
fopo.plot.bars({{y = {1, -2}, name = "this"}, {y = {2, -1}, name = "that"}}, {"a", "b"})]],
  call = function(values, labels, o)
    local kind = define.kind(values)
    local inner = kind == "table" and define.kind(values[1])
    if inner == "table" or inner == "array" then
      local series, names = {}, {}
      for i, one in ipairs(values) do series[i] = series_of(one, i) end
      for i = 1, #series[1].y do names[i] = labels and tostring(labels[i]) or tostring(i) end
      io.write(panels_text(names, series, o))
      return
    end
    if kind == "table" and #values == 0 then
      labels = {}
      for name in pairs(values) do labels[#labels + 1] = tostring(name) end
      table.sort(labels)
      local list = {}
      for i, name in ipairs(labels) do list[i] = values[name] end
      values = list
    end
    values = list_of(values, "the values")
    if #values == 0 then define.fail("fopo.plot.bars: there is no value") end
    local names = {}
    for i in ipairs(values) do
      names[i] = labels and labels[i] ~= nil and tostring(labels[i]) or tostring(i)
    end
    io.write(bars_text(names, values, numbers_shown(values, "%.4g"), o))
  end,
}

plot.histogram = define.fn{
  name = "fopo.plot.histogram",
  args = {{"values", "table|array", nil, "numbers: a list, or an array of any shape"}},
  options = {{"bins", "integer", 20, "about so many; their edges are round", min = 1, max = 1000},
             table.unpack(bar_options)},
  text = [[Prints how many values lie in each of several equal intervals, the lower end of each
belonging to it. Values that are not finite are counted apart.]],
  example = "fopo.plot.histogram(fopo.array.randn(50, 20, 1), {bins = 10})",
  call = function(values, o)
    local list, odd = {}, 0
    local function take(v)
      if text.finite(v) then list[#list + 1] = v else odd = odd + 1 end
    end
    if define.kind(values) == "array" then
      for i = 1, values.rows do
        for j = 1, values.cols do take(values:get(i, j)) end
      end
    else
      for _, v in ipairs(list_of(values, "the values")) do take(v) end
    end
    if #list == 0 then define.fail("fopo.plot.histogram: no value is finite") end
    local least, most = math.huge, -math.huge
    for _, v in ipairs(list) do least, most = math.min(least, v), math.max(most, v) end
    -- the least of 1, 2, 5 times a power of ten that needs at most `bins` bins
    local span = math.max(most - least, math.abs(most) * 1e-12, 1e-300)
    local power = 10.0 ^ math.floor(math.log(span / o.bins, 10) + 1e-9)
    local step = power
    for _, m in ipairs{1, 2, 5, 10} do
      step = m * power
      if span / step <= o.bins + 1e-9 then break end
    end
    local first, counts = math.floor(least / step), {}
    for b = 1, math.floor(most / step) - first + 1 do counts[b] = 0 end
    for _, v in ipairs(list) do
      local b = math.floor(v / step) - first + 1
      counts[b] = counts[b] + 1
    end
    local labels, shown = {}, {}
    for b = 1, #counts do
      labels[b], shown[b] = ("%.4g"):format((first + b - 1) * step), text.count(counts[b])
    end
    io.write(bars_text(labels, counts, shown, o))
    if odd > 0 then
      io.write(("(%d value%s not finite)\n"):format(odd, odd == 1 and " is" or "s are"))
    end
  end,
}

-- ---- pictures ----

define.doc{
  name = "fopo.plot.save", signature = "fopo.plot.save(path, {{x=, y=, low=, high=, name=}, ...})",
  options = picture.options,
  text = [[Writes the series as a picture, .svg or .png, with axes, a legend and, where a series has
lists low and high, its intervals. A series may say its own style. Needs gnuplot.]],
  example = [[path = os.tmpname() .. ".svg"
if os.execute("command -v gnuplot >/dev/null") then
  fopo.plot.save(path, {{y = {1, 4, 9}, low = {0, 3, 8}, high = {2, 5, 10}, name = "squares"},
                        xlabel = "n", ylabel = "n^2"})
  os.remove(path)
end]],
}

function plot.save(path, given, ...)
  if type(path) ~= "string" then
    define.fail("fopo.plot.save needs the path first, not %s", define.a(path))
  end
  if select("#", ...) > 0 then given = {given, ...} end
  local list, options, sources = parts_of(given)
  local o = define.options(define.entries["fopo.plot.save"], options)
  for n, s in ipairs(list) do
    if define.kind(sources[n]) == "table" then
      s.style = style_of(sources[n], n)
      for _, name in ipairs{"low", "high"} do
        s[name] = sources[n][name] and list_of(sources[n][name], ("series %d, %s"):format(n, name))
      end
    end
    if (s.low ~= nil) ~= (s.high ~= nil) or s.low and (#s.low ~= #s.y or #s.high ~= #s.y) then
      define.fail("fopo.plot.save: series %d: low and high must both have %d values, as y has", n,
                  #s.y)
    end
  end
  picture.save(path, list, o)
end

return setmetatable(plot, {__call = function(_, ...) io.write(plot.text(...)) end})
