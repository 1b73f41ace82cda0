-- What pieces of work say that they need, and what they take, for tests/memory.py.
--
--   fopo estimates.lua names
--   fopo estimates.lua NAME SCALE FOLDER     prints bytes foreseen, bytes counted by fopo, and
--                                            bytes of the process, all beyond what was there before
local fopo = require "fopo"
local native = require "fopo.native"
local scale, folder = tonumber(arg[2]) or 1, arg[3]

local function n(size) return math.floor(size * scale) end

local function world(o)
  o = o or {}
  return fopo.data.synthetic{users = n(o.users or 60000), items = n(o.items or 40000), clusters = 8,
                             mean_items = o.mean or 20, seed = 1}
end

-- A file of `rows` lines, made by format(i).
local function file(name, head, rows, format)
  local path = folder .. "/" .. name
  local f <close> = assert(io.open(path, "w"))
  f:write(head)
  for i = 1, rows do f:write(format(i)) end
  return path
end

local function pair(separator)
  return function(i)
    return ("%d%s%d\n"):format(i * 7919 % n(50000) + 1, separator, i * 104729 % n(30000) + 1)
  end
end

-- Each prepares, and returns the work that is measured.
local work = {
  array = function() return function() return fopo.array.zeros(n(400000), 64) end end,
  array_load = function()
    local path = folder .. "/a.npy"
    fopo.array.randn(n(200000), 64, 1):save(path)
    return function() return fopo.array.load(path) end
  end,
  synthetic = function() return function() return world{users = 200000, mean = 40} end end,
  synthetic_logs = function()
    return function()
      return fopo.data.synthetic_logs{n = n(1000000), actions = 200, dim = 16, seed = 1}
    end
  end,
  sessions = function()
    local d = world{users = 100000, mean = 40}
    return function() return d:sessions{min_items = 10} end
  end,
  contexts = function()
    local d = world{users = 200000, mean = 10}
    local s, items = d:sessions{min_items = 4}, fopo.array.randn(d.n_items, 160, 1)
    return function() return s.train:contexts(items) end
  end,
  svd = function()
    local s = world{mean = 20}:sessions{min_items = 5}
    return function() return fopo.embed.svd(s.train, {dim = 150, power_iterations = 1}) end
  end,
  svd_of_many_interactions = function()
    local s = world{users = 150000, items = 5000, mean = 60}:sessions{min_items = 5}
    return function() return fopo.embed.svd(s.train, {dim = 30, power_iterations = 1}) end
  end,
  graph = function()
    local items = fopo.array.randn(n(60000), 4, 1)
    return function() return fopo.index.hnsw(items, {M = 32, ef_construction = 40}) end
  end,
  ease = function()
    local s = world{users = 20000, items = 5000, mean = 20}:sessions{min_items = 5}
    return function() return fopo.baseline.ease{data = s.train, l2 = 100} end
  end,
  ease_by_users = function()
    local s = world{users = 6000, items = 20000, mean = 20}:sessions{min_items = 5}
    return function() return fopo.baseline.ease{data = s.train, l2 = 100, top = 100} end
  end,
  slim = function()
    local s = world{users = 30000, items = 20000, mean = 20}:sessions{min_items = 5}
    return function() return fopo.baseline.slim{data = s.train, l2 = 100} end
  end,
  item_knn = function()
    local s = world{users = 30000, items = 60000, mean = 8}:sessions{min_items = 4}
    return function() return fopo.baseline.item_knn{data = s.train, neighbours = 200} end
  end,
  als = function()
    local s = world{users = 60000, items = 60000, mean = 8}:sessions{min_items = 4}
    return function() return fopo.baseline.als{data = s.train, dim = 64, iterations = 1} end
  end,
  reward_model = function()
    local logs = fopo.data.synthetic_logs{n = n(5000), actions = 40, dim = 300, seed = 1}
    return function() return fopo.reward.doubly_robust{logs = logs, dim = 30} end
  end,
  reward_model_of_45 = function()
    local logs = fopo.data.synthetic_logs{n = n(5000), actions = 40, dim = 300, seed = 1}
    return function() return fopo.reward.doubly_robust{logs = logs, dim = 45} end
  end,
  bfloat16 = function()
    local items = fopo.array.randn(n(400000), 64, 1)
    return function() return fopo.policy.linear{items = items, rows = "bfloat16"} end
  end,
  pairs = function()
    local path = file("pairs.csv", "user,item\n", n(3000000), pair(","))
    return function() return fopo.data.read(path) end
  end,
  values = function()
    local path = file("values.csv", "user,item,value\n", n(2000000), function(i)
      return ("%d,%d,%d\n"):format(i * 7919 % n(50000) + 1, i * 104729 % n(30000) + 1, i % 5 + 1)
    end)
    return function() return fopo.data.read(path) end
  end,
  mtx = function()
    local head = ("%%%%MatrixMarket matrix coordinate pattern general\n%d %d %d\n"):format(
      n(50000), n(30000), n(3000000))
    local path = file("a.mtx", head, n(3000000), pair(" "))
    return function() return fopo.data.read(path) end
  end,
  lists = function()
    local path = file("lists.txt", "", n(100000), function(i)
      local line = {}
      for k = 1, 30 do line[k] = (i * 31 + k * 977) % n(30000) end
      return table.concat(line, " ") .. "\n"
    end)
    return function() return fopo.data.read(path, {format = "baskets"}) end
  end,
  npz = function()
    local path = folder .. "/d.npz"
    world{users = 150000, mean = 40}:save(path)
    return function() return fopo.data.read(path) end
  end,
  items_learnt = function()
    local d = world{users = 20000, items = 200000, mean = 10}
    local s, items = d:sessions{min_items = 4}, fopo.array.randn(d.n_items, 64, 1)
    return function()
      local t = fopo.trainer{data = s.train, valid = false, gradient = fopo.gradient.snis{},
        policy = fopo.policy.linear{items = items, train_items = true}}
      t:run{steps = 1, view = false}
      return t
    end
  end,
  candidates = function()
    local d = world{users = 150000, items = 20000, mean = 10}
    local s, items = d:sessions{min_items = 4}, fopo.array.randn(d.n_items, 8, 1)
    local index = fopo.index.norm(items)
    return function()
      local t = fopo.trainer{data = s.train, valid = false, gradient = fopo.gradient.snis{
        proposal = fopo.proposal.mixture{index = index, k = 200, refresh = 3}},
        policy = fopo.policy.linear{items = items}}
      t:run{steps = 1, view = false}
      return t
    end
  end,
}

-- A number of kB in /proc/self/status.
local function status(name)
  local f <close> = assert(io.open("/proc/self/status"))
  return tonumber(f:read("a"):match(name .. ":%s*(%d+)")) * 1024
end

if arg[1] == "names" then
  for name in pairs(work) do print(name) end
  return
end
local run = work[arg[1]]()
collectgarbage()
collectgarbage()
local clear = io.open("/proc/self/clear_refs", "w") -- the process's peak begins anew
if clear then
  clear:write("5")
  clear:close()
end
local bytes, resident = native.memory().bytes, status "VmRSS"
native.memory_mark()
local result = run()
local use = native.memory()
print(use.foreseen - bytes, use.peak - bytes, status "VmHWM" - resident, result ~= nil)
