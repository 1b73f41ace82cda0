-- Section peers: what is done around training, against the programs that others use for it. Each is
-- measured by the CPU time of one thread, which other work on the machine disturbs less, with the
-- memory that its peak takes beside what was there before. A program of Python is a process of its
-- own in each round, and its imports and what it reads before are not measured.
local fopo = require "fopo"
local bench = require "bench"
local native = require "fopo.native"
local world = require "world"
local peers = {}
local ALS = {{dim = 64, target = 1.5}, {dim = 256, target = 1.5}}
local TEN, L2, ALPHA, K = 10, 10, 10, 20

-- A world in `folder`: its sessions, items and a policy.
local function world_of(folder, users, items)
  local d = fopo.data.synthetic{users = bench.scaled(users), items = bench.scaled(items),
                                clusters = 100, mean_items = 60, seed = 1}
  local s = d:sessions{min_items = 10, valid = 0, test = 0.1, seed = 1}
  local w = {folder = folder, d = d, s = s, items = fopo.embed.svd(s.train, {dim = 64})}
  w.policy = fopo.policy.linear{items = w.items, data = s.train, temperature = 1,
                                contexts = "mean"}
  bench.run("mkdir -p " .. folder)
  for name, part in pairs{train = s.train, test = s.test} do
    for _, which in ipairs{"x", "y"} do
      world.export_lists(("%s/%s_%s"):format(folder, name, which), part, which, part.n)
    end
  end
  w.items:save(folder .. "/items.npy")
  w.policy:theta():save(folder .. "/theta.npy")
  bench.note("%d training users, %d items, %d interactions", s.train.n, w.items.rows, d.nnz)
  return w
end

-- One row of time, and one of memory. f(): ours. words: the case of peers_baseline.py. Returns the
-- last numbers of both.
local function row(w, what, against, words, f, target)
  local mine, theirs, ours, numbers = {}, {}, nil, nil
  local command = ("%s %s"):format(bench.script("peers_baseline.py"),
                                      (words:gsub("^(%S+)", "%1 " .. w.folder)))
  local absent
  local s = bench.in_turn({{"mine", function(warm)
    if absent then return 0 end
    collectgarbage()
    collectgarbage()
    native.memory_mark()
    local before, start = fopo.memory().bytes, os.clock()
    ours = f()
    local seconds = os.clock() - start
    if not warm then mine[#mine + 1] = (fopo.memory().peak - before) / 1e9 end
    return seconds
  end}, {"peer", function(warm)
    if absent then return 0 end
    local values = bench.values_of(command)
    if values[1] == "absent" then absent = values[2] return 0 end
    numbers = values
    if not warm then theirs[#theirs + 1] = values[2] end
    return values[1]
  end}}, bench.options.limit / 2)
  if absent then return bench.absent(against, absent) end
  bench.row{what = what, unit = "s", mine = s.mine, against = against, other = s.peer,
            faster = true, target = target}
  bench.row{what = what .. ": memory", unit = "GB", mine = mine, against = against,
            other = theirs}
  return ours, numbers
end

local function als(w)
  local path = w.folder .. "/factors.npy"
  for _, o in ipairs(ALS) do
    local function learn()
      local b = fopo.baseline.als{data = w.s.train, dim = o.dim, iterations = TEN, l2 = L2,
                                  alpha = ALPHA}
      b:items():save(path)
    end
    local _, numbers = row(w, ("als, %d factors, %d iterations"):format(o.dim, TEN), "implicit",
                           ("als %d %d %g %g %s"):format(o.dim, TEN, L2, ALPHA, path), learn,
                           o.target)
    if numbers then
      bench.note("%d factors: recall@20 %.4f, implicit's %.4f, users solved for by NumPy", o.dim,
                 numbers[4], numbers[3])
    end
  end
end

local function all()
  local w = world_of(bench.folder .. "/peers", 18000, 10000)
  als(w)
  row(w, "item_knn, 200 neighbours", "implicit", "item_knn 200", function()
    return fopo.baseline.item_knn{data = w.s.train, neighbours = 200}
  end, 1)
  row(w, "embed.svd, 64 dimensions", "scikit-learn", "svd 64", function()
    return fopo.embed.svd(w.s.train, {dim = 64, power_iterations = 2})
  end, 1)
  w = world_of(bench.folder .. "/peers", 18000, 100000)
  local csv, lists = w.folder .. "/users.csv", w.folder .. "/mine.csv"
  local kept = w.folder .. "/mine.npz"
  do
    local f <close> = assert(io.open(csv, "w"))
    f:write("user,item\n")
    for u = 1, w.s.train.n do
      for _, which in ipairs{"x", "y"} do
        local ids = w.s.train[which](w.s.train, u)
        for j = 1, ids.cols do f:write(u, ",", ids:get(1, j), "\n") end
      end
    end
  end
  row(w, "recommend_file", "implicit, and a CSV of its lists", "recommend " .. K, function()
    return w.policy:recommend_file(csv, lists, {n = K, quiet = true})
  end, 1)
  local e, numbers = row(w, "evaluate, seen items left out", "torch", "evaluate " .. K, function()
    return fopo.evaluate(w.policy, w.s.test, {k = K, exclude = "seen", expected = false})
  end, 1)
  if numbers then bench.note("recall@%d %.4f, torch's %.4f", K, e.recall[K], numbers[3]) end
  row(w, "policy:save", "np.savez", "save", function() w.policy:save(kept) end, 1)
  row(w, "policy.load", "np.load", "load", function() return fopo.policy.load(kept) end, 1)
  bench.run("rm -r " .. w.folder)
end

function peers.peers() bench.with_threads(1, all) end

return peers
