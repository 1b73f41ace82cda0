-- What items are worth, as users give it: an array or a list with one number for each item.
local native = require "fopo.native"
local define = require "fopo.base.define"

local values = {}

-- The array of `value`, or what else it is; `name` is the function whose option it is.
function values.of(name, value)
  if type(value) ~= "table" then return value end
  for i, one in ipairs(value) do
    if type(one) ~= "number" then
      define.fail("%s: value %d of the list is %s; give one number for each item", name, i,
                  define.shown(one))
    end
  end
  if #value == 0 then
    define.fail("%s: value is an empty list; give one number for each item", name)
  end
  return native.array_from(value)
end

return values
