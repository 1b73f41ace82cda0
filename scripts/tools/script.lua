-- What studies and benchmarks share: their command line and their CSV files.
local script = {}

-- The interpreter for everything that calls Python: PYTHON=, else Debian's, which has the packages.
script.python = os.getenv("PYTHON") or "/usr/bin/python3"

-- Ends the program because of its command line.
function script.misuse(...)
  io.stderr:write(arg[0], ": ", string.format(...), "; see the head of the script\n")
  os.exit(2)
end

-- The text after "name=" in the type of the default: a list is a,b,c and a boolean yes or no.
local function value_of(name, text, default)
  if type(default) == "table" then
    local list = {}
    for one in text:gmatch("[^,]+") do list[#list + 1] = tonumber(one) or one end
    return list
  end
  if type(default) == "number" then
    return tonumber(text) or script.misuse("%s=%s is not a number", name, text)
  end
  if type(default) == "boolean" then
    if text ~= "yes" and text ~= "no" then script.misuse("%s is yes or no, not %s", name, text) end
    return text == "yes"
  end
  return text
end

-- Reads the command line into a copy of `defaults`: name=value sets an option. If `quick` is given,
-- the word quick first replaces defaults by smaller ones. Returns the options, the other words, and
-- whether the run is a quick one.
function script.options(defaults, quick)
  local o, words, is_quick = {}, {}, false
  for name, value in pairs(defaults) do o[name] = value end
  for _, word in ipairs(arg) do
    if word == "quick" and quick then
      is_quick = true
      for name, value in pairs(quick) do o[name] = value end
    end
  end
  for _, word in ipairs(arg) do
    local name, text = word:match("^([%a_][%w_]*)=(.*)$")
    if not name then
      if not (word == "quick" and quick) then words[#words + 1] = word end
    elseif defaults[name] == nil then
      script.misuse("there is no option %s", name)
    else
      o[name] = value_of(name, text, defaults[name])
    end
  end
  return o, words, is_quick
end

local function quoted(value)
  local s = math.type(value) == "float" and ("%.9g"):format(value) or tostring(value)
  return s:find('[,"\n]') and '"' .. s:gsub('"', '""') .. '"' or s
end

-- Writes rows, tables by column name, as CSV; a nil becomes an empty field. `comment` comes first.
function script.csv(path, columns, rows, comment)
  assert(os.execute("mkdir -p " .. path:match("^(.*)/")))
  local f <close> = assert(io.open(path, "w"))
  f:write(comment or "", table.concat(columns, ","), "\n")
  for _, row in ipairs(rows) do
    local line = {}
    for i, column in ipairs(columns) do
      line[i] = row[column] ~= nil and quoted(row[column]) or ""
    end
    f:write(table.concat(line, ","), "\n")
  end
end

return script
