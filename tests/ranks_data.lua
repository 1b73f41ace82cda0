-- What a rank holds of data that are shared out, and takes at most while it works: split,
-- embeddings, contexts to train on. For test_ranks.py.
--   mpirun -n 2 fopo tests/ranks_data.lua [users]
-- Prints one line a rank: "split held 1234 peak 2345 sent 345 svd held ...", in bytes that C has
-- allocated, and that this rank has given to others (fopo.ranks).
local fopo = require "fopo"
local native = require "fopo.native"
local users = math.tointeger(tonumber(arg[1])) or 20000
local line = {}

local function clean()
  collectgarbage()
  collectgarbage()
end

-- f(), and what it has left, taken at most and sent.
local function measured(name, f)
  clean()
  native.memory_mark()
  local before, sent = native.memory().bytes, fopo.ranks().bytes
  local results = table.pack(f())
  clean()
  local after = native.memory()
  line[#line + 1] = ("%s held %d peak %d sent %d"):format(
    name, after.bytes - before, after.peak - before, fopo.ranks().bytes - sent)
  return table.unpack(results, 1, results.n)
end

local d = fopo.data.synthetic{users = users, items = 10000, mean_items = 40, seed = 2}
d = measured("dataset", function()
  local own = d:share()
  d = nil
  return own
end)
local s = measured("split", function() return d:sessions{split = "last", min_items = 5} end)
local items = measured("svd", function()
  return (fopo.embed.svd(s.train, {dim = 16, shard = true, power_iterations = 1}))
end)
local pi = fopo.policy.linear{items = items}
local shared = measured("share", function() return s.train:share(pi) end)
measured("valid", function() return s.valid:gather(1000) end)
io.stdout:write(("%d %d %s\n"):format(shared.n, d.nnz, table.concat(line, " ")))
