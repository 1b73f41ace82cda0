-- Section memory: the peak memory of training in a separate process, against the bytes of the
-- items.
local bench = require "bench"
local memory = {}

local function peak(P, method, items_path)
  return bench.values_of(("FOPO_THREADS=%d %s %s %s %s %d"):format(
    bench.options.threads, bench.fopo, bench.path("memory_child.lua"), items_path, method, P))[1]
end

function memory.memory()
  local P = bench.scaled(790000)
  local path = bench.items_file(P, 1000)
  local bytes = P * 1000 * 4 / 1e9
  for _, method in ipairs{"uniform", "mixture", "reinforce"} do
    bench.row{what = ("%s, %d x 1000, peak"):format(method, P), unit = "GB",
              mine = {peak(P, method, path)}, against = "the items", other = {bytes},
              target = 1.15}
  end
  bench.forget(path)
  P = bench.scaled(2330000)
  path = bench.items_file(P, 100)
  bench.row{what = ("mixture, %d x 100, peak"):format(P), unit = "GB",
            mine = {peak(P, "mixture", path)}, against = "4 GB", other = {4}, target = 1}
  bench.row{what = ("mixture, %d x 100, peak"):format(P), unit = "GB",
            mine = {bench.rows[#bench.rows].median}, against = "the items", other = {P * 400 / 1e9}}
  bench.forget(path)
end

return memory
