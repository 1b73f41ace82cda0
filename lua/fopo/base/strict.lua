-- fopo.strict: the use of a global that was never assigned is an error, and so is the use of a
-- field that a module of fopo's does not have.
local define = require "fopo.base.define"

local strict = {}

local names_in = define.names_in

-- Makes a module raise an error for a field that it does not have, read or assigned.
function strict.module(name, module)
  local meta = getmetatable(module) or {}
  if type(meta) ~= "table" or meta.__index then return module end
  meta.__index = function(t, key)
    if type(key) == "string" then define.no_field(name, key, names_in(t)) end
  end
  function meta.__newindex(t, key)
    define.fail("%s is a module of fopo's, and '%s' cannot be added to it%s; use a variable of "
                .. "your own", name, tostring(key),
                define.meant(key, names_in(t), " (did you mean '%s'?)"))
  end
  return setmetatable(module, meta)
end

local function undefined(_, name)
  define.fail("%s has no value%s (fopo.strict)", tostring(name), #tostring(name) > 2
              and define.meant(name, names_in(_G), "; did you mean '%s'?") or "")
end

-- A script or a line of the prompt may create a global; a function may not.
local function assign(t, name, value)
  local level = 2
  local info = debug.getinfo(level, "S")
  if info and info.what ~= "main" and info.what ~= "C" then
    define.fail("%s is not a global yet; write local, or assign it outside of functions "
                .. "(fopo.strict)", tostring(name))
  end
  rawset(t, name, value)
end

local own = {__index = undefined, __newindex = assign}

strict.set = define.fn{
  name = "fopo.strict", returns = "boolean",
  args = {{"on", "boolean", nil, "false: back to Lua's own rule", optional = true}},
  text = [[From now on the use of a global that was never assigned is an error that names the
nearest known one, and so is the creation of a global inside a function (a forgotten local).]],
  example = [[fopo.strict()
ok, why = pcall(function() return undefined_name end)
fopo.strict(false)
assert(not ok)]],
  call = function(on)
    local meta = getmetatable(_G)
    if meta and meta ~= own then define.fail("fopo.strict: _G has a metatable already") end
    setmetatable(_G, on ~= false and own or nil)
    return on ~= false
  end,
}

return strict
