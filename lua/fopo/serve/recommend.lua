-- policy:recommend: the best items of users, as a table that prints itself.
local native = require "fopo.native"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local text = require "fopo.base.text"
local who = require "fopo.serve.who"

local NAME, WIDE = "policy:recommend", 40 -- columns of a name in print
local MOST = 2000000 -- recommendations of one call: a table for each takes 300 bytes

-- ---- print ----

local function probability(p) return (p >= 1e-4 and "%.4f" or "%.1e"):format(p) end

local function head_of(r)
  local name = r.name and "user " .. text.line(r.name, WIDE) or "a new user"
  local out = r.left_out > 0 and (", %s left out"):format(text.count(r.left_out)) or ""
  if (r.unknown or 0) > 0 then out = ("%s, %s unknown"):format(out, text.count(r.unknown)) end
  return ("%d of %s items for %s%s"):format(#r, text.count(r.n_items), name, out)
end

local function describe_one(r)
  local named = r[1] and r[1].name
  local rows = {named and {"rank", "item", "name", "score", "probability"}
                or {"rank", "item", "score", "probability"}}
  for i, one in ipairs(r) do
    local row = {tostring(one.rank), tostring(one.item)}
    if named then row[3] = text.line(one.name, WIDE) end
    row[#row + 1] = ("%.4g"):format(one.score)
    row[#row + 1] = probability(one.probability)
    rows[i + 1] = row
  end
  return head_of(r) .. "\n" .. text.table(rows)
end

local SHOWN = 5 -- users of many that are printed
local function describe_many(list)
  local parts = {}
  for i = 1, math.min(SHOWN, #list) do parts[i] = describe_one(list[i]) end
  if #list > SHOWN then
    parts[#parts + 1] = ("... and %s more users: r[%d] .. r[%d]"):format(
      text.count(#list - SHOWN), SHOWN + 1, #list)
  end
  return table.concat(parts, "\n\n")
end

local one = {__name = "fopo.recommendation", describe = describe_one, __tostring = describe_one}
local many = {__name = "fopo.recommendations", describe = describe_many,
              __tostring = describe_many}

-- ---- what is left out ----

-- The sessions whose items are left out, and a list of ids that are left out for everybody.
local function excluded(exclude, w, pi)
  local own = pi.seen == "mask" and w.seen or nil -- the policy itself leaves these out
  if exclude == "none" then return own, nil end
  if exclude == "seen" then return w.seen, nil end
  if type(exclude) == "string" then
    define.fail("%s: exclude is \"seen\", \"none\" or a list of items, not %q; for one item write "
                .. "exclude = {%q}", NAME, exclude, exclude)
  end
  local names, seen = {}, own
  if define.kind(exclude) == "array" then names = exclude
  else
    for _, name in ipairs(exclude) do
      if name == "seen" then seen = w.seen else names[#names + 1] = name end
    end
  end
  return seen, who.items(NAME, names, pi, w.catalogue)
end

-- How many items are left out for context n.
local function count_left_out(seen, never, n)
  local out, count = {}, 0
  if not never then return seen and seen:x(n).cols or 0 end
  local items = seen and seen:x(n):totable()[1] or {}
  for _, list in ipairs{items, never} do
    for _, id in ipairs(list) do
      if not out[id] then out[id], count = true, count + 1 end
    end
  end
  return count
end

-- ---- the call ----

local function rows_of(ids, scores, log_z, catalogue)
  local rows = {}
  for i, id in ipairs(ids) do
    if id == 0 then break end -- a graph found no more
    rows[i] = {rank = i, item = id, name = catalogue and catalogue:item_name(id) or nil,
               score = scores[i], probability = math.exp(scores[i] - log_z)}
  end
  return rows
end

local function check_left(w, seen, never, n, pi)
  local i = 0
  for _, u in ipairs(w.users) do
    if not u.none then i = i + 1 end
    local out = u.none and 0 or count_left_out(seen, never, i)
    u.left_out = out
    if not u.none and n > pi.n_items - out then
      define.fail("%s: n is %d, but %s of the %s items are left for %s after %s left out; ask for "
                  .. "fewer, or exclude less", NAME, n, text.count(pi.n_items - out),
                  text.count(pi.n_items), u.name and "user " .. u.name or "this user",
                  out == 1 and "1 is" or text.count(out) .. " are")
    end
  end
end

return define.fn{
  name = NAME, returns = "table",
  args = {
    {"pi", "policy", nil, "the policy"},
    {"who", "integer|string|table|array|sessions", nil, "a user of the data by number or by name "
     .. "(a string), a new one {items = {\"Alien\", \"Brazil\"}}, a list of these, sessions, or "
     .. "contexts [N, D]"},
    {"n", "integer", nil, "how many items; 10 if left out", min = 1, optional = true},
  },
  options = {
    {"exclude", "string|table|array", "seen", "what is not recommended: \"seen\", the items that "
     .. "the user took; \"none\"; or a list of items, by name or number, in which \"seen\" may "
     .. "stand"},
    {"index", "index", nil, "the index to search; exact search if left out"},
    {"unknown", "string", "error", "names that are unknown: error, or skip, as a server needs it: "
     .. "such items count for nothing, r.unknown of a new user is how many they are, and a user "
     .. "without known items gets an empty list", one_of = {"error", "skip"}},
    {"names", "boolean", true, "look up the names of the items"},
    {"data", "dataset", nil, "the users and names; if left out, the data that the policy's items "
     .. "were made from"},
  },
  text = [[The n best items of a user: r[1].item, r[1].name, r[1].score, r[1].probability and
r[1].rank, then r[2] and so on; r.user is the user's number and r.name the name. Of several users a
list of such tables. Both print as tables and are plain data.
All items that the user took make the context, as pi.contexts says. The score is f(a, x), with the
temperature in it. The probability is that of the softmax over the whole catalogue, exactly, without
what the user took, which a policy leaves out by itself, whatever exclude is; one with seen = "keep"
does not, and there all items that are left out keep their share. With another index the items may
be others but not their probabilities. If data is another file than the policy's own, items are
matched by name, and those that the policy does not know are left out of the context.]],
  example = [[d = fopo.data.synthetic{users = 300, items = 400, clusters = 8}
items = fopo.embed.svd(d:sessions{min_items = 10}.train, {dim = 8})
pi = fopo.policy.linear{items = items, theta = "identity"}
r = pi:recommend(7, 5)
assert(#r == 5 and r[1].score >= r[2].score and r[1].probability < 1)
r = pi:recommend({items = {3, 14}}, 5, {exclude = {"seen", r[1].item}})
assert(r[1].item ~= 3 and r[1].item ~= 14)]],
  call = function(pi, given, n, o)
    n = n or 10
    if n > pi.n_items then
      define.fail("%s: n is %d, but the policy has %s items", NAME, n, text.count(pi.n_items))
    end
    local w = who.contexts(NAME, given, pi, o.data, o.unknown == "skip")
    if #w.users * n > MOST then
      define.fail("%s: %s users times %s items are too many for a table; pi:recommend_file writes "
                  .. "them to a file", NAME, text.count(#w.users), text.count(n))
    end
    local seen, never = excluded(o.exclude, w, pi)
    check_left(w, seen, never, n, pi)
    local ids, scores, log_z = {}, {}, nil
    if w.x then
      ids, scores, log_z = native.recommend(pi, w.x, o.index or cache.exact_of(pi), n,
                                            {seen = seen, never = never, normalised = true})
      ids, scores = ids:totable(), scores:totable()
    end
    local list, at = {}, 0
    for i, u in ipairs(w.users) do
      if not u.none then at = at + 1 end
      local r = u.none and {} or rows_of(ids[at], scores[at], log_z[at], o.names and w.catalogue)
      r.user, r.name, r.left_out, r.n_items = u.number, u.name, u.left_out, pi.n_items
      r.unknown = u.unknown
      list[i] = setmetatable(r, one)
    end
    return w.single and list[1] or setmetatable(list, many)
  end,
}
