-- policy:refit: a policy over the items of other data, new ones among them, without training.
local native = require "fopo.native"
local array = require "fopo.array"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local text = require "fopo.base.text"
local who = require "fopo.serve.who"

local NAME, USERS = "policy:refit", 2000 -- users of a block
local POWERS = {0, 0.25, 0.5, 0.75, 1}   -- of the number of users, that an item's length may follow

-- old[j]: the policy's number of d's item j, or nil. Returns the numbers of new items, and how many
-- of the policy's are not in d.
local function compare(pi, catalogue, d)
  local old, new, found = {}, {}, 0
  for j = 1, d.n_items do
    old[j] = catalogue:find_item(d:item_name(j))
    if old[j] then found = found + 1 else new[#new + 1] = j end
  end
  return old, new, pi.n_items - found
end

-- For each item of d the sum of the contexts of those who took it [P', D], and how many they are,
-- by contexts of items that the policy knows.
local function sums(pi, catalogue, d)
  local sum, n = array.zeros(d.n_items, pi.context_dim), {}
  for j = 1, d.n_items do n[j] = 0 end
  for first = 1, d.n_users, USERS do
    local users, rows, ids = {}, {}, {}
    for u = first, math.min(first + USERS - 1, d.n_users) do users[#users + 1] = u end
    local seen = native.histories(d, users, pi.n_items, catalogue)
    local x = seen:contexts(pi)
    for i, u in ipairs(users) do
      for _, j in ipairs(seen:x(i).cols > 0 and (d:row(u)):totable()[1] or {}) do
        rows[#rows + 1], ids[#ids + 1] = i, j
        n[j] = n[j] + 1
      end
    end
    if #ids > 0 then sum:scatter_add(array.ids(ids), x:rows_of(rows)) end
  end
  return sum, n
end

-- The factor of each column, [1, D], and the power of n by which factor * n^power * mean is nearest
-- to the vectors of the items that are known. S and B [known, D], n of these.
local function fit(S, B, n)
  local best
  for _, power in ipairs(POWERS) do
    local weight = {}
    for i, count in ipairs(n) do weight[i] = {count > 0 and count ^ (power - 1) or 0} end
    local M = S * array.from(weight)
    local factor = (M * B):sum("columns") / (M * M):sum("columns"):maximum(1e-30)
    local miss = ((M * factor - B) ^ 2):sum()
    if not best or miss < best.miss then best = {miss = miss, power = power, factor = factor} end
  end
  return best
end

-- The vectors of d's items: the policy's own where it knows them, else as the context of those who
-- took an item says.
local function fold(vectors, sum, n, old, new)
  local known, places, counts = {}, {}, {}
  for j, b in pairs(old) do known[#known + 1], places[#places + 1] = b, j end
  for i, j in ipairs(places) do counts[i] = n[j] end
  local B = vectors:rows_of(known)
  local made = array.zeros(#n, vectors.cols):scatter_add(array.ids(places), B)
  if #new == 0 then return made end
  local best, weight = fit(sum:rows_of(places), B, counts), {}
  for i, j in ipairs(new) do weight[i] = {n[j] > 0 and n[j] ^ (best.power - 1) or 0} end
  return made:scatter_add(array.ids(new), sum:rows_of(new) * array.from(weight) * best.factor)
end

-- What items weigh in contexts: of a new one as of the known one with the nearest number of users.
local function weigh(weights, n, old, new)
  if not weights then return nil end
  local list, by_count = {}, {}
  for j, b in pairs(old) do
    list[j] = weights:get(1, b)
    by_count[#by_count + 1] = {n[j], list[j], j}
  end
  table.sort(by_count, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[3] < b[3] end)
  for _, j in ipairs(new) do
    local low, high = 1, #by_count
    while low < high do
      local middle = (low + high) // 2
      if by_count[middle][1] < n[j] then low = middle + 1 else high = middle end
    end
    list[j] = by_count[low][2]
  end
  return array.from{list}
end

-- The options that make such a policy.
local function options_of(pi)
  local o = {contexts = pi.contexts, temperature = pi.temperature, seen = pi.seen, rows = pi.rows,
             context_dim = pi.context_dim, train_items = pi.train_items, seed = 1}
  for _, row in ipairs(native.policies()) do
    for _, option in ipairs(row.name == pi.kind and row.options or {}) do
      if option.saved then o[option.name] = pi[option.name] end
    end
  end
  return o
end

local function note_of(d, old_n, new, gone)
  local parts = {("%s users; of %s items %s are new"):format(text.count(d.n_users),
    text.count(d.n_items), text.count(#new))}
  if #new > 0 then
    parts[1] = parts[1] .. ", with vectors from the contexts of those who took them, not trained"
  end
  if gone > 0 then
    parts[#parts + 1] = ("%s of the policy's %s are not in the data and not in the policy any more")
                        :format(text.count(gone), text.count(old_n))
  end
  parts[#parts + 1] = "parameters as they were: train anew when much has changed"
  return table.concat(parts, "; ")
end

return define.fn{
  name = NAME, returns = "policy, string",
  args = {{"pi", "policy", nil, "linear or mlp"},
          {"d", "dataset", nil, "all interactions to serve by, old and new, as "
           .. "fopo.data.read{old, new} reads them"}},
  text = [[A policy over the users and items of d, made without training, and a note of what is new.
Items are matched by name. What the policy learnt stays as it is, and so do the vectors of
the items that it knows. Users need nothing: their contexts are made of what they took. The vector
of a new item is the mean context of those who took it, times n^p, n of them, and a factor of each
column; factors and p are those that give the known items their vectors best, by least squares. So
an item that few took has a vector that is not worth much. Items that d does not have are left out.
A policy of neighbours has no vectors: pi:recommend(user, n, {data = d}) serves its new users and
interactions, and new items need weights, which are learnt anew.]],
  example = [[
path, more = os.tmpname(), os.tmpname()
f, g = io.open(path, "w"), io.open(more, "w")
d = fopo.data.synthetic{users = 300, items = 100, clusters = 8}
for u = 1, d.n_users do
  for _, a in ipairs((d:row(u)):totable()[1]) do
    (a > 90 and g or f):write("u", u, ",a", a, "\n")
  end
end
f:close(); g:close()
items = fopo.embed.svd(fopo.data.read(path):sessions{min_items = 5}.train, {dim = 8})
pi, note = fopo.policy.linear{items = items}:refit(fopo.data.read{path, more})
print(note)
assert(pi.n_items > items.rows and #pi:recommend("u7", 5) == 5)
os.remove(path); os.remove(more)]],
  call = function(pi, d)
    local catalogue = who.catalogue(pi)
    if pi.scores_lists then
      define.fail("%s: a policy of neighbours has no vectors of items; pi:recommend(user, n, {data "
                  .. "= d}) serves new users and interactions, and fopo.policy.auto learns weights "
                  .. "of new items", NAME)
    end
    if pi.kind == "custom" or pi.context_dim ~= pi.dim then
      define.fail("%s: it is for linear policies and networks over contexts made of items; make "
                  .. "this one anew", NAME)
    end
    if not catalogue then
      define.fail("%s: the items of this policy have no names to match; make it of sessions of a "
                  .. "file, or save it with data = the dataset", NAME)
    end
    catalogue = native.whole_names(catalogue, "item")
    local old, new, gone = compare(pi, catalogue, d)
    if #new == d.n_items then
      define.fail("%s: no item of the data is one of the policy's; give all interactions, "
                  .. "fopo.data.read{old, new}, with the names that it was trained with", NAME)
    end
    local sum, n = sums(pi, catalogue, d)
    local o = options_of(pi)
    o.items = fold(pi:initial_items(), sum, n, old, new)
    o.item_weights = weigh(pi:item_weights(), n, old, new)
    origin.set(o.items, {dataset = d})
    local made = native["policy_" .. pi.kind](o)
    made:set_parameters(pi:parameters())
    if pi.train_items then made:set_items(fold(pi:items(), sum, n, old, new)) end
    return made, note_of(d, pi.n_items, new, gone)
  end,
}
