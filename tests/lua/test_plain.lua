-- Control characters in names of files, in cells and in strings never reach the terminal.
local lu = require "luaunit"
local fopo = require "fopo"
local text = require "fopo.base.text"

TestPlain = {}

local evil = "a\27[2J\27]0;title\7b\127\8c\194\155d"

local function check(shown)
  lu.assertNil(shown:find("[\0-\8\11-\31\127]"), shown)
  lu.assertNil(shown:find("\194[\128-\159]"), shown)
  return shown
end

function TestPlain:test_text()
  lu.assertEquals(text.plain("tab\t, line\nend, é, 日本"), "tab\t, line\nend, é, 日本")
  lu.assertEquals(text.plain("\27[1m\0\194\133"), "\\x1b[1m\\x00\\x85")
end

function TestPlain:test_values_at_the_prompt()
  lu.assertStrContains(check(fopo.show(evil)), "\\x1b[2J")
  lu.assertStrContains(check(fopo.show{evil, [evil] = 1}), "[2J")
end

function TestPlain:test_messages()
  for _, f in ipairs{function() fopo.data.read(evil) end, function() fopo.array.load(evil) end,
                     function() fopo.data.synthetic{[evil] = 1} end,
                     function() return fopo.index[evil] end} do
    local ok, why = pcall(f)
    if not ok then why = fopo.show(why) end
    check(why or "")
  end
  local ok, why = pcall(fopo.data.read, evil)
  lu.assertFalse(ok)
  lu.assertStrContains(check(why), "\\x1b[2J") -- C's sentences are plain wherever they go
end

os.exit(lu.LuaUnit.run())
