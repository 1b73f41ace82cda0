-- Bigger than memory: made rows are read in parts, split, embedded and trained on; time and memory
-- of each stage.
--
--   ./fopo scripts/studies/large.lua [quick] [name=value ...]
--
-- Nothing but what reading in parts keeps in $TMPDIR lies on the disk: the rows come from a
-- program, of uniform users, and items popular by the cube of a uniform number. "peak" is of the
-- resident memory (VmHWM), the pages of the files in $TMPDIR, which the system takes back where
-- memory is short, among them; "counted" is the peak of what fopo has allocated, without these
-- pages.
--
-- Options (defaults):
--   rows=100000000 users=5000000 items=5000000 dim=32 steps=100
--   parts=8           0: the whole read
local fopo = require "fopo"
local native = require "fopo.native"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "../tools/?.lua;" .. package.path
local script = require "script"

local o = script.options({rows = 1e8, users = 5e6, items = 5e6, parts = 8, dim = 32, steps = 100},
                         {rows = 1e6, users = 5e4, items = 5e4})

local function gigabytes(field)
  local f <close> = assert(io.open("/proc/self/status"))
  return tonumber(f:read("a"):match(field .. ":%s+(%d+)")) * 1024 / 1e9
end

-- What f returns; prints a line of the table. Each stage has a peak of its own.
local function stage(name, f)
  collectgarbage()
  native.memory_mark()
  local reset <close> = assert(io.open("/proc/self/clear_refs", "w"))
  reset:write("5")
  reset:flush()
  local wall, cpu = fopo.clock(), os.clock()
  local result = f()
  print(("| %-8s | %6.0f | %6.0f | %5.2f | %5.2f | %5.2f |"):format(
    name, fopo.clock() - wall, os.clock() - cpu, gigabytes "VmHWM", gigabytes "RssFile",
    fopo.memory().peak / 1e9))
  io.stdout:flush()
  return result
end

local world = os.tmpname()
assert(os.execute(("gcc -O2 -fopenmp -o %s %s../bench/world.c -lm"):format(world, here)))
local made = ("%s pairs %d %d %d 1 /dev/stdout"):format(world, o.rows, o.users, o.items)

print("| stage    |      s |  CPU s |  peak | pages | counted |")
local d = stage("read", function()
  return fopo.data.read({command = made}, {parts = o.parts > 0 and o.parts or nil})
end)
os.remove(world)
local s = stage("sessions", function() return d:sessions{} end)
local items = stage("SVD", function() return fopo.embed.svd(s.train, {dim = o.dim}) end)
stage("training", function()
  local pi = fopo.policy.linear{items = items, data = s.train}
  fopo.trainer{policy = pi, data = s.train}:run{steps = o.steps, view = false}
end)
print(d:describe())
print(("%d sessions of train; fopo %s, kernels %s, %d threads"):format(
  s.train.n, fopo.version, (fopo.isa()), fopo.threads()))
