-- fopo.who: the variables of the session.
local define = require "fopo.base.define"
local show = require "fopo.show"
local term = require "fopo.term"
local text = require "fopo.base.text"

-- Lua's own globals, and those that were there before fopo was loaded.
local before = {_ = true, arg = true}
for name in next, _G do before[name] = true end

-- The names of the globals that the user has made.
local function names()
  local fopo, list = require "fopo", {}
  for name, v in next, _G do
    local ours = rawequal(v, fopo) or rawequal(v, rawget(fopo, name))
    if type(name) == "string" and not before[name] and not ours then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

-- What a value is, on one line, without its kind.
local function about(v, kind)
  if type(v) == "string" then return text.line(("%q"):format(v):gsub("\\\n", "\\n"), 1000) end
  local line = show(v, {depth = 2, width = 1000}):match("^[^\n]*")
  return line:sub(1, #kind + 1) == kind .. " " and line:sub(#kind + 2) or line
end

return define.fn{
  name = "fopo.who", args = {},
  text = [[Lists the variables of the session: the name, the kind and one line on each. What is
Lua's own or fopo's is left out.]],
  example = "fopo.who()",
  call = function()
    local list, kinds, wide, wide_kind = names(), {}, 0, 0
    for i, name in ipairs(list) do
      kinds[i] = define.kind(rawget(_G, name))
      wide, wide_kind = math.max(wide, #name), math.max(wide_kind, #kinds[i])
    end
    for i, name in ipairs(list) do
      local head = text.pad(name, wide) .. "  " .. text.pad(kinds[i], wide_kind) .. "  "
      local room = math.max(20, math.min(100, term.width()) - text.width(head))
      print(head .. text.cut(about(rawget(_G, name), kinds[i]), room))
    end
    if #list == 0 then print("no variables yet: x = 1 makes one") end
  end,
}
