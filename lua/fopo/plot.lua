-- fopo.plot: curves in the terminal, drawn by C (src/term/plot.c), and in files, drawn by gnuplot
-- (fopo/picture.lua); here are the forms in which series may be given.
local define = require "fopo.define"
local picture = require "fopo.picture"
local term = require "fopo.term"

local entry = define.doc{
  name = "fopo.plot", signature = "fopo.plot{{x=, y=, name=}, ..., title=, ...}",
  options = {
    {"title", "string", nil, "above the plot"},
    {"xlabel", "string", nil, "below it"},
    {"ylabel", "string", nil, "at the top of its left axis"},
    {"logx", "boolean", nil, "logarithmic; values <= 0 are left out and counted"},
    {"logy", "boolean", nil, "the same for y"},
    {"width", "integer", nil, "columns; those of the terminal, at most 100", min = 24, max = 2000},
    {"height", "integer", nil, "lines of the canvas; 16", min = 3, max = 2000},
    {"utf8", "boolean", nil, "braille and box lines; as the terminal has them"},
    {"colour", "boolean", nil, "one a series; as the terminal has them (NO_COLOR: none)"},
  },
  text = [[Prints one or more series as curves. A series is {x = ..., y = ..., name = ...}: lists of
numbers or arrays of one row or column; without x the points are counted from 1. One series needs no
list around it, and y alone is enough: fopo.plot(t.history.reward). NaN leaves a gap.
fopo.plot.text(...) returns the text instead.]],
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
    define.fail("fopo.plot: %s must be a list of numbers or an array, not a %s", what,
                define.kind(v))
  end
  for i = 1, #v do
    if type(v[i]) ~= "number" then
      define.fail("fopo.plot: %s[%d] is a %s, not a number", what, i, define.kind(v[i]))
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

-- The series of what was given, and the options among it.
local function parts_of(given)
  local kind = define.kind(given)
  if kind ~= "table" and kind ~= "array" then
    define.fail("fopo.plot takes a table of series, or the values of one, not a %s", kind)
  end
  local list, options, sources = {}, {}, {}
  if kind == "array" or type(given[1]) == "number" then
    list[1], sources[1] = series_of(given, 1), kind == "table" and given or {}
  else
    for i, one in ipairs(given) do
      if type(one) ~= "table" and define.kind(one) ~= "array" then
        define.fail("fopo.plot: series %d is a %s, not a table", i, define.kind(one))
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

function plot.text(given)
  local list, options = parts_of(given)
  local ok, text = pcall(term.plot, list, define.options(entry, options))
  if not ok then define.fail("fopo.plot: %s", (tostring(text))) end
  return text
end

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
    define.fail("fopo.plot.save needs the path first, not a %s", define.kind(path))
  end
  if select("#", ...) > 0 then given = {given, ...} end
  local list, options, sources = parts_of(given)
  local o = define.options(define.entries["fopo.plot.save"], options)
  for n, s in ipairs(list) do
    if define.kind(sources[n]) == "table" then
      s.style = sources[n].style
      for _, name in ipairs{"low", "high"} do
        s[name] = sources[n][name] and list_of(sources[n][name], ("series %d, %s"):format(n, name))
      end
    end
    if (s.low ~= nil) ~= (s.high ~= nil) or s.low and (#s.low ~= #s.y or #s.high ~= #s.y) then
      define.fail("fopo.plot.save: series %d: low and high must both have %d values, as y has", n,
                  #s.y)
    end
    if s.style and not ({lines = 1, points = 1, bars = 1})[s.style] then
      define.fail("fopo.plot.save: series %d: style must be one of lines, points, bars, not %s", n,
                  tostring(s.style))
    end
  end
  picture.save(path, list, o)
end

return setmetatable(plot, {__call = function(_, given) io.write(plot.text(given)) end})
