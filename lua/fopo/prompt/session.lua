-- What an entry at the prompt may be that is not Lua: "!command" of the shell, and ":save PATH",
-- which writes the entries that worked as a script.
local define = require "fopo.base.define"
local native = require "fopo.native"
local text = require "fopo.base.text"

local session = {}
local entries = {} -- in the order in which they were entered

function session.worked(entry)
  if entry and not entry:find("^%s*[?!:]") and not entry:find("%?%s*$") then
    entries[#entries + 1] = entry
  end
end

-- Begins the scripts: at the prompt fopo's modules are globals.
local HEAD = [[
-- A session at fopo's prompt, of %s. To run it again: fopo %s
for name, value in pairs(require "fopo") do
  if _G[name] == nil then _G[name] = value end
end
]]

local function is_value(code) return load("return " .. code, "=") ~= nil end

-- The part of an entry before the value that it ends with, and that; the entry if it has none.
local function parts(entry)
  if is_value(entry) then return "", entry end
  for i = #entry, 1, -1 do
    local head, tail = entry:sub(1, i), entry:sub(i + 1)
    if entry:find("^[;\n]", i) and tail:find("%S") and is_value(tail) and load(head, "=") then
      return head, tail
    end
  end
  return entry
end

-- The entry as statements. At the prompt a value prints itself, earlier ones are _, _1 and _2
-- (named: some entry uses them), and a local ends with its entry.
local function statements(entry, named)
  local head, value = parts(entry)
  if value then
    local silent = value:find(";%s*$")
    value = value:match("^%s*(.-)[%s;]*$")
    if named then
      value = ("_2, _1, _ = _1, _, %s%s"):format(value, silent and "" or "; print(_)")
    elseif not silent then
      value = ("print(%s)"):format(value)
    elseif not load(value, "=") then
      value = "_ = " .. value
    end
  end
  local code = head .. (value or "")
  return code:find("%f[%w_]local%f[^%w_]") and "do " .. code .. " end" or code
end

local function save(path)
  if path == "" then
    define.fail(":save needs a name: :save session.lua writes the entries that worked")
  end
  if #entries == 0 then define.fail("there is no entry to save yet") end
  local lines = {HEAD:format(os.date("%Y-%m-%d"), path)}
  local named = table.concat(entries, "\n"):find("%f[%w_]_[12]?%f[^%w_]")
  for _, entry in ipairs(entries) do lines[#lines + 1] = statements(entry, named) .. "\n" end
  local written, why = native.write_file(path, table.concat(lines))
  if not written then define.fail("%s", why) end
  print(("%s: %s %s"):format(path, text.count(#entries), #entries == 1 and "entry" or "entries"))
end

function session.command(line)
  local word, rest = line:match("^(%S*)%s*(.-)%s*$")
  if word ~= "save" then
    define.fail("\":%s\" is no command of the prompt; there is \":save PATH\"", word)
  end
  save(rest)
end

function session.shell(command)
  if not command:find("%S") then
    define.fail("a command of the shell goes behind \"!\": !ls")
  end
  local _, how, n = os.execute(command)
  if how ~= "exit" and how ~= "signal" then define.fail("no command can be started: %s", how) end
  if n ~= 0 then print(("(%s %d)"):format(how == "exit" and "status" or how, n)) end
end

return session
