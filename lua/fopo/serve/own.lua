-- Makes a policy of the user's functions, fopo.policy.custom: of declared options, or of a file's.
local native = require "fopo.native"
local called = require "fopo.base.called"
local define = require "fopo.base.define"

-- The parameters are copied, and stand in theta in the order of their names.
return function(o)
  local given, names = {}, {}
  for name, value in pairs(o) do given[name] = value end
  given.parameters = {}
  for name, value in pairs(o.parameters) do
    if type(name) ~= "string" or define.kind(value) ~= "array" then
      define.fail("fopo.policy.custom: parameters are arrays by name, as {W = fopo.array.eye(4)}, "
                  .. "not %s for %s", define.kind(value), tostring(name))
    end
    names[#names + 1], given.parameters[name] = name, value:copy()
  end
  table.sort(names)
  given.names = names
  given.queries = called("queries of policy.custom", o.queries, {"x", "p"})
  given.backward = called("backward of policy.custom", o.backward, {"x", "V", "p"})
  return native.policy_custom(given)
end
