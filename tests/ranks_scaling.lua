-- Scaling of steps, and of the SVD. For make test-ranks and tests/ranks_scaling.py.
--   mpirun -n 2 fopo tests/ranks_scaling.lua contexts | items | fixed | svd
-- Weak, the work of each rank is the same for any number of ranks: contexts, each rank has all
-- items and 64 contexts of the batch; items, each rank has 200,000 items and 4,096 of the head, of
-- a batch of 64. Strong, the work of all is the same: fixed, the items of four such ranks; svd, of
-- 2 million interactions. Prints ms a step (svd: in all), MB of the items here, and what a step
-- gives: bytes, calls, messages.
local fopo = require "fopo"
local how, ranks = arg[1], fopo.ranks().size
local function say(seconds, first, n)
  local last = fopo.ranks()
  print(("ms %.4f waiting %.4f bytes %.0f calls %.2f messages %.2f"):format(seconds / n * 1e3,
    (last.seconds - first.seconds) / n * 1e3, (last.bytes - first.bytes) / n,
    (last.calls - first.calls) / n, (last.messages - first.messages) / n))
end

if how == "svd" then
  local d = fopo.data.synthetic{users = 50000, items = 20000, mean_items = 40, seed = 2}:share()
  local s = d:sessions{min_items = 5}
  local first, began = fopo.ranks(), fopo.clock()
  fopo.embed.svd(s.train, {dim = 54, shard = true})
  return say(fopo.clock() - began, first, 1)
end

local L, N, each = 64, 2048, 200000
local function memory()
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^VmRSS:%s+(%d+)")
    if kb then return tonumber(kb) / 1024 end
  end
end

local dealt = how == "fixed" and 4 or how == "items" and ranks -- ranks' worth of items
local P = each * (dealt or 1)
local items
if dealt then
  local path = os.tmpname() .. ".npy" -- each rank reads its range of the file
  fopo.array.randn(P, L, 1):scale(0.05):save(path)
  collectgarbage()
  collectgarbage()
  local before = memory()
  items = fopo.shard(path)
  io.stderr:write(("held %.1f MB\n"):format(memory() - before))
  os.remove(path)
else
  items = fopo.array.randn(P, L, 1):scale(0.05)
end
local name = os.tmpname()
local f = io.open(name, "w")
f:write(("%%%%MatrixMarket matrix coordinate pattern general\n%d %d %d\n"):format(N, P, 8 * N))
for n = 1, N do
  for k = 1, 8 do f:write(n, " ", (n * 7919 + k * 104729) % P + 1, "\n") end
end
f:close()
local s = fopo.data.read(name, {format = "mtx"}):sessions{min_items = 4, valid = 0, test = 0,
                                                         seed = 1}
os.remove(name)
local pi = fopo.policy.linear{items = items, theta = "identity"}
local t = fopo.trainer{policy = pi, data = s.train, valid = false, seed = 7,
  contexts = fopo.array.randn(s.train.n, L, 6), batch = dealt and 64 or 64 * ranks,
  gradient = fopo.gradient.head_tail{head = 4096 * (dealt or 1), tail = 64},
  optim = fopo.optim.sgd{lr = 1e-3}}
t:run{steps = 20, view = false}
local first, began, n = fopo.ranks(), fopo.clock(), 100
t:run{steps = n, every = n, view = false}
say(fopo.clock() - began, first, n)
