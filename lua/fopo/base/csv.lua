-- Tables as CSV: the first line has the names, a field with a comma or a quote is in quotes, and an
-- empty one is a nil. Numbers read back as they were. A list of numbers is one field, with spaces.
local json = require "fopo.base.json"

local csv = {}

local odd = {["nan"] = 0 / 0, ["inf"] = math.huge, ["-inf"] = -math.huge}

local function number(v)
  if v ~= v then return "nan" end
  if v == math.huge or v == -math.huge then return v > 0 and "inf" or "-inf" end
  return (json.number(v):gsub("%.0$", ""))
end

-- A text as a field, in quotes where it needs them.
function csv.quoted(s) return s:find('[,"\r\n]') and '"' .. s:gsub('"', '""') .. '"' or s end

-- A value as a field.
function csv.field(v)
  if v == nil then return "" end
  if type(v) == "number" then return number(v) end
  if type(v) == "table" then
    local words = {}
    for i, x in ipairs(v) do words[i] = number(x) end
    return table.concat(words, " ")
  end
  return csv.quoted((tostring(v):gsub("[\r\n]+%s*", " ")))
end

-- The line of a row, a table by column.
function csv.line(columns, row)
  local fields = {}
  for i, name in ipairs(columns) do fields[i] = csv.field(row[name]) end
  return table.concat(fields, ",") .. "\n"
end

-- The first line of a table with these columns.
function csv.head(columns)
  local names = {}
  for _, name in ipairs(columns) do names[name] = name end
  return csv.line(columns, names)
end

local function fields_of(line)
  local list, at = {}, 1
  repeat
    local field, after = line:match('^"(.-)"()', at)
    while field and line:sub(after, after) == '"' do -- a doubled quote
      local more, behind = line:match('^(.-)"()', after + 1)
      if not more then break end
      field, after = field .. '"' .. more, behind
    end
    if not field then field, after = line:match("^([^,]*)()", at) end
    list[#list + 1], at = field, after + 1
  until at > #line + 1
  return list
end

local function value(field) return tonumber(field) or odd[field] or field end

-- The numbers of a field that lists some, else its value.
function csv.list(v)
  if type(v) ~= "string" or not v:find("^%S+ ") then return v end
  local list = {}
  for word in v:gmatch("%S+") do
    local x = value(word)
    if type(x) ~= "number" then return v end
    list[#list + 1] = x
  end
  return list
end

-- The rows of the text, tables by column; the columns; and the lines above them that begin with #.
function csv.parse(text)
  local rows, columns, comment = {}, nil, {}
  for line in text:gmatch("([^\n]*)\n?") do
    if line:sub(1, 1) == "#" then
      comment[#comment + 1] = line .. "\n"
    elseif line ~= "" and not columns then
      columns = fields_of(line)
    elseif line ~= "" then
      local row = {}
      for i, field in ipairs(fields_of(line)) do
        if field ~= "" and columns[i] then row[columns[i]] = value(field) end
      end
      rows[#rows + 1] = row
    end
  end
  return rows, columns or {}, table.concat(comment)
end

-- The same of a file; nil if there is none.
function csv.read(path)
  local f <close> = io.open(path)
  if f then return csv.parse(f:read("a")) end
end

return csv
