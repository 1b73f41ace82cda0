-- Trains for a few steps over items from a file and prints the peak of this process in GB.
--
--   ./fopo scripts/bench/memory_child.lua items.npy uniform|mixture|reinforce P  (by memory.lua)
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)")
package.path = here .. "?.lua;" .. here .. "../tools/?.lua;" .. package.path
local script = require "script"
local world = require "world"
local path, method, P = arg[1], arg[2], math.tointeger(tonumber(arg[3]))

local items = fopo.array.load(path)
local sessions = fopo.data.synthetic{users = 4000, items = P, clusters = math.min(200, P // 10),
                                     seed = 1}:sessions{min_items = 20}.train
local gradient
if method == "reinforce" then
  gradient = fopo.gradient.reinforce{samples = 1000, baseline = "mean"}
elseif method == "mixture" then
  gradient = script.mixture(fopo.index.norm(items))
else
  gradient = fopo.gradient.snis{samples = 1000}
end
local trainer = world.trainer(sessions, items, gradient)
trainer:run{steps = 3, view = false}

local f <close> = assert(io.open("/proc/self/status"))
local kilobytes = tonumber(f:read("a"):match("VmHWM:%s+(%d+)"))
print(("%.6f"):format(kilobytes * 1024 / 1e9))
