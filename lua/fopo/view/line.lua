-- The line of Lua of the live view: its editing, the lines entered before, and its result.
local show = require "fopo.show"

local line = {}
line.__index = line

local entered = {} -- lines that were entered, for Up

-- A closed line of the view v, whose `t` is that of the source.
function line.new(v, source) return setmetatable({v = v, source = source}, line) end

-- line.text: a list of characters, with `at`, those left of the cursor, and `up`, the place in
-- `entered`; nil while the line is closed.
function line:is_open() return self.text ~= nil end

function line:open()
  self.text = {at = 0, up = #entered + 1}
  self:show()
end

function line:show()
  local text = self.text
  self.v:set{command = text and table.concat(text) or "", cursor = text and text.at or -1}
end

-- ---- running it ----

local function shown(...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = show((select(i, ...))) end
  return table.concat(parts, "  ")
end

-- Runs the code and says its values, or what is wrong.
function line:enter(code)
  local v, source = self.v, self.source
  local env = setmetatable({t = source.t}, {__index = _G, __newindex = _G})
  local chunk, why = load("return " .. code, "=view", "t", env)
  if not chunk then chunk, why = load(code, "=view", "t", env) end
  v:say(": " .. code)
  if not chunk then return v:say(tostring(why)) end
  if source.note then source:note{what = "lua", value = code} end
  local function call()
    local results = table.pack(pcall(chunk))
    if not results[1] then return v:say(tostring(results[2])) end
    if results.n > 1 then v:say(shown(table.unpack(results, 2, results.n))) end
  end
  if source.watching then source:watching(call, code) else call() end
end

-- ---- editing it ----

local edits = {}
function edits.left(l) l.at = math.max(0, l.at - 1) end
function edits.right(l) l.at = math.min(#l, l.at + 1) end
function edits.home(l) l.at = 0 end
edits["end"] = function(l) l.at = #l end
function edits.backspace(l)
  if l.at > 0 then
    table.remove(l, l.at)
    l.at = l.at - 1
  end
end
function edits.delete(l) if l.at < #l then table.remove(l, l.at + 1) end end
edits["\1"], edits["\5"], edits["\4"] = edits.home, edits["end"], edits.delete
edits["\21"] = function(l) -- Ctrl-U
  for i = #l, 1, -1 do l[i] = nil end
  l.at = 0
end

-- Up and Down: recall the lines entered before.
local function recall(l, by)
  l.up = math.max(1, math.min(#entered + 1, l.up + by))
  edits["\21"](l)
  for _, code in utf8.codes(entered[l.up] or "", true) do l[#l + 1] = utf8.char(code) end
  l.at = #l
end
function edits.up(l) recall(l, -1) end
function edits.down(l) recall(l, 1) end

function line:press(key)
  local l = self.text
  if key == "\r" or key == "\n" then
    local code = table.concat(l)
    self.text = nil
    if code:find("%S") then
      entered[#entered + 1] = code
      self:enter(code)
    end
  elseif key == "\27" then
    self.text = nil
  elseif edits[key] then
    edits[key](l)
  elseif #key >= 1 and key:byte() >= 32 and utf8.len(key) == 1 and #l < 200 then
    l.at = l.at + 1
    table.insert(l, l.at, key)
  end
  self:show()
end

return line
