-- Locks on what a run writes to again and again: the folder of its log, and its checkpoint. Two
-- runs that share one would mix their records, or write over each other's state. The lock ends with
-- the process, however that ends (src/core/lock.h).
local native = require "fopo.native"
local define = require "fopo.base.define"

local lock = {}
lock.__index = lock

-- Takes the lock `path`; raises if another run holds it. what: what is locked, for the sentence.
-- Where no lock can be made, writing itself will say why.
function lock.take(path, what, remedy)
  local l, holder = setmetatable({fd = false, path = path}, lock), nil
  l.fd = native.lock(path)
  if l.fd == false then
    collectgarbage() -- a run of this process that failed as it began may hold it still
    l.fd, holder = native.lock(path)
  end
  if l.fd == false then
    define.fail("%s is in use by another run, of %s; %s", what, holder, remedy)
  end
  return l
end

function lock:release()
  if self.fd then native.unlock(self.fd, self.path) end
  self.fd = false
end

lock.__gc = lock.release

return lock
