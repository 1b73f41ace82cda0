-- What the prompt adds to the message of an error: the line of the source, a mark under the word
-- that the message names, and the nearest known name. No function of the user's and no metamethod
-- is called.
local complete = require "fopo.prompt.complete"
local define = require "fopo.base.define"
local session = require "fopo.prompt.session"

local explain = {}
local keep = 200              -- texts; functions entered before them lose their source line
local texts, names = {}, {}   -- texts by name; names in the order in which they were entered

-- Keeps the text of a chunk that is not a file, by its name in messages. explain.entry is the name
-- of the latest one, which is still on the screen.
function explain.remember(name, text)
  explain.entry = name
  if not texts[name] then names[#names + 1] = name end
  texts[name] = text
  if #names > keep then texts[table.remove(names, 1)] = nil end
end

-- Notes that the chunk of that name ran to its end.
function explain.worked(name) session.worked(texts[name]) end

-- ---- the source ----

local function nth(text, n)
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    n = n - 1
    if n == 0 then return line end
  end
end

-- The path of the file that messages call `name`, which may be shortened there, and whether it is
-- running; nil if the file is one of fopo's own.
local function path_of(name)
  for level = 3, 60 do
    local info = debug.getinfo(level, "S")
    if not info then break end
    if info.short_src == name then
      if info.source:find("^@fopo/") then return nil end
      return info.source:match("^@(.*)"), true
    end
  end
  return not name:find("^[%[%.]") and name or nil
end

local function source_line(name, n)
  if texts[name] then return nth(texts[name], n) end
  local path, runs = path_of(name)
  local file <close> = path and (runs or path:find("%.lua$")) and io.open(path, "r") or nil
  if not file then return nil end
  for line in file:lines() do
    n = n - 1
    if n == 0 then return #line < 1000 and line or nil end
  end
end

-- ---- the mark ----

-- The word that a message is about, and its kind: "global", "field", ... as Lua says it, "near" in
-- a syntax error, "quoted" otherwise.
local function subject(message)
  local kind, word = message:match("%((%a+) '([^']+)'%)$")
  if word then return word, kind end
  word = message:match("near '([^']+)'$") or message:match("near (<eof>)$")
  if word then return word, "near" end
  return message:match("[\"']([%w_]+)[\"']"), "quoted"
end

-- The first and last column of the word in the line; nil unless it occurs exactly once.
local function find(line, word, kind)
  if word == "<eof>" then return #line + 1, #line + 1 end
  local plain = word:gsub("%W", "%%%0")
  if word:find("^[%w_]+$") then plain = "%f[%w_]" .. plain .. "%f[^%w_]" end
  if kind == "field" or kind == "method" then
    local at = line:find("[.:]%s*" .. plain)
    if at then return line:find(plain, at) end
    return nil
  end
  local first, last = line:find(plain)
  if not first or kind ~= "near" and line:find(plain, last + 1) then return nil end
  return first, last
end

-- ---- what was meant ----

local function keys_of(places)
  local all = {}
  for _, place in ipairs(places) do
    for key in next, place do all[key] = true end
  end
  return define.names_in(all)
end

-- The nearest candidate; nil for a short word, which would be near to too many.
local function near(word, candidates)
  local found = define.nearest(word, candidates)
  if not found or #word < 3 or math.abs(#found - #word) > 2 and #word < 5 then return nil end
  return found
end

-- The full name of a function of fopo by its last part: "fopo.index.hnsw" for "hnsw".
local function function_called(word)
  for _, name in ipairs(define.order) do
    if name:match("^fopo%..*%.([%w_]+)$") == word then return name end
  end
end

-- fopo, or a module of it, that a script uses without the line that it begins with.
local function lacks_fopo(word)
  if word == "fopo" then return "begin with: local fopo = require \"fopo\"" end
  local fopo = require "fopo" -- what it lacks is not there either
  if rawget(fopo, word) == nil then return nil end
  return ("begin with: local fopo = require \"fopo\", and write fopo.%s"):format(word)
end

-- f(x, dim = 16): the braces that are missing, and where; nil if the line shows no such call.
local function lacks_braces(line, rest)
  if not rest:find("'%)' expected near '='") then return nil end
  local called, before, at, option =
    line:match("([%a_][%w_.:]*)%(([^()]-)()([%a_][%w_]*)%s*=[^=]")
  if not called then return nil end
  local shape = before:find("%S") and "%s(%s{%s = ...})" or "%s%s{%s = ...}"
  return ("options go in braces: " .. shape):format(called, before, option), at, at + #option - 1
end

-- The name that was perhaps meant by a global, field or method that does not exist, or nil.
local function meant(line, word, kind)
  if kind == "global" then return function_called(word) or near(word, keys_of{_G}) end
  if kind ~= "field" and kind ~= "method" then return nil end
  local chain = line:match("([%a_][%w_.:]*)%s*[.:]%s*" .. word .. "%f[^%w_]")
  local owner = chain and complete.resolve(chain)
  return owner ~= nil and near(word, keys_of(complete.places(owner))) or nil
end

-- ---- all of it ----

-- What the message itself shows to be missing, where the source line is not known, as of standard
-- input.
local function without_line(message)
  local word, kind = subject(message:match("^[^\n]*"))
  local hint = kind == "global" and message:find("nil value", 1, true) and lacks_fopo(word)
  return hint and ("%s\n    %s"):format(message, hint) or message
end

-- The message with the source line, a mark and a hint below it. If the entry was a single line, it
-- is still on the screen and is shown again only with a mark or a hint.
function explain.message(message)
  local name, n, rest = message:match("^([^\n]-):(%d+): ([^\n]*)$")
  if not name then name, n, rest = explain.entry, 1, message end -- a call that was the whole entry
  local line = name and source_line(name, tonumber(n))
  if not line or not line:find("%S") then return without_line(message) end
  local word, kind = subject(rest)
  local first, last
  if word then first, last = find(line, word, kind) end
  local is_nil = word and rest:find("nil value", 1, true) and not rest:find("did you mean", 1, true)
  local hint, at, till = lacks_braces(line, rest)
  if hint then first, last = at, till end
  hint = hint or kind == "global" and is_nil and lacks_fopo(word)
  local name_meant = is_nil and not hint and meant(line, word, kind)
  if name_meant then hint = ("did you mean '%s'?"):format(name_meant) end
  local seen = name == explain.entry and not texts[name]:find("\n", 1, true)
  if not first and not hint and seen then return message end
  local indent = #line:match("^%s*")
  local out = {message, "    " .. line:sub(indent + 1)}
  local mark = first and (" "):rep(first - indent + 3) .. ("^"):rep(math.max(1, last - first + 1))
  if hint then mark = (mark or "   ") .. " " .. hint end
  out[#out + 1] = mark
  return table.concat(out, "\n")
end

return explain
