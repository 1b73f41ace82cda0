-- Sealed objects: tables of fopo's whose fields are read like those of any table, but assigned only
-- if that has an effect; any other assignment is an error that says what to do instead. The fields
-- are in a table behind the object, so that Lua reports every assignment.
--
--   sealed.kind(meta, {what = "split", letter = "s", remedy = "d:sessions{...} makes another"})
--   s = sealed.new(meta, fields)
--   sealed.behind(s).train = ...        for fopo's own files
local define = require "fopo.base.define"

local sealed = {}

local KEY = {} -- in an object: the table behind it

-- The table that holds the fields of an object; any other table itself.
function sealed.behind(o) return rawget(o, KEY) or o end

local function is_public(key) return type(key) == "string" and key:find("^%a") ~= nil end

-- The names that an object of this kind has, sorted.
local function names_of(meta, spec, o)
  local found, list = {}, {}
  for _, names in ipairs{sealed.behind(o), spec.known, spec.computed, spec.settable, meta} do
    for key in next, names do found[key] = is_public(key) or nil end
  end
  for key in pairs(spec.hidden) do found[key] = nil end
  for key in pairs(found) do list[#list + 1] = key end
  table.sort(list)
  return list
end

local function read(meta, spec, o, key)
  local get = spec.computed[key]
  if get then return get(o) end
  local found = sealed.behind(o)[key]
  if found == nil and is_public(key) then found = rawget(meta, key) end
  if found ~= nil or spec.known[key] or not is_public(key) then return found end
  define.no_field(spec.what, key, names_of(meta, spec, o))
end

-- Raises that the field cannot be set, with the remedy.
local function refuse(meta, spec, o, key, value)
  local names = names_of(meta, spec, o)
  for _, name in ipairs(names) do
    if name == key then
      local remedy = spec.remedy
      if type(remedy) == "function" then remedy = remedy(o, key, value) end
      define.fail("%s.%s cannot be set: %s", spec.letter, key, remedy)
    end
  end
  local remedy = spec.elsewhere and spec.elsewhere(key, value)
  if remedy then
    define.fail("%s has no field %s; %s", spec.what, define.shown(key):gsub('"', "'"), remedy)
  end
  if not define.nearest(tostring(key), names) then
    names = define.names_in(spec.settable)
    define.fail("%s has no field %s%s", spec.what, define.shown(key):gsub('"', "'"),
                #names > 0 and "; what can be set is " .. table.concat(names, ", ")
                or ", and none can be set: " .. tostring(spec.remedy))
  end
  define.no_field(spec.what, key, names)
end

-- The iterator of pairs.
local function fields_of(state, key)
  local value
  repeat key, value = next(state.behind, key) until key == nil or not state.hidden[key]
  return key, value
end

-- Makes the objects of a metatable sealed. spec: what and letter, their names in sentences; remedy,
-- what to do instead of setting a field (a string, or a function of object, key, value); elsewhere,
-- a function of key and value that says what to do about a field of another object, or nil; known,
-- names of fields that may be nil; hidden, names that are not for users; computed, functions by
-- name that give a field's value; settable, functions by name that set a field to a value.
function sealed.kind(meta, spec)
  local known, hidden = {}, {describe = true, fields = true, sealed = true}
  for _, name in ipairs(spec.known or {}) do known[name] = true end
  for _, name in ipairs(spec.hidden or {}) do known[name], hidden[name] = true, true end
  spec.known, spec.hidden = known, hidden
  spec.computed, spec.settable = spec.computed or {}, spec.settable or {}
  meta.fields = {} -- for help and completion; those that an object has besides are in it
  for _, names in ipairs{known, spec.computed, spec.settable} do
    for key in pairs(names) do meta.fields[key] = not hidden[key] or nil end
  end
  function meta.__index(o, key) return read(meta, spec, o, key) end
  function meta.__newindex(o, key, value)
    local set = spec.settable[key]
    if not set then refuse(meta, spec, o, key, value) end
    set(o, value)
  end
  function meta.__pairs(o) return fields_of, {behind = sealed.behind(o), hidden = spec.hidden} end
  return meta
end

-- An object of a sealed kind with these fields, which it takes over.
function sealed.new(meta, fields) return setmetatable({[KEY] = fields}, meta) end

return sealed
