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
  local fd, holder = native.lock(path)
  if fd == false then
    define.fail("%s is in use by another run, of %s; %s", what, holder, remedy)
  end
  return setmetatable({fd = fd, path = path}, lock)
end

function lock:release()
  if self.fd then native.unlock(self.fd, self.path) end
  self.fd = nil
end

return lock
