-- policy:save and fopo.policy.load: a policy as one .npz that serves by itself.
local native = require "fopo.native"
local array = require "fopo.array"
local define = require "fopo.base.define"
local first = require "fopo.base.first"
local saves = require "fopo.base.saves"
local origin = require "fopo.base.origin"
local own = require "fopo.serve.own"
local provenance = require "fopo.base.provenance"
local text = require "fopo.base.text"
local who = require "fopo.serve.who"
local file = {}

-- ---- reading ----

local function exists(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

-- The path of the items: as it was saved, or a file of that name beside the policy.
local function path_of(f, path)
  if exists(f.items_file) then return f.items_file end
  local beside = (path:match("^(.*/)") or "") .. f.items_file:match("[^/]*$")
  if exists(beside) then return beside end
  define.fail("%s: its items are in %s, which is not there; give items = their path, or the array",
              path, f.items_file)
end

-- The items that the file was made with: its own, or those that it names, or those that are given.
local function items_of(f, path, given)
  if f.items and given == nil then return f.items end
  local items = given or path_of(f, path)
  local from = type(items) == "string" and items or "the items given"
  if type(items) == "string" then items = array.load(items) end
  if items.kind == "ids" or items.rows ~= f.n_items or items.cols ~= f.dim then
    define.fail("%s: %s are [%d, %d] but the policy was made with [%d, %d]", path, from, items.rows,
                items.cols, f.n_items, f.dim)
  end
  if native.items_crc(items) ~= (f.items_crc or native.items_crc(f.items)) then
    define.fail("%s: %s are not the items that the policy was made with (their CRC differs)", path,
                from)
  end
  return items
end

-- The names of the blocks that are learnt, or nil.
local function learn_of(f)
  if not f.learn then return nil end
  local learn = {}
  for name in f.learn:gmatch "[^, ]+" do table.insert(learn, name) end
  return learn
end

local function made_of(f, items, functions)
  local o = {items = items, seed = 1, learn = learn_of(f)}
  for name, value in pairs(f) do o[name] = o[name] or value end
  for name, value in pairs(functions) do o[name] = value end
  local pi = (f.kind == "custom" and own or native["policy_" .. f.kind])(o)
  pi:set_parameters(f.parameters)
  return pi
end

-- The functions of a policy of the user's, which no file holds; of another, none.
local function check_functions(f, path, o)
  local given = o.queries ~= nil and o.backward ~= nil
  if f.kind == "custom" and not given then
    define.fail("%s: its policy is the user's own, whose functions no file holds; give queries and "
                .. "backward", path)
  elseif f.kind ~= "custom" and (o.queries or o.backward) then
    define.fail("%s: its policy is %s, which takes no functions", path, f.kind)
  end
end

-- The policy of a file, its items, and what the file says.
local function read(path, given, functions)
  local f = native.policy_load(path)
  check_functions(f, path, functions)
  local items = items_of(f, path, given)
  local pi = made_of(f, items, functions)
  if f.learnt_items then pi:set_items(f.learnt_items) end
  return pi, items, f
end

-- What a file of a policy of this kind says.
function file.saved(path, kind)
  local f = native.policy_load(path)
  if f.kind ~= kind then
    define.fail("%s: it has a policy of the kind %s, not %s", path, f.kind, kind)
  end
  f.learn = learn_of(f)
  return f
end

-- pi, which was made with these items, becomes as the policy of the file f was.
function file.resume(pi, f, path, items)
  items_of(f, path, items)
  pi:set_parameters(f.parameters)
end

-- ---- saving ----

-- The dataset whose item names go into the file, or nil.
local function names_for(pi, data)
  if data and data.n_items ~= pi.n_items then
    define.fail("policy:save: the data have %s items but the policy has %s",
                text.count(data.n_items), text.count(pi.n_items))
  end
  return data or who.catalogue(pi)
end

file.save = define.fn{
  name = "policy:save",
  args = {{"pi", "policy", nil, "the policy"}, {"path", "string", nil, "of the .npz"}},
  options = {
    {"items", "string", nil, "the path of a .npy that holds pi:initial_items(): only the path, the "
     .. "shape and a CRC are saved; if left out, the items themselves. Items that are dealt out to "
     .. "ranks (fopo.shard) are written there, and must be"},
    {"data", "dataset", nil, "whose item names are saved; if left out, those of the data that the "
     .. "items were made from"},
  },
  text = [[Writes the policy with all that serving needs: theta or the weights of the network, the
temperature, how contexts are made, the items and their names, and the policy's provenance: the data
with their size and checksum, the split, the settings and the seed of its training, what
fopo.evaluate last measured of it, the date. The file is replaced as a whole: after a failure the
old one is there. numpy.load reads it, and docs/serving.md shows how.]],
  example = [[pi = fopo.policy.linear{items = fopo.array.randn(50, 4, 1)}
path = os.tmpname()
pi:save(path)
assert(fopo.policy.load(path):theta():get(2, 3) == pi:theta():get(2, 3))
os.remove(path)]],
  call = saves("policy", function(pi, path, o)
    local names, items = names_for(pi, o.data), pi:initial_items()
    if items.part then
      if not o.items then
        define.fail("policy:save: the items are dealt out to the ranks; items = \"beta.npy\" says "
                    .. "where they write them, one file in the order of the ids")
      end
      local crc, about = native.shard_save_whole(items, o.items), provenance.text(pi, names)
      names = names and native.whole_names(names, "item", "first")
      return first(native.policy_save, pi, path, items, names, o.items, about, crc)
    end
    native.policy_save(pi, path, items, names and native.whole_names(names, "item"), o.items,
                       provenance.text(pi, names))
  end, function(pi, path)
    local any = pi.kind == "custom" and function() end or nil
    local items = pi:initial_items()
    read(path, not items.part and items or nil, {queries = any, backward = any})
  end),
}

-- ---- loading ----

file.load = define.fn{
  name = "fopo.policy.load", returns = "policy",
  args = {{"path", "string", nil, "a file that pi:save wrote"}},
  options = {
    {"items", "string|array", nil, "the items that the policy was made with, or the path of their "
     .. ".npy; if left out, those in the file or in the .npy that it names"},
    {"queries", "function", nil, "of a policy that fopo.policy.custom made, as it was given there"},
    {"backward", "function", nil, "the same"},
  },
  text = [[The policy, equal to the bit, with the names of its items, so that it recommends for a
new user {items = {"Alien"}} without the data. Printed, it says what it was made of. Everything in
the file is checked; one that is damaged, or no policy, is refused with a sentence. A .npy that the
file names is looked for where it was, then beside the file.]],
  example = [[d = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
items = fopo.embed.svd(d:sessions{min_items = 10}.train, {dim = 8})
path = os.tmpname()
fopo.policy.linear{items = items, theta = "identity"}:save(path)
pi = fopo.policy.load(path)
assert(pi:recommend({items = {3, 14}}, 5)[5].name)
os.remove(path)]],
  call = function(path, o)
    local pi, items, f = read(path, o.items, {queries = o.queries, backward = o.backward})
    provenance.loaded(pi, f.provenance, path)
    if f.names and not origin.dataset(items) then origin.set(items, {dataset = f.names}) end
    return pi
  end,
}

return file
