-- Knobs: the numbers of a trainer's parts that may change between two steps. t.lr, job.lr, the live
-- view and the replay of a log all set them here.
local native = require "fopo.native"
local define = require "fopo.base.define"
local rows = require "fopo.base.rows"

local knobs = {names = {}}

-- What trainers and jobs call something else by. A knob of such a name is called after its part:
-- an option `batch` of an estimator is the knob gradient.batch, which g:set{batch = 3} changes.
knobs.taken = {}
for name in ([[policy data contexts reward gradient optim batch seed device index_refresh valid
               valid_contexts index exclude history actions notes seconds step steps_per_epoch held
               best_step log_folder job native knobs resplit unlogged current given_contexts began
               valid_automatic seen cut unfinished run start save resume describe trainer state
               last sentence pause stop wait before ended say on_record by_hand fields sealed
               at_rest idle list open save_all settled watch]]):gmatch("%S+") do
  knobs.taken[name] = true
end

local owner = {} -- by knob: the part of a trainer that has it, and its name there

local function add(part, names)
  for _, name in ipairs(names) do
    local knob = (knobs.taken[name] or owner[name]) and part .. "." .. name or name
    knobs.names[#knobs.names + 1] = knob
    owner[knob] = {part = part, name = name}
  end
end

add("optim", {"lr", "items_lr", "weight_decay", "clip",
              table.unpack(rows.settable(native.optimisers()))})
add("gradient", rows.of_gradients())
add("reward", rows.settable(native.rewards()))

local is_word = {} -- by kind of gradient and option: it is one of several words
for _, row in ipairs(native.gradients()) do
  is_word[row.name] = {}
  for _, option in ipairs(row.options) do
    is_word[row.name][option.name] = option.type == "string" or nil
  end
end

function knobs.is(name) return owner[name] ~= nil end

-- The value of a knob; nil if the part that has it in other trainers does not have it in this one.
function knobs.get(t, knob)
  local part, name = t[owner[knob].part], owner[knob].name
  local has, value = pcall(function() return part[name] end) -- momentum of adam: no such field
  local kind = has and type(value)
  return (kind == "number" or kind == "string") and value or nil
end

-- Sets a knob and returns its value before. Raises if it is not there or the value cannot be.
function knobs.set(t, name, value)
  local before = knobs.get(t, name)
  if before == nil then
    define.fail("this run has no %s to change: %s", name, t[owner[name].part]:describe())
  end
  local part, own = t[owner[name].part], owner[name].name
  local kind = owner[name].part == "gradient" and native.gradient_common(part, "kind")
  local word = type(value) == "string" and kind and is_word[kind][own]
  if type(value) ~= "number" and not word then
    define.fail("%s must be a number, not %s", name, define.shown(value))
  end
  if kind then
    part:set{[own] = value}
  else
    part[own] = value
  end
  return before
end

-- The values of all knobs by name.
function knobs.all(t)
  local values = {}
  for _, name in ipairs(knobs.names) do values[name] = knobs.get(t, name) end
  return values
end

-- Calls f(name, value, before) for every knob whose value is another one than in `earlier`.
function knobs.changed(t, earlier, f)
  for _, name in ipairs(knobs.names) do
    local now = knobs.get(t, name)
    if now ~= earlier[name] and now ~= nil then f(name, now, earlier[name]) end
  end
end

return knobs
