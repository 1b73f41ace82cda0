-- Completion of the word before the cursor at the prompt: globals, fields of tables, methods of
-- objects, inside name{ or name(x, { the names of the options, and inside a string the values of
-- one. No function of the user's and no metamethod is called.
local define = require "fopo.base.define"
local native = require "fopo.native"
local sealed = require "fopo.base.sealed"
local text = require "fopo.base.text"
local metatable_of = debug.getmetatable

-- The tables that hold the names of v, nearest first. A metatable with the field `sealed` lists
-- there what its objects show.
local function places(v)
  local list = {}
  local meta = metatable_of(v)
  if type(meta) == "table" and rawget(meta, "sealed") then return {meta.sealed} end
  if type(v) == "table" then list[1] = sealed.behind(v) end
  local methods = type(v) == "userdata" and native.types[define.kind(v)]
  if methods then
    list[#list + 1] = methods
    list[#list + 1] = native.fields[define.kind(v)]
  elseif type(meta) == "table" and type(rawget(meta, "fields")) == "table" then
    list[#list + 1] = meta.fields
  end
  for _ = 1, 8 do -- longer chains of __index are rare, endless ones possible
    if type(meta) ~= "table" then break end
    local index = rawget(meta, "__index")
    if type(index) == "table" then
      list[#list + 1] = index
      meta = metatable_of(index)
    else
      if type(index) == "function" and type(v) == "table" then list[#list + 1] = meta end
      break
    end
  end
  return list
end

-- v[name], or nil; without metamethods.
local function field(v, name)
  local own = type(v) == "table" and rawget(sealed.behind(v), name)
  if own then return own end
  for _, place in ipairs(places(v)) do
    local found = rawget(place, name)
    if found ~= nil then return found end
  end
end

-- The value of a chain such as fopo.index, or nil.
local function resolve(chain)
  local v = _G
  for name in chain:gmatch("[^.:]+") do
    v = field(v, name)
    if v == nil then return nil end
  end
  return v
end

local function collect(found, prefix, part, names, keep)
  for name, value in next, names do
    if type(name) == "string" and name:sub(1, #part) == part and name:find("^[%a_][%w_]*$")
       and (name:sub(1, 1) ~= "_" or part:sub(1, 1) == "_") and keep(value) then
      found[prefix .. name] = true
    end
  end
end

-- The function whose table of options is being typed, or nil.
local function called(before)
  local chain = before:match("([%a_][%w_.:]*)%s*{[^{}]*$")
                or before:match("([%a_][%w_.:]*)%s*%([^(){}]*{[^{}]*$")
  local f = chain and resolve(chain)
  local entry = f ~= nil and (define.of[f] or define.entries["fopo." .. chain])
  if not entry and chain then -- a method: t:run{
    local object = resolve(chain:match("^(.*):") or "")
    entry = object and define.entries[define.kind(object) .. ":" .. chain:match("[%w_]*$")]
  end
  return entry or nil
end

local function add(found, part, name, after)
  if name:sub(1, #part) == part then found[name .. after] = true end
end

local function options(found, part, before)
  local entry = called(before)
  for _, spec in ipairs(entry and entry.options or {}) do add(found, part, spec[1], " = ") end
end

-- Inside a string: what may stand there, as the value of an option or the name that help takes.
local function texts(found, part, before)
  local option = before:match("([%a_][%w_]*)%s*=%s*[\"']$")
  local entry = option and called(before)
  for _, spec in ipairs(entry and entry.options or {}) do
    for _, value in ipairs(spec[1] == option and spec.one_of or {}) do
      add(found, part, value, "")
    end
  end
  if before:find("%f[%a]help%s*%(?%s*[\"']$") or before:find("%f[%a]examples%s*%(?%s*[\"']$") then
    for name in pairs(define.entries) do add(found, part, name:gsub("^fopo%.", ""), "") end
  end
end

local complete = {places = places, resolve = resolve}

-- word: the word at the cursor, dots and colons included; before: the line up to it. Readline does
-- not break words at / and ~, because of file names: in a/b.c only b.c is completed, and a/ is
-- returned unchanged before it.
function complete.words(word, before)
  local found, passed = {}, word:match("^.*[/~]") or ""
  word = word:sub(#passed + 1)
  local chain, mark, part = word:match("^(.-)([.:]?)([%w_]*)$")
  if before:find("[\"']$") then
    texts(found, word, before)
  elseif mark == "" then
    options(found, part, before)
    if next(found) == nil then
      collect(found, "", part, _G, function() return true end)
      for _, name in ipairs(text.keywords) do
        if name:sub(1, #part) == part then found[name] = true end
      end
    end
  else
    local v = resolve(chain)
    local function keep(value) return mark == "." or type(value) == "function" end
    if v ~= nil and chain ~= "" then
      for _, place in ipairs(places(v)) do collect(found, chain .. mark, part, place, keep) end
    end
  end
  local list = {}
  for name in next, found do list[#list + 1] = passed .. name end
  table.sort(list)
  return list
end

return setmetatable(complete, {
  __call = function(_, word, before) return complete.words(word, before) end,
})
