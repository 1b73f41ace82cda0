-- policy:explain: the items of a history that pulled an item up.
local native = require "fopo.native"
local array = require "fopo.array"
local define = require "fopo.base.define"
local text = require "fopo.base.text"
local who = require "fopo.serve.who"

local NAME, WIDE, SHOWN = "policy:explain", 40, 20

local function describe(e)
  local named = e.name ~= nil
  local rows = {named and {"item", "name", "contribution", "share"}
                or {"item", "contribution", "share"}}
  for i = 1, math.min(SHOWN, #e) do
    local row = {tostring(e[i].item)}
    if named then row[2] = text.line(e[i].name, WIDE) end
    row[#row + 1] = ("%.4g"):format(e[i].contribution)
    row[#row + 1] = ("%.1f %%"):format(100 * e[i].share)
    rows[i + 1] = row
  end
  local head = ("item %d%s scores %.4g for %s, of %s that the user took"):format(e.item,
    named and " (" .. text.line(e.name, WIDE) .. ")" or "", e.score,
    e.user_name and "user " .. text.line(e.user_name, WIDE) or "a new user",
    #e == 1 and "1 item" or text.count(#e) .. " items")
  local more = #e > SHOWN and ("\n... and %s more: e[%d] .. e[%d]"):format(
    text.count(#e - SHOWN), SHOWN + 1, #e) or ""
  return text.page(head, "") .. "\n" .. text.table(rows) .. more
end

local explanation = {__name = "fopo.explanation", describe = describe, __tostring = describe}

-- The score of item a in each context of x.
local function scores(pi, x, a)
  local list = {}
  for i, row in ipairs(pi:queries(x):matmul(pi:items():rows_of{a}, false, true):totable()) do
    list[i] = row[1]
  end
  return list
end

-- The score is linear in x = c sum of w_i beta_i over the history: item i adds the score of
-- c w_i beta_i, where c is the length of x over that of the sum.
local function shares_of_score(pi, x, ids, a)
  local beta, weights, given = pi:initial_items():rows_of(ids), {}, pi:item_weights()
  for i, id in ipairs(ids) do weights[i] = given and given:get(1, id) or 1 end
  local length = array.from{weights}:matmul(beta):norm()
  local c, list = length > 0 and x:norm() / length or 0, scores(pi, beta, a)
  for i, score in ipairs(list) do list[i] = score * c * weights[i] end
  return list
end

-- What the score loses without each item: score - f(a, x of the other items).
local function losses(pi, ids, a, score)
  local list, BLOCK = {}, math.max(1, 1000000 // #ids) -- a million ids at a time
  for first = 1, #ids, BLOCK do
    local others = {}
    for i = first, math.min(first + BLOCK - 1, #ids) do
      local rest = table.move(ids, 1, i - 1, 1, {})
      table.move(ids, i + 1, #ids, i, rest)
      others[#others + 1] = rest
    end
    local x = native.histories_from(others, pi.n_items):contexts(pi)
    for i, without in ipairs(scores(pi, x, a)) do list[first + i - 1] = score - without end
  end
  return list
end

-- The score of item a, and what each item of the history adds to it.
local function contributions(pi, w, ids, a)
  if pi.scores_lists then
    local list, sum = native.votes(pi, w.seen, a), 0
    for _, vote in ipairs(list) do sum = sum + vote end
    return sum, list
  end
  local score = scores(pi, w.x, a)[1]
  return score, pi.kind == "linear" and shares_of_score(pi, w.x, ids, a)
         or losses(pi, ids, a, score)
end

return define.fn{
  name = NAME, returns = "table",
  args = {
    {"pi", "policy", nil, "the policy"},
    {"user", "integer|string|table", nil, "a user by number or by name (a string), or a new one "
     .. "{items = {...}}"},
    {"item", "integer|string", nil, "the item that was recommended, by number or by name"},
  },
  options = {
    {"data", "dataset", nil, "the users and names; if left out, the data that the policy's items "
     .. "were made from"},
  },
  text = [[Which items of the user's history pulled an item up: e[1].item, e[1].name,
e[1].contribution and e[1].share, the largest contribution first; e.score is the item's score.
Of a linear policy the contributions sum to the score, because f(a, x) = x^T theta beta_a /
temperature is linear in x, a sum over the history, weighted and of unit length as pi.contexts says.
Of neighbours they are the votes of the items for it, the weights between items in f. Of a network a
contribution is what the score loses if the item is left out of the history,
and they need not sum to it; that takes a context for each item of the history. share is the
contribution divided by the sum of the sizes of all; a negative one pushed the item down.]],
  example = [[d = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
items = fopo.embed.svd(d:sessions{min_items = 10}.train, {dim = 8})
pi = fopo.policy.linear{items = items, theta = "identity"}
e = pi:explain(7, pi:recommend(7, 1)[1].item)
sum = 0
for _, part in ipairs(e) do sum = sum + part.contribution end
assert(math.abs(sum - e.score) < 1e-4 * math.abs(e.score))]],
  call = function(pi, given, item, o)
    if define.kind(given) == "table" and #given > 0 then
      define.fail("%s: explains one user, by number, by name or as {items = {...}}", NAME)
    end
    local w = who.contexts(NAME, given, pi, o.data)
    local a = who.item(NAME, item, pi, w.catalogue)
    local ids = w.seen:x(1):totable()[1]
    local score, list = contributions(pi, w, ids, a)
    local e, sum = {}, 0
    for i, id in ipairs(ids) do
      sum = sum + math.abs(list[i])
      e[i] = {item = id, name = w.catalogue and w.catalogue:item_name(id) or nil,
              contribution = list[i]}
    end
    for _, part in ipairs(e) do part.share = sum > 0 and part.contribution / sum or 0 end
    table.sort(e, function(p, q)
      if p.contribution ~= q.contribution then return p.contribution > q.contribution end
      return p.item < q.item
    end)
    e.item, e.score, e.user, e.user_name = a, score, w.users[1].number, w.users[1].name
    e.name = w.catalogue and w.catalogue:item_name(a) or nil
    return setmetatable(e, explanation)
  end,
}
