-- The data of the paper's experiments, prepared as its authors do. Users with at least 20 items
-- are kept, the first 500,000 (Twitch) or 300,000 (GoodReads) of them. Half of a user's items is
-- X, the rest Y. 80 % of the users are for training, 10 % for validation and 10 % for the test.
-- The items are the right singular vectors of the training users' X + Y, not scaled.
local fopo = require "fopo"
local script = require "script"

local worlds = {}

-- What is known of the paper's two sets: the file that data=DIR holds, how it is read, how many
-- users are taken, and the learning rate.
local known = {
  twitch = {file = "full_a.csv", read = {format = "twitch", time = ""}, users = 500000,
            lr = 1e-4},
  goodreads = {file = "goodreads_interactions.csv", read = {format = "goodreads"},
               users = 300000, lr = 5e-5},
}

local function exists(path)
  local f <close> = io.open(path)
  return f ~= nil
end

-- The file of a known world in the folder, packed or not; nil if it is not there.
local function file_of(world, folder)
  for _, ending in ipairs{"", ".gz"} do
    local path = ("%s/%s%s"):format(folder, world.file, ending)
    if exists(path) then return path end
  end
end

-- A name for the world of a file: that of its folder where the file's own says only train or test.
local function name_of(path)
  local name = path:match("[^/]+$"):gsub("%.gz$", ""):gsub("%.%w+$", "")
  local folder = path:match("([^/]+)/[^/]+$")
  return (name == "test" or name == "train" or name == "data") and folder or name
end

-- {name, lr, dataset(), users} of a world: twitch, goodreads, or a path of interactions. The data
-- are read or made when dataset is called.
function worlds.find(name, o)
  local paper = known[name]
  if not paper then
    if not exists(name) then
      script.misuse("%s is neither twitch nor goodreads nor a file that can be read", name)
    end
    return {name = name_of(name), source = name:match("[^/]+/[^/]+$") or name, lr = 1e-4,
            dataset = function() return fopo.data.read(name) end}
  end
  if o.data == "" then
    local share = o.fraction > 0 and o.fraction or 1
    return {name = name, source = ("twin, fraction %g"):format(share), lr = paper.lr,
            dataset = function() return (fopo.data.synthetic{like = name, fraction = share}) end}
  end
  local path = file_of(paper, o.data)
  if not path then script.misuse("%s holds no %s, nor %s.gz", o.data, paper.file, paper.file) end
  return {name = name, source = paper.file, lr = paper.lr, users = paper.users,
          dataset = function() return fopo.data.read(path, paper.read) end}
end

local world = {}
world.__index = world

-- The world prepared with the split of a seed: world.train, world.test, world:items(dim, scale),
-- world:index(kind).
function worlds.open(found, o, seed)
  local split = found.dataset():sessions{min_items = o.min_items, max_users = found.users,
                                         valid = o.test, test = o.test, seed = seed}
  return setmetatable({name = found.name, train = split.train, test = split.test, split = split,
                       seed = seed, o = o, made = {}}, world)
end

-- The cache holds the embeddings that took more than some seconds to compute.
local WORTH_KEEPING = 20

local function path_of_items(w, dim, scale)
  return ("%s/cache/%s-%d-%d-%d-%d-%d-%s.npy"):format(w.o.out, w.name, w.train.n_items, w.train.n,
                                                      w.seed, w.o.power_iterations, dim, scale)
end

local function computed(w, dim, scale)
  local path, start = path_of_items(w, dim, scale), fopo.clock()
  if exists(path) then return fopo.array.load(path) end
  local items = fopo.embed.svd(w.train, {dim = dim, scale = scale,
                                                power_iterations = w.o.power_iterations})
  if fopo.clock() - start > WORTH_KEEPING then
    assert(os.execute(("mkdir -p '%s/cache'"):format(w.o.out)))
    items:save(path)
  end
  return items
end

-- The embeddings [P, dim]. Only the last ones asked for are kept in memory.
function world:items(dim, scale)
  local key = dim .. scale
  if self.made.key ~= key then
    self.made = {}
    collectgarbage()
    self.made = {key = key, items = computed(self, dim, scale), indexes = {}}
  end
  return self.made.items
end

local build = {
  norm = function(items) return fopo.index.norm(items) end,
  hnsw = function(items) return fopo.index.hnsw(items, {M = 32}) end,
}
worlds.indexes = build

-- The index of a kind over the embeddings asked for last.
function world:index(kind)
  local indexes = self.made.indexes
  indexes[kind] = indexes[kind] or build[kind](self.made.items)
  return indexes[kind]
end

return worlds
