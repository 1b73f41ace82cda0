-- policy:map: the items in two dimensions.
local array = require "fopo.array"
local define = require "fopo.base.define"
local text = require "fopo.base.text"
local who = require "fopo.serve.who"

local NAME, PASSES = "policy:map", 60

-- The largest eigenvector of the symmetric S [L, L], and its eigenvalue, by powers of S.
local function leading(S, seed)
  local v = array.randn(S.rows, 1, seed)
  for _ = 1, PASSES do
    v = S:matmul(v)
    v = v / math.max(v:norm(), 1e-30)
  end
  return v, (v * S:matmul(v)):sum()
end

-- The two directions in which the rows of B differ most (principal components), [L, 2], and the
-- share of the variance that they have.
local function directions(B)
  local S = B:matmul(B, true)
  local total, list, held = 0, {}, 0
  for j = 1, S.rows do total = total + S:get(j, j) end
  for k = 1, math.min(2, S.rows) do
    local v, value = leading(S, k)
    list[k], held = v, held + value
    S = S - v:matmul(v, false, true) * value
  end
  if #list == 1 then list[2] = array.zeros(S.rows, 1) end
  return array.concat(list, "columns"), total > 0 and held / total or 0
end

-- Every id, or `most` of them evenly spread.
local function some_of(P, most)
  local ids, n = {}, math.min(P, most)
  for i = 1, n do ids[i] = (i - 1) * P // n + 1 end
  return ids
end

local function draw(m) return (require "fopo.plot".text(m)) end

return define.fn{
  name = NAME, returns = "table",
  args = {{"pi", "policy", nil, "the policy"}},
  options = {
    {"user", "integer|string|table", nil, "mark what this user took, and what is recommended: a "
     .. "user as of pi:recommend"},
    {"sessions", "sessions", nil, "in the place of user: a session, whose Y is marked too"},
    {"row", "integer", 1, "which one", min = 1},
    {"n", "integer", 10, "how many items are recommended", min = 1},
    {"items", "integer", 2000, "of a larger catalogue so many are drawn, evenly spread", min = 1},
    {"data", "dataset", nil, "the users and names, as of pi:recommend"},
  },
  text = [[The items in the two dimensions in which their vectors, pi:items(), differ most
(principal components; Pearson 1901), as a table for fopo.plot and fopo.plot.save, which prints as
a plot: the items are points, and of a user X, what was taken, Y, what was taken next, and the list
that is recommended are series of their own. m.share is the part of the variance that two dimensions
have. Items that lie together are taken by the same users; a list far from X is of popular items, or
of a policy that does not look at the context.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
pi = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 8})}
m = pi:map{sessions = s.test, row = 2}
print(m)
assert(#m == 4 and #m[4].x == 10 and m.share > 0.2) -- items, X, Y, the list]],
  call = function(pi, o)
    if o.user ~= nil and o.sessions then
      define.fail("%s: give user or sessions, not both", NAME)
    end
    if o.sessions and o.row > o.sessions.n then
      define.fail("%s: row is %d but there are %s sessions", NAME, o.row,
                  text.count(o.sessions.n))
    end
    local B = pi:items()
    if B.rows ~= pi.n_items or B.cols < 2 then
      define.fail("%s: the items of this policy have no vectors of two numbers or more; a policy "
                  .. "of neighbours has some with items = fopo.embed.svd(s.train)", NAME)
    end
    local mean = B:mean("columns")
    local V, share = directions(B - mean)
    local m = {title = ("%s items, %.0f %% of their variance"):format(text.count(pi.n_items),
                                                                      100 * share),
               xlabel = "first component", ylabel = "second component"}
    setmetatable(m, {describe = draw, __tostring = draw, __index = {share = share}})
    local function add(name, ids)
      if #ids == 0 then return end
      local points = (B:rows_of(ids) - mean):matmul(V)
      m[#m + 1] = {x = points:columns(1, 1), y = points:columns(2, 2), style = "points",
                   name = name}
    end
    add("items", some_of(pi.n_items, o.items))
    if o.user == nil and not o.sessions then return m end
    local X, list
    if o.sessions then X = o.sessions:x(o.row):totable()[1]
    else
      local w = who.contexts(NAME, o.user, pi, o.data)
      if not w.single then define.fail("%s: one user is marked, not a list", NAME) end
      X = w.seen:x(1):totable()[1]
    end
    add("X, taken", X)
    if o.sessions then add("Y, taken next", o.sessions:y(o.row):totable()[1] or {}) end
    list = {}
    for i, best in ipairs(pi:recommend({items = X}, o.n, {names = false})) do
      list[i] = best.item
    end
    add("recommended", list)
    return m
  end,
}
