-- fopo.show: any value as text, the way the prompt prints it.
local define = require "fopo.base.define"
local term = require "fopo.term"
local text = require "fopo.base.text"
local metatable_of = debug.getmetatable -- fopo's objects hide theirs

local edge_rows, edge_cols = 3, 4 -- of an array that is too large to show whole

-- A string as Lua source, on one line.
local function quoted(s) return text.plain((("%q"):format(s):gsub("\\\n", "\\n"))) end

local function named_function(f)
  if define.of[f] then return "function " .. define.of[f].name end
  local info = debug.getinfo(f, "S")
  if info.what == "C" then return "function [C]" end
  return ("function %s:%d"):format((info.short_src:gsub("^prompt#%d+$", "prompt")),
                                   info.linedefined)
end

-- ---- arrays

local function element(a, i, j)
  local v = a:get(i, j)
  if v == nil then return "-" end
  if v ~= v then return "nan" end -- never -nan
  return math.type(v) == "integer" and tostring(v) or ("%.4g"):format(v)
end

-- The list 1 .. n, or its first and last `edge` numbers with a 0 between them.
local function ends(n, edge)
  local list = {}
  for i = 1, n do
    if n <= 2 * edge + 1 or i <= edge or i > n - edge then
      list[#list + 1] = i
    elseif list[#list] ~= 0 then
      list[#list + 1] = 0
    end
  end
  return list
end

-- The elements, or `edge` columns of the corners of a large array, in aligned columns.
local function corners(a, edge)
  local rows, cols, lines = ends(a.rows, edge_rows), ends(a.cols, edge), {}
  local widths, grid = {}, {}
  for y, i in ipairs(rows) do
    grid[y] = {}
    for x, j in ipairs(cols) do
      grid[y][x] = (i == 0 or j == 0) and "..." or element(a, i, j)
      widths[x] = math.max(widths[x] or 0, #grid[y][x])
    end
  end
  for y, row in ipairs(grid) do
    for x, cell in ipairs(row) do row[x] = text.pad(cell, widths[x], true) end
    lines[y] = "  " .. table.concat(row, "  ")
  end
  return lines
end

-- As many columns as `width` has room for.
local function cells(a, width)
  local lines
  for edge = edge_cols, 1, -1 do
    lines = corners(a, edge)
    if text.width(lines[1]) <= width then break end
  end
  return lines
end

local bars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
local marks = {".", ":", "-", "=", "+", "*", "#", "@"} -- without UTF-8

-- A small histogram: a bar of eight heights for each interval, a blank for an empty one.
local function spark(counts)
  local most, line = math.max(1, table.unpack(counts)), {}
  local heights = term.utf8() and bars or marks
  for i, n in ipairs(counts) do
    line[i] = n == 0 and " " or heights[math.max(1, math.ceil(8 * n / most))]
  end
  return table.concat(line)
end

-- Range and mean, and a histogram of 32 numbers or more: two texts, which may be "".
local function facts(a)
  local finite, why = a:finite()
  if not finite then
    return ", NOT FINITE: " .. (why or "it holds NaN or Inf"):gsub("%-nan", "nan"), ""
  end
  local counts, about = a:histogram(16)
  local line = (", from %.4g to %.4g, mean %.4g"):format(about.min, about.max, about.mean)
  if a.rows * a.cols < 32 or about.min == about.max then return line, "" end
  return line, ("  |%s|"):format(spark(counts))
end

local function show_array(a, width)
  local head = ("array [%d, %d] of %s, %s"):format(a.rows, a.cols,
    a.kind == "ids" and "ids" or "float32", text.bytes(a.bytes))
  if a.rows == 0 or a.cols == 0 then return head end
  if a.kind ~= "ids" then
    local range, histogram = facts(a)
    local beside = text.width(head .. range .. histogram) <= width
    head = head .. range .. (histogram ~= "" and not beside and "\n" or "") .. histogram
  end
  return head .. "\n" .. table.concat(cells(a, width), "\n")
end

-- ---- objects

-- An object's own description: describe() of its type, else __tostring, else nil.
local function described(v, width)
  local meta = metatable_of(v)
  if not meta then return nil end
  local kind = define.kind(v)
  if kind == "array" and type(v) == "userdata" then
    local ok, shown = pcall(show_array, v, width)
    return ok and shown or "array (" .. tostring(shown) .. ")" -- closed
  end
  local describe
  if type(v) == "userdata" then
    local methods = require("fopo.native").types[kind]
    describe = methods and methods.describe
  else
    local index = rawget(meta, "__index")
    describe = rawget(meta, "describe") or type(index) == "table" and rawget(index, "describe")
  end
  if describe then
    local ok, shown = pcall(describe, v)
    return text.plain(ok and shown or kind .. " (" .. tostring(shown) .. ")")
  end
  if rawget(meta, "__tostring") then return tostring(v) end
  return nil
end

-- ---- tables

local order_of = {number = 1, string = 2, boolean = 3}

local function before(a, b)
  local oa, ob = order_of[type(a)] or 4, order_of[type(b)] or 4
  if oa ~= ob then return oa < ob end
  if oa <= 2 then return a < b end
  return tostring(a) < tostring(b)
end

local is_keyword = {}
for _, word in ipairs(text.keywords) do is_keyword[word] = true end

local function key_text(key, o)
  if type(key) == "string" and key:find("^[%a_][%w_]*$") and not is_keyword[key] then return key end
  return "[" .. o.show(key, o, "", o.depth) .. "]"
end

-- The entries of t as texts, at most o.items of the list and as many of the rest.
local function entries(t, o, indent, depth)
  local out, n = {}, rawlen(t)
  for i = 1, math.min(n, o.items) do out[i] = o.show(rawget(t, i), o, indent .. "  ", depth + 1) end
  if n > o.items then out[#out + 1] = ("... %s more"):format(text.count(n - o.items)) end
  local keys = {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then keys[#keys + 1] = key end
  end
  table.sort(keys, before)
  local first = #out + 1
  for i = 1, math.min(#keys, o.items) do
    local key = key_text(keys[i], o) .. " = "
    out[#out + 1] = key .. o.show(rawget(t, keys[i]), o, indent .. "  ", depth + 1, #key + 1)
  end
  if #keys > o.items then
    out[#out + 1] = ("... %s more names"):format(text.count(#keys - o.items))
  end
  return out, first
end

-- Named entries one to a line; entries of a list as many to a line as fit.
local function stacked(parts, first, o, indent)
  local lines, line = {}, ""
  for i, part in ipairs(parts) do
    if i < #parts then part = part .. "," end
    local joined = line == "" and part or line .. " " .. part
    if i >= first or part:find("\n", 1, true) or #indent + 2 + text.width(joined) > o.width then
      if line ~= "" then lines[#lines + 1] = line end
      joined = part
    end
    line = joined
  end
  lines[#lines + 1] = line
  local inner = "\n" .. indent .. "  "
  return "{" .. inner .. table.concat(lines, inner) .. "\n" .. indent .. "}"
end

local function show_table(t, o, indent, depth, used)
  if o.above[t] then return "<cycle>" end
  if next(t) == nil then return "{}" end
  if depth >= o.depth then return "{...}" end
  o.above[t] = true
  local parts, first = entries(t, o, indent, depth)
  o.above[t] = nil
  local line = "{" .. table.concat(parts, ", ") .. "}"
  local fits = #indent + used + text.width(line) <= o.width
  if fits and not line:find("\n", 1, true) then return line end
  return stacked(parts, first, o, indent)
end

-- Six digits inside a table, which are easier to compare than fourteen.
local function number(v, depth)
  if v ~= v then return "nan" end
  if depth == 0 or math.type(v) == "integer" or v == math.floor(v) then return tostring(v) end
  return ("%.6g"):format(v)
end

-- A description whose lines are at most `width` wide: sentences go on below, tables stay.
local function within(said, width)
  local lines = {}
  for line in (said .. "\n"):gmatch("(.-)\n") do
    local prose = text.width(line) > width and not line:find("%S  ") and not line:find("^%s")
    lines[#lines + 1] = prose and text.fill(line, width, "  ") or line
  end
  return table.concat(lines, "\n")
end

-- indent: that of the line on which v begins; used: columns already used on that line.
local function show(v, o, indent, depth, used)
  local kind = type(v)
  if kind == "string" then
    if #v > o.length then return quoted(v:sub(1, o.length)) .. "..." end
    return quoted(v)
  end
  if kind == "function" then return named_function(v) end
  if kind == "table" or kind == "userdata" then
    local said = described(v, o.width)
    if said and depth > 0 then said = said:match("^[^\n]*") end -- an array inside a table: its head
    if said and depth == 0 and o.wrap then said = within(said, o.width) end
    if said then return said end
    if kind == "table" then return show_table(v, o, indent, depth, used or 0) end
  end
  if kind == "number" then return number(v, depth) end
  return tostring(v)
end

-- True if the text scrolls its own beginning off the screen.
local function too_long(shown)
  local _, breaks = shown:gsub("\n", "")
  return breaks > math.max(10, term.height()) - 3
end

return define.fn{
  name = "fopo.show", returns = "string",
  args = {{"value", "any", nil, "anything", optional = true}},
  options = {
    {"depth", "integer", 4, "tables inside tables to follow", min = 0},
    {"items", "integer", 30, "entries of a table to show; fewer if they do not fit on the screen",
     min = 1},
    {"length", "integer", 200, "characters of a string inside a table", min = 1},
    {"width", "integer", nil, "columns of a line; those of the terminal if left out", min = 20},
  },
  text = [[The text that the prompt prints for a value. Short tables stand on one line, keys are
sorted, a table inside itself is <cycle>, numbers inside tables have six digits; arrays show shape,
type, range, a histogram and corners; fopo's objects say what they are. A string by itself is shown
as it is but for control characters, inside a table in quotes.]],
  example = [[assert(fopo.show{1, 2, x = "a"} == '{1, 2, x = "a"}')]],
  call = function(value, o)
    if type(value) == "string" then return text.plain(value) end
    o.wrap = not o.width and term.is_tty()
    o.width = o.width or math.max(20, math.min(term.width(), 120))
    o.above, o.show = {}, show
    local shown = show(value, o, "", 0)
    while o.wrap and not described(value, o.width) and too_long(shown) and o.items > 1 do
      o.items = o.items // 2
      shown = show(value, o, "", 0)
    end
    return shown
  end,
}
