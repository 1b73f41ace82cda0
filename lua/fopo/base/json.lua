-- JSON for the files of a run: numbers, strings, booleans, lists and tables with string keys.
-- A number that is not finite becomes null. Keys are sorted, so equal tables give equal text.
local json = {}

local named = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function quoted(s)
  if not utf8.len(s) then s = s:gsub("[\128-\255]", "?") end -- JSON must be UTF-8
  return '"' .. s:gsub('[%c"\\\127]', function(c)
    return named[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

-- The shortest text that reads back as the same number.
function json.number(v)
  if v ~= v or v == math.huge or v == -math.huge then return "null" end
  if math.type(v) == "integer" then return ("%d"):format(v) end
  if v == math.floor(v) and math.abs(v) < 1e15 then return ("%.1f"):format(v) end
  for digits = 6, 16, 5 do
    local s = ("%." .. digits .. "g"):format(v)
    if tonumber(s) == v then return s end
  end
  return ("%.17g"):format(v)
end

local function encode(v, depth)
  local kind = type(v)
  if kind == "number" then return json.number(v) end
  if kind == "string" then return quoted(v) end
  if kind == "boolean" then return tostring(v) end
  if kind ~= "table" then return kind == "nil" and "null" or quoted(tostring(v)) end
  if depth > 50 then error("the table is nested too deeply, or in itself, to be JSON") end
  local parts = {}
  if #v > 0 then
    for i = 1, #v do parts[i] = encode(v[i], depth + 1) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  local keys = {}
  for key in pairs(v) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = quoted(key) .. ": " .. encode(v[key], depth + 1) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

function json.encode(v) return encode(v, 0) end

-- An object with its keys in the given order; a nil value is left out.
function json.row(keys, values)
  local parts = {}
  for _, key in ipairs(keys) do
    if values[key] ~= nil then parts[#parts + 1] = quoted(key) .. ": " .. encode(values[key], 1) end
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- ---- reading ----

local escapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\",
                 ["/"] = "/"}
local read -- (s, at, depth) -> value, position after it

-- Raises a table, so that json.decode can tell its own errors from others.
local function refuse(at, what) error({("it is not JSON at byte %d: %s"):format(at, what)}) end

local function skip(s, at) return s:find("[^ \t\r\n]", at) or #s + 1 end

-- Replaces escapes. \uXXXX gives one character, or two of them (a surrogate pair) give one.
local function unescaped(body, at)
  body = body:gsub("\\u([dD][89abAB]%x%x)\\u([dD][c-fC-F]%x%x)", function(high, low)
    return utf8.char(0x10000 + (tonumber(high, 16) - 0xD800) * 0x400 + tonumber(low, 16) - 0xDC00)
  end)
  return (body:gsub("\\(.)(%x?%x?%x?%x?)", function(c, digits)
    if c == "u" and #digits == 4 then return utf8.char(tonumber(digits, 16)) end
    return (escapes[c] or refuse(at, "an unknown escape in a string")) .. digits
  end))
end

local function read_string(s, at)
  local from = at + 1
  while true do
    local stop = s:find('["\\%c]', from)
    if not stop then refuse(at, "a string does not end") end
    local c = s:sub(stop, stop)
    if c == '"' then
      local body = s:sub(at + 1, stop - 1)
      return body:find("\\", 1, true) and unescaped(body, at) or body, stop + 1
    end
    if c ~= "\\" then refuse(stop, "a control character in a string") end
    from = stop + 2
  end
end

local function read_list(s, at, depth)
  local list, n = {}, 0
  at = skip(s, at + 1)
  if s:sub(at, at) == "]" then return list, at + 1 end
  while true do
    n = n + 1
    list[n], at = read(s, at, depth + 1)
    at = skip(s, at)
    local c = s:sub(at, at)
    if c == "]" then return list, at + 1 end
    if c ~= "," then refuse(at, "a comma or ] is missing in a list") end
    at = at + 1
  end
end

local function read_object(s, at, depth)
  local object = {}
  at = skip(s, at + 1)
  if s:sub(at, at) == "}" then return object, at + 1 end
  while true do
    local key
    at = skip(s, at)
    if s:sub(at, at) ~= '"' then refuse(at, "a key must be a string") end
    key, at = read_string(s, at)
    at = skip(s, at)
    if s:sub(at, at) ~= ":" then refuse(at, "a colon is missing after a key") end
    object[key], at = read(s, at + 1, depth + 1)
    at = skip(s, at)
    local c = s:sub(at, at)
    if c == "}" then return object, at + 1 end
    if c ~= "," then refuse(at, "a comma or } is missing in an object") end
    at = at + 1
  end
end

local words = {["true"] = true, ["false"] = false}

function read(s, at, depth)
  if depth > 100 then refuse(at, "it is nested too deeply") end
  at = skip(s, at)
  local c = s:sub(at, at)
  if c == "{" then return read_object(s, at, depth) end
  if c == "[" then return read_list(s, at, depth) end
  if c == '"' then return read_string(s, at) end
  local word = s:match("^%a+", at)
  if word == "null" then return nil, at + 4 end
  if words[word] ~= nil then return words[word], at + #word end
  local digits = s:match("^-?%d+%.?%d*[eE]?[-+]?%d*", at)
  local value = digits and tonumber(digits)
  if not value then refuse(at, "a value is missing") end
  return value, at + #digits
end

-- The value of a JSON text, null as nil; nil and a sentence if the text is not JSON.
function json.decode(s)
  local ok, value, at = pcall(read, s, 1, 0)
  if not ok then return nil, type(value) == "table" and value[1] or value end
  at = skip(s, at)
  if at <= #s then
    return nil, ("it is not JSON at byte %d: there is text after the value"):format(at)
  end
  return value
end

return json
