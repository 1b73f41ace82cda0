-- Reading files: options of fopo.data.read, whoever reads the file, and the table of formats.
local define = require "fopo.base.define"
local reading = {}

-- The path or list of paths, checked, for the function `name`.
function reading.files(name, files)
  if type(files) ~= "table" then return files end
  for key, file in pairs(files) do
    if math.type(key) ~= "integer" or type(file) ~= "string" then
      define.fail("%s takes one path or a list of paths, as in %s({\"monday.csv\", "
                  .. "\"tuesday.csv\"}, {...}), not a list with %s = %s", name, name, key,
                  define.shown(file))
    end
  end
  if #files == 0 then define.fail("%s: the list of files is empty", name) end
  return files
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
