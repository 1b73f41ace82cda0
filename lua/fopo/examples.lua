-- fopo.examples: the example of a function's help, shown or run. For a method without an example
-- the shortest one that calls it is shown.
local define = require "fopo.base.define"
local help = require "fopo.help"

-- The functions whose examples call the method, the shortest example first.
local function users_of(method)
  local pattern, list = ":" .. method .. "%f[^%w_]", {}
  for _, name in ipairs(define.order) do
    local example = define.entries[name].example
    if example and example:find(pattern) then list[#list + 1] = define.entries[name] end
  end
  table.sort(list, function(a, b)
    return #a.example < #b.example or #a.example == #b.example and a.name < b.name
  end)
  return list
end

-- The declaration whose example is shown for x, a function or a name.
local function entry_for(x)
  local entry = define.of[x] or type(x) == "string" and help.entry(x)
  if entry and entry.example then return entry end
  local name = entry and entry.name or type(x) == "string" and x or nil
  local method = name and name:match(":([%w_]+)$")
  local users = method and users_of(method) or {}
  if users[1] then return users[1] end
  define.fail("there is no example of %s%s; help\"all\" lists what there is", name or
              "this " .. define.kind(x), entry and "" or define.meant(name, define.order))
end

return define.fn{
  name = "fopo.examples", returns = "table",
  args = {{"x", "function|string|table", nil, "a function, or a name as in help"}},
  options = {{"run", "boolean", false, "run it too; its variables are returned"}},
  text = [[Prints the example of a function. With run = true it is also run, with its own global
variables, which are returned.]],
  example = [[fopo.examples("index.norm")
made = fopo.examples("index.norm", {run = true})
assert(made.items.rows == 1000)]],
  call = function(x, o)
    local entry = entry_for(x)
    print("-- " .. entry.name .. "\n" .. entry.example)
    if not o.run then return end
    local env = setmetatable({}, {__index = _G})
    if rawget(_G, "fopo") == nil then env.fopo = require "fopo" end
    local chunk = assert(load(entry.example, "=example of " .. entry.name, "t", env))
    chunk()
    return setmetatable(env, nil)
  end,
}
