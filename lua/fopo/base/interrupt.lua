-- Ctrl-C as the end of a piece of work.
local native = require "fopo.native"

local interrupt = {}

-- Whether an error is that of a Ctrl-C.
function interrupt.is(why) return tostring(why):find("interrupted", 1, true) ~= nil end

-- Does the work, then calls `after` if it is given. A Ctrl-C ends the work and is over then.
-- Returns whether there was one.
function interrupt.ended(work, after)
  local function inner()
    -- a C function, because a Lua function would be interrupted itself
    local _ <close> = setmetatable({}, {__close = native.interrupt_clear})
    work()
  end
  local ok, why = pcall(inner)
  if after then after() end
  if not ok and not interrupt.is(why) then error(why, 0) end
  return not ok
end

return interrupt
