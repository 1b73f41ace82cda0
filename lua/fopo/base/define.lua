-- Every public function is declared once: its arguments, its options with types, ranges and
-- defaults, its text and an example. The checks of what users type, help(), the manual and the
-- completion of options all come from the declaration.
--
--   define.fn{name = "fopo.index.hnsw", args = {{"items", "array", "[P, L] ..."}},
--             options = {{"M", "integer", 16, "links ...", min = 2}}, text = ..., call = f}
--
-- An argument or option is {name, type, default, text}; arguments have no default, and
-- `optional = true` if they may be left out. A type is one name or several joined by "|".
-- A range is min, max (inclusive), above, below (exclusive) for numbers, one_of for strings.
-- Options may carry required = true. `presets`, {name = {option = value, ...}}, adds the option
-- preset: its values stand for the defaults; what the user gives goes before them.
--
-- `defaults`, a function of the table that the user gives, returns such values computed from it.
--
-- This is the one place that checks ranges for users. The C core checks what it needs to be safe
-- for any caller; the binding between them only converts types.
local native = require "fopo.native"
local reading = require "fopo.base.entry"
local synonyms = require "fopo.base.synonyms"

local define = {
  entries = {},                         -- name -> declaration
  order = {},                           -- names as they were declared
  of = setmetatable({}, {__mode = "k"}) -- function -> declaration
}

-- "array", "index", ... for fopo's own objects, "integer" for integral numbers, else type(v).
function define.kind(v)
  local t = type(v)
  if t == "number" then return math.type(v) == "integer" and "integer" or "number" end
  local meta = (t == "userdata" or t == "table") and getmetatable(v)
  if type(meta) == "string" then return (meta:gsub("^fopo%.", "")) end
  if type(meta) == "table" and type(rawget(meta, "__name")) == "string" then
    return (meta.__name:gsub("^fopo%.", ""))
  end
  return t
end

-- Raises `message`, with the position of the innermost caller that is not a Lua file of fopo's.
function define.fail(message, ...)
  if select("#", ...) > 0 then message = message:format(...) end
  for level = 2, 30 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.what ~= "C" and not info.source:find("^@fopo/") then
      error(("%s:%d: %s"):format(info.short_src, info.currentline, message), 0)
    end
  end
  error(message, 0)
end

-- The edit distance of two short words (Levenshtein, with swaps of neighbours at cost 1).
local function distance(a, b)
  local before, last = {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row = {[0] = i}
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      row[j] = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + cost)
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        row[j] = math.min(row[j], before[j - 2] + 1)
      end
    end
    before, last = last, row
  end
  return last[#b]
end

-- The candidate that `word` means elsewhere, or the nearest one, or nil if none is within a third
-- of its letters (at least 2).
function define.nearest(word, candidates)
  local best, least = synonyms.among(word, candidates), math.huge
  if best then return best end
  word = tostring(word):lower()
  for _, candidate in ipairs(candidates) do
    local c = candidate:lower()
    local d = distance(word, c)
    if c:sub(1, #word) == word or word:sub(1, #c) == c then d = math.min(d, 1) end
    if d < least then best, least = candidate, d end
  end
  return least <= math.max(2, #word // 3) and best or nil
end

-- "; did you mean 'x'?" of the nearest candidate, or "" if none is near or the word is no string.
-- form: another one for %q or '%s'.
function define.meant(word, candidates, form)
  local near = type(word) == "string" and define.nearest(word, candidates)
  return near and (form or "; did you mean %q?"):format(near) or ""
end

-- The names in a table that begin with a letter, sorted.
function define.names_in(t)
  local list = {}
  for key in next, t do
    if type(key) == "string" and key:find("^%a") then list[#list + 1] = key end
  end
  table.sort(list)
  return list
end

local function fits(value, want)
  local kind = define.kind(value)
  for one in want:gmatch("[^|]+") do
    if one == "any" or one == kind then return true end
    if one == "number" and kind == "integer" then return true end
    if one == "integer" and kind == "number" and value == math.floor(value) then return true end
  end
  return false
end

-- "a string", "an array", "a nil", "sessions".
function define.a(value)
  local kind = define.kind(value)
  if kind == "sessions" or kind == "logs" then return kind end
  return (kind:find("^[aeiou]") and "an " or "a ") .. kind
end

-- A value in an error message: strings quoted, numbers in full, objects by their kind.
function define.shown(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) == "number" then return ("%.14g"):format(value) end
  if value == nil or type(value) == "boolean" then return tostring(value) end
  return define.a(value)
end

local shown = define.shown

-- What to do about a value of another kind than `want`, or nil; fopo/base/remedy.lua replaces it.
function define.remedy(_want, _value) end

-- "an array or a function", "sessions or logs": the kinds of a declaration, in words.
local function in_words(want)
  return (want:gsub("[^|]+", function(one)
    local is_object = native.types[one] or one == "trainer" or one == "job" or one == "split"
    if not is_object or one:find("s$") then return one end
    return (one:find("^[aeiou]") and "an " or "a ") .. one
  end):gsub("|", " or "))
end

-- '"auto" or an integer of at least 0', 'one of lines, curses, or true or false': what an option
-- with one_of takes.
local function choices_of(spec)
  local list, others = {}, {}
  for i, one in ipairs(spec.one_of) do list[i] = one end
  for one in spec[2]:gmatch("[^|]+") do
    if one == "boolean" then others[#others + 1] = "true or false" end
    if one == "integer" or one == "number" then
      local least = spec.min and " of at least " .. spec.min
                    or spec.above and " above " .. spec.above or ""
      local most = spec.max and (least == "" and " of at most " or " and at most ") .. spec.max
      others[#others + 1] = (one == "integer" and "an integer" or "a number") .. least
                            .. (most or "")
    end
  end
  if #others == 0 then return "one of " .. table.concat(list, ", ") end
  local words = #list == 1 and ("%q"):format(list[1]) or "one of " .. table.concat(list, ", ")
  return ("%s, or %s"):format(words, table.concat(others, ", or "))
end

-- Checks one value against its declaration and returns it, an integral float as an integer.
local function checked(entry, spec, value)
  local name, want = spec[1], spec[2]
  local function refuse(why, ...) define.fail("%s: " .. why, entry.name, ...) end
  if not fits(value, want) then
    local remedy = define.remedy(want, value)
    refuse("%s must be %s, not %s%s", name,
           spec.one_of and choices_of(spec) or in_words(want), shown(value),
           remedy and "; " .. remedy or "")
  end
  if type(value) == "number" then
    if value ~= value and want ~= "any" then refuse("%s is NaN", name) end
    if spec.min and value < spec.min then
      refuse("%s must be at least %s, not %s", name, spec.min, shown(value))
    end
    if spec.max and value > spec.max then
      refuse("%s must be at most %s, not %s", name, spec.max, shown(value))
    end
    if spec.above and value <= spec.above then
      refuse("%s must be more than %s, not %s", name, spec.above, shown(value))
    end
    if spec.below and value >= spec.below then
      refuse("%s must be less than %s, not %s", name, spec.below, shown(value))
    end
    if want:find("integer", 1, true) and not want:find("number", 1, true) then
      value = math.tointeger(value) or refuse("%s is too large: %s", name, shown(value))
    end
  elseif type(value) == "string" and spec.one_of then
    for _, one in ipairs(spec.one_of) do
      if one == value then return value end
    end
    refuse("%s must be %s, not %q%s", name, choices_of(spec), value,
           define.meant(value, spec.one_of))
  end
  return value
end

-- Raises that `what` has no field `key`; `names` are what it has, and `fields` those to list.
function define.no_field(what, key, names, fields)
  local meant = define.meant(key, names, "; did you mean '%s'?")
  fields = table.concat(fields or names, ", ")
  define.fail("%s has no field %s%s", what, shown(key):gsub('"', "'"), meant ~= "" and meant
              or "; its fields are: " .. (fields ~= "" and fields or "none"))
end

-- What to write for an option of these names that this function does not have and one of its parts
-- has, or nil: entry.elsewhere(name, value) says it of a name.
local function of_a_part(entry, names, value)
  for _, name in ipairs(entry.elsewhere and names or {}) do
    local said = entry.elsewhere(name, value)
    if said then return said end
  end
end

-- The value, checked as the option `option` of the declared function `name`; `what` names it in
-- sentences.
function define.checked(name, option, value, what)
  for _, spec in ipairs(define.entries[name].options) do
    if spec[1] == option then return checked({name = what}, spec, value) end
  end
end

-- The method `name` of objects of that kind, for any first argument; `sample` stands for the object
-- in sentences.
function define.method(kind, name, f, sample)
  return function(self, ...)
    if define.kind(self) ~= kind then
      define.fail("%s:%s is a method of %s, and was called with %s; write %s:%s()", kind, name,
                  in_words(kind), define.a(self), sample or "x", name)
    end
    return f(self, ...)
  end
end

-- A new table with every given option checked and every default filled in.
function define.options(entry, given)
  given = given == nil and {} or given
  if type(given) ~= "table" then
    define.fail("%s takes its options in one table with names, as in %s{%s = ...}, not %s",
                entry.name, entry.name, (entry.options[1] or {"name"})[1], shown(given))
  end
  local known, o = {}, {}
  for _, spec in ipairs(entry.options) do known[spec[1]] = true end
  for key in pairs(given) do
    if not known[key] then
      local names = {}
      for i, spec in ipairs(entry.options) do names[i] = spec[1] end
      local part = of_a_part(entry, {key}, given[key])
      local meant = part and "" or define.meant(key, names, "; did you mean '%s'?")
      if meant == "" and not part then
        part = of_a_part(entry, synonyms.of(key), given[key])
      end
      if part then define.fail("%s has no option %s; %s", entry.name, shown(key), part) end
      define.fail("%s has no option %s%s; it takes %s", entry.name, shown(key), meant,
                  #names > 0 and table.concat(names, ", ") or "none")
    end
  end
  local instead = entry.presets and entry.presets[given.preset]
                  or entry.defaults and entry.defaults(given) or {}
  for _, spec in ipairs(entry.options) do
    local value = given[spec[1]]
    if value == nil then value = instead[spec[1]] end
    if value == nil then value = spec[3] end
    if value == nil and spec.required then
      define.fail("%s needs the option %s: %s", entry.name, spec[1], spec[4])
    end
    if value ~= nil then o[spec[1]] = checked(entry, spec, value) end
  end
  return o
end

-- The option `preset` of a declaration: "paper: lr = 0.0001, weight_decay = 1e-10".
local function preset_option(presets)
  local names, texts = define.names_in(presets), {}
  for i, name in ipairs(names) do
    local parts = {}
    for key, value in pairs(presets[name]) do
      parts[#parts + 1] = (type(value) == "number" and "%s = %g" or "%s = %q"):format(key, value)
    end
    table.sort(parts)
    texts[i] = name .. ": " .. table.concat(parts, ", ") .. ", unless given"
  end
  return {"preset", "string", nil, table.concat(texts, "; "), one_of = names}
end

-- Raises if a method was called with a dot, or a function of a module with a colon.
local function check_dots(entry, first)
  local owner, mark, name = entry.name:match("^([%w_.]+)([.:])([%w_]+)$")
  local spec = entry.args[1]
  if mark == ":" and spec and not fits(first, spec[2]) then
    local shape = entry.options and #entry.args == 1 and "{...}" or "(...)"
    define.fail("%s is a method; write %s:%s%s, with a colon", entry.name, spec[1], name, shape)
  elseif mark == "." and type(first) == "table" then
    local module = package.loaded.fopo
    for part in owner:gmatch("[^.]+") do
      if part ~= "fopo" then module = type(module) == "table" and rawget(module, part) end
    end
    if rawequal(module, first) then
      define.fail("%s is a function of a module; write %s%s, with a dot", entry.name, entry.name,
                  #entry.args > 0 and "(...)" or "{...}")
    end
  end
end

-- Declares a function and returns it. entry.call receives the checked arguments and, if options
-- are declared, the completed table of options as the last one.
function define.fn(entry)
  entry.args, entry.options = entry.args or {}, entry.options or false
  if entry.presets then table.insert(entry.options, preset_option(entry.presets)) end
  local count = #entry.args
  local function call(...)
    local given = select("#", ...)
    local values = {...}
    check_dots(entry, values[1])
    if given > count + (entry.options and 1 or 0) and not entry.variadic then
      define.fail("%s takes %d argument%s, not %d; see help(%q)", entry.name,
                  count + (entry.options and 1 or 0), count == 0 and entry.options and ""
                  or "s", given, entry.name)
    end
    for i, spec in ipairs(entry.args) do
      if values[i] == nil then
        if not spec.optional then
          define.fail("%s needs %s: %s; write %s", entry.name, spec[1],
                      spec[4] or spec[3] or spec[2], reading.signature(entry))
        end
      else
        values[i] = checked(entry, spec, values[i])
      end
    end
    if entry.options then values[count + 1] = define.options(entry, values[count + 1]) end
    return entry.call(table.unpack(values, 1, math.max(given, count + 1)))
  end
  define.entries[entry.name] = entry
  define.order[#define.order + 1] = entry.name
  define.of[call] = entry
  return call
end

-- Declares something for help() alone: a method whose arguments C checks, a table, a field.
function define.doc(entry)
  entry.args, entry.options = entry.args or {}, entry.options or false
  define.entries[entry.name] = entry
  define.order[#define.order + 1] = entry.name
  return entry
end

return define
