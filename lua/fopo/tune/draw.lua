-- The settings of a search: drawn from ranges and lists, a function of the seed alone.
local define = require "fopo.base.define"

local draw = {}

-- A generator of uniform numbers in [0, 1) (splitmix64; Steele, Lea and Flood 2014).
local function generator(seed)
  local state = seed
  return function()
    state = state + 0x9E3779B97F4A7C15
    local z = state
    z = (z ~ z >> 30) * 0xBF58476D1CE4E5B9
    z = (z ~ z >> 27) * 0x94D049BB133111EB
    z = z ~ z >> 31
    return (z >> 11) * 0x1p-53
  end
end

-- 1 .. n in random order (Fisher and Yates).
local function permutation(n, uniform)
  local p = {}
  for i = 1, n do
    local j = 1 + math.floor(uniform() * i)
    p[i] = p[j]
    p[j] = i
  end
  return p
end

-- {low =, high =} of a range, or {values =} of a list.
local function axis_of(name, given)
  if type(given) ~= "table" then
    define.fail("fopo.tune: over.%s must be a range {low, high} or a list of values, not %s", name,
                define.a(given))
  end
  local list = given.values or given
  if type(list) ~= "table" or #list == 0 then
    define.fail("fopo.tune: over.%s is empty; give {low, high} or a list of values", name)
  end
  local low, high = list[1], list[2]
  if given.values or #list ~= 2 or type(low) ~= "number" or type(high) ~= "number" then
    return {values = list}
  end
  if not (low > 0 and high > low and high < math.huge) then
    define.fail("fopo.tune: over.%s = {%g, %g} must be a range with 0 < low < high; two values are "
                .. "written {values = {a, b}}", name, low, high)
  end
  return {low = low, high = high}
end

-- The axes by name, in the order of the names; those of `whole` take integers.
local function axes_of(over, whole)
  local axes = {}
  for name, given in pairs(over) do
    if type(name) ~= "string" then
      define.fail("fopo.tune: over is a table of names, as {lr = {1e-4, 1e-1}}")
    end
    local axis = axis_of(name, given)
    axis.name, axis.whole = name, whole[name]
    axes[#axes + 1] = axis
  end
  table.sort(axes, function(a, b) return a.name < b.name end)
  return axes
end

-- How many combinations there are; infinitely many with a range.
local function combinations(axes)
  local n = 1
  for _, axis in ipairs(axes) do n = axis.values and n * #axis.values or math.huge end
  return n
end

local function grid(axes, n)
  local list = {}
  for i = 0, n - 1 do
    local c, rest = {}, i
    for _, axis in ipairs(axes) do
      c[axis.name] = axis.values[rest % #axis.values + 1]
      rest = rest // #axis.values
    end
    list[#list + 1] = c
  end
  return list
end

-- Of each range one draw from each of n equal strips of its logarithm; of each list all values
-- equally often.
local function hypercube(axes, n, seed)
  local uniform, list = generator(seed), {}
  for i = 1, n do list[i] = {} end
  for _, axis in ipairs(axes) do
    local place = permutation(n, uniform)
    for i = 1, n do
      if axis.values then
        list[i][axis.name] = axis.values[(place[i] - 1) % #axis.values + 1]
      else
        local share = (place[i] - 1 + uniform()) / n
        local value = axis.low * (axis.high / axis.low) ^ share
        list[i][axis.name] = axis.whole and math.floor(value + 0.5) or value
      end
    end
  end
  return list
end

-- A list of at most n settings {name = value}. whole: {name = true} of ranges that are drawn as
-- integers.
function draw.settings(over, n, seed, whole)
  local axes = axes_of(over, whole or {})
  local all = combinations(axes)
  if all <= n then return grid(axes, all) end
  return hypercube(axes, n, seed)
end

return draw
