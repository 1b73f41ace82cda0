-- fopo.plot: curves in the terminal. The drawing is C's (src/term/plot.c); here are the forms in
-- which series may be given.
local define = require "fopo.define"
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

local plot = {}

function plot.text(given)
  local kind = define.kind(given)
  if kind ~= "table" and kind ~= "array" then
    define.fail("fopo.plot takes a table of series, or the values of one, not a %s", kind)
  end
  local list, options = {}, {}
  if kind == "array" or type(given[1]) == "number" then
    list[1] = series_of(given, 1)
  else
    for i, one in ipairs(given) do
      if type(one) ~= "table" and define.kind(one) ~= "array" then
        define.fail("fopo.plot: series %d is a %s, not a table", i, define.kind(one))
      end
      list[i] = series_of(one, i)
    end
    if given.y ~= nil then list[#list + 1] = series_of(given, #list + 1) end
    if #list == 0 then define.fail("fopo.plot: there is no series; see help(fopo.plot)") end
  end
  if kind == "table" then
    local own = {x = true, y = true, name = true}
    for key, value in pairs(given) do
      if math.type(key) ~= "integer" and not own[key] then options[key] = value end
    end
  end
  local ok, text = pcall(term.plot, list, define.options(entry, options))
  if not ok then define.fail("fopo.plot: %s", (tostring(text))) end
  return text
end

return setmetatable(plot, {__call = function(_, given) io.write(plot.text(given)) end})
