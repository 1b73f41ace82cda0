-- Whom to recommend for: users of a dataset, users that are new, contexts; and items by name. What
-- a user typed becomes contexts for the policy and the items that each of them took.
local native = require "fopo.native"
local define = require "fopo.base.define"
local origin = require "fopo.base.origin"
local text = require "fopo.base.text"

local who = {}

-- ---- names ----

-- ", did you mean "x" or "y"?", or "" if no name is near.
local function suggestion(d, side, name)
  local near = native.names_near(native.whole_names(d, side), name, side == "item", 3)
  for i, id in ipairs(near) do
    near[i] = ("%q"):format(side == "item" and d:item_name(id) or d:user_name(id))
  end
  if #near == 0 then return "" end
  local last = table.remove(near)
  return ("; did you mean %s?"):format(#near > 0 and table.concat(near, ", ") .. " or " .. last
                                       or last)
end

-- What was given for a name or a number: a fraction as it is, anything else by its kind.
local function said(given) return math.type(given) and tostring(given) or define.a(given) end

-- The dataset whose item names are those of the policy, or nil: the one that its items were made
-- of, or data with as many items.
function who.catalogue(pi, data)
  local known = origin.dataset(pi:initial_items())
  if known and known.n_items == pi.n_items then return known end
  return data and data.n_items == pi.n_items and data or nil
end

-- The id of an item given by name or number.
function who.item(name, given, pi, catalogue)
  if math.type(given) == "float" then given = math.tointeger(given) or given end
  if math.type(given) == "integer" then
    if given >= 1 and given <= pi.n_items then return given end
    define.fail("%s: item %d does not exist; the policy has items 1 to %s", name, given,
                text.count(pi.n_items))
  end
  if type(given) ~= "string" then
    define.fail("%s: an item is a name or a number, not %s", name, said(given))
  end
  if not catalogue then
    define.fail("%s: the items of this policy have no names, so %q is not known; give data = the "
                .. "dataset, or numbers", name, given)
  end
  return catalogue:find_item(given)
         or define.fail("%s: no item is called %q%s", name, given,
                        suggestion(catalogue, "item", given))
end

-- Whether a name is none of the items, or users, of d, and no typing mistake of another kind.
local function is_unknown(d, side, given)
  return type(given) == "string" and d and not d["find_" .. side](d, given)
end

-- The number of a user given by name or number.
local function user(name, given, d)
  if math.type(given) == "float" then given = math.tointeger(given) or given end
  if type(given) ~= "string" and math.type(given) ~= "integer" then
    define.fail("%s: a user is a name, a number or {items = {...}}, not %s", name,
                said(given))
  end
  if not d then
    define.fail("%s: this policy knows no users; give data = the dataset, or {items = {...}}", name)
  end
  if math.type(given) == "integer" then
    if given >= 1 and given <= d.n_users then return given end
    define.fail("%s: user %d does not exist; the data have users 1 to %s (a name is a string, "
                .. "%q)", name, given, text.count(d.n_users), tostring(given))
  end
  return d:find_user(given)
         or define.fail("%s: no user is called %q%s", name, given, suggestion(d, "user", given))
end

-- The ids of a list, or of an array of ids, given by names or numbers; with skip without names that
-- are unknown, and how many these are.
function who.items(name, list, pi, catalogue, skip)
  local ids, unknown = {}, 0
  if define.kind(list) == "array" then
    if list.kind ~= "ids" then
      define.fail("%s: items are names or ids, not an array of numbers", name)
    end
    list = list:totable()[1] or {}
  end
  for _, given in ipairs(list) do
    if skip and is_unknown(catalogue, "item", given) then unknown = unknown + 1
    else ids[#ids + 1] = who.item(name, given, pi, catalogue) end
  end
  return ids, unknown
end

-- ---- whose contexts ----

-- A new user's table {items = {...}}; raises unless it is one.
local function new_user(name, t, pi, catalogue, skip)
  for key in pairs(t) do
    if key ~= "items" then
      define.fail("%s: a new user is {items = {...}}, which has no %s", name, tostring(key))
    end
  end
  local kind = define.kind(t.items)
  if kind ~= "table" and kind ~= "array" then
    define.fail("%s: the items of a new user are a list of names or numbers, not %s", name,
                define.a(t.items))
  end
  local ids, unknown = who.items(name, t.items, pi, catalogue, skip)
  if #ids == 0 and not skip then
    define.fail("%s: the list of items is empty; a context is made of at least one", name)
  end
  return ids, unknown
end

-- The histories that have items; of others users[i].none is set.
local function with_items(histories, users)
  local some = {}
  for i, ids in ipairs(histories) do
    if #ids > 0 then some[#some + 1] = ids else users[i].none = true end
  end
  return some
end

-- A list of users, new users among them: sessions, and {number =, name =} of each. With o.skip
-- users without an item that is known are not among the sessions, which are nil if all are such.
local function from_list(name, list, pi, o)
  local histories, users = {}, {}
  for i, given in ipairs(list) do
    if define.kind(given) == "table" then
      local ids, unknown = new_user(name, given, pi, o.catalogue, o.skip)
      histories[i], users[i] = ids, {unknown = unknown}
    elseif o.skip and is_unknown(o.data, "user", given) then
      histories[i], users[i] = {}, {name = given}
    else
      local n = user(name, given, o.data)
      users[i] = {number = n, name = o.data:user_name(n)}
    end
  end
  local known, places = {}, {}
  for i, u in ipairs(users) do
    if u.number then known[#known + 1], places[#places + 1] = u.number, i end
  end
  local names = #known > 0 and o.catalogue and native.whole_names(o.catalogue, "item") or nil
  local of_known = #known > 0 and native.histories(o.data, known, pi.n_items, names)
  if #known == #list and not o.skip then return of_known, users end
  for k, i in ipairs(places) do histories[i] = of_known:x(k):totable()[1] or {} end
  if o.skip then histories = with_items(histories, users) end
  if #histories == 0 then return nil, users end
  return native.histories_from(histories, pi.n_items), users
end

local function from_sessions(name, sessions, pi)
  local d, users = origin.dataset(sessions), {}
  if sessions.n_items ~= pi.n_items then
    define.fail("%s: the sessions are over %s items but the policy has %s", name,
                text.count(sessions.n_items), text.count(pi.n_items))
  end
  for i = 1, sessions.n do
    local n = sessions:user(i)
    users[i] = {number = n, name = d and d:user_name(n) or nil}
  end
  return sessions, users
end

-- A context array: nothing is known of its users.
local function from_contexts(x, catalogue)
  local users = {}
  for i = 1, x.rows do users[i] = {} end
  return {x = x, users = users, single = x.rows == 1, catalogue = catalogue}
end

-- The given users as a list, and whether it was one user.
local function listed(name, given, kind)
  if kind == "array" then given = given:totable()[1] or {} end
  local is_new = kind == "table" and #given == 0 and next(given) ~= nil
  if is_new or kind ~= "table" and kind ~= "array" then return {given}, true end
  if #given == 0 then define.fail("%s: the list of users is empty", name) end
  return given, false
end

local function check_histories(name, users, seen)
  for i, u in ipairs(users) do
    if seen:x(i).cols == 0 then
      define.fail("%s: user %s took no item that the policy knows; recommend what is popular, or "
                  .. "give {items = {...}}", name, u.name or i)
    end
  end
end

-- {x = contexts [N, D], seen = sessions or nil, users = {{number =, name =}, ...}, single =,
-- catalogue = a dataset or nil}. skip: names that are unknown are passed over, as from_list says.
function who.contexts(name, given, pi, data, skip)
  local kind, catalogue = define.kind(given), who.catalogue(pi, data)
  if kind == "array" and given.kind ~= "ids" then return from_contexts(given, catalogue) end
  local items = pi:initial_items()
  if pi.context_dim ~= items.cols then
    define.fail("%s: contexts of this policy have %d features and cannot be made of items of %d; "
                .. "give an array of contexts", name, pi.context_dim, items.cols)
  end
  local seen, users, list, single
  if kind == "sessions" then
    seen, users = from_sessions(name, given, pi)
  else
    local known = origin.dataset(items)
    list, single = listed(name, given, kind)
    seen, users = from_list(name, list, pi, {
      catalogue = catalogue, skip = skip,
      data = data or known and known.n_users > 0 and known or nil})
  end
  if not skip then check_histories(name, users, seen) end
  return {x = seen and seen:contexts(pi), seen = seen, users = users, single = single,
          catalogue = catalogue}
end

return who
