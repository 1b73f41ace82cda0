-- A catalogue of 4 x 2 million items of 32 numbers over the ranks: for make test-ranks.
--   mpirun -n 4 fopo tests/ranks_large.lua ITEMS.npy
-- A line from each rank: MB that the items take and the most of all, ms a step and what a step
-- gives in bytes and calls, |theta| at the end, the best items of a few contexts.
local fopo = require "fopo"
local path, whole = arg[1], arg[2] == "whole"

local function memory(what)
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^" .. what .. ":%s+(%d+)")
    if kb then return tonumber(kb) / 1024 end
  end
end

local before = memory("VmRSS")
local items = whole and fopo.array.load(path) or fopo.shard(path)
local held = memory("VmRSS") - before
-- Users take items of large norm, as popular ones have: those that a policy puts first.
local N = 2000
local teacher = fopo.policy.linear{items = items, theta = "identity"}
local index = fopo.index.norm(items)
local taken = teacher:best(fopo.array.randn(N, items.cols, 5), {index = index, k = 8})
local name = ("%s.%d.mtx"):format(os.tmpname(), fopo.ranks().rank)
local f = io.open(name, "w")
-- As many users as a file needs that is believed to have so many items (data/pairs.h).
local users = math.max(N, (items.rows - (1 << 24)) // (16 * 8) + 1)
f:write(("%%%%MatrixMarket matrix coordinate pattern general\n%d %d %d\n"):format(users, items.rows,
                                                                               8 * users))
for n = 1, N do
  for k = 1, 8 do f:write(n, " ", taken:get(n, k), "\n") end
end
for n = N + 1, users do
  for k = 1, 8 do f:write(n, " ", (n * 7919 + k * 104729) % items.rows + 1, "\n") end
end
f:close()
local s = fopo.data.read(name):sessions{min_items = 4, valid = 0, test = 0, seed = 1}
os.remove(name)
local x = fopo.array.randn(s.train.n, items.cols, 6)
local pi = fopo.policy.linear{items = items, theta = "identity", temperature = 4}
local t = fopo.trainer{policy = pi, data = s.train, contexts = x, batch = 32, seed = 7,
                       gradient = fopo.gradient.head_tail{head = 2048, tail = 64},
                       optim = fopo.optim.sgd{lr = 1e-3}, valid = false}
t:run{steps = 20, view = false}
local first, began = fopo.ranks(), fopo.clock()
t:run{steps = 200, every = 200, view = false}
local seconds, last = fopo.clock() - began, fopo.ranks()
local ids = pi:best(x:rows_of{1, 2, 3, 4}, {index = index, k = 3})
local best = {}
for i = 1, 4 do for j = 1, 3 do best[#best + 1] = ids:get(i, j) end end
local line = "rank %d held %.0f peak %.0f ms %.3f bytes %.0f calls %.2f waiting %.3f "
  .. "theta %.9g best %s\n"
io.write(line:format(last.rank, held, memory("VmHWM"), seconds / 200 * 1e3,
  (last.bytes - first.bytes) / 200, (last.calls - first.calls) / 200,
  (last.seconds - first.seconds) / 200 * 1e3, pi:theta():norm(), table.concat(best, ",")))
