-- Reading files: options of fopo.data.read, whoever reads the file, and the table of formats.
local native = require "fopo.native"
local define = require "fopo.base.define"
local reading = {}

-- The path that C takes for an entry of a list: a path, or {command = "..."} as a mark and the
-- command (data/source.h).
local function source(name, key, file)
  if type(file) == "table" and type(file.command) == "string" and next(file, "command") == nil then
    return "\1" .. file.command
  end
  if math.type(key) ~= "integer" or type(file) ~= "string" or file:find("^[\1-\3]") then
    define.fail("%s takes a path, {command = \"...\"} or a list of them, as in %s({\"monday.csv\", "
                .. "\"tuesday.csv\"}, {...}), not a list with %s = %s", name, name, key,
                define.shown(file))
  end
  return file
end

-- The sources for the function `name` as C takes them: paths, those of folders and patterns one by
-- one, and commands.
function reading.files(name, files)
  if type(files) ~= "table" or files.command ~= nil then files = {files} end
  local list = {}
  for key, file in pairs(files) do source(name, key, file) end
  for key, file in ipairs(files) do
    local path = source(name, key, file)
    local found = path:find("^\1") and {path} or native.data_paths(path)
    table.move(found, 1, #found, #list + 1, list)
  end
  if #list == 0 then define.fail("%s: the list of files is empty", name) end
  return list
end

-- The checked options o as the readers in C take them; changes o.
function reading.options(o)
  if o.time == true then o.time = nil end
  if o.time == false then o.time = "" end
  for _, column in ipairs{"user", "item", "value", "time"} do
    if o[column] then o[column] = tostring(o[column]) end
  end
  if o.header ~= nil then o.header = o.header and "yes" or "no" end
  return o
end

-- The names for one_of, and a line of help for each format, from native's {name, what, ...}.
function reading.formats(list)
  local names, lines = {"auto"}, {}
  for i = 1, #list, 2 do
    names[#names + 1] = list[i]
    lines[#lines + 1] = ("  %-10s %s"):format(list[i], list[i + 1])
  end
  return names, table.concat(lines, "\n")
end

return reading
