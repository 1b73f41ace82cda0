-- fopo.shard: items dealt out to the ranks, and the files that hold them.
local native = require "fopo.native"
local define = require "fopo.base.define"
local first = require "fopo.base.first"
local origin = require "fopo.base.origin"
local methods = native.types.array

-- The files that an index file lists, one name a line, in its own folder.
local function listed(path)
  local f, why = io.open(path)
  if not f then define.fail("fopo.shard: %s", why) end
  local folder, files = path:match("^(.*/)[^/]*$") or "", {}
  for line in f:lines() do
    if line ~= "" then files[#files + 1] = (line:sub(1, 1) == "/" and "" or folder) .. line end
  end
  f:close()
  if #files == 0 then define.fail("fopo.shard: %s lists no files", path) end
  return files
end

-- "folder/beta" of "folder/beta.parts"; and the generation of the files that it lists, 0: none.
local function last_of(path)
  local stem, f = path:match("^(.+)%.parts$"), io.open(path)
  local line = f and f:read("l")
  if f then f:close() end
  return stem, math.tointeger(tonumber(line and line:match("%.(%d+)%.%d+%.npy$"))) or 0
end

-- Each rank writes its range of the rows beside the index file, under a fresh name; the first one
-- then replaces the index, and removes what the old one listed. So the index is whole at any time.
local function save(items, path)
  local stem = last_of(path)
  if not stem then
    if path:find("%.npy$") then return native.shard_save_whole(items, path) end
    define.fail("array:save: items that are dealt out are one .npy, or files with an index, whose "
                .. "name ends in .parts (%s.parts)", path:gsub("%.%w+$", ""))
  end
  local rank, ranks = native.ranks()
  local generation = rank == 0 and select(2, last_of(path)) + 1 or 0
  generation = math.tointeger(tonumber(native.share(tostring(generation))))
  local function name(r) return ("%s.%d.%d.npy"):format(stem, generation, r) end
  native.shard_save(items, name(rank))
  first(function()
    local f = io.open(path)
    local old = f and listed(path) or {}
    if f then f:close() end
    local lines = {}
    for r = 0, ranks - 1 do lines[#lines + 1] = name(r):match("[^/]*$") .. "\n" end
    assert(native.write_file(path, table.concat(lines)))
    for _, file in ipairs(old) do os.remove(file) end
  end)
end

local save_whole = methods.save
methods.save = define.method("array", "save", function(a, path)
  if a.part then return save(a, path) end
  return save_whole(a, path)
end, "a")

local function deal(items)
  if type(items) == "table" then return native.shard_files(items) end
  if type(items) == "string" then
    return native.shard_files(items:find("%.npy$") and {items} or listed(items))
  end
  local part = native.shard_array(items)
  origin.set(part, origin.of(items))
  return part
end

return define.fn{
  name = "fopo.shard", returns = "array",
  args = {{"items", "array|string|table", nil, "the embeddings [P, L]: an array that every rank "
           .. "has; or the path of a .npy of float32, of an index file (.parts), or a list of .npy "
           .. "whose rows follow one another, of which each rank reads its range alone"}},
  text = [[Deals the items out to the ranks of a run (fopo.ranks): each keeps P / size of them, and
what takes the result works on all ranks together. Items are dealt by norm, largest first, one to
each rank in turn. items.rows is P; items.part is {rank, size, rows} of what is here. Alone, one
rank holds all, in the order of the norms.
What takes it: s:contexts, fopo.policy.linear and mlp, fopo.index (each rank has one over its part;
a budget counts items of the part), t:run with gradient.head_tail (the default), snis and exact and
the rewards hits and ips, t:save and t:resume on any number of ranks, fopo.evaluate, fopo.ope,
pi:best, pi:recommend and pi:recommend_file. Draws are the same for any number of ranks, so the
gradient is that of one process but for the order of sums (relative 1e-6). A context sends 2 L + 10
numbers to the rank that joins its sums, and L + 5 back to all; never rows of items.
d:share() shares out the data, and s.train:share(pi) the contexts, too.
items:save("beta.parts") writes a range of the rows from each rank, beta.1.0.npy, beta.1.1.npy ...,
and the index beta.parts, which lists them: NumPy joins them by concatenate, and any number of ranks
reads them, fopo.shard("beta.parts"), when all hosts see the same files. items:save("beta.npy")
writes one file in the order of the ids, and pi:save("policy.npz", {items = "beta.npy"}) that and a
policy which one process loads.
What needs all items in one place (reinforce, training on rewards by a model or a function, items
that are learnt, fopo.check) says so.]],
  example = [[items = fopo.shard(fopo.array.randn(100, 4, 1))
assert(items.rows == 100 and items.part.size == fopo.ranks().size)
pi = fopo.policy.linear{items = items}
path = os.tmpname() .. ".parts"
items:save(path)
assert(fopo.shard(path).rows == 100)]],
  call = deal,
}
