-- Where the time of a step goes on this machine's GPU: for each method the times of its work by
-- name (FOPO_GPU_PROFILE, src/device/cuda/profile.cu) and the seconds of a step without them.
--
--   FOPO_GPU_PROFILE=FILE ./fopo scripts/bench/gpu_profile.lua [name=value ...]
--
-- Options (defaults):
--   scale=1          multiplies P = 790,000
--   dims=100         L
--   batches=32,1024
--   steps=200        of each profile
--   methods=         the numbers of some in gpu_methods.lua, in this order, as 3,1; else all
--   only=0           the number of one method, by which the script calls itself: a device leaves
--                    its table when its process ends
-- Cost: about two minutes. Quick: scale=0.01 steps=10
local fopo = require "fopo"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. here .. "../studies/?.lua;" .. here .. "../tools/?.lua;"
               .. package.path
local bench = require "bench"
local methods = require "gpu_methods"
local script = require "script"
local world = require "world"

bench.options = script.options({scale = 1, dims = {100}, batches = {32, 1024}, steps = 200,
                                methods = {}, only = 0, data = "made"}, {scale = 0.01, steps = 10})
bench.fopo = arg[-1]
local o, file = bench.options, os.getenv("FOPO_GPU_PROFILE")
if not file then script.misuse("FOPO_GPU_PROFILE names no file") end
local card = script.card()

local function say(...)
  local f <close> = assert(io.open(file, "a"))
  f:write(string.format(...), "\n")
end

local P = bench.scaled(790000)
local path = bench.folder .. "/items-profile-%d.npy"

-- The steps of one method, in a process of its own.
local function child(L, B)
  local items = fopo.array.load(path:format(L))
  local method = methods.of(items, 1000)[o.only]
  say("\n## %s, L = %d, batch %d", method[1], L, B)
  local trainer = world.trainer(world.sessions(P), items, method[2], method.rows, "cuda", B)
  local steps = method.kept and 2 * trainer.steps_per_epoch or o.steps -- half of them search
  local seconds = bench.time(function()
    trainer:run{steps = steps, every = steps, view = false}
  end)
  say("%d steps in %.3f s, %.1f us each under the profile", steps, seconds, 1e6 * seconds / steps)
end

if o.only > 0 then
  child(o.dims[1], o.batches[1])
  return
end
print(card.name)
bench.run("mkdir -p " .. bench.folder)
for _, L in ipairs(o.dims) do
  world.items(P, L):save(path:format(L))
  local all = {}
  for i = 1, #methods.of(fopo.array.load(path:format(L)), 1000) do all[i] = i end
  for _, only in ipairs(o.methods[1] and o.methods or all) do
    for _, B in ipairs(o.batches) do
      bench.run(("%s %s only=%d scale=%g dims=%d batches=%d steps=%d"):format(bench.fopo, arg[0],
        only, o.scale, L, B, o.steps))
    end
  end
  bench.forget(path:format(L))
end
