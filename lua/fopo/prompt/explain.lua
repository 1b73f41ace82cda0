-- What is added to the message of an error before it is printed: the line of the source, a mark under
-- the word that the message names, and the name that was perhaps meant. Nothing is called on the way
-- and no metamethod is run.
local complete = require "fopo.prompt.complete"
local define = require "fopo.base.define"

local explain = {}
local keep = 200              -- texts; functions entered earlier than that lose their source line
local texts, names = {}, {}   -- by name; names in order of their coming

-- The text of a chunk that is no file, by its name in messages; the last one is on the screen still.
function explain.remember(name, text)
  explain.entry = name
  if not texts[name] then names[#names + 1] = name end
  texts[name] = text
  if #names > keep then texts[table.remove(names, 1)] = nil end
end

-- ---- the source ----

local function nth(text, n)
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    n = n - 1
    if n == 0 then return line end
  end
end

-- The file of that name in messages, which may be shortened there; nil where it is fopo's own.
local function path_of(name)
  for level = 3, 60 do
    local info = debug.getinfo(level, "S")
    if not info then break end
    if info.short_src == name then
      if info.source:find("^@fopo/") then return nil end
      return info.source:match("^@(.*)")
    end
  end
  return not name:find("^[%[%.]") and name or nil
end

local function source_line(name, n)
  if texts[name] then return nth(texts[name], n) end
  local path = path_of(name)
  local file <close> = path and io.open(path, "r")
  if not file or not path:find("%.lua$") then return nil end
  for line in file:lines() do
    n = n - 1
    if n == 0 then return #line < 1000 and line or nil end
  end
end

-- ---- the mark ----

-- The word that a message is about, and what Lua calls it.
local function subject(message)
  local kind, word = message:match("%((%a+) '([^']+)'%)$")
  if word then return word, kind end
  word = message:match("near '([^']+)'$") or message:match("near (<eof>)$")
  if word then return word, "near" end
  return message:match("[\"']([%w_]+)[\"']"), "quoted"
end

-- Where the word stands in the line, if just once.
local function find(line, word, kind)
  if word == "<eof>" then return #line + 1, #line + 1 end
  local plain = word:gsub("%W", "%%%0")
  if word:find("^[%w_]+$") then plain = "%f[%w_]" .. plain .. "%f[^%w_]" end
  if kind == "field" or kind == "method" then
    local first, last = line:find("[.:]%s*" .. plain)
    if first then return line:find(plain, first) end
    return nil
  end
  local first, last = line:find(plain)
  if not first or kind ~= "near" and line:find(plain, last + 1) then return nil end
  return first, last
end

-- ---- what was meant ----

local function keys_of(places)
  local list = {}
  for _, place in ipairs(places) do
    for key in next, place do
      if type(key) == "string" and key:find("^%a") then list[#list + 1] = key end
    end
  end
  table.sort(list)
  return list
end

-- A short word is near to too many.
local function near(word, candidates)
  local found = define.nearest(word, candidates)
  if not found or #word < 3 or math.abs(#found - #word) > 2 and #word < 5 then return nil end
  return found
end

-- A function of fopo by the last part of its name: hnsw is fopo.index.hnsw.
local function function_called(word)
  for _, name in ipairs(define.order) do
    if name:match("^fopo%..*%.([%w_]+)$") == word then return name end
  end
end

local function meant(line, word, kind)
  if kind == "global" then return function_called(word) or near(word, keys_of{_G}) end
  if kind ~= "field" and kind ~= "method" then return nil end
  local chain = line:match("([%a_][%w_.:]*)%s*[.:]%s*" .. word .. "%f[^%w_]")
  local owner = chain and complete.resolve(chain)
  return owner ~= nil and near(word, keys_of(complete.places(owner))) or nil
end

-- ---- all of it ----

-- The message with the source line and what else is known below it. The only line of what was just
-- entered need not be shown again without a mark.
function explain.message(message)
  local name, n, rest = message:match("^([^\n]-):(%d+): ([^\n]*)$")
  if not name then name, n, rest = explain.entry, 1, message end -- a call that was the whole entry
  local line = name and source_line(name, tonumber(n))
  if not line or not line:find("%S") then return message end
  local word, kind = subject(rest)
  local first, last
  if word then first, last = find(line, word, kind) end
  local hint = word and not rest:find("did you mean", 1, true) and
               rest:find("nil value", 1, true) and meant(line, word, kind)
  local seen = name == explain.entry and not texts[name]:find("\n", 1, true)
  if not first and not hint and seen then return message end
  local indent = #line:match("^%s*")
  local out = {message, "    " .. line:sub(indent + 1)}
  local mark = first and (" "):rep(first - indent + 3) .. ("^"):rep(math.max(1, last - first + 1))
  if hint then mark = (mark or "   ") .. (" did you mean '%s'?"):format(hint) end
  out[#out + 1] = mark
  return table.concat(out, "\n")
end

return explain
