-- Every writer of files, for tests/kills.py: what each writes is one of two versions.
--
--   fopo writers.lua once NAME PATH VERSION    between the marks that tests/c/kill_at.c sees
--   fopo writers.lua serve                     lines "NAME PATH VERSION" on standard input; each is
--                                              answered by "ok", or by the sentence of the failure
--   fopo writers.lua names
local fopo = require "fopo"
local native = require "fopo.native"

-- A policy's file says when it was saved.
require "fopo.base.provenance".text = function() return '{"fopo": "0"}' end

local function policy(items, seed)
  return fopo.policy.linear{items = items, theta = "random", seed = seed}
end

local s = fopo.data.synthetic{users = 300, items = 400, clusters = 4, seed = 1}
  :sessions{min_items = 4}
local items = fopo.embed.svd(s.train, {dim = 8})

-- A trainer after some steps; more of them in the second version.
local trainers = {}
local function trainer(version)
  local t = trainers[version]
  if not t then
    t = fopo.trainer{batch = 8, policy = policy(items, 1), data = s.train, valid = false,
                     optim = fopo.optim.adam{lr = 0.01}}
    t:run{steps = 20 * version, view = false}
    trainers[version] = t
  end
  return t
end

local writers = {
  ["array.npy"] = function(path, version) fopo.array.randn(400, 16, version):save(path) end,
  ["data.npz"] = function(path, version)
    fopo.data.synthetic{users = 600, items = 300, clusters = 4, seed = version}:save(path)
  end,
  ["policy.npz"] = function(path, version) policy(items, version):save(path) end,
  ["checkpoint.npz"] = function(path, version) trainer(version):save(path) end,
  ["norm.npz"] = function(path, version)
    fopo.index.norm(fopo.array.randn(400, 16, version)):save(path)
  end,
  ["graph.npz"] = function(path, version)
    fopo.index.hnsw(fopo.array.randn(400, 16, version), {deterministic = true}):save(path)
  end,
  ["view.svg"] = function(path, version) fopo.view.save(path, trainer(version)) end,
  ["plot.svg"] = function(path, version)
    local y = {}
    for i = 1, 1000 do y[i] = (i * version) % 97 end
    fopo.plot.save(path, {y = y})
  end,
  ["recommend.csv"] = function(path, version)
    policy(items, version):recommend_file(path .. ".users", path, {n = 50, quiet = true})
  end,
  ["text.lua"] = function(path, version)
    assert(native.write_file(path, ("-- version %d\n"):format(version):rep(1000)))
  end,
}

local function write(name, path, version)
  if name == "recommend.csv" then
    local known = io.open(path .. ".users")
    local f <close> = known or assert(io.open(path .. ".users", "w"))
    if not known then
      f:write("user,item\n")
      for user = 1, 60 do f:write(user, ",", user, "\n", user, ",", user + 1, "\n") end
    end
  end
  if name == "checkpoint.npz" or name == "view.svg" then trainer(version) end
  local mark = io.open("mark-begin")
  if mark then mark:close() end
  local ok, why = pcall(writers[name], path, version)
  mark = io.open("mark-end")
  if mark then mark:close() end
  return ok, why
end

if arg[1] == "names" then
  for name in pairs(writers) do print(name) end
elseif arg[1] == "once" then
  local ok, why = write(arg[2], arg[3], math.tointeger(arg[4]))
  if not ok then error(why, 0) end
else
  io.write("ready\n")
  io.flush()
  for line in io.lines() do
    local name, path, version = line:match("(%S+) (%S+) (%d)")
    local ok, why = write(name, path, math.tointeger(version))
    io.write(ok and "ok" or tostring(why):gsub("\n", " "), "\n")
    io.flush()
  end
end
