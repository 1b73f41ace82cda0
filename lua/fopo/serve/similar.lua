-- policy:similar: the items that are like an item.
local define = require "fopo.base.define"
local text = require "fopo.base.text"
local who = require "fopo.serve.who"

local NAME, WIDE, TINY = "policy:similar", 40, 1e-30

local function describe(r)
  local rows = {r.name and {"rank", "item", "name", "similarity"} or {"rank", "item", "similarity"}}
  for i, one in ipairs(r) do
    local row = {tostring(one.rank), tostring(one.item)}
    if r.name then row[3] = text.line(one.name, WIDE) end
    row[#row + 1] = ("%.4g"):format(one.similarity)
    rows[i + 1] = row
  end
  local name = r.name and (" (%s)"):format(text.line(r.name, WIDE)) or ""
  return ("%d items like item %d%s, %s\n"):format(#r, r.item, name, r.by) .. text.table(rows)
end

local similar = {__name = "fopo.similar", describe = describe, __tostring = describe}

-- The cosines of item a's vector with those of all: the n largest of other items.
local function by_cosine(pi, a, n)
  local items = pi:items()
  local row = items:rows_of{a}
  local length = items:norm("rows"):transpose():maximum(TINY)
  local cosines = row:matmul(items, false, true) / length / math.max(row:norm(), TINY)
  cosines:set(1, a, -2)
  local values, ids = cosines:top(n)
  return ids:totable()[1], values:totable()[1]
end

-- What a policy of weights between items recommends to who took item a alone.
local function by_weights(pi, a, n)
  local ids, values = {}, {}
  for i, one in ipairs(pi:recommend({items = {a}}, n, {names = false})) do
    ids[i], values[i] = one.item, one.score
  end
  return ids, values
end

return define.fn{
  name = NAME, returns = "table",
  args = {{"pi", "policy", nil, "the policy"},
          {"item", "integer|string", nil, "an item, by number or by name"},
          {"n", "integer", nil, "how many items; 10 if left out", min = 1, optional = true}},
  options = {{"data", "dataset", nil, "the names; if left out, of the data that the policy's items "
              .. "were made from"}},
  text = [[The n items that are most like an item: r[1].item, r[1].name, r[1].similarity and
r[1].rank, then r[2] and so on. Of a linear policy or a network the similarity is the cosine of the
items' vectors, pi:items(), -1 to 1; of neighbours the score that an item has for who took this item
alone. The result prints as a table and is plain data.]],
  example = [[d = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
items = fopo.embed.svd(d:sessions{min_items = 10}.train, {dim = 8})
pi = fopo.policy.linear{items = items}
r = pi:similar(7, 5)
assert(#r == 5 and r[1].item ~= 7 and r[1].similarity >= r[2].similarity)]],
  call = function(pi, item, n, o)
    local catalogue = who.catalogue(pi, o.data)
    local a = who.item(NAME, item, pi, catalogue)
    n = math.min(n or 10, pi.n_items - 1)
    local by = pi.scores_lists and by_weights or by_cosine
    local ids, values = by(pi, a, n)
    local r = {item = a, name = catalogue and catalogue:item_name(a) or nil,
               by = pi.scores_lists and "by the weights between items" or "by the cosine"}
    for i, id in ipairs(ids) do
      r[i] = {rank = i, item = id, similarity = values[i],
              name = catalogue and catalogue:item_name(id) or nil}
    end
    return setmetatable(r, similar)
  end,
}
