-- Knobs: the numbers of a trainer's parts that may change between two steps. t.lr, job.lr, the live
-- view and the replay of a log all set them here.
local define = require "fopo.base.define"

local knobs = {names = {"lr", "items_lr", "weight_decay", "clip", "momentum", "epsilon", "k",
                        "samples", "tail", "head", "translate"}}

local owner = {lr = "optim", items_lr = "optim", weight_decay = "optim", clip = "optim",
               momentum = "optim", epsilon = "gradient", k = "gradient", samples = "gradient",
               tail = "gradient", head = "gradient", translate = "reward"}

function knobs.is(name) return owner[name] ~= nil end

-- The value of a knob; nil if the part that has it in other trainers does not have it in this one.
function knobs.get(t, name)
  local part = t[owner[name]]
  if owner[name] == "gradient" then return part[name] end
  local has, value = pcall(function() return part[name] end) -- momentum of adam: no such field
  return has and value or nil
end

-- Sets a knob and returns its value before. Raises if it is not there or the value cannot be.
function knobs.set(t, name, value)
  local before = knobs.get(t, name)
  if before == nil then
    define.fail("this run has no %s to change: %s", name, t[owner[name]]:describe())
  end
  if type(value) ~= "number" then
    define.fail("%s must be a number, not %s", name, define.shown(value))
  end
  if owner[name] == "gradient" then
    t.gradient:set{[name] = value}
  else
    t[owner[name]][name] = value
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
